#!/usr/bin/env python3
"""Tests of tzmark-conform as its users meet it: options, exit statuses, and every kind of report."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema

Json = dict[str, Any]

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
CONFORM = BUILD / "libexec/tzmark/tzmark-conform"
MODEL = BUILD / "libexec/tzmark/tzmark-adapter-model"
CORPUS = BUILD / "share/tzmark/corpus"
FAKE_ADAPTER = SOURCE / "conformance/runner/testdata/fake_adapter.py"
# Whether this machine lets the suite mount a directory read-only for a process.
HAS_READ_ONLY = (
    subprocess.run(
        [BUILD / "libexec/tzmark/tzmark-read-only", SOURCE, "true"],
        capture_output=True,
    ).returncode
    == 0
)
SCHEMA = json.loads((SOURCE / "reports/schema/conformance.schema.json").read_text())

CONTENT: Json = {
    "data_version": 1,
    "layout": "v1",
    "encrypted": False,
    "tensors": [{"path": ["a"], "shape": [2, 3]}],
}
VERDICTS = (
    "valid",
    "malformed",
    "invalid",
    "authentication-failure",
    "integrity-failure",
    "implementation-defined",
)


def adapter(*options: str) -> str:
    return shlex.join([sys.executable, "-I", str(FAKE_ADAPTER), *options])


def conform(
    *options: str | Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CONFORM, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **(env or {})},
    )


class ElementCollector(HTMLParser):
    """The elements of a page with their attributes; fails on tags that are not closed in order."""

    VOID = {"meta", "input", "link", "br", "img"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open.pop() != tag:
            raise AssertionError(f"</{tag}> at {self.getpos()} closes something else")


class ConformTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="tzmark-conform-test-")
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.corpus = self.directory / "corpus"
        self.corpus.mkdir()
        self.manifest: Json = {"schema_version": 1, "cases": []}
        for verdict in VERDICTS:
            self.add_case(verdict, verdict)
        self.save()

    def add_case(self, case_id: str, verdict: str, layout: str = "v1") -> None:
        content = f"content of {case_id}".encode()
        (self.corpus / f"{case_id}.bin").write_bytes(content)
        case: Json = {
            "id": case_id,
            "path": f"{case_id}.bin",
            "sha256": hashlib.sha256(content).hexdigest(),
            "size_bytes": len(content),
            "layout": layout,
            "features": ["meta"] if layout == "v4" else [],
            "verdict": verdict,
            "tier": "MUST",
            "rules": ["TZR-HDR-002"],
            "why": f"Why <{case_id}> & co.",
            "origin": {"recipe": "recipes/none.py", "seed": 1},
            "limits": {"memory_bytes": 64 << 20, "seconds": 10},
        }
        if verdict in ("valid", "integrity-failure", "implementation-defined"):
            (self.corpus / f"{case_id}.json").write_text(json.dumps(CONTENT))
            case["expected"] = f"{case_id}.json"
            digest = hashlib.sha256(json.dumps(CONTENT).encode()).hexdigest()
            case["expected_sha256"] = digest
        if verdict == "implementation-defined":
            case["open_choice"] = "Whether it is read."
        self.manifest["cases"].append(case)

    def adapter(self, *options: str) -> str:
        """The fake adapter, which answers about this corpus."""
        return adapter("--corpus", str(self.corpus), *options)

    def save(self) -> None:
        (self.corpus / "manifest.json").write_text(json.dumps(self.manifest))

    def run_on_corpus(
        self, *options: str | Path, behaviours: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        cases = [word for rule in behaviours for word in ("--case", rule)]
        return conform(
            "--corpus", self.corpus, "--adapter", self.adapter(*cases), *options
        )

    # Exit statuses and the last line.

    def test_all_passed(self) -> None:
        run = self.run_on_corpus()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.splitlines()[-1], "6 passed, 0 failed, 0 skipped")
        self.assertEqual(run.stderr, "", "progress is for terminals only")

    def test_one_failed(self) -> None:
        run = self.run_on_corpus(behaviours=("invalid=accept",))
        self.assertEqual(run.returncode, 1)
        self.assertIn(
            "accepted-invalid invalid (TZR-HDR-002)\n"
            "    why: Why <invalid> & co.\n"
            "    decode, verify: accepted, but is invalid\n",
            run.stdout,
        )
        self.assertEqual(run.stdout.splitlines()[-1], "5 passed, 1 failed, 0 skipped")

    def test_every_failed_command_is_told_with_its_limit(self) -> None:
        run = self.run_on_corpus(
            *("--timeout", "0.5", "--memory", "100MiB"),
            behaviours=("invalid:decode=accept", "invalid=hang", "malformed=spike"),
        )
        self.assertRegex(
            run.stdout,
            r"\nhang invalid \(TZR-HDR-002\)\n"
            r"    why: Why <invalid> & co\.\n"
            r"    decode: accepted, but is invalid\n"
            r"    verify: still running after [\d.]+ s, limit [\d.]+ s\n",
        )
        self.assertRegex(
            run.stdout,
            r"\nmemory malformed .*\n"
            r"    why: .*\n"
            r"    decode: used [\d.]+ MiB of memory, limit 1\d\d\.\d MiB\n",
        )

    def test_cases_refused_for_another_rule_are_named(self) -> None:
        cases = ("invalid", "malformed", "authentication-failure:decode")
        run = self.run_on_corpus(
            behaviours=(
                *(f"{name}=reject-for-another-rule" for name in cases),
                "authentication-failure=accept",
            )
        )
        self.assertRegex(
            run.stdout,
            r"\nrefused as they should be, but for another rule: 2\n"
            r"    \S+ instead of TZR-HDR-002: malformed invalid\n",
        )
        self.assertIn("\n5 passed, 1 failed, 0 skipped\n", run.stdout)

    def test_a_crash_shows_its_last_words(self) -> None:
        run = self.run_on_corpus(behaviours=("invalid=exception",))
        self.assertEqual(run.returncode, 1)
        self.assertIn("stderr: ValueError: cannot unpack invalid", run.stdout)

    def test_no_case_ran(self) -> None:
        # Both are known, and no case is both.
        run = self.run_on_corpus("--only", "valid", "--layout", "v4")
        self.assertEqual((run.returncode, "no case ran" in run.stderr), (1, True))
        run = self.run_on_corpus(behaviours=("*=unsupported",))
        self.assertEqual((run.returncode, "no case ran" in run.stderr), (1, True))

    def test_wrong_usage(self) -> None:
        for options in (
            ["--nonsense"],
            ["positional"],
            ["--jobs", "0"],
            ["--timeout", "-1"],
            ["--timeout", "nan"],
            ["--timeout", "1e300"],
            ["--memory", "many"],
            ["--corpus", str(self.corpus), "--adapter", "a | b"],
            ["--corpus", str(self.corpus), "--adapter", "   "],
        ):
            self.assertEqual(conform(*options).returncode, 2, options)

    def test_environment_failed(self) -> None:
        (self.corpus / "valid.bin").write_text("changed")
        run = self.run_on_corpus()
        self.assertEqual((run.returncode, "the manifest says" in run.stderr), (3, True))
        run = conform("--corpus", self.directory / "none")
        self.assertEqual((run.returncode, "no corpus" in run.stderr), (3, True))
        run = conform("--corpus", self.corpus, "--adapter", "/nonexistent/adapter")
        self.assertEqual((run.returncode, "No such file" in run.stderr), (3, True))
        run = conform(
            *("--corpus", self.corpus, "--adapter", adapter()),
            env={"TMPDIR": "/nowhere"},
        )
        self.assertEqual(run.returncode, 3)
        self.assertIn("no temporary file in /nowhere, which TMPDIR names", run.stderr)

    def test_an_adapter_cannot_change_what_is_expected(self) -> None:
        """Its wrong answer fails, and neither this run nor a later one takes it for the right one."""
        run = self.run_on_corpus(behaviours=("valid=overwrite-expectation",))
        self.assertEqual((run.returncode, run.stdout), (3, ""))
        self.assertIn("valid.json has SHA-256 ", run.stderr)
        self.assertIn("restore the corpus", run.stderr)
        run = conform("corpus", "check", "--corpus", self.corpus)
        self.assertEqual(run.returncode, 1)
        self.assertIn("6 cases, 1 wrong", run.stdout)
        self.assertEqual(self.run_on_corpus().returncode, 3)

    def test_the_path_of_a_file_tells_nothing(self) -> None:
        """An adapter without a reader, which judges by the path and by what lies above it, fails."""
        judge = self.directory / "judge.py"
        judge.write_text(
            """import json, pathlib, sys
if sys.argv[1] == "capabilities":
    print(json.dumps({"protocol": 1, "name": "n", "version": "1", "commands": ["verify"],
                      "reads": {"layouts": ["v1"], "shapes": ["pipe", "offset"]}}))
    sys.exit(0)
file = pathlib.Path(sys.argv[2])
manifests = [up / "manifest.json" for up in file.parents if (up / "manifest.json").exists()]
listed = [case for name in manifests for case in json.loads(name.read_text())["cases"]
          if case["path"].endswith(file.name)]
if listed or any(word in str(file) for word in ("invalid", "malformed")):
    print(json.dumps({"rejected": {"rule": None, "offset": None, "message": "by its path"}}))
    sys.exit(1)
print(json.dumps({"verified": True}))
"""
        )
        (self.corpus / "invalid").mkdir()
        for case in self.manifest["cases"]:
            path = f"invalid/{case['path']}"
            shutil.move(self.corpus / case["path"], self.corpus / path)
            case["path"] = path
        self.save()
        result = self.directory / "result.json"
        modes = ["file", "pipe", "short-reads", "offset"]
        modes += ["read-only"] if HAS_READ_ONLY else []
        run = conform(
            *("--corpus", self.corpus, "--json", result, "--shape", ",".join(modes)),
            *("--adapter", shlex.join([sys.executable, "-I", str(judge)])),
        )
        self.assertEqual(run.returncode, 1, run.stderr)
        answers = {
            (step["shape"], step["answer"]["kind"])
            for case in json.loads(result.read_text())["cases"]
            for step in case["steps"]
            if step["shape"] != "short-reads"
        }
        expected = {(mode, "accepted") for mode in modes if mode != "short-reads"}
        self.assertEqual(answers, expected)

    def test_report_not_writable(self) -> None:
        (self.directory / "file").touch()
        for option in ("--json", "--junit", "--html", "--keep"):
            # A directory has no room for a file of its name, and a file none for others.
            for place in ("none/file", ".", "file/file"):
                if option == "--keep" and place != "file/file":
                    continue
                run = self.run_on_corpus(option, self.directory / place)
                self.assertEqual((run.returncode, run.stdout), (3, ""), (option, place))
                self.assertIn("cannot be written", run.stderr)
        known = self.directory / "none/known.json"
        run = self.run_on_corpus("--known", known, "--fix-known")
        self.assertEqual((run.returncode, run.stdout), (3, ""))
        for command in (
            ("mutate", "--count", "2"),
            ("against", "--with", self.adapter()),
            ("minimize", self.corpus / "valid.bin"),
        ):
            run = conform(*command, "--json", self.directory / "none/file")
            self.assertEqual((run.returncode, run.stdout), (3, ""), command)
            self.assertIn("none/file: cannot be written", run.stderr)

    # Open choices.

    def name_choices(self) -> None:
        """Adds a case that is left to the reader by each of two named choices."""
        self.add_case("gap", "implementation-defined")
        self.add_case("weak", "implementation-defined")
        self.manifest["open_choices"] = {
            name: {
                "text": "Whether it is read.",
                "rules": ["TZR-HDR-002"],
                "tzmark": tzmark,
                "rejected_by": rejected_by,
            }
            for name, tzmark, rejected_by in (
                ("record-gaps", "reject", "decode"),
                ("crc32-alone", "accept", "verify"),
            )
        }
        for case, name in zip(
            self.manifest["cases"][-2:], self.manifest["open_choices"], strict=True
        ):
            case["choice_name"] = name
        self.save()

    def results(self, run: subprocess.CompletedProcess[str], path: Path) -> Json:
        """The result in JSON of a run that came to its end."""
        self.assertIn(run.returncode, (0, 1), run.stderr)
        result = json.loads(path.read_text())
        jsonschema.validate(result, SCHEMA)
        return result

    def test_reports_are_written_through_no_planted_link(self) -> None:
        for option in ("--json", "--junit", "--html"):
            with tempfile.TemporaryDirectory() as directory, self.subTest(option):
                secret, report = Path(directory) / "secret", Path(directory) / "report"
                secret.write_text("secret")
                report.symlink_to(secret)
                done = self.run_on_corpus(option, report)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(secret.read_text(), "secret")
                self.assertFalse(report.is_symlink())
                self.assertGreater(report.stat().st_size, 100)
                self.assertEqual(set(os.listdir(directory)), {"secret", "report"})

    def test_reports_go_to_devices_and_descriptors_and_read_fifos(self) -> None:
        done = self.run_on_corpus("--json", "/dev/null", "--junit", "/dev/null")
        self.assertEqual(done.returncode, 2, "two outputs of one name")
        done = self.run_on_corpus("--json", "/dev/stdout", "--junit", "/dev/null")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"schema_version"', done.stdout)
        with tempfile.TemporaryDirectory() as directory:
            fifo = Path(directory) / "fifo"
            os.mkfifo(fifo)
            reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE)
            done = self.run_on_corpus("--json", fifo)
            self.assertEqual(done.returncode, 0, done.stderr)
            text, _ = reader.communicate(timeout=60)
            self.assertIn("schema_version", json.loads(text))
            # Without a reader it fails, and does not wait for ever.
            done = self.run_on_corpus("--json", fifo)
            self.assertEqual(done.returncode, 3)
            self.assertIn("no process reads this FIFO", done.stderr)

    def test_a_policy_requires_an_answer(self) -> None:
        self.name_choices()
        path = self.directory / "result.json"
        for answer, wrong in (("accept", "reject"), ("reject", "accept")):
            setting = f"record-gaps={answer}"
            options = ("--policy", setting, "--json", path)
            self.assertEqual(
                self.run_on_corpus(*options, behaviours=(f"gap={answer}",)).returncode,
                0,
            )
            run = self.run_on_corpus(*options, behaviours=(f"gap={wrong}",))
            self.assertEqual(run.returncode, 1)
            self.assertIn(f"against the policy {setting}", run.stdout)
            self.assertIn(f"policies: {setting}\n", run.stdout)
            result = self.results(run, path)
            self.assertEqual(result["options"]["policies"], {"record-gaps": answer})
            self.assertIs(result["options"]["strict"], False)
            cases = {case["id"]: case for case in result["cases"]}
            self.assertEqual(cases["gap"]["choice_name"], "record-gaps")
            self.assertEqual(cases["gap"]["policy"], answer)
            self.assertEqual(cases["gap"]["verdict"], "implementation-defined")
            self.assertIsNone(cases["weak"]["policy"])
            self.assertEqual(cases["weak"]["outcome"], "implementation-defined")

    def test_a_rejection_by_verify_may_decode(self) -> None:
        self.name_choices()
        setting = ("--policy", "crc32-alone=reject")
        right = ("weak:verify=reject",)
        self.assertEqual(self.run_on_corpus(*setting, behaviours=right).returncode, 0)
        run = self.run_on_corpus(*setting)
        self.assertEqual(run.returncode, 1)
        self.assertIn(
            "verify: accepted, against the policy crc32-alone=reject", run.stdout
        )

    def test_strict_requires_what_tzmark_does(self) -> None:
        self.name_choices()
        path = self.directory / "result.json"
        options = ("--strict", "--json", path)
        run = self.run_on_corpus(*options, behaviours=("gap=reject",))
        self.assertEqual(run.returncode, 0, run.stdout)
        result = self.results(run, path)
        self.assertIs(result["options"]["strict"], True)
        self.assertEqual(
            result["options"]["policies"],
            {"record-gaps": "reject", "crc32-alone": "accept"},
        )
        self.assertEqual(self.run_on_corpus(*options).returncode, 1)
        relaxed = ("--policy", "record-gaps=accept")
        self.assertEqual(self.run_on_corpus(*options, *relaxed).returncode, 0)

    def test_wrong_policies(self) -> None:
        self.name_choices()
        for options, message in (
            (["--policy", "record-gap=accept"], "did you mean 'record-gaps'?"),
            (["--policy", "record-gaps"], "not NAME=accept or NAME=reject"),
            (["--policy", "record-gaps=yes"], "not NAME=accept or NAME=reject"),
            (
                ["--policy", "record-gaps=accept", "--policy", "record-gaps=reject"],
                "both accept and reject",
            ),
        ):
            run = self.run_on_corpus(*options)
            self.assertEqual((run.returncode, run.stdout), (2, ""), options)
            self.assertIn(message, run.stderr)
        del self.manifest["open_choices"]
        for case in self.manifest["cases"]:
            case.pop("choice_name", None)
        self.save()
        run = self.run_on_corpus("--strict")
        self.assertEqual(run.returncode, 2)
        self.assertIn("the corpus names no open choices", run.stderr)

    def test_a_choice_that_the_manifest_does_not_describe(self) -> None:
        self.name_choices()
        del self.manifest["open_choices"]["record-gaps"]
        self.save()
        run = self.run_on_corpus()
        self.assertEqual(run.returncode, 3)
        self.assertIn("no open choice 'record-gaps'", run.stderr)

    def test_help_and_version(self) -> None:
        run = conform("--help")
        self.assertEqual(run.returncode, 0)
        self.assertIn("Exit status:", run.stdout)
        self.assertRegex(conform("--version").stdout, r"^tzmark-conform \d+\.\d+\.\d+")

    # Options.

    def test_selection(self) -> None:
        self.add_case("later", "valid", layout="v4")
        self.save()
        run = self.run_on_corpus("--only", "in*", "--only", "valid")
        self.assertIn("\n3 passed, 0 failed", run.stdout)
        run = self.run_on_corpus("--layout", "v4")
        self.assertIn("\n1 passed, 0 failed", run.stdout)
        run = self.run_on_corpus("--only", "!in*", "--only", "!*-failure")
        self.assertIn("\n4 passed, 0 failed", run.stdout)
        run = self.run_on_corpus("--only", "*valid", "--only", "!in*")
        self.assertIn("\n1 passed, 0 failed", run.stdout)

    def test_what_large_files_and_sampled_input_modes_take_is_said(self) -> None:
        self.add_case("large", "valid")
        self.manifest["cases"][-1]["features"] = ["large-file"]
        self.save()
        run = self.run_on_corpus()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(
            run.stdout,
            "\nlarge files: 1 case, in [0-9.]+ s of all threads; --quick leaves them out\n",
        )
        # A valid one and one of the invalid ones; the large one is asked about as a plain file alone.
        sampled = re.findall(
            "also asked with input mode .*: ([0-9]+) files", run.stdout
        )
        self.assertEqual([int(number) for number in sampled], [2])
        run = self.run_on_corpus("--quick")
        self.assertIn("\n6 passed, 0 failed", run.stdout)
        self.assertNotIn("large files", run.stdout)

    def test_what_the_selection_does_not_know_is_wrong_usage(self) -> None:
        for words, message in (
            (("--only", "vald"), "no case matches 'vald'; did you mean 'valid'?"),
            (
                ("--only", "!integrty-*"),
                "no case matches '!integrty-*'; did you mean 'integrity-*'?",
            ),
            (("--only", "burn"), "no case matches 'burn'"),
            (("--layout", "v6"), "unknown layout 'v6'; did you mean 'v1'?"),
            (
                ("--rule", "TZR-HDR-02"),
                "unknown rule 'TZR-HDR-02'; did you mean 'TZR-HDR-002'?",
            ),
        ):
            for command in (
                ("conform",),
                ("corpus", "list"),
                ("mutate", "--count", "2"),
                ("against", "--with", self.adapter()),
            ):
                run = conform(*command, "--corpus", self.corpus, *words)
                self.assertEqual((run.returncode, run.stdout), (2, ""), words)
                self.assertEqual(run.stderr, f"tzmark-conform: {message}\n")
        run = self.run_on_corpus("--repro", "vald")
        self.assertIn("no case 'vald'; did you mean 'valid'?", run.stderr)

    def test_list(self) -> None:
        run = conform("--corpus", self.corpus, "--list", "--only", "valid")
        self.assertEqual((run.returncode, run.stdout), (0, "valid\tv1\tvalid\t\n"))

    def test_limits(self) -> None:
        run = self.run_on_corpus(
            "--timeout", "0.5", "--jobs", "2", behaviours=("invalid=hang",)
        )
        self.assertIn("hang invalid", run.stdout)
        run = self.run_on_corpus(behaviours=("invalid=spike",))
        self.assertIn("memory invalid", run.stdout)
        run = self.run_on_corpus("--memory", "1GiB", behaviours=("invalid=spike",))
        self.assertEqual(run.returncode, 0)

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

    def test_interrupt_ends_children(self) -> None:
        # A name of its own in the command line finds the children again.
        mark = f"mark-{os.getpid()}"
        process = subprocess.Popen(
            [
                CONFORM,
                *("--corpus", self.corpus),
                *(
                    "--adapter",
                    self.adapter("--case", f"{mark}=honest", "--case", "*=hang"),
                ),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def children() -> list[int]:
            found = []
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = entry.read_bytes()
                except OSError:
                    continue
                pid = int(entry.parent.name)
                if mark.encode() in words and pid != process.pid:
                    found.append(pid)
            return found

        deadline = time.monotonic() + 20
        # One look decides: between two questions there may be no child.
        while not (started := children()) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertTrue(started, "the adapter did not start")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=20), 128 + signal.SIGINT)
        self.assertEqual(children(), [])

    def test_a_closed_terminal_leaves_no_secret(self) -> None:
        passphrase = self.directory / "passphrase"
        passphrase.write_text("top secret passphrase")
        file = self.directory / "file.tensors"
        file.write_bytes(b"content")
        temporary = self.directory / "temporary"
        temporary.mkdir()
        slow = self.directory / "slow.sh"
        profile = '{"protocol": 1, "name": "n", "version": "1", "commands": ["verify"], "reads": {"layouts": ["v1"]}}'
        slow.write_text(
            f"[ $1 = capabilities ] && exec echo {shlex.quote(profile)}\nexec sleep 60\n"
        )
        command = [CONFORM, "--one-shot", "--timeout", "30", "--file", file]
        command += ["--passphrase-file", passphrase, "--adapter", f"sh {slow}"]

        def secrets() -> list[Path]:
            return [path for path in temporary.glob("*") if path.is_file()]

        for ignored in (False, True):
            process = subprocess.Popen(
                ["nohup", *command] if ignored else command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "TMPDIR": str(temporary)},
            )
            deadline = time.monotonic() + 20
            while not secrets() and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertTrue(secrets(), "the passphrase was not given")
            process.send_signal(signal.SIGHUP)
            if ignored:
                with self.assertRaises(subprocess.TimeoutExpired):
                    process.wait(timeout=1)
                process.send_signal(signal.SIGTERM)
            expected = signal.SIGTERM if ignored else signal.SIGHUP
            self.assertEqual(process.wait(timeout=20), 128 + expected)
            self.assertEqual(list(temporary.iterdir()), [])

    # Known failures.

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

    # The serving form, and the profile.

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

    def test_rule_selects(self) -> None:
        self.manifest["cases"][1]["rules"] = ["TZR-IDX-001"]
        self.save()
        run = self.run_on_corpus("--rule", "TZR-IDX-001")
        self.assertIn("\n1 passed", run.stdout)

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

    # Input modes.

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

    # The corpus as a product.

    def test_the_installed_cases_of_another_format(self) -> None:
        file = SOURCE / "reference/safetensors/cases/one.safetensors"
        model = shlex.quote(str(MODEL))
        run = conform("corpus", "list", "--format", "safetensors")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("st-overlap\tsafetensors\tmalformed\t\n", run.stdout)
        run = conform(
            *("--format", "safetensors", "--only", "st-overlap"),
            *("--adapter", f"{model} --without ST-014 --without ST-015"),
        )
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("accepted-invalid st-overlap (ST-014)", run.stdout)
        self.assertRegex(run.stdout, "byte 61: tensor 1: name, .* = 'b'")
        for words in (
            ("--format", "gguf"),
            ("--format", ""),
            ("--format", "safetensors", "--corpus", self.corpus),
            ("--format", "safetensors", "--file", file),
        ):
            run = conform(*words)
            self.assertEqual((run.returncode, run.stdout), (2, ""), run.stderr)

    def test_corpus_list_check_export(self) -> None:
        run = conform("corpus", "list", "--corpus", self.corpus)
        self.assertEqual(run.stdout.splitlines()[0], "valid\tv1\tvalid\t")
        self.assertEqual(len(run.stdout.splitlines()), 6)
        run = conform("corpus", "list", "--corpus", self.corpus, "--only", "*valid")
        self.assertEqual(
            [line.split("\t")[0] for line in run.stdout.splitlines()],
            ["valid", "invalid"],
        )
        run = conform("corpus", "list", "--corpus", self.corpus, "--only", "!*valid")
        self.assertEqual(len(run.stdout.splitlines()), 4)
        run = conform("corpus", "check", "--corpus", self.corpus)
        self.assertEqual((run.returncode, run.stdout), (0, "6 cases, 0 wrong\n"))
        target = self.directory / "exported"
        run = conform("corpus", "export", target, "--corpus", self.corpus)
        self.assertEqual(run.returncode, 0, run.stderr)
        run = conform("corpus", "check", "--corpus", target)
        self.assertEqual(run.returncode, 0, run.stdout)
        # Nothing is overwritten.
        run = conform("corpus", "export", target, "--corpus", self.corpus)
        self.assertEqual(run.returncode, 2)
        (target / "valid.bin").write_text("changed")
        (target / "valid.json").unlink()
        run = conform("corpus", "check", "--corpus", target)
        self.assertEqual(run.returncode, 1)
        self.assertIn("6 cases, 1 wrong", run.stdout)
        self.assertEqual(conform("corpus").returncode, 2)
        self.assertEqual(conform("corpus", "burn").returncode, 2)

    # Reports.

    def faulty_run(self, *options: str | Path) -> None:
        run = self.run_on_corpus(
            *options,
            behaviours=(
                "valid=wrong-data",
                "malformed=exception",
                "invalid=segfault",
                "authentication-failure=reject-for-another-rule",
                "integrity-failure:verify=unsupported",
            ),
        )
        self.assertEqual(run.returncode, 1, run.stderr)

    def test_json_follows_its_schema(self) -> None:
        file = self.directory / "result.json"
        self.faulty_run("--json", file)
        result = json.loads(file.read_text())
        validator = jsonschema.Draft202012Validator(SCHEMA)
        validator.check_schema(SCHEMA)
        self.assertEqual([error.message for error in validator.iter_errors(result)], [])
        self.assertEqual(
            {case["id"]: case["outcome"] for case in result["cases"]},
            {
                "valid": "wrong-data",
                "malformed": "crash",
                "invalid": "crash",
                "authentication-failure": "pass",
                "integrity-failure": "skipped",
                "implementation-defined": "implementation-defined",
            },
        )
        self.assertEqual(result["summary"]["cites_other_rule"], 1)
        for step in (step for case in result["cases"] for step in case["steps"]):
            self.assertGreater(step["process"]["rss_max_bytes"], 64 << 20)
        valid = result["cases"][0]
        self.assertEqual(
            valid["steps"][0]["difference"],
            {"pointer": "/tensors/0/shape/0", "expected": "2", "got": "4"},
        )
        self.assertEqual(result["cases"][5]["choice"], "accepted")
        manifest = (self.corpus / "manifest.json").read_bytes()
        self.assertEqual(
            result["corpus"]["manifest_sha256"], hashlib.sha256(manifest).hexdigest()
        )

    def test_schema_refuses_what_is_not_a_result(self) -> None:
        file = self.directory / "result.json"
        self.faulty_run("--json", file)
        validator = jsonschema.Draft202012Validator(SCHEMA)
        for change in (
            lambda result: result.pop("summary"),
            lambda result: result.update(surprise=1),
            lambda result: result["cases"][0].update(outcome="fine"),
            lambda result: result["cases"][0]["steps"][0].pop("answer"),
            lambda result: result["summary"]["outcomes"].update(crash=-1),
        ):
            result = json.loads(file.read_text())
            change(result)
            self.assertFalse(validator.is_valid(result))

    def test_junit(self) -> None:
        file = self.directory / "result.xml"
        self.faulty_run("--junit", file)
        root = ElementTree.parse(file).getroot()
        self.assertEqual(root.tag, "testsuites")
        self.assertEqual(
            (root.get("tests"), root.get("failures"), root.get("skipped")),
            ("6", "3", "1"),
        )
        failures = {
            case.get("name"): failure.get("type")
            for case in root.iter("testcase")
            for failure in case.iter("failure")
        }
        self.assertEqual(
            failures, {"valid": "wrong-data", "malformed": "crash", "invalid": "crash"}
        )

    def test_html_is_one_file_with_every_case(self) -> None:
        file = self.directory / "page.html"
        self.faulty_run("--html", file)
        page = file.read_text()
        collector = ElementCollector()
        collector.feed(page)
        self.assertEqual(collector.open, [])
        # Nothing is loaded from elsewhere.
        for tag, attributes in collector.elements:
            self.assertNotIn(tag, ("link", "img", "iframe"))
            self.assertNotIn("src", attributes)
        self.assertNotRegex(page, r"https?://|@import|url\(")
        cases = {
            attributes["id"]: attributes["data-outcome"]
            for tag, attributes in collector.elements
            if "data-outcome" in attributes
        }
        self.assertEqual(set(cases), set(VERDICTS))
        self.assertEqual(cases["valid"], "wrong-data")
        # The worst first.
        self.assertEqual(next(iter(cases)), "valid")
        self.assertIn("/tensors/0/shape/0", page)
        self.assertIn("ValueError: cannot unpack malformed<", page)
        # What comes from outside is escaped.
        self.assertIn("Why &lt;valid&gt; &amp; co.", page)
        self.assertNotIn("<valid>", page)

    def test_filters_of_the_page_name_every_outcome_that_came(self) -> None:
        file = self.directory / "page.html"
        self.faulty_run("--html", file)
        filters = re.findall(r'<label for="(failed|show)-([a-z-]+)"', file.read_text())
        # What passes here was refused for another rule, which the page tells apart.
        self.assertEqual(
            filters,
            [
                *(("failed", name) for name in ("all", "wrong-data", "crash")),
                *(("show", name) for name in ("all", "other-rule")),
                *(("show", name) for name in ("implementation-defined", "skipped")),
            ],
        )

    def test_html_imports_nothing_from_the_current_directory(self) -> None:
        mark = self.directory / "imported"
        (self.directory / "sitecustomize.py").write_text(f"open({str(mark)!r}, 'w')")
        page = self.directory / "page.html"
        run = subprocess.run(
            [
                CONFORM,
                "--corpus",
                self.corpus,
                "--adapter",
                self.adapter(),
                "--html",
                page,
            ],
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": ":/none"},
            capture_output=True,
            text=True,
        )
        self.assertTrue(page.exists(), run.stderr)
        self.assertFalse(mark.exists())

    def test_html_without_python_or_jinja(self) -> None:
        options = (
            *("--corpus", self.corpus),
            *("--adapter", self.adapter()),
            *("--html", self.directory / "page.html"),
        )
        run = conform(*options, env={"TZMARK_PYTHON": "/nonexistent/python3"})
        self.assertEqual(run.returncode, 4)
        self.assertIn("6 passed", run.stdout, "the result is not lost")
        # A module of that name that cannot be imported stands for one that is missing.
        (self.directory / "jinja2.py").write_text(
            "raise ImportError('No module jinja2')"
        )
        run = conform(*options, env={"PYTHONPATH": str(self.directory)})
        self.assertEqual(run.returncode, 4)
        self.assertIn("python3-jinja2", run.stderr)

    def test_renderer_refuses_other_files(self) -> None:
        file = self.directory / "other.json"
        renderer = SOURCE / "reports/render.py"
        for content in ("{", "[]", "{}", '{"schema": "tzmark-bench"}'):
            file.write_text(content)
            run = subprocess.run(
                [sys.executable, "-B", renderer, "conformance", file, "-o", file],
                capture_output=True,
                check=False,
            )
            self.assertEqual(run.returncode, 3, content)


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


class CommandLineTest(unittest.TestCase):
    """Checks of a command line, and where the program prints."""

    def test_an_empty_value_is_not_taken_for_an_option_that_was_not_given(self) -> None:
        for words in (
            ("--adapter", ""),
            ("--corpus", ""),
            ("--only", ""),
            ("--layout", ""),
            ("mutate", "--findings", ""),
            ("against", "--with", ""),
            ("--json", ""),
            ("--html", ""),
            ("--junit="),
            ("corpus", "export", ""),
            ("corpus", "list", "--corpus", ""),
            ("minimize", "file", "--key-file", ""),
            ("minimize", ""),
        ):
            run = conform(*([words] if isinstance(words, str) else words))
            self.assertEqual((run.returncode, run.stdout), (2, ""), words)
            self.assertIn("the value is empty", run.stderr, words)

    def test_what_nothing_knows_is_named(self) -> None:
        for words, text in (
            (("corpus", "exprt"), "unknown command 'exprt'; did you mean 'export'?"),
            (("corpus", "burn"), "unknown command 'burn'"),
            (("--jsn", "x"), "unknown option '--jsn'; did you mean '--json'?"),
            (("minimize", "a", "b"), "one argument too many: 'b'"),
            (("a\x1b[2J\u202e",), "one argument too many: 'a\\x1b[2J\\xe2\\x80\\xae'"),
        ):
            run = conform(*words)
            self.assertEqual((run.returncode, run.stdout), (2, ""), words)
            self.assertEqual(run.stderr, f"tzmark-conform: {text}\n")

    def test_each_command_has_its_own_options(self) -> None:
        for words in (
            ("conform", "--count", "5"),
            ("conform", "--with", "x"),
            ("mutate",),
            ("mutate", "--count", "5", "--html", "x"),
            ("mutate", "--count", "5", "--max-skipped", "5"),
            ("mutate", "--mutation", "5", "--stop-at-first"),
            ("against", "--count", "5"),
            ("against", "--with", "x", "--mutation", "5"),
            ("against", "--with", "x", "--list"),
            ("minimize", "file", "--seed", "3"),
        ):
            run = conform(*words)
            self.assertEqual((run.returncode, run.stdout), (2, ""), words)
        for command in ("conform", "corpus", "mutate", "against", "minimize"):
            run = conform(command, "--help")
            self.assertEqual(run.returncode, 0)
            self.assertIn("Exit status:", run.stdout)
            through_tzmark = subprocess.run(
                [BUILD / "bin/tzmark", command, "--help"],
                capture_output=True,
                text=True,
            )
            self.assertEqual(through_tzmark.stdout, run.stdout)

    def test_stderr_that_is_full_or_closed_ends_nothing(self) -> None:
        with open("/dev/full", "wb") as full:
            done = subprocess.run([CONFORM, "--only", "nothing"], stderr=full)
        self.assertEqual(done.returncode, 2)
        shell = ("sh", "-c", 'exec "$0" --only nothing 2>&-', CONFORM)
        self.assertEqual(subprocess.run(shell).returncode, 2)

    def test_text_that_cannot_be_printed_is_an_error(self) -> None:
        for command in ("corpus list", "--list", "--help"):
            for to in (">/dev/full", ">&-"):
                done = subprocess.run(
                    ("sh", "-c", f'exec "$0" {command} {to}', CONFORM),
                    capture_output=True,
                    text=True,
                )
                self.assertEqual(done.returncode, 3, (command, to))
                self.assertIn("stdout cannot be written", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
