"""Cases for readers that make a check only here and there: for the first tensor, in one layout, without encryption.

Each break of a rule is made at each place of PLACES, and every other tensor of the file is right. At the second of
three tensors, it has a structured name and no data wherever the rule lets it, because checks are most often written for
the plain tensor that comes first. In which layouts that is a case was chosen by the planted bugs
(conformance/planted_bugs): each of these cases catches one that no other case catches. The other places take the same
layouts in turn. See several.py for rules about more than one tensor.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, product

import builder
import layouts
import sealing
import sodium
from builder import File, Tensor
from case import Case
from recipe import Recipe
from sealing import Lock, crypt_block, crypt_chunk
from wire import CRC32, SHA256, STATE_DICT, Hash, Record

SEED = 2000
KEY = bytes(range(32))
PASSPHRASE = "open sesame"
SALT = builder.noise(f"{SEED}/salt", sodium.SALT_BYTES)
NONCE = builder.noise(f"{SEED}/nonce", sodium.NONCE_BYTES)

# What the tensor that breaks the rule is like: its name, and whether it has data.
STYLES: dict[str, tuple[builder.Path, bool]] = {
    "": (["layers", 0], False),
    "with-data": (["layers", 0], True),
    "plain": (["m"], False),
    "plain-with-data": (["m"], True),
}
# How a file is laid out, and whether it is encrypted.
V4, LONG, FLAGGED = "v4", "long", "flagged"
LAYOUTS = {
    "v3": (3, "v3", True, "an encrypted file"),
    V4: (4, "v4", False, "a file of v4"),
}
for family, row in layouts.FAMILIES.items():
    if family != V4:
        what = f"file of {row.name}"
        LAYOUTS[family] = (5, row.name, False, f"a {what}")
        LAYOUTS[f"{family}-locked"] = (5, row.name, True, f"an encrypted {what}")
PHRASE = "-phrase"  # in place of -locked: the key is derived from a passphrase

# Changes the tensor of that number.
Change = Callable[[File, Lock | None, int], None]


@dataclass(frozen=True)
class Place:
    """Where in a file the tensor is that breaks the rule."""

    what: str
    tensors: int
    at: int
    kind: int = STATE_DICT


SECOND = "second"
PLACES = {
    SECOND: Place("second of three tensors", 3, 1),
    "first": Place("first of three tensors, a parameter,", 3, 0, builder.PARAMETER),
    "third": Place("third of three tensors, a buffer,", 3, 2, builder.BUFFER),
    "only": Place("only tensor", 1, 0),
    "paged": Place(
        "last of three tensors, whose entry is on the second page of the index,", 3, 2
    ),
}
OTHER_PLACES = ("first", "third", "only")
# Breaks of index entries, one for each rule, that are made on the second page of the index as well.
PAGED = (
    *(
        "kind",
        "version-65537",
        "size-2-63",
        "data-length",
        "header-offset-0",
        "data-offset-far",
        "name-utf8",
    ),
    *(
        "name-json",
        "name-newline",
        "name-structured-parameter",
        "dtype",
        "dtype-opaque-head",
        "dtype-opaque-name",
    ),
    *("dtype-bfloat16-of-4", "meta", "data-offset-plus-256"),
)
PAGE_BYTES = 4096
# Rules about structured names, which parameters and buffers do not have.
STRUCTURED_NAME_RULES = ("NAM-002", "NAM-003", "NAM-004", "NAM-005")
# The names of the right tensors.
NEIGHBOURS = (["a"], ["z"])


@dataclass(frozen=True)
class Break:
    """One way to break rules in a tensor of a file."""

    at: str  # the layouts that have this case, each with the style of the tensor
    rules: str
    what: str  # follows "The second of three tensors has"
    change: Change
    # Its dtype and shape, if they are not those of the style.
    tensor: Tensor | None = None
    claims_much: bool = False
    # Whether other tensors play a part in it, so that it has its place.
    stays: bool = False
    # Whether it breaks other rules in each of its layouts, so that each place is needed in each of them.
    in_each_layout: bool = False


def both(**fields: object) -> Change:
    """Sets fields of the index entry and of the tensor header."""

    def change(made: File, lock: Lock | None, at: int) -> None:
        for name, value in fields.items():
            setattr(made.entries[at], name, value)
            setattr(made.records[at], name, value)

    return change


def entry(**fields: object) -> Change:
    def change(made: File, lock: Lock | None, at: int) -> None:
        for name, value in fields.items():
            setattr(made.entries[at], name, value)

    return change


def header(**fields: object) -> Change:
    def change(made: File, lock: Lock | None, at: int) -> None:
        for name, value in fields.items():
            setattr(made.records[at], name, value)

    return change


def data_later(by: int) -> Change:
    """Adds to the data_offset of the index entry; bytes behind the terminator keep the data inside the file."""

    def change(made: File, lock: Lock | None, at: int) -> None:
        made.entries[at].data_offset = made.offsets()[at][1] + by
        made.trailer = bytes(by)

    return change


def hashes(*stored: Hash) -> Change:
    return header(hashes=list(stored))


def wrong_hash(kind: int) -> Hash:
    return Hash(kind, b"\x5a" * (4 if kind == CRC32 else 32))


def crypt(*chunks: bytes, count: int | None = None) -> Change:
    """Puts chunks into the crypt block, before those that are there for the data."""

    def change(made: File, lock: Lock | None, at: int) -> None:
        record = made.records[at]
        old = record.crypt or b""
        had = struct.unpack_from("<H", old)[0]
        block = b"".join(chunks) + old[2:]
        record.crypt = (
            struct.pack("<H", len(chunks) + had if count is None else count) + block
        )

    return change


def only_chunks(*chunks: bytes) -> Change:
    return header(crypt=crypt_block(list(chunks)))


def first_chunk_length(length: int) -> Change:
    def change(made: File, lock: Lock | None, at: int) -> None:
        block = made.records[at].crypt or b""
        made.records[at].crypt = block[:2] + struct.pack("<Q", length) + block[10:]

    return change


def cut_chunk(chunk_type: int, payload: bytes) -> Change:
    """A chunk that is too short for its fields, in front of the others."""
    return crypt(crypt_chunk(chunk_type, payload))


def derivation(**fields: int) -> Change:
    return crypt(
        crypt_chunk(sealing.KEY_DERIVATION, sealing.kdf_payload(SALT, **fields))
    )


def flip_ciphertext(made: File, lock: Lock | None, at: int) -> None:
    record = made.records[at]
    record.ciphertext = bytes([record.stored[0] ^ 1]) + record.stored[1:]


def cipher(stray: bytes = b"", **fields: int) -> Change:
    """The cipher chunk with wrong numbers; its MAC is right."""

    def change(made: File, lock: Lock | None, at: int) -> None:
        assert lock is not None
        record = made.records[at]
        _, macs = sealing.seal(record.plaintext, lock.key, NONCE, 1024)
        size = fields.get("chunk_size", 1024)
        macs = macs + [bytes(16)] * (fields.get("macs", len(macs)) - len(macs))
        payload = sealing.parallel_payload(size, NONCE, macs) + stray
        lock.apply(record, NONCE)
        chunk = crypt_chunk(sealing.PARALLEL, payload)
        record.crypt = crypt_block([chunk] if lock.kdf is None else [lock.kdf, chunk])

    return change


def derived_with(**fields: int) -> Change:
    """The tensor's own key derivation with wrong numbers."""

    def change(made: File, lock: Lock | None, at: int) -> None:
        chunk = crypt_chunk(sealing.KEY_DERIVATION, sealing.kdf_payload(SALT, **fields))
        Lock(KEY, kdf=chunk).apply(made.records[at], NONCE)

    return change


def crypt_after(*chunks: bytes) -> Change:
    """Puts chunks after those that are there for the data."""

    def change(made: File, lock: Lock | None, at: int) -> None:
        old = made.records[at].crypt or b""
        had = struct.unpack_from("<H", old)[0]
        made.records[at].crypt = (
            struct.pack("<H", had + len(chunks)) + old[2:] + b"".join(chunks)
        )

    return change


def hash_list(raw: bytes) -> Change:
    """A hash list of these bytes."""

    def change(made: File, lock: Lock | None, at: int) -> None:
        made.records[at].__class__ = RawHashList
        made.records[at].raw = raw

    return change


class RawHashList(Record):
    """A tensor header with any bytes as its hash list."""

    raw = b""

    def _hash_list(self, digests: dict[int, bytes]) -> bytes:
        return struct.pack("<H", len(self.raw)) + self.raw


def cut_header(field: str) -> Change:
    """A header that ends within a field of a fixed size."""

    def change(made: File, lock: Lock | None, at: int) -> None:
        record = made.records[at]
        named = 13 + len(record.name)
        typed = named + 1 + len(record.dtype)
        begins = {
            "dtype_length": named,
            "ndim": typed,
            "hashes_length": typed + 1 + 4 * len(record.shape) + 1,
        }
        record.header_length = begins[field]

    return change


def header_inside_data(made: File, lock: Lock | None, host: int, guest: int) -> None:
    """The record of one tensor lies at the end of the data of another."""
    outer, inner = made.records[host], made.records[guest]
    header = inner.header()
    outer.plaintext = bytes(8) + header + inner.plaintext
    outer.shape = made.entries[host].shape = [len(outer.plaintext)]
    made.entries[host].data_length = len(outer.plaintext)
    if lock is not None:
        # A stream cipher: what it makes of the ciphertext is what has to be encrypted.
        outer.plaintext, _ = sealing.seal(outer.plaintext, lock.key, NONCE, 1024)
        lock.apply(outer, NONCE)
    made.records.remove(inner)
    data_at = made.marks()["data", id(outer)]
    made.entries[guest].header_offset = data_at + 8
    made.entries[guest].data_offset = data_at + 8 + len(header)


def inside_the_first(made: File, lock: Lock | None, at: int) -> None:
    header_inside_data(made, lock, 0, at)


def other_kind(made: File, lock: Lock | None, at: int) -> None:
    """The header says that a buffer is a parameter, and everything else a buffer."""
    is_buffer = made.entries[at].kind == builder.BUFFER
    made.records[at].kind = builder.PARAMETER if is_buffer else builder.BUFFER


def last_place(made: File, lock: Lock | None, at: int) -> None:
    """A header_offset four bytes before the end of what headers may fill."""
    marks = made.marks()
    end = (
        marks["header_end"] - marks["header_start"]
        if made.segments
        else len(made.encode())
    )
    made.entries[at].header_offset = end - 4


def one_past(made: File, lock: Lock | None, at: int) -> None:
    header_at, _ = made.offsets()[at]
    made.records[at].header_length = len(made.encode()) + 1 - header_at


def renamed(**names: bytes) -> Change:
    """Renames tensors of a, m and z."""

    def change(made: File, lock: Lock | None, at: int) -> None:
        for letter, name in names.items():
            number = "amz".index(letter)
            made.entries[number].name = made.records[number].name = name

    return change


def alone(name: bytes, **fields: object) -> Change:
    """Leaves the second tensor alone in the file, with this name."""

    def change(made: File, lock: Lock | None, at: int) -> None:
        both(name=name, **fields)(made, lock, at)
        for parts in (made.entries, made.records, made.tensors):
            del parts[2], parts[0]

    return change


# The cipher chunk of a tensor whose data is not decrypted, because the crypt block is refused before.
ONE_MAC = sealing.parallel_payload(1024, NONCE, [bytes(16)])
PARALLEL = crypt_chunk(sealing.PARALLEL, ONE_MAC)

BREAKS = {
    # Index entries.
    "kind": Break(
        "first-locked/plain segments/plain long/plain flagged/plain",
        "IDX-004",
        "kind 3",
        both(kind=3),
    ),
    "version-65537": Break(
        "long-locked", "IDX-013", "an entry of version 65537", entry(version=65537)
    ),
    "size-2-63": Break(
        "first-locked segments",
        "IDX-005",
        "a shape of 2^63 bytes",
        both(),
        Tensor([], "|u1", [1 << 31, 1 << 31, 2], meta=True),
        claims_much=True,
    ),
    "data-length": Break(
        "first-locked/with-data segments/with-data",
        "IDX-006",
        "another data_length than its shape gives",
        both(shape=[3]),
    ),
    "meta": Break(
        "v3",
        "IDX-007",
        "elements and no data",
        both(),
        Tensor([], "<f4", [2], meta=True),
    ),
    "header-offset-0": Break(
        "first-locked",
        "IDX-008 IDX-012 IDX-011 SEG-004 REC-001 REC-002 REC-003",
        "a header_offset of 0",
        entry(header_offset=0),
    ),
    "header-offset-of-size": Break(
        "segments-locked",
        "SEG-004 IDX-008 IDX-012",
        "a header_offset of the size of the file",
        lambda made, lock, at: setattr(
            made.entries[at], "header_offset", len(made.encode())
        ),
    ),
    "data-offset-plus-256": Break(
        "v3",
        "IDX-009 REC-002 IDX-011 IDX-010",
        "a data_offset that is 256 too high",
        data_later(256),
    ),
    "data-offset-far": Break(
        "first-locked",
        "IDX-010 IDX-009 REC-002",
        "a data_offset far behind the file",
        entry(data_offset=1 << 40),
        claims_much=True,
    ),
    "data-in-headers": Break(
        "first/with-data",
        "IDX-015 IDX-011 IDX-010 HSH-005 HSH-006",
        "data that begins inside the last tensor header",
        lambda made, lock, at: setattr(
            made.entries[at], "data_offset", made.offsets()[2][0] + 8
        ),
        stays=True,
    ),
    # Tensor headers.
    "header-length-0": Break(
        "v3", "REC-001", "a header_length of 0", header(header_length=0)
    ),
    "header-length-far": Break(
        "segments flagged",
        "REC-002 SEG-004 IDX-009 IDX-011",
        "a header_length far beyond the file",
        header(header_length=1 << 40),
        claims_much=True,
        in_each_layout=True,
    ),
    "header-length-less": Break(
        "segments",
        "REC-002 REC-003 IDX-009",
        "a header_length that is one too low",
        lambda made, lock, at: setattr(
            made.records[at],
            "header_length",
            made.records[at].header_bytes() - 1,
        ),
    ),
    **{
        f"header-cut-at-{length}": Break(
            "first-locked",
            "REC-003 REC-002 IDX-009",
            f"a header of {length} bytes",
            header(header_length=length),
        )
        for length in (7, 9, 10, 12)
    },
    "header-name-length": Break(
        "flagged",
        "REC-003",
        "a name that runs past its header",
        header(name_length=0xFFFF),
    ),
    "header-dtype-length": Break(
        "v3", "REC-003", "a dtype that runs past its header", header(dtype_length=0xFF)
    ),
    "header-ndim": Break(
        "long", "REC-003", "a shape that runs past its header", header(ndim=0xFF)
    ),
    "header-extra": Break(
        "v3 first-locked flagged",
        "REC-004",
        "a header with twelve bytes of zeros that belong to no field",
        header(extra=bytes(12)),
    ),
    "index-reserve": Break(
        "v3 long-locked",
        "IDX-003",
        "the last entries but for a byte that is not zero behind them",
        lambda made, lock, at: setattr(made, "index_padding", bytes(15) + b"\x01"),
        stays=True,
    ),
    "header-hashes-length": Break(
        "v3",
        "REC-003 HSH-001",
        "a hash list that runs past its header",
        header(hashes_length=0xFFFF),
    ),
    **{
        f"header-{field.replace('_', '-')}-cut": Break(
            "first-locked",
            "REC-003 REC-002 IDX-009",
            f"a header that ends before its {field}",
            cut_header(field),
        )
        for field in ("dtype_length", "ndim", "hashes_length")
    },
    "header-length-one-past": Break(
        "long-locked",
        "REC-002 IDX-009",
        "a header_length that leads one byte past the file",
        one_past,
    ),
    "header-in-data": Break(
        "flagged long-locked",
        "IDX-011 IDX-012",
        "its header in the data of the first",
        inside_the_first,
        stays=True,
    ),
    "header-at-end": Break(
        "first-locked segments",
        "REC-002 SEG-004 IDX-012 IDX-008",
        "a header_offset four bytes before the end",
        last_place,
        in_each_layout=True,
    ),
    "header-name": Break(
        "v3", "REC-006", "another name in its header", header(name=b"other")
    ),
    "header-kind": Break("v3", "REC-007", "another kind in its header", other_kind),
    "header-dtype-longer": Break(
        "v3",
        "REC-008",
        "a dtype with one byte more in its header",
        header(dtype=b"<f4 "),
    ),
    "header-dtype-shorter": Break(
        "v3", "REC-008", "a dtype with one byte less in its header", header(dtype=b"<f")
    ),
    "header-shape-more": Break(
        "v3", "REC-009", "one more dimension in its header", header(shape=[0, 1])
    ),
    "header-shape-fewer": Break(
        "v3",
        "REC-009",
        "one dimension less in its header",
        header(shape=[0]),
        Tensor([], "<f4", [0, 2]),
    ),
    "header-data-length": Break(
        "v3",
        "REC-010 CRY-006",
        "one byte of data more in its header",
        lambda made, lock, at: setattr(
            made.records[at], "data_length", len(made.records[at].plaintext) + 1
        ),
    ),
    # Names.
    "name-utf8": Break(
        "first-locked segments long flagged",
        "NAM-001",
        "a name that is not UTF-8",
        both(name=b"\xff"),
    ),
    "name-json": Break(
        "first-locked segments flagged",
        "NAM-002",
        "a structured name that is no array",
        both(name=b'\x1e"a"'),
    ),
    "name-null": Break(
        "long", "NAM-002", "a structured name with null", both(name=b'\x1e["a",null]')
    ),
    "name-none": Break(
        "first-locked segments long flagged",
        "NAM-003",
        "a structured name without elements",
        alone(b"\x1e[]"),
        stays=True,
    ),
    "name-newline": Break(
        "first-locked segments long flagged",
        "NAM-004",
        "a newline in its name",
        both(name=b'\x1e["n",\n1]'),
    ),
    "name-kind-known": Break(
        "segments long flagged",
        "NAM-005",
        "a structured name that is right for kind 2, and kind 0",
        alone(b'\x1e["a",0]', kind=0),
        stays=True,
    ),
    "name-structured-parameter": Break(
        "first-locked", "NAM-005", "a structured name and kind 0", both(kind=0)
    ),
    "name-twice": Break(
        "long-locked",
        "NAM-006",
        "the name of the first",
        both(name=b"a"),
        stays=True,
    ),
    "name-below": Break(
        "first-locked segments long flagged",
        "NAM-007",
        "a name below that of the first",
        both(name=b'\x1e["a",0]'),
        stays=True,
    ),
    "name-mixed-later": Break(
        "first-locked",
        "NAM-008",
        "a string where the last has a list position",
        renamed(m=b'\x1e["layers","x"]', z=b'\x1e["layers",1]'),
        stays=True,
    ),
    "name-mixed": Break(
        "segments long flagged",
        "NAM-008",
        "a list position where the first has a string",
        both(name=b"\x1e[1]"),
        stays=True,
    ),
    # dtypes.
    "dtype": Break(
        "segments flagged", "DTY-001", "a dtype that is none", both(dtype=b"<f3")
    ),
    "dtype-opaque-head": Break(
        "first-locked segments flagged",
        "DTY-002",
        "an opaque dtype with the mark >",
        both(dtype=b">V4\0torch.complex32"),
    ),
    "dtype-opaque-nuls": Break(
        "long",
        "DTY-002",
        "an opaque dtype with two NUL bytes",
        both(dtype=b"<V4\0\0torch.complex32"),
    ),
    "dtype-opaque-name": Break(
        "first-locked segments long flagged",
        "DTY-003",
        "an opaque dtype that names an attribute",
        both(dtype=b"<V2\0torch.bfloat16.real"),
    ),
    "dtype-bfloat16-of-4": Break(
        "flagged",
        "DTY-004",
        "a bfloat16 of 4 bytes",
        both(dtype=b"<V4\0torch.bfloat16"),
    ),
    "dtype-complex32-of-2": Break(
        "segments",
        "DTY-004",
        "a complex32 of 2 bytes",
        both(dtype=b"<V2\0torch.complex32"),
    ),
    "dtype-bits8-of-4": Break(
        "first-locked", "DTY-004", "a bits8 of 4 bytes", both(dtype=b"<V4\0torch.bits8")
    ),
    "dtype-float8-of-4": Break(
        "long", "DTY-004", "a float8 of 4 bytes", both(dtype=b"<V4\0torch.float8_e5m2")
    ),
    # Hash lists.
    "hash-count-more": Break(
        "v3", "HSH-001", "a hash_count of one too many", header(hash_count=3)
    ),
    "hash-count-less": Break(
        "v3", "HSH-001", "a hash_count of one too few", header(hash_count=0)
    ),
    "hash-list-empty": Break(
        "v3", "HSH-001 HSH-004", "a hash list of no byte", hash_list(b"")
    ),
    "hash-size-cut": Break(
        "long-locked",
        "HSH-001 HSH-003 HSH-004",
        "a hash that ends after its type",
        hash_list(b"\x01\0"),
    ),
    "hash-value-cut": Break(
        "flagged",
        "HSH-001 HSH-004",
        "a hash that ends within its value",
        hash_list(b"\x01\0\x04\xaa"),
    ),
    "hash-type": Break(
        "flagged long-locked",
        "HSH-002 HSH-003",
        "a hash of type 9",
        hashes(Hash(9, bytes(4)), Hash(SHA256)),
    ),
    "hash-size": Break(
        "flagged",
        "HSH-003 HSH-001",
        "a SHA-256 of 31 bytes",
        hashes(Hash(SHA256, bytes(31)), Hash(CRC32)),
    ),
    "hash-size-other": Break(
        "long-locked",
        "HSH-003 HSH-001",
        "a CRC32 of 32 bytes",
        hashes(Hash(CRC32, bytes(32)), Hash(SHA256)),
    ),
    "hash-none": Break("long flagged", "HSH-004", "no hash", hashes()),
    "hash-crc32-alone": Break(
        "v3", "HSH-005", "a wrong CRC32 and no other hash", hashes(wrong_hash(CRC32))
    ),
    "hash-crc32-last": Break(
        "v3",
        "HSH-005",
        "a right SHA-256 and then a wrong CRC32",
        hashes(Hash(SHA256), wrong_hash(CRC32)),
    ),
    "hash-sha256": Break(
        "flagged", "HSH-006", "a wrong SHA-256", hashes(Hash(CRC32), wrong_hash(SHA256))
    ),
    "hash-two-sha256": Break(
        "long",
        "HSH-006",
        "a wrong SHA-256 and then a right one",
        hashes(wrong_hash(SHA256), Hash(SHA256)),
    ),
    # Crypt blocks.
    "crypt-length": Break(
        "v3",
        "CRY-001 REC-003",
        "a crypt_length of 2^32",
        header(crypt_length=1 << 32),
        claims_much=True,
    ),
    "crypt-missing": Break(
        "long-phrase", "CRY-001 REC-003", "no crypt block", header(crypt=None)
    ),
    "crypt-rest": Break(
        "first-locked",
        "CRY-002",
        "a crypt block with a byte after its chunks",
        lambda made, lock, at: setattr(
            made.records[at], "crypt", (made.records[at].crypt or b"") + b"\0"
        ),
    ),
    "crypt-count-cut": Break(
        "long-phrase", "CRY-002", "a crypt block of one byte", header(crypt=b"\0")
    ),
    "crypt-count": Break(
        "flagged-locked",
        "CRY-002 CRY-007",
        "a chunk_count of one too many",
        crypt(count=2),
    ),
    "crypt-chunk-length": Break(
        "segments-locked/with-data",
        "CRY-002 CRY-010",
        "a chunk_length of 2^32",
        first_chunk_length(1 << 32),
        claims_much=True,
    ),
    "crypt-type": Break(
        "first-locked/with-data flagged-locked/with-data segments-locked/with-data",
        "CRY-003",
        "a chunk of type 4 before its cipher",
        crypt(crypt_chunk(4, b"")),
    ),
    "crypt-type-257": Break(
        "long-phrase/with-data",
        "CRY-003",
        "a chunk of type 257 before its cipher",
        crypt(crypt_chunk(257, b"")),
    ),
    "crypt-two-ciphers": Break(
        "first-locked/with-data flagged-locked/with-data segments-locked/with-data long-phrase/with-data",
        "CRY-004",
        "two cipher chunks",
        crypt_after(PARALLEL),
    ),
    "crypt-two-derivations": Break(
        "first-locked/with-data long-locked/plain-with-data flagged-locked/with-data segments-locked/with-data",
        "CRY-005",
        "two key derivation chunks",
        crypt(*[crypt_chunk(sealing.KEY_DERIVATION, sealing.kdf_payload(SALT))] * 2),
    ),
    "crypt-no-cipher": Break(
        "long-locked/with-data flagged-locked/with-data",
        "CRY-006",
        "data and no cipher chunk",
        only_chunks(),
    ),
    "crypt-without-data": Break(
        "first-locked/plain flagged-locked segments-locked",
        "CRY-007",
        "a cipher chunk and no data",
        only_chunks(
            crypt_chunk(sealing.PARALLEL, sealing.parallel_payload(1024, NONCE, []))
        ),
    ),
    "crypt-derivation-without-data": Break(
        "long-phrase",
        "CRY-007",
        "a key derivation chunk and no data",
        only_chunks(crypt_chunk(sealing.KEY_DERIVATION, sealing.kdf_payload(SALT))),
    ),
    "chunk-size": Break(
        "first-locked/with-data flagged-locked/with-data segments-locked/with-data long-phrase/with-data",
        "CRY-008",
        "a chunk_size of 1000",
        cipher(chunk_size=1000),
    ),
    "mac-count": Break(
        "first-locked/with-data flagged-locked/with-data segments-locked/with-data long-phrase/with-data",
        "CRY-009",
        "one MAC more than messages",
        cipher(macs=2),
    ),
    "chunk-empty": Break(
        "first-locked/with-data",
        "CRY-010",
        "a chunk without a type",
        crypt(struct.pack("<Q", 0)),
    ),
    **{
        f"derivation-of-{size}": Break(
            "v3/with-data",
            "CRY-010 CRY-013",
            f"a key derivation chunk of {size} bytes",
            cut_chunk(sealing.KEY_DERIVATION, sealing.kdf_payload(SALT)[:size]),
        )
        for size in (1, 9, 17, 21, 23, 39)
    },
    **{
        f"cipher-of-{size}": Break(
            at,
            "CRY-010",
            f"a cipher chunk of {size} bytes",
            only_chunks(crypt_chunk(sealing.PARALLEL, ONE_MAC[:size])),
        )
        for at, size in (
            ("long-locked/with-data", 7),
            ("v3/with-data", 31),
            ("flagged-locked/with-data", 39),
            ("v3/with-data", 55),
        )
    },
    "cipher-stray": Break(
        "segments-phrase/with-data",
        "CRY-010",
        "a cipher chunk with a byte too many",
        cipher(stray=b"\0"),
    ),
    "method": Break(
        "long-locked/with-data flagged-locked/with-data segments-locked/with-data",
        "CRY-011",
        "key derivation method 2",
        derivation(method=2),
    ),
    "method-257": Break(
        "first-locked/with-data",
        "CRY-011",
        "key derivation method 257",
        derivation(method=257),
    ),
    "alg": Break(
        "long-locked/with-data flagged-locked/with-data segments-locked/with-data",
        "CRY-012",
        "key derivation algorithm 1",
        derivation(alg=1),
    ),
    "alg-65538": Break(
        "first-locked/with-data",
        "CRY-012",
        "key derivation algorithm 65538",
        derivation(alg=65538),
    ),
    "salt": Break(
        "long-locked/with-data flagged-locked/with-data segments-locked/with-data",
        "CRY-013",
        "a salt of 17 bytes",
        cut_chunk(sealing.KEY_DERIVATION, sealing.kdf_payload(SALT + b"s")),
    ),
    "salt-272": Break(
        "first-locked/with-data",
        "CRY-013",
        "a salt of 272 bytes",
        cut_chunk(sealing.KEY_DERIVATION, sealing.kdf_payload(SALT * 17)),
    ),
    "opslimit-0": Break(
        "first-locked/with-data flagged-locked/with-data segments-locked/with-data",
        "CRY-014",
        "an opslimit of 0",
        derivation(opslimit=0),
    ),
    "memlimit-8191": Break(
        "long-locked/with-data",
        "CRY-014",
        "a memlimit of 8191",
        derivation(memlimit=8191),
    ),
    "opslimit-2-32": Break(
        "flagged-phrase/with-data",
        "CRY-015",
        "an opslimit of 2^32 + 1",
        derived_with(opslimit=(1 << 32) + 1),
        claims_much=True,
    ),
    "memlimit-2-40": Break(
        "first-phrase/with-data segments-phrase/with-data",
        "CRY-015",
        "a memlimit of 2^40 + 8192",
        derived_with(memlimit=(1 << 40) + 8192),
        claims_much=True,
    ),
    "opslimit-2-63": Break(
        "long-phrase/with-data",
        "CRY-015",
        "an opslimit of 2^63",
        derived_with(opslimit=1 << 63),
        claims_much=True,
    ),
    "mac": Break(
        "v3/with-data", "CRY-016", "a changed byte of ciphertext", flip_ciphertext
    ),
    "no-derivation": Break(
        "long-phrase/with-data flagged-phrase/with-data first-phrase/with-data segments-phrase/with-data",
        "CRY-019",
        "no key derivation chunk",
        lambda made, lock, at: Lock(KEY).apply(made.records[at], NONCE),
    ),
}


def tensors_of(break_: Break, place: Place, style: str) -> list[Tensor]:
    """The right tensors of a file, in which that of the break stands at its place."""
    path, has_data = STYLES[style]
    like = break_.tensor or Tensor([], "<f4", [2] if has_data else [0])
    kind = place.kind
    if break_.rules.startswith(STRUCTURED_NAME_RULES):
        kind = STATE_DICT
    elif place != PLACES[SECOND]:
        path = ["m"]
    tensor = Tensor(path, like.dtype, list(like.shape), kind, meta=like.meta)
    tensors = [Tensor(list(name)) for name in NEIGHBOURS[: place.tensors - 1]]
    if place == PLACES["paged"]:
        tensors[0].path = ["a" * PAGE_BYTES]
    return [*tensors[: place.at], tensor, *tensors[place.at :]]


def case_of(recipe: Recipe, key: str, which: str, layout: str, style: str) -> Case:
    break_, place = BREAKS[key], PLACES[which]
    version, name, locked, where = LAYOUTS[layout.replace(PHRASE, "-locked")]
    lock, phrase = Lock(KEY) if locked else None, None
    if layout.endswith(PHRASE):
        lock, phrase = Lock.from_passphrase(PASSPHRASE, SALT), PASSPHRASE
        where += ", opened with a passphrase,"
    file = File.of(tensors_of(break_, place, style), version, SEED, lock, name)
    if file.segments is not None:
        file.segments.metadata_room = file.segments.header_room = b""
    break_.change(file, lock, place.at)
    what = place.what
    if len(file.entries) == 1:
        which, what = "only", PLACES["only"].what
    features = ["large-claim"] if break_.claims_much else []
    return recipe.refused(
        f"where-{which}-{key}-{layout}" + (f"-{style}" if style else ""),
        file,
        break_.rules,
        f"The {what} of {where} has {break_.what}.",
        features=features + (["passphrase"] if phrase else []),
        key=KEY if locked and not phrase else None,
        passphrase=phrase,
    )


def cases() -> Iterator[Case]:
    recipe = Recipe("places", SEED)
    for key, break_ in BREAKS.items():
        for place in break_.at.split():
            layout, _, style = place.partition("/")
            yield case_of(recipe, key, SECOND, layout, style)
        if break_.stays:
            continue
        layouts = break_.at.split()
        pairs = zip(OTHER_PLACES, cycle(layouts))
        if break_.in_each_layout:
            pairs = product(OTHER_PLACES, layouts)
        for which, place in pairs:
            layout, _, style = place.partition("/")
            yield case_of(recipe, key, which, layout, style)
    for key in PAGED:
        layout, _, style = BREAKS[key].at.split()[0].partition("/")
        yield case_of(recipe, key, "paged", layout, style)
