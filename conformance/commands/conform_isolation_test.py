#!/usr/bin/env python3
"""Tests of what an adapter cannot do to a run, and of what a run that is ended leaves: no process and no secret."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from conform_fixture import CONFORM, HAS_READ_ONLY, CorpusTest, conform


class Isolation(CorpusTest):
    def test_an_adapter_cannot_change_what_is_expected(self) -> None:
        """Its wrong answer fails, and neither this run nor a later one takes it for the right one."""
        run = self.run_on_corpus(
            *("--allow-writes", self.corpus),
            behaviours=("valid=overwrite-expectation",),
        )
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
