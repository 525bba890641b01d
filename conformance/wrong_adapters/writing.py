"""Wrong adapters that write something else than they are told, or break a rule in how they write it."""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

from wrong_adapter import Json, Question, answers, enter, is_rejected_for, only
from rewriting import (
    CHUNK_BYTES,
    FEW,
    MEMLIMIT_BYTES,
    OPSLIMIT,
    Writing,
    misreads,
    restore_names,
    writes,
    writes_names,
)

# From the recipes of the corpus, which rewriting has put within reach.
from builder import (
    FLAG_ENCRYPTED,
    MAGIC,
    STRUCTURED,
    item_bytes,
    tag,
)
from layouts import HEADERS_FIRST, described
from sealing import PARALLEL, Lock, crypt_block, crypt_chunk, parallel_payload
from sodium import MAC_BYTES, NONCE_BYTES, SALT_BYTES, increment, secretbox
from wire import CRC32, SHA256, STATE_DICT, Hash, Record, both_hashes


@writes(is_right=True, cases="encode-*")
def rewritten(writing: Writing) -> None:
    """Nothing: the files of the builder must pass, or the adapters below would prove nothing."""


# The file as a whole.


@writes("TZR-HDR-006")
def version_always_4(writing: Writing) -> None:
    """Writes data version 4, whatever the content needs."""
    file = writing.file
    if file.data_version < 4 and writing.spec["layout"] == "auto":
        if file.encrypted:
            file.flags = FLAG_ENCRYPTED.to_bytes(32, "little")
        file.data_version = 4


@writes("TZR-HDR-006")
def version_1_for_opaque(writing: Writing) -> None:
    """Writes opaque dtypes in data version 1."""
    if writing.file.data_version == 2:
        writing.file.data_version = 1


@writes("TZR-HDR-006", "TZR-IDX-007")
def version_1_for_meta(writing: Writing) -> None:
    """Writes meta tensors in data version 1."""
    if writing.file.data_version == 4 and not writing.file.encrypted:
        writing.file.data_version = 1


@writes("TZR-HDR-006")
def version_4_for_empty(writing: Writing) -> None:
    """Raises the data version for tensors with zero elements, as if they were meta tensors."""
    file = writing.file
    if any(0 in entry.shape for entry in file.entries) and file.data_version < 3:
        file.data_version = 4


@misreads("TZR-HDR-006", cases="encode-forced-*")
def forced_layout_ignored(spec: Json) -> None:
    """Takes the lowest layout that will do, where a certain one is asked for."""
    spec["layout"] = "auto"


@writes("TZR-HDR-004")
def flag_2_set(writing: Writing) -> None:
    """Sets a feature flag that is reserved."""
    if writing.file.data_version >= 4:
        writing.file.flags = bytes([writing.file.flags[0] | 4]) + bytes(31)


@writes("TZR-HDR-006", cases="encode-version-dimension-*")
def flag_1_forgotten(writing: Writing) -> None:
    """Writes long dimensions as the development branch did, so that no release reads the file."""
    encrypted = writing.file.flags[0] & FLAG_ENCRYPTED
    writing.file.flags = bytes([encrypted]) + bytes(31)


@writes("TZR-HDR-005", "TZR-IDX-003", "TZR-IDX-002")
def count_too_high(writing: Writing) -> None:
    """Counts one tensor more than it writes."""
    writing.file.count = len(writing.file.entries) + 1


@writes("TZR-TRM-001")
def terminator_forgotten(writing: Writing) -> None:
    """Ends the file with the last record."""
    writing.file.terminator = b""


@writes("TZR-TRM-002")
def terminator_of_ones(writing: Writing) -> None:
    """Ends the file with eight bytes that are not zero."""
    writing.file.terminator = b"\xff" * 8


@writes("TZR-HDR-009")
def data_not_summed(writing: Writing) -> None:
    """Leaves total data bytes at 0."""
    writing.file.data_sum = 0


@writes("TZR-HDR-009")
def unused_not_cleared(writing: Writing) -> None:
    """Leaves in the unused bytes of the file header what was in memory."""
    writing.file.unused = b"\xde\xad\xbe\xef" * 2


@writes("TZR-IDX-016")
def file_not_truncated(writing: Writing) -> None:
    """Writes over a longer file, and leaves the end of that."""
    writing.file.trailer = b"the end of another file"


# The index.


@writes("TZR-IDX-003")
def index_room_dirty(writing: Writing) -> None:
    """Leaves in the room behind the entries what was in memory."""
    if not described(writing.file.layout).headers_first:
        writing.file.index_padding = bytes(8) + b"\xde\xad\xbe\xef"


@writes("TZR-IDX-014", cases="encode-forced-v5-*")
def index_room_counted(writing: Writing) -> None:
    """Counts room behind the entries as part of the index, where headers come first."""
    if described(writing.file.layout).headers_first:
        writing.file.index_padding = bytes(8)


@writes("TZR-IDX-012")
def gap_before_records(writing: Writing) -> None:
    """Begins the first record behind a gap."""
    if not described(writing.file.layout).headers_first:
        writing.file.records[0].gap = bytes(7)


@writes("TZR-IDX-009", "TZR-IDX-012")
def data_offset_of_the_header(writing: Writing) -> None:
    """Writes into the index that the data begins where the header does."""
    for entry, (header_at, _) in zip(
        writing.file.entries, writing.file.offsets(), strict=True
    ):
        entry.data_offset = header_at


@writes("TZR-IDX-016", cases="encode-order")
def records_reversed(writing: Writing) -> None:
    """Writes the records in the other order than the entries."""
    writing.file.records.reverse()


@writes("TZR-IDX-017", cases="encode-forced-v5-headers-first*")
def data_not_aligned(writing: Writing) -> None:
    """Begins the data of v5-headers-first where the headers end."""
    writing.file.records[0].data_gap = b""


def place_empty(writing: Writing, offset: int) -> None:
    """Gives tensors without data this data_offset, where headers come first."""
    if described(writing.file.layout).headers_first:
        for entry in writing.file.entries:
            if not entry.data_length:
                entry.data_offset = offset


@writes("TZR-IDX-019", cases="encode-forced-v5-*")
def empty_at_0(writing: Writing) -> None:
    """Gives tensors without data a data_offset of 0."""
    place_empty(writing, 0)


@writes("TZR-IDX-019", cases="encode-forced-v5-*")
def empty_at_the_end(writing: Writing) -> None:
    """Gives tensors without data the end of the file for their data_offset."""
    file = writing.file
    base = file.marks()["data_start"] if file.segments is not None else 0
    place_empty(writing, len(file.encode()) - base)


@writes("TZR-IDX-019", cases="encode-forced-v5-headers-first*")
def empty_behind_its_header(writing: Writing) -> None:
    """Gives tensors without data the end of their header, as layouts of records have it."""
    file = writing.file
    for entry, record, (header_at, _) in zip(
        file.entries, file.records, file.offsets(), strict=True
    ):
        if file.layout == HEADERS_FIRST and not entry.data_length:
            entry.data_offset = header_at + record.header_bytes()


@writes("TZR-IDX-018", cases="encode-forced-v5-*-dims*")
def every_entry_long(writing: Writing) -> None:
    """Gives all entries wide dimensions, where entries have versions."""
    if described(writing.file.layout).entry_versions:
        for entry in writing.file.entries:
            tag(entry, True)


@writes("TZR-SEG-005", cases="encode-forced-v5-*")
def segments_not_aligned(writing: Writing) -> None:
    """Ends the segments of v5-segments where their content does."""
    if writing.file.segments is not None:
        writing.file.segments.metadata_room = b""
        writing.file.segments.header_room = b""


# Names.


@writes_names("TZR-NAM-006", "TZR-NAM-007", "TZR-NAM-008")
def tree_not_checked(writing: Writing) -> None:
    """Writes names that form no tree."""
    restore_names(writing)


@writes_names("TZR-NAM-009")
def plain_name_not_checked(writing: Writing) -> None:
    """Writes empty names, and plain names that begin with the byte 1E."""
    restore_names(writing)


@writes_names("TZR-NAM-005")
def structured_parameter(writing: Writing) -> None:
    """Writes structured names for parameters."""
    restore_names(writing)


@writes("TZR-NAM-010", cases="encode-structured-*")
def structured_with_spaces(writing: Writing) -> None:
    """Puts a space behind each comma of a structured name."""
    for entry, tensor in zip(writing.file.entries, writing.file.tensors, strict=True):
        if len(tensor.path) > 1:
            entry.name = STRUCTURED + json.dumps(tensor.path).encode()
            entry.record.name = entry.name


@writes("TZR-NAM-010", cases="encode-name-*")
def structured_always(writing: Writing) -> None:
    """Writes every name of kind 2 as a structured one."""
    for entry, tensor in zip(writing.file.entries, writing.file.tensors, strict=True):
        if entry.kind == STATE_DICT:
            spelled = json.dumps(tensor.path, separators=(",", ":")).encode()
            entry.name = entry.record.name = STRUCTURED + spelled


@writes("TZR-NAM-010", cases="encode-structured-*")
def structured_in_utf_8(writing: Writing) -> None:
    """Does not escape letters of a structured name."""
    for entry, tensor in zip(writing.file.entries, writing.file.tensors, strict=True):
        if entry.name.startswith(STRUCTURED):
            spelled = json.dumps(
                tensor.path, separators=(",", ":"), ensure_ascii=False
            ).encode()
            entry.name = entry.record.name = STRUCTURED + spelled


def respell(writing: Writing, spelled: dict[str, str]) -> None:
    """Replaces characters of structured names."""
    for entry in writing.file.entries:
        if entry.name.startswith(STRUCTURED):
            name = entry.name.decode().translate(str.maketrans(spelled))
            entry.name = entry.record.name = name.encode()


MARKUP = "encode-structured-markup"


@writes("TZR-NAM-010", cases="encode-structured-*", caught_by=(MARKUP,))
def structured_for_html(writing: Writing) -> None:
    """Escapes <, > and & in structured names, as Go's library does."""
    respell(writing, {char: f"\\u{ord(char):04x}" for char in "<>&"})


@writes("TZR-NAM-010", cases="encode-structured-*", caught_by=(MARKUP,))
def structured_for_attributes(writing: Writing) -> None:
    """Escapes ', + and ` in structured names, as the library of .NET does."""
    respell(writing, {char: f"\\u{ord(char):04x}" for char in "'+`"})


@writes(
    "TZR-NAM-010",
    cases="encode-structured-*",
    caught_by=("encode-structured-escapes", MARKUP),
)
def structured_with_slashes(writing: Writing) -> None:
    """Escapes the slash in structured names, as PHP's library does."""
    respell(writing, {"/": "\\/"})


CONTROLS = "encode-structured-controls"


def replace_escape(writing: Writing, escape: str, other: str) -> None:
    for entry in writing.file.entries:
        if entry.name.startswith(STRUCTURED):
            name = entry.name.decode().replace(escape, other)
            entry.name = entry.record.name = name.encode()


@writes(
    "TZR-NAM-010",
    cases="encode-structured-*",
    caught_by=("encode-structured-escapes", CONTROLS),
)
def structured_without_short_escapes(writing: Writing) -> None:
    """Spells backspace and form feed with their numbers, as older releases of Go do."""
    replace_escape(writing, "\\b", "\\u0008")
    replace_escape(writing, "\\f", "\\u000c")


@writes("TZR-NAM-010", cases="encode-structured-*", caught_by=(CONTROLS,))
def structured_with_raw_c1(writing: Writing) -> None:
    """Leaves the control characters from 80 to 9F as they are."""
    for char in "\x80\x9f":
        replace_escape(writing, f"\\u{ord(char):04x}", char)


@writes(
    "TZR-NAM-010",
    cases="encode-structured-*",
    caught_by=("encode-structured-separators",),
)
def structured_with_raw_separators(writing: Writing) -> None:
    """Leaves U+2028 and U+2029 as they are."""
    for char in "\u2028\u2029":
        replace_escape(writing, f"\\u{ord(char):04x}", char)


# Tensor headers.


@writes("TZR-REC-003", "TZR-HDR-006", cases="encode-module-*")
def module_index_of_the_tensor_before(writing: Writing) -> None:
    """Writes each module_index into the next tensor's header."""
    before = 0
    for record in writing.file.records:
        before, record.module_index = record.module_index, before


@writes("TZR-REC-007")
def kind_in_the_header_only(writing: Writing) -> None:
    """Writes into the index that every tensor is a parameter."""
    for entry in writing.file.entries:
        entry.kind = 0


@writes("TZR-REC-004")
def header_padded(writing: Writing) -> None:
    """Pads each tensor header to a multiple of 8 bytes."""
    for record in writing.file.records:
        record.extra = bytes(-record.header_bytes() % 8 or 8)


@writes("TZR-DTY-006", cases="encode-dtype-*")
def byte_with_an_order(writing: Writing) -> None:
    """Writes a byte order into opaque types of one byte."""
    for entry in writing.file.entries:
        entry.dtype = entry.record.dtype = entry.dtype.replace(b"|V1", b"<V1")


@writes("TZR-DTY-001", cases="encode-dtype-*")
def data_big_endian(writing: Writing) -> None:
    """Writes data in the other byte order than the dtype says."""
    for record, tensor in zip(writing.file.records, writing.file.tensors, strict=True):
        item = item_bytes(tensor.dtype)
        if record.ciphertext is None and record.plaintext:
            record.plaintext = b"".join(
                record.plaintext[i : i + item][::-1]
                for i in range(0, len(record.plaintext), item)
            )


@writes("TZR-IDX-004", "TZR-REC-007", cases="encode-kinds")
def data_of_the_next_tensor(writing: Writing) -> None:
    """Writes the data of each tensor under the name of another one of its size."""
    records = [r for r in writing.file.records if r.ciphertext is None and r.plaintext]
    for one, other in zip(records, records[1:]):
        if len(one.plaintext) == len(other.plaintext):
            one.plaintext, other.plaintext = other.plaintext, one.plaintext


@writes("TZR-IDX-009", "TZR-HSH-006", cases="encode-*-mib*")
def whole_pieces_written(writing: Writing) -> None:
    """Copies plain data in pieces of 1 MiB, and not the rest after the second of them."""
    for record in writing.file.records:
        if record.ciphertext is None and len(record.plaintext) > 2 << 20:
            whole = len(record.plaintext) >> 20 << 20
            hashes = stored(record.digests(), record)
            record.plaintext = record.plaintext[:whole].ljust(
                len(record.plaintext), b"\0"
            )
            record.hashes = hashes


# Hashes.


def stored(digests: dict[int, bytes], record: Record) -> list[Hash]:
    """The hashes that a record has, with these values."""
    return [Hash(entry.type, digests[entry.type]) for entry in record.hashes]


@writes("TZR-HSH-005", "TZR-HSH-006", cases="encode-module-*")
def hashed_before_numbered(writing: Writing) -> None:
    """Hashes the header before the module_index is in it."""
    for record in writing.file.records:
        number, record.module_index = record.module_index, 0
        record.hashes = stored(record.digests(), record)
        record.module_index = number


@writes("TZR-HSH-005", "TZR-HSH-006")
def hash_of_the_data_alone(writing: Writing) -> None:
    """Hashes the data without the header."""
    for record in writing.file.records:
        digests = {
            CRC32: struct.pack("<I", zlib.crc32(record.plaintext)),
            SHA256: hashlib.sha256(record.plaintext).digest(),
        }
        record.hashes = stored(digests, record)


@writes("TZR-HSH-006", cases="encode-encrypted-*-byte*")
def hash_of_the_ciphertext(writing: Writing) -> None:
    """Hashes encrypted data as it lies in the file."""
    for record in writing.file.records:
        if record.ciphertext is not None:
            plaintext, record.plaintext = record.plaintext, record.ciphertext
            record.hashes = stored(record.digests(), record)
            record.plaintext = plaintext


@writes("TZR-HSH-005")
def crc32_big_endian(writing: Writing) -> None:
    """Stores a CRC32 with the highest byte first."""
    for record in writing.file.records:
        digests = record.digests()
        digests[CRC32] = digests[CRC32][::-1]
        record.hashes = stored(digests, record)


@writes("TZR-HSH-007", cases="encode-encrypted-*-byte*")
def crc32_of_a_secret(writing: Writing) -> None:
    """Stores the CRC32 of encrypted data, which gives a short secret away."""
    for record in locked_records(writing):
        record.hashes = both_hashes()


@writes("TZR-HSH-004")
def no_hashes(writing: Writing) -> None:
    """Writes empty lists of hashes."""
    for record in writing.file.records:
        record.hashes = []


# Encryption.


def locked_records(writing: Writing) -> list[Record]:
    """The records whose data is encrypted."""
    return [record for record in writing.file.records if record.ciphertext is not None]


@answers("TZR-CRY-001", options=only(FEW))
def key_ignored(question: Question) -> Json:
    """Writes a plain file although it has a key."""
    if question.command != "encode":
        return question.right_answer()
    return question.right_answer(key_hex=None, passphrase=None)


@writes("TZR-CRY-016", cases="encode-encrypted-*-byte*")
def macs_of_zeros(writing: Writing) -> None:
    """Forgets to write the MACs into the room that it left for them."""
    for record in locked_records(writing):
        room_bytes = MAC_BYTES * -(-len(record.plaintext) // CHUNK_BYTES)
        record.crypt = record.crypt[:-room_bytes] + bytes(room_bytes)


@writes("TZR-CRY-021", cases="encode-encrypted-*-byte*")
def sealed_in_one_piece(writing: Writing) -> None:
    """Seals data with the sequential cipher."""
    for record in locked_records(writing):
        lock = replace(writing.lock, sequential=True)
        lock.apply(record, secrets.token_bytes(NONCE_BYTES))


@writes("TZR-CRY-016", cases="encode-encrypted-*-byte*")
def nonce_not_advanced(writing: Writing) -> None:
    """Seals every chunk of a tensor with the same nonce."""
    for record in locked_records(writing):
        pieces = range(0, len(record.plaintext), CHUNK_BYTES)
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = [
            secretbox(record.plaintext[at : at + CHUNK_BYTES], nonce, writing.lock.key)
            for at in pieces
        ]
        payload = parallel_payload(CHUNK_BYTES, nonce, [mac for _, mac in sealed])
        record.ciphertext = b"".join(text for text, _ in sealed)
        kdf = [] if writing.lock.kdf is None else [writing.lock.kdf]
        record.crypt = crypt_block([*kdf, crypt_chunk(PARALLEL, payload)])


@writes("TZR-CRY-020", cases="encode-encrypted-same-*")
def nonce_reused(writing: Writing) -> None:
    """Seals every tensor with the same nonce."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    for record in locked_records(writing):
        writing.lock.apply(record, nonce)


@writes(
    "TZR-CRY-020",
    cases="encode-*",
    caught_by=("encode-encrypted-several-chunks-first",),
)
def nonce_counted_by_tensors(writing: Writing) -> None:
    """Adds the number of the tensor to a nonce of the file, so that it meets those of later chunks."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    for number, record in enumerate(locked_records(writing)):
        # In chunks of upstream's size, few tensors have more than one.
        lock = replace(writing.lock, chunk_size=2 << 20)
        lock.apply(record, increment(nonce, number))


def apply_numbered(writing: Writing, distinct: int) -> None:
    """Encrypts each tensor with a nonce of its number, of which there are so many; later messages meet no other's."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    for number, record in enumerate(locked_records(writing)):
        lock = replace(writing.lock, chunk_size=2 << 20)
        lock.apply(record, increment(nonce, number % distinct << 32))


@writes(
    "TZR-CRY-020",
    cases="encode-encrypted-*",
    caught_by=("encode-encrypted-17-tensors", "encode-encrypted-257-tensors"),
)
def nonces_of_16_threads(writing: Writing) -> None:
    """Keeps a nonce for each of 16 threads, and seals the tensors of a thread with the same one."""
    apply_numbered(writing, 16)


@writes(
    "TZR-CRY-020",
    cases="encode-encrypted-*",
    caught_by=("encode-encrypted-257-tensors",),
)
def nonce_counted_in_a_byte(writing: Writing) -> None:
    """Numbers the nonces of a file in one byte, so that tensor 256 gets that of the first."""
    apply_numbered(writing, 256)


@writes("TZR-CRY-020", cases="encode-encrypted-*")
def nonce_of_the_name(writing: Writing) -> None:
    """Makes the nonce from the name of the tensor, which other files under the same key have too."""
    for record in locked_records(writing):
        digest = hashlib.sha256(record.name).digest()
        writing.lock.apply(record, digest[:NONCE_BYTES])


FIRST_NONCE = secrets.token_bytes(NONCE_BYTES)
FILES_WRITTEN = count()


@writes("TZR-CRY-020", cases="encode-encrypted-*")
def nonce_counted_by_files(writing: Writing) -> None:
    """Adds the number of the file to a nonce of the process, so that it meets those of later chunks of other files."""
    number = next(FILES_WRITTEN)
    for tensor, record in enumerate(locked_records(writing)):
        lock = replace(writing.lock, chunk_size=2 << 20)
        # Within a file no nonce is used twice.
        lock.apply(record, increment(FIRST_NONCE, number + (tensor << 64)))


@writes("TZR-CRY-022", cases="encode-passphrase*")
def salt_constant(writing: Writing) -> None:
    """Derives keys with one salt for all files."""
    salt = bytes(SALT_BYTES)
    lock = Lock.from_passphrase(writing.passphrase, salt, OPSLIMIT, MEMLIMIT_BYTES)
    for record in locked_records(writing):
        lock.apply(record, secrets.token_bytes(NONCE_BYTES))


def derive_with(writing: Writing, opslimit: int, memlimit_bytes: int) -> None:
    if writing.passphrase is None:
        return
    salt = secrets.token_bytes(SALT_BYTES)
    lock = Lock.from_passphrase(writing.passphrase, salt, opslimit, memlimit_bytes)
    for record in locked_records(writing):
        lock.apply(record, secrets.token_bytes(NONCE_BYTES))


@writes("TZR-CRY-024", cases="encode-passphrase*")
def derivation_of_one_pass(writing: Writing) -> None:
    """Derives keys with one pass over enough memory."""
    derive_with(writing, OPSLIMIT - 1, MEMLIMIT_BYTES)


@writes("TZR-CRY-024", cases="encode-passphrase*")
def derivation_in_little_memory(writing: Writing) -> None:
    """Derives keys with enough passes, over the least memory that libsodium takes."""
    derive_with(writing, OPSLIMIT, 8192)


Refusal = Callable[[str], bool]


def takes_passphrases(
    *caught_by: str,
) -> Callable[[Refusal], Refusal]:
    """Registers a writer that takes a blank passphrase unless this says that it is refused."""

    def decorate(refuses: Refusal) -> Refusal:
        def answer(question: Question) -> Json:
            right = question.right_answer()
            if not is_rejected_for(right, "TZR-CRY-023"):
                return right
            if refuses(question.request["passphrase"]):
                return right
            # What the file is encrypted with does not matter: nothing may be written.
            return question.right_answer(passphrase="x")

        enter(
            refuses,
            ("TZR-CRY-023",),
            answer,
            only("encode-*passphrase*"),
            caught_by=caught_by,
        )
        return refuses

    return decorate


EMPTY, SPACE, WHITE_SPACE = (
    f"encode-refused-passphrase-{id_}" for id_ in ("empty", "space", "white-space")
)


@takes_passphrases(EMPTY, SPACE, WHITE_SPACE)
def any_passphrase(passphrase: str) -> bool:
    """Takes any passphrase."""
    return False


@takes_passphrases(SPACE, WHITE_SPACE)
def passphrase_not_empty(passphrase: str) -> bool:
    """Refuses an empty passphrase, and takes blank ones."""
    return not passphrase


@takes_passphrases(WHITE_SPACE)
def passphrase_not_of_spaces(passphrase: str) -> bool:
    """Refuses a passphrase of spaces, and takes one of other white space."""
    return not passphrase.strip(" ")


@answers("TZR-CRY-023", options=only("encode-*passphrase*"), caught_by=(EMPTY,))
def empty_passphrase_is_none(question: Question) -> Json:
    """Takes an empty passphrase for none, and writes a plain file."""
    if question.command != "encode" or question.request.get("passphrase") != "":
        return question.right_answer()
    return question.right_answer(passphrase=None)


@writes("TZR-CRY-016", cases="encode-shared-*-encrypted")
def memory_sealed_twice(writing: Writing) -> None:
    """Encrypts in place, so that memory that two tensors share is encrypted twice."""
    memory: dict[str, bytearray] = {}
    for record, tensor in zip(
        writing.file.records, writing.spec["tensors"], strict=True
    ):
        if record.ciphertext is None:
            continue
        data = tensor["data"]
        place = slice(data["offset"], data["offset"] + data["length"])
        file = memory.setdefault(
            data["file"], bytearray(Path(data["file"]).read_bytes())
        )
        plaintext, hashes = record.plaintext, stored(record.digests(), record)
        record.plaintext = bytes(file[place])
        writing.lock.apply(record, secrets.token_bytes(NONCE_BYTES))
        file[place] = record.ciphertext
        record.plaintext, record.hashes = plaintext, hashes


# What is written at all.


@answers("TZR-NAM-006", options=only("encode-refused-*"))
def file_left_behind(question: Question) -> Json:
    """Leaves the beginning of a file behind when it refuses to write it."""
    answer = question.right_answer()
    if question.command == "encode" and "rejected" in answer:
        Path(question.request["out"]).write_bytes(MAGIC)
    return answer


@answers("TZR-HDR-001", "TZR-HDR-006", options=only(FEW))
def nothing_written(question: Question) -> Json:
    """Says that it wrote a file, and did not."""
    return (
        {"encoded": True} if question.command == "encode" else question.right_answer()
    )


@misreads("TZR-IDX-013", "TZR-HDR-006")
def dimension_written_in_32_bits(spec: Json) -> None:
    """Writes the lower half of a dimension of 2^32 and more."""
    for tensor in spec["tensors"]:
        tensor["shape"] = [dim % (1 << 32) for dim in tensor["shape"]]


@misreads("TZR-IDX-009", "TZR-IDX-012", cases="encode-order")
def sorted_by_name(spec: Json) -> None:
    """Writes the tensors in the order of their names."""
    spec["tensors"].sort(key=lambda tensor: [str(part) for part in tensor["path"]])


@misreads("TZR-HDR-005", cases="encode-omit-*")
def buffers_dropped(spec: Json) -> None:
    """Leaves out all buffers, where those that are not persistent are to be left out."""
    if spec.pop("non_persistent_buffers", None):
        spec["tensors"] = [t for t in spec["tensors"] if t["kind"] != "buffer"]
        forget_persistence(spec)


@misreads("TZR-HDR-005", cases="encode-omit-*")
def buffers_kept(spec: Json) -> None:
    """Writes buffers that are not persistent."""
    if spec.pop("non_persistent_buffers", None):
        forget_persistence(spec)


def forget_persistence(spec: Json) -> None:
    for tensor in spec["tensors"]:
        tensor.pop("persistent", None)
