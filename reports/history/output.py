"""Looks at the files of --json and --html, which must never replace a result."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from history.read import ANALYSIS_KIND


class OverInput(Exception):
    """An output would replace a result or the other output."""


def refuse_inputs(directory: Path, outputs: list[tuple[str, Path]]) -> None:
    """Throws OverInput if an output, named by its option, is a result in the directory or another output.

    An earlier analysis may be replaced, even in the directory.
    """
    inputs = {}
    for path in directory.iterdir() if directory.is_dir() else ():
        if path.suffix == ".json":
            inputs[_identity(path)] = path
    seen: dict[object, str] = {}
    for option, path in outputs:
        identity = _identity(path)
        if identity is None:
            continue
        if identity in seen:
            raise OverInput(f"{seen[identity]} and {option} are the same file: {path}")
        seen[identity] = option
        if identity in inputs and not _is_analysis(path):
            raise OverInput(f"{option} would overwrite {inputs[identity]}")


def _identity(path: Path) -> object:
    """Returns device and inode, or the path of a file to be made; None for what is not a regular file."""
    try:
        status = path.stat()
    except OSError:
        return os.path.realpath(path)
    if stat.S_ISREG(status.st_mode):
        return status.st_dev, status.st_ino
    return None


def _is_analysis(path: Path) -> bool:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("kind") == ANALYSIS_KIND
