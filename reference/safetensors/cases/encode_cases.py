"""What a writer is asked to write: specifications in the form of the corpus (conformance/PROTOCOL.md, encode).

A writer may choose the order of the tensors and of the keys, and the padding of the header. What it must refuse is what
no safetensors file can hold (ST-018).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from case import DTYPES, LIMITS, Json

DATA = "data-0"
NAMES = {torch: name for name, (_, torch) in DTYPES.items() if torch}


@dataclass
class Asked:
    """A tensor that a writer is given. Its data is a part of one stream."""

    path: list[str | int]
    dtype: str = "uint8"
    shape: tuple[int, ...] = (3,)
    meta: bool = False
    # Of the data, if it is not the next part of its file, of the size that shape and dtype give.
    offset: int | None = None
    size_bytes: int | None = None
    of: str = DATA

    def nominal_bytes(self) -> int:
        bits = DTYPES[NAMES[self.dtype]][0] if self.dtype in NAMES else 8
        return math.prod(self.shape) * bits // 8


@dataclass
class EncodeCase:
    id: str
    why: str
    tensors: list[Asked]
    rules: list[str]
    refused: bool = False
    features: list[str] = field(default_factory=list)
    # Of the data file; as much as the tensors need.
    stream_bytes: int | None = None

    def __post_init__(self) -> None:
        for tensor in self.tensors:
            if tensor.meta:
                tensor.size_bytes = 0
            if tensor.size_bytes is None:
                tensor.size_bytes = tensor.nominal_bytes()
            if tensor.offset is None:
                tensor.offset = self.needed_bytes(tensor.of, before=tensor)
        self.lengths = {
            of: self.stream_bytes or self.needed_bytes(of)
            for of in sorted({DATA} | {tensor.of for tensor in self.tensors})
        }

    def needed_bytes(self, of: str, before: Asked | None = None) -> int:
        """The size of a data file, as far as the tensors before one need it."""
        end = 0
        for tensor in self.tensors:
            if tensor is before:
                break
            if tensor.of == of:
                end = max(end, (tensor.offset or 0) + (tensor.size_bytes or 0))
        return end

    def content(self, of: str) -> bytes:
        content = stream(of, self.lengths[of])
        # Other bytes than 0 and 1 are trouble that no case is about.
        is_bool = any(tensor.dtype == "bool" for tensor in self.tensors)
        return bytes(byte & 1 for byte in content) if is_bool else content

    def recipe(self, of: str) -> Json:
        if any(tensor.dtype == "bool" for tensor in self.tensors):
            return {"hex": self.content(of).hex()}
        return {"stream": of, "length": self.lengths[of]}

    @property
    def spec_path(self) -> str:
        return f"encode/{self.id}.json"

    @property
    def expected_path(self) -> str:
        return f"encode/{self.id}.expected.json"

    def specification(self) -> Json:
        return {
            "layout": "safetensors",
            "data": {of: self.recipe(of) for of in self.lengths},
            "tensors": [
                {
                    "path": tensor.path,
                    "kind": "state_dict",
                    "module_index": 0,
                    "dtype": tensor.dtype,
                    "shape": list(tensor.shape),
                    "meta": tensor.meta,
                    "data": None
                    if tensor.meta
                    else {
                        "of": tensor.of,
                        "offset": tensor.offset,
                        "length": tensor.size_bytes,
                    },
                }
                for tensor in self.tensors
            ],
        }

    def expected(self) -> Json:
        """What the file decodes to, by name: a writer may choose the order."""
        contents = {of: self.content(of) for of in self.lengths}
        tensors = [
            {
                "path": tensor.path,
                "kind": "state_dict",
                "module_index": 0,
                "dtype": tensor.dtype,
                "wire_dtype": NAMES[tensor.dtype],
                "shape": list(tensor.shape),
                "meta": False,
                "data_length": tensor.size_bytes,
                "sha256": hashlib.sha256(
                    part_of(contents[tensor.of], tensor)
                ).hexdigest(),
            }
            for tensor in sorted(self.tensors, key=lambda t: str(t.path[0]).encode())
        ]
        return {
            "data_version": None,
            "layout": "safetensors",
            "encrypted": False,
            "tensors": tensors,
        }

    def manifest_entry(self) -> Json:
        return {
            "id": f"encode-st-{self.id}",
            "spec": self.spec_path,
            "layout": "safetensors",
            "features": sorted(self.features),
            "verdict": "invalid" if self.refused else "valid",
            "tier": "MUST",
            "rules": self.rules,
            "why": self.why,
            "origin": {"recipe": "encode_cases.py"},
            "limits": LIMITS,
            **({} if self.refused else {"expected": self.expected_path}),
        }


def stream(seed: str, length: int) -> bytes:
    """The bytes of the corpus's data recipe of this name."""
    blocks = (
        hashlib.sha256(f"{seed}:{i}".encode()).digest() for i in range(length // 32 + 1)
    )
    return b"".join(blocks)[:length]


def part_of(content: bytes, tensor: Asked) -> bytes:
    offset, size_bytes = tensor.offset or 0, tensor.size_bytes or 0
    return content[offset : offset + size_bytes]


def features_of(torch: str) -> list[str]:
    name = NAMES[torch]
    return ["opaque-dtype"] if name == "BF16" or name.startswith("F8_") else []


def written(id: str, why: str, rule: str, *tensors: Asked, **more: Any) -> EncodeCase:
    return EncodeCase(id, why, list(tensors), [rule], **more)


def refused(id: str, why: str, *tensors: Asked, **more: Any) -> EncodeCase:
    rules = more.pop("rules", ["ST-018"])
    return EncodeCase(id, why, list(tensors), rules, refused=True, **more)


def cases() -> Iterator[EncodeCase]:
    yield from dtypes()
    yield from shapes()
    yield from names()
    yield from several()
    yield from unwritable()
    yield from wrong_data()


def dtypes() -> Iterator[EncodeCase]:
    for torch in NAMES:
        yield written(
            f"dtype-{torch.replace('_', '-')}",
            f"Three elements of {torch}.",
            "ST-010",
            Asked(["a"], torch),
            features=features_of(torch),
        )


def shapes() -> Iterator[EncodeCase]:
    for id, why, shape in (
        ("scalar", "A scalar, whose shape is empty.", ()),
        ("one-element", "A dimension of 1 is no scalar.", (1,)),
        ("no-elements", "A dimension of 0.", (0,)),
        ("no-elements-between", "A dimension of 0 between others.", (2, 0, 3)),
        ("four-dimensions", "Four dimensions in their order.", (2, 3, 4, 5)),
        ("ones", "Dimensions of 1 that must stay.", (1, 1, 3, 1)),
    ):
        yield written(id, why, "ST-013", Asked(["a"], "float32", shape))
    yield written(
        *("many-dimensions", "Seventy dimensions.", "ST-013"),
        Asked(["a"], "uint8", (1,) * 69 + (2,)),
        features=["many-dims"],
    )
    yield written(
        *("large-dimension", "A dimension of 2^40 next to one of 0.", "ST-013"),
        Asked(["a"], "uint8", (1 << 40, 0)),
        features=["large-claim"],
    )


def names() -> Iterator[EncodeCase]:
    for id, why, name in (
        ("name-slash", "A slash in a name.", "a/b"),
        ("name-dots", "A name of two dots.", ".."),
        ("name-quote", "A quotation mark, which JSON escapes.", 'a"b'),
        ("name-backslash", "A backslash, which JSON escapes.", "a\\b\\u0041"),
        ("name-newline", "A newline, which JSON escapes.", "a\nb\r\t"),
        ("name-nul", "A NUL, which JSON escapes.", "a\0b"),
        ("name-control", "Control characters without a short escape.", "\x01\x1f"),
        ("name-delete", "DEL, which JSON does not escape.", "a\x7fb"),
        ("name-letters", "Letters of two bytes.", "Größe"),
        ("name-emoji", "A character beyond 16 bits.", "a😀"),
        ("name-separators", "U+2028 and U+2029.", "\u2028\u2029"),
        ("name-composed", "A letter with a combining accent.", "e\u0301"),
        ("name-space", "White space around a name.", " a "),
        ("name-300-bytes", "A name of 300 bytes.", "n" * 300),
        ("name-4097-bytes", "A name of 4,097 bytes.", "n" * 4097),
        ("name-like-metadata", "Almost the reserved name.", "__metadata__ "),
        ("name-metadata-upper", "The reserved name in capitals.", "__METADATA__"),
        ("name-numbers", "A name of digits.", "0"),
    ):
        yield written(id, why, "ST-006", Asked([name]))


def several() -> Iterator[EncodeCase]:
    yield written("no-tensors", "A file without tensors.", "ST-006")
    yield written(
        *("two-tensors", "Two tensors.", "ST-014"),
        *(Asked(["b"], "float32", (2, 2)), Asked(["a"], "float32", (3,))),
    )
    yield written(
        *("not-aligned", "Three bytes before elements of eight.", "ST-014"),
        *(Asked(["a"]), Asked(["b"], "float64", (2,))),
    )
    yield written(
        *("sizes", "Elements of one, two, four and eight bytes in turn.", "ST-014"),
        *(
            Asked([f"t{i}"], dtype, (i,))
            for i, dtype in enumerate(("uint8", "int16", "float32", "int64") * 3)
        ),
    )
    yield written(
        *("no-elements-several", "Three tensors without elements.", "ST-014"),
        *(Asked([name], "float32", (0,)) for name in "cab"),
    )
    yield written(
        "no-elements-in-between",
        "Tensors without elements before, between and after others.",
        "ST-014",
        *(Asked([f"t{i}"], "float32", (i % 2, 3)) for i in range(5)),
    )
    yield written(
        *("same-data", "Two tensors of the same data, written twice.", "ST-014"),
        *(Asked(["a"], offset=0), Asked(["b"], offset=0)),
        features=["shared-memory"],
    )
    yield written(
        *("data-backwards", "Data that the writer is given backwards.", "ST-014"),
        *(Asked(["a"], offset=6), Asked(["b"], offset=3), Asked(["c"], offset=0)),
    )
    yield written(
        *("data-inside", "Data that begins within its file.", "ST-014"),
        Asked(["a"], "float32", (2,), offset=5),
        stream_bytes=64,
    )
    yield written(
        *("names-differ-in-case", "Names that differ in case.", "ST-008"),
        *(Asked(["a"]), Asked(["A"])),
    )
    yield written(
        "names-differ-in-form",
        "One name composed and decomposed: two tensors.",
        "ST-008",
        *(Asked(["é"]), Asked(["e\u0301"])),
    )
    for id, why, size_bytes in (
        ("five-kilobytes", "Data of 5,000 bytes.", 5_000),
        ("70-kilobytes", "Data of 70,000 bytes.", 70_000),
        ("two-mebibytes", "Data of two MiB and a byte.", (2 << 20) + 1),
    ):
        yield written(
            *(id, why, "ST-014"),
            *(Asked(["a"], shape=(size_bytes,), offset=3), Asked(["b"])),
        )
    yield written(
        *("two-data-files", "Data in two files.", "ST-014"),
        *(Asked(["a"]), Asked(["b"], of="data-1"), Asked(["c"])),
        *(Asked(["d"], of="data-1"),),
    )
    yield written(
        *("many-tensors", "A hundred and forty tensors.", "ST-014"),
        *(Asked([f"layers.{i}.weight"], "float16", (i % 7,)) for i in range(140)),
    )


def unwritable() -> Iterator[EncodeCase]:
    yield refused("refused-meta", "A meta tensor.", Asked(["a"], meta=True))
    yield refused(
        *("refused-meta-among-others", "A meta tensor after another one."),
        *(Asked(["a"]), Asked(["b"], meta=True)),
    )
    for torch, bytes_each in (
        *(("complex128", 16), ("complex32", 4), ("bits8", 1), ("bits16", 2)),
        *(("qint8", 1), ("float128", 16)),
    ):
        yield refused(
            f"refused-dtype-{torch}",
            f"{torch}, which the format lacks.",
            Asked(["a"], torch, size_bytes=3 * bytes_each),
            rules=["ST-018", "ST-010", "TZR-DTY-001", "TZR-DTY-003"],
        )
    for id, why, path in (
        ("refused-path-two", "A path of two names.", ["a", "b"]),
        ("refused-path-position", "A path of a position.", [0]),
        ("refused-path-position-last", "A path that ends in a position.", ["a", 0]),
    ):
        yield refused(id, why, Asked(path), features=["structured-names"])
    yield refused("refused-metadata", "The reserved name.", Asked(["__metadata__"]))
    yield refused(
        *("refused-metadata-among-others", "The reserved name after another one."),
        *(Asked(["a"]), Asked(["__metadata__"])),
    )
    yield refused(
        *("refused-name-twice", "One name for two tensors."),
        *(Asked(["a"]), Asked(["a"])),
        rules=["ST-018", "ST-008", "TZR-NAM-006"],
    )
    yield refused(
        *("refused-name-twice-last", "The first name for the third tensor, too."),
        *(Asked(["a"]), Asked(["b"]), Asked(["a"], "float32", (1,))),
        rules=["ST-018", "ST-008", "TZR-NAM-006"],
    )
    for id, why, shape in (
        ("refused-size-2-64", "A size that wraps to 0 bytes.", (1 << 32, 1 << 32)),
        ("refused-overflow-and-zero", "A 0 after an overflow.", (1 << 63, 4, 0)),
    ):
        yield refused(
            *(id, why, Asked(["a"], "uint8", shape, size_bytes=0)),
            rules=["ST-018", "ST-011", "TZR-IDX-005"],
            features=["large-claim"],
        )


def wrong_data() -> Iterator[EncodeCase]:
    for id, why, tensor, length in (
        ("refused-data-short", "A byte less than shape and dtype give.", 23, None),
        ("refused-data-long", "A byte more than shape and dtype give.", 25, None),
        ("refused-data-none", "No data for a tensor with elements.", 0, None),
        ("refused-data-beyond-its-file", "More data than its file has.", 24, 20),
    ):
        yield refused(
            *(id, why, Asked(["a"], "float32", (2, 3), size_bytes=tensor)),
            rules=["ST-018", "ST-013", "TZR-IDX-006"],
            stream_bytes=length,
        )
