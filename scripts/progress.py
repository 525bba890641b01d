"""Shows how far a build or a test run is, from the log of what ninja or ctest print. Its output goes to stderr. It ends
when stdin does, after the last line of the log.

usage: progress.py NAME LOG

On a terminal one line is rewritten. Elsewhere a line is printed at every tenth of a build, and for every test that
ends. What fails is printed at once, with what it printed, since a run that is cut off has no summary.
"""

import re
import select
import sys
import time
from collections.abc import Iterator
from typing import TextIO

from ctest_summary import lines_that_matter

BUILD_STEP = re.compile(r"\[(\d+)/(\d+)\] (.*)")
TEST_START = re.compile(r"\s*Start\s+\d+: (\S+)")
TEST_END = re.compile(r"\s*(\d+)/(\d+) Test +#\d+: (\S+) [ .]*(\S.*?) +([\d.]+) sec")
COLUMNS_MAX = 100
INTERVAL_S = 0.2


class Progress:
    """Follows one command's output, line by line."""

    def __init__(self, name: str, out: TextIO, started_s: float) -> None:
        self.name = name
        self.out = out
        self.started_s = started_s
        self.is_terminal = out.isatty()
        self.tenth = 0
        self.running: list[str] = []
        # What a failed test printed, as far as it has come.
        self.failed: list[str] | None = None

    def follow(self, line: str, now_s: float) -> None:
        """Takes one line of the command."""
        elapsed_s = int(now_s - self.started_s)
        if TEST_START.match(line) or TEST_END.match(line):
            self.tell_failed()
        if found := BUILD_STEP.match(line):
            done, total = int(found[1]), int(found[2])
            self.built(done, total, found[3], elapsed_s)
        elif line.startswith("FAILED: "):
            self.say(f"{self.name}: failed to build {line[8:].split(' ')[0]}")
        elif found := TEST_START.match(line):
            self.running.append(found[1])
        elif found := TEST_END.match(line):
            self.tested(found)
        elif self.failed is not None:
            self.failed.append(line)

    def tell_failed(self) -> None:
        """Prints the lines that matter of what the last failed test printed."""
        for line in lines_that_matter("\n".join(self.failed or [])):
            self.say(f"    {line}")
        self.failed = None

    def built(self, done: int, total: int, what: str, elapsed_s: int) -> None:
        """One step of a build has ended."""
        if self.is_terminal:
            self.show(f"{self.name} {done}/{total} {elapsed_s} s: {what}")
        elif total > 0 and done * 10 // total > self.tenth:
            self.tenth = done * 10 // total
            self.say(f"{self.name} {self.tenth * 10} % after {elapsed_s} s")

    def tested(self, found: re.Match[str]) -> None:
        """One test has ended."""
        done, total, name, outcome, seconds = found.groups()
        outcome = outcome.strip("*").strip().lower()
        if name in self.running:
            self.running.remove(name)
        if outcome != "passed" or not self.is_terminal:
            self.say(f"{done:>3}/{total} {outcome:7} {float(seconds):6.1f} s  {name}")
        if outcome not in ("passed", "skipped"):
            self.failed = []
        if self.is_terminal:
            self.show(
                f"{done}/{total} tests ended, now running {', '.join(self.running)}"
            )

    def show(self, text: str) -> None:
        """Rewrites the line of a terminal."""
        self.out.write(f"\r{text[:COLUMNS_MAX]:{COLUMNS_MAX}}")
        self.out.flush()

    def say(self, text: str) -> None:
        """Prints a line that stays."""
        self.clear()
        self.out.write(text + "\n")
        self.out.flush()

    def clear(self) -> None:
        """Empties the line of a terminal."""
        if self.is_terminal:
            self.out.write("\r" + " " * COLUMNS_MAX + "\r")
            self.out.flush()


def lines_of(log_name: str, running: TextIO) -> Iterator[str]:
    """The lines of a log that grows, until the other stream ends and no more come."""
    rest = ""
    with open(log_name, encoding="utf-8", errors="replace") as log:
        ended = False
        while True:
            piece = log.read()
            *lines, rest = (rest + piece).split("\n")
            yield from lines
            if piece:
                continue
            if ended:
                return
            ended = bool(select.select([running], [], [], INTERVAL_S)[0])


def main(name: str, log_name: str) -> None:
    """Shows what the lines of the log say."""
    progress = Progress(name, sys.stderr, time.monotonic())
    for line in lines_of(log_name, sys.stdin):
        progress.follow(line, time.monotonic())
    progress.tell_failed()
    progress.clear()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: progress.py NAME LOG")
    main(sys.argv[1], sys.argv[2])
