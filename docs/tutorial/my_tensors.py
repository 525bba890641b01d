"""The reader that the tutorial tests: .tensors files of data version 1 with plain names. It has a mistake."""

from __future__ import annotations

import hashlib
import math
import zlib
from typing import Any

Json = dict[str, Any]

KINDS = ("parameter", "buffer", "state_dict")
CODES = {
    **{"b1": "bool", "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64"},
    **{"i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64"},
    **{"f2": "float16", "f4": "float32", "f8": "float64"},
    **{"c8": "complex64", "c16": "complex128"},
}
CRC32, SHA256 = range(2)
HASH_BYTES = {CRC32: 4, SHA256: 32}


def check(holds: object, problem: str) -> None:
    """Refuses the file with a ValueError if something does not hold."""
    if not holds:
        raise ValueError(problem)


class Fields:
    """The fields of one structure, one after another. One that does not lie inside the structure is refused."""

    def __init__(self, file: bytes, start: int, size: int) -> None:
        check(size <= len(file) - start, f"what is at {start} ends beyond the file")
        self.file, self.at, self.end = file, start, start + size

    def take(self, size: int) -> bytes:
        check(size <= self.end - self.at, f"the field at {self.at} ends too late")
        self.at += size
        return self.file[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def kind(self) -> str:
        kind = self.number(1)
        check(kind < len(KINDS), f"kind {kind}")
        return KINDS[kind]

    def name(self) -> str:
        name = self.take(self.number(2))
        if name.startswith(b"\x1e"):
            raise NotImplementedError("structured names")
        return name.decode("latin-1")

    def dtype_and_shape(self) -> tuple[str, list[int]]:
        dtype = self.take(self.number(1)).decode("ascii")
        marks = "<>|" if dtype[2:] == "1" else "<>"
        check(dtype[1:] in CODES and dtype[0] in marks, f"dtype {dtype!r}")
        return dtype, [self.number(4) for _ in range(self.number(1))]


def read_index(file: bytes) -> tuple[list[Json], int]:
    """The entries of the index, and where the first record begins."""
    header = Fields(file, 0, 65)
    check(header.take(5) == b"|TZR|", "the magic is wrong")
    version = header.number(4)
    check(1 <= version <= 5, f"data version {version}")
    if version > 1:
        raise NotImplementedError(f"data version {version}")
    header.take(48)
    count = header.number(8)
    check(count > 0, "there are no tensors")
    index = Fields(file, 73, Fields(file, 65, 8).number(8))
    entries: list[Json] = []
    while len(entries) < count:
        entry: Json = {"path": [index.name()], "kind": index.kind()}
        dtype, shape = index.dtype_and_shape()
        entry |= {"wire_dtype": dtype, "shape": shape, "header": index.number(8)}
        entry |= {"data": index.number(8), "data_length": index.number(8)}
        size = math.prod(shape) * int(dtype[2:])
        check(
            entry["data_length"] == size < 2**63, "data_length is not that of shape"
        )
        entries.append(entry)
    check(not any(index.take(index.end - index.at)), "bytes behind the last entry")
    names = [entry["path"][0] for entry in entries]
    check(len(set(names)) == len(names), "two tensors have one name")
    return entries, index.end


def read_record(file: bytes, entry: Json, verify: bool) -> Json:
    """What the index does not tell of a tensor, from its header and its data."""
    start = entry["header"]
    length = Fields(file, start, 8).number(8)
    header = Fields(file, start, length)
    header.take(8)
    module_index, kind = header.number(2), header.kind()
    check(kind == entry["kind"], "index and header differ in the kind")
    check([header.name()] == entry["path"], "index and header differ in the name")
    described = (entry["wire_dtype"], entry["shape"])
    check(header.dtype_and_shape() == described, "index and header differ in the type")

    hash_list_bytes = header.number(2)
    hash_list = Fields(file, header.at, hash_list_bytes)
    header.take(hash_list_bytes)
    hashed = bytearray(file[start : start + length])
    hashes = []
    for _ in range(hash_list.number(1)):
        sort, size = hash_list.number(1), hash_list.number(1)
        check(HASH_BYTES.get(sort) == size, f"a hash of type {sort} with {size} bytes")
        at = hash_list.at - start
        hashed[at : at + size] = bytes(size)
        hashes.append((sort, hash_list.take(size)))
    check(hash_list.at == hash_list.end, "bytes behind the last hash")
    check(header.number(8) == entry["data_length"], "index and header differ in size")
    check(header.at == header.end == entry["data"], "the data is not behind the header")

    data = Fields(file, header.end, entry["data_length"]).take(entry["data_length"])
    message = bytes(hashed) + data
    crc32 = zlib.crc32(message).to_bytes(4, "little")
    digests = {CRC32: crc32, SHA256: hashlib.sha256(message).digest()}
    if verify:
        check(hashes, "there is no hash")
        check(all(digests[sort] == value for sort, value in hashes), "a hash is wrong")
    stored = dict(reversed(hashes))
    return {
        "module_index": module_index,
        "dtype": CODES[entry["wire_dtype"][1:]],
        "meta": False,
        "sha256": hashlib.sha256(data).hexdigest(),
        "crc32_field": stored[CRC32][::-1].hex() if CRC32 in stored else None,
        "sha256_field": stored[SHA256].hex() if SHA256 in stored else None,
    }


def load(path: str, verify: bool) -> Json:
    """The content of a file as canonical JSON, with the SHA-256 of each tensor's data."""
    with open(path, "rb") as stream:
        file = stream.read()
    entries, end = read_index(file)
    for entry in sorted(entries, key=lambda entry: entry["header"]):
        check(entry["header"] == end, f"there is no record at {end}")
        entry |= read_record(file, entry, verify)
        end = entry["data"] + entry["data_length"]
    check(Fields(file, end, 8).number(8) == 0, "there is no terminator")
    for entry in entries:
        del entry["header"], entry["data"]
    content = {"data_version": 1, "layout": "v1", "encrypted": False}
    return {**content, "tensors": entries}
