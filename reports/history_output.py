"""Writes the files of --json and --html: whole or not at all, and never over a result."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path

from history_read import ANALYSIS_KIND


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


def write(path: Path, text: str) -> None:
    """Replaces the file at once and keeps its mode. Throws OSError with its name."""
    content = text.encode("utf-8", errors="backslashreplace")
    # A link stays a link.
    target = os.path.realpath(path)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not (stat.S_ISREG(mode) and os.access(path, os.W_OK)):
        # Pipes and devices cannot be replaced; of a directory or a read-only file, this throws the reason.
        path.write_bytes(content)
        return
    if mode is None:
        umask = os.umask(0)
        os.umask(umask)
        mode = 0o666 & ~umask
    try:
        created, temporary = tempfile.mkstemp(
            prefix=".tzmark-history-", dir=os.path.dirname(target)
        )
        try:
            with open(created, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
