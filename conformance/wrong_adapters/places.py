"""Finds structures in a file that is correct except for one thing, so that an adapter can look in the wrong place."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

DATA_VERSION_AT = 5
FLAGS_AT = 9
COUNT_AT = 57
INDEX_LENGTH_AT = 65
METADATA_START_AT, HEADER_START_AT, DATA_START_AT = 76, 93, 110


class Place(NamedTuple):
    """Absolute offsets of a tensor's header and data."""

    header_at: int
    data_at: int
    data_bytes: int


def u64(file: bytes, at: int) -> int:
    return struct.unpack_from("<Q", file, at)[0]


def entry_numbers(file: bytes, layout: str = "v1") -> Iterator[int]:
    """Where the three numbers at the end of each index entry lie."""
    at = INDEX_LENGTH_AT + 8
    if layout == "v5-segments":
        at = u64(file, METADATA_START_AT) + 8
    for _ in range(u64(file, COUNT_AT)):
        dim_bytes = 4
        if layout in ("v5-long-dims", "v5-flagged-dims"):
            dim_bytes = 8 if file[at] == 5 else 4
            at += 4
        at += 2 + int.from_bytes(file[at : at + 2], "little") + 1
        at += 1 + file[at]
        at += 1 + file[at] * dim_bytes
        yield at
        at += 24


def places(file: bytes, layout: str) -> list[Place]:
    """One for each tensor, in the order of the index. REQUIRES: a file that the reference reads."""
    header_base, data_base = 0, 0
    if layout == "v5-segments":
        header_base, data_base = u64(file, HEADER_START_AT), u64(file, DATA_START_AT)
    found = []
    for at in entry_numbers(file, layout):
        header_at, data_at, data_bytes = struct.unpack_from("<QQQ", file, at)
        found.append(Place(header_base + header_at, data_base + data_at, data_bytes))
    return found


def crypt_block_at(file: bytes, header_at: int) -> int:
    """Where crypt_length lies in a tensor header. REQUIRES: dimensions of four bytes."""
    at = header_at + 8 + 2 + 1
    at += 2 + int.from_bytes(file[at : at + 2], "little")
    at += 1 + file[at]
    at += 1 + 4 * file[at]
    return at + 2 + int.from_bytes(file[at : at + 2], "little")


class Entry(NamedTuple):
    """An index entry, with absolute offsets."""

    name_at: int
    name: bytes
    kind: int
    dtype: bytes
    shape: tuple[int, ...]
    header_at: int
    data_at: int
    data_length: int
    dim_bytes: int


class StoredHash(NamedTuple):
    type: int
    value_at: int


class Chunk(NamedTuple):
    """A crypt chunk."""

    type: int
    payload: bytes


class Header(NamedTuple):
    """A tensor header."""

    at: int
    # Where it ends by its header_length, and where its last field does.
    end: int
    fields_end: int
    kind: int
    name: bytes
    dtype: bytes
    shape: tuple[int, ...]
    shape_end: int
    hashes: list[StoredHash]
    chunks: list[Chunk]
    data_length: int


class Cursor:
    """Reads fields one behind another. The end of the file raises struct.error."""

    def __init__(self, file: bytes, at: int) -> None:
        self.file, self.at = file, at

    def numbers(self, layout: str) -> tuple[int, ...]:
        found = struct.unpack_from("<" + layout, self.file, self.at)
        self.at += struct.calcsize("<" + layout)
        return found

    def number(self, code: str) -> int:
        return self.numbers(code)[0]

    def text(self, length: int) -> bytes:
        return self.numbers(f"{length}s")[0]


def layout_of(file: bytes) -> str:
    """The layout, if the file is none of v5-long-dims."""
    version = struct.unpack_from("<I", file, DATA_VERSION_AT)[0]
    if version < 5:
        return f"v{version}"
    if file[FLAGS_AT] & 2:
        return "v5-flagged-dims"
    section = struct.pack("<Q", 45) + b"\1\3\1"
    has_section = file[INDEX_LENGTH_AT:].startswith(section)
    return "v5-segments" if has_section else "v5-headers-first"


def is_encrypted(file: bytes) -> bool:
    version = struct.unpack_from("<I", file, DATA_VERSION_AT)[0]
    return version == 3 or (version >= 4 and file[FLAGS_AT] & 1 == 1)


def index_at(file: bytes) -> int:
    """Where index_length lies."""
    is_segments = layout_of(file) == "v5-segments"
    return u64(file, METADATA_START_AT) if is_segments else INDEX_LENGTH_AT


def index_end(file: bytes) -> int:
    return index_at(file) + 8 + u64(file, index_at(file))


def entries(file: bytes) -> list[Entry]:
    """The index entries. Sums of offsets wrap around."""
    layout = layout_of(file)
    header_base, data_base = 0, 0
    if layout == "v5-segments":
        header_base, data_base = u64(file, HEADER_START_AT), u64(file, DATA_START_AT)
    cursor = Cursor(file, index_at(file) + 8)
    found = []
    for _ in range(u64(file, COUNT_AT)):
        is_long = layout == "v5-flagged-dims" and cursor.number("I") == 5
        name_length = cursor.number("H")
        name_at, name = cursor.at, cursor.text(name_length)
        kind = cursor.number("B")
        dtype = cursor.text(cursor.number("B"))
        shape = cursor.numbers(f"{cursor.number('B')}{'Q' if is_long else 'I'}")
        header_offset, data_offset, data_length = cursor.numbers("QQQ")
        found.append(
            Entry(
                *(name_at, name, kind, dtype, shape),
                (header_base + header_offset) % (1 << 64),
                (data_base + data_offset) % (1 << 64),
                *(data_length, 8 if is_long else 4),
            )
        )
    return found


def header_at(file: bytes, entry: Entry) -> Header:
    """The tensor header that an entry leads to."""
    cursor = Cursor(file, entry.header_at)
    length, _, kind = cursor.numbers("QHB")
    name = cursor.text(cursor.number("H"))
    dtype = cursor.text(cursor.number("B"))
    dim = "Q" if entry.dim_bytes == 8 else "I"
    shape = cursor.numbers(f"{cursor.number('B')}{dim}")
    shape_end = cursor.at
    _, hash_count = cursor.numbers("HB")
    hashes = []
    for _ in range(hash_count):
        hash_type, size = cursor.numbers("BB")
        hashes.append(StoredHash(hash_type, cursor.at))
        cursor.text(size)
    chunks = []
    if is_encrypted(file):
        _, chunk_count = cursor.numbers("QH")
        for _ in range(chunk_count):
            chunk_length, chunk_type = cursor.numbers("QH")
            chunks.append(Chunk(chunk_type, cursor.text(chunk_length - 2)))
    data_length = cursor.number("q")
    return Header(
        *(entry.header_at, entry.header_at + length, cursor.at),
        *(kind, name, dtype, shape, shape_end, hashes, chunks, data_length),
    )


def structures(file: bytes) -> list[tuple[Header, Entry]]:
    """Headers and entries, in the order of the index."""
    return [(header_at(file, entry), entry) for entry in entries(file)]


def headers(file: bytes) -> list[Header]:
    return [header for header, _ in structures(file)]
