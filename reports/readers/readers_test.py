"""The page of the readers of safetensors says what the results say, and names no withheld file before its date."""

import hashlib
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from common import results
from readers import answers, findings, kinds, page

REPORTS = Path(__file__).resolve().parents[1]
COMMITTED = REPORTS / "safetensors-readers"
HEADER = b'{"a":{"dtype":"U8"}}'
CONTENT = len(HEADER).to_bytes(8, "little") + HEADER + b"\1\2\3\4"


def tensor(data: bytes) -> dict[str, Any]:
    return {"data_length": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def case(
    name: str,
    outcome: str,
    verdict: str = "invalid",
    text: str | None = None,
    **changes: Any,
) -> dict[str, Any]:
    step = {
        "outcome": outcome,
        "shape": changes.pop("shape", "file"),
        "answer": {"text": text, "rejected": None},
        "difference": None,
        "reason": None,
        "process": {"end": changes.pop("end", "answered")},
    }
    return {
        "id": name,
        "path": f"{name}.safetensors",
        "size_bytes": len(CONTENT),
        "why": f"It is {name}.",
        "rules": ["ST-001"],
        "verdict": verdict,
        "outcome": outcome,
        "choice": None,
        "choice_name": None,
        "steps": [step],
        **changes,
    }


def result(name: str, *cases: dict[str, Any], command: str = "decode") -> dict:
    return {
        "schema": "tzmark-conformance",
        "schema_version": 3,
        "started": "2026-01-01T00:00:00Z",
        "elapsed_ns": 1,
        "adapter": {
            "argv": ["adapter"],
            "profile": {"name": name, "version": "1", "commands": [command, "serve"]},
        },
        "corpus": {"manifest_sha256": "0" * 64},
        "summary": {"passed": 1, "skipped": 0},
        "cases": list(cases),
    }


class Kinds(unittest.TestCase):
    def test_what_a_user_sees(self) -> None:
        for wanted, one in (
            (None, case("a", "pass")),
            (None, case("a", "skipped")),
            ("wrong-content", case("a", "wrong-data", "valid")),
            ("memory", case("a", "hang")),
            ("memory", case("a", "crash", text="MemoryError: (r.py, f)")),
            ("refuses", case("a", "rejected-valid", "valid")),
            ("refuses", case("a", "crash", "valid", "KeyError: 1 (r.py, f)")),
            ("refuses-short", case("a", "crash", "valid", "x", shape="short-reads")),
            ("unexpected", case("a", "crash", text="KeyError: 1 (r.py, f)")),
            ("ends-process", case("a", "crash", end="signaled")),
            (
                "ends-process",
                case("a", "crash", text="__main__.Panicked: slice (r.py, f)"),
            ),
            ("accepts", case("a", "accepted-invalid")),
        ):
            self.assertEqual(kinds.kind_of(one, None, CONTENT), wanted, one)

    def test_foreign_bytes(self) -> None:
        for data, foreign in (
            (b"", False),
            (b"\2\3", False),
            (b"\4\0\0", False),
            (bytes(9), False),
            (CONTENT[:8], True),
            (HEADER[:4], True),
            (b"\4\1", True),
            (b"\4\0\1", True),
        ):
            found = kinds.has_foreign_bytes([tensor(b"\1"), tensor(data)], CONTENT)
            self.assertEqual(found, foreign, data)

    def test_foreign_bytes_without_data(self) -> None:
        # The length of the header is beyond the file.
        self.assertTrue(kinds.has_foreign_bytes([tensor(b"\1")], b"\xff" * 8 + b"\1"))
        self.assertFalse(kinds.has_foreign_bytes([tensor(b"\0")], b""))


class Findings(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        cases = []
        for name in ("first", "second", "third", "fourth"):
            (self.directory / f"{name}.safetensors").write_bytes(CONTENT)
            cases.append(
                {
                    "id": name,
                    "verdict": "invalid",
                    "safetensors": {"library": {"rule": "ST-001"}},
                }
            )
        self.put("manifest.json", {"cases": cases})
        self.put(
            "readings.json", {"ST-001": {"description": "It | is.", "library": "No."}}
        )
        self.put("withheld.json", {"until": "2026-06-01", "kinds": ["foreign-bytes"]})

    def put(self, name: str, document: Any) -> Path:
        path = self.directory / name
        path.write_text(json.dumps(document))
        return path

    def run_on(self, date: str, *documents: tuple[Any, Any]) -> tuple[str, str]:
        """Returns the page and the JSON."""
        paths = []
        for number, (document, answer) in enumerate(documents):
            paths.append(str(self.put(f"{number}.json", document)))
            self.put(f"{number}.answers.json", answer)
        out = self.directory / "out"
        arguments = [f"--{name}={self.directory / name}.json" for name in ("readings",)]
        arguments += [f"--withheld={self.directory / 'withheld.json'}"]
        arguments += [f"--cases={self.directory}", f"--out={out}", f"--date={date}"]
        self.assertEqual(findings.main([*paths, *arguments]), 0)
        return (out / "FINDINGS.md").read_text(), (out / "findings.json").read_text()

    def test_withheld_until_the_date(self) -> None:
        leaks = result(
            "leaky", case("first", "accepted-invalid"), case("second", "hang")
        )
        answer = {"first": [tensor(HEADER)]}
        for text in self.run_on("2026-05-31", (leaks, answer)):
            self.assertNotIn("first.safetensors", text)
            self.assertNotIn('"first"', text)
            self.assertIn("second.safetensors", text)
            self.assertIn("2026-06-01", text)
        text, document = self.run_on("2026-06-02", (leaks, answer))
        self.assertIn("first.safetensors", document)
        self.assertIn("[first.safetensors]", text)
        self.assertNotIn("2026-06-01", text)

    def test_the_worst_reader_comes_first(self) -> None:
        mild = result("mild", case("first", "crash", text="KeyError: 1 (r.py, f)"))
        bad = result("bad", case("first", "accepted-invalid"))
        header = result("head", case("second", "accepted-invalid"), command="verify")
        good = result("good", case("first", "pass"))
        text, document = self.run_on(
            "2026-01-01", (good, {}), (mild, {}), (header, {}), (bad, {})
        )
        content = json.loads(document)
        names = [row["name"] for row in content["readers"]]
        self.assertEqual(names, ["bad", "head", "mild", "good"])
        exercised = content["exercised"]
        self.assertEqual(exercised["rejections"], 4)
        self.assertEqual(exercised["accepted_by_a_reader_of_data"], 1)
        self.assertEqual(exercised["accepted_by_any_reader"], 2)
        self.assertEqual(exercised["failed_by_any_reader"], 2)
        self.assertEqual(exercised["accepted_by_none"], ["third", "fourth"])
        self.assertIn("| bad 1 | 1 |", text)
        # An unexpected exception says nothing about a rule.
        self.assertNotIn("| mild 1 | 1 |", text)
        classes = {one["reader"]: one["classification"] for one in content["findings"]}
        self.assertEqual(
            classes, {"bad": "bug", "head": "unchecked", "mild": "bug"}, classes
        )
        self.assertIn("| ST-001 | It \\| is. | No. |", text)

    def test_unsupported_dtypes_and_choices(self) -> None:
        skipped = case("first", "skipped", "valid", "the dtype F4")
        chosen = case("second", "implementation-defined", choice="accepted")
        failed = case(
            "third", "wrong-data", "implementation-defined", choice_name="beyond"
        )
        text, document = self.run_on(
            "2026-01-01", (result("one", skipped, chosen, failed), {})
        )
        (row,) = json.loads(document)["readers"]
        self.assertEqual(row["unsupported_dtypes"], ["F4"])
        self.assertEqual(row["choices_accepted"], 1)
        (finding,) = json.loads(document)["findings"]
        self.assertEqual(finding["classification"], "choice (beyond)")

    def test_results_of_other_cases_are_refused(self) -> None:
        one, other = result("one"), result("other")
        other["corpus"]["manifest_sha256"] = "1" * 64
        paths = [self.put("a.json", one), self.put("b.json", other)]
        for path in paths:
            path.with_suffix(".answers.json").write_text("{}")
        sources = findings.Sources(
            {"cases": []}, self.directory, {}, {"until": "2026-06-01"}, None  # type: ignore
        )
        with self.assertRaisesRegex(results.NotAResult, "different cases"):
            findings.compare(paths, sources)

    def test_committed_page_is_that_of_the_committed_content(self) -> None:
        content = json.loads((COMMITTED / "findings.json").read_text())
        self.assertEqual(
            page.Page(content).text(), (COMMITTED / "FINDINGS.md").read_text()
        )
        withheld = json.loads((COMMITTED / "withheld.json").read_text())
        self.assertEqual(content["withheld_until"], withheld["until"])
        if content["date"] < withheld["until"]:
            for finding in content["findings"]:
                if finding["kind"] in withheld["kinds"]:
                    self.assertIsNone(finding["example"], finding)


# Answers with the file's size as the length of its one tensor; dies of a file of one byte.
SERVER = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["command"] == "capabilities":
        answer = {"capabilities": {}}
    else:
        size = os.path.getsize(request["file"])
        if size == 1:
            os._exit(1)
        answer = {"decoded": {"tensors": [{"data_length": size}]}} if size > 2 else {"rejected": {}}
    print(json.dumps({"id": request["id"], **answer}), flush=True)
"""


class Answers(unittest.TestCase):
    def test_a_reader_that_dies_is_started_again(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            (directory / "server.py").write_text(SERVER)
            asked = []
            for size, stem in ((3, "first"), (1, "second"), (2, "third"), (4, "last")):
                (directory / f"{stem}.safetensors").write_bytes(bytes(size))
                asked.append(case(stem, "accepted-invalid"))
            document = result("one", case("passed", "pass"), *asked)
            document["adapter"]["argv"] = [sys.executable, str(directory / "server.py")]
            path = directory / "one.json"
            path.write_text(json.dumps(document))
            out = directory / "one.answers.json"
            command = [sys.executable, "-B", "-m", "readers.answers", str(path)]
            subprocess.run(
                [*command, "--cases", directory, "-o", out], cwd=REPORTS, check=True
            )
            self.assertEqual(
                json.loads(out.read_text()),
                {
                    "first": [{"data_length": 3}],
                    "second": None,
                    "third": None,
                    "last": [{"data_length": 4}],
                },
            )

    def test_a_reader_of_headers_is_not_asked(self) -> None:
        document = result("one", case("a", "accepted-invalid"), command="verify")
        self.assertEqual(answers.answers_of(document, Path()), {})


if __name__ == "__main__":
    unittest.main()
