#!/usr/bin/env python3
"""The model of safetensors and the reference give the same answer about mutants of the cases.

An answer is the content, or the rule and the byte for which a file is refused; where JSON itself is broken, the rule.
usage: agreement_test.py [COUNT [SEED]]
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

CASES = Path(os.environ["TZMARK_SOURCE_DIR"]) / "reference/safetensors/cases"
ADAPTERS = Path(os.environ["TZMARK_BUILD_DIR"]) / "libexec/tzmark"
COUNT, SEED = 20_000, 1
SEED_BYTES_MAX = 4_000

TOKENS = [
    *(b'"a"', b'"dtype"', b'"shape"', b'"data_offsets"', b'"__metadata__"'),
    *(b"null", b"true", b"[]", b"{}", b"[0]", b"[1,2]", b"{", b"}", b"[", b"]"),
    *(b"0", b"1", b"-1", b"-0", b"1.0", b"1e0", b"1e999", b"01"),
    *(b"18446744073709551615", b"18446744073709551616", b",", b":", b" ", b"\n"),
    *(b"\t", b"\0", b"\\u0061", b"\\ud800", b"\\udc00", b"\xff", b"\xc3\xa9"),
    *(b'"U8"', b'"F4"', b'"F64"', b'"BOOL"', b'"F6_E2M3"', b'{"U8":null}'),
    *(b'["U8",[1],[0,1]]', b'"x":{"x":1,"x":2},'),
]
VALUE = re.compile(rb'"[^"]*"|\d+|\[[^\]]*\]|\{[^{}]*\}')


class Adapter:
    """A program that answers requests, one per line."""

    def __init__(self, name: str) -> None:
        self.process = subprocess.Popen(
            [ADAPTERS / name, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, path: Path) -> tuple[Any, ...]:
        assert self.process.stdin is not None and self.process.stdout is not None
        request = {"id": 0, "command": "decode", "file": str(path)}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "decoded" in answer:
            return ("decoded", answer["decoded"])
        rejected = answer["rejected"]
        is_json = rejected["rule"] != "ST-006"
        return ("rejected", rejected["rule"], rejected["offset"] if is_json else None)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def parts(file: bytes) -> tuple[bytes, bytes]:
    """The header and the data, as far as they are there."""
    length = int.from_bytes(file[:8], "little")
    end = 8 + length if length <= len(file) else len(file)
    return file[8:end], file[end:]


def mutant(files: list[bytes], random_: random.Random) -> bytes:
    """A file with one to three changes, with the right length of its header in most cases."""
    before, data = parts(random_.choice(files))
    header = bytearray(before)
    for _ in range(random_.choice((1, 1, 1, 2, 3))):
        kind = random_.randrange(8)
        at = random_.randrange(len(header) + 1)
        if kind == 0 and at < len(header):
            header[at] ^= 1 << random_.randrange(8)
        elif kind == 1:
            header[at:at] = random_.choice(TOKENS)
        elif kind == 2:
            del header[at : at + random_.choice((1, 1, 2, 5))]
        elif kind == 3:
            begin = random_.randrange(len(header) + 1)
            header[at:at] = header[begin : begin + random_.randrange(1, 30)]
        elif kind in (4, 5) and (
            found := list(
                (VALUE if kind == 5 else re.compile(rb"\d+")).finditer(header)
            )
        ):
            one = random_.choice(found)
            by = random_.choice(TOKENS)
            if kind == 4:
                old = int(one[0])
                odd = (0, 1, old + 1, old * 2, 2**32, 2**61, 2**63, 2**64 - 1)
                by = str(random_.choice(odd)).encode()
            header[one.start() : one.end()] = by
        elif kind == 6:
            data = data[: random_.randrange(len(data) + 1)] + bytes(
                random_.randrange(3)
            )
        elif kind == 7:
            other, _ = parts(random_.choice(files))
            begin = random_.randrange(len(other) + 1)
            header[at:at] = other[begin : begin + random_.randrange(1, 60)]
    length = len(header)
    if random_.random() < 0.03:
        length = random_.choice(
            (0, length + 1, 10**8, 10**8 + 1, 2**63, 2**64 - 1)
        )
    return length.to_bytes(8, "little") + bytes(header) + data


class Agreement(unittest.TestCase):
    def test_mutants_get_the_same_answer(self) -> None:
        random_ = random.Random(SEED)
        files = [path.read_bytes() for path in sorted(CASES.glob("*.safetensors"))]
        files = [file for file in files if 8 <= len(file) <= SEED_BYTES_MAX]
        self.assertGreater(len(files), 800)
        adapters = [
            Adapter("tzmark-adapter-reference"),
            Adapter("tzmark-adapter-model"),
        ]
        for adapter in adapters:
            self.addCleanup(adapter.close)
        seen: set[str] = set()
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "mutant.safetensors"
            for _ in range(COUNT):
                file = mutant(files, random_)
                path.write_bytes(file)
                reference, model = (adapter.ask(path) for adapter in adapters)
                self.assertEqual(reference, model, file)
                seen.add(reference[1] if reference[0] == "rejected" else "accepted")
        # All rules but that of files shorter than a length, and files without a defect.
        self.assertEqual(
            seen, {"accepted", *(f"ST-{number:03}" for number in range(2, 16))}
        )


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        COUNT = int(sys.argv.pop(1))
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        SEED = int(sys.argv.pop(1))
    unittest.main()
