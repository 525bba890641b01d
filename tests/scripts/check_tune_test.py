"""How scripts/check-tune judges, and that it runs through; never what the figures are."""

import importlib.machinery
import importlib.util
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/check-tune"
TZMARK = Path(os.environ["TZMARK_BUILD_DIR"]) / "bin/tzmark"

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("check_tune", str(SCRIPT))
spec = importlib.util.spec_from_loader("check_tune", loader)
assert spec
check_tune = importlib.util.module_from_spec(spec)
loader.exec_module(check_tune)


class Judging(unittest.TestCase):
    def test_the_interval_is_of_order_statistics(self) -> None:
        # 2 / 2^6 is 3 %: six samples give their range; 12 leave out two on each side.
        self.assertEqual(check_tune.median_interval([3, 1, 2, 6, 5, 4]), (3.5, 1, 6))
        self.assertEqual(check_tune.median_interval(list(range(12))), (5.5, 2, 9))

    def test_only_an_interval_beyond_a_bound_fails(self) -> None:
        for low, high, expected in (
            (0.98, 1.02, "pass"),
            (0.95, 1.02, "undecided"),
            (0.90, 0.96, "FAIL"),
            (1.04, 1.06, "FAIL"),
        ):
            self.assertEqual(check_tune.verdict(low, high, 0.97, 1.03), expected)
        self.assertEqual(check_tune.verdict(1.2, 1.4, 0.97, math.inf), "pass")

    def test_the_ratio_is_that_of_rates(self) -> None:
        class Fake:
            def seconds(
                self, task: str, setting: dict[str, int], workload: str, rounds: int
            ) -> float:
                return setting["seconds"]

        ratio = check_tune.compare(
            Fake(), "save", {"seconds": 1}, {"seconds": 2}, "w", 6
        )
        for value in ratio:
            self.assertAlmostEqual(value, 2)


class Running(unittest.TestCase):
    def test_it_compares_both_runs_and_the_default(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            done = subprocess.run(
                [SCRIPT, directory, "--budget", "8s", "--goal", "save"]
                + ["--pairs", "6", "--tzmark", TZMARK],
                capture_output=True,
                text=True,
            )
            self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
            self.assertIn("CPU: ", done.stdout)
            self.assertIn("save: ", done.stdout)
            self.assertEqual(os.listdir(directory), [])

    def test_usage(self) -> None:
        done = subprocess.run(
            [SCRIPT, "/", "--pairs", "5"], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
