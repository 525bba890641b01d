"""Cases of dtypes: every plain, opaque and foreign type, and spellings that name none."""

from collections.abc import Iterator

import builder
from builder import File, Tensor
from case import Case
from recipe import Recipe

SEED = 500

OPAQUE_ITEM_BYTES = {
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "bits8": 1,
    "bfloat16": 2,
    "complex32": 4,
}


def cases() -> Iterator[Case]:
    recipe = Recipe("dtypes", SEED)
    yield from plain_types(recipe)
    yield from opaque_types(recipe)
    yield from foreign_types(recipe)


def of_dtype(dtype: str, data_version: int, items: int = 3) -> File:
    """One tensor of a type that has an element size."""
    return File.of([Tensor(["a"], dtype, [items])], data_version, SEED)


def of_bytes(dtype: bytes, size_bytes: int, data_version: int = 1) -> File:
    """One tensor of a type that need not be one, with two elements of the size that a lax reader would take."""
    file = File.of(
        [Tensor(["a"], dtype.decode("latin-1"), [2], data=bytes(2 * size_bytes))],
        data_version,
        SEED,
    )
    return file


def without_elements(dtype: str) -> File:
    """One tensor without elements, so that nothing but the type can be wrong."""
    return File.of([Tensor(["a"], dtype, [0], data=b"")], 1, SEED)


def plain_types(recipe: Recipe) -> Iterator[Case]:
    for code, torch_name in builder.PLAIN_DTYPES.items():
        mark = "|" if code[1:] == "1" else "<"
        yield recipe.valid(
            f"dtype-{torch_name}",
            of_dtype(mark + code, 1),
            "DTY-001",
            f"The plain dtype {mark}{code}.",
        )
        if code[1:] != "1":
            yield recipe.valid(
                f"dtype-{torch_name}-big-endian",
                of_dtype(">" + code, 1),
                "DTY-001",
                f"Big-endian {torch_name}, as 1.x stores it; the bytes stay as they are.",
            )
    for mark, name in {"<": "little", ">": "big"}.items():
        yield recipe.valid(
            f"dtype-uint8-{name}",
            of_dtype(mark + "u1", 1),
            "DTY-001 DTY-006",
            "A type of one byte has no byte order, but its mark says one, which readers ignore.",
        )
    for name, dtype, size_bytes in (
        ("none", b"", 8),
        ("short", b"<f", 4),
        ("object", b"|O", 8),
        ("object-sized", b"|O8", 8),
        ("float3", b"<f3", 3),
        ("float128", b"<f16", 16),
        ("complex256", b"<c32", 32),
        ("int3", b"<i3", 3),
        ("bool2", b"<b2", 2),
        ("size-zero", b"|u0", 0),
        ("leading-zero", b"<f04", 4),
        ("native", b"=f4", 4),
        ("no-order-possible", b"|f4", 4),
        ("space", b"<f4 ", 4),
        ("newline", b"<f4\n", 4),
        ("capital", b"<F4", 4),
        ("letter", b"<q9", 9),
        ("structured", b"<f4,<i4", 8),
        ("sub-array", b"(2,)<f4", 8),
        ("not-utf8", b"<f\xff", 4),
        ("text", b"x" * 255, 4),
    ):
        yield recipe.refused(
            f"dtype-unknown-{name}",
            of_bytes(dtype, size_bytes),
            "DTY-001",
            f"{ascii(dtype.decode('latin-1')) if len(dtype) < 20 else 'A text of 255 letters'} is no dtype.",
        )
    for name, dtype in {"no-order": b"f4", "numpy-name": b"float32"}.items():
        case = recipe.open(
            f"dtype-spelling-{name}",
            of_bytes(dtype, 4),
            "DTY-001",
            f"numpy takes {dtype.decode()} for a type, but no writer stores it.",
            "dtype-spelling",
        )
        case.expected["tensors"][0]["dtype"] = "float32"
        yield case


def opaque_types(recipe: Recipe) -> Iterator[Case]:
    for name, size_bytes in OPAQUE_ITEM_BYTES.items():
        id_ = name.replace("_", "-")
        for mark, spelling in {"|": "none", "<": "little"}.items():
            dtype = f"{mark}V{size_bytes}\0torch.{name}"
            if size_bytes == 1:
                yield recipe.valid(
                    f"dtype-{id_}-order-{spelling}",
                    of_dtype(dtype, 2),
                    "DTY-002 DTY-003 DTY-004",
                    f"The opaque dtype torch.{name}, spelled {mark}V1.",
                )
            elif mark == "<":
                yield recipe.valid(
                    f"dtype-{id_}",
                    of_dtype(dtype, 2),
                    "DTY-002 DTY-003 DTY-004",
                    f"The opaque dtype torch.{name}.",
                )
            else:
                yield recipe.open(
                    f"dtype-{id_}-order-none",
                    of_dtype(dtype, 2),
                    "DTY-001",
                    f"The opaque dtype torch.{name}, spelled {mark}V{size_bytes}, which no writer does.",
                    "opaque-byte-order",
                )
    yield recipe.valid(
        "dtype-float8-of-no-release",
        of_dtype("|V1\0torch.float8_e3m4", 2),
        "DTY-003 DTY-004",
        "A float8 type that no release of torch has is opaque all the same, and listed by its name.",
    )
    yield recipe.refused(
        "dtype-opaque-accent",
        of_bytes("|V1\0torch.float8_é".encode(), 1, 2),
        "DTY-003",
        "What follows torch.float8_ is a letter that is not ASCII.",
    )
    for id_, name, size_bytes in (
        ("future", "float1024", 2),
        ("bits16", "bits16", 2),
        ("module", "nn", 2),
        ("quantised", "quint8", 1),
    ):
        yield recipe.open(
            f"dtype-opaque-{id_}",
            of_dtype(f"<V{size_bytes}\0torch.{name}", 2),
            "DTY-003",
            f"torch.{name} is none of the opaque dtypes that writers store.",
            "unknown-opaque-dtype",
        )
    for id_, dtype in (
        ("foreign-module", b"<V2\0os.system"),
        ("no-module", b"<V2\0bfloat16"),
        ("capital-module", b"<V2\0Torch.bfloat16"),
    ):
        yield recipe.refused(
            f"dtype-opaque-{id_}",
            of_bytes(dtype, 2, 2),
            "DTY-003",
            f"The opaque name {dtype[4:].decode()} does not begin with torch.",
        )
    yield recipe.refused(
        "dtype-opaque-attribute",
        of_dtype("|V1\0torch.float8_e4m3fn.real", 2),
        "DTY-003",
        "An 8-bit float is followed by a dot and an attribute.",
    )
    for id_, dtype in (("no-name", b"<V2\0"), ("only-module", b"<V2\0torch.")):
        yield recipe.refused(
            f"dtype-opaque-{id_}",
            of_bytes(dtype, 2, 2),
            "DTY-003 DTY-002",
            "The NUL byte is not followed by a name.",
        )
    for id_, dtype, size_bytes, why in (
        ("two-separators", b"<V2\0torch.bfloat16\0", 2, "There is a second NUL byte."),
        (
            "on-plain",
            b"<f4\0torch.float32",
            4,
            "A plain type is followed by an opaque name.",
        ),
        (
            "on-plain-of-its-size",
            b"<i2\0torch.bfloat16",
            2,
            "A plain type is followed by the name of an opaque type that has the same element size.",
        ),
        (
            "big-endian",
            b">V2\0torch.bfloat16",
            2,
            "An opaque type is marked as big-endian.",
        ),
    ):
        rules = "DTY-002" if id_ == "two-separators" else "DTY-002 DTY-001"
        yield recipe.refused(
            f"dtype-opaque-{id_}", of_bytes(dtype, size_bytes, 2), rules, why
        )
    yield recipe.refused(
        "dtype-opaque-bare",
        of_bytes(b"<V2", 2, 2),
        "DTY-002 DTY-001",
        "A void type without a torch name.",
    )
    for name, size_bytes in (
        ("bfloat16", 4),
        ("bfloat16", 1),
        ("float8_e5m2", 2),
        ("complex32", 8),
    ):
        yield recipe.refused(
            f"dtype-opaque-{name.replace('_', '-')}-of-{size_bytes}",
            of_dtype(f"<V{size_bytes}\0torch.{name}", 2),
            "DTY-004",
            f"Elements of torch.{name} have {OPAQUE_ITEM_BYTES[name]} bytes, not {size_bytes}.",
        )

    yield recipe.refused(
        "dtype-opaque-bfloat16-of-4-on-2",
        of_bytes(b"<V4\0torch.bfloat16", 2, 2),
        "DTY-004 IDX-006",
        "The dtype says 4 bytes per element of torch.bfloat16, and the data has the right 2.",
    )


def foreign_types(recipe: Recipe) -> Iterator[Case]:
    for name, dtype in {
        "bytes": "|S5",
        "unicode": "<U3",
        "unicode-big-endian": ">U3",
        "datetime": "<M8[ns]",
        "timedelta": "<m8[s]",
    }.items():
        yield recipe.valid(
            f"dtype-foreign-{name}",
            of_dtype(dtype, 1),
            "DTY-001 DTY-005",
            f"{dtype} is listed with no torch dtype; its bytes can be read and verified.",
        )
    for name, dtype, size_bytes in (
        ("datetime-no-unit", b"<M8[", 8),
        ("datetime-bad-unit", b"<M8[parsec]", 8),
        ("datetime-size", b"<M4[ns]", 4),
        ("datetime-multiplier-0", b"<M8[0s]", 8),
        ("datetime-multiplier-01", b"<M8[01s]", 8),
        ("datetime-generic", b"<M8[generic]", 8),
        ("datetime-divisor", b"<M8[ns/2]", 8),
        ("bytes-no-size", b"|S", 0),
        ("bytes-arabic-digit", "|S\u0663".encode(), 3),
    ):
        yield recipe.refused(
            f"dtype-foreign-{name}",
            of_bytes(dtype, size_bytes),
            "DTY-001 IDX-006",
            f"{dtype.decode()} is not a type.",
            features=["foreign-dtype"],
        )
    for name, within, beyond in (
        ("bytes", "|S2147483647", "|S2147483648"),
        ("unicode", "<U536870911", "<U536870912"),
        ("multiplier", "<M8[2147483647s]", "<M8[2147483648s]"),
    ):
        yield recipe.valid(
            f"dtype-foreign-{name}-largest",
            without_elements(within),
            "DTY-001 DTY-005",
            f"{within} is the largest type of its kind.",
        )
        yield recipe.refused(
            f"dtype-foreign-{name}-too-large",
            without_elements(beyond),
            "DTY-001",
            f"{beyond} is one above the largest type of its kind.",
            features=["foreign-dtype"],
        )
    for name, dtype in {
        "bytes-0": "|S0",
        "unicode-0": "<U0",
        "bytes-2-32": "|S4294967296",
        "unicode-2-30": "<U1073741824",
        "bytes-2-64": "|S18446744073709551616",
        **{
            f"{name}-2-{bits}-plus-1": dtype.format((1 << bits) + 1)
            for name, dtype, bits in (
                ("bytes", "|S{}", 32),
                ("bytes", "|S{}", 64),
                ("unicode", "<U{}", 30),
                ("multiplier", "<M8[{}s]", 32),
                ("multiplier", "<M8[{}s]", 64),
            )
        },
    }.items():
        yield recipe.refused(
            f"dtype-foreign-{name}",
            without_elements(dtype),
            "DTY-001",
            f"A number of {dtype} is 0, or beyond the limit by more than 32 bits hold.",
            features=["foreign-dtype"],
        )
