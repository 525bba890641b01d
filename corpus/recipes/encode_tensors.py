"""Encode cases of what a file stores about its tensors in addition to their data, of their order and their number."""

from collections.abc import Iterator

from encode_case import EncodeCase, EncodeRecipe
from specification import Data, Specification, Tensor, View

# With names of so many bytes the index takes more than the 262,144 bytes that upstream reserves.
MANY = 300
NAME_BYTES = 900
# The entries of these take 64 bytes less than that.
FEW = 40
LONG_NAME_BYTES = 6516


def cases() -> Iterator[EncodeCase]:
    recipe = EncodeRecipe("encode_tensors")
    yield from descriptions(recipe)
    yield from modules(recipe)
    yield from counts(recipe)
    yield from lengths(recipe)


def descriptions(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    yield recipe.written(
        "kinds",
        Specification(
            [
                Tensor(["weight"], kind="parameter"),
                Tensor(["running_mean"], kind="buffer"),
                Tensor(["extra"], kind="state_dict"),
            ]
        ),
        "IDX-004 REC-007",
        "A tensor of each kind.",
    )
    yield recipe.written(
        "module-indices",
        Specification(
            [
                Tensor(["a"], kind="parameter", module_index=1),
                Tensor(["b"], kind="buffer", module_index=0),
                Tensor(["c"], kind="parameter", module_index=65_535),
                Tensor(["d"], kind="state_dict", module_index=7),
            ]
        ),
        "REC-003 REC-007",
        "The tensors have different module indices, so that one of the tensor before shows.",
    )
    yield recipe.written(
        "order",
        Specification(
            [
                Tensor(["z"], "uint8", [3]),
                Tensor(["m"], "float64", [4]),
                Tensor(["a"], "uint8", [9]),
                Tensor(["0"], "int16", [1]),
                Tensor(["b"], "float64", [1]),
            ]
        ),
        "IDX-016 IDX-009 IDX-012",
        "The order is neither that of the names nor that of the sizes or dtypes.",
    )

    for id_, module_index in {"2-16": 1 << 16, "negative": -1}.items():
        yield recipe.refused(
            f"module-index-{id_}",
            Specification([Tensor(["a"], module_index=module_index)]),
            "REC-003",
            f"The module index {module_index} does not fit in its two bytes.",
        )
    yield recipe.refused(
        "kind",
        Specification([Tensor(["a"], kind="tensor")]),
        "REC-007 IDX-004",
        "There is no kind of this name.",
    )


def parameter(name: str, module_index: int = 0) -> Tensor:
    return Tensor([name], "float32", kind="parameter", module_index=module_index)


def buffer(name: str, module_index: int = 0, persistent: bool | None = None) -> Tensor:
    return Tensor(
        [name],
        "float32",
        kind="buffer",
        module_index=module_index,
        persistent=persistent,
    )


def modules(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    """Parameters and buffers with the names, order and indices that upstream gives those of a module.

    Those of the module itself come first, and their names begin with a dot.
    """
    yield recipe.written(
        "module",
        Specification(
            [
                parameter(".scale"),
                buffer(".steps"),
                parameter("a.weight", 1),
                parameter("a.bias", 1),
                buffer("a.mean", 1),
                parameter("b.0.weight", 3),
                parameter("b.1.weight", 4),
            ]
        ),
        "IDX-004 REC-007 NAM-001",
        "The parameters and buffers of a module that holds others, one of which has none of its own.",
    )
    for id_, tensors, why in (
        (
            "buffer-inside",
            [
                parameter("a.weight", 1),
                buffer("a.mean", 1, persistent=True),
                buffer("a.cache", 1, persistent=False),
            ],
            "A buffer of an inner module is left out, and the other one stays.",
        ),
        (
            "buffer-of-root",
            [
                parameter(".weight"),
                buffer(".mean", persistent=True),
                buffer(".cache", persistent=False),
            ],
            "A buffer of the module itself is left out, and the other one stays.",
        ),
        (
            "root-stays",
            [
                parameter(".weight"),
                buffer(".mean", persistent=True),
                buffer("a.cache", 1, persistent=False),
            ],
            "What is left out is elsewhere: parameter and buffer of the module itself stay.",
        ),
    ):
        yield recipe.written(
            f"omit-{id_}",
            Specification(tensors, omits_buffers=True),
            "HDR-005 REC-007",
            why,
        )


def counts(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    data = Data("data", MANY)

    def named(count: int, name_bytes: int) -> list[Tensor]:
        return [
            Tensor(
                [f"layers.{number:03}.".ljust(name_bytes, "x")],
                shape=[1],
                view=View(data, number, 1),
            )
            for number in range(count)
        ]

    yield recipe.written(
        "large-index",
        Specification(named(MANY, NAME_BYTES)),
        "IDX-001 IDX-002 HDR-005",
        f"{MANY} tensors with long names, and more index than upstream reserves room for.",
        features=["large-index"],
    )
    few = named(FEW, LONG_NAME_BYTES)
    # A writer that goes from tensor to tensor learns of the last one when all others are in its index.
    yield recipe.written(
        "large-index-late-long-dimension",
        Specification([*few, Tensor(["z"], "uint8", [1 << 32], meta=True)]),
        "IDX-001 IDX-002 IDX-013 HDR-006",
        f"{FEW} entries leave 64 of 262,144 bytes. Then a long dimension adds four to each of them.",
        layout="v5-flagged-dims",
        features=["large-index"],
    )
    yield recipe.refused(
        "no-tensors", Specification([]), "HDR-005", "A file holds at least one tensor."
    )


def lengths(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    yield recipe.written(
        "plain-2-mib-and-5",
        Specification([Tensor(["a"], shape=[(2 << 20) + 5]), Tensor(["b"])]),
        "IDX-006 IDX-009 HSH-005 HSH-006",
        "Data that writers copy in pieces, the last of which has five bytes, and a tensor behind it.",
    )
    data = Data("data", 12)
    yield recipe.written(
        "data-offset",
        Specification([Tensor(["a"], view=View(data, 8, 4))]),
        "IDX-006 HSH-005 HSH-006",
        "The data of the only tensor does not begin where its file does.",
    )
    yield recipe.refused(
        "data-beyond-its-file",
        Specification([Tensor(["a"], view=View(data, 10, 4))]),
        "IDX-006",
        "Half of the data lies beyond the end of the file that is said to hold it.",
    )
