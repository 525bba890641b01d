"""Wrong adapters that compare the hashes and MACs of a file with right ones in a part of their bytes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from hashlib import sha256

from overlooking import overlooks
from places import Entry, Header, layout_of, structures
from rewriting import sodium
from wrong_adapter import Json, Question

# From the recipes of the corpus, which rewriting has put within reach.
from sealing import PARALLEL, SEQUENTIAL, seal
from wire import CRC32, HASH_BYTES

# What a reader looks at of a value.
Part = Callable[[bytes], bytes]
# The values of a file, each with the right one.
Pairs = Callable[[Question], Iterator[tuple[bytes, bytes]]]


def first_half(value: bytes) -> bytes:
    return value[: len(value) // 2]


def last_half(value: bytes) -> bytes:
    return value[len(value) // 2 :]


def bytes_before_a_nul(value: bytes) -> bytes:
    return value.partition(b"\0")[0]


def stored_hashes(question: Question) -> Iterator[tuple[bytes, bytes]]:
    """Those of a plain file that the reader takes apart; it compares CRC32s as numbers, all of them right or none."""
    file = question.file()
    for header, entry in structures(file):
        message = hashed_message(file, header, entry)
        for found in header.hashes:
            value = file[found.value_at : found.value_at + HASH_BYTES[found.type]]
            if found.type != CRC32:
                yield value, sha256(message).digest()
            elif value != struct.pack("<I", zlib.crc32(message)):
                raise ValueError("a CRC32 is wrong")


def hashed_message(file: bytes, header: Header, entry: Entry) -> bytes:
    """What the hashes of a plain tensor cover."""
    data = file[entry.data_at : entry.data_at + entry.data_length]
    if layout_of(file) in ("v5-headers-first", "v5-segments"):
        described = file[header.at : header.shape_end]
        return described + struct.pack("<Q", entry.data_length) + data
    hashed = bytearray(file[header.at : header.end])
    for found in header.hashes:
        at, size = found.value_at - header.at, HASH_BYTES[found.type]
        hashed[at : at + size] = bytes(size)
    return bytes(hashed) + data


def stored_macs(question: Question) -> Iterator[tuple[bytes, bytes]]:
    """Those of a file that is opened with its key itself."""
    if "key_hex" not in question.request:
        raise ValueError("a passphrase is given, or nothing")
    key, file = bytes.fromhex(question.request["key_hex"]), question.file()
    for header, entry in structures(file):
        stored = file[entry.data_at : entry.data_at + entry.data_length]
        for chunk in header.chunks:
            if chunk.type == PARALLEL:
                size, nonce = struct.unpack_from("<Q24s", chunk.payload)
                # A stream cipher: sealing the ciphertext opens it.
                _, macs = seal(seal(stored, key, nonce, size)[0], key, nonce, size)
                found = chunk.payload[40:]
            elif chunk.type == SEQUENTIAL:
                nonce, found = chunk.payload[:24], chunk.payload[24:]
                opened, _ = sodium.secretbox(stored, nonce, key)
                macs = [sodium.secretbox(opened, nonce, key)[1]]
            else:
                continue
            for number, mac in enumerate(macs):
                at = sodium.MAC_BYTES * number
                yield found[at : at + sodium.MAC_BYTES], mac


def compares(what: str, rule: str, pairs: Pairs, part: Part, *caught_by: str) -> None:
    """Registers a reader that compares these values in a part of their bytes."""

    def overlook(question: Question, right: Json) -> bool:
        return all(part(found) == part(wanted) for found, wanted in pairs(question))

    name = part.__name__
    overlook.__name__ = f"{what}_compared_in_{name}"
    overlook.__doc__ = f"Compares the {name.replace('_', ' ')} of each {what} alone."
    overlooks(rule, caught_by=caught_by)(overlook)


SHA256_CASES = "hash-sha256-last-bit", "hash-sha256-last-bit-after-nul"
for looked_at, caught in (
    (first_half, SHA256_CASES),
    (last_half, ("hash-sha256-first-bit",)),
    (bytes_before_a_nul, SHA256_CASES[1:]),
):
    compares("sha256", "TZR-HSH-006", stored_hashes, looked_at, *caught)
HEADERS_FIRST_CASES = "headers-first-forged-mac", "segments-forged-mac"
for looked_at, endings, others in (
    (first_half, ("mac", "mac-after-nul"), HEADERS_FIRST_CASES),
    (last_half, ("mac-first-byte",), ()),
    (bytes_before_a_nul, ("mac-after-nul",), ()),
):
    compares(
        *("mac", "TZR-CRY-016", stored_macs, looked_at),
        *(f"forgery-{c}-{end}" for c in ("parallel", "sequential") for end in endings),
        *others,
    )
