#!/usr/bin/env python3
"""Tests of conform on safetensors models of several files: what a reader of indexes may not do, and is seen doing."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
CONFORM = BUILD / "libexec/tzmark/tzmark-conform"
MODEL = BUILD / "libexec/tzmark/tzmark-adapter-model"

# Asks the model about another index, or changes what lies next to it; argv[1] says how.
ADAPTER = r"""
import json, os, subprocess, sys, tempfile
from pathlib import Path

how, model, *question = sys.argv[1:]
if question[0] == "capabilities":
    sys.exit(subprocess.run([model, *question]).returncode)
command, file = question
index = Path(file)
if not file.endswith(".safetensors.index.json"):
    sys.exit(subprocess.run([model, *question]).returncode)
if how == "changes":
    for shard in sorted(index.parent.glob("*.safetensors")):
        shard.write_bytes(shard.read_bytes() + b"x")
        break
    sys.exit(subprocess.run([model, *question]).returncode)
if how == "removes":
    answered = subprocess.run([model, *question]).returncode
    for shard in index.parent.glob("*.safetensors"):
        shard.unlink()
    sys.exit(answered)
# It opens what the index names, wherever that is.
with tempfile.TemporaryDirectory() as directory:
    copy = Path(directory) / index.name
    copy.write_bytes(index.read_bytes())
    try:
        content = json.loads(index.read_text())
        for name, shard in content["weight_map"].items():
            found = Path(os.path.normpath(index.parent / shard.split("\0")[0]))
            if found.is_file():
                Path(directory, found.name).write_bytes(found.read_bytes())
                content["weight_map"][name] = found.name
        copy.write_text(json.dumps(content))
    except (ValueError, KeyError, AttributeError, TypeError, OSError):
        pass
    sys.exit(subprocess.run([model, command, str(copy)]).returncode)
"""


class Sharded(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.adapter = self.directory / "adapter.py"
        self.adapter.write_text(ADAPTER)

    def outcomes(
        self, adapter: str, *options: str
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """The outcome of each case, and all that is said of them."""
        result = self.directory / "result.json"
        run = subprocess.run(
            [
                *(CONFORM, "--format", "safetensors", "--layout"),
                *("safetensors-sharded", "--one-shot", "--json", result),
                *("--adapter", adapter),
                *options,
            ],
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.assertIn(run.returncode, (0, 1), run.stderr)
        cases = {case["id"]: case for case in json.loads(result.read_text())["cases"]}
        return {id: case["outcome"] for id, case in cases.items()}, cases

    def one(self, how: str) -> str:
        words = [sys.executable, "-B", str(self.adapter), how, str(MODEL)]
        return shlex.join(words)

    def test_the_model_passes(self) -> None:
        outcomes, _ = self.outcomes(shlex.quote(str(MODEL)))
        self.assertGreater(len(outcomes), 70)
        self.assertEqual(set(outcomes.values()), {"pass"})

    def test_a_reader_that_opens_files_of_other_directories(self) -> None:
        outcomes, _ = self.outcomes(
            self.one("leads out"), "--only", "st-index-file-*", "--only", "st-shards"
        )
        accepted = {id for id, said in outcomes.items() if said == "accepted-invalid"}
        names = ("slash", "parent", "nul", "inside-parent", "dot-slash", "two-slashes")
        self.assertLessEqual({f"st-index-file-{name}" for name in names}, accepted)
        self.assertEqual(outcomes["st-shards"], "pass")

    def test_a_reader_that_changes_a_shard(self) -> None:
        for how in ("changes", "removes"):
            outcomes, cases = self.outcomes(
                self.one(how), "--only", "st-shards", "--only", "st-shards-one"
            )
            self.assertEqual(set(outcomes.values()), {"wrong-data"}, how)
        self.assertIn("changed or removed the file", cases["st-shards"]["reason"])

    def test_other_input_modes_are_not_asked(self) -> None:
        outcomes, cases = self.outcomes(
            shlex.quote(str(MODEL)), "--shape", "short-reads", "--only", "st-shards"
        )
        self.assertEqual(outcomes, {"st-shards": "skipped"})
        self.assertIn("model of several files", cases["st-shards"]["reason"])

    def test_an_exported_corpus_has_the_shards(self) -> None:
        directory = self.directory / "exported"
        command = [CONFORM, "corpus", "export", directory, "--format", "safetensors"]
        subprocess.run(command, check=True, capture_output=True)
        outcomes, _ = self.outcomes(
            shlex.quote(str(MODEL)), "--only", "st-index-file-*", "--only", "st-shards*"
        )
        run = subprocess.run(
            [CONFORM, "--corpus", directory, "--only", "st-index-file-*"]
            + ["--only", "st-shards*", "--adapter", shlex.quote(str(MODEL))],
            capture_output=True,
            text=True,
        )
        self.assertIn(f"{len(outcomes)} passed, 0 failed, 0 skipped", run.stdout)
        (directory / "shards-one/model.safetensors").write_bytes(b"other")
        run = subprocess.run(
            [CONFORM, "corpus", "check", "--corpus", directory],
            capture_output=True,
            text=True,
        )
        self.assertEqual(run.returncode, 1)
        self.assertIn("case st-shards-one: ", run.stdout)


if __name__ == "__main__":
    unittest.main()
