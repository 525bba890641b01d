"""Wrong adapters that fail on content that is valid and rare: sizes next to that of a buffer, large counts, rare types.

Readers that read a number as one of another type are made from the model: conformance/planted_bugs/widths.cc.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Callable, Iterator

from rewriting import Writing, writes
from trusting import refused
from wrong_adapter import Json, Question, answers, enter, only

FAMILIES = ("v4", "first", "segments", "long", "flagged")
KNOWN_FLOAT8 = ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")
KNOWN_UNITS = ("[ns]", "[s]")
# The length, type and method of a chunk of key derivation.
DERIVATION = struct.pack("<QHH", 42, 1, 1)
OPSLIMIT_MAX, MEMLIMIT_MAX, DERIVATIONS_MAX = 4, 1 << 30, 8


def tensors_of(question: Question) -> list[Json]:
    """The tensors of a file that is right."""
    decoded = question.right_answer(command="decode")
    return decoded["decoded"]["tensors"] if "decoded" in decoded else []


def refuses_tensors(
    question: Question, message: str, is_refused: Callable[[Json], bool]
) -> Json:
    """Refuses files with a tensor that the reader does not take."""
    if question.is_about_reading() and any(map(is_refused, tensors_of(question))):
        return refused(message)
    return question.right_answer()


# Numbers.


@answers(
    "TZR-NAM-006",
    "TZR-NAM-002",
    options=only("*structured-*") + only("unusual-*"),
    caught_by=("unusual-positions",),
)
def positions_compared_as_doubles(question: Question) -> Json:
    """Takes two list positions for one if they are one as doubles."""
    if not question.is_about_reading():
        return question.right_answer()
    paths = [tensor["path"] for tensor in tensors_of(question)]
    compared = [
        tuple(float(part) if isinstance(part, int) else part for part in path)
        for path in paths
    ]
    if len(set(compared)) < len(paths):
        return refused("two tensors have the same path")
    return question.right_answer()


@answers(
    "TZR-HDR-005",
    options=only("large-tensors-*"),
    caught_by=("large-tensors-65537",),
)
def tensors_counted_in_two_bytes(question: Question) -> Json:
    """Refuses more tensors than two bytes count."""
    if question.is_about_reading() and len(tensors_of(question)) > 1 << 16:
        return refused("too many tensors")
    return question.right_answer()


@answers(
    "TZR-HDR-005",
    options=only("large-tensors-257-*") + only("header-*"),
    caught_by=tuple(f"large-tensors-257-{family}" for family in FAMILIES),
)
def tensors_counted_in_a_byte(question: Question) -> Json:
    """Refuses more tensors than a byte counts."""
    if question.is_about_reading() and len(tensors_of(question)) > 1 << 8:
        return refused("too many tensors")
    return question.right_answer()


@answers(
    "TZR-IDX-005",
    options=only("meta-*") + only("shape-*") + only("unusual-*"),
    caught_by=("unusual-nominal-sizes",),
)
def nominal_sizes_added(question: Question) -> Json:
    """Refuses a file whose tensors have 2^64 elements or more together."""
    if question.is_about_reading():
        shapes = [tensor["shape"] for tensor in tensors_of(question)]
        if sum(math.prod(shape) for shape in shapes) >> 64:
            return refused("the tensors are too large")
    return question.right_answer()


@answers(
    "TZR-NAM-001",
    "TZR-IDX-016",
    options=only("name-*") + only("tree-*") + only("unusual-*"),
    caught_by=("unusual-names-of-digits",),
)
def names_of_digits_first(question: Question) -> Json:
    """Keeps the tensors in an object of JavaScript, which puts names that are array indexes first."""
    right = question.right_answer()
    if "decoded" in right:

        def place(tensor: Json) -> int:
            name = str(tensor["path"][0]) if len(tensor["path"]) == 1 else ""
            is_index = re.fullmatch(r"0|[1-9][0-9]{0,8}", name)
            return int(name) if is_index else 1 << 32

        right["decoded"]["tensors"].sort(key=place)
    return right


# Buffers.


def reads_wrongly(bits: int, is_encrypted: bool) -> None:
    """Registers a reader that loses what follows the first buffer of data, if it is less than eight bytes."""
    kind = "encrypted" if is_encrypted else "plain"
    size = 1 << bits

    def answer(question: Question) -> Json:
        right = question.right_answer()
        decoded = right.get("decoded", {"encrypted": None, "tensors": []})
        if decoded["encrypted"] == is_encrypted:
            for tensor in decoded["tensors"]:
                if 0 < tensor["data_length"] - size < 8:
                    tensor["sha256"] = hashlib.sha256(b"").hexdigest()
        return right

    answer.__name__ = f"rest_after_2_{bits}_lost_{kind}"
    answer.__doc__ = f"Loses less than eight bytes after 2^{bits}, {kind}."
    large = "large-" if bits > 13 else ""
    enter(
        answer,
        ("TZR-HSH-006",),
        answer,
        only("*buffer-*-2-??"),
        caught_by=(f"{large}buffer-{kind}-2-{bits}",),
    )


for buffer_bits in (12, 16, 20, 22):
    for encrypted in (False, True):
        reads_wrongly(buffer_bits, encrypted)


@writes(
    "TZR-HSH-006",
    cases="encode-*buffer-plain-2-*",
    caught_by=("encode-large-buffer-plain-2-20",),
)
def rest_after_a_mebibyte_not_written(writing: Writing) -> None:
    """Writes zeros for less than eight bytes after 2^20."""
    size = 1 << 20
    for record in writing.file.records:
        if 0 < len(record.plaintext) - size < 8:
            rest = len(record.plaintext) - size
            record.plaintext = record.plaintext[:size] + bytes(rest)


# Types and names.


@answers(
    "TZR-DTY-001",
    options=only("dtype-*") + only("unusual-*"),
    caught_by=(
        *("unusual-datetime", "unusual-datetime-big-endian"),
        *("unusual-timedelta", "unusual-timedelta-big-endian"),
    ),
)
def few_units_known(question: Question) -> Json:
    """Knows dates in seconds and nanoseconds only."""

    def is_refused(tensor: Json) -> bool:
        code, unit = tensor["wire_dtype"][1:3], tensor["wire_dtype"][3:]
        known = unit in KNOWN_UNITS or unit == "[2147483647s]"
        return code in ("M8", "m8") and unit != "" and not known

    return refuses_tensors(question, "unknown unit", is_refused)


@answers(
    "TZR-DTY-001",
    options=only("dtype-*") + only("unusual-*"),
    caught_by=(
        *("unusual-datetime", "unusual-datetime-big-endian", "unusual-foreign-marks"),
        *("unusual-timedelta", "unusual-timedelta-big-endian"),
    ),
)
def unit_required(question: Question) -> Json:
    """Refuses dates without a unit."""
    return refuses_tensors(
        question, "no unit", lambda tensor: tensor["wire_dtype"][1:] in ("M8", "m8")
    )


@answers(
    "TZR-DTY-003",
    options=only("dtype-*") + only("unusual-*") + only("width-dtype-*"),
    caught_by=(
        *("unusual-float8-little", "unusual-float8-none"),
        "dtype-float8-of-no-release",
        *(f"width-dtype-{family}" for family in FAMILIES),
    ),
)
def known_8_bit_floats_only(question: Question) -> Json:
    """Refuses types of torch.float8_ that it has no name for."""

    def is_refused(tensor: Json) -> bool:
        _, found, word = tensor["wire_dtype"].partition("\0torch.float8_")
        return bool(found) and word not in KNOWN_FLOAT8

    return refuses_tensors(question, "unknown type", is_refused)


@answers(
    "TZR-NAM-001",
    options=only("name-*") + only("unusual-*"),
    caught_by=("unusual-names", "unusual-structured-names"),
)
def replacement_character_refused(question: Question) -> Json:
    """Takes U+FFFD in a name for the mark of a broken one."""
    return refuses_tensors(
        question,
        "the name is not UTF-8",
        lambda tensor: "\ufffd" in str(tensor["path"]),
    )


# Secrets.


@answers(
    "TZR-CRY-012",
    "TZR-CRY-019",
    options=only("*passphrase-*"),
    caught_by=(
        *("unusual-passphrase-carriage-return", "unusual-passphrase-line-end"),
        "encode-unusual-passphrase-line-end",
    ),
)
def line_end_of_passphrase_lost(question: Question) -> Json:
    """Takes line ends at the end of a passphrase away."""
    if "passphrase" not in question.request:
        return question.right_answer()
    return question.right_answer(
        passphrase=question.request["passphrase"].rstrip("\r\n")
    )


def derivations(file: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The key derivations of a file: opslimit, memlimit, salt."""
    at = file.find(DERIVATION)
    while at >= 0:
        opslimit, memlimit = struct.unpack_from("<QQ", file, at + len(DERIVATION))
        yield opslimit, memlimit, file[at + 34 : at + 50]
        at = file.find(DERIVATION, at + 1)


@answers(
    "TZR-CRY-019",
    options=only("*passphrase-*") + only("unusual-*"),
    caught_by=("unusual-raw-key-any-derivation",),
)
def limits_of_derivations_without_one(question: Question) -> Json:
    """Limits what a key derivation may take even if a raw key is given."""
    if question.is_about_reading() and "key_hex" in question.request:
        for opslimit, memlimit, _ in derivations(question.file()):
            if opslimit > OPSLIMIT_MAX or memlimit > MEMLIMIT_MAX:
                return refused("the key derivation takes too much")
    return question.right_answer()


@answers(
    "TZR-CRY-019",
    options=only("*passphrase-*") + only("unusual-*"),
    caught_by=("unusual-raw-key-many-derivations",),
)
def derivations_counted_without_one(question: Question) -> Json:
    """Counts key derivations even if a raw key is given."""
    if question.is_about_reading() and "key_hex" in question.request:
        # What is beyond the limits has an adapter of its own.
        found = {
            derived
            for derived in derivations(question.file())
            if derived[0] <= OPSLIMIT_MAX and derived[1] <= MEMLIMIT_MAX
        }
        if len(found) > DERIVATIONS_MAX:
            return refused("there are too many key derivations")
    return question.right_answer()
