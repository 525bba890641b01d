#!/usr/bin/env python3
"""Stands in for the Python of an environment of GPU loaders: answers for any driver, by the protocol of driver.py.

As the module of tzmark it says that the first read of the process took 4 ms and later ones 2 ms; as another loader,
that each took 1 ms. Checksums are those of the file, but of the driver that GPU_PEER_DAMAGED names.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path


def checksums(file: str) -> dict[str, int]:
    """Returns the CRC32 of each tensor of a safetensors file, or of a .tensors file, which tzmark converts."""
    with tempfile.TemporaryDirectory() as directory:
        if not file.endswith(".safetensors"):
            copy = f"{directory}/copy.safetensors"
            tzmark = Path(os.environ["TZMARK_BUILD_DIR"]) / "bin/tzmark"
            subprocess.run(
                [tzmark, "convert", file, copy], check=True, capture_output=True
            )
            file = copy
        content = Path(file).read_bytes()
    begin = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:begin])
    header.pop("__metadata__", None)
    places = {name: entry["data_offsets"] for name, entry in header.items()}
    return {
        name: zlib.crc32(content[begin + first : begin + end])
        for name, (first, end) in places.items()
    }


def main() -> None:
    driver, *_, last = sys.argv[1:]
    assert last == "--gpu", sys.argv
    name = Path(driver).stem.removesuffix("_driver")
    formats = ["tensors" if name in ("tzmark", "tensorizer") else "safetensors"]
    hello = {"peer": name, "version": "1", "detail": "", "formats": formats}
    print(json.dumps(hello), flush=True)
    milliseconds = 4 if name == "tzmark" else 1
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "quit":
            return
        assert request["device"] == "cuda", request
        answer = {"elapsed_ns": milliseconds * 1_000_000, "cpu_ns": 0, "user_ns": 0}
        answer |= {"bytes": 1 << 20, "tensors": 32, "peak_memory_bytes": 4096}
        if request.get("checksums"):
            crcs = checksums(request["file"])
            if name == os.environ.get("GPU_PEER_DAMAGED"):
                crcs = {tensor: crc ^ 1 for tensor, crc in crcs.items()}
            answer["crc32"] = crcs
        print(json.dumps(answer), flush=True)
        if name == "tzmark":
            milliseconds = 2


if __name__ == "__main__":
    main()
