#!/usr/bin/env python3
"""The Python module of tzmark as a peer of "tzmark bench"; bench/peers/driver.py has the protocol.

The module is that of the build directory or of the installation that has this file, else the one that the interpreter
finds. It reads .tensors and safetensors files. It does not write here: its writes sync the file and rename it, which
those of the other peers do not.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import driver
from driver import Content, Open, Read, Refused, Tensor, Write

MODULE = "tzmark/_tzmark.abi3.so"
# Below the prefix: of a build directory, of "cmake --install", and of a wheel, whose prefix is inside the package.
PACKAGE_DIRECTORIES = (
    "python",
    "lib*/python3*/dist-packages",
    "lib*/python3*/site-packages",
    "../..",
)


def module_directory(this_file: Path) -> Path | None:
    """Returns the directory of packages that belongs to an installed driver; None if the module is elsewhere."""
    # PREFIX/share/tzmark/bench/peers/tzmark_driver.py
    if len(this_file.parents) < 5 or this_file.parents[3].name != "share":
        return None
    prefix = this_file.parents[4]
    for pattern in PACKAGE_DIRECTORIES:
        directories = [prefix / pattern] if "*" not in pattern else prefix.glob(pattern)
        for directory in directories:
            if (directory / MODULE).is_file():
                return directory.resolve()
    return None


class Tzmark:
    """The module, with numpy, and torch if available."""

    def __init__(self) -> None:
        directory = module_directory(Path(__file__).resolve())
        if directory is not None:
            sys.path.insert(0, str(directory))
        import numpy
        import tzmark

        self._numpy = numpy
        self._module = tzmark
        self._libraries = {"numpy": numpy.__version__}
        if importlib.util.find_spec("torch"):
            import torch

            self._libraries["torch"] = torch.__version__

    def describe(self) -> driver.Json:
        libraries = [f"{name} {release}" for name, release in self._libraries.items()]
        return {
            "peer": "tzmark-python",
            "version": self._module.__version__,
            "detail": ", ".join([*libraries, driver.memory_detail()]),
            "operations": ["read", "open"],
            "formats": ["tensors", "safetensors"],
        }

    def warm_up_requests(self, file: str) -> list[driver.Json]:
        files = [f"{file}.tensors", f"{file}.safetensors"]
        frameworks = [None, *(["torch"] if "torch" in self._libraries else [])]
        for name in files:
            self._module.save_file({"x": self._numpy.zeros(2, "f4")}, name)
        return [
            {"op": "read", "file": name, "framework": framework, "touch": True}
            for name in files
            for framework in frameworks
        ] + [{"op": "open", "file": name} for name in files]

    def prepare(self, tensors: list[Tensor]) -> None:
        """Does nothing: it writes no tensors."""

    def writer(self, request: Write) -> Callable[[], None]:
        raise Refused("its writes sync and rename the file, unlike those of the others")

    def reader(self, request: Read) -> Callable[[], dict[Any, Any]]:
        framework = self._framework(request)
        is_safetensors = request.file.endswith(".safetensors")
        if is_safetensors and request.verify:
            raise Refused("files of this format hold no hashes to verify")
        options = {
            "framework": framework,
            "device": request.device,
            "key": key_of(request.key_hex),
            "verify": request.verify,
            "threads": request.readers or 0,
            "mapped": request.mapped,
        }

        def read() -> dict[Any, Any]:
            if request.lazy:
                with self._module.open(request.file, **options) as opened:
                    tensors = {name: opened[name] for name in opened}
            else:
                tensors = self._module.load_file(request.file, **options)
            if request.device != "cpu":
                import torch

                torch.cuda.synchronize()
            if request.touch:
                driver.touch(tensors.values())
            return tensors

        return read

    def _framework(self, request: Read) -> str:
        on_gpu = request.device != "cpu"
        name = request.framework or ("torch" if on_gpu else "numpy")
        if name not in self._libraries:
            raise Refused(f"{name} is not installed")
        if on_gpu:
            import torch

            if name != "torch":
                raise Refused("it reads to a GPU for torch only")
            driver.prepare_gpu(torch)
        return name

    def opener(self, request: Open) -> Callable[[], Any]:
        key = key_of(request.key_hex)
        return lambda: self._module.open(request.file, key=key)

    def content(self, result: dict[Any, Any]) -> Content:
        sizes = [driver.tensor_bytes(tensor) for tensor in result.values()]
        return Content(sum(sizes), len(sizes))

    def tensors(self, result: dict[Any, Any]) -> dict[str, Any]:
        return result

    def release(self, result: Any) -> None:
        """Closes an open file; dropping the last reference frees tensors."""
        if isinstance(result, self._module.Reader):
            result.close()


def key_of(key_hex: str | None) -> bytes | None:
    return None if key_hex is None else bytes.fromhex(key_hex)


if __name__ == "__main__":
    sys.exit(driver.main(Tzmark))
