"""Wrong adapters that read plain files correctly and fail in one other input mode."""

from __future__ import annotations

import mmap
import os

from wrong_adapter import Json, Question, misreads


# How much a file may lack that was cut off.
BEHIND_MAX_BYTES = 64


def part(question: Question) -> tuple[int, int]:
    """Offset and length of the part that was asked about; of the whole file if none was."""
    request = question.request
    if "offset" in request:
        return request["offset"], request["length"]
    return 0, os.stat(request["file"]).st_size


@misreads("short-reads")
def takes_one_read_for_all(question: Question) -> Json:
    """Reads once, and takes what came for the whole file."""
    if not question.is_about_reading() or not os.path.isfile(question.request["file"]):
        return question.right_answer()
    offset, length = part(question)
    with open(question.request["file"], "rb", buffering=0) as file:
        file.seek(offset)
        content = file.read(length)
    return question.right_answer_about(content, offset=None, length=None)


@misreads("read-only")
def opens_for_writing(question: Question) -> Json:
    """Opens files to read and write, though it only reads."""
    if question.is_about_reading() and os.path.isfile(question.request["file"]):
        with open(question.request["file"], "r+b"):
            pass
    return question.right_answer()


@misreads("offset")
def seeks_from_the_start(question: Question) -> Json:
    """Begins where it was told to, and then seeks to offsets as if the file began at 0."""
    if not question.is_about_reading() or "offset" not in question.request:
        return question.right_answer()
    offset, length = part(question)
    whole = question.file()
    header_bytes = 40
    seen = whole[offset : offset + header_bytes] + whole[header_bytes:]
    return question.right_answer_about(seen[:length], offset=None, length=None)


@misreads("offset", cases=("headers-first-data-*", "cut-plain-in-data-*"))
def ends_where_the_larger_file_does(question: Question) -> Json:
    """Begins where it was told to, and takes what follows in the larger file for its own."""
    if not question.is_about_reading() or "offset" not in question.request:
        return question.right_answer()
    right = question.right_answer()
    if "rejected" not in right:
        return right
    offset, length = part(question)
    for more_bytes in range(1, BEHIND_MAX_BYTES):
        longer = question.right_answer(offset=offset, length=length + more_bytes)
        if "rejected" not in longer:
            return longer
    return right


@misreads("offset", cases=("hash-sha256-*", "hash-crc32-*"))
def verifies_whole_files_only(question: Question) -> Json:
    """Compares no hashes of a file that lies in a larger one."""
    if question.command != "verify" or "offset" not in question.request:
        return question.right_answer()
    decoded = question.right_answer(command="decode")
    return {"verified": True} if "decoded" in decoded else decoded


@misreads("pipe")
def maps_every_file(question: Question) -> Json:
    """Maps whatever it is given into memory, which no pipe can be."""
    is_name = question.is_about_reading() and os.path.exists(question.request["file"])
    if not is_name:
        return question.right_answer()
    with open(question.request["file"], "rb") as file:
        if os.path.isfile(file.name) and os.path.getsize(file.name) == 0:
            return question.right_answer()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            offset, length = part(question)
            content = mapped[offset : offset + length]
    return question.right_answer_about(content, offset=None, length=None)
