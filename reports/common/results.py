"""Reads and writes the JSON documents of the reports, and refuses other documents."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

from common.outcomes import Json

CONFORMANCE = "tzmark-conformance"
MATRIX = "tzmark-conformance-matrix"
AGAINST = "tzmark-against"
# A pipe of such a name has another end.
OPEN_DESCRIPTORS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
VERSIONS = {CONFORMANCE: 3, MATRIX: 1, AGAINST: 1}


class NotAResult(Exception):
    """A file cannot be read, or has the wrong content."""


def text_of(path: Path) -> str:
    """Reads a file, or a pipe by the name that a shell gives to <(command).

    Any other FIFO may never have a writer, and is refused.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with open(os.open(path, flags), encoding="utf-8") as file:
        mode = os.fstat(file.fileno()).st_mode
        is_open_pipe = stat.S_ISFIFO(mode) and str(path).startswith(OPEN_DESCRIPTORS)
        if not stat.S_ISREG(mode) and not is_open_pipe:
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        os.set_blocking(file.fileno(), True)
        return file.read()


def read(path: Path, schemas: tuple[str, ...]) -> Json:
    """Reads a document of one of these schemas. Throws NotAResult for others and other versions."""
    try:
        document = json.loads(text_of(path))
    except (OSError, ValueError, RecursionError) as error:
        raise NotAResult(f"{path}: {error}") from error
    if isinstance(document, dict):
        schema = document.get("schema")
        if schema in schemas and document.get("schema_version") == VERSIONS[schema]:
            return document
    wanted = " or ".join(
        f"schema {schema}, version {VERSIONS[schema]}" for schema in schemas
    )
    raise NotAResult(f"{path}: not a result of {wanted}")


def relative(value: Any, prefix: str) -> Any:
    """Returns the document with all paths below the prefix made relative to it."""
    if isinstance(value, str):
        return value.replace(prefix, "")
    if isinstance(value, list):
        return [relative(element, prefix) for element in value]
    if isinstance(value, dict):
        return {key: relative(element, prefix) for key, element in value.items()}
    return value


def dump(document: Json) -> str:
    """Returns JSON with one element of each list and table per line, so that diffs are readable."""
    return "{\n" + ",\n".join(map(_member, document.items())) + "\n}\n"


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _member(item: tuple[str, object]) -> str:
    name, value = item
    if isinstance(value, list):
        lines, brackets = [_compact(element) for element in value], "[]"
    elif isinstance(value, dict):
        lines = [
            f"{_compact(key)}:{_compact(element)}" for key, element in value.items()
        ]
        brackets = "{}"
    else:
        return f"{_compact(name)}:{_compact(value)}"
    return f"{_compact(name)}:{brackets[0]}\n" + ",\n".join(lines) + f"\n{brackets[1]}"
