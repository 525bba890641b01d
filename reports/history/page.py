"""Renders the analysis of a history as one self-contained HTML page with a plot per series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import report
from bench import palette
from bench.axis import Between, apart, tick_text
from bench.canvas import SMALL, Canvas, Drawing, text_width
from bench.figures import NARROW, WIDE
from common.outcomes import Json
from history import table

PANEL_HEIGHT = 150
# Above a panel: its title, and the labels of change points below that.
TITLE_HEIGHT, LABEL_HEIGHT = 26, 18
GAP = 14
DATE_GAP = 18
SHADES = {"slower": "w", "faster": "p"}


@dataclass(frozen=True)
class Line:
    """Dots of one measure over the results. Outliers are drawn as rings."""

    label: str
    colour: str
    indexes: list[int]
    values: list[float]
    outliers: frozenset[int]  # positions


@dataclass(frozen=True)
class Panel:
    title: str
    lines: list[Line]
    # Ranges of results and their mean.
    segments: list[tuple[int, int, float]]
    # Change points: between which results, what is written there, colour.
    changes: list[tuple[int, int, str, str]]

    def reach(self) -> tuple[float, float]:
        """Returns the ends of the axis. Outliers do not stretch it; they are drawn at its edge."""
        values = [
            value
            for line in self.lines
            for at, value in enumerate(line.values)
            if at not in line.outliers
        ]
        low, high = min(values), max(values)
        margin = 0.12 * (high - low) or 0.05 * abs(high) or 1
        return low - margin, high + margin


@dataclass(frozen=True)
class Plot:
    title: str
    panels: list[Panel]
    dates: list[tuple[int, str]]  # of all results of the environment


def plot(series: Json, document: Json, machine: list[Json]) -> Plot:
    """machine: the series of raw paths, whose change points are drawn with the rates."""
    points = series["points"]
    indexes = [point["result"] for point in points]
    outliers = frozenset(at for at, point in enumerate(points) if point["outlier"])
    subject = series["subject"]
    colour = "blue-0"
    is_ratio = series["reference"] is not None
    dates = [
        (index, result["started_at"][:10])
        for index, result in enumerate(document["results"])
        if result["environment"] == series["environment"]
    ]
    scale = 1 if is_ratio else 1e9
    values = [point["value"] / scale for point in points]
    title = (
        f"{series['measure']}" if is_ratio else f"{subject}, {series['measure']}, GB/s"
    )
    judged = Panel(
        title,
        [Line(subject, colour, indexes, values, outliers)],
        _segments(series, scale),
        [_mark(change) for change in series["changes"]],
    )
    if not is_ratio:
        return Plot(series["id"], [judged], dates)
    raw = [
        each
        for each in machine
        if each["id"] == series["reference"]
        and each["environment"] == series["environment"]
    ]
    rates = Panel(
        f"{series['measure'].removesuffix(' over raw path')}, GB/s",
        [
            Line("raw path", "neutral", indexes, _rates(points, "raw_rate"), outliers),
            Line(subject, colour, indexes, _rates(points, "rate"), outliers),
        ],
        [],
        [_mark(change) for each in raw for change in each["changes"]],
    )
    return Plot(series["id"], [judged, rates], dates)


def _rates(points: list[Json], member: str) -> list[float]:
    return [point[member] / 1e9 for point in points]


def _segments(series: Json, scale: float) -> list[tuple[int, int, float]]:
    starts = [change["after"] for change in series["changes"]]
    groups: list[list[Json]] = [[]]
    for point in series["points"]:
        if point["result"] in starts:
            groups.append([])
        groups[-1].append(point)
    return [
        (
            group[0]["result"],
            group[-1]["result"],
            sum(point["clipped"] for point in group) / len(group) / scale,
        )
        for group in groups
        if group
    ]


def _mark(change: Json) -> tuple[int, int, str, str]:
    is_code = change["whose"] == "code"
    colour = change["direction"] if is_code else "soft"
    said = f"{table.percent(change['size'])} {change['whose']}"
    return change["before"], change["after"], said, colour


def draw(plot: Plot, width: float) -> Drawing:
    canvas = Canvas(width)
    above = TITLE_HEIGHT + LABEL_HEIGHT
    axes = [
        Between(top + PANEL_HEIGHT, top, *panel.reach())
        for number, panel in enumerate(plot.panels)
        for top in [(number + 1) * above + number * (PANEL_HEIGHT + GAP)]
    ]
    names = [[tick_text(tick) for tick in axis.ticks(4)] for axis in axes]
    left = max(text_width(name, SMALL) for each in names for name in each) + 10
    right = width - 8
    indexes = [index for index, _ in plot.dates]
    # The results of one environment follow each other without gaps for those of others.
    rank = {index: at for at, index in enumerate(indexes)}
    columns = Between(left + 8, right - 8, 0, max(len(indexes) - 1, 1))
    for panel, axis in zip(plot.panels, axes):
        _panel(canvas, panel, axis, columns, rank, left, right)
    bottom = axes[-1].start
    free = left
    for at, (_, date) in enumerate(plot.dates):
        half = text_width(date, SMALL) / 2
        x = min(max(columns.at(at), left + half), right - half)
        if x - half >= free:
            canvas.text(x, bottom + 18, date, "soft", SMALL, "center")
            free = x + half + DATE_GAP
    return canvas.finished(bottom + 26, plot.title)


def _panel(
    canvas: Canvas,
    panel: Panel,
    axis: Between,
    columns: Between,
    rank: dict[int, int],
    left: float,
    right: float,
) -> None:
    canvas.text(0, axis.end - LABEL_HEIGHT - 10, panel.title, "ink", SMALL, bold=True)
    if len(panel.lines) > 1:
        x = right
        for line in panel.lines:
            x -= text_width(line.label, SMALL)
            canvas.text(x, axis.end - LABEL_HEIGHT - 10, line.label, "soft", SMALL)
            x -= 10
            canvas.dot(x, axis.end - LABEL_HEIGHT - 14, line.colour, 3.5)
            x -= 14
    for tick in axis.ticks(4):
        canvas.line([(left, axis.at(tick)), (right, axis.at(tick))], "line", 1)
        canvas.text(
            left - 8, axis.at(tick) + 4, tick_text(tick), "soft", SMALL, "right"
        )
    for line in panel.lines:
        for at, (index, value) in enumerate(zip(line.indexes, line.values)):
            x = columns.at(rank[index])
            y = min(max(axis.at(value), axis.end + 4), axis.start - 4)
            is_outlier = at in line.outliers
            canvas.dot(x, y, line.colour, 4.5 if is_outlier else 3.5)
            if is_outlier:
                canvas.dot(x, y, "paper", 2.5)
    for first, last, mean in panel.segments:
        xs = (columns.at(rank[first]) - 4, columns.at(rank[last]) + 4)
        canvas.line([(x, axis.at(mean)) for x in xs], "ink", 1.5)
    _changes(canvas, panel.changes, axis, columns, rank, left, right)


def _changes(
    canvas: Canvas,
    changes: Sequence[tuple[int, int, str, str]],
    axis: Between,
    columns: Between,
    rank: dict[int, int],
    left: float,
    right: float,
) -> None:
    drawn = [
        ((columns.at(rank[before]) + columns.at(rank[after])) / 2, said, colour)
        for before, after, said, colour in changes
    ]
    widest = max((text_width(said, SMALL, True) for _, said, _ in drawn), default=0)
    middles = apart(
        [x for x, _, _ in drawn],
        widest + 8,
        left + widest / 2,
        right - widest / 2,
    )
    for (x, said, colour), middle in zip(drawn, middles):
        canvas.line([(x, axis.end), (x, axis.start)], colour, 1.5, (4.0, 3.0))
        canvas.text(middle, axis.end - 6, said, colour, SMALL, "center", bold=True)


def page(document: Json, name: str) -> str:
    """Throws ImportError."""
    machine = [each for each in document["series"] if each["subject"] == "raw"]
    shown = []
    for series in document["series"]:
        drawings = []
        if series["points"]:
            made = plot(series, document, machine)
            # Series without a change have the small form only: a page may have hundreds of them.
            widths = (NARROW, WIDE) if series["changes"] else (NARROW,)
            drawings = [draw(made, width) for width in widths]
        shown.append({"series": series, "drawings": drawings})
    # Series with regressions first, then those with other changes.
    shown.sort(key=lambda one: (-one["series"]["regression"], -_weight(one["series"])))
    rendered: str = (
        report.templates()
        .get_template("history.html.j2")
        .render(
            name=name,
            document=document,
            # Those of the machine last: there is one for each series that it slows down.
            changes=sorted(
                table.changes(document), key=lambda pair: pair[0]["whose"] == "machine"
            ),
            shown=shown,
            place=table.place,
            when=lambda result: result["started_at"][:16].replace("T", " "),
            percent=table.percent,
            interval=table.interval,
            whose=table.WHOSE,
            shades=SHADES,
            outliers=sum(p["outlier"] for s in document["series"] for p in s["points"]),
            light=palette.variables(dark=False),
            dark=palette.variables(dark=True),
            colours={},
        )
    )
    return rendered


def _weight(series: Json) -> int:
    of_code = any(change["whose"] != "machine" for change in series["changes"])
    return 2 if of_code else 1 if series["changes"] else 0
