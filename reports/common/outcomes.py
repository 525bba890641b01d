"""The outcomes of a case, worst first, as the pages name, order and colour them.

A shade is an outcome, or one of the things that pages tell apart besides: a refusal for another rule (it passes, and is
shown), a case that was not part of a run, and, in the row of a rule, a failed case that does not show whether the rule
is broken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Shade:
    name: str
    # Its class in the pages: one letter, because a page has thousands.
    code: str
    # failed, passed or skipped.
    kind: str
    meaning: str


SHADES = (
    Shade("wrong-data", "w", "failed", "completed, but the result is wrong"),
    Shade("crash", "c", "failed", "no answer"),
    Shade("hang", "h", "failed", "did not finish within the time limit"),
    Shade("memory", "m", "failed", "exceeded the memory limit"),
    Shade("output", "o", "failed", "exceeded the output limit"),
    Shade("disk", "d", "failed", "exceeded the disk limit"),
    Shade("processes", "t", "failed", "had too many threads or open files"),
    Shade("accepted-invalid", "a", "failed", "accepted invalid input"),
    Shade("rejected-valid", "r", "failed", "refused valid input"),
    Shade(
        "exercised",
        "e",
        "failed",
        "a valid file failed, and this is one of several rules that it exercises",
    ),
    Shade("other-rule", "x", "passed", "refused as expected, but cited another rule"),
    Shade("pass", "p", "passed", "as expected"),
    Shade(
        "implementation-defined", "i", "passed", "the format leaves the choice; passes"
    ),
    Shade("skipped", "s", "skipped", "not in the profile, or not supported"),
    Shade("not-run", "n", "skipped", "not part of the run"),
)
BY_NAME = {shade.name: shade for shade in SHADES}
BY_CODE = {shade.code: shade for shade in SHADES}
ORDER = {shade.code: order for order, shade in enumerate(SHADES)}
# What the runner can say of a case.
OUTCOMES = tuple(
    shade
    for shade in SHADES
    if shade.name not in ("exercised", "other-rule", "not-run")
)
# Those that stopped an answer, so that stderr is what tells about them.
UNANSWERED = ("crash", "hang", "memory", "output", "disk", "processes")


def shade_of(outcome: str, cites_other_rule: bool) -> Shade:
    if outcome == "pass" and cites_other_rule:
        return BY_NAME["other-rule"]
    return BY_NAME[outcome]


def broken_rules(case: Json, explanations: Iterable[Json | None]) -> set[str]:
    """Returns the rules that a failed case shows to be broken.

    A file that has to be refused is about all of its rules. A valid file exercises its rules, and if it has several,
    its failure concerns those that an explanation names: the rule that the refusal cites, or that the written file
    breaks.
    """
    if case["verdict"] != "valid" or len(case["rules"]) == 1:
        return set(case["rules"])
    named = {explained["rule"] for explained in explanations if explained}
    return named & set(case["rules"])


def worst(codes: Iterable[str]) -> str:
    """The worst of some shades; what was not run if there are none."""
    return min(codes, key=ORDER.__getitem__, default="n")
