#!/usr/bin/env python3
"""Do "tzmark append" and "tzmark edit" survive kill -9 at any point?

Exact points: each scenario runs under kill_at, which counts the calls that change something on disk, and then once for
each of them, killed in its place. Random points: larger data, and SIGKILL at a random time. After each death:

- a reader that does not recover refuses the file with TZE-ENV-007, or finds the old or the new content, all verified;
- "tzmark edit --recover" succeeds;
- after that the file has the old or the new content, verifies, and nothing else is left in its directory;
- where it is the old one, the same command succeeds.

All of it on the file system of the build directory and on /dev/shm, where files grow by being copied. Further checks:
the recovery itself is killed, the intent is damaged or cut, two processes change one file, the file is a link.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from further import FURTHER
from preload import preloadable
from scenarios import LONG_NAME, Bases, exact_scenarios, random_scenarios
from subject import FINE, Place, Subject, Tzmark, Wrong, require, undisturbed

SOURCE = Path(os.environ.get("TZMARK_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("TZMARK_BUILD_DIR", SOURCE / "build"))

# What changes files, as tzmark may call it: all that it imports of these has to be counted by kill_at. What the C
# library's checks make of calls of open without a mode (__open_2) ends a program that creates a file by it.
CHANGING_CALLS = set(
    """
    chmod chown copy_file_range creat creat64 fallocate fallocate64 fchmod fchmodat fchown fchownat fdatasync
    fremovexattr fsetxattr fsync ftruncate ftruncate64 io_uring_submit io_uring_submit_and_wait lchown link
    linkat mkdir mkdirat mkostemp mkostemp64 mkstemp mkstemp64 msync open open64 openat openat64 posix_fallocate
    posix_fallocate64 pwrite pwrite64 pwritev pwritev2 pwritev64 pwritev64v2 remove rename renameat renameat2
    rmdir sendfile sendfile64 splice symlink symlinkat sync sync_file_range syncfs truncate truncate64 unlink
    unlinkat write writev
    """.split()
)
# A file system in memory, which cannot insert ranges.
MEMORY = Path("/dev/shm")

# What the further checks are made on: both segments grow, so that there are intents of every sort.
FURTHER_ON = "append, both grow"


def imported(program: Path) -> set[str]:
    """The functions that a program takes from shared libraries."""
    listed = subprocess.run(
        ["nm", "--dynamic", "--undefined-only", "--format=posix", program],
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.split("@")[0].split(" ")[0] for line in listed.stdout.splitlines()}


def exported(library: Path) -> set[str]:
    """The functions that a shared library defines."""
    listed = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--format=posix", library],
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.split(" ")[0] for line in listed.stdout.splitlines()}


# What a reader finds in a file that a killed process has left, and which content recovery then brings.
Point = tuple[str, str]


@dataclass
class Findings:
    """What was found at the points of one scenario, and what was wrong."""

    seen: Counter[str] = field(default_factory=Counter)
    recovered: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, name: str, point: Callable[[], Point]) -> None:
        try:
            seen, recovered = point()
        except Wrong as wrong:
            self.failures.append(f"{name}: {wrong}")
        else:
            self.seen[seen] += 1
            self.recovered[recovered] += 1

    def merge(self, other: Findings) -> None:
        self.seen += other.seen
        self.recovered += other.recovered
        self.failures += other.failures

    def check_force(self) -> None:
        """A test that sees one outcome only proves nothing."""
        if not self.failures and not (
            self.seen["refused"] and self.recovered["old"] and self.recovered["new"]
        ):
            self.failures.append(f"not every outcome came up: {self}")

    def __str__(self) -> str:
        points = self.recovered.total() + len(self.failures)
        seen = ", ".join(
            f"{word} {self.seen[word]}" for word in ("old", "refused", "new")
        )
        return (
            f"{points} points; a reader finds {seen}; "
            f"recovered old {self.recovered['old']}, new {self.recovered['new']}"
        )


def killed_everywhere(subject: Subject, jobs: int) -> Findings:
    """Kills a scenario at each of its calls."""

    def point(call: int) -> Findings:
        def attempt() -> Point:
            with subject.place.copy_of(subject.base) as file:
                subject.kill_at(call, file)
                return subject.check_reader(file), subject.check_recovery(file)

        findings = Findings()
        findings.add(f"killed at call {call}", attempt)
        return findings

    calls = subject.calls()
    findings = Findings()
    with ThreadPoolExecutor(jobs) as pool:
        for one in pool.map(point, range(1, calls + 1)):
            findings.merge(one)
    findings.check_force()
    return findings


def killed_at_random(
    subjects: Sequence[Subject], count: int, numbers: random.Random
) -> Findings:
    """Kills scenarios, in turns, at times up to 1.3 times what a whole run takes."""

    def elapsed(subject: Subject) -> float:
        with subject.place.copy_of(subject.base) as file:
            started = time.monotonic()
            subject.tzmark.start(subject.scenario.command, file).wait()
            return time.monotonic() - started

    whole = [
        statistics.median(elapsed(subject) for _ in range(3)) for subject in subjects
    ]
    findings = Findings()
    for i in range(count):
        subject = subjects[i % len(subjects)]
        delay = numbers.uniform(0, 1.3 * whole[i % len(subjects)])

        def attempt() -> Point:
            with subject.place.copy_of(subject.base) as file:
                process = subject.tzmark.start(subject.scenario.command, file)
                time.sleep(delay)
                process.kill()
                require(
                    process.wait() in (FINE, -signal.SIGKILL),
                    f"it exits {process.returncode}",
                )
                return subject.check_reader(file), subject.check_recovery(file)

        findings.add(
            f"{subject.place.name}, {subject.scenario.name}, killed after {delay:.6f} s",
            attempt,
        )
    findings.check_force()
    return findings


def find_places(
    tzmark: Tzmark, bases: Bases, directories: Mapping[str, Path]
) -> list[Place]:
    """The file systems to test on: one that inserts ranges and one that does not, as far as they are there."""
    places: list[Place] = []
    for name, directory in directories.items():
        place = Place(name, directory, inserts=True)
        with place.copy_of(bases.files["small"]) as file:
            command = ("append", *bases.tensor(LONG_NAME, 1000), "--show-growth")
            growth = json.loads(tzmark.succeed(command, file))
        require(growth["growths"] == 2, f"it grew {growth['growths']} times")
        place = Place(name, directory, inserts=growth["copied_bytes"] == 0)
        how = (
            "inserts ranges"
            if place.inserts
            else "cannot insert ranges, so that files are copied"
        )
        if place.inserts in [known.inserts for known in places]:
            print(f"skipped {name}: it {how}, as {places[0].name} does")
        else:
            print(f"{name}: {how}")
            places.append(place)
    for inserts, what in ((True, "inserting ranges"), (False, "growing by copying")):
        if inserts not in [place.inserts for place in places]:
            print(f"skipped {what}: none of these file systems does it")
    return places


def check_library(tzmark: Tzmark) -> None:
    """Every call by which tzmark changes something passes through the library."""
    missed = imported(tzmark.program) & CHANGING_CALLS - exported(tzmark.kill_at)
    require(not missed, f"kill_at does not count {sorted(missed)}")
    require("pwrite" in imported(tzmark.program), "nm lists nothing")


def run(
    options: argparse.Namespace, directories: Mapping[str, Path], scratch: Path
) -> int:
    """Everything. Returns how many checks failed."""
    tzmark = Tzmark(options.tzmark, options.kill_at, scratch)
    check_library(tzmark)
    bases = Bases(tzmark, BUILD / "share/tzmark/corpus", scratch)
    places = find_places(tzmark, bases, directories)
    failures = 0

    def report(name: str, said: object, wrong: Sequence[str]) -> None:
        nonlocal failures
        print(f"{name}: {said}", flush=True)
        for what in wrong:
            print(f"    FAILED {what}", flush=True)
        failures += len(wrong)

    total = Findings()
    for place in places:
        for scenario in exact_scenarios(bases):
            subject = undisturbed(tzmark, scenario, place, bases.files[scenario.base])
            findings = killed_everywhere(subject, options.jobs)
            report(f"{place.name}, {scenario.name}", findings, findings.failures)
            total.merge(findings)
    print(f"in all: {total}")

    if options.random > 0:
        subjects = [
            undisturbed(tzmark, scenario, place, bases.files[scenario.base])
            for scenario in random_scenarios(bases)
            for place in places
        ]
        findings = killed_at_random(
            subjects, options.random, random.Random(options.seed)
        )
        report(f"at random times, seed {options.seed}", findings, findings.failures)

    (grows,) = (
        scenario for scenario in exact_scenarios(bases) if scenario.name == FURTHER_ON
    )
    subjects = [
        undisturbed(tzmark, grows, place, bases.files[grows.base]) for place in places
    ]

    def further(
        task: tuple[Subject, Callable[[Subject], str]]
    ) -> tuple[str, list[str]]:
        subject, check = task
        try:
            return check(subject), []
        except Wrong as wrong:
            return "wrong", [str(wrong)]

    tasks = list(itertools.product(subjects, FURTHER))
    with ThreadPoolExecutor(options.jobs) as pool:
        for (subject, check), (said, wrong) in zip(tasks, pool.map(further, tasks)):
            report(
                f"{subject.place.name}, {check.__name__.replace('_', ' ')}", said, wrong
            )
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tzmark", type=Path, default=BUILD / "bin/tzmark")
    parser.add_argument(
        "--kill-at", type=Path, default=BUILD / "tests/libtzmark_kill_at.so"
    )
    parser.add_argument(
        "--random", type=int, default=40, help="how many random points; default 40"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of the random times; default 1"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    with ExitStack() as stack:
        options.kill_at = stack.enter_context(preloadable(options.kill_at))
        here = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="tzmark-crash-", dir=BUILD)
        )
        directories = {"build directory": Path(here) / "place"}
        scratch = Path(here) / "scratch"
        for directory in (*directories.values(), scratch):
            directory.mkdir()
        if os.access(MEMORY, os.W_OK):
            directories[str(MEMORY)] = Path(
                stack.enter_context(
                    tempfile.TemporaryDirectory(prefix="tzmark-crash-", dir=MEMORY)
                )
            )
        else:
            print(f"skipped {MEMORY}: it is not there, or not writable")
        try:
            failures = run(options, directories, scratch)
        except Wrong as wrong:
            print(f"FAILED {wrong}")
            return 1
    print("all is well" if failures == 0 else f"{failures} FAILED")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
