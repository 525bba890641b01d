#!/usr/bin/env python3
"""InstantTensor over a mapping as a peer of "tzmark bench"; bench/peers/driver.py has the protocol."""

from __future__ import annotations

import sys

import driver
from gpu_loader import GpuLoader
from instanttensor_driver import InstantTensor

if __name__ == "__main__":
    sys.exit(
        driver.main(lambda: GpuLoader(InstantTensor("instanttensor_mmap", "MMAP")))
    )
