"""The version is that of project() in CMakeLists.txt everywhere."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
VERSION = r"(\d+\.\d+\.\d+)"


def found(pattern: str, text: str) -> str:
    """Returns the only match of the pattern's group."""
    matches = set(re.findall(pattern, text))
    if len(matches) != 1:
        raise AssertionError(f"{pattern}: {sorted(matches)}")
    return str(matches.pop())


class Version(unittest.TestCase):
    def setUp(self) -> None:
        text = (SOURCE / "CMakeLists.txt").read_text()
        self.version = found(rf"project\(tzmark VERSION {VERSION}", text)
        self.short = self.version.rpartition(".")[0]

    def test_programs(self) -> None:
        for program in ("bin/tzmark", *("libexec/tzmark/" + n for n in SIBLINGS)):
            text = subprocess.run(
                [BUILD / program, "--version"], capture_output=True, text=True
            ).stdout
            with self.subTest(program=program):
                first = text.splitlines()[0]
                self.assertEqual(found(rf"\b{VERSION}\b", first), self.version)

    def test_pkg_config(self) -> None:
        text = (BUILD / "reference/tzmark.pc").read_text()
        self.assertEqual(found(rf"Version: {VERSION}", text), self.version)

    def test_python_package(self) -> None:
        project = tomllib.loads((SOURCE / "pyproject.toml").read_text())
        self.assertNotIn("version", project["project"])
        rule = project["tool"]["scikit-build"]["metadata"]["version"]
        match = re.search(rule["regex"], (SOURCE / rule["input"]).read_text())
        assert match is not None
        self.assertEqual(match["value"], self.version)
        self.assertEqual(
            project["project"]["optional-dependencies"]["corpus"],
            [f"tzmark-corpus=={self.version}"],
        )

    def test_documents(self) -> None:
        for name, pattern in (
            ("README.md", r"find_package\(tzmark (\S+) REQUIRED\)"),
            ("README.md", r"^Version (\d+\.\d+) covers"),
            ("docs/library.md", r"find_package\(tzmark (\S+) REQUIRED\)"),
            ("tests/consumer/CMakeLists.txt", r"find_package\(tzmark (\S+) REQUIRED\)"),
        ):
            text = (SOURCE / name).read_text(encoding="utf-8")
            with self.subTest(name=name):
                self.assertEqual(found(f"(?m){pattern}", text), self.short)
        changes = (SOURCE / "CHANGELOG.md").read_text(encoding="utf-8")
        self.assertIn(self.version, changes)

    def test_another_version_is_found(self) -> None:
        with self.assertRaises(AssertionError):
            found(rf"tzmark {VERSION}", "tzmark 1.2.3\ntzmark 1.2.4")


SIBLINGS = ("tzmark-conform", "tzmark-bench")

if __name__ == "__main__":
    unittest.main()
