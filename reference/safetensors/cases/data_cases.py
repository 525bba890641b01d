"""The cases of where data lies: holes, overlaps, tensors without elements, offsets that wrap, the end of the file."""

from collections.abc import Iterator

from builders import ONE, bad, valid
from case import Case, Tensor, header_of

Place = tuple[int, int]

# The places of several tensors of one byte per element, in the order of the header, and which one is at fault.
WRONG_PLACES: dict[str, tuple[str, list[Place], int]] = {
    "begin-not-0": ("data that begins at 1", [(1, 2)], 0),
    "begin-at-8": ("data that begins at 8", [(8, 9)], 0),
    "end-first": ("data that ends before it begins", [(1, 0)], 0),
    "end-first-of-second": ("a second tensor that ends first", [(0, 2), (2, 0)], 1),
    "end-first-within": ("a tensor that ends inside another", [(0, 4), (4, 2)], 1),
    "hole": ("a hole between two tensors", [(0, 2), (3, 5)], 1),
    "hole-to-align": ("a hole that aligns the second to 8", [(0, 2), (8, 10)], 1),
    "hole-of-64": ("a hole that aligns the second to 64", [(0, 2), (64, 66)], 1),
    "hole-of-several": (
        "a hole before the last of three, listed first",
        [(5, 6), (0, 2), (2, 4)],
        0,
    ),
    "holes-two": ("two holes, of which the first counts", [(7, 8), (0, 1), (3, 4)], 2),
    "overlap": ("an overlap between two tensors", [(0, 2), (1, 3)], 1),
    "overlap-from-0": ("two tensors that begin at 0", [(0, 2), (0, 3)], 1),
    "overlap-at-end": ("two tensors that end together", [(0, 4), (2, 4)], 1),
    "overlap-of-last": ("an overlap of the last", [(0, 2), (2, 4), (3, 5)], 2),
    "overlap-and-hole": (
        "an overlap and a hole that cancel out",
        [(0, 2), (1, 3), (4, 5)],
        1,
    ),
    "same-data": ("two tensors with the same data", [(0, 2), (0, 2)], 1),
    "same-data-of-three": (
        "a tensor with the data of another",
        [(0, 2), (2, 4), (2, 4)],
        2,
    ),
    "within": ("a tensor inside the data of another", [(0, 4), (1, 3)], 1),
    "zero-within": ("a tensor of no element inside another", [(0, 2), (1, 1)], 1),
    "empty-within-first": (
        "the same, but listed first",
        [(1, 1), (0, 2)],
        0,
    ),
    "empty-at-1-alone": ("a tensor of no element at 1, alone", [(1, 1)], 0),
    "empty-after-end": ("a tensor of no element after the end", [(0, 2), (3, 3)], 1),
    "empty-before-hole": (
        "a tensor of no element in a hole",
        [(0, 1), (2, 2), (3, 4)],
        1,
    ),
    "empty-in-hole-of-two": (
        "two tensors of no element, one in a hole",
        [(0, 1), (1, 1), (2, 2)],
        2,
    ),
    "empty-at-last": (
        "a tensor of no element at 2^64 - 1",
        [(0, 1), (2**64 - 1, 2**64 - 1)],
        1,
    ),
    "empty-end-first": ("a tensor of no element that ends first", [(0, 1), (1, 0)], 1),
    "offsets-of-file": ("offsets from the beginning of the file", [(60, 62)], 0),
    "offsets-huge": ("data that ends near 2^64", [(2**64 - 2, 2**64 - 1)], 0),
    "offsets-2-32": (
        "an offset that wraps to 0 in 32 bits",
        [(2**32, 2**32 + 1)],
        0,
    ),
    "offsets-2-53": ("an offset that floats round", [(2**53 + 1, 2**53 + 2)], 0),
    "offsets-2-63": (
        "an offset that is negative as signed",
        [(2**63, 2**63 + 1)],
        0,
    ),
}

# Offsets that wrap: what is added to them, or subtracted from each other, fits a file of few bytes.
WRAPPING: dict[str, tuple[str, int, Place]] = {
    "wrap-to-header": (
        "offsets that wrap to the last byte of the header",
        1,
        (2**64 - 1, 2**64 - 1),
    ),
    "wrap-to-header-of-eight": (
        "offsets that wrap to the last bytes of the header",
        7,
        (2**64 - 8, 2**64 - 1),
    ),
    "wrap-into-data": (
        "offsets that begin in the header and wrap into the data",
        8,
        (2**64 - 8, 0),
    ),
    "wrap-around-zero": ("offsets that wrap around 0", 9, (2**64 - 8, 1)),
    "wrap-difference": (
        "an end before the beginning, whose difference wraps",
        2**64 - 2,
        (2, 0),
    ),
    "wrap-difference-32": (
        "an end before the beginning, whose difference wraps in 32 bits",
        2**32 - 1,
        (1, 0),
    ),
}

# What may follow the last tensor, and does not belong to a file.
TRAILERS = {
    "line": ("a newline", b"\n"),
    "zeros": ("eight zero bytes", bytes(8)),
    "padding": ("zeros up to 64 bytes", bytes(63)),
    "zip": ("an empty ZIP archive", b"PK\5\6" + bytes(18)),
    "pickle": ("a pickle", b"\x80\2N."),
    "file": ("a whole second file", b"\2\0\0\0\0\0\0\0{}"),
}


def cases() -> Iterator[Case]:
    yield from accepted()
    for id, (why, places, fault) in WRONG_PLACES.items():
        tensors = [
            Tensor(name, "U8", (abs(end - begin),), begin, end)
            for name, (begin, end) in zip("abc", places)
        ]
        yield wrong_place(id, why, tensors, tensors[fault].name)
    for id, (why, size, (begin, end)) in (WRAPPING | to_length()).items():
        yield wrong_place(id, why, [Tensor("a", "U8", (size,), begin, end)], "a")
    yield from ends()


def to_length() -> dict[str, tuple[str, int, Place]]:
    """Offsets that wrap to the length of the header, at the beginning of the file."""
    places = [(2**64 - 100, 2**64 - 92)]
    # All offsets near 2^64 have the same number of digits.
    for _ in range(2):
        begin, end = places[-1]
        header = header_of(Tensor("a", "U8", (8,), begin, end))
        places.append((2**64 - 8 - len(header), 2**64 - len(header)))
    why = "offsets that wrap to the length of the header"
    return {"wrap-to-length": (why, 8, places[-1])}


def wrong_place(id: str, why: str, tensors: list[Tensor], fault: str) -> Case:
    """A file with as many bytes as the last offset asks for, if that is a file of this corpus."""
    header = header_of(*tensors)
    data = max(max(tensor.begin, tensor.end) for tensor in tensors)
    data = data if data < 1000 else 1
    return bad(id, why, header, "ST-014", f'"{fault}":', "InvalidOffset", data)


def empty(name: str, at: int, shape: tuple[int, ...] = (0,)) -> Tensor:
    return Tensor(name, "U8", shape, at, at)


def accepted() -> Iterator[Case]:
    first, second = Tensor("a", "U8", (3,), 0, 3), Tensor("b", "I8", (2,), 3, 5)
    yield valid(
        "one",
        "a tensor of one byte",
        ONE,
        rules="ST-001 ST-002 ST-003 ST-004 ST-005 ST-006 ST-007 ST-008 ST-010 ST-011 ST-012 ST-013 ST-014 ST-015",
    )
    yield valid("empty-header", "no tensor at all", header="{}")
    yield valid(
        "no-elements-in-between",
        "tensors without elements at the beginning, at a border and at the end",
        empty("z0", 0),
        first,
        empty("z1", 3, (0, 5)),
        second,
        Tensor("z2", "U64", (0,), 5, 5),
        rules="ST-014",
    )
    for id, why, tensors in (
        ("only", "a tensor without elements, and no data", [empty("z", 0)]),
        (
            "only-three",
            "three tensors without elements, and no data",
            [empty("y", 0), empty("z", 0, (5, 0)), empty("x", 0, (0, 2**40))],
        ),
        (
            "three-at-begin",
            "three tensors without elements at 0, around another",
            [empty("z", 0), empty("y", 0), first, empty("x", 0)],
        ),
        (
            "three-at-border",
            "three tensors without elements at a border, listed apart",
            [empty("z", 3), first, empty("y", 3), second, empty("x", 3)],
        ),
        (
            "three-at-end",
            "three tensors without elements at the end, listed apart",
            [empty("z", 3), first, empty("y", 3), empty("x", 3)],
        ),
        (
            "listed-after-first",
            "a tensor without elements at 0, listed after the one that begins there",
            [first, empty("z", 0)],
        ),
        (
            "listed-after-second",
            "a tensor without elements at a border, listed after both neighbours",
            [first, second, empty("z", 3)],
        ),
        (
            "listed-before-all",
            "a tensor without elements at the end, listed first",
            [empty("z", 5), first, second],
        ),
        (
            "of-wide-dtype",
            "a tensor without elements of eight bytes at an odd offset",
            [first, Tensor("z", "F64", (0,), 3, 3)],
        ),
    ):
        yield valid(f"no-elements-{id}", why, *tensors, rules="ST-014")
    yield valid(
        "not-in-order",
        "the header lists the tensors in another order than that of their data",
        Tensor("b", "U8", (2,), 3, 5),
        first,
        rules="ST-014",
    )
    yield valid(
        "not-aligned",
        "nothing aligns an F32 at 1",
        ONE,
        Tensor("b", "F32", (1,), 1, 5),
        rules="ST-014",
    )
    for dtype, size in (("F16", 2), ("F64", 8), ("C64", 8)):
        yield valid(
            f"not-aligned-{dtype.lower()}",
            f"two elements of {dtype} at 1, which nothing aligns",
            ONE,
            Tensor("b", dtype, (2,), 1, 1 + 2 * size),
            rules="ST-014",
        )
    reverse = [Tensor(f"t{i}", "U8", (1,), i, i + 1) for i in reversed(range(12))]
    why = "twelve tensors, listed from the last to the first"
    yield valid("listed-in-reverse", why, *reverse, rules="ST-014")


def ends() -> Iterator[Case]:
    """Data and file end at different bytes."""
    header = header_of(ONE)
    error = "MetadataIncompleteBuffer"
    huge = header_of(Tensor("a", "U8", (2**60,), 0, 2**60))
    three = header_of(
        *(
            Tensor(name, "U8", (2,), i, i + 2)
            for i, name in ((0, "a"), (2, "b"), (4, "c"))
        )
    )
    for id, why, text, at, count in (
        ("data-cut", "no data for a tensor of one byte", header, 0, 0),
        ("data-behind", "two bytes for a tensor of one", header, 1, 2),
        ("data-of-nobody", "a byte of data that is no tensor's", "{}", 0, 1),
        ("data-huge", "a byte of data for 2^60", huge, 1, 1),
        ("data-cut-at-border", "the last of three tensors is missing", three, 4, 4),
        ("data-cut-in-first", "the data ends inside the first of three", three, 1, 1),
        ("data-none-of-three", "three tensors, and no data", three, 0, 0),
    ):
        yield bad(id, why, text, "ST-015", len(text) + at, error, count)
    empty_only = header_of(empty("z", 0))
    why = "a byte after a tensor without elements"
    yield bad("data-after-empty", why, empty_only, "ST-015", len(empty_only), error)
    for id, (what, trailer) in TRAILERS.items():
        why = f"{what} after the data"
        at = len(header) + 1
        yield bad(f"trailer-{id}", why, header, "ST-015", at, error, b"\1" + trailer)
    # The end of the data, and of the header before it, is beyond 2^64.
    most = 2**61 - 1
    tensors = [
        Tensor(f"t{i}", "U8", (most,), i * most, (i + 1) * most) for i in range(8)
    ]
    tensors.append(Tensor("t8", "U8", (7,), 8 * most, 2**64 - 1))
    text = header_of(*tensors)
    why = "nine tensors whose data ends at 2^64 - 1, without a byte of it"
    yield bad("data-wraps", why, text, "ST-015", len(text), error, 0)
