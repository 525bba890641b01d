"""A directory that a program has made, and that it removes with all its content by the descriptor.

Whatever has its name by now, and wherever it is: in a directory that others can write to, they can rename it, and put
the directory of a third person in its place. Like program/made_directory.h.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from pathlib import Path
from types import TracebackType


class MadeDirectory:
    """Makes PARENT/PREFIX and random characters, or PARENT/NAME. Removes it at the end of a with block."""

    def __init__(
        self, parent: Path | str, prefix: str = "tzmark-", name: str | None = None
    ) -> None:
        self._entry = name or prefix + secrets.token_hex(8)
        self._parent = os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.path = Path(parent) / self._entry
            os.mkdir(self._entry, 0o700, dir_fd=self._parent)
            self._directory = os.open(
                self._entry,
                os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC,
                dir_fd=self._parent,
            )
        except BaseException:
            os.close(self._parent)
            raise
        if os.listdir(self._directory) or not self._is_own():
            self._close()
            raise OSError(
                errno.ESTALE,
                "another process has replaced the new directory",
                str(self.path),
            )

    def __enter__(self) -> MadeDirectory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def clear(self) -> None:
        """Removes everything in it, and follows no link."""
        for entry in os.listdir(self._directory):
            try:
                os.unlink(entry, dir_fd=self._directory)
            except (IsADirectoryError, PermissionError):
                shutil.rmtree(entry, dir_fd=self._directory)

    def remove(self) -> None:
        """Removes it too. Throws OSError if it has another name now; then it is empty."""
        try:
            self.clear()
            named = os.stat(self._entry, dir_fd=self._parent, follow_symlinks=False)
            if not os.path.samestat(named, os.fstat(self._directory)):
                raise OSError(
                    errno.ESTALE, "another process has renamed it", str(self.path)
                )
            os.rmdir(self._entry, dir_fd=self._parent)
        finally:
            self._close()

    def _is_own(self) -> bool:
        """Whether it belongs to whom files of this program belong: a network file system may give them to another."""
        owner = os.fstat(self._directory).st_uid
        if owner == os.geteuid():
            return True
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        created = os.open("owner", flags, 0o600, dir_fd=self._directory)
        try:
            return os.fstat(created).st_uid == owner
        finally:
            os.close(created)
            os.unlink("owner", dir_fd=self._directory)

    def _close(self) -> None:
        os.close(self._directory)
        os.close(self._parent)
