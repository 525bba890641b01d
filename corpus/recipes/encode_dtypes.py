"""Encode cases of dtypes, and of the values and shapes of tensors."""

import struct
from collections.abc import Iterator

from encode_case import EncodeCase, EncodeRecipe
from specification import (
    OPAQUE_ITEM_BYTES,
    PLAIN_CODES,
    Data,
    Specification,
    Tensor,
    View,
)


def cases() -> Iterator[EncodeCase]:
    recipe = EncodeRecipe("encode_dtypes")
    yield from dtypes(recipe)
    yield from values(recipe)
    yield from shapes(recipe)
    yield from wrong_dtypes(recipe)
    yield from wrong_shapes(recipe)


def one(tensor: Tensor) -> Specification:
    return Specification([tensor])


def dtypes(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    for dtype in PLAIN_CODES:
        yield recipe.written(
            f"dtype-{dtype}",
            one(Tensor(["a"], dtype, [2, 3])),
            "DTY-001 HDR-006",
            f"Six elements of {dtype}.",
        )
    for dtype, item_bytes in OPAQUE_ITEM_BYTES.items():
        spelling = " DTY-006" if item_bytes == 1 else ""
        yield recipe.written(
            f"dtype-{dtype.replace('_', '-')}",
            one(Tensor(["a"], dtype, [2, 3])),
            f"DTY-001 DTY-002 DTY-003 DTY-004 HDR-006{spelling}",
            f"Six elements of {dtype}, an opaque dtype, which needs data version 2.",
            layout="v2",
        )
    for dtype, layout in (("float64", "v1"), ("bool", "v1"), ("bfloat16", "v2")):
        yield recipe.written(
            f"scalar-{dtype}",
            one(Tensor(["a"], dtype, [])),
            "IDX-006 REC-009",
            f"A scalar of {dtype}: no dimensions, and one element.",
            layout=layout,
        )


def values(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    # Both signs of zero and of infinity, a quiet NaN, signalling ones with a payload, and the smallest number.
    patterns = [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFABCDEF]
    bits = struct.pack("<8I", *patterns, 1)
    yield recipe.written(
        "values-float32",
        one(Tensor(["a"], "float32", [8], literal=bits)),
        "IDX-006",
        "Values that a conversion on the way would change: NaNs with a payload, a negative zero, a tiny number.",
    )
    yield recipe.written(
        "values-zeros",
        one(Tensor(["a"], "float32", [4], literal=bytes(16))),
        "IDX-006",
        "Zeros are values like any other: a tensor of zeros is no meta tensor.",
    )


def shapes(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    rules = "IDX-005 IDX-006 REC-009"
    for dims in (33, 255):
        yield recipe.written(
            f"shape-{dims}-dimensions",
            one(Tensor(["a"], "uint8", [1] * (dims - 1) + [2])),
            rules,
            f"{dims} dimensions, {'as many as there is room for' if dims == 255 else 'one more than numpy had'}.",
            tier="SHOULD",
        )
    yield recipe.written(
        "shape-order",
        one(Tensor(["a"], "int16", [2, 3, 5])),
        rules,
        "Three different dimensions, slowest first.",
    )


def wrong_dtypes(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    for id_, dtype, rules, why in (
        ("unknown", "float24", "DTY-001 DTY-003", "There is no dtype float24."),
        (
            "module",
            "torch.float32",
            "DTY-001 DTY-003",
            "The name has the module in front.",
        ),
        (
            "quantised",
            "quint8",
            "DTY-003 DTY-001",
            "Files cannot hold quint8, which torch has: its scale would be lost.",
        ),
        (
            "bits16",
            "bits16",
            "DTY-003 DTY-001",
            "Files cannot hold bits16, which torch has.",
        ),
        (
            "float8-nameless",
            "float8_",
            "DTY-003 DTY-001",
            "Nothing follows float8_.",
        ),
        (
            "float8-dot",
            "float8_e4m3fn.real",
            "DTY-003 DTY-001",
            "In the names of types are no dots.",
        ),
        (
            "float8-letter",
            "float8_\u00e9",
            "DTY-003 DTY-001",
            "The letters of the name are those of ASCII.",
        ),
    ):
        yield recipe.refused(
            f"dtype-{id_}", one(Tensor(["a"], dtype, [8], data_bytes=8)), rules, why
        )


def wrong_shapes(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    for id_, shape in {
        "2-63": [1 << 31, 1 << 31, 2],
        "2-64": [1 << 31, 1 << 31, 4],
        "beyond-2-64": [(1 << 32) - 1] * 3,
    }.items():
        yield recipe.refused(
            f"size-{id_}",
            one(Tensor(["a"], "uint8", shape, meta=True)),
            "IDX-005",
            "The size of the meta tensor is 2^63 bytes or more.",
            layout="v4",
        )
    for id_, size_bytes in {"short": 23, "long": 25, "none": 0}.items():
        yield recipe.refused(
            f"data-{id_}",
            one(Tensor(["a"], "float32", [2, 3], data_bytes=size_bytes)),
            "IDX-006",
            f"Shape and dtype give 24 bytes, and there are {size_bytes}.",
        )
    yield recipe.refused(
        "data-null",
        one(Tensor(["a"], "float32", [2, 3], lacks_data=True)),
        "IDX-006",
        "The tensor is not said to be a meta tensor, and has no data: a slip that must not become one.",
        tier="SHOULD",
    )
    yield recipe.refused(
        "meta-with-data",
        one(Tensor(["a"], meta=True, view=View(Data("data", 4), 0, 4))),
        "IDX-006 IDX-007",
        "The tensor is said to be a meta tensor, and has data.",
        layout="v4",
    )
    yield recipe.refused(
        "shape-256-dimensions",
        one(Tensor(["a"], "uint8", [1] * 256)),
        "IDX-002 REC-003",
        "The number of dimensions does not fit in its byte.",
    )
