"""Wrong adapters that read plain files correctly and fail in one other input mode."""

from __future__ import annotations

import mmap
import os

from wrong_adapter import Json, Question, misreads


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


@misreads("pipe")
def maps_every_file(question: Question) -> Json:
    """Maps whatever it is given into memory, which no pipe can be."""
    if not question.is_about_reading():
        return question.right_answer()
    with open(question.request["file"], "rb") as file:
        if os.path.isfile(file.name) and os.path.getsize(file.name) == 0:
            return question.right_answer()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            offset, length = part(question)
            content = mapped[offset : offset + length]
    return question.right_answer_about(content, offset=None, length=None)
