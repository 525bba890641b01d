"""Computes the content of the page of one conformance result, so that its template only formats."""

from __future__ import annotations

from collections.abc import Iterable

from common.outcomes import ORDER, OUTCOMES, SHADES, Json, Shade, broken_rules, shade_of
from conformance import rule_grid
from conformance.steps import answers, label


def view(result: Json) -> Json:
    about = rule_grid.about_stated_rules(result["rules"], result["cases"])
    rules = rule_grid.complete(result["rules"], about)
    cases = [_case(case, rules) for case in about]
    layouts = sorted({case["layout"] for case in cases})
    failed = [case for case in cases if case["shade"].kind == "failed"]
    others = [case for case in cases if case["shade"].kind != "failed"]
    sections = rule_grid.sections(_items(cases, layouts), rules)
    profile = result["adapter"]["profile"]
    return {
        "result": result,
        "profile": profile,
        "abilities": [
            (title, {"lacks": [], "omits": [], "shapes": [], **profile[part]})
            for title, part in (("Reads", "reads"), ("Writes", "writes"))
            if part in profile
        ],
        "outcomes": OUTCOMES,
        "shades": _counts(cases),
        "failed_shades": _counts(failed),
        "other_shades": _counts(others),
        "other_rule_count": sum(case["shade"].name == "other-rule" for case in cases),
        "features": _features(cases, layouts),
        "columns": layouts,
        "sections": sections,
        "vague": any(
            cell.code == "e"
            for section in sections
            for row in section.rows
            for cell in row.cells
        ),
        "rules": rules,
        "failures": _parts(failed),
        "others": _worst_first(others),
    }


def _counts(cases: list[Json]) -> list[tuple[Shade, int]]:
    shades = [case["shade"] for case in cases]
    return [(shade, shades.count(shade)) for shade in SHADES if shade in shades]


def _case(case: Json, rules: Json) -> Json:
    steps = [{**step, "stderr": step["stderr_tail"].rstrip()} for step in case["steps"]]
    explanations: list[Json] = []
    for step in steps:
        if step["explanation"] and step["explanation"] not in explanations:
            explanations.append(step["explanation"])
    largest = max(steps, key=lambda step: step["process"]["rss_peak_bytes"], default={})
    return {
        **case,
        "shade": shade_of(case["outcome"], case["cites_other_rule"]),
        "failed_steps": _failed_steps(steps),
        "answers": answers(case["verdict"], steps),
        "explanations": explanations,
        "cited_rules": [(rule, rules[rule]) for rule in case["rules"]],
        "elapsed_ns": sum(step["process"]["elapsed_ns"] for step in steps),
        "rss_peak_bytes": largest["process"]["rss_peak_bytes"] if largest else 0,
        "rss_max_bytes": largest["process"].get("rss_max_bytes") if largest else None,
    }


def _failed_steps(steps: list[Json]) -> list[tuple[str, str]]:
    """Returns what failed, in the order of the commands, because the worst failure often hides the cause."""
    failed: dict[str, list[str]] = {}
    for step in steps:
        if shade_of(step["outcome"], False).kind == "failed":
            failed.setdefault(step["reason"] or "", []).append(label(step))
    return [(", ".join(labels), reason) for reason, labels in failed.items()]


def _mark(case: Json) -> rule_grid.Mark:
    return rule_grid.Mark(case["shade"].code, case["known"] is not None)


def _items(cases: list[Json], layouts: list[str]) -> list[rule_grid.Item]:
    return [
        rule_grid.Item(
            case["id"],
            tuple(case["rules"]),
            "",
            tuple(
                _mark(case) if layout == case["layout"] else rule_grid.NOWHERE
                for layout in layouts
            ),
            True,
            (frozenset(broken_rules(case, case["explanations"])),) * len(layouts),
        )
        for case in cases
    ]


def _features(cases: list[Json], layouts: list[str]) -> list[Json]:
    """Returns the table of features by layout; a case counts in the row of each feature that it needs."""
    names = sorted({feature for case in cases for feature in case["features"]})
    read = [case for case in cases if case["operation"] == "read"]
    written = [case for case in cases if case["operation"] == "encode"]
    rows = [("plain", [case for case in read if not case["features"]])]
    rows += [
        (name, [case for case in read if name in case["features"]]) for name in names
    ]
    rows += [("read, all", read), ("written", written), ("all", cases)]
    return [
        {"name": name, "cells": [*_by_layout(members, layouts), _count(members)]}
        for name, members in rows
        if members
    ]


def _by_layout(cases: list[Json], layouts: list[str]) -> list[rule_grid.Cell]:
    return [
        _count(case for case in cases if case["layout"] == layout) for layout in layouts
    ]


def _count(cases: Iterable[Json]) -> rule_grid.Cell:
    return rule_grid.count(_mark(case) for case in cases)


def _parts(failed: list[Json]) -> list[tuple[str, list[Json]]]:
    parts = (
        ("Failures", [case for case in failed if case["known"] is None]),
        ("Known failures", [case for case in failed if case["known"] is not None]),
    )
    return [(title, _worst_first(members)) for title, members in parts if members]


def _worst_first(cases: list[Json]) -> list[Json]:
    """Sorting is stable, so the order of the corpus is kept within an outcome."""
    return sorted(cases, key=lambda case: ORDER[case["shade"].code])
