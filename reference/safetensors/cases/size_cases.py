"""The cases of a tensor's size: products that overflow or wrap, and offsets that span another size."""

from collections.abc import Iterator

from builders import bad, valid
from case import DTYPES, Case, Tensor, header_of, slug

# Dimensions at which narrower integers and floats end.
LIMITS = {
    "below-2-31": 2**31 - 1,
    "2-31": 2**31,
    "below-2-32": 2**32 - 1,
    "2-32": 2**32,
    "2-53-and-one": 2**53 + 1,
    "below-2-63": 2**63 - 1,
    "2-63": 2**63,
    "below-2-64": 2**64 - 1,
}

Shape = tuple[int, ...]

# Shapes of 2^64 bits or more. The size in bytes is what arithmetic that wraps makes of them.
OVERFLOWS: dict[str, tuple[str, str, Shape, int]] = {
    "product-overflow": ("2^64 elements", "U8", (2**32, 2**32), 1),
    "overflow-before-zero": (
        "an overflow that a later zero does not take back",
        "U8",
        (2**64 - 1, 2, 0),
        0,
    ),
    "overflow-of-squares-before-zero": (
        "an overflow of two equal dimensions, which a zero follows",
        "U8",
        (2**32, 2**32, 0),
        0,
    ),
    "overflow-of-63-bits-before-zero": (
        "an overflow of 2^63 and 2, which a zero follows",
        "U8",
        (2**63, 2, 0),
        0,
    ),
    "wrap-64-to-none": (
        "2^64 elements, which wrap to none",
        "U8",
        (2**32, 2**32),
        0,
    ),
    "wrap-64-to-two": (
        "2^64 + 2 elements, which wrap to two",
        "U8",
        (2**63 + 1, 2),
        2,
    ),
    "wrap-64-of-minus-one": (
        "the square of 2^64 - 1, which wraps to one",
        "U8",
        (2**64 - 1, 2**64 - 1),
        1,
    ),
    "wrap-64-of-bytes": (
        "a size of 2^64 + 4 bytes, which wraps to four",
        "F32",
        (2**62 + 1,),
        4,
    ),
    "wrap-64-of-bits": (
        "a size of 2^64 + 8 bits, which wraps to one byte",
        "U8",
        (2**61 + 1,),
        1,
    ),
    "wrap-64-of-half-bytes": (
        "a size of 2^64 + 8 bits in elements of half a byte",
        "F4",
        (2**62 + 2,),
        1,
    ),
    "bits-overflow": ("a size of 2^64 bits", "U8", (2**61,), 2**61),
    "bits-overflow-of-half-bytes": (
        "a size of 2^64 bits in elements of half a byte",
        "F4",
        (2**62,),
        2**61,
    ),
    "bits-overflow-of-f64": ("a size of 2^64 bits in F64", "F64", (2**58,), 2**61),
    "bits-overflow-of-all": (
        "as many elements as 64 bits count",
        "U8",
        (2**64 - 1,),
        2**64 - 1,
    ),
    "size-overflow": ("a size of 2^64 bytes", "U64", (2**61,), 0),
}

# Shapes below 2^64 bits, with the size in bytes that narrower arithmetic makes of them.
WRAPS: dict[str, tuple[str, str, Shape, int]] = {
    "wrap-32-of-dimension": ("a dimension that wraps to 1", "U8", (2**32 + 1,), 1),
    "wrap-32-to-none": (
        "2^32 elements, which wrap to none",
        "U8",
        (2**16, 2**16),
        0,
    ),
    "wrap-32-of-product": (
        "a product that wraps to two in 32 bits",
        "U8",
        (2**31 + 1, 2),
        2,
    ),
    "wrap-32-of-bytes": (
        "a size in bytes that wraps to four in 32 bits",
        "F32",
        (2**30 + 1,),
        4,
    ),
    "wrap-32-of-bits": (
        "a size in bits that wraps to eight in 32 bits",
        "U8",
        (2**29 + 1,),
        1,
    ),
    "wrap-16-of-dimension": ("a dimension that wraps to 2", "U8", (2**16 + 2,), 2),
    "wrap-8-of-dimension": ("a dimension that wraps to 3", "U8", (2**8 + 3,), 3),
    "rounded-by-float": (
        "a dimension that floats round",
        "U8",
        (2**53 + 1,),
        2**53,
    ),
}

# Sizes that other things than the shape give.
OTHER_SIZES: dict[str, tuple[str, str, Shape, int]] = {
    "size-too-small": ("five elements of one byte in one byte", "U8", (5,), 1),
    "size-too-large": ("no elements in one byte", "U8", (0,), 1),
    "size-of-elements": ("offsets that count elements, not bytes", "F32", (1,), 1),
    "size-of-zero": ("one element of one byte in no byte", "U8", (1,), 0),
    "size-of-f4-in-bytes": ("a byte for each element of F4", "F4", (4,), 4),
    "size-of-f6-in-bytes": ("a byte for each element of F6_E2M3", "F6_E2M3", (4,), 4),
    "size-of-bool-in-bits": ("a bit for each element of BOOL", "BOOL", (8,), 1),
    "size-of-bf16-in-four": ("four bytes for a BF16", "BF16", (1,), 4),
    "size-of-c64-in-four": ("four bytes for a C64", "C64", (1,), 4),
    "size-of-c64-in-sixteen": ("sixteen bytes for a C64", "C64", (1,), 16),
    "size-of-scalar-none": ("a scalar in no byte", "F32", (), 0),
    "size-of-scalar-two": ("a scalar in the bytes of two", "F32", (), 8),
    "size-of-sum": ("the sum of the dimensions, not the product", "U8", (3, 4), 7),
    "size-of-first": ("the first dimension alone", "U8", (3, 4), 3),
    "size-of-last": ("the last dimension alone", "U8", (3, 4), 4),
    "size-of-zero-left-out": ("a dimension of zero, left out", "U8", (3, 0), 3),
    "size-aligned": ("a size that is rounded up to eight bytes", "U8", (5,), 8),
    "size-to-last-offset": ("one byte that ends at 2^64 - 1", "U8", (1,), 2**64 - 1),
    "size-much-too-large": ("a thousand elements in four bytes", "F32", (1000,), 4),
}

# A dtype of each number of bits.
ONE_OF_EACH = ("BOOL", "F4", "F6_E2M3", "F8_E4M3", "BF16", "F32", "C64")


def cases() -> Iterator[Case]:
    yield from accepted()
    for table, rule, error in (
        (OVERFLOWS, "ST-011", "ValidationOverflow"),
        (WRAPS, "ST-013", "TensorInvalidInfo"),
        (OTHER_SIZES, "ST-013", "TensorInvalidInfo"),
    ):
        for id, (why, dtype, shape, size) in table.items():
            header = header_of(Tensor("a", dtype, shape, 0, size))
            # Sizes that no file here has are claims.
            data = size if size < 1000 else 1
            yield bad(id, why, header, rule, 1, error, data)
    yield from by_one_byte()
    yield from two_tensors()


def accepted() -> Iterator[Case]:
    yield valid(
        "scalar",
        "a shape without dimensions",
        Tensor("s", "F64", (), 0, 8),
        rules="ST-013",
    )
    yield valid(
        "no-elements",
        "a dimension of 0",
        Tensor("z", "F32", (3, 0), 0, 0),
        rules="ST-013",
    )
    for id, why, shape in (
        (
            "zero-before-huge",
            "dimensions whose product is 0 before it can overflow",
            (0, 2**64 - 1, 2),
        ),
        (
            "zero-between-huge",
            "a zero between dimensions that would overflow",
            (2**63, 0, 2**63),
        ),
    ):
        yield valid(id, why, Tensor("z", "U8", shape, 0, 0), rules="ST-011")
    for id, size in LIMITS.items():
        why = f"a dimension of {size}, and a zero"
        tensor = Tensor("z", "F64", (size, 0), 0, 0)
        yield valid(f"zero-after-{id}", why, tensor, rules="ST-011")
    yield valid(
        "many-dimensions",
        "more dimensions than any library has",
        Tensor("m", "U8", (1,) * 300, 0, 1),
    )
    for count in (8, 9, 32, 33, 64, 65):
        why = f"{count} dimensions, of which one is larger than one"
        tensor = Tensor("m", "U8", (1,) * (count - 1) + (2,), 0, 2)
        yield valid(f"dimensions-{count}", why, tensor, rules="ST-013")


def by_one_byte() -> Iterator[Case]:
    """For each number of bits: offsets, and data, that are a byte shorter or longer than the shape says."""
    for dtype in ONE_OF_EACH:
        size = DTYPES[dtype][0]  # of eight elements, in bytes
        for id, by in (("shorter", -1), ("longer", 1)):
            header = header_of(Tensor("a", dtype, (8,), 0, size + by))
            than = f"{id} than eight elements of {dtype}"
            id = f"{id}-{slug(dtype)}"
            why = f"data_offsets that are one byte {than}"
            error = "TensorInvalidInfo"
            yield bad(f"size-{id}", why, header, "ST-013", 1, error, size + by)
            header = header_of(Tensor("a", dtype, (8,), 0, size))
            why = f"data that is one byte {than}"
            at = len(header) + min(size, size + by)
            error = "MetadataIncompleteBuffer"
            yield bad(f"data-{id}", why, header, "ST-015", at, error, size + by)
    for id, dtype, count, size in (
        ("u8", "U8", 2**61 - 1, 2**61 - 1),
        ("f64", "F64", 2**58 - 1, 2**61 - 8),
        ("f4", "F4", 2**62 - 2, 2**61 - 1),
    ):
        header = header_of(Tensor("a", dtype, (count,), 0, size))
        why = f"the most elements of {dtype} that 2^64 bits allow, of which there is a byte"
        error = "MetadataIncompleteBuffer"
        yield bad(f"data-of-most-{id}", why, header, "ST-015", len(header) + 1, error)


def two_tensors() -> Iterator[Case]:
    """Offsets that fit the neighbour, but not the shape."""
    error = "TensorInvalidInfo"
    for id, why, first, second, fault in (
        (
            "sizes-swapped",
            "two tensors, each with the size of the other",
            ((2,), 0, 3),
            ((3,), 3, 5),
            "a",
        ),
        (
            "offsets-swapped",
            "two tensors, each with the place of the other",
            ((2,), 2, 5),
            ((3,), 0, 2),
            "b",
        ),
        (
            "second-too-long",
            "a second tensor of more bytes than its shape says",
            ((2,), 0, 2),
            ((2,), 2, 5),
            "b",
        ),
        (
            "offset-and-length",
            "offsets and lengths in place of offsets",
            ((2,), 0, 2),
            ((3,), 2, 3),
            "b",
        ),
    ):
        tensors = [
            Tensor(name, "U8", shape, begin, end)
            for name, (shape, begin, end) in (("a", first), ("b", second))
        ]
        data = max(tensor.end for tensor in tensors)
        header = header_of(*tensors)
        yield bad(id, why, header, "ST-013", f'"{fault}":', error, data)
