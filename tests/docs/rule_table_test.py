#!/usr/bin/env python3
"""Tests that docs/rules.md is up to date, and that each of its columns follows what it is made from."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from collections import Counter
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

SOURCE = Path(os.environ.get("TZMARK_SOURCE_DIR", Path(__file__).resolve().parents[2]))
SCRIPT = SOURCE / "scripts/rule-table"
loader = SourceFileLoader("rule_table", str(SCRIPT))
rule_table = module_from_spec(spec_from_loader("rule_table", loader))
loader.exec_module(rule_table)

RULES = {
    "TZR-TRM-001": {"level": "MUST", "binds": "both", "open_choices": ["terminator"]},
    "TZR-IDX-001": {"level": "MUST", "binds": "both", "open_choices": []},
    "TZR-IDX-016": {
        "level": "MUST",
        "binds": "writer",
        "open_choices": ["entry-order"],
    },
    "TZR-CRY-018": {"level": "SHOULD", "binds": "reader", "open_choices": ["a", "b"]},
}


def case(verdict: str, *rules: str) -> dict[str, Any]:
    return {"verdict": verdict, "rules": list(rules)}


MANIFEST = {
    "cases": [
        case("valid", "TZR-IDX-001"),
        case("malformed", "TZR-IDX-001"),
        case("integrity-failure", "TZR-IDX-001"),
        case("implementation-defined", "TZR-TRM-001"),
    ],
    "encode_cases": [case("valid", "TZR-IDX-001", "TZR-IDX-016")],
}


class RuleTableTest(unittest.TestCase):
    def test_the_committed_table_is_up_to_date(self) -> None:
        run = subprocess.run([SCRIPT, "--check"], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_a_table_that_differs_is_refused(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as planted:
            json.dump({"TZR-IDX-001": {"planted": 1}}, planted)
            planted.flush()
            run = subprocess.run(
                [SCRIPT, "--check", "--planted", planted.name],
                capture_output=True,
                text=True,
            )
        self.assertEqual(
            (run.returncode, run.stderr),
            (1, "docs/rules.md is out of date: run scripts/rule-table\n"),
        )

    def test_rows(self) -> None:
        bugs = Counter({"TZR-IDX-001": 3, "TZR-CRY-018": 1})
        self.assertEqual(
            rule_table.rule_table(MANIFEST, RULES, bugs).splitlines()[2:],
            [
                "| TZR-TRM-001 | open: `terminator` | MUST | 0 | 0 | 1 | 0 | 0 |",
                "| TZR-IDX-001 | MUST | MUST | 1 | 2 | 0 | 1 | 3 |",
                "| TZR-IDX-016 | open: `entry-order` | MUST | 0 | 0 | 0 | 1 | 0 |",
                "| TZR-CRY-018 | SHOULD; open: `a`, `b` | - | 0 | 0 | 0 | 0 | 1 |",
            ],
        )

    def test_bugs_of_files_count_if_they_are_caught(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            first, second = (
                Path(directory) / "first.json",
                Path(directory) / "second.json",
            )
            first.write_text('{"R-1": {"planted": 7, "not_caught": {"x": "why"}}}')
            second.write_text('{"R-1": {"planted": 2}, "R-2": {"planted": 1}}')
            self.assertEqual(
                rule_table.bugs_of_files([first, second]), Counter({"R-1": 8, "R-2": 1})
            )

    def test_bugs_of_unknown_rules_are_refused(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            planted = Path(directory) / "planted.json"
            planted.write_text('{"TZR-IDX-999": {"planted": 1}}')
            with self.assertRaises(SystemExit):
                rule_table.document({**MANIFEST}, [planted])

    def test_wrong_adapters_count_for_each_rule_that_they_name(self) -> None:
        bugs = rule_table.bugs_of_adapters(RULES)
        self.assertEqual(bugs["TZR-IDX-016"], self.named("TZR-IDX-016"))
        # The model without the rule is one more.
        self.assertEqual(bugs["TZR-IDX-001"], self.named("TZR-IDX-001") + 1)
        # A reader without this rule passes, because the rule is left open.
        self.assertEqual(bugs["TZR-TRM-001"], self.named("TZR-TRM-001"))

    def named(self, rule: str) -> int:
        from wrong_adapter import WRONG_ADAPTERS

        return sum(rule in wrong.rules for wrong in WRONG_ADAPTERS.values())


if __name__ == "__main__":
    unittest.main()
