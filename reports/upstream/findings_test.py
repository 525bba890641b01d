"""The list of defects says what the matrix says, no more and no less."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

REPORTS = Path(__file__).resolve().parents[1]
COMMITTED = REPORTS / "upstream-releases"
FINDINGS = (sys.executable, "-B", "-m", "upstream.findings")

from common import results
from upstream import findings


def step(command: str, outcome: str, text: str | None = None) -> dict[str, Any]:
    kind = "none" if text else "accepted"
    return {
        "command": command,
        "outcome": outcome,
        "answer": {"kind": kind, "rejected": None, "text": text},
        "cites_other_rule": False,
        "difference": None,
        "written": None,
        "stderr": None,
    }


def result(*steps: dict[str, Any]) -> dict[str, Any]:
    common = {"cites_other_rule": False, "known": None, "choice": None}
    return {"outcome": steps[0]["outcome"], **common, "steps": list(steps)}


def implementation(version: str) -> dict[str, Any]:
    summary = {"passed": 1, "failed": 1, "skipped": 0, "outcomes": {"crash": 1}}
    return {
        "argv": ["adapter", version.replace(" ", "_")],
        "profile": {"version": version},
        "summary": summary,
        "elapsed_ns": 10**9,
    }


def case(name: str, results: list[int | None], rule: str = "TZR-X-001") -> dict:
    return {
        "id": name,
        "operation": "read",
        "rules": [rule],
        "results": results,
        "explanations": [],
    }


PASSED = {"outcome": "pass", "choice": None, "reason": None}
SKIPPED = {"outcome": "skipped", "choice": None, "reason": "not in its profile"}
CHOSEN = {"outcome": "implementation-defined", "choice": "accepted", "reason": None}
CRASHED = result(step("decode", "crash", "KeyError: 5 (reader.py, look_up)"))
HUNG = result(step("decode", "hang", "still running"), step("verify", "pass"))

MATRIX = {
    "schema": "tzmark-conformance-matrix",
    "schema_version": 1,
    "corpus": {"manifest_sha256": "0" * 64},
    "implementations": [
        implementation("1.0 (torch 1)"),
        implementation("1.1 (torch 1)"),
        implementation("1.1 (torch 2)"),
        implementation("1.2 (torch 1)"),
    ],
    "results": [PASSED, SKIPPED, CRASHED, HUNG],
    "cases": [
        case("crash-a", [0, 2, 0, 2]),
        case("crash-b", [1, 2, 1, None]),
        case("hang", [3, 1, 0, 0], "TZR-X-002"),
    ],
}


def groups(*picks: dict[str, Any]) -> dict[str, Any]:
    defects = [
        {"title": f"Defect {number}", "text": "It is so.", "picks": [pick]}
        for number, pick in enumerate(picks)
    ]
    return {"sections": [{"title": "All", "text": "These.", "defects": defects}]}


class Findings(unittest.TestCase):
    def write(
        self, groups: dict[str, Any], status: int = 0, matrix: dict[str, Any] = MATRIX
    ) -> str:
        """What the program writes, or what it says against it."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "matrix.json"
            path.write_text(json.dumps(matrix))
            path.with_name("findings.json").write_text(json.dumps(groups))
            out = Path(directory) / "FINDINGS.md"
            done = subprocess.run(
                [*FINDINGS, path, "-o", out],
                cwd=REPORTS,
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual(out.exists(), status == 0)
            return out.read_text() if status == 0 else done.stderr

    def test_a_fifo_without_a_writer_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            fifo = Path(directory) / "matrix.json"
            os.mkfifo(fifo)
            report = (sys.executable, "-B", "report.py")
            for program in (FINDINGS, report):
                done = subprocess.run(
                    [*program, fifo, "-o", Path(directory) / "out"],
                    cwd=REPORTS,
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("not a regular file", done.stderr)
            with self.assertRaisesRegex(results.NotAResult, "not a regular file"):
                findings.read_groups(fifo)
            text = os.pipe()
            os.write(text[1], b"text")
            os.close(text[1])
            self.assertEqual(results.text_of(Path(f"/dev/fd/{text[0]}")), "text")
            os.close(text[0])

    def test_groups_count_their_own(self) -> None:
        text = self.write(groups({"says": "^KeyError"}, {"outcomes": ["hang"]}))
        self.assertIn("| [Defect 0](#defect-0) |  | 2 |  | 1 |", text)
        self.assertIn("| [Defect 1](#defect-1) | 1 |  |  |  |", text)
        self.assertIn("- Releases: 1.1 to 1.2 (1.1 only over torch 1)\n", text)
        self.assertIn("| 1.1 | 1.1 (torch 2) | 1.2 |", text)
        self.assertIn("- Rules: TZR-X-002\n", text)
        self.assertIn("crash**: `KeyError` in `look_up`, `5` (2 cases)", text)
        self.assertIn("Cases (2): `crash-a`, `crash-b`", text)
        command = "build/bin/tzmark conform --only crash-a \\\n  --adapter 'adapter"
        self.assertIn(command, text)
        self.assertNotIn("Not grouped", text)

    def test_each_failure_is_in_one_group(self) -> None:
        text = self.write(
            groups({"cases": ["crash-a"]}, {"outcomes": ["crash", "hang"]})
        )
        self.assertIn("Cases (1): `crash-a`", text)
        self.assertIn("Cases (2): `crash-b`, `hang`", text)

    def test_what_no_group_takes_is_listed(self) -> None:
        text = self.write(groups({"rules": ["TZR-X-002"]}))
        self.assertIn("| [Not grouped](#not-grouped) |  | 2 |  | 1 |", text)
        self.assertIn("- `crash-b`: decode crash `KeyError: 5", text)

    def test_a_group_without_failures_is_stale(self) -> None:
        error = self.write(groups({"outcomes": ["hang"]}, {"cases": ["no"]}), status=1)
        self.assertIn("Defect 1", error)
        self.assertNotIn("Defect 0", error)

    def test_a_misspelt_pick_is_refused(self) -> None:
        self.assertIn("case", self.write(groups({"case": ["hang"]}), status=3))
        self.write(groups({}), status=3)

    def test_texts_cannot_leave_their_place(self) -> None:
        hostile = result(step("decode", "crash", "# a\n```\n`x` <b>\x1b| (f.py, g)"))
        matrix = {**MATRIX, "results": [PASSED, SKIPPED, hostile, HUNG]}
        text = self.write(groups({"outcomes": ["hang"]}), matrix=matrix)
        (line,) = [line for line in text.split("\n") if line.startswith("- `crash-a`")]
        self.assertIn("```` # a ``` `x` <b>�| (f.py, g) ````", line)

    def test_what_an_option_changes(self) -> None:
        versions = ("1.1 (torch 1)", "1.1 (torch 1, readers=1)", "1.2 (torch 1)")
        matrix = {
            **MATRIX,
            "implementations": [implementation(version) for version in versions],
            "results": [PASSED, SKIPPED, CRASHED, CHOSEN],
            "cases": [
                case("same", [0, 0, 2]),
                case("other", [3, 2, 2]),
                case("not-asked", [1, 2, 2]),
            ],
        }
        text = self.write(groups({"outcomes": ["crash"]}), matrix=matrix)
        self.assertTrue(
            text.endswith(
                "## What readers=1 changes for 1.1\n\n- `other`: implementation-defined"
                " accepted; with readers=1: crash\n"
            ),
            text,
        )

    def test_ranges(self) -> None:
        releases = ["1", "2", "3", "4", "5"]
        for affected, text in (
            ({"1", "2", "3"}, "1 to 3"),
            ({"1", "3", "4"}, "1, 3 to 4"),
            ({"5"}, "5"),
        ):
            self.assertEqual(findings.release_ranges(affected, releases), text)

    def test_committed_text_is_that_of_the_committed_results(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            out = Path(directory) / "FINDINGS.md"
            matrix = COMMITTED / "matrix.json"
            subprocess.run([*FINDINGS, matrix, "-o", out], cwd=REPORTS, check=True)
            self.assertEqual(out.read_text(), (COMMITTED / "FINDINGS.md").read_text())


if __name__ == "__main__":
    unittest.main()
