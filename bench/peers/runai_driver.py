#!/usr/bin/env python3
"""The Run:ai model streamer as a peer of "tzmark bench"; bench/peers/driver.py has the protocol."""

from __future__ import annotations

import os
import sys
from typing import Any

import driver
from gpu_loader import GpuLoader


class Runai:
    """Through the page cache, by one of its readers."""

    package = "runai-model-streamer"

    def __init__(self, name: str = "runai", strategy: str = "sync_buffered") -> None:
        self.name = name
        # Read once per process.
        os.environ["RUNAI_STREAMER_FS_STRATEGY"] = strategy
        self.detail = strategy
        import runai_model_streamer

        self._library = runai_model_streamer

    def load(self, file: str) -> dict[str, Any]:
        with self._library.SafetensorsStreamer() as streamer:
            streamer.stream_files([file], device="cuda:0")
            return dict(streamer.get_tensors())


if __name__ == "__main__":
    sys.exit(driver.main(lambda: GpuLoader(Runai())))
