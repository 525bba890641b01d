"""The common part of the drivers of loaders that bring safetensors files into GPU memory, and do nothing else.

Each tensor is a tensor of torch of its own when the clock stops, and torch.cuda.synchronize() has returned. Files are
read through the page cache, as those of the others are, where the loader would bypass it by default.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any, Protocol

import driver
from driver import Content, Open, Read, Refused, Tensor, Write


class Loader(Protocol):
    """A loader, whose packages are imported when it is created."""

    name: str  # of the loader and the reader that it uses
    package: str
    detail: str  # how it is set

    def load(self, file: str) -> dict[str, Any]:
        """Returns the tensors of a file, on GPU 0."""


class GpuLoader:
    """The loader as a peer."""

    def __init__(self, loader: Loader) -> None:
        import torch

        self._torch = torch
        self._loader = loader

    def describe(self) -> driver.Json:
        return {
            "peer": self._loader.name,
            "version": importlib.metadata.version(self._loader.package),
            "detail": f"torch {self._torch.__version__}, {self._loader.detail}",
            "operations": ["read"],
            "formats": ["safetensors"],
        }

    def warm_up_requests(self, file: str) -> list[driver.Json]:
        # They would pin memory, which is part of a first load.
        return []

    def prepare(self, tensors: list[Tensor]) -> None:
        """Does nothing: it writes no tensors."""

    def writer(self, request: Write) -> Callable[[], None]:
        raise Refused("it writes no files")

    def opener(self, request: Open) -> Callable[[], Any]:
        raise Refused("it opens a file to load it only")

    def reader(self, request: Read) -> Callable[[], dict[str, Any]]:
        if request.device != "cuda":
            raise Refused("it is measured into GPU memory only")
        if request.verify or request.key_hex is not None:
            raise Refused("files of this format hold no hashes, and are not encrypted")
        if request.readers is not None or request.mapped or request.touch:
            raise Refused("it chooses its readers, and its tensors are on the GPU")
        driver.prepare_gpu(self._torch)

        def read() -> dict[str, Any]:
            tensors = self._loader.load(request.file)
            self._torch.cuda.synchronize()
            return tensors

        return read

    def content(self, result: dict[str, Any]) -> Content:
        if not all(tensor.is_cuda for tensor in result.values()):
            raise Refused("it left tensors in host memory")
        sizes = [driver.tensor_bytes(tensor) for tensor in result.values()]
        return Content(sum(sizes), len(sizes))

    def tensors(self, result: dict[str, Any]) -> dict[str, Any]:
        return result

    def release(self, result: dict[str, Any]) -> None:
        """Does nothing: dropping the last reference frees the tensors."""
