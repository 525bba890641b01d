#!/usr/bin/env python3
"""Tests of tzmark minimize as its users meet it, on a file of some size with one thing wrong in it.

TZMARK_MINIMIZE_MIB sets the size, which is 8 otherwise.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shlex
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib
from pathlib import Path
from typing import Any

import jsonschema

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
CONFORM = BUILD / "libexec/tzmark/tzmark-conform"
MODEL = BUILD / "libexec/tzmark/tzmark-adapter-model"
SCHEMA = json.loads((SOURCE / "reports/schema/minimize.schema.json").read_text())
SIZE_BYTES = int(os.environ.get("TZMARK_MINIMIZE_MIB", "8")) << 20
TENSORS = 100

# An adapter that dies when it meets a tensor of two dimensions, and takes all else.
CRASHING = """
import json, sys
profile = {"protocol": 1, "name": "crashing", "version": "1", "commands": ["verify"], "reads": {"layouts": ["v1"]}}
if sys.argv[1] == "capabilities":
    print(json.dumps(profile))
elif b"<f4\\x02" in open(sys.argv[2], "rb").read():
    raise ValueError(f"{sys.argv[2]} has two dimensions")
else:
    print(json.dumps({"verified": True}))
"""


def tensor_header(name: bytes, shape: list[int], hashes: bytes, length: int) -> bytes:
    dims = struct.pack(f"<B{len(shape)}I", len(shape), *shape)
    fields = struct.pack("<HBH", 0, 0, len(name)) + name + b"\x03<f4" + dims
    fields += struct.pack("<H", len(hashes)) + hashes + struct.pack("<q", length)
    return struct.pack("<Q", len(fields) + 8) + fields


def write_file(path: Path, shapes: list[list[int]], wrong_hash: int | None) -> None:
    """Writes tensors of random data in layout v1; the CRC32 of one of them may be wrong."""
    source = random.Random(7)
    no_hashes = b"\x02\0\x04" + bytes(4) + b"\x01\x20" + bytes(32)
    names = [b"layers.%d.weight" % i for i in range(len(shapes))]
    data = [source.randbytes(4 * shape[0] * (shape + [1])[1]) for shape in shapes]
    index_length = sum(32 + len(n) + 4 * len(s) for n, s in zip(names, shapes))
    index, records, at = b"", [], 73 + index_length
    for i, (name, shape, content) in enumerate(zip(names, shapes, data)):
        blank = tensor_header(name, shape, no_hashes, len(content))
        crc = zlib.crc32(content, zlib.crc32(blank)) ^ (i == wrong_hash)
        sha = hashlib.sha256(blank + content).digest()
        hashes = b"\x02\0\x04" + struct.pack("<I", crc) + b"\x01\x20" + sha
        records += [tensor_header(name, shape, hashes, len(content)), content]
        dims = struct.pack(f"<B{len(shape)}I", len(shape), *shape)
        index += struct.pack("<H", len(name)) + name + b"\0\x03<f4" + dims
        index += struct.pack("<3Q", at, at + len(blank), len(content))
        at += len(blank) + len(content)
    assert len(index) == index_length
    total = struct.pack("<Q8xQ", sum(map(len, data)), len(shapes))
    header = b"|TZR|" + struct.pack("<I", 1) + bytes(32) + total
    path.write_bytes(
        b"".join([header, struct.pack("<Q", len(index)), index, *records, bytes(8)])
    )


def minimize(*options: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CONFORM, "minimize", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


class Minimizing(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.file = self.directory / "model.tensors"
        self.out = self.directory / "out.tensors"
        self.json = self.directory / "out.json"

    def result(self) -> dict[str, Any]:
        result = json.loads(self.json.read_text())
        jsonschema.Draft202012Validator(SCHEMA).validate(result)
        return result

    def careless(self, rule: str) -> str:
        return shlex.join([str(MODEL), "--without", rule])

    def test_one_wrong_hash_in_a_large_file(self) -> None:
        write_file(self.file, [[SIZE_BYTES // TENSORS // 4]] * TENSORS, wrong_hash=61)
        adapter = ("--adapter", self.careless("TZR-HSH-005"))
        began = time.monotonic()
        run = minimize(self.file, *adapter, "-o", self.out, "--json", self.json)
        elapsed = time.monotonic() - began
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertLess(self.out.stat().st_size, 1024)
        self.assertLess(elapsed, 60)
        result = self.result()
        self.assertEqual(result["failure"]["rule"], "TZR-HSH-005")
        self.assertEqual(result["failure"]["outcome"], "accepted-invalid")
        self.assertTrue(result["finished"])
        content = self.out.read_bytes()
        self.assertEqual(
            result["minimized"]["sha256"], hashlib.sha256(content).hexdigest()
        )
        # It is refused for that reason alone, and the last line of the output shows who takes it.
        judged = subprocess.run(
            [MODEL, "verify", self.out], capture_output=True, text=True, check=False
        )
        self.assertIn("TZR-HSH-005", judged.stdout)
        repeated = subprocess.run(
            shlex.split(run.stdout.splitlines()[-1]), capture_output=True, check=False
        )
        self.assertEqual(repeated.returncode, 0)
        # What is least already stays as it is.
        again = self.directory / "again.tensors"
        self.assertEqual(minimize(self.out, *adapter, "-o", again).returncode, 0)
        self.assertEqual(again.read_bytes(), content)

    def test_crash_of_another_program(self) -> None:
        write_file(self.file, [[9], [8, 3], [7], [2, 6]], wrong_hash=None)
        adapter = shlex.join([sys.executable, "-c", CRASHING])
        run = minimize(self.file, "--adapter", adapter, "--json", self.json)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("verify: crash: ", run.stdout)
        result = self.result()
        self.assertTrue(result["failure"]["sign"].endswith("; ValueError"))
        self.assertIsNone(result["failure"]["rule"])
        least = self.directory / "model.min.tensors"
        self.assertEqual(result["minimized"]["path"], str(least))
        decoded = subprocess.run(
            [MODEL, "decode", least], capture_output=True, check=True
        )
        tensors = json.loads(decoded.stdout)["tensors"]
        self.assertEqual([len(tensor["shape"]) for tensor in tensors], [2])

    def test_file_without_failure(self) -> None:
        write_file(self.file, [[9]], wrong_hash=0)
        adapter = ("--adapter", shlex.quote(str(MODEL)))
        for options in ((), ("--command", "decode")):
            run = minimize(self.file, *adapter, "-o", self.out, *options)
            self.assertEqual(run.returncode, 1)
            self.assertIn("does not fail on this file", run.stderr)
        self.assertFalse(self.out.exists())

    def test_usage_and_environment(self) -> None:
        write_file(self.file, [[9]], wrong_hash=0)
        adapter = ("--adapter", self.careless("TZR-HSH-005"))
        key = self.directory / "key"
        key.write_text("no key")
        self.assertEqual(minimize().returncode, 2)
        self.assertEqual(minimize(self.file, "--command", "encode").returncode, 2)
        self.assertEqual(minimize(self.file, *adapter, "--key-file", key).returncode, 2)
        self.assertEqual(minimize(self.directory / "none", *adapter).returncode, 3)
        self.assertEqual(minimize(self.file, "--adapter", "/nonexistent").returncode, 3)
        missing = self.directory / "none/out"
        self.assertEqual(minimize(self.file, *adapter, "-o", missing).returncode, 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
