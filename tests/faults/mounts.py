"""Mounts and limits for tests: the FUSE file system with faults, file systems in memory, and why there is none here."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
FAULT_FS = BUILD / "tests" / "fault_fs"
DENY_CALLS = BUILD / "tests" / "deny_calls"

# How long a mount may take to appear or to go.
PATIENCE_S = 20


class NotHere(Exception):
    """This machine lacks what a test needs; the text says what."""


@contextlib.contextmanager
def fault_fs(below: Path, mountpoint: Path, **faults: str) -> Iterator[Path]:
    """Mounts the directory `below` with faults (FS_DIRFSYNC="22") at `mountpoint`, both existing."""
    if not FAULT_FS.exists():
        raise NotHere("built without libfuse3 (libfuse3-dev)")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise NotHere("/dev/fuse is missing or closed to this user")
    # In the foreground, so that its end is seen and nothing is left behind.
    server = subprocess.Popen(
        [FAULT_FS, mountpoint, "-f", "-s"],
        env={**os.environ, "FS_ROOT": str(below.resolve()), **faults},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + PATIENCE_S
        while not os.path.ismount(mountpoint):
            if server.poll() is not None:
                raise NotHere(f"FUSE cannot be mounted: {server.stderr.read().strip()}")
            if time.monotonic() > until:
                raise NotHere(f"no FUSE mount after {PATIENCE_S} s")
            time.sleep(0.01)
        yield mountpoint
    finally:
        unmount(mountpoint)
        try:
            server.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stderr.close()


@contextlib.contextmanager
def mounted(kind: str, mountpoint: Path, *options: str) -> Iterator[Path]:
    """Mounts a file system of the kernel (tmpfs, ramfs, overlay) at `mountpoint`; needs root."""
    command = ["mount", "-t", kind, *options, "none", str(mountpoint)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise NotHere(f"{kind} cannot be mounted: {done.stderr.strip()}")
    try:
        yield mountpoint
    finally:
        unmount(mountpoint)


def unmount(mountpoint: Path) -> None:
    """Takes a mount away, if there is one, also one that is still busy."""
    for command in (
        ["fusermount3", "-u"],
        ["umount"],
        ["fusermount3", "-uz"],
        ["umount", "-l"],
    ):
        if not os.path.ismount(mountpoint):
            return
        with contextlib.suppress(FileNotFoundError):
            subprocess.run([*command, mountpoint], capture_output=True)
