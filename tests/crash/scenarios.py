"""The changes that the crash tests interrupt, and the files that they change."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from subject import HEADERS, METADATA, Scenario, Tzmark

BOTH = frozenset({METADATA, HEADERS})

KEY_HEX = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
TO_WRITE_WITH = ("--encrypt-key-hex", KEY_HEX)
TO_READ_WITH = ("--key-hex", KEY_HEX)
# Longer than what is free in any segment of the base files, so that both have to grow.
LONG_NAME = "long." + "x" * 6000


class Bases:
    """The files that scenarios change, and what they are changed with."""

    def __init__(self, tzmark: Tzmark, corpus: Path, directory: Path) -> None:
        self._tzmark = tzmark
        self._directory = directory
        numbers = random.Random(3)
        for size in (7, 1000, 5 << 20, 8 << 20):
            (directory / f"{size}.bin").write_bytes(numbers.randbytes(size))
        tree = self._converted(
            "tree", corpus / "upstream/tensorizer-2.11.1/nested.tensors"
        )
        small = self._converted(
            "small", corpus / "upstream/tensorizer-2.11.1/state-dict.tensors"
        )
        self._append(small, self.tensor("first", 1000))
        large = self._copied("large", small)
        self._append(large, self.tensor("large", 8 << 20))
        # A writer makes segments as small as they can be. These leave almost nothing free in one of them.
        crowded = []
        for name, count, name_bytes in (
            ("metadata-full", 40, 60),
            ("headers-full", 50, 3),
        ):
            loose = self._converted("loose", corpus / "valid/dtype-uint8.tensors")
            names = [f"t{i:0{name_bytes - 1}}" for i in range(count)]
            self._append(loose, *(self.tensor(name, 7) for name in names))
            crowded.append(self._converted(name, loose))
        sealed = self._converted("sealed", small, *TO_WRITE_WITH)
        self.files = {
            file.stem: file for file in (tree, small, large, sealed, *crowded)
        }

    def tensor(self, name: str, size: int) -> tuple[str, ...]:
        """The option that appends a tensor of one of the sizes that are there."""
        file = self._directory / f"{size}.bin"
        return "--raw", name, "uint8", str(size), str(file)

    def _converted(self, name: str, source: Path, *options: str) -> Path:
        file = self._directory / f"{name}.tensors"
        self._tzmark.succeed(
            ("convert", str(file), "--layout", "v5-segments", *options), source
        )
        return file

    def _copied(self, name: str, source: Path) -> Path:
        return Path(shutil.copyfile(source, self._directory / f"{name}.tensors"))

    def _append(self, file: Path, *tensors: tuple[str, ...]) -> None:
        self._tzmark.succeed(
            ("append", *(word for tensor in tensors for word in tensor)), file
        )


def exact_scenarios(bases: Bases) -> list[Scenario]:
    """Small changes of every sort, of which every point is tried."""
    tensor = bases.tensor
    return [
        Scenario("append", "small", ("append", *tensor("x", 7), *tensor("y", 1000))),
        Scenario("append a file", "small", ("append", str(bases.files["tree"]))),
        Scenario(
            "append, headers grow",
            "headers-full",
            ("append", *tensor("x01", 7), *tensor("x02", 7), *tensor("x03", 1000)),
            grows=frozenset({HEADERS}),
        ),
        Scenario(
            "append, metadata grows",
            "metadata-full",
            ("append", *tensor("x" * 100, 1000)),
            grows=frozenset({METADATA}),
        ),
        Scenario(
            "append, both grow",
            "small",
            ("append", *tensor(LONG_NAME, 1000)),
            grows=BOTH,
        ),
        Scenario(
            "append to an encrypted file",
            "sealed",
            ("append", *tensor("x", 7), *tensor("y", 1000), *TO_WRITE_WITH),
            read_options=TO_READ_WITH,
        ),
        Scenario(
            "append in several pieces",
            "small",
            ("append", *tensor("x", 5 << 20), *tensor("y", 7), *tensor("z", 5 << 20)),
        ),
        Scenario(
            "rename", "small", ("edit", "--rename", "first", "a.name.that.is.longer")
        ),
        Scenario(
            "rename, both grow",
            "small",
            ("edit", "--rename", "model.bias", LONG_NAME),
            grows=BOTH,
        ),
        Scenario(
            "rename in an encrypted file, both grow",
            "sealed",
            ("edit", "--rename", "model.bias", LONG_NAME, *TO_READ_WITH),
            grows=BOTH,
            read_options=TO_READ_WITH,
        ),
        Scenario("kind", "small", ("edit", "--kind", "first", "buffer")),
        Scenario("drop", "small", ("edit", "--drop", "model.bias")),
        Scenario(
            "several edits",
            "small",
            (
                *("edit", "--rename", "model.bias", '["model", 0, "bias"]'),
                *("--kind", "first", "parameter", "--drop", "model.weight"),
                *("--rename", "model.ln_f", "norm", "--drop", "model.mlp.up"),
            ),
        ),
    ]


def random_scenarios(bases: Bases) -> list[Scenario]:
    """Changes that take so long that a random time falls into each of their parts."""
    tensor = bases.tensor
    return [
        Scenario("append 8 MiB", "large", ("append", *tensor("x", 8 << 20))),
        Scenario(
            "append 8 MiB, both grow",
            "large",
            ("append", *tensor(LONG_NAME, 8 << 20)),
            grows=BOTH,
        ),
        Scenario(
            "rename 8 MiB, both grow",
            "large",
            ("edit", "--rename", "large", LONG_NAME),
            grows=BOTH,
        ),
        Scenario(
            "edit next to 8 MiB",
            "large",
            ("edit", "--drop", "model.bias", "--rename", "first", "second"),
        ),
    ]
