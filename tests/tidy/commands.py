"""The commands that the documents tell people to type: found in fenced sh blocks, and held against what there is."""

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FENCED_SH = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
ASSIGNMENT = re.compile(r"\w+=")
SEPARATORS = {"|", "||", "&&", ";", "&"}
TAKES_COMMAND = re.compile(r"^Usage: .* \[?SUBCOMMAND\]?$", re.MULTILINE)
REDIRECTION = re.compile(r"[<>]+&?")


@dataclass(frozen=True)
class Command:
    """One simple command of a document, and the line on which its block begins."""

    document: Path
    line: int
    words: tuple[str, ...]


def simple_commands(line: str) -> Iterator[tuple[str, ...]]:
    """The simple commands of one line, without assignments and redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    skip_next = False
    for word in [*lexer, ";"]:
        if word in SEPARATORS:
            if words:
                yield tuple(words)
            words = []
        elif skip_next:
            skip_next = False
        elif REDIRECTION.fullmatch(word):
            skip_next = True
        elif words or not ASSIGNMENT.match(word):
            words.append(word)


def commands(document: Path, text: str) -> Iterator[Command]:
    """Every command in the document's sh blocks."""
    for block in FENCED_SH.finditer(text):
        number = text.count("\n", 0, block.start()) + 1
        for line in block[1].replace("\\\n", " ").splitlines():
            for words in simple_commands(line.removeprefix("$ ")):
                yield Command(document, number, words)


class Checker:
    """Says what a command names that is not there."""

    def __init__(self, source: Path, build: Path) -> None:
        self._source = source
        self._build = build
        presets = json.loads((source / "CMakePresets.json").read_text())
        self._presets = {preset["name"] for preset in presets["configurePresets"]}

    def wrong(self, words: tuple[str, ...]) -> str | None:
        """None if all that the command names is there."""
        program = words[0].removeprefix("./")
        if program in ("cmake", "ctest"):
            return self._wrong_preset(words)
        if program.startswith(("scripts/", ".ci/", "conformance/", "bench/")):
            path = self._source / program
            if not (path.is_file() and path.stat().st_mode & 0o100):
                return f"there is no program {program}"
            return self._wrong_preset(words)
        if program == "tzmark" or program.startswith("build/bin/"):
            return self._wrong_tool(program.removeprefix("build/bin/"), words[1:])
        return None

    def _wrong_preset(self, words: tuple[str, ...]) -> str | None:
        for option, value in zip(words, words[1:]):
            if option == "--preset" and value not in self._presets:
                return f"there is no preset {value}"
        return None

    def _wrong_tool(self, tool: str, arguments: tuple[str, ...]) -> str | None:
        if not (self._build / "bin" / tool).is_file():
            return f"the build makes no {tool}"
        subcommands: tuple[str, ...] = ()
        for argument in arguments if tool == "tzmark" else ():
            # A command, or one of a group of commands.
            text = self._help(tool, *subcommands)
            if argument.startswith("-") or not TAKES_COMMAND.search(text):
                break
            if not re.search(rf"^ +{re.escape(argument)}\b", text, re.MULTILINE):
                return f"{' '.join((tool, *subcommands))} has no command {argument}"
            subcommands = (*subcommands, argument)
        text = self._help(tool, *subcommands)
        for argument in arguments:
            option = argument.split("=")[0]
            if option.startswith("--") and not re.search(
                rf"(?<![\w-]){re.escape(option)}(?![\w-])", text
            ):
                return f"{' '.join((tool, *subcommands))} has no option {option}"
        return None

    @cache
    def _help(self, tool: str, *subcommands: str) -> str:
        done = subprocess.run(
            [str(self._build / "bin" / tool), *subcommands, "--help"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{tool} {' '.join(subcommands)} --help: {done.stderr}")
        return done.stdout


def wrong_commands(
    document: Path, text: str, wrong: Callable[[tuple[str, ...]], str | None]
) -> list[str]:
    """What is wrong with the commands of one document."""
    return [
        f"{command.document}: block at line {command.line}: {problem}: {shlex.join(command.words)}"
        for command in commands(document, text)
        if (problem := wrong(command.words))
    ]
