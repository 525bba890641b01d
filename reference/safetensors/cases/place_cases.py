"""The cases of what readers get wrong in one place and right in another: faults of JSON, of strings and of numbers, in
each container, string and number of a header. The bugs of conformance/planted_bugs are of this kind.
"""

from __future__ import annotations

from collections.abc import Iterator

from builders import bad, lenient, valid
from case import DTYPES, Case, Tensor

TWO = Tensor("a", "U8", (2,), 0, 2)
# A header with every place; each name in braces stands for what is in it.
HEADER = (
    '{{{root}"__metadata__":{{{metadata}}},'
    '"{name}":{{{tensor}"dtype":{dtype},"shape":[{shape}],"data_offsets":[{offsets}],"{member}":0,"x":{ignored}}}}}'
)
RIGHT = {
    "root": "",
    "metadata": '"k":"v"',
    "name": "a",
    "tensor": "",
    "dtype": '"U8"',
    "shape": "2",
    "offsets": "0,2",
    "member": "m",
    "ignored": "0",
}


def header(**places: str) -> str:
    return HEADER.format(**{**RIGHT, **places})


# Where a string can be, with {} for what is in it.
STRINGS = {
    "name": "a{}",
    "member": "m{}",
    "metadata": '"k{}":"v"',
    "metadata-text": '"k":"v{}"',
    "ignored": '"{}"',
    "ignored-key": '{{"{}":0}}',
}
CONTAINERS = {
    "root": '"b":{{"dtype":"U8","shape":[0],"data_offsets":[2,2]}}{}',
    "tensor": '"y":1{}',
    "metadata": '"k":"v"{}"l":"w"',
    "ignored": '{{"y":1{}"z":2}}',
    "ignored-list": "[1{}2]",
    "shape": "2{}1",
    "offsets": "0{}2",
}
# Between two members or elements, where a comma belongs.
SEPARATORS = {
    "none": ("no comma", " "),
    "two": ("two commas", ",,"),
    "semicolon": ("a semicolon", ";"),
    "colon": ("a colon", ":"),
}
NO_STRINGS = {
    "nul": ("a NUL", "\0"),
    "newline": ("a newline", "\n"),
    "tab": ("a tab", "\t"),
    "unit-separator": ("U+001F", "\x1f"),
    "unknown-escape": ("an unknown escape", "\\a"),
    "short-escape": ("an escape of three digits", "\\u12g"),
    "high-surrogate": ("half of a surrogate pair, the first", "\\ud800"),
    "low-surrogate": ("half of a surrogate pair, the second", "\\udc00"),
}
NOT_UTF8 = {
    "lone-byte": ("a byte that begins no character", b"\xff"),
    "overlong": ("an overlong character", b"\xc0\xaf"),
    "surrogate": ("a surrogate in UTF-8", b"\xed\xa0\x80"),
    "cut": ("a character that is cut", b"\xe2\x82"),
    "beyond": ("a character after U+10FFFF", b"\xf4\x90\x80\x80"),
}
STRINGS_OF_ALL_SORTS = {
    "not-ascii": ("Letters that are not ASCII", "äß"),
    "pair": ("a surrogate pair", "\\ud83d\\ude00"),
    "slash": ("an escaped slash", "\\/"),
    "escaped-nul": ("the escape of NUL", "\\u0000"),
    "delete": ("DEL", "\x7f"),
    "upper-hex": ("an escape in capitals", "\\u00C4"),
    "empty": ("nothing", ""),
}
MARK = "@"


def cases() -> Iterator[Case]:
    yield from separators()
    yield from strings()
    yield from numbers()
    yield from sizes()
    yield from repeats()
    yield from others()


def place_of(place: str) -> str:
    return place.split("-")[0]


def separators() -> Iterator[Case]:
    for place, text in CONTAINERS.items():
        words = place.replace("-", " ")
        for id, (what, separator) in SEPARATORS.items():
            put = text.format(separator)
            yield bad(
                f"separator-{id}-{place}",
                f"Members of the {words} with {what} between them",
                header(**{place_of(place): put}),
                *("ST-006", None),
                data=2,
            )
    yield bad(
        "separator-last-metadata",
        "A comma after the last text of the metadata",
        header(metadata='"k":"v",'),
        *("ST-006", None),
        data=2,
    )
    yield bad(
        "separator-last-root",
        "A comma after the last member of the header",
        header()[:-1] + ",}",
        *("ST-006", None),
        data=2,
    )
    for place, text in (
        ("root", '"b":,'),
        ("metadata", '"k":'),
        ("ignored", '{"y":}'),
        ("tensor", '"y":,'),
    ):
        yield bad(
            f"no-value-{place}",
            f"A key without a value in the {place}",
            header(**{place: text}),
            *("ST-006", None),
            data=2,
        )
    for id, what, text in (
        ("unquoted", "without quotation marks", "y:1,"),
        ("single-quotes", "in single quotes", "'y':1,"),
    ):
        yield bad(
            f"key-{id}-in-tensor",
            f"A key {what}",
            header(tensor=text),
            *("ST-006", None),
            data=2,
        )
    yield bad(
        "single-quotes-ignored",
        "A text in single quotes where it is ignored",
        header(ignored="'z'"),
        *("ST-006", None),
        data=2,
    )
    yield bad(
        "open-at-the-end",
        "The braces of the tensor and of the header are missing",
        header()[:-2],
        *("ST-006", None),
        data=2,
    )
    for id, what, text in (
        ("block", "A comment of C", "/**/"),
        ("line", "A comment of C++", "//\n"),
        ("hash", "A comment of a shell", "#\n"),
    ):
        yield bad(
            f"comment-{id}-in-tensor",
            f"{what} before a key",
            header(tensor=text),
            *("ST-006", None),
            data=2,
        )


def strings() -> Iterator[Case]:
    for place, text in STRINGS.items():
        words = place.replace("-", " ")
        put = {place_of(place): text.format(MARK)}
        around = header(**put).encode()
        at = around.index(MARK.encode())
        for id, (what, wrong) in NO_STRINGS.items():
            yield bad(
                f"string-{id}-{place}",
                f"In the {words}, {what}",
                around.replace(MARK.encode(), wrong.encode()),
                *("ST-006", None),
                data=2,
            )
        for id, (what, bytes_) in NOT_UTF8.items():
            yield bad(
                f"string-{id}-{place}",
                f"In the {words}, {what}",
                around.replace(MARK.encode(), bytes_),
                *("ST-004", at, "InvalidHeader"),
                data=2,
            )
        if place == "name":
            continue
        for id, (what, right) in STRINGS_OF_ALL_SORTS.items():
            metadata = {"k": "v"}
            decoded = MEANINGS[id]
            if place == "metadata":
                metadata = {"k" + decoded: "v"}
            elif place == "metadata-text":
                metadata = {"k": "v" + decoded}
            yield valid(
                f"string-{id}-{place}",
                f"In the {words}, {what}",
                TWO,
                rules="ST-009" if place.startswith("metadata") else "ST-006",
                header=around.decode().replace(MARK, right),
                metadata=metadata,
            )
    yield valid(
        *("string-empty-text", "An empty text in the metadata", TWO),
        rules="ST-009",
        header=header(metadata='"k":""'),
        metadata={"k": ""},
    )
    yield valid(
        *("string-escaped-dtype", "A dtype with an escape", TWO),
        rules="ST-010",
        header=header(dtype='"\\u00558"'),
        metadata={"k": "v"},
    )


MEANINGS = {
    "not-ascii": "äß",
    "pair": "😀",
    "slash": "/",
    "escaped-nul": "\0",
    "delete": "\x7f",
    "upper-hex": "Ä",
    "empty": "",
}


def numbers() -> Iterator[Case]:
    # Each would be right for a reader that takes the number for the one that is meant.
    tensor = '{"dtype":"U8","shape":[1],"data_offsets":[@,2]}'
    second = f'{{"a":{tensor.replace("@,2", "0,1")},"b":{tensor}}}'
    first = f'{{"a":{tensor.replace("[1]", "[2]")}}}'
    last = first.replace("@,2", "0,@")
    no_end = last.replace("[2]", "[0]")
    shape = last.replace("[2]", "[@]").replace("0,@", "0,2")
    no_shape = shape.replace("0,2", "0,0")
    zero = {
        "point": "0.0",
        "exponent": "0e0",
        "minus": "-0",
        "zeros": "00",
        "plus": "+0",
        "hexadecimal": "0x0",
        "string": '"0"',
        "underscore": "0_0",
        "null": "null",
        "nan": "NaN",
        "false": "false",
        "wrapped": "18446744073709551616",
        "minus-wrapped": "-18446744073709551616",
    }
    two = {
        "point": "2.0",
        "point-half": "2.5",
        "zeros": "02",
        "plus": "+2",
        "hexadecimal": "0x2",
        "string": '"2"',
        "underscore": "0_2",
        "wrapped": "18446744073709551618",
        "minus": "-2",
        "list": "[2]",
    }
    one_less = {"true": "true", "minus-one": "-1", "one-point": "1.0"}
    for name, text, spellings, data in (
        ("first-begin", first, zero, 2),
        ("second-begin", second, one_less, 2),
        ("end", last, two, 2),
        ("end-of-none", no_end, zero | {"minus-one": "-1"}, 0),
        ("dimension-two", shape, two, 2),
        ("dimension-none", no_shape, zero | {"minus-one": "-1"}, 0),
    ):
        for id, spelling in spellings.items():
            yield bad(
                f"number-{id}-{name}",
                f"A number as {spelling.replace(chr(34), '')}",
                text.replace(MARK, spelling),
                *("ST-006", None),
                data=data,
            )
    for bits in (16, 31, 32, 63):
        number = (1 << bits) + 1
        yield bad(
            f"number-{bits}-bits-second-begin",
            f"A beginning of 1 and 2^{bits}",
            second.replace(MARK, str(number)),
            *("ST-014", '"b"', "InvalidOffset"),
            data=2,
        )
        yield bad(
            f"number-{bits}-bits-end",
            f"An end of 2 and 2^{bits}",
            last.replace(MARK, str((1 << bits) + 2)),
            *("ST-013", '"a"', "TensorInvalidInfo"),
            data=2,
        )
    yield bad(
        "number-beyond-all-of-none",
        "A dimension above 64 bits next to one of 0",
        no_shape.replace(MARK, "99999999999999999999,0"),
        *("ST-006", None),
        data=0,
    )
    yield bad(
        *("offsets-one-of-two", "One offset, at which the data ends"),
        '{"a":{"dtype":"U8","shape":[2],"data_offsets":[2]}}',
        *("ST-006", None),
        data=2,
    )
    yield bad(
        *("no-offsets-no-elements", "No data_offsets of a tensor without data"),
        '{"a":{"dtype":"U8","shape":[0]}}',
        *("ST-006", None),
        data=0,
    )
    for id, dtype in (("uint8", "uint8"), ("torch", "torch.uint8")):
        yield bad(
            f"dtype-of-torch-{id}",
            "A dtype as torch calls it",
            header(dtype=f'"{dtype}"'),
            *("ST-010", f'"{dtype}"'),
            data=2,
        )


def sizes() -> Iterator[Case]:
    for dtype, (bits, _) in DTYPES.items():
        slug = dtype.lower().replace("_", "-")
        element = max(bits // 8, 1)
        for id, what, more in (("more", "more", element), ("less", "less", -element)):
            size = 8 * bits // 8 + more
            yield bad(
                f"size-{id}-{slug}",
                f"Eight elements of {dtype} with the data of one {what}",
                f'{{"a":{{"dtype":"{dtype}","shape":[8],"data_offsets":[0,{size}]}}}}',
                *("ST-013", '"a"', "TensorInvalidInfo"),
                data=size,
            )


def repeats() -> Iterator[Case]:
    for key, spelled, value in (
        ("shape", "sh\\u0061pe", "[2]"),
        ("data_offsets", "data\\u005foffsets", "[0,2]"),
        ("dtype", "d\\u0074ype", '"U8"'),
    ):
        yield bad(
            f"repeated-escaped-{key.replace('_', '-')}",
            f"{key} twice, in two spellings",
            header(tensor=f'"{spelled}":{value},'),
            *("ST-008", f'"{key}"'),
            data=2,
        )


def others() -> Iterator[Case]:
    first = '"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}'
    yield lenient(
        "tensor-twice-escaped-another-shape",
        "A tensor twice, in two spellings and of two shapes",
        f'{{{first},"\\u0061":{{"dtype":"U8","shape":[1,2],"data_offsets":[0,2]}}}}',
        *("ST-008", len(first) + 2, Tensor("a", "U8", (1, 2), 0, 2)),
    )
    too_long = bad(
        "length-and-2-63",
        "The right length of the header, and 2 to the power of 63",
        *(header(), "ST-002", None, "HeaderTooLarge"),
        data=2,
    )
    content = bytearray(too_long.files["file"])
    content[7] |= 0x80
    too_long.files["file"] = bytes(content)
    yield too_long
    yield bad(
        *("data-to-a-multiple-of-8", "Zeros behind the data, to a multiple of 8"),
        header(),
        *("ST-015", None, "MetadataIncompleteBuffer"),
        data=b"\1\2" + bytes(6),
    )
    yield valid(
        *("names-composed-and-not", "A letter with an accent in two forms"),
        *(Tensor("é", "U8", (1,), 0, 1), Tensor("e\u0301", "U8", (1,), 1, 2)),
        rules="ST-008",
    )
