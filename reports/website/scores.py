"""Which rules each implementation keeps, by layout, from the committed results; refuses a result that is not whole."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from common import results
from common.outcomes import BY_NAME, Json, broken_rules


@dataclass
class Score:
    """The rules that an implementation keeps: all their cases pass, those that were skipped left out."""

    kept: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def kept_count(self) -> int:
        return len(self.kept - self.broken)

    @property
    def asked(self) -> int:
        return len(self.kept | self.broken)

    def text(self) -> str:
        return f"{self.kept_count}/{self.asked}" if self.asked else "-"

    def shade(self) -> str:
        if not self.asked:
            return "n"
        return "a" if self.broken else "p"


@dataclass
class Implementation:
    name: str
    version: str
    layouts: dict[str, Score]
    everything: Score
    by_case: dict[str, str]


def tensorizer(file: Path) -> tuple[list[str], list[Implementation], Json]:
    """Returns the layouts, the implementations in their order, and the document."""
    matrix = results.read(file, (results.MATRIX,))
    require_whole(matrix, file)
    layouts = sorted({case["layout"] for case in matrix["cases"]})
    found = []
    for number, one in enumerate(matrix["implementations"]):
        profile = one["profile"]
        scores: dict[str, Score] = defaultdict(Score)
        by_case = {}
        for case in matrix["cases"]:
            result = matrix["results"][case["results"][number]]
            by_case[case["id"]] = result["outcome"]
            for score in (scores[case["layout"]], scores["all"]):
                add(score, case, result["outcome"], number)
        everything = scores.pop("all")
        found.append(
            Implementation(
                profile["name"], profile["version"], scores, everything, by_case
            )
        )
    return layouts, found, matrix


def add(score: Score, case: Json, outcome: str, implementation: int) -> None:
    """A valid file exercises many rules; where it fails, only those count as broken that the failure shows to be."""
    kind = BY_NAME[outcome].kind
    if kind == "skipped":
        score.skipped += 1
    elif kind == "passed":
        score.passed += 1
        score.kept.update(case["rules"])
    else:
        score.failed += 1
        explanations = (
            entry["explanation"]
            for entry in case.get("explanations", [])
            if implementation in entry["implementations"]
        )
        score.broken |= broken_rules(case, explanations)


def require_whole(matrix: Json, file: Path) -> None:
    """Half a run must not be shown as a run."""
    count = len(matrix["implementations"])
    if len(matrix["cases"]) != matrix["corpus"]["cases"]:
        raise results.NotAResult(
            f"{file}: {len(matrix['cases'])} of {matrix['corpus']['cases']} cases"
        )
    for case in matrix["cases"]:
        if len(case["results"]) != count or None in case["results"]:
            raise results.NotAResult(f"{file}: {case['id']} lacks a result")


def safetensors(file: Path) -> Json:
    """Returns the findings about readers and writers of safetensors."""
    try:
        document: Json = json.loads(results.text_of(file))
        is_result = document["schema"] == "tzmark-safetensors-readers"
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise results.NotAResult(f"{file}: {error!r}") from error
    if not is_result:
        raise results.NotAResult(f"{file}: not the results of readers of safetensors")
    cases = document["corpus"]["cases"]
    for reader in document["readers"]:
        told = reader["passed"] + reader["skipped"] + sum(reader["counts"].values())
        if told < cases:
            name = reader["name"]
            raise results.NotAResult(f"{file}: {name} has {told} of {cases} cases")
    return document
