#!/usr/bin/env python3
"""Truncates, grows, replaces or unlinks a file while a command reads it, on each I/O path.

The command prints the right result, or one clear error: no signal, no hang, and no hash that does not match, since that
would blame a file that was whole. The truncation comes at random moments, and also in the worst one of each path: under
the copy of a read, when a kernel has set the new size and zeroes the rest of the last page, and, on the path that maps
the file, right after a look at its pages, where a program without a handler dies of SIGBUS.

--moments N: random moments of a truncation per path (default 12; complete: 200).
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import faulty
from faulty import ENVIRONMENT, FILE_FAILS, FINE, Ended, Wrong

DATA_BYTES = 6 << 20
# What the paths call to read; a path calls some of them.
READS = ("pread", "preadv2", "fread", "completion", "madvise")


def truncate(file: Path, random_part: float) -> None:
    os.truncate(file, int(file.stat().st_size * random_part))


def grow(file: Path, random_part: float) -> None:
    with file.open("ab") as stream:
        stream.write(bytes(int(random_part * 100_000)))


def replace(file: Path, _: float) -> None:
    other = file.with_suffix(".other")
    other.write_bytes(file.read_bytes())
    other.rename(file)


def unlink(file: Path, _: float) -> None:
    file.unlink()


CHANGES: dict[str, Callable[[Path, float], None]] = {
    "truncated": truncate,
    "grown": grow,
    "replaced": replace,
    "unlinked": unlink,
}


class Truncated:
    def __init__(self, scratch: Path, library: Path) -> None:
        self.scratch, self.library = scratch, library
        self.content = self.make_model()
        self.counts: dict[tuple[str, str], Counter[str]] = {}
        self.wrong: list[str] = []
        self.expected = {
            "dump": self.run_on("dump", "auto", "expected").output,
            "verify": self.run_on("verify", "auto", "expected").output,
        }
        self.elapsed_s: dict[tuple[str, str], float] = {}

    def make_model(self) -> bytes:
        data = random.Random(2).randbytes(DATA_BYTES)
        half = DATA_BYTES // 2
        small = [(f"t{i}", "U8", (1_000,), data[i : i + 1_000]) for i in range(50)]
        large = [
            ("a", "U8", (half,), data[:half]),
            ("b", "U8", (half,), data[half:]),
        ]
        (self.scratch / "m.safetensors").write_bytes(faulty.safetensors(*large, *small))
        done = faulty.run(("convert", "m.safetensors", "m.tensors"), self.scratch)
        if done.status != FINE:
            raise Wrong(done.errors)
        return (self.scratch / "m.tensors").read_bytes()

    def run_on(self, command: str, io: str, name: str, **environment: str) -> Ended:
        place = self.scratch / name
        place.mkdir(exist_ok=True)
        file = place / "model.tensors"
        if not file.exists():
            file.write_bytes(self.content)
        return faulty.run((command, file.name, "--io", io), place, environment)

    def judge(self, what: str, command: str, ended: Ended) -> str:
        problem = ended.why_not_clean()
        if problem:
            raise Wrong(f"{what}: {problem}")
        if ended.status == FINE:
            if ended.output != self.expected[command]:
                raise Wrong(f"{what}: succeeded, and printed something else")
            return "right"
        if ended.status not in (FILE_FAILS, ENVIRONMENT) or "TZR-HSH" in ended.errors:
            raise Wrong(f"{what}: status {ended.status}: {ended.errors}")
        return "one error"

    def at_a_moment(self, task: tuple[int, str, str, str]) -> None:
        """Changes the file while a command reads it, at a random part of the time that it takes."""
        number, io, change, command = task
        choose = random.Random(number)
        place = self.scratch / f"run-{number}"
        place.mkdir()
        file = place / "model.tensors"
        file.write_bytes(self.content)
        process = subprocess.Popen(
            [faulty.TZMARK, command, file.name, "--io", io],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        # More often late than early: the first moments are those of the loader.
        time.sleep(self.elapsed_s[io, command] * (0.2 + choose.random()))
        CHANGES[change](file, choose.random())
        try:
            output, errors = process.communicate(timeout=faulty.PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.note(io, change, Wrong("hangs"), "")
            return
        ended = Ended(process.returncode, output, errors.decode(errors="replace"))
        faulty.shutil.rmtree(place)
        self.note(io, change, ended, command)

    def note(self, io: str, change: str, ended: Ended | Wrong, command: str) -> None:
        counts = self.counts.setdefault((io, change), Counter())
        try:
            if isinstance(ended, Wrong):
                raise ended
            counts[self.judge(f"{command} --io {io}, {change}", command, ended)] += 1
        except Wrong as why:
            counts["wrong"] += 1
            self.wrong.append(str(why))

    def measure(self, io: str) -> None:
        for command in self.expected:
            begin = time.monotonic()
            self.run_on(command, io, "expected")
            self.elapsed_s[io, command] = time.monotonic() - begin

    def under_each_read(self, io: str, calls_max: int) -> None:
        """Truncates the file under each of the first reads of a path."""
        counts = self.counts.setdefault((io, "truncated under a read"), Counter())
        for call in READS:
            for at in range(1, calls_max + 1):
                place = f"under-{io}-{call}-{at}"
                met = self.scratch / f"met-{io}-{call}-{at}"
                ended = self.run_on(
                    "verify",
                    io,
                    place,
                    LD_PRELOAD=str(self.library),
                    TZMARK_FAULT_CALL=call,
                    TZMARK_FAULT_AT=str(at),
                    TZMARK_FAULT_WITH="short",
                    TZMARK_FAULT_SHORTEN="model.tensors",
                    TZMARK_FAULT_MET=str(met),
                )
                faulty.shutil.rmtree(self.scratch / place)
                if not met.exists():
                    break
                self.note(io, "truncated under a read", ended, "verify")
        if counts["one error"] == 0:
            self.wrong.append(f"{io}: no truncation under a read led to an error")

    def while_bytes_are_shown(self) -> None:
        """Truncates the file that `inspect --bytes` maps, when its output waits for the reader of a pipe."""
        place = self.scratch / "shown"
        place.mkdir()
        (place / "model.tensors").write_bytes(self.content)
        process = subprocess.Popen(
            [faulty.TZMARK, "inspect", "--bytes", "--unfolded", "model.tensors"],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout
        process.stdout.read(1000)
        os.truncate(place / "model.tensors", 100_000)
        _, errors = process.communicate(timeout=faulty.PATIENCE_S)
        expected = rb"tzmark: model.tensors: error TZE-ENV-005 at byte \d+: [^\n]+\n"
        if process.returncode != ENVIRONMENT or not re.fullmatch(expected, errors):
            self.wrong.append(f"inspect --bytes: {process.returncode}, {errors!r}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moments", type=int, default=12)
    parser.add_argument(
        "--full",
        action="store_true",
        default="TZMARK_FULL" in os.environ,
        help="200 moments",
    )
    parser.add_argument("--io", help="this path alone")
    options = parser.parse_args()
    moments = 200 if options.full else options.moments
    with faulty.scratch_directory("tzmark-truncated-") as scratch, faulty.preloadable(
        faulty.FAIL_CALL
    ) as library:
        test = Truncated(scratch, library)
        paths = [options.io] if options.io else faulty.io_paths()
        tasks = []
        for io in paths:
            test.measure(io)
            for change in CHANGES:
                count = moments if change == "truncated" else max(4, moments // 8)
                tasks += [
                    (io, change, "dump" if n % 4 == 0 else "verify")
                    for n in range(count)
                ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(
                pool.map(test.at_a_moment, [(n, *task) for n, task in enumerate(tasks)])
            )
        test.while_bytes_are_shown()
        for io in paths:
            test.under_each_read(io, 200 if options.full else 12)
    total = sum(test.counts.values(), Counter())
    for (io, change), counts in test.counts.items():
        print(f"{io:18} {change:24} {dict(counts)}")
    print(f"{sum(total.values())} runs: {dict(total)}")
    for line in test.wrong[:30]:
        print(line, file=sys.stderr)
    is_shown = total["one error"] > 0 and total["right"] > 0
    return 0 if is_shown and not test.wrong else 1


if __name__ == "__main__":
    sys.exit(main())
