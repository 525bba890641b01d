"""Cases for readers that look at a part of a field: the rest of it is wrong, and all else is right."""

import struct
from collections.abc import Iterator

from builder import MAGIC, File, Tensor
from case import Case
from recipe import Recipe, two_tensors
from sealing import Lock

SEED = 1800
KEY = bytes(range(32))
# One more in the upper half of a field of eight bytes.
UPPER = 1 << 32


def cases() -> Iterator[Case]:
    recipe = Recipe("parts", SEED)
    yield from file_header(recipe)
    yield from index(recipe)
    yield from tensor_header(recipe)
    yield from crypt_blocks(recipe)


def file() -> File:
    return two_tensors(seed=SEED)


def file_header(recipe: Recipe) -> Iterator[Case]:
    for place, at in {"first": 0, "last": 4}.items():
        wrong = file()
        wrong.magic = MAGIC[:at] + b"!" + MAGIC[at + 1 :]
        yield recipe.refused(
            f"part-magic-{place}-byte",
            wrong,
            "HDR-002",
            f"The {place} byte of the magic is not a bar; the letters are right.",
        )
    for bits in (8, 16, 24):
        wrong = file()
        wrong.data_version = 1 + (1 << bits)
        yield recipe.refused(
            f"part-version-1-plus-2-{bits}",
            wrong,
            "HDR-003",
            f"The data version is 2^{bits} + 1; its first byte is that of version 1.",
        )
    wrong = file()
    wrong.count = 2 + UPPER
    yield recipe.refused(
        "part-count-plus-2-32",
        wrong,
        "IDX-002",
        "The tensor count is 2^32 above that of the entries.",
        features=["large-claim"],
    )


def index(recipe: Recipe) -> Iterator[Case]:
    wrong = file()
    marks = wrong.marks()
    wrong.index_length = marks["header_start"] - marks["index"] + UPPER
    yield recipe.refused(
        "part-index-length-plus-2-32",
        wrong,
        "IDX-001",
        "index_length is 2^32 above what the index has.",
        features=["large-claim"],
    )
    wrong = file()
    header_at, data_at = wrong.offsets()[1]
    wrong.entries[1].header_offset = header_at + UPPER
    yield recipe.refused(
        "part-header-offset-plus-2-32",
        wrong,
        "IDX-008 IDX-012",
        "The header_offset of the second tensor is 2^32 too high.",
    )
    wrong = file()
    wrong.entries[1].data_offset = data_at + UPPER
    yield recipe.refused(
        "part-data-offset-plus-2-32",
        wrong,
        "IDX-010 IDX-009 REC-002",
        "The data_offset of the second tensor is 2^32 too high.",
    )
    wrong = file()
    wrong.entries[1].data_length += UPPER
    yield recipe.refused(
        "part-data-length-plus-2-32",
        wrong,
        "IDX-006 IDX-010 REC-010",
        "The data_length that the index has of the second tensor is 2^32 too high.",
    )


def tensor_header(recipe: Recipe) -> Iterator[Case]:
    wrong = file()
    wrong.records[1].header_length = wrong.records[1].header_bytes() + UPPER
    yield recipe.refused(
        "part-header-length-plus-2-32",
        wrong,
        "REC-002 IDX-009",
        "The header_length of the second tensor is 2^32 too high.",
    )
    wrong = file()
    wrong.records[1].data_length = len(wrong.records[1].plaintext) + UPPER
    yield recipe.refused(
        "part-header-data-length-plus-2-32",
        wrong,
        "REC-010",
        "The data_length in the header of the second tensor is 2^32 too high.",
    )


def crypt_blocks(recipe: Recipe) -> Iterator[Case]:
    # Where the upper halves of two numbers lie in a block of one parallel cipher chunk: behind the count of chunks, and
    # behind chunk_length, chunk_type, chunk_size and nonce.
    for name, at, rules in (
        ("chunk-length", 2, "CRY-002 CRY-010"),
        ("mac-count", 2 + 8 + 2 + 8 + 24, "CRY-009 CRY-010"),
    ):
        wrong = locked()
        block = bytearray(wrong.records[0].crypt or b"")
        struct.pack_into("<I", block, at + 4, 1)
        wrong.records[0].crypt = bytes(block)
        yield recipe.refused(
            f"part-crypt-{name}-plus-2-32",
            wrong,
            rules,
            f"The {name.replace('-', '_')} of the cipher chunk is 2^32 too high.",
            features=["large-claim"],
            key=KEY,
        )
    wrong = locked()
    wrong.records[0].crypt_length = len(wrong.records[0].crypt or b"") + UPPER
    yield recipe.refused(
        "part-crypt-length-plus-2-32",
        wrong,
        "CRY-001 REC-003",
        "The crypt_length is 2^32 too high.",
        features=["large-claim"],
        key=KEY,
    )


def locked() -> File:
    return File.of([Tensor(["a"], shape=[16])], 3, SEED, Lock(KEY))
