"""Behaviour depends on the traits of an I/O path (PathTraits in tzmark/io.h), not on its name.

Outside reference/io, no code compares a name with that of a path, or keeps a table by such names. Naming a path to open
a file over it is allowed. Tests and samples may compare names.
"""

import re
from collections.abc import Iterable
from pathlib import Path

NAME = re.compile(r'\.name = "([a-z-]+)"')


def registered(texts: Iterable[str]) -> set[str]:
    """The names in rows of the registry."""
    return {name for text in texts for name in NAME.findall(text)}


def is_judged(path: Path) -> bool:
    return (
        path.parts[0] in ("reference", "bench", "python", "reports", "scripts")
        and path.parts[:2] != ("reference", "io")
        and "testing" not in path.parts
        and "tests" not in path.parts
        and path.suffix in (".cc", ".h", ".py", ".j2", "")
        and not path.stem.endswith(("_test", "_samples"))
    )


def comparisons(names: set[str]) -> re.Pattern[str]:
    """A regular expression for a comparison with a name, or with the part of names before or after a hyphen."""
    parts = {part for name in names if "-" in name for part in name.split("-")}
    name = "|".join(sorted(names, key=len, reverse=True))
    part = "|".join(sorted(names | parts))
    quoted = rf"""["'](?:{name})["']"""
    partial = rf"""["']-?(?:{part})-?["']"""
    return re.compile(
        rf"[=!]= *{quoted}|{quoted} *[=!]="
        rf"|(?:starts|ends)_?with\(\(?{partial}"
        rf"|(?:contains|has|find|count)\((?:[^()]|\([^()]*\))*{partial}"
        rf"|\bin [(\[{{][^)\]}}]*{quoted}"
        rf"|{partial} in "
        rf"|^ *case {quoted}|^ *{quoted}:"
    )


def wrong_lines(path: Path, text: str, names: set[str]) -> list[str]:
    """Every line that decides by the name of a path. `direct` is also a cache state, `mmap` a backend of
    safetensors."""
    if not is_judged(path):
        return []
    wrong = comparisons(names)
    comment = "//" if path.suffix in (".cc", ".h") else "# "
    return [
        f"{path}:{number} compares the name of an I/O path: ask for a trait"
        for number, line in enumerate(text.splitlines(), 1)
        if wrong.search(line.split(comment)[0])
        and not re.search(r"cache|cold|backend", line.lower())
    ]
