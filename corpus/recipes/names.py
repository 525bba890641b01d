"""Cases of names: their encoding, structured names, and the tree that the names of a file form."""

from collections.abc import Iterator

import builder
from builder import File, Path, Tensor
from case import Case
from recipe import Recipe

SEED = 400


def cases() -> Iterator[Case]:
    recipe = Recipe("names", SEED)
    yield from plain_names(recipe)
    yield from structured_names(recipe)
    yield from trees(recipe)


def of_paths(*paths: Path) -> File:
    return File.of([Tensor(path) for path in paths], seed=SEED)


def of_name(
    name: bytes, path: Path | None = None, kind: int = builder.STATE_DICT
) -> File:
    """One tensor with this name on the wire; the path it stands for matters only if the file decodes."""
    return File.of([Tensor(path or ["?"], kind=kind, name=name)], seed=SEED)


def plain_names(recipe: Recipe) -> Iterator[Case]:
    for id_, name, why in (
        ("letters", "Überläufe", "Two-byte characters."),
        ("cjk", "层.权重", "Three-byte characters."),
        ("emoji", "\U0001f600", "A four-byte character."),
        ("last-code-point", "\U0010ffff", "The last code point of Unicode."),
        ("nul", "a\0b", "A NUL byte inside a name ends nothing."),
        ("newline", "a\nb", "A newline is wrong in structured names only."),
        ("quote", 'a"b\\', "Quote and backslash need no escape in a plain name."),
        ("dots", "..a..", "Dots have no meaning."),
        (
            "brackets",
            '["a",0]',
            "Without the byte 1E in front this is no structured name.",
        ),
        (
            "separator-inside",
            "a\x1eb",
            "The byte 1E has a meaning only at the beginning.",
        ),
        ("space", " ", "One space is a name."),
        ("long", "n" * 300, "A name of 300 bytes has a length of two bytes."),
    ):
        yield recipe.valid(f"name-{id_}", of_paths([name]), "NAM-001", why)
    yield recipe.open(
        "name-none",
        of_paths([""]),
        "NAM-009",
        "The name is empty.",
        "empty-name",
    )
    for id_, name, why in (
        ("lone-continuation", b"a\x80", "A continuation byte continues nothing."),
        ("cut", b"a\xe5\xb1", "A character of three bytes ends after two."),
        (
            "overlong",
            b"\xc0\xaf",
            "A character is spelled with more bytes than it needs.",
        ),
        ("surrogate", b"\xed\xa0\x80", "Half of a surrogate pair is no character."),
        (
            "beyond-unicode",
            b"\xf4\x90\x80\x80",
            "The code point lies behind the last one.",
        ),
        ("latin-1", b"\xfcber", "The name is Latin-1."),
        (
            "at-300",
            b"a" * 300 + b"\xffbcd",
            "A byte that begins no character follows 300 that are letters.",
        ),
        (
            "after-words",
            b"a" * 16 + b"\xffbc",
            "The three bytes after two words of eight begin with one that begins no character.",
        ),
    ):
        yield recipe.refused(f"name-utf8-{id_}", of_name(name), "NAM-001", why)


def structured_names(recipe: Recipe) -> Iterator[Case]:
    for id_, path, why in (
        ("nested", ["layers", 0, "weight"], "A path through a dictionary and a list."),
        ("integer", [0], "A path of one integer, as of a list at the top."),
        ("large-integer", ["a", (1 << 32) - 1], "A list position of 32 bits."),
        (
            "position-2-31",
            ["a", 1 << 31],
            "A list position of 32 bits, without a sign.",
        ),
        ("position-2-32", ["a", 1 << 32], "A list position of 33 bits."),
        (
            "position-2-53-plus-1",
            ["a", (1 << 53) + 1],
            "A list position that no double can hold.",
        ),
        (
            "position-2-63",
            ["a", 1 << 63],
            "A list position of 64 bits, without a sign.",
        ),
        ("position-2-64-less-1", ["a", (1 << 64) - 1], "The largest list position."),
        ("empty-string", ["a", ""], "An empty string is a key like any other."),
        (
            "escapes",
            ['a\n"\\\0', "ü\U0001f600"],
            "What JSON has to escape, and a surrogate pair.",
        ),
        ("deep", ["k", *([0] * 63)], "A path of 64 elements."),
        ("digits", ["0", "1"], "Strings of digits are not integers."),
    ):
        yield recipe.valid(
            f"structured-{id_}", of_paths(path), "NAM-002 NAM-003 NAM-004 NAM-005", why
        )
    for id_, name, path in (
        ("spaces", b'\x1e[ "a" ,\t0 ]', ["a", 0]),
        ("utf8", '\x1e["ä",0]'.encode(), ["ä", 0]),
        ("escaped-ascii", b"\x1e" + rb'["\u0061",0]', ["a", 0]),
        ("one-string", b'\x1e["a"]', ["a"]),
        (
            "other-escapes",
            b"\x1e" + rb'["\/\b\f\r\t\u00AB\u00ab",0]',
            ["/\b\f\r\t\xab\xab", 0],
        ),
    ):
        yield recipe.valid(
            f"structured-spelling-{id_}",
            of_name(name, path),
            "NAM-002 NAM-010",
            "A structured name that writers spell otherwise, which readers do not check.",
        )
    yield recipe.open(
        "structured-spelling-zero-after-minus",
        of_name(b'\x1e["a",-0]', ["a", 0]),
        "NAM-002",
        "A list position is -0, which some JSON parsers return as 0.",
        "minus-zero",
    )
    for id_, name, why in (
        ("bare", b"\x1e", "Nothing follows the byte 1E."),
        ("text", b"\x1eabc", "What follows the byte 1E is not JSON."),
        ("object", b'\x1e{"a":1}', "An object is not an array."),
        ("string", b'\x1e"a"', "A string is not an array."),
        ("unterminated", b'\x1e["a",0', "The array does not end."),
        ("two-arrays", b'\x1e["a"]["b"]', "Two arrays."),
        ("bracket-behind", b'\x1e["a","b"]]', "A second bracket closes nothing."),
        ("brace-behind", b'\x1e["a","b"]}', "A brace behind the array closes nothing."),
        ("trailing-comma", b'\x1e["a",0,]', "A comma before the end is not JSON."),
        ("single-quotes", b"\x1e['a',0]", "Single quotes are not JSON."),
        ("leading-zero", b'\x1e["a",01]', "A number does not begin with a zero."),
        ("plus", b'\x1e["a",+1]', "A number has no plus sign."),
        ("negative", b'\x1e["a",-1]', "There is no list position before 0."),
        ("float", b'\x1e["a",1.5]', "A float is not an element."),
        (
            "whole-float",
            b'\x1e["a",1.0]',
            "A float is not an element, not even a whole one.",
        ),
        ("exponent", b'\x1e["a",1e2]', "A number with an exponent is a float."),
        ("nan", b'\x1e["a",NaN]', "NaN is not JSON."),
        ("true", b'\x1e["a",true]', "A boolean is not an element."),
        ("null", b'\x1e["a",null]', "null is not an element."),
        ("array-inside", b'\x1e["a",["b"]]', "An array is not an element."),
        ("object-inside", b'\x1e["a",{}]', "An object is not an element."),
        ("control", b'\x1e["a\x01",0]', "JSON escapes control characters."),
        ("digit-minus-zero", b'\x1e["a",1-0]', "A number is no expression."),
        ("nul-behind", b'\x1e["a",0]\0', "A NUL byte follows the array."),
        (
            "no-break-space-behind",
            '\x1e["a",0]\xa0'.encode(),
            "A no-break space follows the array, which is no white space of JSON.",
        ),
        (
            "arabic-digit",
            '\x1e["a",\u0663]'.encode(),
            "A list position is in digits of another script.",
        ),
        ("underscore", b'\x1e["a",1_0]', "A number has no underscores."),
        (
            "escape-0x",
            b"\x1e" + rb'["a\u0x41",0]',
            "The four digits of an escape are 0x41, which some parsers of numbers take.",
        ),
        (
            "deep-arrays",
            b"\x1e" + b"[" * 300,
            "Arrays nested 300 deep: no reader needs a stack for them.",
        ),
    ):
        yield recipe.refused(f"structured-{id_}", of_name(name), "NAM-002", why)
    yield recipe.refused(
        "structured-utf8-broken",
        of_name(b'\x1e["\xff",0]'),
        "NAM-001 NAM-002",
        "A string of the array is not UTF-8.",
    )
    yield recipe.refused(
        "structured-no-element", of_name(b"\x1e[]"), "NAM-003", "The path is empty."
    )
    for id_, byte in {"lf": b"\n", "cr": b"\r"}.items():
        yield recipe.refused(
            f"structured-newline-{id_}",
            of_name(b'\x1e["a",' + byte + b"0]"),
            "NAM-004",
            f"Between two elements is the byte {byte.hex()}, which JSON would allow.",
        )
    for kind in (builder.PARAMETER, builder.BUFFER):
        yield recipe.refused(
            f"structured-on-{builder.KINDS[kind]}",
            of_name(b'\x1e["a",0]', kind=kind),
            "NAM-005",
            f"A tensor of kind {kind} has a structured name.",
        )
    for id_, number in {
        "2-64": str(1 << 64),
        # Modulo 2^64 it is above a tenth of it, so that no step of the parser seems to wrap.
        "3e19": str(3 * 10**19),
        "300-digits": "9" * 300,
    }.items():
        yield recipe.refused(
            f"structured-number-{id_}",
            of_name(b'\x1e["a",' + number.encode() + b"]"),
            "NAM-002",
            f"A list position of {len(number)} digits does not fit in 64 bits.",
        )
    for id_, text, why in (
        ("", rb"\ud800", "A string of the array is half of a surrogate pair."),
        ("-low", rb"a\udc00", "A string has the second half of a surrogate pair only."),
        (
            "-then-letter",
            rb"a\ud800b",
            "The first half of a surrogate pair is followed by a letter.",
        ),
    ):
        yield recipe.refused(
            f"structured-lone-surrogate{id_}",
            of_name(b'\x1e["a","' + text + b'"]'),
            "NAM-002 NAM-001",
            why,
        )


def trees(recipe: Recipe) -> Iterator[Case]:
    for id_, paths, why in (
        (
            "tree",
            [["a", 0], ["a", 1], ["b", "x"]],
            "Lists and dictionaries side by side.",
        ),
        (
            "tree-text-prefix",
            [["a"], ["ab"], ["a.b"]],
            "A name that begins another is not its parent.",
        ),
        (
            "tree-dots",
            [["a", "b"], ["a.b"]],
            "A dot inside a name is no step of a path.",
        ),
        (
            "tree-slashes",
            [["a", "b"], ["a/b"], ["c", "d", "e"], ["c/d"]],
            "A slash inside a name is no step of a path.",
        ),
        (
            "tree-digits",
            [["a", "0"], ["a", "x"]],
            "Siblings that are strings, one of them of digits.",
        ),
        (
            "tree-normal-forms",
            [["\u00e9"], ["e\u0301"]],
            "Unicode forms of one letter are two names.",
        ),
        ("tree-case", [["a"], ["A"]], "Capital letters make another name."),
    ):
        yield recipe.valid(id_, of_paths(*paths), "NAM-006 NAM-007 NAM-008", why)
    yield recipe.valid(
        "tree-sparse",
        of_paths(["a", 5], ["a", 7]),
        "NAM-002 NAM-008",
        "The list positions of siblings are 5 and 7: a list may have holes.",
    )
    yield recipe.refused(
        "tree-duplicate",
        of_paths(["a"], ["b"], ["a"]),
        "NAM-006",
        "Two tensors have the name a.",
    )
    for id_, spelling in {"escaped": rb'["\u0061",0]', "spaced": b'["a", 0]'}.items():
        yield recipe.refused(
            f"tree-duplicate-{id_}",
            File.of(
                [Tensor(["a", 0]), Tensor(["a", 0], name=b"\x1e" + spelling)], seed=SEED
            ),
            "NAM-006",
            "Two tensors have one path, spelled in two ways.",
        )
    yield recipe.refused(
        "tree-duplicate-plain-and-structured",
        File.of([Tensor(["a"]), Tensor(["a"], name=b'\x1e["a"]')], seed=SEED),
        "NAM-006",
        "A plain name and a structured name of one string are one path.",
    )
    for id_, paths in {
        "plain": [["a"], ["a", "b"]],
        "deep": [["a", 0, "b"], ["a", 0, "b", 1]],
        "later": [["a", "b"], ["c"], ["a"]],
        # Sorted as text, something lies between the two: in ASCII the hyphen is before dot and slash.
        "not-beside": [["a", "x"], ["a", "x", "b"], ["a", "x-"]],
    }.items():
        yield recipe.refused(
            f"tree-prefix-{id_}",
            of_paths(*paths),
            "NAM-007",
            "A path of one tensor begins the path of another.",
        )
    for id_, paths in {
        "top": [[0], ["a"]],
        "deep": [["a", 0], ["b"], ["a", "x"]],
    }.items():
        yield recipe.refused(
            f"tree-mixed-{id_}",
            of_paths(*paths),
            "NAM-008",
            "Siblings are a string and an integer.",
        )
