#!/usr/bin/env python3
"""Tests of what tzmark conform says about cases: exit status, last line, failures as text, and limits."""

from __future__ import annotations

import unittest

from conform_fixture import CorpusTest, adapter, conform


class Outcomes(CorpusTest):
    def test_all_passed(self) -> None:
        run = self.run_on_corpus()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.splitlines()[-1], "6 passed, 0 failed, 0 skipped")
        self.assertEqual(run.stderr, "", "progress is for terminals only")

    def test_one_failed(self) -> None:
        run = self.run_on_corpus(behaviours=("invalid=accept",))
        self.assertEqual(run.returncode, 1)
        self.assertIn(
            "accepted-invalid invalid (TZR-HDR-002)\n"
            "    why: Why <invalid> & co.\n"
            "    decode, verify: accepted, but is invalid\n",
            run.stdout,
        )
        self.assertEqual(run.stdout.splitlines()[-1], "5 passed, 1 failed, 0 skipped")

    def test_every_failed_command_is_told_with_its_limit(self) -> None:
        run = self.run_on_corpus(
            *("--timeout", "0.5", "--memory", "100MiB"),
            behaviours=("invalid:decode=accept", "invalid=hang", "malformed=spike"),
        )
        self.assertRegex(
            run.stdout,
            r"\nhang invalid \(TZR-HDR-002\)\n"
            r"    why: Why <invalid> & co\.\n"
            r"    decode: accepted, but is invalid\n"
            r"    verify: still running after [\d.]+ s, limit [\d.]+ s\n",
        )
        self.assertRegex(
            run.stdout,
            r"\nmemory malformed .*\n"
            r"    why: .*\n"
            r"    decode: used [\d.]+ MiB of memory, limit 1\d\d\.\d MiB\n",
        )

    def test_cases_refused_for_another_rule_are_named(self) -> None:
        cases = ("invalid", "malformed", "authentication-failure:decode")
        run = self.run_on_corpus(
            behaviours=(
                *(f"{name}=reject-for-another-rule" for name in cases),
                "authentication-failure=accept",
            )
        )
        self.assertRegex(
            run.stdout,
            r"\nrefused as they should be, but for another rule: 2\n"
            r"    \S+ instead of TZR-HDR-002: malformed invalid\n",
        )
        self.assertIn("\n5 passed, 1 failed, 0 skipped\n", run.stdout)

    def test_a_crash_shows_its_last_words(self) -> None:
        run = self.run_on_corpus(behaviours=("invalid=exception",))
        self.assertEqual(run.returncode, 1)
        self.assertIn("stderr: ValueError: cannot unpack invalid", run.stdout)

    def test_no_case_ran(self) -> None:
        # Both are known, and no case is both.
        run = self.run_on_corpus("--only", "valid", "--layout", "v4")
        self.assertEqual((run.returncode, "no case ran" in run.stderr), (1, True))
        run = self.run_on_corpus(behaviours=("*=unsupported",))
        self.assertEqual((run.returncode, "no case ran" in run.stderr), (1, True))

    def test_wrong_usage(self) -> None:
        for options in (
            ["--nonsense"],
            ["positional"],
            ["--jobs", "0"],
            ["--timeout", "-1"],
            ["--timeout", "nan"],
            ["--timeout", "1e300"],
            ["--memory", "many"],
            ["--corpus", str(self.corpus), "--adapter", "a | b"],
            ["--corpus", str(self.corpus), "--adapter", "   "],
        ):
            self.assertEqual(conform(*options).returncode, 2, options)

    def test_environment_failed(self) -> None:
        (self.corpus / "valid.bin").write_text("changed")
        run = self.run_on_corpus()
        self.assertEqual((run.returncode, "the manifest says" in run.stderr), (3, True))
        run = conform("--corpus", self.directory / "none")
        self.assertEqual((run.returncode, "no corpus" in run.stderr), (3, True))
        run = conform("--corpus", self.corpus, "--adapter", "/nonexistent/adapter")
        self.assertEqual((run.returncode, "No such file" in run.stderr), (3, True))
        run = conform(
            *("--corpus", self.corpus, "--adapter", adapter()),
            env={"TMPDIR": "/nowhere"},
        )
        self.assertEqual(run.returncode, 3)
        self.assertIn("no temporary file in /nowhere, which TMPDIR names", run.stderr)

    def test_limits(self) -> None:
        run = self.run_on_corpus(
            "--timeout", "0.5", "--jobs", "2", behaviours=("invalid=hang",)
        )
        self.assertIn("hang invalid", run.stdout)
        run = self.run_on_corpus(behaviours=("invalid=spike",))
        self.assertIn("memory invalid", run.stdout)
        run = self.run_on_corpus("--memory", "1GiB", behaviours=("invalid=spike",))
        self.assertEqual(run.returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
