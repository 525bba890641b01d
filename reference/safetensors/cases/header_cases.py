"""The cases of single files: headers and data, right and wrong in one thing each."""

import struct
from collections.abc import Iterator
from typing import Any

from case import DTYPES, Case, Tensor, data_of, file_of, header_of, refused, slug

HEADER_BYTES_MAX = 100_000_000

JSON_ERROR = "InvalidHeaderDeserialization"

ONE = Tensor("a", "U8", (1,), 0, 1)
ONE_ENTRY = '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'


def valid(
    id: str,
    why: str,
    *tensors: Tensor,
    rules: str = "ST-006",
    header: str | None = None,
    metadata: dict[str, str] | None = None,
) -> Case:
    """Accepted by both. rules: those that it exercises. header: another spelling than the usual one."""
    text = header_of(*tensors, metadata=metadata) if header is None else header
    data = data_of(id, max([tensor.end for tensor in tensors], default=0))
    if all(tensor.dtype == "BOOL" for tensor in tensors):
        # Other bytes than 0 and 1 are trouble that no case is about.
        data = bytes(byte & 1 for byte in data)
    return Case(
        id,
        why,
        {"file": file_of(text, data)},
        tensors=sorted(tensors, key=lambda tensor: (tensor.begin, tensor.end)),
        metadata=metadata or {},
        exercises=rules,
    )


def lenient(
    id: str,
    why: str,
    header: str | bytes,
    rule: str,
    at: int,
    *tensors: Tensor,
    metadata: dict[str, str] | None = None,
) -> Case:
    """Refused by the written description, accepted by the library. at: of the fault in the header."""
    data = data_of(id, max([tensor.end for tensor in tensors], default=0))
    return Case(
        id,
        why,
        {"file": file_of(header, data)},
        spec=refused(rule, 8 + at),
        tensors=list(tensors),
        metadata=metadata or {},
    )


def bad(
    id: str,
    why: str,
    header: str | bytes,
    rule: str,
    at: str | int | None,
    error: str = JSON_ERROR,
    data_bytes: int = 1,
    library_rule: str | None = None,
) -> Case:
    """Refused by both. at: a text in the header, at which the fault lies, or its position there."""
    raw = header.encode() if isinstance(header, str) else header
    if isinstance(at, str):
        assert raw.count(at.encode()) == 1, (id, at)
        at = raw.index(at.encode())
    offset = None if at is None else 8 + at
    return Case(
        id,
        why,
        {"file": file_of(raw, data_of(id, data_bytes))},
        spec=refused(rule, offset),
        library=refused(library_rule or rule, offset),
        library_error=error,
    )


def entry(dtype: str = '"U8"', shape: str = "[1]", offsets: str = "[0,1]") -> str:
    """A header of one tensor, whose fields are any JSON text."""
    return f'{{"a":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}}}'


def extra(value: str) -> str:
    """A header of one tensor with an unknown field."""
    return f'{{"a":{{"dtype":"U8","extra":{value},"shape":[1],"data_offsets":[0,1]}}}}'


def accepted_cases() -> Iterator[Case]:
    yield valid("empty-header", "no tensor at all", header="{}")
    yield valid(
        "one",
        "a tensor of one byte",
        ONE,
        rules="ST-001 ST-002 ST-003 ST-004 ST-005 ST-006 ST-007 ST-008 ST-010 ST-011 ST-012 ST-013 ST-014 ST-015",
    )
    yield valid(
        "padded",
        "a header that is padded to a multiple of 8",
        ONE,
        rules="ST-007",
        header=header_of(ONE) + " " * 5,
    )
    for dtype, (bits, _) in DTYPES.items():
        tensor = Tensor("t", dtype, (2, 4), 0, bits)
        id, why = f"dtype-{slug(dtype)}", f"eight elements of {dtype}"
        yield valid(id, why, tensor, rules="ST-010 ST-012 ST-013")
    yield from accepted_sizes()
    yield from accepted_texts()
    data = struct.pack("<ff", float("nan"), float("-inf"))
    numbers = Tensor("n", "F32", (2,), 0, 8)
    yield Case(
        "not-finite",
        "NaN and infinity are values as any other",
        {"file": file_of(header_of(numbers), data)},
        tensors=[numbers],
        exercises="ST-013",
    )


def accepted_sizes() -> Iterator[Case]:
    yield valid(
        "scalar",
        "a shape without dimensions",
        Tensor("s", "F64", (), 0, 8),
        rules="ST-013",
    )
    yield valid(
        "no-elements",
        "a dimension of 0",
        Tensor("z", "F32", (3, 0), 0, 0),
        rules="ST-013",
    )
    yield valid(
        "no-elements-of-half-a-byte",
        "a dimension of 0, and elements of half a byte",
        Tensor("z", "F4", (0,), 0, 0),
        rules="ST-012 ST-013",
    )
    yield valid(
        "no-elements-in-between",
        "tensors without elements at the beginning, at a border and at the end",
        Tensor("z0", "U8", (0,), 0, 0),
        Tensor("a", "U8", (3,), 0, 3),
        Tensor("z1", "U8", (0, 5), 3, 3),
        Tensor("b", "I8", (2,), 3, 5),
        Tensor("z2", "U64", (0,), 5, 5),
        rules="ST-014",
    )
    yield valid(
        "zero-before-huge",
        "dimensions whose product is 0 before it can overflow",
        Tensor("z", "U8", (0, 2**64 - 1, 2), 0, 0),
        rules="ST-011",
    )
    yield valid(
        "many-dimensions",
        "more dimensions than any library has",
        Tensor("m", "U8", (1,) * 300, 0, 1),
    )
    yield valid(
        "not-in-order",
        "the header lists the tensors in another order than that of their data",
        Tensor("b", "U8", (2,), 3, 5),
        Tensor("a", "U8", (3,), 0, 3),
        rules="ST-014",
    )
    yield valid(
        "not-aligned",
        "nothing aligns an F32 at 1",
        ONE,
        Tensor("b", "F32", (1,), 1, 5),
        rules="ST-014",
    )


def accepted_texts() -> Iterator[Case]:
    yield valid(
        "metadata",
        "metadata of strings to strings",
        ONE,
        rules="ST-009",
        metadata={"format": "pt", "": "ä\n"},
    )
    yield valid(
        "metadata-empty", "metadata of no strings", ONE, rules="ST-009", metadata={}
    )
    yield valid("name-empty", "an empty name", Tensor("", "U8", (1,), 0, 1))
    yield valid(
        "names",
        "names beyond ASCII, with dots, with what JSON escapes",
        Tensor('layers.0."w"\\\n', "U8", (1,), 0, 1),
        Tensor("größe 😀\x7f", "U8", (1,), 1, 2),
        Tensor("\x1e[0]", "U8", (1,), 2, 3),
        rules="ST-004 ST-006",
    )
    yield valid(
        "escaped",
        "escapes where none are needed, in a name, in a field and in a dtype",
        Tensor("aä😀\0/", "U8", (1,), 0, 1),
        header=r'{"\u0061\u00e4\ud83d\ude00\u0000\/":{"d\u0074ype":"\u00558","shape":[1],"data_offsets":[0,1]}}',
    )
    yield valid(
        "metadata-escaped",
        "the key __metadata__ with an escape",
        rules="ST-009",
        metadata={"a": "b"},
        header=r'{"\u005f_metadata__":{"a":"b"}}',
    )
    yield valid(
        "white-space-within",
        "white space between the tokens",
        ONE,
        header='{ "a" :\n{\t"dtype":"U8" , "shape": [ 1 ],\r\n"data_offsets":[0, 1 ] } } ',
    )
    yield valid(
        "unknown-field",
        "a tensor with a field that nobody knows is read, and the field ignored",
        ONE,
        header=extra('{"x":[1.5e3,null,true,-7,{"x":"y"}]}'),
    )
    yield valid(
        "nesting-127",
        "arrays nested as deep as is allowed",
        ONE,
        header=extra("[" * 125 + "]" * 125),
    )
    yield valid(
        "number-tiny", "a number too small for a float", ONE, header=extra("1e-400")
    )


def lenient_cases() -> Iterator[Case]:
    one = header_of(ONE)
    yield lenient(
        "space-before", "a space before the brace", " " + one, "ST-005", 0, ONE
    )
    yield lenient(
        "lines-before",
        "white space before the brace",
        "\n\t\r " + one,
        "ST-005",
        0,
        ONE,
    )
    yield lenient(
        "line-behind",
        "a header that is padded with a newline",
        one + "\n",
        "ST-007",
        len(one),
        ONE,
    )
    yield lenient(
        "tabs-behind",
        "a header that is padded with a tab",
        one + " \t\r\n ",
        "ST-007",
        len(one) + 1,
        ONE,
    )
    twice = '{"a":{"dtype":"F64","shape":[9],"data_offsets":[7,3]},' + ONE_ENTRY + "}"
    yield lenient(
        "tensor-twice",
        "a tensor twice: for the library the last one counts, and the offsets of the first are not looked at",
        twice,
        "ST-008",
        twice.rindex('"a"'),
        ONE,
    )
    thrice = (
        "{"
        + ",".join(
            [ONE_ENTRY, Tensor("b", "U8", (1,), 1, 2).entry(), ONE_ENTRY, ONE_ENTRY]
        )
        + "}"
    )
    yield lenient(
        "tensor-thrice",
        "the same tensor again, with another in between",
        thrice,
        "ST-008",
        thrice.index(ONE_ENTRY, 5),
        ONE,
        Tensor("b", "U8", (1,), 1, 2),
    )
    escaped = "{" + ONE_ENTRY + "," + ONE_ENTRY.replace('"a"', r'"\u0061"') + "}"
    yield lenient(
        "tensor-twice-escaped",
        "a tensor twice, with its name in two spellings",
        escaped,
        "ST-008",
        escaped.index("\\") - 1,
        ONE,
    )
    metadata = '{"__metadata__":{"k":"1","k":"2"}}'
    yield lenient(
        "metadata-key-twice",
        "a key of the metadata twice: for the library the last one counts",
        metadata,
        "ST-008",
        metadata.rindex('"k"'),
        metadata={"k": "2"},
    )
    fields = '{"a":{"x":1,"dtype":"U8","x":2,"shape":[1],"data_offsets":[0,1]}}'
    yield lenient(
        "unknown-field-twice",
        "an unknown field twice, which is ignored either time",
        fields,
        "ST-008",
        fields.rindex('"x"'),
        ONE,
    )
    nested = extra('[{"y":0,"x":{"y":1}},{"y":2,"z":3,"y":4}]')
    yield lenient(
        "unknown-key-twice",
        "a key twice in an ignored value",
        nested,
        "ST-008",
        nested.rindex('"y"'),
        ONE,
    )
    null = '{"__metadata__":null}'
    yield lenient(
        "metadata-null",
        "metadata of null, for the library as if it were not there",
        null,
        "ST-009",
        null.index("null"),
    )
    listed = '{"a":["U8",[1],[0,1]]}'
    yield lenient(
        "entry-list",
        "a tensor as a list of its three values",
        listed,
        "ST-006",
        listed.index("["),
        ONE,
    )
    dtype = entry(dtype='{"U8":null}')
    yield lenient(
        "dtype-object",
        "a dtype as an object",
        dtype,
        "ST-006",
        dtype.index('{"U8"'),
        ONE,
    )


def length_cases() -> Iterator[Case]:
    def raw(id: str, why: str, content: bytes, rule: str, error: str) -> Case:
        verdict = refused(rule, 0)
        return Case(id, why, {"file": content}, verdict, verdict, error)

    yield raw("no-bytes", "an empty file", b"", "ST-001", "HeaderTooSmall")
    yield raw(
        "seven-bytes",
        "seven bytes are no whole length",
        b"\2" + b"\0" * 6,
        "ST-001",
        "HeaderTooSmall",
    )
    for name, length in {
        "limit-and-one": HEADER_BYTES_MAX + 1,
        "all-ones": 2**64 - 1,
        "negative": 2**63,
    }.items():
        content = file_of("{}", length=length)
        yield raw(
            f"length-{name}",
            "a header beyond the limit",
            content,
            "ST-002",
            "HeaderTooLarge",
        )
    for name, length in {"limit": HEADER_BYTES_MAX, "one-more": 3}.items():
        content = file_of("{}", length=length)
        why = (
            "a header that is longer than the file, a claim that costs a reader nothing"
        )
        yield raw(f"length-{name}", why, content, "ST-003", "InvalidHeaderLength")
    yield raw(
        "length-alone",
        "nothing lies behind the length",
        struct.pack("<Q", 1),
        "ST-003",
        "InvalidHeaderLength",
    )


def text_cases() -> Iterator[Case]:
    utf8 = "InvalidHeader"
    yield bad(
        "utf8-lone-byte",
        "a byte that UTF-8 does not have",
        b'{"\xff":1}',
        "ST-004",
        2,
        utf8,
    )
    yield bad(
        "utf8-surrogate",
        "a surrogate in UTF-8",
        b'{"\xed\xa0\x80":1}',
        "ST-004",
        2,
        utf8,
    )
    yield bad(
        "utf8-overlong",
        "an overlong form of UTF-8",
        b'{"\xc0\xaf":1}',
        "ST-004",
        2,
        utf8,
    )
    yield bad(
        "utf8-cut",
        "a header that ends in the middle of a character",
        b"{}\xe2\x82",
        "ST-004",
        2,
        utf8,
    )
    yield bad("header-none", "a header of 0 bytes", "", "ST-005", 0, data_bytes=0)
    yield bad(
        "header-array", "a header that is an array", "[]", "ST-005", 0, data_bytes=0
    )
    yield bad("header-null", "a header that is null", "null", "ST-005", 0, data_bytes=0)
    yield bad(
        "byte-order-mark",
        "a byte order mark before the brace",
        "\ufeff{}",
        "ST-005",
        0,
        data_bytes=0,
    )
    blank = bad(
        "header-blank", "a header of spaces alone", "   ", "ST-005", 0, data_bytes=0
    )
    blank.library = refused("ST-005", 8 + 3)
    yield blank
    one = header_of(ONE)
    yield bad(
        "padded-with-nul",
        "a header that is padded with NUL bytes",
        one + "\0\0",
        "ST-007",
        len(one),
    )
    yield bad(
        "two-objects",
        "another object behind the first",
        "{}{}",
        "ST-007",
        2,
        data_bytes=0,
    )
    yield bad(
        "text-behind", "text behind the object", "{} x", "ST-007", 3, data_bytes=0
    )


def json_cases() -> Iterator[Case]:
    def wrong(id: str, why: str, header: str, at: str | int | None = None) -> Case:
        return bad(id, why, header, "ST-006", at)

    yield wrong("cut-off", "a text that ends in the middle", '{"a":')
    yield wrong("comma-at-end", "a comma too many", '{"__metadata__":{},}')
    yield wrong("comment", "a comment", "{/**/}")
    yield wrong("nul-within", "a NUL byte between tokens", '{"a"\0:1}')
    yield wrong("control-character", "a control character in a string", '{"\1":1}')
    yield wrong("nul-in-string", "a NUL byte in a string", '{"\0":1}')
    yield wrong("escape-unknown", "an escape that JSON lacks", r'{"\x41":1}')
    yield wrong(
        "escape-lone-surrogate",
        "an escape of the first half of a surrogate pair",
        r'{"\ud800":1}',
    )
    yield wrong(
        "escape-low-surrogate",
        "an escape of the second half of a surrogate pair",
        r'{"\udc00":1}',
    )
    yield wrong("not-a-number", "a number that is NaN", extra("NaN"))
    yield wrong("number-too-large", "a number beyond any float", extra("1e400"))
    yield wrong(
        "nesting-128",
        "arrays nested one level too deep",
        extra("[" * 126 + "]" * 126),
        len('{"a":{"dtype":"U8","extra":') + 125,
    )
    yield wrong("entry-null", "a tensor that is null", '{"a":null}', "null")
    yield wrong("entry-string", "a tensor that is a string", '{"a":"b"}', '"b"')
    yield wrong("entry-empty", "a tensor without any field", '{"a":{}}', "}}")
    yield wrong(
        "no-dtype",
        "a tensor without dtype",
        '{"a":{"shape":[1],"data_offsets":[0,1]}}',
        "}}",
    )
    yield wrong(
        "no-shape",
        "a tensor without shape",
        '{"a":{"dtype":"U8","data_offsets":[0,1]}}',
        "}}",
    )
    yield wrong(
        "no-offsets",
        "a tensor without data_offsets",
        '{"a":{"dtype":"U8","shape":[1]}}',
        "}}",
    )
    for id, text in {"two": '["U8",[1]]', "four": '["U8",[1],[0,1],0]'}.items():
        case = wrong(
            f"entry-list-of-{id}",
            f"a tensor as a list of {id} values",
            f'{{"a":{text}}}',
            5,
        )
        case.library = refused("ST-006")
        yield case
    yield wrong("dtype-number", "a dtype that is a number", entry(dtype="4"), "4")
    for id, text in {
        "empty": "{}",
        "of-two": '{"U8":null,"I8":null}',
        "twice": '{"U8":null,"U8":null}',
        "of-list": '{"U8":[]}',
        "of-number": '{"U8":1}',
    }.items():
        header = entry(dtype=text)
        case = wrong(
            f"dtype-object-{id}",
            "a dtype as an object, but not of one key with null",
            header,
            len('{"a":{"dtype":'),
        )
        case.library = refused("ST-006")
        yield case
    for id, text in {
        "float": "1.0",
        "exponent": "1e0",
        "negative": "-1",
        "minus-zero": "-0",
        "too-large": str(2**64),
        "string": '"1"',
        "true": "true",
        "null": "null",
        "list": "[1]",
    }.items():
        begin = len('{"a":{"dtype":"U8","shape":[')
        yield wrong(
            f"dimension-{id}", f"a dimension of {text}", entry(shape=f"[{text}]"), begin
        )
        begin = len('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,')
        yield wrong(
            f"offset-{id}", f"an offset of {text}", entry(offsets=f"[0,{text}]"), begin
        )
    yield wrong("dimension-octal", "a number that JSON lacks", entry(shape="[01]"))
    yield wrong("shape-null", "a shape that is null", entry(shape="null"), "null")
    yield wrong(
        "shape-number",
        "a shape that is a number",
        entry(shape="1"),
        len('{"a":{"dtype":"U8","shape":'),
    )
    yield wrong("offsets-one", "data_offsets of one", entry(offsets="[0]"), "]}}")
    yield wrong(
        "offsets-three", "data_offsets of three", entry(offsets="[0,1,2]"), "2]}}"
    )
    yield wrong(
        "offsets-object",
        "data_offsets that are an object",
        entry(offsets='{"0":0,"1":1}'),
        '{"0"',
    )
    yield wrong(
        "tensor-twice-first-broken",
        "a tensor twice, the first of them null: it does not count, but it is read",
        '{"a":null,' + ONE_ENTRY + "}",
        "null",
    )


def key_cases() -> Iterator[Case]:
    metadata = '{"__metadata__":{"a":"1"},"__metadata__":{"a":"2"}}'
    at = metadata.rindex('"__metadata__"')
    yield bad(
        "metadata-twice",
        "metadata twice, which even the library minds",
        metadata,
        "ST-008",
        at,
        data_bytes=0,
    )
    for key, value in {
        "dtype": '"U8"',
        "shape": "[1]",
        "data_offsets": "[0,1]",
    }.items():
        header = entry()[:-2] + f',"{key}":{value}}}}}'
        at = header.rindex(f'"{key}"')
        yield bad(
            f"{slug(key)}-twice",
            f"{key} twice, which even the library minds",
            header,
            "ST-008",
            at,
        )
    for id, value in {
        "number": "1",
        "null": "null",
        "list": "[]",
        "object": "{}",
    }.items():
        header = f'{{"__metadata__":{{"k":{value}}}}}'
        at = len('{"__metadata__":{"k":')
        yield bad(
            f"metadata-of-{id}",
            f"a value of the metadata that is {value}",
            header,
            "ST-009",
            at,
            data_bytes=0,
        )
    header = '{"__metadata__":["a"]}'
    yield bad(
        "metadata-list", "metadata that is a list", header, "ST-009", "[", data_bytes=0
    )
    header = '{"__metadata__":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    yield bad(
        "metadata-tensor", "a tensor called __metadata__", header, "ST-009", "[1]"
    )
    for id, dtype in {
        "lower-case": "u8",
        "unknown": "F8",
        "empty": "",
        "torch": "float32",
        "complex128": "C128",
    }.items():
        header = entry(dtype=f'"{dtype}"')
        yield bad(
            f"dtype-{id}",
            f"the dtype {dtype!r}, which the format lacks",
            header,
            "ST-010",
            len('{"a":{"dtype":'),
        )
    header = '{"a":{"dtype":"X","shape":[1],"data_offsets":[0,1]},' + ONE_ENTRY + "}"
    yield bad(
        "tensor-twice-first-unknown",
        "a tensor twice, the first of them of an unknown dtype: it does not count, but it is read",
        header,
        "ST-010",
        '"X"',
    )


def data_cases() -> Iterator[Case]:
    def wrong(
        id: str,
        why: str,
        rule: str,
        error: str,
        *tensors: Tensor,
        data_bytes: int = 1,
        at: str = "a",
    ) -> Case:
        header = header_of(*tensors)
        return bad(id, why, header, rule, f'"{at}":', error, data_bytes)

    def one(dtype: str, shape: tuple[int, ...], begin: int, end: int) -> Tensor:
        return Tensor("a", dtype, shape, begin, end)

    overflow = "ValidationOverflow"
    yield wrong(
        "product-overflow",
        "2^64 elements",
        "ST-011",
        overflow,
        one("U8", (2**32, 2**32), 0, 1),
    )
    yield wrong(
        "bits-overflow",
        "a size of 2^64 bits",
        "ST-011",
        overflow,
        one("U8", (2**61,), 0, 2**61),
    )
    yield wrong(
        "size-overflow",
        "a size of 2^64 bytes",
        "ST-011",
        overflow,
        one("U64", (2**61,), 0, 0),
    )
    yield wrong(
        "overflow-before-zero",
        "an overflow that a zero behind it does not take back",
        "ST-011",
        overflow,
        one("U8", (2**64 - 1, 2, 0), 0, 0),
        data_bytes=0,
    )
    misaligned = "MisalignedSlice"
    yield wrong(
        "half-byte",
        "a size of 12 bits",
        "ST-012",
        misaligned,
        one("F4", (3,), 0, 2),
        data_bytes=2,
    )
    yield wrong(
        "half-byte-scalar",
        "a size of 4 bits",
        "ST-012",
        misaligned,
        one("F4", (), 0, 1),
    )
    for dtype in ("F6_E2M3", "F6_E3M2"):
        tensor = one(dtype, (5,), 0, 4)
        yield wrong(
            f"six-bits-{slug(dtype)}",
            "a size of 30 bits",
            "ST-012",
            misaligned,
            tensor,
            data_bytes=4,
        )
    size = "TensorInvalidInfo"
    yield wrong(
        "size-too-small",
        "five elements of one byte in one byte",
        "ST-013",
        size,
        one("U8", (5,), 0, 1),
    )
    yield wrong(
        "size-too-large",
        "no elements in one byte",
        "ST-013",
        size,
        one("U8", (0,), 0, 1),
    )
    yield wrong(
        "size-of-elements",
        "offsets that count elements instead of bytes",
        "ST-013",
        size,
        one("F32", (1,), 0, 1),
    )
    yield wrong(
        "size-of-zero",
        "one element of one byte in no byte",
        "ST-013",
        size,
        one("U8", (1,), 0, 0),
        data_bytes=0,
    )
    offset = "InvalidOffset"
    yield wrong(
        "begin-not-0",
        "data that begins at 1",
        "ST-014",
        offset,
        one("U8", (1,), 1, 2),
        data_bytes=2,
    )
    yield wrong(
        "end-first",
        "data that ends before it begins",
        "ST-014",
        offset,
        one("U8", (1,), 1, 0),
    )
    first = one("U8", (2,), 0, 2)
    for id, begin in {"hole": 3, "overlap": 1}.items():
        second = Tensor("b", "U8", (2,), begin, begin + 2)
        why = f"{'an' if id == 'overlap' else 'a'} {id} between two tensors"
        yield wrong(id, why, "ST-014", offset, first, second, data_bytes=5, at="b")
    for id, shape, end in (("same-data", (2,), 2), ("zero-within", (0,), 1)):
        begin = end - shape[0]
        second = Tensor("b", "U8", shape, begin, end)
        yield wrong(
            id,
            "a tensor inside the data of another",
            "ST-014",
            offset,
            first,
            second,
            data_bytes=2,
            at="b",
        )
    yield wrong(
        "offsets-huge",
        "data that ends near 2^64",
        "ST-014",
        offset,
        one("U8", (1,), 2**64 - 2, 2**64 - 1),
    )
    header = header_of(ONE)
    end = "MetadataIncompleteBuffer"
    huge = header_of(one("U8", (2**60,), 0, 2**60))
    for id, why, header, at, count in (
        ("data-cut", "no data for a tensor of one byte", header, len(header), 0),
        ("data-behind", "two bytes for a tensor of one", header, len(header) + 1, 2),
        ("data-of-nobody", "a byte of data that is no tensor's", "{}", 2, 1),
        ("data-huge", "a byte of data for 2^60", huge, len(huge) + 1, 1),
    ):
        yield bad(id, why, header, "ST-015", at, end, count)


def request_cases() -> Iterator[Case]:
    def asked(
        id: str, why: str, rule: str, error: str, request: dict[str, Any]
    ) -> Case:
        case = valid(
            id, why, Tensor("a", "F32", (2,), 0, 8), Tensor("b", "U8", (3,), 8, 11)
        )
        case.request = request | {"rule": rule, "library_error": error}
        return case

    missing = ("TZE-USE-002", "TensorNotFound")
    yield asked("request-missing", "a name that is not there", *missing, {"name": "c"})
    yield asked("request-prefix", "a part of a name", *missing, {"name": ""})
    yield asked("request-metadata", "not a tensor", *missing, {"name": "__metadata__"})
    view = ("TZE-USE-001", "InvalidTensorView")
    yield asked("request-too-small", "7 bytes for 8", *view, {"name": "a", "bytes": 7})
    yield asked("request-too-large", "4 bytes for 3", *view, {"name": "b", "bytes": 4})


def cases() -> Iterator[Case]:
    yield from accepted_cases()
    yield from lenient_cases()
    yield from length_cases()
    yield from text_cases()
    yield from json_cases()
    yield from key_cases()
    yield from data_cases()
    yield from request_cases()
