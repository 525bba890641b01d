#!/usr/bin/env python3
"""Do checkpoints survive kill -9 at every call where directories cannot be renamed, and commit.json commits?

A run on a FUSE file system that refuses to rename directories, as mounts of object stores do, goes on from one
checkpoint, saves the next, and deletes the first. It is killed in the place of each call that changes something on
disk. Then every committed checkpoint is whole, the newest is the one before or the next, no older one is left
half-deleted, and the next start removes what is incomplete and goes on.
"""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "faults"))
from mounts import NotHere, fault_fs  # noqa: E402
from preload import preloadable  # noqa: E402
from simulations import DURABLE, Simulations  # noqa: E402
from subject import FINE, Wrong, require  # noqa: E402

SOURCE = Path(os.environ.get("TZMARK_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("TZMARK_BUILD_DIR", SOURCE / "build"))
SKIPPED = 77
# More than a save and a deletion make: who gets so far has lost count.
CALLS_MAX = 200
BEFORE, NEXT = 5, 10


def killed_at(runs: Simulations, base: Path, library: Path, call: int) -> str | None:
    """Kills a run at a call. Returns what was found; nothing if there is no such call."""
    shutil.rmtree(runs.directory, ignore_errors=True)
    shutil.copytree(base, runs.directory)
    ended = runs.run(NEXT, LD_PRELOAD=library, TZMARK_TEST_KILL_AT=call)
    if ended.status == FINE:
        steps = runs.check_committed()
        require(steps == [NEXT], f"without a kill there are {steps}")
        return None
    require(ended.status == -signal.SIGKILL, f"it exits {ended.status}: {ended.errors}")
    was_durable = bool(DURABLE.search(ended.output.decode()))
    incomplete = len(runs.temporary())
    steps = runs.check_committed()
    newest = max(steps, default=0)
    require(
        newest in ((NEXT,) if was_durable else (BEFORE, NEXT)), f"there are {steps}"
    )
    require(incomplete <= 1, f"{incomplete} checkpoints are incomplete")
    runs.check_restart(newest)
    # A directory without any file shows no owner, so it is kept until a save uses it.
    entries = [entry for entry in runs.directory.iterdir() if entry.is_dir()]
    left = {entry.name for entry in entries if any(entry.iterdir())}
    require(len(entries) <= len(left) + 1, f"the next start leaves {entries}")
    wanted = {runs.checkpoint(step).name for step in steps}
    require(left == wanted, f"the next start leaves {sorted(left)}")
    ended = runs.run(NEXT)
    require(
        ended.status == FINE, f"the save after it exits {ended.status}: {ended.errors}"
    )
    require(max(runs.check_committed()) == NEXT, "the save after it is not there")
    kind = "was incomplete" if incomplete else "was whole"
    return f"step {newest} is the newest, {kind}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tzmark", type=Path, default=BUILD / "bin/tzmark")
    parser.add_argument(
        "--kill-at", type=Path, default=BUILD / "tests/libtzmark_kill_at.so"
    )
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    wrong = []
    with (
        tempfile.TemporaryDirectory(prefix="tzmark-marker-", dir=BUILD) as here,
        preloadable(options.kill_at) as library,
    ):
        below, above = Path(here) / "below", Path(here) / "above"
        below.mkdir()
        above.mkdir()
        try:
            with fault_fs(below, above, FS_NORENDIR=str(errno.EMFILE)) as mountpoint:
                runs = Simulations(
                    options.tzmark,
                    mountpoint / "run",
                    ("--state-mib", "1", "--step-ms", "0", "--interval", "5")
                    + ("--keep-latest", "1", "--threads", "1"),
                )
                ended = runs.run(BEFORE)
                require(
                    ended.status == FINE, f"it exits {ended.status}: {ended.errors}"
                )
                base = Path(here) / "base"
                shutil.copytree(runs.directory, base)
                for call in range(1, CALLS_MAX):
                    try:
                        outcome = killed_at(runs, base, library, call)
                    except Wrong as what:
                        wrong.append(f"killed at call {call}: {what}")
                        continue
                    if outcome is None:
                        break
                    outcomes[outcome] += 1
        except NotHere as why:
            print(f"skipped: {why}")
            return SKIPPED
    for what in wrong:
        print(f"    FAILED {what}")
    print(f"killed at {outcomes.total()} calls: {dict(outcomes)}")
    if len(outcomes) < 4 and not wrong:
        wrong.append("not every outcome came up")
        print(f"    FAILED {wrong[-1]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
