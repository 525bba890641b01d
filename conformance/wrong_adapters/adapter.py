#!/usr/bin/env python3
"""A wrong adapter behind the adapter protocol (conformance/PROTOCOL.md).

usage: adapter.py NAME REFERENCE COMMAND [ARGUMENTS]

NAME is a key of WRONG_ADAPTERS, REFERENCE the command of the reference adapter.
"""

from __future__ import annotations

import json
import sys

import comparing  # noqa: F401, as are the others: importing them registers their adapters
import failing  # noqa: F401
import fetching  # noqa: F401
import glancing  # noqa: F401
import assuming  # noqa: F401
import listing  # noqa: F401
import misreading  # noqa: F401
import overlooking  # noqa: F401
import trusting  # noqa: F401
import unusual  # noqa: F401
import writing  # noqa: F401
from wrong_adapter import WRONG_ADAPTERS, Json, WrongAdapter, Question, Reference

KEY_OPTIONS = {"--key-file": "key_hex", "--passphrase-file": "passphrase"}
PART_OPTIONS = {"--offset": "offset", "--length": "length"}
FILE_ARGUMENTS = {"decode": ["file"], "verify": ["file"], "encode": ["spec", "out"]}
STATUS = {"rejected": 1, "unsupported": 2}


def answer(wrong: WrongAdapter, reference: Reference, request: Json) -> Json:
    """The wrong adapter's answer, without its id."""
    question = Question(request, reference)
    if request["command"] != "capabilities":
        return wrong.answer(question)
    profile = question.right_answer()["capabilities"]
    profile["name"] = f"wrong adapter {wrong.name}"
    profile["commands"] = list(wrong.commands)
    shapes = profile["reads"]["shapes"]
    # These fetch URLs without the reference, which may lack libcurl.
    shapes += sorted({"http", "http-faults"} & set(wrong.input_modes) - set(shapes))
    return {"capabilities": profile}


def serve(wrong: WrongAdapter, reference: Reference) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        given = answer(wrong, reference, request)
        print(json.dumps({"id": request["id"], **given}), flush=True)


def answer_once(
    wrong: WrongAdapter, reference: Reference, command: str, arguments: list[str]
) -> int:
    """Prints one answer as a process of its own does, and gives its exit status."""
    names = FILE_ARGUMENTS.get(command, [])
    request: Json = {"command": command, **dict(zip(names, arguments))}
    options = arguments[len(names) :]
    for option, value in zip(options[::2], options[1::2]):
        if option in PART_OPTIONS:
            request[PART_OPTIONS[option]] = int(value)
            continue
        with open(value, encoding="utf-8", newline="") as secret:
            request[KEY_OPTIONS[option]] = secret.read()
    given = answer(wrong, reference, request)
    print(json.dumps(given.get("capabilities") or given.get("decoded") or given))
    return STATUS.get(next(iter(given)), 0)


def main(name: str, reference_command: str, command: str, *arguments: str) -> int:
    wrong, reference = WRONG_ADAPTERS[name], Reference(reference_command)
    if command == "serve":
        serve(wrong, reference)
        return 0
    return answer_once(wrong, reference, command, list(arguments))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
