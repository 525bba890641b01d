"""What readers of safetensors return, in the words of canonical JSON (conformance/PROTOCOL.md), and what the header of
a file says, for the two things that a reader does not tell: the order of the data, and which dtype it lacks.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEADER_BYTES_MAX = 100_000_000

# The format's dtypes and torch's names for them. Torch has none for the others.
DTYPES = {
    "BOOL": "bool",
    "F4": None,
    "F6_E2M3": None,
    "F6_E3M2": None,
    "U8": "uint8",
    "I8": "int8",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "C64": "complex64",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
}
_FROM_TORCH = {torch: name for name, torch in DTYPES.items() if torch}


@dataclass(frozen=True)
class Tensor:
    """A tensor as a reader returns it. Its dtype is named as in the file, and anything in an invalid file."""

    name: str
    dtype: Any
    shape: list[int]
    data: bytes


def format_dtype(dtype: object) -> str:
    """Returns the format's name of a dtype of torch, numpy or mlx; what has none keeps its own."""
    name = str(dtype).rpartition(".")[2]
    return _FROM_TORCH.get(name, name)


def header_of(file: str) -> dict[str, dict[str, Any]]:
    """Returns the tensors of a header as far as Python's parser reads it, or nothing.

    Of a key that occurs twice, the last counts.
    """
    try:
        with Path(file).open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if length > HEADER_BYTES_MAX:
                return {}
            text = opened.read(length).decode()
        header = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(header, dict):
        return {}
    header.pop("__metadata__", None)
    # The reference library also accepts a tensor as a list of its three values.
    entries = {
        name: dict(zip(("dtype", "shape", "data_offsets"), entry))
        if isinstance(entry, list)
        else entry
        for name, entry in header.items()
    }
    return {name: entry for name, entry in entries.items() if isinstance(entry, dict)}


def dtypes_of(file: str) -> set[str]:
    """Returns the dtypes that the header names."""
    named = (entry.get("dtype") for entry in header_of(file).values())
    return {dtype for dtype in named if isinstance(dtype, str)}


def _places_of(file: str) -> dict[str, tuple[int, int, bytes]]:
    """Returns where the data of each tensor begins and ends, and its name, which decides between those of one place."""
    places = {}
    for name, entry in header_of(file).items():
        offsets = entry.get("data_offsets")
        if isinstance(offsets, list) and [type(one) for one in offsets] == [int, int]:
            places[name] = offsets[0], offsets[1], name.encode(errors="replace")
    return places


def in_order_of_data(file: str, tensors: Iterable[Tensor]) -> list[Tensor]:
    """Sorts tensors as canonical JSON lists them: by their place in the data, those of one place by name.

    Few readers tell the place, so it is taken from the header. Tensors whose place the header does not tell keep their
    order, after the others.
    """
    places = _places_of(file)
    last = (HEADER_BYTES_MAX, 0, b"")

    def place(tensor: Tensor) -> tuple[bool, tuple[int, int, bytes]]:
        return tensor.name not in places, places.get(tensor.name, last)

    return sorted(tensors, key=place)


def names_in_order(file: str, tensors: Iterable[Tensor]) -> list[Tensor]:
    """Sorts tensors of one place by name, and leaves the places in the order of the reader."""
    places = _places_of(file)
    groups = itertools.groupby(tensors, lambda tensor: places[tensor.name][:2])
    return [
        tensor
        for _, group in groups
        for tensor in sorted(group, key=lambda tensor: places[tensor.name])
    ]


def canonical(
    tensors: Iterable[Tensor], metadata: dict[str, str] | None
) -> dict[str, Any]:
    """Returns the canonical JSON of a file with these tensors and metadata, which None leaves out."""
    told = {} if metadata is None else {"metadata": sorted(metadata.items())}
    return {
        "data_version": None,
        "layout": "safetensors",
        "encrypted": False,
        **told,
        "tensors": [_canonical_tensor(tensor) for tensor in tensors],
    }


def _canonical_tensor(tensor: Tensor) -> dict[str, Any]:
    dtype = tensor.dtype if isinstance(tensor.dtype, str) else json.dumps(tensor.dtype)
    return {
        "path": [tensor.name],
        "kind": "state_dict",
        "module_index": 0,
        "dtype": DTYPES.get(dtype),
        "wire_dtype": dtype,
        "shape": tensor.shape,
        "meta": False,
        "data_length": len(tensor.data),
        "sha256": hashlib.sha256(tensor.data).hexdigest(),
        "crc32_field": None,
        "sha256_field": None,
    }
