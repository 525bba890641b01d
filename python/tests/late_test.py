"""Loads whose tensors are in use before they are verified: verify="late"."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tzmark

KEY = bytes(range(32))

# Uses the tensors of the file, and never asks.
NEVER_ASKS = """
import sys, tzmark
print(len(tzmark.load_file(sys.argv[1], verify="late")))
"""
# A forked process has no thread that could answer.
ASKS_AFTER_FORK = """
import os, sys, threading, tzmark
from tzmark import _late
let_go = threading.Event()
late = _late.LateTensors({}, let_go.wait)
child = os.fork()
if child == 0:
    try:
        late.verified()
    except tzmark.UsageError as error:
        print(error.message, flush=True)
    os._exit(0)
os.waitpid(child, 0)
let_go.set()
late.verified()
print("verified")
"""


def join_checks() -> None:
    """Waits until the threads that check have told what they found."""
    for thread in threading.enumerate():
        if thread.name == "tzmark-verify":
            thread.join()


class Late(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        generator = np.random.default_rng(3)
        self.tensors: dict[Any, Any] = {
            "w": generator.standard_normal((17, 300, 5), dtype="f4"),
            "large": generator.integers(0, 255, (3 << 20,), dtype="u1"),
            "empty": np.zeros((3, 0, 2), "c8"),
        }
        self.files: dict[str, dict[str, Any]] = {
            "plain.tensors": {},
            "sealed.tensors": {"key": KEY},
            "model.safetensors": {},
        }
        for name, keys in self.files.items():
            tzmark.save_file(self.tensors, self.directory / name, **keys)
        content = bytearray((self.directory / "plain.tensors").read_bytes())
        at = content.index(self.tensors["large"].tobytes()) + 12_345
        content[at] ^= 1
        self.damaged = self.directory / "damaged.tensors"
        self.damaged.write_bytes(content)

    def check(self, loaded: Any) -> None:
        self.assertEqual(set(loaded), set(self.tensors))
        for name, value in self.tensors.items():
            np.testing.assert_array_equal(loaded[name], value)

    def test_tensors_are_handed_out_and_verified(self) -> None:
        for name, keys in self.files.items():
            file = self.directory / name
            with self.subTest(name):
                loaded = tzmark.load_file(file, verify="late", **keys)
                self.assertIsInstance(loaded, tzmark.LateTensors)
                self.check(loaded)
                loaded.verified()
                loaded.verified(timeout=0)
                with tzmark.open(file, verify="late", **keys) as reader:
                    with reader.load() as at_once:
                        self.check(at_once)
        loaded = tzmark.load_file(
            self.directory / "model.safetensors", verify="late", mapped=True
        )
        self.check(loaded)
        loaded.verified()

    def test_the_reader_may_be_closed_before_the_check_begins(self) -> None:
        started: list[threading.Thread] = []
        with mock.patch.object(threading.Thread, "start", lambda t: started.append(t)):
            loaded = tzmark.load_file(self.directory / "plain.tensors", verify="late")
        with self.assertRaises(TimeoutError):
            loaded.verified(timeout=0.01)
        for thread in started:
            thread.start()
        loaded.verified()

    def test_damage_is_told_to_all(self) -> None:
        with self.assertRaises(tzmark.FormatError) as at_once:
            tzmark.load_file(self.damaged)
        with self.assertLogs("tzmark", "ERROR") as logged:
            for _ in range(2):
                loaded = tzmark.load_file(self.damaged, verify="late")
                self.assertEqual(len(loaded), 3)
                for _ in range(2):
                    with self.assertRaises(tzmark.FormatError) as late:
                        loaded.verified()
                    self.assertEqual(str(late.exception), str(at_once.exception))
                join_checks()
        self.assertEqual(len(logged.output), 2)
        self.assertIn(at_once.exception.rule, logged.output[0])

    def test_a_failure_keeps_no_tensors(self) -> None:
        gc.disable()
        self.addCleanup(gc.enable)
        with self.assertLogs("tzmark", "ERROR"):
            loaded = tzmark.load_file(self.damaged, verify="late")
            with self.assertRaises(tzmark.FormatError):
                loaded.verified()
            join_checks()
        buffer = weakref.ref(loaded["w"])
        del loaded
        self.assertIsNone(buffer())

    def test_the_memory_is_what_is_checked(self) -> None:
        started: list[threading.Thread] = []
        with mock.patch.object(threading.Thread, "start", lambda t: started.append(t)):
            loaded = tzmark.load_file(
                self.directory / "sealed.tensors", verify="late", key=KEY
            )
        loaded["w"][0, 0, 0] += 1
        with self.assertLogs("tzmark", "ERROR"):
            for thread in started:
                thread.start()
            with self.assertRaises(tzmark.FormatError):
                with loaded:
                    pass
            with self.assertRaises(KeyError):
                with loaded:
                    raise KeyError
            join_checks()

    def test_without_another_thread_the_load_checks(self) -> None:
        error = RuntimeError("can't start new thread")
        with mock.patch.object(threading.Thread, "start", side_effect=error):
            loaded = tzmark.load_file(self.directory / "plain.tensors", verify="late")
            loaded.verified(timeout=0)
            with self.assertLogs("tzmark", "ERROR"):
                loaded = tzmark.load_file(self.damaged, verify="late")
            with self.assertRaises(tzmark.FormatError):
                loaded.verified(timeout=0)

    def test_a_program_that_never_asks_is_told(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", NEVER_ASKS, self.damaged],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((done.returncode, done.stdout), (0, "3\n"), done.stderr)
        self.assertIn("tensors that are in use are not verified: ", done.stderr)
        self.assertIn("TZR-HSH-", done.stderr)

    def test_a_forked_process_does_not_wait_for_ever(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", ASKS_AFTER_FORK],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(
            done.stdout,
            "the process that loaded the tensors verifies them\nverified\n",
            done.stderr,
        )

    def test_what_ends_verified_is_not_late(self) -> None:
        file = self.directory / "plain.tensors"
        into = {"w": np.empty((17, 300, 5), "f4")}
        with tzmark.open(file, verify="late") as reader:
            for read in (
                lambda: reader["w"],
                lambda: reader.load_into(into),
                lambda: reader.load(shard=(0, 1, {"w": 0})),
            ):
                with self.assertRaises(tzmark.UsageError):
                    read()
        with tzmark.safe_open(file, framework="np", verify="late") as opened:
            with self.assertRaises(tzmark.UsageError):
                opened.get_tensor("w")
        with self.assertRaises(tzmark.UsageError):
            tzmark.load_file(file, verify="late", mapped=True)
        with self.assertRaises(tzmark.UsageError):
            tzmark.warm_up("cuda:0", verify="late")

    def test_a_pickle_is_a_dict(self) -> None:
        loaded = tzmark.load_file(self.directory / "plain.tensors", verify="late")
        again = pickle.loads(pickle.dumps(loaded))
        self.assertIs(type(again), dict)
        self.check(again)


if __name__ == "__main__":
    unittest.main(verbosity=2)
