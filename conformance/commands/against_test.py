#!/usr/bin/env python3
"""Tests of tzmark against: two adapters whose differences are known, on the corpus."""

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

import jsonschema

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
CORPUS = BUILD / "share/tzmark/corpus"
CONFORM = BUILD / "libexec/tzmark/tzmark-conform"
MODEL = BUILD / "libexec/tzmark/tzmark-adapter-model"
# As a word of an adapter's command.
ADAPTER = shlex.quote(str(MODEL))
SCHEMA = json.loads((SOURCE / "reports/schema/against.schema.json").read_text())

# The model, but that every first shape is one longer, refusals cite no rule, and files of layout v2 crash it.
ODD = """
import json, os, subprocess, sys
if sys.argv[1] != "capabilities" and open(sys.argv[2], "rb").read()[5:6] == b"\\x02":
    os.abort()
done = subprocess.run([{model!r}, *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
answer = json.loads(done.stdout)
if "tensors" in answer:
    answer["tensors"][0]["shape"].append(1)
if "rejected" in answer:
    answer["rejected"]["rule"] = None
print(json.dumps(answer))
sys.exit(done.returncode)
"""


class Against(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.findings = self.directory / "findings"

    def conform(
        self, *options: str | Path, command: str = "conform"
    ) -> subprocess.CompletedProcess[str]:
        json_file = self.directory / "result.json"
        return subprocess.run(
            [CONFORM, command, "--adapter", ADAPTER, "--json", json_file, *options],
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )

    def against(self, *options: str | Path) -> subprocess.CompletedProcess[str]:
        return self.conform(*options, command="against")

    def result(self) -> dict[str, Any]:
        result = json.loads((self.directory / "result.json").read_text())
        jsonschema.Draft202012Validator(SCHEMA).validate(result)
        return result

    def test_what_the_first_changes_the_second_does_not_see(self) -> None:
        """The first changes the file through a mapping, which changes no time of a file in memory."""
        changing = self.directory / "changing.py"
        changing.write_text(
            "import mmap, subprocess, sys\n"
            f"done = subprocess.run([{str(MODEL)!r}, *sys.argv[1:]])\n"
            "if sys.argv[1] in ('decode', 'verify'):\n"
            "    with open(sys.argv[2], 'r+b') as file, mmap.mmap(file.fileno(), 0) as memory:\n"
            "        memory[-1] ^= 255\n"
            "sys.exit(done.returncode)\n"
        )
        result = subprocess.run(
            [CONFORM, "against", "--one-shot", "--only", "hash-only-*"]
            + ["--with", ADAPTER]
            + ["--adapter", shlex.join([sys.executable, str(changing)])],
            capture_output=True,
            text=True,
            env={**os.environ, "TMPDIR": "/dev/shm"},
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_one_that_leaves_rules_out(self) -> None:
        rules = ("TZR-HSH-005", "TZR-IDX-006")
        other = shlex.join([str(MODEL), *(f"--without={rule}" for rule in rules)])
        only = ("--only", "hash-*", "--only", "index-*", "--only", "malformed-base-*")
        run = self.against("--with", other, "--findings", self.findings, *only)
        self.assertEqual(run.returncode, 1, run.stderr)
        groups = self.result()["groups"]
        self.assertEqual({group["rule"] for group in groups}, set(rules))
        for group in groups:
            for pair in group["pairs"]:
                self.assertEqual(
                    (pair["first"], pair["second"]), ("rejected", "accepted")
                )
            self.assertLess(group["smallest"]["size_bytes"], 300)
            self.assertIn(f"{group['id']}: {len(group['cases'])} files", run.stdout)
        # The findings are a corpus, and the command next to each file repeats it.
        for group in groups:
            file = self.findings / f"{group['id']}.finding.json"
            words = shlex.split(json.loads(file.read_text())["repeat"])
            self.assertEqual(words[:2], ["tzmark", "against"])
            again = self.directory / "again.json"
            repeated = subprocess.run(
                [CONFORM, *words[1:], "--json", again], capture_output=True, check=False
            )
            self.assertEqual(repeated.returncode, 1, repeated.stderr)
            same = json.loads(again.read_text())["groups"]
            self.assertEqual(
                [(each["rule"], each["pairs"]) for each in same],
                [(group["rule"], group["pairs"])],
            )
        # A reader that is right takes them as its corpus.
        run = self.conform("--corpus", self.findings)
        self.assertEqual(run.returncode, 0, run.stdout)

    def test_documents_crashes_and_rules(self) -> None:
        other = shlex.join([sys.executable, "-c", ODD.format(model=str(MODEL))])
        only = ("--only", "malformed-base-v[12]*", "--only", "header-version-0")
        arguments = ("--one-shot", "--with", other, "--minimize-time", "5", *only)
        self.assertEqual(self.against(*arguments).returncode, 1)
        pairs = [group["pairs"] for group in self.result()["groups"]]
        self.assertIn(
            [
                {
                    "command": "decode",
                    "shape": "file",
                    "first": "accepted",
                    "second": "accepted",
                    "sign": "/tensors/shape",
                }
            ],
            pairs,
        )
        crashes = [[pair["second"] for pair in each] for each in pairs]
        self.assertIn(["crash", "crash"], crashes)
        self.assertEqual(len(pairs), 2)
        # What a refusal cites counts only if asked for.
        self.assertEqual(self.against(*arguments, "--compare-rules").returncode, 1)
        signs = {pair["sign"] for g in self.result()["groups"] for pair in g["pairs"]}
        self.assertIn("TZR-HDR-003, no rule", signs)

    def test_mutated_files_in_place_of_the_cases(self) -> None:
        other = shlex.join([str(MODEL), "--without=TZR-HSH-005"])
        mutants = ("--count", "150", "--seed", "3")
        run = self.against("--with", other, *mutants, "--minimize-time", "10")
        self.assertEqual(run.returncode, 1, run.stderr)
        result = self.result()
        self.assertEqual(result["compared"], 150)
        self.assertEqual({group["rule"] for group in result["groups"]}, {"TZR-HSH-005"})
        for group in result["groups"]:
            for case in group["cases"]:
                self.assertTrue(case.startswith("mutant-3-"), case)
        same = self.against("--with", ADAPTER, *mutants)
        self.assertEqual(same.returncode, 0, same.stdout)
        refused = self.against("--with", other, "--mutation", "3")
        self.assertEqual(refused.returncode, 2, refused.stderr)

    def test_no_difference(self) -> None:
        run = self.against("--with", ADAPTER, "--only", "header-*")
        self.assertEqual(run.returncode, 0, run.stderr)
        result = self.result()
        self.assertEqual((result["differing"], result["groups"]), (0, []))
        self.assertGreater(result["compared"], 10)

    def test_input_modes(self) -> None:
        # The second is blind to files on a mount, and so differs there alone.
        blind = self.directory / "blind.py"
        blind.write_text(
            f"""import json, os, subprocess, sys
if sys.argv[1] not in ("capabilities", "serve") and not os.path.isfile(sys.argv[2]):
    print(json.dumps({{"rejected": {{"rule": None, "offset": None, "message": "no file"}}}}))
    sys.exit(1)
done = subprocess.run([{str(MODEL)!r}, *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
answer = json.loads(done.stdout)
if sys.argv[1] == "capabilities":
    answer["commands"].remove("serve")
    answer["reads"]["shapes"] = ["pipe"]
print(json.dumps(answer))
sys.exit(done.returncode)
"""
        )
        other = shlex.join([sys.executable, str(blind)])
        only = ("--only", "dtype-float16", "--one-shot")
        pipes = self.directory / "pipes.json"
        pipes.write_text(
            json.dumps(
                {
                    "protocol": 1,
                    "name": "model",
                    "version": "1",
                    "commands": ["decode", "verify"],
                    "reads": {"layouts": ["v1"], "shapes": ["pipe"]},
                }
            )
        )
        few = ("--with", other, *only, "--profile", pipes, "--minimize-time", "1")
        run = self.against(*few)
        self.assertEqual(run.returncode, 0, run.stdout)
        run = self.against(*few, "--shape", "file,pipe", "--findings", self.findings)
        self.assertEqual(run.returncode, 1, run.stdout)
        result = self.result()
        self.assertEqual(
            {pair["shape"] for g in result["groups"] for pair in g["pairs"]}, {"pipe"}
        )
        self.assertIn("decode (pipe): accepted, rejected", run.stdout)
        self.assertEqual([each["shape"] for each in result["shapes"]], ["file", "pipe"])
        finding = json.loads((self.findings / "against-1.finding.json").read_text())
        self.assertIn("--shape file,pipe --seed 20", finding["repeat"])
        # Where one of the two does not have the mode, nothing is compared, which is no agreement.
        run = self.against("--with", other, *only, "--shape", "pipe")
        self.assertEqual(
            (run.returncode, "no file was compared" in run.stderr), (1, True)
        )

    def test_usage(self) -> None:
        self.assertEqual(self.against("--compare-rules").returncode, 2)
        self.assertEqual(self.against("--with", "/nonexistent").returncode, 3)
        self.findings.mkdir()
        (self.findings / "file").touch()
        run = self.against(
            *("--with", ADAPTER, "--only", "header-version-0"),
            *("--findings", self.findings),
        )
        self.assertEqual(run.returncode, 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
