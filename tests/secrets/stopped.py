"""tzmark with a key, stopped before a call that changes something on disk, for the tests of secrets."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

for neighbour in ("crash", "faults"):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / neighbour))
import faulty
from preload import preloadable

KILL_AT = faulty.BUILD / "tests" / "libtzmark_kill_at.so"

# What no file, no output and no core dump may contain.
KEY = random.Random(7).randbytes(32)
PASSPHRASE = "hunter2-correct-horse"
# Text that only the data of the model has.
PLAINTEXT = b"plain text of a tensor, "


def make_model(where: Path) -> None:
    """Writes a model with the plaintext, and files with the key and the passphrase."""
    data = PLAINTEXT * 20_000
    content = faulty.safetensors(("a", "U8", (len(data),), data))
    (where / "model.safetensors").write_bytes(content)
    for name, secret in (("key", KEY), ("passphrase", PASSPHRASE.encode())):
        (where / name).write_bytes(secret)
        (where / name).chmod(0o600)


def calls_of(words: list[str], where: Path) -> list[str]:
    """The names of the calls of a command that change something on disk."""
    names = where / "names"
    with preloadable(KILL_AT) as library:
        environment = {"LD_PRELOAD": str(library), "TZMARK_TEST_NAMES_TO": str(names)}
        done = faulty.run(words, where, environment)
    if done.status != faulty.FINE:
        raise faulty.Wrong(done.errors)
    found = names.read_text().splitlines()
    names.unlink()
    return found


@contextmanager
def stopped_at(
    call: int, words: list[str], where: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that is stopped before its call of this number, counted from 1."""
    with preloadable(KILL_AT) as library:
        process = subprocess.Popen(
            [faulty.TZMARK, *words],
            cwd=where,
            env={
                **os.environ,
                "LD_PRELOAD": str(library),
                "TZMARK_TEST_STOP_AT": str(call),
                "TMPDIR": str(where / "tmp"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                process.returncode = os.waitstatus_to_exitcode(status)
                raise faulty.Wrong(
                    f"it ended with {process.returncode} before call {call}"
                )
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
