#!/usr/bin/env python3
"""Runs tzmark with little memory, few descriptors, small stacks, and without the file systems that most systems mount.

A command succeeds as it does without limits, or ends with one line that has a rule id; it leaves no part of a file.
And it takes no more memory and time than the size of a file justifies, whatever the file says: for the corpus, and for
mutants of it. TZMARK_FULL=1 runs 100,000 mutants.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from processes_test import PATHS as IO_PATHS
from processes_test import write_model

BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
TZMARK = BUILD / "bin" / "tzmark"
CORPUS = BUILD / "share" / "tzmark" / "corpus"
PATHS = (*IO_PATHS, "mmap", "buffered")
FINE, FAILED, UNAVAILABLE = 0, 3, 4
ONE_ERROR = re.compile(rb"^tzmark: .*TZE-[A-Z0-9]+-\d+: [^\n]+\n$")
MIB = 1 << 20

MUTANTS = 100_000 if "TZMARK_FULL" in os.environ else 1_000
MUTATED_BYTES_MAX = 64 << 10
# The promise, per file of n bytes: of the peak of resident memory, and of the time of all cores.
PEAK_BYTES, PEAK_BYTES_PER_BYTE = 64 * MIB, 4
TIME_S, TIME_S_PER_BYTE = 1.0, 50e-9


class Files(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        self.model = self.directory / "model.safetensors"
        write_model(self.model)
        self.file = self.directory / "model.tensors"
        subprocess.run([TZMARK, "convert", self.model, self.file], check=True)


class Limits(Files):
    def check(self, limit: Callable[[], None]) -> set[int]:
        """Runs each command over each path with a limit, and returns their exit statuses."""
        statuses = set()
        out = self.directory / "out.tensors"
        for path in PATHS:
            for command in (
                ("verify", self.file, "--io", path),
                ("convert", self.model, out, "--io", path),
                ("extract", self.file, "t0", "--io", path),
            ):
                with self.subTest(path=path, command=command[0]):
                    done = subprocess.run(
                        [TZMARK, *command],
                        capture_output=True,
                        timeout=120,
                        preexec_fn=limit,
                    )
                    statuses.add(done.returncode)
                    self.assertIn(
                        done.returncode, (FINE, FAILED, UNAVAILABLE), done.stderr
                    )
                    if done.returncode == FINE:
                        self.assertEqual(done.stderr, b"")
                    else:
                        self.assertRegex(done.stderr, ONE_ERROR)
                    if command[0] == "convert" and done.returncode == FINE:
                        self.assertEqual(out.read_bytes(), self.file.read_bytes())
                        out.unlink()
                    self.assertEqual(
                        {entry.name for entry in self.directory.iterdir()},
                        {self.file.name, self.model.name},
                    )
        return statuses

    def limited(self, what: int, value: int) -> set[int]:
        return self.check(lambda: resource.setrlimit(what, (value, value)))

    def test_few_descriptors(self) -> None:
        self.assertIn(FINE, self.limited(resource.RLIMIT_NOFILE, 16))
        # Fewer than a ring and a file need.
        self.assertIn(FAILED, self.limited(resource.RLIMIT_NOFILE, 4))

    def test_little_address_space(self) -> None:
        # A kernel may lack a path.
        statuses = self.limited(resource.RLIMIT_AS, 1024 * MIB)
        self.assertEqual(statuses - {UNAVAILABLE}, {FINE})
        self.assertIn(FAILED, self.limited(resource.RLIMIT_AS, 48 * MIB))

    def test_small_stacks(self) -> None:
        # That of a new thread is as large, too.
        statuses = self.limited(resource.RLIMIT_STACK, 64 << 10)
        self.assertIn(FINE, statuses)
        self.assertNotIn(FAILED, statuses)


class WithoutFileSystems(Files):
    """In a mount namespace, with an empty read-only file system in place of some directories."""

    HIDE = """
        set -e
        mount --make-rprivate /
        for hidden in $HIDDEN; do
          mount -t tmpfs -o ro,mode=0555 none "$hidden"
        done
        if [ "$READ_ONLY" = yes ]; then mount -o remount,bind,ro /; fi
        exec "$@"
    """

    def setUp(self) -> None:
        if os.geteuid() != 0 or not shutil.which("unshare"):
            self.skipTest("needs root, to mount in a namespace of its own")
        probe = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /sys"]
        if subprocess.run(probe, capture_output=True).returncode != 0:
            self.skipTest("no mounts can be made here")
        super().setUp()

    def hidden(
        self, hidden: str, *command: str | Path, read_only: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", self.HIDE, "sh", TZMARK, *command],
            capture_output=True,
            timeout=120,
            env={
                **os.environ,
                "HIDDEN": hidden,
                "READ_ONLY": "yes" if read_only else "no",
            },
        )

    def test_neither_proc_nor_sys(self) -> None:
        for command in (
            ("verify", self.file),
            ("dump", self.file),
            ("convert", self.model, self.directory / "out.tensors"),
        ):
            with self.subTest(command=command[0]):
                done = self.hidden("/proc /sys", *command)
                self.assertEqual(done.returncode, FINE, done.stderr)
        out = self.directory / "out.tensors"
        self.assertEqual(out.read_bytes(), self.file.read_bytes())
        # The programs of other commands are found by /proc.
        done = self.hidden("/proc", "bench", "--list-io")
        self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
        self.assertRegex(done.stderr, ONE_ERROR)

    def test_no_place_for_temporary_files(self) -> None:
        # Where the build itself lies, nothing can be hidden.
        if BUILD.is_relative_to("/tmp") or not self.directory.is_relative_to("/tmp"):
            self.skipTest("the build, or the system's other files, are in /tmp")
        with tempfile.TemporaryDirectory(dir="/var/tmp") as elsewhere:
            file = Path(elsewhere) / "model.tensors"
            shutil.copy(self.file, file)
            for command in (("verify", file), ("extract", file, "t0")):
                with self.subTest(command=command[0]):
                    done = self.hidden("/tmp", *command)
                    self.assertEqual(done.returncode, FINE, done.stderr)

    def test_a_read_only_root(self) -> None:
        if os.stat(self.directory).st_dev != os.stat("/").st_dev:
            self.skipTest("the temporary directory is on another file system")
        done = self.hidden("", "verify", self.file, read_only=True)
        self.assertEqual(done.returncode, FINE, done.stderr)
        out = self.directory / "out.tensors"
        done = self.hidden("", "convert", self.model, out, read_only=True)
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertRegex(done.stderr, ONE_ERROR)
        self.assertFalse(out.exists())


@dataclass
class Usage:
    """What one run of the command took."""

    status: int
    peak_bytes: int
    time_s: float


def usage_of(command: list[str]) -> Usage:
    """Runs a command without output, and waits for it."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        pid = os.posix_spawn(
            command[0],
            command,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)],
        )
    finally:
        os.close(null)
    _, status, used = os.wait4(pid, 0)
    return Usage(
        os.waitstatus_to_exitcode(status),
        # Before the command begins, its process has the memory of this one.
        used.ru_maxrss << 10,
        used.ru_utime + used.ru_stime,
    )


def mutants(files: list[Path], count: int, seed: int) -> Iterator[bytes]:
    """Files of the corpus with changes that hit lengths and offsets: large numbers, cuts, and repeats."""
    numbers = random.Random(seed)
    contents = [file.read_bytes() for file in files]
    contents = [content for content in contents if 16 < len(content)]
    for i in range(count):
        content = bytearray(contents[i % len(contents)])
        for _ in range(numbers.randint(1, 4)):
            # Most numbers are in the headers, at the front.
            end = len(content) if numbers.random() < 0.3 else min(len(content), 512)
            at = numbers.randrange(end)
            kind = numbers.randrange(4)
            if kind == 0:
                content[at] = numbers.randrange(256)
            elif kind == 1:
                width = numbers.choice((2, 4, 8))
                value = numbers.choice(
                    (0, 1, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 62, (1 << 64) - 1)
                )
                content[at : at + width] = (value % (1 << 8 * width)).to_bytes(
                    width, "little"
                )
            elif kind == 2 and len(content) > 32:
                del content[numbers.randrange(16, len(content)) :]
            else:
                content[at:at] = content[at : at + 64]
        yield bytes(content)


class Proportion(unittest.TestCase):
    def is_done_by_another(self) -> bool:
        """Runs the test in a process of its own: what this one has in memory would count for each command."""
        if "TZMARK_IS_SMALL" in os.environ:
            return False
        done = subprocess.run(
            [sys.executable, "-B", __file__, self.id().removeprefix("__main__.")],
            env={**os.environ, "TZMARK_IS_SMALL": "1"},
            capture_output=True,
            text=True,
        )
        print(done.stdout, end="")
        self.assertEqual(done.returncode, 0, done.stderr)
        return True

    def check(self, files: Iterable[tuple[str, Path]]) -> None:
        runs, most_bytes, most_s = 0, 0, 0.0
        for name, file in files:
            size = file.stat().st_size
            used = usage_of([str(TZMARK), "verify", str(file)])
            runs += 1
            most_bytes = max(most_bytes, used.peak_bytes - PEAK_BYTES_PER_BYTE * size)
            most_s = max(most_s, used.time_s - TIME_S_PER_BYTE * size)
            self.assertGreaterEqual(used.status, 0, f"{name}: killed by a signal")
            self.assertLess(
                used.peak_bytes, PEAK_BYTES + PEAK_BYTES_PER_BYTE * size, name
            )
            self.assertLess(used.time_s, TIME_S + TIME_S_PER_BYTE * size, name)
        print(
            f"{runs} runs: at most {most_bytes / MIB:.1f} MiB + {PEAK_BYTES_PER_BYTE} n, "
            f"{most_s:.3f} s + {TIME_S_PER_BYTE * 1e9:.0f} ns n"
        )

    def files(self) -> list[Path]:
        found = [
            CORPUS / case["path"]
            for case in json.loads((CORPUS / "manifest.json").read_text())["cases"]
        ]
        self.assertGreater(len(found), 1000)
        return found

    def test_the_corpus(self) -> None:
        if self.is_done_by_another():
            return
        self.check((file.name, file) for file in self.files())

    def test_mutants(self) -> None:
        if self.is_done_by_another():
            return
        small = [f for f in self.files() if f.stat().st_size <= MUTATED_BYTES_MAX]
        seed = int(os.environ.get("TZMARK_SEED", 1))
        with tempfile.TemporaryDirectory(prefix="tzmark-test-") as scratch:
            file = Path(scratch) / "mutant.tensors"

            def written() -> Iterator[tuple[str, Path]]:
                for number, content in enumerate(mutants(small, MUTANTS, seed)):
                    file.write_bytes(content)
                    yield f"mutant {number} of TZMARK_SEED={seed}", file

            self.check(written())


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
