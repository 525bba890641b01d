"""No program takes a library from the current directory, where files of others may lie."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
NEEDED = re.compile(r"^\s*(lib\S+\.so\S*) =>", re.MULTILINE)


class LibrariesTest(unittest.TestCase):
    def check(self, file: Path, *command: str | Path) -> None:
        """Runs a command where each library that a file needs is an empty file, which no loader accepts."""
        listed = subprocess.run(["ldd", file], capture_output=True, text=True).stdout
        names = NEEDED.findall(listed)
        self.assertTrue(names, listed)
        with tempfile.TemporaryDirectory() as directory:
            for name in names:
                (Path(directory) / name).touch()
            done = subprocess.run(
                command, cwd=directory, capture_output=True, text=True
            )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_programs(self) -> None:
        for program in ("bin/tzmark", "libexec/tzmark/tzmark-conform"):
            with self.subTest(program):
                self.check(BUILD / program, BUILD / program, "--version")

    def test_module(self) -> None:
        module = BUILD / "python/tzmark/_tzmark.abi3.so"
        if not module.exists():
            self.skipTest("the module is not built")
        words = f"import sys; sys.path[0] = {str(BUILD / 'python')!r}; import tzmark"
        self.check(module, sys.executable, "-c", words)

    def test_no_empty_entry(self) -> None:
        programs = [*BUILD.glob("bin/tzmark*"), *BUILD.glob("libexec/tzmark/*")]
        for program in programs:
            listed = subprocess.run(
                ["readelf", "--dynamic", program], capture_output=True, text=True
            ).stdout
            for path in re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", listed):
                self.assertNotIn("", path.split(":"), program)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
