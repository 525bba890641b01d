"""Cases for readers and writers that move data through buffers: lengths of a buffer's size and one byte off.

For each size of 4 KiB to 4 MiB there are data of that size, one byte less, one more and five more, plain and encrypted,
to be read and to be written. Encrypted data has a last message of one byte, too. buffers_test.py lists what there has
to be. Most of the files are too large for a repository: they are made when the corpus is built, of a pattern that is
easy to compress even where it is encrypted.
"""

from __future__ import annotations

from collections.abc import Iterator

import builder
import layouts
import sealing
import sodium
from builder import File, Tensor
from case import LARGE_FEATURE, Case
from encode_case import EncodeCase, EncodeRecipe
from recipe import Recipe
from sealing import Lock
from specification import Specification
from specification import Tensor as SpecifiedTensor

SEED = 2300
KEY = bytes(range(32))
SMALLEST_BITS, LARGEST_BITS = 12, 22
# Files of data up to so many bits are small enough to be committed.
COMMITTED_BITS = 13
# Of the largest sizes one length has to do: more would take most of the time of a run.
LONG_BITS = 20
LONG_MORE = {20: (5,), 21: (5,), 22: (1,)}
LAYOUTS = (
    (1, "v1"),
    *((layout.data_version, layout.name) for layout in layouts.FAMILIES.values()),
)
# A chunk size for each size of data: so that chunks are many, that the data is one chunk and a bit, and what upstream
# writes.
CHUNK_BYTES = {
    **{12: 1024, 13: 1088, 14: 4096, 15: 1024, 16: 1 << 16, 17: 4096, 18: 1 << 16},
    **{19: 1 << 18, 20: 1 << 20, 21: 2 << 20, 22: 2 << 20},
}
# Which sizes are tried in one file that a writer writes; to make each file durable takes time.
WRITTEN_BITS = (
    range(12, 17),
    range(17, 20),
    range(20, 21),
    range(21, 22),
    range(22, 23),
)
PATTERN = bytes(range(251))


def cases() -> Iterator[Case | EncodeCase]:
    recipe = Recipe("buffers", SEED)
    for bits in range(SMALLEST_BITS, COMMITTED_BITS + 1):
        yield read_plain(recipe, bits)
        yield read_encrypted(recipe, bits)
    yield from large_cases()
    encode_recipe = EncodeRecipe("buffers")
    for sizes in WRITTEN_BITS:
        for key in (None, KEY):
            yield written(encode_recipe, sizes, key)


def large_cases() -> Iterator[Case]:
    recipe = Recipe("buffers", SEED)
    for bits in range(COMMITTED_BITS + 1, LARGEST_BITS + 1):
        yield read_plain(recipe, bits)
        yield read_encrypted(recipe, bits)
    sequential = File.of([of_pattern(lengths(LONG_BITS)[-1])], 3, SEED)
    seal_to_pattern(sequential, Lock(KEY, sequential=True))
    yield recipe.valid(
        "large-buffer-sequential-2-20",
        sequential,
        "CRY-003 CRY-016",
        "Data of 2^20 + 5 bytes is one message.",
        features=["sequential-cipher"],
        key=KEY,
        is_large=True,
    )


def lengths(bits: int) -> list[int]:
    """The lengths that are tried with a buffer of so many bits."""
    size = 1 << bits
    return [size + more for more in LONG_MORE.get(bits, (-1, 0, 1, 5))]


def of_pattern(size: int) -> Tensor:
    data = (PATTERN * (size // len(PATTERN) + 1))[:size]
    return Tensor([f"b{size}"], "|u1", [size], data=data)


def named(kind: str, bits: int) -> tuple[str, bool]:
    """The id of a file, and whether it is large."""
    is_large = bits > COMMITTED_BITS
    return f"{'large-' if is_large else ''}buffer-{kind}-2-{bits}", is_large


def read_plain(recipe: Recipe, bits: int) -> Case:
    id_, is_large = named("plain", bits)
    version, layout = LAYOUTS[bits % len(LAYOUTS)]
    sizes = [*lengths(bits)]
    if bits < LONG_BITS - 2:
        sizes.append(3 * (1 << bits) + 1)
    return recipe.valid(
        id_,
        File.of([of_pattern(size) for size in sizes], version, SEED, layout=layout),
        "IDX-006 IDX-010 HSH-006",
        f"Data of {sizes} bytes, for readers with a buffer of 2^{bits} bytes or less.",
        is_large=is_large,
    )


def read_encrypted(recipe: Recipe, bits: int) -> Case:
    id_, is_large = named("encrypted", bits)
    version, layout = LAYOUTS[(bits + 1) % len(LAYOUTS)]
    if version < 3:
        version, layout = 3, "v3"
    chunk = CHUNK_BYTES[bits]
    sizes = sorted({*lengths(bits), (1 << bits) // chunk * chunk + 1})
    file = File.of([of_pattern(size) for size in sizes], version, SEED, layout=layout)
    seal_to_pattern(file, Lock(KEY, chunk))
    if version >= 4:
        file.flags = bytes([file.flags[0] | builder.FLAG_ENCRYPTED]) + file.flags[1:]
    return recipe.valid(
        id_,
        file,
        "CRY-009 CRY-016 HSH-006",
        f"Data of {sizes} bytes in messages of {chunk}; one of them ends with a message of one byte.",
        key=KEY,
        is_large=is_large,
    )


def seal_to_pattern(file: File, lock: Lock) -> None:
    """Encrypts the data that its pattern decrypts to, so that the file has the pattern."""
    for number, (record, tensor) in enumerate(
        zip(file.records, file.tensors, strict=True)
    ):
        nonce = builder.noise(f"{SEED}/nonce/{number}", sodium.NONCE_BYTES)
        pattern = record.plaintext
        if lock.sequential:
            record.plaintext, _ = sodium.secretbox(pattern, nonce, lock.key)
        else:
            record.plaintext, _ = sealing.seal(
                pattern, lock.key, nonce, lock.chunk_size
            )
        lock.apply(record, nonce)
        assert record.ciphertext == pattern
        tensor.data = record.plaintext


def written(recipe: EncodeRecipe, some_bits: range, key: bytes | None) -> EncodeCase:
    kind = "plain" if key is None else "encrypted"
    id_, is_large = named(kind, some_bits[-1])
    sizes = [size for bits in some_bits for size in lengths(bits)]
    return recipe.written(
        id_,
        Specification([SpecifiedTensor([f"b{size}"], shape=[size]) for size in sizes]),
        "IDX-006 HSH-006" if key is None else "CRY-009 CRY-016 HSH-006",
        f"Data of {sizes} bytes, for writers with a buffer of 2^{some_bits[-1]} bytes or less.",
        layout="v1" if key is None else "v3",
        features=[LARGE_FEATURE] if is_large else [],
        key=key,
    )
