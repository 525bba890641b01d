"""Mutated files and specifications find the mistake of each wrong adapter, without the invalid files of the corpus.

usage: mutation_test.py [--mutants N] [ADAPTER]...    (default: all)

Prints one line per adapter: the number of the first mutated file that it fails, out of N. The unit tests of
conformance/mutation print the same for the model without each of its rules.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import adapter  # noqa: F401, it registers all of them
from wrong_adapter import WRONG_ADAPTERS, WrongAdapter

HERE = Path(__file__).resolve().parent
SOURCE = Path(os.environ.get("TZMARK_SOURCE_DIR", HERE.parents[1]))
BUILD = Path(os.environ.get("TZMARK_BUILD_DIR", SOURCE / "build"))
CONFORM = BUILD / "libexec/tzmark/tzmark-conform"
REFERENCE = BUILD / "libexec/tzmark/tzmark-adapter-reference"
FILES_MAX = 20000
# For adapters that no mutated file finds.
CONTROL_FILES = 100

# Adapters that no mutation finds, and why.
OUT_OF_REACH: dict[str, str] = {
    "any-number-of-derivations": "no mutation adds so many salts",
    "buffers-dropped": "specifications with buffers that are not persistent are not mutated",
    "buffers-kept": "specifications with buffers that are not persistent are not mutated",
    "header-inside-a-header": "nothing that a mutation finds in a header reads as one",
    "header-inside-the-index": "nothing that a mutation finds in the index reads as a header",
    "memory-sealed-twice": "specifications of tensors that share memory are not mutated",
    "pipe-read-to-its-end": "mutated files are not streamed",
    "second-bracket-ignored": "no mutation adds a bracket behind a name",
}


def outcome(wrong: WrongAdapter, count: int) -> tuple[str, bool]:
    """The line to print, and whether it is as it has to be."""
    command = [sys.executable, "-B", HERE / "adapter.py", wrong.name, REFERENCE]
    limits = ["--timeout", "2"] if "--timeout" in wrong.options else []
    with tempfile.NamedTemporaryFile(prefix="tzmark-mutation-") as result:
        words = [
            CONFORM,
            "mutate",
            "--adapter",
            shlex.join(map(str, command)),
            "--jobs",
            "1",
        ]
        passes = wrong.is_right or wrong.name in OUT_OF_REACH
        count = min(CONTROL_FILES, count) if passes else count
        words += [
            "--count",
            str(count),
            "--seed",
            "1",
            "--stop-at-first",
            "--json",
            result.name,
        ]
        if wrong.input_modes:
            words += ["--shape", ",".join(wrong.input_modes)]
        began = time.monotonic()
        done = subprocess.run([*words, *limits], capture_output=True, text=True)
        elapsed = time.monotonic() - began
        if done.returncode not in (0, 1):
            return f"{wrong.name}: status {done.returncode}, {done.stderr}", False
        found = json.loads(Path(result.name).read_bytes())["mutation"]["failures"]
    if found:
        first = found[0]
        what = f"{first['outcome']}, {first['rule'] or 'a valid file'}, {first['part']}"
        line = f"mutated file {first['number']} ({what})"
    else:
        line = f"none of {count}"
    right = bool(found) != passes
    why = f"; {OUT_OF_REACH[wrong.name]}" if wrong.name in OUT_OF_REACH else ""
    return f"{wrong.name}: {line}, {elapsed:.1f} s{why}", right


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutants", type=int, default=FILES_MAX)
    parser.add_argument("adapters", nargs="*")
    arguments = parser.parse_args()
    wanted = [WRONG_ADAPTERS[name] for name in arguments.adapters]
    wanted = wanted or list(WRONG_ADAPTERS.values())
    status = 0
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for line, is_well in workers.map(
            lambda wrong: outcome(wrong, arguments.mutants), wanted
        ):
            print(line if is_well else f"WRONG {line}", flush=True)
            status = status if is_well else 1
    return status


if __name__ == "__main__":
    sys.exit(main())
