"""What changed between two runs is told, and nothing else is."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

REPORTS = Path(__file__).resolve().parents[1]


def result(
    version: str, outcomes: dict[str, str], manifest_sha256: str = "12" * 32
) -> dict[str, Any]:
    return {
        "schema": "tzmark-conformance",
        "schema_version": 3,
        "adapter": {"profile": {"name": "peer", "version": version}},
        "corpus": {"manifest_sha256": manifest_sha256, "cases": len(outcomes)},
        "cases": [
            {"id": name, "operation": "read", "outcome": outcome}
            for name, outcome in outcomes.items()
        ],
    }


class Changes(unittest.TestCase):
    def run_on(self, *documents: Any) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as directory:
            paths = []
            for number, document in enumerate(documents):
                paths.append(Path(directory) / f"{number}.json")
                paths[-1].write_text(json.dumps(document))
            return subprocess.run(
                [sys.executable, "-B", "-m", "upstream.changes", *paths],
                cwd=REPORTS,
                capture_output=True,
                text=True,
                check=False,
            )

    def test_the_worst_change_comes_first(self) -> None:
        before = {"a": "pass", "b": "crash", "c": "skipped", "d": "hang", "e": "pass"}
        after = {"a": "crash", "b": "pass", "c": "wrong-data", "d": "hang", "e": "pass"}
        ran = self.run_on(result("1", before), result("2", after))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(
            ran.stdout.splitlines(),
            [
                "peer 2 against peer 1, 5 cases",
                "    2 ->     3 fail",
                "    2 ->     2 pass",
                "    1 ->     0 are skipped",
                "    1 skipped -> wrong-data: c",
                "    1 pass -> crash: a",
                "    1 crash -> pass: b",
            ],
        )

    def test_many_cases_are_counted(self) -> None:
        names = [f"case-{number}" for number in range(8)]
        before, after = dict.fromkeys(names, "pass"), dict.fromkeys(names, "hang")
        ran = self.run_on(result("1", before), result("2", after))
        self.assertTrue(ran.stdout.endswith("case-4, case-5 and 2 more\n"), ran.stdout)

    def test_what_differs_from_run_to_run_is_no_change(self) -> None:
        before = {"a": "pass", "b": "pass", "c": "pass"}
        after = {"a": "crash", "b": "crash", "c": "pass"}
        ran = self.run_on(
            result("1", before),
            result("2", after),
            result("1", before | {"c": "hang"}),
            result("2", after | {"b": "pass"}),
        )
        self.assertEqual(
            ran.stdout.splitlines()[-2:],
            ["    1 pass -> crash: a", "    2 differ from run to run: b, c"],
        )

    def test_the_same_is_said_to_be_so(self) -> None:
        ran = self.run_on(result("1", {"a": "pass"}), result("2", {"a": "pass"}))
        self.assertIn("every case has the same outcome\n", ran.stdout)

    def test_what_cannot_be_compared_is_refused(self) -> None:
        before = result("1", {"a": "pass"})
        for documents, status, reason in (
            ([before, result("2", {"b": "pass"})], 3, "different cases"),
            ([before, result("2", {"a": "pass"}, "34" * 32)], 3, "different corpora"),
            ([before, {"schema": "other"}], 3, "not a result"),
            ([before], 2, "usage"),
            ([before, before, before], 2, "usage"),
            (
                [before, before, result("2", {"a": "pass"}), before],
                3,
                "not a second run",
            ),
            (
                [before, before, before, result("1", {"b": "pass"})],
                3,
                "different cases",
            ),
        ):
            with self.subTest(reason):
                ran = self.run_on(*documents)
                self.assertEqual(ran.returncode, status, ran.stdout)
                self.assertIn(reason, ran.stderr)
                self.assertEqual(len(ran.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
