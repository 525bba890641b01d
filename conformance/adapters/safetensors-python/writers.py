"""The writers of safetensors that the adapter can ask, one function each: it imports the library and returns what
writes a file, called as the library's documentation shows. The environments are those of the readers (readers.py).
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from protocol import Unsupported
from readers import FNUZ, SUB_BYTE, safetensors_lacks
from specification import Asked

# By torch's name, what an array of numpy and of the libraries after its example is called. The others have no such
# array.
ARRAYS = (
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "float32", "float64", "complex64"),
)


@dataclass(frozen=True)
class Writer:
    """A library that has been imported."""

    # Writes tensors, by name, into a new file.
    write: Callable[[dict[str, Asked], str], None]
    # The classes of the library that are refusals.
    errors: tuple[type[Exception], ...] = ()
    # The dtypes of the format that it lacks. Files with them are not asked for.
    lacks: frozenset[str] = frozenset()


def _safetensors() -> Writer:
    import safetensors

    return _of_rust(safetensors, safetensors_lacks())


def _cryptotensors() -> Writer:
    import cryptotensors

    return _of_rust(cryptotensors, FNUZ)


def _of_rust(library: types.ModuleType, lacks: frozenset[str]) -> Writer:
    # Since 0.8 the library takes the address of the bytes.
    takes_addresses = hasattr(library, "TensorSpec")

    def tensor(asked: Asked) -> Any:
        more: dict[str, Any] = {"data": asked.data}
        if takes_addresses:
            address = ctypes.cast(asked.data, ctypes.c_void_p).value
            more = {"data_ptr": address, "data_len": len(asked.data)}
        make = library.TensorSpec if takes_addresses else dict
        return make(dtype=asked.dtype, shape=asked.shape, **more)

    def write(tensors: dict[str, Asked], out: str) -> None:
        given = {name: tensor(asked) for name, asked in tensors.items()}
        library.serialize_file(given, out)

    return Writer(write, errors=(library.SafetensorError,), lacks=lacks)


def _tinygrad() -> Writer:
    from tinygrad import Tensor, dtypes
    from tinygrad.nn import state

    by_name = {
        **{name: getattr(dtypes, name) for name in ARRAYS if hasattr(dtypes, name)},
        "bfloat16": dtypes.bfloat16,
        "float8_e4m3fn": dtypes.fp8e4m3,
        "float8_e5m2": dtypes.fp8e5m2,
    }

    def tensor(asked: Asked) -> Any:
        return Tensor(asked.data, dtype=_known(by_name, asked.dtype)).reshape(
            asked.shape
        )

    def write(tensors: dict[str, Asked], out: str) -> None:
        given = {name: tensor(asked) for name, asked in tensors.items()}
        state.safe_save(given, out)

    return Writer(write, lacks=SUB_BYTE | FNUZ | {"F8_E8M0", "C64"})


def _mlx() -> Writer:
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    by_name = {name: getattr(mx, name) for name in ARRAYS if hasattr(mx, name)}
    by_name |= {"bool": mx.bool_, "bfloat16": mx.bfloat16}

    def array(asked: Asked) -> Any:
        data = mx.array(memoryview(asked.data)).view(_known(by_name, asked.dtype))
        try:
            return data.reshape(asked.shape)
        except OverflowError as error:
            raise Unsupported(f"no array of this shape: {error}") from error

    def write(tensors: dict[str, Asked], out: str) -> None:
        given = {name: array(asked) for name, asked in tensors.items()}
        # Without metadata it writes null for them, which only the reference library reads.
        mx.save_safetensors(out, given)

    return Writer(
        write, lacks=SUB_BYTE | FNUZ | {"F64", "F8_E5M2", "F8_E4M3", "F8_E8M0"}
    )


def _pure_safetensors() -> Writer:
    import marshmallow
    import pure_safetensors
    from pure_safetensors import exc
    from pure_safetensors.safetensors import dtypes

    by_name = {dtype.numpy_name: dtype for dtype in dtypes.values()}

    def write(tensors: dict[str, Asked], out: str) -> None:
        given = {
            name: (asked.data, _known(by_name, asked.dtype), asked.shape)
            for name, asked in tensors.items()
        }
        with pure_safetensors.SafeTensors(out, "w+") as opened:
            opened.as_buffer().update(given)

    return Writer(
        write,
        errors=(exc.SafeTensorError, marshmallow.ValidationError),
        lacks=SUB_BYTE | FNUZ | {"F8_E5M2", "F8_E4M3", "F8_E8M0", "C64"},
    )


def _unifiedefficientloader() -> Writer:
    import torch
    from unifiedefficientloader import IncrementalSafetensorsWriter

    def tensor(asked: Asked) -> Any:
        dtype = getattr(torch, asked.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise Unsupported(f"torch has no {asked.dtype}")
        flat = torch.empty(0, dtype=torch.uint8)
        if asked.data:
            flat = torch.frombuffer(bytearray(asked.data), dtype=torch.uint8)
        try:
            return flat.view(dtype).reshape(asked.shape)
        except (RuntimeError, TypeError) as error:
            raise Unsupported(f"torch has no such tensor: {error}") from error

    def write(tensors: dict[str, Asked], out: str) -> None:
        given = {name: tensor(asked) for name, asked in tensors.items()}
        with IncrementalSafetensorsWriter(out) as opened:
            opened.write_dict(given)

    return Writer(write, lacks=SUB_BYTE | FNUZ)


def _known(by_name: dict[str, Any], dtype: str) -> Any:
    """Returns the library's dtype. Without one, a user has no tensor to pass."""
    if dtype not in by_name:
        raise Unsupported(f"the library has no {dtype}")
    return by_name[dtype]


WRITERS = {
    "safetensors": _safetensors,
    "cryptotensors": _cryptotensors,
    "tinygrad": _tinygrad,
    "mlx": _mlx,
    "pure-safetensors": _pure_safetensors,
    "unifiedefficientloader": _unifiedefficientloader,
}
