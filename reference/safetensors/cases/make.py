"""Writes the cases of the safetensors rules: small files, each right or wrong in one thing.

Files with several defects come from several_cases.py. Those in written/ stay as the released libraries wrote them.

usage: make.py          writes the files and their lists next to this program
       make.py --check  fails if what is there differs

manifest.json lists the cases that are about opening a model, in the form of corpus/manifest.json, so that any
implementation can be tested with them; rules.json has the words of the rules. Each case says more under "safetensors":
what two strictnesses make of the model. A verdict there is null where it is accepted, and otherwise names the rule and,
where it is told, the byte offset. library_error is the error of the reference library, by its Rust name; it is null
where the library accepts the file or does not deal with such files at all. An accepted file lists its tensors in the
order of their data.

calls.json lists cases in another form: requests, which ask an accepted file for a tensor and fail.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonschema

import data_cases
import dtype_cases
import encoding_cases
import encode_cases
import entry_cases
import key_cases
import layout_cases
import length_cases
import many_cases
import metadata_cases
import name_cases
import nesting_cases
import number_cases
import place_cases
import request_cases
import several_cases
import shard_cases
import size_cases
import syntax_cases
import written_cases
from case import Case, Json, open_choices, stored_name

HERE = Path(__file__).resolve().parent
REFERENCE = HERE.parents[1]
CORPUS = REFERENCE.parent / "corpus"
SOURCES = {".py", ".pyc"}

# In the order of the rules, as far as a subject has one.
RECIPES = (
    *(length_cases, encoding_cases, syntax_cases, number_cases, nesting_cases),
    *(entry_cases, key_cases, metadata_cases, name_cases, dtype_cases, size_cases),
    *(data_cases, layout_cases, many_cases, several_cases, request_cases, shard_cases),
    place_cases,
    written_cases,
)


def outputs() -> dict[str, bytes]:
    """Everything that belongs next to this program, by relative name."""
    cases = list(all_cases())
    found: dict[str, bytes] = {}
    for case in cases:
        for name, content in files_of(case):
            assert name not in found, name
            found[name] = content
    asked = list(encode_cases.cases())
    for encode in asked:
        found[encode.spec_path] = text_of(encode.specification())
        if not encode.refused:
            found[encode.expected_path] = text_of(encode.expected())
    files = [case for case in cases if case.request is None]
    calls = [case for case in cases if case.request is not None]
    entries = [with_digest(case.manifest_entry(), found) for case in files]
    manifest = {
        "schema_version": 1,
        "archives": [],
        "open_choices": open_choices(entries),
        "cases": entries,
        "encode_cases": [
            with_digest(with_specification(case.manifest_entry(), found), found)
            for case in asked
        ],
    }
    check_schema(manifest)
    found["manifest.json"] = text_of(manifest)
    found["calls.json"] = text_of({"cases": [case.call_entry() for case in calls]})
    found["rules.json"] = text_of(rules())
    return found


def all_cases() -> Iterator[Case]:
    for recipe in RECIPES:
        for case in recipe.cases():
            case.origin = case.origin or {"recipe": f"{recipe.__name__}.py"}
            yield case


def with_specification(entry: Json, files: dict[str, bytes]) -> Json:
    """An entry of the manifest with the size and the SHA-256 of its specification."""
    content = files[entry["spec"]]
    return entry | {
        "sha256": hashlib.sha256(content).hexdigest(),
        "size_bytes": len(content),
    }


def with_digest(entry: Json, files: dict[str, bytes]) -> Json:
    """An entry of the manifest, with the SHA-256 of its expected decode if it has one."""
    if "expected" not in entry:
        return entry
    digest = hashlib.sha256(files[entry["expected"]]).hexdigest()
    return entry | {"expected_sha256": digest}


def files_of(case: Case) -> Iterator[tuple[str, bytes]]:
    """The files of a case, and the expected decode of one that is about opening a file."""
    opened = Path(case.path)
    for name, content in case.files.items():
        path = opened if name == case.opened() else opened.parent / stored_name(name)
        yield path.as_posix(), content
    if case.request is None and case.accepted:
        yield case.expected_path, text_of(case.expected())


def rules() -> Json:
    """The words of the rules, which the corpus has read from the document."""
    document = json.loads((CORPUS / "rules.json").read_text())
    chosen = {
        id: rule for id, rule in document["rules"].items() if id.startswith("ST-")
    }
    return document | {"rules": chosen}


def check_schema(manifest: Json) -> None:
    schema = json.loads((CORPUS / "manifest.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(manifest)
    ids = [case["id"] for case in manifest["cases"] + manifest["encode_cases"]]
    assert len(set(ids)) == len(ids), "an id is used twice"


def text_of(value: Json) -> bytes:
    """JSON with a line for each case, rule or tensor."""

    def lines(items: Iterable[str], brackets: str) -> str:
        return brackets[0] + "\n" + ",\n".join(items) + "\n" + brackets[1]

    members = []
    for key, item in value.items():
        if isinstance(item, list) and item:
            text = lines(map(spelled, item), "[]")
        elif isinstance(item, dict) and item:
            text = lines((f"{spelled(k)}: {spelled(v)}" for k, v in item.items()), "{}")
        else:
            text = spelled(item)
        members.append(f"{spelled(key)}: {text}")
    return ("{" + ",\n".join(members) + "}\n").encode()


def spelled(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def present() -> dict[str, bytes]:
    """What is there now, but for this program."""
    return {
        path.relative_to(HERE).as_posix(): path.read_bytes()
        for path in HERE.rglob("*")
        if path.is_file() and path.suffix not in SOURCES
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    arguments = parser.parse_args()
    wanted, found = outputs(), present()
    if arguments.check:
        different = sorted(
            name
            for name in wanted.keys() | found.keys()
            if wanted.get(name) != found.get(name)
        )
        for name in different:
            print(f"make.py would change {name}", file=sys.stderr)
        return 1 if different else 0
    for name in found.keys() - wanted.keys():
        (HERE / name).unlink()
    for name, content in wanted.items():
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    print(f"{len(wanted)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
