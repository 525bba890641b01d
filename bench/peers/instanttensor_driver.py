#!/usr/bin/env python3
"""InstantTensor as a peer of "tzmark bench"; bench/peers/driver.py has the protocol."""

from __future__ import annotations

import sys
from typing import Any

import driver
from gpu_loader import GpuLoader


class InstantTensor:
    """Through the page cache, by one of its readers: its own choice among them would not say which it was."""

    package = "instanttensor"

    def __init__(
        self, name: str = "instanttensor", backend: str = "URING_BUFFERED"
    ) -> None:
        import instanttensor

        self.name = name
        self._library = instanttensor
        self._backend = instanttensor.Backend[backend]
        self.detail = backend

    def load(self, file: str) -> dict[str, Any]:
        with self._library.safe_open(
            [file],
            framework="pt",
            device="cuda:0",
            backend=self._backend,
        ) as opened:
            return dict(opened.tensors())


if __name__ == "__main__":
    sys.exit(driver.main(lambda: GpuLoader(InstantTensor())))
