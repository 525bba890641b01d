#!/usr/bin/env python3
"""The installed release of safetensors as a peer of "tzmark bench"; bench/peers/driver.py has the protocol. Run it with
the Python of an environment that has the release; scripts/peers makes one.

The library reads for numpy, for torch and others. For numpy it copies each tensor out of a mapping of the file, in one
thread, which is a read as it is meant here. For torch it hands out the mapping itself, and nothing is read until
somebody looks; so the tensors are copied here, unless the request accepts a mapping. A file goes to numpy if that has
all its dtypes, because it is faster with small tensors and as fast with large ones, else to torch, where there is one.
A request may choose. The reply says which.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import driver
from driver import Content, Open, Read, Refused, Tensor, Write

# The dtypes of the format that numpy supports.
NUMPY_DTYPES = frozenset(
    ("BOOL", "U8", "I8", "U16", "I16", "F16", "U32", "I32", "F32", "U64", "I64", "F64")
) | {"C64"}


@dataclass
class Loaded:
    """The tensors of a file, or the open file."""

    tensors: dict[str, Any]
    framework: str
    mapped: bool = False


class Safetensors:
    """The installed release, with torch if available."""

    def __init__(self) -> None:
        import numpy
        import safetensors

        self._library = safetensors
        self._frameworks = {"numpy": numpy.__version__}
        if importlib.util.find_spec("torch"):
            import torch

            self._frameworks["torch"] = torch.__version__
        self._tensors: list[Tensor] = []

    def describe(self) -> driver.Json:
        frameworks = [f"{name} {release}" for name, release in self._frameworks.items()]
        return {
            "peer": "safetensors",
            "version": self._library.__version__,
            "detail": ", ".join([*frameworks, driver.memory_detail()]),
            "operations": ["read", "write", "open"],
            "formats": ["safetensors"],
        }

    def warm_up_requests(self, file: str) -> list[driver.Json]:
        return [
            {"op": "write", "file": file, "hashes": "none"},
            {"op": "read", "file": file},
            {"op": "open", "file": file},
        ]

    def prepare(self, tensors: list[Tensor]) -> None:
        if len({tensor.name for tensor in tensors}) != len(tensors):
            raise Refused("a dict has no two tensors of one name")
        self._tensors = tensors

    def writer(self, request: Write) -> Callable[[], None]:
        if request.hashes != "none":
            raise Refused("files of this format hold no hashes")
        refuse_key(request.key_hex)
        library, tensors, file = self._library, self._tensors, request.file

        # As save_file does, but for any dtype: numpy has no bfloat16.
        def write() -> None:
            specs = {
                tensor.name: library.TensorSpec(
                    dtype=tensor.dtype,
                    shape=tensor.shape,
                    data_ptr=tensor.data.ctypes.data,
                    data_len=tensor.data.nbytes,
                )
                for tensor in tensors
            }
            library.serialize_file(specs, file)

        return write

    def reader(self, request: Read) -> Callable[[], Loaded]:
        if request.verify:
            raise Refused("files of this format hold no hashes to verify")
        if request.readers not in (None, 1):
            raise Refused("it reads in one thread")
        refuse_key(request.key_hex)
        on_gpu = request.device == "cuda"
        framework = self._framework(request.file, request.framework)
        if on_gpu:
            framework = self._framework_of_gpu()
        is_mapped = request.mapped and framework == "torch" and not on_gpu
        if request.mapped and not is_mapped:
            raise Refused("it maps files only for torch on the CPU")

        def read() -> Loaded:
            with self._library.safe_open(
                request.file, framework, device=request.device
            ) as opened:
                if request.lazy:
                    names = opened.keys()
                    tensors = {name: opened.get_tensor(name) for name in names}
                else:
                    tensors = opened.get_tensors()
                if on_gpu:
                    import torch

                    torch.cuda.synchronize()
                elif framework == "torch" and not is_mapped:
                    tensors = {name: tensors[name].clone() for name in tensors}
            if request.touch:
                driver.touch(tensors.values())
            return Loaded(tensors, framework, is_mapped)

        return read

    def _framework_of_gpu(self) -> str:
        if "torch" in self._frameworks:
            import torch

            driver.prepare_gpu(torch)
            return "torch"
        raise Refused("only torch reads to a GPU, and it is not installed")

    def opener(self, request: Open) -> Callable[[], Any]:
        refuse_key(request.key_hex)
        return lambda: self._library.safe_open(request.file, "numpy")

    def _framework(self, file: str, wanted: str | None) -> str:
        """Returns the framework that is wanted, or one that supports every dtype of a file."""
        foreign = dtypes(file) - NUMPY_DTYPES
        if wanted is not None and wanted not in self._frameworks:
            raise Refused(f"{wanted} is not installed")
        if wanted == "torch":
            return wanted
        if not foreign:
            return "numpy"
        if wanted == "numpy":
            raise Refused(f"numpy has no {', '.join(sorted(foreign))}")
        if "torch" not in self._frameworks:
            names = ", ".join(sorted(foreign))
            raise Refused(f"numpy has no {names}, and torch is not installed")
        return "torch"

    def content(self, result: Loaded) -> Content:
        sizes = [driver.tensor_bytes(tensor) for tensor in result.tensors.values()]
        if result.framework == "numpy":
            detail = "numpy"
        elif any(tensor.is_cuda for tensor in result.tensors.values()):
            detail = "torch, on the GPU"
        elif result.mapped:
            detail = "torch, mapped"
        else:
            detail = "torch, copied out of the mapping"
        return Content(sum(sizes), len(sizes), detail)

    def tensors(self, result: Loaded) -> dict[str, Any]:
        return result.tensors

    def release(self, result: Any) -> None:
        """Does nothing: dropping the last reference frees everything."""


def refuse_key(key_hex: str | None) -> None:
    if key_hex is not None:
        raise Refused("files of this format are not encrypted")


def dtypes(file: str) -> set[str]:
    """Reads the dtypes from the header alone, so that the data stays out of the page cache."""
    with open(file, "rb", buffering=0) as stream:
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    return {entry["dtype"] for name, entry in header.items() if name != "__metadata__"}


if __name__ == "__main__":
    sys.exit(driver.main(Safetensors))
