"""The cases of single files: headers and data, right and wrong in one thing each."""

import struct
from collections.abc import Iterator
from typing import Any

from case import Case, Tensor, data_of, file_of, header_of, refused

HEADER_BYTES_MAX = 100_000_000

# Name and bits of an element, in the format's own order.
DTYPES = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}

JSON_ERROR = "InvalidHeaderDeserialization"

ONE = Tensor("a", "U8", (1,), 0, 1)
ONE_ENTRY = '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'


def valid(
    id: str,
    why: str,
    *tensors: Tensor,
    header: str | None = None,
    metadata: dict[str, str] | None = None,
) -> Case:
    """Accepted by both. header: another spelling than the usual one."""
    text = header_of(*tensors, metadata=metadata) if header is None else header
    data = data_of(id, max([tensor.end for tensor in tensors], default=0))
    return Case(
        id,
        why,
        {"file": file_of(text, data)},
        tensors=sorted(tensors, key=lambda tensor: (tensor.begin, tensor.end)),
        metadata=metadata or {},
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
    """A header of one tensor with a field that nobody knows."""
    return f'{{"a":{{"dtype":"U8","extra":{value},"shape":[1],"data_offsets":[0,1]}}}}'


def accepted_cases() -> Iterator[Case]:
    yield valid("empty-header", "no tensor at all", header="{}")
    yield valid("one", "a tensor of one byte", ONE)
    yield valid(
        "padded", "padded to a multiple of 8", ONE, header=header_of(ONE) + " " * 5
    )
    for dtype, bits in DTYPES.items():
        tensor = Tensor("t", dtype, (2, 4), 0, bits)
        yield valid(f"dtype-{dtype}", f"eight elements of {dtype}", tensor)
    yield valid("scalar", "a shape without dimensions", Tensor("s", "F64", (), 0, 8))
    yield valid("no-elements", "a dimension of 0", Tensor("z", "F32", (3, 0), 0, 0))
    yield valid(
        "no-elements-of-half-a-byte", "a dimension of 0", Tensor("z", "F4", (0,), 0, 0)
    )
    yield valid(
        "no-elements-in-between",
        "tensors without elements at the beginning, at a border and at the end",
        Tensor("z0", "U8", (0,), 0, 0),
        Tensor("a", "U8", (3,), 0, 3),
        Tensor("z1", "U8", (0, 5), 3, 3),
        Tensor("b", "I8", (2,), 3, 5),
        Tensor("z2", "U64", (0,), 5, 5),
    )
    yield valid(
        "zero-before-huge",
        "dimensions whose product is 0 before it can overflow",
        Tensor("z", "U8", (0, 2**64 - 1, 2), 0, 0),
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
    )
    yield valid(
        "not-aligned", "nothing aligns an F32 at 1", ONE, Tensor("b", "F32", (1,), 1, 5)
    )
    yield valid(
        "metadata", "strings to strings", ONE, metadata={"format": "pt", "": "ä\n"}
    )
    yield valid("metadata-empty", "no strings at all", ONE, metadata={})
    yield valid("name-empty", "an empty name", Tensor("", "U8", (1,), 0, 1))
    yield valid(
        "names",
        "names beyond ASCII, with dots, with what JSON escapes",
        Tensor('layers.0."w"\\\n', "U8", (1,), 0, 1),
        Tensor("größe 😀\x7f", "U8", (1,), 1, 2),
        Tensor("\x1e[0]", "U8", (1,), 2, 3),
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
        "nesting-127", "as deep as is allowed", ONE, header=extra("[" * 125 + "]" * 125)
    )
    yield valid(
        "number-tiny", "a number too small for a float", ONE, header=extra("1e-400")
    )
    data = struct.pack("<ff", float("nan"), float("-inf"))
    numbers = Tensor("n", "F32", (2,), 0, 8)
    yield Case(
        "not-finite",
        "NaN and infinity are values as any other",
        {"file": file_of(header_of(numbers), data)},
        tensors=[numbers],
    )


def lenient_cases() -> Iterator[Case]:
    one = header_of(ONE)
    yield lenient(
        "space-before", "a space before the brace", " " + one, "ST-005", 0, ONE
    )
    yield lenient(
        "lines-before", "white space before", "\n\t\r " + one, "ST-005", 0, ONE
    )
    yield lenient(
        "line-behind", "padded with a newline", one + "\n", "ST-007", len(one), ONE
    )
    yield lenient(
        "tabs-behind",
        "padded with a tab",
        one + " \t\r\n ",
        "ST-007",
        len(one) + 1,
        ONE,
    )
    twice = '{"a":{"dtype":"F64","shape":[9],"data_offsets":[7,3]},' + ONE_ENTRY + "}"
    yield lenient(
        "tensor-twice",
        "the last one counts, and the offsets of the first are not looked at",
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
        "one name in two spellings",
        escaped,
        "ST-008",
        escaped.index("\\") - 1,
        ONE,
    )
    metadata = '{"__metadata__":{"k":"1","k":"2"}}'
    yield lenient(
        "metadata-key-twice",
        "the last one counts",
        metadata,
        "ST-008",
        metadata.rindex('"k"'),
        metadata={"k": "2"},
    )
    fields = '{"a":{"x":1,"dtype":"U8","x":2,"shape":[1],"data_offsets":[0,1]}}'
    yield lenient(
        "unknown-field-twice",
        "it is ignored twice",
        fields,
        "ST-008",
        fields.rindex('"x"'),
        ONE,
    )
    nested = extra('[{"y":0,"x":{"y":1}},{"y":2,"z":3,"y":4}]')
    yield lenient(
        "unknown-key-twice",
        "in an ignored value",
        nested,
        "ST-008",
        nested.rindex('"y"'),
        ONE,
    )
    null = '{"__metadata__":null}'
    yield lenient(
        "metadata-null", "as if it were not there", null, "ST-009", null.index("null")
    )
    listed = '{"a":["U8",[1],[0,1]]}'
    yield lenient(
        "entry-list",
        "a list of the three values",
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
        "seven-bytes", "no whole length", b"\2" + b"\0" * 6, "ST-001", "HeaderTooSmall"
    )
    for name, length in {
        "limit-and-one": HEADER_BYTES_MAX + 1,
        "all-ones": 2**64 - 1,
        "negative": 2**63,
    }.items():
        content = file_of("{}", length=length)
        yield raw(f"length-{name}", "too long", content, "ST-002", "HeaderTooLarge")
    for name, length in {"limit": HEADER_BYTES_MAX, "one-more": 3}.items():
        content = file_of("{}", length=length)
        why = "a claim that costs a reader nothing"
        yield raw(f"length-{name}", why, content, "ST-003", "InvalidHeaderLength")
    yield raw(
        "length-alone",
        "nothing behind it",
        struct.pack("<Q", 1),
        "ST-003",
        "InvalidHeaderLength",
    )


def text_cases() -> Iterator[Case]:
    utf8 = "InvalidHeader"
    yield bad("utf8-lone-byte", "not UTF-8", b'{"\xff":1}', "ST-004", 2, utf8)
    yield bad("utf8-surrogate", "a surrogate", b'{"\xed\xa0\x80":1}', "ST-004", 2, utf8)
    yield bad("utf8-overlong", "an overlong form", b'{"\xc0\xaf":1}', "ST-004", 2, utf8)
    yield bad("utf8-cut", "cut off in a character", b"{}\xe2\x82", "ST-004", 2, utf8)
    yield bad("header-none", "a header of 0 bytes", "", "ST-005", 0, data_bytes=0)
    yield bad("header-array", "an array", "[]", "ST-005", 0, data_bytes=0)
    yield bad("header-null", "null", "null", "ST-005", 0, data_bytes=0)
    yield bad(
        "byte-order-mark", "a byte order mark", "\ufeff{}", "ST-005", 0, data_bytes=0
    )
    blank = bad("header-blank", "spaces alone", "   ", "ST-005", 0, data_bytes=0)
    blank.library = refused("ST-005", 8 + 3)
    yield blank
    one = header_of(ONE)
    yield bad("padded-with-nul", "padded with NUL", one + "\0\0", "ST-007", len(one))
    yield bad("two-objects", "another object behind", "{}{}", "ST-007", 2, data_bytes=0)
    yield bad(
        "text-behind", "text behind the object", "{} x", "ST-007", 3, data_bytes=0
    )


def json_cases() -> Iterator[Case]:
    def wrong(id: str, why: str, header: str, at: str | int | None = None) -> Case:
        return bad(id, why, header, "ST-006", at)

    yield wrong("cut-off", "the text ends in the middle", '{"a":')
    yield wrong("comma-at-end", "a comma too many", '{"__metadata__":{},}')
    yield wrong("comment", "a comment", "{/**/}")
    yield wrong("nul-within", "a NUL byte between tokens", '{"a"\0:1}')
    yield wrong("control-character", "a control character in a string", '{"\1":1}')
    yield wrong("nul-in-string", "a NUL byte in a string", '{"\0":1}')
    yield wrong("escape-unknown", "an escape that JSON lacks", r'{"\x41":1}')
    yield wrong("escape-lone-surrogate", "half a pair", r'{"\ud800":1}')
    yield wrong("escape-low-surrogate", "the other half", r'{"\udc00":1}')
    yield wrong("not-a-number", "NaN", extra("NaN"))
    yield wrong("number-too-large", "beyond any float", extra("1e400"))
    yield wrong(
        "nesting-128",
        "one level too many",
        extra("[" * 126 + "]" * 126),
        len('{"a":{"dtype":"U8","extra":') + 125,
    )
    yield wrong("entry-null", "no object", '{"a":null}', "null")
    yield wrong("entry-string", "no object", '{"a":"b"}', '"b"')
    yield wrong("entry-empty", "no field at all", '{"a":{}}', "}}")
    yield wrong(
        "no-dtype", "no dtype", '{"a":{"shape":[1],"data_offsets":[0,1]}}', "}}"
    )
    yield wrong(
        "no-shape", "no shape", '{"a":{"dtype":"U8","data_offsets":[0,1]}}', "}}"
    )
    yield wrong(
        "no-offsets", "no data_offsets", '{"a":{"dtype":"U8","shape":[1]}}', "}}"
    )
    for id, text in {"two": '["U8",[1]]', "four": '["U8",[1],[0,1],0]'}.items():
        case = wrong(f"entry-list-of-{id}", "not three values", f'{{"a":{text}}}', 5)
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
            f"dtype-object-{id}", "not one key with null", header, len('{"a":{"dtype":')
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
        yield wrong(f"dimension-{id}", "no dimension", entry(shape=f"[{text}]"), begin)
        begin = len('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,')
        yield wrong(f"offset-{id}", "no offset", entry(offsets=f"[0,{text}]"), begin)
    yield wrong("dimension-octal", "a number that JSON lacks", entry(shape="[01]"))
    yield wrong("shape-null", "no list", entry(shape="null"), "null")
    yield wrong(
        "shape-number", "no list", entry(shape="1"), len('{"a":{"dtype":"U8","shape":')
    )
    yield wrong("offsets-one", "one offset", entry(offsets="[0]"), "]}}")
    yield wrong("offsets-three", "three offsets", entry(offsets="[0,1,2]"), "2]}}")
    yield wrong("offsets-object", "no list", entry(offsets='{"0":0,"1":1}'), '{"0"')
    yield wrong(
        "tensor-twice-first-broken",
        "the one that does not count is still read",
        '{"a":null,' + ONE_ENTRY + "}",
        "null",
    )


def key_cases() -> Iterator[Case]:
    metadata = '{"__metadata__":{"a":"1"},"__metadata__":{"a":"2"}}'
    at = metadata.rindex('"__metadata__"')
    yield bad(
        "metadata-twice", "even the library minds", metadata, "ST-008", at, data_bytes=0
    )
    for key, value in {
        "dtype": '"U8"',
        "shape": "[1]",
        "data_offsets": "[0,1]",
    }.items():
        header = entry()[:-2] + f',"{key}":{value}}}}}'
        at = header.rindex(f'"{key}"')
        yield bad(f"{key}-twice", "even the library minds", header, "ST-008", at)
    for id, value in {
        "number": "1",
        "null": "null",
        "list": "[]",
        "object": "{}",
    }.items():
        header = f'{{"__metadata__":{{"k":{value}}}}}'
        at = len('{"__metadata__":{"k":')
        yield bad(f"metadata-of-{id}", "no string", header, "ST-009", at, data_bytes=0)
    header = '{"__metadata__":["a"]}'
    yield bad("metadata-list", "no object", header, "ST-009", "[", data_bytes=0)
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
            f"dtype-{id}", "none of the list", header, "ST-010", len('{"a":{"dtype":')
        )
    header = '{"a":{"dtype":"X","shape":[1],"data_offsets":[0,1]},' + ONE_ENTRY + "}"
    yield bad("tensor-twice-first-unknown", "still read", header, "ST-010", '"X"')


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
        "2^64",
        "ST-011",
        overflow,
        one("U8", (2**32, 2**32), 0, 1),
    )
    yield wrong(
        "bits-overflow",
        "2^64 bits",
        "ST-011",
        overflow,
        one("U8", (2**61,), 0, 2**61),
    )
    yield wrong(
        "size-overflow", "2^64 bytes", "ST-011", overflow, one("U64", (2**61,), 0, 0)
    )
    yield wrong(
        "overflow-before-zero",
        "a zero does not take the overflow back",
        "ST-011",
        overflow,
        one("U8", (2**64 - 1, 2, 0), 0, 0),
        data_bytes=0,
    )
    misaligned = "MisalignedSlice"
    yield wrong(
        "half-byte",
        "12 bits",
        "ST-012",
        misaligned,
        one("F4", (3,), 0, 2),
        data_bytes=2,
    )
    yield wrong("half-byte-scalar", "4 bits", "ST-012", misaligned, one("F4", (), 0, 1))
    for dtype in ("F6_E2M3", "F6_E3M2"):
        tensor = one(dtype, (5,), 0, 4)
        yield wrong(
            f"six-bits-{dtype}", "30 bits", "ST-012", misaligned, tensor, data_bytes=4
        )
    size = "TensorInvalidInfo"
    yield wrong("size-too-small", "5 elements", "ST-013", size, one("U8", (5,), 0, 1))
    yield wrong("size-too-large", "no elements", "ST-013", size, one("U8", (0,), 0, 1))
    yield wrong(
        "size-of-elements", "not of bytes", "ST-013", size, one("F32", (1,), 0, 1)
    )
    yield wrong(
        "size-of-zero", "1 element", "ST-013", size, one("U8", (1,), 0, 0), data_bytes=0
    )
    offset = "InvalidOffset"
    yield wrong(
        "begin-not-0", "a hole", "ST-014", offset, one("U8", (1,), 1, 2), data_bytes=2
    )
    yield wrong("end-first", "end < begin", "ST-014", offset, one("U8", (1,), 1, 0))
    first = one("U8", (2,), 0, 2)
    for id, begin in {"hole": 3, "overlap": 1}.items():
        second = Tensor("b", "U8", (2,), begin, begin + 2)
        yield wrong(
            id, f"a {id}", "ST-014", offset, first, second, data_bytes=5, at="b"
        )
    for id, shape, end in (("same-data", (2,), 2), ("zero-within", (0,), 1)):
        begin = end - shape[0]
        second = Tensor("b", "U8", shape, begin, end)
        yield wrong(
            id, "an overlap", "ST-014", offset, first, second, data_bytes=2, at="b"
        )
    yield wrong(
        "offsets-huge",
        "an end near 2^64",
        "ST-014",
        offset,
        one("U8", (1,), 2**64 - 2, 2**64 - 1),
    )
    header = header_of(ONE)
    end = "MetadataIncompleteBuffer"
    for id, header, at, count in (
        ("data-cut", header, len(header), 0),
        ("data-behind", header, len(header) + 1, 2),
        ("data-of-nobody", "{}", 2, 1),
        ("data-huge", header_of(one("U8", (2**60,), 0, 2**60)), None, 1),
    ):
        if at is None:
            at = len(header) + count
        yield bad(id, f"{count} bytes of data", header, "ST-015", at, end, count)


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
