"""Cases of how the layouts of data version 5 are told apart, among them files that can be read in two of them."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from builder import File, Tensor
from case import Case
from layouts import FLAGGED_DIMS, HEADERS_FIRST, LONG_DIMS, SEGMENTS
from recipe import Recipe, two_tensors
from sealing import Lock
from wire import CRC32, ENTRY_VERSION, LONG_ENTRY_VERSION, SHA256, Hash

SEED = 1000
VERSION_AT = 5
KEY = bytes(range(32))

V4_AS_5 = "v4-as-v5"


def cases() -> Iterator[Case]:
    recipe = Recipe("detection", SEED)
    yield from one_reading(recipe)
    yield from other_versions(recipe)
    yield from index_reads_both_ways(recipe)


def one_reading(recipe: Recipe) -> Iterator[Case]:
    """Right files that a hasty reader takes for another layout."""
    for id_, name, why in (
        (
            "nul",
            "\0",
            "The index begins as a tagged one does, 01 00 00 00, with a name of one NUL byte.",
        ),
        (
            "nul-nul",
            "\0\0abc",
            "The index begins as a tagged one does, 05 00 00 00, with a name of five bytes.",
        ),
        (
            "five-nuls",
            "\0" * 5,
            "The name is five NUL bytes, so most of the first entry is zeros.",
        ),
    ):
        yield recipe.valid(
            f"detection-first-name-{id_}",
            File.of(
                [Tensor([name], "<u2", [3], kind=0), Tensor(["b"])],
                5,
                SEED,
                layout=HEADERS_FIRST,
            ),
            "HDR-007 HDR-008 IDX-014",
            why,
        )
    for layout, name in ((HEADERS_FIRST, "nine-long"), (LONG_DIMS, "five5")):
        file = File.of([Tensor([name])], 5, SEED, layout=layout)
        assert len(file.entries[0].encode(0, 0)) == 45
        yield recipe.valid(
            f"detection-index-of-45-bytes-{layout[3:]}",
            file,
            "HDR-007 SEG-001",
            "The index has as many bytes as the layout section of v5-segments.",
        )


def other_versions(recipe: Recipe) -> Iterator[Case]:
    """Files of one layout under the data version of another."""
    reserved = two_tensors(4, SEED)
    reserved.data_version = 5
    reserved.index_padding = bytes(16)
    yield recipe.open(
        "detection-v4-as-5-reserve",
        reserved,
        "HDR-007 IDX-014 IDX-013 IDX-015",
        "A file of layout v4 says data version 5: its index has no tags, and room behind the entries.",
        V4_AS_5,
    )
    exact = two_tensors(4, SEED)
    exact.data_version = 5
    yield recipe.open(
        "detection-v4-as-5-exact",
        exact,
        "HDR-007 IDX-015 IDX-013",
        "A file of layout v4 says data version 5: data lies in front of the second tensor header.",
        V4_AS_5,
    )
    for id_, tensors, why in (
        (
            "meta",
            [Tensor(["a"]), Tensor(["m"], meta=True)],
            "One tensor is a meta tensor.",
        ),
        (
            "name-nul",
            [Tensor(["\0"], "<u2", [3], kind=0), Tensor(["b"])],
            "The index begins as a tagged one does, 01 00 00 00, with a name of one NUL byte.",
        ),
        (
            "name-nul-nul",
            [Tensor(["\0\0abc"], "<u2", [3]), Tensor(["b"])],
            "The index begins as a tagged one does, 05 00 00 00, with a name of five bytes.",
        ),
    ):
        file = File.of(tensors, 4, SEED)
        file.data_version = 5
        yield recipe.open(
            f"detection-v4-as-5-{id_}",
            file,
            "HDR-007 IDX-015 IDX-013",
            f"A file of layout v4 says data version 5. {why}",
            V4_AS_5,
        )
    sealed = File.of(
        [Tensor(["a"], "<u2", [2, 3]), Tensor(["b"])], 4, SEED, lock=Lock(KEY)
    )
    sealed.data_version = 5
    yield recipe.open(
        "detection-v4-as-5-encrypted",
        sealed,
        "HDR-007 IDX-015 IDX-013",
        "An encrypted file of layout v4 says data version 5.",
        V4_AS_5,
        key=KEY,
    )
    yield recipe.open(
        "detection-v4-as-5-over-tags",
        classic_over_tags(),
        "HDR-007 REC-006 IDX-013",
        "A file of layout v4 says data version 5. Its index also reads as one of v5-long-dims, but the headers do not.",
        V4_AS_5,
    )
    single = File.of([Tensor(["a"], "<u2", [2, 3])], 4, SEED)
    single.data_version = 5
    yield recipe.open(
        "detection-v4-as-5-single",
        single,
        "HDR-007 HSH-005 HSH-006",
        "With one tensor the structure of v4 is that of v5-headers-first, but the hashes cover other bytes.",
        "v4-as-v5-one-record",
        decodes=False,
    )
    for layout, why in (
        (HEADERS_FIRST, "A header follows the first header, where its data should be."),
        (LONG_DIMS, "The tag of the first entry is read as the length of its name."),
        (
            FLAGGED_DIMS,
            "Data version 4 has no feature flag 1.",
        ),
        (SEGMENTS, "The layout section is read as an index of 45 bytes."),
    ):
        content = bytearray(two_tensors(5, SEED, layout).encode())
        content[VERSION_AT] = 4
        yield recipe.refused(
            f"detection-{layout[3:]}-as-4",
            two_tensors(4, SEED),
            {
                HEADERS_FIRST: "IDX-009 IDX-012 REC-002",
                LONG_DIMS: "DTY-001 IDX-002 IDX-004 IDX-005",
                FLAGGED_DIMS: "HDR-004",
                SEGMENTS: "IDX-002",
            }[layout],
            f"A file of layout {layout} says data version 4. {why}",
            content=bytes(content),
        )
    for id_, fill in {"zeros": b"\0", "ones": b"\xff", "fives": b"\5\0\0\0"}.items():
        right = two_tensors(5, SEED, HEADERS_FIRST)
        start, end = right.marks()["index"], right.marks()["header_start"]
        content = right.encode()
        index = (fill * (end - start))[: end - start]
        yield recipe.refused(
            f"detection-index-of-{id_}",
            right,
            "HDR-007 IDX-002 IDX-004 IDX-013 DTY-001 DTY-002 NAM-001",
            f"The index is nothing but the bytes {fill.hex(' ')}.",
            content=content[:start] + index + content[end:],
        )
    for id_, length in {"zero": 0, "one": 1}.items():
        wrong = two_tensors(5, SEED, HEADERS_FIRST)
        wrong.index_length = length
        yield recipe.refused(
            f"detection-index-length-{id_}",
            wrong,
            "IDX-002",
            f"An index of {length} bytes has room for no entry of any layout.",
        )


def index_reads_both_ways(recipe: Recipe) -> Iterator[Case]:
    """Each reading is that of a right file, all hashes included, until the header of one is spoilt."""
    for version in (ENTRY_VERSION, LONG_ENTRY_VERSION):
        both = two_readings(version)
        yield recipe.refused(
            f"detection-two-layouts-{version}",
            both.tagged,
            "HDR-008",
            "Index and headers are right as v5-headers-first and as v5-long-dims, with different tensors;"
            f" the first entry has version {version}.",
        )
    both = two_readings(LONG_ENTRY_VERSION)
    both.plain.records[0].hashes = [Hash(CRC32, bytes(4)), Hash(SHA256, bytes(32))]
    record = both.tagged.records[0]
    record.plaintext = both.plain.records[0].header()
    yield recipe.refused(
        "detection-two-layouts-one-verifies",
        both.tagged,
        "HDR-008",
        "Index and headers are right in two layouts, but the hashes of one reading are all zeros.",
    )
    both = two_readings(LONG_ENTRY_VERSION)
    both.plain.terminator = b""
    yield recipe.open(
        "detection-two-layouts-no-terminator",
        both.plain,
        "HDR-008 TRM-001",
        "Index and headers are right in two layouts, but v5-long-dims lacks its terminator.",
        "detection-terminator",
    )
    # Such a file is small only if the first entry has version 5.
    version = LONG_ENTRY_VERSION
    for id_, at, wrong, why in (
        ("terminator", 0, bytes(8), "is a terminator"),
        ("kind", 10, b"\1", "has another kind"),
        ("name", 13, b"?", "has another name"),
    ):
        both = two_readings(version)
        record = both.tagged.records[0]
        record.plaintext = spoilt(record.plaintext, at, wrong)
        yield recipe.valid(
            f"detection-long-dims-by-header-{id_}",
            both.tagged,
            "HDR-008 IDX-013",
            "The index also reads as one of v5-headers-first, but the header that this reading leads to first"
            f" {why}.",
        )
        both = two_readings(version)
        record = both.plain.records[0]
        record.gap = spoilt(record.gap, at, wrong)
        yield recipe.valid(
            f"detection-headers-first-by-header-{id_}",
            both.plain,
            "HDR-008 IDX-014",
            "The index also reads as one of v5-long-dims, but the header that this reading leads to first"
            f" {why}.",
        )
        record.kind = 1
        yield recipe.refused(
            f"detection-neither-by-header-{id_}",
            both.plain,
            "HDR-007 REC-001 REC-006 REC-007",
            "The index reads as one of v5-headers-first and as one of v5-long-dims, but the first header has another"
            f" kind in the former reading and {why} in the latter.",
        )
    yield recipe.valid(
        "detection-long-dims-by-offset",
        two_readings(version, headers=1 << 62).tagged,
        "HDR-008 IDX-013",
        "The index also reads as one of v5-headers-first, with a header offset of 2^62.",
        features=["large-claim"],
    )
    yield recipe.valid(
        "detection-headers-first-by-offset",
        two_readings(version, long=1 << 62).plain,
        "HDR-008 IDX-014",
        "The index also reads as one of v5-long-dims, with a header offset of 2^62.",
        features=["large-claim"],
    )


def classic_over_tags() -> File:
    """A file of layout v4 and data version 5 whose index, though not its headers, reads as one of v5-long-dims.

    The first entry begins as a tagged one does, 01 00 00 00. The name that it then has, of 03 3C bytes, ends inside the
    name of the second entry. There stand the rest of a tagged entry and the beginning of another one, whose name takes
    all that follows but the last fields.
    """
    first = Tensor(["\0"], "<u2", [2], kind=0)
    first_length, second_length = 0x3C03, 15632
    for padding in range(8, 4000, 11):
        start, data_start, name = 0, 0, b""
        # Offsets lie inside names, so the first round finds them, and the next ones put them there.
        for _ in range(3):
            entry = File.of([first], 4, SEED).entries[0].encode(start, data_start)
            # Behind version and length of the tagged name, and the length of the second name.
            before = 6 + first_length - len(entry) - 2
            fields = struct.pack("<BB3sBI", 0, 3, b"<u2", 1, 2)
            fields += struct.pack("<QQQ", start, data_start, 4)
            rest = second_length - before - len(fields) - 6
            name = b"x" * before + fields + struct.pack("<IH", ENTRY_VERSION, rest)
            name += b"y" * rest
            file = File.of([first, Tensor([""], "<u2", [2], kind=0, name=name)], 4)
            file.index_padding = bytes(padding)
            (start, data_start), _ = file.offsets()
        try:
            path = name.decode()
            (entry[6:] + u16(second_length)).decode()
        except UnicodeDecodeError:
            continue
        file = File.of([first, Tensor([path], "<u2", [2], kind=0)], 4, SEED)
        file.index_padding = bytes(padding)
        file.data_version = 5
        return file
    raise ValueError("no offsets are valid UTF-8")


def spoilt(header: bytes, at: int, wrong: bytes) -> bytes:
    return header[:at] + wrong + header[at + len(wrong) :]


# How an index reads both ways: the tagged entry 1 begins as a plain entry with a strange name does, and what is left of
# the plain entry 1 lies inside the tagged name 1. The plain name 2 begins there too: it swallows what is left of the
# tagged entry 1 and the beginning of the tagged entry 2. The plain entry 2 goes on inside the tagged name 2, and the
# end of the tagged entry 2 lies inside the plain shape 2, up to its header_offset:
#
#   tagged: | version, length | name 1 ................. | kind .. offsets | version .. name 2 | .... | offsets | 0 |
#   plain:  | name .. dtype ............ offsets | length | name 2 ................. | kind .. shape  | offsets    |
#
# So the last two numbers of the tagged entry are the first two offsets of the plain one.

INDEX_START = 73


@dataclass
class TwoReadings:
    """A file of data version 5 as v5-headers-first and as v5-long-dims. Both describe the same bytes."""

    plain: File
    tagged: File


def two_readings(version: int, **outside: int) -> TwoReadings:
    """The file in which the first tagged entry is of this version.

    outside replaces the header offset of the first entry in one reading, by its layout's first word.
    """
    for spare in range(1, 2000):
        # Offsets lie inside names, and not every number is valid UTF-8.
        made = try_two_readings(version, spare, outside)
        if made is not None:
            return made
    raise ValueError("no offsets are valid UTF-8")


def try_two_readings(
    version: int, spare: int, outside: dict[str, int]
) -> TwoReadings | None:
    name_length = 0x3C03 if version == ENTRY_VERSION else 48
    plain_name = (
        b"\0" if version == ENTRY_VERSION else b"\0\0" + u16(name_length) + b"n"
    )
    # The shape of the second plain tensor: two bytes of a name, then the end of the tagged entry. Its last dimension,
    # the upper half of an offset, is 0, so the tensor has no elements.
    shape = [0] * 5
    offsets = [(0, 0), (0, 0)]
    tagged_data = [b"", b""]
    plain_name_2 = b""
    # Each round knows more of what the one before worked out: lengths, then offsets.
    for _ in range(6):
        plain_entry = (
            File.of([Tensor([""], "<f4", [1], kind=0, name=plain_name)], 5, SEED)
            .entries[0]
            .encode(outside.get("headers", offsets[0][0]), offsets[0][1])
        )
        name = plain_entry[6:] + u16(len(plain_name_2))
        filler = b"x" * (name_length - len(name))
        tail = bytes([0, 3]) + b"<f4" + bytes([len(shape)])
        name_2 = b"y" * spare + tail + b"zz"
        try:
            paths = [part.decode() for part in (name + filler, name_2)]
        except UnicodeDecodeError:
            return None
        tagged = File.of(
            [
                Tensor([path], "|u1", [len(data)], data=data)
                for path, data in zip(paths, tagged_data)
            ],
            5,
            SEED,
            layout=LONG_DIMS,
        )
        retag(tagged, version)
        tagged.entries[0].header_offset = outside.get("long")
        tagged.index_padding = bytes(8)
        places = tagged.offsets()
        index = tagged.encode()[INDEX_START : places[0][0]]
        plain_name_2 = index[len(plain_entry) + 2 : -24 - 4 * len(shape) - len(tail)]
        shape = list(struct.unpack_from("<5I", index, len(index) - 44))
        try:
            plain_path_2 = plain_name_2.decode()
        except UnicodeDecodeError:
            return None

        plain = File.of(
            [
                Tensor([plain_name.decode()], "<f4", [1], kind=0),
                Tensor([plain_path_2], "<f4", shape, kind=0),
            ],
            5,
            SEED,
            layout=HEADERS_FIRST,
        )
        first, second = plain.records
        # The data of the first tagged tensor is the first plain header, that of the second one all the rest.
        first.gap, second.gap = (record.header() for record in tagged.records)
        start = places[1][1]
        header_end = start + second.header_bytes()
        plain_data_start = next(
            at for at in range(header_end, 2 * header_end) if is_utf8(at)
        )
        first.data_gap = bytes(plain_data_start - header_end)
        end = plain_data_start + len(first.stored)
        offsets = [(places[0][1], plain_data_start), (start, end)]
        plain.entries[0].header_offset = outside.get("headers")
        plain.terminator_gap = bytes(start)
        plain.data_sum = tagged.data_sum = 0
        tagged_data = [
            first.header(),
            b"".join(
                [second.header(), first.data_gap, first.stored, plain.terminator_gap]
            ),
        ]
    assert plain.encode() == tagged.encode(), "the readings differ"
    return TwoReadings(plain, tagged)


def retag(file: File, version: int) -> None:
    """Gives the first entry this version, and index and header dimensions that go with it."""
    entry = file.entries[0]
    entry.version = version
    entry.dim = entry.record.dim = "Q" if version == LONG_ENTRY_VERSION else "I"


def is_utf8(number: int) -> bool:
    """Whether a number can lie inside a name."""
    try:
        struct.pack("<Q", number).decode()
    except UnicodeDecodeError:
        return False
    return True


def u16(number: int) -> bytes:
    return struct.pack("<H", number)
