#!/usr/bin/env python3
"""fastsafetensors as a peer of "tzmark bench"; bench/peers/driver.py has the protocol."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import driver
from gpu_loader import GpuLoader


class Fastsafetensors:
    """Without GPUDirect, and through the page cache."""

    name = package = "fastsafetensors"
    detail = "nogds, buffered"

    def __init__(self) -> None:
        os.environ["FASTSAFETENSORS_ODIRECT"] = "0"
        import fastsafetensors

        self._library = fastsafetensors
        load_cuda_runtime()

    def load(self, file: str) -> dict[str, Any]:
        with self._library.fastsafe_open(
            filenames=[file], nogds=True, framework="pytorch", device="cuda:0"
        ) as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}


def load_cuda_runtime() -> None:
    """Lets the library use the CUDA runtime that torch has loaded.

    By itself it looks for "libcudart.so", which only a CUDA Toolkit has, and which may be newer than the driver.
    """
    loaded = {
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "/libcudart.so" in line
    }
    if not loaded:
        return
    from fastsafetensors import cpp
    from fastsafetensors.copier import nogds

    cpp.load_library_functions(min(loaded))
    nogds._loaded_library = True


if __name__ == "__main__":
    sys.exit(driver.main(lambda: GpuLoader(Fastsafetensors())))
