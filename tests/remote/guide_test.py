#!/usr/bin/env python3
"""Follows docs/remote.md with its servers. Skipped (77) where rclone is not installed."""

import os
import subprocess
import sys
from pathlib import Path

import setting


def main() -> int:
    found = setting.rclone()
    if found is None:
        print("skipped: rclone is not installed")
        return setting.SKIPPED
    program = (
        Path(os.environ["TZMARK_SOURCE_DIR"]) / "tests" / "docs" / "guides_test.py"
    )
    path = f"{Path(found).resolve().parent}:{os.environ['PATH']}"
    command = [
        sys.executable,
        "-B",
        str(program),
        "docs/remote.md",
        "tzmark verify s3://",
    ]
    return subprocess.run(
        command, env=setting.clean_environment() | {"PATH": path}
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
