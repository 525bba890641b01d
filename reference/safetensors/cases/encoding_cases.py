"""The cases of the header's text: UTF-8, other encodings, what comes before the brace and after the object."""

from collections.abc import Iterator

from builders import ONE, ONE_ENTRY, bad, elsewhere, extra, lenient, valid
from case import Case, header_of

# Sequences that UTF-8 does not have.
NOT_UTF8 = {
    "lone-byte": ("a byte that UTF-8 does not have", b"\xff"),
    "surrogate": ("a surrogate in UTF-8", b"\xed\xa0\x80"),
    "surrogate-pair": (
        "a surrogate pair as two characters",
        b"\xed\xa0\xbd\xed\xb8\x80",
    ),
    "overlong": ("an overlong form of UTF-8", b"\xc0\xaf"),
    "overlong-nul": ("NUL in two bytes", b"\xc0\x80"),
    "overlong-three": ("an overlong form of three bytes", b"\xe0\x80\xaf"),
    "overlong-four": ("an overlong form of four bytes", b"\xf0\x80\x80\xaf"),
    "continuation": ("a continuation byte alone", b"\x80"),
    "two-of-three": ("two bytes of a character of three", b"\xe2\x82"),
    "beyond-unicode": ("a character after U+10FFFF", b"\xf4\x90\x80\x80"),
    "five-bytes": ("a form of five bytes", b"\xf8\x88\x80\x80\x80"),
    "latin-1": ("ISO 8859-1", "ö".encode("latin-1")),
}

# Each encoding of the text, its byte order mark, and how a reader of UTF-8 sees them: the rule and its offset.
OTHER_ENCODINGS = {
    "utf-16-le": (b"\xff\xfe", ("ST-006", 1), ("ST-004", 0)),
    "utf-16-be": (b"\xfe\xff", ("ST-005", 0), ("ST-004", 0)),
    "utf-32-le": (b"\xff\xfe\0\0", ("ST-006", 1), ("ST-004", 0)),
    "utf-32-be": (b"\0\0\xfe\xff", ("ST-005", 0), ("ST-004", 2)),
}

# What is white space elsewhere, but not in JSON.
NO_WHITE_SPACE = {
    "form-feed": ("\f", "a form feed"),
    "vertical-tab": ("\v", "a vertical tab"),
    "next-line": ("\u0085", "a next line (U+0085)"),
    "no-break-space": ("\u00a0", "a no-break space"),
    "line-separator": ("\u2028", "a line separator"),
    "byte-order-mark": ("\ufeff", "a byte order mark"),
    "nul": ("\0", "a NUL byte"),
    "em-space": ("\u2003", "an em space"),
    "ideographic-space": ("\u3000", "an ideographic space"),
    "backspace": ("\b", "a backspace"),
    "unit-separator": ("\x1f", "a unit separator"),
    "delete": ("\x7f", "a DEL"),
}


def cases() -> Iterator[Case]:
    yield from utf8_cases()
    yield from other_encodings()
    yield from beginnings()
    yield from endings()


def utf8_cases() -> Iterator[Case]:
    error = "InvalidHeader"
    for id, (why, sequence) in NOT_UTF8.items():
        header = b'{"' + sequence + b'":1}'
        yield bad(f"utf8-{id}", why, header, "ST-004", 2, error)
    yield bad(
        "utf8-cut",
        "a header that ends in the middle of a character",
        b"{}\xe2\x82",
        "ST-004",
        2,
        error,
    )
    # Nothing else is wrong with these: a reader that does not look for it accepts them.
    header = ('{"\udcff":{' + ONE_ENTRY.split("{", 1)[1] + "}").encode(
        errors="surrogateescape"
    )
    yield bad(
        "utf8-in-name",
        "the name of a tensor that is not UTF-8",
        header,
        "ST-004",
        2,
        error,
    )
    header = extra('"\udcff"').encode(errors="surrogateescape")
    at = header.index(b"\xff")
    why = "a string that is ignored, and not UTF-8"
    yield bad("utf8-in-ignored", why, header, "ST-004", at, error)
    header = b'{"__metadata__":{"a":"\xff"}}'
    at = header.index(b"\xff")
    why = "a value of the metadata that is not UTF-8"
    yield bad("utf8-in-metadata", why, header, "ST-004", at, error, data=0)


def other_encodings() -> Iterator[Case]:
    """Parsers of JSON that guess the encoding read these."""
    for encoding, (mark, plain, marked) in OTHER_ENCODINGS.items():
        text = header_of(ONE).encode(encoding)
        name = encoding.upper()
        for id, header, (rule, at) in (
            (encoding, text, plain),
            (f"{encoding}-with-mark", mark + text, marked),
        ):
            error = (
                "InvalidHeader" if rule == "ST-004" else "InvalidHeaderDeserialization"
            )
            yield bad(f"header-{id}", f"a header in {name}", header, rule, at, error)


def beginnings() -> Iterator[Case]:
    for id, why, header in (
        ("none", "a header of 0 bytes", ""),
        ("array", "a header that is an array", "[]"),
        ("null", "a header that is null", "null"),
        ("string", "a header that is a string", '"{}"'),
        ("number", "a header that is a number", "1"),
        ("text", "a header of text", "safetensors"),
        ("comma", "a comma before the brace", ",{}"),
    ):
        yield bad(f"header-{id}", why, header, "ST-005", 0, data=0)
    blank = bad("header-blank", "a header of spaces alone", "   ", "ST-005", 0, data=0)
    yield elsewhere(blank, 3, "ST-005")
    for name, (character, what) in NO_WHITE_SPACE.items():
        # This is an older case.
        id = name if name == "byte-order-mark" else f"{name}-before"
        why = f"{what} before the brace"
        yield bad(id, why, character + "{}", "ST-005", 0, data=0)
    one = header_of(ONE)
    for id, why, space in (
        ("space-before", "a space before the brace", " "),
        ("lines-before", "white space before the brace", "\n\t\r "),
        ("tab-before", "a tab before the brace", "\t"),
    ):
        yield lenient(id, why, space + one, "ST-005", 0, ONE)


def endings() -> Iterator[Case]:
    one = header_of(ONE)
    for id, why, space in (
        ("line-behind", "a header that is padded with a newline", "\n"),
        ("tabs-behind", "a header that is padded with a tab", " \t\r\n "),
        ("return-behind", "a header that is padded with a carriage return", "\r"),
    ):
        at = len(one + space) - len(space.lstrip(" "))
        yield lenient(id, why, one + space, "ST-007", at, ONE)
    for name, (character, what) in NO_WHITE_SPACE.items():
        id = "padded-with-nul" if name == "nul" else f"{name}-behind"
        why = f"{what} after the object"
        yield bad(id, why, one + character * 2, "ST-007", len(one))
    for id, why, text in (
        ("two-objects", "another object after the first", "{}"),
        ("text-behind", "text after the object", " x"),
        ("brace-behind", "a closing brace too many", "}"),
        ("comma-behind", "a comma after the object", ","),
        ("comment-behind", "a comment after the object", "//"),
        ("ones-behind", "a header that is padded with bytes of 0x7f", "\x7f\x7f"),
    ):
        at = 2 + len(text) - len(text.lstrip(" "))
        yield bad(id, why, "{}" + text, "ST-007", at, data=0)
    yield valid(
        "padded",
        "a header that is padded to a multiple of 8",
        ONE,
        rules="ST-007",
        header=one + " " * 5,
    )
