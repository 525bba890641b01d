"""The pytest plugin gives each case the verdict of the command, for the tutorial's reader and for adapters that fail.

Exit status: 77 if pytest is not installed.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

SKIPPED = 77
SOURCE, BUILD = (
    Path(os.environ[name]) for name in ("TZMARK_SOURCE_DIR", "TZMARK_BUILD_DIR")
)
TZMARK = BUILD / "bin/tzmark"
TENSORIZER = SOURCE / "build/peers/tensorizer-2.12.1/bin/python"

ADAPTER = """
import my_tensors
from tzmark.conformance import Unsupported

PROFILE = {
    "name": "tutorial",
    "version": "1",
    "reads": {
        "layouts": ["v1"],
        "lacks": ["structured-names", "opaque-dtype", "foreign-dtype"],
    },
}
REJECTIONS = (ValueError,)


def read(file, verify):
    try:
        return my_tensors.load(file, verify)
    except NotImplementedError as error:
        raise Unsupported(str(error)) from error


def decode(file, key):
    print("what an adapter prints is not its answer")
    return read(file, False)


def verify(file, key):
    read(file, True)


class Crashing:
    PROFILE = {**PROFILE, "name": "crashing"}

    @staticmethod
    def verify(file, key):
        raise IndexError("not a refusal")


class Nothing:
    PROFILE = PROFILE


class Unable:
    PROFILE = PROFILE

    @staticmethod
    def verify(file, key):
        raise Unsupported("not built")
"""


SAFETENSORS = """
import my_safetensors

PROFILE = {"name": "tutorial", "version": "1", "reads": {"layouts": ["safetensors"]}}
REJECTIONS = (ValueError,)


def decode(file, key):
    return my_safetensors.load(file)
"""


class Plugin(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        shutil.copy(SOURCE / "docs/tutorial/my_tensors.py", self.directory)
        (self.directory / "adapter.py").write_text(ADAPTER)

    def pytest(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "tzmark.conformance.plugin"]
            + ["-p", "no:cacheprovider", "--junitxml=result.xml", *options],
            cwd=self.directory,
            env={**os.environ, "TZMARK_COMMAND": str(TZMARK)},
            capture_output=True,
            text=True,
        )

    def verdicts(self) -> dict[str, str]:
        """Returns the verdict of each test: passed, failed or skipped."""
        document = xml.etree.ElementTree.parse(self.directory / "result.xml")
        found = {}
        for case in document.iter("testcase"):
            tags = {child.tag for child in case}
            verdict = "failed" if tags & {"failure", "error"} else "passed"
            found[case.get("name", "")] = "skipped" if "skipped" in tags else verdict
        return found

    def cases(self) -> dict[str, str]:
        """Returns the verdicts of the cases, without that of the run as a whole."""
        verdicts = self.verdicts()
        self.assertIn("run", verdicts)
        return {name: verdict for name, verdict in verdicts.items() if name != "run"}

    def command(self, *options: str, adapter: str = "") -> dict[str, str]:
        """Returns the verdicts of the command."""
        if not adapter:
            adapter = f"{sys.executable} -m tzmark.conformance.serve adapter"
        result = self.directory / "result.json"
        subprocess.run(
            [TZMARK, "conform", "--adapter", adapter, "--json", result, *options],
            cwd=self.directory,
            env={
                **os.environ,
                "PYTHONPATH": f"{self.directory}:{os.environ['PYTHONPATH']}",
            },
            capture_output=True,
        )
        words = {"pass": "passed", "implementation-defined": "passed"}
        words["skipped"] = "skipped"
        cases = json.loads(result.read_text())["cases"]
        return {case["id"]: words.get(case["outcome"], "failed") for case in cases}

    def test_same_verdicts_as_the_command(self) -> None:
        done = self.pytest("--tzmark-adapter", "adapter")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        verdicts = self.cases()
        self.assertEqual(verdicts, self.command())
        self.assertIn("failed", verdicts.values())
        self.assertGreater(list(verdicts.values()).count("passed"), 300)
        self.assertIn("why: The name is Latin-1.", done.stdout)
        self.assertNotIn("plugin.py", done.stdout)

    def test_cases_of_safetensors(self) -> None:
        shutil.copy(SOURCE / "docs/tutorial/my_safetensors.py", self.directory)
        (self.directory / "of_safetensors.py").write_text(SAFETENSORS)
        options = "--format safetensors --rule ST-014"
        done = self.pytest(
            *("--tzmark-adapter", "of_safetensors", "--tzmark-options", options)
        )
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        verdicts = self.cases()
        adapter = f"{sys.executable} -m tzmark.conformance.serve of_safetensors"
        self.assertEqual(verdicts, self.command(*options.split(), adapter=adapter))
        # The reader of the tutorial does not look for holes.
        self.assertEqual(verdicts["st-hole"], "failed")
        self.assertIn("passed", verdicts.values())
        self.assertEqual(verdicts["encode-st-two-tensors"], "skipped")
        self.assertIn("accepted-invalid st-hole (ST-014)", done.stdout)

    def test_selection(self) -> None:
        done = self.pytest(
            "--tzmark-adapter", "adapter", "-k", "name-utf8-latin-1 or index-kind-3"
        )
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(self.verdicts()["name-utf8-latin-1"], "failed")
        self.assertEqual(self.verdicts()["index-kind-3"], "passed")
        self.assertLess(len(self.verdicts()), 10)

    def test_a_run_in_which_nothing_ran_fails(self) -> None:
        adapter = ("--tzmark-adapter", "adapter:Unable")
        for more in ((), ("-k", "index-kind-0"), ("--deselect", "tzmark::run")):
            done = self.pytest(*adapter, "--tzmark-options", "--only index-*", *more)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertEqual(set(self.cases().values()), {"skipped"})
            self.assertEqual(self.verdicts()["run"], "failed")
            self.assertIn("no case ran", done.stdout)

    def test_max_skipped(self) -> None:
        options = "--only index-kind-0 --only dtype-* --max-skipped"
        for more, status in (("0", 1), ("100000", 0)):
            done = self.pytest(
                "--tzmark-adapter", "adapter", "--tzmark-options", f"{options} {more}"
            )
            verdicts = self.cases()
            self.assertIn("skipped", verdicts.values())
            self.assertEqual(done.returncode, status, done.stdout)
            failed = "failed" if status else "passed"
            self.assertEqual(self.verdicts()["run"], failed)
        # A mode that the profile lacks counts for the command, and here.
        lacks = "--only index-kind-0 --shape file,offset --max-skipped 0"
        done = self.pytest("--tzmark-adapter", "adapter", "--tzmark-options", lacks)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("--max-skipped allows 0", done.stdout)

    def test_own_tests_alone_need_no_run(self) -> None:
        (self.directory / "test_own.py").write_text("def test_own(): pass\n")
        done = self.pytest("--tzmark-adapter", "adapter:Unable", "-k", "test_own")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.verdicts(), {"test_own": "passed"})

    def test_known_failures(self) -> None:
        known = self.directory / "known.json"
        self.command("--known", str(known), "--fix-known")
        arguments = ("--tzmark-adapter", "adapter", "--tzmark-known", str(known))
        done = self.pytest(*arguments)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("xfailed", done.stdout)
        document = known.read_text().replace("name-utf8-latin-1", "name-letters-1")
        known.write_text(document)
        done = self.pytest(*arguments)
        self.assertEqual(done.returncode, 1, done.stdout)

    def test_a_list_of_known_failures_among_the_options_must_match(self) -> None:
        """As for the command: a case that is listed, and passes, fails the run."""
        known = self.directory / "known.json"
        self.command("--known", str(known), "--fix-known")
        document = known.read_text().replace("name-utf8-latin-1", "index-kind-0")
        known.write_text(document)
        options = f"--known {known} --only index-kind-0"
        done = self.pytest("--tzmark-adapter", "adapter", "--tzmark-options", options)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, "index-kind-0.*pass")

    def test_other_adapters(self) -> None:
        template = SOURCE / "conformance/adapters/template-python/adapter.py"
        done = self.pytest(
            "--tzmark-adapter-command",
            shlex.join([sys.executable, str(template)]),
            "--tzmark-options",
            "--rule TZR-HDR-002",
            "-q",
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"\b[1-9]\d* passed")
        done = self.pytest("--tzmark-adapter", "adapter:Crashing", "-k", "index-kind")
        self.assertEqual(done.returncode, 1)
        self.assertIn("IndexError: not a refusal", done.stdout)

    def test_options_of_the_suite(self) -> None:
        done = self.pytest(
            "--tzmark-adapter", "adapter", "--tzmark-options", "--only index-kind-0"
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.cases(), {"index-kind-0": "passed"})

    @unittest.skipUnless(TENSORIZER.exists(), "scripts/peers has not run")
    def test_tensorizer(self) -> None:
        options = "--rule TZR-HDR-003"
        adapter = SOURCE / "conformance/adapters/tensorizer-python/adapter.py"
        command = shlex.join([str(TENSORIZER), "-B", str(adapter)])
        self.pytest("--tzmark-adapter-command", command, "--tzmark-options", options)
        verdicts = self.cases()
        self.assertEqual(verdicts, self.command(*options.split(), adapter=command))
        self.assertIn("passed", verdicts.values())

    def test_adapter_of_another_python(self) -> None:
        # Whatever this Python imports must not be in the way of the other one.
        program = self.directory / "environment.py"
        program.write_text("import os, sys\nsys.exit(os.environ.get('PYTHONPATH'))\n")
        done = self.pytest(
            "--tzmark-adapter-command", shlex.join([sys.executable, str(program)]), "-x"
        )
        self.assertIn(os.environ["PYTHONPATH"], done.stdout)
        self.assertNotIn(str(self.directory) + ":", done.stdout)

    def test_suites_that_cannot_run(self) -> None:
        for options in (
            ("--tzmark-adapter", "no_such_module", "-k", "index-kind-0"),
            ("--tzmark-adapter", "adapter:Nothing", "-k", "index-kind-0"),
            ("--tzmark-adapter", "adapter", "--tzmark-adapter-command", "x"),
            ("--tzmark-adapter", ""),
            ("--tzmark-adapter", "adapter", "--tzmark-options", "--nothing"),
        ):
            with self.subTest(options=options):
                done = self.pytest(*options)
                self.assertIn(done.returncode, (1, 4), done.stdout)
                self.assertNotIn(" passed", done.stdout)

    def test_without_an_adapter(self) -> None:
        (self.directory / "test_own.py").write_text("def test_own(): pass\n")
        done = self.pytest("-q")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.verdicts(), {"test_own": "passed"})


if __name__ == "__main__":
    try:
        import pytest
    except ImportError:
        print("pytest is not installed: apt-get install python3-pytest")
        sys.exit(SKIPPED)
    del pytest
    unittest.main(verbosity=2)
