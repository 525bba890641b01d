#!/usr/bin/env python3
"""Runs tzmark bench on little data and checks its output, its documents and its errors."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path
from typing import Any

import jsonschema

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
TZMARK = Path(os.environ["TZMARK_BUILD_DIR"]) / "bin" / "tzmark"
MICRO = TZMARK.with_name("tzmark-bench-micro")
SCHEMA = json.loads((SOURCE / "reports/schema/bench.schema.json").read_text())
# The members of the context that programs which read the format of Google Benchmark may expect.
GOOGLE_CONTEXT = (
    *("date", "host_name", "executable", "num_cpus", "mhz_per_cpu"),
    *("cpu_scaling_enabled", "caches", "load_avg", "library_build_type"),
)


class BenchTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)

    def bench(
        self, *arguments: str, status: int = 0
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [TZMARK, "bench", *arguments], capture_output=True, text=True, timeout=1800
        )
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def test_errors_of_the_result_name_it(self) -> None:
        fifo = self.directory / "result.json"
        os.mkfifo(fifo)
        done = self.bench("--dir", str(self.directory), "--json", str(fifo), status=3)
        self.assertIn(f"{fifo}: only a regular file can be replaced", done.stderr)
        program = Path(shutil.copy(TZMARK, self.directory))
        done = self.bench(
            *("against", str(program), "--dir", str(self.directory)),
            *("--json", str(program)),
            status=2,
        )
        self.assertIn("would replace", done.stderr)
        fifo.unlink()

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

        quick = (
            *("--scale", "1MiB", "--rounds", "6", "--io", "pwrite", "--op", "read"),
            *("--no-raw", "--no-ceilings"),
        )
        run = self.directory / "run.json"
        self.bench("--dir", str(self.directory), "--json", str(run), *quick)
        other = self.directory / "other.json"
        self.bench("--dir", str(self.directory), "--json", str(other), *quick)
        done = subprocess.run(
            [TZMARK, "compare", run, other, "--force", "--json", fifo],
            preexec_fn=limit,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f"{fifo}: ", done.stderr)

    def document(self, *arguments: str, status: int = 0) -> dict[str, Any]:
        result = self.directory / "result.json"
        where = ("--dir", str(self.directory), "--json", str(result))
        self.bench(*arguments, *where, status=status)
        document = json.loads(result.read_text())
        jsonschema.validate(document, SCHEMA)
        # The temporary directory is removed.
        self.assertEqual(os.listdir(self.directory), ["result.json"])
        return document

    def test_takes_the_settings_of_a_profile(self) -> None:
        settings = {"io": "pwrite", "block_bytes": 65536, "threads": 1}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as profile:
            document = {"schema_version": 1, "kind": "profile", "save": settings}
            json.dump(document, profile)
            profile.flush()
            small = ("--scale", "1MiB", "--rounds", "1", "--profile", profile.name)
            measured = self.document("--op", "write", "--no-raw", *small)
            codec = [r for r in measured["results"] if r["subject"] == "codec"]
            self.assertEqual(len(codec), 1)
            self.assertEqual(codec[0]["io"]["actual"], "pwrite")
            self.assertEqual(codec[0]["block_bytes"], 65536)
            here = ("--dir", str(self.directory))
            refused = self.bench(*here, "--op", "read", *small, status=2)
            self.assertIn("the profile has no settings for", refused.stderr)

    def test_leaves_out_ceilings(self) -> None:
        small = ("--scale", "1MiB", "--rounds", "1", "--io", "pwrite", "--op", "read")
        for options, expected in ((("--no-ceilings",), False), ((), True)):
            rungs = {
                rung["rung"] for rung in self.document(*small, *options)["ceilings"]
            }
            self.assertEqual("memcpy" in rungs, expected, options)
            self.assertIn("path-read/pwrite", rungs)

    def test_lists_the_paths_with_reasons(self) -> None:
        listed = self.bench("--list-io").stdout
        for path in ("pwrite", "buffered", "direct", "mmap", "uring", "gpudirect"):
            self.assertRegex(listed, rf"(?m)^{path} ")
        self.assertEqual(
            listed.count("available"), len(listed.splitlines()) // 2, listed
        )

    def test_measures_each_path_in_each_round(self) -> None:
        document = self.document(
            *("--workload", "mixed", "--scale", "4MiB", "--rounds", "6"),
            *("--io", "pwrite,mmap", "--verify", "none,both", "--block", "256KiB,1MiB"),
        )
        results = {result["id"]: result for result in document["results"]}
        self.assertEqual(len(results), len(document["results"]), "ids differ")
        # Two paths and blocks; reads into two kinds of pages, and writes; two verifications of the codec and one raw.
        self.assertEqual(len(results), 2 * 2 * (2 + 1) * 3)
        for name, result in results.items():
            self.assertTrue(result["verified_first"], name)
            self.assertEqual(result["io"]["requested"], result["io"]["actual"])
            self.assertEqual([s["round"] for s in result["samples"]], list(range(6)))
            rate = result["rate"]
            self.assertLessEqual(rate["low"], rate["median"])
            self.assertLessEqual(rate["median"], rate["high"])
            by_hand = sorted(
                result["bytes"] * 1e9 / sample["elapsed_ns"]
                for sample in result["samples"]
            )
            self.assertAlmostEqual(
                rate["median"],
                (by_hand[2] + by_hand[3]) / 2,
                delta=rate["median"] / 1e6,
            )
            if result["op"] == "read":
                self.assertTrue(
                    all(s["resident_share"] > 0.98 for s in result["samples"]), name
                )
                self.assertIsNone(result["durable_rate"])
            else:
                self.assertLessEqual(
                    result["durable_rate"]["median"], rate["median"], name
                )
            memory = "small-pages" if result["pages"]["requested"] == "small" else "thp"
            self.assertEqual(result["memory"], memory, name)
            if memory == "small-pages":
                self.assertEqual(result["pages"]["actual"], "small", name)
            if result["subject"] == "raw":
                latency = result["latency_ns"]
                self.assertGreater(latency["count"], 0)
                # At most 96 transfers: one percentile has ten slower ones.
                known = [latency[p] is not None for p in ("p50", "p90", "p99", "p99_9")]
                self.assertEqual(known, [latency["count"] >= 20, False, False, False])
                # Huge pages are touched before a transfer starts.
                touches = result["op"] == "read" and memory == "small-pages"
                self.assertEqual(latency["first_touch"], touches)
            else:
                self.assertIn("rung", result["bound_by"])
        rungs = {rung["rung"] for rung in document["ceilings"]}
        for rung in ("memcpy", "crc32", "sha256", "secretbox", "path-read/mmap"):
            self.assertIn(rung, rungs)
        self.assertEqual(document["workloads"][0]["name"], "mixed")

    def test_fio_and_what_does_the_same_are_comparable(self) -> None:
        if not shutil.which("fio"):
            self.skipTest("fio is not installed")
        document = self.document(
            *("--workload", "one-huge", "--scale", "40MiB", "--rounds", "2", "--fio"),
            *("--io", "direct", "--block", "2MiB", "--depth", "3", "--threads", "2"),
        )
        pairs: dict[tuple[str, str], dict[str, Any]] = {}
        for result in document["results"]:
            if result["memory"] == "sink":
                key = (result["op"], result["pages"]["requested"])
                pairs.setdefault(key, {})[result["subject"]] = result
        self.assertEqual(len(pairs), 4)
        for key, pair in pairs.items():
            # Six whole blocks for each of three jobs.
            self.assertEqual({one["bytes"] for one in pair.values()}, {36 << 20}, key)
            for subject in ("raw", "fio"):
                latency = pair[subject]["latency_ns"]
                self.assertEqual(latency["count"], 2 * 18, "of both rounds")
                self.assertFalse(latency["first_touch"])
            if key[1] == "small":
                self.assertEqual(pair["raw"]["pages"]["actual"], "small")

    def test_says_what_the_figures_do_not_show(self) -> None:
        document = self.document(
            *("--workload", "gpt2", "--scale", "4MiB", "--rounds", "1"),
            *("--io", "direct", "--op", "read", "--no-raw"),
        )
        said = "\n".join(document["warnings"])
        self.assertIn("gpt2 is scaled down from 522 to 3 MiB", said)
        self.assertIn("the cache of the device", said)
        self.assertEqual(
            "virtual machine" in said, bool(document["machine"]["hypervisor"])
        )
        (workload,) = document["workloads"]
        self.assertAlmostEqual(
            workload["scaled_from"] * workload["scaled"], workload["data_bytes"], 0
        )
        self.assertEqual(workload["scaled_from"] >> 20, 522)
        for result in document["results"]:
            self.assertIn("gpt2/3MiB", result["id"])

    def test_runs_each_subject_for_a_duration(self) -> None:
        document = self.document(
            *("soak", "--workload", "mixed", "--scale", "1MiB", "--duration", "2s"),
            *("--io", "pwrite", "--memory", "sink"),
        )
        self.assertEqual((document["duration_s"], document["rounds"]), (2, 0))
        self.assertEqual(len(document["results"]), 4)
        for result in document["results"]:
            steady = result["steady"]
            self.assertGreaterEqual(steady["elapsed_ns"], 2e9)
            # At most 500 samples, evenly spread over the operations.
            places = [sample["position"] for sample in result["samples"]]
            step = places[1]
            self.assertEqual(places, [step * i for i in range(len(places))])
            self.assertLess(len(places), 500)
            self.assertLess(places[-1], steady["operations"])
            self.assertLessEqual(steady["operations"], places[-1] + step)
            # Every operation moved the same bytes in the time that it ran.
            busy_s = steady["busy_share"] * steady["elapsed_ns"] / 1e9
            moved = steady["operations"] * result["bytes"]
            self.assertAlmostEqual(steady["rate"] / (moved / busy_s), 1, 6)
            if step == 1:
                times = [
                    sample["elapsed_ns"] + (sample["sync_ns"] or 0)
                    for sample in result["samples"]
                ]
                self.assertAlmostEqual(sum(times) / 1e9 / busy_s, 1, 6)
            series, window = steady["series"], steady["window"]
            self.assertEqual(series["bucket_ns"], 1_000_000_000)
            self.assertEqual(len(series["rates"]), steady["elapsed_ns"] // 10**9)
            known = [rate for rate in series["rates"] if rate is not None]
            self.assertTrue(known)
            if len(known) == len(series["rates"]):
                self.assertLessEqual(min(known), window["rate"])
                self.assertGreaterEqual(max(known), window["rate"])
            self.assertEqual(window["to_ns"], len(series["rates"]) * 10**9)
            self.assertEqual(steady["verdict"], "too short")
            self.assertRegex(steady["why"], r"has \d of the 10 parts of 1 s")
            warm = [note for note in result["notes"] if "page cache" in note]
            self.assertEqual(len(warm), result["op"] == "read")
            if l3_bytes := document["machine"]["l3_bytes"]:
                small = [note for note in result["notes"] if "L3 cache" in note]
                self.assertEqual(len(small), result["bytes"] < 2 * l3_bytes)
        # Ceilings are loops that cannot slow down.
        memcpy = next(c for c in document["ceilings"] if c["rung"] == "memcpy")
        self.assertEqual(memcpy["rate"]["samples"], 7)

    def test_a_long_run_shows_what_moves(self) -> None:
        words = ("soak", "--dir", str(self.directory), "--workload", "mixed")
        words += (
            "--scale",
            "1MiB",
            "--duration",
            "2s",
            "--io",
            "pwrite",
            "--op",
            "read",
            "--no-raw",
        )
        words += ("--memory", "sink", "--cache", "warm")
        shown = self.bench(*words, "--progress")
        self.assertRegex(
            shown.stderr, r"(?m)^\033\[K1 of 2 s: [\d.]+ GB/s, .*1 of 1: codec read"
        )
        silent = self.bench(*words)
        self.assertEqual(silent.stderr, "")
        for done in (shown, silent):
            self.assertRegex(
                done.stdout, r"(?m)^codec read mixed\S* pwrite .* too short: "
            )
            self.assertIn("the test needs 20 s or more", done.stdout)
            self.assertNotIn("read from the page cache", done.stdout)
        self.assertEqual(os.listdir(self.directory), [])

    def test_a_long_run_of_what_is_not_available(self) -> None:
        # Too little data for fio, which needs a block per transfer.
        document = self.document(
            *("soak", "--workload", "mixed", "--scale", "1MiB", "--duration", "1s"),
            "--fio",
            *("--op", "read", "--memory", "sink", "--no-raw"),
        )
        missing = [r for r in document["results"] if not r["samples"]]
        self.assertEqual({r["subject"] for r in missing}, {"raw", "fio"})
        for result in missing:
            self.assertIsNone(result["steady"])
            self.assertIn("not measured: ", result["notes"][-1])

    def google(self, *arguments: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the output of --format google and the result of the same run in tzmark's own schema."""
        result = self.directory / "result.json"
        done = self.bench(
            *("--dir", str(self.directory), "--json", str(result)),
            *("--format", "google", "--workload", "mixed", "--scale", "1MiB"),
            *arguments,
        )
        document = json.loads(result.read_text())
        jsonschema.validate(document, SCHEMA)
        return json.loads(done.stdout), document

    def test_google_format_is_that_of_google_benchmark(self) -> None:
        google, _ = self.google("--rounds", "3", "--io", "pwrite")
        # The output of Google Benchmark itself.
        micro = subprocess.run(
            [MICRO, "--benchmark_format=json", "--benchmark_repetitions=3"]
            + ["--benchmark_min_time=0.0001", "--benchmark_filter=^crc32/64$"],
            capture_output=True,
            text=True,
            check=True,
        )
        genuine = json.loads(micro.stdout)
        self.assertEqual(set(google), set(genuine))
        # Releases add members to their context; these are those of all of them.
        for name in GOOGLE_CONTEXT:
            found = google["context"][name]
            self.assertIs(type(found), type(genuine["context"][name]), name)
        for run_type, aggregate in (
            ("iteration", None),
            ("aggregate", "mean"),
            ("aggregate", "median"),
            ("aggregate", "stddev"),
        ):
            expected, found = (
                [
                    {name: type(value) for name, value in entry.items()}
                    for entry in document["benchmarks"]
                    if (entry["run_type"], entry.get("aggregate_name"))
                    == (run_type, aggregate)
                ]
                for document in (genuine, google)
            )
            self.assertTrue(found)
            for members in found:
                # A user counter of writes.
                members.pop("durable_bytes_per_second", None)
                self.assertEqual(members, expected[0])

    def test_google_format_has_the_numbers_of_the_result(self) -> None:
        google, document = self.google(
            *("--rounds", "3", "--io", "pwrite", "--op", "write", "--no-raw")
        )
        (result,) = document["results"]
        entries = [e for e in google["benchmarks"] if e["run_name"] == result["id"]]
        self.assertEqual(
            [e["name"] for e in entries],
            [result["id"]] * 3
            + [result["id"] + "_" + name for name in ("mean", "median", "stddev")],
        )
        times = [sample["elapsed_ns"] for sample in result["samples"]]
        self.assertEqual([e["repetition_index"] for e in entries[:3]], [0, 1, 2])
        self.assertEqual([e["real_time"] for e in entries[:3]], times)
        for entry, sample in zip(entries, result["samples"]):
            self.assertEqual(entry["cpu_time"], sample["cpu_ns"])
            rate = result["bytes"] * 1e9 / sample["elapsed_ns"]
            self.assertAlmostEqual(entry["bytes_per_second"] / rate, 1)
        aggregates = {e["aggregate_name"]: e for e in entries[3:]}
        for name in ("mean", "median", "stdev"):
            by_hand = getattr(statistics, name)(times)
            found = aggregates["stddev" if name == "stdev" else name]["real_time"]
            self.assertAlmostEqual(found / by_hand, 1)
        self.assertAlmostEqual(
            aggregates["median"]["durable_bytes_per_second"]
            / result["durable_rate"]["median"],
            1,
        )
        names = {entry["run_name"] for entry in google["benchmarks"]}
        self.assertTrue(any("memcpy" in name for name in names), names)

    def test_google_format_of_one_round_and_of_what_was_not_measured(self) -> None:
        # Too little data for fio, which needs a block per transfer.
        google, document = self.google("--rounds", "1", "--fio")
        kinds = {entry["run_type"] for entry in google["benchmarks"]}
        self.assertEqual(kinds, {"iteration"})
        missing = [r["id"] for r in document["results"] if not r["samples"]]
        self.assertTrue(missing)
        for entry in google["benchmarks"]:
            if entry["name"] not in missing:
                self.assertNotIn("error_occurred", entry)
                continue
            self.assertTrue(entry["error_occurred"])
            self.assertIn("TZE-AVL-001", entry["error_message"])
            self.assertEqual((entry["real_time"], entry["cpu_time"]), (0, 0))

    def test_encrypts_and_reads_to_a_sink(self) -> None:
        document = self.document(
            *(
                "--workload",
                "one-huge",
                "--scale",
                "5MiB",
                "--rounds",
                "1",
                "--encrypt",
            ),
            *("--io", "pwrite", "--memory", "sink", "--no-raw"),
        )
        self.assertEqual([r["encrypted"] for r in document["results"]], [True, True])
        self.assertEqual(document["results"][0]["memory"], "sink")
        self.assertIsNone(document["results"][0]["rate"]["low"], "one round has none")

    def test_checks_that_every_path_gives_the_same_bytes(self) -> None:
        document = self.document("check", "bytes", "--rounds", "1")
        verdicts = {check["name"]: check["verdict"] for check in document["checks"]}
        self.assertEqual(verdicts["pwrite writes and reads the same bytes"], "pass")
        self.assertNotIn("fail", verdicts.values())

    def test_checks_are_of_the_paths_that_were_named(self) -> None:
        limits = ("--scale", "4MiB", "--rounds", "1")
        document = self.document(
            *("check", "raw", "hash", "bytes", "--io", "pwrite,buffered"), *limits
        )
        of_paths = [
            check["name"].split()[:2]
            for check in document["checks"]
            if " in lanes " not in check["name"]
        ]
        self.assertLessEqual(
            {tuple(words) for words in of_paths},
            {("codec", "pwrite"), ("codec", "buffered"), ("pwrite", "writes")}
            | {("buffered", "writes")}
            | {(io, do) for io in ("pwrite", "buffered") for do in ("read,", "write,")},
        )
        self.assertEqual(len(of_paths), 2 * 2 + 2 * 8 + 2)
        scratch = ("--dir", str(self.directory))
        self.bench("check", "bytes", *limits, *scratch, "--io", "nope", status=2)

    def test_checks_leave_out_what_needs_a_name(self) -> None:
        document = self.document(*("check", "raw", "--scale", "4MiB", "--rounds", "1"))
        names = {check["name"].split()[1] for check in document["checks"]}
        self.assertIn("uring-direct", names)
        self.assertTrue(names.isdisjoint({"uring-sqpoll", "pwrite-dontcache"}))

    def test_a_flush_at_the_close_is_in_the_time_of_every_write(self) -> None:
        # The loader splits the variable at spaces, which the build directory may have.
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        built = Path(os.environ["TZMARK_BUILD_DIR"], "tests/fake")
        library = shutil.copy(built / "libtzmark_flush_at_close.so", directory.name)
        flush_ns = 300_000_000
        for flushed_at, member in (("close", "elapsed_ns"), ("fsync", "sync_ns")):
            environment = {
                "LD_PRELOAD": library,
                # With the sanitizer, its library is no longer the first one.
                "ASAN_OPTIONS": "verify_asan_link_order=0",
            }
            if flushed_at == "close":
                environment["TZMARK_FLUSH_AT_CLOSE"] = "1"
            with unittest.mock.patch.dict(os.environ, environment):
                document = self.document(
                    *("--workload", "one-huge", "--scale", "8MiB", "--rounds", "1"),
                    *("--io", "pwrite,direct", "--op", "write"),
                )
            self.assertEqual(len(document["results"]), 4)
            for result in document["results"]:
                (sample,) = result["samples"]
                self.assertGreaterEqual(sample[member], flush_ns, result["id"])
            (self.directory / "result.json").unlink()

    def test_ids_are_unique_where_groups_measure_the_same(self) -> None:
        document = self.document(
            *("check", "raw", "hash", "--scale", "4MiB", "--rounds", "1")
        )
        ids = [result["id"] for result in document["results"]]
        self.assertEqual(len(set(ids)), len(ids))
        rungs = {ceiling["rung"] for ceiling in document["ceilings"]}
        for check in document["checks"]:
            for measured in check["measured"]:
                if measured.startswith("ceiling "):
                    self.assertIn(measured.split()[3], rungs)
                else:
                    self.assertIn(measured, ids)

    def test_a_path_that_is_not_there_is_an_error(self) -> None:
        where = ("--dir", str(self.directory), "--workload", "mixed", "--scale", "1MiB")
        refused = self.bench(*where, "--io", "gpudirect", status=4).stderr
        self.assertRegex(refused, "TZE-AVL-001.*gpudirect")
        refused = self.bench(*where, "--io", "floppy", status=2).stderr
        self.assertIn("there is no I/O path 'floppy'", refused)
        self.assertEqual(os.listdir(self.directory), [])

    def fakes(self) -> dict[str, str]:
        """Returns the environment that makes this machine appear to have a GPU and libcufile."""
        fakes = Path(os.environ["TZMARK_BUILD_DIR"]) / "tests/fake"
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        root = Path(directory.name)
        for name in ("run/udev", "proc"):
            (root / name).mkdir(parents=True)
        (root / "proc/modules").touch()
        return {
            "TZMARK_CUDA_LIBRARY": str(fakes / "libtzmark_fake_cuda.so"),
            "TZMARK_CUFILE_LIBRARY": str(fakes / "libtzmark_fake_cufile.so"),
            "TZMARK_SYSTEM_ROOT": str(root),
        }

    def test_gpudirect_attests_the_way_that_bytes_took(self) -> None:
        environment = self.fakes()
        result = self.directory / "result.json"
        work = self.directory / "work"
        with unittest.mock.patch.dict(os.environ, environment):
            self.bench(
                *("--dir", str(work), "--json", str(result), "--io", "gpudirect"),
                *("--workload", "mixed", "--scale", "5MiB", "--rounds", "2"),
            )
        document = json.loads(result.read_text())
        jsonschema.validate(document, SCHEMA)
        for entry in document["results"]:
            self.assertEqual(
                (entry["subject"], entry["memory"]), ("raw", "device"), entry["id"]
            )
            seen = entry["gpudirect"]
            self.assertEqual(seen["source"], "cuFileGetStatsL3")
            moved = seen["p2p_bytes"] + seen["nvfs_bytes"] + seen["posix_bytes"]
            self.assertEqual(moved, entry["bytes"])
        self.assertEqual([e["op"] for e in document["results"]], ["read", "write"])

    def test_the_codec_moves_bytes_to_and_from_gpu_memory(self) -> None:
        with unittest.mock.patch.dict(os.environ, self.fakes()):
            # The fake GPU runs on the CPU and is slow.
            document = self.document(
                *("--memory", "device", "--io", "gpudirect,pwrite"),
                *("--verify", "none,crc32", "--workload", "one-huge"),
                *("--scale", "5MiB", "--rounds", "1", "--gpu-set", "2MiB"),
            )
        codec = [e for e in document["results"] if e["subject"] == "codec"]
        self.assertEqual(
            sorted((e["io"]["actual"], e["op"], e["verification"]) for e in codec),
            sorted(
                (io, op, verification)
                for io in ("gpudirect", "pwrite")
                for op in ("read", "write")
                for verification in ("none", "crc32")
            ),
        )
        for entry in codec:
            self.assertEqual(entry["memory"], "device", entry["id"])
            self.assertTrue(entry["verified_first"], entry["id"])
            if entry["io"]["actual"] != "gpudirect":
                self.assertIsNone(entry["gpudirect"], entry["id"])
                continue
            self.assertEqual(entry["gpudirect"]["source"], "cuFileGetStatsL3")
            if entry["op"] == "read":
                # One copy to the GPU fills four huge pages, but for the two pages of room of its buffer.
                self.assertEqual(entry["block_bytes"], (8 << 20) - (8 << 10))
        rungs = {rung["rung"] for rung in document["ceilings"]}
        kernels = {
            f"gpu-{what}"
            for what in (
                *("memory-read", "crc32", "crc32-kernel"),
                *("secretbox", "secretbox-kernel"),
            )
        }
        # A build without nvcc has no kernels and must not report their rates.
        measured = kernels if self.has_kernels() else set()
        self.assertLessEqual({"host-to-device", "gpu-memory"} | measured, rungs)
        self.assertEqual(rungs & kernels, measured)
        notes = {rung["rung"]: rung["note"] for rung in document["ceilings"]}
        self.assertEqual(notes["host-to-device"], "2097152 bytes in pieces of 2097152")

    def has_kernels(self) -> bool:
        said = subprocess.run([TZMARK, "--version"], capture_output=True, text=True)
        self.assertIn("CUDA: ", said.stdout)
        return "CUDA: kernels" in said.stdout

    def peers_with_a_gpu(self, damaged: str = "") -> dict[str, str]:
        """Returns the environment in which bench/testing/gpu_peer.py is the Python of all loaders into GPU memory."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        python = Path(directory.name) / "gpu/bin/python"
        python.parent.mkdir(parents=True)
        stand_in = Path(__file__).resolve().parents[1] / "testing/gpu_peer.py"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -B "{stand_in}" "$@"\n')
        python.chmod(0o755)
        return {"TZMARK_PEERS": directory.name, "GPU_PEER_DAMAGED": damaged}

    def test_loaders_into_gpu_memory_are_compared(self) -> None:
        environment = self.fakes() | self.peers_with_a_gpu("runai_uring")
        with unittest.mock.patch.dict(os.environ, environment):
            os.environ.pop("TZMARK_PYTHON", None)
            document = self.document(
                *("check", "gpu", "--scale", "1MiB", "--gpu-set", "1MiB"),
                *("--budget", "20s"),
                status=1,
            )
        checks = {check["name"]: check for check in document["checks"]}
        first = checks["Python to the GPU, first load of a process against later ones"]
        # Every first load is that of another process.
        self.assertEqual(first["ratio"]["median"], 0.5)
        self.assertEqual(first["measured"], ["0.0040, 0.0040, 0.0040 s"])
        self.assertEqual(first["verdict"], "fail")
        damaged = checks["Python to the GPU, safetensors, against runai_uring"]
        self.assertEqual(damaged["verdict"], "not measured")
        self.assertIn("other bytes of", damaged["note"])
        for loader in (
            *("instanttensor", "instanttensor_mmap", "fastsafetensors", "runai"),
        ):
            check = checks[f"Python to the GPU, safetensors, against {loader}"]
            self.assertAlmostEqual(check["ratio"]["median"], 0.5)
        for name in ("Python to the GPU", "read to the GPU against tensorizer"):
            self.assertNotEqual(checks[name]["verdict"], "not measured", name)
        (stall,) = (
            c
            for n, c in checks.items()
            if n.startswith("pinned copy against the stall")
        )
        self.assertEqual(stall["ratio"]["samples"], 4)
        self.assertNotEqual(stall["verdict"], "not measured")
        (memory,) = (
            c for n, c in checks.items() if n.startswith("host memory of a load")
        )
        self.assertEqual(memory["verdict"], "pass")
        peers = [e for e in document["results"] if e["subject"] == "peer"]
        for entry in peers:
            for sample in entry["samples"]:
                self.assertEqual(sample["peak_memory_bytes"], 4096, entry["id"])

    def test_loaders_into_gpu_memory_take_part(self) -> None:
        environment = self.fakes() | self.peers_with_a_gpu()
        with unittest.mock.patch.dict(os.environ, environment):
            os.environ.pop("TZMARK_PYTHON", None)
            document = self.document(
                *("--memory", "device", "--peers", "--op", "read", "--io", "pwrite"),
                *("--workload", "one-huge", "--scale", "1MiB", "--rounds", "1"),
                *("--gpu-set", "1MiB"),
            )
        measured = {
            entry["peer"]["name"]
            for entry in document["results"]
            if entry["subject"] == "peer" and entry["samples"]
        }
        loaders = {"instanttensor", "instanttensor_mmap", "fastsafetensors"}
        self.assertLessEqual(loaders | {"runai", "runai_uring"}, measured)

    def test_gpu_memory_without_a_gpu_is_an_error(self) -> None:
        nowhere = {"TZMARK_CUDA_LIBRARY": "/nowhere/libcuda.so"}
        with unittest.mock.patch.dict(os.environ, nowhere):
            refused = self.bench(
                *("--dir", str(self.directory), "--memory", "device"), status=4
            ).stderr
        self.assertRegex(refused, "TZE-AVL-001.*there is no CUDA driver")

    def test_a_signal_leaves_no_files(self) -> None:
        place = self.directory / "place"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen(
                [
                    TZMARK,
                    "bench",
                    "--dir",
                    place,
                    "--scale",
                    "64MiB",
                    "--rounds",
                    "1000",
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as run:
                for _ in range(6000):
                    if run.poll() is not None or list(place.glob("*/*")):
                        break
                    time.sleep(0.01)
                run.send_signal(number)
                self.assertEqual(run.wait(60), -number)
            self.assertEqual(os.listdir(place), [])

    def interrupt(
        self, word: str, *words: str | Path, kind: str = "bench"
    ) -> tuple[str, dict[str, Any]]:
        """Sends SIGINT when the progress shows the word; returns what was printed and the result."""
        result = self.directory / "result.json"
        place = self.directory / "place"
        with subprocess.Popen(
            [TZMARK, "bench", *words, "--dir", place, "--progress", "--json", result],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as run:
            seen = ""
            while word not in seen:
                character = run.stderr.read(1)
                self.assertTrue(character, seen)
                seen += character
            run.send_signal(signal.SIGINT)
            output, _ = run.communicate(timeout=120)
        self.assertEqual(run.returncode, -signal.SIGINT)
        self.assertEqual(os.listdir(place), [])
        document = json.loads(result.read_text())
        schema = SOURCE / f"reports/schema/{kind}.schema.json"
        jsonschema.validate(document, json.loads(schema.read_text()))
        self.assertFalse(document["is_complete"])
        result.unlink()
        return output, document

    def test_the_first_signal_keeps_the_finished_rounds(self) -> None:
        little = ("--workload", "mixed", "--scale", "1MiB", "--io", "pwrite")
        output, document = self.interrupt("round 4 of", *little, "--rounds", "2000")
        rounds = document["rounds"]
        self.assertGreaterEqual(rounds, 3)
        self.assertLess(rounds, 2000)
        for said in (output, " ".join(document["warnings"])):
            self.assertIn(f"interrupted after {rounds} of 2000 rounds", said)
        for result in document["results"]:
            self.assertEqual(len(result["samples"]), rounds, result["id"])
        self.assertIn("codec read", output)
        # Where no round is finished, the others say why they have nothing.
        _, document = self.interrupt("verify codec", *little, "--rounds", "2000")
        self.assertTrue(document["skipped"])
        for one in document["skipped"]:
            self.assertIn("interrupted", one["reason"])
        google, _ = self.interrupt(
            "round 2 of", *little, "--rounds", "2000", "--format", "google"
        )
        self.assertTrue(json.loads(google)["benchmarks"])

    def test_the_first_signal_keeps_long_runs_checks_and_builds(self) -> None:
        little = ("--workload", "mixed", "--scale", "1MiB", "--io", "pwrite")
        _, document = self.interrupt("2 of 60 s", "soak", *little)
        measured = [one for one in document["results"] if one["samples"]]
        self.assertEqual(len(measured), 1)
        self.assertGreater(measured[0]["steady"]["operations"], 0)
        words = ("check", "raw", "bytes", "--scale", "8MiB", "--io", "pwrite")
        output, document = self.interrupt("lap 3", *words)
        verdicts = {one["item"]: one["verdict"] for one in document["checks"]}
        self.assertEqual(verdicts["6"], "pass")
        self.assertIn("interrupted", output)
        output, document = self.interrupt(
            "processes 2", "against", TZMARK, *little, kind="bench-against"
        )
        laps = [row["processes"] + row["disturbed_laps"] for row in document["rows"]]
        self.assertGreater(sum(laps), 0)
        self.assertIn("interrupted", output)

    def test_two_signals_leave_no_files(self) -> None:
        """Whichever threads get them, and also if the second one comes while the first one removes the files."""
        place = self.directory / "place"
        for number in (signal.SIGHUP, signal.SIGINT) * 5:
            with subprocess.Popen(
                [TZMARK, "bench", "--dir", place, "--scale", "64MiB"]
                + ["--rounds", "1000"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as run:
                while run.poll() is None and len(list(place.glob("*/*"))) < 2:
                    time.sleep(0.01)
                run.send_signal(number)
                run.send_signal(number)
                if number == signal.SIGINT:
                    time.sleep(0.25)
                    run.send_signal(number)
                    run.send_signal(number)
                self.assertEqual(run.wait(60), -number)
            self.assertEqual(os.listdir(place), [])

    def test_a_signal_that_is_ignored_stays_so(self) -> None:
        place = self.directory / "place"
        with subprocess.Popen(
            [
                "nohup",
                TZMARK,
                "bench",
                "--dir",
                place,
                "--scale",
                "1MiB",
                "--rounds",
                "2",
            ]
            + ["--io", "pwrite", "--op", "read", "--no-raw"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as run:
            while run.poll() is None and not list(place.glob("*/*")):
                time.sleep(0.01)
            run.send_signal(signal.SIGHUP)
            self.assertEqual(run.wait(300), 0)
        self.assertEqual(os.listdir(place), [])

    def test_wrong_usage(self) -> None:
        for option in ("--dir", "--json", "--io", "--layout"):
            for words in ((option, ""), (option + "=",)):
                refused = self.bench(*words, status=2).stderr
                self.assertIn(f"{option}: the value is empty", refused)
        self.assertIn(
            "did you mean '--workload'", self.bench("--wrkload", status=2).stderr
        )
        self.assertIn("--dir", self.bench(status=2).stderr)
        for value, complaint in (
            ("", "the value is empty"),
            # The words are the library's, the numbers are ours.
            ("0", "86400"),
            ("0s", "86400"),
            ("25h", "86400"),
            ("-3s", ""),
            ("5x", "x"),
            ("1.5s", "1.5"),
        ):
            refused = self.bench("soak", "--duration", value, status=2).stderr
            self.assertRegex(refused, rf"\A.*--duration: .*{complaint}.*\n\Z")
        where = ("--dir", str(self.directory))
        for words, complaint in (
            (("chek",), "did you mean 'check'"),
            (("check", "6", *where), "6 not in"),
            (("check", "--op", "read", *where), "unknown option '--op'"),
            (("soak", "--rounds", "2", *where), "unknown option '--rounds'"),
            (("check",), "--dir"),
            ((*where, "check"), "check excludes --dir"),
        ):
            self.assertIn(complaint, self.bench(*words, status=2).stderr)
        self.assertIn("gpt2", self.bench(*where, "--workload", "gpt5", status=2).stderr)
        self.assertIn("v9", self.bench(*where, "--layout", "v9", status=2).stderr)
        self.assertIn(
            "TZE-ENV-001", self.bench("--dir", "/proc/nowhere", status=3).stderr
        )


class Reports(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)

    def test_nothing_is_imported_from_the_current_directory(self) -> None:
        mark = self.directory / "imported"
        (self.directory / "sitecustomize.py").write_text(f"open({str(mark)!r}, 'w')")
        (self.directory / "none").mkdir()
        # An empty entry is the current directory.
        for path in (":/none", "/none:", ".", "none::/none"):
            for command in ("report", "history"):
                done = subprocess.run(
                    [TZMARK, command, "--help"],
                    cwd=self.directory,
                    env={**os.environ, "PYTHONPATH": path},
                    capture_output=True,
                    text=True,
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertFalse(mark.exists(), path)
        # What was named stays.
        subprocess.run(
            [TZMARK, "report", "--help"],
            env={**os.environ, "PYTHONPATH": f":{self.directory}"},
            capture_output=True,
        )
        self.assertTrue(mark.exists())


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
