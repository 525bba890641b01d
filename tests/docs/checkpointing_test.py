"""Runs the commands of docs/checkpointing.md in order, in an empty directory, and validates the results.

Without mpirun, or if tzmark was built without MPI, the commands of ranks are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema

from follow import all_commands

# The checkpoints of ranks, and those made from them.
OF_RANKS = ("sharded", "whole", "two")
SCHEMAS = {"result.json": "checkpoint-simulate", "bench.json": "checkpoint-bench"}


def without_ranks(lines: list[str]) -> list[str]:
    """Returns the commands that need no MPI."""
    return [line for line in lines if not set(OF_RANKS) & set(line.split())]


def run(lines: list[str], source: Path, build: Path) -> int:
    """Runs the commands in one shell that stops at the first failure, and validates their results."""
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        (here / "build").symlink_to(build)
        environment = {
            **os.environ,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        script = "\n".join(["set -ex", *lines])
        status = subprocess.run(
            ["bash", "-c", script], cwd=here, env=environment
        ).returncode
        if status != 0:
            return status
        for result, schema in SCHEMAS.items():
            rules = source / f"reports/schema/{schema}.schema.json"
            jsonschema.validate(
                json.loads((here / result).read_text()), json.loads(rules.read_text())
            )
    return 0


def main() -> int:
    source, build = (
        Path(os.environ[name]) for name in ("TZMARK_SOURCE_DIR", "TZMARK_BUILD_DIR")
    )
    text = (source / "docs/checkpointing.md").read_text(encoding="utf-8")
    lines = all_commands(text)
    if len(without_ranks(lines)) in (0, len(lines)):
        print("docs/checkpointing.md lacks commands with or without ranks")
        return 1
    mpi = build / "libexec/tzmark/tzmark-checkpoint-mpi"
    if shutil.which("mpirun") is None or not mpi.exists():
        print("skipped the commands of ranks: there is no MPI")
        lines = without_ranks(lines)
    return run(lines, source, build)


if __name__ == "__main__":
    sys.exit(main())
