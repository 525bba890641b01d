"""The house rules that a single file's text can break. Each rule yields (line number, what is wrong)."""

import re
from collections.abc import Iterator
from pathlib import Path

COLUMNS_MAX = 120

CPP = {".h", ".cc", ".cu"}
HASH_COMMENTED = {".sh", ".cmake", ".mk"}
# Data and prose that is not wrapped by hand.
UNWRAPPED = {".json", ".svg", ".html", ".j2"}

# Spelt in halves, so that this file does not break its own rule.
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
MACHINE_PATH = re.compile(
    r"(?<![\w.$}])/(?:wo" + r"rk|fa" + r"rm|ho" + r"me|ro" + r"ot)/"
)
REGISTRY_HOST = re.compile(
    r"\b(?:py" + r"pi\.org|python" + r"hosted\.org|(?:deb|security|snapshot)\.deb"
    r"ian\.org|(?:archive|ports|security)\.ubu" + r"ntu\.com)\b"
)

# Words that plain English does not need, and one that has another name here: directory.
UNWANTED = re.compile(
    r"\b(?:no" + r"body|be" + r"side|who" + r"ever|(?-i:[Ff]old" + r"ers?))\b",
    re.IGNORECASE,
)
# Still to be rewritten: this list only shrinks.
WITH_UNWANTED = (
    "conformance/wrong_adapters/assuming.py",
    "corpus/recipes/",
    # The id of a case, which stays.
    "reference/safetensors/cases/data_cases.py",
    "reports/safetensors-readers/",
    "reports/upstream-releases/",
)

Finding = tuple[int, str]


def kind_of(path: Path, text: str) -> str:
    """The suffix that says how the file is commented; without one, the program that runs it does."""
    if path.suffix or not text.startswith("#!"):
        return path.suffix
    if text.startswith("#!/usr/bin/make"):
        return ".mk"
    return ".py" if "python" in text.splitlines()[0] else ".sh"


def opening_comment(path: Path, text: str) -> Iterator[Finding]:
    """A source file opens with a comment that states its purpose."""
    kind = kind_of(path, text)
    lines = text.splitlines()
    number = 2 if lines and lines[0].startswith("#!") else 1
    first = lines[number - 1] if len(lines) >= number else ""
    if kind in CPP or kind == ".go":
        wanted = r"// \S|/\* \S"
    elif kind == ".rs":
        wanted = r"//! \S"
    elif kind == ".py":
        wanted = r'r?"""\S|# \S'
    elif kind in HASH_COMMENTED:
        wanted = r"# \S"
    else:
        return
    if not re.match(wanted, first):
        yield number, "the file does not open with a comment that states its purpose"


def is_case(path: Path) -> bool:
    """Whether it is a file that a reader is asked about, in which white space may be what is tested."""
    name = path.as_posix()
    return name.startswith(("fuzz/seeds/", "fuzz/findings/")) or (
        "safetensors/cases/" in name and path.suffix != ".py"
    )


def white_space(path: Path, text: str) -> Iterator[Finding]:
    """No tabs but those of gofmt, no trailing blanks, no carriage returns; the last line ends."""
    if is_case(path):
        return
    for number, line in enumerate(text.split("\n"), start=1):
        # Go and make begin lines with them.
        begins = path.suffix == ".go" or path.parts[-2:] == ("debian", "rules")
        if "\t" in (line.lstrip("\t") if begins else line):
            yield number, "a tab"
        if line != line.rstrip():
            yield number, "blanks at the end of the line"
    if text and not text.endswith("\n"):
        yield text.count("\n") + 1, "the last line has no end"


def line_length(path: Path, text: str) -> Iterator[Finding]:
    """Lines have at most 120 columns. Data is not wrapped, and the row of a Markdown table cannot be."""
    if path.suffix in UNWRAPPED:
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if path.suffix == ".md" and line.lstrip().startswith("|"):
            continue
        if len(line) > COLUMNS_MAX:
            yield number, f"{len(line)} columns, more than {COLUMNS_MAX}"


def nothing_unfinished(path: Path, text: str) -> Iterator[Finding]:
    """What is not finished is not committed."""
    for number, line in enumerate(text.splitlines(), start=1):
        if found := UNFINISHED.search(line):
            yield number, f"{found[0]}: finish it or leave it out"


def no_machine(path: Path, text: str) -> Iterator[Finding]:
    """The tree names no path of one machine, and no host of a package registry."""
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern in (MACHINE_PATH, REGISTRY_HOST):
            if found := pattern.search(line):
                yield number, f"{found[0]} belongs to one machine or registry"


def header_guard(path: Path, text: str) -> Iterator[Finding]:
    """A header is guarded by #pragma once, and by nothing else."""
    if path.suffix != ".h":
        return
    code = [line for line in text.splitlines() if line and not line.startswith("//")]
    if not code or code[0] != "#pragma once":
        yield 1, "the first line of code is not #pragma once"
    if re.search(r"^#\s*ifndef \w+_H_?\s*$", text, re.MULTILINE):
        yield 1, "a guard macro in addition to #pragma once"


def plain_words(path: Path, text: str) -> Iterator[Finding]:
    """No unwanted word, except in data and in the files that are still to be rewritten."""
    if path.suffix in UNWRAPPED or path.as_posix().startswith(WITH_UNWANTED):
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if found := UNWANTED.search(line):
            yield number, f"{found[0]}: say who, or where"


RULES = (
    opening_comment,
    white_space,
    line_length,
    nothing_unfinished,
    no_machine,
    header_guard,
    plain_words,
)


def findings(path: Path, text: str) -> list[Finding]:
    """Everything that the rules find in one file."""
    return [finding for rule in RULES for finding in rule(path, text)]
