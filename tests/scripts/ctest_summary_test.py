#!/usr/bin/env python3
"""Tests of scripts/ctest_summary.py: what it prints of each outcome, and its exit status."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SUMMARY = Path(os.environ["TZMARK_SOURCE_DIR"]) / "scripts/ctest_summary.py"

PASSED = """<testcase name="a" status="run"><system-out>
[ RUN      ] Mount.IsThere
mount_test.cc:10: Skipped
needs root

[  SKIPPED ] Mount.IsThere (0 ms)
test_fuse (__main__.FuseTest) ... skipped 'no /dev/fuse'
test_other (__main__.FuseTest)
With a docstring. ... skipped "can't mount"
test_third (__main__.FuseTest) ... skipped 'no /dev/fuse'
test_fourth (__main__.FuseTest) ... ok
</system-out></testcase>"""
SKIPPED = """<testcase name="b" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
<system-out>first
no go command here</system-out></testcase>"""
FAILED = """<testcase name="c" status="fail"><system-out>
[ RUN      ] Good.One
[       OK ] Good.One (0 ms)
[ RUN      ] Bad.One
it is wrong
[  FAILED  ] Bad.One (0 ms)
</system-out></testcase>"""

RACE = """<testcase name="d" status="fail"><system-out>
[ RUN      ] Quiet.One
[       OK ] Quiet.One (0 ms)
[ RUN      ] Racy.One
==================
WARNING: ThreadSanitizer: data race (pid=7)
  Write of size 8 at 0x7b04
SUMMARY: ThreadSanitizer: data race file.cc:1 in first
==================
WARNING: ThreadSanitizer: data race (pid=7)
  Write of size 4 at 0x7b08
SUMMARY: ThreadSanitizer: data race file.cc:2 in second
[       OK ] Racy.One (0 ms)
[  PASSED  ] 2 tests.
</system-out></testcase>"""


class CtestSummary(unittest.TestCase):
    def summary(self, *cases: str) -> tuple[int, str]:
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(f"<testsuite>{''.join(cases)}</testsuite>")
            file.flush()
            done = subprocess.run(
                [sys.executable, "-B", SUMMARY, file.name],
                capture_output=True,
                text=True,
            )
        return done.returncode, done.stdout

    def test_reasons_within_programs_that_pass(self) -> None:
        self.assertEqual(
            self.summary(PASSED),
            (
                0,
                "skipped in a: 1 of its tests: needs root\n"
                "skipped in a: 2 of its tests: no /dev/fuse\n"
                "skipped in a: 1 of its tests: can't mount\n"
                "1 passed, 0 failed\n",
            ),
        )

    def test_whole_programs(self) -> None:
        status, text = self.summary(PASSED, SKIPPED, FAILED)
        self.assertEqual(status, 1)
        self.assertIn("skipped b: no go command here\n", text)
        self.assertIn("FAILED c\n    [ RUN      ] Bad.One\n    it is wrong\n", text)
        self.assertNotIn("Good.One", text)
        self.assertTrue(text.endswith("1 passed, 1 failed, 1 skipped\n"))

    def test_sanitizer_reports_of_tests_that_pass(self) -> None:
        status, text = self.summary(RACE)
        self.assertEqual(status, 1)
        self.assertEqual(
            [line.strip() for line in text.splitlines()],
            [
                "FAILED d",
                "[ RUN      ] Racy.One",
                "WARNING: ThreadSanitizer: data race (pid=7)",
                "Write of size 8 at 0x7b04",
                "SUMMARY: ThreadSanitizer: data race file.cc:1 in first",
                "SUMMARY: ThreadSanitizer: data race file.cc:2 in second",
                "0 passed, 1 failed",
            ],
        )

    def test_nothing_passed(self) -> None:
        self.assertEqual(self.summary(SKIPPED)[0], 1)


if __name__ == "__main__":
    unittest.main()
