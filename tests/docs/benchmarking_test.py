"""Runs the commands of docs/benchmarking.md in order, in an empty directory, and compares its table of options with the
program's help.

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
TABLE = re.compile(r"^## All options\n(.*?)^## ", re.MULTILINE | re.DOTALL)
WORKLOADS = re.compile(r"The workloads are (.*?)\. ", re.DOTALL)


def differences(text: str, help_text: str) -> list[str]:
    """Returns the options and workloads that only the document or only the program has."""
    table = TABLE.search(text)
    told = set(OPTION.findall(table[1])) if table else set()
    there = set(OPTION.findall(help_text)) - COMMON
    found = [f"{option} is not in the table of options" for option in there - told]
    found += [f"{option} is no option of tzmark bench" for option in told - there]
    listed = WORKLOADS.search(text)
    if not listed or " ".join(listed[1].split()) not in help_text:
        found.append("the workloads are not those of tzmark bench")
    return sorted(found)


def notices_differences(text: str, help_text: str) -> bool:
    """Returns whether the comparison finds introduced differences."""
    changes = (
        (text, help_text + " --brand-new"),
        (text.replace("| `--dir` |", "| `--dirs` |"), help_text),
        (text.replace("many-tiny, mixed.", "mixed."), help_text),
    )
    return all(differences(*change) for change in changes)


def run(lines: list[str], source: Path, build: Path) -> int:
    """Runs the commands in one shell that stops at the first failure, and checks their results."""
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        (here / "build").symlink_to(build)
        for folder in ("scripts", "reports"):
            (here / folder).symlink_to(source / folder)
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
    if not any("--check" in line for line in lines):
        print("docs/benchmarking.md has no commands to run")
        return 1
    if os.environ.get("TZMARK_NO_PEERS") == "1":
        lines = [line for line in lines if "--peers" not in line.split()]
    help_text = subprocess.run(
        [build / "bin/tzmark", "bench", "--help"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    wrong = differences(text, help_text)
    for line in wrong:
        print(line)
    if not notices_differences(text, help_text):
        print(
            "the comparison of the document with the program finds no introduced difference"
        )
        return 1
    return run(lines, source, build) or (1 if wrong else 0)


if __name__ == "__main__":
    sys.exit(main())
