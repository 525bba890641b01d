"""Checkpointer: state dicts of any structure, retention, errors of the background, ranks, forks and crashes."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tzmark

try:
    import torch
except ImportError:
    torch = None

CRASH_SCRIPT = """
import sys, numpy as np, tzmark
checkpointer = tzmark.Checkpointer(sys.argv[1], keep_latest=2)
latest = checkpointer.load_latest()
step = 0 if latest is None else latest.step
print("start", step, flush=True)
while True:
    step += 1
    state = {"w": np.full(1 << 20, step, "f4"), "optimizer": {"m": np.full(1 << 18, -step, "f4")}}
    checkpointer.save(state, step)
    print(step, flush=True)
"""


class Checkpoints(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name) / "runs" / "one"

    def steps(self) -> list[str]:
        return sorted(name for name in os.listdir(self.directory) if name[:4] == "step")

    def barriers(self, world_size: int) -> list[Callable[[bool], bool]]:
        """Returns a barrier for each of several ranks that are threads."""
        meeting, passed = threading.Barrier(world_size), [True] * world_size

        def barrier_of(rank: int) -> Callable[[bool], bool]:
            def barrier(ok: bool) -> bool:
                passed[rank] = ok
                meeting.wait(20)
                result = all(passed)
                meeting.wait(20)
                return result

            return barrier

        return [barrier_of(rank) for rank in range(world_size)]

    def ranks(self, run: Callable[[int], Any], world_size: int) -> list[Any]:
        """Runs a function of the rank in a thread each, and returns what they return or raise."""
        results: list[Any] = ["it hangs"] * world_size

        def in_thread(rank: int) -> None:
            try:
                results[rank] = run(rank)
            except Exception as error:
                results[rank] = error

        threads = [
            threading.Thread(target=in_thread, args=(rank,), daemon=True)
            for rank in range(world_size)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return results

    def equal(self, a: Any, b: Any) -> None:
        """Compares two state dicts, types included."""
        self.assertEqual(type(a), type(b))
        if isinstance(a, dict):
            self.assertEqual(list(a), list(b))
            for key in a:
                self.equal(a[key], b[key])
        elif isinstance(a, (list, tuple)):
            self.assertEqual(len(a), len(b))
            for one, other in zip(a, b):
                self.equal(one, other)
        elif isinstance(a, np.ndarray):
            self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
            np.testing.assert_array_equal(a, b)
        elif torch is not None and isinstance(a, torch.Tensor):
            self.assertEqual(a.dtype, b.dtype)
            self.assertTrue(torch.equal(a, b))
        else:
            self.assertEqual(a, b)

    def nested(self, levels: int) -> Any:
        """Returns a state of mappings, lists and tuples in turn, so many levels deep."""
        value: Any = np.zeros(2, "f4")
        for level in range(levels):
            kinds = ({"a": value}, [value], (value,))
            value = kinds[level % 3] if level + 1 < levels else {"a": value}
        return value

    def mappings(self, levels: int) -> Any:
        """Returns a state of mappings alone, which take the most room in the structure."""
        value: Any = np.zeros(2, "f4")
        for _ in range(levels):
            value = {"a": value}
        return value

    def test_nesting(self) -> None:
        checkpointer = tzmark.Checkpointer(self.directory)
        for step, make in enumerate((self.nested, self.mappings)):
            checkpointer.save(make(100), step)
            checkpointer.wait()
            self.equal(checkpointer.load(step).state_dict, make(100))
            for levels in (101, 900, 5000):
                with self.assertRaisesRegex(
                    tzmark.UsageError, r"state_dict\['a'\].* deeper than 100 levels"
                ):
                    checkpointer.save(make(levels), 10)
        endless: Any = {}
        endless["self"] = endless
        with self.assertRaisesRegex(tzmark.UsageError, "contains itself"):
            checkpointer.save(endless, 10)
        checkpointer.close()

    def test_a_stored_structure_that_is_nested_too_deep(self) -> None:
        node = '{"m":"a","f":"np"}'
        metadata = {}
        for name, levels in (("shallow", 100), ("deep", 101), ("deeper", 100_000)):
            metadata[name] = '{"l":[' * levels + node + "]}" * levels
        metadata["arrays"] = "[" * 100_000
        metadata["mappings"] = '{"d":[["a",' * 400 + node + "]]}" * 400
        for name, text in metadata.items():
            with self.subTest(name=name):
                with mock.patch("json.dumps", return_value=text):
                    with tzmark.Checkpointer(self.directory / name) as checkpointer:
                        checkpointer.save({"a": np.zeros(2, "f4")}, 1)
                with tzmark.Checkpointer(self.directory / name) as checkpointer:
                    if name == "shallow":
                        self.assertIsInstance(checkpointer.load(1).state_dict, list)
                        continue
                    with self.assertRaisesRegex(
                        tzmark.FormatError, "CKP-003.*deeper than"
                    ):
                        checkpointer.load(1)

    def test_structure(self) -> None:
        state = {
            "model": {"layer.weight": np.arange(6.0).reshape(2, 3), "b": np.ones(3)},
            "optimizer": {
                "state": {0: {"step": np.array(3.0), "exp_avg": np.ones((2, 3))}},
                "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0, 1]}],
                "flag": True,
            },
            "layer": {"weight": np.zeros(2), "weight#2": np.ones(1)},
            "layer.weight": np.ones(2),
            "rng": [None, "text", 1 << 80, float("inf"), []],
            "empty": {},
        }
        with tzmark.Checkpointer(self.directory) as checkpointer:
            times = checkpointer.save(
                state, 10, epoch=2, learning_rate=0.5, metadata={"note": "x"}
            )
            self.assertGreater(times.copy_ns, 0)
            report = checkpointer.wait()
            self.assertGreater(report.file_bytes, 0)
            loaded = checkpointer.load_latest()
        assert loaded is not None
        self.equal(loaded.state_dict, state)
        self.assertEqual(
            (loaded.step, loaded.epoch, loaded.learning_rate), (10, 2, 0.5)
        )
        self.assertEqual(loaded.metadata, {"note": "x"})
        # Other programs find parameters under their own names.
        model = tzmark.load_file(Path(loaded.directory) / "model.safetensors")
        self.assertIn("b", model)
        self.assertIn("layer.weight", model)
        self.assertEqual(len(model), 5)

    def test_flat(self) -> None:
        with tzmark.Checkpointer(self.directory) as checkpointer:
            checkpointer.save({"w": np.ones(2), "optimizer": {"m": np.zeros(2)}}, 1)
            loaded = checkpointer.load_latest(flat=True)
        assert loaded is not None
        self.assertEqual(set(loaded.state_dict["model"]), {"w"})
        self.assertEqual(set(loaded.state_dict["optimizer"]), {"m"})

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_training_loop(self) -> None:
        torch.manual_seed(20)
        model = torch.nn.Linear(8, 4)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        states = {}
        with tzmark.Checkpointer(self.directory, keep_latest=2) as checkpointer:
            for step in range(1, 7):
                loss = model(torch.rand(16, 8)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                state = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                }
                checkpointer.save(state, step)
                states[step] = {k: v.clone() for k, v in model.state_dict().items()}
            loaded = checkpointer.load_latest()
            assert loaded is not None
            self.assertEqual(self.steps(), ["step-00000005", "step-00000006"])
            older = checkpointer.load(5)
        self.equal(loaded.state_dict["model"], states[6])
        self.equal(older.state_dict["model"], states[5])
        model.load_state_dict(loaded.state_dict["model"])
        optimizer.load_state_dict(loaded.state_dict["optimizer"])

    def test_save_returns_while_the_write_goes_on(self) -> None:
        state = {"w": np.ones(64 << 20, "f4")}
        with tzmark.Checkpointer(self.directory) as checkpointer:
            checkpointer.reserve(256 << 20)
            begin = time.monotonic()
            checkpointer.save(state, 1)
            stalled = time.monotonic() - begin
            state["w"][:] = 2  # the snapshot is not affected
            report = checkpointer.wait()
            loaded = checkpointer.load_latest()
        assert loaded is not None
        self.assertTrue((loaded.state_dict["w"] == 1).all())
        self.assertLess(stalled, (report.drain_ns + report.commit_ns) / 1e9 + 0.5)

    def test_retention(self) -> None:
        with tzmark.Checkpointer(self.directory, 2, keep_every=4) as checkpointer:
            for step in range(1, 8):
                checkpointer.save({"w": np.ones(2)}, step)
        kept = ["step-00000004", "step-00000006", "step-00000007"]
        self.assertEqual(self.steps(), kept)

    def test_going_back(self) -> None:
        with tzmark.Checkpointer(self.directory, keep_latest=2) as checkpointer:
            for step in (10, 20, 30):
                checkpointer.save({"w": np.full(2, step)}, step)
        with tzmark.Checkpointer(self.directory, keep_latest=2) as checkpointer:
            # Step 10 is deleted.
            self.assertEqual(checkpointer.load(20).step, 20)
            checkpointer.save({"w": np.full(2, -21)}, 21)
            (warning,) = checkpointer.wait().warnings
            self.assertIn("step-00000030: not deleted, as all of its run", warning)
            for step in (22, 23):
                checkpointer.save({"w": np.full(2, -step)}, step)
                self.assertEqual(checkpointer.wait().warnings, ())
                self.assertIn(f"step-{step - 1:08}", self.steps())
        names = ["step-00000022", "step-00000023", "step-00000030"]
        self.assertEqual(self.steps(), names)
        loaded = tzmark.Checkpointer(self.directory).load_latest()
        assert loaded is not None
        self.assertEqual(
            (loaded.step, loaded.state_dict["w"].tolist()), (23, [-23] * 2)
        )
        self.assertEqual((self.directory / "latest").read_text(), "step-00000023\n")
        # Loaded by another one.
        with tzmark.Checkpointer(self.directory, keep_latest=1) as checkpointer:
            checkpointer.continue_from(loaded)
            checkpointer.save({"w": np.ones(2)}, 24)
        self.assertEqual(self.steps(), ["step-00000024", "step-00000030"])

    def test_copies_and_other_runs_are_kept(self) -> None:
        with tzmark.Checkpointer(self.directory, keep_latest=1) as checkpointer:
            checkpointer.save({"w": np.ones(2)}, 1)
            checkpointer.wait()
            shutil.copytree(
                self.directory / "step-00000001", self.directory / "step-best"
            )
            checkpointer.save({"w": np.ones(2)}, 2)
        self.assertEqual(self.steps(), ["step-00000002", "step-best"])
        # A run that does not load anything.
        with tzmark.Checkpointer(self.directory, keep_latest=1) as checkpointer:
            checkpointer.save({"w": np.ones(2)}, 1)
            checkpointer.save({"w": np.ones(2)}, 3)
        names = ["step-00000002", "step-00000003", "step-best"]
        self.assertEqual(self.steps(), names)

    def test_protect_and_keep(self) -> None:
        losses = {1: 0.3, 2: 0.9, 3: 0.1, 4: 0.5, 5: 0.05, 6: 0.7, 7: 0.8}
        told: list[tzmark.CheckpointInfo] = []

        def keep(info: tzmark.CheckpointInfo) -> bool:
            told.append(info)
            best = min(loss for step, loss in losses.items() if step <= self.saved)
            return np.float64(info.metadata["loss"]) == best

        with tzmark.Checkpointer(
            self.directory, keep_latest=1, protect=[2, "step-x"], keep=keep
        ) as checkpointer:
            for self.saved, loss in losses.items():
                state = {"w": np.ones(2)}
                metadata = {"loss": str(loss)}
                checkpointer.save(state, self.saved, metadata=metadata)
                checkpointer.wait()
                if self.saved == 4:
                    names = ["step-00000002", "step-00000003", "step-00000004"]
                    self.assertEqual(self.steps(), names)
        names = ["step-00000002", "step-00000005", "step-00000007"]
        self.assertEqual(self.steps(), names)
        self.assertEqual(told[0].directory, str(self.directory / "step-00000001"))
        self.assertEqual((told[0].step, told[0].metadata), (1, {"loss": "0.3"}))
        self.assertEqual(told[0].sequence, 1)

    def test_a_keep_that_fails_deletes_nothing(self) -> None:
        def fails(info: tzmark.CheckpointInfo) -> bool:
            raise KeyError(info.step)

        for keep in (fails, lambda info: None):
            with self.subTest(keep=keep):
                checkpointer = tzmark.Checkpointer(
                    self.directory, keep_latest=1, keep=keep
                )
                checkpointer.save({"w": np.ones(2)}, 1)
                checkpointer.wait()
                checkpointer.save({"w": np.ones(2)}, 2)
                with self.assertRaises(tzmark.UsageError) as caught:
                    checkpointer.close()
                self.assertIn("keep raised ", caught.exception.message)
                self.assertIn("itself is durable", caught.exception.message)
                self.assertEqual(self.steps(), ["step-00000001", "step-00000002"])
                shutil.rmtree(self.directory)

    def test_calls_from_keep_and_barrier_are_refused(self) -> None:
        for where in ("keep", "barrier"):
            done = self.run_script(
                f"""
import os, sys, tempfile, numpy as np, tzmark
state, refused, checkpointer = {{"w": np.ones(2)}}, set(), None
def call_it(*arguments):
    if checkpointer is not None:
        for name, call in {{
            "wait": lambda: checkpointer.wait(),
            "save": lambda: checkpointer.save(state, 9),
            "load": lambda: checkpointer.load(1),
            "load_latest": lambda: checkpointer.load_latest(),
            "continue_from": lambda: checkpointer.continue_from(None),
            "reserve": lambda: checkpointer.reserve(1),
            "close": lambda: checkpointer.close(),
        }}.items():
            try:
                call()
            except tzmark.UsageError as error:
                assert "cannot call the checkpointer" in str(error), error
                refused.add(name)
        # Another one can be called.
        with tzmark.Checkpointer(tempfile.mkdtemp(dir=sys.argv[1])) as other:
            other.save(state, 1)
    return {where == "barrier"}
options = {{"keep": call_it}}
if {where == "barrier"}:
    options = {{"barrier": call_it, "rank": 0, "world_size": 1}}
checkpointer = tzmark.Checkpointer(sys.argv[1], keep_latest=1, **options)
for step in (1, 2):
    checkpointer.save(state, step)
    checkpointer.wait()
    assert step == 1 or len(refused) == 7, refused
checkpointer.close()
print("done")
"""
            )
            self.assertEqual((done.stdout, done.stderr), ("done\n", ""))
            self.assertEqual(self.steps(), ["step-00000002"])
            shutil.rmtree(self.directory)

    def test_two_processes_in_one_directory(self) -> None:
        saver = """
import sys, numpy as np, tzmark
with tzmark.Checkpointer(sys.argv[1], keep_latest=2) as checkpointer:
    for step in range(int(sys.argv[2]), 80, 2):
        checkpointer.save({"model": {"w": np.ones(4)}}, step)
        for warning in checkpointer.wait().warnings:
            print(warning)
        if step < 3:
            print("saved", flush=True)
            sys.stdin.readline()
"""
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", saver, str(self.directory), begin],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for begin in ("1", "2")
        ]
        begun = [""] * 2
        for i, process in enumerate(processes):
            assert process.stdout is not None
            for line in process.stdout:
                begun[i] += line
                if line == "saved\n":
                    break
        # Both live.
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        said = [process.communicate(timeout=120) for process in processes]
        for process, (_, errors) in zip(processes, said):
            self.assertEqual(process.returncode, 0, errors)
        # The one that came later finds the file that the other one has locked.
        named = [
            f"process {other.pid} on " in before + after
            for other, before, (after, _) in zip(reversed(processes), begun, said)
        ]
        self.assertIn(True, named, (begun, said))
        names = [f"step-{step:08}" for step in (76, 77, 78, 79)]
        self.assertEqual(self.steps(), names)

    def test_exclusive(self) -> None:
        holder = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys, time, tzmark\n"
                "checkpointer = tzmark.Checkpointer(sys.argv[1], exclusive=True)\n"
                "print('held', flush=True)\n"
                "time.sleep(600)\n",
                str(self.directory),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert holder.stdout is not None
        self.addCleanup(holder.stdout.close)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        self.assertEqual(holder.stdout.readline(), "held\n")
        with self.assertRaises(tzmark.EnvironmentFailure) as caught:
            tzmark.Checkpointer(self.directory, exclusive=True)
        self.assertEqual(caught.exception.rule, "TZE-ENV-008")
        self.assertIn(f"process {holder.pid} on ", caught.exception.message)
        with tzmark.Checkpointer(self.directory) as checkpointer:
            checkpointer.save({"w": np.ones(2)}, 1)
            (warning,) = checkpointer.wait().warnings
        self.assertIn(f"process {holder.pid} on ", warning)
        holder.kill()
        holder.wait()
        for _ in range(2):
            with tzmark.Checkpointer(self.directory, exclusive=True) as checkpointer:
                checkpointer.save({"w": np.ones(2)}, 2)
                self.assertIn(".tzmark-writer", os.listdir(self.directory))
        self.assertNotIn(".tzmark-writer", os.listdir(self.directory))

    def test_exclusive_notices_that_its_claim_is_gone(self) -> None:
        with tzmark.Checkpointer(self.directory, exclusive=True) as first:
            first.save({"w": np.ones(2)}, 1)
            first.wait()
            (self.directory / ".tzmark-writer").unlink()
            with tzmark.Checkpointer(self.directory, exclusive=True):
                first.save({"w": np.ones(2)}, 2)
                with self.assertRaises(tzmark.EnvironmentFailure) as caught:
                    first.wait()
                self.assertEqual(caught.exception.rule, "TZE-ENV-008")
            first.save({"w": np.ones(2)}, 3)
            first.wait()
        self.assertEqual(self.steps(), ["step-00000001", "step-00000003"])

    def test_what_another_process_may_be_writing_is_not_deleted(self) -> None:
        # What a save on another machine has locked looks like one that was interrupted, where locks of directories are
        # those of each machine.
        done = self.run_script(
            """
import os, signal, sys, threading, numpy as np, tzmark
def barrier(ok):
    if threading.current_thread() is not threading.main_thread():
        os.kill(os.getpid(), signal.SIGKILL)
    return ok
checkpointer = tzmark.Checkpointer(sys.argv[1], rank=0, world_size=1, barrier=barrier)
checkpointer.save({"w": np.ones(2)}, 1)
checkpointer.wait()
"""
        )
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
        (unfinished,) = self.steps()
        writer = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import fcntl, sys\n"
                "file = open(sys.argv[1] + '/.tzmark-writer', 'w')\n"
                "fcntl.flock(file, fcntl.LOCK_EX)\n"
                'file.write(\'{"host": "a", "pid": 42, "process": "x"}\')\n'
                "file.flush()\n"
                "print('held', flush=True)\n"
                "sys.stdin.read()\n",
                self.directory,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        self.assertEqual(writer.stdout.readline(), "held\n")
        words = "not cleaned up: process 42 on a saves there"
        with self.assertWarnsRegex(UserWarning, words):
            tzmark.Checkpointer(self.directory).close()
        self.assertEqual(self.steps(), [unfinished])
        writer.communicate()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tzmark.Checkpointer(self.directory).close()
        self.assertEqual(self.steps(), [])

    def test_forked_children_hold_no_lock(self) -> None:
        for commit in ("rename", "marker"):
            job = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "import os, sys, threading, numpy as np, tzmark\n"
                    "written, forked = threading.Event(), threading.Event()\n"
                    "def barrier(ok):\n"
                    "    if threading.current_thread() is not threading.main_thread():\n"
                    "        written.set()\n"
                    "        forked.wait()\n"
                    "    return ok\n"
                    "checkpointer = tzmark.Checkpointer(\n"
                    "    sys.argv[1], exclusive=True, commit=sys.argv[2], rank=0, world_size=1, barrier=barrier\n"
                    ")\n"
                    "checkpointer.save({'w': np.ones(2)}, 1)\n"
                    "written.wait()\n"
                    # The child says so: it has let go of what it inherited by the time that fork returns there.
                    "if os.fork() == 0:\n"
                    "    print('forked', flush=True)\n"
                    "sys.stdin.read()\n"
                    "os._exit(0)\n",
                    self.directory,
                    commit,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert job.stdin is not None and job.stdout is not None
            self.assertEqual(job.stdout.readline(), "forked\n")
            self.assertEqual(len(self.steps()), 1)
            job.kill()
            job.wait()
            # The child lives.
            with tzmark.Checkpointer(
                self.directory, exclusive=True, commit=commit
            ) as checkpointer:
                self.assertEqual(self.steps(), [])
                checkpointer.save({"w": np.ones(2)}, 1)
                self.assertEqual(checkpointer.wait().warnings, ())
            job.stdin.close()
            job.stdout.close()
            shutil.rmtree(self.directory)

    def test_a_forked_child_that_saves_is_another_process(self) -> None:
        with tzmark.Checkpointer(self.directory) as checkpointer:
            checkpointer.save({"w": np.ones(2)}, 1)
            checkpointer.wait()
            ends = os.pipe()
            child = os.fork()
            if child == 0:
                words = b"none"
                try:
                    warnings.simplefilter("ignore")
                    own = tzmark.Checkpointer(self.directory)
                    own.save({"w": np.ones(2)}, 2)
                    words = "\n".join(own.wait().warnings).encode()
                finally:
                    os.write(ends[1], words)
                    os._exit(0)
            os.waitpid(child, 0)
            told = os.read(ends[0], 4096).decode()
            for end in ends:
                os.close(end)
            self.assertIn(f"process {os.getpid()} on ", told)
            checkpointer.save({"w": np.ones(2)}, 3)
            self.assertIn(f"process {child} on ", checkpointer.wait().warnings[0])

    def test_error_of_the_background_is_raised_once_at_the_next_call(self) -> None:
        for call in ("save", "wait", "load_latest", "close"):
            with self.subTest(call):
                shutil.rmtree(self.directory.parent, ignore_errors=True)
                checkpointer = tzmark.Checkpointer(self.directory)
                checkpointer.save({"w": np.ones(2)}, 1)
                checkpointer.wait()
                # What is in the way of the next checkpoint is not one, so it is not replaced.
                (self.directory / "step-00000002").mkdir()
                (self.directory / "step-00000002" / "file").write_text("mine")
                checkpointer.save({"w": np.ones(2)}, 2)
                arguments = ({"w": np.ones(2)}, 3) if call == "save" else ()
                with self.assertRaises(tzmark.Error):
                    getattr(checkpointer, call)(*arguments)
                checkpointer.wait()
                latest = checkpointer.load_latest()
                assert latest is not None
                self.assertEqual(latest.step, 3 if call == "save" else 1)
                checkpointer.close()

    def test_error_that_nobody_waits_for_is_printed(self) -> None:
        script = (
            "import os, sys, numpy as np, tzmark\n"
            "c = tzmark.Checkpointer(sys.argv[1])\n"
            "os.mkdir(sys.argv[1] + '/step-00000001')\n"
            "open(sys.argv[1] + '/step-00000001/file', 'w').close()\n"
            "c.save({'w': np.ones(2)}, 1)\n"
        )
        for last in ("", "del c\n"):
            shutil.rmtree(self.directory.parent, ignore_errors=True)
            done = subprocess.run(
                [sys.executable, "-c", script + last, self.directory],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertIn("step-00000001", done.stderr)
            self.assertIn("tzmark", done.stderr)

    def run_script(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", script, self.directory],
            capture_output=True,
            text=True,
            timeout=60,
        )

    def test_an_error_at_the_end_does_not_lose_other_checkpoints(self) -> None:
        done = self.run_script(
            """
import shutil, sys, numpy as np, tzmark, tzmark._checkpoint as module
slow = tzmark.Checkpointer(sys.argv[1] + "/slow", rank=0, world_size=1, barrier=lambda ok: ok)
failing = []
while not failing or next(iter(module._open)) is not failing[-1]:
    failing.append(tzmark.Checkpointer(f"{sys.argv[1]}/failing{len(failing)}"))
shutil.rmtree(f"{sys.argv[1]}/failing{len(failing) - 1}")
failing[-1].save({"w": np.ones(2)}, 1)
slow.save({"w": np.ones(100 << 20, "u1")}, 1)
"""
        )
        self.assertIn("EnvironmentFailure", done.stderr)
        self.assertIn("step-00000001", os.listdir(self.directory / "slow"))

    def test_an_interrupted_close_does_not_lose_the_checkpoint(self) -> None:
        done = self.run_script(
            """
import os, signal, sys, threading, time, numpy as np, tzmark
def barrier(ok):
    time.sleep(0.5)
    return ok
with tzmark.Checkpointer(sys.argv[1], rank=0, world_size=1, barrier=barrier) as checkpointer:
    checkpointer.save({"w": np.ones(2)}, 1)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
"""
        )
        self.assertIn("KeyboardInterrupt", done.stderr)
        self.assertIn("step-00000001", os.listdir(self.directory))

    def test_a_signal_handler_that_saves_is_refused(self) -> None:
        done = self.run_script(
            """
import os, signal, sys, threading, time, numpy as np, tzmark
state = {"w": np.ones(2)}
saved, handled = threading.Event(), threading.Event()
checkpointer = None
def barrier(ok):
    if checkpointer and not handled.is_set():
        saved.wait(20)
        while not checkpointer._busy:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGUSR1)
        handled.wait(20)
    return ok
def handler(*_):
    try:
        checkpointer.save(state, 3)
    except tzmark.UsageError as error:
        print(error)
    handled.set()
signal.signal(signal.SIGUSR1, handler)
checkpointer = tzmark.Checkpointer(sys.argv[1], rank=0, world_size=1, barrier=barrier)
checkpointer.save(state, 1)
saved.set()
checkpointer.wait()
checkpointer.save(state, 2)
checkpointer.close()
"""
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("a signal handler interrupts", done.stdout)
        self.assertEqual(self.steps(), ["step-00000001", "step-00000002"])

    def test_a_collection_in_the_barrier(self) -> None:
        done = self.run_script(
            """
import gc, sys, time, numpy as np, tzmark
def barrier(ok):
    gc.collect()
    return ok
class Trainer:
    def __init__(self):
        self.itself = self
        self.checkpointer = tzmark.Checkpointer(sys.argv[1], rank=0, world_size=1, barrier=barrier)
        self.checkpointer.save({"w": np.ones(20 << 20, "u1")}, 1)
Trainer()
time.sleep(1)
"""
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.steps(), ["step-00000001"])

    def test_wrong_arguments(self) -> None:
        for arguments in (
            {"directory": ""},
            {"keep_latest": -1},
            {"protect": ["run/step-1"]},
            {"keep": lambda info: True, "keep_latest": 0},
            {"format": "zip"},
            {"io": ""},
            {"layout": "v9", "format": "tensors"},
            {"layout": "v4"},
            {"rank": 0},
            {"rank": 2, "world_size": 2, "barrier": lambda ok: ok},
        ):
            with self.subTest(**arguments), self.assertRaises(tzmark.UsageError):
                tzmark.Checkpointer(**{"directory": self.directory, **arguments})
        checkpointer = tzmark.Checkpointer(self.directory)
        self.assertIsNone(checkpointer.load_latest())
        with self.assertRaises(tzmark.UsageError):
            checkpointer.save({"w": np.ones(1)}, -1)
        for state in (
            {"w": object()},
            {"w": {("a",): np.ones(1)}},
            {"w": np.array(["a"])},
        ):
            with self.assertRaises((TypeError, tzmark.UsageError)):
                checkpointer.save(state, 1)
        with self.assertRaises(tzmark.MissingFileError):
            checkpointer.load(5)
        self.assertIsNone(checkpointer.load_latest())

    def test_damaged_checkpoint(self) -> None:
        with tzmark.Checkpointer(self.directory) as checkpointer:
            checkpointer.save({"w": np.ones(1000)}, 1)
            checkpointer.wait()
            path = self.directory / "step-00000001" / "model.safetensors"
            content = bytearray(path.read_bytes())
            content[-1] ^= 1
            path.write_bytes(content)
            with self.assertRaises(tzmark.FormatError) as caught:
                checkpointer.load_latest()
        self.assertEqual(caught.exception.rule, "CKP-002")

    def damage(self, step: int, rank: str = "") -> None:
        path = self.directory / f"step-{step:08}" / rank / "model.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)

    def test_the_newest_intact_checkpoint(self) -> None:
        with tzmark.Checkpointer(self.directory, keep_latest=0) as checkpointer:
            self.assertIsNone(checkpointer.load_latest(intact=True))
            for step in (10, 20, 30):
                checkpointer.save({"w": np.full(8, step)}, step)
            checkpointer.load(20)
            checkpointer.save({"w": np.full(8, 21)}, 21)
            checkpointer.wait()
            whole = checkpointer.load_latest(intact=True)
            assert whole is not None
            self.assertEqual((whole.step, whole.passed_over), (21, ()))
            self.damage(21)
            with self.assertRaises(tzmark.FormatError):
                checkpointer.load_latest()
            with self.assertWarnsRegex(UserWarning, "passed over .*step-00000021"):
                loaded = checkpointer.load_latest(intact=True)
            assert loaded is not None
            # Step 30 was given up.
            self.assertEqual((loaded.step, loaded.state_dict["w"][0]), (20, 20))
            self.assertEqual(len(loaded.passed_over), 1)
            self.assertIn("CKP-002", loaded.passed_over[0])
            # The run goes on from what it loaded.
            checkpointer.save({"w": np.ones(8)}, 22)
            checkpointer.wait()
            self.damage(22)
            (self.directory / "step-00000020" / "commit.json").unlink()
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                loaded = checkpointer.load_latest(intact=True)
            assert loaded is not None
            self.assertEqual((loaded.step, len(said)), (10, 2))
            # Nothing is damaged, and so nothing is passed over.
            with self.assertRaises(tzmark.UsageError):
                checkpointer.load_latest(intact=True, framework="tf")
            for step in (10, 21, 30):
                if step != 21:
                    self.damage(step)
            with self.assertRaises(tzmark.FormatError) as caught:
                checkpointer.load_latest(intact=True)
        self.assertEqual(caught.exception.rule, "CKP-002")
        for step in (10, 20, 21, 22, 30):
            self.assertIn(f"step-{step:08}", caught.exception.message)

    def test_ranks_agree_on_the_newest_intact_checkpoint(self) -> None:
        meeting, passed = threading.Barrier(2), [True, True]
        problems: list[BaseException] = []
        loaded: dict[int, Any] = {}

        def run(rank: int) -> None:
            def barrier(ok: bool) -> bool:
                passed[rank] = ok
                meeting.wait(60)
                result = all(passed)
                meeting.wait(60)
                return result

            try:
                with tzmark.Checkpointer(
                    self.directory, rank=rank, world_size=2, barrier=barrier
                ) as checkpointer:
                    for step in (1, 2, 3):
                        checkpointer.save({f"w{rank}": np.full(4, step)}, step)
                    checkpointer.wait()
                    barrier(True)
                    if rank == 1:
                        self.damage(3, "rank_1")
                        self.damage(2, "rank_0")
                    barrier(True)
                    loaded[rank] = checkpointer.load_latest(intact=True)
            except BaseException as error:
                meeting.abort()
                problems.append(error)

        threads = [threading.Thread(target=run, args=(rank,)) for rank in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        for rank in (0, 1):
            self.assertEqual((loaded[rank].step, len(loaded[rank].passed_over)), (1, 2))
        self.assertIn("another rank", loaded[0].passed_over[0])
        self.assertIn("CKP-002", loaded[1].passed_over[0])

    def test_a_load_that_fails_does_not_move_the_run(self) -> None:
        with tzmark.Checkpointer(self.directory) as checkpointer:
            # A structure that this version cannot build.
            with mock.patch("json.dumps", return_value='{"l":[' * 101 + "]}" * 101):
                checkpointer.save({"w": np.ones(2)}, 1)
        for load in (
            lambda one: one.load(1),
            lambda one: one.load_latest(),
            lambda one: one.load_latest(intact=True),
        ):
            with tzmark.Checkpointer(self.directory, keep_latest=1) as checkpointer:
                with self.assertRaises(tzmark.FormatError):
                    load(checkpointer)
                checkpointer.save({"w": np.ones(2)}, 2)
                (warning,) = checkpointer.wait().warnings
                self.assertIn("step-00000001: not deleted", warning)
            self.assertIn("step-00000001", self.steps())
            shutil.rmtree(self.directory / "step-00000002")

    def test_a_damaged_commit_of_the_newest_checkpoint(self) -> None:
        with tzmark.Checkpointer(self.directory, keep_latest=0) as checkpointer:
            for step in (1, 2, 3):
                checkpointer.save({"w": np.full(2, step)}, step)
            checkpointer.wait()
            latest = self.directory / "latest"
            commits = {
                step: self.directory / f"step-{step:08}" / "commit.json"
                for step in (1, 2, 3)
            }
            texts = {step: commit.read_text() for step, commit in commits.items()}

            def refused(step: int) -> None:
                with self.assertRaises(tzmark.FormatError) as caught:
                    checkpointer.load_latest()
                self.assertEqual(caught.exception.rule, "CKP-002")
                self.assertIn(f"step-{step:08}", caught.exception.message)
                self.assertIn("intact=True", caught.exception.message)

            def passes_over(step: int, loaded_step: int, intact: bool) -> None:
                words = f"passed over .*step-{step:08}"
                with self.assertWarnsRegex(UserWarning, words):
                    loaded = checkpointer.load_latest(intact=intact)
                assert loaded is not None
                self.assertEqual(loaded.step, loaded_step)
                self.assertEqual(len(loaded.passed_over), 1)
                self.assertRegex(loaded.passed_over[0], words)

            for damaged in (texts[3].replace('"step": 3', '"step": 4'), "", None):
                self.assertNotEqual(damaged, texts[3])
                commits[3].unlink()
                if damaged is not None:
                    commits[3].write_text(damaged)
                refused(3)
                passes_over(3, 2, intact=True)
                # Without commit.json and `latest`, nothing says that there was a checkpoint.
                latest.unlink()
                if damaged is None:
                    passes_over(3, 2, intact=False)
                else:
                    refused(3)
                latest.write_text("step-00000003\n")
            commits[3].write_text(texts[3])
            # An older one, which nothing shows if its commit.json is damaged.
            commits[1].write_text("{")
            refused(1)
            commits[1].unlink()
            passes_over(1, 3, intact=False)
        # Nothing else is there.
        shutil.rmtree(self.directory / "step-00000003")
        shutil.rmtree(self.directory / "step-00000002")
        with tzmark.Checkpointer(self.directory) as checkpointer:
            for intact in (False, True):
                with self.assertWarnsRegex(UserWarning, "passed over .*step-00000001"):
                    self.assertIsNone(checkpointer.load_latest(intact=intact))

    def test_ranks_load_the_checkpoint_that_rank_0_has_found(self) -> None:
        barriers = self.barriers(2)

        def save(rank: int) -> None:
            with tzmark.Checkpointer(
                self.directory, 0, rank=rank, world_size=2, barrier=barriers[rank]
            ) as checkpointer:
                for step in (1, 2, 3):
                    checkpointer.save({f"w{rank}": np.full(2, step)}, step)

        self.assertEqual(self.ranks(save, 2), [None, None])
        real = tzmark._tzmark.checkpoint_candidates
        local = threading.local()

        def candidates(parent: bytes) -> Any:
            """Hides some checkpoints from the first look of a rank."""
            found, *others = real(parent)
            hidden, local.hidden = local.hidden, local.later
            return ([one for one in found if one[0][-1] not in hidden], *others)

        def load(rank: int) -> Any:
            local.hidden = local.later = ""
            with tzmark.Checkpointer(
                self.directory, rank=rank, world_size=2, barrier=barriers[rank]
            ) as checkpointer:
                local.hidden, local.later = hidden[rank], later[rank]
                loaded = checkpointer.load_latest(intact=intact)
                assert loaded is not None
                return loaded.step, len(loaded.passed_over)

        patched = mock.patch.object(tzmark._tzmark, "checkpoint_candidates", candidates)
        with patched, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for intact in (False, True):
                # Rank 1 looks after another job has committed, or before, or after one has been deleted.
                for hidden, expected in (
                    (("3", ""), (2, 0)),
                    (("", "3"), (3, 0)),
                    (("", "12"), (3, 0)),
                    (("", "123"), (3, 0)),
                ):
                    later = ("", "")
                    with self.subTest(intact=intact, hidden=hidden):
                        self.assertEqual(self.ranks(load, 2), [expected] * 2)
            # It never sees the newest.
            hidden, later = ("", "3"), ("", "3")
            self.assertEqual(self.ranks(load, 2), [(2, 1)] * 2)
            intact = False
            told = [str(error) for error in self.ranks(load, 2)]
            self.assertIn("another rank has failed", told[0])
            self.assertIn("this rank does not see it", told[1])
            # No rank can load any.
            intact, hidden, later = True, ("", "3"), ("", "")
            for step in (1, 2, 3):
                self.damage(step, "rank_1")
            told = [str(error) for error in self.ranks(load, 2)]
            for rank in (0, 1):
                self.assertIn("no checkpoint is intact", told[rank])

    def test_a_rank_without_memory_is_not_passed_over(self) -> None:
        barriers = self.barriers(2)

        def run(rank: int) -> Any:
            with tzmark.Checkpointer(
                self.directory, rank=rank, world_size=2, barrier=barriers[rank]
            ) as checkpointer:
                checkpointer.save({f"w{rank}": np.ones(2)}, 1)
                checkpointer.wait()
                checkpointer._load = load_of[rank] or checkpointer._load
                return checkpointer.load_latest(intact=True)

        def fails(*_: Any) -> Any:
            raise MemoryError

        load_of = (None, fails)
        first, second = self.ranks(run, 2)
        self.assertIsInstance(first, tzmark.UsageError)
        self.assertIsInstance(second, MemoryError)

    def test_tensors_format(self) -> None:
        with tzmark.Checkpointer(self.directory, format="tensors") as checkpointer:
            checkpointer.save({"w": np.arange(5, dtype="c16")}, 1)
            loaded = checkpointer.load_latest()
        assert loaded is not None
        np.testing.assert_array_equal(loaded.state_dict["w"], np.arange(5))

    def test_fork_during_a_write(self) -> None:
        checkpointer = tzmark.Checkpointer(self.directory)
        checkpointer.save({"w": np.ones(32 << 20)}, 1)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                checkpointer.wait()
            except tzmark.UsageError:
                del checkpointer
                status = 0
            finally:
                os._exit(status)
        for _ in range(600):
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                break
            time.sleep(0.05)
        else:
            os.kill(child, signal.SIGKILL)
            self.fail("the child hangs")
        self.assertEqual(status, 0)
        checkpointer.close()

    def test_ranks(self) -> None:
        world_size = 3
        meeting = threading.Barrier(world_size)
        passed = [True] * world_size

        def barrier_of(rank: int) -> Any:
            def barrier(ok: bool) -> bool:
                passed[rank] = ok
                meeting.wait(60)
                result = all(passed)
                meeting.wait(60)
                return result

            return barrier

        problems: list[BaseException] = []
        loaded: dict[int, Any] = {}

        def run(rank: int) -> None:
            try:
                with tzmark.Checkpointer(
                    self.directory,
                    rank=rank,
                    world_size=world_size,
                    barrier=barrier_of(rank),
                ) as checkpointer:
                    for step in (1, 2):
                        checkpointer.save({f"w{rank}": np.full(4, rank + step)}, step)
                    checkpointer.wait()
                    loaded[rank] = checkpointer.load_latest()
            except BaseException as error:
                meeting.abort()
                problems.append(error)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(world_size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        for rank in range(world_size):
            self.assertEqual(loaded[rank].step, 2)
            np.testing.assert_array_equal(
                loaded[rank].state_dict[f"w{rank}"], np.full(4, rank + 2)
            )
        files = os.listdir(self.directory / "step-00000002")
        self.assertIn("rank_2", files)
        self.assertNotIn(".tzmark-session", os.listdir(self.directory))

    def test_jobs_that_start_at_once_do_not_learn_the_session_of_the_other(
        self,
    ) -> None:
        barriers, calls = self.barriers(2), [0, 0]
        sessions: list[str] = []

        def other_job() -> None:
            def barrier(ok: bool) -> bool:
                return ok

            with tzmark.Checkpointer(
                self.directory, rank=0, world_size=1, barrier=barrier
            ) as checkpointer:
                sessions.append(checkpointer._session)

        def run(rank: int) -> Any:
            def barrier(ok: bool) -> bool:
                calls[rank] += 1
                # After each of the first calls, one job starts before rank 0 goes on, and one before rank 1 does.
                result = barriers[rank](ok)
                if calls[rank] <= 3:
                    other_job()
                return result

            with tzmark.Checkpointer(
                self.directory, rank=rank, world_size=2, barrier=barrier
            ) as checkpointer:
                checkpointer.save({f"w{rank}": np.ones(2)}, 1)
                checkpointer.wait()
                return checkpointer._session

        first, second = self.ranks(run, 2)
        self.assertEqual(first, second)
        self.assertEqual(len({first, *sessions}), 7)
        self.assertEqual(self.steps(), ["step-00000001"])
        self.assertNotIn(".tzmark-session", os.listdir(self.directory))

    def test_a_rank_that_cannot_save_fails_that_save_alone(self) -> None:
        meeting = threading.Barrier(2)
        passed = [True, True]
        errors: list[tuple[int, int, str]] = []

        def run(rank: int) -> None:
            def barrier(ok: bool) -> bool:
                passed[rank] = ok
                meeting.wait(20)
                result = all(passed)
                meeting.wait(20)
                return result

            with tzmark.Checkpointer(
                self.directory, rank=rank, world_size=2, barrier=barrier
            ) as checkpointer:
                for step, wrong in ((1, object()), (2, 0), (3, "\ud800"), (4, 0)):
                    state = {f"w{rank}": np.ones(2)}
                    metadata = {}
                    if rank == 1 and isinstance(wrong, str):
                        metadata["key"] = wrong
                    elif rank == 1:
                        state["value"] = wrong
                    try:
                        checkpointer.save(state, step, metadata=metadata)
                        checkpointer.wait()
                    except (TypeError, UnicodeEncodeError, tzmark.Error) as error:
                        errors.append((rank, step, type(error).__name__))

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(
            sorted(errors),
            [
                (0, 1, "EnvironmentFailure"),
                (0, 3, "EnvironmentFailure"),
                (1, 1, "TypeError"),
                (1, 3, "UsageError"),
            ],
        )
        committed = [name for name in self.steps() if ".tmp-" not in name]
        self.assertEqual(committed, ["step-00000002", "step-00000004"])

    def test_barriers_that_fail(self) -> None:
        def raising(ok: bool) -> bool:
            if threading.current_thread() is threading.main_thread():
                return ok
            raise ConnectionError("the network is down")

        def without_answer(ok: bool) -> Any:
            if threading.current_thread() is threading.main_thread():
                return ok
            return None

        for barrier, words in ((raising, "network is down"), (without_answer, "bool")):
            checkpointer = tzmark.Checkpointer(
                self.directory, rank=0, world_size=1, barrier=barrier
            )
            checkpointer.save({"w": np.ones(2)}, 1)
            with self.assertRaises(tzmark.EnvironmentFailure) as caught:
                checkpointer.wait()
            self.assertEqual(caught.exception.rule, "CKP-006")
            self.assertIn(words, str(caught.exception))
            self.assertIsNone(checkpointer.load_latest())
            checkpointer.close()

    def test_kills_leave_a_complete_checkpoint(self) -> None:
        chance = random.Random(20)
        reached = 0
        for _ in range(8):
            process = subprocess.Popen(
                [sys.executable, "-c", CRASH_SCRIPT, self.directory],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert process.stdout is not None
            first = process.stdout.readline()
            self.assertTrue(first.startswith("start"), first)
            # Never less than what was committed before.
            self.assertGreaterEqual(int(first.split()[1]), reached)
            time.sleep(chance.uniform(0.02, 0.4))
            process.kill()
            process.communicate()
            checkpointer = tzmark.Checkpointer(self.directory, keep_latest=2)
            latest = checkpointer.load_latest()
            checkpointer.close()
            if latest is not None:
                reached = latest.step
                self.assertTrue((latest.state_dict["w"] == latest.step).all())
                momentum = latest.state_dict["optimizer"]["m"]
                self.assertTrue((momentum == -latest.step).all())
        self.assertGreater(reached, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
