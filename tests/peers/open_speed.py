"""Times how long opening a file of many tensors takes: the library against upstream's lazy open, in turns in one run.

Both open the same file, which is in the page cache. Imports and the start of processes are not counted. Ours runs in a
new process each time, so that it cannot profit from memory that an earlier open left behind. Runs in the peer's
environment; scripts/bench-open makes that and calls this.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import tensorizer
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "reports"))

from common import output_file  # noqa: E402


def ours_ns(tzmark: Path, file: Path, *options: str) -> int:
    """One open by the library, in nanoseconds."""
    done = subprocess.run(
        [tzmark, "bench", "open", file, "--repetitions", "1", *options],
        check=True,
        stdout=subprocess.PIPE,
    )
    return int(done.stdout)


def upstream_ns(file: Path, tensors: int) -> int:
    """One lazy open by upstream, in nanoseconds."""
    # A collection of an earlier open's garbage does not belong to this one.
    gc.collect()
    begin_ns = time.perf_counter_ns()
    deserializer = tensorizer.TensorDeserializer(
        str(file), device="cpu", lazy_load=True
    )
    elapsed_ns = time.perf_counter_ns() - begin_ns
    with deserializer:
        if len(deserializer) != tensors:
            raise RuntimeError(f"upstream sees {len(deserializer)} tensors")
    return elapsed_ns


def summary(name: str, samples_ns: Sequence[int]) -> str:
    """Median and spread in milliseconds."""
    median, low, high = (
        value / 1e6
        for value in (statistics.median(samples_ns), min(samples_ns), max(samples_ns))
    )
    return f"{name:<20} median {median:9.2f} ms   from {low:9.2f} to {high:9.2f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tzmark", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True, help="where to write")
    parser.add_argument("--tensors", type=int, default=100_000)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--json", type=Path, help="where to put every sample")
    arguments = parser.parse_args()
    if arguments.tensors < 1 or arguments.repetitions < 1:
        parser.error("--tensors and --repetitions are at least 1")

    file = arguments.scratch / "many.tensors"
    # The first open of each warms the page cache and upstream's lazily made parts.
    ours_ns(arguments.tzmark, file, "--tensors", str(arguments.tensors))
    upstream_ns(file, arguments.tensors)
    ours: list[int] = []
    upstream: list[int] = []
    for _ in range(arguments.repetitions):
        ours.append(ours_ns(arguments.tzmark, file))
        upstream.append(upstream_ns(file, arguments.tensors))

    ratio = statistics.median(upstream) / statistics.median(ours)
    print(f"opening {arguments.tensors} tensors, {arguments.repetitions} times each")
    print(summary("tzmark", ours))
    print(summary(f"tensorizer {tensorizer.__version__}", upstream))
    print(f"tzmark opens it {ratio:.1f} times as fast (torch {torch.__version__})")
    if arguments.json:
        result = {
            "tensors": arguments.tensors,
            "tzmark_open_ns": ours,
            "tensorizer_open_ns": upstream,
            "ratio": ratio,
        }
        output_file.write(arguments.json, json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
