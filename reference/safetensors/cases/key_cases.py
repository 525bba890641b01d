"""The cases of a key that an object has twice: parsers keep the first or the last one, and the library refuses some."""

from collections.abc import Iterator

from builders import ONE, ONE_ENTRY, bad, elsewhere, entry, extra, lenient, valid
from case import Case, Tensor, slug

FIELDS = {"dtype": '"U8"', "shape": "[1]", "data_offsets": "[0,1]"}


def cases() -> Iterator[Case]:
    yield from tensors()
    yield from ignored_keys()
    yield from metadata()
    yield from fields()


def tensors() -> Iterator[Case]:
    twice = '{"a":{"dtype":"F64","shape":[9],"data_offsets":[7,3]},' + ONE_ENTRY + "}"
    yield lenient(
        "tensor-twice",
        "a tensor twice: for the library the last one counts, and the offsets of the first are not looked at",
        twice,
        "ST-008",
        twice.rindex('"a"'),
        ONE,
    )
    b = Tensor("b", "U8", (1,), 1, 2)
    thrice = "{" + ",".join([ONE_ENTRY, b.entry(), ONE_ENTRY, ONE_ENTRY]) + "}"
    yield lenient(
        "tensor-thrice",
        "the same tensor again, with another in between",
        thrice,
        "ST-008",
        thrice.index(ONE_ENTRY, 5),
        ONE,
        b,
    )
    for id, why, again in (
        ("same", "a tensor twice, with the same text", ONE_ENTRY),
        (
            "escaped",
            "a tensor twice, with its name in two spellings",
            ONE_ENTRY.replace('"a"', r'"\u0061"'),
        ),
    ):
        header = "{" + ONE_ENTRY + "," + again + "}"
        at = len(ONE_ENTRY) + 2
        yield lenient(f"tensor-twice-{id}", why, header, "ST-008", at, ONE)
    nameless = ONE_ENTRY.replace('"a"', '""')
    yield lenient(
        "tensor-twice-nameless",
        "a tensor of an empty name twice",
        "{" + nameless + "," + nameless + "}",
        "ST-008",
        len(nameless) + 2,
        Tensor("", "U8", (1,), 0, 1),
    )
    # Both tensors together would cover the data, each without a hole.
    halves = Tensor("a", "U8", (1,), 0, 1), Tensor("a", "U8", (1,), 1, 2)
    header = "{" + ",".join(half.entry() for half in halves) + "}"
    case = bad(
        "tensor-twice-in-two-places",
        "a tensor twice, the second after the first: for the library, nothing precedes it",
        header,
        "ST-008",
        header.rindex('"a"'),
        "InvalidOffset",
        data=2,
    )
    yield elsewhere(case, header.rindex('"a"'), "ST-014")
    for id, first, rule, fault in (
        ("broken", "null", "ST-006", "null"),
        (
            "unknown",
            '{"dtype":"X","shape":[1],"data_offsets":[0,1]}',
            "ST-010",
            '"X"',
        ),
    ):
        header = f'{{"a":{first},{ONE_ENTRY}}}'
        why = f"a tensor twice, the first of them {'null' if id == 'broken' else 'of an unknown dtype'}"
        why += ": it does not count, but it is read"
        yield bad(f"tensor-twice-first-{id}", why, header, rule, fault)


def ignored_keys() -> Iterator[Case]:
    header = '{"a":{"x":1,"dtype":"U8","x":2,"shape":[1],"data_offsets":[0,1]}}'
    yield lenient(
        "unknown-field-twice",
        "an unknown field twice, which is ignored either time",
        header,
        "ST-008",
        header.rindex('"x"'),
        ONE,
    )
    for id, why, value, fault in (
        (
            "unknown-key-twice",
            "a key twice in an ignored value",
            '[{"y":0,"x":{"y":1}},{"y":2,"z":3,"y":4}]',
            '"y"',
        ),
        (
            "unknown-key-twice-escaped",
            "a key twice in an ignored value, in two spellings",
            r'{"y":0,"\u0079":0}',
            r'"\u0079"',
        ),
        (
            "unknown-key-twice-empty",
            "an empty key twice in an ignored value",
            '{"":0,"":0}',
            '"":0}',
        ),
        (
            "unknown-key-twice-deep",
            "a key twice, deep in an ignored value",
            '{"x":[[{"x":{"k":0,"l":{"k":0},"k":0}}]]}',
            '"k"',
        ),
    ):
        header = extra(value)
        yield lenient(id, why, header, "ST-008", header.rindex(fault), ONE)
    yield valid(
        "same-key-in-several-objects",
        "a key in several objects, in each of them once",
        ONE,
        rules="ST-008",
        header=extra('[{"a":{"a":{}}},{"a":0}]'),
    )


def metadata() -> Iterator[Case]:
    for id, why, again in (
        ("", "a key of the metadata twice: for the library the last one counts", '"k"'),
        ("-escaped", "a key of the metadata twice, in two spellings", r'"\u006b"'),
    ):
        header = f'{{"__metadata__":{{"k":"1",{again}:"2"}}}}'
        at = len('{"__metadata__":{"k":"1",')
        metadata = {"k": "2"}
        id = f"metadata-key-twice{id}"
        yield lenient(id, why, header, "ST-008", at, metadata=metadata)
    for id, first, second in (
        ("", '"__metadata__":{"a":"1"}', '"__metadata__":{"a":"2"}'),
        ("-null", '"__metadata__":null', '"__metadata__":{}'),
        ("-escaped", '"__metadata__":{}', r'"\u005f\u005fmetadata__":{}'),
        ("-apart", '"__metadata__":{},' + ONE_ENTRY, '"__metadata__":{}'),
    ):
        header = "{" + first + "," + second + "}"
        why = "metadata twice, which the library refuses, too"
        id = f"metadata-twice{id}"
        yield bad(id, why, header, "ST-008", len(first) + 2, data=int("apart" in id))


def fields() -> Iterator[Case]:
    why = "twice, which the library refuses, too"
    for key, value in FIELDS.items():
        header = entry()[:-2] + f',"{key}":{value}}}}}'
        at = header.rindex(f'"{key}"')
        yield bad(f"{slug(key)}-twice", f"{key} {why}", header, "ST-008", at)
    header = entry()[:-2] + r',"\u0064type":"U8"}}'
    at = header.rindex(r'"\u0064type"')
    yield bad(
        "dtype-twice-escaped", f"dtype in two spellings {why}", header, "ST-008", at
    )
    header = '{"a":{"shape":[2],"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    at = header.rindex('"shape"')
    yield bad(
        "shape-twice-other", f"a shape {why}, and another one", header, "ST-008", at
    )
