"""Encode cases of tensors that are views of the same memory, which a writer stores one by one."""

from collections.abc import Iterator

from encode_case import EncodeCase, EncodeRecipe
from specification import Data, Specification, Tensor, View

KEY = bytes(range(32))
# Large enough that writers with several threads are at work on several tensors at once.
VIEW_BYTES = 1 << 20
VIEWS = 8


def cases() -> Iterator[EncodeCase]:
    recipe = EncodeRecipe("encode_memory")
    for id_, specification, why in (
        (
            "same",
            same_range(),
            "Two tensors are the same memory, as tied weights are.",
        ),
        (
            "shifted",
            views([(4096 * number, VIEW_BYTES) for number in range(VIEWS)]),
            "Eight tensors overlap, each beginning a little later than the one before.",
        ),
        (
            "inside",
            views([(0, VIEW_BYTES), (VIEW_BYTES // 4, VIEW_BYTES // 4)]),
            "One tensor lies inside the other.",
        ),
        (
            "dtypes",
            of_two_dtypes(),
            "The same memory as integers and as floats.",
        ),
    ):
        yield recipe.written(f"shared-{id_}", specification, "IDX-011 HSH-006", why)
        yield recipe.written(
            f"shared-{id_}-encrypted",
            specification,
            "CRY-016 IDX-011 HSH-006",
            f"{why.removesuffix('.')}; each has to be encrypted by itself.",
            layout="v3",
            key=KEY,
        )


def views(ranges: list[tuple[int, int]]) -> Specification:
    """Tensors of bytes that view one piece of memory from an offset on."""
    memory = Data("memory", max(offset + length for offset, length in ranges))
    return Specification(
        [
            Tensor([f"t{number}"], shape=[length], view=View(memory, offset, length))
            for number, (offset, length) in enumerate(ranges)
        ]
    )


def same_range() -> Specification:
    return views([(0, VIEW_BYTES), (0, VIEW_BYTES)])


def of_two_dtypes() -> Specification:
    memory = Data("memory", VIEW_BYTES)
    whole = View(memory, 0, VIEW_BYTES)
    return Specification(
        [
            Tensor(["i"], "int32", [VIEW_BYTES // 4], view=whole),
            Tensor(["f"], "float32", [VIEW_BYTES // 8, 2], view=whole),
        ]
    )
