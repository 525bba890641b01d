"""Encode cases of what a file says of its tensors beside their data, of their order, and of how many there are."""

from collections.abc import Iterator

from encode_case import EncodeCase, EncodeRecipe
from specification import Data, Specification, Tensor, View

# The names have 60 bytes, so that the index takes more than the 262,144 bytes that upstream reserves.
MANY = 2800


def cases() -> Iterator[EncodeCase]:
    recipe = EncodeRecipe("encode_tensors")
    yield from descriptions(recipe)
    yield from modules(recipe)
    yield from counts(recipe)


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
        "IDX-009 IDX-012",
        "The order is neither that of the names nor that of the sizes or dtypes.",
    )


def modules(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    """Parameters and buffers as a module has them: the root's first, then those of the modules inside."""

    def module(*tensors: Tensor) -> Specification:
        return Specification(list(tensors), omits_buffers=True)

    def parameter(name: str, module_index: int = 0) -> Tensor:
        return Tensor([name], "float32", kind="parameter", module_index=module_index)

    def buffer(name: str, persistent: bool, module_index: int = 0) -> Tensor:
        return Tensor(
            [name],
            "float32",
            kind="buffer",
            module_index=module_index,
            persistent=persistent,
        )

    for id_, specification, why in (
        (
            "buffer-inside",
            module(
                parameter("a.weight", 1),
                buffer("a.mean", True, 1),
                buffer("a.cache", False, 1),
            ),
            "A buffer of an inner module is left out, and the other one stays.",
        ),
        (
            "buffer-of-root",
            module(parameter("weight"), buffer("mean", True), buffer("cache", False)),
            "A buffer of the module itself is left out, and the other one stays.",
        ),
        (
            "root-stays",
            module(
                parameter("weight"),
                buffer("mean", True),
                buffer("a.cache", False, 1),
            ),
            "What is left out is elsewhere: parameter and buffer of the module itself stay.",
        ),
    ):
        yield recipe.written(f"omit-{id_}", specification, "HDR-005 REC-007", why)


def counts(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    data = Data("data", MANY)
    many = [
        Tensor(
            [f"layers.{number:04}.".ljust(60, "x")],
            shape=[1],
            view=View(data, number, 1),
        )
        for number in range(MANY)
    ]
    yield recipe.written(
        "many-tensors",
        Specification(many),
        "IDX-001 IDX-002 HDR-005",
        f"{MANY:,} tensors, with more index than upstream reserves room for.",
        features=["large-index", "many-tensors"],
    )
    yield recipe.refused(
        "no-tensors", Specification([]), "HDR-005", "A file holds at least one tensor."
    )
