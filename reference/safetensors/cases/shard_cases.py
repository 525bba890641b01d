"""The cases of sharded models: an index, and the shards that it names."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from case import INDEX, Case, Tensor, data_of, file_of, header_of, refused


def shard(*tensors: Tensor, seed: str) -> bytes:
    data = data_of(seed, max([tensor.end for tensor in tensors], default=0))
    return file_of(header_of(*tensors, metadata={"format": "pt"}), data)


def cases() -> Iterator[Case]:
    a, b = Tensor("a", "F32", (2,), 0, 8), Tensor("b", "U8", (3,), 8, 11)
    c, z = Tensor("c", "I16", (2, 2), 0, 8), Tensor("z", "U8", (0,), 8, 8)
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    shards = {
        names[0]: shard(a, b, seed="shard 1"),
        names[1]: shard(c, z, seed="shard 2"),
    }
    whole = {"a": names[0], "b": names[0], "c": names[1], "z": names[1]}

    def spelled(weight_map: Any) -> str:
        return json.dumps(
            {"metadata": {"total_size": 19}, "weight_map": weight_map}, indent=1
        )

    def right(
        id: str,
        why: str,
        index: str,
        tensors: tuple[Tensor, ...] = (a, b, c, z),
        files: dict[str, bytes] = shards,
    ) -> Case:
        return Case(
            id,
            why,
            {INDEX: index.encode() + b"\n", **files},
            tensors=list(tensors),
            metadata={"format": "pt"} if files else {},
            exercises="ST-016 ST-017",
        )

    def wrong(
        id: str,
        why: str,
        index: str | bytes,
        rule: str = "ST-016",
        at: str | int | None = None,
        files: dict[str, bytes] | None = None,
    ) -> Case:
        raw = index.encode() if isinstance(index, str) else index
        if isinstance(at, str):
            assert raw.count(at.encode()) == 1, (id, at)
            at = raw.index(at.encode())
        verdict = refused(rule, at)
        return Case(id, why, {INDEX: raw + b"\n", **(files or {})}, verdict, verdict)

    yield right("shards", "two shards", spelled(whole))
    yield right(
        "shards-more-keys",
        "unknown keys, no total size, white space before the index",
        "\n " + json.dumps({"x": [{"weight_map": 1}], "weight_map": whole, "y": None}),
    )
    yield right("shards-none", "no tensor, and so no shard", spelled({}), (), {})
    backwards = dict(reversed(whole.items()))
    yield right("shards-backwards", "the map lists the last first", spelled(backwards))
    yield right(
        "shards-no-metadata", "nothing but the map", json.dumps({"weight_map": whole})
    )
    yield right(
        "shards-map-first",
        "the map before the metadata",
        json.dumps({"weight_map": whole, "metadata": {"total_size": 19}}),
    )
    yield right(
        "shards-wrong-total",
        "a total size that is not theirs",
        json.dumps({"metadata": {"total_size": 1}, "weight_map": whole}),
    )
    yield right(
        "shards-metadata-list",
        "metadata that is no object",
        json.dumps({"metadata": [19], "weight_map": whole}),
    )
    compact_map = json.dumps({"weight_map": whole}, separators=(",", ":"))
    yield right("shards-compact", "no white space", compact_map)
    spaced = json.dumps({"weight_map": whole}).replace(" ", "\t\r\n ")
    yield right("shards-white-space", "every kind of white space", spaced + "\t\r\n ")
    escaped = json.dumps({"weight_map": whole}).replace('"a"', '"\\u0061"')
    escaped = escaped.replace("model-", "\\u006dodel\\u002d")
    yield right("shards-escapes", "escaped names", escaped)
    long_first = {"x": "y" * 8192, "weight_map": whole}
    yield right(
        "shards-map-late",
        "the map after eight kilobytes of another key",
        json.dumps(long_first),
    )
    inside = {"metadata": {"weight_map": {"a": "../x"}}, "weight_map": whole}
    yield right(
        "shards-map-inside",
        "a second map, of the metadata, which says nothing",
        json.dumps(inside),
    )

    alone = {"model.safetensors": shard(a, b, seed="shard 1")}
    yield right(
        "shards-one",
        "one shard",
        spelled({"a": "model.safetensors", "b": "model.safetensors"}),
        (a, b),
        alone,
    )
    parts = [
        Tensor(f"layers.{i}", "U8", (2,), i // 3 * 2, i // 3 * 2 + 2) for i in range(9)
    ]
    of_three = [f"part-{i}.safetensors" for i in range(3)]
    yield right(
        "shards-interleaved",
        "each next tensor is in another shard",
        spelled({part.name: of_three[i % 3] for i, part in enumerate(parts)}),
        tuple(parts),
        {
            name: shard(*parts[i::3], seed=f"interleaved {i}")
            for i, name in enumerate(of_three)
        },
    )
    many = [Tensor(f"t{i}", "U8", (1,), 0, 1) for i in range(64)]
    yield right(
        "shards-many",
        "a shard for each of 64 tensors",
        spelled({t.name: f"shard-{t.name}.safetensors" for t in many}),
        tuple(many),
        {f"shard-{t.name}.safetensors": shard(t, seed=t.name) for t in many},
    )
    plain = {"weights.bin": shard(a, seed="plain")}
    yield right(
        "shards-other-suffix",
        "a shard whose name does not end as usual",
        spelled({"a": "weights.bin"}),
        (a,),
        plain,
    )
    for id, name in {
        "dots": "model..safetensors",
        "hidden": ".model.safetensors",
        "space": "model 1.safetensors",
        "percent": "model%2f1.safetensors",
        "dash": "-1.safetensors",
        "tilde": "~model.safetensors",
    }.items():
        yield right(
            f"shards-name-{id}",
            "a name of a shard that is a name as any other",
            spelled({"a": name}),
            (a,),
            {name: shard(a, seed=name)},
        )
    odd = [
        Tensor(name, "U8", (1,), i, i + 1)
        for i, name in enumerate(["", "/", "..", "weight_map", "metadata", "é", "\n"])
    ]
    yield right(
        "shards-names",
        "unusual names of tensors",
        spelled({t.name: "model.safetensors" for t in odd}),
        tuple(odd),
        {"model.safetensors": shard(*odd, seed="odd names")},
    )

    yield wrong("index-not-json", "cut off", '{"weight_map": {')
    yield wrong("index-list", "no object", "[]", at=0)
    yield wrong("index-utf8", "not UTF-8", b'{"\xff": 1, "weight_map": {}}', at=2)
    yield wrong("index-two", "two objects", '{"weight_map": {}} {}', at=19)
    yield wrong("index-no-map", "no weight_map", '{"metadata": {}}', at=0)
    yield wrong("index-map-list", "no object", '{"weight_map": []}', at="[")
    yield wrong(
        "index-map-twice", "two maps", '{"weight_map": {}, "weight_map": {}}', at=19
    )
    yield wrong("index-file-number", "no string", '{"weight_map": {"a": 1}}', at="1")
    yield wrong("index-file-list", "no string", '{"weight_map": {"a": ["x"]}}', at="[")
    yield wrong("index-empty", "no byte but a line end", "", at=1)
    yield wrong(
        "index-bom", "a byte order mark", b'\xef\xbb\xbf{"weight_map": {}}', at=0
    )
    yield wrong("index-comment", "a comment", '{"weight_map": {} /* */}', at="/*")
    yield wrong("index-comma", "a comma too many", '{"weight_map": {},}')
    yield wrong("index-nan", "no number", '{"x": NaN, "weight_map": {}}', at="NaN")
    yield wrong("index-control", "a control character", '{"\x01": 1, "weight_map": {}}')
    yield wrong("index-surrogate", "half a pair", '{"\\ud800": 1, "weight_map": {}}')
    yield wrong("index-nul-behind", "a NUL", '{"weight_map": {}}\0', at="\0")
    yield wrong("index-string", "no object", '"weight_map"', at=0)
    yield wrong("index-null", "no object", "null", at=0)
    yield wrong("index-map-null", "no object", '{"weight_map": null}', at="null")
    yield wrong("index-map-string", "no object", '{"weight_map": "x"}', at='"x"')
    yield wrong(
        "index-file-null", "no string", '{"weight_map": {"a": null}}', at="null"
    )
    yield wrong("index-file-object", "no string", '{"weight_map": {"a": {}}}', at="{}")
    yield wrong(
        "index-map-elsewhere",
        "no weight_map of its own",
        '{"x": {"weight_map": {}}}',
        at=0,
    )
    yield wrong("index-map-case", "no weight_map", '{"Weight_Map": {}}', at=0)
    # A reader that takes one of the two finds a right model; the other one would be wrong.
    whole_map = json.dumps(whole)
    for id, why, first, second in (
        ("twice", "in two files, the first of them right", *names),
        ("twice-last", "in two files, the last of them right", *reversed(names)),
    ):
        twice = f'{{"weight_map": {whole_map[:-1]}, "a": "{second}"}}}}'
        twice = twice.replace(names[0], first, 1)
        at = twice.rindex('"a"')
        yield wrong(f"index-tensor-{id}", why, twice, at=at, files=shards)
    again = f'{{"weight_map": {{"\\u0061": "{names[0]}", {whole_map[1:]}}}'
    yield wrong(
        "index-tensor-twice-escaped",
        "in one file twice",
        again,
        at='"a"',
        files=shards,
    )
    # A reader that does not refuse the name finds a right shard there, as far as one can be there.
    for id, (name, found) in {
        "slash": ("sub/model.safetensors", "sub/model.safetensors"),
        "absolute": ("/model.safetensors", "model.safetensors"),
        "parent": ("../model.safetensors", "../model.safetensors"),
        "backslash": ("sub\\model.safetensors", "sub\\model.safetensors"),
        "dots": ("..", None),
        "dot": (".", None),
        "empty": ("", None),
        "nul": ("model\0.safetensors", "model"),
        "inside-parent": ("sub/../model.safetensors", "model.safetensors"),
        "twice-parent": ("../../etc/passwd", "passwd"),
        "trailing-slash": ("model.safetensors/", "model.safetensors"),
        "dot-slash": ("./model.safetensors", "model.safetensors"),
        "two-slashes": ("sub//model.safetensors", "sub/model.safetensors"),
        "drive": ("c:\\model.safetensors", "c:\\model.safetensors"),
        "nul-only": ("\0", None),
    }.items():
        spelling = json.dumps(name)
        index = f'{{"weight_map": {{"a": {spelling}}}}}'
        yield wrong(
            f"index-file-{id}",
            "leads out of the directory",
            index,
            at=len('{"weight_map": {"a": '),
            files={found: shard(a, seed=id)} if found else None,
        )

    # As above, and in the place of the directory the copy of a model has its absolute path.
    placeholder = "/directory-of-the-index"
    absolute = wrong(
        "index-file-full-path",
        "leads to a shard by its absolute path",
        f'{{"weight_map": {{"a": "{placeholder}/model.safetensors"}}}}',
        at=f'"{placeholder}',
        files={"model.safetensors": shard(a, seed="full-path")},
    )
    yield replace(absolute, directory_placeholder=placeholder)

    more = spelled(whole | {"d": names[1]})
    yield wrong("shard-lacks", "the shard lacks it", more, "ST-017", '"d"', shards)
    moved = spelled(whole | {"b": names[1]})
    yield wrong("shard-other", "the other shard has it", moved, "ST-017", '"b"', shards)
    less = dict(whole)
    del less["b"]
    at = shards[names[0]].index(b'"b"')
    yield wrong(
        "shard-has-more", "the map lacks it", spelled(less), "ST-017", at, shards
    )
    doubled = shards | {
        names[1]: shard(c, Tensor("a", "U8", (1,), 8, 9), seed="a twice")
    }
    del less["z"]
    at = doubled[names[1]].index(b'"a"')
    both = spelled(less | {"b": names[0]})
    yield wrong("shard-twice", "a is in both shards", both, "ST-017", at, doubled)
    unlisted = spelled({"a": names[0], "b": names[0], "z": names[1]})
    at = shards[names[1]].index(b'"c"')
    yield wrong("shard-unlisted", "no file for c", unlisted, "ST-017", at, shards)
    mixed = shards | {names[1]: shard(c, replace(z, name="Z"), seed="shard 2")}
    yield wrong("shard-case", "the shard has Z", spelled(whole), "ST-017", None, mixed)
    composed = replace(a, name="\u00e9")
    yield wrong(
        "shard-form",
        "the same letter in another form",
        spelled({"e\u0301": "model.safetensors"}),
        "ST-017",
        None,
        {"model.safetensors": shard(composed, seed="form")},
    )
    yield wrong(
        "shard-empty",
        "the shard has no tensor",
        spelled({"a": "model.safetensors"}),
        "ST-017",
        '"a"',
        {"model.safetensors": shard(seed="none")},
    )
    for id, rule, content in (
        ("short", "ST-001", b"\2\0"),
        ("not-json", "ST-006", file_of('{"c":}')),
        ("long", "ST-015", shards[names[1]] + b"\0"),
        ("no-dtype", "ST-010", shards[names[1]].replace(b'"I16"', b'"I17"')),
        ("hole", "ST-014", shard(c, replace(z, begin=9, end=9), seed="hole") + b"\0"),
        ("index", "ST-002", b'{"weight_map": {}}'),
    ):
        files = shards | {names[1]: content}
        why = "the second shard breaks a rule itself"
        yield wrong(f"shard-{id}", why, spelled(whole), rule, None, files)
    broken = shards | {names[1]: shards[names[1]][:-1]}
    at = len(broken[names[1]])
    yield wrong("shard-cut", "a shard is cut off", spelled(whole), "ST-015", at, broken)
