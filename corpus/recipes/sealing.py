"""Crypt blocks and what seals the data of a tensor: cipher chunks, key derivation chunks, and the lock of a file."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import sodium
from wire import SHA256, Hash, Record

KEY_DERIVATION, PARALLEL, SEQUENTIAL = 1, 2, 3


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
        # Where headers come first, tensors without data lack the CRC32 too.
        if record.plaintext or record.headers_first:
            record.hashes = [Hash(SHA256)]
        if not record.plaintext:
            return
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
