#!/usr/bin/env python3
"""Runs tzmark where the system starts few threads and no kernel worker, as containers with a limit of processes do.

A cgroup limits the processes of one command to a number (pids.max, which needs root), and RLIMIT_NPROC of 1 lets an
ordinary user start none at all. Both count threads, and the workers of io_uring.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import struct
import subprocess
import tempfile
import unittest
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

TZMARK = Path(os.environ["TZMARK_BUILD_DIR"]) / "bin" / "tzmark"
PATHS = ("pwrite", "direct", "uring", "uring-direct", "uring-sqpoll")
FINE, UNAVAILABLE = 0, 4
CGROUPS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
OTHER_USER = 65534

# More pieces than threads, so that many would be started; each is read or written by a call of its own.
TENSORS = 12
TENSOR_BYTES = 3 << 20


def write_model(file: Path) -> bytes:
    """Writes a safetensors file, and returns what its first tensor holds."""
    header = {
        f"t{i}": {
            "dtype": "U8",
            "shape": [TENSOR_BYTES],
            "data_offsets": [i * TENSOR_BYTES, (i + 1) * TENSOR_BYTES],
        }
        for i in range(TENSORS)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = hashlib.sha256(b"seed").digest() * (TENSOR_BYTES // 32)
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _ in range(TENSORS):
            out.write(block)
    return block


@contextmanager
def pids_cgroup(limit: int) -> Iterator[Path | str]:
    """A cgroup that allows so many processes, or the reason why none can be made."""
    reason = "there is no pids controller"
    for parent in CGROUPS:
        directory = parent / f"tzmark-test-{os.getpid()}"
        try:
            directory.mkdir()
        except OSError as error:
            reason = f"{directory}: {error.strerror}"
            continue
        try:
            (directory / "pids.max").write_text(str(limit))
        except OSError as error:
            directory.rmdir()
            reason = f"{directory}: {error.strerror}"
            continue
        try:
            yield directory
        finally:
            directory.rmdir()
        return
    yield reason


class FewProcesses(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        self.directory.chmod(0o777)
        self.model = self.directory / "model.safetensors"
        self.first_tensor = write_model(self.model)
        self.file = self.directory / "model.tensors"
        subprocess.run([TZMARK, "convert", self.model, self.file], check=True)

    def run_limited(
        self, limit: Callable[[], None], arguments: Sequence[str | Path]
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [TZMARK, *arguments], capture_output=True, timeout=120, preexec_fn=limit
        )

    def is_available(self, path: str, become: Callable[[], None] | None = None) -> bool:
        """Whether there is the path where nothing is limited."""
        probe = self.directory / "probe"
        done = subprocess.run(
            [TZMARK, "convert", self.model, probe, "--io", path],
            capture_output=True,
            preexec_fn=become,
        )
        probe.unlink(missing_ok=True)
        self.assertIn(done.returncode, (FINE, UNAVAILABLE), done.stderr)
        return done.returncode == FINE

    def check_commands(self, paths: Sequence[str], limit: Callable[[], None]) -> None:
        """All commands end as they do without a limit."""
        for path in paths:
            out = self.directory / "out.tensors"
            for arguments in (
                ("verify", self.file, "--io", path),
                ("convert", self.model, out, "--io", path),
                ("extract", self.file, "t0", "--io", path),
            ):
                with self.subTest(path=path, command=arguments[0]):
                    done = self.run_limited(limit, arguments)
                    self.assertEqual(done.returncode, FINE, done.stderr)
                    self.assertEqual(done.stderr, b"")
                    if arguments[0] == "extract":
                        self.assertEqual(done.stdout, self.first_tensor)
                    if arguments[0] == "convert":
                        self.assertEqual(out.read_bytes(), self.file.read_bytes())
            out.unlink(missing_ok=True)

    def test_no_process_beside_the_command(self) -> None:
        become = become_nobody if os.geteuid() == 0 else None

        def limit() -> None:
            if become is not None:
                become()
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))

        if become is not None:
            try:
                subprocess.run([TZMARK, "--version"], preexec_fn=become, check=True)
            except (OSError, subprocess.SubprocessError) as error:
                self.skipTest(f"another user cannot run the build's tzmark: {error}")
        paths = [path for path in PATHS if self.is_available(path, become)]
        self.check_commands(paths, limit)

    def test_a_cgroup_of_one_to_four_processes(self) -> None:
        paths = [path for path in PATHS if self.is_available(path)]
        for number in (1, 2, 3, 4):
            with pids_cgroup(number) as directory:
                if isinstance(directory, str):
                    self.skipTest(directory)

                def limit(procs: Path = directory / "cgroup.procs") -> None:
                    procs.write_text("0")

                with self.subTest(pids_max=number):
                    self.check_commands(paths, limit)


def become_nobody() -> None:
    """Root may have any number of processes; no other user may."""
    os.setgroups([])
    os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
    os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)


if __name__ == "__main__":
    unittest.main(verbosity=2)
