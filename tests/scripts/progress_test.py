"""What scripts/progress.py prints of a build and of a test run, and that scripts end as their commands do."""

import io
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

from progress import Progress  # noqa: E402


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def printed(lines: list[str], out: io.StringIO) -> str:
    """What becomes of the lines, one a second."""
    progress = Progress("build", out, 0)
    for second, line in enumerate(lines):
        progress.follow(line, second)
    return out.getvalue()


class ProgressTest(unittest.TestCase):
    def test_build_prints_each_tenth(self) -> None:
        lines = [f"[{done}/200] Building CXX object a.o" for done in range(1, 201)]
        shown = printed(lines, io.StringIO()).splitlines()
        self.assertEqual(len(shown), 10)
        self.assertEqual(shown[0], "build 10 % after 19 s")
        self.assertEqual(shown[-1], "build 100 % after 199 s")

    def test_build_failure_is_named_at_once(self) -> None:
        shown = printed(["[1/2] Building a", "FAILED: a.o ", "g++ a.cc"], io.StringIO())
        self.assertIn("build: failed to build a.o\n", shown)

    def test_tests_are_named_as_they_end(self) -> None:
        shown = printed(
            [
                "      Start  1: tidy.layers",
                "  1/61 Test #39: tidy.layers ......   Passed    4.27 sec",
                " 2/61 Test  #3: io_test ..........***Failed   12.00 sec",
                " 3/61 Test  #4: peers.a ..........***Skipped   0.10 sec",
            ],
            io.StringIO(),
        ).splitlines()
        self.assertEqual(
            shown,
            [
                "  1/61 passed     4.3 s  tidy.layers",
                "  2/61 failed    12.0 s  io_test",
                "  3/61 skipped    0.1 s  peers.a",
            ],
        )

    def test_what_a_failed_test_printed_follows_it(self) -> None:
        shown = printed(
            [
                "  1/61 Test #3: io_test ..........***Exception: SegFault 12.00 sec",
                "[ RUN      ] Url.A",
                "[       OK ] Url.A (0 ms)",
                "[ RUN      ] Url.B",
                "url_test.cc:1: Failure",
                "[  FAILED  ] Url.B (0 ms)",
                "      Start  4: cli_test",
                " 2/61 Test  #4: cli_test .........   Passed    1.00 sec",
                "of no test",
            ],
            io.StringIO(),
        ).splitlines()
        self.assertEqual(
            shown[1:-1],
            [
                "    [ RUN      ] Url.B",
                "    url_test.cc:1: Failure",
                "    [  FAILED  ] Url.B (0 ms)",
            ],
        )

    def test_terminal_keeps_what_failed_only(self) -> None:
        shown = printed(
            [
                "      Start  1: tidy.layers",
                "      Start  2: io_test",
                "  1/61 Test #39: tidy.layers ......   Passed    4.27 sec",
                "  2/61 Test  #3: io_test ..........***Failed   12.00 sec",
            ],
            Terminal(),
        )
        self.assertIn("1/61 tests ended, now running io_test", shown)
        self.assertEqual(shown.count("\n"), 1)
        self.assertIn("failed    12.0 s  io_test\n", shown)

    def test_follows_a_log_to_its_end(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            log = Path(scratch, "log")
            log.write_bytes(b"not \xff UTF-8\n[1/0] no steps\n")
            follower = subprocess.Popen(
                [sys.executable, str(SCRIPTS / "progress.py"), "build", str(log)],
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            with log.open("a") as more:
                more.write("FAILED: a.o \n[1/1] Building")
                more.write(" b.o\n")
            _, shown = follower.communicate(timeout=30)
            self.assertEqual(follower.returncode, 0, shown)
            self.assertEqual(
                shown.decode(), "build: failed to build a.o\nbuild 100 % after 0 s\n"
            )


class StepTest(unittest.TestCase):
    """Step of scripts/lib.sh, over a copy, as it writes to the checkout that it is in."""

    def run_step(
        self, command: str, before: str = ""
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as scratch:
            scripts = Path(scratch, "scripts")
            scripts.mkdir()
            for name in ("lib.sh", "progress.py", "ctest_summary.py"):
                (scripts / name).write_text((SCRIPTS / name).read_text())
            return subprocess.run(
                ["bash", "-c", f". scripts/lib.sh; {before}step sample {command}"],
                cwd=scratch,
                capture_output=True,
                text=True,
            )

    def test_says_how_long_it_took(self) -> None:
        done = self.run_step("echo '[1/1] Building'")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"sample 100 % after 0 s\nsample +\d+ s\n")
        self.assertEqual(done.stdout, "")

    def test_does_not_wait_for_what_stays_behind(self) -> None:
        started_s = time.monotonic()
        done = self.run_step("bash -c 'sleep 20 & echo started'")
        self.assertEqual(done.returncode, 0)
        self.assertLess(time.monotonic() - started_s, 15)

    def test_works_before_python_is_installed(self) -> None:
        done = self.run_step("false", "python=/no/python; ")
        self.assertEqual(done.returncode, 1)
        self.assertIn("sample failed with status 1", done.stderr)
        done = self.run_step("echo fine", "python=/no/python; ")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"\Asample +\d+ s\n\Z")

    def test_log_that_cannot_be_written_is_a_failure(self) -> None:
        done = self.run_step("true", "mkdir -p build/logs/sample.log; ")
        self.assertEqual(done.returncode, 1)
        self.assertIn("sample failed", done.stderr)

    def test_failure_shows_the_end_of_the_log(self) -> None:
        done = self.run_step("bash -c 'echo why it failed; exit 7'")
        self.assertEqual(done.returncode, 1)
        self.assertIn("why it failed", done.stderr)
        self.assertIn("sample failed with status 7", done.stderr)


if __name__ == "__main__":
    unittest.main()
