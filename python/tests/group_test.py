"""Files that the ranks of a group load together: threads, and processes of torch.distributed and mpi4py.

Storage is read once, no rank hangs when another one fails, and all of them raise the same error.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
import unittest
from pathlib import Path
from typing import Any

import group_rank
import numpy as np
import tzmark
from corpus_test import CORPUS, cases, keys
from reading_test import read_bytes
from threads_group import Rank, ThreadsGroup

PROGRAM = Path(group_rank.__file__)
KEY = bytes(range(32))
RANKS = 3
BOTH_WAYS = ("gather", "broadcast")
# Ranks of processes end long before; a test that hangs fails instead.
LIMIT_S = 120


def arrays_of(tensors: dict[Any, Any]) -> list[tuple[Any, ...]]:
    """Names, types, shapes and bytes, in order; meta tensors, which may have huge shapes, have no bytes."""
    rows = []
    for name, tensor in tensors.items():
        if isinstance(tensor, tzmark.Buffer):
            data = b"" if tensor.meta else np.asarray(tensor.as_bytes()).tobytes()
        else:
            data = b"" if 0 in tensor.strides else tensor.tobytes()
        rows.append((name, str(tensor.dtype), tensor.shape, data))
    return rows


class Loading(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        generator = np.random.default_rng(71)
        self.tensors: dict[Any, Any] = {
            "w": generator.standard_normal((17, 300, 5), dtype="f4"),
            ("layers", 0, "bias"): generator.integers(0, 99, (64,), dtype="i8"),
            "empty": np.zeros((3, 0, 2), "c8"),
            "large": generator.integers(0, 255, (6 << 20,), dtype="u1"),
        }
        self.file = self.directory / "model.tensors"
        tzmark.save_file(self.tensors, self.file)
        self.expected = arrays_of(self.tensors)

    def copy(self, *, damaged_at: int | None = None) -> Path:
        """Returns a copy of the file, which may have one other byte."""
        data = bytearray(self.file.read_bytes())
        if damaged_at is not None:
            data[damaged_at] ^= 1
        path = self.directory / "other.tensors"
        path.write_bytes(data)
        return path

    def load(
        self, group: ThreadsGroup, file: Path | None = None, **options: Any
    ) -> list[Any]:
        """Loads the file on each rank, and returns what each has, or has raised."""
        return group.run(
            lambda rank: tzmark.load_file(file or self.file, group=rank, **options)
        )

    def check(self, results: list[Any], expected: list[tuple[Any, ...]]) -> None:
        for result in results:
            if isinstance(result, BaseException):
                raise result
            self.assertEqual(arrays_of(result), expected)

    def check_raised(
        self, results: list[Any], kind: type[BaseException], rule: str
    ) -> None:
        for result in results:
            self.assertIsInstance(result, kind)
            self.assertEqual(result.rule, rule)

    def test_every_rank_has_every_tensor(self) -> None:
        for size in (1, 2, 3, 5):
            for how in BOTH_WAYS:
                for gathers in (True, False):
                    with self.subTest(size=size, how=how, gathers=gathers):
                        group = ThreadsGroup(size, gathers)
                        self.check(self.load(group, group_read=how), self.expected)
                        self.assertEqual("all_gather" in group.calls, gathers)

    def test_files_of_the_corpus(self) -> None:
        """A sample of all data versions and layouts; the codec's own test takes all of them."""
        of_layouts: dict[str, list[dict[str, Any]]] = {}
        for case in cases("valid"):
            path = CORPUS / case["path"]
            if "data_path" not in case and path.stat().st_size <= 100 << 10:
                layout = json.loads((CORPUS / case["expected"]).read_text())["layout"]
                of_layouts.setdefault(layout, []).append(case)
        self.assertEqual(len(of_layouts), 8, list(of_layouts))
        number = 0
        for layout, of_layout in sorted(of_layouts.items()):
            sample = random.Random(layout).sample(of_layout, min(12, len(of_layout)))
            for case in sample:
                number += 1
                path, options = CORPUS / case["path"], keys(case)
                with self.subTest(case["id"]):
                    alone = arrays_of(tzmark.load_file(path, **options))
                    group = ThreadsGroup((1, 2, 3, 5)[number % 4], number % 3 > 0)
                    how = BOTH_WAYS[number // 4 % 2]
                    results = self.load(group, path, group_read=how, **options)
                    self.check(results, alone)

    def test_options(self) -> None:
        sealed = self.directory / "sealed.tensors"
        tzmark.save_file(self.tensors, sealed, key=KEY)
        group = ThreadsGroup(2)
        for checks in (True, False):
            options = {"verify": checks, "threads": 1, "huge_pages": False}
            self.check(self.load(group, sealed, key=KEY, **options), self.expected)
        self.check(self.load(group, io="pwrite", verify="crc32"), self.expected)
        for result in self.load(group, sealed):
            self.assertIsInstance(result, tzmark.FormatError)
            self.assertIn("no key", str(result))

    def test_progress(self) -> None:
        told: list[tuple[int, int]] = []
        size = self.file.stat().st_size

        def load(rank: Rank) -> Any:
            progress = None if rank.rank else lambda *at: told.append(at)
            return tzmark.load_file(self.file, group=rank, progress=progress)

        self.check(ThreadsGroup(2).run(load), self.expected)
        self.assertEqual(told[-1], (size, size))
        self.assertEqual({total for _, total in told}, {size})

    def test_progress_that_raises_ends_all_ranks(self) -> None:
        def stop(done: int, total: int) -> None:
            raise ZeroDivisionError

        def load(rank: Rank) -> Any:
            progress = stop if rank.rank == 1 else None
            return tzmark.load_file(self.file, group=rank, progress=progress)

        first, second = ThreadsGroup(2).run(load)
        self.assertIsInstance(second, ZeroDivisionError)
        self.assertIsInstance(first, (dict, tzmark.EnvironmentFailure))

    def test_storage_is_read_once(self) -> None:
        # Header and index, which every rank reads; of this file they have few bytes.
        little = RANKS * (64 << 10)
        size = self.file.stat().st_size
        for how in BOTH_WAYS:
            with self.subTest(how):
                before = read_bytes()
                self.load(ThreadsGroup(RANKS), group_read=how, io="pwrite")
                read = read_bytes() - before
                self.assertGreater(read, size)
                self.assertLess(read, size + little)
        before = read_bytes()
        for _ in range(RANKS):
            tzmark.load_file(self.file, io="pwrite")
        self.assertGreater(read_bytes() - before, RANKS * size)

    def test_other_data_of_one_rank_fails_its_hash_on_all(self) -> None:
        damaged = self.copy(damaged_at=self.file.stat().st_size - 1000)
        for how, bad_rank in (("broadcast", 0), ("gather", 2), ("gather", 0)):
            with self.subTest(how=how, bad_rank=bad_rank):
                results = ThreadsGroup(RANKS).run(
                    lambda rank: tzmark.load_file(
                        damaged if rank.rank == bad_rank else self.file,
                        group=rank,
                        group_read=how,
                    )
                )
                is_read = {isinstance(result, dict) for result in results}
                self.assertEqual(len(is_read), 1, results)
                # To gather, the byte may be one that the other ranks read.
                if how == "broadcast":
                    self.assertEqual(is_read, {False})
                if is_read == {False}:
                    self.check_raised(results, tzmark.FormatError, "TZR-HSH-005")

    def test_only_rank_0_reads_what_is_broadcast(self) -> None:
        damaged = self.copy(damaged_at=self.file.stat().st_size - 1000)
        results = ThreadsGroup(RANKS).run(
            lambda rank: tzmark.load_file(
                damaged if rank.rank else self.file, group=rank, group_read="broadcast"
            )
        )
        self.check(results, self.expected)

    def test_files_that_differ(self) -> None:
        other = self.directory / "different.tensors"
        tzmark.save_file({"v": np.zeros(9)}, other)
        results = ThreadsGroup(RANKS).run(
            lambda rank: tzmark.load_file(
                other if rank.rank == 1 else self.file, group=rank
            )
        )
        self.check_raised(results, tzmark.EnvironmentFailure, "TZE-ENV-005")
        for result in results:
            self.assertIn("rank 1", str(result))

    def test_file_that_one_rank_lacks(self) -> None:
        absent = self.directory / "absent.tensors"
        results = ThreadsGroup(2).run(
            lambda rank: tzmark.load_file(
                absent if rank.rank == 1 else self.file, group=rank
            )
        )
        self.check_raised(results, tzmark.EnvironmentFailure, "TZE-ENV-001")
        self.assertNotIsInstance(results[0], tzmark.MissingFileError)
        self.assertIn("rank 1: ", str(results[0]))
        self.assertIsInstance(results[1], tzmark.MissingFileError)

    def test_group_that_fails(self) -> None:
        whole = ThreadsGroup(RANKS)
        self.load(whole)
        self.assertGreater(len(whole.calls), 8)
        for number in range(len(whole.calls)):
            with self.subTest(number):
                group = ThreadsGroup(RANKS)
                network = OSError("the network is down")
                group.ranks[number % RANKS].fails_at = (number, network)
                results = self.load(group)
                self.check_raised(results, tzmark.EnvironmentFailure, "TZE-ENV-002")
                failed = results[number % RANKS]
                self.assertIs(failed.__cause__, network)
                self.assertIn("the network is down", str(failed))
                self.assertEqual(failed.file, str(self.file))
                for result in results:
                    self.assertIsNotNone(result.__cause__)
        # It is not called after it has failed.
        for rank in group.ranks:
            self.assertLessEqual(rank.count, number + 1)

    def test_group_that_is_interrupted(self) -> None:
        group = ThreadsGroup(2)
        group.ranks[1].fails_at = (3, KeyboardInterrupt())
        first, second = self.load(group)
        self.assertIsInstance(first, tzmark.EnvironmentFailure)
        self.assertIsInstance(second, KeyboardInterrupt)

    def test_memory_is_lent(self) -> None:
        kept: list[memoryview] = []

        class Keeping(Rank):
            def broadcast(self, buffer: memoryview, root: int) -> None:
                kept.append(buffer)

        tzmark.load_file(self.file, group=Keeping(ThreadsGroup(1), 0))
        self.assertTrue(kept)
        for buffer in kept:
            with self.assertRaisesRegex(ValueError, "released"):
                buffer[0]

    def test_frames_of_an_error_have_no_memory(self) -> None:
        class Failing(Rank):
            def broadcast(self, buffer: memoryview, root: int) -> None:
                view = np.frombuffer(buffer, np.uint8)
                raise OSError(len(view))

        with self.assertRaises(tzmark.EnvironmentFailure) as caught:
            tzmark.load_file(self.file, group=Failing(ThreadsGroup(1), 0))
        cause = caught.exception.__cause__
        self.assertIsInstance(cause, OSError)
        frames = list(traceback.walk_tb(cause.__traceback__))
        self.assertIn("broadcast", [frame.f_code.co_name for frame, _ in frames])
        self.assertFalse(any("view" in frame.f_locals for frame, _ in frames))

    def test_process_that_ends_meanwhile(self) -> None:
        """A thread that loads does not keep it, and does not abort it."""
        words = f"""
import sys, threading, time, tzmark
class Slow:
    rank, size, calls = 0, 1, 0
    def broadcast(self, buffer, root):
        self.calls += 1
        time.sleep(0.05)
slow = Slow()
options = {{"target": tzmark.load_file, "args": [{str(self.file)!r}], "kwargs": {{"group": slow}}}}
threading.Thread(**options, daemon=True).start()
while slow.calls < 5:
    time.sleep(0.01)
"""
        ended = subprocess.run(
            [sys.executable, "-c", words],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_tensors_and_groups_are_freed(self) -> None:
        group = ThreadsGroup(1)
        rank = group.ranks[0]
        before = sys.getrefcount(rank)
        for _ in range(3):
            tensors = tzmark.load_file(self.file, group=rank)
            del tensors
        gc.collect()
        self.assertEqual(sys.getrefcount(rank), before)

    def test_wrong_arguments(self) -> None:
        rank = ThreadsGroup(1).ranks[0]
        shard = (0, 1, {"w": 0})
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"group_read": "sliced"}, "gather"),
            ({"shard": shard, "verify": False}, "shard"),
            ({"mapped": True, "verify": False}, "mapped"),
            ({"device": "cuda:0", "framework": "pt"}, "host memory"),
            ({"framework": "jax"}, "framework"),
            ({"verify": "sha"}, "verify"),
            ({"io": ""}, "I/O path"),
            ({"key": b"short"}, "32 bytes"),
            ({"passphrase": ""}, "empty"),
        ]
        for options, words in wrong:
            with self.subTest(options):
                with self.assertRaisesRegex(tzmark.UsageError, words):
                    tzmark.load_file(self.file, group=rank, **options)
        self.assertEqual(rank.count, 0)
        with self.assertRaisesRegex(tzmark.UsageError, "needs a group"):
            tzmark.load_file(self.file, group_read="broadcast")
        with self.assertRaises(TypeError):
            tzmark.load_file(self.file, group=rank, group_read=1)

    def test_wrong_groups(self) -> None:
        class Halfway:
            rank, size = 0, 2

        for group in (3, object(), Halfway(), "WORLD"):
            with self.assertRaisesRegex(TypeError, "rank, size and broadcast"):
                tzmark.load_file(self.file, group=group)
        for number, size in ((2, 2), (-1, 2), (0, 0)):
            rank = ThreadsGroup(1).ranks[0]
            rank.rank, rank.size = number, size
            with self.assertRaisesRegex(tzmark.UsageError, "no rank"):
                tzmark.load_file(self.file, group=rank)

    def test_what_only_one_process_reads(self) -> None:
        """All ranks hear of it, so that a rank with another file does not wait."""
        other = self.directory / "model.safetensors"
        tzmark.save_file({"w": np.zeros(9)}, other)
        held = self.directory / "held"
        held.mkdir()
        shutil.copy(self.file, held / "model.tensors")
        for path, words in (
            (other, "safetensors file"),
            (held, "a directory: give .*held/model.tensors"),
            (Path("-"), "standard input"),
        ):
            with self.subTest(path):
                results = ThreadsGroup(2).run(
                    lambda rank: tzmark.load_file(
                        path if rank.rank else self.file, group=rank
                    )
                )
                self.check_raised(results, tzmark.UsageError, "TZE-USE-001")
                for result in results:
                    self.assertRegex(str(result), words)


class Processes(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.file = self.directory / "model.tensors"
        generator = np.random.default_rng(72)
        tensors = {
            f"t{i}": generator.integers(0, 255, (1 << 20,), dtype="u1")
            for i in range(8)
        }
        tzmark.save_file(tensors, self.file)
        self.digest = group_rank.digest(tensors)

    def run_ranks(self, how: str, size: int) -> list[dict[str, str]]:
        """Runs the ranks of torch.distributed, and returns what each prints."""
        if importlib.util.find_spec("torch") is None:
            self.skipTest("torch is not installed")
        store = str(self.directory / "store")
        with contextlib.ExitStack() as stack:
            ranks = []
            for rank in range(size):
                process = subprocess.Popen(
                    [sys.executable, "-B", PROGRAM, how, self.file, store]
                    + [str(rank), str(size)],
                    stdout=subprocess.PIPE,
                    text=True,
                )
                ranks.append(stack.enter_context(process))
                stack.callback(process.kill)
            # Gloo may print lines of its own before.
            printed = [process.communicate(timeout=LIMIT_S)[0] for process in ranks]
            return [json.loads(text.splitlines()[-1]) for text in printed]

    def test_torch(self) -> None:
        results = self.run_ranks("torch", RANKS)
        for rank, result in enumerate(results):
            self.assertEqual(result["gather"], self.digest)
            self.assertEqual(result["broadcast"], self.digest)
            self.assertIn('new_group(backend="gloo")', result["nccl"])
            if rank == 0:
                self.assertIn("not a member", result["some"])
            else:
                self.assertEqual(result["some"], self.digest)

    def test_interrupt_of_one_rank(self) -> None:
        """It ends the load on all ranks before the rest of the file is exchanged, and the group works afterwards."""
        *others, last = self.run_ranks("slow", RANKS)
        self.assertEqual(last["first"], "KeyboardInterrupt")
        for result in others:
            self.assertIn(f"rank {RANKS - 1}: interrupted", result["first"])
        for result in (*others, last):
            self.assertEqual(result["again"], self.digest)
            # The ranks agree three times, and the file has eight chunks of each.
            self.assertLess(int(result["calls"]), group_rank.Slow.INTERRUPTED_CALL + 10)
            self.assertLess(int(result["calls"]), 8 * RANKS)

    def test_mpi(self) -> None:
        if importlib.util.find_spec("mpi4py") is None or not shutil.which("mpirun"):
            self.skipTest("mpi4py or mpirun is not installed")
        as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        run = subprocess.run(
            ["mpirun", *as_root, "--oversubscribe", "-n", str(RANKS)]
            + [sys.executable, "-B", PROGRAM, "mpi", self.file],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=LIMIT_S,
        )
        self.assertEqual(run.returncode, 0)
        results = [json.loads(line) for line in run.stdout.splitlines()]
        self.assertEqual({result["rank"] for result in results}, {"0", "1", "2"})
        for result in results:
            self.assertEqual(result["gather"], self.digest)
            self.assertEqual(result["broadcast"], self.digest)
            self.assertEqual(result["reverse"], self.digest)
            self.assertIn("thread_level", result["threads"])
            self.assertIn("not a member", result["none"])


if __name__ == "__main__":
    unittest.main()
