"""Runs tzmark with one call that fails, and says what became of it; models and directories for the tests of faults."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "crash"))
from preload import preloadable

BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
TZMARK = BUILD / "bin" / "tzmark"
FAIL_CALL = BUILD / "tests" / "libtzmark_fail_call.so"

FINE, FILE_FAILS, USAGE, ENVIRONMENT, UNAVAILABLE = 0, 1, 2, 3, 4
# One line that names the program, and the rule but for errors of the suite and of the reports, which share no code with
# the codec.
ONE_ERROR = re.compile(
    r"tzmark: [^\n]*error [A-Z]+(-[A-Z]+)?-\d{3}[^\n]*\n|tzmark-conform: [^\n]+\n"
    r"|tzmark: [^\n]+: (?:[A-Z][a-z]+[a-z ]+|no usable result of tzmark bench)\n"
)
# Lines that are no errors: warnings, and what commands of checkpoints say about others that they cannot read.
TOLD = re.compile(
    r"^tzmark: .*(warning|note): |^no checkpoint found|^resumed |^passed over "
    r"|^cannot find out whether another process |: unreadable, so it may count as newer "
    r"|: it may not be the newest checkpoint, |^\S+/latest: |: not cleaned up: |^run: cannot open the directory: "
    r"|: its owner alone can read it: |: not deleted[:,] |^older checkpoints are not deleted: "
    r"|: unreadable, and not counted by retention: |, so retention deletes nothing$"
    r"|^run/step-\d+(/tzmark-unfinished)?: cannot (read its status|open the directory): "
)
# Of what is drawn at random; scripts/test takes the id of the commit.
SEED = int(os.environ.get("TZMARK_SEED", "1"))
# Longer than any command here takes on a busy machine.
PATIENCE_S = float(os.environ.get("TZMARK_PATIENCE_S", "60"))


class Wrong(Exception):
    """tzmark did not do what it has to."""


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it printed."""

    status: int
    output: bytes
    errors: str

    def why_not_clean(self) -> str:
        """Why this is neither a success nor one clear error; empty if it is."""
        if self.status < 0:
            return f"ended by {signal.Signals(-self.status).name}"
        lines = self.errors.splitlines(keepends=True)
        told = [line for line in lines if TOLD.search(line)]
        errors = [line for line in lines if line not in told]
        if self.status == FINE:
            return "" if not errors else f"succeeded, and printed {errors}"
        if len(errors) != 1 or not ONE_ERROR.fullmatch(errors[0]):
            return f"status {self.status} without one clear error: {lines}"
        return ""


def run(
    words: Sequence[str | Path],
    where: Path,
    environment: Mapping[str, str] | None = None,
    stdin: Path | None = None,
    program: Path = TZMARK,
) -> Ended:
    """Runs a command in a directory, with a TMPDIR in it if there is one; raises Wrong if it does not end."""
    whole = {**os.environ, **(environment or {})}
    if (where / "tmp").is_dir():
        whole["TMPDIR"] = str(where / "tmp")
    pipe = None
    if stdin is not None:
        pipe = subprocess.Popen(["cat", stdin], stdout=subprocess.PIPE)
    process = subprocess.Popen(
        [program, *words],
        cwd=where,
        env=whole,
        stdin=pipe.stdout if pipe else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if pipe is not None:
        pipe.stdout.close()
    try:
        output, errors = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Wrong(f"hangs: {' '.join(map(str, words))}") from None
    finally:
        if pipe is not None:
            pipe.wait()
    return Ended(process.returncode, output, errors.decode(errors="replace"))


def safetensors(*tensors: tuple[str, str, tuple[int, ...], bytes]) -> bytes:
    """Returns a file of tensors: name, dtype, shape and data each."""
    header: dict[str, dict[str, object]] = {}
    at = 0
    for name, dtype, shape, data in tensors:
        offsets = [at, at + len(data)]
        header[name] = {"dtype": dtype, "shape": [*shape], "data_offsets": offsets}
        at += len(data)
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    data = b"".join(tensor[3] for tensor in tensors)
    return struct.pack("<Q", len(encoded)) + encoded + data


def io_paths() -> list[str]:
    """The I/O paths of this machine that read files of its own."""
    done = run(["bench", "--list-io"], Path.cwd())
    if done.status != FINE:
        raise Wrong(f"bench --list-io: {done.errors}")
    available = re.findall(
        r"^(\S+) .*\n +available$", done.output.decode(), re.MULTILINE
    )
    return [name for name in available if name not in ("http", "s3")]


@contextmanager
def scratch_directory(prefix: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=prefix, dir=BUILD) as name:
        yield Path(name)


def entries(directory: Path) -> set[str]:
    """The names of all files and directories below one."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def remake(directory: Path) -> None:
    """Makes a directory empty, with a directory for temporary files in it."""
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "tmp").mkdir(parents=True)


__all__ = [
    "BUILD",
    "ENVIRONMENT",
    "FAIL_CALL",
    "FILE_FAILS",
    "FINE",
    "TZMARK",
    "UNAVAILABLE",
    "USAGE",
    "Ended",
    "Wrong",
    "entries",
    "io_paths",
    "preloadable",
    "remake",
    "run",
    "safetensors",
    "scratch_directory",
]
