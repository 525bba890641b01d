#!/usr/bin/env python3
"""A core dump of a command that encrypts holds no key: neither the kernel's nor that of gcore.

Each is skipped where it cannot be had, with the reason; ends with status 77 if both are.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import stopped
from stopped import KEY, PASSPHRASE, PLAINTEXT

PATTERN = Path("/proc/sys/kernel/core_pattern")


def gcore(pid: int, where: Path) -> bytes:
    """Returns the core dump that gcore makes of a process; empty if it makes none."""
    subprocess.run(
        ["gcore", "-o", where / "core-of", str(pid)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    file = where / f"core-of.{pid}"
    if not file.exists():
        return b""
    content = file.read_bytes()
    file.unlink()
    return content


class CoreDumpTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark-core-")
        self.addCleanup(scratch.cleanup)
        self.where = Path(scratch.name)
        (self.where / "tmp").mkdir()
        stopped.make_model(self.where)

    def assert_no_secret(self, core: bytes, what: str) -> None:
        self.assertTrue(core.startswith(b"\x7fELF"), what)
        for secret in (
            KEY,
            KEY[:16],
            KEY[16:],
            KEY.hex().encode(),
            PASSPHRASE.encode(),
        ):
            self.assertTrue(secret not in core, f"{what}: a secret is in the core dump")

    def commands(self) -> dict[str, list[str]]:
        convert = ["convert", "model.safetensors", "out.tensors"]
        cheap = ["--opslimit", "1", "--memlimit", "8KiB"]
        return {
            "key": [*convert, "--encrypt-key-file", "key"],
            "passphrase": [*convert, "--encrypt-passphrase-file", "passphrase", *cheap],
        }

    def require_gcore(self) -> None:
        if shutil.which("gcore") is None:
            self.skipTest("there is no gcore (gdb)")
        # What is not excluded is found.
        with subprocess.Popen(["sleep", "60"], env={"MARK": PASSPHRASE}) as process:
            try:
                core = gcore(process.pid, self.where)
            finally:
                process.kill()
        if not core:
            self.skipTest("gcore may not look into processes")
        self.assertIn(PASSPHRASE.encode(), core)

    def test_a_core_of_gcore(self) -> None:
        self.require_gcore()
        for name, words in self.commands().items():
            calls = stopped.calls_of(words, self.where)
            last_write = max(
                i
                for i, call in enumerate(calls, 1)
                if "write" in call or "submit" in call
            )
            with stopped.stopped_at(last_write, words, self.where) as process:
                self.assert_no_secret(gcore(process.pid, self.where), name)
                # The memory of keys stays excluded where a user wants other memory in core dumps.
                Path(f"/proc/{process.pid}/coredump_filter").write_text("0x33")
                core = gcore(process.pid, self.where)
                self.assertIn(PLAINTEXT, core, "the rest of the memory is there")
                self.assertTrue(
                    KEY not in core, f"{name}: a key is in the memory of core dumps"
                )
                self.assertTrue(
                    PASSPHRASE.encode() not in core, f"{name}: the passphrase is in it"
                )

    def test_a_core_of_the_kernel(self) -> None:
        pattern = PATTERN.read_text().strip() if PATTERN.exists() else ""
        if not pattern or pattern.startswith("|") or "/" in pattern:
            self.skipTest(f"core dumps go elsewhere: {PATTERN} is {pattern!r}")
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        before = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_CORE, before)
        for name, words in self.commands().items():
            calls = stopped.calls_of(words, self.where)
            old = set(os.listdir(self.where))
            with stopped.stopped_at(len(calls), words, self.where) as process:
                process.send_signal(signal.SIGABRT)
                process.send_signal(signal.SIGCONT)
                self.assertEqual(process.wait(timeout=60), -signal.SIGABRT)
            cores = [
                file for file in self.where.iterdir() if file.name.startswith("core")
            ]
            if not cores and name == "key":
                self.skipTest("the system writes no core dumps")
            for file in cores:
                self.assert_no_secret(file.read_bytes(), name)
                file.unlink()
            for left in set(os.listdir(self.where)) - old - {"out.tensors"}:
                os.unlink(self.where / left)


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False).result
    if len(result.skipped) == result.testsRun:
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)
