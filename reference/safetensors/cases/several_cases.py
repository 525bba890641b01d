"""The cases of files with several defects: which one is reported, by the order of SAFETENSORS.md 8."""

from collections.abc import Iterator

from builders import ONE, ONE_ENTRY, bad, elsewhere, extra
from case import Case, Tensor, header_of

OFFSET = ("ST-014", "InvalidOffset")
SIZE = ("ST-013", "TensorInvalidInfo")
OVERFLOW = ("ST-011", "ValidationOverflow")
BITS = ("ST-012", "MisalignedSlice")
END = ("ST-015", "MetadataIncompleteBuffer")

# One tensor that breaks several rules at once.
OF_ONE_TENSOR: dict[str, tuple[str, Tensor, tuple[str, str]]] = {
    "place-and-overflow": (
        "a hole before a tensor of 2^64 elements",
        Tensor("a", "U8", (2**32, 2**32), 1, 2),
        OFFSET,
    ),
    "place-and-bits": (
        "a hole before a tensor of 12 bits",
        Tensor("a", "F4", (3,), 1, 2),
        OFFSET,
    ),
    "place-and-size": (
        "a hole before a tensor of the wrong size",
        Tensor("a", "U8", (3,), 1, 2),
        OFFSET,
    ),
    "overflow-and-size": (
        "2^64 elements in three bytes",
        Tensor("a", "U8", (2**32, 2**32), 0, 3),
        OVERFLOW,
    ),
    "overflow-and-bits": (
        "2^64 + 4 bits in elements of half a byte",
        Tensor("a", "F4", (2**62 + 1,), 0, 1),
        OVERFLOW,
    ),
    "bits-and-size": (
        "12 bits in three bytes",
        Tensor("a", "F4", (3,), 0, 3),
        BITS,
    ),
    "size-and-end": (
        "four elements in three bytes, of which there are none",
        Tensor("a", "U8", (4,), 0, 3),
        SIZE,
    ),
}

# Texts with a defect that JSON, UTF-8 or a field has, and a second one.
OF_HEADER: dict[str, tuple[str, bytes, str, int | None, str]] = {
    "json-and-utf8": (
        "JSON that is broken before a byte that is not UTF-8",
        b'{x"\xff',
        "ST-004",
        3,
        "InvalidHeader",
    ),
    "array-and-utf8": (
        "an array with a byte that is not UTF-8",
        b"[\xff]",
        "ST-004",
        1,
        "InvalidHeader",
    ),
    "padding-and-utf8": (
        "padding with a newline, and a byte that is not UTF-8",
        b"{}\n\xff",
        "ST-004",
        3,
        "InvalidHeader",
    ),
    "dtype-and-json": (
        "an unknown dtype before the end of a text that is cut off",
        b'{"a":{"dtype":"X"',
        "ST-010",
        14,
        "InvalidHeaderDeserialization",
    ),
    "dtype-and-shape": (
        "an unknown dtype before a shape that is null",
        b'{"a":{"dtype":"X","shape":null,"data_offsets":[0,1]}}',
        "ST-010",
        14,
        "InvalidHeaderDeserialization",
    ),
    "shape-and-dtype": (
        "a shape that is null before an unknown dtype",
        b'{"a":{"shape":null,"dtype":"X","data_offsets":[0,1]}}',
        "ST-006",
        14,
        "InvalidHeaderDeserialization",
    ),
    "metadata-and-tensor": (
        "metadata that is a number before a tensor that is null",
        b'{"__metadata__":1,"a":null}',
        "ST-009",
        16,
        "InvalidHeaderDeserialization",
    ),
    "tensor-and-metadata": (
        "a tensor that is null before metadata that is a number",
        b'{"a":null,"__metadata__":1}',
        "ST-006",
        5,
        "InvalidHeaderDeserialization",
    ),
    "dtype-and-end": (
        "an unknown dtype, and data that is missing",
        b'{"a":{"dtype":"X","shape":[1],"data_offsets":[0,9]}}',
        "ST-010",
        14,
        "InvalidHeaderDeserialization",
    ),
    "dtype-and-offsets": (
        "an unknown dtype, and offsets that wrap to the header",
        b'{"a":{"dtype":"X","shape":[1],"data_offsets":[18446744073709551608,0]}}',
        "ST-010",
        14,
        "InvalidHeaderDeserialization",
    ),
    "padding-and-end": (
        "padding with NUL, and data that is missing",
        b'{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}\0',
        "ST-007",
        53,
        "InvalidHeaderDeserialization",
    ),
}


def cases() -> Iterator[Case]:
    for id, (why, tensor, (rule, error)) in OF_ONE_TENSOR.items():
        data = 0 if id == "size-and-end" else tensor.end
        header = header_of(tensor)
        yield bad(f"several-{id}", why, header, rule, 1, error, data)
    for id, (why, text, rule, at, error) in OF_HEADER.items():
        yield bad(f"several-{id}", why, text, rule, at, error, data=0)
    yield from of_two_tensors()
    yield from of_spec()


def of_two_tensors() -> Iterator[Case]:
    """The tensor whose data comes first is reported, wherever the header lists it."""
    hole = Tensor("a", "U8", (2,), 3, 5)
    for id, why, first, verdict, data in (
        (
            "size-before-hole",
            "a wrong size before a hole",
            Tensor("b", "U8", (3,), 0, 2),
            SIZE,
            5,
        ),
        (
            "overflow-before-hole",
            "an overflow before a hole",
            Tensor("b", "U8", (2**64 - 1, 2), 0, 2),
            OVERFLOW,
            5,
        ),
        (
            "bits-before-hole",
            "a size of 12 bits before a hole",
            Tensor("b", "F4", (3,), 0, 2),
            BITS,
            5,
        ),
    ):
        rule, error = verdict
        header = header_of(hole, first)
        id = f"several-{id}"
        yield bad(id, f"{why}, listed last", header, rule, '"b":', error, data)
    tensors = Tensor("a", "U8", (3,), 2, 4), Tensor("b", "U8", (3,), 0, 2)
    header = header_of(*tensors)
    why = "two tensors of the wrong size, of which the first in the data is listed last"
    yield bad("several-sizes", why, header, SIZE[0], '"b":', SIZE[1], 4)
    header = header_of(hole, Tensor("b", "U8", (2,), 0, 2))
    why = "a hole, and data that is missing"
    yield bad("several-hole-and-end", why, header, OFFSET[0], '"a":', OFFSET[1], 2)


def of_spec() -> Iterator[Case]:
    """What the library accepts comes after other defects of the header, and before those of the data."""
    short, one = Tensor("a", "U8", (2,), 0, 1), header_of(ONE)
    hole = header_of(Tensor("a", "U8", (1,), 1, 2))
    twice = "{" + ONE_ENTRY + "," + Tensor("a", "U8", (3,), 0, 3).entry() + "}"
    for id, why, header, rule, at, library, library_at in (
        (
            "space-and-hole",
            "a space before the brace, and a hole",
            " " + hole,
            "ST-005",
            0,
            OFFSET,
            2,
        ),
        (
            "line-and-size",
            "padding with a newline, and a wrong size",
            header_of(short) + "\n",
            "ST-007",
            len(header_of(short)),
            SIZE,
            1,
        ),
        (
            "null-and-hole",
            "metadata of null, and a hole",
            '{"__metadata__":null,' + hole[1:],
            "ST-009",
            16,
            OFFSET,
            21,
        ),
        (
            "key-and-hole",
            "an ignored key twice, and a hole",
            hole[:-2] + ',"x":0,"x":0}}',
            "ST-008",
            len(hole) - 2 + len(',"x":0,'),
            OFFSET,
            1,
        ),
        (
            "list-and-size",
            "a tensor as a list, and a wrong size",
            '{"a":["U8",[2],[0,1]]}',
            "ST-006",
            5,
            SIZE,
            1,
        ),
        (
            "dtype-object-and-bits",
            "a dtype as an object, and a size of 12 bits",
            '{"a":{"dtype":{"F4":null},"shape":[3],"data_offsets":[0,1]}}',
            "ST-006",
            14,
            BITS,
            1,
        ),
        (
            "twice-and-end",
            "a tensor twice, and data that is missing",
            twice,
            "ST-008",
            len(ONE_ENTRY) + 2,
            END,
            len(twice) + 1,
        ),
        (
            "space-and-dtype",
            "a space before the brace, and an unknown dtype",
            " " + one.replace("U8", "X"),
            "ST-005",
            0,
            ("ST-010", "InvalidHeaderDeserialization"),
            15,
        ),
        (
            "space-and-nul",
            "a space before the brace, and padding with NUL",
            " " + one + "\0",
            "ST-005",
            0,
            ("ST-007", "InvalidHeaderDeserialization"),
            1 + len(one),
        ),
    ):
        case = bad(f"several-{id}", why, header, rule, at, library[1])
        yield elsewhere(case, library_at, library[0])
    for id, why, header, rule, fault in (
        (
            "twice-and-dtype",
            "a tensor twice, before a tensor of an unknown dtype",
            "{" + ONE_ENTRY + "," + ONE_ENTRY + ',"b":{"dtype":"X"}}',
            "ST-010",
            '"X"',
        ),
        (
            "key-and-shape",
            "an ignored key twice, before a shape that is null",
            '{"a":{"x":0,"x":0,"shape":null}}',
            "ST-006",
            "null",
        ),
        (
            "null-and-tensor",
            "metadata of null, before a tensor that is a number",
            '{"__metadata__":null,"a":7}',
            "ST-006",
            "7",
        ),
    ):
        yield bad(f"several-{id}", why, header, rule, fault)
    header = extra('{"x":0,"x":0}')
    why = "an ignored key twice, before padding with NUL"
    yield bad("several-keys-and-nul", why, header + "\0", "ST-007", len(header))
