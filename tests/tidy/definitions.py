"""Types that share a name and a namespace: the linker takes what a template makes of one for that of the other."""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

NAMESPACE = re.compile(r"(?:inline )?namespace ?([\w:]*) ?\{$")
END = re.compile(r"\}  // (?:inline )?namespace")
TYPE = re.compile(
    r"(?:struct|class|union|enum(?: class)?)(?: alignas\(\w+\))? (\w+)(?: final)?(?: :[^:].*)? ?\{"
)


def types(text: str) -> set[str]:
    """The types that are defined in namespaces with names, in code that clang-format has formatted."""
    namespaces: list[str] = []
    found = set()
    for line in text.splitlines():
        if opened := NAMESPACE.match(line):
            namespaces.append(opened[1])
        elif END.match(line) and namespaces:
            namespaces.pop()
        elif (defined := TYPE.match(line)) and all(namespaces):
            found.add("::".join([*namespaces, defined[1]]))
    return found


def definitions_of_several(files: Mapping[Path, str]) -> list[str]:
    """A line for each name that more than one file defines."""
    files_of: dict[str, list[str]] = defaultdict(list)
    for path, text in sorted(files.items()):
        for name in types(text):
            files_of[name].append(path.as_posix())
    return [
        f"{name}: {', '.join(paths)}"
        for name, paths in sorted(files_of.items())
        if len(paths) > 1
    ]
