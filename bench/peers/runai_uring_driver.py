#!/usr/bin/env python3
"""The Run:ai model streamer over io_uring as a peer of "tzmark bench"; bench/peers/driver.py has the protocol."""

from __future__ import annotations

import sys

import driver
from gpu_loader import GpuLoader
from runai_driver import Runai

if __name__ == "__main__":
    sys.exit(driver.main(lambda: GpuLoader(Runai("runai_uring", "io_uring_buffered"))))
