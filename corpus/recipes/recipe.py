"""How a recipe module states its cases: in one call each, with what can be seen in the file filled in."""

from __future__ import annotations

from collections.abc import Iterable

from builder import (
    FOREIGN,
    STRUCTURED,
    File,
    Tensor,
)
from case import LARGE, LARGE_FEATURE, Case, Json, verdict_of
from layouts import described


# Areas of rules that a file of data version 5 without a layout section has to follow in all its layout's entries and
# headers: they are all that tells the layout, so a file that breaks one may be refused as being in none.
LAYOUT_TELLING = {"IDX", "REC", "NAM", "DTY"}


def two_tensors(
    data_version: int = 1, seed: int = 0, layout: str | None = None
) -> File:
    """The file that most defects are put into: small, with an item size above one, and a record behind a record."""
    tensors = [Tensor(["a"], "<u2", [2, 3]), Tensor(["b"], "|u1", [4])]
    return File.of(tensors, data_version, seed, layout=layout)


def features_of(file: File) -> set[str]:
    """What a reader needs beyond plain tensors."""
    features = set()
    if any(record.crypt is not None for record in file.records) or file.encrypted:
        features.add("encryption")
    for tensor in file.tensors:
        if "\0" in tensor.dtype:
            features.add("opaque-dtype")
        if FOREIGN.fullmatch(tensor.dtype):
            features.add("foreign-dtype")
        elif tensor.dtype.startswith(">"):
            features.add("big-endian")
        if tensor.meta:
            features.add("meta")
        if len(tensor.shape) > 32:
            features.add("many-dims")
    if any(entry.name.startswith(STRUCTURED) for entry in file.entries):
        features.add("structured-names")
    return features


class Recipe:
    """The cases of one module. Rules are written without their TZR- in front, with spaces between."""

    def __init__(self, module: str, seed: int) -> None:
        self.seed = seed
        self._origin: Json = {"recipe": f"recipes/{module}.py", "seed": seed}

    def valid(
        self,
        id_: str,
        file: File,
        rules: str,
        why: str,
        *,
        features: Iterable[str] = (),
        key: bytes | None = None,
        passphrase: str | None = None,
        same_file_as: str | None = None,
        is_large: bool = False,
    ) -> Case:
        """A file that has to be read. Large ones are not committed, but made when the corpus is built."""
        directory = LARGE if is_large else "valid"
        size = [LARGE_FEATURE] if is_large else []
        return Case(
            id=id_,
            path=f"{directory}/{same_file_as or id_}.tensors",
            layout=file.layout,
            verdict="valid",
            rules=rule_ids(rules),
            why=why,
            origin=self._origin,
            content=file.encode(),
            features=sorted(
                {*features_of(file), *features, *size, *opening(passphrase)}
            ),
            expected=file.expected(),
            key_hex=None if key is None else key.hex(),
            passphrase=passphrase,
        )

    def refused(
        self,
        id_: str,
        file: File,
        rules: str,
        why: str,
        *,
        content: bytes | None = None,
        features: Iterable[str] = (),
        key: bytes | None = None,
        passphrase: str | None = None,
        same_file_as: str | None = None,
    ) -> Case:
        """A file that breaks the first of the rules; the others are right reasons for a refusal as well.

        same_file_as names a valid case whose file is opened in a way that has to fail.
        """
        if described(file.layout).is_told_by_content and any(
            rule[:3] in LAYOUT_TELLING for rule in rules.split()
        ):
            rules += " HDR-007"
        verdict = verdict_of(rule_ids(rules)[0])
        return Case(
            id=id_,
            path=f"valid/{same_file_as}.tensors"
            if same_file_as
            else f"invalid/{id_}.tensors",
            layout=file.layout,
            verdict=verdict,
            rules=rule_ids(rules),
            why=why,
            origin=self._origin,
            content=file.encode() if content is None else content,
            features=sorted({*features_of(file), *features, *opening(passphrase)}),
            expected=file.expected() if verdict == "integrity-failure" else None,
            key_hex=None if key is None else key.hex(),
            passphrase=passphrase,
        )

    def open(
        self,
        id_: str,
        file: File,
        rules: str,
        why: str,
        choice: str,
        *,
        content: bytes | None = None,
        decodes: bool = True,
        features: Iterable[str] = (),
        key: bytes | None = None,
        passphrase: str | None = None,
        same_file_as: str | None = None,
    ) -> Case:
        """A file that may be read or refused, by a choice of choices.py.

        decodes is false where even an accepting reader has no fixed answer.
        """
        return Case(
            id=id_,
            path=f"valid/{same_file_as}.tensors"
            if same_file_as
            else f"invalid/{id_}.tensors",
            layout=file.layout,
            verdict="implementation-defined",
            rules=rule_ids(rules),
            why=why,
            origin=self._origin,
            content=file.encode() if content is None else content,
            features=sorted({*features_of(file), *features, *opening(passphrase)}),
            tier="SHOULD",
            expected=file.expected() if decodes else None,
            key_hex=None if key is None else key.hex(),
            passphrase=passphrase,
            choice_name=choice,
        )


def opening(passphrase: str | None) -> set[str]:
    """What a reader needs to open a file in this way."""
    return set() if passphrase is None else {"passphrase"}


def rule_ids(rules: str) -> list[str]:
    return [f"TZR-{rule}" for rule in dict.fromkeys(rules.split())]
