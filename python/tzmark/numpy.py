"""What ``safetensors.numpy`` has, for .tensors files, too. Only the import changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _reader, _save

if TYPE_CHECKING:
    from ._reader import Name, Path


def save(
    tensor_dict: Mapping[Any, Any],
    metadata: Mapping[str, str] | None = None,
    *,
    format: str = "safetensors",
) -> bytes:
    """Returns the bytes of a file with these arrays, of the format "safetensors" or "tensors"."""
    return _save.save(tensor_dict, metadata, format=format)


def save_file(
    tensor_dict: Mapping[Any, Any],
    filename: Path,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes arrays to a file: ``tzmark.save_file``."""
    _save.save_file(tensor_dict, filename, metadata)


def load(data: bytes) -> dict[Name, Any]:
    """Returns the arrays in the bytes of a file."""
    return _reader.load(data)


def load_file(filename: Path, *, backend: str | None = None) -> dict[Name, Any]:
    """Returns the arrays in a file: ``tzmark.load_file``. backend: see ``tzmark.torch.load_file``."""
    _reader.check_backend(backend)
    return _reader.load_file(filename)
