"""The cases of how writers lay out a header: padding, spacing, the order of keys and of fields."""

import json
from collections.abc import Iterator
from itertools import permutations
from typing import Any

from builders import ONE, valid
from case import Case, Tensor, header_of

TENSORS = (
    Tensor("w", "F64", (1, 2), 0, 16),
    Tensor("b", "F32", (1,), 16, 20),
    Tensor("m", "BOOL", (3,), 20, 23),
)
METADATA = {"format": "pt"}

FIELDS = {"dtype": '"U8"', "shape": "[1]", "data_offsets": "[0,1]"}


def cases() -> Iterator[Case]:
    text = header_of(*TENSORS, metadata=METADATA)
    yield from padded(text)
    for id, why, tensors in (
        ("sorted", "tensors sorted by name", sorted(TENSORS, key=lambda t: t.name)),
        ("by-data", "tensors in the order of their data", TENSORS),
        ("by-size", "tensors from the smallest to the largest", TENSORS[::-1]),
    ):
        yield valid(f"keys-{id}", why, *tensors, rules="ST-014")
    for id, why, header in (
        ("indented", "a header with indentation", json.dumps(tree(), indent=2)),
        ("spaced", "a header with Python's own separators", json.dumps(tree())),
    ):
        yield valid(f"header-{id}", why, *TENSORS, header=header, metadata=METADATA)
    for fields in permutations(FIELDS):
        members = ",".join(f'"{field}":{FIELDS[field]}' for field in fields)
        why = f"the fields {', '.join(fields)}, in this order"
        id = f"fields-{'-'.join(field.removeprefix('data_') for field in fields)}"
        yield valid(id, why, ONE, header=f'{{"a":{{{members}}}}}')


def tree() -> Any:
    return json.loads(header_of(*TENSORS, metadata=METADATA))


def padded(text: str) -> Iterator[Case]:
    for id, why, size in (
        ("8", "to a multiple of 8", -(-len(text) // 8) * 8),
        (
            "64",
            "until the data begins at a multiple of 64",
            -(-len(text) // 64) * 64 + 56,
        ),
        ("one", "with one space", len(text) + 1),
        ("seven", "with seven spaces", len(text) + 7),
        ("512", "to 512 bytes", 512),
        ("kilobytes", "to 4 KiB", 4096),
    ):
        why = f"a header that is padded with spaces {why}"
        header = text.ljust(size)
        yield valid(
            f"padded-{id}",
            why,
            *TENSORS,
            rules="ST-007",
            header=header,
            metadata=METADATA,
        )
    why = "a header of an odd length without padding, so that no data is aligned"
    name = "w" * (2 - len(text) % 2)
    tensors = (Tensor(name, "F64", (1, 2), 0, 16), *TENSORS[1:])
    assert len(header_of(*tensors, metadata=METADATA)) % 2 == 1
    yield valid("padded-not", why, *tensors, rules="ST-007", metadata=METADATA)
