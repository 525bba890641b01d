"""Writes the cases of the safetensors rules: small files, each right or wrong in one thing.

usage: make.py          writes the files and manifest.json beside this program
       make.py --check  fails if what is there differs

The manifest lists the cases with what two strictnesses make of them. A verdict is null where the file is accepted, and
otherwise names the rule and, where it is told, the byte offset. library_error is the error of the reference library, by
its Rust name; it is null where the library accepts the file or does not deal with such files at all. An accepted file
lists its tensors in the order of their data. A case with a request asks an accepted file for a tensor, and the request
is what fails.
"""

import argparse
import json
import sys
from pathlib import Path

import header_cases
import shard_cases

HERE = Path(__file__).resolve().parent
MANIFEST = "manifest.json"


def outputs() -> dict[str, bytes]:
    """Everything that belongs beside this program, by relative name."""
    found: dict[str, bytes] = {}
    entries = []
    for case in [*header_cases.cases(), *shard_cases.cases()]:
        manifest_entry = case.manifest_entry()
        entries.append(manifest_entry)
        opened = Path(manifest_entry["file"])
        for name, content in case.files.items():
            path = opened if name == case.opened() else opened.parent / name
            assert path.as_posix() not in found, path
            found[path.as_posix()] = content
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    found[MANIFEST] = f'{{"cases": [\n{lines}\n]}}\n'.encode()
    return found


def present() -> dict[str, bytes]:
    """What is there now, but for this program."""
    return {
        path.relative_to(HERE).as_posix(): path.read_bytes()
        for path in HERE.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
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
    print(f"{len(wanted) - 1} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
