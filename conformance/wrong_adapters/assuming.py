"""Wrong adapters that assume something of what they are given: of a specification, a passphrase, or what was before.

Each fails the cases that it names in caught_by, and no other one that it is asked.
"""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from overlooking import overlooks
from places import entries
from rewriting import Writing, misreads, writes
from trusting import refused
from unusual import tensors_of
from wrong_adapter import Json, Question, answers, enter, only
from writing import locked_records

# From the recipes of the corpus, which rewriting has put within reach.
from sodium import NONCE_BYTES

NAME_BYTES_MAX = 65_535
MODULE_INDEX_MAX = 65_535


# Specifications.


@misreads(
    "TZR-REC-003",
    cases="encode-*module-*",
    caught_by=tuple(
        f"encode-refused-module-index-{id_}" for id_ in ("2-16", "negative")
    ),
)
def module_index_cut_to_two_bytes(spec: Json) -> None:
    """Writes the lower two bytes of a module_index."""
    for tensor in spec["tensors"]:
        tensor["module_index"] &= MODULE_INDEX_MAX


@misreads("TZR-REC-007", cases="encode-*kind*", caught_by=("encode-refused-kind",))
def unknown_kind_is_the_last(spec: Json) -> None:
    """Takes every kind that it does not know for state_dict."""
    for tensor in spec["tensors"]:
        if tensor["kind"] not in ("parameter", "buffer"):
            tensor["kind"] = "state_dict"


@misreads(
    "TZR-IDX-006",
    cases="encode-*meta*",
    caught_by=("encode-refused-meta-with-data",),
)
def data_of_meta_dropped(spec: Json) -> None:
    """Drops the data of what is said to be a meta tensor."""
    for tensor in spec["tensors"]:
        if tensor["meta"]:
            tensor["data"] = None


@misreads("TZR-IDX-006", cases="encode-data-*", caught_by=("encode-data-offset",))
def only_tensor_begins_its_file(spec: Json) -> None:
    """Takes data from the beginning of its file if no other tensor has data there."""
    if len(spec["tensors"]) == 1 and spec["tensors"][0]["data"]:
        spec["tensors"][0]["data"]["offset"] = 0


@misreads(
    "TZR-IDX-006",
    cases="encode-*data-*",
    caught_by=("encode-refused-data-beyond-its-file",),
)
def range_moved_into_its_file(spec: Json) -> None:
    """Moves a range that ends behind its file to the end of the file."""
    for tensor in spec["tensors"]:
        if data := tensor["data"]:
            end = Path(data["file"]).stat().st_size
            data["offset"] = min(data["offset"], max(0, end - data["length"]))


def measures_names(
    name: str, mistake: str, id_: str, measure: Callable[[list[Any]], int]
) -> None:
    """Registers a writer that cuts names which are too long, unless it takes them for longer than they may be."""

    def mislead(spec: Json) -> None:
        for tensor in spec["tensors"]:
            path = tensor["path"]
            if len(path) > 1 and measure(path) <= NAME_BYTES_MAX:
                path[0] = path[0][:9_000]

    mislead.__name__, mislead.__doc__ = name, mistake
    misreads(
        *("TZR-REC-003", "TZR-IDX-002"),
        cases="encode-*name-*",
        caught_by=(f"encode-refused-name-too-long-{id_}",),
    )(mislead)


measures_names(
    "name_measured_before_its_escapes",
    "Takes the length of a structured name before it is escaped.",
    "escaped",
    lambda path: len(path[0].encode()) + len('\x1e["",0]'),
)
measures_names(
    "name_measured_by_its_strings",
    "Takes the strings of a structured name for its length, each letter beyond ASCII for six.",
    "structured",
    lambda path: len(path[0].encode("ascii", "backslashreplace"))
    + 2 * sum(char > "\x7f" for char in path[0]),
)


def takes_8_bit_floats(name: str, mistake: str, pattern: str, *ids: str) -> None:
    """Registers a writer that takes each name of this form for a type of eight bits."""

    def mislead(spec: Json) -> None:
        for tensor in spec["tensors"]:
            if re.fullmatch(pattern, tensor["dtype"]):
                tensor["dtype"] = "float8_e5m2"

    mislead.__name__, mislead.__doc__ = name, mistake
    misreads(
        "TZR-DTY-003",
        cases="encode-refused-dtype-*",
        caught_by=tuple(f"encode-refused-dtype-float8-{id_}" for id_ in ids),
    )(mislead)


takes_8_bit_floats(
    "float8_without_a_name",
    "Takes float8_ for a type.",
    r"float8_[a-z0-9]*",
    "nameless",
)
takes_8_bit_floats(
    "float8_of_any_letters",
    "Takes float8_ and letters of any language for a type.",
    r"float8_\w+",
    "letter",
)
takes_8_bit_floats(
    "float8_of_parts",
    "Takes float8_ and names with dots between for a type.",
    r"float8_[a-z0-9.]+",
    "dot",
)


# Trees of names.


def is_prefix(path: list[Any], other: list[Any]) -> bool:
    return len(path) < len(other) and other[: len(path)] == path


@misreads(
    "TZR-NAM-007",
    cases="encode-*tree-*",
    caught_by=("encode-refused-tree-prefix-not-beside",),
)
def prefix_sought_among_neighbours(spec: Json) -> None:
    """Looks for a path that begins another one among neighbours of the paths sorted as text."""
    tensors = sorted(
        spec["tensors"], key=lambda tensor: ".".join(map(str, tensor["path"]))
    )
    paths = [tensor["path"] for tensor in tensors]
    if any(is_prefix(one, other) for one, other in zip(paths, paths[1:])):
        return
    for tensor in tensors:
        if any(is_prefix(tensor["path"], other) for other in paths):
            # What it would write for the paths does not matter: it has to refuse them.
            tensor["path"] = ["renamed"]


def path_of(name: bytes) -> list[Any]:
    return json.loads(name[1:]) if name.startswith(b"\x1e") else [name.decode()]


@overlooks("TZR-NAM-007", caught_by=("tree-prefix-not-beside",))
def prefix_of_neighbours_alone(question: Question, right: Json) -> bool:
    """Looks for a path that begins another one among neighbours of the paths sorted as text."""
    paths = [path_of(entry.name) for entry in entries(question.file())]
    paths.sort(key=lambda path: ".".join(map(str, path)))
    return not any(is_prefix(one, other) for one, other in zip(paths, paths[1:]))


def paths_of(question: Question) -> list[list[Any]]:
    """The paths that are to be written, or that are in a file that is right."""
    if question.command == "encode":
        text = Path(question.request["spec"]).read_text(encoding="utf-8")
        return [tensor["path"] for tensor in json.loads(text)["tensors"]]
    return [tensor["path"] for tensor in tensors_of(question)]


@answers(
    *("TZR-NAM-006", "TZR-NAM-007"),
    options=only("*tree-*"),
    caught_by=("tree-slashes", "encode-tree-slashes"),
)
def paths_with_slashes_between(question: Question) -> Json:
    """Takes paths for one if they are with slashes between their parts."""
    right = question.right_answer()
    names = ["/".join(map(str, path)) for path in paths_of(question)]
    if "rejected" not in right and len(set(names)) < len(names):
        return refused("two tensors have one name")
    return right


# Passphrases.


def refuses_passphrases(
    name: str, mistake: str, ids: tuple[str, ...], is_refused: Callable[[str], bool]
) -> None:
    """Registers a writer that refuses such passphrases."""

    def answer(question: Question) -> Json:
        passphrase = question.request.get("passphrase")
        if question.command == "encode" and passphrase and is_refused(passphrase):
            return refused("the passphrase is too easy")
        return question.right_answer()

    answer.__name__, answer.__doc__ = name, mistake
    enter(
        answer,
        ("TZR-CRY-023",),
        answer,
        only("encode-*passphrase*"),
        caught_by=tuple(f"encode-passphrase-{id_}" for id_ in ids),
    )


refuses_passphrases(
    "blank_in_any_language",
    "Refuses what is white space in Unicode, as if it were blank.",
    ("no-break-space",),
    lambda passphrase: not passphrase.strip("\t\n\v\f\r \xa0"),
)
refuses_passphrases(
    "blank_for_python",
    "Refuses separators of data, which are white space in Python.",
    ("separator",),
    lambda passphrase: not passphrase.strip("\x1c\x1d\x1e\x1f"),
)
refuses_passphrases(
    "letters_asked_for",
    "Refuses passphrases of fewer than eight letters.",
    ("short",),
    lambda passphrase: passphrase.isalpha() and len(passphrase) < 8,
)


def changes_passphrases(
    name: str, mistake: str, ids: tuple[str, ...], change: Callable[[str], str]
) -> None:
    """Registers an adapter that opens and writes files with a changed passphrase."""

    def answer(question: Question) -> Json:
        if not question.request.get("passphrase"):
            return question.right_answer()
        return question.right_answer(passphrase=change(question.request["passphrase"]))

    answer.__name__, answer.__doc__ = name, mistake
    options = only("*unusual-passphrase-*") + only("encode-passphrase*")
    enter(answer, ("TZR-CRY-012",), answer, options, caught_by=ids)


changes_passphrases(
    "passphrase_ends_at_nul",
    "Takes a NUL byte for the end of a passphrase.",
    ("unusual-passphrase-nul",),
    lambda passphrase: passphrase.partition("\0")[0],
)
changes_passphrases(
    "passphrase_of_1023_bytes",
    "Has room for 1,023 bytes of a passphrase.",
    ("unusual-passphrase-longer-than-1024",),
    lambda passphrase: passphrase[:1023],
)
changes_passphrases(
    "passphrase_composed",
    "Composes letters and accents of a passphrase.",
    ("unusual-passphrase-decomposed", "encode-passphrase-unicode"),
    lambda passphrase: unicodedata.normalize("NFC", passphrase),
)
changes_passphrases(
    "passphrase_decomposed",
    "Takes letters and accents of a passphrase apart.",
    ("unusual-passphrase-latin-1",),
    lambda passphrase: unicodedata.normalize("NFD", passphrase),
)


def refuses_files(
    name: str, mistake: str, id_: str, is_refused: Callable[[Json, bytes], bool]
) -> None:
    """Registers a reader that refuses such files if there is a passphrase."""

    def answer(question: Question) -> Json:
        right = question.right_answer()
        if question.is_about_reading() and question.request.get("passphrase"):
            decoded = question.right_answer(command="decode").get("decoded")
            if decoded and is_refused(decoded, question.file()):
                return refused("the passphrase opens nothing")
        return right

    answer.__name__, answer.__doc__ = name, mistake
    enter(
        answer,
        ("TZR-CRY-018", "TZR-CRY-016"),
        answer,
        only("*-passphrase"),
        caught_by=(id_,),
    )


refuses_files(
    "passphrase_needs_data",
    "Derives a key before it looks whether anything needs one.",
    "encryption-nothing-passphrase",
    lambda decoded, file: not any(t["data_length"] for t in decoded["tensors"]),
)
refuses_files(
    "passphrase_for_chunks_only",
    "Derives no key for data that is one message.",
    "encryption-sequential-passphrase",
    lambda decoded, file: (42).to_bytes(8, "little") + b"\3\0" in file,
)

last_passphrase: list[str] = []


@answers(
    "TZR-CRY-018",
    options=only("state-passphrase*"),
    caught_by=("state-passphrase-none",),
)
def passphrase_of_the_question_before(question: Question) -> Json:
    """Opens a file for which there is no secret with the last passphrase."""
    request = question.request
    if "passphrase" in request:
        last_passphrase[:] = [request["passphrase"]]
    elif question.is_about_reading() and "key_hex" not in request and last_passphrase:
        return question.right_answer(passphrase=last_passphrase[0])
    return question.right_answer()


# Random numbers.

generator = random.Random(1)


@writes("TZR-CRY-020", cases="encode-encrypted-*")
def nonces_of_a_seeded_generator(writing: Writing) -> None:
    """Takes nonces from a generator that every process seeds alike."""
    for record in locked_records(writing):
        writing.lock.apply(record, generator.randbytes(NONCE_BYTES))
