"""The package is typed: mypy accepts it with all of its checks, and the stub describes the extension module.

Exit status: 77 if mypy or pytest, whose types the plugin has, is not installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SKIPPED = 77
SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])

# Each line with a comment is an error that mypy must find, so that the types are not all Any.
MISUSES = """
import tzmark
tzmark.open(1)  # wrong
tzmark.open("a", verify=1.5)  # wrong
tzmark.open("a", key=1)  # wrong
names: list[int] = list(tzmark.open("a"))  # wrong
tzmark.Checkpointer("run").save({}, "1")  # wrong
tzmark.inspect("a").layout.nothing  # wrong
tzmark.load_file("a", progress=lambda done: None)  # wrong
tzmark.save_file({}, "a", nothing=1)  # wrong
group: tzmark.Group = object()  # wrong
"""


class Types(unittest.TestCase):
    def run_in(self, directory: Path, *arguments: str) -> str:
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [sys.executable, "-m", *arguments],
                cwd=directory,
                env={**os.environ, "MYPY_CACHE_DIR": cache},
                capture_output=True,
                text=True,
            )
        return done.stdout + done.stderr

    def test_strict(self) -> None:
        strict = ["--strict"]
        # The decorators of pytest are those of pluggy, whose 1.0 in Debian 12 has no types.
        if not (Path(pluggy.__file__).parent / "py.typed").exists():
            strict.append("--allow-untyped-decorators")
        result = self.run_in(SOURCE / "python", "mypy", *strict, "-p", "tzmark")
        self.assertIn("no issues found", result)

    def test_stub(self) -> None:
        found = self.run_in(SOURCE, "mypy.stubtest", "tzmark._tzmark")
        self.assertIn("no issues found", found)

    def test_misuse(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "misuse.py").write_text(MISUSES)
            found = self.run_in(Path(directory), "mypy", "--strict", "misuse.py")
        lines = [i for i, line in enumerate(MISUSES.splitlines(), 1) if "# w" in line]
        for line in lines:
            self.assertIn(f"misuse.py:{line}: error", found)


if __name__ == "__main__":
    try:
        import mypy
        import pluggy
        import pytest
    except ImportError as missing:
        print(f"{missing.name} is not installed: pip install mypy pytest")
        sys.exit(SKIPPED)
    del mypy, pytest
    unittest.main()
