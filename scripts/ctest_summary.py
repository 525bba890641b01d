"""Summarizes JUnit results of ctest: failed tests with their output, skipped tests with the reason, and the counts.

A program that passes may have skipped some of its own tests, for lack of root or of a mount: their reasons are printed.

usage: ctest_summary.py RESULT.xml...

The exit status is 1 if a test failed or if none passed. A missing result file counts as a failure: its run ended before
any test started.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

# A failing test executable may print thousands of lines; the log has all of them.
LINES_SHOWN = 60


@dataclass(frozen=True)
class Result:
    """One test of ctest: its name, its outcome (passed, failed, skipped) and what it printed."""

    name: str
    outcome: str
    output: str


def outcome_of(case: ElementTree.Element) -> str:
    """Returns the outcome of a test. Ctest reports "notrun" for tests that skipped themselves or could not start."""
    status = case.get("status")
    if status == "run":
        return "passed"
    skipped = case.find("skipped")
    skipped_itself = skipped is not None and "SKIP_" in skipped.get("message", "")
    return "skipped" if skipped_itself or status == "disabled" else "failed"


def read_results(path: Path) -> list[Result]:
    """Returns the results in one file, in its order."""
    if not path.is_file():
        return [Result(path.name, "failed", "no test ran: this file is missing")]
    return [
        Result(
            case.get("name", "?"), outcome_of(case), case.findtext("system-out") or ""
        )
        for case in ElementTree.parse(path).getroot().iter("testcase")
    ]


# How each sanitizer begins a report; the thread sanitizer goes on after one, and only the exit status says so.
SANITIZER_REPORT = re.compile(
    r"^(WARNING: ThreadSanitizer|==\d+==ERROR: \w+Sanitizer|\S+:\d+:\d+: runtime error:)"
)


def sanitizer_report(lines: list[str]) -> list[str]:
    """Returns the first report of a sanitizer in these lines with the test it is of, and a summary of each other."""
    test: list[str] = []
    for number, line in enumerate(lines):
        if line.startswith("[ RUN      ]"):
            test = [line]
        elif SANITIZER_REPORT.match(line):
            end = number
            while end < len(lines) and not lines[end].startswith("SUMMARY: "):
                end += 1
            rest = [text for text in lines[end:] if text.startswith("SUMMARY: ")]
            return test + lines[number:end][: LINES_SHOWN - 10] + rest[:10]
    return []


def lines_that_matter(output: str) -> list[str]:
    """Returns the tests of GoogleTest that failed or never ended, else a sanitizer's report, else the last lines."""
    lines = output.strip().splitlines()
    shown: list[str] = []
    began: int | None = None
    for number, line in enumerate(lines):
        if line.startswith("[ RUN      ]"):
            began = number
        elif line.startswith(("[       OK ]", "[  FAILED  ]", "[  SKIPPED ]")):
            if began is not None and line.startswith("[  FAILED  ]"):
                shown += lines[began : number + 1]
            began = None
    if began is not None:
        shown = lines[began:][-LINES_SHOWN:] + shown
    return shown[:LINES_SHOWN] or sanitizer_report(lines) or lines[-LINES_SHOWN:]


# What GoogleTest prints of a skipped test, and what unittest does if it is verbose.
GOOGLETEST_SKIP = re.compile(r"^.*: Skipped\n(.+)$", re.MULTILINE)
UNITTEST_SKIP = re.compile(r"""\.\.\. skipped (['"])(.+)\1$""", re.MULTILINE)


def skips_within(output: str) -> list[str]:
    """Returns the reasons for which a program skipped some of its tests, each with how many there are."""
    reasons = Counter(GOOGLETEST_SKIP.findall(output))
    reasons.update(reason for _, reason in UNITTEST_SKIP.findall(output))
    return [f"{count} of its tests: {reason}" for reason, count in reasons.items()]


def main(arguments: list[str]) -> int:
    """Prints the summary of all the files and returns the exit status."""
    results = [result for name in arguments for result in read_results(Path(name))]
    for result in results:
        if result.outcome == "failed":
            print(
                f"FAILED {result.name}",
                *lines_that_matter(result.output),
                sep="\n    ",
            )
        elif result.outcome == "skipped":
            lines = result.output.strip().splitlines()
            print(f"skipped {result.name}: {lines[-1] if lines else 'no reason given'}")
        else:
            for reason in skips_within(result.output):
                print(f"skipped in {result.name}: {reason}")
    counts = Counter(result.outcome for result in results)
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 0 if counts["passed"] and not counts["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
