#!/usr/bin/env python3
"""Runs the comparison of checkpoints of a PyTorch loop on little data, and checks its output and its document.

The release of PyTorch is the newer one that scripts/peers --torch installs; without it, that of this Python.
Exit status: 77 if neither has torch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema

SKIPPED = 77
SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
NEWER = BUILD / "peers/torch-2.9.1/bin/python"
TORCH = str(NEWER if NEWER.exists() else sys.executable)
DIRECTORY = SOURCE / "bench/checkpoints"
SCHEMA = json.loads(
    (SOURCE / "reports/schema/checkpoint-python.schema.json").read_text()
)
SMALL = ("--state-mib", "3", "--kill-state-mib", "3", "--step-ms", "1")

sys.path.insert(0, str(DIRECTORY))
import python_bench as bench  # noqa: E402


def candidate(step: int, content: str) -> dict[str, Any]:
    return {"name": f"step-{step}", "step": step, "content": content, "problem": None}


class Verdicts(unittest.TestCase):
    def outcome(
        self, reported: int | None, *found: dict[str, Any]
    ) -> tuple[str, int | None]:
        content = {one["name"]: one for one in found}
        return bench.outcome(reported, found[-1]["name"] if found else None, content)

    def test_outcomes(self) -> None:
        self.assertEqual(self.outcome(None), ("nothing yet", None))
        self.assertEqual(self.outcome(10), ("older", None))
        self.assertEqual(self.outcome(10, candidate(10, "equal")), ("newest", 10))
        self.assertEqual(self.outcome(None, candidate(10, "equal")), ("newest", 10))
        self.assertEqual(self.outcome(10, candidate(20, "equal")), ("newest", 20))
        self.assertEqual(self.outcome(20, candidate(10, "equal")), ("older", 10))
        two = candidate(10, "equal"), candidate(20, "unloadable")
        self.assertEqual(self.outcome(10, *two), ("unloadable", None))
        two = candidate(10, "equal"), candidate(20, "different")
        self.assertEqual(self.outcome(10, *two), ("different", None))

    def test_strays(self) -> None:
        files = {
            "step-1/a": 5,
            "step-2/a": 7,
            "step-3.tmp": 11,
            "latest": 3,
        }
        content = [candidate(1, "equal"), candidate(2, "unloadable")]
        self.assertEqual(bench.strays(files, content), {"files": 2, "bytes": 18})

    def test_spread(self) -> None:
        few = bench.spread([3, 1, 2])
        self.assertEqual((few["median"], few["low"], few["high"]), (2, None, None))
        many = bench.spread(list(range(1, 21)))
        # The usual table: of 20 values, the 6th and the 15th.
        self.assertEqual((many["low"], many["median"], many["high"]), (6, 10, 15))
        self.assertEqual((many["best"], many["worst"]), (1, 20))
        six = bench.spread([6, 5, 4, 3, 2, 1])
        self.assertEqual((six["low"], six["high"]), (1, 6))

    def test_the_seed_chooses_the_kills(self) -> None:
        plan = bench.kill_plan(["a", "b"], 50, 100, 1)
        self.assertEqual(plan, bench.kill_plan(["a", "b"], 50, 100, 1))
        self.assertNotEqual(plan, bench.kill_plan(["a", "b"], 50, 100, 2))
        order = [one["saver"] for one in plan]
        self.assertEqual(sorted(order), ["a"] * 50 + ["b"] * 50)
        self.assertNotEqual(order, sorted(order))
        moments = sorted(one["after_ns"] for one in plan)
        self.assertGreaterEqual(moments[0], 0)
        self.assertLess(moments[0], 20e6)
        self.assertGreater(moments[-1], 80e6)
        self.assertLessEqual(moments[-1], 100e6)

    def test_only_losses_of_tzmark_fail(self) -> None:
        def killed(saver: str, content: str, result: str) -> dict[str, Any]:
            nothing = {"files": 0, "bytes": 0}
            return {
                "saver": saver,
                "outcome": result,
                "candidates": [candidate(1, content)],
                "strays": nothing,
                "strays_after_restart": nothing,
            }

        def found(*kills: dict[str, Any]) -> list[str]:
            savers = [bench.summarize(one["saver"], [], list(kills)) for one in kills]
            return bench.problems({"rounds": [], "savers": savers})

        self.assertEqual(found(killed("tzmark", "equal", "newest")), [])
        self.assertEqual(found(killed("torch.save", "unloadable", "unloadable")), [])
        for result in ("unloadable", "older", "different"):
            self.assertEqual(len(found(killed("tzmark", "equal", result))), 1)
        for content in ("unloadable", "different"):
            self.assertEqual(len(found(killed("tzmark", content, "newest"))), 1)

    def test_differences_of_others_are_findings(self) -> None:
        def of(saver: str, *content: str) -> dict[str, Any]:
            rounds = [{"saver": saver, "content": list(content)}]
            return {"rounds": rounds, "savers": [], "torch": "2.6"}

        for saver in bench.SAVERS:
            good = of(saver, "equal", "equal")
            self.assertEqual((bench.problems(good), bench.findings(good)), ([], []))
            for content in ("different", "unloadable"):
                bad = of(saver, "equal", content)
                is_ours = saver == "tzmark"
                self.assertEqual(len(bench.problems(bad)), is_ours, saver)
                self.assertEqual(len(bench.findings(bad)), not is_ours, saver)
        text = "async_save of PyTorch 2.6: of 2 checkpoints, 1 with other content than was saved"
        self.assertEqual(bench.findings(of("async_save", "different", "equal")), [text])


class Run(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)

    def bench(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                *(sys.executable, "-B", DIRECTORY / "python_bench.py"),
                *("--dir", self.directory, "--package", BUILD / "python", *arguments),
            ],
            capture_output=True,
            text=True,
            timeout=280,
        )

    def test_measures_and_kills(self) -> None:
        result = self.directory / "result.json"
        done = self.bench(
            *("--python", TORCH, "--json", str(result), *SMALL, "--keep", "2"),
            *("--rounds", "2", "--saves", "3", "--every", "2", "--kills", "3"),
            *("--kill-step-ms", "1", "--kill-window-ms", "300"),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        # The temporary directory is removed.
        self.assertEqual(os.listdir(self.directory), ["result.json"])
        document = json.loads(result.read_text())
        jsonschema.validate(document, SCHEMA)
        savers = [one["saver"] for one in document["savers"]]
        self.assertEqual(
            sorted([*savers, *document["unavailable"]]), sorted(bench.SAVERS)
        )
        self.assertEqual(
            [reason for reason in document["unavailable"] if reason != "async_save"], []
        )
        for number in (0, 1):
            turns = [
                one["saver"] for one in document["rounds"] if one["round"] == number
            ]
            self.assertEqual(sorted(turns), sorted(savers))
        for part in document["rounds"]:
            self.assertEqual(len(part["content"]), 2, part["saver"])
            if part["saver"] == "tzmark":
                self.assertEqual(part["content"], ["equal", "equal"])
            self.assertEqual(len(part["saves"]), 3)
            for save in part["saves"]:
                self.assertGreater(save["stall_ns"], 0)
                self.assertGreater(save["complete_ns"], 0)
                self.assertEqual(
                    save["durable_ns"] is None, part["saver"] == "torch.save"
                )
        for saver in savers:
            trials = [one for one in document["kills"] if one["saver"] == saver]
            self.assertEqual(len(trials), 3)
        for one in document["savers"]:
            self.assertEqual(sum(one["outcomes"].values()), 3)
            self.assertIn(f"\n| {one['saver']} | 3 |", done.stdout)
            if one["saver"] == "tzmark":
                self.assertEqual(one["different_checkpoints"], 0)
        # What is wrong with other savers depends on the release of PyTorch; it is printed.
        for what in bench.findings(document):
            self.assertIn(f"\nfinding: {what}\n", done.stdout)

    def test_a_loader_may_raise_what_is_no_exception(self) -> None:
        script = """
import sys
sys.path[:0] = sys.argv[1:]
import python_loop

class Lost(BaseException):  # as CheckpointException of torch
    pass

class Saver:
    def __init__(self, directory, keep):
        pass
    def candidates(self):
        return {"step-00000001": 1}
    def newest(self):
        return "step-00000001"
    def load(self, name, template):
        raise Lost("no such file")
    def close(self):
        pass

python_loop.SAVERS["lost"] = Saver
python_loop.load({"saver": "lost", "directory": ".", "keep": 1}, {})
"""
        done = subprocess.run(
            [TORCH, "-B", "-c", script, str(DIRECTORY)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        (found,) = json.loads(done.stdout)["candidates"]
        self.assertEqual(found["content"], "unloadable")
        self.assertEqual(found["problem"], "Lost: no such file")

    def test_wrong_usage(self) -> None:
        for arguments, status in (
            (("--rounds", "-1"), 2),
            (("--step-ms", "nan"), 2),
            (("--state-mib", "0"), 2),
            (("--python", str(self.directory / "missing")), 3),
        ):
            done = self.bench(*arguments)
            self.assertEqual(done.returncode, status, arguments)
        self.assertEqual(os.listdir(self.directory), [])

    def test_python_without_torch(self) -> None:
        (self.directory / "torch.py").write_text("raise ImportError('none here')\n")
        script = self.directory / "python"
        script.write_text(
            f'#!/bin/sh\nexport PYTHONPATH="{self.directory}:$PYTHONPATH"\n'
            f'exec "{sys.executable}" "$@"\n'
        )
        script.chmod(0o755)
        done = self.bench("--python", str(script))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("none here", done.stderr)


if __name__ == "__main__":
    if not NEWER.exists() and find_spec("torch") is None:
        print(
            "not run: this Python has no torch, and scripts/peers --torch has not run"
        )
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], "-v"])
