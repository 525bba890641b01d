#!/usr/bin/env python3
"""An adapter to fill in: it lets the conformance suite ask your reader. Put your reader into read(); the rest stays."""

from __future__ import annotations

import json
import sys
from typing import Any

PROFILE = {
    "protocol": 1,
    "name": "my reader",
    "version": "0.1",
    "commands": ["decode", "verify", "serve"],
    "reads": {"layouts": ["v1"], "lacks": [], "omits": [], "shapes": []},
}
KEY_OPTIONS = {"--key-file": "key_hex", "--passphrase-file": "passphrase"}


class Rejected(Exception):
    """Raised by read() for a file that is wrong. Whatever else it raises counts as a crash."""

    rule: str | None = None
    offset: int | None = None


class Unsupported(Exception):
    """Raised by read() for a file that may be right, but that your reader cannot read. The suite skips it."""


def read(file: str, key: dict[str, str], verify: bool) -> dict[str, Any]:
    """Your reader. Returns canonical JSON; if verify, it checks every hash too. key may have key_hex or passphrase."""
    with open(file, "rb") as stream:
        if stream.read(5) != b"|TZR|":
            raise Rejected("this is no .tensors file")
    raise Unsupported("there is no reader here yet")


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request of serve, without its id."""
    if request["command"] == "capabilities":
        return {"capabilities": PROFILE}
    verify = request["command"] == "verify"
    key = {name: request[name] for name in KEY_OPTIONS.values() if name in request}
    try:
        content = read(request["file"], key, verify)
    except Rejected as error:
        where = {"rule": error.rule, "offset": error.offset}
        return {"rejected": {**where, "message": str(error)}}
    except Unsupported as error:
        return {"unsupported": str(error)}
    return {"verified": True} if verify else {"decoded": content}


def serve() -> None:
    """Answers lines of JSON until stdin ends."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            given = answer(request)
        except Exception as error:
            given = {"crashed": repr(error)}
        print(json.dumps({"id": request["id"], **given}), flush=True)


def main(command: str, *arguments: str) -> int:
    if command == "serve":
        serve()
        return 0
    request = {"command": command, **dict(zip(["file"], arguments))}
    for option, path in zip(arguments[1::2], arguments[2::2]):
        with open(path, encoding="utf-8", newline="") as stream:
            request[KEY_OPTIONS[option]] = stream.read()
    given = answer(request)
    print(json.dumps(given.get("capabilities") or given.get("decoded") or given))
    return {"rejected": 1, "unsupported": 2}.get(next(iter(given)), 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
