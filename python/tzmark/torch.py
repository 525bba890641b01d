"""What ``safetensors.torch`` has, for .tensors files, too. Only the import changes."""

from __future__ import annotations

import os
import sys
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


def _is_lazy(tensor: Any) -> bool:
    """Whether a tensor of a module has no shape yet."""
    kinds = sys.modules["torch"].nn.parameter
    return isinstance(tensor, kinds.UninitializedTensorMixin)


def _place(tensor: Any) -> tuple[Any, ...] | None:
    """Returns what is equal for two tensors only if they are the same elements of the same memory.

    None for a tensor without memory, which is the same as no other one.
    """
    if _is_lazy(tensor) or tensor.device.type == "meta" or not tensor.numel():
        return None
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


def _loads_as_usual(model: Any) -> bool:
    """Whether load_state_dict of a module and its parts does no more than to copy tensors into those of their names.

    What hooks and methods of its own do with the tensors of a file, they must do before its memory is written to.
    """
    torch = sys.modules["torch"]
    plain = torch.nn.Module
    if not isinstance(model, plain):
        return False
    hooks = (
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
    )
    methods = ("load_state_dict", "state_dict", "_save_to_state_dict")
    for module in model.modules():
        if any(getattr(module, hook, None) for hook in hooks):
            return False
        kind = type(module)
        if any(getattr(kind, name) is not getattr(plain, name) for name in methods):
            return False
        # Those of torch's own layers only read older files, such as of BatchNorm.
        loader = kind._load_from_state_dict
        if not loader.__module__.startswith("torch.nn.modules."):
            return False
        if any(name in vars(module) for name in (*methods, "_load_from_state_dict")):
            return False
    return True


def _span(tensor: Any) -> tuple[int, int] | None:
    """The addresses of the first byte of a tensor and the one after its last; None if it has no memory."""
    if str(tensor.layout) != "torch.strided" or tensor.device.type == "meta":
        return None
    if _is_lazy(tensor) or not tensor.numel() or not tensor.data_ptr():
        return None
    steps = sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())
    )
    return tensor.data_ptr(), tensor.data_ptr() + (steps + 1) * tensor.element_size()


def _read_in_place(reader: _reader.Reader, model: Any) -> dict[Any, Any]:
    """Reads a file into the tensors of a module as far as it fits them, and returns all of its tensors."""
    own = model.state_dict() if _loads_as_usual(model) else {}
    # Of tensors that share memory, the module says which one is copied last.
    spans = []
    for name in reader:
        tensor: Any = own.get(name) if isinstance(name, str) else None
        span = None if tensor is None else _span(tensor)
        if span is not None:
            spans.append((*span, name))
    spans.sort()
    shared: set[Any] = set()
    last_end, last = 0, None
    for begin, end, name in spans:
        if begin < last_end:
            shared |= {last, name}
        if end > last_end:
            last_end, last = end, name
    in_place: dict[Any, Any] = {
        name: own[str(name)]
        for *_, name in spans
        if name not in shared and reader.fits(name, own[str(name)])
    }
    reader.load_into(in_place)
    return {
        name: in_place[name] if name in in_place else reader[name] for name in reader
    }


def load_model(
    model: Any,
    filename: Path,
    strict: bool = True,
    device: str | int = "cpu",
    *,
    backend: str | None = None,
) -> tuple[list[str], list[str]]:
    """Loads a module from a file of ``save_model``, and returns the missing and the unexpected names.

    Tensors are read into the memory that the module has for them, on the host or on a GPU, so that there is no second
    copy of the model. What has another dtype, is not contiguous there or shares memory is read to ``device`` and
    copied; so is everything if the module has hooks or methods of its own for loading.

    A tensor that is missing in the file but is the same memory as one that is not does not count as missing. Raises
    UsageError if strict is set and a name is missing or unexpected. After an exception, the content of the module's
    tensors is undefined. backend: see ``load_file``.
    """
    if not hasattr(model, "load_state_dict"):
        raise TypeError(f"a module is wanted, not a {type(model).__name__}")
    _reader.check_backend(backend)
    place = f"cuda:{device}" if isinstance(device, int) else device
    with _reader.open(filename, framework="pt", device=place) as reader:
        state = _read_in_place(reader, model)
    # What is in place already is not copied again.
    missing, unexpected = model.load_state_dict(state, strict=False)
    own = model.state_dict()
    # A view of a part does not load the whole.
    loaded = {_place(own[name]) for name in set(own) - set(missing)} - {None}
    missing = [
        name for name in missing if name not in own or _place(own[name]) not in loaded
    ]
    if strict and (missing or unexpected):
        raise UsageError(
            f"missing tensors: {sorted(missing)}; unexpected tensors: {sorted(unexpected)}"
        )
    return list(missing), list(unexpected)
