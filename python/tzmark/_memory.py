"""Memory that others own, on the host or a GPU: to read tensors into, and to save tensors of a GPU from."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import _tzmark
from ._errors import UsageError
from ._tensors import Row, is_torch, memory_of, require_dtype


@dataclass(frozen=True)
class Memory:
    """The memory of a contiguous little-endian tensor; keeps it alive."""

    dtype: str
    shape: tuple[int, ...]
    address: int  # CUDA gives host and GPUs one range of addresses
    nbytes: int
    gpu: str | None  # torch's name of the GPU that it is of, or "cuda"; None on the host
    stream: int | None  # the CUDA stream that works on it, of the CUDA array interface
    owner: object


def target_of(value: Any, name: object) -> Memory:
    """Returns the memory of a tensor of torch, numpy or another library, to be written to.

    Raises UsageError if its bytes are not those of a file: it is not contiguous, say, or read-only.
    """
    if is_torch(value):
        return _of_torch(value, name)
    if hasattr(value, "__cuda_array_interface__"):
        about = value.__cuda_array_interface__
    elif hasattr(value, "__array_interface__"):
        about = value.__array_interface__
    else:
        raise TypeError(
            f"{name!r} is a {type(value).__name__}, which has no memory to read into"
        )
    import numpy

    if isinstance(value, numpy.generic):
        raise TypeError(f"{name!r} is a scalar, which has no memory to read into")
    if isinstance(value, numpy.ma.MaskedArray):
        raise UsageError(f"{name!r} is a masked array: read into its data")
    data = about.get("data")
    if isinstance(data, tuple) and data[1]:
        raise UsageError(f"{name!r} is read-only, and cannot be read into")
    return _of_interface(value, about, name)


def rows_in_place(
    tensors: dict[str, Any], kind: str
) -> tuple[list[tuple[Row, bool]], list[object]]:
    """Returns what a checkpointer needs of each tensor, and objects that keep the memory alive.

    What is on a GPU stays there, as the flag says, and GPU work on it is finished.
    """
    rows: list[tuple[Row, bool]] = []
    alive: list[object] = []
    on_gpu: list[Memory] = []
    for name, value in tensors.items():
        memory = _on_gpu(value, name)
        if memory is None:
            dtype, shape, address, nbytes, owner = memory_of(value, name)
        else:
            on_gpu.append(memory)
            dtype, shape, address = memory.dtype, memory.shape, memory.address
            nbytes, owner = memory.nbytes, memory.owner
        require_dtype(dtype, name)
        rows.append(((name, kind, dtype, shape, address, nbytes), memory is not None))
        alive.append(owner)
    # That of making a tensor contiguous, too.
    finish_gpu_work(on_gpu)
    return rows, alive


def finish_gpu_work(memories: Iterable[Memory]) -> None:
    """Waits for what is being done with memory of GPUs, such as to initialize it: copies have streams of their own."""
    of_torch: set[str] = set()
    streams: dict[tuple[int, int], Memory] = {}
    for memory in memories:
        if memory.gpu is not None and is_torch(memory.owner):
            of_torch.add(memory.gpu)
        elif memory.stream is not None and memory.nbytes:
            # Each GPU has default streams of its own, of the same numbers.
            streams[memory.stream, _gpu_of(memory)] = memory
    for gpu in sorted(of_torch):
        sys.modules["torch"].cuda.synchronize(gpu)
    for (stream, _), memory in streams.items():
        _tzmark.wait_for_stream(memory.address, memory.nbytes, stream)


def _gpu_of(memory: Memory) -> int:
    """What is the same for memory of one GPU: its number if the owner says it, else the address, which is one's own."""
    owner: Any = memory.owner
    if hasattr(owner, "__dlpack_device__"):
        return int(owner.__dlpack_device__()[1])
    return memory.address


def mark_as_changed(memories: Iterable[Memory]) -> None:
    """Tells torch that tensors have changed, so that a backward pass that needs the old values fails."""
    for memory in memories:
        value: Any = memory.owner
        if is_torch(value) and not value.is_inference():
            value.detach().reshape(-1)[:0].zero_()


def _on_gpu(value: Any, name: object) -> Memory | None:
    """The memory of a tensor on a GPU; None if it is elsewhere, or if its bytes have to be made first."""
    if not is_torch(value):
        if not hasattr(value, "__cuda_array_interface__"):
            return None
        return _of_interface(value, value.__cuda_array_interface__, name)
    torch = sys.modules["torch"]
    if value.device.type != "cuda" or torch.version.hip or value.is_nested:
        return None
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return None
    if value.layout != torch.strided:
        return None
    return _of_torch(value.detach().resolve_conj().resolve_neg().contiguous(), name)


def _of_interface(value: Any, about: dict[str, Any], name: object) -> Memory:
    """The memory that an array interface describes, that of numpy or of CUDA."""
    import numpy

    on_gpu = hasattr(value, "__cuda_array_interface__")
    data = about.get("data")
    if not isinstance(data, tuple) or about.get("offset"):
        raise UsageError(f"{name!r} has an array interface without an address")
    if about.get("mask") is not None:
        raise UsageError(f"{name!r} is a masked array: pass its data")
    stored = numpy.dtype(about["typestr"])
    if stored.byteorder == ">" or (stored.byteorder == "=" and sys.byteorder == "big"):
        raise UsageError(f"{name!r} is big-endian: convert it to little-endian")
    # Libraries have types that numpy's description lacks.
    dtype = getattr(value, "dtype", None)
    if isinstance(value, _tzmark.Buffer) and dtype is not None:
        dtype_name, item_bytes = str(dtype), stored.itemsize
    else:
        if not isinstance(dtype, numpy.dtype):
            dtype = stored
        dtype_name, item_bytes = dtype.name, dtype.itemsize
    shape = tuple(about["shape"])
    strides = about.get("strides")
    if item_bytes != stored.itemsize or (
        strides is not None and not _is_contiguous(shape, strides, item_bytes)
    ):
        raise UsageError(f"{name!r} is not contiguous")
    nbytes = math.prod(shape) * item_bytes
    address = data[0] or 0
    if nbytes and not address:
        raise UsageError(f"{name!r} has no memory")
    stream = about.get("stream") if on_gpu else None
    return Memory(
        dtype_name, shape, address, nbytes, "cuda" if on_gpu else None, stream, value
    )


def _is_contiguous(
    shape: tuple[int, ...], strides: tuple[int, ...], item_bytes: int
) -> bool:
    expected = item_bytes
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return len(shape) == len(strides)


def _of_torch(value: Any, name: object) -> Memory:
    torch = sys.modules["torch"]
    place = value.device.type
    # A subclass may wrap other tensors.
    is_plain = type(value) in (torch.Tensor, torch.nn.Parameter)
    if not is_plain or value.layout != torch.strided:
        raise UsageError(
            f"{name!r} is a {type(value).__name__} in the layout {value.layout}, and cannot be read into"
        )
    if place not in ("cpu", "cuda") or (place == "cuda" and torch.version.hip):
        raise UsageError(f"{name!r} is on {value.device}, and cannot be read into")
    if not value.is_contiguous() or value.is_conj() or value.is_neg():
        raise UsageError(f"{name!r} is not contiguous, and cannot be read into")
    item_bytes = value.element_size()
    nbytes = value.numel() * item_bytes
    # Programs that shard parameters free the memory of a tensor, and keep its shape.
    storage = (
        value.untyped_storage()
        if hasattr(value, "untyped_storage")
        else value.storage()
    )
    end = value.storage_offset() * item_bytes + nbytes
    if nbytes and (not value.data_ptr() or end > storage.nbytes()):
        raise UsageError(f"{name!r} has less memory than its shape needs")
    return Memory(
        str(value.dtype).removeprefix("torch."),
        tuple(value.shape),
        value.data_ptr() if nbytes else 0,
        nbytes,
        str(value.device) if place == "cuda" else None,
        None,
        value,
    )
