"""The cases of dtypes: each with several shapes, those that the format lacks, and elements that are no whole bytes."""

import math
import struct
from collections.abc import Iterator

from builders import DTYPE_AT, bad, entry, valid
from case import DTYPES, Case, Tensor, compact, file_of, header_of, slug

SHAPES: dict[str, tuple[str, tuple[int, ...]]] = {
    "": ("eight elements", (2, 4)),
    "-vector": ("24 elements in one dimension", (24,)),
    "-empty": ("no elements", (0,)),
    "-scalar": ("a scalar", ()),
}

# What other formats, other versions and people call dtypes.
UNKNOWN = {
    "lower-case": "u8",
    "unknown": "F8",
    "empty": "",
    "space": "U8 ",
    "nul": "U8\0",
    "torch": "float32",
    "torch-long": "torch.float32",
    "numpy": "<f4",
    "rust": "Float32",
    "words": "UINT8",
    "complex32": "C32",
    "complex128": "C128",
    "float128": "F128",
    "int128": "I128",
    "int4": "I4",
    "uint4": "U4",
    "bit": "U1",
    "fn": "F8_E4M3FN",
    "fnu": "F8_E8M0FNU",
    "e3m4": "F8_E3M4",
    "f4-long": "F4_E2M1",
    "f6": "F6",
    "bf8": "BF8",
    "tf32": "TF32",
    "ggml": "Q4_0",
    "text": "STRING",
    "two": "U8,I8",
    "full-width": "Ｕ8",
}

# Shapes of elements smaller than a byte that come to whole bytes, and those that do not.
WHOLE = {
    "F4": [(2,), (1, 2), (3, 2), (1, 1, 2)],
    "F6_E2M3": [(4,), (2, 2), (3, 4), (4, 1)],
    "F6_E3M2": [(4,), (2, 2), (3, 4), (4, 1)],
}
BROKEN = {
    "F4": [(1,), (3, 3), (1, 1)],
    "F6_E2M3": [(), (1,), (2,), (3,), (5, 2)],
    "F6_E3M2": [(), (1,), (2,), (3,), (5, 2)],
}


def cases() -> Iterator[Case]:
    for dtype, (bits, _) in DTYPES.items():
        for id, (what, shape) in SHAPES.items():
            total = bits * math.prod(shape)
            if total % 8 != 0:
                continue
            tensor = Tensor("t", dtype, shape, 0, total // 8)
            why = f"{what} of {dtype}"
            rules = "ST-010 ST-012 ST-013"
            yield valid(f"dtype-{slug(dtype)}{id}", why, tensor, rules=rules)
    for id, dtype in UNKNOWN.items():
        header = entry(dtype=compact(dtype))
        why = f"the dtype {dtype!r}, which the format lacks"
        yield bad(f"dtype-{id}", why, header, "ST-010", DTYPE_AT)
    yield from parts_of_bytes()
    data = struct.pack("<ff", float("nan"), float("-inf"))
    numbers = Tensor("n", "F32", (2,), 0, 8)
    yield Case(
        "not-finite",
        "NaN and infinity are values as any other",
        {"file": file_of(header_of(numbers), data)},
        tensors=[numbers],
        exercises="ST-013",
    )


def parts_of_bytes() -> Iterator[Case]:
    """Elements of four and six bits."""
    yield valid(
        "no-elements-of-half-a-byte",
        "a dimension of 0, and elements of half a byte",
        Tensor("z", "F4", (0,), 0, 0),
        rules="ST-012 ST-013",
    )
    for dtype, shapes in WHOLE.items():
        for shape in shapes:
            bits = DTYPES[dtype][0] * math.prod(shape)
            tensor = Tensor("t", dtype, shape, 0, bits // 8)
            why = f"{dtype} with the shape {list(shape)}, {bits} bits"
            id = f"bits-of-{slug(dtype)}-{spelled(shape)}"
            yield valid(id, why, tensor, rules="ST-012")
    yield misaligned("half-byte", "a size of 12 bits", "F4", (3,), 2)
    yield misaligned("half-byte-rounded-down", "a size of 12 bits", "F4", (3,), 1)
    yield misaligned("half-byte-scalar", "a size of 4 bits", "F4", (), 1)
    for dtype in ("F6_E2M3", "F6_E3M2"):
        yield misaligned(f"six-bits-{slug(dtype)}", "a size of 30 bits", dtype, (5,), 4)
    for dtype, shapes in BROKEN.items():
        for shape in shapes:
            bits = DTYPES[dtype][0] * math.prod(shape)
            why = f"{dtype} with the shape {list(shape)}, {bits} bits"
            id = f"bits-of-{slug(dtype)}-{spelled(shape)}"
            yield misaligned(id, why, dtype, shape, -(-bits // 8))


def misaligned(
    id: str, why: str, dtype: str, shape: tuple[int, ...], size: int
) -> Case:
    """A tensor whose bits are no whole bytes, in so many bytes."""
    header = header_of(Tensor("a", dtype, shape, 0, size))
    return bad(id, why, header, "ST-012", 1, "MisalignedSlice", size)


def spelled(shape: tuple[int, ...]) -> str:
    return "-by-".join(map(str, shape)) or "scalar"
