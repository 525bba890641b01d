"""What a reader did with a file, as a user of the reader would see it, worst first."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from common.outcomes import Json
from upstream.findings import EXAMPLE_CHARACTERS_MAX

BUG = "bug"
DENIAL_OF_SERVICE = "denial of service"
ZEROS_BYTES_MAX = 1 << 26
# One more than the page shows, so that it marks the cut.
SAID_CHARACTERS_MAX = EXAMPLE_CHARACTERS_MAX + 1


@dataclass(frozen=True)
class Kind:
    name: str
    column: str
    # What a user sees; a number of files follows.
    meaning: str
    classification: str


KINDS = (
    Kind("ends-process", "ends the process", "ends or aborts the process", BUG),
    Kind(
        "foreign-bytes",
        "foreign bytes",
        "accepts an invalid file and returns bytes that are not tensor data of it",
        BUG,
    ),
    Kind(
        "wrong-content",
        "wrong content",
        "returns another dtype, shape or other bytes than the file has",
        BUG,
    ),
    Kind(
        "memory",
        "memory, time",
        "allocates by numbers of the file, or does not end",
        DENIAL_OF_SERVICE,
    ),
    Kind("accepts", "accepts invalid", "accepts an invalid file", BUG),
    Kind("refuses", "refuses valid", "refuses a valid file", BUG),
    Kind(
        "refuses-short",
        "refuses short reads",
        "refuses a valid file if a read returns fewer bytes than requested",
        BUG,
    ),
    Kind(
        "unexpected",
        "unexpected exception",
        "refuses an invalid file with an exception that callers do not expect",
        BUG,
    ),
)
BY_NAME = {kind.name: kind for kind in KINDS}
ORDER = {kind.name: order for order, kind in enumerate(KINDS)}

BEYOND_LIMITS = ("hang", "memory", "output", "disk", "processes")
# The class of the adapter for a panic of a library in Rust.
_PANIC = re.compile(r"[\w.]*\bPanicked:")
_OUT_OF_MEMORY = ("MemoryError", "Cannot allocate", "bad_alloc")


def failed_step(case: Json) -> Json:
    """Returns the step that decided the outcome of a failed case."""
    return next(step for step in case["steps"] if step["outcome"] == case["outcome"])


def said(text: str) -> str:
    """Returns a message as one line, as far as the page shows it: long ones end with paths of one machine."""
    return " ".join(text.split())[:SAID_CHARACTERS_MAX]


def kind_of(case: Json, tensors: Sequence[Json] | None, content: bytes) -> str | None:
    """Returns the kind of a failed case, or None for one that passed or was skipped.

    tensors: what the reader returned for an invalid file that it accepted; None if that is unknown. content: the file.
    """
    outcome = case["outcome"]
    if outcome in ("pass", "implementation-defined", "skipped"):
        return None
    if outcome == "wrong-data":
        return "wrong-content"
    if outcome in BEYOND_LIMITS:
        return "memory"
    if outcome == "accepted-invalid":
        return (
            "foreign-bytes" if has_foreign_bytes(tensors or (), content) else "accepts"
        )
    step = failed_step(case)
    refusal = "refuses" if step["shape"] == "file" else "refuses-short"
    if outcome == "rejected-valid":
        return refusal
    text = step["answer"]["text"] or ""
    if step["process"]["end"] != "answered" or _PANIC.match(text):
        return "ends-process"
    if any(word in text for word in _OUT_OF_MEMORY):
        return "memory"
    return refusal if case["verdict"] == "valid" else "unexpected"


def has_foreign_bytes(tensors: Sequence[Json], content: bytes) -> bool:
    """Returns whether some tensor has bytes that are not in the data of the file.

    Zeros, and zeros after the last bytes of the file, are what a reader makes up for missing data, and not foreign.
    """
    start = 8 + int.from_bytes(content[:8], "little")
    data = content[start:]
    return any(not _is_explained(tensor, data) for tensor in tensors)


def _is_explained(tensor: Json, data: bytes) -> bool:
    length, digest = tensor["data_length"], tensor["sha256"]
    if length == 0:
        return True
    for begin in range(len(data) - length + 1):
        if hashlib.sha256(data[begin : begin + length]).hexdigest() == digest:
            return True
    if length > ZEROS_BYTES_MAX:
        return False
    for begin in range(max(0, len(data) - length), len(data) + 1):
        filled = data[begin:].ljust(length, b"\0")
        if hashlib.sha256(filled).hexdigest() == digest:
            return True
    return False
