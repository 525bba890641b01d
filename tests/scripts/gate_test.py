"""Runs scripts/gate with a benchmark whose rates are made up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
TZMARK = Path(os.environ["TZMARK_BUILD_DIR"]) / "bin/tzmark"

# A benchmark in the JSON of Google Benchmark: its time is in the file "time" of the directory in which it runs.
BENCHMARK = """
import json, os, pathlib, random, time
with open("../order", "a") as order:
    order.write(pathlib.Path.cwd().name + "\\n")
mean = float(pathlib.Path("time").read_text())
runs = [{"name": "decode", "run_name": "decode", "run_type": "iteration", "repetitions": 3, "repetition_index": i,
         "threads": 1, "iterations": 100, "real_time": mean * random.uniform(0.99, 1.01), "cpu_time": mean,
         "time_unit": "ns"} for i in range(3)]
context = {"date": "2026-01-01T00:00:00+00:00", "host_name": "h", "executable": "b", "num_cpus": 2, "mhz_per_cpu": 1,
           "cpu_scaling_enabled": False, "caches": [], "load_avg": [], "library_build_type": "release"}
pathlib.Path(os.environ["RESULT"]).write_text(json.dumps({"context": context, "benchmarks": runs}))
"""

# A benchmark that writes a result of tzmark bench, whose codec and raw path take the time in that file, with noise.
BENCH = """
import json, os, pathlib, random
mean = float(pathlib.Path("time").read_text())
document = json.loads(pathlib.Path("../template.json").read_text())
document["machine"]["load_average"] = [0, 0, 0]
for result in document["results"]:
    for sample in result["samples"]:
        sample["elapsed_ns"] = round(mean * 1e6 * random.uniform(0.99, 1.01))
pathlib.Path(os.environ["RESULT"]).write_text(json.dumps(document))
"""


class GateTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark test ")
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        (self.directory / "benchmark.py").write_text(BENCHMARK)
        self.out = self.directory / "the results"

    def side(self, name: str, nanoseconds: float) -> Path:
        side = self.directory / name
        side.mkdir()
        (side / "time").write_text(str(nanoseconds))
        return side

    def gate(
        self, *arguments: str | Path, status: int
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [SOURCE / "scripts/gate", "--tzmark", TZMARK, *arguments],
            capture_output=True,
            text=True,
            cwd=self.directory,
        )
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def run_gate(
        self, old: float, new: float, runs: int, status: int
    ) -> subprocess.CompletedProcess[str]:
        return self.gate(
            *("--runs", str(runs), "-o", "the results"),
            *(self.side("old side", old), self.side("new", new)),
            *("--", sys.executable, "../benchmark.py"),
            status=status,
        )

    def test_a_slower_side_fails(self) -> None:
        done = self.run_gate(100, 110, 12, status=1)
        self.assertRegex(done.stdout, "decode .* REGRESSION")
        self.assertEqual((self.out / "comparison.txt").read_text(), done.stdout)
        self.assertIn("| `decode` |", (self.out / "comparison.md").read_text())
        (row,) = json.loads((self.out / "comparison.json").read_text())["rows"]
        self.assertEqual(row["verdict"], "REGRESSION")
        self.assertEqual(len(list(self.out.glob("*-*.json"))), 24)
        plot = (self.out / "comparison.svg").read_text()
        self.assertIn(">decode</text>", plot)
        self.assertIn(">REGRESSION</text>", plot)
        order = (self.directory / "order").read_text().split("\n")
        self.assertEqual(order[:4], ["old side", "new", "new", "old side"])

    def test_a_slower_io_layer_fails(self) -> None:
        """Codec and raw path of tzmark bench become slower alike, by their own I/O paths."""
        (self.directory / "bench.py").write_text(BENCH)
        subprocess.run(
            [TZMARK, "bench", "--dir", self.directory / "scratch", "--rounds", "3"]
            + ["--io", "pwrite", "--op", "read", "--verify", "none", "--scale", "1MiB"]
            + ["--memory", "thp", "--json", self.directory / "template.json"],
            check=True,
            capture_output=True,
        )
        sides = (self.side("old", 100), self.side("new", 200))
        command = ("--", sys.executable, "../bench.py")
        done = self.gate("-o", "results", *sides, *command, status=1)
        for subject in ("codec", "raw"):
            self.assertRegex(done.stdout, f"{subject} read .* REGRESSION")
        done = self.gate("--by-ratio", "-o", "passed", *sides, *command, status=0)
        self.assertEqual(done.stdout.count("machine slower"), 2, done.stdout)

    def test_equal_sides_pass(self) -> None:
        self.run_gate(100, 100, 12, status=0)

    def test_without_the_packages_of_the_plot(self) -> None:
        shadow = self.directory / "shadow"
        shadow.mkdir()
        (shadow / "matplotlib.py").write_text("raise ImportError('No matplotlib')")
        with unittest.mock.patch.dict(os.environ, {"PYTHONPATH": str(shadow)}):
            done = self.run_gate(100, 100, 12, status=0)
        said = [line for line in done.stderr.splitlines() if "no plot" in line]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn("python3-matplotlib", said[0])
        self.assertFalse((self.out / "comparison.svg").exists())
        self.assertTrue((self.out / "comparison.md").exists())

    def test_a_plot_that_cannot_be_written(self) -> None:
        """The benchmark puts a directory in the place of the page."""
        sides = (self.side("old", 100), self.side("new", 100))
        script = "mkdir -p ../results/index.html; exec python3 ../benchmark.py"
        done = self.gate(
            *("--runs", "12", "-o", "results", *sides, "--", "sh", "-c", script),
            status=3,
        )
        self.assertIn("no plot: report.py: ", done.stderr)

    def test_too_few_runs_do_not_pass(self) -> None:
        self.assertIn("run at least", self.run_gate(100, 200, 3, status=2).stderr)

    def test_a_command_that_fails(self) -> None:
        sides = (self.side("old", 1), self.side("new", 1))
        for command, message in (
            (["false"], "the command failed in"),
            (["true"], "has written no result"),
        ):
            refused = self.gate(
                *("-o", "".join(command)), *sides, "--", *command, status=3
            )
            self.assertIn(message, refused.stderr)

    def test_links_and_cdpath(self) -> None:
        """The script may be a link, and names are those of the current directory."""
        (self.directory / "gate").symlink_to(SOURCE / "scripts/gate")
        elsewhere = self.directory / "elsewhere"
        (elsewhere / "old").mkdir(parents=True)
        sides = (self.side("old", 100), self.side("new", 100))
        done = subprocess.run(
            [
                self.directory / "gate",
                "--tzmark",
                TZMARK,
                "--runs",
                "12",
                "-o",
                "results",
            ]
            + ["old", "new", "--", sys.executable, "../benchmark.py"],
            cwd=self.directory,
            env=os.environ | {"CDPATH": str(elsewhere)},
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(sides), 2)

    def test_wrong_usage(self) -> None:
        sides = (self.side("old", 1), self.side("new", 1))
        for words in (
            ["-o", "a", *sides],
            ["-o", "a", *sides, "--"],
            ["-o", "", *sides, "--", "true"],
            [*sides, "--", "true"],
            ["-o", "a", sides[0], "--", "true"],
            ["-o", "a", sides[0], "nowhere", "--", "true"],
            ["-o", "a", "--runs", "0", *sides, "--", "true"],
            ["-o", "a", "--other", *sides, "--", "true"],
            ["-o", sides[0], *sides, "--", "true"],
        ):
            refused = self.gate(*words, status=2).stderr
            self.assertIn("gate: ", refused)
        self.assertEqual(os.listdir(sides[0]), ["time"])


class WorkflowTest(unittest.TestCase):
    def test_expressions_are_no_shell_code(self) -> None:
        """An input in the text of a command would be run by the shell of the workflow."""
        workflow = (SOURCE / ".github/workflows/speed-gate.yml").read_text()
        commands = re.findall(r"(?m)^( +)run: (.*(?:\n\1 +.*)*)", workflow)
        self.assertEqual(len(commands), 5)
        for _, command in commands:
            self.assertNotIn("${{", command)
            done = subprocess.run(
                ["bash", "-n"], input=command.removeprefix("|"), text=True
            )
            self.assertEqual(done.returncode, 0, command)


if __name__ == "__main__":
    sys.exit(unittest.main())
