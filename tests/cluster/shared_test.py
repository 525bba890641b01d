#!/usr/bin/env python3
"""Runs tzmark bench cluster on hosts that share a file system over links of limited rate: every pattern gets its bytes
through GlusterFS, and the host with the slow link is named.

Exits with status 77, which CTest counts as skipped, where such a cluster cannot be made.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
TZMARK = BUILD / "bin/tzmark"
PROGRAM = BUILD / "libexec/tzmark/tzmark-bench-cluster"
SHARED = SOURCE / "scripts/cluster/shared"

SKIPPED = 77
HOSTS = 3
READS = ("same", "rotated", "broadcast", "gather", "sliced", "sharded")
WRITES = ("segments", "checkpoint")


def why_not() -> str:
    """What a cluster lacks here; empty if nothing."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    for tool in ("mpirun", "ip", "tc", "glusterd", "gluster", "mount.glusterfs"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    if not PROGRAM.exists():
        return "tzmark is built without MPI"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc"]
        + ["ip", "link", "add", "tzmark0", "type", "bridge"],
        capture_output=True,
        text=True,
    )
    if tried.returncode != 0:
        return f"no network namespaces here: {tried.stderr.strip()}"
    return "" if Path("/dev/fuse").exists() else "there is no /dev/fuse"


class Shared(unittest.TestCase):
    def results(self, options: tuple[str, ...], *more: str) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as scratch:
            result = Path(scratch) / "result.json"
            script = (
                f'mpirun -n {HOSTS} "$0" bench cluster --dir "$TZMARK_SHARED" --scale 16MiB --json "$1" '
                '"${@:2}" </dev/null'
            )
            ended = subprocess.run(
                [SHARED, "--hosts", str(HOSTS), *options, "--", "bash", "-c", script]
                + [TZMARK, result, *more],
                capture_output=True,
                text=True,
                timeout=400,
            )
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
            document = json.loads(result.read_text(encoding="utf-8"))
        return {each["cluster"]["pattern"]: each for each in document["results"]}

    def test_every_pattern_is_right_over_a_network(self) -> None:
        """Each run verifies the bytes of every rank before it measures."""
        results = self.results(("--rate", "800mbit"), "--rounds", "1")
        self.assertEqual(tuple(results), (*READS, *WRITES))
        for pattern, result in results.items():
            figures = result["cluster"]
            self.assertEqual((figures["ranks"], figures["hosts"]), (HOSTS, HOSTS))
            self.assertIsNone(figures["storage_bytes_per_byte"], "not of a disk here")
            self.assertTrue(result["verified_first"], pattern)
        # All of a file goes through the link of a host, or of the server, at 100 MB/s.
        same = results["same"]["cluster"]
        self.assertGreater(same["last_s"]["median"], same["unique_bytes"] / 100e6)

    def test_the_host_with_the_slow_link_is_named(self) -> None:
        options = ("--rate", "400mbit", "--slow", "2:200mbit")
        figures = self.results(options, "--pattern", "sharded")["sharded"]["cluster"]
        (slow,) = figures["slow"]
        self.assertEqual((slow["rank"], slow["host"]), (1, "host2"))
        self.assertGreater(slow["ratio"], 1.5)


def main() -> int:
    missing = why_not()
    if missing:
        print(f"skipped: {missing}")
        return SKIPPED
    unittest.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
