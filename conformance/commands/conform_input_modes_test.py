#!/usr/bin/env python3
"""Tests of input modes: --shape, --max-skipped for modes that cannot be had, and URLs of the suite's own server."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

import jsonschema
from conform_fixture import (
    BUILD,
    CONFORM,
    HAS_READ_ONLY,
    SCHEMA,
    SOURCE,
    CorpusTest,
    conform,
)

REFERENCE = BUILD / "libexec/tzmark/tzmark-adapter-reference"
# Its pauses would take minutes.
SHORT_PAUSES = {"TZMARK_HTTP_PAUSE_MS": "1"}

# Runs a command where all network interfaces are down.
OWN_NETWORK = ("unshare", "--map-root-user", "--net")
HAS_OWN_NETWORK = (
    shutil.which(OWN_NETWORK[0]) is not None
    and subprocess.run([*OWN_NETWORK, "true"], capture_output=True).returncode == 0
)


def reference_modes() -> list[str]:
    """The input modes besides files that the reference has: no URLs without libcurl."""
    run = subprocess.run([REFERENCE, "capabilities"], capture_output=True, check=True)
    return json.loads(run.stdout)["reads"]["shapes"]


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


class Urls(CorpusTest):
    """The fake adapter asks for a URL once, and takes what comes."""

    def profile(self, *commands: str) -> str:
        reads = {"layouts": ["v1"], "shapes": ["http", "http-faults"]}
        return json.dumps(
            {"protocol": 1, "name": "n", "version": "1"}
            | {"commands": list(commands), "reads": reads}
        )

    def run_on_urls(
        self, *options: str | Path, rules: tuple[str, ...] = (), **settings: str
    ) -> subprocess.CompletedProcess[str]:
        words = [word for rule in rules for word in ("--case", rule)]
        adapter = self.adapter("--profile", self.profile("decode"), *words)
        return conform(
            *("--corpus", self.corpus, "--adapter", adapter, *options), env=settings
        )

    def test_who_does_not_read_urls_is_not_asked(self) -> None:
        run = self.run_on_corpus("--shape", "file,http,http-faults")
        self.assertEqual(run.returncode, 0, run.stdout)
        for mode in ("http", "http-faults"):
            self.assertIn(
                f"\ninput mode {mode}: 0 passed, 0 failed, 6 skipped", run.stdout
            )
        run = self.run_on_corpus("--shape", "http")
        self.assertEqual((run.returncode, "no case ran" in run.stderr), (1, True))
        self.assertIn("its profile does not have the input mode http\n", run.stdout)

    def test_a_server_is_asked_without_a_proxy(self) -> None:
        nowhere = "http://127.0.0.1:9"
        for more in ({}, {"no_proxy": "localhost"}, {"NO_PROXY": "*", "no_proxy": ""}):
            run = self.run_on_urls(
                *("--shape", "file,http"), http_proxy=nowhere, all_proxy=nowhere, **more
            )
            self.assertIn(
                "\ninput mode http: 5 passed, 0 failed, 1 skipped", run.stdout
            )

    def test_faults_are_told(self) -> None:
        # Enough files for most behaviours.
        for i in range(24):
            self.add_case(f"file-{i}", "valid")
        self.save()
        result, junit, page = (self.directory / name for name in "jxh")
        run = self.run_on_urls(
            *("--shape", "http-faults", "--json", result),
            *("--junit", junit, "--html", page),
        )
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("\ninput mode http-faults: 0 passed, 29 failed", run.stdout)
        document = json.loads(result.read_text())
        jsonschema.validate(document, SCHEMA)
        reasons = {
            step["reason"].rpartition("(")[2]
            for case in document["cases"]
            for step in case["steps"]
            if step["outcome"] != "pass"
        }
        self.assertGreater(len(reasons), 10)
        for told in (
            "the server: ranges, bodies cut off at first; requests: 1, failed: 1)",
            "the server: no ranges, status 503 at first; requests: 1, failed: 1)",
        ):
            self.assertIn(told, reasons)
        for report in (junit, page):
            self.assertIn("decode (http-faults)", report.read_text(), report.name)
        # The same file meets the same again.
        repro = document["cases"][0]["repro"]
        self.assertIn("--shape http-faults --seed 20", repro)
        again = subprocess.run(
            [CONFORM, *shlex.split(repro)[2:]], capture_output=True, text=True
        )
        first = document["cases"][0]["steps"][-1]["reason"]
        self.assertIn(first.rpartition("(")[2], again.stdout)

    def test_crashes_and_hangs_are_those_of_other_modes(self) -> None:
        began = time.monotonic()
        run = self.run_on_urls(
            *("--shape", "http", "--timeout", "0.5"),
            rules=("valid=segfault", "malformed=hang"),
        )
        self.assertLess(time.monotonic() - began, 60)
        self.assertIn("\ncrash valid ", run.stdout)
        self.assertIn("\nhang malformed ", run.stdout)
        self.assertIn("\n3 passed, 2 failed, 1 skipped\n", run.stdout)

    def test_an_answer_without_a_request_is_no_pass(self) -> None:
        blind = self.directory / "adapter.sh"
        blind.write_text(
            f"case $1 in\ncapabilities) echo '{self.profile('verify')}' ;;\n"
            "*) echo '{\"verified\": true}' ;;\nesac\n"
        )
        run = conform(
            *("--corpus", self.corpus, "--adapter", f"sh {shlex.quote(str(blind))}"),
            *("--shape", "http", "--only", "valid"),
        )
        self.assertEqual((run.returncode, "no case ran" in run.stderr), (1, True))
        self.assertIn("1: no request for the file came\n", run.stdout)

    def test_no_adapter_inherits_a_socket(self) -> None:
        script = self.directory / "adapter.py"
        script.write_text(
            f"""import os, sys
if sys.argv[1] == "capabilities":
    print('{self.profile("verify")}')
    sys.exit()
names = []
for fd in os.listdir("/proc/self/fd"):
    try:
        names.append(os.readlink("/proc/self/fd/" + fd))
    except FileNotFoundError:
        pass  # of the list itself
sys.exit(9 if any(name.startswith("socket:") for name in names) else 8)
"""
        )
        run = conform(
            *("--corpus", self.corpus, "--only", "valid", "--shape", "http"),
            *("--adapter", shlex.join([sys.executable, str(script)])),
        )
        self.assertIn("verify (http): exit status 8", run.stdout)

    @unittest.skipUnless(HAS_OWN_NETWORK, "no namespace of networks can be had here")
    def test_a_machine_without_a_loopback_interface(self) -> None:
        run = subprocess.run(
            [*OWN_NETWORK, CONFORM, "--corpus", self.corpus, "--shape", "file,http"],
            capture_output=True,
            text=True,
        )
        self.assertEqual((run.returncode, run.stdout), (4, ""))
        self.assertIn("the input mode http: connect to 127.0.0.1: ", run.stderr)

    @unittest.skipUnless("http" in reference_modes(), "libcurl is not available here")
    def test_the_reference_answers_as_for_files(self) -> None:
        for corpus in ("share/tzmark/corpus", None):
            where = BUILD / corpus if corpus else SOURCE / "reference/safetensors/cases"
            run = conform(
                *("--corpus", where, "--quick", "--only", "*[05]*"),
                *("--shape", "file,http,http-faults"),
                env=SHORT_PAUSES,
            )
            self.assertEqual(run.returncode, 0, run.stdout[-3000:])
            self.assertIn(" passed, 0 failed, 0 skipped\n\n", run.stdout + "\n")

    def test_the_reference_says_whether_it_reads_urls(self) -> None:
        # What its loader finds first is no library.
        (self.directory / "libcurl.so.4").write_text("no library")
        run = conform(
            *("--adapter", shlex.quote(str(REFERENCE)), "--only", "dtype-float16"),
            *("--shape", "file,http"),
            env={"LD_LIBRARY_PATH": str(self.directory)},
        )
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("\ninput mode http: 0 passed, 0 failed, 1 skipped", run.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
