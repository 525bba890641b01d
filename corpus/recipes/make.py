#!/usr/bin/env python3
"""Writes the files of valid/, invalid/ and encode/, manifest.json and rules.json, or proves the committed ones right.

Everything is derived from the recipes, from upstream/cases.json, from the documents of the format and from fixed seeds,
so two runs give the same bytes.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jsonschema

from case import LARGE, SCHEMA_VERSION, Case, Json, to_lines, to_text, with_pipe_limit
from choices import choice_table, open_choices, uneven_choices, with_table, with_text
from encode_case import EncodeCase
from large import large_files
from rules import rules_document

RECIPES = Path(__file__).resolve().parent
CORPUS = RECIPES.parent
DIRECTORIES = ("valid", "invalid", "encode")
DOCUMENTS = ("manifest.json", "rules.json")
FORMAT = CORPUS.parent / "reference" / "FORMAT.md"
NOT_RECIPES = {
    *(
        "builder",
        "case",
        "choices",
        "encode_case",
        "large",
        "layouts",
        "make",
        "recipe",
        "rules",
        "sealing",
    ),
    *("sodium", "specification", "wire"),
}


def recipe_modules() -> list[str]:
    """The names of the modules that hold cases."""
    names = {path.stem for path in RECIPES.glob("*.py")} - NOT_RECIPES
    return sorted(name for name in names if not name.endswith("_test"))


def recipe_cases() -> list[Case | EncodeCase]:
    return [
        case
        for name in recipe_modules()
        for case in importlib.import_module(name).cases()
    ]


def files_of(cases: list[Case | EncodeCase]) -> dict[str, bytes]:
    """The committed files. Several cases may open one file in different ways, but a path has one content."""
    files: dict[str, bytes] = {}
    for case in cases:
        for path, content in case.outputs().items():
            if path.startswith(f"{LARGE}/"):
                continue
            if files.setdefault(path, content) != content:
                raise SystemExit(
                    f"{case.id}: {path} is written twice with different bytes"
                )
    return files


def manifest_of(cases: list[Case | EncodeCase]) -> Json:
    upstream = json.loads((CORPUS / "upstream" / "cases.json").read_text())
    entries = [case.entry() for case in cases if isinstance(case, Case)]
    encode_entries = [case.entry() for case in cases if isinstance(case, EncodeCase)]
    return {
        "schema_version": SCHEMA_VERSION,
        "archives": upstream["archives"],
        "open_choices": open_choices(),
        "cases": sorted(
            map(with_pipe_limit, [*upstream_entries(upstream), *entries]),
            key=id_of,
        ),
        "encode_cases": sorted(encode_entries, key=id_of),
    }


def upstream_entries(upstream: Json) -> Iterator[Json]:
    """The entries of upstream's files, with the digests of their expected decodes, which lie in the archives."""
    files: dict[str, bytes | None] = {}
    for archive in upstream["archives"]:
        files |= archive_files(archive["path"])
    for entry in map(with_text, upstream["cases"]):
        whole: Json = {}
        for key, value in entry.items():
            whole[key] = value
            if key == "expected":
                digest = hashlib.sha256(files[value] or b"").hexdigest()
                whole["expected_sha256"] = digest
        yield whole


@functools.cache
def archive_files(path: str) -> dict[str, bytes | None]:
    """The files of an archive of the corpus, by their paths when it is unpacked; None for what is not a plain file."""
    directory = path.rpartition("/")[0]
    with tarfile.open(CORPUS / path) as tar:
        streams = {
            f"{directory}/{member.name}": tar.extractfile(member)
            for member in tar.getmembers()
        }
        return {name: stream and stream.read() for name, stream in streams.items()}


def id_of(entry: Json) -> str:
    return entry["id"]


def make(root: Path) -> None:
    """Writes everything below root; files in its directories that no recipe makes are removed."""
    cases = recipe_cases()
    files = files_of(cases)
    files["manifest.json"] = to_lines(manifest_of(cases)).encode()
    files["rules.json"] = to_text(rules_document()).encode()
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    for path in committed_files(root) - files.keys():
        (root / path).unlink()


def committed_files(root: Path) -> set[str]:
    """What make() owns below a corpus root."""
    found = {
        path
        for directory in DIRECTORIES
        for path in (root / directory).rglob("*")
        if path.is_file()
    }
    return {str(path.relative_to(root)) for path in found} | set(DOCUMENTS)


def different_files() -> Iterator[str]:
    """The committed files against what the recipes make now."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        make(root)
        made, committed = committed_files(root), committed_files(CORPUS)
        for path in sorted(made | committed):
            if path not in committed or not (CORPUS / path).exists():
                yield f"{path}: the recipes make it, but it is not there"
            elif path not in made:
                yield f"{path}: no recipe makes it"
            elif (root / path).read_bytes() != (CORPUS / path).read_bytes():
                yield f"{path}: differs from what the recipes make"


def broken_schema(manifest: Json) -> Iterator[str]:
    schema = json.loads((CORPUS / "manifest.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for error in jsonschema.Draft202012Validator(schema).iter_errors(manifest):
        where = "/".join(str(part) for part in error.absolute_path)
        yield f"manifest.json: {where}: {error.message}"


def unpacked_files(manifest: Json) -> tuple[dict[str, bytes], list[str]]:
    """Every file that a path of the manifest may name, and what is wrong with the archives."""
    owned = committed_files(CORPUS) - set(DOCUMENTS)
    files = {path: (CORPUS / path).read_bytes() for path in owned}
    files |= large_files()
    problems = []
    listed = {archive["path"] for archive in manifest["archives"]}
    present = {
        str(path.relative_to(CORPUS)) for path in (CORPUS / "upstream").glob("*.tar.xz")
    }
    problems += [
        f"{path}: in the manifest or in upstream/, but not in both"
        for path in sorted(listed ^ present)
    ]
    for archive in manifest["archives"]:
        path = CORPUS / archive["path"]
        if not path.exists():
            continue
        if hashlib.sha256(path.read_bytes()).hexdigest() != archive["sha256"]:
            problems.append(f"{archive['path']}: SHA-256 differs from the manifest")
        for name, content in archive_files(archive["path"]).items():
            if content is None:
                problems.append(f"{archive['path']}: {name} is not a plain file")
            else:
                files[name] = content
    return files, problems


def broken_entries(manifest: Json) -> Iterator[str]:
    """Entries against the files they name."""
    files, problems = unpacked_files(manifest)
    yield from problems
    cases = [*manifest["cases"], *manifest["encode_cases"]]
    ids = [case["id"] for case in cases]
    yield from (
        f"{id_}: more than one case has this id"
        for id_ in sorted({id_ for id_ in ids if ids.count(id_) > 1})
    )
    named = set()
    for case in cases:
        path = case.get("path") or case["spec"]
        named.add(path)
        content = files.get(path)
        if content is None:
            yield f"{case['id']}: {path} is not there"
        elif (hashlib.sha256(content).hexdigest(), len(content)) != (
            case["sha256"],
            case["size_bytes"],
        ):
            yield f"{case['id']}: {path} differs from the manifest in SHA-256 or size"
        if "expected" in case:
            named.add(case["expected"])
            expected = files.get(case["expected"])
            if expected is None:
                yield f"{case['id']}: {case['expected']} is not there"
            elif hashlib.sha256(expected).hexdigest() != case["expected_sha256"]:
                yield f"{case['id']}: {case['expected']} differs from the manifest in SHA-256"
        base = case["origin"].get("base")
        if base is not None and base not in ids:
            yield f"{case['id']}: there is no base case {base}"
    yield from (f"{path}: no case names it" for path in sorted(files.keys() - named))


def format_rules() -> Json:
    """The rules that the cases have to cover: those of the format itself, not of its extension or of safetensors."""
    rules = rules_document()["rules"]
    return {id_: rule for id_, rule in rules.items() if id_.startswith("TZR-")}


def uncovered_rules(manifest: Json, rules: Json) -> Iterator[str]:
    """Rules without a case, and cases with a rule that is not there."""
    exempt = json.loads((RECIPES / "exempt.json").read_text())
    kept: set[str] = set()
    broken: set[str] = set()
    open_choices: set[str] = set()
    for case in [*manifest["cases"], *manifest["encode_cases"]]:
        for rule in case["rules"]:
            if rule not in rules:
                yield f"{case['id']}: there is no rule {rule}"
        # The first rule is the one that the case was made to break.
        if case["verdict"] == "valid":
            kept.update(case["rules"])
        elif case["verdict"] == "implementation-defined":
            open_choices.add(case["rules"][0])
        else:
            broken.add(case["rules"][0])
    for rule in sorted(rules):
        if rule not in kept:
            yield f"{rule}: no valid case exercises it"
        if rule in exempt["left_open"]:
            if rule not in open_choices:
                yield f"{rule}: left open, but no case shows the choice"
        elif rule not in broken and rule not in exempt["unbreakable"]:
            yield f"{rule}: no case that has to be refused breaks it"
    for reason, exempted in exempt.items():
        for rule in sorted(exempted):
            if rule not in rules:
                yield f"{rule}: {reason}, but there is no such rule"
            elif rule in broken:
                yield f"{rule}: {reason}, but a case has to be refused for it"
            elif reason == "left_open" and not rules[rule]["open_choices"]:
                yield f"{rule}: left open, but FORMAT.md names no choice below it"


def stale_table(manifest: Json) -> Iterator[str]:
    """The table of open choices in FORMAT.md against the manifest."""
    text = FORMAT.read_text()
    if with_table(text, choice_table(manifest)) != text:
        yield "FORMAT.md: the table of section 11.2 is not that of the manifest; run make.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if anything differs"
    )
    arguments = parser.parse_args()

    if not arguments.check:
        make(CORPUS)
        manifest = json.loads((CORPUS / "manifest.json").read_text())
        FORMAT.write_text(with_table(FORMAT.read_text(), choice_table(manifest)))
        return
    for name in DOCUMENTS:
        if not (CORPUS / name).exists():
            raise SystemExit(f"{name} is not there")
    manifest = json.loads((CORPUS / "manifest.json").read_text())
    problems = [
        *different_files(),
        *broken_schema(manifest),
        *broken_entries(manifest),
        *uncovered_rules(manifest, format_rules()),
        *uneven_choices(manifest, format_rules()),
        *stale_table(manifest),
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(
        f"{len(manifest['cases'])} cases, {len(manifest['encode_cases'])} encode cases,"
        f" {len(problems)} problems"
    )
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
