"""What a writer is asked to write: specifications, the data they name, and what their files decode to.

Nothing here knows the bytes of a layout: a specification is content, and what a writer makes of it is judged elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

from builder import PLAIN_DTYPES
from case import Json

DIGEST_BYTES = 32
PLAIN_CODES = {name: code for code, name in PLAIN_DTYPES.items()}
OPAQUE_ITEM_BYTES = {
    "bfloat16": 2,
    "complex32": 4,
    "bits8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}


def item_bytes(dtype: str) -> int:
    """Element size of a dtype, by torch's name."""
    if dtype in PLAIN_CODES:
        return int(PLAIN_CODES[dtype][1:])
    return OPAQUE_ITEM_BYTES[dtype]


def wire_dtype(dtype: str) -> str:
    """A dtype as writers spell it in a file."""
    mark = "|" if item_bytes(dtype) == 1 else "<"
    if dtype in PLAIN_CODES:
        return mark + PLAIN_CODES[dtype]
    return f"{mark}V{item_bytes(dtype)}\0torch.{dtype}"


@cache
def stream(seed: str, size_bytes: int) -> bytes:
    """SHA-256 of "SEED:0", of "SEED:1" and so on, cut to size: a recipe that is short in any language."""
    blocks = -(-size_bytes // DIGEST_BYTES)
    content = b"".join(
        hashlib.sha256(f"{seed}:{number}".encode()).digest() for number in range(blocks)
    )
    return content[:size_bytes]


@dataclass(frozen=True)
class Data:
    """A named piece of data: bytes that are spelled out, or the stream that has the name for a seed."""

    name: str
    size_bytes: int
    literal: bytes | None = None

    def content(self) -> bytes:
        if self.literal is not None:
            return self.literal
        return stream(self.name, self.size_bytes)

    def recipe(self) -> Json:
        if self.literal is not None:
            return {"hex": self.literal.hex()}
        return {"stream": self.name, "length": self.size_bytes}


@dataclass(frozen=True)
class View:
    """The part of a piece of data that a tensor consists of."""

    data: Data
    offset: int
    size_bytes: int

    def content(self) -> bytes:
        return self.data.content()[self.offset : self.offset + self.size_bytes]

    def entry(self) -> Json:
        return {
            "of": self.data.name,
            "offset": self.offset,
            "length": self.size_bytes,
        }


@dataclass
class Tensor:
    """One tensor of a specification. Unless something is said of its data, it gets a stream of its own."""

    path: list[Any]
    dtype: str = "uint8"
    shape: list[int] = field(default_factory=lambda: [4])
    kind: str = "state_dict"
    module_index: int = 0
    meta: bool = False
    view: View | None = None
    literal: bytes | None = None
    # How much data there is, where it is not what shape and dtype give.
    data_bytes: int | None = None
    # The data is null, although this is no meta tensor.
    lacks_data: bool = False
    # Whether a buffer stays where a module's buffers are left out.
    persistent: bool | None = None

    @property
    def nominal_bytes(self) -> int:
        return math.prod(self.shape) * item_bytes(self.dtype)

    def give_data(self, name: str) -> None:
        if self.view is not None or self.meta or self.lacks_data:
            return
        size_bytes = self.nominal_bytes if self.data_bytes is None else self.data_bytes
        literal = self.literal
        if self.dtype == "bool" and literal is None:
            literal = bytes(byte & 1 for byte in stream(name, size_bytes))
        self.view = View(Data(name, size_bytes, literal), 0, size_bytes)

    def entry(self) -> Json:
        """The tensor in the specification."""
        entry: Json = {
            "path": self.path,
            "kind": self.kind,
            "module_index": self.module_index,
            "dtype": self.dtype,
            "shape": self.shape,
            "meta": self.meta,
            "data": None if self.view is None else self.view.entry(),
        }
        if self.persistent is not None:
            entry["persistent"] = self.persistent
        return entry

    def decode(self) -> Json:
        """The tensor in the canonical JSON, without the stored hashes, which are up to the writer."""
        content = b"" if self.view is None else self.view.content()
        return {
            "path": self.path,
            "kind": self.kind,
            "module_index": self.module_index,
            "dtype": self.dtype,
            "wire_dtype": wire_dtype(self.dtype),
            "shape": self.shape,
            "meta": self.meta,
            "data_length": len(content),
            "sha256": None if self.meta else hashlib.sha256(content).hexdigest(),
        }


@dataclass
class Specification:
    """Tensors in the order in which a file has to have them, and the layout: auto, or one that is forced."""

    tensors: list[Tensor]
    layout: str = "auto"
    omits_buffers: bool = False

    def __post_init__(self) -> None:
        for number, tensor in enumerate(self.tensors):
            tensor.give_data(f"data-{number}")

    def views(self) -> list[View]:
        return [tensor.view for tensor in self.tensors if tensor.view is not None]

    def shares_memory(self) -> bool:
        """Whether tensors overlap. Sorted by where they begin, those that do include two neighbours."""
        in_order = sorted(self.views(), key=lambda view: (view.data.name, view.offset))
        return any(
            first.data == second.data
            and second.offset < first.offset + first.size_bytes
            for first, second in pairwise(in_order)
        )

    def text(self) -> str:
        """The specification as it is stored: one line for each piece of data and each tensor."""
        data = {view.data.name: view.data.recipe() for view in self.views()}
        members = [
            f'"layout": {json.dumps(self.layout)}',
            f'"data": {by_line(data)}',
            f'"tensors": {by_line([tensor.entry() for tensor in self.tensors])}',
        ]
        if self.omits_buffers:
            members.append('"non_persistent_buffers": "omit"')
        return "{" + ",\n ".join(members) + "}\n"

    def expected(self, layout: str, encrypted: bool) -> str:
        """What the file decodes to, as it is stored."""
        kept = [tensor for tensor in self.tensors if tensor.persistent is not False]
        members = [
            f'"data_version": {5 if layout.startswith("v5") else int(layout[1:])}',
            f'"layout": {json.dumps(layout)}',
            f'"encrypted": {json.dumps(encrypted)}',
            f'"tensors": {by_line([tensor.decode() for tensor in kept])}',
        ]
        return "{" + ",\n ".join(members) + "}\n"


def by_line(value: Json | list[Json]) -> str:
    """JSON with a line for each element."""
    if isinstance(value, dict):
        lines = [
            f"{json.dumps(key)}: {json.dumps(item)}" for key, item in value.items()
        ]
        return "{\n  " + ",\n  ".join(lines) + "\n }" if lines else "{}"
    lines = [json.dumps(item) for item in value]
    return "[\n  " + ",\n  ".join(lines) + "\n ]" if lines else "[]"
