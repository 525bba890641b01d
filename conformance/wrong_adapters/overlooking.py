"""Wrong adapters that check a rule only in part: in the first place, for one kind of file, or for small numbers.

Each fails the cases that it names in caught_by and no other case of the corpus, except for the places of where-*.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable

from listing import lists_each
from places import (
    Chunk,
    Entry,
    Header,
    entries,
    headers,
    index_end,
    layout_of,
    structures,
)
from trusting import accepted, refused
from wrong_adapter import Json, Question, answers, is_rejected_for

HASH_RULES = {0: "TZR-HSH-005", 1: "TZR-HSH-006"}
KEY_DERIVATION, PARALLEL = 1, 2
# In a key derivation chunk and in a parallel cipher chunk, counted from the payload.
DERIVATION = struct.Struct("<HQQi")
SALT_AT = DERIVATION.size + 2
MAC_COUNT_AT = 8 + 24
# The limits of the reference.
OPSLIMIT_MAX, MEMLIMIT_MAX = 4, 1 << 30
STRUCTURED = b"\x1e"

CANNOT_BE_TAKEN_APART = (
    *(IndexError, OverflowError, RecursionError, ValueError),
    struct.error,
)

# Whether the adapter does not see what the reference rejects a file for.
Oversight = Callable[[Question, Json], bool]


def holds(test: Callable[..., bool], *arguments: object) -> bool:
    """Whether this is so; it is not in files that cannot be taken apart."""
    try:
        return test(*arguments)
    except CANNOT_BE_TAKEN_APART:
        return False


def overlooks(
    *rules: str, caught_by: tuple[str, ...]
) -> Callable[[Oversight], Oversight]:
    """Registers an adapter that accepts files that the reference rejects for one of the rules if this says so."""

    def decorate(overlook: Oversight) -> Oversight:
        def answer(question: Question) -> Json:
            right = question.right_answer()
            if not question.is_about_reading() or not is_rejected_for(right, *rules):
                return right
            return accepted(question) if holds(overlook, question, right) else right

        answer.__name__, answer.__doc__ = overlook.__name__, overlook.__doc__
        answers(*rules, caught_by=caught_by)(answer)
        return overlook

    return decorate


def refuses(
    *rules: str, caught_by: tuple[str, ...]
) -> Callable[[Callable[[Question], bool]], Callable[[Question], bool]]:
    """Registers an adapter that rejects files that the reference reads if this says so."""

    def decorate(misreads: Callable[[Question], bool]) -> Callable[[Question], bool]:
        def answer(question: Question) -> Json:
            right = question.right_answer()
            if "rejected" in right or not question.is_about_reading():
                return right
            return refused("a MAC is wrong") if holds(misreads, question) else right

        answer.__name__, answer.__doc__ = misreads.__name__, misreads.__doc__
        answers(*rules, caught_by=caught_by)(answer)
        return misreads

    return decorate


def chunks(file: bytes, chunk_type: int) -> list[Chunk]:
    """The crypt chunks of one type, in the order of the index."""
    return [
        chunk
        for header in headers(file)
        for chunk in header.chunks
        if chunk.type == chunk_type
    ]


# Encryption.


@refuses("TZR-CRY-016", caught_by=("encryption-chunk-256",))
def message_number_of_8_bits(question: Question) -> bool:
    """Counts messages in one byte, so that message 256 gets the nonce of message 0."""
    file = question.file()
    return not {"key_hex", "passphrase"}.isdisjoint(question.request) and any(
        struct.unpack_from("<Q", chunk.payload, MAC_COUNT_AT)[0] > 256
        for chunk in chunks(file, PARALLEL)
    )


@refuses("TZR-CRY-008", "TZR-CRY-009", caught_by=())
def chunk_size_of_the_first_tensor(question: Question) -> bool:
    """Decrypts every tensor in chunks of the size that the first one has."""
    found = chunks(question.file(), PARALLEL)
    return len({struct.unpack_from("<Q", chunk.payload) for chunk in found}) > 1


@refuses(
    "TZR-CRY-015", caught_by=("passphrase-two-memlimits", "passphrase-two-opslimits")
)
def key_kept_by_its_salt(question: Question) -> bool:
    """Derives a key once for every salt, whatever opslimit and memlimit are."""
    if "passphrase" not in question.request:
        return False
    derivations = chunks(question.file(), KEY_DERIVATION)
    salts = {chunk.payload[SALT_AT:] for chunk in derivations}
    return len(salts) < len({chunk.payload for chunk in derivations})


def limits_of(chunk: Chunk) -> tuple[int, int]:
    """Opslimit and memlimit of a key derivation chunk."""
    _, opslimit, memlimit, _ = DERIVATION.unpack_from(chunk.payload)
    return opslimit, memlimit


def is_within_limits(chunk: Chunk) -> bool:
    opslimit, memlimit = limits_of(chunk)
    return opslimit <= OPSLIMIT_MAX and memlimit <= MEMLIMIT_MAX


@overlooks(
    "TZR-CRY-015",
    caught_by=("kdf-second-memlimit-2-40", "kdf-second-opslimit-2-32-less-1"),
)
def limits_of_the_first_tensor(question: Question, right: Json) -> bool:
    """Compares opslimit and memlimit of the first tensor with its limits, and of no other tensor."""
    within = [is_within_limits(c) for c in chunks(question.file(), KEY_DERIVATION)]
    return within[0] and not all(within)


@overlooks("TZR-CRY-015", caught_by=("kdf-256-salts", "kdf-9-salts"))
def any_number_of_derivations(question: Question, right: Json) -> bool:
    """Derives as many keys as a file asks for."""
    return all(map(is_within_limits, chunks(question.file(), KEY_DERIVATION)))


@overlooks(
    *("TZR-CRY-011", "TZR-CRY-012", "TZR-CRY-013", "TZR-CRY-014"),
    caught_by=(
        "kdf-raw-key-argon2i",
        "kdf-raw-key-memlimit-8191",
        "kdf-raw-key-method-2",
        "kdf-raw-key-opslimit-zero",
        "kdf-raw-key-salt-15",
    ),
)
def derivation_skipped_with_a_key(question: Question, right: Json) -> bool:
    """Does not look at key derivation chunks if it is given the key itself."""
    return "key_hex" in question.request


# Hashes.


def hash_place(question: Question, right: Json) -> tuple[int, int] | None:
    """How many hashes of its type come before and behind the one that the reference found to be wrong."""
    for header in headers(question.file()):
        for place, found in enumerate(header.hashes):
            if found.value_at == right["rejected"]["offset"]:
                types = [other.type for other in header.hashes]
                return (
                    types[:place].count(found.type),
                    types[place + 1 :].count(found.type),
                )
    return None


@overlooks(
    *HASH_RULES.values(),
    caught_by=("hash-crc32-twice-second-wrong", "hash-sha256-twice-second-wrong"),
)
def first_hash_of_a_type_verified(question: Question, right: Json) -> bool:
    """Compares the first hash of each type and not a second one."""
    place = hash_place(question, right)
    return place is not None and place[0] > 0


@overlooks(
    *HASH_RULES.values(),
    caught_by=("hash-crc32-twice-first-wrong", "hash-sha256-twice-first-wrong"),
)
def last_hash_of_a_type_verified(question: Question, right: Json) -> bool:
    """Keeps the hashes by their types, so that a second one replaces the first."""
    place = hash_place(question, right)
    return place is not None and place[1] > 0


# Names.


@overlooks(
    "TZR-NAM-002", caught_by=("structured-brace-behind", "structured-bracket-behind")
)
def second_bracket_ignored(question: Question, right: Json) -> bool:
    """Takes brackets and braces behind the array for a part of it."""
    for entry in entries(question.file()):
        if entry.name.startswith(STRUCTURED):
            text = entry.name[1:].decode()
            _, end = json.JSONDecoder().raw_decode(text)
            if re.fullmatch(r"[]}]+", text[end:]):
                return True
    return False


@answers("TZR-REC-006", caught_by=("record-name-structured-differs",))
def structured_names_compared_by_length(question: Question) -> Json:
    """Compares the lengths of structured names in index and header, and not their bytes."""
    right = question.right_answer()
    if not question.is_about_reading() or not is_rejected_for(right, "TZR-REC-006"):
        return right
    file = bytearray(question.file())
    try:
        found = structures(bytes(file))
    except CANNOT_BE_TAKEN_APART:
        return right
    for header, entry in found:
        name = header.name
        if entry.name.startswith(STRUCTURED) and len(name) == len(entry.name):
            file[entry.name_at : entry.name_at + len(name)] = name
    return question.right_answer_about(bytes(file))


@lists_each(
    "TZR-NAM-002",
    caught_by=(
        "structured-position-2-32",
        "structured-position-2-53-plus-1",
        "structured-position-2-63",
        "structured-position-2-64-less-1",
    ),
)
def position_of_32_bits(tensor: Json) -> None:
    """Keeps the lower half of a list position."""
    tensor["path"] = [
        p % (1 << 32) if isinstance(p, int) else p for p in tensor["path"]
    ]


@lists_each(
    "TZR-NAM-002",
    caught_by=(
        "structured-large-integer",
        "structured-position-2-31",
        "structured-position-2-32",
        "structured-position-2-53-plus-1",
        "structured-position-2-63",
        "structured-position-2-64-less-1",
    ),
)
def position_of_31_bits(tensor: Json) -> None:
    """Takes the largest number of 31 bits for every larger list position."""
    tensor["path"] = [
        min(p, (1 << 31) - 1) if isinstance(p, int) else p for p in tensor["path"]
    ]


@lists_each(
    "TZR-NAM-002",
    caught_by=("structured-position-2-53-plus-1", "structured-position-2-64-less-1"),
)
def position_is_a_double(tensor: Json) -> None:
    """Reads list positions as numbers of JavaScript."""
    tensor["path"] = [
        int(float(p)) if isinstance(p, int) else p for p in tensor["path"]
    ]


# dtypes.


def opaque_parts(entry: Entry) -> tuple[str, str]:
    """What comes before the NUL byte of a dtype, and the name behind it."""
    head, _, name = entry.dtype.decode("latin-1").partition("\0")
    return head, name


OPAQUE_ITEM_BYTES = {"torch.bfloat16": 2, "torch.complex32": 4, "torch.bits8": 1}


@overlooks("TZR-DTY-003", caught_by=("dtype-opaque-accent", "dtype-opaque-attribute"))
def float8_by_its_beginning(question: Question, right: Json) -> bool:
    """Knows an 8-bit float by the beginning of its name, whatever follows."""
    return any(
        re.match(r"torch\.float8_\w", opaque_parts(entry)[1])
        for entry in entries(question.file())
    )


@overlooks("TZR-DTY-002", caught_by=("dtype-opaque-on-plain-of-its-size",))
def opaque_behind_any_type(question: Question, right: Json) -> bool:
    """Takes the name behind a NUL byte for the type, if what is in front of it has the right size."""
    for entry in entries(question.file()):
        head, name = opaque_parts(entry)
        if re.fullmatch(r"[<|][a-z](\d+)", head) and name in OPAQUE_ITEM_BYTES:
            return int(head[2:]) == OPAQUE_ITEM_BYTES[name]
    return False


@overlooks("TZR-DTY-004", caught_by=("dtype-opaque-bfloat16-of-4-on-2",))
def opaque_size_from_its_name(question: Question, right: Json) -> bool:
    """Takes the element size from torch's name, and does not look at the number in front of it."""
    for entry in entries(question.file()):
        _, name = opaque_parts(entry)
        if name in OPAQUE_ITEM_BYTES:
            elements = 1
            for dim in entry.shape:
                elements *= dim
            return entry.data_length == elements * OPAQUE_ITEM_BYTES[name]
    return False


@overlooks(
    "TZR-DTY-001",
    caught_by=("dtype-foreign-bytes-too-large", "dtype-foreign-unicode-too-large"),
)
def foreign_size_without_sign(question: Question, right: Json) -> bool:
    """Takes element sizes of foreign dtypes for numbers of 32 bits without a sign."""
    for entry in entries(question.file()):
        found = re.fullmatch(rb"[<>|]([SU])([1-9]\d*)", entry.dtype)
        if found:
            return int(found[2]) * (4 if found[1] == b"U" else 1) < 1 << 32
    return False


# Places in the layouts in which headers come first. Offsets in v5-segments wrap around.


def agrees(header: Header, entry: Entry) -> bool:
    """Whether index and header describe the same tensor, and the header has its length."""
    if header.end != header.fields_end:
        return False
    described = (entry.name, entry.kind, entry.dtype, entry.shape, entry.data_length)
    return described == (
        *(header.name, header.kind, header.dtype, header.shape),
        header.data_length,
    )


def reads_headers_first(question: Question) -> bool:
    return layout_of(question.file()) in ("v5-headers-first", "v5-segments")


@overlooks(
    *("TZR-IDX-008", "TZR-SEG-004"),
    caught_by=("headers-first-header-in-index", "segments-header-in-index"),
)
def header_inside_the_index(question: Question, right: Json) -> bool:
    """Follows header offsets wherever in the file they lead."""
    file = question.file()
    if not reads_headers_first(question):
        return False
    return all(agrees(header, entry) for header, entry in structures(file)) and any(
        header.at < index_end(file) for header in headers(file)
    )


@overlooks(
    "TZR-IDX-011",
    caught_by=(
        "headers-first-header-in-other-header",
        "segments-header-in-other-header",
    ),
)
def header_inside_a_header(question: Question, right: Json) -> bool:
    """Looks for data that overlaps, and not for headers that do."""
    if not reads_headers_first(question):
        return False
    found = sorted(headers(question.file()))
    return all(agrees(h, entry) for h, entry in structures(question.file())) and any(
        one.end > other.at for one, other in zip(found, found[1:])
    )


@overlooks(
    *("TZR-IDX-015", "TZR-IDX-010"),
    caught_by=("headers-first-data-in-last-name", "segments-data-in-last-name"),
)
def data_inside_the_last_header(question: Question, right: Json) -> bool:
    """Asks only that data does not begin before the last header, and that its hash is right."""
    file = question.file()
    if not reads_headers_first(question):
        return False
    if not all(agrees(header, entry) for header, entry in structures(file)):
        return False
    last = max(headers(file))
    for header, entry in structures(file):
        at, length = entry.data_at, entry.data_length
        described = file[header.at : header.shape_end] + struct.pack("<Q", length)
        if last.at <= at < last.end:
            digest = hashlib.sha256(described + file[at : at + length]).digest()
            return any(
                file[found.value_at :].startswith(digest) for found in header.hashes
            )
    return False
