"""The cases of JSON's syntax: white space, strings, escapes and punctuation, on both sides of what RFC 8259 allows."""

from collections.abc import Iterator

from builders import ONE, ONE_ENTRY, bad, extra, valid
from case import Case, Tensor
from encoding_cases import NO_WHITE_SPACE

TOKENS = [
    "{",
    '"a"',
    ":",
    "{",
    '"dtype"',
    ":",
    '"U8"',
    ",",
    '"shape"',
    ":",
    "[",
    "1",
    "]",
] + [",", '"data_offsets"', ":", "[", "0", ",", "1", "]", "}", "}"]
WHITE_SPACE = {
    "space": " ",
    "tab": "\t",
    "newline": "\n",
    "return": "\r",
    "lines": "\r\n",
    "all": " \t\n\r",
}

# Where a character between two tokens can be, by the number of tokens before it.
PLACES = {
    "before-key": (1, "before a key"),
    "before-colon": (2, "before a colon"),
    "in-list": (11, "in a list"),
    "before-end": (22, "before the last brace"),
}

# Spellings of names, and what they mean.
ESCAPES = {
    "quote": (r"\"", '"'),
    "backslash": (r"\\", "\\"),
    "slash": (r"\/", "/"),
    "backspace": (r"\b", "\b"),
    "form-feed": (r"\f", "\f"),
    "newline": (r"\n", "\n"),
    "return": (r"\r", "\r"),
    "tab": (r"\t", "\t"),
    "nul": (r"a\u0000b", "a\0b"),
    "lower-hex": (r"\u00e4\u20ac", "ä€"),
    "upper-hex": (r"\u00E4\u20AC", "ä€"),
    "pair": (r"\ud83d\ude00", "😀"),
    "upper-pair": (r"\uD83D\uDE00", "😀"),
    "last-character": (r"\udbff\udfff", "\U0010ffff"),
    "before-surrogates": (r"\ud7ff\ue000", "\ud7ff\ue000"),
    "noncharacter": (r"\uffff\ufffe", "\uffff\ufffe"),
    "twice": (r"\\u0061", r"\u0061"),
}

# Characters that JSON leaves as they are, although other formats escape them.
RAW = {
    "delete": "\x7f",
    "c1-control": "\x80\x9f",
    "line-separators": "\u2028\u2029",
    "byte-order-mark": "\ufeff",
    "noncharacters": "\ufffe\uffff",
    "last-character": "\U0010ffff",
    "single-quote": "'",
}

# What is no string of JSON.
STRINGS = {
    "escape-unknown": (r'"\x41"', "an escape that JSON lacks"),
    "escape-single-quote": (r'"\'"', "an escaped single quote"),
    "escape-bell": (r'"\a"', r"the escape \a, which JSON lacks"),
    "escape-vertical-tab": (r'"\v"', r"the escape \v, which JSON lacks"),
    "escape-octal": (r'"\0"', r"the escape \0, which JSON lacks"),
    "escape-long": (r'"\U0001f600"', "an escape of eight digits"),
    "escape-braces": (r'"\u{61}"', "an escape with braces"),
    "escape-short": (r'"\u12"', "an escape of two digits"),
    "escape-no-hex": (r'"\u00g0"', "an escape with a letter that is no digit"),
    "escape-sign": (r'"\u+061"', "an escape with a sign"),
    "escape-line": ('"\\\n"', "an escaped end of the line"),
    "escape-lone-surrogate": (
        r'"\ud800"',
        "an escape of the first half of a surrogate pair",
    ),
    "escape-low-surrogate": (
        r'"\udc00"',
        "an escape of the second half of a surrogate pair",
    ),
    "escape-two-high": (r'"\ud800\ud800"', "two first halves of surrogate pairs"),
    "escape-reversed-pair": (r'"\ude00\ud83d"', "a surrogate pair in the wrong order"),
    "escape-half-pair": (r'"\ud83d\u0041"', "half a surrogate pair before a letter"),
    "escape-raw-pair": (r'"\ud83dA"', "half a surrogate pair before a raw letter"),
    "control-character": ('"\1"', "a control character in a string"),
    "nul-in-string": ('"\0"', "a NUL byte in a string"),
    "newline-in-string": ('"\n"', "a newline in a string"),
    "tab-in-string": ('"\t"', "a tab in a string"),
    "last-control": ('"\x1f"', "the last control character in a string"),
    "single-quotes": ("'b'", "a string in single quotes"),
    "back-quotes": ("`b`", "a string in back quotes"),
    "string-without-end": ('"', "a string without its end"),
}

IN_ENTRY = '"shape":[1],"data_offsets":[0,1]'

# Whole headers with punctuation that JSON lacks.
PUNCTUATION = {
    "cut-off": ('{"a":', "a text that ends in the middle"),
    "brace-alone": ("{", "a brace without its end"),
    "brace-missing": ("{" + ONE_ENTRY, "the last brace is missing"),
    "bracket-missing": (
        '{"a":{"dtype":"U8","shape":[1,"data_offsets":[0,1]}}',
        "a bracket is missing",
    ),
    "bracket-for-brace": ("{" + ONE_ENTRY + "]", "a bracket in place of a brace"),
    "comma-at-end": ('{"__metadata__":{},}', "a comma too many"),
    "comma-first": ("{," + ONE_ENTRY + "}", "a comma before the first key"),
    "comma-alone": ("{,}", "a comma alone"),
    "comma-twice": ("{" + ONE_ENTRY + ',,"b":{}}', "two commas between tensors"),
    "comma-missing": ("{" + ONE_ENTRY + '"b":{}}', "no comma between tensors"),
    "comma-in-entry": (
        '{"a":{"dtype":"U8",' + IN_ENTRY + ",}}",
        "a comma at the end of a tensor",
    ),
    "comma-in-shape": (
        '{"a":{"dtype":"U8","shape":[1,],"data_offsets":[0,1]}}',
        "a comma at the end of a shape",
    ),
    "comma-first-in-shape": (
        '{"a":{"dtype":"U8","shape":[,1],"data_offsets":[0,1]}}',
        "a comma at the beginning of a shape",
    ),
    "comma-in-offsets": (
        '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,]}}',
        "a comma at the end of data_offsets",
    ),
    "comma-twice-in-offsets": (
        '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,,1]}}',
        "two commas in data_offsets",
    ),
    "semicolon-in-offsets": (
        '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0;1]}}',
        "a semicolon in data_offsets",
    ),
    "space-in-offsets": (
        '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0 1]}}',
        "no comma in data_offsets",
    ),
    "parentheses": (
        '{"a":{"dtype":"U8","shape":(1,),"data_offsets":[0,1]}}',
        "a shape as a tuple of Python",
    ),
    "comma-in-metadata": (
        '{"__metadata__":{"a":"b",}}',
        "a comma at the end of the metadata",
    ),
    "comma-in-ignored-list": (extra("[1,]"), "a comma at the end of an ignored list"),
    "comma-in-ignored-object": (
        extra('{"b":1,}'),
        "a comma at the end of an ignored object",
    ),
    "colon-missing": ('{"a" {}}', "no colon after a key"),
    "colon-twice": ('{"a"::{}}', "two colons after a key"),
    "colon-equals": ('{"a"={}}', "an equals sign in place of a colon"),
    "value-missing": ('{"a":}', "no value after a colon"),
    "value-missing-in-entry": (extra(""), "an unknown field without a value"),
    "key-missing": ("{:{}}", "no key before a colon"),
    "key-unquoted": ("{a:{}}", "a key without quotes"),
    "key-single-quotes": ("{'a':{}}", "a key in single quotes"),
    "key-number": ("{1:{}}", "a key that is a number"),
    "key-null": ("{null:{}}", "a key that is null"),
    "key-list": ("{[]:{}}", "a key that is a list"),
    "comment": ("{/**/}", "a comment"),
    "comment-line": ("{//\n}", "a comment to the end of the line"),
    "comment-hash": ("{#\n}", "a comment after a hash sign"),
    "word-true": (extra("True"), "the word True"),
    "word-none": (extra("None"), "the word None"),
    "word-undefined": (extra("undefined"), "the word undefined"),
    "word-cut": (extra("nul"), "a word that is cut off"),
    "word-long": (extra("nullx"), "a word with a letter too many"),
    "word-upper": (extra("NULL"), "a word in capitals"),
}


def cases() -> Iterator[Case]:
    yield from white_space()
    yield from accepted_strings()
    for id, (text, why) in STRINGS.items():
        yield bad(id, why, f"{{{text}:1}}", "ST-006", None)
    for id in ("escape-lone-surrogate", "escape-unknown", "last-control"):
        text, why = STRINGS[id]
        why = f"{why}, in a value that is ignored"
        yield bad(f"{id}-in-ignored", why, extra(text), "ST-006", None)
        header = f'{{"__metadata__":{{"a":{text}}}}}'
        why = f"{STRINGS[id][1]}, in the metadata"
        yield bad(f"{id}-in-metadata", why, header, "ST-006", None, data=0)
    for id, (header, why) in PUNCTUATION.items():
        yield bad(id, why, header, "ST-006", None)


def white_space() -> Iterator[Case]:
    yield valid(
        "white-space-within",
        "white space between the tokens",
        ONE,
        header='{ "a" :\n{\t"dtype":"U8" , "shape": [ 1 ],\r\n"data_offsets":[0, 1 ] } } ',
    )
    for name, space in WHITE_SPACE.items():
        why = f"white space ({name}) between all tokens"
        header = space.join(TOKENS)
        yield valid(f"white-space-{name}", why, ONE, header=header)
    space = "".join(WHITE_SPACE.values())
    yield valid(
        "white-space-of-kilobytes",
        "a thousand characters of white space between two tokens",
        ONE,
        header="{" + space * 100 + ONE_ENTRY + "}",
    )
    yield bad("nul-within", "a NUL byte between tokens", '{"a"\0:1}', "ST-006", None)
    for name, (character, what) in NO_WHITE_SPACE.items():
        for place, (number, where) in PLACES.items():
            if name == "nul" and place != "in-list":
                continue
            before = "".join(TOKENS[:number])
            header = before + character + "".join(TOKENS[number:])
            why = f"{what} {where}"
            yield bad(f"{name}-{place}", why, header, "ST-006", len(before))


def accepted_strings() -> Iterator[Case]:
    yield valid(
        "escaped",
        "escapes where none are needed, in a name, in a field and in a dtype",
        Tensor("aä😀\0/", "U8", (1,), 0, 1),
        header=r'{"\u0061\u00e4\ud83d\ude00\u0000\/":{"d\u0074ype":"\u00558","shape":[1],"data_offsets":[0,1]}}',
    )
    yield valid(
        "escaped-fields",
        "every letter of the fields is escaped",
        ONE,
        header=f'{{"a":{{{escaped("dtype")}:{escaped("U8")},{escaped("shape")}:[1],{escaped("data_offsets")}:[0,1]}}}}',
    )
    for id, (spelling, name) in ESCAPES.items():
        header = "{" + ONE_ENTRY.replace('"a"', f'"{spelling}"') + "}"
        tensor = Tensor(name, "U8", (1,), 0, 1)
        yield valid(f"escaped-{id}", f"the name {spelling}", tensor, header=header)
    for id, name in RAW.items():
        what = id.replace("-", " ")
        tensor = Tensor(name, "U8", (1,), 0, 1)
        header = "{" + ONE_ENTRY.replace('"a"', f'"{name}"') + "}"
        yield valid(f"raw-{id}", f"a {what} in a name, as it is", tensor, header=header)


def escaped(text: str) -> str:
    return '"' + "".join(f"\\u{ord(letter):04x}" for letter in text) + '"'
