"""Cases for readers that check a part of a number, of a text or of a list: what the planted bugs showed to be missing.

Each file breaks one rule in one place. See places.py for rules that are broken in the second of three tensors.
"""

from collections.abc import Iterator

import builder
from builder import File, Tensor
from case import Case
from headers_first import NAME_IN_HEADER_AT, header_as_name
from layouts import HEADERS_FIRST, SEGMENTS
from places import FLAGGED, KEY, LAYOUTS, LONG, PLACES, V4
from recipe import Recipe
from sealing import Lock

SEED = 2100


def cases() -> Iterator[Case]:
    recipe = Recipe("edges", SEED)
    yield from entry_cuts(recipe)
    yield from texts(recipe)
    yield from openings(recipe)
    yield from header_in_a_name(recipe)
    yield from segments(recipe)


def entry_cuts(recipe: Recipe) -> Iterator[Case]:
    """The index ends within an entry; a long name makes it long enough for all of them."""
    for layout, fields in ((V4, ENTRY_FIELDS), (LONG, {"entry_version": -4})):
        for field, at in fields.items():
            version, name, *_ = LAYOUTS[layout]
            file = File.of(
                [Tensor(["a" * 100]), Tensor(["m"]), Tensor(["z"])],
                version,
                SEED,
                None,
                name,
            )
            one = len(file.entries[0].encode(0, 0))
            file.index_length = one + at + (4 if layout == LONG else 0) + 1
            yield recipe.refused(
                f"where-index-ends-in-{field.replace('_', '-')}",
                file,
                "IDX-002",
                f"The index ends within the {field} of the second of three entries.",
            )
    for place in ("first", "third", "only"):
        where = PLACES[place]
        for layout, fields in ((V4, ALL_ENTRY_FIELDS), (LONG, {"entry_version": -4})):
            for field, at in fields.items():
                version, name, *_ = LAYOUTS[layout]
                tensors = [Tensor([letter]) for letter in "amz"[: where.tensors]]
                tensors[0].path = ["a" * 100]
                tensors[where.at].kind = where.kind
                file = File.of(tensors, version, SEED, None, name)
                before = sum(
                    len(entry.encode(0, 0)) for entry in file.entries[: where.at]
                )
                own = 99 if where.at == 0 and at > 0 else 0
                file.index_length = before + own + at + (4 if layout == LONG else 0) + 1
                # Room for less than the tensor count breaks the rule anyhow.
                if file.index_length < 32 * where.tensors:
                    continue
                yield recipe.refused(
                    f"where-{place}-index-ends-in-{field.replace('_', '-')}",
                    file,
                    "IDX-002",
                    f"The index ends within the {field} of the {where.what} of the file.",
                )


# Where the fields of an entry with a name of one byte and a dtype of three begin, its dimension being the only one.
ENTRY_FIELDS = {
    "name_length": 0,
    "kind": 2,
    "dtype_length": 3,
    "ndim": 7,
    "header_offset": 12,
    "data_offset": 20,
    "data_length": 28,
}


ALL_ENTRY_FIELDS = {**ENTRY_FIELDS, "name": 1, "dtype": 4, "dim": 8}


def overlapping_section(made: File) -> bytes:
    """A file whose metadata segment begins at byte 111; all else is right."""
    index = made.entries[0].encode(0, 0)
    header = made.records[0].header()
    header_start = 119 + len(index)
    # Its upper bytes are index_length.
    data_start = len(index) << 8
    bounds = {
        "metadata_start": 111,
        "metadata_end": header_start,
        "header_start": header_start,
        "header_end": header_start + len(header),
        "data_start": data_start,
    }
    front = made.encode()[: builder.FILE_HEADER_BYTES] + builder.Segments(
        claims=bounds
    ).encode({})
    content = front + b"\0" + index + header
    return (
        content.ljust(data_start, b"\0") + made.records[0].stored + builder.TERMINATOR
    )


def texts(recipe: Recipe) -> Iterator[Case]:
    for id_, dtype, rules, why in (
        ("count-leading-zero", b"|S05", "DTY-001", "A count has no leading zero."),
        ("date-without-size", b"<M", "DTY-001", "A date has 8 bytes, and says so."),
        (
            "opaque-without-size",
            b"<V\0torch.bfloat16",
            "DTY-002",
            "The size of the elements is missing.",
        ),
        (
            "opaque-of-0",
            b"<V0\0torch.bfloat16",
            "DTY-002 DTY-004",
            "Elements have no bytes.",
        ),
        (
            "opaque-without-mark",
            b"V2\0torch.bfloat16",
            "DTY-002 DTY-001",
            "The mark is missing.",
        ),
        (
            "opaque-name-longer",
            b"<V2\0torch.bfloat16.",
            "DTY-003",
            "A dot follows the name of a type.",
        ),
    ):
        file = File.of([Tensor(["a"], shape=[0])], 2, SEED)
        file.entries[0].dtype = file.records[0].dtype = dtype
        yield recipe.refused(f"where-dtype-{id_}", file, rules, why)
    for id_, name, rules, why in (
        ("number", b"\x1e5", "NAM-002", "A number is not an array."),
        ("tab", b'\x1e["a\tb",0]', "NAM-002", "A tab in a string is not escaped."),
        ("unknown-escape", b'\x1e["\\q",0]', "NAM-002", "JSON has no such escape."),
        (
            "byte-order-mark",
            b'\x1e\xef\xbb\xbf["a",0]',
            "NAM-002",
            "A byte order mark is not white space of JSON.",
        ),
        (
            "null-first",
            b'\x1e[null,"a"]',
            "NAM-002",
            "null is not an element, and the last element is right.",
        ),
        (
            "newline-first",
            b'\x1e\n["a",0]',
            "NAM-004",
            "The newline is before the array.",
        ),
        (
            "newline-last",
            b'\x1e["a",0]\n',
            "NAM-004",
            "The newline is after the array.",
        ),
    ):
        yield recipe.refused(
            f"where-name-{id_}",
            File.of([Tensor(["?"], name=name)], seed=SEED),
            rules,
            why,
        )


def openings(recipe: Recipe) -> Iterator[Case]:
    flagged = File.of([Tensor(["a"])], 4, SEED, Lock(KEY))
    flagged.flags = bytes([5]) + bytes(31)
    yield recipe.refused(
        "where-flag-2-encrypted",
        flagged,
        "HDR-004",
        "A reserved flag is set beside that of encryption.",
        key=KEY,
    )
    for layout in (LONG, FLAGGED):
        version, name, *_ = LAYOUTS[layout]
        yield recipe.refused(
            f"where-key-on-plain-{layout}",
            File.of([Tensor(["a"])], version, SEED, None, name),
            "CRY-017",
            "A key is given for a file that is not encrypted.",
            features=["encryption"],
            key=KEY,
        )
    yield recipe.refused(
        "where-no-key-after-empty",
        File.of([Tensor(["a"], shape=[0]), Tensor(["b"])], 3, SEED, Lock(KEY)),
        "CRY-018",
        "No key is given, and the first tensor of the encrypted file has no data.",
    )


def header_in_a_name(recipe: Recipe) -> Iterator[Case]:
    """As the case of two tensors, with a third one after them."""
    inner = header_as_name(HEADERS_FIRST)
    last = File.of([Tensor(["z"])], 5, SEED, None, HEADERS_FIRST)
    for parts in ("tensors", "entries", "records"):
        getattr(inner, parts).extend(getattr(last, parts))
    inner.entries[1].header_offset = inner.offsets()[0][0] + NAME_IN_HEADER_AT
    yield recipe.refused(
        "where-header-in-other-header",
        inner,
        "IDX-011 REC-002",
        "The header of the second of three tensors lies inside the header of the first, in its name.",
    )


def in_segments(tensor: Tensor, lock: Lock | None = None) -> File:
    """A file of v5-segments without room behind its index and its header."""
    file = File.of([tensor], 5, SEED, lock, SEGMENTS)
    assert file.segments is not None
    file.segments.metadata_room = file.segments.header_room = b""
    return file


def segments(recipe: Recipe) -> Iterator[Case]:
    """Layout sections, and indexes of encrypted files of v5-segments."""
    for id_, length in {"wraps": (1 << 64) - 8, "far": 1 << 40}.items():
        file = in_segments(Tensor(["a"]), Lock(KEY))
        file.index_length = length
        yield recipe.refused(
            f"where-index-length-{id_}",
            file,
            "SEG-003",
            f"The index_length of an encrypted file is {length}.",
            features=["large-claim"],
            key=KEY,
        )
    file = in_segments(Tensor(["a"]), Lock(KEY))
    file.index_padding = bytes(8)
    yield recipe.refused(
        "where-index-rest",
        file,
        "IDX-014",
        "The index of an encrypted file ends with eight bytes of zeros.",
        key=KEY,
    )
    meta = Tensor(["a"], "<f4", [2], meta=True)
    for id_, lock, beyond in (
        ("1", None, lambda size: size + 1),
        ("1-encrypted", Lock(KEY), lambda size: size + 1),
        ("2-32", None, lambda size: (1 << 32) + size - 8),
        ("2-63", None, lambda size: 1 << 63),
    ):
        file = in_segments(meta, lock)
        assert file.segments is not None
        file.segments.claims["data_start"] = beyond(len(file.encode()))
        yield recipe.refused(
            f"where-data-start-beyond-{id_}",
            file,
            "SEG-002",
            "data_start is beyond the end of the file, in which no tensor has data.",
            features=["large-claim"],
            key=KEY if lock else None,
        )
    for id_, tags in {"header-3": (1, 3, 3), "data-4": (1, 2, 4)}.items():
        file = in_segments(Tensor(["a"]))
        assert file.segments is not None
        file.segments.tags = tags
        yield recipe.refused(
            f"where-tag-{id_}", file, "SEG-001", f"The tags of the segments are {tags}."
        )
    whole = in_segments(Tensor(["a"]))
    yield recipe.refused(
        "where-layout-section-cut-to-3",
        whole,
        "SEG-001",
        "The file ends after the first tag of its layout section.",
        content=whole.encode()[:76],
    )
    yield recipe.refused(
        "where-metadata-start-in-section",
        whole,
        "SEG-002",
        "The metadata segment begins inside the layout section, so that data_start is a part of index_length.",
        content=overlapping_section(whole),
    )
    yield recipe.refused(
        "where-file-header-cut-to-50",
        whole,
        "HDR-001",
        "The file ends within the unused bytes of its file header.",
        content=whole.encode()[:50],
    )
