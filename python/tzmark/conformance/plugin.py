"""The pytest plugin: runs the suite once on an adapter, and reports each case as a test, ``tzmark::CASE``.

``pytest --tzmark-adapter package.module`` is for an adapter in Python (see tzmark.conformance), and
``--tzmark-adapter-command CMD`` for one in any language. -k selects cases; without a selection all run. One more test,
``tzmark::run``, has the rules of the command for a whole run: it fails if no case ran, more were skipped than
``--max-skipped`` of ``--tzmark-options`` allows, or the list of known failures there does not match.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .._command import find_command
from .._errors import UnavailableError

# So many cases are named on the command line; more run all, and those that were not selected are not reported.
_NAMED_MAX = 500
_KNOWN_NAME = "known-failures"
_RUN_NAME = "run"
_REASON_MAX = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the options."""
    group = parser.getgroup(
        "tzmark", "conformance of implementations of .tensors and .safetensors files"
    )
    group.addoption(
        "--tzmark-adapter",
        metavar="MODULE[:OBJECT]",
        help="adapter in Python: run the suite on it, one test per case",
    )
    group.addoption(
        "--tzmark-adapter-command",
        metavar="CMD",
        help="adapter as a command, in any language",
    )
    group.addoption(
        "--tzmark-options",
        metavar="OPTIONS",
        default="",
        help="more options for tzmark conform, such as '--format safetensors' or '--layout v1 --strict'",
    )
    group.addoption(
        "--tzmark-known",
        metavar="FILE",
        help="list of known failures, as of tzmark conform --known: they are expected to fail",
    )


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Adds the cases to what was collected, and after the selection, the test of the run as a whole."""
    suite = _suite_of(session, config)
    if suite is not None:
        items.extend(suite.collect())
    yield
    # Not before: what -k or --deselect leaves out must not take the rules of the run with it.
    if suite is not None and any(type(item) is Case for item in items):
        items.append(WholeRun.from_parent(suite, name=_RUN_NAME))


def _suite_of(session: pytest.Session, config: pytest.Config) -> Suite | None:
    """Returns the suite that the options ask for."""
    module, command = config.getoption("--tzmark-adapter"), config.getoption(
        "--tzmark-adapter-command"
    )
    if module is None and command is None:
        return None
    if module is not None and command is not None:
        raise pytest.UsageError(
            "--tzmark-adapter and --tzmark-adapter-command exclude each other"
        )
    for name, value in (
        ("--tzmark-adapter", module),
        ("--tzmark-adapter-command", command),
    ):
        if value == "":
            raise pytest.UsageError(f"{name} is empty")
    if command is None:
        command = shlex.join([sys.executable, "-m", "tzmark.conformance.serve", module])
    try:
        run = Run(config, command, in_python=module is not None)
    except UnavailableError as error:
        raise pytest.UsageError(str(error)) from error
    suite: Suite = Suite.from_parent(session, name="tzmark", nodeid="tzmark", run=run)
    return suite


class Run:
    """One run of ``tzmark conform``, made when the first case needs it."""

    def __init__(self, config: pytest.Config, adapter: str, in_python: bool) -> None:
        self._command = [find_command(), "conform", "--adapter", adapter]
        self._command += shlex.split(config.getoption("--tzmark-options"))
        self.known = config.getoption("--tzmark-known")
        self._environment = dict(os.environ)
        if in_python:
            # The adapter finds what the tests find. Another program may be of another Python.
            places = [str(config.rootpath), *filter(None, sys.path)]
            self._environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(places))
        self._cases: dict[str, dict[str, Any]] | None = None
        self.problems: list[str] = []
        self.skipped_max: int | None = None
        self.shapes: set[str] = set()
        self._failure: str | None = None

    def names(self) -> list[str]:
        """Returns the ids of all cases."""
        done = self._call("--list")
        if done.returncode != 0:
            raise pytest.UsageError(
                f"{shlex.join(self._command)}: {done.stderr.strip()}"
            )
        return [line.split("\t")[0] for line in done.stdout.splitlines() if line]

    def result(self, name: str, selected: list[str], of_all: int) -> dict[str, Any]:
        """Returns the result of a case, as in the JSON of the command."""
        self.run(selected, of_all)
        assert self._cases is not None
        if name not in self._cases:
            raise SuiteError(f"the run has no result of {name}")
        return self._cases[name]

    def run(self, selected: list[str], of_all: int) -> None:
        """Runs the suite, once. Raises SuiteError if it could not be run."""
        if self._failure is not None:
            raise SuiteError(self._failure)
        if self._cases is not None:
            return
        options: list[str] = []
        if (
            len(selected) < of_all
            and len(selected) <= _NAMED_MAX
            and self.known is None
        ):
            options = [word for name in selected for word in ("--only", name)]
        if self.known is not None:
            options += ["--known", self.known]
        with tempfile.TemporaryDirectory() as directory:
            result = Path(directory) / "result.json"
            done = self._call("--json", str(result), *options)
            if done.returncode not in (0, 1) or not result.exists():
                self._failure = f"tzmark conform exits with {done.returncode}:\n{done.stderr.strip()}"
                raise SuiteError(self._failure)
            document = json.loads(result.read_text(encoding="utf-8"))
        self._cases = {case["id"]: case for case in document["cases"]}
        self.skipped_max = document["options"]["skipped_max"]
        self.shapes = {mode["shape"] for mode in document["shapes"]}
        self.problems = [
            json.dumps(one) if isinstance(one, dict) else str(one)
            for one in document["known_problems"]
        ]

    def _call(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=self._environment,
        )


class SuiteError(Exception):
    """The suite itself could not be run."""


class CaseFailure(Exception):
    """A case has failed. The text says why."""


class Suite(pytest.Collector):
    """All cases."""

    def __init__(self, *, run: Run, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.run = run
        self.names = run.names()

    def collect(self) -> list[pytest.Item]:
        """Returns one test per case, and one for the list of known failures if there is one."""
        items: list[pytest.Item] = [
            Case.from_parent(self, name=name) for name in self.names
        ]
        if self.run.known is not None:
            items.append(KnownFailures.from_parent(self, name=_KNOWN_NAME))
        return items


class Case(pytest.Item):
    """One case of the corpus. Its verdict is that of the command."""

    def runtest(self) -> None:
        """Reports the result of the case."""
        suite = self.parent
        assert isinstance(suite, Suite)
        try:
            result = suite.run.result(self.name, _selected(self), len(suite.names))
        except SuiteError:
            # All others would say the same.
            self.session.shouldfail = "the suite could not be run"
            raise
        if result["outcome"] == "skipped":
            pytest.skip(result["reason"] or "skipped")
        if result["outcome"] in ("pass", "implementation-defined"):
            return
        if result["known"] is not None:
            pytest.xfail(f"{result['outcome']}: {result['known']}")
        raise CaseFailure(_failure_text(result))

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> Any:
        """Returns the text of a failure, without the plugin's own stack."""
        if isinstance(excinfo.value, (CaseFailure, SuiteError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Returns where the test is and its title."""
        return self.path, None, f"tzmark: {self.name}"


def _selected(item: pytest.Item) -> list[str]:
    """Returns the cases that this session reports."""
    return [each.name for each in item.session.items if type(each) is Case]


class WholeRun(Case):
    """The rules of the command for a run as a whole: some case ran, not too many were skipped, and --known matches."""

    def runtest(self) -> None:
        """Fails if the cases of this session break one of them."""
        suite = self.parent
        assert isinstance(suite, Suite)
        selected = _selected(self)
        results = [
            suite.run.result(name, selected, len(suite.names)) for name in selected
        ]
        if all(result["outcome"] == "skipped" for result in results):
            raise CaseFailure("no case ran")
        # The list of --tzmark-known has a test of its own.
        if suite.run.problems and suite.run.known is None:
            raise CaseFailure("\n".join(suite.run.problems))
        shapes = suite.run.shapes
        skipped = sum(_skipped_something(result, shapes) for result in results)
        if suite.run.skipped_max is not None and skipped > suite.run.skipped_max:
            raise CaseFailure(
                f"{skipped} cases were skipped, whole or in an input mode; "
                f"--max-skipped allows {suite.run.skipped_max}"
            )


def _skipped_something(result: dict[str, Any], shapes: set[str]) -> bool:
    """Returns whether a case, one of its questions, or one of the input modes of the run was skipped."""
    steps = result["steps"]
    if "skipped" in [result["outcome"], *(step["outcome"] for step in steps)]:
        return True
    # A mode that the profile does not have leaves no question.
    asked = {step["shape"] for step in steps}
    return result["operation"] != "encode" and not shapes <= asked


class KnownFailures(Case):
    """The list of known failures matches the run."""

    def runtest(self) -> None:
        """Fails for each difference."""
        suite = self.parent
        assert isinstance(suite, Suite)
        suite.run.run(suite.names, len(suite.names))
        if suite.run.problems:
            raise CaseFailure("\n".join(suite.run.problems))


def _failure_text(result: dict[str, Any]) -> str:
    """Returns what the command prints about a failed case: outcome, rules, reason, and how to repeat it."""
    lines = [
        f"{result['outcome']} {result['id']} ({', '.join(result['rules'])})",
        f"why: {result['why']}",
    ]
    for step in result["steps"]:
        if step["outcome"] in ("pass", "skipped", "implementation-defined"):
            continue
        lines.append(f"{step['command']}: {step['reason']}")
        lines += step["stderr_tail"].splitlines()[-_REASON_MAX:]
    if not result["steps"] and result["reason"]:
        lines.append(result["reason"])
    return "\n".join([*lines, f"repeat: {result['repro']}"])
