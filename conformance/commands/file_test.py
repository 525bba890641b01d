#!/usr/bin/env python3
"""Tests of tzmark conform --file: verdict, broken rules with their bytes, open choices and the adapter's answers."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import jsonschema

Json = dict[str, Any]

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
CORPUS = BUILD / "share/tzmark/corpus"
CONFORM = BUILD / "libexec/tzmark/tzmark-conform"
MODEL = BUILD / "libexec/tzmark/tzmark-adapter-model"
SCHEMA = json.loads((SOURCE / "reports/schema/file-verdict.schema.json").read_text())
RUN_SCHEMA = json.loads((SOURCE / "reports/schema/conformance.schema.json").read_text())
MANIFEST = json.loads((CORPUS / "manifest.json").read_text())
CASES: dict[str, Json] = {case["id"]: case for case in MANIFEST["cases"]}


class FileTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="tzmark-file-test-")
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.json_file = self.directory / "result.json"

    def conform(self, *options: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [CONFORM, *options], capture_output=True, text=True, timeout=120
        )

    def judge(
        self, case_id: str, *options: str | Path
    ) -> tuple[subprocess.CompletedProcess[str], Json]:
        """The run on the file of a case, and its JSON result."""
        file = CORPUS / CASES[case_id]["path"]
        self.json_file.unlink(missing_ok=True)
        run = self.conform("--file", file, "--json", self.json_file, *options)
        self.assertNotEqual(self.json_file.exists(), run.returncode > 1, run.stderr)
        if run.returncode > 1:
            return run, {}
        result = json.loads(self.json_file.read_text())
        jsonschema.validate(result, SCHEMA)
        for step in result["steps"]:
            jsonschema.validate(
                step, {"$ref": "#/$defs/step", "$defs": RUN_SCHEMA["$defs"]}
            )
        self.assertEqual(result["file"]["sha256"], CASES[case_id]["sha256"])
        return run, result

    def test_a_valid_file(self) -> None:
        run, result = self.judge("dtype-float16")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("layout v1: valid\n", run.stdout)
        self.assertIn("it breaks no rule", run.stdout)
        self.assertIn("    decode: accepted\n    verify: accepted\n", run.stdout)
        self.assertTrue(run.stdout.endswith("agrees with the verdict\n"))
        self.assertEqual((result["defects"], result["open_choices"]), ([], []))
        self.assertEqual(result["outcome"], "pass")
        expected = json.loads((CORPUS / CASES["dtype-float16"]["expected"]).read_text())
        self.assertEqual(result["expected"], expected)

    def test_a_broken_rule_is_shown_with_its_bytes(self) -> None:
        run, result = self.judge("index-kind-255")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("decode and verify must reject it", run.stdout)
        self.assertIn("\nTZR-IDX-004 at byte 76: ", run.stdout)
        self.assertIn("FORMAT.md: MUST (both): The kind is 0, 1 or 2.", run.stdout)
        self.assertIn("  > byte 76: index entry 0: kind, ff = 255\n", run.stdout)
        self.assertIn("decode: rejected for TZR-IDX-004 at byte 76", run.stdout)
        (defect,) = result["defects"]
        self.assertEqual((defect["kind"], defect["offset"]), ("structure", 76))
        (marked,) = [row for row in defect["bytes"] if row["marked"]]
        self.assertEqual((marked["offset"], marked["hex"]), (76, "ff"))

    def test_every_broken_rule_is_named(self) -> None:
        file = self.directory / "text.tensors"
        file.write_text("This is no file of the format. " * 8)
        run = self.conform("--file", file)
        self.assertEqual(run.returncode, 0, run.stderr)
        for rule in ("TZR-HDR-002", "TZR-HDR-003", "TZR-IDX-001"):
            self.assertIn(f"\n{rule} at byte ", run.stdout)

    def test_an_adapter_that_differs(self) -> None:
        lax = shlex.join([str(MODEL), "--without", "TZR-IDX-004"])
        run, result = self.judge("index-kind-255", "--adapter", lax)
        self.assertEqual(run.returncode, 1)
        self.assertIn("accepted-invalid: accepted, but is invalid", run.stdout)
        self.assertTrue(run.stdout.endswith("differs from the verdict\n"))
        self.assertEqual(result["outcome"], "accepted-invalid")
        self.assertEqual(
            [step["outcome"] for step in result["steps"]], ["accepted-invalid"] * 2
        )

    def test_an_open_choice(self) -> None:
        opens = [
            case["id"]
            for case in CASES.values()
            if case.get("open_choice")
            and case["layout"] != "safetensors"
            and not {"key_hex", "passphrase"} & case.keys()
        ]
        seen = 0
        for case_id in opens[:: max(1, len(opens) // 10)]:
            run, result = self.judge(case_id)
            self.assertEqual(run.returncode, 0, run.stdout)
            if not result["open_choices"]:
                continue
            self.assertEqual(result["verdict"], "implementation-defined", case_id)
            [name], [choice] = result["choice_names"], result["open_choices"]
            self.assertIn(f"open choice {name}: {choice}\n", run.stdout)
            self.assertIn(result["choice"], ("accepted", "rejected"))
            self.assertNotIn("a reader rejects the file", run.stdout)
            seen += 1
        # For a few, the manifest knows more than the model.
        self.assertGreater(seen, 4)

    def test_the_cost_of_keys_is_open_between_the_limits_of_tzmark_and_of_all(
        self,
    ) -> None:
        case = CASES["passphrase-minimum"]
        passphrase = self.directory / "passphrase"
        passphrase.write_text(case["passphrase"])
        right = (CORPUS / case["path"]).read_bytes()
        # method, then these two
        at = right.index(struct.pack("<HQQ", 1, 1, 8192)) + 2
        self.assertEqual(right.find(struct.pack("<QQ", 1, 8192), at + 1), -1)

        def verdict(opslimit: int, memlimit: int) -> tuple[str, list[str]]:
            file = self.directory / "cost.tensors"
            limits = struct.pack("<QQ", opslimit, memlimit)
            file.write_bytes(right[:at] + limits + right[at + 16 :])
            self.json_file.unlink(missing_ok=True)
            options = ("--passphrase-file", passphrase, "--json", self.json_file)
            run = self.conform("--file", file, *options)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            result = json.loads(self.json_file.read_text())
            jsonschema.validate(result, SCHEMA)
            self.assertIsNone(result["expected"])
            return result["verdict"], result["choice_names"]

        refused = ("authentication-failure", [])
        left_open = ("implementation-defined", ["derivation-cost"])
        # The key is another one, so a file that tzmark opens has a wrong MAC.
        self.assertEqual(verdict(2, 8192), refused)
        self.assertEqual(verdict(5, 8192), refused)
        result = json.loads(self.json_file.read_text())
        rules = [defect["rule"] for defect in result["defects"]]
        self.assertEqual(rules[:2], ["TZR-CRY-015", "TZR-CRY-016"])
        # The model does not derive these, so nothing is known of the MAC.
        self.assertEqual(verdict(1, (1 << 30) + 1), left_open)
        self.assertEqual(verdict(1, (8 << 30) - 1), left_open)
        self.assertEqual(verdict((1 << 32) - 2, 8192), left_open)
        self.assertEqual(verdict(1, 8 << 30), refused)
        self.assertEqual(verdict((1 << 32) - 1, 8192), refused)

    def test_a_policy(self) -> None:
        case = "terminator-1-bytes"
        run, result = self.judge(case, "--policy", "terminator=reject")
        self.assertEqual((run.returncode, result["policy"]), (0, "reject"))
        self.assertIn("by the policy terminator=reject\n", run.stdout)
        run, result = self.judge(case, "--policy", "terminator=accept")
        self.assertEqual((run.returncode, result["policy"]), (1, "accept"))
        self.assertEqual(result["outcome"], "rejected-valid")
        run, _ = self.judge(case, "--policy", "terminatr=accept")
        self.assertEqual(run.returncode, 2)
        self.assertIn("did you mean 'terminator'?", run.stderr)
        run, result = self.judge(case, "--strict")
        self.assertEqual((run.returncode, result["policy"]), (0, "reject"))

    def test_keys(self) -> None:
        keyed = next(
            case
            for case in CASES.values()
            if case["verdict"] == "valid" and "key_hex" in case
        )
        key = self.directory / "key"
        key.write_text(keyed["key_hex"] + "\n")
        link = self.directory / "link"
        link.symlink_to(key)
        run, result = self.judge(keyed["id"], "--key-file", link)
        self.assertEqual((run.returncode, result["verdict"]), (0, "valid"), run.stdout)
        self.assertIn("encryption", result["features"])
        self.assertNotIn(keyed["key_hex"], run.stdout + self.json_file.read_text())
        run, result = self.judge(keyed["id"])
        self.assertEqual(result["verdict"], "authentication-failure")
        self.assertEqual(run.returncode, 0, run.stdout)
        # Not even if the adapter prints it.
        program = self.directory / "echo.py"
        program.write_text(
            f"""import subprocess, sys
if "--key-file" in sys.argv:
    key = open(sys.argv[sys.argv.index("--key-file") + 1], "rb").read()
    print(key.hex() if len(key) == 32 else key.decode(), file=sys.stderr)
sys.exit(subprocess.run([{str(MODEL)!r}, *sys.argv[1:]]).returncode or sys.argv[1] == "decode")
"""
        )
        echo = shlex.join([sys.executable, str(program)])
        run, result = self.judge(
            keyed["id"], *("--key-file", key, "--adapter", echo, "--one-shot")
        )
        self.assertEqual(run.returncode, 1)
        self.assertIn("(secret)", self.json_file.read_text())
        self.assertEqual(result["verdict"], "valid")
        self.assertNotIn(keyed["key_hex"], run.stdout + self.json_file.read_text())
        key.write_text("not a key")
        self.assertEqual(self.judge(keyed["id"], "--key-file", key)[0].returncode, 2)
        phrased = next(
            case
            for case in CASES.values()
            if case["verdict"] == "valid" and "passphrase" in case
        )
        phrase = self.directory / "phrase"
        phrase.write_text(phrased["passphrase"] + "\n")
        run, result = self.judge(phrased["id"], "--passphrase-file", phrase)
        self.assertEqual((run.returncode, result["verdict"]), (0, "valid"), run.stdout)

    def test_a_passphrase_that_is_not_utf8(self) -> None:
        phrase = self.directory / "phrase"
        phrase.write_bytes("Öffne dich".encode("latin-1"))
        run, _ = self.judge("passphrase-minimum", "--passphrase-file", phrase)
        self.assertEqual(run.returncode, 2, run.stdout)
        self.assertIn("phrase: the passphrase is not UTF-8", run.stderr)

    def test_a_file_whose_name_is_not_utf8(self) -> None:
        file = self.directory / os.fsdecode(b"\xfcber.tensors")
        shutil.copy(CORPUS / CASES["dtype-float16"]["path"], file)
        # Where one process answers everything, names come as JSON.
        run = self.conform("--file", file)
        self.assertEqual(run.returncode, 2, run.stdout)
        self.assertIn("\\xfcber.tensors: the name is not UTF-8", run.stderr)
        self.assertIn("use --one-shot", run.stderr)
        run = self.conform("--file", file, "--one-shot", "--json", self.json_file)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        result = json.loads(self.json_file.read_text())
        self.assertTrue(result["file"]["path"].endswith("/\ufffdber.tensors"))

    def test_input_modes(self) -> None:
        run, result = self.judge("dtype-float16", "--shape", "file,short-reads,offset")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("verify (short-reads): accepted\n", run.stdout)
        self.assertEqual(result["shapes"], ["file", "short-reads", "offset"])
        self.assertEqual(len(result["steps"]), 6)

    def test_short_reads_of_other_files_beside_it_do_not_count(self) -> None:
        file = self.directory / "model.tensors"
        shutil.copy(CORPUS / CASES["dtype-float16"]["path"], file)
        program = self.directory / "adapter.py"
        program.write_text(
            """import json, mmap, os, sys
script = os.open(__file__, os.O_RDONLY)
text = os.read(script, 1 << 20)
assert len(text) == os.path.getsize(__file__), "short read of the program itself"
if sys.argv[1] == "capabilities":
    print(json.dumps({"protocol": 1, "name": "n", "version": "1", "commands": ["verify"],
                      "reads": {"layouts": ["v1"]}}))
else:
    tensors = os.open(sys.argv[2], os.O_RDONLY)
    if MAPPED:
        mmap.mmap(tensors, 0, prot=mmap.PROT_READ)[0]
    else:
        assert len(os.read(tensors, 1 << 20)) < os.path.getsize(sys.argv[2]), "not short"
    print('{"verified": true}')
"""
        )
        words = (sys.executable, str(program))
        for mapped, status in ((True, 1), (False, 0)):
            text = program.read_text()
            program.write_text(text.replace("MAPPED", str(mapped)))
            run = self.conform(
                *("--file", file, "--shape", "short-reads"),
                *("--adapter", shlex.join(words)),
            )
            program.write_text(text)
            self.assertEqual(run.returncode, status, run.stdout + run.stderr)
            why = "skipped: verify (short-reads): no short reads here: no read of the file"
            self.assertEqual(why in run.stdout, mapped, run.stdout)

    def test_what_is_not_judged_is_no_agreement(self) -> None:
        profile = self.directory / "profile.json"
        profile.write_text(
            json.dumps(
                {
                    "protocol": 1,
                    "name": "n",
                    "version": "1",
                    "commands": ["decode", "verify"],
                    "reads": {"layouts": ["v3"]},
                }
            )
        )
        run, result = self.judge("dtype-float16", "--profile", profile)
        self.assertEqual(run.returncode, 1)
        self.assertIn("not judged: its profile does not read v1", run.stderr)
        self.assertIn("not asked: its profile does not read v1", run.stdout)
        self.assertEqual((result["outcome"], result["steps"]), ("skipped", []))

    def test_a_file_that_the_adapter_changes(self) -> None:
        file = self.directory / "model.tensors"
        shutil.copy(CORPUS / CASES["dtype-float16"]["path"], file)
        program = self.directory / "adapter.py"
        program.write_text(
            f"""import subprocess, sys
if sys.argv[1] == "decode":
    open(sys.argv[2], "ab").write(b"x")
sys.exit(subprocess.run([{str(MODEL)!r}, *sys.argv[1:]]).returncode)
"""
        )
        adapter = shlex.join([sys.executable, str(program)])
        # Otherwise it cannot change a file of the user.
        options = ("--adapter", adapter, "--one-shot", "--allow-writes", file)
        run = self.conform("--file", file, *options)
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertIn("changed or removed the file", run.stdout)
        # Before it is asked: the verdict would be one on another file.
        file.write_bytes((CORPUS / CASES["name-letters"]["path"]).read_bytes())
        program.write_text(program.read_text().replace("decode", "capabilities"))
        program.write_text(program.read_text().replace("sys.argv[2]", repr(str(file))))
        run = self.conform("--file", file, *options)
        self.assertEqual((run.returncode, run.stdout), (3, ""), run.stderr)
        self.assertIn(file.name, run.stderr)

    def test_no_input_is_overwritten(self) -> None:
        file = self.directory / "own.tensors"
        key = self.directory / "key"
        shutil.copy(CORPUS / CASES["name-letters"]["path"], file)
        key.write_bytes(bytes(32))
        link = self.directory / "link"
        link.symlink_to(file)
        for target in (
            file,
            link,
            key,
            self.directory / "../" / self.directory.name / "key",
        ):
            before = target.read_bytes()
            run = self.conform("--file", file, "--key-file", key, "--json", target)
            self.assertEqual((run.returncode, target.read_bytes()), (2, before))
            self.assertIn("would overwrite", run.stderr)

    def test_a_key_derivation_has_the_memory_that_it_needs(self) -> None:
        passphrase = self.directory / "passphrase"
        passphrase.write_text("open sesame")
        locked = self.directory / "locked.tensors"
        plain = CORPUS / CASES["name-letters"]["path"]
        subprocess.run(
            [BUILD / "bin/tzmark", "convert", plain, locked]
            + ["--encrypt-passphrase-file", passphrase],
            check=True,
            capture_output=True,
        )
        run = self.conform("--file", locked, "--passphrase-file", passphrase)
        self.assertEqual(run.returncode, 0, run.stdout)

    def test_a_passphrase_that_is_a_word_of_the_report(self) -> None:
        program = self.directory / "loud.py"
        program.write_text(
            f"""import subprocess, sys
print("the secret, null, pass", file=sys.stderr)
sys.exit(subprocess.run([{str(MODEL)!r}, *sys.argv[1:]]).returncode or sys.argv[1] == "decode")
"""
        )
        loud = shlex.join([sys.executable, str(program)])
        phrase = self.directory / "phrase"
        for word in ("secret", "null", "pass"):
            phrase.write_text(word)
            options = ("--passphrase-file", phrase, "--adapter", loud, "--one-shot")
            run, result = self.judge("name-letters", *options)
            # The file is not encrypted, and the adapter refuses the passphrase as it should.
            self.assertEqual(run.returncode, 0, run.stderr)
            said = result["steps"][0]["stderr_tail"]
            self.assertIn("(secret)", said)
            self.assertNotIn(word, said.replace("(secret)", ""))

    def test_links_and_what_is_no_file(self) -> None:
        link = self.directory / "link.tensors"
        link.symlink_to(CORPUS / CASES["dtype-float16"]["path"])
        self.assertEqual(self.conform("--file", link).returncode, 0)
        for name in ("none.tensors", "."):
            run = self.conform("--file", self.directory / name)
            self.assertEqual((run.returncode, run.stdout), (3, ""), name)
        run = self.conform(
            "--file", link, "--json", self.directory / "none/result.json"
        )
        self.assertEqual((run.returncode, run.stdout), (3, ""))
        run = self.conform("--file", link, "--adapter", "/nonexistent")
        self.assertEqual((run.returncode, run.stdout), (3, ""))

    def test_wrong_usage(self) -> None:
        for words in (
            ("--key-file", "x"),
            ("--passphrase-file", "x"),
            ("--file", "x", "--only", "y"),
            ("--file", "x", "--rule", "y"),
            ("--file", "x", "--html", "y"),
            ("--file", "x", "--list"),
            ("--file", "x", "--key-file", "y", "--passphrase-file", "z"),
            ("--file", ""),
            ("mutate", "--count", "3", "--file", "x"),
        ):
            run = self.conform(*words)
            self.assertEqual((run.returncode, run.stdout), (2, ""), words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
