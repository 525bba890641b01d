"""The structures of a file that describe one tensor: index entry, tensor header and its hash list.

What is left at None is worked out when the bytes are made: lengths and hashes agree with everything else unless a
recipe says otherwise. Where the structures lie in a file is not their business; see builder.py.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass, field

STATE_DICT = 2
CRC32, SHA256 = range(2)
HASH_BYTES = {CRC32: 4, SHA256: 32}
# In v5-flagged-dims and v5-long-dims: the version of an index entry, and the struct code of its dimensions.
ENTRY_VERSION, LONG_ENTRY_VERSION = 1, 5
DIM, LONG_DIM = "I", "Q"


@dataclass
class Hash:
    """One hash of a tensor header. A value of None is computed."""

    type: int
    value: bytes | None = None
    size: int | None = None

    def placed_bytes(self) -> int:
        return HASH_BYTES[self.type] if self.value is None else len(self.value)

    def encode(self, digests: dict[int, bytes]) -> bytes:
        """The hash as it is stored; without digests its value is zeros, as the hashed header has it."""
        size = self.placed_bytes()
        value = bytes(size)
        if digests:
            value = digests[self.type] if self.value is None else self.value
        return bytes([self.type, size if self.size is None else self.size]) + value


def both_hashes() -> list[Hash]:
    return [Hash(CRC32), Hash(SHA256)]


@dataclass
class Record:
    """A tensor header and the data behind it."""

    name: bytes
    dtype: bytes
    shape: list[int]
    plaintext: bytes
    kind: int = STATE_DICT
    module_index: int = 0
    data_length: int | None = None
    hashes: list[Hash] = field(default_factory=both_hashes)
    crypt: bytes | None = None
    ciphertext: bytes | None = None
    # How wide a dimension is, as a struct code.
    dim: str = DIM
    # In a layout with headers first: the hashes cover less of the header, and data need not follow it.
    headers_first: bool = False
    # Bytes that belong to nothing: in front of the header, in front of the data, and inside the header.
    gap: bytes = b""
    data_gap: bytes | None = None
    extra: bytes = b""
    # Fields that count others, where a recipe wants them to lie.
    header_length: int | None = None
    name_length: int | None = None
    dtype_length: int | None = None
    ndim: int | None = None
    hashes_length: int | None = None
    hash_count: int | None = None
    crypt_length: int | None = None

    @property
    def stored(self) -> bytes:
        return self.plaintext if self.ciphertext is None else self.ciphertext

    def digests(self) -> dict[int, bytes]:
        hashed = self.hashed_header() + self.plaintext
        return {
            CRC32: struct.pack("<I", zlib.crc32(hashed)),
            SHA256: hashlib.sha256(hashed).digest(),
        }

    def hashed_header(self) -> bytes:
        """What the hashes cover of the header."""
        if self.headers_first:
            return self._description() + self._data_length()
        return (
            self._description() + self._hash_list({}) + self.extra + self._data_length()
        )

    def header(self) -> bytes:
        return self._encode(self.digests())

    def header_bytes(self) -> int:
        """The real size of the header, whatever header_length says."""
        return len(self._encode({}, header_length=0))

    def stored_hash(self, hash_type: int) -> str | None:
        """The hash field as the canonical JSON shows it; the CRC32 is a number."""
        for entry in self.hashes:
            if entry.type == hash_type:
                value = entry.value or self.digests()[hash_type]
                return value[::-1].hex() if hash_type == CRC32 else value.hex()
        return None

    def _encode(
        self, digests: dict[int, bytes], header_length: int | None = None
    ) -> bytes:
        return b"".join(
            [
                self._description(header_length),
                self._hash_list(digests),
                self._crypt_block(),
                self.extra,
                self._data_length(),
            ]
        )

    def _description(self, header_length: int | None = None) -> bytes:
        """The header up to its hash list."""
        if header_length is None:
            header_length = self.header_length
        if header_length is None:
            header_length = self.header_bytes()
        front = struct.pack("<QHB", header_length, self.module_index, self.kind)
        return front + encode_name_dtype_shape(self)

    def _hash_list(self, digests: dict[int, bytes]) -> bytes:
        hashes = b"".join(entry.encode(digests) for entry in self.hashes)
        hash_count = len(self.hashes) if self.hash_count is None else self.hash_count
        hashes_length = (
            1 + len(hashes) if self.hashes_length is None else self.hashes_length
        )
        return struct.pack("<HB", hashes_length, hash_count) + hashes

    def _crypt_block(self) -> bytes:
        if self.crypt is None:
            return b""
        counted = len(self.crypt) if self.crypt_length is None else self.crypt_length
        return struct.pack("<Q", counted) + self.crypt

    def _data_length(self) -> bytes:
        length = len(self.plaintext) if self.data_length is None else self.data_length
        return struct.pack("<q", length)


@dataclass
class Entry:
    """What the index says of a tensor."""

    name: bytes
    dtype: bytes
    shape: list[int]
    data_length: int
    record: Record
    kind: int = STATE_DICT
    header_offset: int | None = None
    data_offset: int | None = None
    name_length: int | None = None
    dtype_length: int | None = None
    ndim: int | None = None
    # In those two layouts, the version that the entry begins with.
    version: int | None = None
    dim: str = DIM

    def encode(self, header_offset: int, data_offset: int) -> bytes:
        if self.header_offset is not None:
            header_offset = self.header_offset
        if self.data_offset is not None:
            data_offset = self.data_offset
        offsets = struct.pack("<QQQ", header_offset, data_offset, self.data_length)
        version = b"" if self.version is None else struct.pack("<I", self.version)
        described = encode_name_dtype_shape(self, struct.pack("<B", self.kind))
        return version + described + offsets


def encode_name_dtype_shape(described: Entry | Record, kind: bytes = b"") -> bytes:
    """What an index entry and a tensor header have in common; the entry has its kind behind the name."""

    def counted(field_length: int | None, value: bytes | list[int]) -> int:
        return len(value) if field_length is None else field_length

    return b"".join(
        [
            struct.pack("<H", counted(described.name_length, described.name)),
            described.name,
            kind,
            struct.pack("<B", counted(described.dtype_length, described.dtype)),
            described.dtype,
            struct.pack("<B", counted(described.ndim, described.shape)),
            struct.pack(f"<{len(described.shape)}{described.dim}", *described.shape),
        ]
    )
