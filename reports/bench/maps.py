"""Draws the heat map of one path: throughput by block size and queue depth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench import palette, units
from bench.canvas import SMALL, Canvas, Drawing, text_width, wrapped
from bench.intervals import has_interval, overlap
from bench.selection import (
    Panel,
    Run,
    by_protection,
    fastest,
    headline,
    median_of,
    usual_memory,
)
from common.outcomes import Json

CELL_HEIGHT = 40
# The maximum width of a cell.
CELL_WIDTH_MAX = 130


@dataclass(frozen=True)
class Map:
    path: str
    panel: Panel
    workload: str
    subject: str
    # The best result by block size and depth.
    cells: dict[tuple[int, int], Json]

    @property
    def blocks(self) -> list[int]:
        return sorted({block for block, _ in self.cells})

    @property
    def depths(self) -> list[int]:
        return sorted({depth for _, depth in self.cells})

    def reach(self) -> float:
        return max(median_of(cell) for cell in self.cells.values())

    def floor(self) -> float:
        return min(median_of(cell) for cell in self.cells.values())


def of_path(run: Run, panel: Panel, workload: str, path: str) -> Map | None:
    """Returns the map with the most cells, of the codec or else of the raw path; None below two by two cells."""
    for subject in ("codec", "raw"):
        results = [
            result
            for result in run.of(panel, workload, subject)
            if result["io"]["actual"] == path
            and result["block_bytes"] is not None
            and result["queue_depth"] is not None
        ]
        maps = [
            Map(path, panel, workload, subject, _cells(members))
            for members in by_protection(usual_memory(results))
        ]
        whole = [one for one in maps if len(one.blocks) > 1 and len(one.depths) > 1]
        if whole:
            return max(whole, key=lambda one: len(one.cells))
    return None


def _cells(results: Iterable[Json]) -> dict[tuple[int, int], Json]:
    places: dict[tuple[int, int], list[Json]] = {}
    for result in results:
        place = (result["block_bytes"], result["queue_depth"])
        places.setdefault(place, []).append(result)
    return {place: fastest(members) for place, members in places.items()}


def draw(chart: Map, width: float, low: float, high: float) -> Drawing:
    """low, high: the values of the palest and the strongest shade, common to maps that are compared."""
    canvas = Canvas(width)
    first = next(iter(chart.cells.values()))
    title = f"{chart.path}: {chart.panel.title[0].lower()}{chart.panel.title[1:]}"
    canvas.text(0, 16, title, size=14, bold=True)
    what = f"{chart.workload}, {units.protection(first)}"
    if chart.subject == "raw":
        what += ", raw path without the codec"
    safe = " to fsync" if first["durable_rate"] else ""
    y = 16.0
    for line in wrapped(
        f"{what}: GB/s{safe} by block size and queue depth, the 95 % interval below. "
        "Outlined: the best, and the settings that tie with it.",
        width,
        SMALL,
    ):
        y += 17
        canvas.text(0, y, line, "soft", SMALL)
    blocks, depths = chart.blocks[::-1], chart.depths
    left = max(text_width(units.size(block), SMALL) for block in blocks) + 10
    cell_width = min((width - left) / len(depths), CELL_WIDTH_MAX)
    y += 24
    canvas.text(0, y, "depth", "soft", SMALL)
    for column, depth in enumerate(depths):
        x = left + (column + 0.5) * cell_width
        canvas.text(x, y, str(depth), "soft", SMALL, "center")
    y += 8
    best = fastest(chart.cells.values())
    for row, block in enumerate(blocks):
        top = y + row * CELL_HEIGHT
        canvas.text(0, top + CELL_HEIGHT / 2 + 4, units.size(block), "soft", SMALL)
        for column, depth in enumerate(depths):
            x = left + column * cell_width
            cell = chart.cells.get((block, depth))
            _cell(canvas, x, top, cell_width, cell, low, high, best)
    return canvas.finished(y + CELL_HEIGHT * len(blocks) + 8, title)


def _cell(
    canvas: Canvas,
    x: float,
    y: float,
    width: float,
    cell: Json | None,
    low: float,
    high: float,
    best: Json,
) -> None:
    middle = x + width / 2
    if cell is None:
        canvas.rectangle(x + 1, y + 1, width - 2, CELL_HEIGHT - 2, None, edge="line")
        text = "not measured"
        if text_width(text, SMALL) > width - 6:
            text = "–"
        canvas.text(middle, y + CELL_HEIGHT / 2 + 4, text, "soft", SMALL, "center")
        return
    rate = headline(cell)
    part = (rate["median"] - low) / (high - low) if high > low else 1
    shade = min(int(part * palette.MAP_SHADES), palette.MAP_SHADES - 1)
    ink = "map-ink-6" if shade >= palette.MAP_SHADES - 2 else "map-ink"
    same = cell is best or _tied(rate, headline(best))
    edge = "ink" if same else None
    canvas.rectangle(
        x + 2, y + 2, width - 4, CELL_HEIGHT - 4, f"map-{shade}", 1, edge, 1.6
    )
    canvas.text(middle, y + 18, units.rate(rate["median"]), ink, 12, "center", True)
    below = f"n {rate['samples']}"
    if has_interval(rate):
        below = f"{units.rate(rate['low'])}–{units.rate(rate['high'])}"
    canvas.text(middle, y + 32, below, ink, SMALL, "center")


def _tied(rate: Json, best: Json) -> bool:
    return has_interval(rate) and has_interval(best) and overlap(rate, best)
