#!/usr/bin/env python3
"""Tests of the reports of a run: JSON, JUnit XML and the page, and where they are written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
from conform_fixture import (
    CONFORM,
    SCHEMA,
    SOURCE,
    VERDICTS,
    CorpusTest,
    conform,
)


class ElementCollector(HTMLParser):
    """The elements of a page with their attributes; fails on tags that are not closed in order."""

    VOID = {"meta", "input", "link", "br", "img"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open.pop() != tag:
            raise AssertionError(f"</{tag}> at {self.getpos()} closes something else")


class Reports(CorpusTest):
    def faulty_run(self, *options: str | Path) -> None:
        run = self.run_on_corpus(
            *options,
            behaviours=(
                "valid=wrong-data",
                "malformed=exception",
                "invalid=segfault",
                "authentication-failure=reject-for-another-rule",
                "integrity-failure:verify=unsupported",
            ),
        )
        self.assertEqual(run.returncode, 1, run.stderr)

    def test_json_follows_its_schema(self) -> None:
        file = self.directory / "result.json"
        self.faulty_run("--json", file)
        result = json.loads(file.read_text())
        validator = jsonschema.Draft202012Validator(SCHEMA)
        validator.check_schema(SCHEMA)
        self.assertEqual([error.message for error in validator.iter_errors(result)], [])
        self.assertEqual(
            {case["id"]: case["outcome"] for case in result["cases"]},
            {
                "valid": "wrong-data",
                "malformed": "crash",
                "invalid": "crash",
                "authentication-failure": "pass",
                "integrity-failure": "skipped",
                "implementation-defined": "implementation-defined",
            },
        )
        self.assertEqual(result["summary"]["cites_other_rule"], 1)
        for step in (step for case in result["cases"] for step in case["steps"]):
            self.assertGreater(step["process"]["rss_max_bytes"], 64 << 20)
        valid = result["cases"][0]
        self.assertEqual(
            valid["steps"][0]["difference"],
            {"pointer": "/tensors/0/shape/0", "expected": "2", "got": "4"},
        )
        self.assertEqual(result["cases"][5]["choice"], "accepted")
        manifest = (self.corpus / "manifest.json").read_bytes()
        self.assertEqual(
            result["corpus"]["manifest_sha256"], hashlib.sha256(manifest).hexdigest()
        )

    def test_schema_refuses_what_is_not_a_result(self) -> None:
        file = self.directory / "result.json"
        self.faulty_run("--json", file)
        validator = jsonschema.Draft202012Validator(SCHEMA)
        for change in (
            lambda result: result.pop("summary"),
            lambda result: result.update(surprise=1),
            lambda result: result["cases"][0].update(outcome="fine"),
            lambda result: result["cases"][0]["steps"][0].pop("answer"),
            lambda result: result["summary"]["outcomes"].update(crash=-1),
        ):
            result = json.loads(file.read_text())
            change(result)
            self.assertFalse(validator.is_valid(result))

    def test_junit(self) -> None:
        file = self.directory / "result.xml"
        self.faulty_run("--junit", file)
        root = ElementTree.parse(file).getroot()
        self.assertEqual(root.tag, "testsuites")
        self.assertEqual(
            (root.get("tests"), root.get("failures"), root.get("skipped")),
            ("6", "3", "1"),
        )
        failures = {
            case.get("name"): failure.get("type")
            for case in root.iter("testcase")
            for failure in case.iter("failure")
        }
        self.assertEqual(
            failures, {"valid": "wrong-data", "malformed": "crash", "invalid": "crash"}
        )

    def test_html_is_one_file_with_every_case(self) -> None:
        file = self.directory / "page.html"
        self.faulty_run("--html", file)
        page = file.read_text()
        collector = ElementCollector()
        collector.feed(page)
        self.assertEqual(collector.open, [])
        # Nothing is loaded from elsewhere.
        for tag, attributes in collector.elements:
            self.assertNotIn(tag, ("link", "img", "iframe"))
            self.assertNotIn("src", attributes)
        self.assertNotRegex(page, r"https?://|@import|url\(")
        cases = {
            attributes["id"]: attributes["data-outcome"]
            for tag, attributes in collector.elements
            if "data-outcome" in attributes
        }
        self.assertEqual(set(cases), set(VERDICTS))
        self.assertEqual(cases["valid"], "wrong-data")
        # The worst first.
        self.assertEqual(next(iter(cases)), "valid")
        self.assertIn("/tensors/0/shape/0", page)
        self.assertIn("ValueError: cannot unpack malformed<", page)
        # What comes from outside is escaped.
        self.assertIn("Why &lt;valid&gt; &amp; co.", page)
        self.assertNotIn("<valid>", page)

    def test_filters_of_the_page_name_every_outcome_that_came(self) -> None:
        file = self.directory / "page.html"
        self.faulty_run("--html", file)
        filters = re.findall(r'<label for="(failed|show)-([a-z-]+)"', file.read_text())
        # What passes here was refused for another rule, which the page tells apart.
        self.assertEqual(
            filters,
            [
                *(("failed", name) for name in ("all", "wrong-data", "crash")),
                *(("show", name) for name in ("all", "other-rule")),
                *(("show", name) for name in ("implementation-defined", "skipped")),
            ],
        )

    def test_html_imports_nothing_from_the_current_directory(self) -> None:
        mark = self.directory / "imported"
        (self.directory / "sitecustomize.py").write_text(f"open({str(mark)!r}, 'w')")
        page = self.directory / "page.html"
        run = subprocess.run(
            [
                CONFORM,
                "--corpus",
                self.corpus,
                "--adapter",
                self.adapter(),
                "--html",
                page,
            ],
            cwd=self.directory,
            env={**os.environ, "PYTHONPATH": ":/none"},
            capture_output=True,
            text=True,
        )
        self.assertTrue(page.exists(), run.stderr)
        self.assertFalse(mark.exists())

    def test_html_without_python_or_jinja(self) -> None:
        options = (
            *("--corpus", self.corpus),
            *("--adapter", self.adapter()),
            *("--html", self.directory / "page.html"),
        )
        run = conform(*options, env={"TZMARK_PYTHON": "/nonexistent/python3"})
        self.assertEqual(run.returncode, 4)
        self.assertIn("6 passed", run.stdout, "the result is not lost")
        # A module of that name that cannot be imported stands for one that is missing.
        (self.directory / "jinja2.py").write_text(
            "raise ImportError('No module jinja2')"
        )
        run = conform(*options, env={"PYTHONPATH": str(self.directory)})
        self.assertEqual(run.returncode, 4)
        self.assertIn("python3-jinja2", run.stderr)

    def test_renderer_refuses_other_files(self) -> None:
        file = self.directory / "other.json"
        renderer = SOURCE / "reports/render.py"
        for content in ("{", "[]", "{}", '{"schema": "tzmark-bench"}'):
            file.write_text(content)
            run = subprocess.run(
                [sys.executable, "-B", renderer, "conformance", file, "-o", file],
                capture_output=True,
                check=False,
            )
            self.assertEqual(run.returncode, 3, content)

    def test_report_not_writable(self) -> None:
        (self.directory / "file").touch()
        for option in ("--json", "--junit", "--html", "--keep"):
            # A directory has no room for a file of its name, and a file none for others.
            for place in ("none/file", ".", "file/file"):
                if option == "--keep" and place != "file/file":
                    continue
                run = self.run_on_corpus(option, self.directory / place)
                self.assertEqual((run.returncode, run.stdout), (3, ""), (option, place))
                self.assertIn("cannot be written", run.stderr)
        known = self.directory / "none/known.json"
        run = self.run_on_corpus("--known", known, "--fix-known")
        self.assertEqual((run.returncode, run.stdout), (3, ""))
        for command in (
            ("mutate", "--count", "2"),
            ("against", "--with", self.adapter()),
            ("minimize", self.corpus / "valid.bin"),
        ):
            run = conform(*command, "--json", self.directory / "none/file")
            self.assertEqual((run.returncode, run.stdout), (3, ""), command)
            self.assertIn("none/file: cannot be written", run.stderr)

    def test_reports_are_written_through_no_planted_link(self) -> None:
        for option in ("--json", "--junit", "--html"):
            with tempfile.TemporaryDirectory() as directory, self.subTest(option):
                secret, report = Path(directory) / "secret", Path(directory) / "report"
                secret.write_text("secret")
                report.symlink_to(secret)
                done = self.run_on_corpus(option, report)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(secret.read_text(), "secret")
                self.assertFalse(report.is_symlink())
                self.assertGreater(report.stat().st_size, 100)
                self.assertEqual(set(os.listdir(directory)), {"secret", "report"})

    def test_reports_go_to_devices_and_descriptors_and_read_fifos(self) -> None:
        done = self.run_on_corpus("--json", "/dev/null", "--junit", "/dev/null")
        self.assertEqual(done.returncode, 2, "two outputs of one name")
        done = self.run_on_corpus("--json", "/dev/stdout", "--junit", "/dev/null")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"schema_version"', done.stdout)
        with tempfile.TemporaryDirectory() as directory:
            fifo = Path(directory) / "fifo"
            os.mkfifo(fifo)
            reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE)
            done = self.run_on_corpus("--json", fifo)
            self.assertEqual(done.returncode, 0, done.stderr)
            text, _ = reader.communicate(timeout=60)
            self.assertIn("schema_version", json.loads(text))
            # Without a reader it fails, and does not wait for ever.
            done = self.run_on_corpus("--json", fifo)
            self.assertEqual(done.returncode, 3)
            self.assertIn("no process reads this FIFO", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
