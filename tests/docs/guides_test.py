"""Follows README.md or a guide as a newcomer would: its commands run in order, in a directory with the build and the
scripts, and print what the document shows.

usage: guides_test.py DOCUMENT WORDS     (WORDS: part of a command that the document must have)

Exit status: 77 if the machine is too busy for a measurement of the document.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from follow import BLOCK, BusyMachine, Follower, all_commands

DIRECTORIES = ("reports", "scripts")
SKIPPED = 77


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
        for name in DIRECTORIES:
            (Path(directory) / name).symlink_to(source / name)
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        # As after the installation, which is left out here.
        if "\npip install build/" in text:
            environment["PATH"] = f"{build}/bin:{environment['PATH']}"
        try:
            Follower(Path(directory), environment).follow(BLOCK.findall(text))
        except BusyMachine as busy:
            print(f"the machine is too busy for: {busy}")
            return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
