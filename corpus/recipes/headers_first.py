"""Cases of what v5-headers-first and v5-segments share: all tensor headers lie before all data."""

from collections.abc import Callable, Iterator
from typing import Any

import builder
import sodium
from builder import File, Tensor, noise
from case import Case
from layouts import ALL_HEADERS_FIRST, HEADERS_FIRST, SEGMENTS
from recipe import Recipe, two_tensors
from sealing import Lock, crypt_block
from wire import CRC32, SHA256, STATE_DICT, Hash, Record, both_hashes

SEED = 1100
KEY = bytes(range(32))
PASSPHRASE = "open sesame"
SALT = noise(f"{SEED}/salt", sodium.SALT_BYTES)
# From the start of a tensor header: header_length, module_index, kind and name_length come first.
NAME_IN_HEADER_AT = 8 + 2 + 1 + 2


def cases() -> Iterator[Case]:
    for layout in ALL_HEADERS_FIRST:
        recipe = LayoutRecipe("headers_first", SEED, layout)
        for section in (
            contents,
            order_and_gaps,
            tails,
            without_data,
            index_extent,
            headers_in_names,
            header_offsets,
            data_offsets,
            headers,
            hash_lists,
            hashed_bytes,
            encryption,
            truncation,
        ):
            yield from section(recipe)


class LayoutRecipe(Recipe):
    """Cases of one layout: its name begins their ids, and rules of another one are no right reasons."""

    def __init__(self, module: str, seed: int, layout: str) -> None:
        super().__init__(module, seed)
        self.layout = layout

    def valid(self, id_: str, made: File, rules: str, why: str, **more: Any) -> Case:
        return super().valid(self._id(id_), made, rules, why, **self._named(more))

    def refused(self, id_: str, made: File, rules: str, why: str, **more: Any) -> Case:
        kept = [
            rule
            for rule in rules.split()
            if self.layout == SEGMENTS or not rule.startswith("SEG-")
        ]
        return super().refused(
            self._id(id_), made, " ".join(kept), why, **self._named(more)
        )

    def open(
        self, id_: str, made: File, rules: str, why: str, choice: str, **more: Any
    ) -> Case:
        return super().open(
            self._id(id_), made, rules, why, choice, **self._named(more)
        )

    def _id(self, id_: str) -> str:
        return f"{self.layout.removeprefix('v5-')}-{id_}"

    def _named(self, more: dict[str, Any]) -> dict[str, Any]:
        """Arguments in which the name of another case is complete too."""
        source = more.get("same_file_as")
        return more if source is None else more | {"same_file_as": self._id(source)}


def of(layout: str, *tensors: Tensor, lock: Lock | None = None) -> File:
    return File.of(list(tensors), 5, SEED, lock, layout)


def file(layout: str, change: Callable[[File], None] | None = None) -> File:
    made = two_tensors(5, SEED, layout)
    if change is not None:
        change(made)
    return made


def contents(recipe: LayoutRecipe) -> Iterator[Case]:
    """Right files of every kind of tensor."""
    layout = recipe.layout
    segments = "SEG-001 SEG-002 SEG-003 SEG-004" if layout == SEGMENTS else "HDR-007"
    meta = Tensor(["m"], "<f4", [2, 3], meta=True)
    empty = Tensor(["e"], "<i8", [3, 0])
    for id_, tensors, rules, why in (
        (
            "plain",
            [Tensor(["a"], "<u2", [2, 3]), Tensor(["b"])],
            f"HDR-003 HDR-007 IDX-008 IDX-010 IDX-011 IDX-014 IDX-015 REC-002 HSH-005 HSH-006 {segments}",
            "Two plain tensors, as a writer stores them.",
        ),
        ("one", [Tensor(["a"])], "HDR-005", "One tensor."),
        ("scalar", [Tensor(["a"], "<f8", [])], "IDX-006", "No dimensions."),
        (
            "opaque",
            [Tensor(["a"], "<V2\0torch.bfloat16"), Tensor(["b"])],
            "DTY-002 DTY-004",
            "An opaque dtype.",
        ),
        (
            "opaque-one-byte",
            [Tensor(["a"], "<V1\0torch.float8_e5m2")],
            "DTY-002 DTY-004",
            "An opaque dtype of one byte, spelled as the writers of this layout do.",
        ),
        (
            "structured",
            [Tensor(["layers", 0, "w"]), Tensor(["layers", 1, "w"], "<f2", [3])],
            "NAM-002 NAM-008",
            "Structured names.",
        ),
        (
            "kinds",
            [Tensor([str(kind)], kind=kind) for kind in range(3)],
            "IDX-004 REC-007",
            "A tensor of each kind.",
        ),
        (
            "module-index",
            [Tensor(["a"], module_index=7), Tensor(["b"], module_index=0xFFFF)],
            "REC-003 HSH-006",
            "Module indices, which the hashes cover.",
        ),
        (
            "meta",
            [Tensor(["a"]), meta, Tensor(["b"])],
            "IDX-006 IDX-007",
            "A meta tensor between two with data.",
        ),
        ("meta-only", [meta], "IDX-007", "No tensor has data."),
        (
            "meta-2-40",
            [Tensor(["m"], shape=[1 << 20, 1 << 20], meta=True)],
            "IDX-005 IDX-007",
            "A meta tensor that nobody may allocate to list it.",
        ),
        (
            "zero-elements",
            [Tensor(["a"]), empty, Tensor(["b"])],
            "IDX-006",
            "A tensor of no elements between two with data.",
        ),
        ("zero-elements-only", [empty], "IDX-006", "The only tensor has no elements."),
        (
            "big-endian",
            [Tensor(["a"], ">f4", [3])],
            "DTY-001",
            "A big-endian type.",
        ),
        (
            "u32-max",
            [Tensor(["m"], shape=[0xFFFFFFFF], meta=True), Tensor(["a"])],
            "IDX-005",
            "The largest dimension that fits.",
        ),
    ):
        large = any(dim >= 1 << 20 for tensor in tensors for dim in tensor.shape)
        yield recipe.valid(
            f"{id_}",
            of(layout, *tensors),
            rules,
            why,
            features=["large-claim"] if large else [],
        )
    yield recipe.refused(
        "flag",
        file(layout, lambda made: setattr(made, "flags", b"\4" + bytes(31))),
        "HDR-004",
        "Feature flag 2 has no meaning.",
    )
    yield recipe.refused(
        "count-zero",
        file(layout, lambda made: setattr(made, "count", 0)),
        "HDR-005",
        "The count is 0 although the index holds two entries.",
    )
    yield recipe.refused(
        "duplicate-name",
        of(layout, Tensor(["a"]), Tensor(["a"], "<f4")),
        "NAM-006",
        "Two tensors have one name.",
    )


def order_and_gaps(recipe: LayoutRecipe) -> Iterator[Case]:
    """Headers and data lie where the offsets say, in any order and with anything between them."""
    layout = recipe.layout
    made = file(layout)
    made.entries.reverse()
    yield recipe.valid(
        "entries-reversed",
        made,
        "IDX-011 IDX-015",
        "The index lists the tensors in another order than that of the headers and of the data.",
    )
    made = file(layout)
    made.data_order = made.records[::-1]
    yield recipe.valid(
        "data-reversed",
        made,
        "IDX-011 IDX-015",
        "The data lies in another order than the headers.",
    )
    for id_, place, content in (
        ("before-headers", 0, bytes(64)),
        ("before-headers-dirty", 0, b"\xab" * 64),
        ("between-headers", 1, b"\xab" * 64),
    ):
        made = file(layout)
        made.records[place].gap = content
        yield recipe.valid(
            f"gap-{id_}",
            made,
            "IDX-008",
            f"Bytes that belong to nothing, {content[:1].hex()} each, lie {id_.split('-')[0]} the headers.",
        )
    for id_, place, content in (
        ("before-data", 0, bytes(64)),
        ("before-data-dirty", 0, b"\xab" * 64),
        ("between-data", 1, b"\xab" * 64),
        ("page", 0, bytes(4096)),
    ):
        made = file(layout)
        made.records[place].data_gap = content
        yield recipe.valid(
            f"gap-{id_}",
            made,
            "IDX-010 IDX-015",
            f"{len(content)} bytes that belong to nothing, {content[:1].hex()} each, lie in front of data.",
        )


def tails(recipe: LayoutRecipe) -> Iterator[Case]:
    """What follows the data: a reader that goes by the index has no use for a terminator."""
    layout = recipe.layout
    for id_, gap, terminator, trailer, why in (
        ("missing", b"", b"", b"", "The file ends where its data ends."),
        ("cut", b"", bytes(3), b"", "Three bytes of a terminator."),
        ("nonzero", b"", b"\xff" * 8, b"", "The terminator is not zero."),
        ("padded", bytes(100), bytes(8), b"", "Padding lies before the terminator."),
        ("trailer", b"", bytes(8), b"\xab" * 9, "Bytes follow the terminator."),
    ):
        made = file(layout)
        made.terminator_gap, made.terminator, made.trailer = gap, terminator, trailer
        yield recipe.valid(
            f"terminator-{id_}",
            made,
            "TRM-001 TRM-002",
            f"{why} The terminator is optional in this layout.",
        )


def without_data(recipe: LayoutRecipe) -> Iterator[Case]:
    """The data offset of a tensor without data leads nowhere, but it has to lie in the file."""
    layout = recipe.layout
    for kind, tensor in (
        ("zero-elements", Tensor(["e"], shape=[0])),
        ("meta", Tensor(["e"], meta=True)),
    ):
        made = of(layout, Tensor(["a"]), tensor)
        size_bytes = len(made.encode())
        base = made.marks()["data_start"] if layout == SEGMENTS else 0
        places = {"start": 0, "in-other-data": made.offsets()[0][1] + 1 - base}
        if layout == HEADERS_FIRST:
            places |= {"in-index": 80, "in-headers": made.offsets()[0][0] + 4}
        for id_, offset in (places | {"end": size_bytes - base}).items():
            made.entries[1].data_offset = offset
            yield recipe.open(
                f"{kind}-at-{id_}",
                made,
                "IDX-010 IDX-015",
                f"The data offset of a tensor without data is {offset}; the file has {size_bytes} bytes.",
                "data-offset-without-data",
            )
        for id_, offset in {
            "past-end": size_bytes - base + 1,
            "2-63": 1 << 63,
            "wrap": (1 << 64) - max(base, 8),
        }.items():
            made.entries[1].data_offset = offset
            yield recipe.refused(
                f"{kind}-{id_}",
                made,
                "IDX-010",
                f"The data offset of a tensor without data is {offset}; the file has {size_bytes} bytes.",
                features=["large-claim"] if offset >> 32 else [],
            )


def index_extent(recipe: LayoutRecipe) -> Iterator[Case]:
    layout = recipe.layout
    for id_, padding in {"one": bytes(1), "eight": bytes(8), "dirty": b"\1"}.items():
        yield recipe.refused(
            f"index-padding-{id_}",
            file(layout, lambda made: setattr(made, "index_padding", padding)),
            "IDX-014 IDX-003",
            f"The index has {len(padding)} bytes behind its entries.",
        )
    yield recipe.refused(
        "index-reserve",
        file(layout, lambda made: setattr(made, "index_padding", bytes(4096))),
        "IDX-014 IDX-003",
        "The index reserves 4,096 bytes of zeros, as those of layouts without headers first do.",
    )
    yield recipe.refused(
        "count-one",
        file(layout, lambda made: setattr(made, "count", 1)),
        "IDX-014 IDX-003",
        "The count leaves one entry of the index out.",
    )
    for id_, count in {
        "three": 3,
        "2-60": 1 << 60,
        "2-64-less-1": (1 << 64) - 1,
    }.items():
        yield recipe.refused(
            f"count-{id_}",
            file(layout, lambda made: setattr(made, "count", count)),
            "IDX-002 IDX-014",
            f"The count is {count}, but the index holds two entries and no room for more.",
            features=["large-claim"] if count > 3 else [],
        )
    size_bytes = len(file(layout).encode())
    for id_, length in {
        "past-end": size_bytes,
        "2-63": 1 << 63,
        "2-64-less-1": (1 << 64) - 1,
    }.items():
        yield recipe.refused(
            f"index-length-{id_}",
            file(layout, lambda made: setattr(made, "index_length", length)),
            "IDX-001 SEG-003" if layout == HEADERS_FIRST else "SEG-003 IDX-001",
            f"The index claims {length} bytes in a file of {size_bytes}.",
            features=["large-claim"],
        )
    made = file(layout)
    entries = [len(entry.encode(0, 0)) for entry in made.entries]
    for id_, length in {"one-less": sum(entries) - 1, "one-entry": entries[0]}.items():
        yield recipe.refused(
            f"index-length-{id_}",
            file(layout, lambda made: setattr(made, "index_length", length)),
            "IDX-002 IDX-014",
            f"The index claims {length} bytes, and its entries have {sum(entries)}.",
        )
    for id_, attribute, value in (
        ("name", "name_length", 0xFFFF),
        ("dtype", "dtype_length", 0xFF),
        ("shape", "ndim", 0xFF),
    ):
        made = file(layout)
        setattr(made.entries[1], attribute, value)
        yield recipe.refused(
            f"index-{id_}-past-end",
            made,
            "IDX-002",
            f"The {id_} of the last entry claims to be longer than what is left of the index.",
        )


def bases(made: File) -> tuple[int, int]:
    """What the offsets of headers and of data are relative to."""
    if made.segments is None:
        return 0, 0
    marks = made.marks()
    return marks["header_start"], marks["data_start"]


def header_as_name(layout: str, kind: int = STATE_DICT) -> File:
    """A file whose first tensor has the second one's header for a name: a right header lies where a name is read.

    The kind is that of the second tensor.
    """
    for number in range(1000):
        data = noise(f"{SEED}/name/{number}", 4)
        second = of(layout, Tensor(["b"], kind=kind, data=data))
        second.records[0].hashes = [Hash(CRC32)]
        header = second.records[0].header()
        # Only the four bytes of the hash depend on the data.
        if header.isascii():
            break
    made = of(layout, Tensor([header.decode()]), Tensor(["b"], kind=kind, data=data))
    made.records[1].hashes = [Hash(CRC32)]
    assert made.records[1].header() == header
    return made


def headers_in_names(recipe: LayoutRecipe) -> Iterator[Case]:
    """Right headers in a wrong place, so that nothing is wrong but the place."""
    layout = recipe.layout
    made = header_as_name(layout)
    base, _ = bases(made)
    for id_, name_at, rules, why in (
        (
            "index",
            made.marks()["index"] + 2,
            "IDX-008" if layout == HEADERS_FIRST else "SEG-004 IDX-008",
            "inside the index, in the name of another tensor",
        ),
        (
            "other-header",
            made.offsets()[0][0] + NAME_IN_HEADER_AT,
            "IDX-011 REC-002",
            "inside the header of another tensor, in its name",
        ),
    ):
        made.entries[1].header_offset = (name_at - base) % (1 << 64)
        yield recipe.refused(
            f"header-in-{id_}",
            made,
            rules,
            f"A tensor header that agrees with its entry lies {why}; every hash is right.",
            features=["large-claim"] if name_at < base else [],
        )
    made = of(layout, Tensor(["a"]), Tensor(["bbbb"], data=b"bbbb"))
    _, data_base = bases(made)
    name_at = made.offsets()[1][0] + NAME_IN_HEADER_AT
    made.entries[1].data_offset = (name_at - data_base) % (1 << 64)
    yield recipe.refused(
        "data-in-last-name",
        made,
        "IDX-015" if layout == HEADERS_FIRST else "IDX-010 IDX-015",
        "The data of a tensor lies inside its own header, the last one, and equals its name; every hash is right.",
        features=["large-claim"] if name_at < data_base else [],
    )


def header_offsets(recipe: LayoutRecipe) -> Iterator[Case]:
    layout = recipe.layout
    made = file(layout)
    size_bytes = len(made.encode())
    base, _ = bases(made)
    (first, _), (second, _) = made.offsets()
    # What is read in the place of a header may be wrong in any way.
    anything = "REC-002 REC-001 REC-003 REC-004 REC-006 IDX-011 IDX-015 SEG-004"
    offsets = {
        "past-end": (size_bytes - base, "IDX-008 SEG-004 REC-002"),
        "seven-before-end": (size_bytes - base - 7, "IDX-008 SEG-004 REC-002"),
        "2-63": (1 << 63, "IDX-008 SEG-004"),
        "2-64-less-8": ((1 << 64) - 8, "IDX-008 SEG-004"),
        "same": (first - base, "IDX-011 REC-006"),
        "inside-first": (
            first - base + 8,
            "IDX-011 REC-002 REC-001 REC-003 REC-004 REC-006",
        ),
        "one-less": (second - base - 1, f"IDX-011 {anything}"),
        "one-more": (second - base + 1, anything),
    }
    if layout == HEADERS_FIRST:
        offsets |= {
            "zero": (0, "IDX-008 REC-002 IDX-011"),
            "in-index": (80, "IDX-008 REC-002 IDX-011"),
        }
    else:
        # Sums that wrap around lead to the file header, to the index, or to the header itself.
        offsets |= {
            "wraps-to-zero": ((1 << 64) - base, "IDX-008 SEG-004"),
            "wraps-into-index": ((1 << 64) - base + 126, "IDX-008 SEG-004"),
        }
    for id_, (offset, rules) in offsets.items():
        if layout == SEGMENTS and rules.startswith("IDX-008"):
            rules = f"SEG-004 {rules}"
        made = file(layout)
        made.entries[1].header_offset = offset
        yield recipe.refused(
            f"header-offset-{id_}",
            made,
            rules,
            f"The header offset of the second tensor is {offset} instead of {second - base}.",
            features=["large-claim"] if offset > size_bytes else [],
        )
    made = file(layout)
    made.entries[0].header_offset, made.entries[1].header_offset = (
        second - base,
        first - base,
    )
    yield recipe.refused(
        "header-offsets-swapped",
        made,
        "REC-006",
        "The entries of two tensors lead to each other's headers.",
    )


def data_offsets(recipe: LayoutRecipe) -> Iterator[Case]:
    layout = recipe.layout
    made = file(layout)
    size_bytes = len(made.encode())
    _, base = bases(made)
    (_, first), (_, second) = made.offsets()
    offsets = {
        "past-end": (size_bytes - base, "IDX-010"),
        "one-too-far": (size_bytes - base - 3, "IDX-010"),
        "2-63": (1 << 63, "IDX-010"),
        "2-64-less-4": ((1 << 64) - 4, "IDX-010"),
        "same": (first - base, "IDX-011"),
        "shares-a-byte": (first - base + 11, "IDX-011"),
        "shares-the-first": (first - base + 1, "IDX-011"),
    }
    if layout == HEADERS_FIRST:
        header_offset = made.offsets()[1][0]
        offsets |= {
            "zero": (0, "IDX-015 IDX-011"),
            "in-index": (100, "IDX-015 IDX-011"),
            "in-first-header": (header_offset - 8, "IDX-015 IDX-011"),
            "in-last-header": (first - 8, "IDX-015 IDX-011"),
            "runs-out-of-header": (first - 2, "IDX-015 IDX-011"),
        }
    else:
        offsets |= {
            "wraps-to-zero": ((1 << 64) - base, "IDX-010 IDX-015"),
            "wraps-into-headers": ((1 << 64) - base + 4096 + 4, "IDX-010 IDX-015"),
        }
    for id_, (offset, rules) in offsets.items():
        made = file(layout)
        made.entries[1].data_offset = offset
        yield recipe.refused(
            f"data-offset-{id_}",
            made,
            rules,
            f"The data offset of the second tensor is {offset} instead of {second - base}.",
            features=["large-claim"] if offset > size_bytes else [],
        )
    if layout == HEADERS_FIRST:
        for place, id_ in enumerate(("first", "second")):
            made = file(layout)
            data = made.records[1].stored
            made.records[place].gap = data
            made.entries[1].data_offset = made.offsets()[place][0] - len(data)
            yield recipe.refused(
                f"data-before-{id_}-header",
                made,
                "IDX-015",
                "The data of a tensor lies in a gap in front of a header; nothing overlaps, and the hashes are right.",
            )
        made = file(layout)
        made.trailer = made.records[1].header()
        made.entries[1].header_offset = len(made.encode()) - len(made.trailer)
        yield recipe.refused(
            "header-behind-data",
            made,
            "IDX-015",
            "A right header lies behind the data and the terminator.",
        )
    # Shape and header agree, so nothing but the end of the file says that the data is not there.
    for id_, shape in {"2-62": [1 << 31, 1 << 31], "17": [17]}.items():
        made = of(layout, Tensor(["a"], shape=shape, data=bytes(4)))
        length = shape[0] * shape[-1] if len(shape) > 1 else shape[0]
        made.entries[0].data_length = made.records[0].data_length = length
        yield recipe.refused(
            f"data-past-end-{id_}",
            made,
            "IDX-010",
            f"The data claims {length} bytes, and the file ends before.",
            features=["large-claim"],
        )
    # 2^64 less what is in front of the data: the end of the data wraps around to the start of the file.
    made = of(layout, Tensor(["a"], shape=[1 << 31, (1 << 31) - 1], data=bytes(4)))
    length = (1 << 62) - (1 << 31)
    made.entries[0].data_length = made.records[0].data_length = length
    made.entries[0].data_offset = (1 << 64) - length
    yield recipe.refused(
        "data-end-wraps",
        made,
        "IDX-010",
        "Data offset and data length add up to 2^64.",
        features=["large-claim"],
    )


def headers(recipe: LayoutRecipe) -> Iterator[Case]:
    """Tensor headers against their extent, and against the index."""
    layout = recipe.layout
    for place, id_ in enumerate(("first", "second")):
        made = file(layout)
        made.records[place].header_length = 0
        yield recipe.refused(
            f"terminator-as-{id_}-header",
            made,
            "REC-001",
            f"The {id_} tensor header that the index names begins with a header_length of 0.",
        )
    right = file(layout).records
    for place, id_, length, rules in (
        (0, "1", 1, ""),
        (0, "16", 16, ""),
        (0, "one-less", right[0].header_bytes() - 1, ""),
        (0, "into-next", right[0].header_bytes() + 1, "IDX-011"),
        (0, "over-next", right[0].header_bytes() + right[1].header_bytes(), "IDX-011"),
        (1, "into-data", right[1].header_bytes() + 1, "IDX-015 IDX-011"),
        (1, "past-end", 1 << 20, "IDX-008 IDX-015 SEG-004 IDX-011"),
        (1, "2-63", 1 << 63, "IDX-008 IDX-015 SEG-004 IDX-011"),
        (1, "2-64-less-1", (1 << 64) - 1, "IDX-008 IDX-015 SEG-004 IDX-011"),
    ):
        made = file(layout)
        made.records[place].header_length = length
        yield recipe.refused(
            f"header-length-{id_}",
            made,
            f"REC-002 REC-003 REC-004 REC-005 REC-010 {rules}",
            f"A header_length is {length} instead of {right[place].header_bytes()}.",
            features=["large-claim"] if length > 1 << 16 else [],
        )
    made = file(layout)
    made.records[1].gap = right[0].header()[-8:]
    made.records[0].header_length = right[0].header_bytes() + 8
    yield recipe.refused(
        "header-length-into-gap",
        made,
        "REC-004",
        "A header claims the 8 bytes behind it too, which belong to no tensor and repeat its data_length.",
    )
    for id_, attribute, value in (
        ("name", "name_length", 0xFFFF),
        ("dtype", "dtype_length", 0xFF),
        ("shape", "ndim", 0xFF),
    ):
        made = file(layout)
        setattr(made.records[0], attribute, value)
        yield recipe.refused(
            f"header-{id_}-past-end",
            made,
            "REC-003",
            f"The {id_} claims to be longer than what is left of the tensor header.",
        )
    for id_, attribute, value, rules in (
        ("name", "name", b"z", "REC-006"),
        ("kind", "kind", builder.PARAMETER, "REC-007"),
        ("dtype", "dtype", b"<i2", "REC-008"),
        ("shape", "shape", [3, 2], "REC-009"),
        ("ndim", "shape", [6], "REC-009"),
        ("data-length", "data_length", 11, "REC-010"),
        ("data-length-negative", "data_length", -12, "REC-005 REC-010"),
    ):
        made = file(layout)
        setattr(made.records[0], attribute, value)
        yield recipe.refused(
            f"header-{id_}-differs",
            made,
            rules,
            f"Index and header give another {id_.replace('-', ' ')}; the hashes go by the header.",
        )
    made = file(layout)
    made.records[0].extra = bytes(8)
    yield recipe.open(
        "header-extra",
        made,
        "REC-004",
        "Bytes between the hashes and data_length belong to no field, and header_length counts them.",
        "header-slack",
    )


def hash_lists(recipe: LayoutRecipe) -> Iterator[Case]:
    """The hash list is no part of what is hashed here."""
    layout = recipe.layout
    right = file(layout).records[0].digests()
    crc32, sha256 = Hash(CRC32, right[CRC32]), Hash(SHA256, right[SHA256])

    def with_hashes(*hashes: Hash) -> File:
        made = file(layout)
        made.records[0].hashes = list(hashes)
        return made

    yield recipe.valid(
        "hash-order",
        with_hashes(sha256, crc32),
        "HSH-001 HSH-005 HSH-006",
        "The hashes are stored in another order and keep their values, since they don't cover the list.",
    )
    yield recipe.valid(
        "hash-sha256-only",
        with_hashes(Hash(SHA256)),
        "HSH-004 HSH-006",
        "A SHA-256 alone.",
    )
    for id_, hashes, rules, why in (
        ("none", (), "HSH-004", "A tensor carries no hash."),
        (
            "crc32-wrong",
            (Hash(CRC32, bytes(4)), sha256),
            "HSH-005",
            "The CRC32 is 0.",
        ),
        (
            "sha256-wrong",
            (crc32, Hash(SHA256, bytes(32))),
            "HSH-006",
            "The SHA-256 is all zeros.",
        ),
        (
            "dropped-crc32",
            (sha256,),
            "HSH-006",
            "The CRC32 was dropped. The list isn't hashed, but header_length is, which has become smaller.",
        ),
        (
            "type-2",
            (crc32, sha256, Hash(2, bytes(4))),
            "HSH-002",
            "There is no hash of type 2.",
        ),
        (
            "crc32-of-8",
            (Hash(CRC32, bytes(8)), sha256),
            "HSH-003",
            "A CRC32 has 8 bytes.",
        ),
    ):
        yield recipe.refused(f"hash-{id_}", with_hashes(*hashes), rules, why)
    made = with_hashes(crc32, sha256)
    made.records[0].hash_count = 1
    yield recipe.refused(
        "hash-count-one",
        made,
        "HSH-001",
        "The list counts one of its two hashes.",
    )
    for id_, tensor in {
        "zero-elements": Tensor(["a"], shape=[0]),
        "meta": Tensor(["a"], meta=True),
    }.items():
        made = of(layout, tensor)
        made.records[0].hashes = [Hash(CRC32, bytes(4)), Hash(SHA256)]
        yield recipe.refused(
            f"hash-crc32-zero-{id_}",
            made,
            "HSH-005",
            "The CRC32 of a tensor without data is stored as 0, as upstream's writers of this layout do.",
        )


def hashed_bytes(recipe: LayoutRecipe) -> Iterator[Case]:
    """A change of every hashed field shows."""
    layout = recipe.layout

    def stale(change: Callable[[Record], None], both: bool = True) -> File:
        """A file in which index and header were changed, and the hashes were not."""
        made = file(layout)
        record, entry = made.records[0], made.entries[0]
        digests = record.digests()
        change(record)
        if both:
            entry.name, entry.kind = record.name, record.kind
            entry.dtype, entry.shape = record.dtype, record.shape
        made.tensors[0] = Tensor(
            [record.name.decode()], record.dtype.decode(), record.shape
        )
        record.hashes = [Hash(kind, digests[kind]) for kind in (CRC32, SHA256)]
        return made

    for id_, attribute, value in (
        ("module-index", "module_index", 1),
        ("kind", "kind", builder.BUFFER),
        ("name", "name", b"c"),
        ("dtype", "dtype", b"<i2"),
        ("shape", "shape", [3, 2]),
    ):
        yield recipe.refused(
            f"hashed-{id_}",
            stale(lambda record: setattr(record, attribute, value)),
            "HSH-005 HSH-006",
            f"The {id_.replace('-', ' ')} was changed, in the index too, and the hashes are those from before.",
        )
    yield recipe.refused(
        "hashed-data",
        stale(
            lambda record: setattr(record, "plaintext", b"\xff" * len(record.plaintext))
        ),
        "HSH-005 HSH-006",
        "The data was changed.",
    )
    made = file(layout)
    for record in made.records:
        record.headers_first = False
        digests = record.digests()
        record.headers_first = True
        record.hashes = [Hash(kind, digests[kind]) for kind in (CRC32, SHA256)]
    yield recipe.refused(
        "hashed-as-v4",
        made,
        "HSH-005 HSH-006",
        "The hashes cover the hash list with zeros for its values, as in the layouts without headers first.",
    )


def encryption(recipe: LayoutRecipe) -> Iterator[Case]:
    layout = recipe.layout

    def refused(id_: str, made: File, rules: str, why: str) -> Case:
        return recipe.refused(f"{id_}", made, rules, why, key=KEY)

    two = [Tensor(["a"], shape=[1100]), Tensor(["b"], "<f4", [])]
    meta = Tensor(["m"], "<f4", [2], meta=True)
    empty = Tensor(["e"], "<f4", [0])
    for id_, lock, tensors, rules, why in (
        ("key", Lock(KEY), two, "CRY-001 CRY-009 CRY-016 HDR-004", "Two tensors."),
        (
            "sequential",
            Lock(KEY, sequential=True),
            two,
            "CRY-003 CRY-010 CRY-016",
            "Each tensor is one message; no writer stores it so, but readers know it.",
        ),
        (
            "encrypted-meta",
            Lock(KEY),
            [two[0], meta],
            "CRY-007 HSH-006",
            "A meta tensor has an empty crypt block and no CRC32.",
        ),
        (
            "encrypted-zero-elements",
            Lock(KEY),
            [empty, two[1]],
            "CRY-007 HSH-006",
            "A tensor without elements has an empty crypt block and no CRC32.",
        ),
        ("encrypted-meta-only", Lock(KEY), [meta], "CRY-007", "No tensor has data."),
    ):
        yield recipe.valid(
            f"{id_}",
            of(layout, *tensors, lock=lock),
            rules,
            why,
            features=["sequential-cipher"] if lock.sequential else [],
            key=KEY,
        )
    lock = Lock.from_passphrase(PASSPHRASE, SALT)
    yield recipe.valid(
        "passphrase",
        of(layout, *two, meta, lock=lock),
        "CRY-011 CRY-014 CRY-019",
        "The key comes from a passphrase, which the meta tensor says nothing about.",
        features=["passphrase"],
        passphrase=PASSPHRASE,
    )
    made = of(layout, *two, meta, lock=Lock(KEY))
    for record in made.records:
        record.hashes = both_hashes()
    yield recipe.valid(
        "encrypted-both-hashes",
        made,
        "HSH-005 HSH-006",
        "Encrypted tensors and a meta tensor carry a CRC32 as well.",
        key=KEY,
    )
    made = of(layout, *two, lock=Lock(KEY))
    made.data_order = made.records[::-1]
    yield recipe.valid(
        "encrypted-data-reversed",
        made,
        "CRY-016 IDX-015",
        "Encrypted data lies in another order than the headers.",
        key=KEY,
    )
    for id_, key, rules in (
        ("no-key", None, "CRY-018"),
        ("wrong-key", KEY[::-1], "CRY-016"),
    ):
        yield recipe.refused(
            f"{id_}",
            of(layout, *two, lock=Lock(KEY)),
            rules,
            "The file is opened without a key." if key is None else "Another key.",
            key=key,
            same_file_as="key",
        )
    yield recipe.refused(
        "key-on-plain",
        two_tensors(5, SEED, layout),
        "CRY-017",
        "A key is given for a file that is not encrypted.",
        features=["encryption"],
        key=KEY,
        same_file_as="plain",
    )
    made = of(layout, *two, lock=Lock(KEY))
    made.records[0].ciphertext = bytes(1100)
    yield refused("forged-data", made, "CRY-016", "The ciphertext is all zeros.")
    made = of(layout, *two, lock=Lock(KEY))
    block = made.records[0].crypt or b""
    made.records[0].crypt = block[:-1] + bytes([block[-1] ^ 1])
    yield refused("forged-mac", made, "CRY-016", "A bit of the last MAC is flipped.")
    made = of(layout, *two, lock=Lock(KEY))
    made.records[1].crypt = crypt_block([])
    yield refused(
        "no-cipher", made, "CRY-006", "A tensor with data has an empty crypt block."
    )
    made = two_tensors(5, SEED, layout)
    made.flags = b"\1" + bytes(31)
    yield refused(
        "crypt-missing",
        made,
        "CRY-001 REC-003",
        "The file says that it is encrypted, but its tensor headers have no crypt blocks.",
    )
    made = of(layout, *two, lock=Lock(KEY))
    made.flags = bytes(32)
    yield recipe.refused(
        "flag-cleared",
        made,
        "REC-004",
        "An encrypted file says that it is not; its ciphertext must not be handed out as data.",
    )
    # The header and the plaintext are hashed, the crypt block and the ciphertext are not.
    pair = of(layout, Tensor(["a"]), Tensor(["b"]), lock=Lock(KEY))
    first, second = pair.records
    hashes = [Hash(SHA256, record.digests()[SHA256]) for record in pair.records]
    first.plaintext, second.plaintext = second.plaintext, first.plaintext
    first.ciphertext, second.ciphertext = second.ciphertext, first.ciphertext
    first.crypt, second.crypt = second.crypt, first.crypt
    first.hashes, second.hashes = [hashes[0]], [hashes[1]]
    yield refused(
        "swapped-tensors",
        pair,
        "HSH-006",
        "Two tensors of one shape exchanged data and crypt blocks; every MAC is right.",
    )


def truncation(recipe: LayoutRecipe) -> Iterator[Case]:
    layout = recipe.layout
    made = file(layout)
    content = made.encode()
    marks = made.marks()
    (header, _), (next_header, data) = made.offsets()
    cuts = {
        "index-length": (marks["index"] - 8, "IDX-001 SEG-001 SEG-002 SEG-003"),
        "in-index-length": (marks["index"] - 4, "IDX-001 SEG-001 SEG-002 SEG-003"),
        "index": (marks["index"], "IDX-001 SEG-002"),
        "in-index": (marks["index"] + 20, "IDX-001 SEG-002"),
        "headers": (header, "IDX-008 REC-002 IDX-010 SEG-002"),
        "in-header-length": (header + 4, "IDX-008 REC-002 IDX-010 SEG-002"),
        "in-first-header": (header + 20, "REC-002 IDX-008 IDX-010 SEG-002"),
        "second-header": (next_header, "IDX-008 REC-002 IDX-010 SEG-002"),
        "in-second-header": (next_header + 20, "REC-002 IDX-008 IDX-010 SEG-002"),
        "data": (marks["data_start"], "IDX-010"),
        "in-first-data": (marks["data_start"] + 5, "IDX-010"),
        "second-data": (data, "IDX-010"),
        "in-second-data": (data + 3, "IDX-010"),
    }
    if layout == SEGMENTS:
        cuts |= {
            "layout-length": (65, "IDX-001 SEG-001 HDR-007"),
            "in-layout-length": (69, "IDX-001 SEG-001 HDR-007"),
            "layout-section": (73, "SEG-001 IDX-001 SEG-002 HDR-007"),
            "in-layout-section": (100, "SEG-001 IDX-001 SEG-002 HDR-007"),
        }
    for id_, (at, rules) in cuts.items():
        if layout == SEGMENTS and "SEG-002" in rules and at >= marks["metadata_start"]:
            rules = f"SEG-002 {rules}"
        yield recipe.refused(
            f"cut-{id_}",
            made,
            rules,
            f"The file ends after {at} of its {len(content)} bytes: {id_.replace('-', ' ')}.",
            content=content[:at],
        )
