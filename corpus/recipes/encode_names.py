"""Encode cases of names: plain ones, structured ones and their spelling, and the tree that the names form."""

from collections.abc import Iterator
from typing import Any

from encode_case import EncodeCase, EncodeRecipe
from specification import Specification, Tensor

NAME_BYTES_MAX = 65_535


def cases() -> Iterator[EncodeCase]:
    recipe = EncodeRecipe("encode_names")
    yield from plain_names(recipe)
    yield from structured_names(recipe)
    yield from trees(recipe)
    yield from wrong_names(recipe)
    yield from wrong_trees(recipe)


def of_paths(*paths: list[Any]) -> Specification:
    return Specification([Tensor(path) for path in paths])


def plain_names(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    for id_, name, why in (
        ("unicode", "größe.层.\U0001f600", "Characters of one to four bytes."),
        ("dots", "..a..", "Dots mean nothing, at the ends neither."),
        ("nul", "a\0b", "A NUL byte ends nothing."),
        ("newline", "a\nb", "A newline needs no escape in a plain name."),
        ("quote", 'a"b\\', "Quote and backslash need no escape in a plain name."),
        ("brackets", '["a",0]', "A name that looks like an array is one string."),
        ("separator-inside", "a\x1eb", "The byte 1E means something in front only."),
        (
            "markup",
            "<&>'\u2028\u2029",
            "What writers of JSON escape for HTML and JavaScript needs no escape in a plain name.",
        ),
    ):
        yield recipe.written(
            f"name-{id_}", of_paths([name]), "NAM-001 NAM-009 NAM-010", why
        )
    yield recipe.written(
        "name-longest",
        of_paths(["n" * NAME_BYTES_MAX]),
        "IDX-002 REC-006",
        "A name of 65,535 bytes, the longest that there is room for.",
    )


def structured_names(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    for id_, path, why in (
        ("nested", ["layers", 0, "weight"], "A path through a dictionary and a list."),
        ("integer", [0], "A path of one integer is structured."),
        ("empty-string", ["a", ""], "An empty string is a key like any other."),
        ("deep", ["k", *([0] * 63)], "A path of 64 elements."),
        (
            "escapes",
            ['"\\/\b\f\n\r\t\0\x1f\x7f', 0],
            "Everything that compact ASCII spells with an escape, and a slash, which it doesn't.",
        ),
        (
            "markup",
            ["<a href='x?y=1&z'>`+", "</script>", 0],
            "What writers of JSON escape for HTML is printable ASCII, and so not escaped.",
        ),
        (
            "separators",
            ["\u2028\u2029\ufeff\ufffd", 0],
            "Line separators, a byte order mark and a replacement character become escapes like all others.",
        ),
        (
            "controls",
            ["".join(map(chr, range(0x20))), "~\x7f\x80\x9f", 0],
            "Of the control characters five have a short escape, and 7F is one of the others.",
        ),
        (
            "unicode",
            ["ü", "层", "\U0001f600"],
            "Characters beyond ASCII become escapes, the last a surrogate pair.",
        ),
        (
            "separator-in-string",
            ["a", "\x1e[1]"],
            "A string inside a path may begin with the byte 1E.",
        ),
    ):
        yield recipe.written(
            f"structured-{id_}", of_paths(path), "NAM-010 NAM-002 NAM-005", why
        )

    yield recipe.written(
        "structured-integer-largest",
        of_paths(["a", (1 << 64) - 1]),
        "NAM-002 NAM-010",
        "The largest list position that a path can hold.",
        tier="SHOULD",
    )


def trees(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    for id_, paths, why in (
        (
            "nested",
            [["a", 0], ["a", 1, "w"], ["b", "x"], ["c"]],
            "Lists, dictionaries and a plain name side by side.",
        ),
        (
            "text-prefix",
            [["a"], ["ab"], ["a.b"]],
            "A name that begins another is not its parent.",
        ),
        ("dots", [["a", "b"], ["a.b"]], "A dot inside a name is no step of a path."),
        (
            "slashes",
            [["a", "b"], ["a/b"], ["c", "d", "e"], ["c/d"]],
            "A slash inside a name is no step of a path.",
        ),
        (
            "normal-forms",
            [["\u00e9"], ["e\u0301"]],
            "Unicode forms of one letter are two names.",
        ),
    ):
        yield recipe.written(
            f"tree-{id_}", of_paths(*paths), "NAM-006 NAM-007 NAM-008", why
        )


def wrong_names(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    yield recipe.refused(
        "name-empty", of_paths([""]), "NAM-009", "Writers write no empty names."
    )
    for id_, name, why in (
        (
            "json",
            "\x1e[1]",
            "Stored as it is, the name would come back as the path of the integer 1.",
        ),
        (
            "text",
            "\x1eabc",
            "Stored as it is, the name would make the file unreadable.",
        ),
    ):
        yield recipe.refused(
            f"name-separator-{id_}", of_paths([name]), "NAM-009 NAM-002", why
        )
    yield recipe.refused(
        "name-too-long",
        of_paths(["n" * (NAME_BYTES_MAX + 1)]),
        "IDX-002 REC-003",
        "The length of the name does not fit in its two bytes.",
    )
    for id_, path, why in (
        (
            "structured",
            ["u" * NAME_BYTES_MAX, 0],
            "The string alone fits in a name, and not with what makes it a path.",
        ),
        (
            "escaped",
            ["\u00fc" * 11_000, 0],
            "Each letter takes two bytes as UTF-8, and six as an escape.",
        ),
    ):
        yield recipe.refused(
            f"name-too-long-{id_}", of_paths(path), "IDX-002 REC-003 NAM-010", why
        )
    yield recipe.refused(
        "path-empty",
        of_paths([]),
        "NAM-003 NAM-009",
        "A path has at least one element.",
    )
    for id_, element in {
        "negative": -1,
        "true": True,
        "float": 1.5,
    }.items():
        yield recipe.refused(
            f"path-{id_}",
            of_paths(["a", element]),
            "NAM-002",
            "Elements of a path are strings and non-negative integers.",
        )
    for kind in ("parameter", "buffer"):
        yield recipe.refused(
            f"structured-{kind}",
            Specification([Tensor(["a", 0], kind=kind)]),
            "NAM-005",
            f"A {kind} has a plain name.",
        )


def wrong_trees(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    for id_, paths, rule, why in (
        ("duplicate", [["a"], ["b"], ["a"]], "NAM-006", "Two tensors have the name a."),
        (
            "duplicate-structured",
            [["a", 0], ["a", 0]],
            "NAM-006",
            "Two tensors have one path.",
        ),
        ("prefix", [["a"], ["a", "b"]], "NAM-007", "One path begins the other."),
        (
            "prefix-later",
            [["a", 0, "b"], ["c"], ["a", 0]],
            "NAM-007",
            "A later path begins an earlier one.",
        ),
        (
            "prefix-not-beside",
            [["a", "x"], ["a", "x", "b"], ["a", "x-"]],
            "NAM-007",
            "One path begins another, and a third lies between them if paths are sorted as text.",
        ),
        (
            "mixed",
            [["a", 0], ["b"], ["a", "x"]],
            "NAM-008",
            "Siblings are an integer and a string.",
        ),
        (
            "mixed-top",
            [[0], ["a"]],
            "NAM-008",
            "At the top are an integer and a string.",
        ),
    ):
        yield recipe.refused(f"tree-{id_}", of_paths(*paths), rule, why)
