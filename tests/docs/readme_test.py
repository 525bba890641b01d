"""Runs the commands of README.md as a newcomer would, in a folder with the build and the scripts.

The commands of all `sh` blocks run in order, in one shell that stops at the first failure, in an empty directory in
which `build` is this build. scripts/run and scripts/test are left out: what runs this test is one of the two.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LEFT_OUT = {"scripts/run", "scripts/test"}


def commands(text: str) -> list[str]:
    """The lines of all sh blocks, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    return [line for line in lines if line.strip() not in LEFT_OUT]


def main() -> int:
    source = Path(os.environ["TZMARK_SOURCE_DIR"])
    build = Path(os.environ["TZMARK_BUILD_DIR"])
    lines = commands((source / "README.md").read_text(encoding="utf-8"))
    if not any("tzmark convert" in line for line in lines):
        print("README.md has no commands to run")
        return 1
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "build").symlink_to(build)
        for folder in ("scripts", "reports"):
            (Path(directory) / folder).symlink_to(source / folder)
        script = "\n".join(["set -ex", *lines])
        return subprocess.run(["bash", "-c", script], cwd=directory).returncode


if __name__ == "__main__":
    sys.exit(main())
