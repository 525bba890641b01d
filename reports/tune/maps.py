"""Draws the heat map of one path in one task: throughput by block size and queue depth, ties outlined."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from bench import palette, units
from bench.canvas import SMALL, Canvas, Drawing, text_width, wrapped
from common.outcomes import Json
from tune import selection

CELL_HEIGHT = 54
# The maximum width of a cell.
CELL_WIDTH_MAX = 130


@dataclass(frozen=True)
class Cell:
    # The fastest setting with this block and depth; the others differ in threads and pages.
    setting: Json
    is_tie: bool
    letters: str


@dataclass(frozen=True)
class Map:
    path: str
    title: str
    cells: dict[tuple[int, int], Cell]

    @property
    def blocks(self) -> list[int]:
        return sorted({block for block, _ in self.cells})

    @property
    def depths(self) -> list[int]:
        return sorted({depth for _, depth in self.cells})

    def described(self) -> str:
        """Returns the map in words, for those who do not see it."""
        best = max(
            self.cells.values(), key=lambda cell: selection.median_of(cell.setting)
        )
        ties = [cell for cell in self.cells.values() if cell.is_tie]
        said = f"{len(ties)} of {len(self.cells)} tie with the best of the task"
        return (
            f"{self.title}, {self.path}, throughput by block size and queue depth: fastest at "
            f"{selection.shape(best.setting)} with {units.rate(selection.median_of(best.setting))} GB/s; {said}"
        )


def of_task(task: Json) -> tuple[list[Map], list[Json]]:
    """Returns one map per path with more than one cell, the path of the best setting first; and the other settings."""
    places: dict[str, dict[tuple[int, int], list[int]]] = {}
    settings = task["settings"]
    for index, one in selection.measured(task):
        place = (one["block_bytes"], one["queue_depth"])
        places.setdefault(one["io"], {}).setdefault(place, []).append(index)
    maps, alone = [], []
    for path, found in places.items():
        cells = {place: _cell(task, members) for place, members in found.items()}
        if len(cells) > 1:
            maps.append(Map(path, selection.title(task), cells))
        else:
            alone += [cell.setting for cell in cells.values()]
    maps.sort(key=lambda one: -reach(one))
    order = {id(one): at for at, one in enumerate(settings)}
    return maps, sorted(alone, key=lambda one: order[id(one)])


def _cell(task: Json, members: list[int]) -> Cell:
    settings = task["settings"]
    fastest = max(members, key=lambda index: selection.median_of(settings[index]))
    letters = [
        letter for index in members for letter, _ in selection.roles_of(task, index)
    ]
    return Cell(
        settings[fastest],
        any(settings[index]["is_tie"] for index in members),
        " ".join(letters),
    )


def reach(chart: Map) -> float:
    return max(selection.median_of(cell.setting) for cell in chart.cells.values())


def floor(chart: Map) -> float:
    return min(selection.median_of(cell.setting) for cell in chart.cells.values())


def draw(chart: Map, width: float, low: float, high: float) -> Drawing:
    """low, high: the values of the palest and the strongest shade, common to the maps of a task."""
    canvas = Canvas(width)
    canvas.text(0, 16, chart.path, size=14, bold=True)
    y = 16.0
    for line in wrapped(
        "GB/s by block size and queue depth, at the best threads and pages; the 95 % interval below.",
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
    for row, block in enumerate(blocks):
        top = y + row * CELL_HEIGHT
        canvas.text(0, top + CELL_HEIGHT / 2 + 4, units.size(block), "soft", SMALL)
        for column, depth in enumerate(depths):
            x = left + column * cell_width
            _draw_cell(
                canvas, x, top, cell_width, chart.cells.get((block, depth)), low, high
            )
    return canvas.finished(y + CELL_HEIGHT * len(blocks) + 8, chart.described())


def _draw_cell(
    canvas: Canvas,
    x: float,
    y: float,
    width: float,
    cell: Cell | None,
    low: float,
    high: float,
) -> None:
    middle = x + width / 2
    if cell is None:
        canvas.rectangle(x + 1, y + 1, width - 2, CELL_HEIGHT - 2, None, edge="line")
        canvas.text(middle, y + CELL_HEIGHT / 2 + 4, "–", "soft", SMALL, "center")
        return
    rate = cell.setting["rate"]
    part = (rate["median"] - low) / (high - low) if high > low else 1
    shade = min(int(part * palette.MAP_SHADES), palette.MAP_SHADES - 1)
    ink = "map-ink-6" if shade >= palette.MAP_SHADES - 2 else "map-ink"
    edge = "ink" if cell.is_tie else None
    canvas.rectangle(
        x + 2, y + 2, width - 4, CELL_HEIGHT - 4, f"map-{shade}", 1, edge, 2
    )
    canvas.text(middle, y + 18, units.rate(rate["median"]), ink, 12, "center", True)
    below = spread(rate, width - 6)
    canvas.text(middle, y + 32, below, ink, SMALL, "center")
    canvas.text(middle, y + 46, cell.letters, ink, SMALL, "center", True)


def spread(rate: Json, width: float) -> str:
    """Returns the interval in the longest form that fits: both ends, its half in percent rounded up, or nothing."""
    if rate["low"] is None or rate["high"] is None:
        forms = [f"n {rate['samples']}"]
    else:
        half = 50 * (rate["high"] - rate["low"]) / rate["median"]
        forms = [
            f"{units.rate(rate['low'])}–{units.rate(rate['high'])}",
            f"±{max(ceil(half), 1)}%",
        ]
    return next((form for form in forms if text_width(form, SMALL) <= width), "")
