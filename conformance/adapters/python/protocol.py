"""The adapter protocol (conformance/PROTOCOL.md) around an implementation written in Python: one question a process,
and serve. An adapter brings the implementation; how answers look, and that nothing else gets onto stdout, is done here.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

Json = dict[str, Any]

REJECTED_STATUS = 1
UNSUPPORTED_STATUS = 2
MESSAGE_CHARACTERS_MAX = 400


class Rejected(Exception):
    """The implementation refuses the file, or the specification of one."""


class Unsupported(Exception):
    """The implementation knows that it lacks what this takes."""


@dataclass(frozen=True)
class Secret:
    """How a file is to be opened or locked: by exactly one of the two."""

    key: bytes | None = None
    passphrase: str | None = None


class Implementation(Protocol):
    """What is asked. Every exception but the two above is a crash."""

    def capabilities(self) -> Json:
        ...

    def decode(self, file: str, secret: Secret | None) -> Json:
        ...

    def verify(self, file: str, secret: Secret | None) -> None:
        ...

    def encode(self, spec: str, out: str, secret: Secret | None) -> None:
        ...


def one_line(error: BaseException) -> str:
    """The message of an exception, fit for a report."""
    return " ".join(str(error).split())[:MESSAGE_CHARACTERS_MAX]


def crash_text(error: BaseException) -> str:
    """The class and message of an unexpected exception, and the function that raised it.

    Lines of code differ from release to release of a library, and results of several are to be compared.
    """
    place = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{Path(code.co_filename).name}, {code.co_name}"
        trace = trace.tb_next
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    return f"{name}: {one_line(error)} ({place})"


def claim_stdout() -> TextIO:
    """The real stdout, for answers alone. Whatever else prints, from Python or from C, prints to stderr from now on."""
    # Half a surrogate pair, which a name may hold in Python, is no text: it is replaced.
    answers = os.fdopen(
        os.dup(1), "w", encoding="utf-8", errors="replace", newline="\n"
    )
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers


def say(answers: TextIO, document: Json) -> None:
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    answers.write(text + "\n")
    answers.flush()


def ask(implementation: Implementation, request: Json) -> Json:
    """The answer to one request, as serve gives it, without its id."""
    secret = None
    if "key_hex" in request:
        secret = Secret(key=bytes.fromhex(request["key_hex"]))
    elif "passphrase" in request:
        secret = Secret(passphrase=request["passphrase"])
    try:
        match request["command"]:
            case "capabilities":
                return {"capabilities": implementation.capabilities()}
            case "decode":
                return {"decoded": implementation.decode(request["file"], secret)}
            case "verify":
                implementation.verify(request["file"], secret)
                return {"verified": True}
            case "encode":
                implementation.encode(request["spec"], request["out"], secret)
                return {"encoded": True}
            case command:
                return {"unsupported": f"the command {command!r}"}
    except Rejected as error:
        refusal = {"rule": None, "offset": None, "message": one_line(error)}
        return {"rejected": refusal}
    except Unsupported as error:
        return {"unsupported": one_line(error)}


def give_memory_back() -> None:
    """Frees what the last question left behind, so that the next one is not blamed for it."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def serve(implementation: Implementation, answers: TextIO) -> None:
    """Answers every line of stdin."""
    # Whatever is there by now stays; the collector need not walk it after each question.
    gc.collect()
    gc.freeze()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            answer = ask(implementation, request)
        except Exception as error:  # the process has to go on, whatever it was
            answer = {"crashed": crash_text(error)}
        say(answers, {"id": request["id"], **answer})
        give_memory_back()


def one_shot(implementation: Implementation, answers: TextIO, request: Json) -> int:
    """Answers one question. What is neither rejected nor unsupported leaves as the exception that it is."""
    answer = ask(implementation, request)
    (kind,) = answer
    # The profile and the decoded content are the whole output; the others are a line that says what they are.
    say(answers, answer[kind] if kind in ("capabilities", "decoded") else answer)
    return {"rejected": REJECTED_STATUS, "unsupported": UNSUPPORTED_STATUS}.get(kind, 0)


def parse(
    arguments: list[str], parser: argparse.ArgumentParser
) -> tuple[argparse.Namespace, Json]:
    """Adds the commands of the protocol to the adapter's own options; returns these and the request."""
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("capabilities")
    commands.add_parser("serve")
    for name, operands in (
        ("decode", ["file"]),
        ("verify", ["file"]),
        ("encode", ["spec", "out"]),
    ):
        command = commands.add_parser(name)
        for operand in operands:
            command.add_argument(operand)
        key = command.add_mutually_exclusive_group()
        key.add_argument("--key-file", type=Path)
        key.add_argument("--passphrase-file", type=Path)
    options = parser.parse_args(arguments)
    request = {
        name: getattr(options, name)
        for name in ("command", "file", "spec", "out")
        if hasattr(options, name)
    }
    if getattr(options, "key_file", None):
        request["key_hex"] = options.key_file.read_text()
    if getattr(options, "passphrase_file", None):
        request["passphrase"] = options.passphrase_file.read_bytes().decode()
    return options, request


def main(
    make: Callable[[argparse.Namespace], Implementation],
    arguments: list[str],
    parser: argparse.ArgumentParser,
) -> int:
    """Runs an adapter: make gets the parsed options and returns the implementation, with its library loaded."""
    options, request = parse(arguments, parser)
    answers = claim_stdout()
    implementation = make(options)
    if options.command == "serve":
        serve(implementation, answers)
        return 0
    return one_shot(implementation, answers, request)
