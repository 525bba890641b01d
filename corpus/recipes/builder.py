"""Builds files of every layout, right ones and wrong ones, from a description of what is in them.

A File holds what the index says (entries) and what lies behind it (records) apart from each other, although a right
file says the same twice: a recipe takes a right file and changes the one field that it wants to be wrong. What is left
at None is worked out when the bytes are made: lengths, offsets and hashes agree with everything else unless a recipe
says otherwise. This module was written from the format alone and shares no code with any codec.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sodium
from layouts import FLAGGED_DIMS, LAYOUTS, described
from sealing import Lock
from wire import (
    CRC32,
    DIM,
    ENTRY_VERSION,
    LONG_DIM,
    LONG_ENTRY_VERSION,
    SHA256,
    STATE_DICT,
    Entry,
    Record,
)

MAGIC = b"|TZR|"
FILE_HEADER_BYTES = 65
TERMINATOR = bytes(8)
FLAG_ENCRYPTED = 1
FLAG_FLAGGED_DIMS = LAYOUTS[FLAGGED_DIMS].flag
KINDS = ("parameter", "buffer", "state_dict")
PARAMETER, BUFFER = range(2)
STRUCTURED = b"\x1e"

BLOCK_BYTES = 4096
SEGMENT_DATA_BYTES = 8

PLAIN_DTYPES = {
    "b1": "bool",
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "i8": "int64",
    "u1": "uint8",
    "u2": "uint16",
    "u4": "uint32",
    "u8": "uint64",
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "c8": "complex64",
    "c16": "complex128",
}
# numpy types that torch has no name for; U counts characters of 4 bytes.
FOREIGN = re.compile(
    r"[<>|](?:(?P<code>[SU])(?P<count>\d+)|[Mm]8(?:\[\d*[A-Za-z]+\])?)"
)

Path = list[str | int]


def noise(seed: str, size_bytes: int) -> bytes:
    """Bytes that look random and are the same in every run."""
    return hashlib.shake_256(seed.encode()).digest(size_bytes)


def wire_name(path: Path) -> bytes:
    """A path as writers spell it: plain if it is one string, else a structured name in compact ASCII."""
    if len(path) == 1 and isinstance(path[0], str):
        return path[0].encode()
    return STRUCTURED + json.dumps(path, separators=(",", ":")).encode()


def item_bytes(dtype: str) -> int:
    """Element size of a dtype that has one."""
    if foreign := FOREIGN.fullmatch(dtype):
        if foreign["code"] is None:
            return 8
        return int(foreign["count"]) * (4 if foreign["code"] == "U" else 1)
    return int(dtype.partition("\0")[0][2:])


def torch_name(dtype: str) -> str | None:
    """The name of a dtype in torch, without the module; None for foreign types."""
    plain, _, opaque = dtype.partition("\0")
    if opaque:
        return opaque.removeprefix("torch.")
    return PLAIN_DTYPES.get(plain[1:])


@dataclass
class Tensor:
    """A tensor as a user thinks of it. Its data is noise unless it is given; a meta tensor has none."""

    path: Path
    dtype: str = "|u1"
    shape: list[int] = field(default_factory=lambda: [4])
    kind: int = STATE_DICT
    module_index: int = 0
    data: bytes | None = None
    meta: bool = False
    # The name on the wire, where it is not what a writer would spell.
    name: bytes | None = None

    def plaintext(self, seed: int) -> bytes:
        if self.meta:
            return b""
        if self.data is not None:
            return self.data
        size_bytes = math.prod(self.shape) * item_bytes(self.dtype)
        data = noise(f"{seed}/{self.path}/{self.dtype}", size_bytes)
        # A bool is 0 or 1, and other bytes in its place are trouble that no case here is about.
        return bytes(byte & 1 for byte in data) if self.dtype == "|b1" else data


class Output:
    """The bytes of a file in their order, and where the parts lie that others point at."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.marks: dict[Hashable, int] = {}

    def add(self, *parts: bytes) -> None:
        for part in parts:
            self.content += part

    def mark(self, key: Hashable) -> None:
        self.marks[key] = len(self.content)

    def align(self, block_bytes: int, start: int = 0) -> None:
        self.content += bytes((start - len(self.content)) % block_bytes)


@dataclass
class Segments:
    """The layout section of v5-segments, and what lies around the segments."""

    layout_length: int | None = None
    version: int = 1
    count: int = 3
    tags: tuple[int, int, int] = (1, 2, 3)
    # What the section says of a segment's start or end, by name, where that is not so.
    claims: dict[str, int] = field(default_factory=dict)
    # What fills the metadata and the header segment; None is zeros up to the end of a block.
    metadata_room: bytes | None = None
    header_room: bytes | None = None
    # Bytes in front of a segment that belong to none, by the segment's name.
    gaps: dict[str, bytes] = field(default_factory=dict)

    def encode(self, marks: Mapping[Hashable, int]) -> bytes:
        def place(name: str) -> int:
            return self.claims.get(name, marks.get(name, 0))

        metadata, header, data = self.tags
        section = b"".join(
            [
                struct.pack("<BB", self.version, self.count),
                struct.pack(
                    "<BQQ", metadata, place("metadata_start"), place("metadata_end")
                ),
                struct.pack("<BQQ", header, place("header_start"), place("header_end")),
                struct.pack("<BQ", data, place("data_start")),
            ]
        )
        length = len(section) if self.layout_length is None else self.layout_length
        return struct.pack("<Q", length) + section


@dataclass
class File:
    """A whole file. The order of entries is that of the index, the order of records that of the headers."""

    data_version: int
    tensors: list[Tensor]
    entries: list[Entry]
    records: list[Record]
    layout: str
    magic: bytes = MAGIC
    flags: bytes = bytes(32)
    data_sum: int | None = None
    unused: bytes = bytes(8)
    count: int | None = None
    # In v5-segments only.
    segments: Segments | None = None
    index_length: int | None = None
    index_padding: bytes = b""
    # In layouts with headers first: the order of the data, where it is not that of the headers.
    data_order: list[Record] | None = None
    terminator_gap: bytes = b""
    terminator: bytes = TERMINATOR
    trailer: bytes = b""

    @staticmethod
    def of(
        tensors: list[Tensor],
        data_version: int = 1,
        seed: int = 0,
        lock: Lock | None = None,
        layout: str | None = None,
    ) -> File:
        """A right file of these tensors. Data version 5 alone does not tell the layout."""
        layout = layout or f"v{data_version}"
        row = described(layout)
        entries, records = [], []
        for number, tensor in enumerate(tensors):
            name = wire_name(tensor.path) if tensor.name is None else tensor.name
            plaintext = tensor.plaintext(seed)
            record = Record(
                name,
                tensor.dtype.encode("latin-1"),
                list(tensor.shape),
                plaintext,
                tensor.kind,
                tensor.module_index,
                headers_first=row.headers_first,
            )
            entry = Entry(
                record.name,
                record.dtype,
                list(tensor.shape),
                len(plaintext),
                record,
                tensor.kind,
            )
            if row.entry_versions:
                tag(entry, any(dim >> 32 for dim in tensor.shape))
            if lock is not None:
                lock.apply(record, noise(f"{seed}/nonce/{number}", sodium.NONCE_BYTES))
            records.append(record)
            entries.append(entry)
        file = File(data_version, list(tensors), entries, records, layout)
        flags = FLAG_ENCRYPTED if lock is not None and data_version >= 4 else 0
        file.flags = (flags | row.flag).to_bytes(32, "little")
        if row.segments:
            file.segments = Segments()
        return file

    @property
    def encrypted(self) -> bool:
        return self.data_version == 3 or (
            self.data_version >= 4 and bool(self.flags[0] & FLAG_ENCRYPTED)
        )

    def marks(self) -> dict[Hashable, int]:
        """Where the index, the segments, and the header and the data of each record lie."""
        return self._write({}).marks

    def offsets(self) -> list[tuple[int, int]]:
        """Where the header and the data of each record begin."""
        marks = self.marks()
        return [
            (marks["header", id(record)], marks["data", id(record)])
            for record in self.records
        ]

    def encode(self) -> bytes:
        # Numbers have a fixed size, so the first pass shows where everything lies, and the second one can say so.
        return bytes(self._write(self.marks()).content)

    def _write(self, marks: Mapping[Hashable, int]) -> Output:
        index = self._index(marks)
        length = len(index) if self.index_length is None else self.index_length
        segments = self.segments
        out = Output()
        out.add(self._file_header())
        if segments is not None:
            out.add(segments.encode(marks), segments.gaps.get("metadata", b""))
        out.mark("metadata_start")
        out.add(struct.pack("<Q", length))
        out.mark("index")
        out.add(index)
        if segments is not None:
            fill(out, segments.metadata_room)
            out.mark("metadata_end")
            out.add(segments.gaps.get("header", b""))
        out.mark("header_start")
        if described(self.layout).headers_first:
            for record in self.records:
                write_header(out, record)
            if segments is not None:
                fill(out, segments.header_room)
                out.mark("header_end")
                out.add(segments.gaps.get("data", b""))
            out.mark("data_start")
            for record in self.data_order or self.records:
                self._write_data(out, record)
        else:
            for record in self.records:
                write_header(out, record)
                self._write_data(out, record)
        out.mark("end")
        out.add(self.terminator_gap, self.terminator, self.trailer)
        return out

    def _write_data(self, out: Output, record: Record) -> None:
        if record.data_gap is not None:
            out.add(record.data_gap)
        elif self.segments is not None:
            out.align(SEGMENT_DATA_BYTES, out.marks["data_start"])
        out.mark(("data", id(record)))
        out.add(record.stored)

    def _index(self, marks: Mapping[Hashable, int]) -> bytes:
        """The entries and their padding. Offsets in v5-segments are relative to the segment."""
        relative = self.segments is not None
        header_base = marks.get("header_start", 0) if relative else 0
        data_base = marks.get("data_start", 0) if relative else 0
        entries = [
            entry.encode(
                marks.get(("header", id(entry.record)), header_base) - header_base,
                marks.get(("data", id(entry.record)), data_base) - data_base,
            )
            for entry in self.entries
        ]
        return b"".join(entries) + self.index_padding

    def _file_header(self) -> bytes:
        data_sum = sum(len(record.plaintext) for record in self.records)
        return b"".join(
            [
                self.magic,
                struct.pack("<I", self.data_version),
                self.flags,
                struct.pack("<Q", data_sum if self.data_sum is None else self.data_sum),
                self.unused,
                struct.pack(
                    "<Q", len(self.entries) if self.count is None else self.count
                ),
            ]
        )

    def expected(self) -> dict[str, Any]:
        """What the file decodes to, as canonical JSON, in the order of the index.

        The tensors and records have to be side by side.
        """
        tensors = {
            id(record): tensor
            for tensor, record in zip(self.tensors, self.records, strict=True)
        }
        return {
            "data_version": self.data_version,
            "layout": self.layout,
            "encrypted": self.encrypted,
            "tensors": [
                decode_of(tensors[id(entry.record)], entry.record)
                for entry in self.entries
            ],
        }


def tag(entry: Entry, is_long: bool) -> None:
    """Makes an entry that has a version, and gives its header dimensions of the same width."""
    entry.version = LONG_ENTRY_VERSION if is_long else ENTRY_VERSION
    entry.dim = entry.record.dim = LONG_DIM if is_long else DIM


def write_header(out: Output, record: Record) -> None:
    out.add(record.gap)
    out.mark(("header", id(record)))
    out.add(record.header())


def fill(out: Output, room: bytes | None) -> None:
    """What is left of a segment."""
    if room is None:
        out.align(BLOCK_BYTES)
    else:
        out.add(room)


def decode_of(tensor: Tensor, record: Record) -> dict[str, Any]:
    """What one tensor decodes to."""
    digest = hashlib.sha256(record.plaintext).hexdigest()
    return {
        "path": tensor.path,
        "kind": KINDS[record.kind],
        "module_index": record.module_index,
        "dtype": torch_name(tensor.dtype),
        "wire_dtype": tensor.dtype,
        "shape": record.shape,
        "meta": tensor.meta,
        "data_length": len(record.plaintext),
        "sha256": None if tensor.meta else digest,
        "crc32_field": record.stored_hash(CRC32),
        "sha256_field": record.stored_hash(SHA256),
    }
