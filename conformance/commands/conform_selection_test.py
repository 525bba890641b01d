#!/usr/bin/env python3
"""Tests of which cases run: --only, --rule, --layout, --quick and --list."""

from __future__ import annotations

import re
import unittest

from conform_fixture import CorpusTest, conform


class Selection(CorpusTest):
    def test_selection(self) -> None:
        self.add_case("later", "valid", layout="v4")
        self.save()
        run = self.run_on_corpus("--only", "in*", "--only", "valid")
        self.assertIn("\n3 passed, 0 failed", run.stdout)
        run = self.run_on_corpus("--layout", "v4")
        self.assertIn("\n1 passed, 0 failed", run.stdout)
        run = self.run_on_corpus("--only", "!in*", "--only", "!*-failure")
        self.assertIn("\n4 passed, 0 failed", run.stdout)
        run = self.run_on_corpus("--only", "*valid", "--only", "!in*")
        self.assertIn("\n1 passed, 0 failed", run.stdout)

    def test_rule_selects(self) -> None:
        self.manifest["cases"][1]["rules"] = ["TZR-IDX-001"]
        self.save()
        run = self.run_on_corpus("--rule", "TZR-IDX-001")
        self.assertIn("\n1 passed", run.stdout)

    def test_what_large_files_and_sampled_input_modes_take_is_said(self) -> None:
        self.add_case("large", "valid")
        self.manifest["cases"][-1]["features"] = ["large-file"]
        self.save()
        run = self.run_on_corpus()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(
            run.stdout,
            "\nlarge files: 1 case, in [0-9.]+ s of all threads; --quick leaves them out\n",
        )
        # A valid one and one of the invalid ones; the large one is asked about as a plain file alone.
        sampled = re.findall(
            "also asked with input mode .*: ([0-9]+) files", run.stdout
        )
        self.assertEqual([int(number) for number in sampled], [2])
        run = self.run_on_corpus("--quick")
        self.assertIn("\n6 passed, 0 failed", run.stdout)
        self.assertNotIn("large files", run.stdout)

    def test_what_the_selection_does_not_know_is_wrong_usage(self) -> None:
        for words, message in (
            (("--only", "vald"), "no case matches 'vald'; did you mean 'valid'?"),
            (
                ("--only", "!integrty-*"),
                "no case matches '!integrty-*'; did you mean 'integrity-*'?",
            ),
            (("--only", "burn"), "no case matches 'burn'"),
            (("--layout", "v6"), "unknown layout 'v6'; did you mean 'v1'?"),
            (
                ("--rule", "TZR-HDR-02"),
                "unknown rule 'TZR-HDR-02'; did you mean 'TZR-HDR-002'?",
            ),
        ):
            for command in (
                ("conform",),
                ("corpus", "list"),
                ("mutate", "--count", "2"),
                ("against", "--with", self.adapter()),
            ):
                run = conform(*command, "--corpus", self.corpus, *words)
                self.assertEqual((run.returncode, run.stdout), (2, ""), words)
                self.assertEqual(run.stderr, f"tzmark-conform: {message}\n")
        run = self.run_on_corpus("--repro", "vald")
        self.assertIn("no case 'vald'; did you mean 'valid'?", run.stderr)

    def test_list(self) -> None:
        run = conform("--corpus", self.corpus, "--list", "--only", "valid")
        self.assertEqual((run.returncode, run.stdout), (0, "valid\tv1\tvalid\t\n"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
