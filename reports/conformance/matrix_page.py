"""Computes the content of the page of several implementations, so that its template only formats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from common.outcomes import BY_CODE, ORDER, SHADES, Json, broken_rules, shade_of, worst
from conformance.matrix import annotated
from conformance.rule_grid import (
    Item,
    Mark,
    about_stated_rules,
    complete,
    is_plain,
    sections,
)
from conformance.steps import answers

NOT_RUN = Mark("n")
# So many names, and letters of a word of them, stand side by side.
COLUMNS_MAX = 7
WORD_MAX = 10
Names = list[tuple[str, str]]


@dataclass(frozen=True)
class Column:
    """Implementations with equal results; heads are their names, each with its versions."""

    members: tuple[int, ...]
    heads: list[tuple[str, list[str]]]
    totals: Json


def view(matrix: Json) -> Json:
    names = _names(matrix["implementations"])
    cases = about_stated_rules(matrix["rules"], matrix["cases"])
    rules = complete(matrix["rules"], cases)
    results = [_result(result, matrix["stderr"]) for result in matrix["results"]]
    columns = _columns([_marks(case, results) for case in cases], names)
    marks = [
        tuple(row[column.members[0]] for column in columns)
        for row in (_marks(case, results) for case in cases)
    ]
    details = [
        _detail(case, case_marks, results, names, rules)
        for case, case_marks in zip(cases, marks, strict=True)
        if "explanations" in case
    ]
    used = {mark.code for row in marks for mark in row}
    perfect = [column for column in columns if _is_perfect(column)]
    choices = [_choice(case, results, names) for case in cases if "about" in case]
    return {
        "matrix": matrix,
        "names": [f"{name} {version}" for name, version in names],
        "columns": columns,
        "head_classes": _head_classes(columns),
        "shades": [shade for shade in SHADES if shade.code in used],
        "sections": sections(_items(cases, marks, columns), rules),
        "rules": rules,
        "case_parts": _parts(details),
        "choices": [choice for choice in choices if len(choice["made"]) > 1],
        "quiet": _quiet(cases),
        "quiet_count": len(cases) - len(details),
        "perfect": [_label(column.members, names) for column in perfect],
        "perfect_count": sum(len(column.members) for column in perfect),
        "perfect_skips": any(column.totals["skipped"] for column in perfect),
        "shade_choices": [
            shade.code
            for shade in SHADES
            if shade.code in used and not is_plain(shade.code)
        ],
        "column_choices": [str(index) for index in range(len(columns))],
    }


def _head_classes(columns: list[Column]) -> str:
    """Returns how the names of the implementations stand above their columns: upright if they do not fit side by side.

    On a narrow screen only the long ones do.
    """
    words = (
        word
        for column in columns
        for name, _ in column.heads
        for word in name.split("-")
    )
    if any(len(word) > WORD_MAX for word in words):
        return " upright long"
    return " upright" if len(columns) > COLUMNS_MAX else ""


def _is_perfect(column: Column) -> bool:
    return column.totals["passed"] > 0 and not column.totals["failed"]


def _names(implementations: list[Json]) -> Names:
    """Returns name and version of each; a number distinguishes equal ones."""
    names: Names = []
    for implementation in implementations:
        profile = implementation["profile"]
        version = profile["version"]
        name, number = (profile["name"], version), 1
        while name in names:
            number += 1
            name = (profile["name"], f"{version} ({number})")
        names.append(name)
    return names


def _heads(members: Iterable[int], names: Names) -> list[tuple[str, list[str]]]:
    heads: dict[str, list[str]] = {}
    for member in members:
        name, version = names[member]
        heads.setdefault(name, []).append(version)
    return list(heads.items())


def _label(members: Iterable[int], names: Names) -> str:
    return "; ".join(
        f"{name} {', '.join(versions)}" for name, versions in _heads(members, names)
    )


def _result(result: Json, stderr: list[str]) -> Json:
    shade = shade_of(result["outcome"], result["cites_other_rule"])
    steps = [
        {**step, "stderr": "" if step["stderr"] is None else stderr[step["stderr"]]}
        for step in result.get("steps", [])
    ]
    return {**result, "shade": shade, "steps": steps}


def _marks(case: Json, results: list[Json]) -> tuple[Mark, ...]:
    return tuple(
        NOT_RUN
        if index is None
        else Mark(results[index]["shade"].code, results[index]["known"] is not None)
        for index in case["results"]
    )


def _columns(rows: list[tuple[Mark, ...]], names: Names) -> list[Column]:
    """Merges implementations that differ in no case."""
    alike: dict[tuple[Mark, ...], list[int]] = {}
    for index in range(len(names)):
        alike.setdefault(tuple(row[index] for row in rows), []).append(index)
    return [
        Column(tuple(members), _heads(members, names), _totals(marks))
        for marks, members in alike.items()
    ]


def _totals(marks: tuple[Mark, ...]) -> Json:
    codes = [mark.code for mark in marks]
    kinds = [BY_CODE[code].kind for code in codes]
    return {
        **{kind: kinds.count(kind) for kind in ("passed", "failed", "skipped")},
        "known": sum(mark.known for mark in marks),
        "shades": [
            (shade, codes.count(shade.code)) for shade in SHADES if shade.code in codes
        ],
    }


def _items(
    cases: list[Json], marks: list[tuple[Mark, ...]], columns: list[Column]
) -> list[Item]:
    return [
        Item(
            case["id"],
            tuple(case["rules"]),
            case["layout"] + (" written" if case["operation"] == "encode" else ""),
            case_marks,
            "explanations" in case,
            tuple(_broken(case, column.members) for column in columns),
        )
        for case, case_marks in zip(cases, marks, strict=True)
    ]


def _broken(case: Json, members: tuple[int, ...]) -> frozenset[str]:
    """Returns the rules that the failures of a column show to be broken."""
    explanations = (
        entry["explanation"]
        for entry in case.get("explanations", [])
        if not set(members).isdisjoint(entry["implementations"])
    )
    return frozenset(broken_rules(case, explanations))


def _by_result(case: Json) -> dict[int, list[int]]:
    """Returns the implementations of each result of a case, without those that did not run it."""
    groups: dict[int, list[int]] = {}
    for implementation, index in enumerate(case["results"]):
        if index is not None:
            groups.setdefault(index, []).append(implementation)
    return groups


def _detail(
    case: Json, marks: tuple[Mark, ...], results: list[Json], names: Names, rules: Json
) -> Json:
    groups = [
        {
            "label": _label(members, names),
            "answers": answers(case["verdict"], results[index]["steps"]),
            **results[index],
        }
        for index, members in _by_result(case).items()
    ]
    told = [group for group in groups if group["steps"]]
    failures = [
        results[index]
        for index in case["results"]
        if index is not None and results[index]["shade"].kind == "failed"
    ]
    return {
        **case,
        "marks": marks,
        "shade": BY_CODE[worst(mark.code for mark in marks)],
        "known": all(result["known"] is not None for result in failures),
        "tokens": _tokens(marks),
        "cited_rules": [(rule, rules[rule]) for rule in case["rules"]],
        "groups": sorted(told, key=lambda group: ORDER[group["shade"].code]),
        "others": _others(case, results, names),
        "explanations": [
            (
                _label(entry["implementations"], names)
                if len(entry["implementations"]) < len(failures)
                else "",
                annotated(entry["explanation"]),
            )
            for entry in case["explanations"]
        ],
    }


def _tokens(marks: tuple[Mark, ...]) -> str:
    """Returns the tokens of the page's filters: a shade, a column, or a shade in a column."""
    worth = [
        (str(column), mark.code)
        for column, mark in enumerate(marks)
        if not is_plain(mark.code)
    ]
    tokens = {
        token for column, code in worth for token in (column, code, column + code)
    }
    return " ".join(sorted(tokens))


def _others(case: Json, results: list[Json], names: Names) -> list[tuple[str, str]]:
    """Returns the implementations that passed, and those that skipped the case with the reason."""
    members: dict[str, list[int]] = {}
    for index, implementations in _by_result(case).items():
        if not results[index]["steps"]:
            name = results[index]["shade"].name
            members.setdefault(name, []).extend(implementations)
    return [
        (name, _label(sorted(implementations), names))
        for name, implementations in members.items()
    ]


def _choice(case: Json, results: list[Json], names: Names) -> Json:
    made: dict[str, list[int]] = {}
    for index, implementations in _by_result(case).items():
        if choice := results[index]["choice"]:
            made.setdefault(choice, []).extend(implementations)
    return {
        **case,
        "made": [
            (choice, _label(sorted(implementations), names))
            for choice, implementations in sorted(made.items())
        ],
    }


def _parts(details: list[Json]) -> list[tuple[str, list[Json]]]:
    """Sorts worst first; sorting is stable, so the order of the corpus is kept within an outcome."""
    failed = [case for case in details if case["shade"].kind == "failed"]
    parts = (
        ("Failures", [case for case in failed if not case["known"]]),
        ("Known failures", [case for case in failed if case["known"]]),
        (
            "Refused, with another rule cited",
            [case for case in details if case["shade"].kind == "passed"],
        ),
    )
    return [
        (title, sorted(members, key=lambda case: ORDER[case["shade"].code]))
        for title, members in parts
        if members
    ]


def _quiet(cases: list[Json]) -> list[tuple[str, list[str]]]:
    """Returns the cases that passed in every run, by layout."""
    layouts: dict[str, list[str]] = {}
    for case in cases:
        if "explanations" not in case:
            layouts.setdefault(case["layout"], []).append(case["id"])
    return sorted(layouts.items())
