#!/usr/bin/env python3
"""Tests of open choices: --policy and --strict."""

from __future__ import annotations

import json
import subprocess
import unittest
from pathlib import Path

import jsonschema
from conform_fixture import SCHEMA, CorpusTest, Json


class Policies(CorpusTest):
    def name_choices(self) -> None:
        """Adds a case that is left to the reader by each of two named choices."""
        self.add_case("gap", "implementation-defined")
        self.add_case("weak", "implementation-defined")
        self.manifest["open_choices"] = {
            name: {
                "text": "Whether it is read.",
                "rules": ["TZR-HDR-002"],
                "tzmark": tzmark,
                "rejected_by": rejected_by,
            }
            for name, tzmark, rejected_by in (
                ("record-gaps", "reject", "decode"),
                ("crc32-alone", "accept", "verify"),
            )
        }
        for case, name in zip(
            self.manifest["cases"][-2:], self.manifest["open_choices"], strict=True
        ):
            case["choice_name"] = name
        self.save()

    def results(self, run: subprocess.CompletedProcess[str], path: Path) -> Json:
        """The result in JSON of a run that came to its end."""
        self.assertIn(run.returncode, (0, 1), run.stderr)
        result = json.loads(path.read_text())
        jsonschema.validate(result, SCHEMA)
        return result

    def test_a_policy_requires_an_answer(self) -> None:
        self.name_choices()
        path = self.directory / "result.json"
        for answer, wrong in (("accept", "reject"), ("reject", "accept")):
            setting = f"record-gaps={answer}"
            options = ("--policy", setting, "--json", path)
            self.assertEqual(
                self.run_on_corpus(*options, behaviours=(f"gap={answer}",)).returncode,
                0,
            )
            run = self.run_on_corpus(*options, behaviours=(f"gap={wrong}",))
            self.assertEqual(run.returncode, 1)
            self.assertIn(f"against the policy {setting}", run.stdout)
            self.assertIn(f"policies: {setting}\n", run.stdout)
            result = self.results(run, path)
            self.assertEqual(result["options"]["policies"], {"record-gaps": answer})
            self.assertIs(result["options"]["strict"], False)
            cases = {case["id"]: case for case in result["cases"]}
            self.assertEqual(cases["gap"]["choice_name"], "record-gaps")
            self.assertEqual(cases["gap"]["policy"], answer)
            self.assertEqual(cases["gap"]["verdict"], "implementation-defined")
            self.assertIsNone(cases["weak"]["policy"])
            self.assertEqual(cases["weak"]["outcome"], "implementation-defined")

    def test_a_rejection_by_verify_may_decode(self) -> None:
        self.name_choices()
        setting = ("--policy", "crc32-alone=reject")
        right = ("weak:verify=reject",)
        self.assertEqual(self.run_on_corpus(*setting, behaviours=right).returncode, 0)
        run = self.run_on_corpus(*setting)
        self.assertEqual(run.returncode, 1)
        self.assertIn(
            "verify: accepted, against the policy crc32-alone=reject", run.stdout
        )

    def test_strict_requires_what_tzmark_does(self) -> None:
        self.name_choices()
        path = self.directory / "result.json"
        options = ("--strict", "--json", path)
        run = self.run_on_corpus(*options, behaviours=("gap=reject",))
        self.assertEqual(run.returncode, 0, run.stdout)
        result = self.results(run, path)
        self.assertIs(result["options"]["strict"], True)
        self.assertEqual(
            result["options"]["policies"],
            {"record-gaps": "reject", "crc32-alone": "accept"},
        )
        self.assertEqual(self.run_on_corpus(*options).returncode, 1)
        relaxed = ("--policy", "record-gaps=accept")
        self.assertEqual(self.run_on_corpus(*options, *relaxed).returncode, 0)

    def test_wrong_policies(self) -> None:
        self.name_choices()
        for options, message in (
            (["--policy", "record-gap=accept"], "did you mean 'record-gaps'?"),
            (["--policy", "record-gaps"], "not NAME=accept or NAME=reject"),
            (["--policy", "record-gaps=yes"], "not NAME=accept or NAME=reject"),
            (
                ["--policy", "record-gaps=accept", "--policy", "record-gaps=reject"],
                "both accept and reject",
            ),
        ):
            run = self.run_on_corpus(*options)
            self.assertEqual((run.returncode, run.stdout), (2, ""), options)
            self.assertIn(message, run.stderr)
        del self.manifest["open_choices"]
        for case in self.manifest["cases"]:
            case.pop("choice_name", None)
        self.save()
        run = self.run_on_corpus("--strict")
        self.assertEqual(run.returncode, 2)
        self.assertIn("the corpus names no open choices", run.stderr)

    def test_a_choice_that_the_manifest_does_not_describe(self) -> None:
        self.name_choices()
        del self.manifest["open_choices"]["record-gaps"]
        self.save()
        run = self.run_on_corpus()
        self.assertEqual(run.returncode, 3)
        self.assertIn("no open choice 'record-gaps'", run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
