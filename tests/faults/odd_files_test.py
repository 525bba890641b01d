#!/usr/bin/env python3
"""Gives every command a FIFO, a socket, devices, files of /proc, a loop of links and a directory, as input and output.

It ends with one clear error and its exit status, soon, and neither replaces nor removes what it was given. What may be
such a file is listed here: /dev/null for a result, a directory for a model.

Without --full, each option is tried with some of them, which --seed chooses.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import stat
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import faulty
from faulty import ENVIRONMENT, FILE_FAILS, FINE, UNAVAILABLE, USAGE, Wrong
from matrix_test import Models

# Faults of a file, a usage or an environment: never a signal, never a success.
REFUSED = (FILE_FAILS, USAGE, ENVIRONMENT, UNAVAILABLE)
SAMPLE = 170

# An output takes the place of a link, whatever that leads to.
LINKS = ("loop of links", "link to nothing")
# Regular files to all who ask what they are.
TEXTS = ("file of /proc", "file of /proc that cannot be mapped")

# What each odd thing is called, and where it is: in the directory of a run, or in the system.
THINGS = {
    "FIFO": "fifo",
    "socket": "socket",
    "loop of links": "loop",
    "link to nothing": "dangling",
    "directory": "directory",
    "empty device": "/dev/null",
    "endless device": "/dev/zero",
    "full device": "/dev/full",
    "terminal": "/dev/tty",
    "file of /proc": "/proc/self/status",
    "file of /proc that cannot be mapped": "/proc/sys/kernel/random/uuid",
    "memory of the process": "/proc/self/mem",
    "directory of /proc": "/proc/self/fd",
}


@dataclass(frozen=True)
class Use:
    """A command with the place of a file, which is {}; and the things that it may accept."""

    name: str
    words: tuple[str, ...]
    accepts: tuple[str, ...] = ()
    gives_verdict: bool = False  # that a file is invalid: no error, and status 1


def use(words: str, *accepts: str) -> Use:
    return Use(words, tuple(words.split()), accepts)


CONFORM = "conform --only buffer-plain-2-12"
EMPTY_RESULT = ("empty device", *LINKS)
USES = (
    use("verify {}"),
    use("verify --structure-only {}"),
    use("verify model.tensors --profile {}"),
    use("verify model.tensors --data-file {}"),
    use("verify sealed.tensors --key-file {}"),
    use("verify sealed.tensors --passphrase-file {}"),
    use("dump {}"),
    use("dump --io mmap {}"),
    use("dump --io uring {}"),
    use("dump --io buffered {}"),
    use("inspect {}"),
    use("inspect --bytes {}", "empty device"),
    use("extract {} a"),
    use("extract model.tensors a -o {}", *LINKS),
    use("convert {} out"),
    use("convert model.tensors {}", *LINKS),
    use("convert model.tensors {} --no-clobber"),
    use("convert model.tensors {} --split --layout v5-segments", *LINKS),
    use("convert model.tensors out --encrypt-key-file {}"),
    use("convert model.tensors out --encrypt-passphrase-file {}", *TEXTS),
    use("append {} model.tensors"),
    use("append segments.tensors {}"),
    use("append segments.tensors --raw more uint8 9000 {}"),
    use("edit {} --drop a"),
    use("edit {} --recover", *TEXTS, "memory of the process"),
    use("edit segments.tensors --drop a --key-file {}"),
    use("checkpoint list {}", "directory", "directory of /proc"),
    use("checkpoint verify {}"),
    use("checkpoint consolidate {} out"),
    use("checkpoint consolidate run {}"),
    use("checkpoint reshard {} out --world-size 2"),
    use(
        "checkpoint simulate {} --steps 1 --interval 1 --state-mib 1 --step-ms 0",
        "directory",
    ),
    use(
        "checkpoint simulate new --steps 1 --interval 1 --state-mib 1 --step-ms 0 --json {}",
        *EMPTY_RESULT,
    ),
    use(f"{CONFORM} --known {{}}"),
    use(f"{CONFORM} --profile {{}}"),
    use(f"{CONFORM} --corpus {{}}"),
    use(f"{CONFORM} --json {{}}", *EMPTY_RESULT, "endless device"),
    use(f"{CONFORM} --junit {{}}", *EMPTY_RESULT, "endless device"),
    use(f"{CONFORM} --tap {{}}", *EMPTY_RESULT, "endless device"),
    use(f"{CONFORM} --badge {{}}", *EMPTY_RESULT, "endless device"),
    use(f"{CONFORM} --summary {{}}", *EMPTY_RESULT, "endless device"),
    use("conform --diff {} {}"),
    # Its verdict about any file is an answer, on standard output.
    Use(
        "conform --file {}",
        ("conform", "--file", "{}"),
        (*TEXTS, "memory of the process"),
        gives_verdict=True,
    ),
    use("conform --file sealed.tensors --key-file {}"),
    use("corpus export {}", "directory"),
    use("minimize {}"),
    use("minimize model.tensors --key-file {}"),
    use("compare {} {}"),
    use("compare --old {} --new {}"),
    use("history {}"),
    use("bench --dir {} --scale 1MiB", "directory"),
    use("bench --profile {}"),
)


def make_things(where: Path) -> list[socket.socket]:
    os.mkfifo(where / "fifo")
    listening = socket.socket(socket.AF_UNIX)
    # The name of a socket has few bytes, and the directory may have a long one.
    here = os.open(where, os.O_RDONLY | os.O_DIRECTORY)
    listening.bind(f"/proc/self/fd/{here}/socket")
    os.close(here)
    (where / "loop").symlink_to("loop")
    (where / "dangling").symlink_to("nothing")
    (where / "directory").mkdir()
    return [listening]


def kinds_of(where: Path) -> dict[str, int]:
    """What the things in a directory are."""
    names = [thing for thing in THINGS.values() if not thing.startswith("/")]
    return {
        name: stat.S_IFMT((where / name).lstat().st_mode)
        if os.path.lexists(where / name)
        else 0
        for name in names
    }


class Odd:
    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.models = Models(scratch / "models")
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def attempt(self, task: tuple[int, Use, str]) -> None:
        number, tried, thing = task
        place = self.scratch / f"run-{number}"
        faulty.remake(place)
        for entry in self.models.directory.iterdir():
            (place / entry.name).symlink_to(entry)
        for name in ("segments.tensors",):
            (place / name).unlink()
            (place / name).write_bytes((self.models.directory / name).read_bytes())
        made = make_things(place)
        before, kinds = faulty.entries(place), kinds_of(place)
        words = [word.replace("{}", THINGS[thing]) for word in tried.words]
        try:
            ended = faulty.run(words, place)
            problem = ended.why_not_clean()
            is_verdict = tried.gives_verdict and ended.status == FILE_FAILS
            if problem and not (is_verdict and not ended.errors):
                raise Wrong(problem)
            self.judge(tried, thing, ended.status, kinds_of(place) == kinds)
            left = faulty.entries(place) - before
            if (
                ended.status != FINE
                and left - {"new", "out"}
                and not tried.words[0] == "checkpoint"
            ):
                raise Wrong(f"left {left}")
            self.counts["accepted" if ended.status == FINE else "one error"] += 1
        except Wrong as why:
            self.counts["wrong"] += 1
            self.wrong.append(f"{tried.name} with a {thing}: {why}")
        for each in made:
            each.close()
        faulty.shutil.rmtree(place)

    def judge(self, tried: Use, thing: str, status: int, is_same: bool) -> None:
        if status == FINE and thing not in tried.accepts:
            raise Wrong("accepted")
        if status != FINE and status not in REFUSED:
            raise Wrong(f"status {status}")
        if not is_same and thing not in LINKS:
            raise Wrong("replaced or removed what it was given")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--full",
        action="store_true",
        default="TZMARK_FULL" in os.environ,
        help="every option with every thing",
    )
    parser.add_argument("--seed", type=int, default=faulty.SEED)
    options = parser.parse_args()
    tasks = [(tried, thing) for tried in USES for thing in THINGS]
    if not options.full:
        tasks = random.Random(options.seed).sample(tasks, SAMPLE)
    with faulty.scratch_directory("tzmark-odd-") as scratch:
        odd = Odd(scratch)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(odd.attempt, [(n, *task) for n, task in enumerate(tasks)]))
    print(f"{len(tasks)} odd files, seed {options.seed}: {dict(odd.counts)}")
    for line in odd.wrong[:99]:
        print(line, file=sys.stderr)
    return 0 if odd.counts["one error"] > 0 and not odd.wrong else 1


if __name__ == "__main__":
    sys.exit(main())
