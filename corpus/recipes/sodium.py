"""The three functions of libsodium that encrypted files need, called through ctypes."""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import cache

KEY_BYTES = 32
NONCE_BYTES = 24
MAC_BYTES = 16
SALT_BYTES = 16
ARGON2ID_V13 = 2


@cache
def library() -> ctypes.CDLL:
    name = ctypes.util.find_library("sodium")
    if name is None:
        raise SystemExit("libsodium is not installed")
    sodium = ctypes.CDLL(name)
    if sodium.sodium_init() < 0:
        raise SystemExit("libsodium does not start")
    return sodium


def secretbox(plaintext: bytes, nonce: bytes, key: bytes) -> tuple[bytes, bytes]:
    """Ciphertext and MAC of one message, XSalsa20-Poly1305."""
    if (len(nonce), len(key)) != (NONCE_BYTES, KEY_BYTES):
        raise ValueError("nonce or key has the wrong size")
    ciphertext = ctypes.create_string_buffer(max(len(plaintext), 1))
    mac = ctypes.create_string_buffer(MAC_BYTES)
    status = library().crypto_secretbox_detached(
        ciphertext, mac, plaintext, ctypes.c_ulonglong(len(plaintext)), nonce, key
    )
    if status != 0:
        raise ValueError("crypto_secretbox_detached failed")
    return ciphertext.raw[: len(plaintext)], mac.raw


def increment(nonce: bytes, steps: int) -> bytes:
    """The nonce as a little-endian number plus steps, without the carry out."""
    number = int.from_bytes(nonce, "little") + steps
    return (number % (1 << 8 * NONCE_BYTES)).to_bytes(NONCE_BYTES, "little")


def derive_key(passphrase: str, salt: bytes, opslimit: int, memlimit: int) -> bytes:
    """The key that Argon2id v1.3 makes of a passphrase."""
    if len(salt) != SALT_BYTES:
        raise ValueError("salt has the wrong size")
    secret = passphrase.encode()
    key = ctypes.create_string_buffer(KEY_BYTES)
    status = library().crypto_pwhash(
        key,
        ctypes.c_ulonglong(KEY_BYTES),
        secret,
        ctypes.c_ulonglong(len(secret)),
        salt,
        ctypes.c_ulonglong(opslimit),
        ctypes.c_size_t(memlimit),
        ctypes.c_int(ARGON2ID_V13),
    )
    if status != 0:
        raise ValueError("crypto_pwhash failed")
    return key.raw
