"""Tensors as numpy arrays and torch tensors, and the memory of both. Neither library is imported until needed."""

from __future__ import annotations

import functools
import importlib
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Union

from . import _tzmark
from ._errors import UnavailableError, UsageError

Name = Union[str, tuple[Union[str, int], ...]]
Row = tuple[Name, str, str, tuple[int, ...], int, int]

# Types that numpy lacks. ml_dtypes has some of them, under the same names.
_OPAQUE = ("bfloat16", "complex32", "float8_", "qint", "quint")

_INTERFACE_DIMENSIONS = 32
_TORCH_DIMENSIONS = 64

SAFETENSORS_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "uint16": "U16",
    "float16": "F16",
    "bfloat16": "BF16",
    "int32": "I32",
    "uint32": "U32",
    "float32": "F32",
    "complex64": "C64",
    "float64": "F64",
    "int64": "I64",
    "uint64": "U64",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
}
# What .tensors files hold besides, and types of 8-bit floats that only torch or ml_dtypes knows.
_OTHER_NAMES = ("complex128", "complex32", "bits8")
_EIGHT_BIT_FLOAT = "float8_"


def framework_name(framework: str) -> str:
    """Returns "np" or "pt" for the names that safetensors accepts, too."""
    names = {"np": "np", "numpy": "np", "pt": "pt", "torch": "pt", "pytorch": "pt"}
    if framework not in names:
        raise UsageError(f'the framework is "np" or "pt", not {framework!r}')
    return names[framework]


def gpu_number(device: str) -> int | None:
    """Returns the number of a GPU that is named as torch does, "cuda:1"; None for another device.

    torch for AMD gives its devices the same names, and copies to them itself.
    """
    kind, colon, number = device.partition(":")
    if kind != "cuda":
        return None
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        torch = None
    if torch is not None and getattr(torch.version, "hip", None):
        return None
    if not colon:
        if torch is None:
            raise UsageError('without torch, the device is "cuda:N"')
        return int(torch.cuda.current_device())
    if not (number.isascii() and number.isdigit() and len(number) < 6):
        raise UsageError(f'the device is "cuda" or "cuda:N", not {device!r}')
    return int(number)


def to_numpy(buffer: _tzmark.Buffer) -> Any:
    """Returns an array over the memory of a buffer, which stays alive as long as the array.

    Returns the buffer itself if numpy has no array of its shape: too many dimensions, or a product of those that are
    not 0 that is 2^63 or more, which tensors without data may have.
    """
    import numpy

    name = buffer.dtype
    try:
        if len(buffer.shape) <= _INTERFACE_DIMENSIONS:
            array = numpy.asarray(buffer)
        elif buffer.meta or name is None or name.startswith(_OPAQUE):
            return buffer
        else:
            dtype = numpy.dtype(name)
            if buffer.big_endian:
                dtype = dtype.newbyteorder(">")
            array = numpy.asarray(buffer.as_bytes()).view(dtype).reshape(buffer.shape)
    except (OverflowError, ValueError):
        return buffer
    if name is not None and name.startswith(_OPAQUE):
        ml_dtypes = _ml_dtypes()
        scalar = None if ml_dtypes is None else getattr(ml_dtypes, name, None)
        if scalar is not None:
            return array.view(scalar)
    return array


# Once: Python looks through its whole path again for a module that it has not found, 60 us per tensor.
@functools.cache
def _ml_dtypes() -> Any:
    # Not an import statement: type checkers need not have it.
    try:
        return importlib.import_module("ml_dtypes")
    except ImportError:
        return None


def to_torch(buffer: _tzmark.Buffer, device: str = "cpu") -> Any:
    """Returns a torch tensor over the memory of a buffer, or a copy if the device is another one."""
    # Not an import statement: type checkers need not have torch.
    torch = importlib.import_module("torch")
    dtype = getattr(torch, buffer.dtype, None) if buffer.dtype is not None else None
    if not isinstance(dtype, torch.dtype):
        raise UnavailableError(
            f"torch {torch.__version__} has no such type; numpy has its bytes",
            "TZE-AVL-001",
        )
    if buffer.meta:
        try:
            return torch.empty(buffer.shape, dtype=dtype, device="meta")
        except (OverflowError, RuntimeError, TypeError):
            return buffer  # torch has no tensor of that shape
    if not _has_torch_shape(buffer):
        return buffer
    if buffer.big_endian:
        array = to_numpy(buffer)
        if array is buffer:
            raise UnavailableError(
                f"numpy, which reverses big-endian elements, has no array of the shape {buffer.shape}",
                "TZE-AVL-001",
            )
        tensor = torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))
    elif buffer.nbytes == 0:
        tensor = torch.empty(buffer.shape, dtype=dtype, device=device)
    else:
        # As bytes, for DLPack of older versions lacks types that torch has.
        tensor = (
            torch.utils.dlpack.from_dlpack(buffer.as_bytes().__dlpack__())
            .view(dtype)
            .reshape(buffer.shape)
        )
    is_there = buffer.__dlpack_device__()[0] != 1 or device == "cpu"
    return tensor if is_there else tensor.to(device)


def _has_torch_shape(buffer: _tzmark.Buffer) -> bool:
    """Whether torch has tensors of the shape of a buffer. It multiplies sizes that are not 0 even if another one is."""
    elements = math.prod(max(1, size) for size in buffer.shape)
    return len(buffer.shape) <= _TORCH_DIMENSIONS and elements < 1 << 63


def convert(buffer: _tzmark.Buffer, framework: str, device: str = "cpu") -> Any:
    """Returns the array or tensor of a framework, "np" or "pt"."""
    return to_torch(buffer, device) if framework == "pt" else to_numpy(buffer)


def describe(
    tensors: Mapping[Any, Any] | Iterable[tuple[Any, Any]], kind: str
) -> tuple[list[Row], list[object]]:
    """Returns what a writer needs of each tensor, in host memory, and objects that keep the memory alive."""
    rows: list[Row] = []
    alive: list[object] = []
    for name, value in _pairs(tensors):
        dtype, shape, address, size, owner = memory_of(value, name)
        require_dtype(dtype, name)
        rows.append((name, kind, dtype, shape, address, size))
        alive.append(owner)
    return rows, alive


def _pairs(tensors: Any) -> Iterator[tuple[Any, Any]]:
    """The names and tensors of a mapping, or of an iterable of pairs."""
    wanted = "a mapping from names to tensors is wanted, not"
    pairs = tensors.items() if isinstance(tensors, Mapping) else tensors
    if is_tensor(pairs) or isinstance(pairs, str) or not hasattr(pairs, "__iter__"):
        advice = ": pass its state_dict()" if hasattr(tensors, "state_dict") else ""
        raise TypeError(f"{wanted} a {type(tensors).__name__}{advice}")
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{wanted} a {type(tensors).__name__} of {pair!r:.80}")
        yield pair[0], pair[1]


def require_dtype(dtype: str, name: object) -> None:
    """Raises UsageError for a type that no file holds, with the name of the tensor."""
    if (
        dtype in SAFETENSORS_NAMES
        or dtype in _OTHER_NAMES
        or dtype.startswith(_EIGHT_BIT_FLOAT)
    ):
        return
    raise UsageError(
        f"{name!r} is of dtype {dtype}, which neither format has: convert it to a type that they have"
    )


def is_torch(value: object) -> bool:
    """Whether a value is a tensor of torch, which is then imported already."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_tensor(value: object) -> bool:
    """Whether a value has memory that can be saved: of torch, numpy or a library with DLPack."""
    return (
        is_torch(value)
        or isinstance(value, _tzmark.Buffer)
        or hasattr(value, "__array_interface__")
        or hasattr(value, "__cuda_array_interface__")
        or hasattr(value, "__dlpack__")
    )


def memory_of(
    value: Any, name: object
) -> tuple[str, tuple[int, ...], int, int, object]:
    """Returns dtype, shape, address and size in bytes of contiguous little-endian memory, and its owner."""
    if is_torch(value):
        return _memory_of_torch(value, name)
    if isinstance(value, _tzmark.Buffer) and value.dtype is not None and not value.meta:
        if not value.big_endian:
            # As bytes, for numpy's description has 32 dimensions at most.
            address = value.as_bytes().__array_interface__["data"][0]
            return value.dtype, value.shape, address, value.nbytes, value
    return _memory_of_array(value, name)


def _memory_of_torch(
    value: Any, name: object
) -> tuple[str, tuple[int, ...], int, int, object]:
    torch = sys.modules["torch"]
    if value.is_nested:
        raise UsageError(
            f"{name!r} is a nested tensor, which has no single shape: save its parts, unbind()"
        )
    if value.layout != torch.strided:
        layout = str(value.layout).removeprefix("torch.")
        if layout.startswith("sparse"):
            raise UsageError(
                f"{name!r} is a sparse tensor ({layout}): save its values and indices, or to_dense()"
            )
        raise UsageError(
            f"{name!r} is in the layout {layout.lstrip('_')}, whose memory has no defined order: save to_dense()"
        )
    if isinstance(value, torch.nn.parameter.UninitializedTensorMixin):
        raise UsageError(
            f"{name!r} has no shape yet: run the lazy module once before it is saved"
        )
    if value.device.type == "meta":
        raise UsageError(f"{name!r} is on the meta device and has no data")
    tensor = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    dtype = str(tensor.dtype).removeprefix("torch.")
    size = tensor.numel() * tensor.element_size()
    # A subclass that wraps other tensors, such as DTensor, has a shape but no memory.
    if size and not tensor.data_ptr():
        raise UsageError(
            f"{name!r} is a {type(value).__name__}, which has no memory of its own: save the tensors that it wraps, "
            "such as the to_local() or full_tensor() of a DTensor"
        )
    return dtype, tuple(tensor.shape), tensor.data_ptr() if size else 0, size, tensor


def _memory_of_array(
    value: Any, name: object
) -> tuple[str, tuple[int, ...], int, int, object]:
    if not is_tensor(value):
        raise TypeError(f"{name!r} is a {type(value).__name__}, not a tensor")
    import numpy

    if isinstance(value, numpy.ma.MaskedArray) and value.mask.any():
        raise UsageError(
            f"{name!r} is a masked array, and files have no masks: save its data and its mask, or filled()"
        )
    source = (
        value if hasattr(value, "__array_interface__") else numpy.from_dlpack(value)
    )
    array = numpy.asarray(source, order="C")
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    dtype = array.dtype.name
    if array.dtype.names is not None:
        raise UsageError(
            f"{name!r} has the structured type {array.dtype}: save each of its fields"
        )
    if dtype.startswith("void"):
        install = "" if _ml_dtypes() else "install ml_dtypes, and "
        raise UsageError(
            f"{name!r} has the raw type {array.dtype}: {install}view it as a type, such as bfloat16 of ml_dtypes"
        )
    address = array.__array_interface__["data"][0] if array.nbytes else 0
    return dtype, tuple(array.shape), address, array.nbytes, array
