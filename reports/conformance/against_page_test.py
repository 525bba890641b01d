"""The page of tzmark against says what its result says, of any two implementations."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import jsonschema

from conformance import against_page

REPORTS = Path(__file__).resolve().parents[1]
SCHEMA = json.loads((REPORTS / "schema/against.schema.json").read_text())


def pair(first: str, second: str, **more: Any) -> dict[str, Any]:
    return {"command": "decode", "first": first, "second": second, "sign": None} | more


def group(*pairs: dict[str, Any], cases: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": "against-1",
        "rule": "ST-014",
        "pairs": list(pairs),
        "first_says": None,
        "second_says": "a <hole>",
        "cases": [f"st-{number}" for number in range(cases)],
        "smallest": {
            "of": "st-0",
            "size_bytes": 62,
            "sha256": "ab" * 32,
            "finished": True,
        },
        **more,
    }


def result(*groups: dict[str, Any], **more: Any) -> dict[str, Any]:
    document = {
        "schema": "tzmark-against",
        "schema_version": 1,
        "tzmark_version": "0.1.0",
        "elapsed_ns": 2_000_000_000,
        "first": {"argv": ["one"], "profile": {"name": "one", "version": "1"}},
        "second": {"argv": ["two"], "profile": {"name": "two", "version": "1"}},
        "compare_rules": False,
        "shapes": [{"shape": "file", "untried": None}],
        "compared": 9,
        "excused": 1,
        "differing": sum(len(each["cases"]) for each in groups),
        "groups": list(groups),
        **more,
    }
    jsonschema.validate(document, SCHEMA)
    return document


class AgainstPage(unittest.TestCase):
    def render(self, document: dict[str, Any]) -> str:
        with tempfile.TemporaryDirectory() as directory:
            file, page = Path(directory) / "result.json", Path(directory) / "page.html"
            file.write_text(json.dumps(document))
            command = [sys.executable, "-B", REPORTS / "render.py", "against", file]
            subprocess.run([*command, "-o", page], check=True)
            return page.read_text()

    def test_a_difference(self) -> None:
        page = self.render(result(group(pair("accepted", "rejected"), cases=2)))
        for text in (
            "one 1 and two 1",
            "<b>2 of 9</b>",
            "in 1 way.",
            "2 files",
            "one: accepts; two: refuses",
            "<dt>two</dt><dd>a &lt;hole&gt;</dd>",
            "<span>st-1</span>",
        ):
            self.assertIn(text, page)
        self.assertNotIn("<hole>", page)
        self.assertNotIn("Input modes", page)

    def test_no_difference(self) -> None:
        page = self.render(result())
        self.assertIn("<b>0 of 9</b>", page)
        self.assertNotIn("section-differences", page)

    def test_input_modes_and_many_cases(self) -> None:
        modes = [
            {"shape": "file", "untried": None},
            {"shape": "pipe", "untried": "no pipes"},
        ]
        many = group(
            pair("crash", "accepted", shape="pipe"),
            cases=against_page.CASES_MAX + 3,
            rule=None,
        )
        page = self.render(result(many, shapes=modes))
        self.assertIn("file, pipe; pipe not on every file: no pipes", page)
        self.assertIn("decode (pipe):", page)
        self.assertIn("no rule broken", page)
        self.assertIn("and 3 more", page)

    def test_names_that_tell_the_two_apart(self) -> None:
        differs = group(pair("accepted", "accepted", sign="/metadata"))
        for second, wanted in (
            ({"name": "two", "version": "1"}, ["two"]),
            ({"name": "one", "version": "2"}, ["one 2"]),
            ({"name": "one", "version": "1"}, ["the second"]),
        ):
            document = result(differs, second={"argv": ["two"], "profile": second})
            (shown,) = against_page.view(document)["groups"]
            self.assertEqual([name for name, _ in shown["says"]], wanted)
            self.assertEqual(
                shown["differences"],
                [("decode", "both: accepts; they differ in /metadata")],
            )

    def test_other_documents_are_refused(self) -> None:
        with self.assertRaises(subprocess.CalledProcessError):
            self.render({"schema": "tzmark-conformance", "schema_version": 3})


if __name__ == "__main__":
    unittest.main()
