#!/usr/bin/env python3
"""Tests of what a run gives to a repository: TAP, badge, summary, annotations, what was lost, and the workflow."""

from __future__ import annotations

import json
import os
import re
import subprocess
import unittest

from conform_fixture import BUILD, SOURCE, CorpusTest, conform

WORKFLOW = SOURCE / ".github/workflows/conformance.yml"


def commands_of_workflow() -> dict[str, str]:
    """The commands of its steps, by their names."""
    found = re.findall(
        r"(?m)^( +)- name: (.+)\n(?:\1  .*\n)*?\1  run: (.*(?:\n\1   +.*)*)",
        WORKFLOW.read_text(),
    )
    return {name: command.removeprefix("|") for _, name, command in found}


class Repository(CorpusTest):
    def test_every_report_of_one_run(self) -> None:
        files = {name: self.directory / name for name in ("tap", "badge", "summary")}
        options = [word for name in files for word in (f"--{name}", files[name])]
        run = self.run_on_corpus(
            *options, "--annotations", behaviours=("valid=wrong-data",)
        )
        self.assertEqual(run.returncode, 1, run.stderr)
        tap = files["tap"].read_text()
        self.assertIn("TAP version 14\n", tap)
        self.assertIn("\n1..6\n", tap)
        self.assertEqual(len(re.findall(r"(?m)^ok \d+ - ", tap)), 5)
        self.assertRegex(tap, r"(?m)^not ok \d - valid\n  ---\n  outcome: \"wrong-data")
        badge = json.loads(files["badge"].read_text())
        self.assertEqual(
            (badge["message"], badge["color"]), ("5 passed, 1 failed", "red")
        )
        self.assertIn("does not conform", files["summary"].read_text())
        self.assertRegex(
            run.stdout, r"(?m)^::error title=TZR-HDR-002%3A 1 case::valid: "
        )

    def test_a_loss_is_named(self) -> None:
        old, new = self.directory / "old.json", self.directory / "new.json"
        self.run_on_corpus("--json", old)
        self.run_on_corpus("--json", new, behaviours=("invalid=accept",))
        self.assertEqual(conform("--diff", old, old).returncode, 0)
        lost = conform("--diff", old, new)
        self.assertEqual((lost.returncode, lost.stderr), (1, ""))
        self.assertIn("    invalid: pass, now accepted-invalid", lost.stdout)
        self.assertIn("\nrules lost: TZR-HDR-002\n", lost.stdout)
        gained = conform("--diff", new, old)
        self.assertEqual(gained.returncode, 0)
        self.assertIn("\nrules gained: TZR-HDR-002\n", gained.stdout)
        annotated = conform("--diff", old, new, "--annotations")
        self.assertIn("\n::error title=1 cases and 1 rules lost::", annotated.stdout)
        self.assertTrue(annotated.stdout.startswith("::stop-commands::"))
        # What is not asked any more is no success.
        self.run_on_corpus("--json", new, "--only", "valid")
        self.assertEqual(conform("--diff", old, new).returncode, 1)

    def test_a_comparison_of_what_is_no_result(self) -> None:
        result = self.directory / "result.json"
        self.run_on_corpus("--json", result)
        broken = self.directory / "broken.json"
        broken.write_text(result.read_text()[:-100])
        for words, status in (
            ((result,), 2),
            ((result, result, result), 2),
            ((result, ""), 2),
            ((result, result, "--only", "valid"), 2),
            ((result, result, "--json", self.directory / "x"), 2),
            ((result, broken), 3),
            ((broken, result), 3),
            ((result, self.directory / "nothing"), 3),
            ((result, self.corpus / "manifest.json"), 3),
        ):
            run = conform("--diff", *words)
            self.assertEqual((run.returncode, run.stdout), (status, ""), words)
            self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)


class Workflow(CorpusTest):
    def test_expressions_are_no_shell_code(self) -> None:
        commands = commands_of_workflow()
        self.assertEqual(len(commands), 4)
        for name, command in commands.items():
            self.assertNotIn("${{", command, name)
            done = subprocess.run(["bash", "-n"], input=command, text=True)
            self.assertEqual(done.returncode, 0, name)

    def run_step(self, name: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-c", commands_of_workflow()[name]],
            cwd=self.workspace,
            env={**os.environ, **self.environment, **inputs},
            capture_output=True,
            text=True,
        )

    def test_a_repository_of_a_stranger(self) -> None:
        """The steps in an empty directory: a first run, and one after a change that breaks a rule."""
        self.workspace = self.directory / "a stranger's repository"
        self.workspace.mkdir()
        (self.workspace / ".tzmark").mkdir()
        (self.workspace / ".tzmark/build").symlink_to(BUILD)
        temporary = self.directory / "temporary"
        temporary.mkdir()
        summary = self.directory / "summary"
        self.environment = {
            "RUNNER_TEMP": str(temporary),
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_STEP_SUMMARY": str(summary),
        }
        made = self.run_step("Build the adapter", BUILD="echo built > adapter")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual((self.workspace / "adapter").read_text(), "built\n")

        options = f"--corpus {self.corpus} --jobs 2"
        asked = self.run_step("Ask the cases", ADAPTER=self.adapter(), OPTIONS=options)
        self.assertEqual(asked.returncode, 0, asked.stderr + asked.stdout)
        self.assertEqual(
            sorted(os.listdir(temporary / "conformance")),
            [
                *("badge.json", "junit.xml", "report.html", "result.json"),
                *("result.tap", "summary.md"),
            ],
        )
        self.assertIn(": conforms\n", summary.read_text())
        baseline = self.workspace / "conformance baseline.json"
        baseline.write_bytes((temporary / "conformance/result.json").read_bytes())

        broken = self.adapter("--case", "invalid=accept")
        asked = self.run_step("Ask the cases", ADAPTER=broken, OPTIONS=options)
        self.assertEqual(asked.returncode, 1, asked.stderr)
        self.assertIn("\n::error title=TZR-HDR-002%3A 1 case::invalid: ", asked.stdout)
        self.assertIn(": does not conform\n", summary.read_text())
        badge = json.loads((temporary / "conformance/badge.json").read_text())
        self.assertEqual(badge["message"], "5 passed, 1 failed")
        compared = self.run_step(
            "Compare with the result of before", BASELINE=baseline.name
        )
        self.assertEqual(compared.returncode, 1)
        self.assertIn("rules lost: TZR-HDR-002\n", compared.stdout)


if __name__ == "__main__":
    unittest.main()
