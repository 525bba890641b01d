"""Answers the questions of the suite for an adapter that is a module: conformance/PROTOCOL.md.

usage: python3 -m tzmark.conformance.serve PACKAGE.MODULE[:OBJECT] COMMAND [ARGUMENT...]
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from . import Rejected, Unsupported

Json = dict[str, Any]

COMMANDS = ("decode", "verify", "encode")
KEY_OPTIONS = {"--key-file": "key_hex", "--passphrase-file": "passphrase"}
STATUS = {"rejected": 1, "unsupported": 2}
MESSAGE_CHARACTERS_MAX = 400


class Adapter:
    """A module or an object that answers. Raises AttributeError if it has none of the functions, or no profile."""

    def __init__(self, name: str) -> None:
        module, _, member = name.partition(":")
        target = importlib.import_module(module)
        self._target = getattr(target, member) if member else target
        commands = [one for one in COMMANDS if hasattr(self._target, one)]
        if not commands:
            raise AttributeError(
                f"{name} has none of the functions decode, verify and encode"
            )
        profile = getattr(self._target, "PROFILE", None)
        if profile is None:
            profile = self._target.capabilities()
        self.profile: Json = {
            "protocol": 1,
            "commands": [*commands, "serve"],
            **profile,
        }
        refusals = tuple(getattr(self._target, "REJECTIONS", ()))
        self._refusals: tuple[type[BaseException], ...] = (Rejected, *refusals)

    def answer(self, request: Json) -> Json:
        """Returns the answer to a request of serve, without its id. Raises what the adapter does not catch."""
        command = request["command"]
        if command == "capabilities":
            return {"capabilities": self.profile}
        function: Callable[..., Any] | None = getattr(self._target, command, None)
        if command not in COMMANDS or function is None:
            return {"unsupported": f"the command {command!r}"}
        if "offset" in request:
            return {"unsupported": "a range of a larger file"}
        key = {name: request[name] for name in KEY_OPTIONS.values() if name in request}
        try:
            if command == "decode":
                return {"decoded": function(request["file"], key)}
            if command == "verify":
                function(request["file"], key)
                return {"verified": True}
            spec = json.loads(Path(request["spec"]).read_text(encoding="utf-8"))
            function(spec, request["out"], key)
            return {"encoded": True}
        except Unsupported as error:
            return {"unsupported": _one_line(error)}
        except self._refusals as error:
            rule, offset = getattr(error, "rule", None), getattr(error, "offset", None)
            return {
                "rejected": {
                    "rule": rule if isinstance(rule, str) else None,
                    "offset": offset if isinstance(offset, int) else None,
                    "message": _one_line(error),
                }
            }


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:MESSAGE_CHARACTERS_MAX]


def _claim_stdout() -> TextIO:
    """Returns the real stdout, for answers alone: whatever else prints, prints to stderr from now on."""
    answers = os.fdopen(
        os.dup(1), "w", encoding="utf-8", errors="replace", newline="\n"
    )
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers


def _say(answers: TextIO, document: Json) -> None:
    answers.write(
        json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"
    )
    answers.flush()


def _serve(adapter: Adapter, answers: TextIO) -> None:
    gc.collect()
    gc.freeze()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            given = adapter.answer(request)
        except (
            Exception
        ) as error:  # noqa: BLE001 - the process has to go on, whatever it was
            given = {"crashed": f"{type(error).__qualname__}: {_one_line(error)}"}
        _say(answers, {"id": request["id"], **given})
        # The next question is not to be blamed for the memory of this one.
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)


def _request(command: str, arguments: list[str]) -> Json:
    names = ["spec", "out"] if command == "encode" else ["file"]
    request: Json = {"command": command, **dict(zip(names, arguments))}
    options = arguments[len(names) :]
    for option, value in zip(options[::2], options[1::2]):
        if option not in KEY_OPTIONS:
            request["offset"] = value
            continue
        request[KEY_OPTIONS[option]] = Path(value).read_bytes().decode()
    return request


def main(arguments: list[str]) -> int:
    """Answers one question, or those on stdin. Returns the exit status of the protocol."""
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 64
    name, command, *rest = arguments
    answers = _claim_stdout()
    adapter = Adapter(name)
    if command == "serve":
        _serve(adapter, answers)
        return 0
    given = adapter.answer(_request(command, rest))
    (kind,) = given
    _say(answers, given[kind] if kind in ("capabilities", "decoded") else given)
    return STATUS.get(kind, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
