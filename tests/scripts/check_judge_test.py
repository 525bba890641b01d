"""How scripts/check-judge counts and compares verdicts; never how fast anything is."""

import json
import os
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/check-judge"

# Stands for tzmark: the verdicts of its n-th call are those of the n-th file.
TZMARK = """#!/bin/sh
while [ "$1" != --json ]; do shift; done
call=$(cat "$0.call" 2>/dev/null || echo 0)
cp "$0.verdicts.$call" "$2"
echo $((call + 1)) >"$0.call"
exit 1
"""


class Judging(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        self.tzmark = self.directory / "tzmark"
        self.tzmark.write_text(TZMARK)
        self.tzmark.chmod(self.tzmark.stat().st_mode | stat.S_IXUSR)

    def run_script(
        self, *runs: dict[str, str], arguments: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        for number, verdicts in enumerate(runs):
            checks = [
                {"item": "1", "name": name, "verdict": verdict, "note": "no space"}
                for name, verdict in verdicts.items()
            ]
            Path(f"{self.tzmark}.verdicts.{number}").write_text(
                json.dumps({"checks": checks})
            )
        return subprocess.run(
            [SCRIPT, self.directory, "--tzmark", self.tzmark]
            + ["--runs", str(len(runs)), *arguments],
            capture_output=True,
            text=True,
        )

    def test_runs_that_agree_pass(self) -> None:
        verdicts = {f"line {i}": "pass" for i in range(19)} | {"last": "undecided"}
        borderline = verdicts | {"line 0": "pass, borderline", "line 1": "borderline"}
        done = self.run_script(verdicts, borderline)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("run 1: 19 of 20 lines decided, 95.0%", done.stdout)
        self.assertIn("0 lines pass in one run and fail in another", done.stdout)

    def test_a_line_that_passes_and_fails_is_named(self) -> None:
        done = self.run_script(
            {"a": "pass", "b": "fail"}, {"a": "fail", "b": "borderline"}
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 lines pass in one run and fail in another", done.stdout)
        self.assertIn("\n  1 a\n", done.stdout)

    def test_too_few_verdicts_fail(self) -> None:
        verdicts = {f"line {i}": "pass" for i in range(18)} | {"last": "undecided"}
        self.assertEqual(self.run_script(verdicts).returncode, 1)

    def test_what_is_missing_does_not_count(self) -> None:
        done = self.run_script({"a": "pass", "gpu": "not measured"})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("1 of 1 lines decided", done.stdout)

    def test_what_is_missing_in_one_run_fails(self) -> None:
        done = self.run_script({"a": "pass", "b": "pass"}, {"a": "pass"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 b was not measured in every run", done.stdout)

    def test_a_group_that_an_error_ended_is_no_run(self) -> None:
        done = self.run_script({"a": "pass", "all of a group": "not measured"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("no space", done.stderr)

    def test_a_file_that_holds_no_runs_is_an_error(self) -> None:
        kept = self.directory / "runs.json"
        kept.write_text("{")
        for name in (str(kept), ""):
            done = self.run_script({"a": "pass"}, arguments=("--json", name))
            self.assertEqual(done.returncode, 2, done.stderr)

    def test_earlier_runs_count_too(self) -> None:
        kept = ("--json", str(self.directory / "runs.json"))
        self.assertEqual(self.run_script({"a": "pass"}, arguments=kept).returncode, 0)
        Path(f"{self.tzmark}.call").unlink()
        done = self.run_script({"a": "fail"}, arguments=kept)
        self.assertEqual(done.returncode, 1)
        self.assertIn("pass | fail", done.stdout)

    def test_the_other_process_ends_with_the_script(self) -> None:
        before = self.busy_processes()
        done = self.run_script({"a": "pass"}, arguments=("--busy",))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.busy_processes() - before, set())

    def busy_processes(self) -> set[str]:
        numbers = (name for name in os.listdir("/proc") if name.isdigit())
        return {number for number in numbers if self.is_busy_process(number)}

    @staticmethod
    def is_busy_process(number: str) -> bool:
        try:
            command = Path("/proc", number, "cmdline").read_bytes()
        except OSError:
            return False
        return b"--use-a-core-half-of-the-time" in command.split(b"\0")

    def test_a_bench_that_cannot_run_ends_it(self) -> None:
        self.tzmark.write_text("#!/bin/sh\necho no space\nexit 3\n")
        done = self.run_script({})
        self.assertEqual(done.returncode, 1)
        self.assertIn("exit status 3\nno space", done.stderr)


if __name__ == "__main__":
    unittest.main()
