"""The tensors of an encode specification as torch tensors, in the memory that the specification asks for."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from protocol import Rejected, Unsupported
from refusals import missing_dtype

PathOfTensor = tuple[str | int, ...]


@dataclass(frozen=True)
class Item:
    """One tensor, and how it is to be stored."""

    path: PathOfTensor
    kind: str
    module_index: int
    tensor: torch.Tensor
    persistent: bool

    @property
    def plain_name(self) -> str | None:
        """The name if it is one string."""
        return (
            self.path[0]
            if len(self.path) == 1 and isinstance(self.path[0], str)
            else None
        )


@dataclass(frozen=True)
class Specification:
    """What is to be written."""

    items: list[Item]
    omit_non_persistent: bool


class Memory:
    """The data files, each read once, so that byte ranges of one file that overlap are views of the same memory."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}

    def view(
        self, data: dict[str, Any], dtype: torch.dtype, shape: list[int]
    ) -> torch.Tensor:
        if not data["length"]:
            # There is no view of nothing; and a shape with elements takes no such tensor.
            return torch.empty(0, dtype=dtype).reshape(shape)
        content = self._files.get(data["file"])
        if content is None:
            content = self._files[data["file"]] = bytearray(
                Path(data["file"]).read_bytes()
            )
        flat = torch.frombuffer(
            content, dtype=torch.uint8, offset=data["offset"], count=data["length"]
        )
        return flat.view(dtype).reshape(shape)


def dtype_of(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if isinstance(dtype, torch.dtype):
        return dtype
    if missing_dtype(name):
        raise Unsupported(f"torch {torch.__version__} has no {name}")
    raise Rejected(f"torch has no dtype {name!r}")


def tensor_of(entry: dict[str, Any], memory: Memory) -> torch.Tensor:
    """The tensor itself. What torch cannot make, no user of the library can write."""
    dtype = dtype_of(entry["dtype"])
    data, shape = entry["data"], entry["shape"]
    if entry["meta"] != (data is None):
        raise Rejected("a tensor has data, or it is a meta tensor")
    try:
        if data is None:
            return torch.empty(shape, dtype=dtype, device="meta")
        return memory.view(data, dtype, shape)
    except (RuntimeError, ValueError, TypeError) as error:
        raise Rejected(f"torch cannot make this tensor: {error}") from error


def item_of(entry: dict[str, Any], memory: Memory) -> Item:
    if not entry["path"]:
        raise Rejected("a tensor without a name")
    return Item(
        path=tuple(entry["path"]),
        kind=entry["kind"],
        module_index=entry["module_index"],
        tensor=tensor_of(entry, memory),
        persistent=entry.get("persistent", True),
    )


def load(spec: str) -> Specification:
    document = json.loads(Path(spec).read_bytes())
    if document["layout"] != "auto":
        raise Unsupported("the data version cannot be chosen")
    memory = Memory()
    return Specification(
        items=[item_of(entry, memory) for entry in document["tensors"]],
        omit_non_persistent=document.get("non_persistent_buffers") == "omit",
    )
