"""Builds files of data versions 1 to 4, right ones and wrong ones, from a description of their wire layout.

A File holds what the index says (entries) and what lies behind it (records) apart from each other, although a right
file says the same twice: a recipe takes a right file and changes the one field that it wants to be wrong. What is left
at None is worked out when the bytes are made: lengths, offsets and hashes agree with everything else unless a recipe
says otherwise. This module was written from the format alone and shares no code with any codec.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

import sodium

MAGIC = b"|TZR|"
FILE_HEADER_BYTES = 65
TERMINATOR = bytes(8)
FLAG_ENCRYPTED = 1
KINDS = ("parameter", "buffer", "state_dict")
PARAMETER, BUFFER, STATE_DICT = range(3)
CRC32, SHA256 = range(2)
HASH_BYTES = {CRC32: 4, SHA256: 32}
KEY_DERIVATION, PARALLEL, SEQUENTIAL = 1, 2, 3
STRUCTURED = b"\x1e"

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
FOREIGN_ITEM_BYTES = {"|S5": 5, "<U3": 12, ">U3": 12, "<M8[ns]": 8, "<m8[s]": 8}

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
    if dtype in FOREIGN_ITEM_BYTES:
        return FOREIGN_ITEM_BYTES[dtype]
    return int(dtype.partition("\0")[0][2:])


def torch_name(dtype: str) -> str | None:
    """The name of a dtype in torch, without the module; None for foreign types."""
    plain, _, opaque = dtype.partition("\0")
    if opaque:
        return opaque.removeprefix("torch.")
    return PLAIN_DTYPES.get(plain[1:])


# Crypt blocks


def kdf_payload(
    salt: bytes,
    opslimit: int = 1,
    memlimit: int = 8192,
    method: int = 1,
    alg: int = sodium.ARGON2ID_V13,
    salt_length: int | None = None,
) -> bytes:
    head = struct.pack("<HQQi", method, opslimit, memlimit, alg)
    return (
        head
        + struct.pack("<H", len(salt) if salt_length is None else salt_length)
        + salt
    )


def parallel_payload(
    chunk_size: int, nonce: bytes, macs: list[bytes], mac_count: int | None = None
) -> bytes:
    count = len(macs) if mac_count is None else mac_count
    return (
        struct.pack("<Q", chunk_size)
        + nonce
        + struct.pack("<Q", count)
        + b"".join(macs)
    )


def crypt_chunk(chunk_type: int, payload: bytes, length: int | None = None) -> bytes:
    counted = 2 + len(payload) if length is None else length
    return struct.pack("<QH", counted, chunk_type) + payload


def crypt_block(chunks: list[bytes], chunk_count: int | None = None) -> bytes:
    """A crypt block without its length in front."""
    count = len(chunks) if chunk_count is None else chunk_count
    return struct.pack("<H", count) + b"".join(chunks)


def seal(
    plaintext: bytes, key: bytes, nonce: bytes, chunk_size: int
) -> tuple[bytes, list[bytes]]:
    """Ciphertext and MACs of the parallel cipher."""
    chunks = [
        sodium.secretbox(
            plaintext[at : at + chunk_size],
            sodium.increment(nonce, at // chunk_size),
            key,
        )
        for at in range(0, len(plaintext), chunk_size)
    ]
    return b"".join(text for text, _ in chunks), [mac for _, mac in chunks]


# The structures of a file


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
    # Bytes that belong to nothing: in front of the header, and inside it.
    gap: bytes = b""
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
        hashed = self._encode({}, with_crypt=False) + self.plaintext
        return {
            CRC32: struct.pack("<I", zlib.crc32(hashed)),
            SHA256: hashlib.sha256(hashed).digest(),
        }

    def header(self) -> bytes:
        return self._encode(self.digests(), with_crypt=True)

    def header_bytes(self) -> int:
        """The real size of the header, whatever header_length says."""
        return len(self._body({}, with_crypt=True)) + 8

    def stored_hash(self, hash_type: int) -> str | None:
        """The hash field as the canonical JSON shows it; the CRC32 is a number."""
        for entry in self.hashes:
            if entry.type == hash_type:
                value = entry.value or self.digests()[hash_type]
                return value[::-1].hex() if hash_type == CRC32 else value.hex()
        return None

    def _encode(self, digests: dict[int, bytes], with_crypt: bool) -> bytes:
        length = (
            self.header_bytes() if self.header_length is None else self.header_length
        )
        return struct.pack("<Q", length) + self._body(digests, with_crypt)

    def _body(self, digests: dict[int, bytes], with_crypt: bool) -> bytes:
        hashes = b"".join(entry.encode(digests) for entry in self.hashes)
        hash_count = len(self.hashes) if self.hash_count is None else self.hash_count
        hashes_length = (
            1 + len(hashes) if self.hashes_length is None else self.hashes_length
        )
        crypt = b""
        if with_crypt and self.crypt is not None:
            counted = (
                len(self.crypt) if self.crypt_length is None else self.crypt_length
            )
            crypt = struct.pack("<Q", counted) + self.crypt
        length = len(self.plaintext) if self.data_length is None else self.data_length
        return b"".join(
            [
                struct.pack("<HB", self.module_index, self.kind),
                encode_name_dtype_shape(self),
                struct.pack("<HB", hashes_length, hash_count),
                hashes,
                crypt,
                self.extra,
                struct.pack("<q", length),
            ]
        )


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

    def encode(self, header_offset: int, data_offset: int) -> bytes:
        if self.header_offset is not None:
            header_offset = self.header_offset
        if self.data_offset is not None:
            data_offset = self.data_offset
        offsets = struct.pack("<QQQ", header_offset, data_offset, self.data_length)
        return encode_name_dtype_shape(self, struct.pack("<B", self.kind)) + offsets


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
            struct.pack(f"<{len(described.shape)}I", *described.shape),
        ]
    )


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


@dataclass
class Lock:
    """How the tensors of a file are encrypted: by a key, or by a passphrase that a key is derived from."""

    key: bytes
    chunk_size: int = 1024
    sequential: bool = False
    # The key derivation chunk, if the key came from a passphrase.
    kdf: bytes | None = None

    @staticmethod
    def from_passphrase(
        passphrase: str, salt: bytes, opslimit: int = 1, memlimit: int = 8192
    ) -> Lock:
        key = sodium.derive_key(passphrase, salt, opslimit, memlimit)
        kdf = kdf_payload(salt, opslimit, memlimit)
        return Lock(key, kdf=crypt_chunk(KEY_DERIVATION, kdf))

    def apply(self, record: Record, nonce: bytes) -> None:
        """Encrypts a record. Encrypted tensors carry SHA-256 only; those without data are not encrypted."""
        record.crypt = crypt_block([])
        if not record.plaintext:
            return
        record.hashes = [Hash(SHA256)]
        if self.sequential:
            record.ciphertext, mac = sodium.secretbox(record.plaintext, nonce, self.key)
            cipher = crypt_chunk(SEQUENTIAL, nonce + mac)
        else:
            record.ciphertext, macs = seal(
                record.plaintext, self.key, nonce, self.chunk_size
            )
            cipher = crypt_chunk(
                PARALLEL, parallel_payload(self.chunk_size, nonce, macs)
            )
        record.crypt = crypt_block([cipher] if self.kdf is None else [self.kdf, cipher])


@dataclass
class File:
    """A whole file. The order of entries is that of the index, the order of records that of the file."""

    data_version: int
    tensors: list[Tensor]
    entries: list[Entry]
    records: list[Record]
    magic: bytes = MAGIC
    flags: bytes = bytes(32)
    data_sum: int | None = None
    unused: bytes = bytes(8)
    count: int | None = None
    index_length: int | None = None
    index_padding: bytes = b""
    terminator: bytes = TERMINATOR
    trailer: bytes = b""

    @staticmethod
    def of(
        tensors: list[Tensor],
        data_version: int = 1,
        seed: int = 0,
        lock: Lock | None = None,
    ) -> File:
        """A right file of these tensors."""
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
            )
            if lock is not None:
                lock.apply(record, noise(f"{seed}/nonce/{number}", sodium.NONCE_BYTES))
            records.append(record)
            entries.append(
                Entry(
                    record.name,
                    record.dtype,
                    list(tensor.shape),
                    len(plaintext),
                    record,
                    tensor.kind,
                )
            )
        file = File(data_version, list(tensors), entries, records)
        if lock is not None and data_version >= 4:
            file.flags = FLAG_ENCRYPTED.to_bytes(32, "little")
        return file

    @property
    def encrypted(self) -> bool:
        return self.data_version == 3 or (
            self.data_version >= 4 and bool(self.flags[0] & FLAG_ENCRYPTED)
        )

    def offsets(self) -> list[tuple[int, int]]:
        """Where the header and the data of each record begin."""
        index_bytes = sum(len(entry.encode(0, 0)) for entry in self.entries)
        at = FILE_HEADER_BYTES + 8 + index_bytes + len(self.index_padding)
        places = []
        for record in self.records:
            header_offset = at + len(record.gap)
            data_offset = header_offset + record.header_bytes()
            places.append((header_offset, data_offset))
            at = data_offset + len(record.stored)
        return places

    def encode(self) -> bytes:
        places = {
            id(record): place
            for record, place in zip(self.records, self.offsets(), strict=True)
        }
        index = b"".join(
            entry.encode(*places[id(entry.record)]) for entry in self.entries
        )
        index += self.index_padding
        data_sum = sum(len(record.plaintext) for record in self.records)
        file_header = b"".join(
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
        return b"".join(
            [
                file_header,
                struct.pack(
                    "<Q", len(index) if self.index_length is None else self.index_length
                ),
                index,
                *(
                    record.gap + record.header() + record.stored
                    for record in self.records
                ),
                self.terminator,
                self.trailer,
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
            "layout": f"v{self.data_version}",
            "encrypted": self.encrypted,
            "tensors": [
                decode_of(tensors[id(entry.record)], entry.record)
                for entry in self.entries
            ],
        }


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
