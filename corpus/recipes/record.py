"""Cases of tensor headers: their extent, what they repeat of the index, and the terminator behind the last record."""

from collections.abc import Iterator

import builder
from builder import File, Tensor
from case import Case
from recipe import Recipe, two_tensors
from sealing import Lock

SEED = 300


def cases() -> Iterator[Case]:
    recipe = Recipe("record", SEED)
    yield from extent(recipe)
    yield from repeated_fields(recipe)
    yield from terminator(recipe)


def file() -> File:
    return two_tensors(seed=SEED)


def extent(recipe: Recipe) -> Iterator[Case]:
    for module_index in (0, 1, 0xFFFF):
        yield recipe.valid(
            f"record-module-index-{module_index}",
            File.of([Tensor(["a"], module_index=module_index)], seed=SEED),
            "REC-003 REC-004",
            f"The module index is {module_index}; every number is right.",
        )
    for place, name in enumerate(("first", "second")):
        wrong = file()
        wrong.records[place].header_length = 0
        yield recipe.refused(
            f"record-terminator-{name}",
            wrong,
            "REC-001",
            f"The {name} tensor header that the index names begins with a header_length of 0.",
        )
    header_bytes = file().records[0].header_bytes()
    for name, length in {
        "1": 1,
        "8": 8,
        "16": 16,
        "one-less": header_bytes - 1,
        "one-more": header_bytes + 1,
        "with-data": header_bytes + 12,
        "past-end": 4096,
        "2-62": 1 << 62,
        "2-63": 1 << 63,
        "2-64-less-1": (1 << 64) - 1,
    }.items():
        wrong = file()
        wrong.records[0].header_length = length
        yield recipe.refused(
            f"record-length-{name}",
            wrong,
            "REC-002 REC-003 REC-004 REC-005 REC-010 IDX-009",
            f"The header_length of the first tensor is {length} instead of {header_bytes}.",
            features=["large-claim"] if length > 1 << 60 else [],
        )
    for name, attribute, length in (
        ("name", "name_length", 0xFFFF),
        ("dtype", "dtype_length", 0xFF),
        ("shape", "ndim", 0xFF),
    ):
        wrong = file()
        setattr(wrong.records[0], attribute, length)
        yield recipe.refused(
            f"record-{name}-past-end",
            wrong,
            "REC-003",
            f"The {name} claims to be longer than what is left of the tensor header.",
        )
    for name, size_bytes in {"one": 1, "eight": 8}.items():
        loose = file()
        loose.records[0].extra = b"\xab" * size_bytes
        yield recipe.open(
            f"record-extra-{name}",
            loose,
            "REC-004",
            "Bytes between the hashes and data_length belong to no field, and header_length counts them.",
            "header-slack",
        )
    # The crypt block of a file that no longer says that it is encrypted.
    relabelled = File.of([Tensor(["a"], "<u2", [2, 3])], 2, SEED, Lock(bytes(32)))
    yield recipe.refused(
        "record-crypt-block-in-v2",
        relabelled,
        "REC-004",
        "An encrypted file was relabelled as data version 2; its ciphertext must not be handed out as data.",
    )


def repeated_fields(recipe: Recipe) -> Iterator[Case]:
    """What index and header both say, said differently; the hashes go by the header."""
    wrong = file()
    wrong.records[0].name = b"z"
    yield recipe.refused(
        "record-name-differs", wrong, "REC-006", "The index says a, the header says z."
    )
    wrong = file()
    wrong.records[0].name, wrong.records[1].name = b"b", b"a"
    yield recipe.refused(
        "record-names-swapped",
        wrong,
        "REC-006",
        "The headers of two tensors carry each other's names.",
    )
    for id_, front in {"after-nul": b"a\0", "at-300": b"n" * 300}.items():
        wrong = File.of([Tensor(["?"], name=front + b"a")], seed=SEED)
        wrong.records[0].name = front + b"b"
        yield recipe.refused(
            f"record-name-differs-{id_}",
            wrong,
            "REC-006",
            f"The names of index and header differ in their last byte, which is byte {len(front)}.",
        )
    wrong = File.of([Tensor(["a", 0]), Tensor(["b"])], seed=SEED)
    wrong.records[0].name = b'\x1e["a",1]'
    yield recipe.refused(
        "record-name-structured-differs",
        wrong,
        "REC-006",
        'The index says the structured name ["a",0], the header says ["a",1].',
    )
    respelled = File.of(
        [Tensor(["a", 0], name=b'\x1e["a",0]'), Tensor(["b"])], seed=SEED
    )
    respelled.records[0].name = b'\x1e["a", 0]'
    yield recipe.open(
        "record-name-respelled",
        respelled,
        "REC-006",
        "Index and header give the same path, but spell it differently.",
        "respelled-name",
    )
    wrong = file()
    wrong.records[0].kind = builder.PARAMETER
    yield recipe.refused(
        "record-kind-differs",
        wrong,
        "REC-007",
        "The index says state_dict, the header says parameter.",
    )
    wrong = file()
    wrong.records[0].kind = 9
    yield recipe.refused(
        "record-kind-unknown",
        wrong,
        "REC-007 IDX-004",
        "The index says state_dict, the header says kind 9.",
    )
    wrong = file()
    wrong.records[0].dtype = b"<i2"
    yield recipe.refused(
        "record-dtype-differs", wrong, "REC-008", "The index says <u2, the header <i2."
    )
    front = "<V1\0torch.float8_"
    word = "x" * (254 - len(front))
    wrong = File.of([Tensor(["a"], front + word + "a")], 2, SEED)
    wrong.records[0].dtype = (front + word + "b").encode()
    yield recipe.refused(
        "record-dtype-differs-at-254",
        wrong,
        "REC-008",
        "The opaque dtypes of index and header differ in their last byte, which is byte 254.",
    )
    wrong = File.of([Tensor(["a"], shape=[1] * 8 + [2, 3])], seed=SEED)
    wrong.records[0].shape = [1] * 8 + [3, 2]
    yield recipe.refused(
        "record-shape-swapped-at-8",
        wrong,
        "REC-009",
        "After eight dimensions of 1 the index says 2 x 3, the header 3 x 2.",
    )
    for name, shape in {"swapped": [3, 2], "flat": [6]}.items():
        wrong = file()
        wrong.records[0].shape = shape
        yield recipe.refused(
            f"record-shape-{name}",
            wrong,
            "REC-009",
            f"The index says 2 x 3, the header says {' x '.join(map(str, shape))}.",
        )
    for name, length in {"less": 10, "more": 14, "zero": 0}.items():
        wrong = file()
        wrong.records[0].data_length = length
        yield recipe.refused(
            f"record-data-length-{name}",
            wrong,
            "REC-010",
            f"The index says 12 bytes of data, the header says {length}.",
        )
    for name, length in {"1": -1, "2-63": -(1 << 63)}.items():
        wrong = file()
        wrong.records[0].data_length = length
        yield recipe.refused(
            f"record-data-length-minus-{name}",
            wrong,
            "REC-005 REC-010",
            f"The data_length of the header is {length}.",
        )
    both = file()
    both.records[1].data_length = -4
    both.entries[1].data_length = (1 << 64) - 4
    yield recipe.refused(
        "record-data-length-minus-4-twice",
        both,
        "REC-005 IDX-006 IDX-010",
        "The header says -4 bytes of data, and the index says the same as an unsigned number.",
    )


def terminator(recipe: Recipe) -> Iterator[Case]:
    for size_bytes in (0, 1, 7):
        cut = file()
        cut.terminator = bytes(size_bytes)
        yield recipe.open(
            f"terminator-{size_bytes}-bytes",
            cut,
            "TRM-001",
            f"Behind the last record are {size_bytes} bytes instead of 8.",
            "terminator",
        )
    for name, value in {"one": 1, "high-bit": 1 << 63, "77": 77}.items():
        wrong = file()
        wrong.terminator = value.to_bytes(8, "little")
        yield recipe.open(
            f"terminator-is-{name}",
            wrong,
            "TRM-002",
            f"The eight bytes behind the last record are {wrong.terminator.hex(' ')}.",
            "terminator",
        )
    for name, trailer in {
        "byte": b"\xab",
        "zeros": bytes(32),
        "text": b"trailer\n",
    }.items():
        longer = file()
        longer.trailer = trailer
        yield recipe.open(
            f"terminator-then-{name}",
            longer,
            "IDX-016 TRM-002",
            f"{len(trailer)} more bytes follow the terminator.",
            "trailing-bytes",
        )
