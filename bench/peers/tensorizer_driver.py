#!/usr/bin/env python3
"""The installed release of tensorizer as a peer of "tzmark bench"; bench/peers/driver.py has the protocol. Run it with
the Python of an environment that has the release; scripts/peers makes one.

Files are given by their names, as the release's own documentation does it: other buffers than those which it then
chooses were not faster. Small files and large ones differ in which number of readers is best, so the bench asks for
several.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import driver
from driver import Content, Open, Read, Refused, Tensor, Write

if TYPE_CHECKING:
    import torch
    from tensorizer import TensorDeserializer


class Tensorizer:
    """The release, on the processor: its "plaid mode" is about GPUs."""

    def __init__(self) -> None:
        import tensorizer
        import torch

        self._library = tensorizer
        self._torch = torch
        self._state_dict: dict[str, torch.Tensor] = {}

    def describe(self) -> driver.Json:
        return {
            "peer": "tensorizer",
            "version": self._library.__version__,
            "detail": f"torch {self._torch.__version__}, {driver.memory_detail()}",
            "operations": ["read", "write", "open"],
            "formats": ["tensors"],
        }

    def warm_up_requests(self, file: str) -> list[driver.Json]:
        return [
            request
            for key in (None, bytes(32).hex())
            for request in (
                {"op": "write", "file": file, "hashes": "both", "key_hex": key},
                {"op": "read", "file": file, "verify": True, "key_hex": key},
                {"op": "open", "file": file, "key_hex": key},
            )
        ]

    def prepare(self, tensors: list[Tensor]) -> None:
        self._state_dict = {
            tensor.name: self._torch_tensor(tensor) for tensor in tensors
        }
        if len(self._state_dict) != len(tensors):
            raise Refused("a state dict has no two tensors of one name")

    def _torch_tensor(self, tensor: Tensor) -> torch.Tensor:
        dtype = getattr(self._torch, tensor.dtype, None)
        if dtype is None:
            raise Refused(f"torch {self._torch.__version__} has no {tensor.dtype}")
        if (
            not tensor.data.size
        ):  # torch rejects the strides that numpy gives an empty array
            return self._torch.empty(tensor.shape, dtype=dtype)
        return self._torch.from_numpy(tensor.data).view(dtype).reshape(tensor.shape)

    def writer(self, request: Write) -> Callable[[], None]:
        # It always writes all hashes of the format: CRC32 and SHA-256 in plain files, SHA-256 in encrypted ones, where
        # a CRC32 would leak content. tzmark calls either "both".
        if request.hashes != "both":
            raise Refused(f"it always writes both hashes, never {request.hashes}")
        encryption = None
        if request.key_hex is not None:
            key = bytes.fromhex(request.key_hex)
            encryption = self._library.EncryptionParams(key)

        def write() -> None:
            serializer = self._library.TensorSerializer(
                request.file, encryption=encryption
            )
            serializer.write_state_dict(self._state_dict)
            serializer.close()

        return write

    def reader(self, request: Read) -> Callable[[], TensorDeserializer]:
        decryption = self._decryption(request.key_hex)
        if request.framework not in (None, "torch"):
            raise Refused("it reads for torch only")
        if request.mapped:
            raise Refused("it maps no files")

        if request.device == "cuda":
            driver.prepare_gpu(self._torch)

        def read() -> TensorDeserializer:
            deserializer = self._library.TensorDeserializer(
                request.file,
                device=request.device,
                lazy_load=request.lazy,
                num_readers=request.readers,
                verify_hash=request.verify,
                encryption=decryption,
            )
            if request.lazy:
                # The reader keeps each tensor, so all are in memory afterwards, as without "lazy".
                deque(deserializer.read_tensors(), maxlen=0)
            if request.device == "cuda":
                self._torch.cuda.synchronize()
            if request.touch:
                driver.touch(leaves(deserializer))
            return deserializer

        return read

    def opener(self, request: Open) -> Callable[[], TensorDeserializer]:
        decryption = self._decryption(request.key_hex)
        return lambda: self._library.TensorDeserializer(
            request.file, device="cpu", lazy_load=True, encryption=decryption
        )

    def _decryption(self, key_hex: str | None) -> Any:
        if key_hex is None:
            return None
        return self._library.DecryptionParams.from_key(bytes.fromhex(key_hex))

    def content(self, result: TensorDeserializer) -> Content:
        sizes = [t.numel() * t.element_size() for t in leaves(result)]
        return Content(sum(sizes), len(sizes))

    def tensors(self, result: TensorDeserializer) -> dict[str, Any]:
        return dict(result.items())

    def release(self, result: TensorDeserializer) -> None:
        result.close()


def leaves(structure: Any) -> Iterator[torch.Tensor]:
    """Returns the tensors of a structure at any depth."""
    if isinstance(structure, Mapping):
        for value in structure.values():
            yield from leaves(value)
    else:
        yield structure


if __name__ == "__main__":
    sys.exit(driver.main(Tensorizer))
