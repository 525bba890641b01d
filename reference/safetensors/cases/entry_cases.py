"""The cases of a tensor's entry in the header: its fields, their types, and forms that the library alone accepts."""

from collections.abc import Iterator

from builders import (
    DTYPE_AT,
    OFFSETS_AT,
    ONE,
    SHAPE_AT,
    bad,
    elsewhere,
    entry,
    extra,
    lenient,
    valid,
)
from case import Case, slug

# Values of an unknown field, which is ignored.
IGNORED = {
    "number": "1",
    "string": '"x"',
    "string-empty": '""',
    "null": "null",
    "true": "true",
    "false": "false",
    "list-empty": "[]",
    "object-empty": "{}",
    "entry": '{"dtype":"X","shape":null,"data_offsets":[1,0]}',
    "metadata": '{"__metadata__":{"a":1}}',
    "empty-key": '{"":{"":[]}}',
}

# Values that are no tensor.
NO_ENTRIES = {
    "null": "null",
    "string": '"b"',
    "number": "7",
    "float": "7.5",
    "true": "true",
    "false": "false",
}

FIELDS = {"dtype": '"U8"', "shape": "[1]", "data_offsets": "[0,1]"}

# Field names that are almost right.
ALMOST = {
    "dtype": ("Dtype", "DTYPE", "dtype ", "type"),
    "shape": ("Shape", "shapes"),
    "data_offsets": ("data_offset", "dataOffsets", "offsets"),
}


def cases() -> Iterator[Case]:
    yield from unknown_fields()
    yield from missing_fields()
    yield from wrong_types()
    yield from lists()
    yield from dtype_objects()


def unknown_fields() -> Iterator[Case]:
    yield valid(
        "unknown-field",
        "a tensor with an unknown field is read, and the field ignored",
        ONE,
        header=extra('{"x":[1.5e3,null,true,-7,{"x":"y"}]}'),
    )
    for id, value in IGNORED.items():
        why = f"an unknown field whose value is {value}"
        yield valid(f"unknown-field-{id}", why, ONE, header=extra(value))
    fields = [f'"{name}":{value}' for name, value in FIELDS.items()]
    for id, places in (("first", [0]), ("last", [3]), ("everywhere", [3, 2, 1, 0])):
        members = list(fields)
        for place in places:
            members.insert(place, f'"x{place}":0')
        header = '{"a":{' + ",".join(members) + "}}"
        why = f"unknown fields of a tensor ({id})"
        yield valid(f"unknown-fields-{id}", why, ONE, header=header)
    for id, name in {
        "empty": "",
        "metadata": "__metadata__",
        "capitals": "DTYPE",
        "plural": "shapes",
        "own-name": "a",
    }.items():
        header = '{"a":{' + f'"{name}":null,' + ",".join(fields) + "}}"
        why = f"an unknown field called {name!r}"
        yield valid(f"unknown-field-called-{id}", why, ONE, header=header)


def missing_fields() -> Iterator[Case]:
    yield bad("entry-empty", "a tensor without any field", '{"a":{}}', "ST-006", "}}")
    for name in FIELDS:
        rest = [f'"{key}":{value}' for key, value in FIELDS.items() if key != name]
        header = '{"a":{' + ",".join(rest) + "}}"
        # This one is an older case.
        id = "no-offsets" if name == "data_offsets" else f"no-{name}"
        yield bad(id, f"a tensor without {name}", header, "ST-006", "}}")
        for number, other in enumerate(ALMOST[name], start=1):
            almost = header[:-2] + f',"{other}":{FIELDS[name]}}}}}'
            id = f"{slug(name)}-almost-{number}"
            why = f"a tensor with {other!r} in place of {name}"
            yield bad(id, why, almost, "ST-006", "}}")


def wrong_types() -> Iterator[Case]:
    for id, value in NO_ENTRIES.items():
        header = f'{{"a":{value}}}'
        yield bad(f"entry-{id}", f"a tensor that is {value}", header, "ST-006", value)
    for id, value in {
        "number": "4",
        "null": "null",
        "true": "true",
        "list": '["U8"]',
        "float": "1.5",
    }.items():
        header = entry(dtype=value)
        why = f"a dtype that is {value}"
        yield bad(f"dtype-{id}", why, header, "ST-006", DTYPE_AT)
    for id, value in {
        "null": "null",
        "number": "1",
        "string": '"1"',
        "true": "true",
        "object": "{}",
        "object-of-numbers": '{"0":1}',
    }.items():
        header = entry(shape=value)
        yield bad(f"shape-{id}", f"a shape that is {value}", header, "ST-006", SHAPE_AT)
    for id, value in {
        "object": '{"0":0,"1":1}',
        "null": "null",
        "number": "1",
        "string": '"0,1"',
        "true": "true",
    }.items():
        header = entry(offsets=value)
        why = f"data_offsets that are {value}"
        yield bad(f"offsets-{id}", why, header, "ST-006", OFFSETS_AT)
    for id, value, fault in (
        ("none", "[]", "]"),
        ("one", "[0]", "]"),
        ("three", "[0,1,2]", "2"),
        ("four", "[0,1,0,1]", "0,1]"),
        ("nested", "[[0,1]]", "[0"),
        ("nested-twice", "[[0],[1]]", "[0"),
    ):
        header = entry(offsets=value)
        at = OFFSETS_AT + value.rindex(fault)
        yield bad(f"offsets-{id}", f"data_offsets of {value}", header, "ST-006", at)


def lists() -> Iterator[Case]:
    """A tensor as a list of its values, which only the library accepts."""
    at = len('{"a":')
    for id, why, text in (
        ("", "a tensor as a list of its three values", '["U8",[1],[0,1]]'),
        (
            "-with-dtype-object",
            "a tensor as a list, with a dtype as an object",
            '[{"U8":null},[1],[0,1]]',
        ),
    ):
        yield lenient(f"entry-list{id}", why, f'{{"a":{text}}}', "ST-006", at, ONE)
    for id, text in {
        "none": "[]",
        "one": '["U8"]',
        "two": '["U8",[1]]',
        "four": '["U8",[1],[0,1],0]',
    }.items():
        header = f'{{"a":{text}}}'
        why = f"a tensor as a list of {id} values"
        yield elsewhere(bad(f"entry-list-of-{id}", why, header, "ST-006", at))
    for id, text in {
        "another-order": '[[1],"U8",[0,1]]',
        "pairs": '[["dtype","U8"],["shape",[1]],["data_offsets",[0,1]]]',
        "the-entry": '[{"dtype":"U8","shape":[1],"data_offsets":[0,1]}]',
        "null-values": "[null,null,null]",
    }.items():
        header = f'{{"a":{text}}}'
        why = f"a tensor as a list of {id.replace('-', ' ')}"
        case = bad(f"entry-list-of-{id}", why, header, "ST-006", at)
        rule = "ST-010" if id == "the-entry" else "ST-006"
        yield elsewhere(case, rule=rule)


def dtype_objects() -> Iterator[Case]:
    """A dtype as an object of one key with null, which only the library accepts."""
    for id, why, text in (
        ("", "a dtype as an object", '{"U8":null}'),
        ("-escaped", "a dtype as an object, with an escape", r'{"\u00558":null}'),
        ("-spaced", "a dtype as an object, with white space", '{ "U8" :\n null\t}'),
    ):
        header = entry(dtype=text)
        yield lenient(f"dtype-object{id}", why, header, "ST-006", DTYPE_AT, ONE)
    for id, text in {
        "empty": "{}",
        "of-two": '{"U8":null,"I8":null}',
        "twice": '{"U8":null,"U8":null}',
        "of-list": '{"U8":[]}',
        "of-number": '{"U8":1}',
        "of-object": '{"U8":{}}',
        "of-string": '{"U8":"U8"}',
        "of-true": '{"U8":true}',
    }.items():
        why = "a dtype as an object, but not of one key with null"
        case = bad(f"dtype-object-{id}", why, entry(dtype=text), "ST-006", DTYPE_AT)
        yield elsewhere(case)
    header = entry(dtype='{"X":null}')
    why = "a dtype as an object, of a dtype that the format lacks"
    case = bad("dtype-object-unknown", why, header, "ST-006", DTYPE_AT)
    yield elsewhere(case, DTYPE_AT + 1, "ST-010")
