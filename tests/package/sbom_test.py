"""The bill of materials is whole and consistent, and README names each library that a program links."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
SBOM = SOURCE / "scripts/sbom"
NEEDED = re.compile(r"\(NEEDED\).*\[(.*)\]")
# Libraries of the C and C++ implementation, and the row of README's table of each other one.
SYSTEM = re.compile(r"ld-linux|lib(?:c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so")
ROWS = {
    "libbenchmark": "Google Benchmark",
    "libcrypto": "OpenSSL (libcrypto)",
    "libfmt": "fmt",
    "libisal": "ISA-L",
    "libmpi": "OpenMPI",
    "libsodium": "libsodium",
    "libtinyxml2": "TinyXML-2",
    "liburing": "liburing",
    "libz": "zlib",
}


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", SBOM, *arguments], capture_output=True, text=True
    )


def needed(program: str) -> list[str]:
    listed = subprocess.run(
        ["readelf", "--dynamic", BUILD / program], capture_output=True, text=True
    ).stdout
    return NEEDED.findall(listed)


class BillTest(unittest.TestCase):
    document: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        if not shutil.which("dpkg-query"):
            raise unittest.SkipTest("no dpkg here")
        done = run("--build", BUILD)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        cls.document = json.loads(done.stdout)

    def programs(self) -> list[str]:
        return [file["fileName"].removeprefix("./") for file in self.document["files"]]

    def test_identifiers(self) -> None:
        elements = self.document["packages"] + self.document["files"]
        identifiers = [element["SPDXID"] for element in elements]
        self.assertEqual(len(identifiers), len(set(identifiers)))
        known = {*identifiers, "SPDXRef-DOCUMENT"}
        for relationship in self.document["relationships"]:
            self.assertIn(relationship["spdxElementId"], known)
            self.assertIn(relationship["relatedSpdxElement"], known)
        for identifier in known:
            self.assertRegex(identifier, r"^SPDXRef-[A-Za-z0-9.-]+$")

    def test_each_program_is_there(self) -> None:
        for program in ("bin/tzmark", "libexec/tzmark/tzmark-conform"):
            self.assertIn(program, self.programs())
        for file in self.document["files"]:
            sums = {c["algorithm"]: c["checksumValue"] for c in file["checksums"]}
            content = (BUILD / file["fileName"]).read_bytes()
            self.assertEqual(sums["SHA256"], hashlib.sha256(content).hexdigest())

    def test_each_package_has_a_version(self) -> None:
        names = {package["name"] for package in self.document["packages"]}
        for name in ("tzmark", "libcli11-dev", "nlohmann-json3-dev", "zlib1g"):
            self.assertIn(name, names)
        for package in self.document["packages"]:
            self.assertRegex(package["versionInfo"], r"^(?:\d+:)?\d")

    def test_readme_names_what_is_linked(self) -> None:
        table = (SOURCE / "README.md").read_text()
        for program in self.programs():
            for library in needed(program):
                if SYSTEM.match(library):
                    continue
                with self.subTest(library, program=program):
                    name = library.split(".so")[0]
                    self.assertIn(name, ROWS)
                    self.assertIn(f"\n| {ROWS[name]} | ", table)


class WrongUse(unittest.TestCase):
    def test_nothing_is_built(self) -> None:
        with tempfile.TemporaryDirectory() as empty:
            done = run("--build", empty)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("has no programs", done.stderr)

    def test_no_name(self) -> None:
        self.assertEqual(run("-o", "").returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
