#!/usr/bin/env python3
"""The installed release of tensorizer, 2.0.0 or later, behind the adapter protocol (conformance/PROTOCOL.md). Run it
with the Python of an environment that has the release; scripts/peers makes such environments.

usage: adapter.py [--num-readers N] COMMAND ...
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import protocol


class Tensorizer:
    """The release. Its library is loaded with it, because "capabilities" shows what that takes."""

    def __init__(self, options: argparse.Namespace) -> None:
        import reading
        import release
        import writing

        if options.num_readers is not None and not release.READS_IN_PARALLEL:
            sys.exit(f"tensorizer {release.VERSION} has no option num_readers")
        self._reading, self._release, self._writing = reading, release, writing
        self._num_readers = options.num_readers

    def capabilities(self) -> protocol.Json:
        return self._release.profile(self._num_readers)

    def decode(self, file: str, secret: protocol.Secret | None) -> protocol.Json:
        return self._reading.decode(file, secret, self._num_readers)

    def verify(self, file: str, secret: protocol.Secret | None) -> None:
        if not self._release.VERIFIES:
            raise protocol.Unsupported("this release has no verification")
        self._reading.verify(file, secret, self._num_readers)

    def encode(self, spec: str, out: str, secret: protocol.Secret | None) -> None:
        self._writing.encode(spec, out, secret)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split(".", 1)[0])
    parser.add_argument(
        "--num-readers",
        type=int,
        help="threads that read one file; the default is up to the release",
    )
    sys.exit(protocol.main(Tensorizer, sys.argv[1:], parser))
