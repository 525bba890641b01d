#!/usr/bin/env python3
"""The installed release of the safetensors library behind the adapter protocol (conformance/PROTOCOL.md), for the cases
in reference/safetensors/cases. Run it with the Python of an environment that has the library; scripts/peers makes one.

usage: adapter.py COMMAND ...
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import protocol

# The format's dtypes and torch's names for them. Torch has none for the others.
DTYPES = {
    "BOOL": "bool",
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


class Safetensors:
    """The library. What it calls its error is a refusal; every other exception is an accident."""

    def __init__(self, _options: argparse.Namespace) -> None:
        import safetensors

        self._library = safetensors

    def capabilities(self) -> protocol.Json:
        return {
            "protocol": 1,
            "name": "safetensors",
            "version": importlib.metadata.version("safetensors"),
            # Files of this format hold no hashes, so there is nothing to verify.
            "commands": ["decode", "serve"],
            "reads": {"layouts": ["safetensors"]},
        }

    def decode(self, file: str, secret: protocol.Secret | None) -> protocol.Json:
        if secret:
            raise protocol.Rejected("files of this format are not encrypted")
        content = Path(file).read_bytes()
        try:
            tensors = dict(self._library.deserialize(content))
            with self._library.safe_open(file, "numpy") as opened:
                in_order_of_data = opened.offset_keys()
        except self._library.SafetensorError as error:
            raise protocol.Rejected(str(error)) from error
        return {
            "data_version": None,
            "layout": "safetensors",
            "encrypted": False,
            "tensors": [canonical(name, tensors[name]) for name in in_order_of_data],
        }

    def verify(self, file: str, secret: protocol.Secret | None) -> None:
        raise protocol.Unsupported("files of this format hold no hashes")

    def encode(self, spec: str, out: str, secret: protocol.Secret | None) -> None:
        raise protocol.Unsupported("this adapter only reads")


def canonical(name: str, tensor: dict[str, Any]) -> protocol.Json:
    """A tensor in the words of canonical JSON."""
    return {
        "path": [name],
        "kind": "state_dict",
        "module_index": 0,
        "dtype": DTYPES.get(tensor["dtype"]),
        "wire_dtype": tensor["dtype"],
        "shape": tensor["shape"],
        "meta": False,
        "data_length": len(tensor["data"]),
        "sha256": hashlib.sha256(tensor["data"]).hexdigest(),
        "crc32_field": None,
        "sha256_field": None,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split(".", 1)[0])
    sys.exit(protocol.main(Safetensors, sys.argv[1:], parser))
