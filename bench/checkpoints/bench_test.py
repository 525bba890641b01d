#!/usr/bin/env python3
"""Runs the checkpoint benchmark on little data and checks its output and its document."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import jsonschema

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
PROGRAM = Path(os.environ["TZMARK_BUILD_DIR"]) / "bin/tzmark"
SCHEMA = json.loads(
    (SOURCE / "reports/schema/checkpoint-bench.schema.json").read_text()
)


class CheckpointBenchTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)

    def bench(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, "bench", "checkpoint", *arguments],
            capture_output=True,
            text=True,
            timeout=300,
        )

    def test_measures_each_part_in_each_round(self) -> None:
        result = self.directory / "result.json"
        done = self.bench(
            *("--dir", str(self.directory), "--json", str(result), "--rounds", "6"),
            *("--scale", "16MiB", "--step-ms", "0.1", "--threads", "2"),
        )
        # With so little data a check may fail, which is status 1.
        self.assertIn(done.returncode, (0, 1), done.stderr)
        # The temporary directory is removed.
        self.assertEqual(os.listdir(self.directory), ["result.json"])
        document = json.loads(result.read_text())
        jsonschema.validate(document, SCHEMA)
        self.assertTrue(document["is_complete"])
        self.assertEqual(len(document["rounds"]), 6)
        for part in document["rounds"]:
            # No save of the rounds waits for a previous one.
            self.assertLess(part["wait_ns"], part["copy_ns"])
            self.assertGreaterEqual(part["snapshot_bytes"], document["state_bytes"])
            self.assertGreater(part["file_bytes"], document["state_bytes"])
            for name in ("copy_ns", "drain_ns", "memcpy_ns", "plain_write_ns"):
                self.assertGreater(part[name], 0, name)
        checks = {check["name"]: check for check in document["checks"]}
        self.assertEqual(
            list(checks),
            ["copy", "drain", "memory", "step, one thread", "step, all cores"],
        )
        by_hand = sorted(p["memcpy_ns"] / p["copy_ns"] for p in document["rounds"])
        ratio = checks["copy"]["ratio"]
        self.assertAlmostEqual(ratio["median"], (by_hand[2] + by_hand[3]) / 2)
        self.assertEqual((ratio["low"], ratio["high"]), (by_hand[0], by_hand[-1]))
        fails = any(check["verdict"] == "fail" for check in checks.values())
        self.assertEqual(done.returncode, 1 if fails else 0, done.stdout)
        for name, check in checks.items():
            verdict = check["verdict"] or "told"
            self.assertRegex(done.stdout, rf"(?m)^{name} .* {verdict} ")

    def test_a_signal_leaves_the_rounds_until_then(self) -> None:
        result = self.directory / "result.json"
        with subprocess.Popen(
            [PROGRAM, "bench", "checkpoint", "--dir", self.directory]
            + ["--json", result, "--rounds", "100000", "--progress"]
            + ["--scale", "1MiB", "--step-ms", "0.1", "--threads", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as run:
            assert run.stderr is not None
            seen = b""
            while b"round 3 of" not in seen:
                more = os.read(run.stderr.fileno(), 4096)
                self.assertTrue(more, seen)
                seen += more
            run.send_signal(signal.SIGINT)
            out, _ = run.communicate(timeout=300)
        self.assertEqual(run.returncode, -signal.SIGINT)
        document = json.loads(result.read_text())
        jsonschema.validate(document, SCHEMA)
        self.assertFalse(document["is_complete"])
        self.assertGreaterEqual(len(document["rounds"]), 2)
        self.assertIn(
            f"interrupted after {len(document['rounds'])} of 100000 rounds".encode(),
            out,
        )
        self.assertEqual(os.listdir(self.directory), ["result.json"])

    def test_wrong_usage(self) -> None:
        for arguments, status in (
            ((), 2),
            (("--dir", str(self.directory), "--rounds", "0"), 2),
            (("--dir", str(self.directory), "--step-ms", "nan"), 2),
            (("--dir", str(self.directory), "--workload", "none"), 2),
            (("--dir", str(self.directory), "--scale", "2305843009213693953"), 2),
            (("--dir", "/dev/null/below"), 3),
        ):
            done = self.bench(*arguments)
            self.assertEqual(done.returncode, status, arguments)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
