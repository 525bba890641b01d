"""Finds the data of each tensor in a correct file, so that an adapter can look in the wrong place."""

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
