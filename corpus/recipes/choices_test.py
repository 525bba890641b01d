#!/usr/bin/env python3
"""Tests that cases, named choices and the marks in FORMAT.md cannot disagree unnoticed, in any direction."""

from __future__ import annotations

import copy
import json
import unittest

import choices
from make import CORPUS, FORMAT, format_rules, stale_table
from rules import rules_of


def an_open_case(manifest: choices.Json, name: str) -> choices.Json:
    return next(case for case in manifest["cases"] if case.get("choice_name") == name)


class ChoicesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.manifest = json.loads((CORPUS / "manifest.json").read_text())
        self.rules = copy.deepcopy(format_rules())

    def problems(self) -> list[str]:
        return list(choices.uneven_choices(self.manifest, self.rules))

    def test_what_is_committed_agrees(self) -> None:
        self.assertEqual(self.problems(), [])
        self.assertEqual(list(stale_table(self.manifest)), [])

    def test_every_open_case_needs_a_named_choice(self) -> None:
        case = an_open_case(self.manifest, "terminator")
        del case["choice_name"]
        self.assertIn(
            f"{case['id']}: open, but None is not a choice of the manifest",
            self.problems(),
        )

    def test_no_case_is_open_whose_rule_binds(self) -> None:
        case = an_open_case(self.manifest, "terminator")
        case["rules"] = ["TZR-IDX-003", *case["rules"]]
        self.assertIn(
            f"{case['id']}: open by terminator, but terminator is not a choice of TZR-IDX-003, which binds readers",
            self.problems(),
        )

    def test_every_choice_has_a_case(self) -> None:
        self.manifest["cases"] = [
            case
            for case in self.manifest["cases"]
            if case.get("choice_name") != "minus-zero"
        ]
        self.assertEqual(self.problems(), ["minus-zero: no case shows this choice"])

    def test_every_choice_is_marked_below_its_rules(self) -> None:
        self.rules["TZR-TRM-002"]["open_choices"] = []
        self.assertEqual(
            self.problems(),
            ["terminator: FORMAT.md does not name it below TZR-TRM-002"],
        )

    def test_no_mark_without_a_choice(self) -> None:
        for name in ("terminator", "anything-goes"):
            rule = self.rules["TZR-IDX-001"]
            rule["open_choices"] = [name]
            self.assertEqual(
                self.problems(),
                [
                    f"TZR-IDX-001: FORMAT.md names {name} below it, which is not one of its choices"
                ],
            )

    def test_tier_follows_the_verdict(self) -> None:
        case = next(c for c in self.manifest["cases"] if c["verdict"] == "valid")
        case["tier"] = "SHOULD"
        self.assertEqual(
            self.problems(),
            [f"{case['id']}: tier SHOULD is for open cases, and for no others"],
        )

    def test_the_text_of_a_case_is_that_of_its_choice(self) -> None:
        case = an_open_case(self.manifest, "record-gaps")
        case["open_choice"] = "Whether."
        self.assertEqual(
            self.problems(),
            [f"{case['id']}: its open_choice is not the text of record-gaps"],
        )

    def test_the_table_follows_the_manifest(self) -> None:
        case = an_open_case(self.manifest, "record-gaps")
        self.manifest["cases"].remove(case)
        self.assertEqual(len(list(stale_table(self.manifest))), 1)

    def test_a_table_row(self) -> None:
        row = next(
            line
            for line in choices.choice_table(self.manifest).splitlines()
            if line.startswith("| `opaque-byte-order` |")
        )
        self.assertEqual(
            row,
            "| `opaque-byte-order` | Whether an opaque type of more than one byte may begin with \\|V. "
            "| TZR-DTY-001 | reject | 2 |",
        )

    def test_a_document_without_marks_is_refused(self) -> None:
        with self.assertRaises(SystemExit):
            choices.with_table("# A document\n", "| table |\n")

    def test_marks_are_read_across_lines(self) -> None:
        text = (
            "- **TZR-IDX-001** (MUST, both): The index lies inside the file.\n"
            "  Some words. Open to\n"
            "  readers: `a-b`,\n"
            "  `c-1`.\n"
        )
        self.assertEqual(
            rules_of(text, "")["TZR-IDX-001"]["open_choices"], ["a-b", "c-1"]
        )

    def test_a_mark_that_is_not_read_is_refused(self) -> None:
        text = (
            "- **TZR-IDX-001** (MUST, both): The index lies inside the file.\n"
            "  Open to readers: `a-b` and `c-1`.\n"
        )
        with self.assertRaises(SystemExit):
            rules_of(text, "")


if __name__ == "__main__":
    unittest.main()
