"""All figures of the page, each in a narrow and a wide form, with axes common to all runs.

A slot is one figure for each run: runs side by side are compared by the lengths that their figures show.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from bench import bars, charts, curves, ladder, maps, palette, ranks, timeline, units
from bench.canvas import Drawing
from bench.selection import PANELS, PROTECTIONS, Panel, Run, protection_of
from common.outcomes import Json

# Widths in pixels: a phone, half a page, a full page.
NARROW, HALF, WIDE = 340, 476, 1012
Chart = TypeVar("Chart")


@dataclass(frozen=True)
class Figure:
    name: str
    small: Drawing
    large: Drawing
    # "wide" or "half": the width of the large form.
    place: str


@dataclass(frozen=True)
class Slot:
    # One per run; None if it has nothing to show.
    figures: list[Figure | None]
    empty: str = "Not measured."


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "none"


class Figures:
    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        self.colours = charts.path_colours(runs)
        self.names: set[str] = set()

    def named(self, name: str, run: Run) -> str:
        """Returns a unique file name."""
        wanted = slug(f"{name}-{run.letter}" if len(self.runs) > 1 else name)
        unique, number = wanted, 2
        while unique in self.names:
            unique, number = f"{wanted}-{number}", number + 1
        self.names.add(unique)
        return unique

    def slot(
        self,
        name: str,
        made: Sequence[Chart | None],
        draw: Callable[[Chart, float], Drawing],
        large: int,
    ) -> Slot:
        """large: the width of the large form if there is one run."""
        if len(self.runs) > 1:
            large = HALF
        place = "wide" if large == WIDE else "half"
        return Slot(
            [
                (
                    Figure(
                        self.named(name, run),
                        draw(chart, NARROW),
                        draw(chart, large),
                        place,
                    )
                    if chart
                    else None
                )
                for run, chart in zip(self.runs, made)
            ]
        )

    def of_bars(self, name: str, made: list[bars.BarChart]) -> Slot:
        limit = max(chart.reach() for chart in made)
        shown = [chart if chart.groups else None for chart in made]
        return self.slot(name, shown, partial(_draw_bars, limit=limit), WIDE)

    def measured(self, panel: Panel) -> list[str]:
        """Returns the workloads of a panel that any run measured."""
        found = [
            workload
            for run in self.runs
            for workload in run.workloads
            if run.of(panel, workload)
        ]
        return list(dict.fromkeys(found))

    def panels(self) -> Iterator[tuple[Panel, str]]:
        for panel in PANELS:
            for workload in self.measured(panel):
                yield panel, workload

    def throughput(self) -> list[Slot]:
        return [
            self.of_bars(
                f"throughput-{panel.name}-{workload}",
                [
                    charts.throughput(run, panel, workload, self.colours)
                    for run in self.runs
                ],
            )
            for panel, workload in self.panels()
        ]

    def cpu(self) -> list[Slot]:
        return [
            self.of_bars(
                f"cpu-{panel.name}-{workload}",
                [charts.cpu(run, panel, workload, self.colours) for run in self.runs],
            )
            for panel, workload in self.panels()
        ]

    def peers(self) -> list[Slot]:
        slots = []
        for name, in_tensors in (("peers", False), ("tensors", True)):
            made = [charts.peers(run, in_tensors, self.colours) for run in self.runs]
            if any(chart.groups for chart in made):
                slots.append(self.of_bars(name, made))
        return slots

    def maps(self) -> list[Slot]:
        """Returns the maps of a panel and workload, with a common scale of shades."""
        slots = []
        for panel, workload in self.panels():
            names = dict.fromkeys(path for run in self.runs for path in run.paths)
            found = {
                path: [maps.of_path(run, panel, workload, path) for run in self.runs]
                for path in names
            }
            whole = [chart for row in found.values() for chart in row if chart]
            if not whole:
                continue
            low = min(chart.floor() for chart in whole)
            high = max(chart.reach() for chart in whole)
            for path, row in found.items():
                if any(row):
                    name = f"map-{panel.name}-{path}-{workload}"
                    draw = partial(_draw_map, low=low, high=high)
                    slots.append(self.slot(name, row, draw, HALF))
        return slots

    def latency(self) -> list[Slot]:
        slots = []
        for panel, workload in self.panels():
            made = [self.curves(run, panel, workload) for run in self.runs]
            reaches = [chart.reach() for chart in made if chart]
            if not reaches:
                continue
            reach = min(low for low, _ in reaches), max(high for _, high in reaches)
            name = f"latency-{panel.name}-{workload}"
            draw = partial(_draw_curves, reach=reach)
            slots.append(self.slot(name, made, draw, HALF))
        return slots

    def curves(self, run: Run, panel: Panel, workload: str) -> curves.CurveChart | None:
        """Returns one curve per path, with the same hashes and encryption: the least work that has latencies."""
        timed = charts.timed(run, panel, workload)
        if not timed:
            return None
        least = min(map(protection_of, timed), key=PROTECTIONS.index)
        chosen = [result for result in timed if protection_of(result) == least]
        whose = units.protection(chosen[0])
        if chosen[0]["subject"] == "raw":
            whose = "the raw path without the codec"
        dashes = palette.dashes(run.document["io_paths"])
        return curves.CurveChart(
            f"Latency, {panel.title[0].lower()}{panel.title[1:]}: {workload}",
            f"Of one transfer, by percentile, logarithmic; {whose}, each path at its fastest setting",
            [
                curves.Curve(
                    result["io"]["actual"],
                    self.colours[result["io"]["actual"]],
                    dashes.get(result["io"]["actual"]),
                    result,
                )
                for result in chosen
            ],
            charts.absent_briefly(run, chosen),
        )

    def over_time(self) -> list[Slot]:
        """Returns a slot for each result of a long run, by id."""
        found: dict[str, list[timeline.TimeChart | None]] = {}
        for index, run in enumerate(self.runs):
            for result in run.document["results"]:
                colour = self.colours.get(result["io"]["actual"], "neutral")
                if chart := timeline.of_result(result, colour):
                    row = found.setdefault(result["id"], [None] * len(self.runs))
                    row[index] = chart
        slots = []
        for name, made in found.items():
            limit = max(chart.reach() for chart in made if chart)
            draw = partial(_draw_time, limit=limit)
            slots.append(self.slot(f"time-{name}", made, draw, HALF))
        return slots

    def of_ranks(self) -> list[Slot]:
        """Returns a slot for each pattern that ranks of a program read in, by id."""
        found: dict[str, list[ranks.RankChart | None]] = {}
        for index, run in enumerate(self.runs):
            for result in ranks.rows(run):
                colour = self.colours.get(result["io"]["actual"], "neutral")
                row = found.setdefault(result["id"], [None] * len(self.runs))
                row[index] = ranks.of_result(result, colour)
        limit = max(
            (chart.reach() for row in found.values() for chart in row if chart),
            default=1.0,
        )
        draw = partial(_draw_ranks, limit=limit)
        return [
            self.slot(f"ranks-{name}", row, draw, HALF) for name, row in found.items()
        ]

    def ladder(self) -> Slot | None:
        made = [self.rungs(run) for run in self.runs]
        reaches = [ladder.reach(rungs) for rungs in made if rungs]
        if not reaches:
            return None
        ends = min(low for low, _ in reaches), max(high for _, high in reaches)
        draw = partial(_draw_ladder, ends=ends)
        return self.slot("ladder", [rungs or None for rungs in made], draw, WIDE)

    def rungs(self, run: Run) -> list[ladder.Rung]:
        """Returns the fastest rate of each rung and cache state per number of threads."""
        caches = {result["id"]: result["cache"] for result in run.document["results"]}
        found: dict[tuple[str, str, int], Json] = {}
        for ceiling in run.document["ceilings"]:
            cache = units.CACHES[caches.get(ceiling["note"] or "", "none")]
            key = (ceiling["rung"], cache, ceiling["threads"])
            if key not in found or _median(ceiling) > _median(found[key]):
                found[key] = ceiling
        return [
            ladder.Rung(
                f"{name} {cache}".rstrip(),
                threads,
                ceiling["rate"],
                self.colours.get(name.partition("/")[2], "ink"),
            )
            for (name, cache, threads), ceiling in found.items()
            if ceiling["rate"]["median"] > 0
        ]


def _median(ceiling: Json) -> float:
    return float(ceiling["rate"]["median"])


def _draw_bars(chart: bars.BarChart, width: float, limit: float) -> Drawing:
    return bars.draw(chart, width, limit)


def _draw_map(chart: maps.Map, width: float, low: float, high: float) -> Drawing:
    return maps.draw(chart, width, low, high)


def _draw_curves(
    chart: curves.CurveChart, width: float, reach: tuple[float, float]
) -> Drawing:
    return curves.draw(chart, width, reach)


def _draw_ranks(chart: ranks.RankChart, width: float, limit: float) -> Drawing:
    return ranks.draw(chart, width, limit)


def _draw_time(chart: timeline.TimeChart, width: float, limit: float) -> Drawing:
    return timeline.draw(chart, width, limit)


def _draw_ladder(
    rungs: list[ladder.Rung], width: float, ends: tuple[float, float]
) -> Drawing:
    return ladder.draw(rungs, width, ends)
