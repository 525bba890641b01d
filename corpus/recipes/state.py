"""Cases of state: files that a reader answers wrongly only if it keeps something of an earlier file or tensor.

The cases of a sequence are asked one after another of one process, and their files may have one path and one inode.
"""

import zlib
from collections.abc import Iterator
from dataclasses import replace

import builder
import sodium
from builder import File, Tensor
from case import Case
from recipe import Recipe
from sealing import Lock
from wire import CRC32, SHA256, Hash

SEED = 2600
# Of the tensors of which two have one CRC32.
DATA_BYTES = 8
KEYS = [bytes([byte]) * 32 for byte in (0x5A, 0xA5)]
PASSPHRASES = ["first of two", "second of two"]
SALT = builder.noise(f"{SEED}/salt", sodium.SALT_BYTES)


def cases() -> Iterator[Case]:
    recipe = Recipe("state", SEED)
    for name, sequence in (
        ("content", content(recipe)),
        ("rejected", rejected(recipe)),
        ("key", keys(recipe)),
        ("passphrase", passphrase(recipe)),
        ("derivation", derivations(recipe)),
        ("hash", hashes(recipe)),
    ):
        for case in sequence:
            yield replace(case, sequence=f"state-{name}")


def content(recipe: Recipe) -> Iterator[Case]:
    """Files of one size and one index, with other data."""

    def file(seed: int) -> File:
        return File.of([Tensor(["a"], shape=[16]), Tensor(["b"], "<u2", [3])], 1, seed)

    for number in (1, 2):
        yield recipe.valid(
            f"state-content-{number}",
            file(SEED + number),
            "HSH-005 HSH-006",
            "Two files have one size, names and shapes, and other data.",
        )
    mixed = file(SEED + 2)
    mixed.records[1].hashes = file(SEED + 1).records[1].hashes
    for wrong, right in zip(mixed.records, file(SEED + 1).records, strict=True):
        wrong.hashes = [Hash(CRC32, right.digests()[CRC32]), Hash(SHA256)]
    yield recipe.refused(
        "state-content-crc32-of-another",
        mixed,
        "HSH-005",
        "The CRC32s are those of the data that a file of the same index has.",
    )


def rejected(recipe: Recipe) -> Iterator[Case]:
    """A file that is refused late, and then one with the same names."""
    tensors = [Tensor(["a"]), Tensor(["b"]), Tensor(["c"])]
    for number, position in enumerate((1, 2), start=1):
        late = File.of(tensors, 1, SEED)
        late.records[position].shape = [5]
        yield recipe.refused(
            f"state-rejected-{number}-late",
            late,
            "REC-009",
            f"The header of tensor {position} has another shape than the index, and those before it are right.",
        )
        yield recipe.valid(
            f"state-rejected-{number}-then-valid",
            File.of(tensors[: position + 1], 1, SEED + number),
            "NAM-001",
            "A file that was refused had tensors of these names.",
        )


def keys(recipe: Recipe) -> Iterator[Case]:
    """One file asked about with its key, without, with another one, and with its own again."""
    file = File.of([Tensor(["a"], shape=[16])], 3, SEED, Lock(KEYS[0]))
    name = "state-key"
    why = "The file was opened with its key before."
    yield recipe.valid(
        name, file, "CRY-016 CRY-018", "The key of the file.", key=KEYS[0]
    )
    yield recipe.refused(f"{name}-none", file, "CRY-018", why, same_file_as=name)
    yield recipe.refused(
        f"{name}-another", file, "CRY-016", why, key=KEYS[1], same_file_as=name
    )
    yield recipe.valid(
        f"{name}-again",
        file,
        "CRY-016 CRY-018",
        "The file was refused with another key before.",
        key=KEYS[0],
        same_file_as=name,
    )


def passphrase(recipe: Recipe) -> Iterator[Case]:
    """One file asked about with its passphrase, without, and with a key that is not its own."""
    lock = Lock.from_passphrase(PASSPHRASES[0], SALT)
    file = File.of([Tensor(["a"], shape=[16])], 3, SEED, lock)
    name = "state-passphrase"
    why = "The file was opened with its passphrase before."
    yield recipe.valid(
        name,
        file,
        "CRY-012 CRY-018",
        "The passphrase of the file.",
        features=["passphrase"],
        passphrase=PASSPHRASES[0],
    )
    yield recipe.refused(f"{name}-none", file, "CRY-018", why, same_file_as=name)
    yield recipe.refused(
        f"{name}-key", file, "CRY-016", why, key=KEYS[1], same_file_as=name
    )


def derivations(recipe: Recipe) -> Iterator[Case]:
    """Files with one salt, whose keys differ by what else goes into them."""
    rules = "CRY-012 CRY-013 CRY-014 CRY-015"
    for id_, passphrase, opslimit, memlimit in (
        ("1", PASSPHRASES[0], 1, 8192),
        ("passphrase", PASSPHRASES[1], 1, 8192),
        ("opslimit", PASSPHRASES[0], 2, 8192),
        ("memlimit", PASSPHRASES[0], 1, 16384),
    ):
        lock = Lock.from_passphrase(passphrase, SALT, opslimit, memlimit)
        yield recipe.valid(
            f"state-derivation-{id_}",
            File.of([Tensor(["a"], shape=[16])], 3, SEED, lock),
            rules,
            "Files have one salt, and their keys differ by the passphrase or by a limit.",
            features=["passphrase"],
            passphrase=passphrase,
        )
    lock = Lock.from_passphrase(PASSPHRASES[0], SALT)
    yield recipe.refused(
        "state-derivation-other-passphrase",
        File.of([Tensor(["a"], shape=[16])], 3, SEED, lock),
        "CRY-016 CRY-019",
        "The passphrase is that of another file with the same salt.",
        features=["passphrase"],
        passphrase=PASSPHRASES[1],
        same_file_as="state-derivation-1",
    )


def hashes(recipe: Recipe) -> Iterator[Case]:
    """Tensors that their CRC32s do not tell apart."""

    def file(*data: bytes) -> File:
        tensors = [
            Tensor([name], shape=[DATA_BYTES], data=part)
            for name, part in zip("ab", data, strict=True)
        ]
        return File.of(tensors, 1, SEED)

    def carrying(changed: File, position: int, digests: dict[int, bytes]) -> File:
        changed.records[position].hashes = [Hash(CRC32), Hash(SHA256, digests[SHA256])]
        return changed

    prefixes = [
        record.hashed_header() for record in file(*2 * [bytes(DATA_BYTES)]).records
    ]
    first, second = equal_crc32(prefixes[0], prefixes[1])
    yield recipe.valid(
        "state-hash-equal-crc32",
        file(first, second),
        "HSH-005 HSH-006",
        "Two tensors have one CRC32 and other data.",
    )
    yield recipe.refused(
        "state-hash-sha256-of-the-other",
        carrying(file(first, second), 1, file(first, second).records[0].digests()),
        "HSH-006",
        "Two tensors have one CRC32, and the second carries the SHA-256 of the first.",
    )
    first, second = equal_crc32(prefixes[0], prefixes[0])
    for number, data in ((1, first), (2, second)):
        yield recipe.valid(
            f"state-hash-equal-crc32-in-file-{number}",
            file(data, bytes(DATA_BYTES)),
            "HSH-005 HSH-006",
            "A tensor has the name and the CRC32 of one in another file, and other data.",
        )
    other = file(first, bytes(DATA_BYTES)).records[0].digests()
    yield recipe.refused(
        "state-hash-sha256-of-another-file",
        carrying(file(second, bytes(DATA_BYTES)), 0, other),
        "HSH-006",
        "A tensor has the name, the CRC32 and the SHA-256 of one in another file, and other data.",
    )


def equal_crc32(front: bytes, other_front: bytes) -> tuple[bytes, bytes]:
    """Two different pieces of data whose CRC32s are equal, each with what is in front of it."""
    noise = builder.noise(f"{SEED}/equal", DATA_BYTES << 18)
    pieces = [noise[at : at + DATA_BYTES] for at in range(0, len(noise), DATA_BYTES)]
    crc32 = zlib.crc32(front)
    seen = {zlib.crc32(piece, crc32): piece for piece in pieces}
    crc32 = zlib.crc32(other_front)
    for piece in pieces:
        found = seen.get(zlib.crc32(piece, crc32))
        if found not in (None, piece):
            return found, piece
    raise AssertionError("no two pieces have one CRC32")
