#!/usr/bin/env python3
"""Tests of input modes: --shape, and --max-skipped for modes that cannot be had."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import unittest
from pathlib import Path

import jsonschema
from conform_fixture import CONFORM, HAS_READ_ONLY, SCHEMA, CorpusTest, conform


class InputModes(CorpusTest):
    def moved_program(self) -> Path:
        """The program in a place of its own, without what it needs for input modes."""
        (self.directory / "libexec/tzmark").mkdir(parents=True)
        program = self.directory / "libexec/tzmark/tzmark-conform"
        shutil.copy(CONFORM, program)
        return program

    def test_unknown_input_modes(self) -> None:
        for shapes in ("fifo", "", "file, pipe"):
            run = self.run_on_corpus("--shape", shapes)
            self.assertEqual(run.returncode, 2, shapes)
        self.assertIn("there is no input mode ' pipe'", run.stderr)

    @unittest.skipUnless(HAS_READ_ONLY, "no read-only mount can be had here")
    def test_reports_name_the_input_mode_of_a_failure(self) -> None:
        file, junit, page = (self.directory / name for name in ("j", "x", "h"))
        run = self.run_on_corpus(
            *("--shape", "read-only,short-reads,file,pipe"),
            *("--json", file, "--junit", junit, "--html", page),
            behaviours=("valid=open-for-writing",),
        )
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn(
            "decode (read-only), verify (read-only): exit status 1", run.stdout
        )
        self.assertIn(
            "\ninput mode read-only: 5 passed, 1 failed, 0 skipped", run.stdout
        )
        self.assertIn("\ninput mode pipe: 0 passed, 0 failed, 6 skipped", run.stdout)
        result = json.loads(file.read_text())
        validator = jsonschema.Draft202012Validator(SCHEMA)
        self.assertEqual([error.message for error in validator.iter_errors(result)], [])
        self.assertEqual(
            [each["shape"] for each in result["shapes"]],
            ["file", "pipe", "short-reads", "read-only"],
        )
        outcomes = {
            (step["shape"], step["command"]): step["outcome"]
            for step in result["cases"][0]["steps"]
        }
        self.assertEqual(outcomes.pop(("read-only", "decode")), "crash")
        self.assertEqual(outcomes.pop(("read-only", "verify")), "crash")
        self.assertEqual(set(outcomes.values()), {"pass"})
        self.assertIn("tzmark-read-only", result["cases"][0]["repro"])
        for report in (junit, page):
            self.assertIn("decode (read-only)", report.read_text(), report.name)

    def test_an_input_mode_that_no_profile_has_is_no_pass(self) -> None:
        run = self.run_on_corpus("--shape", "offset")
        self.assertEqual((run.returncode, "no case ran" in run.stderr), (1, True))
        self.assertIn("its profile does not have the input mode offset", run.stdout)

    def test_reads_that_were_not_shortened_are_no_pass(self) -> None:
        blind = self.directory / "adapter.sh"
        blind.write_text(
            """case $1 in
capabilities)
  echo '{"protocol": 1, "name": "n", "version": "1", "commands": ["verify"], "reads": {"layouts": ["v1"]}}' ;;
*) echo '{"verified": true}' ;;
esac
"""
        )
        # Without its library, a program is to the suite what a static program is.
        for program, command, reason in (
            (
                CONFORM,
                f"sh {shlex.quote(str(blind))}",
                "no read of the file came by the library",
            ),
            (self.moved_program(), self.adapter(), "that shortens them was not loaded"),
        ):
            run = subprocess.run(
                [program, "--corpus", self.corpus, "--adapter", command]
                + ["--only", "valid", "--shape", "short-reads"],
                capture_output=True,
                text=True,
            )
            self.assertEqual(run.returncode, 1, run.stdout)
            self.assertIn(reason, run.stdout)
            self.assertIn("0 passed, 0 failed, 1 skipped", run.stdout)

    def static_adapter(self, status: int = 0) -> str:
        """A program, linked as Go links, that verifies all files; or with another status, crashes on all."""
        source = self.directory / "static.c"
        source.write_text(
            """#include <stdio.h>
            #include <string.h>
            int main(int argc, char** argv) {
              if (argc > 1 && strcmp(argv[1], "capabilities") == 0)
                return puts("{\\"protocol\\": 1, \\"name\\": \\"static\\", \\"version\\": \\"1\\","
                            "\\"commands\\": [\\"verify\\"], \\"reads\\": {\\"layouts\\": [\\"v1\\"]}}") < 0;
              puts("{\\"verified\\": true}");
              return STATUS;
            }""".replace(
                "STATUS", str(status)
            )
        )
        program = self.directory / "static"
        subprocess.run(["cc", "-static", "-o", program, source], check=True)
        return shlex.quote(str(program))

    def test_an_input_mode_that_cannot_be_had_skips_itself(self) -> None:
        result = self.directory / "result.json"
        options = ("--corpus", self.corpus, "--only", "valid", "--json", result)
        command = self.static_adapter()
        both = ("--shape", "file,short-reads")
        run = conform(*options, "--adapter", command, *both)
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("\n1 passed, 0 failed, 0 skipped\n", run.stdout)
        self.assertIn(
            "\ninput mode short-reads: 0 passed, 0 failed, 1 skipped\n"
            "    1: no short reads here: the library that shortens them was not loaded, as in static programs, "
            "Go among them\n",
            run.stdout,
        )
        document = json.loads(result.read_text())
        jsonschema.validate(document, SCHEMA)
        self.assertEqual(
            [step["outcome"] for step in document["cases"][0]["steps"]],
            ["pass", "skipped"],
        )
        # A failure is one in any mode.
        run = conform(*options, "--adapter", self.static_adapter(7), *both)
        self.assertIn("\n0 passed, 1 failed, 0 skipped\n", run.stdout)
        # Without another mode, nothing was tested.
        command = self.static_adapter()
        run = conform(*options, "--adapter", command, "--shape", "short-reads")
        self.assertEqual((run.returncode, "no case ran" in run.stderr), (1, True))

    def test_max_skipped(self) -> None:
        options = ("--corpus", self.corpus, "--only", "valid")
        half = (*options, "--adapter", self.static_adapter())
        modes = ("--shape", "file,short-reads")
        for words, status in (
            ((*half, "--max-skipped", "0"), 0),
            ((*half, *modes, "--max-skipped", "1"), 0),
            ((*half, *modes, "--max-skipped", "0"), 1),
        ):
            run = conform(*words)
            self.assertEqual(run.returncode, status, words)
        self.assertEqual(
            run.stderr,
            "tzmark-conform: 1 cases were skipped, whole or in an input mode; --max-skipped allows 0\n",
        )
        skipped = ("invalid=unsupported", "malformed=unsupported")
        run = self.run_on_corpus("--max-skipped", "1", behaviours=skipped)
        self.assertIn("2 cases were skipped", run.stderr)
        self.assertEqual(run.returncode, 1)
        run = self.run_on_corpus("--max-skipped", "2", behaviours=skipped)
        self.assertEqual(run.returncode, 0)
        self.assertEqual(self.run_on_corpus("--max-skipped", "-1").returncode, 2)
        # Its profile lacks a mode.
        modes = ("--shape", "file,offset")
        self.assertEqual(self.run_on_corpus(*modes).returncode, 0)
        self.assertEqual(self.run_on_corpus(*modes, "--max-skipped", "0").returncode, 1)

    def test_a_machine_without_read_only_mounts(self) -> None:
        program = self.moved_program()
        helper = self.directory / "libexec/tzmark/tzmark-read-only"
        helper.write_text("#!/bin/sh\necho 'no mount namespace' >&2\nexit 125\n")
        helper.chmod(0o755)
        run = subprocess.run(
            [program, "--corpus", self.corpus, "--adapter", self.adapter()]
            + ["--shape", "file,read-only"],
            capture_output=True,
            text=True,
        )
        self.assertEqual((run.returncode, run.stdout), (4, ""))
        self.assertIn("the input mode read-only: no mount namespace", run.stderr)

    def test_repro_uses_the_input_mode(self) -> None:
        shapes = ["short-reads"] + (["read-only"] if HAS_READ_ONLY else [])
        lines = [
            self.run_on_corpus("--repro", "valid", "--shape", shape).stdout
            for shape in shapes
        ]
        for shape in ("pipe", "offset"):
            line = conform("--repro", "dtype-float16", "--shape", shape).stdout
            self.assertIn({"pipe": "mkfifo", "offset": " --offset "}[shape], line)
            lines.append(line)
        for line in lines:
            run = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("tensors", json.loads(run.stdout))


if __name__ == "__main__":
    unittest.main(verbosity=2)
