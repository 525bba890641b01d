#!/usr/bin/env python3
"""Measures a file on a server: what was measured is what is there, faults are counted, and no secret is in a result."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

import jsonschema

import delay_proxy
import fault_server
from setting import FINE, ENVIRONMENT, UNAVAILABLE, USAGE, free_port, model, run

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
SCHEMA = json.loads((SOURCE / "reports/schema/bench.schema.json").read_text())
TUNE_SCHEMA = json.loads((SOURCE / "reports/schema/tune.schema.json").read_text())
TENSORS, TENSOR_BYTES = 6, 700_000


class Bench(unittest.TestCase):
    place: tempfile.TemporaryDirectory[str]
    path: Path
    content: bytes

    @classmethod
    def setUpClass(cls) -> None:
        cls.place = tempfile.TemporaryDirectory()
        cls.path = Path(cls.place.name)
        (cls.path / "model.safetensors").write_bytes(model(TENSORS, TENSOR_BYTES))
        made = run(
            "convert",
            str(cls.path / "model.safetensors"),
            str(cls.path / "model.tensors"),
        )
        assert made.returncode == FINE, made.stderr
        cls.content = (cls.path / "model.tensors").read_bytes()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.place.cleanup()

    def setUp(self) -> None:
        running = fault_server.running({"model.tensors": self.content})
        self.server = running.__enter__()
        self.addCleanup(running.__exit__, None, None, None)

    def bench(
        self, url: str, *options: str, **environment: str
    ) -> tuple[subprocess.CompletedProcess[bytes], dict[str, Any]]:
        """Returns the process and its result, which is empty if there is none."""
        with tempfile.TemporaryDirectory() as place:
            result = Path(place) / "bench.json"
            done = run(
                *("bench", "remote", url, "--rounds", "2", "--json", str(result)),
                *options,
                **environment,
            )
            document = json.loads(result.read_text()) if result.exists() else {}
        if document:
            jsonschema.validate(document, SCHEMA)
        return done, document

    def test_each_combination_is_measured(self) -> None:
        url = self.server.url("plain", "model.tensors")
        options = ("--block", "256KiB,1MiB", "--depth", "2,4", "--threads", "1")
        done, document = self.bench(url, *options, "--verify", "none,both")
        self.assertEqual(done.returncode, FINE, done.stderr)
        # Of each of four settings: two loads and two raw transfers.
        self.assertEqual(len(document["results"]), 16)
        for result in document["results"]:
            self.assertEqual(len(result["samples"]), 2, result["id"])
            self.assertEqual(result["cache"], "server")
            self.assertEqual(result["io"], {"requested": "http", "actual": "http"})
            self.assertTrue(result["verified_first"], result["id"])
            is_load = result["subject"] == "codec"
            moved = TENSORS * TENSOR_BYTES if is_load else len(self.content)
            self.assertEqual(result["bytes"], moved)
            for sample in result["samples"]:
                requests = sample["requests"]
                least = 1 + len(self.content) // result["block_bytes"] // 2
                self.assertGreaterEqual(requests["sent"], least, result["id"])
                self.assertGreaterEqual(requests["received_bytes"], moved)
                self.assertEqual(requests["retries"], 0)
        self.assertEqual(document["machine"]["storage"]["directory"], url)
        self.assertEqual([path["name"] for path in document["io_paths"]], ["http"])
        (workload,) = document["workloads"]
        self.assertEqual(
            (workload["name"], workload["tensors"]), ("model.tensors", TENSORS)
        )

    def test_retries_are_counted_and_told(self) -> None:
        url = self.server.url("random", "model.tensors")
        environment = {"TZMARK_HTTP_ATTEMPTS": "40"}
        done, document = self.bench(url, "--block", "64KiB", **environment)
        self.assertEqual(done.returncode, FINE, done.stderr)
        retries = 0
        for result in document["results"]:
            of_result = sum(s["requests"]["retries"] for s in result["samples"])
            notes = [note for note in result["notes"] if "were repeated" in note]
            expected = [f"{of_result} requests were repeated"] if of_result else []
            self.assertEqual(notes, expected)
            retries += of_result
        self.assertGreater(retries, 0)
        self.assertIn(b"requests were repeated", done.stdout)

    def test_wrong_bytes_end_the_run(self) -> None:
        spoilt = bytearray(self.content)
        spoilt[len(spoilt) // 2] ^= 1
        self.server.files["model.tensors"] = bytes(spoilt)
        done, document = self.bench(self.server.url("plain", "model.tensors"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"TZR-HSH", done.stderr)
        self.assertEqual(document, {})

    def test_a_server_that_fails_fails_the_run(self) -> None:
        url = self.server.url("later-503", "model.tensors")
        done, _ = self.bench(url, TZMARK_HTTP_ATTEMPTS="2")
        self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
        self.assertIn(b"503", done.stderr)
        done, _ = self.bench(self.server.url("404", "model.tensors"))
        self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
        self.assertIn(b"404", done.stderr)

    def test_a_server_without_ranges_is_not_measured(self) -> None:
        done, document = self.bench(self.server.url("whole", "model.tensors"))
        self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
        self.assertIn(b"cannot send parts of a file", done.stderr)
        self.assertEqual(document, {})

    def test_other_files_have_raw_transfers_alone(self) -> None:
        self.server.files["notes.txt"] = os.urandom(300_000)
        url = self.server.url("plain", "notes.txt")
        done, document = self.bench(url, "--scale", "200000")
        self.assertEqual(done.returncode, FINE, done.stderr)
        self.assertEqual(
            {
                result["subject"]: len(result["samples"])
                for result in document["results"]
            },
            {"codec": 0, "raw": 2},
        )
        raw = [r for r in document["results"] if r["subject"] == "raw"]
        self.assertEqual([r["bytes"] for r in raw], [200_000, 200_000])
        self.assertRegex(document["skipped"][0]["reason"], "cannot read it: .*TZR-")

    def test_no_secret_is_in_a_result(self) -> None:
        plain = self.server.url("plain", "model.tensors")
        url = plain.replace("http://", "http://name:hidden@") + "?token=hidden"
        done, document = self.bench(url, "--no-raw")
        self.assertEqual(done.returncode, FINE, done.stderr)
        for text in (json.dumps(document), done.stdout.decode(), done.stderr.decode()):
            self.assertNotIn("hidden", text)

    def test_what_is_no_url_is_refused(self) -> None:
        done, _ = self.bench(str(self.path / "model.tensors"))
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertIn(b"bench remote measures a URL", done.stderr)
        refused = run("bench", "--dir", self.server.url("plain", ""))
        self.assertEqual(refused.returncode, USAGE)
        self.assertIn(b"bench remote", refused.stderr)

    def test_latencies_are_those_of_the_network(self) -> None:
        round_trip_s = 0.05
        port = free_port()
        url = self.server.url("plain", "model.tensors")
        to_port = int(url.split(":")[2].partition("/")[0])
        with delay_proxy.running(port, to_port, round_trip_s):
            far = url.replace(f":{to_port}/", f":{port}/")
            done, document = self.bench(far, "--block", "256KiB")
        self.assertEqual(done.returncode, FINE, done.stderr)
        for result in document["results"]:
            # The connection, the first request and the others that follow it.
            for sample in result["samples"]:
                self.assertGreater(sample["elapsed_ns"], 3e9 * round_trip_s)
            if result["subject"] == "raw":
                self.assertGreater(result["latency_ns"]["p50"], 1e9 * round_trip_s)

    def tune(
        self, url: str, *options: str, **environment: str
    ) -> tuple[subprocess.CompletedProcess[bytes], dict[str, Any], dict[str, str]]:
        """Returns the process, its result and the exports by name."""
        with tempfile.TemporaryDirectory() as place:
            result, exports = Path(place) / "tune.json", Path(place) / "exports"
            words = ["--json", str(result), "--export-dir", str(exports), *options]
            done = run("tune", url, *words, **environment)
            files = {
                path.name: path.read_text()
                for path in exports.rglob("*")
                if path.is_file()
            }
            found = json.loads(result.read_text()) if result.exists() else {}
            return done, found, files

    def test_tuning_finds_a_setting(self) -> None:
        url = self.server.url("plain", "model.tensors").replace("//", "//u:hunter2@")
        done, result, files = self.tune(
            url + "?key=hunter2", "--budget", "16s", "--verify", "both"
        )
        self.assertEqual(done.returncode, FINE, done.stderr)
        jsonschema.validate(result, TUNE_SCHEMA)
        self.assertNotIn("hunter2", json.dumps(result) + str(files))
        self.assertNotIn(b"hunter2", done.stdout + done.stderr)
        (task,) = result["tasks"]
        self.assertEqual((task["task"], task["cache"]), ("load-server", "server"))
        self.assertIsNone(result["probe"])
        self.assertEqual(result["workload"]["tensors"], TENSORS)
        self.assertGreater(len(task["settings"]), 1)
        for one in task["settings"]:
            self.assertEqual(one["io"], "http")
            in_flight = one["bytes_in_flight_bytes"]
            self.assertGreaterEqual(in_flight, len(self.content), one)
        names = [one["name"] for one in task["ceiling"]["measured"]]
        self.assertEqual(names[:2], ["codec", "raw http"])
        # What is found is what a load then does.
        profile = json.loads(files["tzmark-profile.json"])
        self.assertNotIn("io", profile["load-cold"])
        chosen = task["settings"][task["recommended"]]
        self.assertEqual(profile["load-cold"]["queue_depth"], chosen["queue_depth"])
        self.assertIn(f"num_readers={chosen['queue_depth']}", files["tensorizer.txt"])

    def test_tuning_ends_with_its_budget(self) -> None:
        """Also where a single load would take longer."""
        self.server.delay_s = 4
        begin = time.monotonic()
        done, result, files = self.tune(
            self.server.url("plain", "model.tensors"),
            *("--budget", "14s"),
            TZMARK_HTTP_STALL_S="20",
        )
        self.server.delay_s = 0
        self.assertLess(time.monotonic() - begin, 24)
        self.assertEqual(done.returncode, FINE, done.stderr)
        self.assertFalse(result["is_complete"])
        self.assertIsNone(result["tasks"][0]["recommended"])
        self.assertEqual(files, {})

    def test_tuning_refuses_what_has_no_meaning(self) -> None:
        url = self.server.url("plain", "model.tensors")
        for words in (["--goal", "save"], ["--scale", "2MiB"], ["--io", "mmap"]):
            done, result, files = self.tune(url, *words)
            self.assertEqual(done.returncode, USAGE, done.stderr)
            self.assertEqual((result, files), ({}, {}))

    def test_tuning_ends_where_the_server_does(self) -> None:
        done, _, _ = self.tune(self.server.url("whole", "model.tensors"))
        self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
        done, _, _ = self.tune(self.server.url("404", "model.tensors"))
        self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)

    def test_curl_reads_the_same_ranges(self) -> None:
        if shutil.which("curl") is None:
            self.skipTest("curl is not installed: apt-get install curl")
        head = struct.pack("<Q", 2) + b"{}"
        self.server.files["large"] = head + os.urandom(40 << 20)
        url = self.server.url("plain", "large")
        done, document = self.bench(url, "--curl", "--block", "1MiB", "--depth", "4")
        self.assertEqual(done.returncode, FINE, done.stderr)
        (curl,) = [r for r in document["results"] if r["subject"] == "peer"]
        self.assertEqual(curl["peer"]["name"], "curl")
        self.assertEqual((curl["bytes"], curl["queue_depth"]), ((40 << 20) + 10, 4))
        if curl["samples"]:
            self.assertRegex(curl["peer"]["version"], r"^\d+\.\d+")
        else:  # a machine with other work, where the start of a process takes as long
            self.assertRegex(curl["notes"][-1], "too little data for curl")
        asked = [
            logged.header["Range"]
            for logged in self.server.log
            if logged.header.get("User-Agent", "").startswith("curl/")
        ]
        self.assertEqual(len(set(asked)), 41)


if __name__ == "__main__":
    unittest.main(verbosity=2)
