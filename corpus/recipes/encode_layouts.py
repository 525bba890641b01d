"""Encode cases of layouts that are asked for by name, the two with headers first among them."""

from collections.abc import Iterator

from encode_case import EncodeCase, EncodeRecipe
from layouts import ALL_HEADERS_FIRST, OF_VERSION_5
from specification import Specification, Tensor

KEY = bytes(range(32))
LONG = 1 << 32


def cases() -> Iterator[EncodeCase]:
    recipe = EncodeRecipe("encode_layouts")
    yield from each_layout(recipe)
    yield from headers_first(recipe)
    yield from long_dimensions(recipe)
    yield from below_the_need(recipe)


def plain(layout: str) -> Specification:
    """Tensors whose sizes leave something to align between them."""
    return Specification(
        [
            Tensor(["a"], "uint8", [3]),
            Tensor(["b"], "float64", [2]),
            Tensor(["c"], "uint8", [1]),
            Tensor(["d"], "float32", [5]),
        ],
        layout,
    )


def with_tensor(tensor: Tensor, layout: str) -> Specification:
    return Specification([tensor, Tensor(["z"], "float32", [3])], layout)


def each_layout(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    for layout, rules in {
        "v1": "HDR-006 HDR-003",
        "v2": "HDR-006 HDR-003",
        "v4": "HDR-006 HDR-004",
        "v5-headers-first": "HDR-006 HDR-007 IDX-014 IDX-015 IDX-016 IDX-017",
        "v5-segments": "HDR-006 SEG-001 SEG-002 SEG-003 SEG-004 SEG-005",
        "v5-long-dims": "HDR-006 HDR-007 IDX-013 IDX-018",
        "v5-flagged-dims": "HDR-006 HDR-004 HDR-007 IDX-013 IDX-018",
    }.items():
        yield recipe.written(
            f"forced-{layout}",
            plain(layout),
            rules,
            f"Plain tensors, and layout {layout} is asked for.",
            layout=layout,
        )
    for layout in ("v3", "v4", *OF_VERSION_5):
        yield recipe.written(
            f"forced-{layout}-encrypted",
            plain(layout),
            f"HDR-006 CRY-001 CRY-006{'' if layout == 'v3' else ' HDR-004'}",
            f"Encrypted tensors, and layout {layout} is asked for.",
            layout=layout,
            key=KEY,
        )


def headers_first(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    for layout in ALL_HEADERS_FIRST:
        for id_, tensor, rules, why in (
            (
                "meta",
                Tensor(["m"], "bfloat16", [2, 3], meta=True),
                "IDX-007 IDX-015 IDX-019",
                "A meta tensor in front of one with data.",
            ),
            (
                "zero-elements",
                Tensor(["e"], "float32", [0]),
                "IDX-006 IDX-015 IDX-019",
                "A tensor of no elements in front of one with data.",
            ),
            (
                "structured-name",
                Tensor(["a", 0]),
                "NAM-010 IDX-014",
                "A structured name beside a plain one.",
            ),
        ):
            yield recipe.written(
                f"forced-{layout}-{id_}",
                with_tensor(tensor, layout),
                f"{rules} HSH-006",
                why,
                layout=layout,
            )
        empty = [Tensor([name], "float32", [0]) for name in ("e", "f", "g")]
        filled = [Tensor([name], shape=[size]) for name, size in (("a", 5), ("b", 11))]
        meta = Tensor(["m"], "float32", [2], meta=True)
        around = [empty[0], filled[0], meta, empty[1], filled[1], empty[2]]
        yield recipe.written(
            f"forced-{layout}-empty-between",
            Specification(around, layout),
            "IDX-019 IDX-006 IDX-007 IDX-016",
            "Tensors without data are before, between and behind those with data.",
            layout=layout,
        )
        yield recipe.written(
            f"forced-{layout}-no-data",
            Specification([Tensor(["m"], "int8", [4], meta=True)], layout),
            "IDX-006 IDX-010 IDX-019",
            "Nothing in the file has data.",
            layout=layout,
        )
    yield recipe.written(
        "forced-v5-headers-first-name-nul",
        Specification([Tensor(["\0"], kind="parameter")], "v5-headers-first"),
        "HDR-008 HDR-007",
        "The index begins as one of v5-long-dims does, and the file has to be readable in one way only.",
        layout="v5-headers-first",
    )


def long_dimensions(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    """The layout of the branch, which a writer uses only on request."""
    yield recipe.written(
        "forced-v5-long-dims-long",
        with_tensor(Tensor(["a"], "uint8", [LONG], meta=True), "v5-long-dims"),
        "HDR-006 HDR-007 IDX-013 IDX-018",
        "A long dimension, and layout v5-long-dims is asked for.",
        layout="v5-long-dims",
    )


def below_the_need(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    opaque = Tensor(["a"], "bfloat16", [4])
    meta = Tensor(["a"], "float32", [4], meta=True)
    long = Tensor(["a"], "uint8", [LONG], meta=True)
    for layout, id_, tensor, key, why in (
        ("v1", "opaque", opaque, None, "An opaque dtype needs data version 2."),
        ("v1", "encrypted", Tensor(["a"]), KEY, "Encryption needs data version 3."),
        ("v2", "encrypted", Tensor(["a"]), KEY, "Encryption needs data version 3."),
        ("v2", "meta", meta, None, "A meta tensor needs data version 4."),
        ("v3", "meta", meta, KEY, "A meta tensor needs data version 4."),
        ("v4", "long", long, None, "A long dimension needs v5-flagged-dims."),
        ("v5-segments", "long", long, None, "A long dimension needs v5-flagged-dims."),
        (
            "v5-headers-first",
            "long",
            long,
            None,
            "A long dimension needs v5-flagged-dims.",
        ),
    ):
        yield recipe.refused(
            f"{layout}-{id_}",
            with_tensor(tensor, layout),
            "HDR-006",
            f"Layout {layout} is asked for. {why}",
            layout=layout,
            key=key,
        )
    yield recipe.refused(
        "v3-without-key",
        plain("v3"),
        "HDR-006 CRY-006",
        "Layout v3 is asked for, which is always encrypted, and there is no key.",
        layout="v3",
    )
    yield recipe.refused(
        "v6",
        plain("v6"),
        "HDR-003 HDR-006",
        "A layout from the future is asked for.",
    )
