#!/usr/bin/env python3
"""fastsafetensors as a peer of "tzmark bench"; bench/peers/driver.py has the protocol."""

from __future__ import annotations

import os
import sys
from typing import Any

import driver
from gpu_loader import GpuLoader


class Fastsafetensors:
    """Without GPUDirect, and through the page cache."""

    name = "fastsafetensors"
    detail = "nogds, buffered"

    def __init__(self) -> None:
        os.environ["FASTSAFETENSORS_ODIRECT"] = "0"
        import fastsafetensors

        self._library = fastsafetensors

    def load(self, file: str) -> dict[str, Any]:
        with self._library.fastsafe_open(
            filenames=[file], nogds=True, framework="pytorch", device="cuda:0"
        ) as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}


if __name__ == "__main__":
    sys.exit(driver.main(lambda: GpuLoader(Fastsafetensors())))
