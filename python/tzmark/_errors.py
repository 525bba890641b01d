"""The exceptions of tzmark. Each kind of failure has a class, and every error the id of its rule."""

from __future__ import annotations

import errno
import os
from typing import Any


class Error(Exception):
    """A failure of tzmark.

    ``rule`` is the id of the broken rule ("TZR-HSH-005"); ``offset`` the byte in the file where it shows, or None;
    ``file`` the name of the file, or None; ``code`` the number of the error. ``tzmark.rules()`` lists all of them.
    """

    rule: str
    offset: int | None
    file: str | None
    code: int
    message: str

    def __init__(
        self,
        message: str,
        rule: str = "TZE-USE-001",
        offset: int | None = None,
        file: str | None = None,
        code: int = 0,
    ) -> None:
        super().__init__(message)
        self.message, self.rule, self.offset, self.file, self.code = (
            message,
            rule,
            offset,
            file,
            code,
        )

    def __str__(self) -> str:
        where = "" if self.offset is None else f" at byte {self.offset}"
        name = "" if self.file is None else f"{self.file}: "
        return f"{name}error {self.rule}{where}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.rule, self.offset, self.file, self.code)


class FormatError(Error, ValueError):
    """The file breaks a rule of its format, or its data is damaged."""


class UsageError(Error, ValueError):
    """An argument is invalid."""


class TensorNotFoundError(UsageError, KeyError):
    """The file has no tensor of that name."""


class EnvironmentFailure(Error, OSError):
    """The file cannot be opened, read or written, or the system ran out of a resource."""


class MissingFileError(EnvironmentFailure, FileNotFoundError):
    """There is no file of that name."""


class UnavailableError(Error):
    """This machine or this build lacks what was asked for."""


_CLASSES: dict[int, type[Error]] = {
    1: FormatError,
    2: UsageError,
    3: EnvironmentFailure,
    4: UnavailableError,
}
# Tracebacks show the names that users write.
for _class in (*_CLASSES.values(), Error, TensorNotFoundError, MissingFileError):
    _class.__module__ = "tzmark"

_OPEN_FAILED = 903
_NO_SUCH_TENSOR = 902


def make(
    code: int, kind: int, rule: str, message: str, offset: int | None, file: str | None
) -> Error:
    """Returns the exception for an error of the codec. Called by the extension module."""
    chosen = _CLASSES[kind]
    if code == _NO_SUCH_TENSOR:
        chosen = TensorNotFoundError
    elif (
        code == _OPEN_FAILED
        and os.strerror(errno.ENOENT) in message
        and file is not None
        and not os.path.lexists(file)
    ):
        chosen = MissingFileError
    return chosen(message, rule, offset, file, code)
