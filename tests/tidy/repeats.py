"""Where product code repeats itself: runs of six lines, word for word, that stand in two places."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

RUN_LINES = 6

Line = tuple[int, str]


def is_product(path: Path) -> bool:
    """Whether a file is C++ that people install or run: no test, and none of the doubles that tests use."""
    return (
        path.parts[0] in ("reference", "conformance", "bench")
        and path.suffix in (".h", ".cc", ".cu")
        and not path.stem.endswith("_test")
        and not path.stem.startswith("test_")
        and "testing" not in path.parts
    )


def telling_lines(text: str) -> list[Line]:
    """The lines with words, and their numbers: includes, comments, namespaces and lone punctuation repeat by nature."""
    lines = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = " ".join(line.split("//")[0].split())
        if re.match(r"#|namespace |using |}  ?$", line) or not re.search(r"\w", line):
            continue
        lines.append((number, line))
    return lines


def runs(text: str) -> Iterator[tuple[int, str]]:
    """Every run of lines, by the number of its first."""
    lines = telling_lines(text)
    for first in range(len(lines) - RUN_LINES + 1):
        yield lines[first][0], "\n".join(
            line for _, line in lines[first : first + RUN_LINES]
        )


def repeats(texts: Mapping[Path, str]) -> list[str]:
    """The places that repeat another one, each with what it repeats. A longer run is named once, by its beginning."""
    seen: dict[str, tuple[Path, int]] = {}
    found = []
    last = (Path(), -2)
    for path, text in texts.items():
        for index, (number, run) in enumerate(runs(text)):
            other = seen.setdefault(run, (path, number))
            if other == (path, number):
                continue
            if last != (path, index - 1):
                found.append(f"{path}:{number} repeats {other[0]}:{other[1]}")
            last = (path, index)
    return found
