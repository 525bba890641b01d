"""Writes the list of defects that runs of the suite found, as Markdown.

usage: python3 -m upstream.findings MATRIX.json -o FINDINGS.md

Next to MATRIX.json (render.py matrix) is findings.json: the descriptions of the defects, each with conditions that pick
its failures from the matrix. Everything else, numbers included, comes from the matrix. A failure that no defect picks
is listed as not grouped.

Exit status: 0 success, 1 a defect no longer picks a failure, 2 wrong usage, 3 a file cannot be read or has the wrong
content.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from common import output_file, results
from common.outcomes import BY_NAME, SHADES, Json

CASES_SHOWN_MAX = 12
OBSERVATIONS_SHOWN_MAX = 8
RULES_SHOWN_MAX = 8
EXAMPLE_CHARACTERS_MAX = 100
COLUMNS = 120
MAY_PICK_BY = {"cases", "outcomes", "operation", "commands", "says", "rules"}

# The text of a crash as Python adapters give it: class, message, and where it was raised.
CRASH = re.compile(
    r"^(?P<what>[\w.]+): ?(?P<message>.*) \(\S+, (?P<place>\S+)\)$", re.S
)


class StaleGroup(Exception):
    """A defect of findings.json no longer occurs."""


@dataclass(frozen=True)
class Run:
    """A column of the matrix: one release, and the PyTorch that it ran with."""

    index: int
    release: str
    over: str
    # The release, and what distinguishes this run from most others.
    name: str


@dataclass(frozen=True)
class Failure:
    """A step of a case that failed in one run."""

    case_id: str
    operation: str
    # The broken rule, if known; otherwise the first rule of the case.
    rule: str
    run: Run
    command: str
    outcome: str
    # The message of the implementation, or the defect of its result.
    text: str


@dataclass
class Group:
    """A defect with its description and its failures."""

    title: str
    text: str
    picks: list[Json]
    failures: list[Failure] = field(default_factory=list)

    def takes(self, failure: Failure) -> bool:
        return any(picks(pick, failure) for pick in self.picks)

    def case_ids(self, run: Run | None = None) -> list[str]:
        """Returns the cases that show it, in the order of the matrix."""
        return list(
            dict.fromkeys(f.case_id for f in self.failures if run in (None, f.run))
        )


@dataclass
class Section:
    title: str
    text: str
    groups: list[Group]


def picks(pick: Json, failure: Failure) -> bool:
    """Returns whether every condition of a pick holds."""
    return all(
        (
            any(
                fnmatchcase(failure.case_id, glob) for glob in pick.get("cases", ["*"])
            ),
            failure.outcome in pick.get("outcomes", [failure.outcome]),
            failure.operation == pick.get("operation", failure.operation),
            failure.command in pick.get("commands", [failure.command]),
            failure.rule in pick.get("rules", [failure.rule]),
            re.search(pick.get("says", ""), failure.text),
        )
    )


def runs_of(matrix: Json) -> list[Run]:
    runs = []
    versions = [
        implementation["profile"]["version"].removesuffix(")").partition(" (")
        for implementation in matrix["implementations"]
    ]
    usual, _ = Counter(over for _, _, over in versions).most_common(1)[0]
    for index, (release, _, over) in enumerate(versions):
        differs = [part for part in over.split(", ") if part not in usual.split(", ")]
        name = " ".join([release, f"({', '.join(differs)})" if differs else ""])
        runs.append(Run(index, release, over, name.strip()))
    return runs


def failures_of(matrix: Json, runs: list[Run]) -> Iterator[Failure]:
    """Yields every failed step of the matrix."""
    for case in matrix["cases"]:
        for run in runs:
            number = case["results"][run.index]
            if number is None:
                continue
            for step in matrix["results"][number].get("steps", []):
                if BY_NAME[step["outcome"]].kind == "failed":
                    yield Failure(
                        case_id=case["id"],
                        operation=case["operation"],
                        rule=explanation_of(case, run)["rule"] or case["rules"][0],
                        run=run,
                        command=step["command"],
                        outcome=step["outcome"],
                        text=text_of(case, run, step),
                    )


def explanation_of(case: Json, run: Run) -> Json:
    """Returns the explanation of the first failed step of a run."""
    for entry in case["explanations"]:
        if run.index in entry["implementations"]:
            return entry["explanation"]
    return {"rule": None, "message": None}


def text_of(case: Json, run: Run, step: Json) -> str:
    answer = step["answer"]
    if answer["text"]:
        return answer["text"]
    if answer["rejected"]:
        return answer["rejected"]["message"]
    if step["outcome"] == "wrong-data":
        message = explanation_of(case, run)["message"]
        return message or json.dumps(step["difference"], ensure_ascii=False)
    return ""


def read_groups(path: Path) -> list[Section]:
    try:
        document = json.loads(results.text_of(path))
        sections = [
            Section(
                title=section["title"],
                text=section["text"],
                groups=[
                    Group(entry["title"], entry["text"], entry["picks"])
                    for entry in section["defects"]
                ],
            )
            for section in document["sections"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise results.NotAResult(f"{path}: {error!r}") from error
    for section in sections:
        for group in section.groups:
            for pick in group.picks:
                if not pick or pick.keys() - MAY_PICK_BY:
                    raise results.NotAResult(f"{path}: {group.title}: {pick}")
    return sections


def assign(sections: list[Section], failures: Iterable[Failure]) -> list[Failure]:
    """Assigns each failure to the first defect that picks it. Returns the failures that none picks."""
    groups = [group for section in sections for group in section.groups]
    left = []
    for failure in failures:
        group = next((group for group in groups if group.takes(failure)), None)
        (group.failures if group else left).append(failure)
    stale = [group.title for group in groups if not group.failures]
    if stale:
        raise StaleGroup(f"no failure any more: {'; '.join(stale)}")
    return left


def release_ranges(affected: set[str], releases: list[str]) -> str:
    """Formats releases; consecutive ones among those that ran become a range."""
    ranges: list[list[str]] = []
    for previous, release in zip([None, *releases], releases):
        if release not in affected:
            continue
        if ranges and ranges[-1][-1] == previous:
            ranges[-1].append(release)
        else:
            ranges.append([release])
    return ", ".join(
        one[0] if len(one) == 1 else f"{one[0]} to {one[-1]}" for one in ranges
    )


def observation(failure: Failure) -> tuple[str, str]:
    """Returns the observation without case-specific parts, and the complete text."""
    crash = CRASH.match(failure.text) if failure.outcome == "crash" else None
    if crash:
        return f"`{crash['what']}` in `{crash['place']}`", crash["message"]
    if failure.outcome in ("hang", "memory", "accepted-invalid"):
        return BY_NAME[failure.outcome].meaning, failure.text
    return re.sub(r"\d+|'[^']*'", "…", failure.text), failure.text


def quoted(text: str) -> str:
    """Formats an arbitrary text of an implementation as one line of code."""
    line = " ".join(text.split())
    if len(line) > EXAMPLE_CHARACTERS_MAX:
        line = line[:EXAMPLE_CHARACTERS_MAX] + "…"
    line = "".join(char if char.isprintable() else "�" for char in line)
    ticks = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    pad = " " if "`" in line else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def wrapped(text: str, indent: str = "") -> str:
    """Wraps a paragraph, but not inside code, where a word at the start of a line could change its meaning."""
    whole_code = re.sub(
        r"(`+)[^`].*?(?<!`)\1(?!`)", lambda code: code[0].replace(" ", "\0"), text
    )
    lines = textwrap.fill(
        whole_code,
        COLUMNS,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.replace("\0", " ")


class Page:
    """FINDINGS.md."""

    def __init__(self, matrix: Json, runs: list[Run], sections: list[Section]) -> None:
        self._matrix = matrix
        self._runs = runs
        self._sections = sections
        self._cases = {case["id"]: case for case in matrix["cases"]}

    def text(self, left: list[Failure]) -> str:
        blocks = [*self._head(), *self._overview(left)]
        for section in self._sections:
            blocks += [f"## {section.title}", wrapped(section.text)]
            for group in section.groups:
                blocks += self._group(group)
        for run in self._runs:
            blocks += self._compared(run)
        blocks += self._not_grouped(left)
        return "\n\n".join(blocks) + "\n"

    def _head(self) -> Iterator[str]:
        yield "# What releases of tensorizer get wrong"
        yield wrapped(
            "All numbers come from runs of the conformance suite, which `scripts/upstream-matrix` repeats; it ends"
            " with a page that shows each case. Outcomes are those of"
            " [PROTOCOL.md](../../conformance/PROTOCOL.md), rules those of [FORMAT.md](../../reference/FORMAT.md)."
            " Which exceptions count as a refusal, and which as a crash, is defined in"
            " `conformance/adapters/tensorizer-python/refusals.py`."
        )
        yield wrapped(
            f"The corpus (`{self._matrix['corpus']['manifest_sha256'][:12]}`) has {len(self._matrix['cases']):,}"
            " cases. A case fails if any of its steps does: decode and verify, or encode. Skipped are cases that a"
            " release does not claim to support, or whose types its PyTorch lacks. The runs are over"
            f" {self._runs[0].over} unless stated otherwise."
        )
        yield self._table_of_runs()

    def _table_of_runs(self) -> str:
        shown = [shade.name for shade in SHADES if shade.kind == "failed"]
        shown = [
            name
            for name in shown
            if any(self._summary(run)["outcomes"].get(name) for run in self._runs)
        ]
        rows = [
            f"| release | passed | failed | {' | '.join(shown)} | skipped | seconds |",
            "|---|" + "---:|" * (len(shown) + 4),
        ]
        for run in self._runs:
            summary = self._summary(run)
            seconds = self._matrix["implementations"][run.index]["elapsed_ns"] / 1e9
            counts = [str(summary["outcomes"].get(name, 0)) for name in shown]
            rows.append(
                f"| {run.name} | {summary['passed']} | {summary['failed']} | {' | '.join(counts)}"
                f" | {summary['skipped']} | {seconds:.0f} |"
            )
        return "\n".join(rows)

    def _summary(self, run: Run) -> Json:
        return self._matrix["implementations"][run.index]["summary"]

    def _overview(self, left: list[Failure]) -> Iterator[str]:
        """Yields the table of defects by run, with the number of cases."""
        yield "## Overview"
        yield "The number of cases that show the defect in each run, worst first."
        rows = [
            f"| defect | {' | '.join(run.name for run in self._runs)} |",
            "|---|" + "---:|" * len(self._runs),
        ]
        for section in self._sections:
            rows.append(f"| **{section.title}** |" + " |" * len(self._runs))
            rows += [self._overview_row(group) for group in section.groups]
        if left:
            rows.append(self._overview_row(Group("Not grouped", "", [], left)))
        yield "\n".join(rows)

    def _overview_row(self, group: Group) -> str:
        counts = [len(group.case_ids(run)) for run in self._runs]
        link = f"[{group.title}](#{anchor(group.title)})"
        return f"| {link} | {' | '.join(str(count or '') for count in counts)} |"

    def _group(self, group: Group) -> Iterator[str]:
        yield f"### {group.title}"
        yield wrapped(group.text)
        yield "\n".join(wrapped(fact, "  ") for fact in self._facts(group))
        yield "Observations:"
        yield "\n".join(wrapped(what, "  ") for what in self._observations(group))
        yield self._case_list(group.case_ids())
        yield self._repro(group)

    def _facts(self, group: Group) -> Iterator[str]:
        releases = list(dict.fromkeys(run.release for run in self._runs))
        affected = {failure.run.release for failure in group.failures}
        yield f"- Releases: {release_ranges(affected, releases)}{self._only(group)}"
        rules = sorted({failure.rule for failure in group.failures})
        more = "" if len(rules) <= RULES_SHOWN_MAX else ", …"
        yield f"- Rules: {', '.join(rules[:RULES_SHOWN_MAX])}{more}"

    def _only(self, group: Group) -> str:
        """Returns, for releases with several runs, the runs that show the defect if not all do."""
        notes = []
        for release in dict.fromkeys(failure.run.release for failure in group.failures):
            asked = [
                run
                for run in self._runs
                if run.release == release and self._was_asked(group, run)
            ]
            showing = [run for run in asked if group.case_ids(run)]
            if len(showing) < len(asked):
                overs = " and over ".join(run.over for run in showing)
                notes.append(f"{release} only over {overs}")
        return f" ({'; '.join(notes)})" if notes else ""

    def _was_asked(self, group: Group, run: Run) -> bool:
        """Returns whether any case of the group was not skipped in a run."""
        numbers = (self._cases[case]["results"][run.index] for case in group.case_ids())
        return any(
            number is not None
            and self._matrix["results"][number]["outcome"] != "skipped"
            for number in numbers
        )

    def _observations(self, group: Group) -> Iterator[str]:
        counts: Counter[tuple[str, str, str]] = Counter()
        examples: dict[tuple[str, str, str], str] = {}
        seen = set()
        for failure in group.failures:
            what, example = observation(failure)
            key = (failure.outcome, failure.command, what)
            examples.setdefault(key, example)
            if (failure.case_id, key) not in seen:
                seen.add((failure.case_id, key))
                counts[key] += 1
        for key, count in counts.most_common(OBSERVATIONS_SHOWN_MAX):
            outcome, command, what = key
            plain = what if what.startswith("`") else BY_NAME[outcome].meaning
            example = f", {quoted(examples[key])}" if examples[key] else ""
            cases = "1 case" if count == 1 else f"{count} cases"
            yield f"- {command}: **{outcome}**: {plain}{example} ({cases})"
        rest = counts.most_common()[OBSERVATIONS_SHOWN_MAX:]
        if rest:
            yield f"- and {len(rest)} more, each in {max(count for _, count in rest)} cases or fewer"

    def _case_list(self, case_ids: list[str]) -> str:
        shown = ", ".join(f"`{case}`" for case in case_ids[:CASES_SHOWN_MAX])
        listed = wrapped(f"Cases ({len(case_ids)}): {shown}")
        rest = case_ids[CASES_SHOWN_MAX:]
        if not rest:
            return listed
        folded = wrapped(", ".join(f"`{case}`" for case in rest))
        summary = f"<details><summary>{len(rest)} more</summary>"
        return f"{listed}\n\n{summary}\n\n{folded}\n\n</details>"

    def _repro(self, group: Group) -> str:
        """Returns the command that repeats the first case with the last release that shows it."""
        case = group.case_ids()[0]
        showing = [run for run in self._runs if case in group.case_ids(run)]
        # Uses options of the adapter only if the defect does not occur without them.
        run = [run for run in showing if run.name == run.release] or showing
        argv = self._matrix["implementations"][run[-1].index]["argv"]
        return (
            f"```sh\nbuild/bin/tzmark conform --only {case} \\\n"
            f"  --adapter {shlex.quote(shlex.join(argv))}\n```"
        )

    def _compared(self, run: Run) -> Iterator[str]:
        """Yields the differences of a run with reading options from the run without."""
        options = [part for part in run.over.split(", ") if "=" in part]
        plain = ", ".join(part for part in run.over.split(", ") if "=" not in part)
        for other in self._runs:
            if not options or (other.release, other.over) != (run.release, plain):
                continue
            lines = [
                f"- `{case}`: {before}; with {', '.join(options)}: {after}"
                for case in self._cases
                if self._cases[case]["operation"] == "read"
                for before, after in [
                    (self._came_of(case, other), self._came_of(case, run))
                ]
                if before != after and "skipped" not in (before, after)
            ]
            if lines:
                yield f"## What {', '.join(options)} changes for {run.release}"
                yield "\n".join(wrapped(line, "  ") for line in lines)

    def _came_of(self, case: str, run: Run) -> str:
        """Returns the outcome of a case, and the choice if it leaves one."""
        number = self._cases[case]["results"][run.index]
        if number is None:
            return "skipped"
        result = self._matrix["results"][number]
        return " ".join(filter(None, (result["outcome"], result["choice"])))

    def _not_grouped(self, left: list[Failure]) -> Iterator[str]:
        if not left:
            return
        yield "## Not grouped"
        yield "Failures that belong to no defect above."
        group = Group("Not grouped", "", [], left)
        yield "\n".join(
            wrapped(f"- `{case}`: {'; '.join(self._said(case, left))}", "  ")
            for case in group.case_ids()
        )

    def _said(self, case: str, failures: list[Failure]) -> list[str]:
        """Returns the distinct outcomes of a case."""
        said = [
            f"{failure.command} {failure.outcome} {quoted(failure.text or '-')}"
            for failure in failures
            if failure.case_id == case
        ]
        return list(dict.fromkeys(said))


def anchor(title: str) -> str:
    """Returns the anchor of a heading in the rendered page."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("matrix", type=Path, metavar="MATRIX.json")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FINDINGS.md"
    )
    return parser.parse_args()


def main() -> int:
    chosen = arguments()
    try:
        matrix = results.read(chosen.matrix, (results.MATRIX,))
        sections = read_groups(chosen.matrix.with_name("findings.json"))
        runs = runs_of(matrix)
        left = assign(sections, failures_of(matrix, runs))
        output_file.write(chosen.output, Page(matrix, runs, sections).text(left))
    except StaleGroup as error:
        print(f"findings.py: {error}", file=sys.stderr)
        return 1
    except (OSError, results.NotAResult) as error:
        print(f"findings.py: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
