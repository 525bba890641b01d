"""The writer behind the wrong writers: it refuses what the reference refuses, and builds every other file itself.

The reference says whether a specification can be written and what comes of it; the bytes are those of the corpus's
builder, in which every field can be made wrong while hashes and offsets still agree with it.
"""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wrong_adapter import Answerer, Json, Question, enter, is_rejected_for, only

# At the end, because both directories have modules of the names places and unusual.
sys.path.append(str(Path(__file__).resolve().parents[2] / "corpus/recipes"))

import sodium
from builder import BLOCK_BYTES, KINDS, File, Tensor, wire_name
from layouts import HEADERS_FIRST
from sealing import Lock

CHUNK_BYTES = 1024
# What a writer takes at least (TZR-CRY-024).
OPSLIMIT, MEMLIMIT_BYTES = 2, 19 << 20

SpecChange = Callable[[Json], None]


@dataclass
class Writing:
    """A file about to be written: what it is to hold, how it is locked, and its structures."""

    spec: Json
    file: File
    lock: Lock | None
    passphrase: str | None


Damage = Callable[[Writing], None]


def nothing(change: object) -> None:
    """A change that changes nothing."""


def lock_of(request: Json) -> Lock | None:
    if "key_hex" in request:
        return Lock(bytes.fromhex(request["key_hex"]), CHUNK_BYTES)
    if "passphrase" in request:
        salt = secrets.token_bytes(sodium.SALT_BYTES)
        return Lock.from_passphrase(
            request["passphrase"], salt, OPSLIMIT, MEMLIMIT_BYTES
        )
    return None


def data_of(described: Json) -> bytes:
    """The bytes of a tensor of a specification."""
    data = described["data"]
    if data is None:
        return b""
    with open(data["file"], "rb") as stream:
        stream.seek(data["offset"])
        return stream.read(data["length"])


def build(spec: Json, written: Json, lock: Lock | None) -> File:
    """The structures of what the reference has written."""
    described = {json.dumps(tensor["path"]): tensor for tensor in spec["tensors"]}
    tensors = [
        Tensor(
            tensor["path"],
            tensor["wire_dtype"],
            tensor["shape"],
            KINDS.index(tensor["kind"]),
            tensor["module_index"],
            data_of(described[json.dumps(tensor["path"])]),
            tensor["meta"],
        )
        for tensor in written["tensors"]
    ]
    version, layout = written["data_version"], written["layout"]
    file = File.of(tensors, version, secrets.randbits(64), lock, layout)
    if layout == HEADERS_FIRST:
        file.records[0].data_gap = bytes(-file.marks()["data_start"] % BLOCK_BYTES)
    return file


def write(question: Question, mislead: SpecChange, damage: Damage) -> Json:
    """Writes what the reference makes of a changed specification, and damages it."""
    spec = json.loads(Path(question.request["spec"]).read_text(encoding="utf-8"))
    asked = json.loads(json.dumps(spec))
    mislead(asked)
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as copy:
        json.dump(asked, copy)
        copy.flush()
        answer = question.right_answer(spec=copy.name)
    if "encoded" not in answer:
        return answer
    out = question.request["out"]
    look = question.right_answer(command="decode", file=out, spec=None, out=None)
    lock = lock_of(question.request)
    file = build(asked, look["decoded"], lock)
    damage(Writing(spec, file, lock, question.request.get("passphrase")))
    Path(out).write_bytes(file.encode())
    return answer


def writer(mislead: SpecChange, damage: Damage) -> Answerer:
    def answer(question: Question) -> Json:
        if question.command == "encode":
            return write(question, mislead, damage)
        return question.right_answer()

    return answer


def replace_names(spec: Json) -> None:
    """Gives tensors names that no writer rejects. The wrong adapter renames them in the file of the reference."""
    for number, tensor in enumerate(spec["tensors"]):
        tensor["path"] = [number]
        tensor["kind"] = "state_dict"


def restore_names(writing: Writing) -> None:
    """Gives tensors the names and kinds that the specification has."""
    for number, tensor in enumerate(writing.spec["tensors"]):
        entry = writing.file.entries[number]
        entry.name = entry.record.name = wire_name(tensor["path"])
        entry.kind = entry.record.kind = KINDS.index(tensor["kind"])


# Cases of every data version and both kinds of file, enough for a fault that is in every file.
FEW = "encode-version-*"


def writes(*rules: str, cases: str = FEW, **details: Any) -> Callable[[Damage], Damage]:
    """Registers a function that damages a file before it is written."""

    def decorate(damage: Damage) -> Damage:
        enter(damage, rules, writer(nothing, damage), only(cases), **details)
        return damage

    return decorate


def misreads(
    *rules: str, cases: str = FEW, **details: Any
) -> Callable[[SpecChange], SpecChange]:
    """Registers a function that changes the specification before it is followed."""

    def decorate(mislead: SpecChange) -> SpecChange:
        enter(mislead, rules, writer(mislead, nothing), only(cases), **details)
        return mislead

    return decorate


def writes_names(*rules: str) -> Callable[[Damage], Damage]:
    """Registers a function that writes names which the reference refuses for one of the rules."""

    def decorate(restore: Damage) -> Damage:
        def answer(question: Question) -> Json:
            right = question.right_answer()
            if question.command != "encode" or not is_rejected_for(right, *rules):
                return right
            return write(question, replace_names, restore)

        enter(restore, rules, answer, only("encode-refused-*"))
        return restore

    return decorate
