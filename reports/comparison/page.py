"""Computes the content of the page of one comparison, so that its template only formats."""

from __future__ import annotations

from bench import palette
from bench.figures import NARROW, WIDE, Figure
from common.outcomes import Json
from comparison import plot, rows


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
