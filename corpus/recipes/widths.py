"""Cases for readers that read a number as one of another type: of fewer bytes, with a sign, or as a double.

FIELDS has every integer field of the format. Each of its values is tried on both sides of the limits of the types that
a reader may take for its own, LIMIT_BITS: in valid files where the format allows such a value in a file of a few bytes,
otherwise in files whose value differs from the right one only by one such bit. The readers that these cases are for are
in conformance/planted_bugs/widths.cc; widths_test.py compares the fields here with those that are there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import builder
import layouts
import sealing
import sodium
from builder import File, Tensor
from case import Case
from recipe import Recipe
from sealing import Lock
from wire import CRC32, HASH_BYTES, SHA256, Hash, Record

SEED = 2200
KEY = bytes(range(32))
PASSPHRASE = "open sesame"
SALT = builder.noise(f"{SEED}/salt", sodium.SALT_BYTES)

# Where the types end that are read in place of others: of 8, 16 and 32 bits with a sign and without, of 64 bits with a
# sign, and a double.
LIMIT_BITS = (7, 8, 15, 16, 31, 32, 53, 63)
# From here on a number is more than any file that a reader is given.
LARGE_BITS = 31

V4, FIRST, IN_SEGMENTS = "v4", "first", "segments"
# The layouts in which an implementation usually shares its code.
FAMILIES = {
    family: (layout.data_version, layout.name)
    for family, layout in layouts.FAMILIES.items()
}
VERSIONED = tuple(
    family for family, layout in layouts.FAMILIES.items() if layout.entry_versions
)

Change = Callable[[File, int], None]


@dataclass(frozen=True)
class Field:
    """An integer field, as the annotation of a file names it."""

    structure: str
    name: str
    type: str
    # Adds to the number of the second tensor, or of the file; nothing if only valid files try the field.
    add: Change | None = None
    # What a file with the sum breaks.
    rules: str = ""
    bits: tuple[int, ...] = ()
    families: tuple[str, ...] = tuple(FAMILIES)
    # The bits that are tried in every family; each of the others is tried in one.
    everywhere: tuple[int, ...] = ()
    rules_in: dict[str, str] = field(default_factory=dict)
    opened_by: str = ""  # a key or a passphrase, if the file is encrypted
    # The dimensions of the second tensor have eight bytes.
    is_wide: bool = False

    @property
    def label(self) -> str:
        return f"{self.structure}: {self.name}, {self.type}"

    @property
    def is_short(self) -> bool:
        """Whether the name alone does not tell the field."""
        return sum(other.name == self.name for other in FIELDS) > 1

    def tried(self) -> Iterator[tuple[int, str]]:
        """Pairs of a bit and the family of the file in which the bit is wrong."""
        others = count(len(self.label))
        for bit in self.bits:
            if bit in self.everywhere:
                yield from ((bit, family) for family in self.families)
            else:
                yield bit, self.families[next(others) % len(self.families)]


SECOND = 1


def in_entry(name: str, right: Callable[[File], int]) -> Change:
    def add(file: File, more: int) -> None:
        setattr(file.entries[SECOND], name, right(file) + more)

    return add


def in_header(name: str, right: Callable[[Record], int]) -> Change:
    def add(file: File, more: int) -> None:
        record = file.records[SECOND]
        setattr(record, name, right(record) + more)

    return add


def add_to_signed_length(file: File, more: int) -> None:
    record = file.records[SECOND]
    total = len(record.plaintext) + more
    record.data_length = total - (1 << 64) if total >> 63 else total


def in_section(name: str) -> Change:
    def add(file: File, more: int) -> None:
        assert file.segments is not None
        file.segments.claims[name] = file.marks()[name] + more

    return add


def section_number(name: str, right: int) -> Change:
    def add(file: File, more: int) -> None:
        setattr(file.segments, name, right + more)

    return add


def section_tag(number: int) -> Change:
    def add(file: File, more: int) -> None:
        assert file.segments is not None
        tags = list(file.segments.tags)
        tags[number] += more
        file.segments.tags = (tags[0], tags[1], tags[2])

    return add


def add_to_version(file: File, more: int) -> None:
    file.data_version += more


def add_to_count(file: File, more: int) -> None:
    file.count = len(file.entries) + more


def add_to_index_length(file: File, more: int) -> None:
    index = b"".join(entry.encode(0, 0) for entry in file.entries)
    file.index_length = len(index) + more


def relative_offset(number: int) -> Callable[[File], int]:
    """The header_offset or data_offset of the second tensor."""

    def right(file: File) -> int:
        marks = file.marks()
        base = marks[("header_start", "data_start")[number]] if file.segments else 0
        return file.offsets()[SECOND][number] - base

    return right


def add_to_kind(part: str) -> Change:
    """Adds to the kind of a parameter, in one of the two places."""

    def add(file: File, more: int) -> None:
        entry, record = file.entries[SECOND], file.records[SECOND]
        entry.kind = record.kind = builder.PARAMETER
        described = entry if part == "entry" else record
        described.kind += more

    return add


def add_to_dim(file: File, more: int) -> None:
    file.entries[SECOND].shape = [file.entries[SECOND].shape[0] + more]


def add_to_header_dim(file: File, more: int) -> None:
    file.records[SECOND].shape = [file.records[SECOND].shape[0] + more]


def add_to_hash(name: str) -> Change:
    """Adds to the type or the size of the CRC32, whose value is right for that."""

    def add(file: File, more: int) -> None:
        record = file.records[SECOND]
        changed = Hash(CRC32, bytes(HASH_BYTES[CRC32]), HASH_BYTES[CRC32])
        setattr(changed, name, getattr(changed, name) + more)
        record.hashes[0] = changed
        changed.value = record.digests()[CRC32]

    return add


def add_to_crc32(file: File, more: int) -> None:
    record = file.records[SECOND]
    right = int.from_bytes(record.digests()[CRC32], "little")
    record.hashes[0] = Hash(CRC32, struct.pack("<I", right ^ more))


def in_block(at: int, code: str) -> Change:
    """Adds to a number of the crypt block, which lies there."""

    def add(file: File, more: int) -> None:
        block = bytearray(file.records[SECOND].crypt or b"")
        right = struct.unpack_from(f"<{code}", block, at)[0]
        struct.pack_into(f"<{code}", block, at, right + more)
        file.records[SECOND].crypt = bytes(block)

    return add


def add_to_crypt_length(file: File, more: int) -> None:
    record = file.records[SECOND]
    record.crypt_length = len(record.crypt or b"") + more


# Where the numbers of a crypt block lie: of its first chunk, and of the fields of a payload in that chunk.
CHUNK_COUNT, CHUNK_LENGTH, CHUNK_TYPE, PAYLOAD = 0, 2, 10, 12
CHUNK_SIZE, MAC_COUNT = PAYLOAD, PAYLOAD + 8 + sodium.NONCE_BYTES
METHOD, OPSLIMIT, MEMLIMIT, ALG = PAYLOAD, PAYLOAD + 2, PAYLOAD + 10, PAYLOAD + 18
SALT_LENGTH = PAYLOAD + 22

# Bits that make a number larger than the file.
TOO_LARGE = (31, 32, 53, 63)
# Bits of numbers that have to be equal to others.
UNEQUAL = (8, 15, 16, 31, 32, 53, 63)
SECTION = (IN_SEGMENTS,)
NOT_A_SECTION = "SEG-001 HDR-007 IDX-001 IDX-002"
DERIVED = "passphrase"
SEALED = "key"


def section_fields() -> Iterator[Field]:
    structure = "layout section"
    yield Field(
        *(structure, "layout_length", "u64", section_number("layout_length", 45)),
        *(NOT_A_SECTION, UNEQUAL, SECTION),
    )
    for name, attribute, right in (
        ("layout_version", "version", 1),
        ("entry_count", "count", 3),
    ):
        yield Field(
            *(structure, name, "u8", section_number(attribute, right)),
            *(NOT_A_SECTION, (7,), SECTION),
        )
    for number, name in enumerate(("metadata", "header", "data")):
        rules = "SEG-001" if number else NOT_A_SECTION
        yield Field(
            *(structure, f"{name} tag", "u8", section_tag(number)),
            *(rules, (7,), SECTION),
        )
    for name in (
        *("metadata_start", "metadata_end"),
        *("header_start", "header_end", "data_start"),
    ):
        yield Field(
            *(structure, name, "u64", in_section(name)),
            *("SEG-002 SEG-003", TOO_LARGE, SECTION),
        )


def entry_fields() -> Iterator[Field]:
    structure = "index entry"
    yield Field(
        *(structure, "entry_version", "u32", in_entry("version", lambda file: 1)),
        *("IDX-013", (8, 15, 16, 31), VERSIONED, (16,)),
    )
    yield Field(
        *(structure, "name_length", "u16", in_entry("name_length", lambda file: 1)),
        *("IDX-002", (8, 15)),
    )
    yield Field(
        *(structure, "kind", "u8", add_to_kind("entry"), "IDX-004 REC-007", (7,)),
        everywhere=(7,),
    )
    yield Field(
        *(structure, "dtype_length", "u8", in_entry("dtype_length", lambda file: 3)),
        *("IDX-002", (7,)),
    )
    yield Field(
        *(structure, "ndim", "u8", in_entry("ndim", lambda file: 1)),
        *("IDX-002", (7,)),
    )
    yield Field(structure, "dim", "u32", add_to_dim, "IDX-006 REC-009", (8, 16, 31))
    yield Field(
        *(structure, "dim", "u64", add_to_dim, "IDX-006 IDX-005 REC-009"),
        *((32, 53, 63), VERSIONED),
        is_wide=True,
    )
    yield Field(
        *(structure, "header_offset", "u64"),
        in_entry("header_offset", relative_offset(0)),
        *("IDX-008 IDX-012", TOO_LARGE),
        everywhere=(32,),
        rules_in={IN_SEGMENTS: "SEG-004"},
    )
    yield Field(
        *(structure, "data_offset", "u64"),
        in_entry("data_offset", relative_offset(1)),
        *("IDX-010 IDX-009 REC-002", TOO_LARGE),
        everywhere=(32,),
        rules_in={IN_SEGMENTS: "IDX-010", FIRST: "IDX-010"},
    )
    yield Field(
        *(structure, "data_length", "u64"),
        in_entry("data_length", lambda file: file.entries[SECOND].data_length),
        *("IDX-006 IDX-010 REC-010", UNEQUAL),
        everywhere=(32,),
    )


def header_fields() -> Iterator[Field]:
    structure = "tensor header"
    yield Field(
        *(structure, "header_length", "u64"),
        in_header("header_length", Record.header_bytes),
        *("REC-002 IDX-009", TOO_LARGE),
        everywhere=(32,),
        rules_in={FIRST: "REC-002 IDX-015", IN_SEGMENTS: "SEG-004"},
    )
    yield Field(structure, "module_index", "u16")
    yield Field(
        structure,
        "kind",
        "u8",
        add_to_kind("header"),
        "REC-007 IDX-004",
        (7,),
        everywhere=(7,),
    )
    for name, type_, right, bits in (
        ("name_length", "u16", 1, (8, 15)),
        ("dtype_length", "u8", 3, (7,)),
        ("ndim", "u8", 1, (7,)),
    ):
        yield Field(
            *(structure, name, type_, in_header(name, lambda record, n=right: n)),
            *("REC-003 REC-004", bits),
        )
    yield Field(structure, "dim", "u32", add_to_header_dim, "REC-009", (8, 16, 31))
    yield Field(
        *(structure, "dim", "u64", add_to_header_dim, "REC-009"),
        *((32, 53, 63), VERSIONED),
        is_wide=True,
    )
    yield Field(
        *(structure, "hashes_length", "u16"),
        in_header("hashes_length", lambda record: 41),
        *("REC-003 HSH-001", (8, 15)),
    )
    yield Field(
        *(structure, "data_length", "i64"),
        add_to_signed_length,
        *("REC-010", UNEQUAL),
        everywhere=(32,),
        rules_in={family: "REC-010 REC-005" for family in FAMILIES},
    )
    yield Field(
        structure,
        "CRC32",
        "u32",
        add_to_crc32,
        "HSH-005",
        (8, 16, 31),
        everywhere=(16,),
    )


def hash_fields() -> Iterator[Field]:
    yield Field(
        *("tensor header", "hash_count", "u8"),
        in_header("hash_count", lambda record: 2),
        *("HSH-001", (7,)),
    )
    structure = "tensor header, hash"
    yield Field(
        *(structure, "hash type", "u8", add_to_hash("type")),
        *("HSH-002", (7,)),
        everywhere=(7,),
    )
    yield Field(
        *(structure, "hash size", "u8", add_to_hash("size")),
        *("HSH-003 HSH-001", (7,)),
    )


def crypt_fields() -> Iterator[Field]:
    yield Field(
        *("tensor header", "crypt_length", "u64", add_to_crypt_length),
        *("CRY-001 REC-003", TOO_LARGE),
        everywhere=(32,),
        opened_by=SEALED,
    )
    yield Field(
        *("tensor header", "chunk_count", "u16", in_block(CHUNK_COUNT, "H")),
        *("CRY-002 CRY-010", (8, 15)),
        everywhere=(8,),
        opened_by=SEALED,
    )
    structure = "tensor header, crypt chunk"
    for name, at, code, rules, bits, everywhere, opened_by in (
        ("chunk_length", CHUNK_LENGTH, "Q", "CRY-002 CRY-010", TOO_LARGE, 32, SEALED),
        ("chunk_type", CHUNK_TYPE, "H", "CRY-003 CRY-006", (8, 15), 8, SEALED),
        ("method", METHOD, "H", "CRY-011", (8, 15), 8, DERIVED),
        ("opslimit", OPSLIMIT, "Q", "CRY-015", (32, 53, 63), 32, DERIVED),
        ("memlimit", MEMLIMIT, "Q", "CRY-015", (33, 53, 63), 33, DERIVED),
        ("alg", ALG, "I", "CRY-012", (8, 15, 16, 31), 16, DERIVED),
        ("salt_length", SALT_LENGTH, "H", "CRY-013 CRY-010", (8, 15), 8, DERIVED),
    ):
        yield Field(
            *(structure, name, {"H": "u16", "I": "i32", "Q": "u64"}[code]),
            *(in_block(at, code), rules, bits),
            everywhere=(everywhere,),
            opened_by=opened_by,
        )
    yield Field(structure, "chunk_size", "u64")
    yield Field(
        *(structure, "mac_count", "u64", in_block(MAC_COUNT, "Q")),
        *("CRY-009 CRY-010", UNEQUAL),
        everywhere=(32,),
        opened_by=SEALED,
    )


FIELDS = [
    Field(
        *("file header", "data version", "u32", add_to_version, "HDR-003", (7, 15, 31))
    ),
    Field("file header", "total data bytes", "u64"),
    Field(
        *("file header", "tensor count", "u64", add_to_count),
        *("IDX-002 IDX-003", (8, 16, *TOO_LARGE)),
    ),
    *section_fields(),
    Field(
        *("index", "index_length", "u64", add_to_index_length),
        *("IDX-001", TOO_LARGE),
        everywhere=(32,),
        rules_in={IN_SEGMENTS: "SEG-003"},
    ),
    *entry_fields(),
    *header_fields(),
    *hash_fields(),
    *crypt_fields(),
    Field("terminator", "terminator", "u64"),
]


def cases() -> Iterator[Case]:
    recipe = Recipe("widths", SEED)
    yield from too_high(recipe)
    for family, (version, layout) in FAMILIES.items():
        yield from valid_numbers(recipe, family, version, layout)
    informative = of(1, "v1", [Tensor(["a"])])
    informative.data_sum = (1 << 63) + 4
    yield recipe.valid(
        "width-total-data-bytes",
        informative,
        "HDR-009",
        "The total data bytes are 2^63 too high; readers do not use them.",
        features=["large-claim"],
    )
    yield from large_cases()


def too_high(recipe: Recipe) -> Iterator[Case]:
    """Files with a number that is right but for one bit."""
    for tried in FIELDS:
        if tried.add is None:
            continue
        for bit, family in tried.tried():
            file = two_tensors(family, tried.opened_by, tried.is_wide)
            tried.add(file, 1 << bit)
            structure = tried.structure.rpartition(", ")[2]
            name = f"{structure} {tried.name}" if tried.is_short else tried.name
            type_ = "-u64" if tried.is_wide else ""
            yield recipe.refused(
                f"width-{slug(name)}{type_}-plus-2-{bit}-{family}",
                file,
                tried.rules_in.get(family, tried.rules),
                f"{tried.name} ({structure}) is 2^{bit} too high.",
                features=["large-claim"] if bit >= LARGE_BITS else [],
                key=KEY if tried.opened_by == SEALED else None,
                passphrase=PASSPHRASE if tried.opened_by == DERIVED else None,
            )


def slug(name: str) -> str:
    return name.lower().replace("_", "-").replace(" ", "-")


def two_tensors(family: str, opened_by: str = "", is_wide: bool = False) -> File:
    version, layout = FAMILIES[family]
    lock = None
    if opened_by == SEALED:
        lock = Lock(KEY)
    elif opened_by == DERIVED:
        lock = Lock.from_passphrase(PASSPHRASE, SALT)
    tensors = [Tensor(["a"], "<u2", [2]), Tensor(["b"], "|u1", [4])]
    file = of(version, layout, tensors, lock)
    if is_wide:
        builder.tag(file.entries[SECOND], True)
    return file


def around(bits: tuple[int, ...]) -> list[int]:
    """Numbers on both sides of limits."""
    return [number for bit in bits for number in ((1 << bit) - 1, 1 << bit)]


def of(
    version: int, layout: str, tensors: list[Tensor], lock: Lock | None = None
) -> File:
    """A file without room between the segments, if it has any."""
    file = File.of(tensors, version, SEED, lock, layout)
    if file.segments is not None:
        file.segments.metadata_room = file.segments.header_room = b""
    return file


def valid_numbers(
    recipe: Recipe, family: str, version: int, layout: str
) -> Iterator[Case]:
    lengths = around((7, 8))
    yield recipe.valid(
        f"width-lengths-{family}",
        of(version, layout, [named_and_long(length) for length in lengths]),
        "IDX-002 REC-003 NAM-001",
        f"Names and data of {lengths} bytes.",
    )
    modules = [*around((7, 8, 15)), (1 << 16) - 1]
    yield recipe.valid(
        f"width-module-index-{family}",
        of(
            *(version, layout),
            [
                Tensor([f"m{number}"], "|u1", [0], module_index=number)
                for number in modules
            ],
        ),
        "REC-003",
        f"The module indices are {modules}.",
    )
    dims = [*around((7, 8, 15, 16, 31)), (1 << 32) - 1]
    if family in VERSIONED:
        dims += [1 << 32, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 63) - 1]
    yield recipe.valid(
        f"width-dimensions-{family}",
        of(*(version, layout), [Tensor([f"d{dim}"], "|u1", [0, dim]) for dim in dims]),
        "IDX-005 IDX-006 REC-009",
        f"Tensors without elements whose second dimensions are on both sides of limits, up to {dims[-1]}.",
        features=["large-claim"],
    )
    yield recipe.valid(
        f"width-meta-dimensions-{family}",
        of(
            *(version, layout),
            [Tensor([f"d{dim}"], "|u1", [dim], meta=True) for dim in dims],
        ),
        "IDX-005 IDX-006 REC-009",
        f"Meta tensors whose dimensions are on both sides of limits, up to {dims[-1]}.",
        features=["large-claim"],
    )
    texts = (127, 128, 167, 255)
    yield recipe.valid(
        f"width-dtype-{family}",
        of(
            *(version, layout),
            [Tensor([f"t{size}"], opaque_of(size), [1]) for size in texts],
        ),
        "DTY-003 DTY-004",
        f"The dtypes have {texts} bytes: each is torch.float8_ and a long word.",
    )
    hashed = of(version, layout, [Tensor([f"h{size}"]) for size in (127, 128, 255)])
    for record, number in zip(hashed.records, (127, 128, 255), strict=True):
        record.hashes = [Hash(SHA256)] + [Hash(CRC32)] * (number - 1)
    yield recipe.valid(
        f"width-hash-count-{family}",
        hashed,
        "HSH-001 HSH-005 HSH-006",
        "The tensors have 127, 128 and 255 hashes: a SHA-256, and a CRC32 again and again.",
    )
    yield from valid_crypt_numbers(recipe, family, version, layout)


def named_and_long(length: int) -> Tensor:
    """A tensor whose name and data have so many bytes, the data in a pattern of 251 bytes."""
    pattern = bytes(range(251)) * (length // 251 + 1)
    return Tensor(
        ["n" * min(length, (1 << 16) - 1)], "|u1", [length], data=pattern[:length]
    )


def opaque_of(size: int) -> str:
    """An opaque dtype of so many bytes."""
    return "|V1\0torch.float8_".ljust(size, "x")


def valid_crypt_numbers(
    recipe: Recipe, family: str, version: int, layout: str
) -> Iterator[Case]:
    sizes = [*((1 << 15) - 64, 1 << 15), *((1 << 16) - 64, (1 << 16) + 1024)]
    sizes += [1 << 31, (1 << 32) - 64, (1 << 32) + 1024, (1 << 53) + 1024]
    file = of(
        *(version, layout),
        [Tensor([f"c{size}"], shape=[1088]) for size in sizes],
        Lock(KEY),
    )
    for number, (size, record) in enumerate(zip(sizes, file.records, strict=True)):
        Lock(KEY, size).apply(
            record, builder.noise(f"{SEED}/nonce/{number}", sodium.NONCE_BYTES)
        )
    yield recipe.valid(
        f"width-chunk-size-{family}",
        file,
        "CRY-008 CRY-009",
        f"Data of 1088 bytes, each in one message, with the chunk sizes {sizes}.",
        features=["large-claim"],
        key=KEY,
    )
    odd = two_tensors(family, SEALED)
    in_block(CHUNK_SIZE, "Q")(odd, (1 << 53) + 1 - 1024)
    yield recipe.refused(
        f"width-chunk-size-2-53-plus-1-{family}",
        odd,
        "CRY-008",
        "The chunk_size is 2^53 + 1, which is no multiple of 64; the double next to it is one.",
        features=["large-claim"],
        key=KEY,
    )
    limits = [(1 << 15) - 1, 1 << 15, (1 << 16) - 1, (1 << 16) + 8192]
    derived = of(
        *(version, layout),
        [Tensor([f"p{limit}"]) for limit in limits],
        Lock(KEY),
    )
    for number, (limit, record) in enumerate(zip(limits, derived.records, strict=True)):
        Lock.from_passphrase(PASSPHRASE, SALT, memlimit=limit).apply(
            record, builder.noise(f"{SEED}/nonce/{number}", sodium.NONCE_BYTES)
        )
    yield recipe.valid(
        f"width-memlimit-{family}",
        derived,
        "CRY-014 CRY-015",
        f"The keys are derived with the memlimits {limits}.",
        features=["passphrase"],
        passphrase=PASSPHRASE,
    )


def large_cases() -> Iterator[Case]:
    recipe = Recipe("widths", SEED)
    lengths = [*around((15,)), (1 << 16) - 1]
    for family, (version, layout) in FAMILIES.items():
        yield recipe.valid(
            f"large-lengths-{family}",
            of(version, layout, [named_and_long(length) for length in lengths]),
            "IDX-002 IDX-010 REC-003",
            f"Names and data of {lengths} bytes, so that offsets and other lengths are large, too.",
            is_large=True,
        )
        yield recipe.valid(
            f"large-tensors-257-{family}",
            of(version, layout, numbered_tensors(257)),
            "HDR-005 IDX-002",
            "257 tensors, which no counter of one byte counts.",
            is_large=True,
        )
    # As little as possible of each, because JSON of so many tensors takes time.
    many = [Tensor([str(number)], "|u1", [1], meta=True) for number in range(65537)]
    file = of(4, "v4", many)
    for record in file.records:
        record.hashes = [Hash(SHA256)]
    yield recipe.valid(
        "large-tensors-65537",
        file,
        "HDR-005 IDX-002",
        "65,537 meta tensors, which no counter of two bytes counts.",
        features=["large-index"],
        is_large=True,
    )


def numbered_tensors(amount: int) -> list[Tensor]:
    """Tensors of one byte each."""
    return [
        Tensor([str(number)], "|u1", [1], data=bytes([number % 251]))
        for number in range(amount)
    ]
