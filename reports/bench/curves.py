"""Draws the latency of single transfers: percentiles on the x axis, one labelled line per path."""

from __future__ import annotations

from dataclasses import dataclass

from bench import units
from bench.axis import Logarithmic, apart
from bench.canvas import SMALL, Canvas, Drawing, text_width, wrapped
from common.outcomes import Json

PERCENTILES = (
    ("p50", "p50"),
    ("p90", "p90"),
    ("p99", "p99"),
    ("p99_9", "p99.9"),
)
PLOT_HEIGHT = 250
LABEL_HEIGHT = 15


@dataclass(frozen=True)
class Curve:
    path: str
    colour: str
    dashes: tuple[float, float] | None
    result: Json  # with latency_ns

    def value(self, percentile: str) -> float:
        return max(float(self.result["latency_ns"][percentile]), 1)

    def known(self) -> list[str]:
        """Returns the percentiles that it has: those with transfers enough beyond them. REQUIRES: at least one."""
        latency = self.result["latency_ns"]
        return [name for name, _ in PERCENTILES if latency[name] is not None]


@dataclass(frozen=True)
class CurveChart:
    title: str
    subtitle: str
    curves: list[Curve]
    notes: list[str]

    def reach(self) -> tuple[float, float]:
        values = [curve.value(name) for curve in self.curves for name in curve.known()]
        return min(values) * 0.85, max(values) * 1.18


def draw(chart: CurveChart, width: float, reach: tuple[float, float]) -> Drawing:
    """reach: the ends of the axis, common to charts that are compared."""
    canvas = Canvas(width)
    canvas.text(0, 16, chart.title, size=14, bold=True)
    y = 16.0
    for line in wrapped(chart.subtitle, width, SMALL):
        y += 17
        canvas.text(0, y, line, "soft", SMALL)
    top = y + 22
    bottom = top + PLOT_HEIGHT
    axis = Logarithmic(bottom, top, *reach)
    ticks = axis.ticks()
    left = max((text_width(_tick(tick), SMALL) for tick in ticks), default=0) + 8
    names = max(text_width(_name(curve), SMALL) for curve in chart.curves)
    right = width - names - 14
    for tick in ticks:
        canvas.line([(left, axis.at(tick)), (right, axis.at(tick))], "line", 1)
        canvas.text(left - 8, axis.at(tick) + 4, _tick(tick), "soft", SMALL, "right")
    columns = [
        left + (right - left) * (0.06 + 0.92 * index / (len(PERCENTILES) - 1))
        for index in range(len(PERCENTILES))
    ]
    for x, (_, name) in zip(columns, PERCENTILES):
        canvas.text(x, bottom + 18, name, "soft", SMALL, "center")
    _curves(canvas, chart.curves, axis, columns)
    y = bottom + 22
    for note in chart.notes:
        for line in wrapped(note, width, SMALL):
            y += 16
            canvas.text(0, y, line, "soft", SMALL)
        y += 3
    return canvas.finished(y + 8, chart.title)


def _curves(
    canvas: Canvas, curves: list[Curve], axis: Logarithmic, columns: list[float]
) -> None:
    ends = [axis.at(curve.value(curve.known()[-1])) for curve in curves]
    labels = apart(ends, LABEL_HEIGHT, axis.end + 4, axis.start - 2)
    for curve, end, label in zip(curves, ends, labels):
        points = [
            (x, axis.at(curve.value(name))) for x, name in zip(columns, curve.known())
        ]
        canvas.line(points, curve.colour, 2, curve.dashes)
        for x, y in points:
            canvas.dot(x, y, curve.colour)
        last = points[-1][0]
        canvas.line([(last + 5, end), (columns[-1] + 11, label)], curve.colour)
        canvas.text(columns[-1] + 14, label + 4, _name(curve), "ink", SMALL)


def _tick(value_ns: float) -> str:
    """Returns a round time without insignificant digits."""
    figure, unit = units.duration(value_ns).split(" ")
    return f"{float(figure.replace(',', '')):g} {unit}"


def _name(curve: Curve) -> str:
    return f"{curve.path} {units.duration(curve.value(curve.known()[-1]))}"
