"""Follows README.md or a guide as a newcomer would: its commands run in order, in a directory with the build and the
scripts, and print what the document shows.

usage: guides_test.py DOCUMENT WORDS     (WORDS: part of a command that the document must have)
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from follow import BLOCK, Follower, all_commands

FOLDERS = ("reports", "scripts")


def main(document: str, words: str) -> int:
    source, build = (
        Path(os.environ[name]) for name in ("TZMARK_SOURCE_DIR", "TZMARK_BUILD_DIR")
    )
    text = (source / document).read_text(encoding="utf-8")
    if not any(words in line for line in all_commands(text)):
        print(f"{document} has no command with {words}")
        return 1
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "build").symlink_to(build)
        for folder in FOLDERS:
            (Path(directory) / folder).symlink_to(source / folder)
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        Follower(Path(directory), environment).follow(BLOCK.findall(text))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
