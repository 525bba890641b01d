"""The cases of nesting: 127 levels are JSON for this format, 128 are not, and fifty thousand overflow no stack."""

from collections.abc import Iterator

from builders import EXTRA_AT, ONE, SHAPE_AT, bad, entry, extra, valid
from case import Case

# The levels that a value in an unknown field of a tensor has around it.
AROUND = 2
LEVELS_MAX = 127

# What opens a level, and what closes it.
KINDS = {
    "": ("[", "]"),
    "objects-": ('{"x":', "}"),
    "lists-with-more-": ('[0,"",', ",1]"),
}


def cases() -> Iterator[Case]:
    for kind, (opening, closing) in KINDS.items():
        # The innermost level is empty, or has a number.
        inner = "" if opening == "[" else "0"
        what = kind.replace("-", " ").strip() or "arrays"
        for levels in (LEVELS_MAX, LEVELS_MAX + 1):
            count = levels - AROUND
            header = extra(opening * count + inner + closing * count)
            id = f"nesting-{kind}{levels}"
            if levels == LEVELS_MAX:
                yield valid(
                    id, f"{what} nested as deep as is allowed", ONE, header=header
                )
                continue
            at = EXTRA_AT + len(opening) * (count - 1)
            yield bad(id, f"{what} nested one level too deep", header, "ST-006", at)
    yield from mixed()
    yield from without_end()
    yield from in_fields()


def mixed() -> Iterator[Case]:
    """Objects and arrays in turn."""
    pairs = (LEVELS_MAX - AROUND) // 2
    opening, closing = '{"x":[' * pairs, "]}" * pairs
    header = extra(opening + "[]" + closing)
    why = "objects and arrays in turn, nested as deep as is allowed"
    yield valid("nesting-mixed-127", why, ONE, header=header)
    header = extra(opening + "[[]]" + closing)
    why = "objects and arrays in turn, nested one level too deep"
    at = EXTRA_AT + len(opening) + 1
    yield bad("nesting-mixed-128", why, header, "ST-006", at)
    many = "[" + ",".join(["[[]]"] * 1000) + "]"
    why = "a thousand arrays next to each other, which nest three deep"
    yield valid("nesting-next-to-each-other", why, ONE, header=extra(many))


def without_end() -> Iterator[Case]:
    for kind, opening, count in (("arrays", "[", 50_000), ("objects", '{"":', 10_000)):
        header = extra(opening * count)
        at = EXTRA_AT + len(opening) * (LEVELS_MAX - AROUND)
        why = f"{count:,} {kind} that nothing closes"
        yield bad(f"nesting-{kind}-without-end", why, header, "ST-006", at)
    why = "a thousand arrays where the header should be"
    yield bad("nesting-for-header", why, "[" * 1000, "ST-005", 0)


def in_fields() -> Iterator[Case]:
    """Values of the wrong type that nest: a reader that goes by their first byte needs no limit."""
    deep = "[" * 130 + "]" * 130
    # Whether the type or the depth is seen first is left open.
    yield bad(
        "nesting-in-shape", "a shape that nests", entry(shape=deep), "ST-006", None
    )
    header = entry(offsets=deep)
    yield bad("nesting-in-offsets", "data_offsets that nest", header, "ST-006", None)
    header = entry(dtype=deep)
    yield bad("nesting-in-dtype", "a dtype that nests", header, "ST-006", None)
    header = f'{{"a":{deep}}}'
    yield bad("nesting-in-entry", "a tensor that nests", header, "ST-006", None)
    header, at = f'{{"__metadata__":{deep}}}', len('{"__metadata__":')
    why = "metadata that nests"
    yield bad("nesting-in-metadata", why, header, "ST-009", at, data=0)
    for levels in (LEVELS_MAX, LEVELS_MAX + 1):
        count = levels - AROUND
        header = f'{{"__metadata__":{{"k":{"[" * count}{"]" * count}}}}}'
        at = len('{"__metadata__":{"k":')
        id = f"nesting-in-metadata-value-{levels}"
        why = f"a value of the metadata that nests to level {levels}"
        yield bad(id, why, header, "ST-009", at, data=0)
    yield bad(
        "nesting-in-shape-127",
        "a shape that nests as deep as JSON may",
        entry(shape="[" * 125 + "]" * 125),
        "ST-006",
        SHAPE_AT + 1,
    )
