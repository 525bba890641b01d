"""Follows docs/tutorial.md literally, in an empty directory, and checks that what it shows is what happens.

Blocks of the document are done in order:

- `sh`: every line is a command of one shell. It succeeds, or exits with 1 where the text below it shows failed cases.
- `text`: each line is one of the output of the block above. A number that is not 0 stands for any other, as the corpus
  grows; "..." stands for anything.
- `diff`: an edit of the file that its first line names. The lines with "-" and " " are there once, and become those
  with "+" and " ".
- `yaml`: the commands of its `run:` lines are commands like those of `sh`.
- `json`: a line of it is one of the output of the block above.

Other blocks are for reading.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FAILED_CASES = re.compile(r"\b[1-9]\d* failed,|^known failures", re.MULTILINE)
RUN = re.compile(r"^ *(?:- )?run: (.+)", re.MULTILINE)
# Printed behind each command by the shell, with the command's status.
MARK = "end-of-command"


class Shell:
    """One shell in which all commands run, as in a terminal."""

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
        """Output and exit status of a command."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        print(f"{command}\nprintf '\\n%s %s\\n' {MARK} $?", file=stdin, flush=True)
        lines = []
        for line in stdout:
            if line.startswith(f"{MARK} "):
                return "".join(lines), int(line.split()[1])
            lines.append(line)
        raise AssertionError(f"the shell ended: {command}")


def commands(block: str) -> list[str]:
    """The commands of an sh block, one a line; a backslash at its end continues a line."""
    return [line for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def pattern_of(line: str) -> re.Pattern[str]:
    """What a line of a text block stands for."""
    pieces = []
    for piece in re.split(r"(\.\.\.|\d+)", line.strip()):
        if piece == "...":
            pieces.append(".*")
        elif piece.isdigit():
            pieces.append("0" if piece == "0" else r"0*[1-9]\d*")
        else:
            pieces.append(re.escape(piece))
    return re.compile("".join(pieces))


def missing_lines(shown: str, output: str) -> Iterator[str]:
    """The lines that the document shows and the output lacks. Names that a shell would split are quoted there."""
    lines = [line.strip() for line in output.splitlines()]
    lines += [line.replace("'", "") for line in lines]
    for line in shown.splitlines():
        if line.strip() and not any(map(pattern_of(line).fullmatch, lines)):
            yield line


def edit(directory: Path, block: str) -> None:
    """Makes the edit that a diff block shows."""
    name, *lines = block.splitlines()
    path = directory / name.removeprefix("--- ")
    text = path.read_text(encoding="utf-8")
    before = "".join(line[1:] + "\n" for line in lines if line[:1] != "+")
    after = "".join(line[1:] + "\n" for line in lines if line[:1] != "-")
    if text.count(before) != 1:
        raise AssertionError(f"{name}: these lines are not there once:\n{before}")
    path.write_text(text.replace(before, after), encoding="utf-8")


class Follower:
    """Someone who does what the document says."""

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
                    raise AssertionError(f"not shown: {line}\nbut:\n{self._output}")

    def _run_all(self, lines: list[str], fails: bool) -> None:
        self._output = ""
        for line in lines:
            print(f"$ {line}", flush=True)
            output, status = self._shell.run(line)
            print(output, flush=True)
            wanted = 1 if fails and line.startswith("tzmark conform") else 0
            if status != wanted:
                raise AssertionError(f"status {status} instead of {wanted}: {line}")
            self._output += output


def home_with_a_clone(home: Path) -> None:
    """A clone as the document wants it, with nothing but what a newcomer needs."""
    source, build = (
        Path(os.environ[name]) for name in ("TZMARK_SOURCE_DIR", "TZMARK_BUILD_DIR")
    )
    clone = home / "tzmark"
    clone.mkdir()
    (clone / "build").symlink_to(build)
    for folder in ("conformance", "docs", "reference"):
        (clone / folder).symlink_to(source / folder)


def main() -> int:
    document = Path(os.environ["TZMARK_SOURCE_DIR"]) / "docs/tutorial.md"
    blocks = BLOCK.findall(document.read_text(encoding="utf-8"))
    if not any("--repro" in block for language, block in blocks if language == "sh"):
        print(f"{document} has no commands to run")
        return 1
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as empty:
        home_with_a_clone(Path(home))
        environment = {**os.environ, "HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}
        Follower(Path(empty), environment).follow(blocks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
