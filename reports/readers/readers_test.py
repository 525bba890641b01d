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
from readers import answers, findings, kinds, page, writing, written

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
        "answer": {"text": text, "rejected": None, "kind": changes.pop("kind", None)},
        "difference": changes.pop("difference", None),
        "explanation": changes.pop("explanation", None),
        "reason": changes.pop("reason", None),
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
        self.put("manifest.json", {"cases": cases, "encode_cases": []})
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
            self.put(f"{number}.written.json", {})
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


def written_case(outcome: str, verdict: str = "valid", **more: Any) -> dict[str, Any]:
    return case("asked", outcome, verdict, operation="encode", rules=["ST-018"], **more)


class Writers(unittest.TestCase):
    def row(self, *cases: dict[str, Any], **looked_at: Any) -> Any:
        document = result("one", *cases)
        document["adapter"]["profile"]["commands"] = ["decode", "encode"]
        return writing.writer_of(document, looked_at)

    def test_what_a_user_sees(self) -> None:
        broken = {"rule": "ST-014", "offset": 1, "message": "a hole", "bytes": []}
        for kind, rule, one in (
            ("content", "ST-018", written_case("wrong-data", difference={"got": 1})),
            ("malformed", "ST-014", written_case("wrong-data", explanation=broken)),
            ("left", "ST-018", written_case("wrong-data", kind="rejected")),
            ("unwritable", "ST-018", written_case("accepted-invalid", "invalid")),
            ("refuses", "ST-018", written_case("rejected-valid")),
            ("refuses", "ST-018", written_case("crash", text="KeyError: 1")),
            ("memory", "ST-018", written_case("hang")),
            ("unexpected", "ST-018", written_case("crash", "invalid")),
        ):
            row = self.row(one)
            (finding,) = row["findings"]
            self.assertEqual((finding["kind"], finding["rule"]), (kind, rule))
            self.assertEqual(finding["classification"], "bug")
            self.assertEqual(row["failed"], 1)

    def test_counts(self) -> None:
        row = self.row(
            *(written_case("pass"), written_case("pass"), case("read", "hang")),
            *(written_case("pass", "invalid"), written_case("skipped")),
        )
        keys = ("written", "refused", "choices", "failed", "not_asked")
        counts = [row[key] for key in keys]
        self.assertEqual((counts, row["findings"]), ([2, 1, 0, 0, 1], []))
        self.assertIsNone(writing.writer_of(result("reads"), {}))

    def test_a_file_that_the_library_reads_is_a_choice(self) -> None:
        one = written_case("wrong-data", reason="breaks a rule")
        looked_at = {"header": '{"__metadata__":null', "library_accepts": True}
        row = self.row(one, asked=looked_at)
        (finding,) = row["findings"]
        self.assertEqual((row["choices"], row["failed"]), (1, 0))
        self.assertEqual(finding["classification"], writing.CHOICE)
        self.assertEqual(finding["example"]["says"], looked_at["header"])
        refused = written_case("wrong-data", kind="rejected", reason="left a file")
        (finding,) = self.row(refused, asked=looked_at)["findings"]
        self.assertEqual(finding["classification"], "bug")
        self.assertEqual(finding["example"]["says"], "left a file")

    def test_files_are_looked_at(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            for status in (0, 1, 3):
                file = directory / str(status) / written.FILE
                file.parent.mkdir()
                file.write_bytes(CONTENT)
            tzmark = directory / "tzmark"
            # It answers with the name of the file's directory.
            tzmark.write_text('#!/bin/sh\nexit "$(basename "$(dirname "$4")")"\n')
            tzmark.chmod(0o700)
            cases = [
                case(id, outcome, "valid", operation="encode")
                for id, outcome in (
                    *(("0", "wrong-data"), ("1", "accepted-invalid")),
                    *(("3", "pass"), ("none", "wrong-data")),
                )
            ]
            document = result("one", *cases, case("0", "wrong-data"))
            found = written.written_of(document, directory, tzmark)
            self.assertEqual(list(found), ["0", "1"])
            self.assertEqual(
                [one["library_accepts"] for one in found.values()], [True, False]
            )
            self.assertEqual(found["0"]["header"], HEADER.decode())
            with self.assertRaisesRegex(results.NotAResult, "tzmark verify"):
                written.looked_at(directory / "3" / written.FILE, tzmark)

    def test_the_page(self) -> None:
        content = json.loads((COMMITTED / "findings.json").read_text())
        one = written_case("wrong-data", reason="a | b")
        content["writers"] = [self.row(one, written_case("pass"))]
        content["specifications"] = {"valid": 2, "invalid": 0}
        text = page.Page(content).text()
        self.assertIn("| one | 1 | 1 |  |  | 1 |  |", text)
        self.assertIn("| ST-018 | writes a file that breaks a rule | 1 | bug |", text)
        self.assertIn("`a \\| b` |", text)


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
