"""Draws the sustained phase of a task: the rate over time, and when throttling began."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from bench import units
from bench.axis import Linear, tick_text
from bench.canvas import SMALL, Canvas, Drawing, text_width, wrapped
from common.outcomes import Json
from tune import selection

PLOT_HEIGHT = 150
SECOND_NS = 1e9


@dataclass(frozen=True)
class Phase:
    title: str
    setting: str
    colour: str
    sustained: Json

    @property
    def bucket_s(self) -> float:
        return float(self.sustained["bucket_ns"]) / SECOND_NS

    def reach(self) -> float:
        return 1.1 * max((rate for rate in self.sustained["rates"] if rate), default=1)

    def seconds(self) -> float:
        return max(len(self.sustained["rates"]) * self.bucket_s, 1.0)

    def described(self) -> str:
        phase = self.sustained
        return f"{self.title}, sustained for {phase['duration_s']:g} s: {phase['verdict']}; {phase['text']}"


def of_task(task: Json, colours: dict[str, str]) -> Phase | None:
    """Returns nothing for a task that had no such phase."""
    one = selection.chosen(task, "recommended")
    if not task["sustained"]:
        return None
    setting = (
        f"{one['io']}, {selection.label(one)}" if one else "no recommended setting"
    )
    colour = colours[one["io"]] if one else "neutral"
    return Phase(selection.title(task), setting, colour, task["sustained"])


def draw(chart: Phase, width: float) -> Drawing:
    canvas = Canvas(width)
    canvas.text(0, 16, chart.title, size=14, bold=True)
    y = 16.0
    verdict, text = chart.sustained["verdict"], chart.sustained["text"]
    for part, colour in (
        (chart.setting, "soft"),
        (f"{verdict[:1].upper()}{verdict[1:]}: {text}.", "ink"),
    ):
        for line in wrapped(part, width, SMALL):
            y += 17
            canvas.text(0, y, line, colour, SMALL)
    began = chart.sustained["began_s"]
    top = y + (34 if began is not None else 18)
    bottom = top + PLOT_HEIGHT
    axis = Linear(bottom, top, chart.reach() / units.GB)
    ticks = axis.ticks(4)
    left = max(text_width(tick_text(tick), SMALL) for tick in ticks) + 8
    right = width - 10
    times = Linear(left, right, chart.seconds())
    if began is not None:
        x = times.at(min(began, chart.seconds()))
        canvas.rectangle(x, top, right - x, PLOT_HEIGHT, "slower", 0.12)
    for tick in ticks:
        canvas.line([(left, axis.at(tick)), (right, axis.at(tick))], "line", 1)
        canvas.text(
            left - 8, axis.at(tick) + 4, tick_text(tick), "soft", SMALL, "right"
        )
    for tick in times.ticks(6):
        canvas.text(
            times.at(tick), bottom + 18, tick_text(tick), "soft", SMALL, "center"
        )
    if began is not None:
        said = f"slower from {began:.3g} s"
        half = text_width(said, SMALL, True) / 2
        middle = min(max(x, left + half), right - half)
        canvas.line([(x, top - 4), (x, bottom)], "slower", 1.5, (4.0, 3.0))
        canvas.text(middle, top - 9, said, "slower", SMALL, "center", bold=True)
    _curve(canvas, chart, axis, times)
    canvas.text(0, bottom + 36, "GB/s over seconds", "soft", SMALL)
    return canvas.finished(bottom + 44, chart.described())


def _curve(canvas: Canvas, chart: Phase, axis: Linear, times: Linear) -> None:
    """Draws a line through the middles of the buckets, with gaps where nothing ran."""
    points = [
        (times.at((index + 0.5) * chart.bucket_s), rate)
        for index, rate in enumerate(chart.sustained["rates"])
    ]
    for known, group in groupby(points, key=lambda point: point[1] is not None):
        line = [(x, axis.at(rate / units.GB)) for x, rate in group if rate is not None]
        if known and len(line) > 1:
            canvas.line(line, chart.colour, 1.5)
        elif known:
            canvas.dot(*line[0], chart.colour, 2)
