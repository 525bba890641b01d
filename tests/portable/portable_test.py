"""What scripts/portable makes runs in a root with nothing in it but glibc, and is small.

The root is entered by chroot in a mount namespace of its own, which needs to be root, or user namespaces. Where neither
is to be had the test is skipped and says so.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
# Of the programs and what they read; and of the system's libraries, of which OpenSSL's is half on Debian 13.
OWN_BYTES_MAX, LIBRARIES_BYTES_MAX = 22 << 20, 12 << 20
# Of the kernels for GPUs, in a build that has them: each of six programs holds them.
KERNELS_BYTES_MAX = 6 * (560 << 10)
# The parts of glibc that programs of any kind load.
GLIBC = re.compile(r"/(?:ld-linux[^/]*|lib(?:c|m|dl|rt|pthread)\.so[^/]*)$")
ENTER = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
STEPS = """set -e
mount --rbind /proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs none "$1/tmp"
root=$1
shift
exec chroot "$root" "$@"
"""


def glibc_files(program: Path) -> set[Path]:
    """Where the system keeps what a program loads of glibc."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    words = {word for word in listed.split() if word.startswith("/")}
    return {Path(word) for word in words if GLIBC.search(word)}


def checkout(directory: Path, build: Path) -> Path:
    """Makes what scripts/portable needs of a checkout."""
    directory.mkdir()
    (directory / "build").symlink_to(build)
    (directory / "LICENSE").symlink_to(SOURCE / "LICENSE")
    (directory / "scripts").symlink_to(SOURCE / "scripts")
    return directory


class FailureTest(unittest.TestCase):
    """It makes all of the directory or nothing."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="tzmark-test-")
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.build = self.root / "build"
        for part in ("bin", "libexec", "share/tzmark"):
            (self.build / part).mkdir(parents=True)
            for entry in (BUILD / part).iterdir():
                (self.build / part / entry.name).symlink_to(entry)
        (self.build / "tests").mkdir()
        for name in ("gpu_test", "device_test"):
            (self.build / "tests" / name).symlink_to(BUILD / "tests" / name)
        self.here = checkout(self.root / "checkout", self.build)

    def refused(self, *options: str, status: int) -> str:
        done = subprocess.run(
            ["scripts/portable", self.root / "out", *options],
            cwd=self.here,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, status, done.stderr)
        left = sorted(path.name for path in self.root.iterdir())
        self.assertEqual(left, ["build", "checkout"])
        return done.stderr

    def test_parts_that_are_not_built(self) -> None:
        """A build of the tools alone, such as that of scripts/run, may lack each of these."""
        for part, options in (
            ("share/tzmark/bench", ()),
            ("share/tzmark/reports", ()),
            ("share/tzmark/corpus", ("--corpus",)),
            ("tests/gpu_test", ()),
        ):
            link = self.build / part
            target = link.readlink()
            link.unlink()
            said = self.refused(*options, status=2)
            self.assertRegex(said, rf"\Aportable: not built: {part}.*; scripts/test")
            self.assertEqual(said.count("\n"), 1)
            link.symlink_to(target)

    def test_a_copy_that_fails(self) -> None:
        """The file is a copy of a program that is none, so that strip fails after others are copied."""
        (self.build / "tests/device_test").unlink()
        (self.build / "tests/device_test").write_text("no program")
        (self.build / "tests/device_test").chmod(0o755)
        self.refused(status=1)

    def test_a_directory_that_exists_stays(self) -> None:
        (self.root / "out").mkdir()
        done = subprocess.run(
            ["scripts/portable", self.root / "out"],
            cwd=self.here,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("exists already", done.stderr)
        self.assertEqual(list((self.root / "out").iterdir()), [])


class PortableTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="tzmark-test-")
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.directory = self.root / "tzmark"
        # From the build that this test belongs to, which need not be the checkout's own.
        here = checkout(self.root / "checkout", BUILD)
        subprocess.run(
            ["scripts/portable", self.directory, "--corpus"], cwd=here, check=True
        )

    def test_it_is_small(self) -> None:
        sizes = {
            path: path.stat().st_size
            for path in self.directory.rglob("*")
            if path.is_file() and path.name != "corpus.tar.gz"
        }
        own = {p: n for p, n in sizes.items() if p.parent != self.directory / "lib"}
        self.assertIn(self.directory / "libexec/tzmark/tzmark-bench", own)
        own_bytes = sum(own.values())
        version = subprocess.run(
            [BUILD / "bin/tzmark", "--version"], capture_output=True, text=True
        ).stdout
        self.assertIn("CUDA: ", version)
        kernels = KERNELS_BYTES_MAX if "CUDA: kernels" in version else 0
        self.assertLess(own_bytes, OWN_BYTES_MAX + kernels, own)
        self.assertLess(sum(sizes.values()) - own_bytes, LIBRARIES_BYTES_MAX, sizes)

    def test_it_runs_where_nothing_else_is(self) -> None:
        for directory in ("dev", "proc", "tmp"):
            (self.root / directory).mkdir()
        tried = [*ENTER, "mount", "--rbind", "/proc", self.root / "proc"]
        if subprocess.run(tried, capture_output=True).returncode != 0:
            self.skipTest("nothing can be mounted here, not even in a namespace")
        for program in (
            *self.directory.glob("bin/*"),
            *self.directory.glob("libexec/*/*"),
        ):
            for file in glibc_files(program):
                place = self.root / file.relative_to("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                if not place.exists():
                    shutil.copy(file, place)
        share = self.directory / "share/tzmark"
        with tarfile.open(share / "corpus.tar.gz") as corpus:
            corpus.extractall(share)
        file = (
            "/tzmark/share/tzmark/corpus/upstream/tensorizer-2.11.1/state-dict.tensors"
        )
        self.assertIn("compiled in", self.run_inside("tzmark", "--version"))
        self.assertIn("all hashes match", self.run_inside("tzmark", "verify", file))
        self.assertIn(
            "0 failed", self.run_inside("tzmark", "conform", "--only", "hash-*")
        )
        measured = self.run_inside(
            *("tzmark", "bench", "--dir", "/tmp", "--scale", "1MiB"),
            *("--rounds", "1", "--io", "pwrite"),
        )
        self.assertIn("codec read", measured)
        self.check_bench_outside_of_any_mount()
        # What is there is the machine's, and what is not has to be said.
        said = self.run_inside("tzmark", "verify", "--device", file, status=4)
        self.assertIn("there is no CUDA driver", said)

    def check_bench_outside_of_any_mount(self) -> None:
        """The root itself is no mount point: what /proc does not tell is unknown, and the run goes on."""
        self.run_inside(
            *("tzmark", "bench", "--dir", "/scratch", "--scale", "1MiB"),
            *("--rounds", "1", "--io", "pwrite", "--json", "/bench.json"),
        )
        document = json.loads((self.root / "bench.json").read_text())
        storage = document["machine"]["storage"]
        self.assertIsNone(storage["file_system"])
        self.assertIsNone(storage["mount_options"])
        self.assertGreater(storage["free_bytes"], 0)

    def run_inside(self, program: str, *arguments: str, status: int = 0) -> str:
        done = subprocess.run(
            [
                *ENTER,
                *("sh", "-c", STEPS, "sh", self.root, f"/tzmark/bin/{program}"),
                *arguments,
            ],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
