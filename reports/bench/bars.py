"""Draws bars in groups, with an interval on each, ticks for the reference of a group, and rungs as lines.

Two layouts: a wide one with labels and figures next to the bars, and a narrow one with both above each bar.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bench import units
from bench.axis import Linear, tick_text
from bench.canvas import SMALL, Canvas, Drawing, fitted, text_width, wrapped
from bench.flags import LEVEL_HEIGHT, placed
from bench.intervals import has_interval
from common.outcomes import Json

WIDE_MIN = 760


@dataclass(frozen=True)
class Row:
    label: str
    detail: str
    rate: Json
    colour: str
    alpha: float = 1
    # Printed after the figure; the notes of the chart explain it.
    mark: str = ""


@dataclass(frozen=True)
class Group:
    title: str
    # None if the rows have their own colours.
    colour: str | None
    rows: list[Row]
    # The reference of the rows, and its name; None if there is none.
    tick: float | None = None
    tick_name: str = ""


@dataclass(frozen=True)
class BarChart:
    title: str
    subtitle: str
    # The divisor of displayed values.
    scale: float
    groups: list[Group]
    rungs: list[tuple[str, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def reach(self) -> float:
        """Returns the end of the axis: the longest bar, or a rung slightly beyond it."""
        values = [
            value
            for group in self.groups
            for row in group.rows
            for value in (row.rate["median"], row.rate["high"] or 0, group.tick or 0)
        ]
        longest = max(values, default=0)
        near = [value for _, value in self.rungs if value <= 1.3 * longest]
        return 1.02 * max([longest, *near])


def draw(chart: BarChart, width: float, limit: float) -> Drawing:
    """limit: the end of the axis, common to charts that are compared."""
    painter = _Wide if width >= WIDE_MIN else _Narrow
    return painter(chart, width, limit or 1).drawing()


class _Painter:
    row_height: float
    bar_height: float
    tick_count: int

    def __init__(self, chart: BarChart, width: float, limit: float) -> None:
        self.chart = chart
        self.canvas = Canvas(width)
        self.width = width
        start, end = self.plot()
        self.axis = Linear(start, end, limit)
        self.y = 0.0

    def plot(self) -> tuple[float, float]:
        raise NotImplementedError

    def row(self, row: Row) -> float:
        """Draws a row at y, and returns the middle of its bar."""
        raise NotImplementedError

    def rung_lines(self, rungs: list[float], top: float, bars: list[float]) -> None:
        raise NotImplementedError

    def drawing(self) -> Drawing:
        self.heading()
        shown = [rung for rung in self.chart.rungs if rung[1] <= self.axis.limit]
        self.rung_names(shown)
        top = self.y
        bars: list[float] = []
        if self.chart.groups:
            height = sum(self.group_height(group) for group in self.chart.groups)
            self.grid(top, top + height)
        for group in self.chart.groups:
            bars += self.group(group)
        self.rung_lines([value for _, value in shown], top, bars)
        if self.chart.groups:
            self.ticks()
        self.footnotes([rung for rung in self.chart.rungs if rung not in shown])
        return self.canvas.finished(self.y + 8, self.chart.title)

    def heading(self) -> None:
        self.canvas.text(
            0, 16, fitted(self.chart.title, self.width, 14, True), size=14, bold=True
        )
        self.y = 16
        for line in wrapped(self.chart.subtitle, self.width, SMALL):
            self.y += 17
            self.canvas.text(0, self.y, line, "soft", SMALL)
        self.y += 12

    def rung_names(self, rungs: list[tuple[str, float]]) -> None:
        """Draws flags at the lines; a flag that would overlap another, or its line, moves one line up."""
        flags = placed(
            [
                (
                    f"{name} {units.number(value / self.chart.scale)}",
                    self.axis.at(value),
                )
                for name, value in sorted(rungs, key=lambda rung: rung[1])
            ],
            self.width,
        )
        levels = max((flag.level + 1 for flag in flags), default=0)
        bottom = self.y + LEVEL_HEIGHT * levels
        for flag in flags:
            baseline = bottom - LEVEL_HEIGHT * flag.level - 4
            self.canvas.line(
                [(flag.at, baseline - 9), (flag.at, bottom)], "soft", 1, (2, 2)
            )
            self.canvas.text(flag.start, baseline, flag.text, "soft", SMALL)
        self.y = bottom

    def grid(self, top: float, bottom: float) -> None:
        for value in self.axis.ticks(self.tick_count):
            x = self.axis.at(value)
            self.canvas.line([(x, top), (x, bottom)], "line", 1)

    def group_height(self, group: Group) -> float:
        return 26 + self.row_height * len(group.rows) + 6

    def group(self, group: Group) -> list[float]:
        start = self.y
        indent = 16 if group.colour else 0
        if group.colour:
            self.canvas.rectangle(0, self.y + 8, 10, 10, group.colour)
        self.canvas.text(indent, self.y + 18, group.title, size=12.5, bold=True)
        if group.tick is not None:
            text = f"{group.tick_name} {units.number(group.tick / self.chart.scale)}"
            x = indent + text_width(group.title, 12.5, True) + 14
            self.canvas.line([(x, self.y + 8), (x, self.y + 19)], "ink", 2)
            self.canvas.text(x + 6, self.y + 18, text, "soft", SMALL)
        self.y += 26
        bars = []
        for row in group.rows:
            middle = self.row(row)
            bars.append(middle)
            if group.tick is not None:
                reach = self.bar_height / 2 + 3
                x = self.axis.at(group.tick)
                self.halo(x, x, middle - reach, middle + reach, 2)
            self.y += self.row_height
        self.y = start + self.group_height(group)
        return bars

    def bar(self, row: Row, middle: float) -> None:
        end = self.axis.at(row.rate["median"])
        self.canvas.rectangle(
            self.axis.start,
            middle - self.bar_height / 2,
            end - self.axis.start,
            self.bar_height,
            row.colour,
            row.alpha,
        )
        if has_interval(row.rate):
            low, high = (self.axis.at(row.rate[side]) for side in ("low", "high"))
            reach = self.bar_height / 2 - 1.5
            self.halo(low, high, middle, middle, 1.2)
            for x in (low, high):
                self.halo(x, x, middle - reach, middle + reach, 1.2)

    def halo(
        self, x: float, x_end: float, y: float, y_end: float, width: float
    ) -> None:
        """Draws a line that is visible on any bar."""
        points = [(x, y), (x_end, y_end)]
        self.canvas.line(points, "paper", width + 1.2)
        self.canvas.line(points, "ink", width)

    def figure(self, row: Row) -> tuple[str, str]:
        return (
            units.number(row.rate["median"] / self.chart.scale) + row.mark,
            units.interval(row.rate, self.chart.scale),
        )

    def ticks(self) -> None:
        self.y += 12
        for value in self.axis.ticks(self.tick_count):
            x = self.axis.at(value)
            align = "center"
            if x - 12 < 0:
                align = "left"
            elif x + 12 > self.width:
                align = "right"
            self.canvas.text(
                x, self.y, tick_text(value / self.chart.scale), "soft", SMALL, align
            )
        self.y += 4

    def footnotes(self, beyond: list[tuple[str, float]]) -> None:
        notes = list(self.chart.notes)
        if beyond and self.chart.groups:
            names = ", ".join(
                f"{name} {units.number(value / self.chart.scale)}"
                for name, value in sorted(beyond, key=lambda rung: rung[1])
            )
            notes.insert(0, f"Beyond the axis: {names}.")
        self.y += 4
        for note in notes:
            for line in wrapped(note, self.width, SMALL):
                self.y += 16
                self.canvas.text(0, self.y, line, "soft", SMALL)
            self.y += 3


class _Wide(_Painter):
    row_height = 22.0
    bar_height = 12.0
    tick_count = 8

    def plot(self) -> tuple[float, float]:
        rows = [row for group in self.chart.groups for row in group.rows]
        labels = [
            16 + text_width(row.label) + 14 + text_width(row.detail, SMALL)
            for row in rows
        ]
        figures = [
            text_width(value, 12, True) + text_width(rest, SMALL)
            for value, rest in map(self.figure, rows)
        ]
        left = min(max(labels, default=0) + 12, 0.45 * self.width)
        return left, self.width - max(figures, default=0) - 24

    def row(self, row: Row) -> float:
        middle = self.y + self.row_height / 2
        base = middle + 4
        self.canvas.text(16, base, row.label)
        room = self.axis.start - 12 - 16 - text_width(row.label) - 10
        detail = fitted(row.detail, room, SMALL)
        self.canvas.text(self.axis.start - 12, base, detail, "soft", SMALL, "right")
        self.bar(row, middle)
        value, rest = self.figure(row)
        self.canvas.text(self.width, base, rest, "soft", SMALL, "right")
        x = self.width - text_width(rest, SMALL) - 8
        self.canvas.text(x, base, value, bold=True, align="right")
        return middle

    def rung_lines(self, rungs: list[float], top: float, bars: list[float]) -> None:
        for value in rungs:
            x = self.axis.at(value)
            self.canvas.line([(x, top), (x, self.y)], "soft", 1, (2, 2))


class _Narrow(_Painter):
    row_height = 31.0
    bar_height = 9.0
    tick_count = 5

    def plot(self) -> tuple[float, float]:
        return 0, self.width

    def grid(self, top: float, bottom: float) -> None:
        """Draws lines only behind the bars, not through the text above them."""

    def row(self, row: Row) -> float:
        middle = self.y + 21
        base = self.y + 11
        value, rest = self.figure(row)
        self.canvas.text(self.width, base, rest, "soft", SMALL, "right")
        x = self.width - text_width(rest, SMALL) - 6
        self.canvas.text(x, base, value, bold=True, align="right")
        room = x - text_width(value, 12, True) - 8
        label = fitted(row.label, room)
        self.canvas.text(0, base, label)
        room -= text_width(label) + 8
        if text_width(row.detail, SMALL) <= room:
            self.canvas.text(text_width(label) + 8, base, row.detail, "soft", SMALL)
        self.canvas.rectangle(0, middle - 4.5, self.width, 9, "line", 0.45)
        self.bar(row, middle)
        return middle

    def rung_lines(self, rungs: list[float], top: float, bars: list[float]) -> None:
        for value in rungs:
            x = self.axis.at(value)
            for middle in bars:
                self.canvas.line([(x, middle - 6), (x, middle + 6)], "soft", 1, (2, 1))
