"""Situations of people who use tzmark, reported in public and made small, each with its right outcome.

What a situation needs and this machine lacks (root, FUSE, the Python module, torch) is printed, and its test skipped.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "faults"))
from mounts import BUILD, DENY_CALLS, NotHere, fault_fs, mounted

TZMARK = BUILD / "bin" / "tzmark"
MODULE = BUILD / "python"
# The calls of the situations: EINVAL and EACCES of x86-64 and of Arm.
EINVAL, EACCES = "22", "13"

SIMULATE = ("checkpoint", "simulate", "run", "--interval", "1", "--state-mib", "1")


def safetensors(metadata: dict[str, str]) -> bytes:
    """Returns a file of one tensor, as the safetensors library writes it."""
    header = {
        "__metadata__": metadata,
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    }
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    return struct.pack("<Q", len(encoded)) + encoded + struct.pack("<6f", *range(6))


class CaseTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark-case-")
        self.addCleanup(scratch.cleanup)
        self.dir = Path(scratch.name)
        (self.dir / "ok.safetensors").write_bytes(safetensors({"format": "pt"}))

    def run_command(
        self, *command: str | Path, status: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command in the scratch directory; checks its exit status unless that is None."""
        done = subprocess.run(
            command,
            cwd=self.dir,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONPATH": str(MODULE)},
        )
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def tzmark(
        self, *arguments: str | Path, status: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        return self.run_command(TZMARK, *arguments, status=status)

    def python(self, program: str, *needs: str) -> str:
        """Runs a program with the module, and returns what it printed."""
        if not (MODULE / "tzmark" / "_tzmark.abi3.so").exists():
            self.skipTest("the Python module is not built (TZMARK_PYTHON)")
        for name in needs:
            if importlib.util.find_spec(name) is None:
                self.skipTest(f"Python has no {name}")
        return self.run_command(sys.executable, "-B", "-c", program).stdout

    @contextlib.contextmanager
    def mount(self, **faults: str):
        """Mounts the faulty file system on "mount" in the scratch directory, over "below"."""
        below, mountpoint = self.dir / "below", self.dir / "mount"
        below.mkdir()
        mountpoint.mkdir()
        try:
            with fault_fs(below, mountpoint, **faults):
                yield mountpoint
        except NotHere as lack:
            self.skipTest(str(lack))

    def steps(self, directory: str = "run") -> list[str]:
        return sorted(entry.name for entry in (self.dir / directory).glob("step-*"))

    # Other people's files.

    def test_link_of_unnamed_file_is_denied(self) -> None:
        """Security modules refuse linkat; a file with a temporary name and a rename do as well."""
        self.run_command(
            DENY_CALLS, f"linkat={EACCES}", "--", TZMARK, "convert", "ok.safetensors", "a.tensors"  # fmt: skip
        )
        self.tzmark("verify", "a.tensors")
        self.assertEqual(
            sorted(entry.name for entry in self.dir.iterdir()),
            ["a.tensors", "ok.safetensors"],
        )

    # Checkpoints.

    def test_copy_of_checkpoint_is_kept(self) -> None:
        """A copy that a user made to keep is not a checkpoint of the run, whatever its commit says."""
        self.tzmark(*SIMULATE, "--steps", "1", "--step-ms", "1")
        shutil.copytree(self.dir / "run/step-00000001", self.dir / "run/best")
        for steps in ("3", "5"):
            self.tzmark(
                *SIMULATE, "--steps", steps, "--step-ms", "1", "--keep-latest", "1"
            )
            self.tzmark("verify", "run/best/model.safetensors")
        self.assertEqual(self.steps(), ["step-00000005"])

    def test_roll_back_keeps_progress(self) -> None:
        """After going back to step 20, the checkpoints of the new line are kept, and a restart resumes from them."""
        printed = self.python(
            """
import numpy, tzmark
with tzmark.Checkpointer("run", keep_latest=2) as c:
    for s in (10, 20, 30):
        c.save({"w": numpy.full(2, float(s))}, s)
    c.wait()
with tzmark.Checkpointer("run", keep_latest=2) as c:
    c.load(20)
    for s in (21, 22, 23):
        c.save({"w": numpy.full(2, -float(s))}, s)
        c.wait()
    latest = c.load_latest()
    print(latest.step, latest.state_dict["w"].tolist())
""",
            "numpy",
        )
        self.assertEqual(printed.strip(), "23 [-23.0, -23.0]")
        for step in ("step-00000022", "step-00000023"):
            self.assertIn(step, self.steps())

    def test_two_savers_share_a_directory(self) -> None:
        """A requeued job starts while the preempted one still runs: neither dies of what the other deleted."""
        program = """
import subprocess, sys
saver = '''
import numpy, sys, tzmark
c = tzmark.Checkpointer("run", keep_latest=2)
for s in range(int(sys.argv[1]), 80, 2):
    c.save({"model": {"w": numpy.ones(4)}}, s)
c.wait()
'''
savers = [subprocess.Popen([sys.executable, "-B", "-c", saver, first]) for first in "12"]
print([saver.wait() for saver in savers])
"""
        self.assertEqual(self.python(program, "numpy").strip(), "[0, 0]")
        self.assertTrue(self.steps())

    def test_directories_cannot_be_synced(self) -> None:
        """FUSE, 9p and some network file systems: the durability of names is unknown, which is a warning."""
        with self.mount(FS_DIRFSYNC=EINVAL) as mount:
            done = self.tzmark("convert", "ok.safetensors", mount / "a.tensors")
            self.assertIn("warning", done.stderr)
            self.tzmark("verify", mount / "a.tensors")
            simulate = list(SIMULATE)
            simulate[2] = str(mount / "run")
            done = self.tzmark(*simulate, "--steps", "1", "--step-ms", "1")
            self.assertTrue((mount / "run/step-00000001/commit.json").exists())
            before = sorted(os.listdir(mount))
            required = ("--require-durable", mount / "b.tensors")
            done = self.tzmark("convert", "ok.safetensors", *required, status=4)
            self.assertIn("sync", done.stderr)
            self.assertEqual(sorted(os.listdir(mount)), before)

    # Mounts and machines.

    def test_bench_on_mounts_without_cache(self) -> None:
        """What cannot be measured on a FUSE mount is one line with its reason; the rest is measured."""
        for fault, cache in (({}, "warm"), ({"FS_DIRECT_IO": "1"}, "cold")):
            # A shared mapping is refused by direct_io, and a path that is named and not there is an error.
            paths = "pwrite" if fault else "pwrite,mmap"
            with self.subTest(**fault), self.mount(**fault) as mount:
                options = ("--scale", "2MiB", "--rounds", "1", "--io", paths)
                done = self.tzmark("bench", "--dir", mount, *options, "--cache", cache)
                self.assertIn("codec write", done.stdout)
                self.assertEqual(os.listdir(mount), [])
            for name in ("mount", "below"):
                with contextlib.suppress(FileNotFoundError):
                    (self.dir / name).rmdir()

    def test_tune_where_sizes_are_unknown(self) -> None:
        """A file system that reports zero blocks is not full."""
        mountpoint = self.dir / "ramfs"
        mountpoint.mkdir()
        try:
            with mounted("ramfs", mountpoint):
                done = self.tzmark("tune", mountpoint, "--budget", "5s", "--scale", "2MiB", status=None)  # fmt: skip
        except NotHere as lack:
            self.skipTest(str(lack))
        self.assertNotIn("full", done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        for task in ("load-warm", "save"):
            self.assertRegex(done.stdout, f"(?m)^{task} ")

    def test_interrupted_bench_keeps_its_rounds(self) -> None:
        """Ctrl-C, once or twice: finished rounds are printed and written, and no file is left."""
        for times in (1, 2):
            with self.subTest(times=times):
                directory = self.dir / f"bench-{times}"
                result = self.dir / f"bench-{times}.json"
                options = ("--scale", "8MiB", "--rounds", "2000", "--io", "pwrite")
                bench = subprocess.Popen(
                    [TZMARK, "bench", "--dir", directory, *options, "--json", result],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
                time.sleep(4)
                for _ in range(times):
                    # As a terminal does, to the whole group.
                    os.killpg(bench.pid, signal.SIGINT)
                out, err = bench.communicate(timeout=60)
                self.assertNotEqual(bench.returncode, 0)
                if times == 1:
                    self.assertIn("codec read", out, err)
                    self.assertTrue(json.loads(result.read_text())["results"])
                self.assertEqual(
                    list(directory.iterdir()) if directory.exists() else [], []
                )

    # Python and safetensors.

    def test_tied_weights_are_saved_in_both_formats(self) -> None:
        printed = self.python(
            """
import torch
from tzmark.torch import load_model, save_model

class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(2, 2)
        self.b = torch.nn.Linear(2, 2)
        self.b.weight = self.a.weight

for name in ("m.safetensors", "m.tensors"):
    saved, loaded = Tied(), Tied()
    save_model(saved, name)
    load_model(loaded, name)
    same = all(torch.equal(saved.state_dict()[key], loaded.state_dict()[key]) for key in saved.state_dict())
    print(same, loaded.a.weight is loaded.b.weight)
""",
            "torch",
        )
        self.assertEqual(printed.split(), ["True", "True"] * 2)

    def test_metadata_does_not_vanish(self) -> None:
        """Where a format cannot keep metadata, the conversion says so; checkpoints have "format": "pt"."""
        done = self.tzmark("convert", "ok.safetensors", "a.tensors", status=None)
        if done.returncode == 0:
            self.tzmark("convert", "a.tensors", "b.safetensors")
            self.assertIn("format", self.tzmark("inspect", "b.safetensors").stdout)
        else:
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--drop-metadata", done.stderr)
            self.tzmark("convert", "ok.safetensors", "a.tensors", "--drop-metadata")
            self.tzmark("convert", "a.tensors", "b.safetensors", "--metadata", "format=pt")  # fmt: skip
            self.assertIn("format", self.tzmark("inspect", "b.safetensors").stdout)
        self.tzmark(*SIMULATE, "--steps", "1", "--step-ms", "1")
        header = (self.dir / "run/step-00000001/model.safetensors").read_bytes()
        length = struct.unpack("<Q", header[:8])[0]
        metadata = json.loads(header[8 : 8 + length]).get("__metadata__", {})
        self.assertEqual(metadata.get("format"), "pt")

    def test_foreign_files_are_named(self) -> None:
        """A pointer of Git LFS, a web page or a zip of torch.save in place of a model: the error says what it is."""
        pointer = (
            b"version https://git-lfs.github.com/spec/v1\n"
            b"oid sha256:" + b"a1" * 32 + b"\nsize 4952\n"
        )
        page = (
            b"<!DOCTYPE html><html><head><title>Just a moment...</title></head></html>"
        )
        archive = b"PK\x03\x04" + bytes(26) + b"archive/data.pkl" + bytes(100)
        for name, content, words in (
            ("lfs.safetensors", pointer, "git lfs pull"),
            ("lfs.tensors", pointer, "git lfs pull"),
            ("page.safetensors", page, "HTML"),
            ("torch.safetensors", archive, "zip"),
            ("empty.tensors", b"", "empty"),
        ):
            with self.subTest(name):
                (self.dir / name).write_bytes(content)
                done = self.tzmark("verify", name, status=1)
                self.assertIn(words, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        # A file of a cache of models has no suffix.
        shutil.copy(self.dir / "ok.safetensors", self.dir / "noext")
        self.tzmark("verify", "noext")


if __name__ == "__main__":
    unittest.main(verbosity=2)
