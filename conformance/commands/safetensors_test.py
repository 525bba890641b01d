#!/usr/bin/env python3
"""Tests of --file, mutate, minimize and against on safetensors files, as their users meet them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
CONFORM = BUILD / "libexec/tzmark/tzmark-conform"
CASES = BUILD / "share/tzmark/safetensors"
MODEL = shlex.quote(str(BUILD / "libexec/tzmark/tzmark-adapter-model"))
REFERENCE = shlex.quote(str(BUILD / "libexec/tzmark/tzmark-adapter-reference"))
WITHOUT_HOLES = f"{MODEL} --without ST-014"


def conform(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CONFORM, *words], capture_output=True, text=True, timeout=300
    )


class Safetensors(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def test_a_file_that_breaks_a_rule(self) -> None:
        file = CASES / "hole.safetensors"
        run = conform("--file", file, "--adapter", REFERENCE)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("layout safetensors: invalid", run.stdout)
        self.assertIn("ST-014 at byte 61: tensor 1: its data_offsets", run.stdout)
        self.assertIn("SAFETENSORS.md: MUST (both): The data", run.stdout)
        run = conform("--file", file, "--adapter", WITHOUT_HOLES)
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertIn("accepted-invalid", run.stdout)

    def test_a_file_that_only_the_library_takes(self) -> None:
        file = CASES / "space-before.safetensors"
        for policy, status in (("accept", 1), ("reject", 0)):
            run = conform(
                *("--file", file, "--adapter", REFERENCE),
                *("--policy", f"beyond-description={policy}"),
            )
            self.assertEqual(run.returncode, status, run.stdout)
        run = conform("--file", file, "--adapter", REFERENCE)
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("open choice beyond-description: Whether", run.stdout)

    def test_a_file_of_any_content_by_its_name(self) -> None:
        file = self.directory / "nothing.safetensors"
        file.write_bytes(b"\xff" * 9)
        run = conform("--file", file, "--adapter", REFERENCE)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("ST-002 at byte 0", run.stdout)

    def test_mutated_files_find_a_missing_check_and_its_smallest_file(self) -> None:
        findings = self.directory / "findings"
        run = conform(
            *("mutate", "--format", "safetensors", "--count", "300"),
            *("--adapter", WITHOUT_HOLES, "--findings", findings),
        )
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("accepted-invalid by decode, tensor entry, ST-014", run.stdout)
        cases = json.loads((findings / "manifest.json").read_text())["cases"]
        self.assertEqual({case["rules"][0] for case in cases}, {"ST-014"})
        for case in cases:
            self.assertTrue(case["path"].endswith(".safetensors"))
            self.assertLess(case["size_bytes"], 200)
        for adapter, status in ((WITHOUT_HOLES, 1), (REFERENCE, 0)):
            run = conform("--corpus", findings, "--adapter", adapter)
            self.assertEqual(run.returncode, status, run.stderr)
        run = conform(
            *("mutate", "--format", "safetensors", "--count", "300"),
            *("--adapter", REFERENCE),
        )
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("0 failed", run.stdout)

    def test_a_large_file_becomes_the_smallest(self) -> None:
        header = {"__metadata__": {"format": "pt"}}
        for i in range(50):
            offsets = [400 * i + (i > 33), 400 * (i + 1) + (i > 33)]
            header[f"layers.{i}.weight"] = {
                "dtype": "F32",
                "shape": [10, 10],
                "data_offsets": offsets,
            }
        text = json.dumps(header, indent=1).encode()
        file, out = self.directory / "large.safetensors", self.directory / "min.st"
        file.write_bytes(len(text).to_bytes(8, "little") + text + bytes(20001))
        result = self.directory / "result.json"
        run = conform(
            *("minimize", file, "--adapter", WITHOUT_HOLES),
            *("--out", out, "--json", result),
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        failure = json.loads(result.read_text())["failure"]
        self.assertEqual(failure["rule"], "ST-014")
        self.assertLess(out.stat().st_size, 90, out.read_bytes())

    def test_two_readers_that_differ(self) -> None:
        for count in ([], ["--count", "200"]):
            run = conform(
                *("against", "--format", "safetensors", *count),
                *("--adapter", REFERENCE, "--with", WITHOUT_HOLES),
            )
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn("ST-014\n  decode: rejected, accepted", run.stdout)
            run = conform(
                *("against", "--format", "safetensors", *count),
                *("--adapter", REFERENCE, "--with", MODEL, "--compare-rules"),
            )
            self.assertEqual(run.returncode, 0, run.stdout)
            self.assertIn("0 differ", run.stdout)

    def test_the_page_of_two_readers_that_differ(self) -> None:
        result, page = self.directory / "result.json", self.directory / "page.html"
        conform(
            *("against", "--format", "safetensors", "--rule", "ST-014"),
            *("--adapter", REFERENCE, "--with", WITHOUT_HOLES, "--json", result),
        )
        renderer = SOURCE / "reports/render.py"
        command = [sys.executable, "-B", renderer, "against", result, "-o", page]
        subprocess.run(command, check=True)
        self.assertIn("refuses; tzmark model without ST-014: accepts", page.read_text())

    def test_the_page_of_a_run(self) -> None:
        page = self.directory / "page.html"
        conform(
            *("--format", "safetensors", "--rule", "ST-014", "--rule", "ST-018"),
            *("--adapter", WITHOUT_HOLES, "--html", page),
        )
        text = page.read_text()
        self.assertIn('id="st-hole"', text)
        self.assertIn("tensor 1: its data_offsets", text)
        self.assertIn("safetensors: 5 Data", text)
        # The rules of the other format have no text here.
        self.assertNotIn("The corpus has no text for this rule.", text)


if __name__ == "__main__":
    unittest.main()
