"""Runs a program in the virtual environment of a peer, another implementation of the format.

usage: with_peer.py ENVIRONMENT PROGRAM ARGUMENT...

Without the environment it fails. With TZMARK_NO_PEERS=1 it leaves the program out, says so, and exits with status 77,
which CTest counts as skipped.
"""

import os
import sys
from pathlib import Path

SKIPPED = 77


def main(arguments: list[str]) -> int:
    """Becomes the program, or returns the status that says why not."""
    environment = Path(arguments[0])
    python = environment / "bin" / "python"
    if os.environ.get("TZMARK_NO_PEERS") == "1":
        print(f"TZMARK_NO_PEERS=1 leaves out the peer {environment.name}")
        return SKIPPED
    if not python.exists():
        print(f"the peer {environment.name} is missing: scripts/peers installs it")
        return 1
    os.execv(python, [str(python), "-B", *arguments[1:]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
