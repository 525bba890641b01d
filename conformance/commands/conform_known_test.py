#!/usr/bin/env python3
"""Tests of the list of known failures: --known and --fix-known."""

from __future__ import annotations

import json
import unittest
import xml.etree.ElementTree as ElementTree

from conform_fixture import CorpusTest


class Known(CorpusTest):
    def test_known_failures(self) -> None:
        known = self.directory / "known.json"
        faults = ("valid=wrong-data", "malformed=exception")
        run = self.run_on_corpus("--known", known, behaviours=faults)
        self.assertEqual(run.returncode, 3, "the list is missing")
        run = self.run_on_corpus("--known", known, "--fix-known", behaviours=faults)
        self.assertEqual(run.returncode, 1, "a run with failures fails")
        listed = json.loads(known.read_text())["known"]
        self.assertEqual(
            {entry["case"]: entry["outcome"] for entry in listed},
            {"valid": "wrong-data", "malformed": "crash"},
        )
        listed[0]["reason"] = "issue 7"
        known.write_text(json.dumps({"known": listed}))

        junit, result = self.directory / "junit.xml", self.directory / "result.json"
        run = self.run_on_corpus(
            *("--known", known, "--junit", junit, "--json", result), behaviours=faults
        )
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("4 passed, 2 failed (2 known), 0 skipped", run.stdout)
        root = ElementTree.parse(junit).getroot()
        self.assertEqual((root.get("failures"), root.get("skipped")), ("0", "2"))
        document = json.loads(result.read_text())
        self.assertEqual(document["cases"][0]["known"], "issue 7")
        self.assertEqual(document["summary"]["unknown"], 0)

        for behaviours, problem in (
            (faults[:1], "malformed: is known as crash, and now it is pass"),
            ((faults[0], "malformed=accept"), "now it is accepted-invalid"),
            ((*faults, "invalid=accept"), "accepted-invalid invalid"),
        ):
            run = self.run_on_corpus("--known", known, behaviours=behaviours)
            self.assertEqual(run.returncode, 1)
            self.assertIn(problem, run.stdout)
        # Cases that are left out say nothing, and their entries stay.
        run = self.run_on_corpus("--known", known, "--fix-known", "--only", "invalid")
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertEqual(len(json.loads(known.read_text())["known"]), 2)
        self.manifest["cases"] = self.manifest["cases"][1:]
        self.save()
        run = self.run_on_corpus("--known", known, behaviours=faults)
        self.assertEqual(run.returncode, 1)
        self.assertIn("valid: is not in the corpus any more", run.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
