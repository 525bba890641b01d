"""Draws what the ranks of an MPI program did: a row for each, with its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench import units
from bench.axis import Linear, tick_text
from bench.canvas import SMALL, Canvas, Drawing, fitted, text_width
from bench.selection import Run
from common.outcomes import Json

ROW_HEIGHT = 18
BAR_HEIGHT = 10
# More rows are no picture any more: the slowest and the fastest are shown.
ROWS_MAX = 32
SIDES = ("low", "high")
EXPLAINED = "seconds until it had its bytes: median, 95 %"
EXPLAINED_OF_WRITES = "seconds until all bytes were durable: median, 95 %"


@dataclass(frozen=True)
class RankChart:
    title: str
    subtitle: str
    colour: str
    cluster: Json
    is_write: bool

    def reach(self) -> float:
        """Returns the end of the axis, in seconds."""
        return 1.05 * max(
            float(row["elapsed_s"]["high"] or row["elapsed_s"]["median"])
            for row in self.cluster["by_rank"]
        )

    def rows(self) -> tuple[list[Json], int]:
        """Returns the rows to show, and how many are left out between them."""
        rows: list[Json] = self.cluster["by_rank"]
        if len(rows) <= ROWS_MAX:
            return rows, 0
        by_time = sorted(rows, key=lambda row: row["elapsed_s"]["median"])
        half = ROWS_MAX // 2
        return by_time[:half] + by_time[-half:], len(rows) - ROWS_MAX


def of_result(result: Json, colour: str) -> RankChart | None:
    """Returns nothing for a result of one process, or one without samples."""
    cluster = result.get("cluster")
    if not cluster:
        return None
    count = cluster["ranks"]
    return RankChart(
        f"{cluster['pattern']}, {count} rank{'s' * (count != 1)}: {result['workload']}",
        f"{result['io']['actual']}, {units.setting(result)}",
        colour,
        cluster,
        result["op"] == "write",
    )


def draw(chart: RankChart, width: float, limit: float) -> Drawing:
    """limit: the end of the axis, common to charts that are compared."""
    canvas = Canvas(width)
    canvas.text(0, 16, fitted(chart.title, width, 14, True), size=14, bold=True)
    canvas.text(0, 33, fitted(chart.subtitle, width, SMALL), "soft", SMALL)
    rows, left_out = chart.rows()
    slow = {one["rank"] for one in chart.cluster["slow"] or []}
    labels = [f"{row['rank']}  {row['host']}" for row in rows]
    left = min(max(text_width(label, SMALL) for label in labels) + 8, width * 0.4)
    top = 46.0
    bottom = top + ROW_HEIGHT * len(rows)
    axis = Linear(left, width - 10, limit)
    for tick in axis.ticks(5):
        x = axis.at(tick)
        canvas.line([(x, top), (x, bottom)], "line", 1)
        canvas.text(x, bottom + 16, tick_text(tick), "soft", SMALL, "center")
    for number, (row, label) in enumerate(zip(rows, labels)):
        y = top + ROW_HEIGHT * number + (ROW_HEIGHT - BAR_HEIGHT) / 2
        elapsed = row["elapsed_s"]
        is_slow = row["rank"] in slow
        ink = "slower" if is_slow else "ink"
        canvas.text(0, y + 9, fitted(label, left - 8, SMALL), ink, SMALL)
        end = axis.at(elapsed["median"])
        colour = "slower" if is_slow else chart.colour
        canvas.rectangle(left, y, max(end - left, 1), BAR_HEIGHT, colour, 1)
        if elapsed["low"] is not None:
            ends = [(axis.at(elapsed[side]), y + BAR_HEIGHT / 2) for side in SIDES]
            canvas.line(ends, "ink", 1.5)
    explained = EXPLAINED_OF_WRITES if chart.is_write else EXPLAINED
    if left_out:
        explained = f"{explained}; {left_out} ranks between these are left out"
    canvas.text(0, bottom + 34, fitted(explained, width, SMALL), "soft", SMALL)
    return canvas.finished(bottom + 42, f"Time of each rank, {chart.title}")


def rows(run: Run) -> Iterator[Json]:
    """Yields the results of several ranks, for a table."""
    for result in run.document["results"]:
        if result.get("cluster"):
            yield result
