"""Draws the ceiling ladder: the rates of single steps in one unit, fastest first."""

from __future__ import annotations

from dataclasses import dataclass

from bench import units
from bench.axis import Logarithmic, tick_text
from bench.bars import WIDE_MIN
from bench.canvas import SMALL, Canvas, Drawing, fitted, text_width
from bench.intervals import has_interval
from common.outcomes import Json

ROW_HEIGHT = 24
NARROW_ROW_HEIGHT = 36


@dataclass(frozen=True)
class Rung:
    name: str
    threads: int
    rate: Json
    colour: str


def reach(rungs: list[Rung]) -> tuple[float, float]:
    """REQUIRES: there is one, and none is zero."""
    values = [
        rung.rate[side] or rung.rate["median"]
        for rung in rungs
        for side in ("low", "high")
    ]
    return 0.8 * min(values), 1.25 * max(values)


def draw(rungs: list[Rung], width: float, ends: tuple[float, float]) -> Drawing:
    """ends: of the axis, common to ladders that are compared."""
    title = "Ceiling ladder"
    canvas = Canvas(width)
    canvas.text(0, 16, title, size=14, bold=True)
    canvas.text(
        0, 33, "GB/s on a logarithmic axis, median and 95 % interval", "soft", SMALL
    )
    wide = width >= WIDE_MIN
    left = max(text_width(_name(rung)) for rung in rungs) + 20 if wide else 6
    figures = [
        text_width(units.rate(rung.rate["median"]), 12, True)
        + text_width(units.interval(rung.rate), SMALL)
        for rung in rungs
    ]
    axis = Logarithmic(left, width - (max(figures) + 26 if wide else 6), *ends)
    top, height = 46.0, ROW_HEIGHT if wide else NARROW_ROW_HEIGHT
    bottom = top + height * len(rungs)
    for tick in axis.ticks():
        x = axis.at(tick)
        if wide:
            canvas.line([(x, top), (x, bottom)], "line", 1)
        canvas.text(x, bottom + 16, tick_text(tick / units.GB), "soft", SMALL, "center")
    ordered = sorted(rungs, key=lambda rung: -float(rung.rate["median"]))
    for index, rung in enumerate(ordered):
        _row(canvas, rung, axis, top + index * height, wide)
    return canvas.finished(bottom + 24, title)


def _row(canvas: Canvas, rung: Rung, axis: Logarithmic, y: float, wide: bool) -> None:
    middle = y + 12 if wide else y + 25
    base = y + 16 if wide else y + 13
    start, end = (axis.start, axis.end) if wide else (0, canvas.width)
    canvas.line([(start, middle), (end, middle)], "line", 1)
    median = axis.at(rung.rate["median"])
    if has_interval(rung.rate):
        low, high = (axis.at(rung.rate[side]) for side in ("low", "high"))
        canvas.whisker(low, high, middle, 4)
    canvas.dot(median, middle, rung.colour, 4.5)
    rest = units.interval(rung.rate)
    canvas.text(canvas.width, base, rest, "soft", SMALL, "right")
    x = canvas.width - text_width(rest, SMALL) - 7
    value = units.rate(rung.rate["median"])
    canvas.text(x, base, value, bold=True, align="right")
    room = (axis.start if wide else x - text_width(value, 12, True)) - 10
    canvas.text(0, base, fitted(_name(rung), room))


def _name(rung: Rung) -> str:
    return f"{rung.name}, {rung.threads} thread{'s' if rung.threads != 1 else ''}"
