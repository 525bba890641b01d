"""The cases of sharded models: an index, and the shards that it names."""

import json
from collections.abc import Iterator
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

    def right(id: str, why: str, index: str) -> Case:
        return Case(
            id,
            why,
            {INDEX: index.encode() + b"\n", **shards},
            tensors=[a, b, c, z],
            metadata={"format": "pt"},
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
    empty = right("shards-none", "no tensor, and so no shard", spelled({}))
    empty.files, empty.tensors, empty.metadata = {INDEX: empty.files[INDEX]}, [], {}
    yield empty

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
    twice = f'{{"weight_map": {{"a": "{names[0]}", "a": "{names[1]}"}}}}'
    yield wrong("index-tensor-twice", "in two files", twice, at=twice.rindex('"a"'))
    for id, name in {
        "slash": "sub/model.safetensors",
        "absolute": "/model.safetensors",
        "parent": "../model.safetensors",
        "backslash": "sub\\model.safetensors",
        "dots": "..",
        "dot": ".",
        "empty": "",
        "nul": "model\0.safetensors",
    }.items():
        spelling = json.dumps(name)
        index = f'{{"weight_map": {{"a": {spelling}}}}}'
        yield wrong(
            f"index-file-{id}",
            "leads out of the directory",
            index,
            at=len('{"weight_map": {"a": '),
        )

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
    broken = shards | {names[1]: shards[names[1]][:-1]}
    at = len(broken[names[1]])
    yield wrong("shard-cut", "a shard is cut off", spelled(whole), "ST-015", at, broken)
