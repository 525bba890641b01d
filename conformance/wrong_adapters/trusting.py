"""Wrong adapters that judge files wrongly: they accept what is wrong, or refuse what is right."""

from __future__ import annotations

import struct

from wrong_adapter import Json, Question, answers, is_rejected_for, only
from places import DATA_VERSION_AT, places

VERSIONS = range(1, 6)


def accepted(question: Question) -> Json:
    """An answer that takes the file for right, whatever is in it."""
    if question.command == "verify":
        return {"verified": True}
    content = {"data_version": 4, "layout": "v4", "encrypted": True, "tensors": []}
    return {"decoded": content}


def refused(message: str) -> Json:
    return {"rejected": {"rule": None, "offset": None, "message": message}}


@answers("TZR-HDR-003")
def versions_to_come(question: Question) -> Json:
    """Reads a data version that it does not know as the last one that fits."""
    right = question.right_answer()
    if not is_rejected_for(right, "TZR-HDR-003"):
        return right
    file = bytearray(question.file())
    for version in VERSIONS:
        struct.pack_into("<I", file, DATA_VERSION_AT, version)
        answer = question.right_answer_about(bytes(file))
        if "rejected" not in answer:
            return answer
    return right


@answers("TZR-HSH-005", "TZR-HSH-006", options=only("hash-*"))
def nothing_verified(question: Question) -> Json:
    """Verifies by decoding: hashes are not looked at."""
    if question.command != "verify":
        return question.right_answer()
    decoded = question.right_answer(command="decode")
    return {"verified": True} if "decoded" in decoded else decoded


@answers("TZR-HSH-005", options=only("hash-*"))
def crc32_not_verified(question: Question) -> Json:
    """Does not compare CRC32s."""
    right = question.right_answer()
    return accepted(question) if is_rejected_for(right, "TZR-HSH-005") else right


@answers("TZR-HSH-006", options=only("hash-*"))
def sha256_not_verified(question: Question) -> Json:
    """Does not compare SHA-256s."""
    right = question.right_answer()
    return accepted(question) if is_rejected_for(right, "TZR-HSH-006") else right


@answers("TZR-HSH-005", "TZR-HSH-006", options=only("hash-*"))
def meta_not_verified(question: Question) -> Json:
    """Does not verify tensors without data, although their hashes cover the header."""
    right = question.right_answer()
    if not is_rejected_for(right, "TZR-HSH-005", "TZR-HSH-006"):
        return right
    content = question.right_answer(command="decode")["decoded"]
    before = [
        place
        for place in places(question.file(), content["layout"])
        if place.header_at <= right["rejected"]["offset"]
    ]
    return right if max(before).data_bytes else accepted(question)


@answers("TZR-HSH-004")
def no_hash_is_enough(question: Question) -> Json:
    """Takes a tensor without any hash for verified."""
    right = question.right_answer()
    return accepted(question) if is_rejected_for(right, "TZR-HSH-004") else right


@answers("TZR-CRY-016", options=only("forgery-*"))
def mac_ignored(question: Question) -> Json:
    """Opens with any key: the MACs are not compared."""
    right = question.right_answer()
    return accepted(question) if is_rejected_for(right, "TZR-CRY-016") else right


@answers("TZR-CRY-017")
def key_for_plain_file(question: Question) -> Json:
    """Ignores a key if the file is plain."""
    right = question.right_answer()
    if not is_rejected_for(right, "TZR-CRY-017"):
        return right
    return question.right_answer(key_hex=None, passphrase=None)


@answers("TZR-CRY-018")
def no_key_needed(question: Question) -> Json:
    """Reads encrypted files without a key, and gives the ciphertext for the data."""
    right = question.right_answer()
    return accepted(question) if is_rejected_for(right, "TZR-CRY-018") else right


@answers("TZR-CRY-019")
def passphrase_is_a_key(question: Question) -> Json:
    """Takes a passphrase for files that were sealed with a raw key."""
    right = question.right_answer()
    return accepted(question) if is_rejected_for(right, "TZR-CRY-019") else right


@answers("TZR-CRY-019", "TZR-CRY-011")
def passphrase_forgotten(question: Question) -> Json:
    """Does not use the passphrase that it is given."""
    return question.right_answer(passphrase=None)


@answers("TZR-CRY-015")
def any_key_derivation(question: Question) -> Json:
    """Refuses to derive no key, whatever memory and time the file asks for."""
    right = question.right_answer()
    return accepted(question) if is_rejected_for(right, "TZR-CRY-015") else right


@answers("TZR-IDX-006", "TZR-CRY-007", options=only("shape-*"))
def empty_refused(question: Question) -> Json:
    """Refuses tensors with zero elements."""
    right = question.right_answer()
    tensors = question.right_answer(command="decode").get("decoded", {"tensors": []})
    if any(0 in tensor["shape"] for tensor in tensors["tensors"]):
        return refused("a tensor has no elements")
    return right


@answers("TZR-NAM-002", "TZR-NAM-008", options=only("structured-*"))
def brackets_refused(question: Question) -> Json:
    """Refuses structured names."""
    right = question.right_answer()
    tensors = question.right_answer(command="decode").get("decoded", {"tensors": []})
    if any(len(tensor["path"]) > 1 for tensor in tensors["tensors"]):
        return refused("a name has strange characters")
    return right


@answers("TZR-CRY-004", "TZR-CRY-009", "TZR-CRY-010", options=only("encryption-*"))
def chunks_of_2_mib_only(question: Question) -> Json:
    """Refuses encrypted files whose chunks have another size than upstream's."""
    right = question.right_answer()
    if "rejected" in right or not question.is_about_reading():
        return right
    chunk = struct.pack("<Q", 1024)
    sealed = b"\x02\x00" + chunk
    return refused("strange chunk size") if sealed in question.file() else right
