#!/usr/bin/env python3
"""Renders results of tzmark bench and tzmark tune as one self-contained HTML page, with its figures as PNG and SVG.

usage: tzmark report RESULT.json [RESULT.json ...] -o DIR
       tzmark report COMPARISON.json -o DIR
       tzmark report TUNE.json -o DIR

Writes DIR/index.html and DIR/FIGURE.png and .svg. Several results of the bench are shown side by side. A comparison is
the result of tzmark compare --json or of tzmark bench against --json; its figure is comparison.

Exit status: 0 done, 2 wrong usage, 3 a file cannot be read or written or is not such a result, 4 Jinja2 or matplotlib
is missing. The output depends on nothing but the results: the same results give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from bench import units
from common import output_file
from common.outcomes import Json
from common.results import NotAResult, text_of

KIND = "bench"
VERSION = 1
COMPARISONS = ("comparison", "bench-against")
TUNE = "tune"
# Of results that are rendered by themselves.
ALONE = (*COMPARISONS, TUNE)
ENVIRONMENT_STATUS = 3
UNAVAILABLE_STATUS = 4
PACKAGES = "python3-jinja2 and python3-matplotlib; in pip, tzmark[reports]"


def fail(status: int, text: str) -> NoReturn:
    print(f"report.py: {text}", file=sys.stderr)
    sys.exit(status)


def read(path: Path) -> Json:
    """Reads a result of bench or tune, or a comparison. Throws NotAResult for another kind or version."""
    try:
        document = json.loads(text_of(path))
    except (OSError, ValueError, RecursionError) as error:
        raise NotAResult(f"{path}: {error}") from error
    kinds = (KIND, *ALONE)
    if isinstance(document, dict) and document.get("kind") in kinds:
        if document.get("schema_version") == VERSION:
            return document
    raise NotAResult(
        f"{path}: not a result of kind {', '.join(kinds)}, schema version {VERSION}"
    )


@cache
def templates() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).resolve().parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    from bench import timeline

    environment.filters.update(
        change=timeline.change,
        duration=units.duration,
        figure=units.number,
        gigabytes=units.rate,
        protection=units.protection,
        setting=units.setting,
        share=units.share,
        size=units.size,
        verdict=timeline.verdict,
    )
    return environment


def render(template: str, view: Json) -> str:
    import jinja2

    try:
        page: str = templates().get_template(template).render(view)
        return page
    except jinja2.UndefinedError as error:
        raise NotAResult(f"a member is missing: {error}") from error


def output(files: list[Path], with_figures: bool = True) -> dict[str, bytes]:
    """Returns the names and contents of all output files."""
    documents = [read(file) for file in files]
    alone = [document["kind"] in ALONE for document in documents]
    if any(alone) and len(documents) > 1:
        file = files[alone.index(True)]
        kind = documents[alone.index(True)]["kind"]
        what = "a result of tune" if kind == TUNE else "a comparison"
        raise NotAResult(f"{file}: {what} is rendered by itself")
    try:
        if documents[0]["kind"] in COMPARISONS:
            from comparison import page as comparison_page

            template = "comparison.html.j2"
            view, figures = comparison_page.view(documents[0])
        elif documents[0]["kind"] == TUNE:
            from tune import page as tune_page

            template = "tune.html.j2"
            view, figures = tune_page.view(documents[0])
        else:
            from bench import view as bench_view

            template = "bench.html.j2"
            view, figures = bench_view.view(documents)
        written = {"index.html": render(template, view).encode()}
        for figure in figures if with_figures else ():
            written[f"{figure.name}.svg"] = figure.large.svg().encode()
            written[f"{figure.name}.png"] = figure.large.png()
        return written
    except NotAResult as error:
        raise NotAResult(f"{', '.join(map(str, files))}: {error}") from error
    except (
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        ValueError,
        ArithmeticError,
    ) as error:
        # The schema lists the required members.
        names = ", ".join(map(str, files))
        raise NotAResult(f"{names}: incomplete: {error!r}") from error


def write(directory: Path, written: dict[str, bytes]) -> None:
    """Writes the page last, so that it exists only with the files that it refers to."""
    order = sorted(written, key=lambda name: name == "index.html")
    output_file.write_directory(directory, {name: written[name] for name in order})


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tzmark report",
        description="Renders results of tzmark bench and tzmark tune as one HTML page, with its figures next to it.",
    )
    parser.add_argument("results", type=Path, nargs="+", metavar="RESULT.json")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    return parser.parse_args()


def main() -> None:
    chosen = arguments()
    try:
        write(chosen.output, output(chosen.results))
    except ImportError as error:
        fail(UNAVAILABLE_STATUS, f"{error}; Debian's packages are {PACKAGES}")
    except (OSError, NotAResult) as error:
        fail(ENVIRONMENT_STATUS, str(error))


if __name__ == "__main__":
    main()
