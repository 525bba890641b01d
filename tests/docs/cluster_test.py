"""Follows docs/cluster.md. Skipped (77) without mpirun, or if tzmark was built without MPI."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import guides_test

SKIPPED = 77


def run() -> int:
    program = Path(os.environ["TZMARK_BUILD_DIR"]) / "libexec/tzmark"
    if (
        shutil.which("mpirun") is None
        or not (program / "tzmark-bench-cluster").exists()
    ):
        print("skipped: there is no MPI")
        return SKIPPED
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        os.environ[name] = "1"
    return guides_test.main("docs/cluster.md", "tzmark bench cluster")


if __name__ == "__main__":
    sys.exit(run())
