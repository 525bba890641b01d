"""Runs the commands of docs/benchmarking.md in order, in an empty directory, and compares its table of options with the
help of each command.

Requires scripts/peers, like the other tests of peers; with TZMARK_NO_PEERS=1 the commands that need it are skipped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from follow import all_commands

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
# Every program has it.
COMMON = {"--help"}
PROGRAM_OF_CLUSTER = "libexec/tzmark/tzmark-bench-cluster"
TABLE = re.compile(r"^## All options\n(.*?)^## ", re.MULTILINE | re.DOTALL)


def told(text: str) -> dict[str, set[str]]:
    """Returns the options of each command, as the table has them; its second column names the commands."""
    table = TABLE.search(text)
    options: dict[str, set[str]] = {}
    for row in table[1].splitlines() if table else ():
        if row.startswith("| `"):
            _, names, commands, *_ = row.split("|")
            for command in commands.replace(",", " ").split():
                options.setdefault(command, set()).update(OPTION.findall(names))
    return options


def differences(text: str, helps: dict[str, str]) -> list[str]:
    """Returns the options that only the document or only the program has."""
    listed = told(text)
    found = []
    for command in sorted(listed.keys() | helps.keys()):
        there = set(OPTION.findall(helps.get(command, ""))) - COMMON
        options = listed.get(command, set())
        found += [f"{one} of {command} is not in the table" for one in there - options]
        found += [f"{one} is no option of {command}" for one in options - there]
    return sorted(found)


def notices_differences(text: str, helps: dict[str, str]) -> bool:
    """Returns whether the comparison finds introduced differences."""
    changes = (
        (text, helps | {"check": helps["check"] + " --brand-new"}),
        (text.replace("| `--dir` |", "| `--dirs` |"), helps),
    )
    return all(differences(*change) for change in changes)


def help_of(tzmark: Path, *words: str) -> str:
    return subprocess.run(
        [tzmark, "bench", *words, "--help"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def run(lines: list[str], source: Path, build: Path) -> int:
    """Runs the commands in one shell that stops at the first failure, and checks their results."""
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        (here / "build").symlink_to(build)
        for name in ("scripts", "reports"):
            (here / name).symlink_to(source / name)
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        script = "\n".join(["set -ex", *lines])
        status = subprocess.run(
            ["bash", "-c", script], cwd=here, env=environment
        ).returncode
        if status != 0:
            return status
        if list((here / "scratch").iterdir()):
            print("something is left in the measured directory")
            return 1
        for result in here.glob("*.json"):
            if not json.loads(result.read_text())["results"]:
                print(f"{result.name} has no results")
                return 1
    return 0


def main() -> int:
    source, build = (
        Path(os.environ[name]) for name in ("TZMARK_SOURCE_DIR", "TZMARK_BUILD_DIR")
    )
    text = (source / "docs/benchmarking.md").read_text(encoding="utf-8")
    lines = all_commands(text)
    if not any(" check " in line for line in lines):
        print("docs/benchmarking.md has no commands to run")
        return 1
    if os.environ.get("TZMARK_NO_PEERS") == "1":
        lines = [line for line in lines if "--peers" not in line.split()]
    tzmark = build / "bin/tzmark"
    helps = {"bench": help_of(tzmark)}
    _, subcommands = helps["bench"].split("\nSubcommands:\n")
    for name in re.findall(r"^  (\w+)", subcommands, re.MULTILINE):
        # A program of its own, which builds without MPI lack.
        if name == "cluster" and not (build / PROGRAM_OF_CLUSTER).exists():
            print("skipped: the options of cluster: built without MPI")
            text = text.replace(", cluster |", " |").replace("| cluster |", "| |")
            continue
        helps[name] = help_of(tzmark, name)
    wrong = differences(text, helps)
    for line in wrong:
        print(line)
    if not notices_differences(text, helps):
        print(
            "the comparison of the document with the program finds no introduced difference"
        )
        return 1
    return run(lines, source, build) or (1 if wrong else 0)


if __name__ == "__main__":
    sys.exit(main())
