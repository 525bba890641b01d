#!/usr/bin/env python3
"""The Python module over URLs: the same arrays, clear errors, and nothing that stays open."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path

import fault_server
import numpy as np
import setting
import tzmark

sys.path.append(str(Path(__file__).resolve().parents[2] / "python/tests"))
import threads_group  # noqa: E402


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


class Remote(unittest.TestCase):
    def setUp(self) -> None:
        os.environ.update(setting.QUICK)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        generator = np.random.default_rng(45)
        self.tensors = {
            f"t{i}": generator.standard_normal((200, 500), dtype="f4") for i in range(8)
        }
        self.tensors["large"] = generator.standard_normal((3000, 500), dtype="f4")
        files = {}
        for name in ("model.tensors", "model.safetensors"):
            tzmark.save_file(self.tensors, Path(directory.name) / name)
            files[name] = (Path(directory.name) / name).read_bytes()
        running = fault_server.running(files)
        self.server = running.__enter__()
        self.addCleanup(running.__exit__, None, None, None)

    def check(self, loaded: dict[str, np.ndarray]) -> None:
        self.assertEqual(set(loaded), set(self.tensors))
        for name, expected in self.tensors.items():
            np.testing.assert_array_equal(loaded[name], expected)

    def test_reads(self) -> None:
        for name in self.server.files:
            url = self.server.url("plain", name)
            with self.subTest(name):
                self.check(tzmark.load_file(url))
                with tzmark.open(url) as model:
                    np.testing.assert_array_equal(model["t3"], self.tensors["t3"])
                    np.testing.assert_array_equal(
                        model.get_slice("large")[7:9], self.tensors["large"][7:9]
                    )
                    self.check({tensor: model[tensor] for tensor in model})

    def test_time_between_reads_does_not_count(self) -> None:
        """A server that is silent after a pause is given up as soon as any other."""
        os.environ["TZMARK_HTTP_ATTEMPTS"] = "2"
        self.addCleanup(os.environ.pop, "TZMARK_HTTP_ATTEMPTS")
        with tzmark.open(self.server.url("switched", "model.tensors")) as model:
            self.assertEqual(model["t0"].shape, (200, 500))
            time.sleep(6)
            self.server.switch = "silent"
            began = time.monotonic()
            with self.assertRaisesRegex(OSError, "stalled"):
                model["large"]
            self.assertLess(time.monotonic() - began, 6)

    def test_a_signal_ends_a_wait(self) -> None:
        os.environ["TZMARK_HTTP_STALL_S"] = "15"
        self.server.switch = "silent"

        def waits(work: Callable[[], object]) -> None:
            began = time.monotonic()
            timer = threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                work()
            timer.join()
            self.assertLess(time.monotonic() - began, 5)

        url = self.server.url("switched", "model.tensors")
        waits(lambda: tzmark.open(url))
        self.server.switch = "plain"
        with tzmark.open(url) as model:
            self.server.switch = "silent"
            waits(lambda: model["t5"])
            waits(lambda: model["large"])
            self.server.switch = "plain"
            self.check({tensor: model[tensor] for tensor in model})

    def test_a_signal_for_one_call_leaves_the_others_right(self) -> None:
        """A call that waits for a server is made again when another one is cancelled."""
        os.environ["TZMARK_HTTP_STALL_S"] = "15"
        self.server.delay_s = 0.7
        opened: list[dict[str, np.ndarray]] = []

        def work() -> None:
            with tzmark.open(self.server.url("plain", "model.tensors")) as model:
                opened.append({tensor: model[tensor] for tensor in model})

        other = threading.Thread(target=work)
        other.start()
        for after_s in (0.3, 0.9):
            timer = threading.Timer(after_s, signal.raise_signal, (signal.SIGINT,))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                tzmark.open(self.server.url("silent", "model.tensors"))
            timer.join()
        other.join()
        self.check(opened[0])

    def test_a_group_asks_for_each_byte_once(self) -> None:
        """Apart from the header and the index, which each rank reads."""
        ranks, url = 3, self.server.url("plain", "model.tensors")

        def asked_bytes() -> int:
            ranges = [one.header["Range"].partition("=")[2] for one in self.server.log]
            self.server.begin()
            ends = [one.split("-") for one in ranges]
            return sum(int(b) - int(a) + 1 if a else int(b) for a, b in ends)

        size = len(self.server.files["model.tensors"])
        for how in ("gather", "broadcast"):
            with self.subTest(how):
                self.server.begin()
                for loaded in threads_group.ThreadsGroup(ranks).run(
                    lambda rank: tzmark.load_file(url, group=rank, group_read=how)
                ):
                    self.check(loaded)
                together = asked_bytes()
                tzmark.load_file(url)
                alone = asked_bytes()
                self.assertGreaterEqual(together, size // 2)
                self.assertLess(together - size, ranks * (alone - size + (512 << 10)))

    def test_threads_share_a_file(self) -> None:
        for name in self.server.files:
            with tzmark.open(self.server.url("plain", name)) as model:
                failures: list[BaseException] = []

                def read() -> None:
                    try:
                        self.check({tensor: model[tensor] for tensor in model})
                    except BaseException as failure:  # noqa: BLE001 - shown by the test
                        failures.append(failure)

                threads = [threading.Thread(target=read) for _ in range(6)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertEqual(failures, [])

    def test_errors(self) -> None:
        url = self.server.url("later-changed-etag", "model.tensors").replace(
            "http://", "http://user:hunter2@"
        )
        with self.assertRaises(tzmark.Error) as caught:
            tzmark.load_file(url + "?signature=hunter2")
        self.assertEqual(caught.exception.rule, "TZE-ENV-005")
        self.assertNotIn(
            "hunter2",
            f"{caught.exception} {caught.exception.file} {caught.exception!r}",
        )
        with self.assertRaises(tzmark.UsageError):
            tzmark.load_file(self.server.url("plain", "model.tensors"), mapped=True)
        with self.assertRaises(tzmark.UsageError):
            tzmark.save_file(self.tensors, self.server.url("plain", "model.tensors"))

    def test_core_dumps_have_no_memory(self) -> None:
        """Once a password was used, and until the program sets that back."""
        url = self.server.url("plain", "model.tensors")
        script = (
            "import pathlib, sys, tzmark\n"
            "filter = pathlib.Path('/proc/self/coredump_filter')\n"
            "filter.write_text('0x33')\n"
            "for url in sys.argv[1:]:\n"
            "    tzmark.open(url)\n"
            "    print(int(filter.read_text(), 16))\n"
            "    filter.write_text('0x33')\n"
        )
        secret = url.replace("://", "://user:hunter2@")
        done = subprocess.run(
            [sys.executable, "-c", script, url, secret, secret],
            capture_output=True,
            check=True,
            timeout=60,
        )
        self.assertEqual(done.stdout.split(), [b"51", b"0", b"51"])

    def test_nothing_stays_open(self) -> None:
        """After faults of every kind, with right bytes or an error."""
        # A model is one or two requests, and more attempts of each hardly ever fail.
        os.environ["TZMARK_HTTP_ATTEMPTS"] = "2"
        self.addCleanup(os.environ.pop, "TZMARK_HTTP_ATTEMPTS")
        tzmark.load_file(self.server.url("plain", "model.tensors"))
        gc.collect()
        before = open_descriptors()
        read = failed = 0
        for seed in range(30):
            self.server.begin()
            self.server.seed = seed
            try:
                self.check(tzmark.load_file(self.server.url("random", "model.tensors")))
                read += 1
            except tzmark.Error as error:
                self.assertRegex(error.rule, "TZE-ENV-00[12]")
                failed += 1
        gc.collect()
        # The server's threads of this process close their ends a moment later.
        for _ in range(100):
            if open_descriptors() <= before:
                break
            threading.Event().wait(0.05)
        self.assertLessEqual(open_descriptors(), before)
        self.assertGreater(read, 0)
        self.assertGreater(failed, 0)


if __name__ == "__main__":
    unittest.main()
