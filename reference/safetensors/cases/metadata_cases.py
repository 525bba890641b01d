"""The cases of __metadata__: strings to strings, anywhere in the header, and nothing else."""

import json
from collections.abc import Iterator

from builders import ONE, ONE_ENTRY, bad, lenient, valid
from case import Case, Tensor, compact

METADATA = {
    "format": ("the entry that loaders of PyTorch models expect", {"format": "pt"}),
    "name-of-tensor": ("a key that is also a tensor's name", {"a": "b"}),
    "own-name": ("a key called __metadata__", {"__metadata__": "x"}),
    "fields": (
        "keys called like the fields of a tensor",
        {"dtype": "U8", "shape": "[1]", "data_offsets": "[0,1]"},
    ),
    "json": ("a value that is JSON itself", {"config": '{"a":[1,"\\"",null]}'}),
    "controls": ("control characters, escaped", {"\0": "\1\x1f\x7f", "\n": "\r\t"}),
    "beyond-ascii": ("text beyond ASCII", {"größe": "😀\u2028", "\ufeff": "\uffff"}),
    "cases": ("keys that differ in case only", {"k": "1", "K": "2"}),
    "long-value": ("a value of 4 KiB", {"k": "v" * 4096}),
    "long-key": ("a key of 4 KiB", {"k" * 4096: "v"}),
    "spaces": ("spaces around a key and a text", {" k ": " v ", "k": "  "}),
    "backslashes": ("backslashes and slashes", {"\\\\": "\\/", "/": "\\n"}),
    "numbers": ("texts that look like other values", {"1": "1.0", "n": "null", "": ""}),
    "forms": ("one letter in two forms", {"\u00e9": "e\u0301", "e\u0301": "\u00e9"}),
    "many": ("200 keys", {f"key {i}": str(i) for i in range(200)}),
}

NO_METADATA = {
    "list": '["a"]',
    "list-empty": "[]",
    "list-of-pairs": '[["a","b"]]',
    "string": '"a"',
    "number": "1",
    "true": "true",
    "false": "false",
}
NO_VALUES = {
    "number": "1",
    "float": "1.5",
    "null": "null",
    "true": "true",
    "false": "false",
    "list": "[]",
    "list-of-string": '["a"]',
    "object": "{}",
}


def cases() -> Iterator[Case]:
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
    for id, (why, metadata) in METADATA.items():
        yield valid(f"metadata-{id}", why, ONE, rules="ST-009", metadata=metadata)
    yield from spellings()
    null = '{"__metadata__":null}'
    why = "metadata of null, for the library as if it were not there"
    yield lenient("metadata-null", why, null, "ST-009", null.index("null"))
    header = "{" + ONE_ENTRY + ',"__metadata__":null}'
    why = "metadata of null after a tensor"
    yield lenient(
        "metadata-null-last", why, header, "ST-009", header.index("null"), ONE
    )
    yield from refused()


def spellings() -> Iterator[Case]:
    metadata = {"a": "b"}
    member = '"__metadata__":{"a":"b"}'
    yield valid(
        "metadata-escaped",
        "the key __metadata__ with an escape",
        rules="ST-009",
        metadata=metadata,
        header=r'{"\u005f_metadata__":{"a":"b"}}',
    )
    b = Tensor("b", "U8", (1,), 1, 2)
    for id, parts in (
        ("last", [ONE_ENTRY, b.entry(), member]),
        ("between", [ONE_ENTRY, member, b.entry()]),
    ):
        header = "{" + ",".join(parts) + "}"
        why = f"metadata {'after' if id == 'last' else 'between'} the tensors"
        id = f"metadata-{id}"
        yield valid(id, why, ONE, b, rules="ST-009", metadata=metadata, header=header)
    metadata = {"ä": "😀", "/": "\x7f"}
    header = f'{{"__metadata__":{json.dumps(metadata)}}}'.replace("/", r"\/")
    why = "metadata whose text is escaped where that is not needed"
    yield valid(
        "metadata-escapes", why, rules="ST-009", metadata=metadata, header=header
    )


def refused() -> Iterator[Case]:
    at = len('{"__metadata__":')
    for id, value in NO_METADATA.items():
        header = f'{{"__metadata__":{value}}}'
        why = f"metadata that is {value}"
        yield bad(f"metadata-{id}", why, header, "ST-009", at, data=0)
    at = len('{"__metadata__":{"k":')
    for id, value in NO_VALUES.items():
        header = f'{{"__metadata__":{{"k":{value}}}}}'
        why = f"a value of the metadata that is {value}"
        yield bad(f"metadata-of-{id}", why, header, "ST-009", at, data=0)
    good = compact({f"k{i}": "" for i in range(9)})[:-1]
    header = f'{{"__metadata__":{good},"k":9}}}}'
    at = header.rindex("9")
    why = "a value of the metadata that is a number, after good ones"
    yield bad("metadata-of-number-last", why, header, "ST-009", at, data=0)
    header = r'{"__metadata__":{"k":1,"k":"1"}}'
    at = header.index("1,")
    why = "a key of the metadata twice, the first of them a number"
    yield bad("metadata-of-number-twice", why, header, "ST-009", at, data=0)
    for id, name in (("", "__metadata__"), ("-escaped", r"\u005f\u005fmetadata__")):
        header = f'{{"{name}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}'
        why = f"a tensor called {name}"
        yield bad(f"metadata-tensor{id}", why, header, "ST-009", "[1]")
