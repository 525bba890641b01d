"""Draws a comparison as a forest plot: for each row the ratio of the rates with its interval, on a logarithmic axis.

A verdict has a shape, a colour and words, so that it reads in black and white.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from statistics import median

from bench.axis import Between, Logarithmic, tick_text
from bench.bars import WIDE_MIN
from bench.canvas import SMALL, Canvas, Drawing, fitted, text_width, wrapped
from comparison.rows import (
    NOT_MEASURED,
    QUIET,
    REGRESSION,
    Comparison,
    Estimate,
    Row,
    interval,
    plural,
    ratio,
)

# More rows do not fit into a picture; all of them are in the table of the page.
ROWS_MAX = 400
NAME_MAX, NAME_LINES_MAX = 240, 4
LINE_HEIGHT, ROW_GAP = 15, 9
NAME_WIDTH, FIGURES_WIDTH, VERDICT_WIDTH, GAP = 300, 176, 136, 14
# Height of the axis in a narrow figure, below the text of its row.
STRIP_HEIGHT = 20
SIZE = 4.5
# Ends of an axis reach at least this far from 1, and at most to a factor of a thousand.
REACH_MIN, REACH_MAX = log(1.01), log(1000.0)
# Intervals that are this many times as long as half of the others are cut.
LONG = 3
# Above this factor between its ends, an axis has powers of ten and their multiples.
LINEAR_MAX = 4


@dataclass(frozen=True)
class Mark:
    shape: str
    colour: str


MARKS = {
    REGRESSION: Mark("left", "slower"),
    "faster": Mark("right", "faster"),
    "machine slower": Mark("dot", "neutral"),
    "machine faster": Mark("dot", "neutral"),
    "no difference found": Mark("dot", "neutral"),
    "same": Mark("dot", "neutral"),
    "below the threshold": Mark("ring", "soft"),
    "too few runs": Mark("diamond", "gold-0"),
    "undecided": Mark("diamond", "gold-0"),
    NOT_MEASURED: Mark("diamond", "gold-0"),
}
FOUND = (REGRESSION, "faster")
MACHINE = Mark("square", "blue-0")
CROSS = Mark("cross", "slower")


def draw(comparison: Comparison, width: float) -> Drawing:
    rows, note = _chosen(comparison.rows)
    wide = width >= WIDE_MIN
    canvas = Canvas(width)
    count = plural(len(comparison.rows), "row")
    title = f"{comparison.command}: {comparison.said()}; {count}"
    y = 16.0
    # Bold letters are wider than those that are measured.
    for at, line in enumerate(wrapped(title, 0.88 * width, 14)):
        y = 16.0 + 18 * at
        canvas.text(0, y, line, size=14, bold=True)
    end = exp(_reach(comparison, rows))
    lead = (
        f"New rate over old on a logarithmic axis, with {comparison.interval}. "
        f"Shaded: {comparison.zone}."
    )
    if comparison.effect is not None:
        lead += f" Dashed: the slow-down to find, {100 * comparison.effect:.3g} %."
    if any(_is_cut(row, end) for row in rows):
        lead += " Arrows: the interval goes on beyond the axis."
    for line in (*wrapped(lead, width, SMALL), *wrapped(note, width, SMALL)):
        y += LINE_HEIGHT
        canvas.text(0, y + 2, line, "soft", SMALL)
    y = _legend(canvas, rows, y + 24)
    left, right = (
        (NAME_WIDTH + GAP, width - FIGURES_WIDTH - VERDICT_WIDTH - 2 * GAP)
        if wide
        else (8.0, width - 8)
    )
    axis = Logarithmic(left, right, 1 / end, end)
    canvas.text(left, y + 8, "← slower", "soft", SMALL)
    canvas.text(right, y + 8, "faster →", "soft", SMALL, "right")
    _ticks(canvas, axis, y + 24)
    top = y + 32
    draws: list[Callable[[], None]] = []
    y = top
    for number, row in enumerate(rows):
        y = (_wide_row if wide else _narrow_row)(canvas, row, axis, y, number, draws)
    if wide:
        _lines(canvas, comparison, axis, top, y)
    else:
        for strip in _strips(rows, width, top):
            _lines(canvas, comparison, axis, *strip)
    # Above the lines of the axis.
    for each in draws:
        each()
    _ticks(canvas, axis, y + 16)
    return canvas.finished(y + 26, title)


def _chosen(rows: tuple[Row, ...]) -> tuple[list[Row], str]:
    """Returns the rows to draw, in their order, and what is left out."""
    if len(rows) <= ROWS_MAX:
        return list(rows), ""
    order = sorted(range(len(rows)), key=lambda at: rows[at].verdict in QUIET)
    kept = sorted(order[:ROWS_MAX])
    return (
        [rows[at] for at in kept],
        f"{len(rows) - ROWS_MAX} rows are not drawn; rows without a difference are left out first.",
    )


def _distance(estimate: Estimate) -> float:
    """Returns the distance of the farther end from 1, as a logarithm."""
    ends = estimate.ends() or (estimate.ratio, estimate.ratio)
    return max(abs(log(end)) for end in ends)


def _reach(comparison: Comparison, rows: list[Row]) -> float:
    """Returns the distance of the ends of the axis from 1: all ratios are within, and all but a few long intervals."""
    shown = [
        estimate
        for row in rows
        for estimate in (row.estimate, row.machine)
        if estimate is not None
    ]
    wanted = [REACH_MIN, *(-log(1 - row.zone) for row in rows)]
    wanted += [abs(log(estimate.ratio)) for estimate in shown]
    if comparison.effect is not None:
        wanted.append(-log(1 - comparison.effect))
    # What is found is drawn as a whole.
    wanted += [
        _distance(row.estimate) for row in rows if row.estimate and row.verdict in FOUND
    ]
    wanted += [_distance(row.machine) for row in rows if row.machine]
    if shown:
        distances = list(map(_distance, shown))
        wanted.append(min(max(distances), LONG * median(distances)))
    return min(1.08 * max(wanted), REACH_MAX)


def _is_cut(row: Row, end: float) -> bool:
    return any(
        estimate is not None and _distance(estimate) > log(end)
        for estimate in (row.estimate, row.machine)
    )


def _ticks(canvas: Canvas, axis: Logarithmic, y: float) -> None:
    is_linear = axis.high < LINEAR_MAX * axis.low
    values = (
        Between(axis.start, axis.end, axis.low, axis.high).ticks(5)
        if is_linear
        else axis.ticks()
    )
    if 1 not in values:
        values = [1.0, *values]
    free: list[tuple[float, float]] = []
    # The tick of no change first: others give way.
    for value in sorted(values, key=lambda value: abs(log(value))):
        text = tick_text(round(value, 9))
        half = text_width(text, SMALL) / 2 + 4
        x = axis.at(value)
        if any(x - half < end and x + half > start for start, end in free):
            continue
        free.append((x - half, x + half))
        canvas.text(x, y, text, "soft", SMALL, "center")


def _lines(
    canvas: Canvas, comparison: Comparison, axis: Logarithmic, top: float, bottom: float
) -> None:
    canvas.line([(axis.at(1), top), (axis.at(1), bottom)], "soft", 1)
    if comparison.effect is not None:
        x = axis.at(1 - comparison.effect)
        canvas.line([(x, top), (x, bottom)], "soft", 1, (4.0, 3.0))


def _legend(canvas: Canvas, rows: list[Row], y: float) -> float:
    """Draws the shapes of the verdicts that occur; returns the last baseline."""
    verdicts = {row.verdict for row in rows if row.estimate}
    said: dict[Mark, list[str]] = {}
    for verdict, mark in MARKS.items():
        if verdict in verdicts and not verdict.startswith("machine"):
            said.setdefault(mark, []).append(verdict)
    items = [(mark, " or ".join(names)) for mark, names in said.items()]
    if any(row.machine for row in rows):
        items.append((MACHINE, "rate, changed by the machine"))
    if any(row.estimate is None for row in rows):
        items.append((CROSS, "no ratio"))
    x = 0.0
    for mark, text in items:
        taken = 18 + text_width(text, SMALL) + 18
        if x and x + taken - 18 > canvas.width:
            x, y = 0, y + LINE_HEIGHT + 2
        _shape(canvas, mark, x + 8, y - 4)
        canvas.text(x + 18, y, text, "soft", SMALL)
        x += taken
    return y + 14


def _name(row: Row, width: float) -> list[str]:
    """Returns the lines of the name; a long one loses its middle, because its ends differ from others."""
    name = row.name
    if len(name) > NAME_MAX:
        name = f"{name[: NAME_MAX // 2]}…{name[-NAME_MAX // 2 :]}"
    lines: list[str] = []
    for word in name.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, SMALL) <= width:
            lines[-1] = longer
            continue
        while text_width(word, SMALL) > width:
            count = len(fitted(word, width, SMALL)) - 1
            lines.append(word[: max(count, 1)])
            word = word[max(count, 1) :]
        if word:
            lines.append(word)
    if len(lines) > NAME_LINES_MAX:
        lines = [*lines[: NAME_LINES_MAX - 2], "…", lines[-1]]
    return lines or ["(no name)"]


def _words(row: Row, width: float) -> list[tuple[str, str, bool]]:
    """Returns the lines of the verdict: text, colour, whether bold."""
    is_regression = row.verdict == REGRESSION
    colour = "slower" if is_regression or row.verdict == "missing" else "ink"
    lines = [(row.verdict, colour, is_regression)]
    for detail in row.details:
        parts = wrapped(detail, width, SMALL)
        if len(parts) > 2:
            parts = [parts[0], fitted(f"{parts[1]}…", width, SMALL)]
        lines += [(part, "soft", False) for part in parts]
    return lines


def _numbers(row: Row) -> tuple[str, str]:
    if row.estimate is None:
        return "", ""
    known = row.estimate.ends() is not None
    return ratio(row.estimate), interval(row.estimate) if known else "no interval"


def _wide_row(
    canvas: Canvas,
    row: Row,
    axis: Logarithmic,
    y: float,
    number: int,
    draws: list[Callable[[], None]],
) -> float:
    """Draws text and zone, and leaves the marks for later; returns the lower end."""
    name, words = _name(row, NAME_WIDTH), _words(row, VERDICT_WIDTH)
    bottom = y + max(len(name), len(words)) * LINE_HEIGHT + ROW_GAP
    if number:
        canvas.line([(0, y), (canvas.width, y)], "line", 0.6)
    _zone(canvas, row, axis, y, bottom)
    for at, line in enumerate(name):
        canvas.text(0, y + 15 + at * LINE_HEIGHT, line, "ink", SMALL)
    value, rest = _numbers(row)
    x = axis.end + GAP
    canvas.text(x, y + 15, value, "ink", SMALL, bold=True)
    canvas.text(x + FIGURES_WIDTH, y + 15, rest, "soft", SMALL, "right")
    for at, (text, colour, bold) in enumerate(words):
        canvas.text(
            x + FIGURES_WIDTH + GAP,
            y + 15 + at * LINE_HEIGHT,
            text,
            colour,
            SMALL,
            bold=bold,
        )
    draws.append(lambda: _marks(canvas, row, axis, (y + bottom) / 2))
    return bottom


def _narrow_row(
    canvas: Canvas,
    row: Row,
    axis: Logarithmic,
    y: float,
    number: int,
    draws: list[Callable[[], None]],
) -> float:
    """The same, with the text above the axis."""
    strip = _strip(row, canvas.width, y)
    if number:
        canvas.line([(0, y), (canvas.width, y)], "line", 0.6)
    _zone(canvas, row, axis, *strip)
    base = y
    for line in _name(row, canvas.width):
        base += LINE_HEIGHT
        canvas.text(0, base, line, "ink", SMALL)
    value, rest = _numbers(row)
    for at, (text, colour, bold) in enumerate(_words(row, canvas.width)):
        base += LINE_HEIGHT
        canvas.text(0, base, text, colour, SMALL, bold=bold)
        if at == 0 and value:
            canvas.text(canvas.width, base, rest, "soft", SMALL, "right")
            x = canvas.width - text_width(rest, SMALL) - 8
            canvas.text(x, base, value, "ink", SMALL, "right", bold=True)
    draws.append(lambda: _marks(canvas, row, axis, sum(strip) / 2))
    return strip[1] + ROW_GAP


def _strip(row: Row, width: float, y: float) -> tuple[float, float]:
    lines = len(_name(row, width)) + len(_words(row, width))
    top = y + lines * LINE_HEIGHT + 6
    return top, top + STRIP_HEIGHT


def _strips(rows: list[Row], width: float, y: float) -> list[tuple[float, float]]:
    found = []
    for row in rows:
        found.append(_strip(row, width, y))
        y = found[-1][1] + ROW_GAP
    return found


def _zone(
    canvas: Canvas, row: Row, axis: Logarithmic, top: float, bottom: float
) -> None:
    start, end = (
        axis.at(min(max(edge, axis.low), axis.high))
        for edge in (1 - row.zone, 1 / (1 - row.zone))
    )
    canvas.rectangle(start, top, end - start, bottom - top, "line")


def _marks(canvas: Canvas, row: Row, axis: Logarithmic, y: float) -> None:
    if row.estimate is None:
        _shape(canvas, CROSS, axis.at(1), y)
        return
    if row.machine is None:
        _estimate(canvas, MARKS[row.verdict], row.estimate, axis, y)
    elif row.machine == row.estimate:  # the raw path itself
        _estimate(canvas, MACHINE, row.machine, axis, y)
    else:
        _estimate(canvas, MARKS[row.verdict], row.estimate, axis, y - 5)
        _estimate(canvas, MACHINE, row.machine, axis, y + 5)


def _estimate(
    canvas: Canvas, mark: Mark, estimate: Estimate, axis: Logarithmic, y: float
) -> None:
    """Draws the interval and the mark; an arrow is an end beyond the axis."""
    if ends := estimate.ends():
        inside = [min(max(end, axis.low), axis.high) for end in ends]
        xs = [axis.at(end) for end in inside]
        canvas.line([(x, y) for x in xs], mark.colour, 1.6)
        for x, end, shown, step in zip(xs, ends, inside, (-5, 5)):
            if end == shown:
                canvas.line([(x, y - 4), (x, y + 4)], mark.colour, 1.6)
            else:
                tip = [(x + step, y), (x, y - 4), (x, y + 4)]
                canvas.polygon(tip, mark.colour)
    x = axis.at(min(max(estimate.ratio, axis.low), axis.high))
    _shape(canvas, mark, x, y)


def _shape(canvas: Canvas, mark: Mark, x: float, y: float) -> None:
    size = SIZE
    if mark.shape in ("dot", "ring"):
        canvas.dot(x, y, mark.colour, size)
        if mark.shape == "ring":
            canvas.dot(x, y, "paper", size - 1.8)
    elif mark.shape == "cross":
        for step in (-size, size):
            canvas.line([(x - size, y - step), (x + size, y + step)], mark.colour, 2)
    else:
        shapes: dict[str, list[tuple[float, float]]] = {
            "left": [(-size - 2, 0), (size, -size - 1), (size, size + 1)],
            "right": [(size + 2, 0), (-size, -size - 1), (-size, size + 1)],
            "square": [(-4, -4), (4, -4), (4, 4), (-4, 4)],
            "diamond": [(-6, 0), (0, -6), (6, 0), (0, 6)],
        }
        corners = [(x + dx, y + dy) for dx, dy in shapes[mark.shape]]
        canvas.polygon(corners, mark.colour, hollow=mark.shape == "diamond")
