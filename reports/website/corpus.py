"""The cases of both formats, with the bytes of each file as `tzmark inspect --bytes` shows them."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from common import results
from common.outcomes import Json

# A page shows so much of the bytes; long data is folded anyway.
BYTES_TEXT_MAX = 60_000


@dataclass
class Case:
    format: str  # tensorizer or safetensors
    item: Json
    operation: str  # read or write
    bytes: str = ""
    outcomes: list[tuple[str, str]] = field(default_factory=list)

    @property
    def id(self) -> str:
        return str(self.item["id"])

    @property
    def page(self) -> str:
        return f"cases/{self.id}.html"

    @property
    def file(self) -> str:
        return str(self.item.get("path") or self.item.get("spec"))


@dataclass
class Corpus:
    cases: list[Case]
    rules: dict[str, Json]

    def by_rule(self) -> dict[str, list[Case]]:
        found: dict[str, list[Case]] = defaultdict(list)
        for case in self.cases:
            for rule in case.item["rules"]:
                found[rule].append(case)
        return found


def load(share: Path, formats: dict[str, str]) -> Corpus:
    """formats: the directory of each below share."""
    corpus = Corpus([], {})
    for name, directory in formats.items():
        try:
            manifest = json.loads((share / directory / "manifest.json").read_text())
            rules = json.loads((share / directory / "rules.json").read_text())
        except (OSError, ValueError) as error:
            raise results.NotAResult(str(error)) from error
        corpus.rules.update(rules["rules"])
        corpus.cases += [Case(name, item, "read") for item in manifest["cases"]]
        corpus.cases += [Case(name, item, "write") for item in manifest["encode_cases"]]
    return corpus


def add_bytes(
    corpus: Corpus, share: Path, formats: dict[str, str], tzmark: Path
) -> None:
    """Asks tzmark about the bytes of every file, and takes specifications as they are."""

    def look(case: Case) -> None:
        file = share / formats[case.format] / case.file
        if case.operation == "write" or file.suffix == ".json":
            text = file.read_text(encoding="utf-8", errors="replace")
        else:
            # The exit status is 1 if the file breaks a rule, and 2 if it is JSON, which may be an index of shards.
            done = subprocess.run(
                [tzmark, "inspect", "--bytes", file],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=120,
            )
            if done.returncode not in (0, 1, 2):
                raise results.NotAResult(f"{file}: {done.stderr}")
            text = done.stdout or hex_of(file.read_bytes())
        is_cut = len(text) > BYTES_TEXT_MAX
        case.bytes = text[:BYTES_TEXT_MAX] + ("\n..." if is_cut else "")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(look, corpus.cases))


def hex_of(content: bytes) -> str:
    """Lines of 16 bytes with their offsets."""
    return "\n".join(
        f"{at:12}  {content[at : at + 16].hex(' ')}"
        for at in range(0, min(len(content), 4096), 16)
    )
