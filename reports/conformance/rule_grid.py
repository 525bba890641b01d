"""The grid of both pages: rules by section as rows, with equal rows merged.

A column is an implementation, or a layout. A cell counts the cases of a rule in a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from common.outcomes import BY_CODE, ORDER, Json, worst


# Replaces the text of a rule that the corpus cites but does not state.
UNSTATED = {
    "level": "",
    "binds": "",
    "text": "The corpus has no text for this rule.",
    "section": "Rules without a text",
}


@dataclass(frozen=True)
class Mark:
    """The outcome of a case in a column; no code if the case is not part of it."""

    code: str
    known: bool = False


NOWHERE = Mark("")


@dataclass(frozen=True)
class Item:
    """A case of the grid."""

    id: str
    rules: tuple[str, ...]
    # The row of the case within its rules: its layout, or empty if layouts are columns.
    layout: str
    marks: tuple[Mark, ...]
    # Whether the page has a section about it.
    detailed: bool
    # By column, the rules that a failure of the case shows to be broken (outcomes.broken_rules).
    broken: tuple[frozenset[str], ...]

    def within(self, rule: str) -> Item:
        """Returns the case as the row of a rule shows it: a failure that may be due to another rule is marked so."""
        marks = (
            (
                Mark("e", mark.known)
                if BY_CODE[mark.code or "n"].kind == "failed" and rule not in broken
                else mark
            )
            for mark, broken in zip(self.marks, self.broken, strict=True)
        )
        return replace(self, marks=tuple(marks))


@dataclass(frozen=True)
class Cell:
    code: str
    passed: int
    ran: int
    known: bool

    @property
    def picture(self) -> tuple[str, bool, bool]:
        """Returns the key of a cell: the worst outcome, and whether some or all cases failed."""
        return self.code, self.known, self.passed == 0


@dataclass(frozen=True)
class Group:
    """The cases of a row with equal marks; no marks if all are as expected."""

    marks: tuple[Mark, ...]
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Row:
    # Each rule with its layouts; empty for all layouts of its cases.
    rules: tuple[tuple[str, tuple[str, ...]], ...]
    items: tuple[Item, ...]
    cells: tuple[Cell, ...]
    groups: tuple[Group, ...]
    # Whether the previous row has the same rule.
    continued: bool = False

    @property
    def picture(self) -> tuple[tuple[str, bool, bool], ...]:
        return tuple(cell.picture for cell in self.cells)

    @property
    def whole_rules(self) -> list[str]:
        return [rule for rule, layouts in self.rules if not layouts]

    @property
    def partial_rules(self) -> list[str]:
        return [rule for rule, layouts in self.rules if layouts]

    @property
    def quiet(self) -> bool:
        """Returns whether nothing failed and nothing else has to be shown."""
        return all(is_plain(cell.code) for cell in self.cells)

    @property
    def vague(self) -> bool:
        """Returns whether nothing shows one of the rules to be broken."""
        return all(is_plain(cell.code) or cell.code == "e" for cell in self.cells)


@dataclass(frozen=True)
class Section:
    title: str
    rows: tuple[Row, ...]


def about_stated_rules(rules: dict[str, Json], cases: list[Json]) -> list[Json]:
    """Returns the cases without rules that the corpus does not state, unless a case has no other.

    Cases of safetensors also name rules of .tensors files, by which tzmark's writer refuses a specification.
    """
    return [
        {**case, "rules": [rule for rule in case["rules"] if rule in rules]}
        if any(rule in rules for rule in case["rules"])
        else case
        for case in cases
    ]


def complete(rules: dict[str, Json], cases: list[Json]) -> dict[str, Json]:
    """Returns the rules, with an entry for each that a case cites."""
    cited = {rule: UNSTATED for case in cases for rule in case["rules"]}
    return {**cited, **rules}


def is_plain(code: str) -> bool:
    """Returns whether a mark needs no attention."""
    return code in ("", "p", "i", "s", "n")


def count(marks: Iterable[Mark]) -> Cell:
    present = [mark for mark in marks if mark.code]
    kinds = [BY_CODE[mark.code].kind for mark in present]
    failures = [
        mark for mark, kind in zip(present, kinds, strict=True) if kind == "failed"
    ]
    passed = kinds.count("passed")
    return Cell(
        worst(mark.code for mark in present),
        passed,
        passed + len(failures),
        bool(failures) and all(mark.known for mark in failures),
    )


def section_order(title: str) -> list[str | int]:
    """Returns a sort key in which numbers compare as numbers: 2 before 10, and 10 before 10.1."""
    return [
        int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", title)
    ]


def sections(items: list[Item], rules: dict[str, Json]) -> list[Section]:
    """Returns the rows of the cited rules, merged, in the order of the document."""
    cited = sorted({rule for item in items for rule in item.rules})
    by_section: dict[str, list[Row]] = {}
    for rule in cited:
        rows = by_section.setdefault(rules[rule]["section"], [])
        rows += _rows_of(
            rule, [item.within(rule) for item in items if rule in item.rules]
        )
    return [
        Section(title, tuple(_continue(_fold_rules(by_section[title]))))
        for title in sorted(by_section, key=section_order)
    ]


def _rows_of(rule: str, items: list[Item]) -> list[Row]:
    """Returns one row per layout, with equal rows merged."""
    by_layout: dict[str, list[Item]] = {}
    for item in items:
        by_layout.setdefault(item.layout, []).append(item)
    by_picture: dict[object, list[str]] = {}
    for layout in sorted(by_layout):
        row = _row(((rule, (layout,)),), by_layout[layout])
        by_picture.setdefault(_likeness(row), []).append(layout)
    if len(by_picture) == 1:
        return [_row(((rule, ()),), items)]
    return [
        _row(
            ((rule, tuple(layouts)),),
            [item for item in items if item.layout in layouts],
        )
        for layouts in by_picture.values()
    ]


def _fold_rules(rows: list[Row]) -> list[Row]:
    """Merges equal rules of a section at the place of the first: broken ones, then vague ones, then quiet ones."""
    alike: dict[object, list[Row]] = {}
    for row in rows:
        # A row of some layouts is not merged, so that its rule stays together.
        in_part = row.rules if row.rules[0][1] and not row.quiet else ()
        alike.setdefault((_likeness(row), in_part), []).append(row)
    folded = [
        _row(
            tuple(rule for row in same for rule in row.rules),
            _once([item for row in same for item in row.items]),
        )
        for same in alike.values()
    ]
    # By rule, so that the lines of one stay together.
    broken = {rule for row in rows if not row.vague for rule, _ in row.rules}
    return sorted(
        folded,
        key=lambda row: (row.quiet, broken.isdisjoint(rule for rule, _ in row.rules)),
    )


def _once(items: list[Item]) -> list[Item]:
    """Returns each case once, as the rule shows it that it shows to be broken."""
    worst_first = sorted(
        items, key=lambda item: [ORDER[mark.code or "n"] for mark in item.marks]
    )
    kept: dict[str, Item] = {}
    for item in worst_first:
        kept.setdefault(item.id, item)
    return [kept[id] for id in dict.fromkeys(item.id for item in items)]


def _likeness(row: Row) -> object:
    """Returns a key that is equal for rows to merge: if nothing failed, skipped cases do not matter."""
    return None if row.quiet else row.picture


def _continue(rows: list[Row]) -> list[Row]:
    return [
        replace(row, continued=_only_rule(row) == _only_rule(before))
        if before and _only_rule(row)
        else row
        for before, row in zip([None, *rows], rows)
    ]


def _only_rule(row: Row) -> str | None:
    """Returns the rule of a row with one rule that is not quiet."""
    return row.rules[0][0] if len(row.rules) == 1 and not row.quiet else None


def _row(rules: tuple[tuple[str, tuple[str, ...]], ...], items: list[Item]) -> Row:
    columns = zip(*(item.marks for item in items), strict=True)
    return Row(
        rules,
        tuple(items),
        tuple(count(column) for column in columns),
        tuple(_groups(items)),
    )


def _groups(items: list[Item]) -> list[Group]:
    groups: dict[tuple[Mark, ...], list[Item]] = {}
    for item in items:
        quiet = all(is_plain(mark.code) for mark in item.marks)
        groups.setdefault(() if quiet else item.marks, []).append(item)
    quiet_items = groups.pop((), [])
    found = [Group(marks, tuple(same)) for marks, same in groups.items()]
    return found + ([Group((), tuple(quiet_items))] if quiet_items else [])
