#!/usr/bin/env python3
"""Proves that the builder describes the format: it builds every file that upstream wrote again, byte for byte.

Each file is described by its expected decode alone, first with noise for data. That gives the offsets at which the
data of the upstream file lies, and in an encrypted one the nonces. Built again with these, every byte has to agree:
layout section, index, headers, hashes, ciphertext and MACs.
"""

from __future__ import annotations

import json
import struct
import sys
import tarfile
from pathlib import Path

import builder
import sealing
import sodium
from builder import File, Tensor
from case import Json
from layouts import described
from sealing import Lock
from wire import CRC32, SHA256, Hash, Record

CORPUS = Path(__file__).resolve().parent.parent
UPSTREAM_CHUNK_BYTES = 2 << 20
KDF_CHUNK_BYTES = 50
# Cases of the data version 5 branches that were written bit by bit: room is reserved that the tensors don't fill.
INCREMENTAL = {"incremental-page", "mixed-writers", "numpy-arrays", "sequence"}


def unpack(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        streams = {member.name: tar.extractfile(member) for member in tar}
        return {f"upstream/{name}": stream.read() for name, stream in streams.items()}


def describe(decode: Json, lock: Lock | None) -> File:
    """A file of the right structure, but with noise for data."""
    tensors = [
        Tensor(
            tensor["path"],
            tensor["wire_dtype"],
            tensor["shape"],
            builder.KINDS.index(tensor["kind"]),
            tensor["module_index"],
            meta=tensor["meta"],
        )
        for tensor in decode["tensors"]
    ]
    return File.of(tensors, decode["data_version"], lock=lock, layout=decode["layout"])


def first_kdf_chunk(content: bytes) -> bytes:
    """The key derivation chunk of the first tensor that has one, found by its fixed beginning."""
    start = content.find(struct.pack("<QHH", KDF_CHUNK_BYTES - 8, 1, 1))
    return content[start : start + KDF_CHUNK_BYTES]


def lock_of(case: Json, content: bytes) -> Lock | None:
    if "key_hex" in case:
        return Lock(bytes.fromhex(case["key_hex"]), UPSTREAM_CHUNK_BYTES)
    if "passphrase" not in case:
        return None
    opslimit, memlimit = struct.unpack_from("<QQ", first_kdf_chunk(content), 12)
    salt = first_kdf_chunk(content)[-sodium.SALT_BYTES :]
    lock = Lock.from_passphrase(case["passphrase"], salt, opslimit, memlimit)
    lock.chunk_size = UPSTREAM_CHUNK_BYTES
    return lock


def fill(record: Record, stored: bytes, header: bytes, lock: Lock | None) -> None:
    """Gives a record the data that lies in the upstream file, and encrypts it as it was."""
    record.plaintext = stored
    if lock is not None and stored:
        mac_count = -(-len(stored) // lock.chunk_size)
        nonce_end = len(header) - 8 - mac_count * sodium.MAC_BYTES - 8
        nonce = header[nonce_end - sodium.NONCE_BYTES : nonce_end]
        # The cipher is a stream: sealing the ciphertext yields the plaintext.
        record.plaintext, _ = sealing.seal(stored, lock.key, nonce, lock.chunk_size)
        lock.apply(record, nonce)


def is_incremental(case: Json) -> bool:
    return case["origin"]["case"] in INCREMENTAL


def reserve(file: File, content: bytes, index: int) -> None:
    """Makes room where the upstream file has it, all of it zeros."""
    header_start = data_start = 0
    if file.segments is not None:
        section = struct.unpack_from("<BBBQQBQQBQ", content, 73)
        metadata_end, header_start, header_end, data_start = (
            section[at] for at in (4, 6, 7, 9)
        )
        index_bytes = sum(len(entry.encode(0, 0)) for entry in file.entries)
        file.segments.metadata_room = bytes(metadata_end - index - index_bytes)
        headers = sum(record.header_bytes() for record in file.records)
        file.segments.header_room = bytes(header_end - header_start - headers)
    offsets = []
    for entry in file.entries:
        index += len(entry.encode(0, 0))
        offsets.append(struct.unpack_from("<QQ", content, index - 24))
    for record, (header_offset, _) in zip(file.records, offsets, strict=True):
        place = file.marks()["header", id(record)]
        record.gap = bytes(header_start + header_offset - place)
        record.data_gap = b""
    for record, (_, data_offset) in zip(file.records, offsets, strict=True):
        place = file.marks()["data", id(record)]
        record.data_gap = bytes(data_start + data_offset - place)
    file.terminator_gap = bytes(len(content) - file.marks()["end"] - 8)


def stored_hashes(broken_rules: list[str], tensor: Json) -> list[Hash]:
    """The hashes of a file in which some are wrong: the stored ones, where an erratum is about them."""
    crc32 = sha256 = None
    if "TZR-HSH-006" in broken_rules:
        sha256 = bytes.fromhex(tensor["sha256_field"])
    if "TZR-HSH-006" in broken_rules or not tensor["data_length"]:
        crc32 = bytes.fromhex(tensor["crc32_field"])[::-1]
    return [Hash(CRC32, crc32), Hash(SHA256, sha256)]


def rebuild(case: Json, content: bytes, decode: Json) -> bytes:
    lock = lock_of(case, content)
    file = describe(decode, lock)
    # What a decode doesn't show: the informative fields, and how much room the index reserves.
    file.data_sum = struct.unpack_from("<Q", content, 41)[0]
    file.unused = content[49:57]
    index = file.marks()["index"]
    (index_length,) = struct.unpack_from("<Q", content, index - 8)
    index_bytes = sum(len(entry.encode(0, 0)) for entry in file.entries)
    file.index_padding = bytes(index_length - index_bytes)
    if described(file.layout).headers_first and is_incremental(case):
        reserve(file, content, index)
    for record, tensor, (header_offset, data_offset) in zip(
        file.records, decode["tensors"], file.offsets(), strict=True
    ):
        stored = content[data_offset : data_offset + len(record.stored)]
        header = content[header_offset : header_offset + record.header_bytes()]
        fill(record, stored, header, lock)
        if not case["verifies_strict"]:
            record.hashes = stored_hashes(case["rules"], tensor)
    if file.expected() != decode:
        raise SystemExit(f"{case['id']}: the decode of the rebuilt file differs")
    return file.encode()


def main() -> None:
    upstream = json.loads((CORPUS / "upstream" / "cases.json").read_text())
    files: dict[str, bytes] = {}
    for archive in upstream["archives"]:
        files.update(unpack(CORPUS / archive["path"]))
    written = [case for case in upstream["cases"] if "emitter" in case["origin"]]
    wrong = [
        case["id"]
        for case in written
        if rebuild(case, files[case["path"]], json.loads(files[case["expected"]]))
        != files[case["path"]]
    ]
    for id_ in wrong:
        print(f"{id_}: the rebuilt file differs", file=sys.stderr)
    print(f"{len(written)} files rebuilt, {len(wrong)} differ")
    sys.exit(1 if wrong or not written else 0)


if __name__ == "__main__":
    main()
