#!/usr/bin/env python3
"""Tests of conform on safetensors models of several files: what a reader of indexes may not do, and is seen doing."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
CONFORM = BUILD / "libexec/tzmark/tzmark-conform"
MODEL = BUILD / "libexec/tzmark/tzmark-adapter-model"
CASES = BUILD / "share/tzmark/safetensors"
INDEX = "model.safetensors.index.json"
SCHEMA = json.loads((SOURCE / "reports/schema/file-verdict.schema.json").read_text())

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
# It opens what the index names, wherever that is, and takes one of two files of a tensor.
keep = (lambda pairs: dict(reversed(pairs))) if how == "first wins" else dict
with tempfile.TemporaryDirectory() as directory:
    copy = Path(directory) / index.name
    copy.write_bytes(index.read_bytes())
    try:
        content = json.loads(index.read_text(), object_pairs_hook=keep)
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


# Answers as the model does to the first two questions, and rejects everything after them.
SERVING = r"""
import json, subprocess, sys

model = sys.argv[1]
if sys.argv[2] == "capabilities":
    sys.exit(subprocess.run([model, "capabilities"]).returncode)
server = subprocess.Popen(
    [model, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
asked = 0
for line in sys.stdin:
    server.stdin.write(line)
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    asked += "capabilities" not in answer
    if asked > 2:
        reason = {"rule": None, "offset": None, "message": "enough"}
        answer = {"id": answer["id"], "rejected": reason}
    print(json.dumps(answer), flush=True)
"""


class ShardedTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.adapter = self.directory / "adapter.py"
        self.adapter.write_text(ADAPTER)

    def outcomes(
        self, adapter: str, *options: str, environment: dict[str, str] = {}
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
            env=os.environ | environment,
        )
        self.assertIn(run.returncode, (0, 1), run.stderr)
        cases = {case["id"]: case for case in json.loads(result.read_text())["cases"]}
        return {id: case["outcome"] for id, case in cases.items()}, cases

    def one(self, how: str) -> str:
        words = [sys.executable, "-B", str(self.adapter), how, str(MODEL)]
        return shlex.join(words)

    def conform(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [CONFORM, *words], capture_output=True, text=True, timeout=120
        )


class Sharded(ShardedTest):
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
        names += ("full-path",)
        self.assertLessEqual({f"st-index-file-{name}" for name in names}, accepted)
        self.assertEqual(outcomes["st-shards"], "pass")

    def test_an_absolute_path_is_one_of_the_temporary_directory(self) -> None:
        directory = self.directory / 'a "b" \\c\u00e9'
        directory.mkdir()
        outcomes, _ = self.outcomes(
            *(self.one("leads out"), "--only", "st-index-file-full-path"),
            environment={"TMPDIR": str(directory)},
        )
        self.assertEqual(outcomes, {"st-index-file-full-path": "accepted-invalid"})

    def test_a_reader_that_takes_one_of_two_files_of_a_tensor(self) -> None:
        for how, caught in (("first wins", "twice"), ("last wins", "twice-last")):
            outcomes, _ = self.outcomes(
                self.one(how), "--only", "st-index-tensor-*", "--only", "st-shards"
            )
            accepted = {id for id, said in outcomes.items() if said != "pass"}
            wanted = {f"st-index-tensor-{id}" for id in (caught, "twice-escaped")}
            self.assertEqual(accepted, wanted, how)

    def test_a_reader_that_changes_a_shard(self) -> None:
        for how in ("changes", "removes"):
            outcomes, cases = self.outcomes(
                self.one(how), "--only", "st-shards", "--only", "st-shards-one"
            )
            self.assertEqual(set(outcomes.values()), {"wrong-data"}, how)
        self.assertIn("changed or removed the file", cases["st-shards"]["reason"])

    def test_the_command_that_repeats_a_case(self) -> None:
        adapter = self.one("leads out")
        case = "st-index-file-slash"
        _, cases = self.outcomes(adapter, "--only", case)
        run = self.conform(
            *("--format", "safetensors", "--one-shot", "--adapter", adapter),
            *("--repro", case),
        )
        self.assertEqual(run.stdout, cases[case]["repro"] + "\n")
        words = shlex.split(run.stdout)
        self.assertEqual(words[:2], ["tzmark", "conform"])
        run = self.conform(*words[2:])
        self.assertIn(f"accepted-invalid {case}", run.stdout)

    def test_a_sequence_with_shards_is_repeated_by_no_line(self) -> None:
        (self.directory / "serving.py").write_text(SERVING)
        adapter = shlex.join(
            [sys.executable, "-B", str(self.directory / "serving.py"), str(MODEL)]
        )
        result = self.directory / "result.json"
        run = self.conform(
            *("--format", "safetensors", "--only", "st-shards", "--jobs", "1"),
            *("--only", "st-shards-one", "--adapter", adapter, "--json", result),
        )
        self.assertEqual(run.returncode, 1, run.stderr)
        failed = [
            case
            for case in json.loads(result.read_text())["cases"]
            if case["outcome"] == "rejected-valid"
        ]
        self.assertEqual(len(failed), 1)
        only_after = [step["only_after"] for step in failed[0]["steps"]]
        told = [said for said in only_after if said is not None]
        self.assertTrue(told and told[0]["questions"], failed)
        self.assertEqual({said["repeat"] for said in told}, {None})
        self.assertTrue(failed[0]["repro"].startswith("tzmark conform "))

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

    def test_the_model_opens_no_shard_that_is_no_file(self) -> None:
        shard = self.directory / "x.safetensors"
        index = self.directory / INDEX
        index.write_text(json.dumps({"weight_map": {"a": shard.name}}))
        for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path), os.mkdir):
            make(shard)
            run = subprocess.run(
                [MODEL, "decode", index], capture_output=True, text=True, timeout=60
            )
            self.assertEqual((run.returncode, run.stdout), (3, ""))
            self.assertIn("x.safetensors is not a regular file", run.stderr)
            shard.rmdir() if shard.is_dir() else shard.unlink()


class AnIndexOfTheUser(ShardedTest):
    """conform --file on an index, with the shards next to it."""

    def setUp(self) -> None:
        super().setUp()
        self.model = self.directory / "model"
        shutil.copytree(CASES / "shards", self.model)
        self.index = self.model / INDEX
        self.shard = self.model / "model-00002-of-00002.safetensors"

    def judge(
        self,
        adapter: str = "reference",
        file: Path | str | None = None,
        options: Sequence[str | Path] = (),
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        """The run, and its JSON result."""
        result = self.directory / "result.json"
        result.unlink(missing_ok=True)
        run = self.conform(
            *("--one-shot", "--file", file or self.index, "--json", result),
            *options,
            *(() if adapter == "reference" else ("--adapter", adapter)),
        )
        if not result.exists():
            return run, {}
        document = json.loads(result.read_text())
        jsonschema.validate(document, SCHEMA)
        return run, document

    def test_a_valid_model(self) -> None:
        for adapter in ("reference", shlex.quote(str(MODEL))):
            run, result = self.judge(adapter)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            self.assertIn(
                "bytes and 2 shards, layout safetensors-sharded: valid\n", run.stdout
            )
            self.assertEqual(
                [step["outcome"] for step in result["steps"]], ["pass"] * 2
            )
        expected = json.loads((CASES / "shards.json").read_text())
        self.assertEqual(result["expected"], expected)

    def test_a_name_that_is_relative_and_in_upper_case(self) -> None:
        self.index.rename(self.model / INDEX.upper())
        run = subprocess.run(
            [CONFORM, "--file", INDEX.upper(), "--adapter", shlex.quote(str(MODEL))],
            cwd=self.model,
            capture_output=True,
            text=True,
        )
        self.assertIn("layout safetensors-sharded: valid\n", run.stdout)

    def test_a_broken_shard_is_named(self) -> None:
        self.shard.write_bytes(self.shard.read_bytes()[:-1])
        run, result = self.judge()
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn(f"\nST-015 at byte 154: {self.shard.name}: ", run.stdout)
        self.assertEqual((result["verdict"], result["outcome"]), ("invalid", "pass"))

    def test_a_reader_that_differs(self) -> None:
        content = json.loads(self.index.read_text())
        del content["weight_map"]["a"]
        self.index.write_text(json.dumps(content))
        run, _ = self.judge(f"{shlex.quote(str(MODEL))} --without ST-017")
        self.assertEqual(run.returncode, 1)
        self.assertIn("accepted-invalid: accepted, but is invalid", run.stdout)

    def test_a_reader_that_changes_a_shard(self) -> None:
        for how in ("changes", "removes"):
            self.shard.write_bytes((CASES / "shards" / self.shard.name).read_bytes())
            # What it may not write, it cannot change.
            run, result = self.judge(self.one(how))
            is_kept = "no Landlock" not in run.stdout
            self.assertEqual(result["outcome"], "crash" if is_kept else "wrong-data")
            shutil.copytree(CASES / "shards", self.model, dirs_exist_ok=True)
            run, result = self.judge(
                self.one(how), options=("--allow-writes", self.model)
            )
            self.assertEqual(
                (run.returncode, result["outcome"]), (1, "wrong-data"), how
            )
            shutil.copytree(CASES / "shards", self.model, dirs_exist_ok=True)

    def test_what_the_shards_need_is_a_feature(self) -> None:
        header = b'{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'
        (self.model / "b.safetensors").write_bytes(
            len(header).to_bytes(8, "little") + header + b"xy"
        )
        self.index.write_text('{"weight_map": {"a": "b.safetensors"}}')
        _, result = self.judge()
        self.assertEqual(result["features"], ["opaque-dtype"])
        self.assertEqual(result["verdict"], "valid")

    def test_what_only_the_library_takes_is_left_open(self) -> None:
        shutil.copy(CASES / "space-before.safetensors", self.model / "x.safetensors")
        self.index.write_text('{"weight_map": {"a": "x.safetensors"}}')
        run, result = self.judge()
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertEqual(result["choice_names"], ["beyond-description"])

    def test_shards_that_are_no_files_next_to_it(self) -> None:
        content = self.shard.read_bytes()
        (self.directory / "elsewhere").write_bytes(content)
        for make, problem in (
            (lambda path: None, "is missing"),
            (os.mkfifo, "is not a file"),
            (lambda path: os.symlink("/dev/zero", path), "is not a file"),
            (lambda path: os.symlink("../elsewhere", path), "is not a file"),
        ):
            self.shard.unlink(missing_ok=True)
            make(self.shard)
            run, _ = self.judge()
            self.assertEqual((run.returncode, run.stdout), (3, ""))
            self.assertIn(f"{self.shard}: {problem}: ", run.stderr)
        link = self.directory / INDEX
        link.symlink_to(self.index)
        run, _ = self.judge(file=link)
        self.assertEqual((run.returncode, run.stdout), (3, ""))
        self.assertIn("is a link", run.stderr)

    def test_commands_for_one_file_refuse_an_index(self) -> None:
        for words in (("minimize", self.index), ("annotate", self.index)):
            run = self.conform(*words)
            self.assertEqual((run.returncode, run.stdout), (2, ""), words)
            self.assertIn("name one of its shards", run.stderr)


if __name__ == "__main__":
    unittest.main()
