"""Cases of v5-segments: its layout section, and the segments that the offsets are relative to."""

from collections.abc import Iterator

from builder import File, Segments, Tensor
from case import Case
from layouts import SEGMENTS
from recipe import Recipe, two_tensors
from wire import CRC32, SHA256, Hash

SEED = 1200
SECTION_END = 118


def cases() -> Iterator[Case]:
    recipe = Recipe("segments", SEED)
    yield from layout_section(recipe)
    yield from extents(recipe)
    yield from alignment(recipe)
    yield from borders(recipe)
    yield from metadata(recipe)
    yield from header_segment(recipe)
    yield from data_segment(recipe)
    yield from split_pair(recipe)


def file() -> File:
    return two_tensors(5, SEED, SEGMENTS)


def segments_of(made: File) -> Segments:
    assert made.segments is not None
    return made.segments


def claiming(**claims: int) -> File:
    """A right file whose layout section says something else."""
    made = file()
    segments_of(made).claims = claims
    return made


def tight(**rooms: bytes) -> File:
    """A file whose segments are as large as what is in them, so that none is aligned."""
    made = file()
    segments = segments_of(made)
    segments.metadata_room = rooms.get("metadata", b"")
    segments.header_room = rooms.get("header", b"")
    return made


def layout_section(recipe: Recipe) -> Iterator[Case]:
    """Its length, its version, and the tags of its entries."""
    # A section that is not known for one is read as an index, which has no room for its entries.
    unknown = "SEG-001 HDR-007 IDX-001 IDX-002 IDX-013 IDX-014"
    for length in (0, 44, 46, 62, 1 << 40, (1 << 64) - 1):
        made = file()
        segments_of(made).layout_length = length
        yield recipe.refused(
            f"segments-layout-length-{length}",
            made,
            unknown,
            f"The layout section claims {length} bytes; it has 45.",
            features=["large-claim"] if length > 1 << 32 else [],
        )
    for version in (0, 2, 255):
        made = file()
        segments_of(made).version = version
        yield recipe.refused(
            f"segments-layout-version-{version}",
            made,
            unknown,
            f"There is no version {version} of the layout section.",
        )
    for count in (0, 2, 4, 255):
        made = file()
        segments_of(made).count = count
        yield recipe.refused(
            f"segments-layout-count-{count}",
            made,
            # With 0 it is read as an entry without a name, whose kind is 118.
            f"{unknown} IDX-004 DTY-001 IDX-008 IDX-010" if count == 0 else unknown,
            f"The layout section counts {count} entries; it has three.",
        )
    for id_, tags in {
        "first-0": (0, 2, 3),
        "first-2": (2, 1, 3),
        "second-1": (1, 1, 3),
        "second-0": (1, 0, 3),
        "third-2": (1, 2, 2),
        "third-255": (1, 2, 255),
        "swapped": (1, 3, 2),
    }.items():
        made = file()
        segments_of(made).tags = tags
        yield recipe.refused(
            f"segments-tag-{id_}",
            made,
            "SEG-001" if tags[0] == 1 else unknown,
            f"The entries of the layout section have the tags {tags[0]}, {tags[1]} and {tags[2]}.",
        )


def extents(recipe: Recipe) -> Iterator[Case]:
    """Where segments begin and end according to the section, in a file that is right otherwise."""
    size_bytes = len(file().encode())
    for id_, claims, rules, why in (
        (
            "metadata-start-0",
            {"metadata_start": 0},
            "SEG-002 SEG-003 IDX-001",
            "The metadata segment begins at the magic.",
        ),
        (
            "metadata-start-117",
            {"metadata_start": SECTION_END - 1},
            "SEG-002 SEG-003 IDX-001 IDX-014",
            "The metadata segment begins inside the layout section.",
        ),
        (
            "metadata-start-past-end",
            {"metadata_start": 4097},
            "SEG-002 SEG-003 IDX-001",
            "The metadata segment begins behind its end.",
        ),
        (
            "metadata-start-at-end",
            {"metadata_start": 4096},
            "SEG-003 SEG-002 IDX-001 IDX-002",
            "The metadata segment is empty.",
        ),
        (
            "metadata-start-before-end",
            {"metadata_start": 4089},
            "SEG-003 SEG-002 IDX-001 IDX-002",
            "The metadata segment has seven bytes, too few for index_length.",
        ),
        (
            "metadata-end-118",
            {"metadata_end": SECTION_END},
            "SEG-003 SEG-002 IDX-001",
            "The metadata segment ends where it begins.",
        ),
        (
            "metadata-end-0",
            {"metadata_end": 0},
            "SEG-002 SEG-003",
            "The metadata segment ends before it begins.",
        ),
        (
            "metadata-end-in-headers",
            {"metadata_end": 4097},
            "SEG-002",
            "The metadata segment shares a byte with the header segment.",
        ),
        (
            "metadata-end-in-data",
            {"metadata_end": 8200},
            "SEG-002",
            "The metadata segment reaches into the data segment.",
        ),
        (
            "metadata-end-2-63",
            {"metadata_end": 1 << 63},
            "SEG-002",
            "The metadata segment ends at 2^63.",
        ),
        (
            "header-start-in-metadata",
            {"header_start": 4095},
            "SEG-002 REC-002 REC-001",
            "The header segment shares a byte with the metadata segment.",
        ),
        (
            "header-start-0",
            {"header_start": 0},
            "SEG-002",
            "The header segment begins at the magic.",
        ),
        (
            "header-start-past-end",
            {"header_start": 8193},
            "SEG-002 SEG-004",
            "The header segment begins behind its end.",
        ),
        (
            "header-start-2-64-less-1",
            {"header_start": (1 << 64) - 1},
            "SEG-002 SEG-004",
            "The header segment begins at 2^64 - 1.",
        ),
        (
            "header-end-before-start",
            {"header_end": 4095},
            "SEG-002 SEG-004",
            "The header segment ends before it begins.",
        ),
        (
            "header-end-at-start",
            {"header_end": 4096},
            "SEG-004",
            "The header segment is empty.",
        ),
        (
            "header-end-in-data",
            {"header_end": 8193},
            "SEG-002",
            "The header segment shares a byte with the data segment.",
        ),
        (
            "header-end-2-64-less-1",
            {"header_end": (1 << 64) - 1},
            "SEG-002",
            "The header segment ends at 2^64 - 1.",
        ),
        (
            "data-start-in-headers",
            {"data_start": 8191},
            "SEG-002 IDX-015 IDX-011",
            "The data segment shares a byte with the header segment.",
        ),
        (
            "data-start-0",
            {"data_start": 0},
            "SEG-002 IDX-015 IDX-011",
            "The data segment begins at the magic.",
        ),
        (
            "data-start-past-end",
            {"data_start": size_bytes + 1},
            "SEG-002 IDX-010",
            "The data segment begins behind the end of the file.",
        ),
        (
            "data-start-2-64-less-8",
            {"data_start": (1 << 64) - 8},
            "SEG-002 IDX-010",
            "The data segment begins at 2^64 - 8.",
        ),
        (
            "data-start-at-end",
            {"data_start": size_bytes},
            "IDX-010",
            "The data segment is empty, and both tensors have data.",
        ),
        (
            "all-zero",
            dict.fromkeys(
                ("metadata_start", "metadata_end", "header_start", "header_end"), 0
            )
            | {"data_start": 0},
            "SEG-002 SEG-003",
            "All numbers of the layout section are 0.",
        ),
        (
            "reversed",
            {
                "metadata_start": 8192,
                "metadata_end": 8200,
                "header_start": 4096,
                "header_end": 8192,
                "data_start": SECTION_END,
            },
            "SEG-002 SEG-003",
            "The segments come in the order data, header, metadata.",
        ),
    ):
        yield recipe.refused(
            f"segments-{id_}",
            claiming(**claims),
            rules,
            why,
            features=["large-claim"] if max(claims.values()) > size_bytes else [],
        )
    yield recipe.refused(
        "segments-header-start-late",
        claiming(header_start=4097),
        "REC-002 REC-001 REC-003 REC-004 SEG-004",
        "The header segment begins a byte late, and the offsets lead to the byte behind each header's first.",
    )
    early = claiming(header_end=8000, data_start=8184)
    content = early.encode()
    for record, (_, data_offset) in zip(early.records, early.offsets()):
        digests = record.digests()
        record.hashes = [Hash(kind, digests[kind]) for kind in (CRC32, SHA256)]
        record.plaintext = content[data_offset - 8 :][: len(record.plaintext)]
    yield recipe.refused(
        "segments-data-start-early",
        early,
        "HSH-005 HSH-006",
        "The data segment begins 8 bytes early, so that each tensor has other data; only the hashes tell.",
        content=content,
    )


def alignment(recipe: Recipe) -> Iterator[Case]:
    """Writers align segments and data; readers go by the numbers."""
    yield recipe.valid(
        "segments-unaligned",
        tight(),
        "SEG-002",
        "Segments are as large as what is in them, and follow each other at any byte.",
    )
    made = tight()
    for record in made.records:
        record.data_gap = b""
    yield recipe.valid(
        "segments-unaligned-data",
        made,
        "SEG-002 IDX-010",
        "The data of the tensors is not aligned either.",
    )
    for id_, shape in {"seven": [7], "eight": [8], "nine": [9]}.items():
        yield recipe.valid(
            f"segments-aligned-behind-{id_}",
            File.of(
                [Tensor(["a"], shape=shape), Tensor(["b"])], 5, SEED, layout=SEGMENTS
            ),
            "IDX-010 IDX-011",
            f"Data of {shape[0]} bytes, and then the next multiple of 8.",
        )
    for id_ in ("metadata", "header"):
        yield recipe.valid(
            f"segments-{id_}-room",
            tight(**{id_: bytes(5000)}),
            "SEG-002 SEG-003 SEG-004",
            f"The {id_} segment has room for more.",
        )


def borders(recipe: Recipe) -> Iterator[Case]:
    """Bytes in front of a segment that belong to none."""
    for id_, gaps in {
        "header": {"header": b"\xab" * 4096},
        "data": {"data": b"\xab" * 4096},
        "both": {"header": b"\xab" * 100, "data": b"\xab" * 3},
    }.items():
        made = file()
        segments_of(made).gaps = gaps
        yield recipe.valid(
            f"segments-unowned-before-{id_}",
            made,
            "SEG-002 SEG-004",
            "Bytes that belong to no segment lie between two segments.",
        )
    made = file()
    segments_of(made).gaps = {"metadata": bytes(10)}
    yield recipe.open(
        "segments-unowned-before-metadata",
        made,
        "SEG-003",
        "The metadata segment begins ten bytes behind the layout section, as metadata_start says.",
        "metadata-start",
    )
    nothing = File.of([Tensor(["m"], meta=True)], 5, SEED, layout=SEGMENTS)
    yield recipe.valid(
        "segments-data-empty",
        nothing,
        "SEG-002 IDX-010",
        "No tensor has data; the data segment holds the terminator.",
    )
    nothing.terminator = b""
    yield recipe.valid(
        "segments-data-start-is-end-of-file",
        nothing,
        "SEG-002 IDX-010",
        "No tensor has data, and the file ends where the data segment begins.",
    )


def metadata(recipe: Recipe) -> Iterator[Case]:
    """The index inside its segment."""
    made = file()
    room = 4096 - made.marks()["index"] - sum(len(e.encode(0, 0)) for e in made.entries)
    segments_of(made).metadata_room = b"\xab" * room
    yield recipe.valid(
        "segments-metadata-room-dirty",
        made,
        "SEG-003 IDX-014",
        "The bytes between the index and the end of the metadata segment are not zeros; nobody reads them.",
    )
    made = tight()
    end = made.marks()["metadata_end"]
    for id_, less in {"one-less": 1, "no-index": 78}.items():
        made = tight()
        segments_of(made).claims = {"metadata_end": end - less}
        yield recipe.refused(
            f"segments-index-over-segment-{id_}",
            made,
            "SEG-003 IDX-001",
            f"The metadata segment ends {less} bytes before the index does, which is complete in the file.",
        )
    for id_, length in {
        "room": 4096 - SECTION_END - 8,
        "one-over": 4096 - SECTION_END - 7,
        "into-headers": 4096,
        "2-40": 1 << 40,
        "2-64-less-8": (1 << 64) - 8,
        "2-64-less-126": (1 << 64) - 126,
    }.items():
        made = file()
        made.index_length = length
        yield recipe.refused(
            f"segments-index-length-{id_}",
            made,
            "IDX-014 IDX-003" if id_ == "room" else "SEG-003 IDX-001 IDX-014 IDX-003",
            f"The index claims {length} bytes; {4096 - SECTION_END - 8} would fill the segment.",
            features=["large-claim"] if length > 1 << 20 else [],
        )


def header_segment(recipe: Recipe) -> Iterator[Case]:
    """Tensor headers against the end of their segment, which the file goes on behind."""
    made = tight()
    end = made.marks()["header_end"]
    for id_, less in {"one-less": 1, "length-only": 70, "none-of-last": 77}.items():
        made = tight()
        segments_of(made).claims = {"header_end": end - less}
        yield recipe.refused(
            f"segments-header-over-segment-{id_}",
            made,
            "SEG-004 REC-002",
            f"The header segment ends {less} bytes before the last header does, which is complete in the file.",
        )
    made = file()
    record = made.records[1]
    # A complete header lies behind the segment, in a gap, and the entry leads there.
    segments_of(made).gaps = {"data": record.header() + bytes(8)}
    made.entries[1].header_offset = (
        made.marks()["header_end"] - made.marks()["header_start"]
    )
    yield recipe.refused(
        "segments-header-behind-segment",
        made,
        "SEG-004",
        "A right header lies between the header segment and the data segment.",
    )
    made = file()
    record = made.records[1]
    segments_of(made).gaps = {"header": record.header()}
    made.entries[1].header_offset = (1 << 64) - record.header_bytes()
    yield recipe.refused(
        "segments-header-before-segment",
        made,
        "SEG-004 IDX-008",
        "A right header lies in front of the header segment, and the offset wraps around to it.",
        features=["large-claim"],
    )
    made = file()
    record = made.records[1]
    made.trailer = record.header()
    made.entries[1].header_offset = (
        len(made.encode()) - record.header_bytes() - made.marks()["header_start"]
    )
    yield recipe.refused(
        "segments-header-behind-data",
        made,
        "SEG-004 IDX-015",
        "A right header lies behind the data and the terminator.",
    )
    made = file()
    made.records[0].header_length = 4096
    yield recipe.refused(
        "segments-header-fills-segment",
        made,
        "REC-004 IDX-011 REC-002 REC-003 REC-010 REC-005",
        "The first header claims the whole segment, and the second one lies in it.",
    )


def data_segment(recipe: Recipe) -> Iterator[Case]:
    made = file()
    record = made.records[1]
    # The offset wraps around to a copy of the data, in front of the segment; all hashes are right.
    segments_of(made).gaps = {"data": record.stored + bytes(4)}
    made.entries[1].data_offset = (1 << 64) - 8
    yield recipe.refused(
        "segments-data-before-segment",
        made,
        "IDX-010",
        "The data lies in front of the data segment, and the offset wraps around to it.",
        features=["large-claim"],
    )
    made = file()
    made.trailer = made.records[1].stored
    made.entries[1].data_offset = (
        len(made.encode()) - len(made.trailer) - made.marks()["data_start"]
    )
    yield recipe.valid(
        "segments-data-behind-terminator",
        made,
        "IDX-010 IDX-011",
        "The data of a tensor lies behind a terminator, as that of an appended tensor does.",
    )


def split_pair(recipe: Recipe) -> Iterator[Case]:
    """The head of a split pair of FORMAT.md, appendix A, which only its maker takes for anything."""
    made = claiming(data_start=4096)
    made.flags = (1 << 255).to_bytes(32, "little")
    made.unused = bytes(range(1, 9))
    yield recipe.refused(
        "segments-split-head",
        made,
        "HDR-004",
        "A reserved flag says that the data is in another file.",
        content=made.encode()[: made.marks()["header_end"]],
    )
