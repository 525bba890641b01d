#!/usr/bin/env python3
"""Renders a result file of tzmark as one self-contained HTML page.

usage: render.py conformance RESULT.json -o PAGE.html

Exit status: 0 done, 2 wrong usage, 3 a file cannot be read or written or is not such a result, 4 Jinja2 is missing.
The page depends on nothing but the result: the same result gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

Json = dict[str, Any]

ENVIRONMENT_STATUS = 3
UNAVAILABLE_STATUS = 4

OUTCOMES = (
    "wrong-data",
    "crash",
    "hang",
    "memory",
    "accepted-invalid",
    "rejected-valid",
    "pass",
    "skipped",
)

# What a conforming reader does with decode and verify.
EXPECTATIONS = {
    "valid": ("decodes as expected", "verifies"),
    "malformed": ("refused", "refused"),
    "invalid": ("refused", "refused"),
    "authentication-failure": ("refused", "refused"),
    "integrity-failure": ("decodes as expected, or refused", "refused"),
    "implementation-defined": (
        "decodes as expected, or refused",
        "verifies, or refused",
    ),
}
COMMANDS = ("decode", "verify")


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


def kind_of(outcome: str) -> str:
    """passed, failed or skipped."""
    return {"pass": "passed", "skipped": "skipped"}.get(outcome, "failed")


def tally(cases: Iterable[Json]) -> Json:
    counts = {"passed": 0, "failed": 0, "skipped": 0, "total": 0, "cites_other_rule": 0}
    for case in cases:
        counts[kind_of(case["outcome"])] += 1
        counts["total"] += 1
        counts["cites_other_rule"] += case["cites_other_rule"]
    return counts


def matrix(cases: list[Json]) -> Json:
    """Layouts across, features down; a case stands in the row of each of its features."""
    layouts = sorted({case["layout"] for case in cases})
    features = sorted({feature for case in cases for feature in case["features"]})
    rows: list[tuple[str, list[Json]]] = [
        ("plain", [case for case in cases if not case["features"]])
    ]
    rows += [
        (feature, [case for case in cases if feature in case["features"]])
        for feature in features
    ]
    rows.append(("all", cases))
    return {
        "layouts": layouts,
        "rows": [
            {
                "feature": feature,
                "cells": [
                    tally(case for case in members if case["layout"] == layout)
                    for layout in layouts
                ]
                + [tally(members)],
            }
            for feature, members in rows
        ],
    }


def rules(cases: list[Json]) -> list[Json]:
    """How the cases of each rule came out; refusals are those of files that have to be refused."""
    ids = sorted({rule for case in cases for rule in case["rules"]})
    return [
        {"id": rule, **tally(case for case in cases if rule in case["rules"])}
        for rule in ids
    ]


def answer_text(step: Json) -> str:
    answer = step["answer"]
    if answer["kind"] == "rejected":
        return "refused"
    if answer["kind"] == "none":
        return "no answer: " + answer["text"]
    if answer["kind"] == "unsupported":
        return "unsupported: " + answer["text"]
    if step["command"] == "verify":
        return "verifies"
    return "decodes, with other data" if step["difference"] else "decodes"


def case_view(case: Json) -> Json:
    expectations = dict(zip(COMMANDS, EXPECTATIONS[case["verdict"]], strict=True))
    steps = [
        {
            **step,
            "expected": expectations[step["command"]],
            "got": answer_text(step),
            "kind": kind_of(step["outcome"]),
        }
        for step in case["steps"]
    ]
    cited = [
        step["answer"]["rejected"]["rule"]
        for step in steps
        if step["answer"]["rejected"]
    ]
    return {
        **case,
        "kind": kind_of(case["outcome"]),
        "steps": steps,
        "cited": list(dict.fromkeys(rule for rule in cited if rule)),
        "elapsed_ns": sum(step["process"]["elapsed_ns"] for step in steps),
        "rss_peak_bytes": max(
            (step["process"]["rss_peak_bytes"] for step in steps), default=0
        ),
    }


def conformance_view(result: Json) -> Json:
    """All that the page shows, so that the template only lays out."""
    cases = [case_view(case) for case in result["cases"]]
    outcomes = [
        {
            "name": name,
            "kind": kind_of(name),
            "count": result["summary"]["outcomes"][name],
        }
        for name in OUTCOMES
    ]
    return {
        "result": result,
        "reads": {"lacks": [], "omits": [], **result["adapter"]["profile"]["reads"]},
        "total": len(cases),
        "outcomes": outcomes,
        "present_outcomes": [outcome for outcome in outcomes if outcome["count"]],
        "matrix": matrix(cases),
        "rules": rules(cases),
        # The worst first; sorting is stable, so that within an outcome the order of the corpus stays.
        "cases": sorted(cases, key=lambda case: OUTCOMES.index(case["outcome"])),
    }


def read_result(path: Path, schema: str) -> Json:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        fail(ENVIRONMENT_STATUS, f"{path}: {error}")
    if not isinstance(result, dict) or (
        result.get("schema"),
        result.get("schema_version"),
    ) != (schema, 1):
        fail(ENVIRONMENT_STATUS, f"{path}: not a result of schema {schema}, version 1")
    return result


def render(template: str, view: Json) -> str:
    try:
        import jinja2
    except ImportError as error:
        fail(UNAVAILABLE_STATUS, f"{error}; Debian's package is python3-jinja2")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).resolve().parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(duration=duration, memory=memory, size=size)
    return environment.get_template(template).render(view)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Renders a result file of tzmark as one HTML page."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    conformance = commands.add_parser(
        "conformance", help="the result of tzmark-conform --json"
    )
    conformance.add_argument("result", type=Path, metavar="RESULT.json")
    conformance.add_argument(
        "-o", "--output", type=Path, required=True, metavar="PAGE.html"
    )
    arguments = parser.parse_args()

    view = conformance_view(read_result(arguments.result, "tzmark-conformance"))
    page = render("conformance.html.j2", view)
    try:
        arguments.output.write_text(page, encoding="utf-8")
    except OSError as error:
        fail(ENVIRONMENT_STATUS, str(error))


if __name__ == "__main__":
    main()
