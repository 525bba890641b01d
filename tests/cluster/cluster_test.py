#!/usr/bin/env python3
"""Runs tzmark bench cluster under mpirun: its result, the bytes of the disk, and ranks that are slow, die, or have no
space.

usage: cluster_test.py [--deaths N] [--runs N] [--slowness SHARE] [unittest options]
  --deaths: how many ranks are killed, each in a run of its own
  --runs: how many runs with a slow rank, and as many without
  --slowness: 0.3 for a rank whose reads take 1.3 times as long

Exits with status 77, which CTest counts as skipped, where there is no mpirun or tzmark was built without MPI.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from statistics import median
from typing import Any

import jsonschema

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
TZMARK = BUILD / "bin/tzmark"
PROGRAM = BUILD / "libexec/tzmark/tzmark-bench-cluster"
REPLACED_TOGETHER = BUILD / "tests/tzmark-replaced-together"
SLOW_READS = BUILD / "tests/libtzmark_slow_reads.so"

SKIPPED = 77
# Storage of the ranks in which one is slow, and what is more than that: a rank is named from 1.1 on.
READ_US, READ_BYTES, LATE_SHARE = 40_000, 1 << 20, 1.08
RANKS = 4
READS = ("same", "rotated", "broadcast", "gather", "sliced", "sharded")
WRITES = ("segments", "checkpoint")
PATTERNS = (*READS, *WRITES)
# Without what MPI says of its own.
QUIET = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_orte_abort_print_stack": "0",
}

Json = dict[str, Any]
deaths, runs, slowness = 6, 2, 1.0


def command(directory: Path, *more: str) -> list[str]:
    return [
        *("mpirun", "--oversubscribe", "-n", str(RANKS), str(TZMARK), "bench"),
        *("cluster", "--dir", str(directory), "--threads", "1"),
        *(() if "--scale" in more else ("--scale", "8MiB")),
        *more,
    ]


def environment(**more: str) -> dict[str, str]:
    return os.environ | QUIET | more


def ranks_of(run: str) -> dict[int, int]:
    """The process of each rank of the program with this name in its environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if Path(os.readlink(entry / "exe")) not in (
                PROGRAM.resolve(),
                REPLACED_TOGETHER.resolve(),
            ):
                continue
            values = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # not a process, or it has just ended
        if f"TZMARK_TEST_RUN={run}".encode() not in values:
            continue
        for value in values:
            if value.startswith(b"OMPI_COMM_WORLD_RANK="):
                found[int(value.partition(b"=")[2])] = int(entry.name)
    return found


def output_of(program: subprocess.Popen[str], run: str) -> tuple[str, str] | None:
    """What a program of MPI has printed; nothing if mpirun waits for itself after all ranks have ended, as that of Open
    MPI 5.0.7 sometimes does."""
    for _ in range(15):
        try:
            return program.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            if ranks_of(run):
                continue
            program.kill()
            program.communicate()
            print("mpirun waits for itself: killed", file=sys.stderr)
            return None
    program.kill()
    raise AssertionError(f"ranks do not end: {program.args!r}")


def run_mpi(arguments: list[Any], **variables: str) -> subprocess.CompletedProcess[str]:
    for _ in range(4):
        run = f"run-{os.getpid()}-{time.monotonic_ns()}"
        program = subprocess.Popen(
            arguments,
            env=environment(TZMARK_TEST_RUN=run, **variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        printed = output_of(program, run)
        if printed is not None:
            return subprocess.CompletedProcess(arguments, program.returncode, *printed)
    raise AssertionError("mpirun waits for itself each time")


class Cluster(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(dir=os.environ.get("TZMARK_TEST_DISK"))
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        self.directory = self.scratch / "measured"
        self.directory.mkdir()

    def run_program(
        self, *more: str, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return run_mpi(command(self.directory, *more), **variables)

    def result(self, *more: str, **variables: str) -> Json:
        file = self.scratch / "result.json"
        file.unlink(missing_ok=True)
        ended = self.run_program("--json", str(file), *more, **variables)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(list(self.directory.iterdir()), [], "something is left")
        document: Json = json.loads(file.read_text())
        return document

    def test_result(self) -> None:
        document = self.result("--rounds", "2")
        schema = json.loads(
            (SOURCE / "reports/schema/bench.schema.json").read_text(encoding="utf-8")
        )
        jsonschema.validate(document, schema)
        results = {each["cluster"]["pattern"]: each for each in document["results"]}
        self.assertEqual(tuple(results), PATTERNS)
        for pattern, result in results.items():
            self.assertEqual(len(result["samples"]), 2)
            unique_bytes = result["cluster"]["unique_bytes"]
            expected = 1 if pattern in ("sharded", *WRITES) else RANKS
            if pattern != "sliced":
                self.assertEqual(result["bytes"], expected * unique_bytes, pattern)
            for sample in result["samples"]:
                resident = None if pattern in WRITES else 0
                self.assertEqual(sample["resident_share"], resident, pattern)
                roles = sorted(rank["role"] for rank in sample["ranks"])
                self.assertEqual(roles, list(range(RANKS)))
                if pattern == "sharded":
                    own = [r for r in sample["ranks"] if r["role"] == r["rank"]]
                    self.assertEqual(own, [], "a rank reads what it wrote")
            self.assertIsNone(result["cluster"]["slow"], "told by two rounds")
        page = self.scratch / "page"
        shown = subprocess.run(
            [TZMARK, "report", str(self.scratch / "result.json"), "-o", str(page)],
            capture_output=True,
            text=True,
        )
        self.assertEqual(shown.returncode, 0, shown.stderr)
        html = next(page.rglob("*.html")).read_text(encoding="utf-8")
        self.assertIn("Ranks of a program", html)

    def test_bytes_of_the_disk(self) -> None:
        """Cold and direct, each byte is read once, or once by each rank."""
        # The disk also counts what other processes read, so that of several samples the lowest counts.
        wanted: dict[str, str] = dict.fromkeys(READS, "")
        for _ in range(5):
            document = self.result(
                *("--rounds", "3", "--io", "direct", "--pattern", ",".join(wanted))
            )
            for result in document["results"]:
                self.check_bytes_of_the_disk(result, wanted)
            if not wanted:
                return
        self.fail(f"more was read than the ranks asked for: {wanted}")

    def test_bytes_of_the_disk_that_are_written(self) -> None:
        """Each byte is written once, and names add little."""
        for pattern in WRITES:
            # Of several samples the lowest counts: the disk also counts what other processes write.
            for tries_left in reversed(range(5)):
                document = self.result(
                    *("--rounds", "4", "--pattern", pattern, "--scale", "128MiB")
                )
                (result,) = document["results"]
                figures = result["cluster"]
                if figures["storage_bytes_per_byte"] is None:
                    self.skipTest(f"{self.directory} is on no disk")
                lowest = min(
                    sample["device_written_bytes"] for sample in result["samples"]
                )
                measured = lowest / figures["unique_bytes"]
                self.assertGreaterEqual(measured, 1)
                if measured < 1.01 or not tries_left:
                    break
            print(f"{pattern}: {measured:.4f} times the bytes", file=sys.stderr)
            self.assertLess(measured, 1.01, pattern)

    def check_bytes_of_the_disk(self, result: Json, wanted: dict[str, str]) -> None:
        """Removes the pattern from those that are wanted, or tells there what is too much."""
        figures = result["cluster"]
        if figures["storage_bytes_per_byte"] is None:
            self.skipTest(
                f"{self.directory} is on no disk: TZMARK_TEST_DISK names a directory on one"
            )
        pattern, unique_bytes = figures["pattern"], figures["unique_bytes"]
        expected = result["bytes"] / unique_bytes
        if pattern in ("broadcast", "gather"):
            expected = 1
        lowest = min(sample["device_read_bytes"] for sample in result["samples"])
        measured = lowest / unique_bytes
        more = 0.01 * expected + 0.01
        if pattern == "sliced":
            # Slices begin and end within pages, and a direct read has whole ones.
            more += result["tensors"] * RANKS * 8192 / unique_bytes
        self.assertGreaterEqual(measured, expected * 0.99, pattern)
        said = f"{measured:.4f} of {expected:.4f} times the bytes"
        if measured > expected + more:
            wanted[pattern] = said
            return
        del wanted[pattern]
        print(f"{pattern}: {said}", file=sys.stderr)

    def test_a_file_that_is_there(self) -> None:
        model = self.scratch / "model.tensors"
        corpus = BUILD / "share/tzmark/corpus/upstream/tensorizer-2.11.1"
        shutil.copyfile(corpus / "meta-mixed.tensors", model)
        before = model.read_bytes(), model.stat().st_mtime_ns
        arguments = command(self.directory, "--rounds", "1", "--file", str(model))
        at = arguments.index("--dir")
        del arguments[at : at + 2]
        ended = run_mpi(arguments)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("gather n4", ended.stdout)
        for pattern in ("sharded", *WRITES):
            self.assertNotIn(f"{pattern} n4", ended.stdout)
        self.assertEqual((model.read_bytes(), model.stat().st_mtime_ns), before)

    def test_wrong_usage_is_said_once(self) -> None:
        for more, text in (
            (("--pattern", "other"), "other"),
            (("--file", "x.tensors"), "--dir"),
            (("--io", "nothing"), "nothing"),
            (("--cache", "warm", "--io", "direct"), "warm"),
        ):
            ended = self.run_program(*more)
            self.assertNotEqual(ended.returncode, 0)
            said = [
                line for line in ended.stderr.splitlines() if line.startswith("tzmark:")
            ]
            self.assertEqual(len(said), 1, ended.stderr)
            self.assertIn(text, said[0])
            self.assertEqual(list(self.directory.iterdir()), [])

    def test_a_slow_rank_is_named_and_no_other(self) -> None:
        """What is named is compared with how long the storage of each rank takes, for a busy machine makes ranks slow,
        too: that one of these is named is right, and that the slow one is not named among them is no fault.
        """
        self.assertTrue(SLOW_READS.exists(), "it is built with the tests")
        # LD_PRELOAD splits at spaces and colons, which the path of the build may have.
        temporary = tempfile.TemporaryDirectory(prefix="tzmark-preload-")
        self.addCleanup(temporary.cleanup)
        self.preloaded = Path(temporary.name) / SLOW_READS.name
        self.preloaded.symlink_to(SLOW_READS.resolve())
        self.assertNotRegex(str(self.preloaded), "[ :$]", "TMPDIR cannot hold it")
        clean = found = missed = disturbed = 0
        while clean + found + missed < 2 * runs and disturbed < 20 * runs:
            if clean < runs:
                named, late, _ = self.named_ranks(slowed=False)
                self.assertEqual(named - late, set(), "named, but it was not late")
                clean += not named
                disturbed += bool(named)
            if found + missed < runs:
                named, late, is_calm = self.named_ranks(slowed=True)
                self.assertEqual(named - late - {2}, set(), "named, but not late")
                found += 2 in named
                missed += is_calm and 2 not in named
                disturbed += not is_calm and 2 not in named
        print(
            f"{found} of {runs} slow ranks were named, and none in {clean} runs without;"
            f" {disturbed} runs were disturbed",
            file=sys.stderr,
        )
        self.assertEqual(missed, 0)
        if clean < runs or found < runs:
            self.skipTest(f"{disturbed} runs were disturbed by other programs")

    def named_ranks(self, slowed: bool) -> tuple[set[int], set[int], bool]:
        """The ranks that are named; those that took longer than their storage, by the median of the laps; and whether
        no rank did in any lap."""
        # Ranks that wait for storage need no core meanwhile, and there may be few.
        variables = {
            "TZMARK_TEST_READ_US": str(READ_US),
            "LD_PRELOAD": str(self.preloaded),
        }
        if slowed:
            variables["TZMARK_TEST_SLOW_RANK"] = "2"
            variables["TZMARK_TEST_SLOWNESS"] = str(slowness)
        # Little is copied in that time, which a busy machine would delay.
        how = ("--pattern", "rotated", "--cache", "warm", "--io", "pwrite")
        how += ("--scale", "8MiB", "--block", str(READ_BYTES))
        (result,) = self.result(*how, **variables)["results"]
        shares: dict[int, list[float]] = {rank: [] for rank in range(RANKS)}
        for sample in result["samples"]:
            for rank in sample["ranks"]:
                storage_ns = rank["bytes"] // READ_BYTES * READ_US * 1000
                if slowed and rank["rank"] == 2:
                    storage_ns *= 1 + slowness
                shares[rank["rank"]].append(rank["elapsed_ns"] / storage_ns)
        fastest = min(map(min, shares.values()))
        self.assertGreaterEqual(fastest, 0.99, "faster than its storage")
        late = {rank for rank, each in shares.items() if median(each) > LATE_SHARE}
        is_calm = max(map(max, shares.values())) <= LATE_SHARE
        return {one["rank"] for one in result["cluster"]["slow"]}, late, is_calm

    def test_a_full_disk_of_one_rank_is_one_error(self) -> None:
        """The limit of file sizes stands for it: shards are smaller than the model, and their rank says what failed."""
        # What MPI shares between the ranks is a file, too, and smaller than that.
        model_bytes = 256 << 20
        limit = f'ulimit -f {model_bytes // 8 // 1024}; exec "$@"'
        arguments = command(
            self.directory,
            *("--rounds", "1", "--pattern", "sharded", "--scale", str(model_bytes)),
        )
        program = arguments.index(str(TZMARK))
        wrapped = (
            'if [ "$OMPI_COMM_WORLD_RANK" = 3 ]; then ' + limit + '; fi; exec "$@"'
        )
        arguments[program:program] = ["bash", "-c", wrapped, "rank"]
        ended = run_mpi(arguments)
        self.assertNotEqual(ended.returncode, 0)
        said = [
            line for line in ended.stderr.splitlines() if line.startswith("tzmark:")
        ]
        self.assertEqual(len(said), 1, ended.stderr)
        self.assertRegex(said[0], "TZE-ENV-00[0-9].*rank 3 on ")
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_a_rank_that_dies_ends_the_run_and_leaves_nothing(self) -> None:
        chance = random.Random(46)
        for number in range(deaths):
            program = subprocess.Popen(
                command(self.directory, "--rounds", "1000"),
                env=environment(TZMARK_TEST_RUN=str(number)),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            begin = time.monotonic()
            while len(ranks := ranks_of(str(number))) < RANKS:
                self.assertLess(time.monotonic(), begin + 60, "the ranks do not start")
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 3))
            victim = chance.randrange(RANKS)
            os.kill(ranks[victim], signal.SIGKILL)
            printed = output_of(program, str(number))
            self.assertNotEqual(program.returncode, 0)
            if printed is not None:
                self.assertIn(f"process rank {victim} ", printed[1])
                said = [
                    line
                    for line in printed[1].splitlines()
                    if line.startswith("tzmark:")
                ]
                self.assertEqual(said, [])
            for _ in range(50):
                if not ranks_of(str(number)):
                    break
                time.sleep(0.1)
            left = list(self.directory.iterdir())
            self.assertEqual(left, [], f"after the death of rank {victim}")


class Replaced(unittest.TestCase):
    """One file that all ranks write."""

    def test_a_rank_that_is_killed_leaves_the_old_file_or_the_new_one(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        whole = []
        for letter in "ab":
            alone = Path(scratch.name) / f"{letter}.tensors"
            run = ["mpirun", "-n", "1", REPLACED_TOGETHER, alone, letter]
            self.assertEqual(run_mpi(run).returncode, 0)
            subprocess.run([TZMARK, "verify", alone], check=True, capture_output=True)
            whole.append(alone.read_bytes())
        self.assertNotEqual(*whole)
        directory = Path(scratch.name) / "written"
        directory.mkdir()
        file = directory / "model.tensors"
        chance = random.Random(46)
        found = {0: 0, 1: 0}
        for number in range(deaths):
            before = file.stat().st_ino if file.exists() else None
            program = subprocess.Popen(
                ["mpirun", "--oversubscribe", "-n", str(RANKS), REPLACED_TOGETHER, file]
                + ["both"],
                # Rank 0 has to see the end of another and remove its file before mpirun kills it, after a second.
                env=environment(
                    TZMARK_TEST_RUN=f"replaced-{number}",
                    OMPI_MCA_odls_base_sigkill_timeout="4",
                ),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            self.addCleanup(program.kill)
            begin = time.monotonic()
            # mpirun may wait for ever for a rank that dies in MPI_Init.
            while (file.stat().st_ino if file.exists() else before) == before:
                self.assertIsNone(program.poll(), "the ranks have ended")
                self.assertLess(time.monotonic(), begin + 60, "nothing is written")
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 1.5))
            victim = number % RANKS
            os.kill(ranks_of(f"replaced-{number}")[victim], signal.SIGKILL)
            output_of(program, f"replaced-{number}")
            while ranks_of(f"replaced-{number}"):
                self.assertLess(time.monotonic(), begin + 120, "ranks go on")
                time.sleep(0.01)
            found[whole.index(file.read_bytes())] += 1
            left = [one for one in directory.iterdir() if one != file]
            # Rank 0 removes the file that is not complete, unless it is killed itself.
            self.assertLessEqual(len(left), victim == 0, str(left))
            for one in left:
                self.assertRegex(one.name, r"^model\.tensors\.tmp-[0-9a-f]{8}$")
                one.unlink()
        print(f"after {deaths} deaths: {found[0]} a, {found[1]} b", file=sys.stderr)

    def test_what_a_dead_rank_0_has_begun_is_removed_by_the_others(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "model.tensors"
            file.write_text("old")
            for _ in range(3):
                done = run_mpi(
                    ["mpirun", "--oversubscribe", "-n", str(RANKS), REPLACED_TOGETHER]
                    + [file, "dies"]
                )
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(list(Path(directory).iterdir()), [file])
                self.assertEqual(file.read_text(), "old")


def main() -> int:
    global deaths, runs, slowness
    parser = argparse.ArgumentParser()
    parser.add_argument("--deaths", type=int, default=deaths)
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--slowness", type=float, default=slowness)
    known, rest = parser.parse_known_args()
    deaths, runs, slowness = known.deaths, known.runs, known.slowness
    if shutil.which("mpirun") is None or not PROGRAM.exists():
        print("skipped: there is no MPI")
        return SKIPPED
    unittest.main(argv=[sys.argv[0], *rest])
    return 0


if __name__ == "__main__":
    sys.exit(main())
