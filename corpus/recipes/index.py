"""Cases of the index: its extent, the fields of its entries, and the offsets that lead into the file."""

from collections.abc import Callable, Iterator

from builder import File, Tensor
from case import Case
from recipe import Recipe, two_tensors

SEED = 200


def cases() -> Iterator[Case]:
    recipe = Recipe("index", SEED)

    def file(change: Callable[[File], None] | None = None) -> File:
        made = two_tensors(seed=SEED)
        if change is not None:
            change(made)
        return made

    yield from extent(recipe, file)
    yield from fields(recipe, file)
    yield from offsets(recipe, file)


def extent(recipe: Recipe, file: Callable[..., File]) -> Iterator[Case]:
    """Where the index ends, and what lies between its last entry and there."""
    for size_bytes in (1, 8, 300):
        reserve = file()
        reserve.index_padding = bytes(size_bytes)
        yield recipe.valid(
            f"index-reserve-{size_bytes}",
            reserve,
            "IDX-001 IDX-003",
            f"The index reserves {size_bytes} bytes of zeros for more entries.",
        )
    large = file()
    large.index_padding = bytes((256 << 10) + 1)
    yield recipe.valid(
        "index-reserve-large",
        large,
        "IDX-001 IDX-003",
        "The index is larger than the 262,144 bytes that upstream reserves.",
        features=["large-index"],
    )
    for name, padding in {"ones": b"\xff" * 16, "last": bytes(15) + b"\x01"}.items():
        dirty = file()
        dirty.index_padding = padding
        yield recipe.refused(
            f"index-reserve-{name}",
            dirty,
            "IDX-003",
            f"The room behind the entries holds {padding.hex(' ')}.",
        )
    fewer = file()
    fewer.count = 1
    yield recipe.refused(
        "index-count-one-of-two",
        fewer,
        "IDX-003",
        "The count leaves one entry of the index out.",
    )

    size_bytes = len(file().encode())
    for name, length in {
        "one-too-long": size_bytes - 73 + 1,
        "2-60": 1 << 60,
        "2-63": 1 << 63,
        "2-64-less-1": (1 << 64) - 1,
    }.items():
        wrong = file()
        wrong.index_length = length
        yield recipe.refused(
            f"index-length-{name}",
            wrong,
            "IDX-001",
            f"The index claims {length} bytes, and the file ends before.",
            features=["large-claim"] if length > size_bytes else [],
        )
    for name, length in {"zero": 0, "cut": 60}.items():
        wrong = file()
        wrong.index_length = length
        yield recipe.refused(
            f"index-length-{name}",
            wrong,
            "IDX-002",
            f"The index claims {length} bytes, too few for its two entries.",
        )
    for name, count in {
        "three": 3,
        "2-40": 1 << 40,
        "2-64-less-1": (1 << 64) - 1,
    }.items():
        wrong = file()
        wrong.count = count
        yield recipe.refused(
            f"index-count-{name}",
            wrong,
            "IDX-002",
            f"The count is {count}, but the index holds two entries and no room for more.",
            features=["large-claim"] if count > 3 else [],
        )


def fields(recipe: Recipe, file: Callable[..., File]) -> Iterator[Case]:
    """The fields of an entry, each in a file where the tensor header says the same."""
    for name, attribute, length in (
        ("name", "name_length", 0xFFFF),
        ("dtype", "dtype_length", 0xFF),
        ("shape", "ndim", 0xFF),
    ):
        wrong = file()
        setattr(wrong.entries[1], attribute, length)
        yield recipe.refused(
            f"index-{name}-past-end",
            wrong,
            "IDX-002",
            f"The {name} of the last entry claims to be longer than what is left of the index.",
        )
    for kind in (0, 1, 2):
        yield recipe.valid(
            f"index-kind-{kind}",
            File.of([Tensor(["a"], kind=kind)], seed=SEED),
            "IDX-004 REC-007",
            f"Kind {kind} is one of the three kinds.",
        )
    for kind in (3, 255):
        yield recipe.refused(
            f"index-kind-{kind}",
            File.of([Tensor(["a"], kind=kind)], seed=SEED),
            "IDX-004",
            f"There is no kind {kind}, and index and header agree on it.",
        )
    for name, size_bytes in {"short": 11, "long": 13, "one-item": 2, "none": 0}.items():
        data = bytes(size_bytes)
        yield recipe.refused(
            f"index-data-length-{name}",
            File.of(
                [Tensor(["a"], "<u2", [2, 3], data=data), Tensor(["b"])], seed=SEED
            ),
            "IDX-006" if size_bytes else "IDX-007 IDX-006",
            f"A tensor of 12 bytes has {size_bytes} bytes of data, and index and header agree on it.",
        )
    yield recipe.refused(
        "index-data-length-of-nothing",
        File.of(
            [Tensor(["a"], "<u2", [0, 3], data=bytes(2)), Tensor(["b"])], seed=SEED
        ),
        "IDX-006",
        "A tensor without elements has 2 bytes of data.",
    )
    # 2977518503 * 7527754 * 823 = 2^64 + 10: only a product that wraps around is right.
    yield recipe.refused(
        "index-shape-wraps",
        File.of(
            [Tensor(["a"], shape=[2977518503, 7527754, 823], data=bytes(10))], seed=SEED
        ),
        "IDX-005 IDX-006",
        "The product of the shape is 2^64 + 10, and the tensor has 10 bytes of data.",
        features=["large-claim"],
    )
    # The item size takes the product over the edge: 27905 * 8681 * 49477 * 384773 = 2^62 + 1.
    yield recipe.refused(
        "index-shape-wraps-by-item",
        File.of(
            [Tensor(["a"], "<f4", [27905, 8681, 49477, 384773], data=bytes(4))],
            seed=SEED,
        ),
        "IDX-005 IDX-006",
        "The product of the shape fits in 64 bits, but not the size in bytes that shape and dtype give.",
        features=["large-claim"],
    )


def offsets(recipe: Recipe, file: Callable[..., File]) -> Iterator[Case]:
    """Offsets of headers and data, and where records lie in relation to each other."""
    size_bytes = len(file().encode())
    header_offset, data_offset = file().offsets()[1]
    for name, offset in {
        "zero": 0,
        "in-index": 80,
        "past-end": size_bytes,
        "2-62": 1 << 62,
        "2-64-less-8": (1 << 64) - 8,
    }.items():
        wrong = file()
        wrong.entries[1].header_offset = offset
        yield recipe.refused(
            f"index-header-offset-{name}",
            wrong,
            "IDX-008 IDX-009 IDX-011 IDX-012",
            f"The header offset of the second tensor is {offset}, in a file of {size_bytes} bytes.",
            features=["large-claim"] if offset > size_bytes else [],
        )
    wrong = file()
    wrong.entries[1].header_offset = header_offset + 8
    yield recipe.refused(
        "index-header-offset-inside-header",
        wrong,
        "REC-002 REC-003 IDX-009 IDX-012",
        "The header offset of the second tensor leads 8 bytes into its header, where no header_length lies.",
    )
    for name, offset in {
        "one-less": data_offset - 1,
        "one-more": data_offset + 1,
        "zero": 0,
        "2-62": 1 << 62,
        "2-64-less-8": (1 << 64) - 8,
    }.items():
        wrong = file()
        wrong.entries[1].data_offset = offset
        yield recipe.refused(
            f"index-data-offset-{name}",
            wrong,
            "IDX-009 IDX-010 IDX-011 IDX-012 REC-002",
            f"The data offset of the second tensor is {offset}, but its header ends at {data_offset}.",
            features=["large-claim"] if offset > size_bytes else [],
        )

    # Shape and header agree, so nothing but the end of the file says that the data is not there.
    for name, shape in {"2-62": [1 << 31, 1 << 31], "one-more": [13]}.items():
        wrong = File.of([Tensor(["a"], shape=shape, data=bytes(4))], seed=SEED)
        wrong.entries[0].data_length = wrong.records[0].data_length = (
            shape[0] * shape[1] if len(shape) > 1 else shape[0]
        )
        yield recipe.refused(
            f"index-data-past-end-{name}",
            wrong,
            "IDX-010",
            f"The data claims {wrong.entries[0].data_length} bytes, and the file ends before.",
            features=["large-claim"] if name == "2-62" else [],
        )

    same = file()
    same.entries[1].record = same.records[0]
    same.entries[1].name, same.entries[1].dtype = b"c", same.entries[0].dtype
    same.entries[1].shape, same.entries[1].data_length = [2, 3], 12
    same.records[1:] = []
    yield recipe.refused(
        "index-overlap-same-record",
        same,
        "IDX-011 REC-006 IDX-012",
        "Two entries of different names lead to one record.",
    )
    yield recipe.refused(
        "index-overlap-inside-data",
        nested_records(),
        "IDX-011 IDX-012",
        "The second record lies inside the data of the first, and both end together.",
    )

    for place, name in enumerate(("before-first", "between")):
        gap = file()
        gap.records[place].gap = b"\xab" * 8
        yield recipe.open(
            f"index-gap-{name}",
            gap,
            "IDX-012",
            "Eight bytes in front of a record belong to no tensor; all offsets are right.",
            "record-gaps",
        )
    backwards = file()
    backwards.entries.reverse()
    yield recipe.open(
        "index-order-reversed",
        backwards,
        "IDX-016 IDX-012",
        "The index lists the tensors in another order than the file holds them.",
        "entry-order",
    )


def nested_records() -> File:
    """A file whose second record is the end of the first one's data; both records are right in themselves."""
    inner = File.of([Tensor(["b"], "|u1", [4])], seed=SEED)
    record = inner.records[0]
    data = record.header() + record.stored
    file = File.of([Tensor(["a"], "|u1", [len(data)], data=data)], seed=SEED)
    entry = inner.entries[0]
    file.entries.append(entry)
    # Its offsets are fixed below, so its record only has to be one that has a place in the file.
    entry.record = file.records[0]
    outer_data_offset = file.offsets()[0][1]
    entry.header_offset = outer_data_offset
    entry.data_offset = outer_data_offset + record.header_bytes()
    return file
