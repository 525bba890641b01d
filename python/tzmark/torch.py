"""What ``safetensors.torch`` has, for .tensors files, too. Only the import changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _reader, _save
from ._errors import UsageError

if TYPE_CHECKING:
    from ._reader import Name, Path


def save(
    tensors: Mapping[Any, Any], metadata: Mapping[str, str] | None = None
) -> bytes:
    """Returns the bytes of a safetensors file with these tensors."""
    return _save.save(tensors, metadata)


def save_file(
    tensors: Mapping[Any, Any],
    filename: Path,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes tensors to a file: ``tzmark.save_file``."""
    _save.save_file(tensors, filename, metadata)


def load(data: bytes) -> dict[Name, Any]:
    """Returns the tensors in the bytes of a file, on the CPU."""
    return _reader.load(data, framework="pt")


def load_file(filename: Path, device: str | int = "cpu") -> dict[Name, Any]:
    """Returns the tensors in a file, on a device: ``tzmark.load_file``."""
    place = f"cuda:{device}" if isinstance(device, int) else device
    return _reader.load_file(filename, framework="pt", device=place)


def save_model(
    model: Any, filename: Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes the state dict of a module. Tensors that share memory are stored once, under their first name.

    Which names are left out is in the metadata, so that the format must be safetensors, as in ``safetensors.torch``.
    """
    kept: dict[str, Any] = {}
    first: dict[Any, str] = {}
    words = dict(metadata or {})
    for name, tensor in sorted(model.state_dict().items()):
        place = (
            tensor.device,
            tensor.data_ptr(),
            tuple(tensor.shape),
            tensor.stride(),
            tensor.dtype,
        )
        if tensor.numel() and place in first:
            words[name] = first[place]
            continue
        first[place] = name
        kept[name] = tensor
    _save.save_file(kept, filename, words)


def load_model(
    model: Any, filename: Path, strict: bool = True, device: str | int = "cpu"
) -> tuple[list[str], list[str]]:
    """Loads a module from a file of ``save_model``, and returns the missing and the unexpected names.

    A tensor that is missing in the file but shares memory with one that is not does not count as missing. Raises
    UsageError if strict is set and a name is missing or unexpected.
    """
    state = load_file(filename, device)
    missing, unexpected = model.load_state_dict(state, strict=False)
    own = model.state_dict()
    loaded = {
        own[name].data_ptr() for name in state if name in own and own[name].numel()
    }
    missing = [name for name in missing if own[name].data_ptr() not in loaded]
    if strict and (missing or unexpected):
        raise UsageError(
            f"missing tensors: {sorted(missing)}; unexpected tensors: {sorted(unexpected)}"
        )
    return list(missing), list(unexpected)
