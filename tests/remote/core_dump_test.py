#!/usr/bin/env python3
"""Core dumps of the commands have no credentials in them. Skipped where the system writes none to the directory."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

import credentials_server
import fake_s3
import fault_server
from fake_s3 import Fault
from setting import TZMARK, clean_environment, model

PATTERN = Path("/proc/sys/kernel/core_pattern")
MARK = "hunter2"  # a part of all secrets of these tests


def allow_core_dumps() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


class CoreDumps(fake_s3.TestCase):
    def setUp(self) -> None:
        super().setUp()
        pattern = PATTERN.read_text().strip() if PATTERN.exists() else ""
        if not pattern or pattern.startswith("|") or "/" in pattern:
            self.skipTest(f"core dumps go elsewhere: {PATTERN} is {pattern!r}")
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        # As a command without the filter, whose environment is in its memory.
        if MARK.encode() not in self.core_of(
            ["sleep", "60"], lambda: True, SECRET=MARK
        ):
            self.skipTest("the system writes no core dumps with memory")

    def core_of(
        self, command: list[str], is_ready: Callable[[], bool], **environment: str
    ) -> bytes:
        """Returns the core dump of a command that is killed when it is ready; empty if there is none."""
        process = subprocess.Popen(
            command,
            cwd=self.place,
            env=clean_environment() | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=allow_core_dumps,
        )
        end = time.monotonic() + 30
        while not is_ready() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(signal.SIGQUIT)
        self.assertEqual(process.wait(timeout=60), -signal.SIGQUIT)
        files = list(self.place.iterdir())
        content = b"".join(file.read_bytes() for file in files)
        for file in files:
            os.unlink(file)
        return content

    def assert_no_secret(
        self, url: str, is_ready: Callable[[], bool], **environment: str
    ) -> None:
        core = self.core_of([str(TZMARK), "verify", url], is_ready, **environment)
        self.assertTrue(core.startswith(b"\x7fELF"))
        self.assertTrue(MARK.encode() not in core, "a secret in a core dump")

    def serve_silence(self) -> None:
        self.store.objects["bucket/model"] = model(tensor_bytes=100_000)
        self.store.faults = {"get": Fault("silent", 99)}

    def test_keys_of_the_environment(self) -> None:
        self.serve_silence()
        log = self.store.log
        self.assert_no_secret("s3://bucket/model", lambda: bool(log), **self.access)
        self.assertEqual(self.store.problems, [])

    def test_keys_of_an_endpoint(self) -> None:
        self.serve_silence()
        with credentials_server.running() as endpoint:
            environment = {
                "TZMARK_S3_CREDENTIALS": "container",
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": endpoint.origin
                + credentials_server.PATH,
                "AWS_ENDPOINT_URL": self.store.origin,
            }
            self.store.temporary = endpoint.keys
            log = self.store.log
            self.assert_no_secret("s3://bucket/model", lambda: bool(log), **environment)
            self.assertEqual(self.store.problems, [])

    def test_a_password_of_a_url(self) -> None:
        with fault_server.running({"model": model(tensor_bytes=1000)}) as server:
            # The first 80 bytes of the command line are in a note, which stays.
            user = "u" * 80
            url = server.url("silent", "model").replace("://", f"://{user}:{MARK}@")
            self.assert_no_secret(url, lambda: bool(server.log))


if __name__ == "__main__":
    unittest.main()
