"""The wheel: what README.md shows of it works in a new environment, and it contains what it must and nothing else.

Skipped (exit status 77) until scripts/package has been run once, because its tools come from PyPI.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

import hardening

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
VENV = SOURCE / "build/package/venv"
SKIPPED = 77
TAG = re.compile(r"tzmark-[\d.]+(?:-1nogpu)?-cp310-abi3-manylinux_2_(\d+)_x86_64\.whl")
BYTES_MAX = 12_000_000
# The first screen of the document.
SECTION = re.compile(r"\A# tzmark\n(.*?)^## In a clone\n", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Wheel(unittest.TestCase):
    directory: Path
    wheel: Path
    corpus: Path

    @classmethod
    def setUpClass(cls) -> None:
        directory = tempfile.TemporaryDirectory(prefix="tzmark-test-")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = Path(directory.name)
        subprocess.run(
            [SOURCE / "scripts/package", "wheel", "-o", cls.directory], check=True
        )
        (cls.wheel,) = cls.directory.glob("tzmark-*.whl")
        (cls.corpus,) = cls.directory.glob("tzmark_corpus-*-py3-none-any.whl")

    def test_tag(self) -> None:
        match = TAG.fullmatch(self.wheel.name)
        assert match is not None, self.wheel.name
        self.assertLessEqual(int(match[1]), 34)
        self.assertLessEqual(self.wheel.stat().st_size, BYTES_MAX)

    def test_content(self) -> None:
        names = zipfile.ZipFile(self.wheel).namelist()
        for wanted in (
            "tzmark/__init__.py",
            "tzmark/_tzmark.abi3.so",
            "tzmark/_install/bin/tzmark",
            "tzmark/_install/libexec/tzmark/tzmark-conform",
            "tzmark/_install/share/tzmark/reports/templates/bench.html.j2",
        ):
            self.assertIn(wanted, names)
        of_corpus = zipfile.ZipFile(self.corpus).namelist()
        self.assertIn("tzmark/_install/share/tzmark/corpus/manifest.json", of_corpus)
        self.assertEqual({*names} & {*of_corpus}, set())
        licences = {
            name.rpartition("/")[2] for name in names if ".dist-info/licenses/" in name
        }
        self.assertLessEqual({"LICENSE", "libsodium23"}, licences)
        # Every library inside has its licence.
        vendored = [name for name in names if name.startswith("tzmark.libs/")]
        self.assertTrue(vendored)
        self.assertGreaterEqual(len(licences), 1 + len(vendored), licences)
        for name in names:
            self.assertFalse(name.endswith((".a", ".h", ".cmake", ".pc")), name)

    def test_hardening(self) -> None:
        with tempfile.TemporaryDirectory(prefix="tzmark-test-") as directory:
            zipfile.ZipFile(self.wheel).extractall(directory)
            files = [
                file for file in Path(directory, "tzmark").rglob("*") if file.is_file()
            ]
            binaries = [file for file in files if hardening.is_elf(file)]
            self.assertIn("tzmark-conform", [file.name for file in binaries])
            for file in binaries:
                self.assertEqual(hardening.lacking(file), [], file.name)

    def test_readme(self) -> None:
        section = SECTION.search((SOURCE / "README.md").read_text(encoding="utf-8"))
        assert section is not None
        lines = "".join(BLOCK.findall(section[1])).splitlines()
        self.assertIn("tzmark conform", lines)
        subprocess.run([VENV / "bin/python", "-m", "venv", "venv"], cwd=self.directory)
        for line in lines:
            # The wheel is made already; its name here is that of the document's directory.
            if line in ("scripts/setup", "scripts/package wheel"):
                continue
            line = line.replace("build/package/dist/", "").replace(
                "pip install ", "pip install --no-index "
            )
            done = subprocess.run(
                ["bash", "-c", f"PATH=$PWD/venv/bin:$PATH; {line}"],
                cwd=self.directory,
                env={**os.environ, "PYTHONPATH": ""},
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 0, f"{line}: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    if not (VENV / "requirements.txt").exists():
        print("build/package/venv is missing: scripts/package wheel makes it")
        sys.exit(SKIPPED)
    unittest.main()
