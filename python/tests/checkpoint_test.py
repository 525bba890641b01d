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

    def test_the_session_is_written_through_no_planted_file(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        secret = self.directory.parent / "secret"
        secret.write_text("secret")
        session = self.directory / ".tzmark-session"
        for planted in (session, self.directory / ".tzmark-session.new"):
            for plant in (
                lambda: planted.symlink_to(secret),
                lambda: os.mkfifo(planted),
            ):
                plant()
                with tzmark.Checkpointer(
                    self.directory, rank=0, world_size=1, barrier=lambda ok: ok
                ):
                    pass
                self.assertEqual(secret.read_text(), "secret")
                planted.unlink(missing_ok=True)
                self.assertEqual(list(self.directory.glob(".tzmark-session*")), [])

    def test_a_planted_session_is_not_read(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        session = self.directory / ".tzmark-session"
        secret = self.directory.parent / "secret"
        secret.write_text("secret")
        for plant in (lambda: session.symlink_to(secret), lambda: os.mkfifo(session)):
            plant()
            with self.assertRaises(OSError):
                tzmark.Checkpointer(
                    self.directory, rank=1, world_size=2, barrier=lambda ok: ok
                )
            session.unlink()

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
    unittest.main()
