"""Mutants of valid files find what is wrong with the deliberately wrong adapters, without the corpus's invalid files.

usage: mutation_test.py [--mutants N] [ADAPTER]...    (all that read, if none is named)

Prints a line for each adapter: the first mutant that it fails, of so many that it was asked about. The rules that the
model leaves out one by one are the business of the unit tests of conformance/mutation, which print such lines too.
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

import adapter  # noqa: F401, it knows all mutants
from mutant import MUTANTS, Mutant

HERE = Path(__file__).resolve().parent
SOURCE = Path(os.environ.get("TZMARK_SOURCE_DIR", HERE.parents[1]))
BUILD = Path(os.environ.get("TZMARK_BUILD_DIR", SOURCE / "build"))
CONFORM = BUILD / "bin/tzmark-conform"
REFERENCE = BUILD / "libexec/tzmark/tzmark-adapter-reference"
MUTANTS_MAX = 20000
# What no mutant finds is asked about as many.
CONTROL_MUTANTS = 100

# Adapters that read and that no mutant finds, and why.
OUT_OF_REACH: dict[str, str] = {
    "pipe-read-to-its-end": "mutants are files, and are not streamed",
}


def reads_wrongly(mutant: Mutant) -> bool:
    return mutant.answer.__module__ not in ("writing", "rewriting")


def outcome(mutant: Mutant, count: int) -> tuple[str, bool]:
    """The line to print, and whether it is as it has to be."""
    command = [sys.executable, "-B", HERE / "adapter.py", mutant.name, REFERENCE]
    limits = ["--timeout", "2"] if "--timeout" in mutant.options else []
    with tempfile.NamedTemporaryFile(prefix="tzmark-mutation-") as result:
        words = [CONFORM, "--adapter", shlex.join(map(str, command)), "--jobs", "1"]
        passes = mutant.is_right or mutant.name in OUT_OF_REACH
        count = min(CONTROL_MUTANTS, count) if passes else count
        words += [
            "--mutate",
            str(count),
            "--seed",
            "1",
            "--stop-at-first",
            "--json",
            result.name,
        ]
        began = time.monotonic()
        done = subprocess.run([*words, *limits], capture_output=True, text=True)
        elapsed = time.monotonic() - began
        if done.returncode not in (0, 1):
            return f"{mutant.name}: status {done.returncode}, {done.stderr}", False
        found = json.loads(Path(result.name).read_bytes())["mutation"]["failures"]
    if found:
        first = found[0]
        what = f"{first['outcome']}, {first['rule'] or 'a valid file'}, {first['part']}"
        line = f"mutant {first['number']} ({what})"
    else:
        line = f"none of {count}"
    right = bool(found) != passes
    why = f"; {OUT_OF_REACH[mutant.name]}" if mutant.name in OUT_OF_REACH else ""
    return f"{mutant.name}: {line}, {elapsed:.1f} s{why}", right


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutants", type=int, default=MUTANTS_MAX)
    parser.add_argument("adapters", nargs="*")
    arguments = parser.parse_args()
    readers = [m for m in MUTANTS.values() if reads_wrongly(m)]
    wanted = [MUTANTS[name] for name in arguments.adapters] or readers
    status = 0
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for line, is_well in workers.map(
            lambda mutant: outcome(mutant, arguments.mutants), wanted
        ):
            print(line if is_well else f"WRONG {line}", flush=True)
            status = status if is_well else 1
    return status


if __name__ == "__main__":
    sys.exit(main())
