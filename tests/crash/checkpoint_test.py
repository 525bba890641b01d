#!/usr/bin/env python3
"""Do checkpoints of a training run survive kill -9 at any moment, a full disk, and a disk that fails?

Random moments: a simulated training run is killed again and again, in one directory. After each death the newest
committed checkpoint is the one that the run has called durable last, or the next; every committed one is whole, and has
the content of the step that it names, computed without tzmark; the next start removes what the save left and goes on.

Faults: a run that saves one checkpoint after another is repeated, and each time another of its calls that change
something on disk fails, with ENOSPC and with EIO. It exits with status 3 and says so on one line; until the call that
renames, nothing is committed and nothing stays behind; the older checkpoint is whole, and the next start cleans up.

Both with a new name for each checkpoint, and with one name, where each takes the place of the one before.

Going back: a run goes back from step 30 to step 20, saves and deletes, and is killed at each of its calls that change
something on disk. The newest checkpoint is the one that it has called durable last, or the next, with those before it
from which it continues; that of step 30 stays, and the next start goes on from the newest.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from preload import preloadable
from simulations import SAME_NAME, Simulations
from subject import ENVIRONMENT, FINE, Wrong, require

SOURCE = Path(os.environ.get("TZMARK_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("TZMARK_BUILD_DIR", SOURCE / "build"))

COMMIT = "renameat2"
# Calls without which a save can do: room that is made beforehand.
DISPENSABLE = {"fallocate", "fallocate64"}
REMOVING = {"unlinkat"}
WRITER = ".tzmark-writer"
# More than a save makes: who gets so far has lost count.
CALLS_MAX = 200


def all_seen(seen: Counter[str]) -> bool:
    return len(seen) == 3 and all(seen.values())


def killed_at_random(
    program: Path, scratch: Path, count: int, seed: int, *more: str
) -> tuple[str, list[str]]:
    """Kills a run at random times. Returns what was seen, and what was wrong."""
    interval, numbers = 2, random.Random(seed)
    runs = Simulations(
        program,
        scratch / "random",
        ("--state-mib", "8", "--step-ms", "4", "--interval", str(interval))
        + ("--keep-latest", "2", "--seed", str(seed), *more),
    )
    output = scratch / "output"
    seen: Counter[str] = Counter()
    wrong = []
    newest = 0
    i = 0
    # Which outcomes come up is chance, so a missing one gets more kills.
    while i < count or (20 <= count <= i < 5 * count and not (wrong or all_seen(seen))):
        i += 1
        process = runs.start(1 << 40, output)
        delay = numbers.uniform(0, 0.4)
        time.sleep(delay)
        process.kill()
        try:
            require(process.wait() == -signal.SIGKILL, f"it exits {process.returncode}")
            durable = runs.durable_step(newest, output.read_text())
            died_in_a_save = bool(runs.directory.exists() and runs.temporary())
            steps = runs.check_committed() if runs.directory.exists() else []
            newest = max(steps, default=0)
            require(
                newest in (durable, durable + interval),
                f"step {durable} was durable, and the newest checkpoint is of step {newest}",
            )
            seen["died in a save"] += died_in_a_save
            seen["newest was called durable"] += newest == durable
            seen["newest is the next"] += newest > durable
            runs.check_restart(newest)
        except Wrong as what:
            wrong.append(f"kill {i}, after {delay:.3f} s: {what}")
            shutil.rmtree(runs.directory, ignore_errors=True)
            newest = 0
    if count >= 20 and not wrong and not all_seen(seen):
        wrong.append(f"not every outcome came up: {dict(seen)}")
    shutil.rmtree(runs.directory, ignore_errors=True)
    return f"{i} kills, newest step {newest}; {dict(seen)}", wrong


def made_durable(program: Path, library: Path, scratch: Path) -> tuple[str, list[str]]:
    """A directory that is made for the checkpoints is durable, too, before there is anything in it."""
    names = scratch / "names"
    runs = Simulations(
        program,
        scratch / "first",
        ("--state-mib", "1", "--step-ms", "0", "--interval", "1", "--threads", "1"),
    )
    ended = runs.run(1, LD_PRELOAD=library, TZMARK_TEST_NAMES_TO=names)
    require(ended.status == FINE, f"it exits {ended.status}: {ended.errors}")
    first = names.read_text().split()[:5]
    shutil.rmtree(runs.directory)
    # The file that shows who saves there needs not be durable.
    expected = ["mkdirat", "fsync", "openat", "pwrite", "mkdirat"]
    require(first == expected, f"it begins with {first}")
    return "its directory is durable", []


class Faults:
    """A run that goes on from one checkpoint, saves the next and deletes the first, while calls fail."""

    def __init__(
        self, program: Path, library: Path, scratch: Path, layout: str, *more: str
    ) -> None:
        self._base = scratch / f"base-{layout}"
        self._library = library
        self._names = scratch / "names"
        self._runs = Simulations(
            program,
            scratch / f"faults-{layout}",
            ("--state-mib", "1", "--step-ms", "0", "--interval", "5")
            + ("--keep-latest", "1", "--threads", "1", "--layout", layout, *more),
        )
        self._has_content = layout == "safetensors"
        ended = self._runs.run(5)
        require(ended.status == FINE, f"it exits {ended.status}: {ended.errors}")
        self._runs.directory.rename(self._base)

    def attempt(self, call: int, error: int) -> str | None:
        """Lets a call fail. Returns what came of it: "NAME: status"; nothing if there is no such call."""
        directory = self._runs.directory
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(self._base, directory, symlinks=True)
        ended = self._runs.run(
            10,
            LD_PRELOAD=self._library,
            TZMARK_TEST_FAIL_AT=call,
            TZMARK_TEST_FAIL_WITH=error,
            TZMARK_TEST_NAMES_TO=self._names,
        )
        names = self._names.read_text().split()
        if call > len(names):
            require(ended.status == FINE, f"it exits {ended.status}: {ended.errors}")
            require(COMMIT in names, f"{COMMIT} is not called")
            return None
        name = names[call - 1]
        lines = ended.errors.splitlines()
        # What is written comes after the trials of what the file system can do, which rename, too.
        written = names.index("pwrite") if "pwrite" in names else len(names)
        committed = COMMIT in names[written : call - 1]
        steps = self._steps()
        if ended.status == FINE:
            # The new checkpoint is durable: what cannot be deleted is a warning.
            told = committed and any("not deleted: " in line for line in lines)
            require(
                name in DISPENSABLE or told or self._is_of_writer(lines),
                f"{name} fails, and no line reports it",
            )
            require(10 in steps, "it says that all is well, and has not saved")
        else:
            require(ended.status == ENVIRONMENT, f"it exits {ended.status}: {lines}")
            errors = [line for line in lines if line.startswith("tzmark: ")]
            others = [line for line in lines if not line.startswith("resumed from ")]
            require(errors == others and len(errors) == 1, f"it says {lines}")
            require("error TZE-ENV-" in errors[0], f"it says {errors[0]}")
            if not committed:
                require(steps == [5], f"{name} fails, and there are {steps}")
                left = self._runs.temporary()
                require(name in REMOVING or not left, f"{name} fails and leaves {left}")
        require(bool(steps) and max(steps) in (5, 10), f"there are {steps}")
        self._runs.check_restart(max(steps))
        return f"{name}: {ended.status}"

    def _is_of_writer(self, lines: list[str]) -> bool:
        """Whether the file that shows who saves there was not made, which is said, or is left for the next writer."""
        left = (self._runs.directory / WRITER).exists()
        return left or any(WRITER in line for line in lines)

    def _steps(self) -> list[int]:
        if self._has_content:
            return self._runs.check_committed()
        steps = []
        for entry in self._runs.listed():
            if entry["status"] == "committed":
                self._runs.verify(Path(entry["directory"]))
                steps.append(entry["step"])
        return steps


def failing_everywhere(
    program: Path, library: Path, scratch: Path, layout: str, *more: str
) -> tuple[str, list[str]]:
    """Each call fails once with each error."""
    faults = Faults(program, library, scratch, layout, *more)
    outcomes: Counter[str] = Counter()
    wrong = []
    for error in (errno.ENOSPC, errno.EIO):
        for call in range(1, CALLS_MAX):
            try:
                outcome = faults.attempt(call, error)
                if outcome is None:
                    break
                outcomes[outcome] += 1
            except Wrong as what:
                wrong.append(f"{errno.errorcode[error]} at call {call}: {what}")
    for needed in ("pwrite", "fsync", COMMIT, "mkdirat"):
        if outcomes[f"{needed}: {ENVIRONMENT}"] == 0:
            wrong.append(f"{needed} never failed: {dict(outcomes)}")
    said = ", ".join(f"{name} x {n}" for name, n in sorted(outcomes.items()))
    return f"{outcomes.total()} faults ({said})", wrong


class GoingBack:
    """A run that goes back to step 20 of 10, 20 and 30, saves 21 and 22, and deletes 10 and 20."""

    GIVEN_UP, TAKEN_UP, END = 30, 20, 22

    def __init__(self, program: Path, library: Path, scratch: Path) -> None:
        self._base, self._library = scratch / "base-back", library
        self._output = scratch / "output"
        options = ("--state-mib", "1", "--step-ms", "0", "--threads", "1")
        directory = scratch / "back"
        first = Simulations(program, directory, (*options, "--interval", "10"))
        ended = first.run(self.GIVEN_UP)
        require(ended.status == FINE, f"it exits {ended.status}: {ended.errors}")
        directory.rename(self._base)
        options = (*options, "--interval", "1", "--keep-latest", "2")
        self._next = Simulations(program, directory, options)
        back = ("--from-step", str(self.TAKEN_UP))
        self._runs = Simulations(program, directory, (*options, *back))

    def attempt(self, call: int) -> str | None:
        """Kills the run at a call. Returns the newest step; nothing if there is no such call."""
        directory = self._runs.directory
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(self._base, directory, symlinks=True)
        ended = self._runs.run(
            self.END, LD_PRELOAD=self._library, TZMARK_TEST_KILL_AT=call
        )
        is_killed = ended.status == -signal.SIGKILL
        require(is_killed or ended.status == FINE, f"it exits {ended.status}")
        durable = self._runs.durable_step(self.TAKEN_UP, ended.output.decode())
        steps = self._runs.check_committed()
        newest = steps[-1]
        if newest == self.GIVEN_UP:
            require(
                durable == self.TAKEN_UP, f"{durable} was durable and is not newest"
            )
        else:
            require(newest in (durable, durable + 1), f"{durable} was durable: {steps}")
        self._check_line(newest)
        if not is_killed:
            require(steps == [30, 21, 22], f"in the end there are {steps}")
            return None
        self._next.check_restart(newest)
        return str(newest)

    def _check_line(self, newest: int) -> None:
        listed = {
            entry["step"]: entry
            for entry in self._runs.listed()
            if entry["status"] == "committed"
        }
        on_line = {step for step, entry in listed.items() if entry["on_line"]}
        require(self.GIVEN_UP in listed, "what was given up is deleted")
        if newest == self.GIVEN_UP:
            require(
                set(listed) == on_line == {10, 20, 30}, f"{on_line} of {set(listed)}"
            )
            return
        require(set(listed) - on_line == {self.GIVEN_UP}, f"{on_line} of {set(listed)}")
        # Two are kept, so the one before is there.
        before = newest - 1
        require(before in listed, f"{before} is deleted")
        require(
            listed[newest]["parent"] == listed[before]["save_id"],
            f"{newest} does not continue from {before}",
        )
        require(
            max(listed, key=lambda step: listed[step]["sequence"]) == newest,
            "the newest has not the highest sequence number",
        )


def killed_while_going_back(
    program: Path, library: Path, scratch: Path
) -> tuple[str, list[str]]:
    """Each call of a run that goes back is its last one once."""
    run = GoingBack(program, library, scratch)
    newest: Counter[str] = Counter()
    wrong = []
    for call in range(1, CALLS_MAX):
        try:
            outcome = run.attempt(call)
            if outcome is None:
                break
            newest[outcome] += 1
        except Wrong as what:
            wrong.append(f"killed at call {call}: {what}")
    if not wrong and set(newest) != {"30", "21", "22"}:
        wrong.append(f"not every outcome came up: {dict(newest)}")
    return f"{newest.total()} kills; newest {dict(newest)}", wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tzmark", type=Path, default=BUILD / "bin/tzmark")
    parser.add_argument(
        "--kill-at", type=Path, default=BUILD / "tests/libtzmark_kill_at.so"
    )
    parser.add_argument(
        "--random", type=int, default=30, help="how many kills; default 30"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of the random times; default 1"
    )
    options = parser.parse_args()
    failures = 0

    def report(name: str, check: Callable[[], tuple[str, list[str]]]) -> None:
        nonlocal failures
        started = time.monotonic()
        try:
            said, wrong = check()
        except Wrong as what:
            said, wrong = "wrong", [str(what)]
        print(f"{name}: {said}; {time.monotonic() - started:.0f} s", flush=True)
        for what in wrong:
            print(f"    FAILED {what}", flush=True)
        failures += len(wrong)

    with (
        tempfile.TemporaryDirectory(prefix="tzmark-checkpoint-", dir=BUILD) as here,
        preloadable(options.kill_at) as kill_at,
    ):
        scratch = Path(here)
        report(
            "first save",
            lambda: made_durable(options.tzmark, kill_at, scratch),
        )
        for way in (("safetensors",), ("v5-segments",), ("safetensors", SAME_NAME)):
            report(
                f"failing calls, {' '.join(way)}",
                lambda: failing_everywhere(options.tzmark, kill_at, scratch, *way),
            )
            for left in ("base", "faults"):
                shutil.rmtree(scratch / f"{left}-{way[0]}")
        report(
            "killed at each call while going back",
            lambda: killed_while_going_back(options.tzmark, kill_at, scratch),
        )
        for names in ((), (SAME_NAME,)):
            report(
                " ".join(("killed at random times, seed", str(options.seed), *names)),
                lambda: killed_at_random(
                    options.tzmark, scratch, options.random, options.seed, *names
                ),
            )
    print("all is well" if failures == 0 else f"{failures} FAILED")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
