"""Runs the commands of docs/gpu.md in order, in an empty directory, with fakes of libcuda and libcufile instead of a
GPU. The output of scripts/gpu-baseline has to be complete and correct.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from follow import all_commands

KEPT = {
    "bench.json",
    "bench.txt",
    "checks.json",
    "checks.txt",
    "commands.txt",
    "corpus-and-paths.txt",
    "kernels.txt",
    "steps.txt",
    "version.txt",
}


# Files that need a build with nvcc.
KEPT_WITH_KERNELS = {"bench-encrypted.txt", "encrypted.json"}
LEFT_OUT = re.compile("bench-encrypted +left out: built without CUDA kernels")


def fakes(build: Path, root: Path) -> dict[str, str]:
    """Returns the environment that makes this machine appear to have a GPU and libcufile."""
    for name in ("run/udev", "proc"):
        (root / name).mkdir(parents=True)
    (root / "proc/modules").touch()
    directory = build / "tests/fake"
    return {
        "TZMARK_CUDA_LIBRARY": str(directory / "libtzmark_fake_cuda.so"),
        "TZMARK_CUFILE_LIBRARY": str(directory / "libtzmark_fake_cufile.so"),
        "TZMARK_SYSTEM_ROOT": str(root),
        # A few tests suffice: all of them are tests of their own.
        "GTEST_FILTER": "Crc32OnDevice.BordersOfRounds:*OneTensor*/pwrite",
    }


def problems(baseline: Path) -> list[str]:
    """Returns the defects of a directory that scripts/gpu-baseline made."""
    left = {path.name for path in baseline.iterdir()}
    has_kernels = "CUDA: kernels" in (baseline / "version.txt").read_text()
    kept = KEPT | KEPT_WITH_KERNELS if has_kernels else KEPT
    found = [f"{name} is missing" for name in sorted(kept - left)]
    steps = (baseline / "steps.txt").read_text().splitlines()
    if not has_kernels:
        told = [step for step in steps if LEFT_OUT.fullmatch(step)]
        steps = [step for step in steps if step not in told]
        found += [] if told else ["the missing kernels are not reported"]
    # Ratios that need a GPU fail on a fake.
    wrong = [s for s in steps if not s.endswith("right") and s.split()[0] != "checks"]
    found += [f"a step failed: {step}" for step in wrong]
    results = json.loads((baseline / "bench.json").read_text())["results"]
    if not any(r["subject"] == "codec" and r["memory"] == "device" for r in results):
        found.append("the bench did not measure GPU memory")
    checks = json.loads((baseline / "checks.json").read_text())["checks"]
    if not any("CRC32 on the GPU" in check["name"] for check in checks):
        found.append("the checks say nothing of CRC32")
    return found


def main() -> int:
    source = Path(os.environ["TZMARK_SOURCE_DIR"])
    build = Path(os.environ["TZMARK_BUILD_DIR"])
    lines = all_commands((source / "docs/gpu.md").read_text(encoding="utf-8"))
    last = lines.pop()
    if not last.startswith("scripts/gpu-baseline baseline "):
        print("docs/gpu.md does not end with scripts/gpu-baseline")
        return 1
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory) / "here"
        here.mkdir()
        (here / "build").symlink_to(build)
        for name in ("scripts", "reports", "LICENSE"):
            (here / name).symlink_to(source / name)
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= fakes(build, Path(directory) / "root")
        script = "\n".join(["set -ex", *lines])
        status = subprocess.run(
            ["bash", "-c", script], cwd=here, env=environment
        ).returncode
        if status != 0:
            return status
        subprocess.run(["bash", "-xc", last], cwd=here, env=environment)
        found = problems(here / "baseline")
        for text in found:
            print(text)
        if found:
            for name in ("steps", "kernels", "corpus-and-paths", "bench", "checks"):
                print(f"--- {name}", (here / f"baseline/{name}.txt").read_text())
        return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
