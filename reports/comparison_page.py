"""Computes the content of the page of one comparison, so that its template only formats."""

from __future__ import annotations

import bench_palette as palette
import comparison_plot as plot
import comparison_rows as rows
from bench_figures import NARROW, WIDE, Figure
from outcomes import Json


def view(document: Json) -> tuple[Json, list[Figure]]:
    """Throws NotAResult, and what a missing member throws."""
    comparison = rows.of(document)
    figure = Figure(
        "comparison",
        plot.draw(comparison, NARROW),
        plot.draw(comparison, WIDE),
        "wide",
    )
    made = {
        "comparison": comparison,
        "shades": rows.SHADES,
        "plural": rows.plural,
        "figure": figure,
        "light": palette.variables(dark=False),
        "dark": palette.variables(dark=True),
        "colours": {},
    }
    return made, [figure]
