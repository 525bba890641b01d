"""What a case is: files, what each of two strictnesses makes of them, and the content of an accepted file."""

import hashlib
import json
import random
import re
import struct
from dataclasses import dataclass, field
from typing import Any

INDEX = "model.safetensors.index.json"

Json = dict[str, Any]
Verdict = Json | None

# Bits of an element and torch's name, in the format's own order. Types without a name are not torch's.
DTYPES: dict[str, tuple[int, str | None]] = {
    "BOOL": (8, "bool"),
    "F4": (4, None),
    "F6_E2M3": (6, None),
    "F6_E3M2": (6, None),
    "U8": (8, "uint8"),
    "I8": (8, "int8"),
    "F8_E5M2": (8, "float8_e5m2"),
    "F8_E4M3": (8, "float8_e4m3fn"),
    "F8_E8M0": (8, "float8_e8m0fnu"),
    "F8_E4M3FNUZ": (8, "float8_e4m3fnuz"),
    "F8_E5M2FNUZ": (8, "float8_e5m2fnuz"),
    "I16": (16, "int16"),
    "U16": (16, "uint16"),
    "F16": (16, "float16"),
    "BF16": (16, "bfloat16"),
    "I32": (32, "int32"),
    "U32": (32, "uint32"),
    "F32": (32, "float32"),
    "C64": (64, "complex64"),
    "F64": (64, "float64"),
    "I64": (64, "int64"),
    "U64": (64, "uint64"),
}
# What numpy lacks, as the corpus calls it, and what no byte holds a whole number of.
FEATURE_DTYPES = {
    "opaque-dtype": r'"(BF16|F8_\w+)"',
    "sub-byte-dtype": r'"(F4|F6_\w+)"',
}
NUMPY_DIMENSIONS_MAX = 32
# A number that is far larger than any file here.
LARGE = re.compile(rb"\d{8}")
LARGE_BYTES = 10**8

# The bytes cannot be taken apart; what breaks another rule can be.
MALFORMED_RULES = {
    *("ST-001", "ST-002", "ST-003", "ST-004", "ST-005", "ST-006", "ST-007"),
    *("ST-014", "ST-015"),
}
LIMITS = {"memory_bytes": 64 << 20, "seconds": 5}
# Rules that eight bytes are enough to see broken. A reader may have taken a buffer beyond them by then.
LENGTH_RULES = {"ST-002"}
PIPE_BYTES = 8 + (128 << 10)
# The one choice that this format leaves to readers, in the form of corpus/manifest.json.
CHOICE_NAME = "beyond-description"
CHOICE = "Whether a reader takes what the reference library of safetensors takes beyond the format's description."


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

    def decode(self, data: bytes) -> Json:
        """The tensor in the canonical JSON. What only .tensors files tell is what they would tell of such a one."""
        return {
            "path": [self.name],
            "kind": "state_dict",
            "module_index": 0,
            "dtype": DTYPES[self.dtype][1],
            "wire_dtype": self.dtype,
            "shape": list(self.shape),
            "meta": False,
            "data_length": self.end - self.begin,
            "sha256": hashlib.sha256(data[self.begin : self.end]).hexdigest(),
            "crc32_field": None,
            "sha256_field": None,
        }


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
    request: Json | None = None
    # What an accepted file exercises; of others the verdicts tell it.
    exercises: str = ""
    # Where the file comes from, in the form of the manifest; make.py names the recipe of a generated one.
    origin: Json | None = None
    # Text in the file for which the suite puts the absolute path of the directory that it copies the file to.
    directory_placeholder: str = ""
    # The path of the file without its suffix, if that is not the id.
    stem: str = ""

    def __post_init__(self) -> None:
        # Tensors of one place are told apart by their names, which every reader has.
        def place(tensor: Tensor) -> tuple[str, int, int, bytes]:
            file = self.file_of_tensor(tensor) if self.accepted else ""
            return (file, tensor.begin, tensor.end, tensor.name.encode())

        self.tensors = sorted(self.tensors, key=place)

    @property
    def is_one_file(self) -> bool:
        """Whether the case is about opening one file, and nothing more."""
        return self.request is None and not self.is_sharded

    @property
    def is_sharded(self) -> bool:
        """Whether it is a model of several files, which an index lists."""
        return INDEX in self.files

    def opened(self) -> str:
        """The file that is to be opened."""
        return INDEX if INDEX in self.files else next(iter(self.files))

    @property
    def path(self) -> str:
        """Where the file that is to be opened lies."""
        if self.opened() == INDEX:
            return f"{self.id}/{INDEX}"
        return f"{self.stem or self.id}.safetensors"

    @property
    def expected_path(self) -> str:
        """Where the expected decode of an accepted file lies."""
        return f"{self.stem or self.id}.json"

    @property
    def accepted(self) -> bool:
        return self.spec is None or self.library is None

    def judgement(self) -> Json:
        """What the two profiles and the library make of it, and what is in it."""
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
            "spec": self.spec,
            "library": self.library,
            "library_error": self.library_error,
            "content": content if self.accepted else None,
        }

    def call_entry(self) -> Json:
        """A case that is more than opening one file."""
        return {
            "id": self.id,
            "file": self.path,
            "why": self.why,
            "request": self.request,
            **self.judgement(),
        }

    def verdict(self) -> str:
        """The verdict in the terms of the corpus; where the profiles differ, the format leaves a choice."""
        if self.spec is None:
            assert self.library is None, self.id
            return "valid"
        if self.library is None:
            return "implementation-defined"
        return "malformed" if self.spec["rule"] in MALFORMED_RULES else "invalid"

    def rules(self) -> list[str]:
        broken = [verdict["rule"] for verdict in (self.spec, self.library) if verdict]
        return list(dict.fromkeys(broken or self.exercises.split()))

    def features(self) -> list[str]:
        if self.is_sharded:
            return []
        content = self.files[self.opened()]
        found = {
            feature
            for feature, pattern in FEATURE_DTYPES.items()
            if re.search(pattern.encode(), content)
        }
        length = int.from_bytes(content[:8], "little")
        if length >= LARGE_BYTES or LARGE.search(content[8 : 8 + length]):
            found.add("large-claim")
        if any(len(tensor.shape) > NUMPY_DIMENSIONS_MAX for tensor in self.tensors):
            found.add("many-dims")
        return sorted(found)

    def manifest_entry(self) -> Json:
        """A case of opening a model, in the form of the corpus. Fields that say nothing are left out."""
        content = self.files[self.opened()]
        verdict, rules = self.verdict(), self.rules()
        is_open = verdict == "implementation-defined"
        early = not self.accepted and rules[0] in LENGTH_RULES
        entry = {
            "id": f"st-{self.id}",
            "path": self.path,
            "sha256": hashlib.sha256(content).hexdigest(),
            "size_bytes": len(content),
            "shards": self.shard_entries() or None,
            "directory_placeholder": self.directory_placeholder or None,
            "layout": self.layout,
            "features": self.features(),
            "verdict": verdict,
            "tier": "SHOULD" if is_open else "MUST",
            "rules": rules,
            "why": f"{self.why[0].upper()}{self.why[1:]}.",
            "open_choice": CHOICE if is_open else None,
            "choice_name": CHOICE_NAME if is_open else None,
            "origin": self.origin,
            "expected": self.expected_path if self.accepted else None,
            "limits": LIMITS | ({"pipe_bytes": PIPE_BYTES} if early else {}),
            "safetensors": self.judgement(),
        }
        return {key: value for key, value in entry.items() if value is not None}

    @property
    def layout(self) -> str:
        return "safetensors-sharded" if self.is_sharded else "safetensors"

    def shards(self) -> dict[str, bytes]:
        """The files next to an index, by their names."""
        if not self.is_sharded:
            return {}
        return {name: self.files[name] for name in self.files if name != INDEX}

    def shard_entries(self) -> list[Json]:
        directory = self.path.removesuffix(INDEX)
        entries = []
        for name, content in self.shards().items():
            stored = stored_name(name)
            entries.append(
                {
                    "path": directory + stored,
                    **({} if stored == name else {"name": name}),
                    "sha256": hashlib.sha256(content).hexdigest(),
                    "size_bytes": len(content),
                }
            )
        return entries

    def expected(self) -> Json:
        """What an accepted model decodes to, as canonical JSON: in the order of the data, or of the names where it has
        several files. Only one file has metadata of its own."""
        texts = sorted(self.metadata.items(), key=lambda item: item[0].encode())
        metadata = {} if self.is_sharded else {"metadata": texts}
        return {
            "data_version": None,
            "layout": self.layout,
            "encrypted": False,
            **metadata,
            "tensors": [
                tensor.decode(data_in(self.files[self.file_of_tensor(tensor)]))
                for tensor in (
                    sorted(self.tensors, key=lambda tensor: tensor.name.encode())
                    if self.is_sharded
                    else self.tensors
                )
            ],
        }

    def file_of_tensor(self, tensor: Tensor) -> str:
        """The name of the file that has it."""
        if not self.is_sharded:
            return self.opened()
        (found,) = (
            name
            for name, content in self.shards().items()
            if tensor.name in json.loads(header_in(content))
        )
        return found


def stored_name(name: str) -> str:
    """The name under which the corpus has a shard: another one if it leads out of the directory of the index."""
    return "elsewhere.safetensors" if set(name) & {"/", "\\"} else name


def open_choices(entries: list[Json]) -> Json:
    """The choices that the entries of a manifest show."""
    rules = {entry["rules"][0] for entry in entries if "choice_name" in entry}
    return {
        CHOICE_NAME: {
            "text": CHOICE,
            "rules": sorted(rules),
            "tzmark": "reject",
            "rejected_by": "decode",
        }
    }


def slug(text: str) -> str:
    """A name of the format as a part of an id."""
    return text.lower().replace("_", "-")


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def header_in(file: bytes) -> bytes:
    return file[8 : 8 + int.from_bytes(file[:8], "little")]


def data_in(file: bytes) -> bytes:
    return file[8 + int.from_bytes(file[:8], "little") :]


def data_of(seed: str, count: int) -> bytes:
    return random.Random(seed).randbytes(count)


def file_of(header: str | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    raw = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def header_of(*tensors: Tensor, metadata: dict[str, str] | None = None) -> str:
    """A header as the reference library spells it, but without padding."""
    parts = [f'"__metadata__":{compact(metadata)}'] if metadata is not None else []
    return "{" + ",".join(parts + [tensor.entry() for tensor in tensors]) + "}"
