"""Draws throughput over time: the rate of each second, with the second half of the run, which the test looks at."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from bench import units
from bench.axis import Linear, tick_text
from bench.canvas import SMALL, Canvas, Drawing, fitted, text_width, wrapped
from common.outcomes import Json

PLOT_HEIGHT = 150
SECOND_NS = 1e9


@dataclass(frozen=True)
class TimeChart:
    title: str
    subtitle: str
    colour: str
    steady: Json

    def reach(self) -> float:
        return 1.1 * max((rate for rate in self.rates() if rate), default=1.0)

    def rates(self) -> list[float | None]:
        found: list[float | None] = self.steady["series"]["rates"]
        return found

    def seconds(self) -> float:
        """Returns the end of the last bucket."""
        bucket = self.steady["series"]["bucket_ns"] / SECOND_NS
        return max(float(len(self.rates()) * bucket), 1.0)


def of_result(result: Json, colour: str) -> TimeChart | None:
    """Returns nothing for a result that ran in rounds, or that could not be measured."""
    if not result.get("steady"):
        return None
    whose = result["peer"]["name"] if result["peer"] else result["subject"]
    what = f"{whose} {result['op']}, {result['io']['actual']}"
    return TimeChart(
        f"{what}: {result['workload']}",
        f"{units.protection(result)}, {units.setting(result)}",
        colour,
        result["steady"],
    )


def verdict(steady: Json) -> str:
    """Returns the verdict and, if there is a reason, why."""
    why = f": {steady['why']}" if steady["why"] else ""
    return f"{steady['verdict'][0].upper()}{steady['verdict'][1:]}{why}."


def change(steady: Json) -> str:
    """Returns the change over the second half with its interval."""
    window = steady["window"]
    if window["low"] is None or window["high"] is None:
        return f"{100 * window['change']:+.1f} %, no interval"
    low, high = 100 * window["low"], 100 * window["high"]
    return f"{100 * window['change']:+.1f} % [{low:+.1f}, {high:+.1f}]"


def figures(steady: Json) -> str:
    """Returns the rates of the whole and of the second half, in GB/s."""
    half = steady["window"]["rate"]
    known = "not measured" if half is None else f"{units.rate(half)} GB/s"
    return f"whole run {units.rate(steady['rate'])} GB/s, second half {known}"


def draw(chart: TimeChart, width: float, limit: float) -> Drawing:
    """limit: the end of the axis of rates, common to charts that are compared."""
    canvas = Canvas(width)
    canvas.text(0, 16, fitted(chart.title, width, 14, True), size=14, bold=True)
    y = 16.0
    said = f"{figures(chart.steady)}; change in it {change(chart.steady)}"
    for part, colour in (
        (chart.subtitle, "soft"),
        (verdict(chart.steady), "ink"),
        (f"{said[0].upper()}{said[1:]}", "soft"),
    ):
        for line in wrapped(part, width, SMALL):
            y += 17
            canvas.text(0, y, line, colour, SMALL)
    top = y + 18
    bottom = top + PLOT_HEIGHT
    axis = Linear(bottom, top, limit / units.GB)
    ticks = axis.ticks(4)
    left = max(text_width(tick_text(tick), SMALL) for tick in ticks) + 8
    times = Linear(left, width - 10, chart.seconds())
    window = chart.steady["window"]
    start, end = (times.at(window[side] / SECOND_NS) for side in ("from_ns", "to_ns"))
    canvas.rectangle(start, top, end - start, PLOT_HEIGHT, "line", 0.6)
    for tick in ticks:
        canvas.line([(left, axis.at(tick)), (width - 10, axis.at(tick))], "line", 1)
        canvas.text(
            left - 8, axis.at(tick) + 4, tick_text(tick), "soft", SMALL, "right"
        )
    for tick in times.ticks(6):
        canvas.text(
            times.at(tick), bottom + 18, tick_text(tick), "soft", SMALL, "center"
        )
    if window["rate"] is not None:
        height = axis.at(window["rate"] / units.GB)
        canvas.line([(start, height), (end, height)], "ink", 1, (4.0, 3.0))
    _curve(canvas, chart, axis, times)
    canvas.text(
        0,
        bottom + 36,
        "GB/s over seconds; shaded and dashed: second half",
        "soft",
        SMALL,
    )
    return canvas.finished(bottom + 44, f"Throughput over time, {chart.title}")


def _curve(canvas: Canvas, chart: TimeChart, axis: Linear, times: Linear) -> None:
    """Draws a line through the middles of the buckets, with gaps where nothing ran."""
    bucket = chart.steady["series"]["bucket_ns"] / SECOND_NS
    points = [
        (times.at((index + 0.5) * bucket), rate)
        for index, rate in enumerate(chart.rates())
    ]
    for known, group in groupby(points, key=lambda point: point[1] is not None):
        line = [(x, axis.at(rate / units.GB)) for x, rate in group if rate is not None]
        if known and len(line) > 1:
            canvas.line(line, chart.colour, 1.5)
        elif known:
            canvas.dot(*line[0], chart.colour, 2)
