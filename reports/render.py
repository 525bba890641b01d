#!/usr/bin/env python3
"""Renders results of tzmark as one self-contained HTML page, or merges them into one compact document.

usage: render.py conformance RESULT.json [RESULT.json ...] -o PAGE.html
       render.py matrix RESULT.json [RESULT.json ...] -o MATRIX.json
       render.py against RESULT.json -o PAGE.html

  --relative-to DIR   make paths below DIR relative, so that the output names no directory of this machine

The page of one result shows its details; that of several, or of one MATRIX.json, compares the implementations. The
last one is of tzmark against.

Exit status: 0 done, 2 wrong usage, 3 a file cannot be read or written or is not such a result, 4 Jinja2 is missing.
The output depends on nothing but the results: the same results give the same bytes.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import NoReturn

from common import output_file, results
from common.outcomes import Json
from conformance import against_page, matrix, matrix_page, single_page

ENVIRONMENT_STATUS = 3
UNAVAILABLE_STATUS = 4
# But for tabs and line ends.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def fail(status: int, text: str) -> NoReturn:
    print(f"render.py: {text}", file=sys.stderr)
    sys.exit(status)


def duration(elapsed_ns: int) -> str:
    if elapsed_ns < 1_000_000_000:
        return f"{elapsed_ns / 1e6:,.1f} ms"
    return f"{elapsed_ns / 1e9:,.1f} s"


def memory(rss_bytes: int) -> str:
    return size(rss_bytes) if rss_bytes else "memory not seen"


def size(size_bytes: int) -> str:
    if size_bytes < 1 << 10:
        return f"{size_bytes} B"
    if size_bytes < 1 << 20:
        return f"{size_bytes / (1 << 10):,.1f} KiB"
    return f"{size_bytes / (1 << 20):,.1f} MiB"


def visible(text: str) -> str:
    """Shows the controls that adapters printed as escapes such as \\x1b: a page may be read on a terminal."""
    return CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def render(template: str, view: Json) -> str:
    try:
        import jinja2
    except ImportError as error:
        fail(
            UNAVAILABLE_STATUS,
            f"{error}; Debian's package is python3-jinja2; in pip, tzmark[reports]",
        )
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).resolve().parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(duration=duration, memory=memory, size=size)
    try:
        return visible(environment.get_template(template).render(view))
    except jinja2.UndefinedError as error:
        raise results.NotAResult(f"a member is missing: {error}") from error


def page(documents: list[Json]) -> str:
    """Renders one result alone, and several or a matrix side by side."""
    first = documents[0]
    if first["schema"] == results.MATRIX:
        return render("matrix.html.j2", matrix_page.view(first))
    if len(documents) == 1:
        return render("conformance.html.j2", single_page.view(first))
    return render("matrix.html.j2", matrix_page.view(matrix.merge(documents)))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Renders results of tzmark as one HTML page, or merges them into one document."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, help_text, output in (
        ("conformance", "a page of results of tzmark-conform --json", "PAGE.html"),
        ("matrix", "one compact document of several results", "MATRIX.json"),
        ("against", "a page of a result of tzmark against --json", "PAGE.html"),
    ):
        command = commands.add_parser(name, help=help_text)
        command.add_argument("--relative-to", type=Path, metavar="DIR")
        several = 1 if name == "against" else "+"
        command.add_argument("results", type=Path, nargs=several, metavar="RESULT.json")
        command.add_argument("-o", "--output", type=Path, required=True, metavar=output)
    return parser.parse_args()


def output(command: str, files: list[Path], root: Path | None) -> str:
    """Returns the output of the command. A matrix must be the only input, and only makes a page."""
    schemas = [results.AGAINST if command == "against" else results.CONFORMANCE]
    if command == "conformance" and len(files) == 1:
        schemas.append(results.MATRIX)
    documents = [results.read(file, tuple(schemas)) for file in files]
    if root:
        documents = results.relative(documents, f"{root.resolve()}/")
    try:
        if command == "against":
            return render("against.html.j2", against_page.view(documents[0]))
        if command == "matrix":
            return results.dump(matrix.merge(documents))
        return page(documents)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        # The schema lists the required members.
        raise results.NotAResult(
            f"{', '.join(map(str, files))}: incomplete: {error!r}"
        ) from error


def main() -> None:
    chosen = arguments()
    try:
        text = output(chosen.command, chosen.results, chosen.relative_to)
        output_file.write(chosen.output, text)
    except (OSError, results.NotAResult) as error:
        fail(ENVIRONMENT_STATUS, str(error))


if __name__ == "__main__":
    main()
