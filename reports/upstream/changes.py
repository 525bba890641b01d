"""Prints what changed between two runs of the conformance suite on the same corpus.

usage: python3 -m upstream.changes BEFORE.json AFTER.json [BEFORE_AGAIN.json AFTER_AGAIN.json]

All are results of "tzmark conform --json". Cases are grouped by the outcomes before and after, what became worse first.
With a second run of each, a case counts as changed only if its outcome did not change from run to run; an
implementation that reads on several threads has some that do.

Exit status: 0 printed, 2 wrong usage, 3 a file cannot be read, is not a result, or the corpora or cases differ.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from common import results
from common.outcomes import BY_NAME, ORDER, Json

CASES_SHOWN_MAX = 6
KINDS = {"failed": "fail", "passed": "pass", "skipped": "are skipped"}


def name_of(result: Json) -> str:
    profile = result["adapter"]["profile"]
    return f"{profile['name']} {profile['version']}"


def outcomes_of(result: Json) -> dict[str, str]:
    """Returns the outcome of each case by operation and id, because one id may be read and written."""
    return {
        f"{case['operation']} {case['id']}": case["outcome"] for case in result["cases"]
    }


def kind_of(outcome: str) -> str:
    return BY_NAME[outcome].kind


def rank_of(change: tuple[str, str]) -> tuple[bool, int, int]:
    """Sorts new failures first, worst first, then new passes."""
    before, after = (ORDER[BY_NAME[name].code] for name in change)
    return kind_of(change[1]) != "failed", after, before


def difference_of(before: Json, after: Json) -> str | None:
    """Returns why the runs cannot be compared, or None. A case may keep its id but refer to another file."""
    if before["corpus"]["manifest_sha256"] != after["corpus"]["manifest_sha256"]:
        return "the two runs are over different corpora; run the suite again"
    if outcomes_of(before).keys() != outcomes_of(after).keys():
        return "the two runs are over different cases of the corpus"
    return None


def names_of(cases: list[str]) -> str:
    """Returns the first cases, and the number of others."""
    shown = ", ".join(case.split(" ", 1)[1] for case in cases[:CASES_SHOWN_MAX])
    more = len(cases) - CASES_SHOWN_MAX
    return shown + (f" and {more} more" if more > 0 else "")


def lines_of(before: Json, after: Json, again: list[Json]) -> list[str]:
    """Returns the lines of the report. again: empty, or a second run of each."""
    old, new = outcomes_of(before), outcomes_of(after)
    repeated = [outcomes_of(run) for run in again]
    unsteady = [
        case
        for case in new
        if any(first[case] != run[case] for first, run in zip((old, new), repeated))
    ]
    changed: dict[tuple[str, str], list[str]] = defaultdict(list)
    for case, outcome in new.items():
        if old[case] != outcome and case not in unsteady:
            changed[old[case], outcome].append(case)
    lines = [f"{name_of(after)} against {name_of(before)}, {len(new)} cases"]
    for kind, verb in KINDS.items():
        counts = [sum(kind_of(o) == kind for o in run.values()) for run in (old, new)]
        lines.append(f"{counts[0]:5} -> {counts[1]:5} {verb}")
    if not changed and not unsteady:
        lines.append("every case has the same outcome")
    for change in sorted(changed, key=rank_of):
        cases = changed[change]
        lines.append(f"{len(cases):5} {change[0]} -> {change[1]}: {names_of(cases)}")
    if unsteady:
        lines.append(f"{len(unsteady):5} differ from run to run: {names_of(unsteady)}")
    return lines


def main(arguments: list[str]) -> int:
    if len(arguments) not in (2, 4):
        print(
            "usage: python3 -m upstream.changes BEFORE.json AFTER.json [BEFORE_AGAIN.json AFTER_AGAIN.json]",
            file=sys.stderr,
        )
        return 2
    try:
        before, after, *again = (
            results.read(Path(name), (results.CONFORMANCE,)) for name in arguments
        )
    except results.NotAResult as error:
        print(f"changes: {error}", file=sys.stderr)
        return 3
    for other in (after, *again):
        difference = difference_of(before, other)
        if difference:
            print(f"changes: {difference}", file=sys.stderr)
            return 3
    for first, repeated in zip((before, after), again):
        if name_of(first) != name_of(repeated):
            print(
                f"changes: {name_of(repeated)} is not a second run of {name_of(first)}",
                file=sys.stderr,
            )
            return 3
    print("\n".join(lines_of(before, after, again)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
