"""Computes the content of the page of one result of tzmark tune, so that its template only formats."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from bench import tables as bench_tables
from bench import palette
from bench.canvas import Drawing
from bench.figures import HALF, NARROW, WIDE, Figure, slug
from common.outcomes import Json
from tune import costs, frontier, maps, phases, selection, tables

Chart = TypeVar("Chart")
# The palest shade of a map is at most this fraction of the fastest rate of the task.
SHADES_FROM = 0.75


def view(document: Json) -> tuple[Json, list[Figure]]:
    """Returns the variables of the template, and the figures to write as files."""
    colours = frontier.path_colours(document)
    figures: list[Figure] = []
    tasks = [_task(task, colours, figures) for task in document["tasks"]]
    model = document["model"]
    shown = {
        "document": document,
        "storage": document["machine"]["storage"],
        "command": shlex.join(document["command"]),
        "tasks": tasks,
        "costs": [
            _figure(figures, f"predictions-{chart.fit['task']}", chart, costs.draw)
            for chart in costs.of_model(model)
        ],
        "fits": tables.fits(model) if model else [],
        "titles": selection.TITLES,
        "exports": tables.exports(document),
        "has_profile": any(one["name"] == "tzmark" for one in document["exports"]),
        "advice": tables.advice(document),
        "probe": list(tables.storage_facts(document)),
        "facts": list(bench_tables.machine_facts(document)),
        "label": selection.label,
        "percent": tables.percent,
        "ratio_text": tables.ratio_text,
        "colours": colours,
        "light": palette.variables(dark=False),
        "dark": palette.variables(dark=True),
    }
    return shown, figures


def _task(task: Json, colours: dict[str, str], figures: list[Figure]) -> Json:
    name = task["task"]
    charts, alone = maps.of_task(task)
    high = max(map(maps.reach, charts), default=0.0)
    low = min(map(maps.floor, charts), default=0.0)
    # Small differences are to look small.
    low = min(low, SHADES_FROM * high)
    draw_map = partial(_draw_map, low=low, high=high)
    spread = frontier.of_task(task, colours)
    phase = phases.of_task(task, colours)
    return {
        "task": task,
        "title": selection.title(task),
        **{role: selection.chosen(task, role) for role, _, _ in selection.ROLES},
        "fastest": selection.fastest(task),
        "measured": len(selection.measured(task)),
        "failed": selection.failed(task),
        "verdict": tables.verdict(task),
        "default_state": tables.default_state(task),
        "confirmations": tables.confirmations(task),
        "ceilings": tables.ceilings(task),
        "settings": tables.settings(task),
        "maps": [
            _figure(figures, f"map-{name}-{chart.path}", chart, draw_map)
            for chart in charts
        ],
        "alone": alone,
        "frontier": (
            _figure(figures, f"frontier-{name}", spread, frontier.draw, WIDE)
            if spread
            else None
        ),
        "phase": (
            _figure(figures, f"sustained-{name}", phase, phases.draw) if phase else None
        ),
    }


def _figure(
    figures: list[Figure],
    name: str,
    chart: Chart,
    draw: Callable[[Chart, float], Drawing],
    large: int = HALF,
) -> Figure:
    """Adds a figure under a file name that no other has."""
    taken = {figure.name for figure in figures}
    unique, number = slug(name), 2
    while unique in taken:
        unique, number = f"{slug(name)}-{number}", number + 1
    place = "wide" if large == WIDE else "half"
    figures.append(Figure(unique, draw(chart, NARROW), draw(chart, large), place))
    return figures[-1]


def _draw_map(chart: maps.Map, width: float, low: float, high: float) -> Drawing:
    return maps.draw(chart, width, low, high)
