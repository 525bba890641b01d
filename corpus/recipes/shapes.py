"""Cases of shapes: scalars, tensors without elements, many dimensions, and meta tensors of any nominal size."""

from collections.abc import Iterator

from builder import File, Tensor
from case import Case
from recipe import Recipe

SEED = 600


def cases() -> Iterator[Case]:
    recipe = Recipe("shapes", SEED)
    yield from tensors_with_data(recipe)
    yield from meta_tensors(recipe)


def of_shape(shape: list[int], data_version: int = 1, dtype: str = "<i4") -> File:
    return File.of([Tensor(["a"], dtype, shape), Tensor(["z"])], data_version, SEED)


def tensors_with_data(recipe: Recipe) -> Iterator[Case]:
    for id_, shape, why in (
        ("scalar", [], "No dimensions, one element."),
        ("one", [1], "One dimension of one element."),
        ("ones", [1, 1, 1], "Dimensions of one element each."),
        ("32-dims", [1] * 31 + [2], "As many dimensions as numpy has had for long."),
    ):
        yield recipe.valid(
            f"shape-{id_}", of_shape(shape), "IDX-005 IDX-006 REC-009", why
        )
    for version in (1, 2, 4):
        yield recipe.valid(
            f"shape-zero-elements-v{version}",
            of_shape([0], version),
            "IDX-006",
            f"A tensor of no elements is not a meta tensor, in data version {version} either.",
        )
    for id_, shape in {
        "inside": [3, 0, 2],
        "twice": [0, 0],
        "beside-large": [0, 0xFFFFFFFF],
    }.items():
        yield recipe.valid(
            f"shape-zero-{id_}",
            of_shape(shape),
            "IDX-006",
            "A dimension of 0 leaves no elements, wherever it is.",
        )
    yield recipe.valid(
        "shape-zero-elements-only",
        File.of([Tensor(["a"], "<i4", [0])], seed=SEED),
        "IDX-006 IDX-010",
        "Nothing in the file has data; the data offset is where the terminator is.",
    )
    yield recipe.open(
        "shape-zero-beside-huge",
        of_shape([0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0]),
        "IDX-005",
        "The product is 0, but leaves 64 bits on the way if it is taken from the left.",
        "zero-product",
        features=["large-claim"],
    )
    for dims in (33, 64, 255):
        yield recipe.open(
            f"shape-{dims}-dims",
            of_shape([1] * dims, dtype="|u1"),
            "IDX-002 REC-003",
            f"{dims} dimensions of one element each.",
            "many-dimensions",
        )


def meta_tensors(recipe: Recipe) -> Iterator[Case]:
    def meta(shape: list[int], dtype: str = "<f4", data_version: int = 4) -> File:
        return File.of(
            [Tensor(["m"], dtype, shape, meta=True), Tensor(["z"])], data_version, SEED
        )

    for id_, shape, dtype, why in (
        ("small", [2, 3], "<f4", "A meta tensor beside one with data."),
        ("scalar", [], "<f8", "A meta tensor of no dimensions."),
        ("opaque", [4], "<V2\0torch.bfloat16", "A meta tensor of an opaque dtype."),
        ("one-byte", [1], "|u1", "The smallest meta tensor."),
    ):
        yield recipe.valid(f"meta-{id_}", meta(shape, dtype), "IDX-006 IDX-007", why)
    for id_, shape in {
        "2-40": [1 << 20, 1 << 20],
        "below-2-63": [1 << 31, 0xFFFFFFFF],
    }.items():
        yield recipe.valid(
            f"meta-{id_}",
            meta(shape, "|u1"),
            "IDX-005 IDX-006 IDX-007",
            "A meta tensor whose nominal size nobody may allocate to list it.",
            features=["large-claim"],
        )
    only = File.of([Tensor(["m"], "<f4", [2], meta=True)], 4, SEED)
    yield recipe.valid("meta-only", only, "IDX-006 IDX-007", "A file without any data.")
    several = File.of(
        [
            Tensor(["d0"]),
            Tensor(["m0"], meta=True),
            Tensor(["e"], shape=[0]),
            Tensor(["m1"], meta=True),
            Tensor(["d1"]),
        ],
        4,
        SEED,
    )
    yield recipe.valid(
        "meta-between",
        several,
        "IDX-006 IDX-012",
        "Meta tensors, one without elements and two with data take turns.",
    )
    for version in (1, 2):
        yield recipe.refused(
            f"meta-in-v{version}",
            meta([2, 3], data_version=version),
            "IDX-007 IDX-006",
            f"Data version {version} has no meta tensors, and a tensor of 24 bytes has no data.",
        )
    for id_, shape in {
        "2-63": [1 << 31, 1 << 31, 2],
        "2-64": [1 << 31, 1 << 31, 4],
    }.items():
        yield recipe.refused(
            f"meta-{id_}",
            meta(shape, "|u1"),
            "IDX-005",
            f"A meta tensor of {id_.replace('-', '^')} bytes, which no signed number of 64 bits holds.",
            features=["large-claim"],
        )
