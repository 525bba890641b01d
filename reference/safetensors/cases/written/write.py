"""Writes the same three tensors with an installed library; the files of this directory come from it.

usage: write.py LIBRARY FILE

LIBRARY is safetensors, mlx, mlx-bare (without metadata, and with two tensors that have no elements), tinygrad or pure.
written_cases.py lists the releases that wrote the files here.
"""

import sys
from collections.abc import Callable
from typing import Any

WEIGHT = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
# Five bytes, so that what follows them is unaligned unless a writer takes care.
MASK = [True, False, True, True, False]
SIZE = 7


def arrays() -> dict[str, Any]:
    import numpy

    return {
        "weight": numpy.array(WEIGHT, dtype="<f4"),
        "größe": numpy.array(SIZE, dtype="<i8"),
        "mask": numpy.array(MASK),
    }


def write_safetensors(path: str) -> None:
    from safetensors.numpy import save_file

    save_file(arrays(), path, {"format": "np"})


def mlx_arrays() -> dict[str, Any]:
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    return {
        "weight": mx.array(WEIGHT, dtype=mx.float32),
        "größe": mx.array(SIZE, dtype=mx.int64),
        "mask": mx.array(MASK),
    }


def write_mlx(path: str) -> None:
    import mlx.core as mx

    mx.save_safetensors(path, mlx_arrays(), {"format": "mlx"})


def write_mlx_bare(path: str) -> None:
    import mlx.core as mx

    empty = {"none": mx.zeros((0, 3)), "zeros": mx.zeros((0,), dtype=mx.bool_)}
    mx.save_safetensors(path, mlx_arrays() | empty)


def write_tinygrad(path: str) -> None:
    from tinygrad import Tensor, dtypes
    from tinygrad.nn.state import safe_save

    tensors = {
        "weight": Tensor(WEIGHT, dtype=dtypes.float32, device="PYTHON"),
        "größe": Tensor(SIZE, dtype=dtypes.int64, device="PYTHON"),
        "mask": Tensor(MASK, device="PYTHON"),
    }
    realized = {name: t.contiguous().realize() for name, t in tensors.items()}
    safe_save(realized, path, {"format": "tinygrad"})


def write_pure(path: str) -> None:
    from pure_safetensors import SafeTensors, Settings

    # The defaults reserve four KiB for the header.
    settings = Settings(header_size_alignment=512, header_size_padding=64)
    with SafeTensors(path, "w+", sparse=False, settings=settings) as file:
        file.as_numpy().update(arrays())


WRITERS: dict[str, Callable[[str], None]] = {
    "safetensors": write_safetensors,
    "mlx": write_mlx,
    "mlx-bare": write_mlx_bare,
    "tinygrad": write_tinygrad,
    "pure": write_pure,
}

if __name__ == "__main__":
    library, file = sys.argv[1:]
    WRITERS[library](file)
