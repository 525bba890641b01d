"""Draws throughput against bytes in flight: one dot per setting, and the frontier, the most that each memory buys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log2

from bench import palette, units
from bench.axis import Linear, tick_text
from bench.canvas import SMALL, Canvas, Drawing, text_width, wrapped
from bench.flags import LEVEL_HEIGHT, placed
from bench.intervals import has_interval
from common.outcomes import Json
from tune import selection

PLOT_HEIGHT = 270
# The share of the best rate at which bytes in flight are compared.
SHARE = 0.95


@dataclass(frozen=True)
class Frontier:
    title: str
    settings: list[Json]
    line: list[Json]
    # Of the best setting; None if it is not known.
    peak: float | None
    # Settings with the names of their roles.
    named: list[tuple[Json, str]]
    colours: dict[str, str]

    def described(self) -> str:
        steps = ", ".join(
            f"{units.size(one['bytes_in_flight_bytes'])} {units.rate(selection.median_of(one))}"
            for one in self.line
        )
        return f"{self.title}: the most GB/s for the bytes in flight: {steps}"


def of_task(task: Json, colours: dict[str, str]) -> Frontier | None:
    settings = [one for _, one in selection.measured(task)]
    if not settings:
        return None
    best = selection.chosen(task, "best")
    roles: dict[int, list[str]] = {}
    for role, _, name in selection.ROLES:
        if task[role] is not None and task["settings"][task[role]]["rate"]:
            roles.setdefault(task[role], []).append(name)
    return Frontier(
        selection.title(task),
        settings,
        selection.frontier(task),
        selection.median_of(best) if best and best["rate"] else None,
        [(task["settings"][index], ", ".join(names)) for index, names in roles.items()],
        colours,
    )


@dataclass(frozen=True)
class Memory:
    """An axis of sizes, by powers of two."""

    start: float
    end: float
    low: float
    high: float

    def at(self, value: float) -> float:
        part = (log2(value) - log2(self.low)) / (log2(self.high) - log2(self.low))
        return self.start + (self.end - self.start) * part

    def ticks(self, gap: float) -> Iterator[int]:
        """Yields powers of four whose names do not meet."""
        free = self.start - gap
        power = 1
        while power <= self.high:
            if power >= self.low and self.at(power) >= free:
                half = text_width(units.size(power), SMALL) / 2
                if (
                    self.start <= self.at(power) - half
                    and self.at(power) + half <= self.end
                ):
                    yield power
                    free = self.at(power) + 2 * half + gap
            power *= 4


def draw(chart: Frontier, width: float) -> Drawing:
    canvas = Canvas(width)
    canvas.text(0, 16, chart.title, size=14, bold=True)
    y = 16.0
    for line in wrapped(
        "GB/s by bytes in flight (block × depth, logarithmic). Large: settings with a 95 % interval; small: dropped "
        "early. The line is the frontier.",
        width,
        SMALL,
    ):
        y += 17
        canvas.text(0, y, line, "soft", SMALL)
    y = _legend(canvas, chart, y + 20, width)
    highest = max(map(_upper, chart.settings))
    limit = 1.04 * highest / units.GB
    ticks = Linear(PLOT_HEIGHT, 0, limit).ticks(5)
    left = max(text_width(tick_text(tick), SMALL) for tick in ticks) + 8
    right = width - 6
    sizes = [one["bytes_in_flight_bytes"] for one in chart.settings]
    memory = Memory(left + 10, right - 10, min(sizes) / 1.3, max(sizes) * 1.3)
    flags = placed(
        [(name, memory.at(one["bytes_in_flight_bytes"])) for one, name in chart.named],
        width,
    )
    levels = max((flag.level + 1 for flag in flags), default=0)
    top = y + 12 + LEVEL_HEIGHT * levels
    bottom = top + PLOT_HEIGHT
    axis = Linear(bottom, top, limit)
    for tick in ticks:
        canvas.line([(left, axis.at(tick)), (right, axis.at(tick))], "line", 1)
        canvas.text(
            left - 8, axis.at(tick) + 4, tick_text(tick), "soft", SMALL, "right"
        )
    for size in memory.ticks(12):
        x = memory.at(size)
        canvas.line([(x, bottom), (x, bottom + 4)], "soft", 1)
        canvas.text(x, bottom + 18, units.size(size), "soft", SMALL, "center")
    if chart.peak is not None:
        height = axis.at(SHARE * chart.peak / units.GB)
        canvas.line([(left, height), (right, height)], "soft", 1, (3.0, 3.0))
    _steps(canvas, chart, axis, memory, right)
    _dots(canvas, chart, axis, memory)
    if chart.peak is not None:
        # Below the line, where few dots are, and on a ground of its own.
        said = "95 % of the best"
        wide = text_width(said, SMALL)
        canvas.rectangle(left + 2, height + 3, wide + 4, 15, "paper", 0.8)
        canvas.text(left + 4, height + 14, said, "soft", SMALL)
    tops = {name: axis.at(_upper(one) / units.GB) for one, name in chart.named}
    for flag in flags:
        baseline = top - LEVEL_HEIGHT * flag.level - 4
        canvas.line(
            [(flag.at, baseline - 9), (flag.at, tops[flag.text] - 3)],
            "ink",
            0.8,
            (1.5, 2.0),
        )
        canvas.text(flag.start, baseline, flag.text, "ink", SMALL)
    return canvas.finished(bottom + 26, chart.described())


def _legend(canvas: Canvas, chart: Frontier, y: float, width: float) -> float:
    x = 0.0
    for path in dict.fromkeys(one["io"] for one in chart.settings):
        wide = 16 + text_width(path, SMALL)
        if x and x + wide > width:
            x, y = 0.0, y + 17
        canvas.dot(x + 5, y - 4, chart.colours[path], 4.5)
        canvas.text(x + 14, y, path, "ink", SMALL)
        x += wide + 14
    return y


def _steps(
    canvas: Canvas, chart: Frontier, axis: Linear, memory: Memory, right: float
) -> None:
    points: list[tuple[float, float]] = []
    for one in chart.line:
        x = memory.at(one["bytes_in_flight_bytes"])
        if points:
            points.append((x, points[-1][1]))
        points.append((x, axis.at(selection.median_of(one) / units.GB)))
    if points:
        points.append((right, points[-1][1]))
        canvas.line(points, "neutral", 2)


def _dots(canvas: Canvas, chart: Frontier, axis: Linear, memory: Memory) -> None:
    # Those that count come last, on top.
    for one in sorted(chart.settings, key=lambda one: has_interval(one["rate"])):
        colour = chart.colours[one["io"]]
        x = memory.at(one["bytes_in_flight_bytes"])
        y = axis.at(selection.median_of(one) / units.GB)
        if not has_interval(one["rate"]):
            canvas.dot(x, y, colour, 2.6)
            continue
        ends = [axis.at(one["rate"][side] / units.GB) for side in ("low", "high")]
        canvas.line([(x, ends[0]), (x, ends[1])], "ink", 1.2)
        for end in ends:
            canvas.line([(x - 3, end), (x + 3, end)], "ink", 1.2)
        canvas.dot(x, y, colour, 4.5)


def _upper(one: Json) -> float:
    """Returns the upper end of the interval, or else the median."""
    high = one["rate"]["high"]
    return selection.median_of(one) if high is None else float(high)


def path_colours(document: Json) -> dict[str, str]:
    tasks = document["tasks"]
    names = dict.fromkeys(one["io"] for task in tasks for one in task["settings"])
    colours = palette.of_paths(document["io_paths"], names)
    return {name: colour for name, colour in colours.items() if name in names}
