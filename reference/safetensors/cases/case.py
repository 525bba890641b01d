"""What a case is: files, what each of two strictnesses makes of them, and the content of an accepted file."""

import json
import random
import struct
from dataclasses import dataclass, field
from typing import Any

INDEX = "model.safetensors.index.json"

Verdict = dict[str, Any] | None


def refused(rule: str, offset: int | None = None) -> Verdict:
    return {"rule": rule, "offset": offset}


@dataclass(frozen=True)
class Tensor:
    """A tensor as a listing has it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    def entry(self) -> str:
        """The usual spelling in a header."""
        value = {
            "dtype": self.dtype,
            "shape": list(self.shape),
            "data_offsets": [self.begin, self.end],
        }
        return f"{json.dumps(self.name, ensure_ascii=False)}:{compact(value)}"


@dataclass
class Case:
    id: str
    why: str
    files: dict[str, bytes]
    spec: Verdict = None
    library: Verdict = None
    library_error: str | None = None
    tensors: list[Tensor] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    request: dict[str, Any] | None = None

    def opened(self) -> str:
        """The file that is to be opened."""
        return INDEX if INDEX in self.files else next(iter(self.files))

    def manifest_entry(self) -> dict[str, Any]:
        accepted = self.spec is None or self.library is None
        content = {
            "tensors": [
                {
                    "name": tensor.name,
                    "dtype": tensor.dtype,
                    "shape": list(tensor.shape),
                    "data_offsets": [tensor.begin, tensor.end],
                }
                for tensor in self.tensors
            ],
            "metadata": self.metadata,
        }
        return {
            "id": self.id,
            "file": f"{self.id}/{self.opened()}"
            if len(self.files) > 1 or self.opened() == INDEX
            else f"{self.id}.safetensors",
            "why": self.why,
            "spec": self.spec,
            "library": self.library,
            "library_error": self.library_error,
            "request": self.request,
            "content": content if accepted else None,
        }


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def data_of(seed: str, count: int) -> bytes:
    return random.Random(seed).randbytes(count)


def file_of(header: str | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    raw = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def header_of(*tensors: Tensor, metadata: dict[str, str] | None = None) -> str:
    """A header as the reference library spells it, but without padding."""
    parts = [f'"__metadata__":{compact(metadata)}'] if metadata is not None else []
    return "{" + ",".join(parts + [tensor.entry() for tensor in tensors]) + "}"
