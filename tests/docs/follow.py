"""Follows a document literally, and checks that what it shows is what happens.

Blocks of the document are processed in order:

- `sh`: every line is a command of one shell. It succeeds, or exits with 1 where the text below it shows failed cases.
- `text`: each line is one of the output of the block above. A number that is not 0 stands for any other, as the corpus
  grows, and so does a number with a decimal point; "..." stands for anything, and spaces for more or fewer of them.
- `diff`: an edit of the file that its first line names. The lines with "-" and " " are there once, and become those
  with "+" and " ". Go is indented with tabs; the block has four spaces for each, because documents have no tabs.
- `yaml`: the commands of its `run:` lines are run like those of `sh`.
- `json`: a line of it is one of the output of the block above.

Other blocks are for reading.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FAILED_CASES = re.compile(
    r"\b[1-9]\d* failed,|^known failures|^against-1:", re.MULTILINE
)
JUDGES = re.compile(r"tzmark (conform|against) ")
MEASUREMENT = re.compile(r"\d+\.\d+")
NUMBER_OR_GAP = re.compile(r"(\.\.\.|\s+|\d+\.\d+|\d+)")
RUN = re.compile(r"^ *(?:- )?run: (.+)", re.MULTILINE)
# They install and build, and one of them runs this test; tests/package/wheel_test.py follows those of the wheel.
LEFT_OUT = {
    "scripts/run",
    "scripts/setup",
    "scripts/test",
    "scripts/package wheel",
    "pip install build/package/dist/tzmark*.whl",
    "tzmark conform",
}
# Printed after each command by the shell, with the command's status.
MARK = "end-of-command"


class Shell:
    """A shell that runs all commands, as in a terminal."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=directory,
            env=environment,
        )

    def run(self, command: str) -> tuple[str, int]:
        """Returns output and exit status of a command."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        if command.startswith("mpirun "):
            # It would read what the shell is to read next.
            command = f"{command} </dev/null"
        print(f"{command}\nprintf '\\n%s %s\\n' {MARK} $?", file=stdin, flush=True)
        lines: list[str] = []
        for line in stdout:
            if line.startswith(f"{MARK} "):
                return "".join(lines), int(line.split()[1])
            lines.append(line)
        raise AssertionError(f"the shell ended: {command}")


def commands(block: str) -> list[str]:
    """Returns the commands of an sh block, one per line; a backslash at its end continues a line."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and line.strip() not in LEFT_OUT]


def all_commands(text: str) -> list[str]:
    """Returns the commands of all sh blocks of a document, in order."""
    return [
        line
        for language, block in BLOCK.findall(text)
        if language == "sh"
        for line in commands(block)
    ]


def pattern_of(line: str) -> re.Pattern[str]:
    """Returns the pattern that a line of a text block stands for."""
    pieces = []
    for piece in NUMBER_OR_GAP.split(line.strip()):
        if piece == "...":
            pieces.append(".*")
        elif piece.isspace():
            pieces.append(r"\s+")
        elif MEASUREMENT.fullmatch(piece):
            pieces.append(MEASUREMENT.pattern)
        elif piece.isdigit():
            pieces.append("0" if piece == "0" else r"0*[1-9]\d*")
        else:
            pieces.append(re.escape(piece))
    return re.compile("".join(pieces))


def missing_lines(shown: str, output: str) -> Iterator[str]:
    """Yields the lines that are shown and that the output lacks; it quotes names that a shell would split."""
    lines = [line.strip() for line in output.splitlines()]
    lines += [line.replace("'", "") for line in lines]
    for line in shown.splitlines():
        if line.strip() and not any(map(pattern_of(line).fullmatch, lines)):
            yield line


def with_tabs(text: str) -> str:
    """Returns the text with a tab for each four spaces of indentation."""
    return re.sub(
        r"^(?: {4})+", lambda blanks: "\t" * (len(blanks[0]) // 4), text, flags=re.M
    )


def edit(directory: Path, block: str) -> None:
    """Applies the edit that a diff block shows."""
    name, *lines = block.splitlines()
    path = directory / name.removeprefix("--- ")
    text = path.read_text(encoding="utf-8")
    before = "".join(line[1:] + "\n" for line in lines if line[:1] != "+")
    after = "".join(line[1:] + "\n" for line in lines if line[:1] != "-")
    if path.suffix == ".go":
        before, after = (with_tabs(lines) for lines in (before, after))
    if text.count(before) != 1:
        raise AssertionError(
            f"{name}: these lines do not occur exactly once:\n{before}"
        )
    path.write_text(text.replace(before, after), encoding="utf-8")


# What tune says where the machine kept it from an answer.
BUSY = "the machine was busy"


class BusyMachine(Exception):
    """A measurement that says itself that the machine is too busy for it: no fault of the document."""


class Follower:
    """Does what a document says, block by block."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._directory = directory
        self._shell = Shell(directory, environment)
        self._output = ""

    def follow(self, blocks: list[tuple[str, str]]) -> None:
        for number, (language, block) in enumerate(blocks):
            below = blocks[number + 1][1] if number + 1 < len(blocks) else ""
            if language == "sh":
                self._run_all(commands(block), bool(FAILED_CASES.search(below)))
            elif language == "yaml":
                self._run_all(RUN.findall(block), False)
            elif language == "diff":
                edit(self._directory, block)
            elif language in ("text", "json"):
                for line in missing_lines(block, self._output):
                    if "no answer" in self._output and BUSY in self._output:
                        raise BusyMachine(line)
                    raise AssertionError(f"not shown: {line}\nbut:\n{self._output}")

    def _run_all(self, lines: list[str], fails: bool) -> None:
        self._output = ""
        for line in lines:
            print(f"$ {line}", flush=True)
            output, status = self._shell.run(line)
            print(output, flush=True)
            wanted = 1 if fails and JUDGES.match(line) else 0
            if status == 1 and wanted == 0 and " bench against " in line:
                # One verdict in a hundred about equal speeds is wrong by design; two in a row are a fault.
                output, status = self._shell.run(line)
                print(f"again:\n{output}", flush=True)
            if status == 2 and "the machine is too busy" in output:
                raise BusyMachine(line)
            if status != wanted:
                raise AssertionError(f"status {status} instead of {wanted}: {line}")
            self._output += output
