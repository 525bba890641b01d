"""Cases of v5-long-dims: versions of index entries, and dimensions of 2^32 and more."""

from collections.abc import Iterator

from builder import File, Tensor, tag
from case import Case
from layouts import LONG_DIMS
from recipe import Recipe, two_tensors
from sealing import Lock
from wire import CRC32, DIM, LONG_DIM, SHA256, Hash

SEED = 1300
KEY = bytes(range(32))
GIB_4 = 1 << 32


def cases() -> Iterator[Case]:
    recipe = Recipe("long_dims", SEED)
    yield from entry_versions(recipe)
    yield from dimensions(recipe)
    yield from widths(recipe)
    yield from index_extent(recipe)
    yield from records(recipe)
    yield from hashes(recipe)
    yield from encryption(recipe)
    yield from truncation(recipe)


def of(*tensors: Tensor, lock: Lock | None = None) -> File:
    return File.of(list(tensors), 5, SEED, lock, LONG_DIMS)


def file() -> File:
    return two_tensors(5, SEED, LONG_DIMS)


def entry_versions(recipe: Recipe) -> Iterator[Case]:
    yield recipe.valid(
        "long-dims-plain",
        file(),
        "HDR-003 HDR-007 IDX-008 IDX-010 IDX-011 IDX-013 REC-002 TRM-001 TRM-002 HSH-005 HSH-006",
        "Two plain tensors and no long dimension; the index has no room behind its entries.",
    )
    for id_, places in {"first": [0], "second": [1], "both": [0, 1]}.items():
        made = file()
        for place in places:
            tag(made.entries[place], is_long=True)
        yield recipe.valid(
            f"long-dims-small-{id_}",
            made,
            "IDX-013 REC-009",
            f"Version 5 of {len(places)} entries, with dimensions that would fit in four bytes each.",
        )
    scalar = of(Tensor(["a"], "<f8", []), Tensor(["b"]))
    tag(scalar.entries[0], is_long=True)
    yield recipe.valid(
        "long-dims-scalar",
        scalar,
        "IDX-013 REC-009",
        "Version 5 of an entry without dimensions.",
    )
    for id_, tensor in {
        "structured": Tensor(["layers", 0, "w"]),
        "opaque": Tensor(["a"], "<V2\0torch.bfloat16"),
        "empty": Tensor(["a"], shape=[0]),
        "meta": Tensor(["a"], meta=True),
    }.items():
        yield recipe.valid(
            f"long-dims-{id_}",
            of(tensor, Tensor(["z"])),
            "IDX-013",
            "The rest of an entry is as in the other layouts.",
        )
    # What is broken if the index is read as one without versions: its first entry then begins with this number.
    for version, without in {
        0: "DTY-001 IDX-002 IDX-008 IDX-010",
        2: "DTY-001 IDX-002",
        3: "IDX-002",
        4: "IDX-004 DTY-001 IDX-002",
        6: "IDX-004 DTY-001 IDX-002",
        256: "IDX-002",
        0x05000000: "DTY-001 IDX-002",
        0xFFFFFFFF: "IDX-002",
    }.items():
        for place, id_ in enumerate(("first", "second")):
            made = file()
            made.entries[place].version = version
            yield recipe.refused(
                f"long-dims-version-{version}-{id_}",
                made,
                f"IDX-013 {without if place == 0 else 'DTY-001 IDX-002'}",
                f"The {id_} entry has version {version}.",
            )


def dimensions(recipe: Recipe) -> Iterator[Case]:
    for id_, shape, dtype, why in (
        ("below-2-32", [GIB_4 - 1], "|u1", "The largest dimension of four bytes."),
        ("2-32", [GIB_4], "|u1", "The smallest dimension of eight bytes."),
        ("2-32-plus-1", [GIB_4 + 1], "<f4", "More than 2^32 elements."),
        ("2-40", [1 << 40], "<V2\0torch.bfloat16", "A dimension of 2^40."),
        ("last", [2, 3, GIB_4], "|b1", "The last of three dimensions is long."),
        ("first", [GIB_4, 1, 2], "<i8", "The first of three dimensions is long."),
        (
            "below-2-63",
            [(1 << 63) - 1],
            "|u1",
            "The largest size that a tensor may have.",
        ),
        (
            "below-2-63-by-item",
            [(1 << 62) - 1],
            "<f2",
            "The largest number of elements that fits, of two bytes each.",
        ),
    ):
        yield recipe.valid(
            f"long-dims-meta-{id_}",
            of(Tensor(["m"], dtype, shape, meta=True), Tensor(["a"])),
            "IDX-005 IDX-007 IDX-013",
            f"A meta tensor. {why}",
            features=["large-claim"],
        )
    for id_, shape in {
        "2-32-by-0": [GIB_4, 0],
        "0-by-2-40": [0, 1 << 40],
    }.items():
        yield recipe.valid(
            f"long-dims-zero-{id_}",
            of(Tensor(["e"], "<i4", shape), Tensor(["a"])),
            "IDX-006 IDX-013",
            "A tensor without elements has a long dimension; it is no meta tensor.",
            features=["large-claim"],
        )
    yield recipe.open(
        "long-dims-zero-0-by-2-64-less-1",
        of(Tensor(["e"], "<i4", [0, (1 << 64) - 1]), Tensor(["a"])),
        "IDX-005",
        "A tensor without elements has the largest dimension that eight bytes hold.",
        "dimension-2-63",
        features=["large-claim"],
    )
    yield recipe.open(
        "long-dims-zero-behind-huge",
        of(Tensor(["e"], "<i4", [1 << 40, 1 << 40, 0])),
        "IDX-005",
        "The product is 0, but leaves 64 bits on the way if it is taken from the left.",
        "zero-product",
        features=["large-claim"],
    )
    for id_, shape, dtype in (
        ("2-63", [1 << 63], "|u1"),
        ("2-64", [GIB_4, GIB_4], "|u1"),
        ("2-63-by-item", [1 << 62], "<f2"),
        ("2-64-by-item", [1 << 62], "<f4"),
    ):
        yield recipe.refused(
            f"long-dims-meta-{id_}",
            of(Tensor(["m"], dtype, shape, meta=True)),
            "IDX-005",
            f"A meta tensor of {id_[:4].replace('-', '^')} bytes, which no signed number of 64 bits holds.",
            features=["large-claim"],
        )
    # 2^32 + 1 and 2^64 - 2^33 + 2 give 2 modulo 2^64, the real number of data bytes.
    wrapping = [GIB_4 + 1, (1 << 64) - 2 * GIB_4 + 2]
    assert wrapping[0] * wrapping[1] % (1 << 64) == 2
    yield recipe.refused(
        "long-dims-shape-wraps",
        of(Tensor(["a"], shape=wrapping, data=bytes(2))),
        "IDX-005 IDX-006",
        "The product of the shape is 2 only modulo 2^64, and the tensor has 2 bytes of data.",
        features=["large-claim"],
    )
    yield recipe.refused(
        "long-dims-low-half",
        of(Tensor(["a"], shape=[GIB_4 + 4], data=bytes(4))),
        "IDX-006 IDX-010",
        "The lower half of the dimension is the number of data bytes.",
        features=["large-claim"],
    )


def widths(recipe: Recipe) -> Iterator[Case]:
    """The version of an entry says how wide the dimensions are, in the entry and in the header."""
    # What stands behind dimensions of the wrong width is read in the wrong place.
    anything = "HDR-007 IDX-002 IDX-003 IDX-004 IDX-005 IDX-006 IDX-008 IDX-010 IDX-013 DTY-001"
    for place, id_ in enumerate(("first", "second")):
        for version, dim, said in ((5, DIM, "four"), (1, LONG_DIM, "eight")):
            made = file()
            entry = made.entries[place]
            entry.version, entry.dim = version, dim
            entry.record.dim = LONG_DIM if version == 5 else DIM
            yield recipe.refused(
                f"long-dims-version-{version}-of-{said}-{id_}",
                made,
                anything,
                f"The {id_} entry has version {version}, but its dimensions have {said} bytes each.",
            )
            made = file()
            entry = made.entries[place]
            tag(entry, is_long=version == 5)
            entry.record.dim = dim
            yield recipe.refused(
                f"long-dims-header-of-{said}-{id_}",
                made,
                "REC-009 REC-003 REC-004 HSH-001",
                f"The {id_} entry has version {version}, but the dimensions of its header have {said} bytes each.",
            )


def index_extent(recipe: Recipe) -> Iterator[Case]:
    for size_bytes in (1, 8, 4096):
        made = file()
        made.index_padding = bytes(size_bytes)
        yield recipe.valid(
            f"long-dims-reserve-{size_bytes}",
            made,
            "IDX-001 IDX-003",
            f"The index reserves {size_bytes} bytes of zeros for more entries.",
        )
    for id_, padding in {"ones": b"\xff" * 16, "last": bytes(15) + b"\1"}.items():
        made = file()
        made.index_padding = padding
        yield recipe.refused(
            f"long-dims-reserve-{id_}",
            made,
            "HDR-007 IDX-003",
            f"The room behind the entries holds {padding.hex(' ')}, so the index reads in no layout.",
        )
    made = file()
    made.count = 1
    yield recipe.refused(
        "long-dims-count-one",
        made,
        "HDR-007 IDX-003",
        "The count leaves one entry out, which stands where zeros should be.",
    )
    for id_, count in {"three": 3, "2-60": 1 << 60}.items():
        made = file()
        made.count = count
        yield recipe.refused(
            f"long-dims-count-{id_}",
            made,
            "IDX-002",
            f"The count is {count}, but the index holds two entries and no room for more.",
            features=["large-claim"] if count > 3 else [],
        )
    made = file()
    made.count, made.index_padding = 3, bytes(100)
    yield recipe.refused(
        "long-dims-count-three-of-zeros",
        made,
        "IDX-013 IDX-002 DTY-001 NAM-006",
        "The count is 3, and an entry of zeros has version 0.",
    )
    size_bytes = len(file().encode())
    for id_, length, rules in (
        ("cut", 60, "IDX-002"),
        ("past-end", size_bytes, "IDX-001"),
        ("2-64-less-1", (1 << 64) - 1, "IDX-001"),
    ):
        made = file()
        made.index_length = length
        yield recipe.refused(
            f"long-dims-index-length-{id_}",
            made,
            rules,
            f"The index claims {length} bytes in a file of {size_bytes}.",
            features=["large-claim"] if length > size_bytes else [],
        )
    made = file()
    tag(made.entries[1], is_long=True)
    made.entries[1].ndim = 255
    yield recipe.refused(
        "long-dims-shape-past-end",
        made,
        "IDX-002",
        "An entry claims 255 dimensions of eight bytes, and the index ends before.",
    )


def records(recipe: Recipe) -> Iterator[Case]:
    """Records and terminator are as in v4."""
    size_bytes = len(file().encode())
    (first, _), (second, data) = file().offsets()
    for id_, offset in {
        "zero": 0,
        "in-index": 80,
        "past-end": size_bytes,
        "2-63": 1 << 63,
        "same": first,
    }.items():
        made = file()
        made.entries[1].header_offset = offset
        yield recipe.refused(
            f"long-dims-header-offset-{id_}",
            made,
            "IDX-011 REC-006 IDX-009 IDX-012"
            if offset == first
            else "IDX-008 IDX-009 IDX-011 IDX-012",
            f"The header offset of the second tensor is {offset} instead of {second}.",
            features=["large-claim"] if offset > size_bytes else [],
        )
    for id_, offset in {
        "one-less": data - 1,
        "one-more": data + 1,
        "zero": 0,
        "2-63": 1 << 63,
    }.items():
        made = file()
        made.entries[1].data_offset = offset
        yield recipe.refused(
            f"long-dims-data-offset-{id_}",
            made,
            "IDX-009 IDX-010 IDX-011 IDX-012 REC-002",
            f"The data offset of the second tensor is {offset}, but its header ends at {data}.",
            features=["large-claim"] if offset > size_bytes else [],
        )
    for place, id_ in enumerate(("before-first", "between")):
        made = file()
        made.records[place].gap = b"\xab" * 8
        yield recipe.open(
            f"long-dims-gap-{id_}",
            made,
            "IDX-012",
            "Eight bytes in front of a record belong to no tensor; all offsets are right.",
            "record-gaps",
        )
    made = file()
    made.entries.reverse()
    yield recipe.open(
        "long-dims-entries-reversed",
        made,
        "IDX-016 IDX-012",
        "The index lists the tensors in another order than the file holds them.",
        "entry-order",
    )
    for id_, terminator, rule in (
        ("missing", b"", "TRM-001"),
        ("cut", bytes(7), "TRM-001"),
        ("nonzero", b"\1" + bytes(7), "TRM-002"),
    ):
        made = file()
        made.terminator = terminator
        yield recipe.open(
            f"long-dims-terminator-{id_}",
            made,
            rule,
            f"The terminator is {id_}.",
            "terminator",
        )
    made = file()
    made.trailer = b"\xab" * 9
    yield recipe.open(
        "long-dims-trailer",
        made,
        "IDX-016 TRM-002",
        "Bytes follow the terminator.",
        "trailing-bytes",
    )
    made = file()
    made.data_sum, made.unused = (1 << 64) - 1, b"\xff" * 8
    yield recipe.valid(
        "long-dims-informative",
        made,
        "HDR-001",
        "The sum of the data and the unused bytes may hold anything.",
    )
    for id_, attribute, value, rules in (
        ("name", "name", b"z", "REC-006"),
        ("kind", "kind", 0, "REC-007"),
        ("dtype", "dtype", b"<i2", "REC-008"),
        ("shape", "shape", [3, 2], "REC-009"),
        ("data-length", "data_length", 11, "REC-010"),
        ("data-length-negative", "data_length", -12, "REC-005 REC-010"),
        ("length-zero", "header_length", 0, "REC-001"),
        (
            "length-one-more",
            "header_length",
            file().records[0].header_bytes() + 1,
            "REC-002 REC-003 REC-004 REC-005 REC-010 IDX-009",
        ),
    ):
        made = file()
        setattr(made.records[0], attribute, value)
        yield recipe.refused(
            f"long-dims-header-{id_}",
            made,
            rules,
            f"In a header the {id_.replace('-', ' ')} is wrong; the hashes go by the header.",
        )
    long = of(Tensor(["m"], shape=[GIB_4 + 2], meta=True), Tensor(["a"]))
    long.records[0].shape = [2]
    yield recipe.refused(
        "long-dims-header-shape-upper-half",
        long,
        "REC-009",
        "The dimensions of entry and header differ in their upper halves only.",
        features=["large-claim"],
    )


def hashes(recipe: Recipe) -> Iterator[Case]:
    """The hashes cover the header as in v4, with dimensions as wide as they are."""
    made = file()
    made.records[0].hashes = [Hash(CRC32, bytes(4)), Hash(SHA256)]
    yield recipe.refused(
        "long-dims-crc32-wrong", made, "HSH-005", "The CRC32 is 0, the SHA-256 right."
    )
    made = file()
    tag(made.entries[0], is_long=True)
    record = made.records[0]
    long_length = record.header_bytes()
    record.dim, record.header_length = DIM, long_length
    digests = record.digests()
    record.dim, record.header_length = LONG_DIM, None
    record.hashes = [Hash(kind, digests[kind]) for kind in (CRC32, SHA256)]
    yield recipe.refused(
        "long-dims-hashed-narrow",
        made,
        "HSH-005 HSH-006",
        "The hashes are those of the header with dimensions of four bytes.",
    )
    made = file()
    for record in made.records:
        record.headers_first = True
        digests = record.digests()
        record.headers_first = False
        record.hashes = [Hash(kind, digests[kind]) for kind in (CRC32, SHA256)]
    yield recipe.refused(
        "long-dims-hashed-headers-first",
        made,
        "HSH-005 HSH-006",
        "The hashes leave the hash list out, as in the layouts with headers first.",
    )
    made = of(Tensor(["m"], shape=[GIB_4], meta=True))
    right = made.records[0].digests()
    made.records[0].shape = made.entries[0].shape = [GIB_4 * 2]
    made.tensors[0].shape = [GIB_4 * 2]
    made.records[0].hashes = [Hash(kind, right[kind]) for kind in (CRC32, SHA256)]
    yield recipe.refused(
        "long-dims-hashed-upper-half",
        made,
        "HSH-005 HSH-006",
        "The upper half of a dimension was changed, in the index too.",
        features=["large-claim"],
    )


def encryption(recipe: Recipe) -> Iterator[Case]:
    data = Tensor(["a"], shape=[1100])
    long = Tensor(["m"], shape=[GIB_4], meta=True)
    for id_, tensors, rules, why in (
        ("key", [data, Tensor(["b"])], "CRY-009 CRY-016 HDR-004", "Two tensors."),
        (
            "meta",
            [long, data],
            "CRY-007 HSH-005",
            "A meta tensor has an empty crypt block, and a CRC32 as in v4.",
        ),
        (
            "zero-elements",
            [Tensor(["e"], shape=[0]), data],
            "CRY-007 HSH-005",
            "A tensor without elements has an empty crypt block, and a CRC32 as in v4.",
        ),
    ):
        yield recipe.valid(
            f"long-dims-encrypted-{id_}",
            of(*tensors, lock=Lock(KEY)),
            rules,
            why,
            features=["large-claim"] if long in tensors else [],
            key=KEY,
        )
    made = of(data, Tensor(["b"]), lock=Lock(KEY))
    tag(made.entries[0], is_long=True)
    yield recipe.valid(
        "long-dims-encrypted-long",
        made,
        "CRY-016 IDX-013",
        "The entry of an encrypted tensor has version 5.",
        key=KEY,
    )
    yield recipe.refused(
        "long-dims-encrypted-wrong-key",
        of(data, Tensor(["b"]), lock=Lock(KEY)),
        "CRY-016",
        "Another key.",
        key=KEY[::-1],
        same_file_as="long-dims-encrypted-key",
    )
    yield recipe.refused(
        "long-dims-encrypted-no-key",
        of(data, Tensor(["b"]), lock=Lock(KEY)),
        "CRY-018",
        "The file is opened without a key.",
        same_file_as="long-dims-encrypted-key",
    )
    made = of(data, lock=Lock(KEY))
    made.flags = bytes(32)
    yield recipe.refused(
        "long-dims-flag-cleared",
        made,
        "REC-004",
        "An encrypted file says that it is not; its ciphertext must not be handed out as data.",
        key=None,
    )


def truncation(recipe: Recipe) -> Iterator[Case]:
    made = file()
    content = made.encode()
    (header, data), (next_header, next_data) = made.offsets()
    for id_, at, rules in (
        ("index-length", 65, "IDX-001"),
        ("index", 73, "IDX-001"),
        ("in-entry-version", 75, "IDX-001"),
        ("in-second-entry", header - 20, "IDX-001"),
        ("headers", header, "IDX-008 IDX-010 REC-002"),
        ("in-first-header", header + 20, "REC-002 IDX-008 IDX-009 IDX-010"),
        ("data", data, "IDX-010 IDX-008"),
        ("in-data", data + 5, "IDX-010 IDX-008"),
        ("second-header", next_header, "IDX-008 IDX-010 REC-002"),
        ("in-second-header", next_header + 20, "REC-002 IDX-008 IDX-009 IDX-010"),
        ("second-data", next_data, "IDX-010"),
        ("in-second-data", next_data + 3, "IDX-010"),
    ):
        yield recipe.refused(
            f"long-dims-cut-{id_}",
            made,
            rules,
            f"The file ends after {at} of its {len(content)} bytes: {id_.replace('-', ' ')}.",
            content=content[:at],
        )
