#!/usr/bin/env python3
"""Runs tzmark bench and tune on mounts and in cgroups that people really have: FUSE, overlays, file systems in memory.

What cannot be measured there is one line with its reason; the rest of the run goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tests/faults"))

from mounts import NotHere, fault_fs, mounted  # noqa: E402

TZMARK = Path(os.environ["TZMARK_BUILD_DIR"]) / "bin" / "tzmark"
SCHEMAS = {
    name: json.loads((SOURCE / f"reports/schema/{name}.schema.json").read_text())
    for name in ("bench", "tune", "bench-against")
}
BENCH = ("--workload", "mixed", "--scale", "2MiB", "--rounds", "1")
TUNE = ("--workload", "mixed", "--scale", "2MiB", "--budget", "6s")


class MountTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark-test-")
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        self.result = self.scratch / "result.json"
        self.place = self.scratch / "mount"
        self.below = self.scratch / "below"
        self.place.mkdir()
        self.below.mkdir()
        self.mounts = contextlib.ExitStack()
        self.addCleanup(self.mounts.close)

    def mount(self, mount: contextlib.AbstractContextManager[Path]) -> None:
        try:
            self.mounts.enter_context(mount)
        except NotHere as missing:
            self.skipTest(str(missing))

    def fuse(self, **faults: str) -> None:
        self.mount(fault_fs(self.below, self.place, **faults))

    def run_tzmark(self, *words: str | Path, status: int = 0) -> str:
        done = subprocess.run(
            [TZMARK, *words, "--json", self.result],
            capture_output=True,
            text=True,
            timeout=600,
        )
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def document(self, kind: str) -> dict[str, Any]:
        document = json.loads(self.result.read_text())
        jsonschema.validate(document, SCHEMAS[kind])
        self.assertEqual(os.listdir(self.place), [])
        return document

    def bench(self, *words: str, status: int = 0) -> dict[str, Any]:
        self.output = self.run_tzmark(
            "bench", "--dir", self.place, *BENCH, *words, status=status
        )
        return self.document("bench")

    def tune(self, *words: str) -> dict[str, Any]:
        self.output = self.run_tzmark("tune", self.place, *TUNE, *words)
        return self.document("tune")

    def results(self, document: dict[str, Any]) -> dict[tuple[str, str], bool]:
        """Whether reads and writes of each path were measured by the codec."""
        return {
            (result["op"], result["io"]["requested"]): bool(result["samples"])
            for result in document["results"]
            if result["subject"] == "codec"
        }

    def skipped(self, document: dict[str, Any], op: str) -> list[str]:
        """The reasons of the skipped results, each of which has its line."""
        for one in document["skipped"]:
            self.assertFalse(one["has_failed"], one)
            self.assertIn(f"{one['id']}", self.output)
        return [one["reason"] for one in document["skipped"] if f" {op} " in one["id"]]


class Fuse(MountTest):
    def test_without_keep_cache_there_are_no_warm_reads(self) -> None:
        self.fuse()
        document = self.bench()
        measured = self.results(document)
        self.assertFalse(measured["read", "pwrite"])
        self.assertTrue(measured["write", "pwrite"])
        reasons = self.skipped(document, "read")
        self.assertTrue(reasons)
        for reason in reasons:
            self.assertRegex(reason, "drops .* when it is opened .* keep_cache")
        self.assertEqual(self.skipped(document, "write"), [])
        self.assertTrue(document["is_complete"])
        # Zeros for its size are no size.
        self.assertIsNone(document["machine"]["storage"]["free_bytes"])
        # Nothing is left of what was named.
        self.bench("--op", "read", "--io", "pwrite", status=4)
        self.assertIn("keep_cache", self.output)
        cold = self.bench("--io", "pwrite", "--cache", "cold")
        self.assertTrue(all(self.results(cold).values()), self.output)

    def test_with_keep_cache_everything_is_measured(self) -> None:
        self.fuse(FS_KEEP_CACHE="1")
        document = self.bench("--io", "pwrite")
        self.assertTrue(all(self.results(document).values()), self.output)
        self.assertEqual(document["skipped"], [])

    def test_with_direct_io(self) -> None:
        self.fuse(FS_DIRECT_IO="1")
        document = self.bench()
        measured = self.results(document)
        self.assertTrue(measured["write", "pwrite"])
        self.assertFalse(measured["read", "pwrite"])
        self.assertFalse(measured["write", "mmap"])
        for reason in self.skipped(document, "read"):
            self.assertRegex(reason, "no warm read|cannot map files|direct I/O")
        cold = self.bench("--io", "pwrite", "--cache", "cold")
        self.assertTrue(all(self.results(cold).values()), self.output)
        for result in cold["results"]:
            if result["op"] == "read":
                self.assertEqual(result["samples"][0]["resident_share"], 0)

    def test_checks_go_on(self) -> None:
        self.fuse()
        self.run_tzmark(
            *("bench", "check", "raw", "--dir", self.place),
            *("--io", "pwrite", "--scale", "2MiB", "--rounds", "1"),
        )
        checks = {one["name"]: one for one in self.document("bench")["checks"]}
        read = checks["codec pwrite read against raw"]
        self.assertEqual(read["verdict"], "not measured")
        self.assertIn("keep_cache", read["note"])
        write = checks["codec pwrite write against raw"]
        self.assertEqual(write["ratio"]["samples"], 1)

    def test_builds_in_turn_go_on(self) -> None:
        self.fuse()
        # A busy machine needs longer until there is one process of each build.
        for budget_s in (8, 32, 128):
            output = self.run_tzmark(
                *("bench", "against", TZMARK, "--dir", self.place),
                *("--budget", f"{budget_s}s", "--scale", "2MiB"),
                *("--io", "pwrite", "--verify", "none", "--no-raw"),
                status=2,
            )
            rows = {
                row["id"].split()[1]: row
                for row in self.document("bench-against")["rows"]
            }
            if rows["write"]["processes"] > 0:
                break
        self.assertEqual(rows["read"]["verdict"], "not measured")
        self.assertIn("keep_cache", rows["read"]["why"])
        self.assertGreater(rows["write"]["processes"], 0)
        self.assertRegex(output, "codec read .* not measured: ")

    def test_tune_leaves_out_what_cannot_be(self) -> None:
        self.fuse()
        document = self.tune("--io", "pwrite")
        self.assertEqual(
            [task["task"] for task in document["tasks"]], ["load-cold", "save"]
        )
        (skipped,) = document["skipped"]
        self.assertEqual(skipped["task"], "load-warm")
        self.assertIn("keep_cache", skipped["reason"])
        self.assertIn("load-warm: not measured: ", self.output)
        for task in document["tasks"]:
            self.assertTrue(task["settings"][task["default"]]["samples"])
        self.assertIsNone(document["probe"]["free_bytes"])
        refused = self.run_tzmark(
            "tune", self.place, *TUNE, "--goal", "load", "--cache", "warm", status=4
        )
        self.assertIn("keep_cache", refused)

    def test_tune_with_direct_io(self) -> None:
        self.fuse(FS_DIRECT_IO="1")
        document = self.tune("--io", "pwrite")
        self.assertEqual(
            [task["task"] for task in document["tasks"]], ["load-cold", "save"]
        )


class KernelMounts(MountTest):
    def test_an_overlay_over_tmpfs_keeps_files_in_memory(self) -> None:
        self.mount(mounted("tmpfs", self.below))
        for name in ("upper", "lower", "work"):
            (self.below / name).mkdir()
        layers = ",".join(
            f"{option}={self.below / name}"
            for option, name in (
                ("lowerdir", "lower"),
                ("upperdir", "upper"),
                ("workdir", "work"),
            )
        )
        self.mount(mounted("overlay", self.place, "-o", layers))
        document = self.tune("--io", "pwrite")
        self.assertEqual(
            [task["task"] for task in document["tasks"]], ["load-warm", "save"]
        )
        (skipped,) = document["skipped"]
        self.assertRegex(skipped["reason"], "overlay, which keeps files in memory")
        measured = self.bench("--io", "pwrite", "--cache", "cold")
        self.assertEqual(
            self.results(measured),
            {("read", "pwrite"): False, ("write", "pwrite"): True},
        )
        for reason in self.skipped(measured, "read"):
            self.assertIn("stays in the page cache", reason)

    def test_a_file_system_without_a_size_is_not_full(self) -> None:
        self.mount(mounted("ramfs", self.place))
        document = self.tune("--io", "pwrite")
        self.assertEqual(
            [task["task"] for task in document["tasks"]], ["load-warm", "save"]
        )
        self.assertIsNone(document["probe"]["free_bytes"])
        self.assertIsNone(document["machine"]["storage"]["free_bytes"])


class LimitedMemory(MountTest):
    @contextlib.contextmanager
    def cgroup(self, limit_bytes: int) -> Iterator[Path]:
        """Yields the file to which a process writes 0 to join a cgroup with that limit."""
        if os.geteuid() != 0:
            raise NotHere("a cgroup needs root")
        groups = {}
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            groups[controllers] = group.lstrip("/")
        root = Path("/sys/fs/cgroup")
        parent, limit = root / "memory" / groups.get("memory", ""), "limit_in_bytes"
        if "memory" not in groups:
            parent, limit = root / groups.get("", ""), "max"
        group = parent / f"tzmark-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError as error:
            raise NotHere(f"no cgroup can be made: {error}") from None
        try:
            try:
                (group / f"memory.{limit}").write_text(str(limit_bytes))
                members = group / "cgroup.procs"
                subprocess.run(
                    ["sh", "-c", 'echo 0 > "$1"', "sh", members],
                    check=True,
                    capture_output=True,
                )
            except (OSError, subprocess.CalledProcessError) as error:
                raise NotHere(f"a cgroup cannot limit memory: {error}") from None
            yield members
        finally:
            group.rmdir()

    def limited(self, members: Path, *words: str | Path) -> tuple[int, str]:
        # Without swap a process that takes too much is killed, as in a container.
        done = subprocess.run(
            ["sh", "-c", 'echo 0 > "$1" && shift && exec "$@"', "sh", members, TZMARK]
            + [*words, "--json", self.result],
            capture_output=True,
            text=True,
            timeout=900,
            # The address sanitizer keeps up to 256 MiB of what was freed otherwise.
            env={
                **os.environ,
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")
                + ":quarantine_size_mb=4",
            },
        )
        return done.returncode, done.stdout + done.stderr

    def test_sizes_come_from_the_limit(self) -> None:
        # A program with the address sanitizer takes 40 MiB and more itself, from run to run not the same, and is killed
        # with less: what the product needs shows without it.
        is_sanitized = b"__asan_init" in TZMARK.read_bytes()
        least_share = 8 if is_sanitized else 2
        sizes = ((400, 32),) if is_sanitized else ((400, 64), (64, 2))
        for limit, data in ((limit << 20, data) for limit, data in sizes):
            with self.subTest(limit=limit), contextlib.ExitStack() as stack:
                try:
                    members = stack.enter_context(self.cgroup(limit))
                except NotHere as missing:
                    self.skipTest(str(missing))
                where = ("bench", "--dir", self.place)
                status, output = self.limited(members, *where, "--rounds", "2")
                self.assertEqual(status, 0, output)
                document = self.document("bench")
                said = " ".join(document["warnings"])
                self.assertRegex(said, f"cgroup limits memory to {limit >> 20} MiB")
                self.assertIn("instead of 256 MiB", said)
                self.assertIn("cgroup limits memory", output)
                self.assertEqual(document["machine"]["cgroup"]["memory_bytes"], limit)
                (workload,) = document["workloads"]
                self.assertLessEqual(workload["data_bytes"], data << 20)
                self.assertGreater(workload["data_bytes"], (data << 20) // least_share)
                self.assertEqual(
                    [s for s in document["skipped"] if s["has_failed"]], []
                )
                status, output = self.limited(members, *where, "--scale", "256MiB")
                self.assertEqual(status, 3, output)
                self.assertRegex(
                    output, f"limits memory to {limit >> 20} MiB.* --scale "
                )
                status, output = self.limited(
                    members, "tune", self.place, "--budget", "10s"
                )
                self.assertEqual(status, 0, output)
                said = " ".join(self.document("tune")["warnings"])
                self.assertRegex(said, f"cgroup limits memory to {limit >> 20} MiB")


if __name__ == "__main__":
    unittest.main(verbosity=2)
