"""The reader that the tutorial on safetensors starts with. It believes what a file says."""

from __future__ import annotations

import hashlib
import json
from typing import Any

Json = dict[str, Any]

TORCH = {
    **{"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16"},
    **{"U32": "uint32", "I32": "int32", "U64": "uint64", "I64": "int64"},
    **{"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"},
    **{"C64": "complex64", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn"},
    **{"F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz"},
    **{"F8_E5M2FNUZ": "float8_e5m2fnuz", "F4": None, "F6_E2M3": None, "F6_E3M2": None},
}


def check(holds: object, problem: str) -> None:
    """Refuses the file with a ValueError if something does not hold."""
    if not holds:
        raise ValueError(problem)


def parse(text: str) -> Json:
    """Returns the object of the header."""
    return json.loads(text)


def tensor(name: str, entry: Json, data: bytes) -> Json:
    """Returns a tensor in the words of canonical JSON."""
    begin, end = entry["data_offsets"]
    content = data[begin:end]
    return {
        "path": [name],
        "kind": "state_dict",
        "module_index": 0,
        "dtype": TORCH[entry["dtype"]],
        "wire_dtype": entry["dtype"],
        "shape": entry["shape"],
        "meta": False,
        "data_length": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "crc32_field": None,
        "sha256_field": None,
    }


def load(file: str) -> Json:
    """Returns the content of a file as canonical JSON."""
    with open(file, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = parse(stream.read(length).decode())
        data = stream.read()
    metadata = header.pop("__metadata__", {})
    return {
        "data_version": None,
        "layout": "safetensors",
        "encrypted": False,
        "metadata": sorted(metadata.items()),
        "tensors": [tensor(name, entry, data) for name, entry in header.items()],
    }
