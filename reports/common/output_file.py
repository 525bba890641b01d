"""Writes files that a user names for a result, by the rules of program/output_file.h.

What has the name is replaced at once by a new file: a random name, O_EXCL, rename. A link is replaced, and never
written through. What cannot be replaced is written to only if that is safe and does not wait for ever: open descriptors
(/dev/stdout), character devices, and FIFOs of this user or root that another process reads.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import select
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READER_WAIT_S = 10.0
PROGRESS_WAIT_S = 60.0


def write(path: Path | str, content: str | bytes) -> None:
    """Writes all of the content. Throws OSError with the name."""
    name = os.fspath(path)
    if isinstance(content, str):
        content = content.encode("utf-8", errors="backslashreplace")
    with _named(name):
        descriptor = _descriptor(name)
        if descriptor is not None:
            _write_all(descriptor, content)
            return
        directory, entry = _open_directory(os.path.dirname(name)), os.path.basename(
            name
        )
        try:
            _write_entry(directory, entry, content)
        finally:
            os.close(directory)


def write_directory(path: Path | str, files: dict[str, bytes]) -> None:
    """Makes a directory if there is none, and writes files in it, in their order. Throws OSError with the name."""
    os.makedirs(path, exist_ok=True)
    name = os.fspath(path)
    with _named(name):
        directory = _open_directory(name)
    try:
        for entry, content in files.items():
            with _named(os.path.join(name, entry)):
                _write_entry(directory, entry, content)
    finally:
        os.close(directory)


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error


def _descriptor(name: str) -> int | None:
    """The descriptor of this process that a name stands for."""
    if name in ("/dev/stdout", "/dev/stderr"):
        return 1 if name == "/dev/stdout" else 2
    found = re.fullmatch(r"(?:/dev/fd|/proc/self/fd)/([0-9]{1,6})", name)
    return int(found[1]) if found else None


def _open_directory(name: str) -> int:
    return os.open(name or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _status(directory: int, entry: str, follow: bool) -> os.stat_result | None:
    try:
        return os.stat(entry, dir_fd=directory, follow_symlinks=follow)
    except FileNotFoundError:
        return None


def _write_entry(directory: int, entry: str, content: bytes) -> None:
    if entry in ("", ".", ".."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    old = _status(directory, entry, follow=False)
    if old is not None and (stat.S_ISFIFO(old.st_mode) or stat.S_ISCHR(old.st_mode)):
        if stat.S_ISFIFO(old.st_mode) and old.st_uid not in (os.geteuid(), 0):
            raise PermissionError(errno.EPERM, "this is a FIFO of another user")
        opened = _open_stream(directory, entry, old)
        try:
            _write_all(opened, content)
        finally:
            os.close(opened)
        return
    target = (
        _status(directory, entry, follow=True)
        if old is not None and stat.S_ISLNK(old.st_mode)
        else old
    )
    if target is not None and stat.S_ISDIR(target.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target is not None and not stat.S_ISREG(target.st_mode):
        raise OSError(
            errno.EINVAL, "neither a file, nor a FIFO, nor a character device"
        )
    _replace(directory, entry, old, content)


def _open_stream(directory: int, entry: str, expected: os.stat_result) -> int:
    """Opens a FIFO or a device, and waits a moment for the reader of a FIFO."""
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    end = time.monotonic() + READER_WAIT_S
    while True:
        try:
            opened = os.open(entry, flags, dir_fd=directory)
        except OSError as error:
            if error.errno != errno.ENXIO or not stat.S_ISFIFO(expected.st_mode):
                raise
            if time.monotonic() >= end:
                raise OSError(errno.ENXIO, "no process reads this FIFO") from error
            time.sleep(0.02)
            continue
        if not os.path.samestat(os.fstat(opened), expected):
            os.close(opened)
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return opened


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            if not select.select([], [descriptor], [], PROGRESS_WAIT_S)[1]:
                raise TimeoutError(
                    errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)
                ) from None


def _replace(
    directory: int, entry: str, old: os.stat_result | None, content: bytes
) -> None:
    """Replaces a file and keeps the mode of one of this user. That of another one is not widened."""
    if old is not None and not stat.S_ISREG(old.st_mode):
        old = None
    mode = 0o666 & (0o600 | old.st_mode) if old is not None else 0o666
    temporary = f".tzmark-tmp-{secrets.token_hex(10)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    created = os.open(temporary, flags, mode, dir_fd=directory)
    try:
        try:
            if old is not None and old.st_uid == os.geteuid():
                os.fchmod(created, old.st_mode & 0o777)
            _write_all(created, content)
            if old is not None:
                _sync(created)
        finally:
            os.close(created)
        os.rename(temporary, entry, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(temporary, dir_fd=directory)
        raise


def _sync(descriptor: int) -> None:
    """The old content must not be lost with the power. Some file systems cannot sync; then it is no safer before."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
