"""Checks that the suite catches every wrong adapter, and that some case tests each rule that can be broken alone.

For each of WRONG_ADAPTERS some case must fail that is about one of its rules, or whose explanation names one. If the
adapter names the cases that catch it, these must fail and no others, so none of them is superfluous. An adapter that
misreads in some input modes must fail in these and no other; the controls must pass. And for each MUST rule of the
format one of these must hold:

- the model fails when it runs without the rule (tzmark-adapter-model --without RULE),
- a wrong adapter breaks it that has it as its first rule, where the rule binds writers or what a reader does,
- implied.json says which other rules catch the same files, and the model fails without all of them together.

usage: wrong_adapters_test.py [--all-cases] [NAME or RULE]...    (default: all)

With TZMARK_PART=K/N in the environment, 0 <= K < N, only each Nth of these jobs from the Kth on, and the controls: for
runs after each commit.

With --all-cases, an adapter that names the cases that catch it is asked about the whole corpus, not only about the
cases of its rules.

Prints one line each: how many cases caught it, and the first of them.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import adapter  # noqa: F401, it registers all of them
from wrong_adapter import WRONG_ADAPTERS, Json, WrongAdapter, about, only

HERE = Path(__file__).resolve().parent
SOURCE = Path(os.environ.get("TZMARK_SOURCE_DIR", HERE.parents[1]))
BUILD = Path(os.environ.get("TZMARK_BUILD_DIR", SOURCE / "build"))
CONFORM = BUILD / "libexec/tzmark/tzmark-conform"
REFERENCE = BUILD / "libexec/tzmark/tzmark-adapter-reference"
READ_ONLY = BUILD / "libexec/tzmark/tzmark-read-only"
MODEL = BUILD / "libexec/tzmark/tzmark-adapter-model"

# Whether this machine lets the suite mount a directory read-only for a process.
HAS_READ_ONLY = (
    subprocess.run([READ_ONLY, SOURCE, "true"], capture_output=True).returncode == 0
)
INPUT_MODES = (
    *("file", "pipe", "short-reads", "read-only", "offset"),
    *("http", "http-faults"),
)
PASSING = ("pass", "implementation-defined", "skipped")

ALL_CASES = "--all-cases"
# An option of this test alone: also the cases of large files.
LARGE = "--large"
# An option of this test alone: the input modes of a run that names none.
SAMPLED = "--sampled"
# Cases that go through all places, numbers, lengths and rarities; those that are not named may catch an adapter too.
SWEEPING = ("where-", "width-", "large-", "unusual-")

# What was found: the line to print, and whether that is as it has to be.
Finding = tuple[str, bool]


class SuiteError(Exception):
    """The suite did not judge."""


def asked(options: list[str]) -> list[str]:
    """The options, without large files and further input modes where they do not ask for these, which take long."""
    if "--shape" not in options and SAMPLED not in options:
        options = [*options, "--shape", "file"]
    options = [option for option in options if option != SAMPLED]
    if LARGE not in options:
        return [*options, "--quick"]
    return [option for option in options if option != LARGE]


def failed_cases(command: Iterable[str | Path], options: Iterable[str]) -> list[Json]:
    """The cases that an adapter fails."""
    with tempfile.NamedTemporaryFile(prefix="tzmark-wrong-adapters-") as result:
        words = [CONFORM, "--adapter", shlex.join(map(str, command)), "--jobs", "1"]
        done = subprocess.run(
            [*words, *asked(list(options)), "--json", result.name],
            capture_output=True,
            text=True,
            env={**os.environ, "TZMARK_HTTP_PAUSE_MS": "1"},
        )
        if done.returncode not in (0, 1):
            raise SuiteError(f"status {done.returncode}, {done.stderr.strip()}")
        cases = json.loads(Path(result.name).read_bytes())["cases"]
    if all(case["outcome"] == "skipped" for case in cases):
        raise SuiteError("no case ran")
    return [case for case in cases if case["outcome"] not in PASSING]


def names_mistake(case: Json, wrong: WrongAdapter) -> bool:
    """Whether a failed case is about one of an adapter's rules."""
    explained = [step["explanation"] for step in case["steps"] if step["explanation"]]
    return bool({*case["rules"], *(e["rule"] for e in explained)} & set(wrong.rules))


def caught(name: str, cases: list[Json]) -> str:
    first = f", first {cases[0]['id']} ({cases[0]['outcome']})" if cases else ""
    return f"{name}: caught by {len(cases)} cases{first}"


def failing_modes(cases: list[Json]) -> set[str]:
    """The input modes in which some step of these cases failed."""
    return {
        step["shape"]
        for case in cases
        for step in case["steps"]
        if step["outcome"] not in PASSING
    }


def judge_input_modes(wrong: WrongAdapter, command: list[str | Path]) -> Finding:
    modes = [mode for mode in INPUT_MODES if mode != "read-only" or HAS_READ_ONLY]
    if not set(wrong.input_modes) <= set(modes):
        return f"{wrong.name}: not judged, no read-only mount can be had here", True
    failed = failed_cases(command, [*wrong.options, "--shape", ",".join(modes)])
    found = failing_modes(failed)
    line = f"{caught(wrong.name, failed)}, in {sorted(found)}"
    if set(wrong.input_modes) <= {"short-reads", "offset"}:
        # These are part of every run, for some of the files.
        found &= failing_modes(failed_cases(command, [*wrong.options, SAMPLED]))
        line += f", {len(found)} of them without being asked for"
    return line, found == set(wrong.input_modes)


def judge_wrong_adapter(wrong: WrongAdapter) -> Finding:
    command = [sys.executable, "-B", HERE / "adapter.py", wrong.name, REFERENCE]
    if wrong.input_modes:
        return judge_input_modes(wrong, command)
    whole = wrong.caught_by and ALL_CASES in sys.argv
    options = only("*") if whole else tuple(wrong.options)
    if any("large-" in id_ for id_ in wrong.caught_by):
        options += (LARGE,)
    # Most adapters fail without the cases that go through all places and numbers, which are half of the corpus.
    rest = () if "--only" in options else only("!where-*") + only("!width-*")
    failed = failed_cases(command, options + rest)
    if rest and not wrong.is_right and not any(names_mistake(c, wrong) for c in failed):
        failed = failed_cases(command, options)
    if wrong.is_right:
        return caught(wrong.name, failed), not failed
    right = [case for case in failed if names_mistake(case, wrong)]
    ids = {case["id"] for case in failed}
    expected = set(wrong.caught_by)
    others = {id_ for id_ in ids - expected if not id_.startswith(SWEEPING)}
    if expected and (others or not expected <= ids):
        return (
            f"{wrong.name}: caught by {sorted(ids)}, not by {sorted(expected)}",
            False,
        )
    line = caught(wrong.name, right)
    if failed and not right:
        line += f"; {caught('but', failed)}, which name {failed[0]['rules']}"
    return line, bool(right)


def without(rules: tuple[str, ...]) -> list[Json]:
    """The cases that the model fails without these rules."""
    switches = [word for rule in rules for word in ("--without", rule)]
    return failed_cases([MODEL, *switches], about(rules[:1]))


def judge_rule(rule: str, binds: str, implied: Json) -> Finding:
    failed = [] if binds == "writer" else without((rule,))
    line = caught(f"without {rule}", failed)
    if rule in implied:
        others = implied[rule]["implied-by"]
        together = without((rule, *others))
        line = caught(f"without {rule} and {' and '.join(others)}", together)
        if failed:
            return f"{line}; it need not be listed, {caught('alone', failed)}", False
        return line, bool(together)
    if failed:
        return line, True
    broken_by = [m.name for m in WRONG_ADAPTERS.values() if m.rules[:1] == (rule,)]
    return f"{line}; wrong adapters that break it: {broken_by}", bool(broken_by)


def in_part(jobs: list[str], part: str) -> list[str]:
    """The names of the jobs of one part, such as 0/3, and those of the controls."""
    first, parts = (int(number) for number in part.split("/"))
    if not 0 <= first < parts:
        raise ValueError(f"TZMARK_PART is {part}; it must be K/N, with K from 0 to N-1")
    chosen = jobs[first::parts]
    return [
        j for j in jobs if j in chosen or (w := WRONG_ADAPTERS.get(j)) and w.is_right
    ]


def finding(name: str, job: Callable[[], Finding]) -> Finding:
    try:
        return job()
    except SuiteError as error:
        return f"{name}: {error}", False


def main() -> int:
    implied = json.loads((HERE / "implied.json").read_text(encoding="utf-8"))
    document = json.loads((SOURCE / "corpus/rules.json").read_text(encoding="utf-8"))
    rules = {
        rule: described["binds"]
        for rule, described in document["rules"].items()
        if rule.startswith("TZR-") and described["level"] == "MUST"
    }
    if unknown := set(implied) - set(rules):
        print(f"implied.json lists what is no MUST rule: {sorted(unknown)}")
        return 1
    jobs: dict[str, Callable[[], Finding]] = {
        **{m.name: partial(judge_wrong_adapter, m) for m in WRONG_ADAPTERS.values()},
        **{r: partial(judge_rule, r, binds, implied) for r, binds in rules.items()},
    }
    part = in_part(list(jobs), os.environ.get("TZMARK_PART", "0/1"))
    wanted = [name for name in sys.argv[1:] if name != ALL_CASES] or part
    status = 0
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for line, is_well in workers.map(
            lambda name: finding(name, jobs[name]), wanted
        ):
            print(line if is_well else f"WRONG {line}", flush=True)
            status = status if is_well else 1
    return status


if __name__ == "__main__":
    sys.exit(main())
