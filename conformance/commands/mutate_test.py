#!/usr/bin/env python3
"""Tests of tzmark mutate, on mutations of the valid files of the whole corpus."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import jsonschema
from conform_fixture import BUILD, CORPUS, MODEL, SCHEMA, SOURCE, Json, conform


class MutationTest(unittest.TestCase):
    """Mutations of the valid files of the whole corpus."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="tzmark-mutation-test-")
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.lax = shlex.join([str(MODEL), "--without", "TZR-REC-009"])

    def result(self, *options: str | Path) -> tuple[int, Json]:
        done = conform("mutate", *options, "--json", self.directory / "result.json")
        result = json.loads((self.directory / "result.json").read_bytes())
        jsonschema.validate(result, SCHEMA)
        return done.returncode, result["mutation"]

    def test_reference_passes(self) -> None:
        status, mutation = self.result("--count", "300", "--seed", "5")
        self.assertEqual((status, mutation["failures"]), (0, []))
        self.assertEqual((mutation["mutants"], mutation["seed"]), (300, 5))
        self.assertGreater(mutation["all"]["refused"], 100)

    def test_findings_are_small_and_fail_again(self) -> None:
        found = self.directory / "found"
        # Small files of one layout, so that their findings are small, too.
        status, mutation = self.result(
            *("--adapter", self.lax, "--count", "400", "--findings", found),
            *("--only", "record-*", "--only", "shape-*", "--only", "header-*"),
        )
        self.assertEqual(status, 1)
        self.assertEqual({f["rule"] for f in mutation["failures"]}, {"TZR-REC-009"})
        for failure in mutation["failures"]:
            self.assertLess(Path(failure["file"]).stat().st_size, 400)
        manifest = json.loads((found / "manifest.json").read_bytes())
        schema = json.loads((SOURCE / "corpus/manifest.schema.json").read_bytes())
        jsonschema.validate(manifest, schema)
        again = conform("--adapter", self.lax, "--corpus", found)
        self.assertIn(f"0 passed, {len(manifest['cases'])} failed", again.stdout)

    def test_findings_under_a_policy_repeat(self) -> None:
        found = self.directory / "found"
        status, mutation = self.result(
            *("--adapter", self.lax, "--count", "400", "--strict", "--findings", found)
        )
        self.assertEqual(status, 1)
        for failure in mutation["failures"]:
            described = Path(failure["file"]).with_suffix(".finding.json")
            repeat = json.loads(described.read_text())["repeat"]
            environment = os.environ | {"PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}
            run = subprocess.run(
                ["sh", "-c", repeat], capture_output=True, env=environment
            )
            self.assertEqual(run.returncode, 1, repeat)

    def test_policies_apply_to_mutated_files(self) -> None:
        """A reader that accepts gaps fails where they have to be rejected, and there alone."""
        lenient = shlex.join([str(MODEL), "--without", "TZR-IDX-012"])
        options = (
            "mutate",
            "--adapter",
            lenient,
            "--count",
            "3000",
            "--only",
            "index-*",
        )
        self.assertEqual(conform(*options).returncode, 0)
        run = conform(*options, "--policy", "record-gaps=reject", "--stop-at-first")
        self.assertEqual(run.returncode, 1)
        self.assertIn("against the policy record-gaps=reject", run.stdout)
        self.assertIn("--policy record-gaps=reject", run.stdout)
        for name in ("record-gap=reject", "record-gaps"):
            self.assertEqual(conform(*options, "--policy", name).returncode, 2)

    def test_strict_leaves_no_mutated_file_open(self) -> None:
        options = ("--count", "1000", "--seed", "5")
        status, mutation = self.result(*options)
        self.assertEqual(status, 0)
        self.assertGreater(mutation["all"]["open"], 10)
        status, mutation = self.result(*options, "--strict")
        self.assertEqual((status, mutation["all"]["open"]), (0, 0))

    def test_strict_is_what_the_reference_does(self) -> None:
        for corpus in (CORPUS, SOURCE / "reference/safetensors/cases"):
            run = conform("--strict", "--corpus", corpus)
            self.assertEqual(run.returncode, 0, run.stdout)

    def test_input_modes(self) -> None:
        crashing = self.directory / "crashing.py"
        # The model, but that it dies of a file in a pipe, which is none.
        crashing.write_text(
            f"""import json, os, subprocess, sys
if sys.argv[1] == "capabilities":
    print(json.dumps({{"protocol": 1, "name": "n", "version": "1", "commands": ["verify"],
                      "reads": {{"layouts": ["v1"], "shapes": ["pipe"]}}}}))
    sys.exit(0)
if not os.path.isfile(sys.argv[2]):
    os.abort()
sys.exit(subprocess.run([{str(MODEL)!r}, *sys.argv[1:]]).returncode)
"""
        )
        command = shlex.join([sys.executable, str(crashing)])
        few = ("--layout", "v1", "--only", "dtype-*")
        status, mutation = self.result(
            *("--adapter", command, *few, "--count", "8", "--shape", "file,pipe")
        )
        self.assertEqual(status, 1)
        self.assertEqual({f["shape"] for f in mutation["failures"]}, {"pipe"})
        repeat = shlex.split(mutation["failures"][0]["repeat"])
        again = conform(*repeat[1:])
        self.assertEqual(again.returncode, 1, again.stderr)
        self.assertIn("verify (pipe): none; crash", again.stdout)
        self.assertIn("verify: ", again.stdout)
        # No mode that the adapter has.
        run = conform(
            "mutate", "--adapter", command, *few, "--count", "3", "--shape", "offset"
        )
        self.assertEqual(run.returncode, 1)
        self.assertIn("0 right, 0 failed, 3 skipped", run.stdout)

    def test_one_mutation_is_repeated(self) -> None:
        _, mutation = self.result(
            "--adapter", self.lax, "--count", "400", "--stop-at-first"
        )
        repeat = shlex.split(mutation["failures"][0]["repeat"])
        self.assertEqual(repeat[:2], ["tzmark", "mutate"])
        done = conform(*repeat[1:])
        self.assertEqual(done.returncode, 1)
        self.assertIn("breaks TZR-REC-009 at byte", done.stdout)

    def test_wrong_usage(self) -> None:
        for options in (
            ["--findings", "x"],
            ["--count", "0"],
            ["--count", "5", "--mutation", "5"],
            ["--stop-at-first"],
            ["--count", "5", "--junit", "x"],
        ):
            self.assertEqual(conform("mutate", *options).returncode, 2, options)


if __name__ == "__main__":
    unittest.main(verbosity=2)
