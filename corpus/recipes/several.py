"""Cases for readers that compare too few tensors with each other, or take what is right of all for right of each.

Names, headers and data of two tensors meet in every order and with a third between them; sums, products and sets are
right where the single values are not; and what may differ from tensor to tensor does so, with each value at each place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations

import layouts
import sealing
from builder import STRUCTURED, File, Tensor, tag
from case import Case
from headers_first import NAME_IN_HEADER_AT, header_as_name
from layouts import HEADERS_FIRST
from places import (
    KEY,
    LAYOUTS,
    NONCE,
    PAGE_BYTES,
    PASSPHRASE,
    SALT,
    header_inside_data,
)
from recipe import Recipe
from sealing import Lock, crypt_block, crypt_chunk
from wire import CRC32, SHA256, STATE_DICT, Hash, both_hashes

SEED = 2200
PLACES = ("first", "second", "third")
PAIRS = list(permutations(range(3), 2))
# Unit of a gap between the data of two tensors.
GAP = bytes(8)
# More than fits into the buffers that readers commonly take.
RESERVE_BYTES = 8192


def cases() -> Iterator[Case]:
    recipe = Recipe("several", SEED)
    yield from overlapping_data(recipe)
    yield from headers_in_data(recipe)
    yield from headers_in_headers(recipe)
    yield from data_in_headers(recipe)
    yield from trees(recipe)
    yield from swapped_fields(recipe)
    yield from sums(recipe)
    yield from dimensions(recipe)
    yield from reserves(recipe)
    yield from later_pages(recipe)
    yield from messages(recipe)
    yield from late_tensors(recipe)
    yield from own_values(recipe)
    yield from own_orders(recipe)


def of(tensors: list[Tensor], layout: str, lock: Lock | None = None) -> File:
    version, name, *_ = LAYOUTS[layout]
    file = File.of(tensors, version, SEED, lock, name)
    if file.segments is not None:
        file.segments.metadata_room = file.segments.header_room = b""
    return file


def three(layout: str, lock: Lock | None = None, data_bytes: int = 4) -> File:
    """A tensor of each kind."""
    tensors = [
        Tensor([name], shape=[data_bytes], kind=kind) for kind, name in enumerate("amz")
    ]
    return of(tensors, layout, lock)


# Data and headers that overlap.

# Where the data of one tensor begins in the eight bytes of another's.
BEGINNINGS = {"with": 0, "inside": 2, "at-the-last-byte-of": 7}


def overlap(layout: str, host: int, guest: int, begin: int) -> File:
    """The data of one tensor begins in that of another, and ends there or in the gap behind it; hashes are right."""
    file = three(layout, data_bytes=8)
    for record in file.records:
        record.data_gap = GAP
    inner = file.records[guest]
    inner.plaintext = (file.records[host].plaintext + GAP)[begin : begin + 4]
    inner.shape = file.entries[guest].shape = [4]
    file.entries[guest].data_length = 4
    base = file.marks()["data_start"] if file.segments is not None else 0
    file.entries[guest].data_offset = file.offsets()[host][1] + begin - base
    return file


def overlapping_data(recipe: Recipe) -> Iterator[Case]:
    for layout, beginnings in (
        ("first", BEGINNINGS),
        ("segments", {"at-the-last-byte-of": 7}),
    ):
        for host, guest in PAIRS:
            for id_, begin in beginnings.items():
                yield recipe.refused(
                    f"where-data-of-{PLACES[guest]}-{id_}-{PLACES[host]}-{layout}",
                    overlap(layout, host, guest, begin),
                    "IDX-011",
                    f"The data of the {PLACES[guest]} tensor begins at byte {begin} of that of the {PLACES[host]}.",
                )
    file = overlap("first", 0, 2, 7)
    empty = file.records[1]
    empty.plaintext, empty.data_gap = b"", b""
    empty.shape = file.entries[1].shape = [0]
    file.entries[1].data_length = 0
    file.entries[1].data_offset = file.offsets()[0][1] + 4
    yield recipe.refused(
        "where-data-overlaps-around-empty",
        file,
        "IDX-011 IDX-010",
        "Sorted by their data, a tensor without data is between two that share a byte.",
    )


def headers_in_data(recipe: Recipe) -> Iterator[Case]:
    for host, guest in PAIRS:
        file = three("v4")
        header_inside_data(file, None, host, guest)
        yield recipe.refused(
            f"where-header-of-{PLACES[guest]}-in-data-of-{PLACES[host]}",
            file,
            "IDX-011 IDX-012",
            f"The record of the {PLACES[guest]} tensor lies inside the data of the {PLACES[host]}.",
        )


def headers_in_headers(recipe: Recipe) -> Iterator[Case]:
    for host, guest in PAIRS:
        file = header_as_name(HEADERS_FIRST, kind=guest)
        other = of([Tensor(["z"])], "first")
        for name in ("tensors", "entries", "records"):
            both = getattr(file, name)
            in_order = {
                host: both[0],
                guest: both[1],
                3 - host - guest: getattr(other, name)[0],
            }
            both[:] = [in_order[place] for place in range(3)]
        file.entries[guest].header_offset = file.offsets()[host][0] + NAME_IN_HEADER_AT
        yield recipe.refused(
            f"where-header-of-{PLACES[guest]}-in-header-of-{PLACES[host]}",
            file,
            "IDX-011 REC-002",
            f"The header of the {PLACES[guest]} tensor lies inside that of the {PLACES[host]}, in its name.",
        )


def data_in_headers(recipe: Recipe) -> Iterator[Case]:
    """The last header of the file is that of each tensor once, and the data of each begins in its name."""
    for owner in range(3):
        for guest in range(3):
            tensors = [
                Tensor([letter * 4], kind=kind) for kind, letter in enumerate("amz")
            ]
            file = of(tensors, "first")
            last, inner = file.records[owner], file.records[guest]
            inner.plaintext = last.name
            file.records.remove(last)
            file.records.append(last)
            header_at = file.marks()["header", id(last)]
            file.entries[guest].data_offset = header_at + NAME_IN_HEADER_AT
            yield recipe.refused(
                f"where-data-of-{PLACES[guest]}-in-last-header-of-{PLACES[owner]}",
                file,
                "IDX-015",
                f"The data of the {PLACES[guest]} tensor is the name in the last header, that of the {PLACES[owner]}.",
            )

    for id_, names in {"only": ["zzzz"], "paged": ["a" * PAGE_BYTES, "zzzz"]}.items():
        file = of([Tensor([name]) for name in names], "first")
        file.records[-1].plaintext = b"zzzz"
        header_at = file.marks()["header", id(file.records[-1])]
        file.entries[-1].data_offset = header_at + NAME_IN_HEADER_AT
        yield recipe.refused(
            f"where-{id_}-data-in-its-header",
            file,
            "IDX-015",
            "The data of the last tensor is the name in its own header.",
        )


# Names.

# Two names that cannot be in one file, and the rule.
FAMILIES = {
    "same": (b"m", b"m", "NAM-006"),
    "same-spelled-apart": (b"m", b'\x1e["\\u006d"]', "NAM-006"),
    "same-structured": (b'\x1e["m",1]', b'\x1e["m", 1]', "NAM-006"),
    "below": (b"m", b'\x1e["m",0,"x"]', "NAM-007"),
    "below-list": (b'\x1e["m",0]', b'\x1e["m",0,"x"]', "NAM-007"),
    "mixed-top": (b"m", b"\x1e[0]", "NAM-008"),
    "mixed-deep": (b'\x1e["m","k",0]', b'\x1e["m","k","x"]', "NAM-008"),
}


def kind_for(name: bytes, place: int) -> int:
    """Kind 0 or 1 wherever the name lets it be."""
    return STATE_DICT if name.startswith(STRUCTURED) else place % 2


def trees(recipe: Recipe) -> Iterator[Case]:
    for id_, (one, other, rule) in FAMILIES.items():
        for i, j in PAIRS:
            # Whether the shorter path comes first matters, and the order of others does not.
            if rule != "NAM-007" and i > j:
                continue
            names = {i: one, j: other, 3 - i - j: b"mm"}
            if rule == "NAM-008" and one == b"m":
                names[3 - i - j] = b'\x1e["mm",0]'
            tensors = [
                Tensor(["?"], name=names[place], kind=kind_for(names[place], place))
                for place in range(3)
            ]
            yield recipe.refused(
                f"where-name-{id_}-{PLACES[i]}-{PLACES[j]}",
                of(tensors, "v4"),
                rule,
                f"The paths of the {PLACES[i]} and the {PLACES[j]} tensor cannot be in one file.",
            )
    between = [b'\x1e["a","\\u0062","c"]', b'\x1e["a","a"]', b'\x1e["a","b"]']
    yield recipe.refused(
        "where-name-below-apart-in-bytes",
        of([Tensor(["?"], name=name) for name in between], "v4"),
        "NAM-007",
        "A path begins another, and sorted by its bytes a third name is between the two.",
    )


# Fields that are right as a set, as a sum or as a product.

SWAPPED = {
    "name": "REC-006",
    "kind": "REC-007",
    "dtype": "REC-008",
    "shape": "REC-009",
    "data-length": "REC-010",
}


def swapped_fields(recipe: Recipe) -> Iterator[Case]:
    for id_, rule in SWAPPED.items():
        file = of(
            [
                Tensor(["a"], "<u4", [2, 3], kind=0),
                Tensor(["m"], "<u4", [2, 3]),
                Tensor(["z"], "<i4" if id_ == "dtype" else "<u4", [3, 2], kind=1),
            ],
            "v4",
        )
        if id_ == "data-length":
            for number, bytes_ in ((0, 24), (2, 12)):
                record, entry = file.records[number], file.entries[number]
                record.plaintext = record.plaintext[:bytes_]
                record.shape = entry.shape = [bytes_ // 4]
                entry.data_length = bytes_
            file.records[0].data_length, file.records[2].data_length = 12, 24
        else:
            first, third = file.records[0], file.records[2]
            swapped = getattr(third, id_), getattr(first, id_)
            setattr(first, id_, swapped[0])
            setattr(third, id_, swapped[1])
        yield recipe.refused(
            f"where-header-{id_}-swapped",
            file,
            rule,
            f"The headers of the first and the third tensor have each other's {id_.replace('-', '_')}.",
        )


def sums(recipe: Recipe) -> Iterator[Case]:
    file = three("v4", data_bytes=8)
    for number, bytes_ in ((0, 12), (2, 4)):
        record = file.records[number]
        record.plaintext = (record.plaintext * 2)[:bytes_]
        file.entries[number].data_length = bytes_
    yield recipe.refused(
        "where-data-lengths-sum",
        file,
        "IDX-006",
        "The data of the first tensor is 4 bytes too long, and that of the third 4 bytes too short.",
    )
    file = three("v4")
    for number, length in ((0, 6), (2, 2)):
        file.records[number].data_length = length
    yield recipe.refused(
        "where-header-data-lengths-sum",
        file,
        "REC-010",
        "By their headers the first tensor has 2 bytes too many, and the third 2 too few.",
    )
    file = three("v4")
    file.records[1].hashes = [Hash(CRC32, bytes(32)), Hash(SHA256, bytes(4))]
    yield recipe.refused(
        "where-hash-sizes-sum",
        file,
        "HSH-003",
        "A CRC32 has 32 bytes and a SHA-256 has 4, so that the list is as long as a right one.",
    )
    lock = Lock(KEY)
    file = three("v3", lock, data_bytes=1025)
    for number, count in ((0, 3), (2, 1)):
        record = file.records[number]
        _, macs = sealing.seal(record.plaintext, KEY, NONCE, 1024)
        payload = sealing.parallel_payload(1024, NONCE, (macs + [bytes(16)])[:count])
        record.ciphertext, _ = sealing.seal(record.plaintext, KEY, NONCE, 1024)
        record.crypt = crypt_block([crypt_chunk(sealing.PARALLEL, payload)])
    yield recipe.refused(
        "where-mac-counts-sum",
        file,
        "CRY-009",
        "The first tensor has a MAC more than messages, and the third one less.",
        key=KEY,
    )


LAYOUTS_OF_SHAPES = tuple(layouts.FAMILIES)


def dimensions(recipe: Recipe) -> Iterator[Case]:
    for id_, shape, other in (
        ("2-2-3-as-2-3-2", [2, 2, 3], [2, 3, 2]),
        ("2-2-3-as-3-2-2", [2, 2, 3], [3, 2, 2]),
        ("1-6-6-as-2-2-9", [1, 6, 6], [2, 2, 9]),
        ("2-3-4-5-as-2-4-3-5", [2, 3, 4, 5], [2, 4, 3, 5]),
        ("1-2-as-2-1", [1, 2], [2, 1]),
    ):
        for layout in LAYOUTS_OF_SHAPES if shape == [2, 2, 3] else ("v4",):
            file = of(
                [Tensor(["a"]), Tensor(["m"]), Tensor(["z"], shape=shape)], layout
            )
            if layouts.FAMILIES[layout].entry_versions:
                tag(file.entries[2], is_long=True)
            file.records[2].shape = other
            yield recipe.refused(
                f"where-dimensions-{id_}-{layout}",
                file,
                "REC-009",
                f"The header of the third tensor has the dimensions {other}, its entry {shape}.",
            )


def reserves(recipe: Recipe) -> Iterator[Case]:
    file = three("v4")
    file.index_padding = bytes(RESERVE_BYTES) + b"\x01"
    yield recipe.refused(
        "where-index-reserve-8-kib",
        file,
        "IDX-003",
        f"The byte that follows {RESERVE_BYTES} zeros of the index reserve is not zero.",
    )


def later_pages(recipe: Recipe) -> Iterator[Case]:
    """The long name of the first tensor moves the entries of the others beyond the first page of the index."""
    first = Tensor(["a" * PAGE_BYTES])
    for id_ in ("same", "below", "mixed-deep"):
        one, other, rule = FAMILIES[id_]
        names = [Tensor(["?"], name=one), Tensor(["?"], name=other)]
        yield recipe.refused(
            f"where-paged-name-{id_}",
            of([first, *names], "v4"),
            rule,
            "Two paths that cannot be in one file are on the second page of the index.",
        )
    file = of([first, Tensor(["m"]), Tensor(["z"])], "v4")
    header_inside_data(file, None, 1, 2)
    yield recipe.refused(
        "where-paged-header-in-data",
        file,
        "IDX-011 IDX-012",
        "The entries of two records that overlap are on the second page of the index.",
    )
    file = of([first, Tensor(["m"]), Tensor(["z"])], "v4")
    file.index_length = sum(len(entry.encode(0, 0)) for entry in file.entries) - 1
    yield recipe.refused(
        "where-paged-index-ends",
        file,
        "IDX-002",
        "The last entry ends a byte behind the index, on its second page.",
    )


def messages(recipe: Recipe) -> Iterator[Case]:
    for number, which in enumerate(PLACES):
        tensors = [Tensor(["a"]), Tensor(["m"]), Tensor(["z"], shape=[2500])]
        file = of(tensors, "v3", Lock(KEY))
        stored = bytearray(file.records[2].stored)
        stored[1024 * number] ^= 1
        file.records[2].ciphertext = bytes(stored)
        yield recipe.refused(
            f"where-mac-of-{which}-message",
            file,
            "CRY-016",
            f"The {which} of three messages of the third tensor is changed.",
            key=KEY,
        )


# Many tensors, one of the last of which is wrong.

MANY, LATE, AGAIN = 100, 90, 80


def wrong_sha256(file: File) -> None:
    file.records[LATE].hashes = [Hash(SHA256, bytes(32))]


def wrong_shape(file: File) -> None:
    file.records[LATE].shape = [2, 2]


def wrong_ciphertext(file: File) -> None:
    stored = file.records[LATE].stored
    file.records[LATE].ciphertext = bytes([stored[0] ^ 1]) + stored[1:]


def late_tensors(recipe: Recipe) -> Iterator[Case]:
    """For readers that check the first 4, 16 or 64 tensors of a file."""

    def made(layout: str, *names: str) -> tuple[File, bytes | None]:
        is_locked = LAYOUTS[layout][2]
        tensors = [Tensor([f"t{number}"]) for number in range(MANY)]
        tensors += [Tensor([name]) for name in names]
        file = of(tensors, layout, Lock(KEY) if is_locked else None)
        return file, KEY if is_locked else None

    for id_, rule, what, damage in (
        ("sha256", "HSH-006", "a wrong SHA-256", wrong_sha256),
        ("shape", "REC-009", "another shape in its header", wrong_shape),
        ("mac", "CRY-016", "a wrong MAC", wrong_ciphertext),
    ):
        for layout in ("v4", "flagged-locked"):
            if id_ == "mac" and layout == "v4":
                continue
            file, key = made(layout)
            damage(file)
            yield recipe.refused(
                f"where-late-{id_}-{layout}",
                file,
                rule,
                f"Of {MANY} tensors that of number {LATE} has {what}.",
                key=key,
            )
    for layout in ("v4", "flagged-locked"):
        file, key = made(layout, f"t{AGAIN}")
        yield recipe.refused(
            f"where-late-name-{layout}",
            file,
            "NAM-006",
            f"After {MANY} tensors there is one with the name of that of number {AGAIN}.",
            key=key,
        )


# Values that each tensor has of its own.

# Gives the tensor of that number the value of that number.
Give = Callable[[File, int, int], None]


def rotated(
    recipe: Recipe,
    id_: str,
    rules: str,
    what: str,
    make: Callable[[], File],
    give: Give,
    **details: object,
) -> Iterator[Case]:
    """Three valid files: each of three values is that of each tensor once."""
    for turn in range(3):
        file = make()
        for number in range(3):
            give(file, number, (number + turn) % 3)
        yield recipe.valid(
            f"where-each-{id_}-{turn}",
            file,
            rules,
            f"Each tensor has its own {what}.",
            **details,
        )


def own_values(recipe: Recipe) -> Iterator[Case]:
    def locked() -> File:
        return three("v3", Lock(KEY), data_bytes=1100)

    def chunk_size(file: File, number: int, value: int) -> None:
        lock = Lock(KEY, (1024, 1088, 2048)[value])
        lock.apply(file.records[number], sealing_nonce(number))

    yield from rotated(
        recipe,
        "chunk-size",
        "CRY-008 CRY-009 CRY-016",
        "chunk_size",
        locked,
        chunk_size,
        key=KEY,
    )

    def cipher(file: File, number: int, value: int) -> None:
        if value == 2:
            empty(file, number)
        lock = Lock(KEY, sequential=value == 1)
        lock.apply(file.records[number], sealing_nonce(number))

    yield from rotated(
        recipe,
        "cipher",
        "CRY-004 CRY-006 CRY-007",
        "cipher: chunks, one message, none",
        lambda: three("v3", Lock(KEY)),
        cipher,
        key=KEY,
        features=["sequential-cipher"],
    )

    def derivation(file: File, number: int, value: int) -> None:
        salt = bytes([value]) + SALT[1:]
        memlimit, opslimit = ((8192, 1), (8192, 2), (16384, 1))[value]
        lock = Lock.from_passphrase(PASSPHRASE, salt, opslimit, memlimit)
        record = file.records[number]
        lock.apply(record, sealing_nonce(number))
        if value == 1:
            cipher_chunk = (record.crypt or b"")[2 + len(lock.kdf or b"") :]
            record.crypt = crypt_block([cipher_chunk, lock.kdf or b""])

    yield from rotated(
        recipe,
        "derivation",
        "CRY-011 CRY-015 CRY-019",
        "salt and limits, one of them after its cipher",
        lambda: three("v3", Lock(KEY)),
        derivation,
        passphrase=PASSPHRASE,
    )

    def hashes(file: File, number: int, value: int) -> None:
        file.records[number].hashes = (
            both_hashes(),
            [Hash(SHA256)],
            [Hash(SHA256), Hash(CRC32), Hash(SHA256)],
        )[value]

    for layout in ("v4", "first"):
        yield from rotated(
            recipe,
            f"hashes-{layout}",
            "HSH-001 HSH-002 HSH-005 HSH-006",
            "list of hashes",
            lambda: three(layout),
            hashes,
        )

    def content(file: File, number: int, value: int) -> None:
        if value == 1:
            empty(file, number)
        if value == 2:
            record = file.records[number]
            record.plaintext, file.entries[number].data_length = b"", 0
            file.tensors[number].meta = True

    for layout in ("v4", "first", "flagged"):
        yield from rotated(
            recipe,
            f"content-{layout}",
            "IDX-006 IDX-007 IDX-009",
            "content: data, no elements, a meta tensor",
            lambda: three(layout),
            content,
        )

    def width(file: File, number: int, value: int) -> None:
        tag(file.entries[number], is_long=value == 1)

    for layout in ("long", "flagged"):
        yield from rotated(
            recipe,
            f"entry-version-{layout}",
            "IDX-013 REC-009",
            "entry_version, one of them 5",
            lambda: three(layout),
            width,
        )


def own_orders(recipe: Recipe) -> Iterator[Case]:
    """Entries, headers and data in three different orders, none of them another one backwards."""
    for turn in range(3):
        file = three("first")
        records, tensors = list(file.records), list(file.tensors)
        file.records = records[turn:] + records[:turn]
        file.tensors = tensors[turn:] + tensors[:turn]
        file.data_order = records[turn - 2 :] + records[: turn - 2]
        yield recipe.valid(
            f"where-each-order-{turn}",
            file,
            "IDX-011 IDX-015 IDX-016",
            f"The headers are in the order of the entries turned by {turn}, and the data is turned once more.",
        )


def sealing_nonce(number: int) -> bytes:
    return bytes([number]) + NONCE[1:]


def empty(file: File, number: int) -> None:
    """Takes the elements of a tensor away."""
    record, entry = file.records[number], file.entries[number]
    record.plaintext, record.ciphertext, entry.data_length = b"", None, 0
    record.shape = entry.shape = [0]
