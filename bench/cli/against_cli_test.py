#!/usr/bin/env python3
"""Runs tzmark bench against with equal builds, with a slower one, and with programs that are no worker."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

import jsonschema

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "reports"))
from testing.schema_strictness import open_members  # noqa: E402

BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
TZMARK = BUILD / "bin/tzmark"
SLOWED = BUILD / "tests/tzmark-bench-slowed"
SCHEMA = json.loads((SOURCE / "reports/schema/bench-against.schema.json").read_text())

# A worker that answers what it is told to.
FAKE = """#!{python}
import json, sys
hello = {{"protocol": 1, "version": "0", "commit": "c", "measuring_core": {core}, "program": {program},
         "lines": {lines}}}
print(json.dumps(hello), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "quit":
        break
    {answer}
"""
GOOD = """print(json.dumps({"line": request["line"], "id": "a b", "bytes": 2 << 20, "elapsed_ns": 10**9, "sync_ns": 0,
        "disturbance": {"elapsed_ns": 1, "other_user_ns": 0, "steal_ns": 0}}), flush=True)"""


class AgainstTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        (self.directory / "data").mkdir()

    def against(
        self,
        other: Path | str,
        *arguments: str,
        status: int,
        program: Path = TZMARK,
        slowdown: float = 0,
        scale: str = "2MiB",
    ) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"TZMARK_TEST_SLOWDOWN": str(slowdown)}
        done = subprocess.run(
            [program, "bench", "against", other, "--dir", self.directory / "data"]
            + ["--workload", "mixed", "--scale", scale, *arguments],
            capture_output=True,
            text=True,
            timeout=600,
            env=environment,
        )
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(
            os.listdir(self.directory / "data"), [], "files are left behind"
        )
        return done

    def fake(self, answer: str = GOOD, core: int = 0, lines: str = "") -> Path:
        """Writes a worker that has the lines of the build under test, if no others are given."""
        worker = subprocess.run(
            [TZMARK, "bench", "worker", "--dir", self.directory / "data"]
            + ["--workload", "mixed", "--scale", "2MiB", "--io", "pwrite"]
            + ["--op", "read", "--verify", "none", "--memory", "thp", "--no-raw"],
            input="",
            capture_output=True,
            text=True,
            check=True,
        )
        hello = json.loads(worker.stdout)
        program = self.directory / "fake"
        program.write_text(
            FAKE.format(
                python=sys.executable,
                core=core or hello["measuring_core"],
                program='"fake"',
                lines=lines or json.dumps(hello["lines"]),
                answer=answer,
            )
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return program

    def one_path(self) -> list[str]:
        return ["--io", "pwrite", "--op", "read", "--verify", "none", "--no-raw"]

    def test_a_slower_build_is_a_regression(self) -> None:
        result = self.directory / "result.json"
        words = [*self.one_path(), "--budget", "300s"]
        done = self.against(
            *(TZMARK, *words, "--json", str(result)),
            status=1,
            program=SLOWED,
            slowdown=20,
        )
        self.assertRegex(done.stdout, r"codec read mixed.* REGRESSION")
        document = json.loads(result.read_text())
        jsonschema.validate(document, SCHEMA)
        (row,) = document["rows"]
        self.assertEqual(row["verdict"], "REGRESSION")
        self.assertLess(row["ratio"]["high"], 0.8)
        self.assertLess(row["new_rate"], row["old_rate"])
        self.assertGreaterEqual(row["laps"], row["processes"])

    def test_a_faster_build_passes(self) -> None:
        words = [*self.one_path(), "--budget", "300s"]
        done = self.against(SLOWED, *words, status=0, slowdown=4)
        self.assertRegex(done.stdout, r"codec read mixed.* faster")

    def test_too_little_time_is_no_pass(self) -> None:
        done = self.against(
            *(TZMARK, *self.one_path(), "--budget", "1s"), status=2, scale="128MiB"
        )
        self.assertIn("both are the same program", done.stdout)
        self.assertIn("too few processes for any claim", done.stdout)
        self.assertIn("1 of 1 lines are not decided", done.stderr)

    def test_the_result_is_strict(self) -> None:
        result = self.directory / "result.json"
        self.against(
            *(TZMARK, "--io", "pwrite", "--budget", "2s", "--json", str(result)),
            status=2,
        )
        whole = json.loads(result.read_text())
        # Reads and writes, with and without hashes; raw ones.
        self.assertEqual(len(whole["rows"]), 6)
        row = whole["rows"][0]
        objects = (whole, whole["old"], row, row["ratio"], whole["conditions"])
        self.assertEqual(open_members(SCHEMA, whole, objects), [])

    def test_a_closed_output_loses_no_result(self) -> None:
        result = self.directory / "result.json"
        words = [*self.one_path(), "--workload", "mixed", "--scale", "2MiB"]
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [TZMARK, "bench", "against", TZMARK, "--dir", self.directory / "data"]
                + [*words, "--budget", "1s", "--json", result],
                stdout=full,
                stderr=subprocess.PIPE,
            )
        self.assertEqual(done.returncode, 3)
        jsonschema.validate(json.loads(result.read_text()), SCHEMA)

    def test_programs_that_are_no_worker(self) -> None:
        self.assertIn("does not exist", self.against("/nowhere", status=2).stderr)
        for program in ("/bin/true", "/bin/cat", "/etc/passwd"):
            refused = self.against(program, *self.one_path(), status=4).stderr
            self.assertIn(f"{program} cannot be measured in turn", refused)
            self.assertEqual(len(refused.splitlines()), 1, refused)

    def test_builds_that_are_not_comparable(self) -> None:
        words = [*self.one_path(), "--budget", "2s"]
        refused = self.against(self.fake(core=999), *words, status=2).stderr
        self.assertIn("999", refused)
        self.assertIn("--force", refused)
        words[-1] = "300s"
        self.against(self.fake(core=999), *words, "--force", status=0)
        refused = self.against(self.fake(lines='["a"]'), *words, status=2).stderr
        self.assertIn('fake has ["a"]', refused)

    def test_another_default_is_told(self) -> None:
        words = [*self.one_path(), "--budget", "300s"]
        told = self.against(self.fake(), *words, status=0).stdout
        self.assertIn("as 'a b'", told)

    def test_a_worker_that_fails(self) -> None:
        words = [*self.one_path(), "--budget", "60s"]
        failed = (
            '{{"line": 0, "failed": "made to fail", "unavailable": {}, "wrong": {}}}'
        )
        say = "print('{}', flush=True)"
        unavailable = self.fake(say.format(failed.format("true", "false")))
        told = self.against(unavailable, *words, status=2)
        self.assertIn("not measured: made to fail", told.stdout, told.stderr)
        wrong = self.fake(say.format(failed.format("false", "true")))
        self.assertIn("made to fail", self.against(wrong, *words, status=3).stderr)
        for answer in (
            "sys.exit(3)",
            "print('{}', flush=True)",
            "print(1, flush=True)",
        ):
            self.against(self.fake(answer), *words, status=2)

    def test_nothing_stays_of_a_worker_that_is_killed(self) -> None:
        """What it wrote is below the directory of the process that started it."""
        litter = (
            "open(sys.argv[sys.argv.index('--dir') + 1] + '/litter', 'w'); sys.exit(1)"
        )
        words = [*self.one_path(), "--budget", "60s"]
        told = self.against(self.fake(litter), *words, status=2)
        self.assertIn("not measured", told.stdout)
        self.assertIn("exit status 1", told.stdout)

    def test_nothing_stays_after_a_signal(self) -> None:
        """Not even of the workers, which write below the directory of the process that started them."""
        data = self.directory / "data"
        with subprocess.Popen(
            [TZMARK, "bench", "against", TZMARK, "--dir", data, *self.one_path()]
            + ["--workload", "mixed", "--scale", "8MiB", "--budget", "300s"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as run:
            while run.poll() is None and not list(data.glob("*/*/*")):
                time.sleep(0.01)
            run.send_signal(signal.SIGINT)
            self.assertEqual(run.wait(60), -signal.SIGINT)
        self.assertEqual(os.listdir(data), [])

    def test_times_that_are_none(self) -> None:
        words = [*self.one_path(), "--budget", "60s"]
        for old, new in (("10**9", "0"), ("10**9", "-1"), ("2 << 20", "0")):
            told = self.against(self.fake(GOOD.replace(old, new)), *words, status=2)
            self.assertIn("not measured: fake moved", told.stdout)
        twice = GOOD + "; print('{}', flush=True)"
        told = self.against(self.fake(twice), *words, status=2)
        self.assertIn("not measured", told.stdout)

    def test_a_name_without_a_slash_is_that_of_a_file(self) -> None:
        """It must not be searched in PATH."""
        fake = self.fake("sys.exit(1)")
        fake.rename(self.directory / "true")
        done = subprocess.run(
            [TZMARK, "bench", "against", "true", "--dir", "data", *self.one_path()]
            + ["--workload", "mixed", "--scale", "2MiB", "--budget", "60s"],
            cwd=self.directory,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"old: {self.directory}/true", done.stdout)

    def test_a_build_that_is_replaced_meanwhile(self) -> None:
        worker = self.fake()
        text = worker.read_text().replace(
            '"program": "fake"', '"program": str(__import__("time").time())'
        )
        worker.write_text(text)
        refused = self.against(worker, *self.one_path(), "--budget", "5s", status=2)
        self.assertIn("was replaced while it was measured", refused.stderr)

    def test_wrong_usage(self) -> None:
        for option in ("--fio", "--peers", "--format", "--rounds", "--no-ceilings"):
            refused = self.against(TZMARK, option, status=2).stderr
            self.assertIn(f"unknown option '{option}'", refused)
        for effect in ("nan", "0", "1"):
            refused = self.against(TZMARK, "--effect", effect, status=2).stderr
            self.assertIn("--effect", refused)
        self.assertIn("OTHER: the value is empty", self.against("", status=2).stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
