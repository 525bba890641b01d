"""Cases of hashes: which a tensor carries, how the list is counted, and values that are wrong."""

from collections.abc import Iterator
from itertools import count

from builder import File, Tensor
from case import Case
from recipe import Recipe, two_tensors
from wire import CRC32, HASH_BYTES, SHA256, Hash

SEED = 700


def cases() -> Iterator[Case]:
    recipe = Recipe("hashes", SEED)
    yield from lists(recipe)
    yield from values(recipe)


def with_hashes(*hashes: Hash) -> File:
    """A file whose first tensor carries these."""
    file = two_tensors(seed=SEED)
    file.records[0].hashes = list(hashes)
    return file


def lists(recipe: Recipe) -> Iterator[Case]:
    yield recipe.valid(
        "hash-order-sha256-first",
        with_hashes(Hash(SHA256), Hash(CRC32)),
        "HSH-001 HSH-002 HSH-003 HSH-005 HSH-006",
        "The order of hashes carries no meaning.",
    )
    yield recipe.valid(
        "hash-only-sha256",
        with_hashes(Hash(SHA256)),
        "HSH-002 HSH-004 HSH-006",
        "A SHA-256 alone is what encrypted tensors carry, and enough for others.",
    )
    yield recipe.open(
        "hash-only-crc32",
        with_hashes(Hash(CRC32)),
        "HSH-004",
        "The tensor carries a CRC32 and no SHA-256.",
        "crc32-alone",
    )
    for id_, hash_type in {"crc32": CRC32, "sha256": SHA256}.items():
        yield recipe.valid(
            f"hash-{id_}-twice",
            with_hashes(Hash(CRC32), Hash(SHA256), Hash(hash_type)),
            "HSH-001 HSH-005 HSH-006",
            f"The tensor carries its {id_.upper()} twice, both right.",
        )
    for id_, hash_type, rule in (
        ("crc32", CRC32, "HSH-005"),
        ("sha256", SHA256, "HSH-006"),
    ):
        wrong = Hash(hash_type, bytes(HASH_BYTES[hash_type]))
        other = Hash(SHA256 if hash_type == CRC32 else CRC32)
        for order, hashes in {
            "first": (wrong, Hash(hash_type), other),
            "second": (Hash(hash_type), wrong, other),
        }.items():
            yield recipe.refused(
                f"hash-{id_}-twice-{order}-wrong",
                with_hashes(*hashes),
                f"{rule} HSH-001",
                f"The tensor carries its {id_.upper()} twice, and the {order} is all zeros.",
            )
    yield recipe.refused(
        "hash-missing",
        with_hashes(),
        "HSH-004",
        "A tensor without a hash can be read, but nothing is there to verify.",
    )
    for id_, attribute, number, rules, why in (
        (
            "count-one-more",
            "hash_count",
            3,
            "HSH-001",
            "The list counts three hashes and holds two.",
        ),
        (
            "count-one-less",
            "hash_count",
            1,
            "HSH-001",
            "The list counts one hash and holds two.",
        ),
        (
            "count-zero",
            "hash_count",
            0,
            "HSH-001",
            "The list counts no hash and holds two.",
        ),
        (
            "count-255",
            "hash_count",
            255,
            "HSH-001",
            "The list counts 255 hashes and holds two.",
        ),
        (
            "length-one-less",
            "hashes_length",
            40,
            "HSH-001 REC-004",
            "The list is counted one byte short.",
        ),
        (
            "length-zero",
            "hashes_length",
            0,
            "HSH-001 REC-004",
            "The list has no room for its count.",
        ),
        (
            "length-one-more",
            "hashes_length",
            42,
            "REC-003 HSH-001",
            "The list claims a byte of data_length.",
        ),
        (
            "length-huge",
            "hashes_length",
            0xFFFF,
            "REC-003 HSH-001",
            "The list claims more than the header.",
        ),
    ):
        wrong = with_hashes(Hash(CRC32), Hash(SHA256))
        setattr(wrong.records[0], attribute, number)
        yield recipe.refused(f"hash-{id_}", wrong, rules, why)
    for hash_type in (2, 255):
        yield recipe.refused(
            f"hash-type-{hash_type}",
            with_hashes(Hash(CRC32), Hash(SHA256), Hash(hash_type, bytes(4))),
            "HSH-002",
            f"A third hash is of type {hash_type}, which does not exist.",
        )
    for id_, hash_type, size_bytes in (
        ("crc32-of-3", CRC32, 3),
        ("crc32-of-8", CRC32, 8),
        ("crc32-of-0", CRC32, 0),
        ("sha256-of-31", SHA256, 31),
        ("sha256-of-64", SHA256, 64),
    ):
        other = Hash(SHA256 if hash_type == CRC32 else CRC32)
        yield recipe.refused(
            f"hash-{id_}",
            with_hashes(other, Hash(hash_type, bytes(size_bytes))),
            "HSH-003",
            f"A hash of type {hash_type} has {size_bytes} bytes.",
        )
    overrun = with_hashes(Hash(CRC32), Hash(SHA256, size=33))
    yield recipe.refused(
        "hash-size-past-list",
        overrun,
        "HSH-001 HSH-003",
        "The size of the last hash reaches one byte past the list.",
    )


def values(recipe: Recipe) -> Iterator[Case]:
    """Hashes of the right form that are those of other bytes. Such a file can be read, but not verified."""
    right = two_tensors(seed=SEED).records[0].digests()

    def inverted(value: bytes) -> bytes:
        return bytes(byte ^ 0xFF for byte in value)

    yield recipe.refused(
        "hash-crc32-wrong",
        with_hashes(Hash(CRC32, inverted(right[CRC32])), Hash(SHA256)),
        "HSH-005",
        "The CRC32 is inverted, the SHA-256 is right.",
    )
    yield recipe.refused(
        "hash-crc32-byte-order",
        with_hashes(Hash(CRC32, right[CRC32][::-1]), Hash(SHA256)),
        "HSH-005",
        "The CRC32 is stored with its highest byte first.",
    )
    yield recipe.refused(
        "hash-sha256-wrong",
        with_hashes(Hash(CRC32), Hash(SHA256, inverted(right[SHA256]))),
        "HSH-006",
        "The SHA-256 is inverted, the CRC32 is right.",
    )
    yield recipe.refused(
        "hash-sha256-last-bit",
        with_hashes(
            Hash(CRC32),
            Hash(SHA256, right[SHA256][:-1] + bytes([right[SHA256][-1] ^ 1])),
        ),
        "HSH-006",
        "The last bit of the SHA-256 is flipped.",
    )
    yield recipe.refused(
        "hash-sha256-first-bit",
        with_hashes(
            Hash(CRC32), Hash(SHA256, bytes([right[SHA256][0] ^ 1]) + right[SHA256][1:])
        ),
        "HSH-006",
        "A bit of the first byte of the SHA-256 is flipped.",
    )
    begins = begins_with_nul()
    digest = begins.records[0].digests()[SHA256]
    begins.records[0].hashes = [
        Hash(CRC32),
        Hash(SHA256, digest[:-1] + bytes([digest[-1] ^ 1])),
    ]
    yield recipe.refused(
        "hash-sha256-last-bit-after-nul",
        begins,
        "HSH-006",
        "The SHA-256 begins with a NUL byte, and its last bit is flipped.",
    )
    stale = with_hashes(Hash(CRC32, right[CRC32]), Hash(SHA256, right[SHA256]))
    record = stale.records[0]
    record.plaintext = bytes([record.plaintext[0] ^ 1]) + record.plaintext[1:]
    yield recipe.refused(
        "hash-data-bit", stale, "HSH-005 HSH-006", "One bit of the data is flipped."
    )
    stale = with_hashes(Hash(CRC32, right[CRC32]), Hash(SHA256, right[SHA256]))
    stale.records[0].module_index = 1
    yield recipe.refused(
        "hash-module-index-bit",
        stale,
        "HSH-005 HSH-006",
        "One bit of the module index is flipped, which the index does not repeat.",
    )
    for id_, tensor in {
        "zero-elements": Tensor(["a"], shape=[0]),
        "meta": Tensor(["a"], meta=True),
    }.items():
        file = File.of([tensor], 4, SEED)
        file.records[0].hashes = [Hash(CRC32, bytes(4)), Hash(SHA256)]
        yield recipe.refused(
            f"hash-crc32-zero-{id_}",
            file,
            "HSH-005",
            "A tensor without data has a header, so its CRC32 is not 0.",
        )
    bare = two_tensors(seed=SEED)
    bare.records[0].hashes = [Hash(CRC32), Hash(SHA256, data_only(bare))]
    yield recipe.refused(
        "hash-of-data-only",
        bare,
        "HSH-006",
        "The SHA-256 is that of the data without the header.",
    )


def begins_with_nul() -> File:
    """A file of a tensor whose SHA-256 begins with a NUL byte."""
    for number in count():
        file = File.of([Tensor(["a"], data=number.to_bytes(4, "little"))], seed=SEED)
        if file.records[0].digests()[SHA256][0] == 0:
            return file
    raise AssertionError


def data_only(file: File) -> bytes:
    return bytes.fromhex(file.expected()["tensors"][0]["sha256"])
