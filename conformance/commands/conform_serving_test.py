#!/usr/bin/env python3
"""Tests of how an adapter is asked: serve, its profile, and the command that repeats a case."""

from __future__ import annotations

import json
import subprocess
import unittest

import jsonschema
from conform_fixture import SCHEMA, CorpusTest, conform


class Serving(CorpusTest):
    def test_one_shot_and_serve(self) -> None:
        profile = {
            "protocol": 1,
            "name": "n",
            "version": "1",
            "commands": ["decode", "verify", "serve"],
            "reads": {"layouts": ["v1"]},
        }
        options = (
            *("--corpus", self.corpus),
            *("--adapter", self.adapter("--profile", json.dumps(profile))),
            *("--json", self.directory / "result.json"),
        )
        for served, more in ((True, ()), (False, ("--one-shot",))):
            run = conform(*options, *more)
            self.assertEqual(run.returncode, 0, run.stdout)
            result = json.loads((self.directory / "result.json").read_text())
            self.assertEqual(result["serve"], served)
            end = result["cases"][0]["steps"][0]["process"]["end"]
            self.assertEqual(end, "answered" if served else "exited")

    def test_a_failure_that_only_an_aged_process_shows(self) -> None:
        profile = {
            "protocol": 1,
            "name": "n",
            "version": "1",
            "commands": ["decode", "verify", "serve"],
            "reads": {"layouts": ["v1"]},
        }
        self.add_case("last", "valid")
        for case in self.manifest["cases"]:
            case["sequence"] = "in-this-order"
        self.save()
        result, junit, page = (self.directory / name for name in ("r", "j", "h"))
        behaviours = ("malformed=remember", "last=wrong-after-one")
        run = conform(
            *("--corpus", self.corpus, "--jobs", "1"),
            *("--json", result, "--junit", junit, "--html", page, "--adapter"),
            self.adapter(
                *("--profile", json.dumps(profile)),
                *(word for each in behaviours for word in ("--case", each)),
            ),
        )
        self.assertEqual(run.returncode, 1)
        self.assertIn("\n6 passed, 1 failed, 0 skipped\n", run.stdout)
        text = "only after earlier questions; a fresh process passes, and fails after verify malformed"
        for report in (run.stdout, junit.read_text(), page.read_text()):
            self.assertIn(text, report)
        document = json.loads(result.read_text())
        jsonschema.validate(document, SCHEMA)
        case = document["cases"][-1]
        step = case["steps"][0]
        self.assertEqual((step["outcome"], step["fails_afresh"]), ("wrong-data", False))
        earlier = {"case": "malformed", "command": "verify", "shape": "file"}
        self.assertEqual(step["only_after"]["questions"], [earlier])
        self.assertTrue(step["only_after"]["shortest"])
        self.assertEqual(step["only_after"]["asked"], 12)
        # The command line of the case is the one that shows the failure.
        self.assertEqual(case["repro"], step["only_after"]["repeat"])
        again = subprocess.run(
            ["sh", "-c", case["repro"]], capture_output=True, text=True
        )
        answers = [json.loads(line) for line in again.stdout.splitlines()]
        self.assertEqual([answer["id"] for answer in answers], [0, 1, 2])
        self.assertEqual(answers[2]["decoded"]["tensors"][0]["shape"], [4, 4])

    def test_profile_takes_the_place_of_the_printed_one(self) -> None:
        profile = {
            "protocol": 1,
            "name": "narrow",
            "version": "1",
            "commands": ["decode"],
            "reads": {"layouts": ["v1"]},
        }
        file = self.directory / "profile.json"
        file.write_text(json.dumps(profile))
        run = self.run_on_corpus("--profile", file)
        self.assertIn("narrow 1:", run.stdout)
        self.assertIn("its profile has no verify", run.stdout)
        file.write_text("{}")
        self.assertEqual(self.run_on_corpus("--profile", file).returncode, 3)

    def test_stale_exclusions_are_told(self) -> None:
        profile = {
            "protocol": 1,
            "name": "n",
            "version": "1",
            "commands": ["decode", "verify"],
            "reads": {"layouts": ["v1"], "lacks": ["telepathy"]},
        }
        run = conform(
            "--corpus",
            self.corpus,
            "--adapter",
            self.adapter("--profile", json.dumps(profile)),
        )
        self.assertEqual(run.returncode, 0)
        self.assertIn("lacks 'telepathy'", run.stderr)

    def test_repro_runs_in_a_shell(self) -> None:
        self.add_case("it's keyed", "valid")
        self.manifest["cases"][-1]["key_hex"] = "00ff"
        self.save()
        for case, command in (
            ("valid", "decode"),
            ("integrity-failure", "verify"),
            ("it's keyed", "decode"),
        ):
            run = self.run_on_corpus("--repro", case)
            self.assertEqual(run.returncode, 0, run.stderr)
            line = run.stdout.strip()
            self.assertIn(f" {command} ", line)
            repeated = subprocess.run(
                ["bash", "-c", line], capture_output=True, text=True, check=False
            )
            rejected = case == "integrity-failure"
            self.assertEqual(repeated.returncode, int(rejected), repeated.stderr)
        self.assertEqual(self.run_on_corpus("--repro", "nothing").returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
