#!/usr/bin/env python3
"""What tzmark does where directories cannot be synced or renamed, files not be linked, or nothing be renamed at all.

FUSE with faults stands for network file systems and object stores, seccomp for security policies, and an overlay for a
container whose checkpoints are older than it is.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import subprocess
import tempfile
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mounts import BUILD, DENY_CALLS, NotHere, fault_fs, mounted

TZMARK = BUILD / "bin" / "tzmark"
FINE, ENVIRONMENT, UNAVAILABLE = 0, 3, 4
NOT_DURABLE = "cannot be made durable here"


def write_model(file: Path, name: str = "a") -> None:
    header = {name: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}
    header["b"] = {"dtype": "U8", "shape": [8], "data_offsets": [16, 24]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(range(24)))


class DurabilityTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark-durability-", dir=BUILD)
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        self.model = self.scratch / "model.safetensors"
        write_model(self.model)

    @contextmanager
    def mount(self, **faults: int) -> Iterator[Path]:
        """An empty directory with these faults."""
        below, above = self.scratch / "below", self.scratch / "above"
        below.mkdir()
        above.mkdir()
        words = {name: str(number) for name, number in faults.items()}
        try:
            with fault_fs(below, above, **words) as mountpoint:
                yield mountpoint
        except NotHere as why:
            self.skipTest(str(why))
        below.rename(self.scratch / f"used-{len(list(self.scratch.iterdir()))}")
        above.rmdir()

    def tzmark(
        self,
        *words: str | Path,
        status: int = FINE,
        launcher: tuple[str | Path, ...] = (),
    ) -> list[str]:
        """Runs a command, and returns its lines on stderr."""
        done = subprocess.run(
            [*launcher, TZMARK, *words], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr.splitlines()

    def write_everything(self, where: Path, status: int, *options: str) -> list[str]:
        """Lets every command that writes do so; returns their lines on stderr."""
        convert = ("convert", "--layout", "v5-segments", *options)
        lines = self.tzmark(*convert, self.model, where / "a.tensors", status=status)
        for more in (("--split",), ("--no-clobber",)):
            name = where / f"x{more[0]}.tensors"
            lines += self.tzmark(*convert, *more, self.model, name, status=status)
        shards = ("convert", "--shard-bytes", "10", *options, self.model)
        lines += self.tzmark(*shards, where / "s.safetensors", status=status)
        extract = ("extract", *options, self.model, "a", "-o", where / "a.bin")
        lines += self.tzmark(*extract, status=status)
        return lines

    def change_everything(self, file: Path, status: int, *options: str) -> list[str]:
        """Lets every command that changes a file in place do so."""
        raw = ("--raw", "c", "uint8", "8", self.scratch / "c.bin")
        (self.scratch / "c.bin").write_bytes(bytes(8))
        lines = self.tzmark("append", *options, file, *raw, status=status)
        return lines + self.tzmark(
            "edit", *options, "--rename", "a", "d", file, status=status
        )

    def test_without_fsync_of_directories(self) -> None:
        for number in (errno.EINVAL, errno.EOPNOTSUPP):
            with self.subTest(number), self.mount(FS_DIRFSYNC=number) as where:
                lines = self.write_everything(where, UNAVAILABLE, "--require-durable")
                self.assertEqual(len(lines), 5, lines)
                self.assertEqual(os.listdir(where), [])
                lines = self.write_everything(where, FINE)
                self.assertEqual(len(lines), 5, lines)
                for line in lines:
                    self.assertRegex(line, f"^tzmark: .*: warning: .*{NOT_DURABLE}")
                before = (where / "a.tensors").read_bytes()
                strict = self.change_everything(
                    where / "a.tensors", UNAVAILABLE, "--require-durable"
                )
                self.assertEqual(len(strict), 2, strict)
                self.assertEqual((where / "a.tensors").read_bytes(), before)
                lines = self.change_everything(where / "a.tensors", FINE)
                self.assertEqual([NOT_DURABLE in line for line in lines], [True, True])
                self.tzmark("verify", where / "a.tensors")
                left = [
                    name
                    for name in os.listdir(where)
                    if ".tmp-" in name or "tzmark" in name
                ]
                self.assertEqual(left, [])

    def test_fsync_of_directories_that_fails(self) -> None:
        with self.mount(FS_DIRFSYNC=errno.EIO) as where:
            lines = self.write_everything(where, ENVIRONMENT)
            self.assertEqual(len(lines), 5, lines)
            for line in lines:
                self.assertIn("error TZE-ENV-", line)

    def simulate(self, run: Path, status: int, *options: str | Path) -> list[str]:
        lines = self.tzmark(
            *("checkpoint", "simulate", run, "--interval", "1", "--state-mib", "1"),
            *("--step-ms", "0", *options),
            status=status,
        )
        return [
            line for line in lines if not line.startswith(("resumed", "no checkpoint"))
        ]

    def test_checkpoints_without_fsync_of_directories(self) -> None:
        with self.mount(FS_DIRFSYNC=errno.EINVAL) as where:
            result = self.scratch / "result.json"
            lines = self.simulate(where / "run", FINE, "--steps", "2", "--json", result)
            self.assertEqual([NOT_DURABLE in line for line in lines], [True, True])
            saves = json.loads(result.read_text())["saves"]
            self.assertEqual([save["names_durable"] for save in saves], [False, False])
            strict = ("--require-durable", "--steps", "3")
            lines = self.simulate(where / "run", UNAVAILABLE, *strict)
            self.assertEqual(len(lines), 1, lines)
            names = ["latest", "step-00000001", "step-00000002"]
            self.assertEqual(sorted(os.listdir(where / "run")), names)
            self.tzmark("checkpoint", "verify", where / "run")

    def test_python_without_fsync_of_directories(self) -> None:
        if not [*(BUILD / "python" / "tzmark").glob("_tzmark*.so")]:
            self.skipTest("built without the Python module")
        program = (
            "import sys, warnings, numpy, tzmark\n"
            "directory = sys.argv[1]\n"
            "tensors = {'a': numpy.zeros(4)}\n"
            "with tzmark.Checkpointer(directory + '/run/one') as checkpointer:\n"
            "    checkpointer.save(tensors, 1)\n"
            "    report = checkpointer.wait()\n"
            "assert not report.names_durable and len(report.warnings) == 1, report\n"
            "with warnings.catch_warnings(record=True) as caught:\n"
            "    warnings.simplefilter('always')\n"
            "    tzmark.save_file(tensors, directory + '/m.safetensors')\n"
            "assert ['durable' in str(one.message) for one in caught] == [True], caught\n"
            "try:\n"
            "    tzmark.save_file(tensors, directory + '/n.tensors', require_durable=True)\n"
            "except tzmark.UnavailableError:\n"
            "    sys.exit(0)\n"
            "sys.exit('it saved')\n"
        )
        with self.mount(FS_DIRFSYNC=errno.EINVAL) as where:
            done = subprocess.run(
                [
                    os.environ.get("TZMARK_PYTHON", "/usr/bin/python3"),
                    "-c",
                    program,
                    where,
                ],
                env={**os.environ, "PYTHONPATH": str(BUILD / "python")},
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(os.listdir(where)), ["m.safetensors", "run"])

    def test_where_links_are_refused(self) -> None:
        for number in (errno.EACCES, errno.EPERM):
            with self.subTest(number):
                file = self.scratch / f"linked-{number}.tensors"
                launcher = (DENY_CALLS, f"linkat={number}", "--")
                for _ in range(2):
                    convert = ("convert", "--layout", "v5-segments", self.model, file)
                    self.assertEqual(self.tzmark(*convert, launcher=launcher), [])
                edit = ("edit", "--rename", "a", "d", file)
                self.assertEqual(self.tzmark(*edit, launcher=launcher), [])
                self.tzmark("verify", file)
                self.assertEqual([*self.scratch.glob(f"{file.name}*")], [file])

    def test_where_nothing_can_be_renamed(self) -> None:
        for number in (errno.ENOSYS, errno.EPERM, errno.EXDEV):
            for link in ({}, {"FS_NOLINK": 1}):
                with self.subTest(number, **link), self.mount(
                    FS_NOREN=number, **link
                ) as where:
                    convert = ("convert", "--layout", "v5-segments", self.model)
                    for words in (
                        (*convert, where / "a.tensors"),
                        (*convert, "--split", where / "a.tensors"),
                        (
                            *convert[:1],
                            convert[-1],
                            "--shard-bytes",
                            "10",
                            where / "s.safetensors",
                        ),
                        ("extract", self.model, "a", "-o", where / "a.bin"),
                    ):
                        lines = self.tzmark(*words, status=ENVIRONMENT)
                        self.assertEqual(len(lines), 1, lines)
                        self.assertRegex(lines[0], "name")
                        self.assertEqual(os.listdir(where), [], words)
                    # In place, the journal and the larger copy need a rename.
                    file = where / "present.tensors"
                    self.tzmark(*convert, self.scratch / "present.tensors")
                    file.write_bytes((self.scratch / "present.tensors").read_bytes())
                    for line in self.change_everything(file, ENVIRONMENT):
                        self.assertIn("rename", line)
                    self.assertEqual(os.listdir(where), [file.name])
                    self.tzmark("verify", file)

    def test_checkpoints_in_a_lower_layer(self) -> None:
        parts = {
            name: self.scratch / name for name in ("lower", "upper", "work", "merged")
        }
        for part in parts.values():
            part.mkdir()
        self.simulate(parts["lower"] / "run", FINE, "--steps", "2")
        self.simulate(parts["lower"] / "same", FINE, "--steps", "2", "--same-name")
        layers = ",".join(
            f"{option}={parts[name]}"
            for option, name in (
                ("lowerdir", "lower"),
                ("upperdir", "upper"),
                ("workdir", "work"),
            )
        )
        try:
            with mounted("overlay", parts["merged"], "-o", layers) as merged:
                run, same = merged / "run", merged / "same"
                try:
                    (run / "step-00000001").rename(run / "other")
                    (run / "other").rename(run / "step-00000001")
                    self.skipTest("this overlay renames directories of its lower layer")
                except OSError as error:
                    self.assertEqual(error.errno, errno.EXDEV)
                lines = self.simulate(run, FINE, "--steps", "4", "--keep-latest", "1")
                self.assertEqual(lines, [])
                self.assertEqual(sorted(os.listdir(run)), ["latest", "step-00000004"])
                self.tzmark("checkpoint", "verify", run)
                lines = self.simulate(same, UNAVAILABLE, "--steps", "3", "--same-name")
                self.assertEqual(len(lines), 1, lines)
                self.assertRegex(
                    lines[0], "existing checkpoint kept: .* delete it first"
                )
                self.assertEqual(sorted(os.listdir(same)), ["last", "latest"])
                self.tzmark("checkpoint", "verify", same)
        except NotHere as why:
            self.skipTest(str(why))

    def test_checkpoints_where_directories_cannot_be_renamed(self) -> None:
        for number in (errno.EMFILE, errno.ENOSYS, errno.EXDEV):
            with self.subTest(number), self.mount(FS_NORENDIR=number) as where:
                result = self.scratch / "result.json"
                keep = ("--steps", "4", "--keep-latest", "2", "--json", result)
                self.assertEqual(self.simulate(where / "run", FINE, *keep), [])
                saves = json.loads(result.read_text())["saves"]
                self.assertEqual({save["commit"] for save in saves}, {"marker"})
                names = ["latest", "step-00000003", "step-00000004"]
                self.assertEqual(sorted(os.listdir(where / "run")), names)
                self.tzmark("checkpoint", "verify", where / "run")
                same = ("--steps", "2", "--same-name")
                lines = self.simulate(where / "same", UNAVAILABLE, *same)
                self.assertEqual(len(lines), 1, lines)
                self.assertIn("existing checkpoint kept", lines[0])
                lines = self.simulate(
                    where / "r", ENVIRONMENT, "--steps", "1", "--commit", "rename"
                )
                self.assertEqual(len(lines), 1, lines)
                self.assertEqual(os.listdir(where / "r"), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
