"""Reads a file with the installed release of tensorizer, and says what it hands out."""

import contextlib
import ctypes
import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import release
import torch
from protocol import Secret
from refusals import Judged
from tensorizer import TensorDeserializer

KINDS = {"PARAM": "parameter", "BUFFER": "buffer", "STATE_DICT": "state_dict"}


class Reader:
    """A file, opened as the release opens it: each tensor is loaded when it is asked for."""

    def __init__(
        self, file: str, secret: Secret | None, verify: bool, num_readers: int | None
    ) -> None:
        options: dict[str, Any] = {}
        # An option that a release lacks is not left out in silence: it raises TypeError.
        if verify:
            options["verify_hash"] = True
        if num_readers is not None:
            options["num_readers"] = num_readers
        if secret:
            options["encryption"] = decryption(secret)
        self._reader = TensorDeserializer(file, device="cpu", lazy_load=True, **options)

    def close(self) -> None:
        self._reader.close()

    def read(self) -> Iterator[tuple[int, Any, Any, torch.Tensor]]:
        """Everything that the release reads, in its order: module index, kind, name, tensor."""
        return self._reader.read_tensors()

    def describe(self) -> Iterator[dict[str, Any]]:
        """The same, in the words of canonical JSON and the order of the index."""
        content = list(self.read())
        if not release.STRUCTURES:
            # These releases read in the order of the data, and list the names in that of the index.
            positions = {name: i for i, name in enumerate(self._reader.keys())}
            content.sort(key=lambda one: positions[one[2]])
        for module_index, kind, name, tensor in content:
            nominal_bytes = tensor.numel() * tensor.element_size()
            meta = self._is_meta(name, nominal_bytes)
            yield {
                "path": [name] if isinstance(name, str) else list(name),
                "kind": KINDS[kind.name],
                "module_index": module_index,
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "shape": list(tensor.shape),
                "meta": meta,
                "data_length": 0 if meta else nominal_bytes,
                "sha256": None if meta else sha256(tensor),
            }

    def _is_meta(self, name: str | tuple[str | int, ...], nominal_bytes: int) -> bool:
        """Whether the zeros that the release hands out stand for no data. Only its own index tells that."""
        if not release.META or nominal_bytes == 0:
            return False
        # Releases with structured names keep paths as tuples.
        key = (name,) if release.STRUCTURES and isinstance(name, str) else name
        return self._reader._metadata[key].data_length == 0


def decryption(secret: Secret) -> Any:
    from tensorizer import DecryptionParams

    if secret.key is not None:
        return DecryptionParams.from_key(secret.key)
    return DecryptionParams.from_string(secret.passphrase)


def sha256(tensor: torch.Tensor) -> str:
    """Of the bytes as they lie in memory, which for little-endian data is as they are stored."""
    tensor = tensor.detach().contiguous()
    size = math.prod(tensor.shape) * tensor.element_size()
    content = (ctypes.c_ubyte * size).from_address(tensor.data_ptr()) if size else b""
    return hashlib.sha256(content).hexdigest()


def stored_data_version(file: str) -> int:
    """The number after the magic. Most releases do not tell which one they accepted."""
    with Path(file).open("rb") as stream:
        return int.from_bytes(stream.read(9)[5:], "little")


def require_file(file: str) -> None:
    """A file that is not there says nothing about the release."""
    Path(file).stat()


def decode(file: str, secret: Secret | None, num_readers: int | None) -> dict[str, Any]:
    require_file(file)
    with Judged(), contextlib.closing(
        Reader(file, secret, False, num_readers)
    ) as reader:
        tensors = list(reader.describe())
    return {
        "data_version": stored_data_version(file),
        # Releases refuse to open an encrypted file without a key, and with one they refuse any other.
        "encrypted": secret is not None,
        "tensors": tensors,
    }


def verify(file: str, secret: Secret | None, num_readers: int | None) -> None:
    require_file(file)
    with Judged(), contextlib.closing(
        Reader(file, secret, True, num_readers)
    ) as reader:
        for _ in reader.read():
            pass
