"""Computes the content of the page for one result or several, so that its template only formats."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from bench import palette, ranks, tables
from bench.figures import Figure, Figures, Slot, slug
from bench.selection import PANELS, Answer, Panel, Run, answers, contradicted, proof
from common.outcomes import Json

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Section:
    title: str
    lead: str
    slots: list[Slot]


def named(documents: list[Json]) -> list[Run]:
    """Returns the runs in the given order, named by directory and, if several are equal, by start time."""
    alone = len(documents) == 1
    places = [_place(document) for document in documents]
    return [
        Run(
            document,
            "" if alone else letter_of(index),
            (
                place
                if places.count(place) == 1
                else f"{place}, {document['started_at']}"
            ),
        )
        for index, (document, place) in enumerate(zip(documents, places))
    ]


def letter_of(index: int) -> str:
    number = index // len(LETTERS)
    return LETTERS[index % len(LETTERS)] + (str(number) if number else "")


def _place(document: Json) -> str:
    storage = document["machine"]["storage"]
    on = f" on {storage['device']}" if storage["device"] else ""
    file_system = storage["file_system"] or "unknown file system"
    return f"{storage['directory']}, {file_system}{on}"


def view(documents: list[Json]) -> tuple[Json, list[Figure]]:
    """Returns the variables of the template, and the figures to write as files."""
    runs = named(documents)
    figures = Figures(runs)
    throughput = Section(
        "Throughput by path",
        "A read ends with every tensor in newly allocated memory. Each path is shown with the block size, depth and "
        "threads that were best for it; a bar is the median, and the line on it the 95 % interval.",
        figures.throughput(),
    )
    ladder = figures.ladder()
    sections = {
        "throughput": throughput,
        "time": Section(
            "Throughput over time",
            "The rate of each second while an operation ran, for writes until the fsync. The second half is steady if "
            "the rates of its five parts differ by at most 20 %, the line through them changes by at most 10 %, and "
            "the seconds show no significant trend of 3 % or more; it is undecided if the interval of the change "
            "includes more than 10 %.",
            figures.over_time(),
        ),
        "ranks": Section(
            "Ranks of a program",
            "What counts is the time until the last rank has its bytes, or all that the ranks wrote is durable, from a "
            "barrier that all have left. Which rank "
            "has which part changes from round to round, so a rank is called slow only if it is so with every part; "
            "ranks that exchange what they read, or write together, wait for each other, and none is called slow.",
            figures.of_ranks(),
        ),
        "maps": Section(
            "Block size and depth",
            "A stronger shade is faster; all maps of the same operation share one scale.",
            figures.maps(),
        ),
        "latency": Section(
            "Latency",
            "Time of one transfer, from submission to completion.",
            figures.latency(),
        ),
        "cpu": Section(
            "CPU time",
            "CPU time per GB, whether or not a caller waits for it.",
            figures.cpu(),
        ),
        "peers": Section(
            "Comparison with peers",
            "Other implementations on the same tensors in the same run. The checks judge the ratios, with intervals.",
            figures.peers(),
        ),
        "ladder": Section(
            "Ceiling ladder",
            "The rate of each step alone, measured in this run. Nothing that uses a step can be faster than it.",
            [ladder] if ladder else [],
        ),
    }
    facts = tables.facts(runs)
    shown = {
        "runs": [_run(run) for run in runs],
        "several": len(runs) > 1,
        "sections": sections,
        "checks": tables.checks(runs),
        "verdicts": list(tables.VERDICTS.values()),
        "facts": facts,
        "differences": [row["name"] for row in facts if row["differs"]],
        "of_ranks": all(list(ranks.rows(run)) for run in runs),
        "colours": figures.colours,
        "light": palette.variables(dark=False),
        "dark": palette.variables(dark=True),
    }
    drawn = [
        figure
        for section in sections.values()
        for slot in section.slots
        for figure in slot.figures
        if figure
    ]
    return shown, drawn


def _run(run: Run) -> Json:
    places = _anchors(run)
    return {
        "letter": run.letter,
        "name": run.name,
        "document": run.document,
        "command": shlex.join(run.document["command"]),
        "answers": list(_answers(run)),
        "tally": tables.tally(run),
        "ceilings": tables.ceilings(run),
        "latencies": tables.latencies(run),
        "proofs": tables.proofs(run),
        "contradicted": contradicted(run),
        "unmeasured": run.unmeasured,
        "ranks": list(ranks.rows(run)),
        "peers": tables.peers(run),
        "anchors": places,
        "results": [
            {
                "result": result,
                "anchor": places[result["id"]],
                "samples": tables.sample_rows(result),
                "proof": proof(result),
                "shade": tables.PROOFS[proof(result).state],
            }
            for result in run.document["results"]
        ],
    }


def _anchors(run: Run) -> dict[str, str]:
    """Returns the anchors of results by id."""
    prefix = f"result-{run.letter.lower()}-" if run.letter else "result-"
    return {
        result["id"]: f"{prefix}{index}-{slug(result['id'])}"
        for index, result in enumerate(run.document["results"])
    }


def _answers(run: Run) -> Iterator[Json]:
    """Returns the representative workload of each panel: the first that was measured."""
    # A run over a file on a server measures nothing else, nor does one of several ranks.
    alone = any(
        result["cache"] == "server" or result.get("cluster")
        for result in run.document["results"]
    )
    for panel in PANELS:
        workload = run.main_workload(panel)
        if workload is None and (alone or not panel.always):
            continue
        found = answers(run, panel, workload) if workload else []
        yield {
            "panel": panel,
            "title": panel.title,
            "workload": workload,
            "best": found[0] if found else None,
            "others": found[1:],
            "why_not": "" if found else _why_not(panel, workload),
        }


def _why_not(panel: Panel, workload: str | None) -> str:
    if workload is None:
        return "Not measured."
    return "No answer: the samples of every result contradict its stated cache state."


__all__ = ["Answer", "named", "view"]
