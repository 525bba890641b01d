#!/usr/bin/env python3
"""Finds change points in a directory of results of tzmark bench. "tzmark history" runs it.

usage: find_changes.py DIR [--last N] [--threshold F] [--alpha P] [--json FILE] [--html FILE]

Exit status: 0 success, 1 a regression of the code among the last results, 2 wrong usage, 3 the environment failed: a
file is damaged or of a newer schema, a directory or file cannot be read or written, an error of this program,
4 a Python package is missing.
The output depends on nothing but the results: the same results give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import NoReturn

from common import output_file
from common.outcomes import Json
from history import output as history_output
from history import read as history_read
from history import table as history_table

REGRESSION_STATUS = 1
USAGE_STATUS = 2
ENVIRONMENT_STATUS = 3
UNAVAILABLE_STATUS = 4
OTAVA = "apache-otava==0.8.0"
# Where scripts/setup installs apache-otava.
PACKAGES = Path(__file__).resolve().parent.parent / "python"
INSTALL = {
    "numpy": "install python3-numpy (scripts/setup does)",
    "scipy": "install python3-scipy (scripts/setup does)",
    "otava": f"install it (scripts/setup does, or pip install --no-deps {OTAVA})",
    "jinja2": "install python3-jinja2 (scripts/setup does)",
    "matplotlib": "install python3-matplotlib (scripts/setup does)",
}


def fail(status: int, text: str) -> NoReturn:
    """Prints one line, whatever the text contains."""
    print(history_table.one_line(f"tzmark: {text}"), file=sys.stderr)
    sys.exit(status)


class Parser(argparse.ArgumentParser):
    """Reports mistakes on one line, as all commands of tzmark do."""

    def error(self, message: str) -> NoReturn:
        fail(USAGE_STATUS, f"error TZE-USE-001: {message}")


def fraction(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def arguments(words: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="tzmark history",
        description="Find change points in a directory of results of bench; exit 1 on a recent regression",
        allow_abbrev=False,
    )
    parser.add_argument(
        "directory", type=Path, metavar="DIR", help="Directory of bench --json results"
    )
    parser.add_argument(
        "--last",
        type=count,
        default=10,
        metavar="N",
        help="Exit 1 if a regression of the code lies within this many newest results of its series (default: 10)",
    )
    parser.add_argument(
        "--threshold",
        type=fraction,
        default=0.02,
        metavar="F",
        help="Smallest change to report, as a fraction (default: 0.02)",
    )
    parser.add_argument(
        "--alpha",
        type=fraction,
        default=0.0001,
        metavar="P",
        help="p value of a change point, divided by the number of series (default: 0.0001)",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="Write the analysis as JSON"
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="Write a page with a plot per series"
    )
    return parser.parse_args(words)


def document(chosen: argparse.Namespace) -> Json:
    """Reads and analyses the directory. Throws ImportError and OSError."""
    # Each is imported here, so that a missing one is reported and --help works without it.
    import numpy  # noqa: F401
    import scipy  # noqa: F401

    from history import changes as history_changes
    from history import document as history_document

    history = history_read.read(chosen.directory)
    if not history.results:
        tell([{"file": one.file, "reason": one.reason} for one in history.skipped])
        fail(
            ENVIRONMENT_STATUS, f"{chosen.directory}: no usable result of tzmark bench"
        )
    analysed = history_changes.analyse(history, chosen.alpha, chosen.threshold)
    return history_document.of(
        history, analysed, chosen.alpha, chosen.threshold, chosen.last
    )


def tell(skipped: list[Json]) -> None:
    """Prints one line per file, whatever its name or the reason contains."""
    for one in skipped:
        text = f"tzmark: {one['file']}: {one['reason']}"
        print(history_table.one_line(text), file=sys.stderr)


def run(chosen: argparse.Namespace) -> int:
    outputs = [("--json", chosen.json), ("--html", chosen.html)]
    try:
        history_output.refuse_inputs(
            chosen.directory, [(option, path) for option, path in outputs if path]
        )
    except history_output.OverInput as error:
        fail(USAGE_STATUS, f"error TZE-USE-001: {error}")
    made = document(chosen)
    tell(made["skipped"])
    sys.stdout.write(history_table.table(made, str(chosen.directory)))
    sys.stdout.flush()
    if chosen.json:
        text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
        output_file.write(chosen.json, text)
    if chosen.html:
        from history import page as history_page

        page = history_page.page(made, chosen.directory.resolve().name)
        output_file.write(chosen.html, page)
    if made["regressions"]:
        return REGRESSION_STATUS
    return ENVIRONMENT_STATUS if any(s["error"] for s in made["skipped"]) else 0


def main() -> None:
    # File names need not be UTF-8.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stderr.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    chosen = arguments(sys.argv[1:])
    # Last: a package that the user installed has precedence.
    sys.path.append(str(PACKAGES))
    try:
        status = run(chosen)
    except ImportError as error:
        hint = INSTALL.get((error.name or "").partition(".")[0])
        fail(UNAVAILABLE_STATUS, f"{error}{f'; {hint}' if hint else ''}")
    except OSError as error:
        # The shutdown of the interpreter must not fail again on a closed stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        named = f"{error.filename}: " if error.filename is not None else ""
        fail(ENVIRONMENT_STATUS, f"{named}{error.strerror or error}")
    except Exception as error:  # Python's own status of it is that of a regression.
        fail(ENVIRONMENT_STATUS, f"error of tzmark history: {error!r:.200}")
    sys.exit(status)


if __name__ == "__main__":
    main()
