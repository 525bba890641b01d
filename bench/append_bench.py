"""Measures whether the time of an append depends on the size of the file.

Tensors are appended one at a time, each by its own process ("tzmark append --raw"), to a small and a large file in
turn. Growth of segments is reported separately. All data is zeros in the page cache, so the time is that of process
start, index, the syncs of undo journal, data and head, and the shifts. First, every intermediate file of a run on a
small base is verified completely. scripts/bench-append builds tzmark and runs this.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reports"))

from common import output_file  # noqa: E402
from common.made_directory import MadeDirectory  # noqa: E402

UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
BLOCKS = 10
RATIO_MAX = 2.0
SMALL_BASE_BYTES = 64 << 10


class Failed(Exception):
    """tzmark gave a wrong result, which invalidates all figures."""


def parse_size(text: str) -> int:
    found = re.fullmatch(r"(\d+)(KiB|MiB|GiB|)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size, such as 64MiB")
    return int(found[1]) * UNITS[found[2]]


def show_size(size: int) -> str:
    for unit in ("GiB", "MiB", "KiB"):
        if size >= UNITS[unit] and size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]} {unit}"
    return f"{size} bytes"


def file_system_of(directory: Path) -> str:
    """Returns the type of the file system of a directory."""
    best, kind = -1, "unknown"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        mount, found = line.split(" ")[1:3]
        mount = mount.encode().decode("unicode_escape")
        if directory.resolve().is_relative_to(mount) and len(mount) >= best:
            best, kind = len(mount), found
    return kind


@dataclass(frozen=True)
class Tzmark:
    """The command under test."""

    program: Path

    def run(self, *arguments: str | Path) -> str:
        done = subprocess.run(
            [self.program, *arguments], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise Failed(
                f"tzmark {arguments[0]} exits {done.returncode}: {done.stderr}"
            )
        return done.stdout

    def check(self, file: Path, tensors: int, *options: str) -> None:
        """Checks that the file verifies and has that many tensors."""
        said = self.run("verify", file, *options)
        if f": {tensors} tensor" not in said:
            raise Failed(f"expected {tensors} tensors, got: {said}")


@dataclass(frozen=True)
class Append:
    """The times of one append."""

    elapsed_ns: int
    growths: int
    growth_ns: int
    inserted_bytes: int
    copied_bytes: int


@dataclass
class Grown:
    """A file that grows by appends."""

    tzmark: Tzmark
    base_bytes: int
    file: Path
    appends: list[Append] = field(default_factory=list)

    def make(self) -> None:
        """Creates a file with one tensor of zeros from a sparse source."""
        source = self.file.with_suffix(".safetensors")
        header = json.dumps(
            {
                "base": {
                    "dtype": "U8",
                    # A dimension of this layout is less than 2^32.
                    "shape": [self.base_bytes // 1024, 1024],
                    "data_offsets": [0, self.base_bytes],
                }
            }
        ).encode()
        header += b" " * (-len(header) % 8)
        source.write_bytes(len(header).to_bytes(8, "little") + header)
        os.truncate(source, 8 + len(header) + self.base_bytes)
        self.tzmark.run("convert", source, self.file, "--layout", "v5-segments")
        source.unlink()

    def append(self, raw: Path) -> None:
        """Appends one tensor."""
        name = f"tensor.{len(self.appends):06}"
        size = str(raw.stat().st_size)
        begin_ns = time.perf_counter_ns()
        said = self.tzmark.run(
            *("append", self.file, "--show-growth"),
            *("--raw", name, "uint8", size, raw),
        )
        elapsed_ns = time.perf_counter_ns() - begin_ns
        growth = json.loads(said)
        self.appends.append(
            Append(
                elapsed_ns,
                growth["growths"],
                growth["elapsed_ns"],
                growth["inserted_bytes"],
                growth["copied_bytes"],
            )
        )

    def check(self, *options: str) -> None:
        self.tzmark.check(self.file, 1 + len(self.appends), *options)

    def mean_ns(self) -> float:
        return statistics.fmean(one.elapsed_ns for one in self.appends)

    def block_means_ns(self) -> list[float]:
        """Summarizes ten consecutive parts of the run."""
        size = len(self.appends) // BLOCKS
        return [
            statistics.fmean(one.elapsed_ns for one in self.appends[i : i + size])
            for i in range(0, size * BLOCKS, size)
        ]

    def summary(self) -> dict[str, Any]:
        elapsed_ns = [one.elapsed_ns for one in self.appends]
        return {
            "base_bytes": self.base_bytes,
            "appends": len(self.appends),
            "median_ns": statistics.median(elapsed_ns),
            "p90_ns": statistics.quantiles(elapsed_ns, n=10)[-1],
            "mean_ns": self.mean_ns(),
            "mean_without_growth_ns": statistics.fmean(
                one.elapsed_ns - one.growth_ns for one in self.appends
            ),
            "growths": sum(one.growths for one in self.appends),
            "growth_ns": sum(one.growth_ns for one in self.appends),
            "growth_max_ns": max(one.growth_ns for one in self.appends),
            "inserted_bytes": sum(one.inserted_bytes for one in self.appends),
            "copied_bytes": sum(one.copied_bytes for one in self.appends),
            "block_means_ns": self.block_means_ns(),
        }


def verify_every_file(tzmark: Tzmark, directory: Path, raw: Path, appends: int) -> None:
    """Appends to a small base, and verifies the whole file after each append."""
    grown = Grown(tzmark, SMALL_BASE_BYTES, directory / "small.tensors")
    grown.make()
    grown.check()
    for _ in range(appends):
        grown.append(raw)
        grown.check()
    growths = sum(one.growths for one in grown.appends)
    if growths == 0:
        raise Failed("no segment had to grow, so growth was not measured")
    print(
        f"every file on the way from 1 to {1 + appends} tensors is valid: {appends + 1} "
        f"files verified whole, base {show_size(SMALL_BASE_BYTES)}, {growths} growths"
    )
    grown.file.unlink()


def measure(grown: Sequence[Grown], raw: Path, appends: int, verify_each: bool) -> None:
    """Appends to all files in turn."""
    for one in grown:
        one.make()
        one.check("--structure-only")
    os.sync()
    for _ in range(appends):
        for one in grown:
            one.append(raw)
            if verify_each:
                one.check("--structure-only")
    for one in grown:
        one.check()


def compare(small: Grown, large: Grown) -> dict[str, Any]:
    """Returns how much longer an append to the large file takes."""
    blocks = [b / a for a, b in zip(small.block_means_ns(), large.block_means_ns())]
    return {
        "base_bytes": [small.base_bytes, large.base_bytes],
        "ratio": large.mean_ns() / small.mean_ns(),
        "ratio_max": RATIO_MAX,
        "block_ratios": blocks,
    }


def show(summary: dict[str, Any]) -> None:
    def ms(name: str) -> str:
        return f"{summary[name] / 1e6:.2f} ms"

    print(
        f"{show_size(summary['base_bytes'])} of data before, {summary['appends']} appends"
    )
    print(f"  median {ms('median_ns')}, 90 % below {ms('p90_ns')}")
    print(f"  mean {ms('mean_ns')}, without growth {ms('mean_without_growth_ns')}")
    print(
        f"  {summary['growths']} growths took {ms('growth_ns')} in all, at most {ms('growth_max_ns')}; "
        f"inserted {show_size(summary['inserted_bytes'])}, copied {show_size(summary['copied_bytes'])}"
    )


def run(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    tzmark = Tzmark(options.tzmark)
    raw = directory / "tensor.bin"
    raw.write_bytes(bytes(options.tensor_bytes))
    verify_every_file(tzmark, directory, raw, options.appends)
    grown = [
        Grown(tzmark, size, directory / f"base-{size}.tensors")
        for size in options.sizes
    ]
    measure(grown, raw, options.appends, options.verify_each)
    summaries = [one.summary() for one in grown]
    file_system = file_system_of(directory)
    copied = any(summary["copied_bytes"] for summary in summaries)
    print(
        f"file system {file_system}: segments grow "
        + ("by copying the file" if copied else "by INSERT_RANGE")
        + f"; tensors of {show_size(options.tensor_bytes)}; data is zeros, page cache warm"
    )
    for summary in summaries:
        show(summary)
    comparison = compare(grown[0], grown[-1])
    blocks = comparison["block_ratios"]
    verdict = "is kept" if comparison["ratio"] <= RATIO_MAX else "is missed"
    print(
        f"mean of {show_size(grown[-1].base_bytes)} / mean of {show_size(grown[0].base_bytes)}: "
        f"{comparison['ratio']:.2f}, in {BLOCKS} blocks from {min(blocks):.2f} to {max(blocks):.2f}; "
        f"the target of at most {RATIO_MAX:g} {verdict}"
    )
    return {
        "file_system": file_system,
        "insert_range": not copied,
        "kernel": platform.release(),
        "tensor_bytes": options.tensor_bytes,
        "data": "zeros",
        "page_cache": "warm",
        "verified_files": options.appends + 1,
        "files": summaries,
        "comparison": comparison,
        "samples": {
            str(one.base_bytes): [vars(append) for append in one.appends]
            for one in grown
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tzmark", type=Path, required=True)
    parser.add_argument(
        "--dir",
        type=Path,
        required=True,
        help="directory for the files; created and removed",
    )
    parser.add_argument(
        "--sizes",
        type=lambda text: [parse_size(size) for size in text.split(",")],
        default="64MiB,4GiB",
        help="bytes of data before the appends; the first and the last size are compared (default 64MiB,4GiB)",
    )
    parser.add_argument("--appends", type=int, help="number of appends (default 1000)")
    parser.add_argument("--tensor-bytes", type=parse_size, default="4KiB")
    parser.add_argument(
        "--verify-each",
        action="store_true",
        help="also check the structure of the measured files after each append",
    )
    parser.add_argument("--quick", action="store_true", help="100 appends")
    parser.add_argument("--json", type=Path, help="write every sample to this file")
    options = parser.parse_args()
    if options.appends is None:
        options.appends = 100 if options.quick else 1000
    if any(size == 0 or size % 1024 != 0 for size in options.sizes):
        parser.error("--sizes are multiples of 1KiB")
    if options.appends < BLOCKS:
        parser.error(f"--appends is at least {BLOCKS}")
    try:
        parent = options.dir.absolute().parent
        parent.mkdir(parents=True, exist_ok=True)
        made = MadeDirectory(parent, name=options.dir.name)
    except FileExistsError:
        parser.error(f"{options.dir} is there already, and would be removed")
    try:
        result = run(options, options.dir)
    except Failed as failed:
        print(f"append_bench: {failed}", file=sys.stderr)
        return 1
    finally:
        made.remove()
    if options.json:
        output_file.write(options.json, json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
