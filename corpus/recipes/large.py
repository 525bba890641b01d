#!/usr/bin/env python3
"""Writes the large files of the corpus, which are not committed, next to the others.

usage: large.py CORPUS

A build of the corpus runs it. The manifest has the SHA-256 of each file, as of all others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import buffers
import widths


def large_files() -> Iterator[tuple[str, bytes]]:
    """Paths below the corpus, and contents."""
    for module in (buffers, widths):
        for case in module.large_cases():
            yield from case.outputs().items()


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: large.py CORPUS")
    for path, content in large_files():
        target = Path(sys.argv[1]) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


if __name__ == "__main__":
    main()
