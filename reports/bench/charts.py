"""Converts a result to bar charts: throughput by path, CPU seconds per GB, and comparison with peers."""

from __future__ import annotations

from collections.abc import Iterable

from bench import palette, units
from bench.bars import BarChart, Group, Row
from bench.intervals import median_interval
from bench.selection import (
    PROTECTIONS,
    Panel,
    Run,
    best_of_paths,
    by_protection,
    counts_tensors,
    fastest,
    headline,
    proof,
    protection_of,
    usual_memory,
)
from common.outcomes import Json

# The strength of a path's colour for each kind of protection: more work is paler.
STRENGTH = dict(zip(PROTECTIONS, (1.0, 0.75, 0.62, 0.5, 0.85, 0.62, 0.5, 0.4)))
BEFORE_FSYNC = 0.4
UNPROVED = "†"
UNPROVED_NOTE = f"{UNPROVED} The samples contradict the stated cache state."


def rungs(run: Run, panel: Panel) -> list[tuple[str, float]]:
    """Returns the rungs that can limit a panel, each at its fastest with the most threads."""
    found: dict[str, Json] = {}
    for ceiling in run.document["ceilings"]:
        rung = ceiling["rung"]
        if rung not in panel.rungs:
            continue
        if rung not in found or _rank(ceiling) > _rank(found[rung]):
            found[rung] = ceiling
    return [(rung, ceiling["rate"]["median"]) for rung, ceiling in found.items()]


def _rank(ceiling: Json) -> tuple[int, float]:
    return ceiling["threads"], ceiling["rate"]["median"]


def raw_rate(run: Run, panel: Panel, workload: str, path: str) -> float | None:
    """Returns the raw results: the same system calls without the codec, in the same cache state."""
    raw = [
        result
        for result in run.of(panel, workload, "raw")
        if result["io"]["actual"] == path
    ]
    return float(headline(fastest(raw))["median"]) if raw else None


def shown(run: Run, panel: Panel, workload: str) -> list[Json]:
    """The best of each path for each kind of protection: what the bars, curves and tables of a panel show.

    Paths come in the order of what they do with the least protection; within one the least protection comes first.
    """
    apart = [
        best_of_paths(members)
        for members in by_protection(usual_memory(run.of(panel, workload)))
    ]
    order = list(
        dict.fromkeys(result["io"]["actual"] for members in apart for result in members)
    )
    return [
        result
        for path in order
        for members in apart
        for result in members
        if result["io"]["actual"] == path
    ]


def timed(run: Run, panel: Panel, workload: str) -> list[Json]:
    """Returns the results with latencies: those of the codec that are shown, otherwise those of the raw path."""
    found = [result for result in shown(run, panel, workload) if _has_curve(result)]
    if found:
        return found
    return best_of_paths(filter(_has_curve, run.of(panel, workload, "raw")))


def _has_curve(result: Json) -> bool:
    """Whether it had transfers enough for a percentile."""
    return bool(result["latency_ns"]) and result["latency_ns"]["p50"] is not None


def throughput(
    run: Run, panel: Panel, workload: str, colours: dict[str, str]
) -> BarChart:
    results = shown(run, panel, workload)
    groups = []
    for path in dict.fromkeys(result["io"]["actual"] for result in results):
        members = [result for result in results if result["io"]["actual"] == path]
        groups.append(
            Group(
                path,
                colours[path],
                [row for result in members for row in _rows(result, colours[path])],
                raw_rate(run, panel, workload, path),
                "raw path",
            )
        )
    fio = run.of(panel, workload, "fio")
    if fio:
        rows = [row for result in best_of_paths(fio) for row in _fio_rows(result)]
        groups.append(Group("fio", "neutral", rows))
    what = "median and 95 % interval"
    if panel.op == "write":
        what = f"to fsync and without it, {what}"
    return BarChart(
        f"{panel.title}: {workload}",
        f"GB/s (10⁹ bytes per second), {what}; dashed: rungs of the ceiling ladder",
        units.GB,
        groups,
        rungs(run, panel),
        [*absent(run, results), *_marks(results)],
    )


def _rows(result: Json, colour: str) -> list[Row]:
    strength = STRENGTH[protection_of(result)]
    label, detail = units.protection(result), units.setting(result)
    mark = UNPROVED if proof(result).state == "contradicted" else ""
    if result["durable_rate"] is None:
        return [Row(label, detail, result["rate"], colour, strength, mark)]
    return [
        Row(
            f"{label}, to fsync", detail, result["durable_rate"], colour, strength, mark
        ),
        Row("without fsync", "", result["rate"], colour, strength * BEFORE_FSYNC, mark),
    ]


def _fio_rows(result: Json) -> list[Row]:
    detail = units.setting(result)
    engine = result["io"]["actual"]
    if result["durable_rate"] is None:
        return [Row(engine, detail, result["rate"], "neutral")]
    return [
        Row(f"{engine}, to fsync", detail, result["durable_rate"], "neutral"),
        Row("without fsync", "", result["rate"], "neutral-2"),
    ]


def _marks(results: Iterable[Json]) -> list[str]:
    if any(proof(result).state == "contradicted" for result in results):
        return [UNPROVED_NOTE]
    return []


def absent(run: Run, results: Iterable[Json]) -> list[str]:
    """Returns which paths are missing, and why."""
    there = {result["io"]["actual"] for result in results}
    missing = [path for path in run.paths if path not in there]
    reasons = {path: run.why_unavailable(path) for path in missing}
    notes = [
        f"{path}: not available, {reason}."
        for path, reason in reasons.items()
        if reason is not None
    ]
    unmeasured = [path for path, reason in reasons.items() if reason is None]
    if unmeasured:
        notes.insert(0, f"Not measured: {', '.join(unmeasured)}.")
    return notes


def absent_briefly(run: Run, results: Iterable[Json]) -> list[str]:
    """Returns the same on one line, for places where the reasons are elsewhere on the page."""
    there = {result["io"]["actual"] for result in results}
    missing = [path for path in run.paths if path not in there]
    without = [path for path in missing if run.why_unavailable(path) is not None]
    unmeasured = [path for path in missing if path not in without]
    said = [
        f"{', '.join(paths)} ({why})"
        for paths, why in ((unmeasured, "not measured"), (without, "not available"))
        if paths
    ]
    return [f"Absent: {'; '.join(said)}."] if said else []


def cpu(run: Run, panel: Panel, workload: str, colours: dict[str, str]) -> BarChart:
    """Computes the interval from the samples, because the result does not contain it."""
    results = shown(run, panel, workload)
    groups = []
    for path in dict.fromkeys(result["io"]["actual"] for result in results):
        rows = [
            Row(
                units.protection(result),
                units.setting(result),
                cpu_interval(result),
                colours[path],
                STRENGTH[protection_of(result)],
            )
            for result in results
            if result["io"]["actual"] == path
            and result["cpu_seconds_per_gb"] is not None
        ]
        if rows:
            groups.append(Group(path, colours[path], rows))
    silent = [
        result["id"] for result in results if result["cpu_seconds_per_gb"] is None
    ]
    notes = [f"CPU time not measured: {', '.join(silent)}."] if silent else []
    return BarChart(
        f"CPU, {panel.title[0].lower()}{panel.title[1:]}: {workload}",
        "CPU seconds of all threads per GB, median and 95 % interval; less is better",
        1,
        groups,
        notes=notes + absent_briefly(run, results),
    )


def cpu_interval(result: Json) -> Json:
    """Returns CPU seconds per GB of the result, with the interval of its samples."""
    values = [
        sample["cpu_ns"] / result["bytes"]
        for sample in result["samples"]
        if sample["cpu_ns"] is not None and result["bytes"]
    ]
    interval = (
        median_interval(values) if values else {"low": None, "high": None, "samples": 0}
    )
    return {**interval, "median": result["cpu_seconds_per_gb"]}


def compared(result: Json, measure: str) -> Json:
    """Returns what a result is compared by: tensors per second, or bytes until they are durable."""
    value: Json = headline(result) if measure == "rate" else result[measure]
    return value


def contest(result: Json) -> tuple[object, ...]:
    """Returns the members that a peer's result and ours must share to be comparable."""
    members = ["op", "workload", "cache", "bytes", "tensors"]
    # Filling new memory takes several times as long in small pages.
    if result["op"] == "read":
        members.append("memory")
    return (*(result[member] for member in members), *protection_of(result))


def peers(run: Run, in_tensors: bool, colours: dict[str, str]) -> BarChart:
    """Each thing that a peer did, with all that did it: by bytes. By tensors, where those are what counts, all things,
    because no other figure shows them."""
    measure = "operations_per_second" if in_tensors else "rate"
    results = [
        result
        for result in run.measured
        if result["subject"] in ("codec", "peer")
        and counts_tensors(result) == in_tensors
    ]
    done = [
        contest(result)
        for result in results
        if in_tensors or result["subject"] == "peer"
    ]
    groups = []
    for key in dict.fromkeys(done):
        members = [result for result in results if contest(result) == key]
        ours = best_of_paths(
            usual_memory(one for one in members if one["subject"] == "codec")
        )
        theirs = [one for one in members if one["subject"] == "peer"]
        rows = [
            _contestant(one, measure, colours)
            for one in sorted(
                ours + theirs, key=lambda one: -float(compared(one, measure)["median"])
            )
        ]
        groups.append(Group(contest_title(members[0]), None, rows))
    unit = (
        "Thousands of tensors per second"
        if in_tensors
        else "GB/s, of writes until the data is durable"
    )
    return BarChart(
        "Tensors" if in_tensors else "Bytes",
        f"{unit}; same data, same cache state, same run; median and 95 % interval",
        1000 if in_tensors else units.GB,
        groups,
    )


def _contestant(result: Json, measure: str, colours: dict[str, str]) -> Row:
    if result["subject"] == "codec":
        path = result["io"]["actual"]
        name, detail = f"tzmark {path}", units.setting(result)
        return Row(name, detail, compared(result, measure), colours[path])
    peer = result["peer"] or {"name": "peer", "version": "", "detail": ""}
    name = f"{peer['name']} {peer['version']}"
    detail = ", ".join(filter(None, [peer["detail"], units.pages(result)]))
    return Row(name, detail, compared(result, measure), "neutral")


def contest_title(result: Json) -> str:
    words = [result["op"], units.CACHES[result["cache"]], result["workload"]]
    memory = units.MEMORIES[result["memory"]] if result["op"] == "read" else ""
    said = [" ".join(filter(None, words)), units.protection(result), memory]
    return ", ".join(filter(None, said))


def path_colours(runs: Iterable[Run]) -> dict[str, str]:
    return palette.of_paths(
        (row for run in runs for row in run.document["io_paths"]),
        (path for run in runs for path in run.paths),
    )
