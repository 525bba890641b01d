"""What ``safetensors.torch`` has, for .tensors files, too. Only the import changes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _reader, _save
from ._errors import UsageError
from ._tensors import is_torch

if TYPE_CHECKING:
    from ._reader import Name, Path


def _with_format(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Adds what tells loaders, such as those of transformers, that tensors are PyTorch's."""
    return {"format": "pt", **_save.strings(metadata)}


def save(
    tensors: Mapping[Any, Any],
    metadata: Mapping[str, str] | None = None,
    *,
    format: str = "safetensors",
) -> bytes:
    """Returns the bytes of a file with these tensors, of the format "safetensors" or "tensors".

    The metadata gets the entry {"format": "pt"} unless it has another "format".
    """
    return _save.save(tensors, _with_format(metadata), format=format)


def save_file(
    tensors: Mapping[Any, Any],
    filename: Path,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes tensors to a file: ``tzmark.save_file``. Metadata: see ``save``."""
    _save.save_file(tensors, filename, _with_format(metadata))


def load(data: bytes) -> dict[Name, Any]:
    """Returns the tensors in the bytes of a file, on the CPU."""
    return _reader.load(data, framework="pt")


def load_file(
    filename: Path, device: str | int = "cpu", *, backend: str | None = None
) -> dict[Name, Any]:
    """Returns the tensors in a file, on a device: ``tzmark.load_file``.

    backend: "mmap" or "pread" of safetensors; accepted, and without effect: ``tzmark.load_file`` has ``io`` and
    ``mapped``.
    """
    _reader.check_backend(backend)
    place = f"cuda:{device}" if isinstance(device, int) else device
    return _reader.load_file(filename, framework="pt", device=place)


def _place(tensor: Any) -> tuple[Any, ...]:
    """Returns what is equal for two tensors only if they are the same elements of the same memory."""
    return (
        tensor.device,
        tensor.data_ptr(),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.dtype,
        tensor.is_conj(),
        tensor.is_neg(),
    )


def save_model(
    model: Any,
    filename: Path,
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Writes the state dict of a module. Metadata: see ``save``.

    Tensors that share memory: a safetensors file has them once, under their first name, and its metadata gives that
    name for each of the others. A .tensors file, which has no metadata, has them under every name, each with its data,
    as tensorizer writes a shared parameter. force_contiguous: False refuses a tensor that is not contiguous.
    """
    if not hasattr(model, "state_dict"):
        raise TypeError(f"a module is wanted, not a {type(model).__name__}")
    shares = _reader.is_safetensors_name(os.fsencode(filename))
    kept: dict[str, Any] = {}
    first: dict[Any, str] = {}
    words: dict[str, str] = {}
    for name, tensor in sorted(model.state_dict().items()):
        if not is_torch(tensor):
            raise TypeError(f"{name!r} is a {type(tensor).__name__}, not a tensor")
        # Other layouts, which are refused, may have no strides.
        if str(tensor.layout) == "torch.strided":
            if not force_contiguous and not tensor.is_contiguous():
                raise UsageError(
                    f"{name!r} is not contiguous: pass force_contiguous=True"
                )
            place = _place(tensor)
            if shares and tensor.numel() and place in first:
                words[name] = first[place]
                continue
            first[place] = name
        kept[name] = tensor
    # What the caller says about a name wins.
    _save.save_file(kept, filename, _with_format({**words, **_save.strings(metadata)}))


def load_model(
    model: Any,
    filename: Path,
    strict: bool = True,
    device: str | int = "cpu",
    *,
    backend: str | None = None,
) -> tuple[list[str], list[str]]:
    """Loads a module from a file of ``save_model``, and returns the missing and the unexpected names.

    A tensor that is missing in the file but is the same memory as one that is not does not count as missing. Raises
    UsageError if strict is set and a name is missing or unexpected. backend: see ``load_file``.
    """
    if not hasattr(model, "load_state_dict"):
        raise TypeError(f"a module is wanted, not a {type(model).__name__}")
    state = load_file(filename, device, backend=backend)
    missing, unexpected = model.load_state_dict(state, strict=False)
    own = model.state_dict()
    # A view of a part does not load the whole.
    loaded = {_place(own[name]) for name in state if name in own and own[name].numel()}
    missing = [name for name in missing if _place(own[name]) not in loaded]
    if strict and (missing or unexpected):
        raise UsageError(
            f"missing tensors: {sorted(missing)}; unexpected tensors: {sorted(unexpected)}"
        )
    return list(missing), list(unexpected)
