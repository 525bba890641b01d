"""The specification of a file (conformance/PROTOCOL.md, encode) as what a writer in Python can be given: a dict of
tensors with their bytes.

What no such dict can say is not supported, because the library is not asked: a name that is not one string, a name
twice, and a tensor without data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocol import Unsupported


@dataclass(frozen=True)
class Asked:
    """A tensor to write. Its dtype has torch's name; its data may be of another size than shape and dtype give."""

    dtype: str
    shape: list[int]
    data: bytes


def load(spec: str) -> dict[str, Asked]:
    """Returns the tensors by name, in the order of the specification."""
    document = json.loads(Path(spec).read_bytes())
    if document["layout"] != "safetensors":
        raise Unsupported("files of another format")
    tensors: dict[str, Asked] = {}
    for entry in document["tensors"]:
        name = _name_of(entry["path"])
        if name in tensors:
            raise Unsupported("a name twice: the library takes a dict")
        tensors[name] = Asked(entry["dtype"], entry["shape"], _data_of(entry))
    return tensors


def _name_of(path: list[str | int]) -> str:
    if len(path) != 1 or not isinstance(path[0], str):
        raise Unsupported("a name that is not one string")
    return path[0]


def _data_of(entry: dict[str, Any]) -> bytes:
    """Returns the bytes of a tensor, as many as its file has."""
    data = entry["data"]
    if entry["meta"] or data is None:
        raise Unsupported("a tensor without data")
    with Path(data["file"]).open("rb") as opened:
        opened.seek(data["offset"])
        return opened.read(data["length"])
