"""Encode cases of the lowest data version that a content needs."""

from collections.abc import Iterator

from encode_case import EncodeCase, EncodeRecipe
from specification import Specification, Tensor

KEY = bytes(range(32))
# One more than four bytes hold.
LONG = 1 << 32


def cases() -> Iterator[EncodeCase]:
    recipe = EncodeRecipe("encode_versions")
    yield from plain_and_encrypted(recipe)
    yield from zero_elements(recipe)
    yield from meta_tensors(recipe)
    yield from long_dimensions(recipe)


def beside_data(tensor: Tensor) -> Specification:
    """The tensor that a case is about, followed by one with data."""
    return Specification([tensor, Tensor(["z"], "float32", [3])])


def plain_and_encrypted(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    plain = Specification(
        [Tensor(["a"], "float32", [2, 3]), Tensor(["b"], "int64", [5])]
    )
    yield recipe.written(
        "version-plain",
        plain,
        "HDR-006 HDR-001 HDR-002 HDR-003 HDR-005 HDR-009 IDX-006 REC-004 HSH-005 HSH-006 TRM-002",
        "Plain tensors need data version 1 and no later one.",
    )
    yield recipe.written(
        "version-encrypted",
        plain,
        "HDR-006 CRY-001 CRY-006 CRY-020 CRY-021 HSH-007",
        "Encryption needs data version 3.",
        layout="v3",
        key=KEY,
    )
    yield recipe.written(
        "version-opaque-encrypted",
        beside_data(Tensor(["a"], "bfloat16", [4])),
        "HDR-006 DTY-002 CRY-006",
        "An opaque dtype and encryption together need no more than data version 3.",
        layout="v3",
        key=KEY,
    )


def zero_elements(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    rules = "HDR-006 IDX-006"
    yield recipe.written(
        "version-zero-elements",
        beside_data(Tensor(["a"], "float32", [0])),
        rules,
        "A tensor of no elements is not a meta tensor, and needs data version 1.",
    )
    yield recipe.written(
        "version-zero-elements-inside",
        beside_data(Tensor(["a"], "float32", [3, 0, 2])),
        rules,
        "One dimension of 0 among others leaves no elements.",
    )
    yield recipe.written(
        "version-zero-elements-only",
        Specification([Tensor(["a"], "float32", [0]), Tensor(["b"], "uint8", [2, 0])]),
        rules,
        "No tensor of the file has data, and none is a meta tensor.",
    )
    yield recipe.written(
        "version-zero-elements-opaque",
        beside_data(Tensor(["a"], "bfloat16", [0])),
        f"{rules} DTY-002",
        "A bfloat16 tensor of no elements needs data version 2 for its dtype.",
        layout="v2",
    )


def meta_tensors(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    rules = "HDR-006 IDX-006 IDX-007"
    for id_, tensor, why in (
        ("meta", Tensor(["a"], "float32", [2, 3], meta=True), "A meta tensor."),
        (
            "meta-scalar",
            Tensor(["a"], "float32", [], meta=True),
            "A meta tensor of no dimensions has one element and no data.",
        ),
        (
            "meta-opaque",
            Tensor(["a"], "bfloat16", [4], meta=True),
            "A bfloat16 meta tensor.",
        ),
        (
            "meta-of-2-40-bytes",
            Tensor(["a"], "uint8", [1 << 20, 1 << 20], meta=True),
            "Nobody may allocate a meta tensor of a terabyte to write it.",
        ),
        (
            "dimension-2-32-less-1",
            Tensor(["a"], "uint8", [LONG - 1], meta=True),
            "The largest dimension that needs no longer field.",
        ),
    ):
        yield recipe.written(
            f"version-{id_}", beside_data(tensor), rules, why, layout="v4"
        )
    yield recipe.written(
        "version-meta-only",
        Specification([Tensor(["a"], "int16", [7], meta=True)]),
        rules,
        "The file holds nothing but a meta tensor.",
        layout="v4",
    )
    yield recipe.written(
        "version-meta-encrypted",
        beside_data(Tensor(["a"], "float32", [2, 3], meta=True)),
        f"{rules} HDR-004 CRY-001 CRY-007",
        "A meta tensor in an encrypted file: data version 4, the flag, and an empty crypt block.",
        layout="v4",
        key=KEY,
    )


def long_dimensions(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    rules = "HDR-006 IDX-005 IDX-013"
    for id_, shape, meta, why in (
        ("2-32", [LONG], True, "A meta tensor with the first dimension that is long."),
        (
            "2-63-less-1",
            [(1 << 63) - 1],
            True,
            "A meta tensor of the largest size that there is.",
        ),
        (
            "2-32-zero-elements",
            [0, LONG],
            False,
            "A tensor of no elements with a long dimension.",
        ),
    ):
        yield recipe.written(
            f"version-dimension-{id_}",
            beside_data(Tensor(["a"], "uint8", shape, meta=meta)),
            rules,
            why,
            layout="v5-flagged-dims",
        )
    yield recipe.written(
        "version-dimension-2-32-encrypted",
        beside_data(Tensor(["a"], "uint8", [LONG], meta=True)),
        f"{rules} HDR-004 CRY-006 CRY-007",
        "A long dimension in an encrypted file.",
        layout="v5-flagged-dims",
        key=KEY,
    )
