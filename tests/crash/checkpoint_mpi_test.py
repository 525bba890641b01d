#!/usr/bin/env python3
"""Do sharded checkpoints survive the death of one rank of an MPI program?

Four ranks save under mpirun, and one of them is killed with SIGKILL while a save goes on. A save that not all ranks
have finished is never committed: the newest checkpoint is the one before, or the killed rank was through with its
shard. All committed ones verify, and put together they have the content of their step. The next run removes what was
left and goes on. Afterwards the checkpoints are dealt out to two ranks, who go on from them.

Exits with status 77, which CTest counts as skipped, where there is no mpirun or tzmark was built without MPI.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from simulated import check_content
from simulations import SAME_NAME, Simulations
from subject import FINE, Wrong, require

SOURCE = Path(os.environ.get("TZMARK_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("TZMARK_BUILD_DIR", SOURCE / "build"))

SKIPPED = 77
PROGRAM = "tzmark-checkpoint-mpi"
RANKS = 4
INTERVAL = 5
STRATEGIES = ("zero", "tensor-parallel", "replicated")


def mpirun(ranks: int) -> tuple[str, ...]:
    """Also as root, and on fewer cores than ranks: this is a test."""
    as_root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
    return ("mpirun", *as_root, "--oversubscribe", "-n", str(ranks))


def simulations(
    program: Path, directory: Path, strategy: str, ranks: int, *more: str
) -> Simulations:
    options = ("--mpi", "--strategy", strategy, "--state-mib", "48", "--step-ms", "1")
    return Simulations(
        program,
        directory,
        (*options, "--interval", str(INTERVAL), "--keep-latest", "2", *more),
        mpirun(ranks),
    )


def processes_of_ranks(directory: Path) -> dict[int, int]:
    """The process of each rank that works in the directory."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if Path(os.readlink(entry / "exe")).name != PROGRAM:
                continue
            if os.fsencode(directory) not in (entry / "cmdline").read_bytes():
                continue
            for variable in (entry / "environ").read_bytes().split(b"\0"):
                if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                    found[int(variable.partition(b"=")[2])] = int(entry.name)
        except (OSError, ValueError):
            continue  # not a process, or it has just ended
    return found


def check_committed(runs: Simulations, scratch: Path) -> list[int]:
    """As for one process, and what the shards hold together."""
    steps = runs.check_committed()
    for step in steps[-1:]:
        whole = scratch / "whole"
        shutil.rmtree(whole, ignore_errors=True)
        ended = runs.command("consolidate", runs.checkpoint(step), whole)
        require(
            ended.status == FINE, f"consolidate exits {ended.status}: {ended.errors}"
        )
        runs.verify(whole)
        check_content(whole, step)
        shutil.rmtree(whole)
    return steps


def wait_for_save(runs: Simulations) -> None:
    """Returns when a save has begun."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if runs.directory.exists():
            for entry in os.scandir(runs.directory):
                if ".tmp-" in entry.name:
                    return
        time.sleep(0.0005)
    raise Wrong("no save has begun within a minute")


def kill_a_rank(
    runs: Simulations, scratch: Path, newest: int, rank: int, delay: float
) -> tuple[str, int]:
    """Kills a rank in its first save. Returns what came of it, and the step of the newest checkpoint then."""
    output = scratch / "output"
    process = runs.start(1 << 40, output)
    try:
        wait_for_save(runs)
        time.sleep(delay)
        victims = processes_of_ranks(runs.directory)
        require(sorted(victims) == list(range(RANKS)), f"the ranks are {victims}")
        os.kill(victims[rank], signal.SIGKILL)
        require(
            process.wait(timeout=60) != 0, "mpirun exits 0 though a rank was killed"
        )
    finally:
        process.kill()
        process.wait()
    deadline = time.monotonic() + 30
    while processes_of_ranks(runs.directory) and time.monotonic() < deadline:
        time.sleep(0.01)
    require(not processes_of_ranks(runs.directory), "ranks outlive the killed one")
    durable = runs.durable_step(newest, output.read_text())
    was_left = bool(runs.temporary())
    steps = check_committed(runs, scratch)
    now = max(steps, default=0)
    require(
        now in (durable, durable + INTERVAL),
        f"step {durable} was durable, and the newest checkpoint is of step {now}",
    )
    runs.check_restart(now)
    if now == newest:
        require(was_left, "the save has left nothing")
        return "not committed", now
    return "committed", now


def elapsed_drain(program: Path, scratch: Path) -> float:
    """How long an undisturbed save takes, in seconds."""
    runs = simulations(program, scratch / "undisturbed", STRATEGIES[0], RANKS)
    process = runs.start(INTERVAL, scratch / "output")
    wait_for_save(runs)
    begin = time.monotonic()
    while not runs.checkpoint(INTERVAL).exists():
        require(time.monotonic() - begin < 60, "a save takes more than a minute")
        time.sleep(0.0005)
    drain = time.monotonic() - begin
    require(process.wait() == FINE, f"mpirun exits {process.returncode}")
    shutil.rmtree(runs.directory)
    return drain


def kill_ranks(program: Path, scratch: Path, count: int, seed: int) -> list[str]:
    """Kills one rank again and again, each strategy in turn, with new names and with one. Returns what was wrong."""
    numbers = random.Random(seed)
    drain = elapsed_drain(program, scratch)
    ways = [
        (strategy, names) for names in ((), (SAME_NAME,)) for strategy in STRATEGIES
    ]
    newest = dict.fromkeys(ways, 0)
    seen: Counter[str] = Counter()
    wrong = []
    for i in range(count):
        strategy, names = way = ways[i % len(ways)]
        directory = scratch / "".join((strategy, *names))
        runs = simulations(program, directory, strategy, RANKS, *names)
        rank, delay = numbers.randrange(RANKS), numbers.uniform(0, drain)
        try:
            what, newest[way] = kill_a_rank(runs, scratch, newest[way], rank, delay)
            seen[what] += 1
        except Wrong as problem:
            wrong.append(
                f"{directory.name}, rank {rank} killed after {delay:.3f} s: {problem}"
            )
            shutil.rmtree(runs.directory, ignore_errors=True)
            newest[way] = 0
    if not wrong and seen["not committed"] == 0:
        wrong.append(f"no kill has kept a save from being committed: {dict(seen)}")
    print(
        f"{count} kills of one of {RANKS} ranks, seed {seed}, "
        f"a save takes {1000 * drain:.0f} ms: {dict(seen)}",
        flush=True,
    )
    return wrong


def go_on_with_two(program: Path, scratch: Path) -> list[str]:
    """Deals checkpoints out to two ranks, who go on. Another number of ranks than has saved is refused."""
    wrong = []
    for strategy in STRATEGIES:
        try:
            four = simulations(program, scratch / "four", strategy, RANKS)
            ended = four.run(INTERVAL)
            require(ended.status == FINE, f"it exits {ended.status}: {ended.errors}")
            two = simulations(program, scratch / "two", strategy, 2)
            two.directory.mkdir()
            ended = two.command(
                "reshard",
                four.directory,
                two.checkpoint(INTERVAL),
                "--world-size=2",
            )
            require(
                ended.status == FINE, f"reshard exits {ended.status}: {ended.errors}"
            )
            refused = simulations(program, four.directory, strategy, 2).run(INTERVAL)
            require(
                refused.status == 2 and "CKP-004" in refused.errors,
                f"two ranks load what four have saved: {refused}",
            )
            ended = two.run(2 * INTERVAL)
            require(ended.status == FINE, f"it exits {ended.status}: {ended.errors}")
            steps = check_committed(two, scratch)
            require(steps == [INTERVAL, 2 * INTERVAL], f"there are {steps}")
            print(f"{strategy}: dealt out to two ranks, who have gone on", flush=True)
        except Wrong as what:
            wrong.append(f"{strategy}: {what}")
        for name in ("four", "two"):
            shutil.rmtree(scratch / name, ignore_errors=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tzmark", type=Path, default=BUILD / "bin/tzmark")
    parser.add_argument(
        "--kills", type=int, default=6, help="how many kills; default 6"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of the random times; default 1"
    )
    options = parser.parse_args()
    if shutil.which("mpirun") is None:
        print("skipped: there is no mpirun; scripts/setup installs it")
        return SKIPPED
    if not (BUILD / "libexec/tzmark" / PROGRAM).exists():
        print("skipped: tzmark was built without MPI")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="tzmark-mpi-", dir=BUILD) as here:
        scratch = Path(here)
        try:
            wrong = kill_ranks(options.tzmark, scratch, options.kills, options.seed)
            wrong += go_on_with_two(options.tzmark, scratch)
        except Wrong as what:
            wrong = [str(what)]
    for what in wrong:
        print(f"FAILED {what}")
    print("all is well" if not wrong else f"{len(wrong)} FAILED")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
