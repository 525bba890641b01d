#!/usr/bin/env python3
"""Run:ai's model streamer as a peer for compare.py; bench/peers/driver.py has the protocol. Run it with the Python that
`scripts/peers --safetensors runai-model-streamer` installs.

It reads a file into one buffer that the caller gets tensors of: its fastest way, and one that holds all of them in
memory as the others do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "bench/peers"))
import driver  # noqa: E402 - of another directory
from driver import Content, Open, Read, Refused, Tensor, Write  # noqa: E402

# A model with one tensor of two floats.
HEADER = b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'


class Streamer:
    """The release, on the processor."""

    def __init__(self) -> None:
        # One buffer for all of the file; it reuses smaller ones while tensors are handed out.
        os.environ["RUNAI_STREAMER_MEMORY_LIMIT"] = "-1"
        from importlib.metadata import version

        from runai_model_streamer import SafetensorsStreamer

        self._version = version("runai-model-streamer")
        self._streamer = SafetensorsStreamer

    def describe(self) -> driver.Json:
        return {
            "peer": "runai-model-streamer",
            "version": self._version,
            "detail": driver.memory_detail(),
            "operations": ["read"],
            "formats": ["safetensors"],
        }

    def warm_up_requests(self, file: str) -> list[driver.Json]:
        name = f"{file}.safetensors"
        Path(name).write_bytes(len(HEADER).to_bytes(8, "little") + HEADER + bytes(8))
        return [{"op": "read", "file": name, "touch": True}]

    def prepare(self, tensors: list[Tensor]) -> None:
        """Does nothing: it writes no tensors."""

    def writer(self, request: Write) -> Callable[[], None]:
        raise Refused("it writes no files")

    def reader(self, request: Read) -> Callable[[], dict[str, Any]]:
        if request.verify or request.key_hex is not None or request.mapped:
            raise Refused("it reads without hashes, keys or mappings")

        def read() -> dict[str, Any]:
            with self._streamer() as streamer:
                streamer.stream_file(request.file)
                tensors = dict(streamer.get_tensors())
            if request.touch:
                driver.touch(tensors.values())
            return tensors

        return read

    def opener(self, request: Open) -> Callable[[], Any]:
        raise Refused("it opens a file only to read it")

    def content(self, result: dict[str, Any]) -> Content:
        sizes = [driver.tensor_bytes(tensor) for tensor in result.values()]
        return Content(sum(sizes), len(sizes))

    def release(self, result: Any) -> None:
        """Does nothing: dropping the last reference frees everything."""


if __name__ == "__main__":
    sys.exit(driver.main(Streamer))
