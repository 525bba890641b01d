"""Wrong adapters that do not answer as they should: they crash, hang, and use too much memory or output."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time

from wrong_adapter import Json, Question, answers, only
from places import COUNT_AT, INDEX_LENGTH_AT, u64

# Beyond every limit of the corpus, and yet within what a machine has.
TOO_MANY_BYTES = 400 << 20
# A hang is one after a second as well as after ten.
SHORT = ("--timeout", "1")
# A process that dies is started again for the next case, which takes time: these adapters get only a few cases.
COUNTS = only("index-count-*")
LENGTHS = only("index-length-*")
LOCKED = only("encryption-nonce-*")
META = only("meta-o*")
MAGIC = only("header-magic-*")
ONE_SHOT = ("decode", "verify", "encode")


def number_at(question: Question, at: int) -> int:
    """A number of a file that is being read, or 0."""
    if not question.is_about_reading():
        return 0
    file = question.file()
    return u64(file, at) if len(file) >= at + 8 else 0


@answers("TZR-IDX-002", "TZR-IDX-003", options=COUNTS)
def count_allocated(question: Question) -> Json:
    """Makes room for as many tensors as the file header promises."""
    promised_bytes = 64 * number_at(question, COUNT_AT)
    room = b"\xaa" * min(promised_bytes, TOO_MANY_BYTES)
    answer = question.right_answer()
    del room
    return answer


@answers("TZR-IDX-002", "TZR-IDX-003", options=(*COUNTS, *SHORT))
def count_counted(question: Question) -> Json:
    """Goes through as many tensors as the file header promises before it looks at the first."""
    if number_at(question, COUNT_AT) > 1 << 32:
        time.sleep(3600)
    return question.right_answer()


@answers("TZR-IDX-001", options=LENGTHS)
def index_allocated(question: Question) -> Json:
    """Makes room for the index before it knows that the file is as long."""
    room = b"\xaa" * min(number_at(question, INDEX_LENGTH_AT), TOO_MANY_BYTES)
    answer = question.right_answer()
    del room
    return answer


@answers("TZR-CRY-016", options=LOCKED)
def dies_of_encryption(question: Question) -> Json:
    """Is killed by a signal when it meets an encrypted file."""
    answer = question.right_answer()
    if answer.get("decoded", {}).get("encrypted"):
        os.abort()
    return answer


@answers("TZR-NAM-001")
def exception_for_a_name(question: Question) -> Json:
    """Does not catch the exception that its string class throws for bytes that are not UTF-8."""
    answer = question.right_answer()
    if answer.get("rejected", {}).get("rule") == "TZR-NAM-001":
        return {"crashed": "UnicodeDecodeError: invalid continuation byte"}
    return answer


@answers("TZR-IDX-007", options=META)
def zeros_of_a_meta_tensor(question: Question) -> Json:
    """Prints the zeros that a meta tensor stands for."""
    answer = question.right_answer()
    if any(tensor["meta"] for tensor in answer.get("decoded", {}).get("tensors", [])):
        line = "0 " * (1 << 19)
        for _ in range(100):
            sys.stdout.write(line)
    return answer


@answers("TZR-HDR-002", options=MAGIC)
def says_hello(question: Question) -> Json:
    """Prints a line of its own into the answers."""
    print("reading ...", flush=True)
    return question.right_answer()


@answers("TZR-HDR-002", options=MAGIC)
def answer_has_another_id(question: Question) -> Json:
    """Numbers its answers itself."""
    return {**question.right_answer(), "id": 1000}


@answers("TZR-HDR-002", options=MAGIC, commands=ONE_SHOT)
def exception_for_a_rejection(question: Question) -> Json:
    """Refuses files by an uncaught exception: the exit status is right, and the line is missing."""
    answer = question.right_answer()
    if "rejected" in answer:
        raise ValueError(answer["rejected"]["message"])
    return answer


@answers("TZR-HDR-002", options=MAGIC, commands=ONE_SHOT)
def usage_for_a_rejection(question: Question) -> Json:
    """Refuses files with the exit status of 'not supported', and no line."""
    answer = question.right_answer()
    if "rejected" in answer:
        sys.exit(2)
    return answer


@answers("TZR-HDR-002", options=MAGIC, commands=("decode", "encode", "stream"))
def pipe_read_to_its_end(question: Question) -> Json:
    """Reads a pipe to its end before it looks at the first byte of the file."""
    if question.command != "stream":
        return question.right_answer()
    with tempfile.NamedTemporaryFile(prefix="tzmark-wrong-adapter-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        return question.right_answer(command="decode", file=copy.name)
