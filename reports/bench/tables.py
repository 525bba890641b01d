"""The rows of the page's tables: checks, percent of ceilings, proof of the cache state, latency, peers, facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import log2

from bench import charts, units
from bench.selection import PANELS, Panel, Run, counts_tensors, proof, usual_memory
from common.outcomes import Json, Shade

VERDICTS = {
    "pass": Shade("pass", "p", "passed", "the whole interval is on the right side"),
    "pass, borderline": Shade(
        "pass, borderline", "p", "passed", "at most the zone of indifference is missing"
    ),
    "borderline": Shade(
        "borderline", "r", "passed", "at the far edge of the zone of indifference"
    ),
    "fail": Shade("fail", "w", "failed", "the whole interval is on the wrong side"),
    "undecided": Shade("undecided", "r", "passed", "the interval straddles the bound"),
    "not measured": Shade("not measured", "n", "skipped", "see the note"),
}
PROOFS = {
    "proved": Shade("proved", "p", "passed", "all samples confirm it"),
    "contradicted": Shade("contradicted", "w", "failed", "a sample contradicts it"),
    "not seen": Shade("not seen", "n", "skipped", "not available on this machine"),
}
# Facts that change between runs on the same machine.
PASSING = ("Started", "Took", "Seed", "Load average", "Free")


def checks(runs: list[Run]) -> list[Json]:
    """Returns one row per check, with a cell for each run; None if a run lacks the check."""
    keys = dict.fromkeys(_check_key(check) for run in runs for check in _checks(run))
    return [
        {
            "item": item,
            "name": name,
            "required": required,
            "at_most": at_most,
            "cells": [
                next(
                    (
                        _check_cell(check)
                        for check in _checks(run)
                        if _check_key(check) == (item, name, required, at_most)
                    ),
                    None,
                )
                for run in runs
            ],
        }
        for item, name, required, at_most in keys
    ]


def _checks(run: Run) -> list[Json]:
    found: list[Json] = run.document["checks"]
    return found


def _check_key(check: Json) -> tuple[str, str, float, bool]:
    return check["item"], check["name"], check["required"], check["at_most"]


def _check_cell(check: Json) -> Json:
    return {**check, "shade": VERDICTS[check["verdict"]], "plot": _plot(check)}


def _plot(check: Json) -> Json | None:
    """Returns the positions of the ratio and its interval in percent of a scale from half to twice the requirement."""
    ratio, required = check["ratio"], check["required"]
    if not ratio or not required:
        return None

    def place(value: float) -> float:
        if value <= 0:
            return 0
        return round(50 + 50 * min(1, max(-1, log2(value / required))), 1)

    low = ratio["median"] if ratio["low"] is None else ratio["low"]
    high = ratio["median"] if ratio["high"] is None else ratio["high"]
    return {
        "median": place(ratio["median"]),
        "low": place(low),
        "width": round(place(high) - place(low), 1),
    }


def tally(run: Run) -> list[tuple[Shade, int]]:
    verdicts = [check["verdict"] for check in _checks(run)]
    return [
        (shade, verdicts.count(verdict))
        for verdict, shade in VERDICTS.items()
        if verdict in verdicts
    ]


def panels(run: Run) -> Iterator[tuple[Panel, str, list[Json]]]:
    """Returns the results that the bars show, by panel and workload."""
    for panel in PANELS:
        for workload in run.workloads:
            results = charts.shown(run, panel, workload)
            if results:
                yield panel, workload, results


def ceilings(run: Run) -> list[Json]:
    """Returns the results that the bars show, with the rung that limits each."""
    return [
        {"title": f"{panel.title}: {workload}", "results": results}
        for panel, workload, results in panels(run)
    ]


def latencies(run: Run) -> list[Json]:
    rows = [
        {
            "title": f"{panel.title}: {workload}",
            "results": charts.timed(run, panel, workload),
        }
        for panel in PANELS
        for workload in run.workloads
    ]
    return [row for row in rows if row["results"]]


def proofs(run: Run) -> list[Json]:
    """Returns the results grouped by subject, cache state and path, with minimum and maximum."""
    kinds: dict[tuple[str, str, str, str], list[Json]] = {}
    for result in run.measured:
        kind = (
            result["subject"],
            result["op"],
            result["cache"],
            result["io"]["actual"],
        )
        kinds.setdefault(kind, []).append(result)
    return [
        {
            "subject": subject,
            "path": path,
            "work": " ".join(filter(None, (op, units.CACHES[cache]))),
            "results": len(members),
            "samples": sum(len(result["samples"]) for result in members),
            "resident": _extent(proof(result).resident for result in members),
            "device": _extent(proof(result).device for result in members),
            "states": [
                (shade, count)
                for state, shade in PROOFS.items()
                if (count := sum(proof(result).state == state for result in members))
            ],
        }
        for (subject, op, cache, path), members in kinds.items()
    ]


def _extent(values: Iterable[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None


def peers(run: Run) -> list[Json]:
    """Returns each peer result with our fastest of the same work and the ratio of the medians."""
    rows = []
    for result in run.measured:
        if result["subject"] != "peer":
            continue
        ours = usual_memory(
            other
            for other in run.measured
            if other["subject"] == "codec"
            and charts.contest(other) == charts.contest(result)
        )
        measure = "operations_per_second" if counts_tensors(result) else "rate"
        best = max(
            ours, key=lambda one: charts.compared(one, measure)["median"], default=None
        )
        theirs = charts.compared(result, measure)["median"]
        rows.append(
            {
                "work": charts.contest_title(result),
                "peer": result,
                "best": best,
                "measure": measure,
                "times": (
                    charts.compared(best, measure)["median"] / theirs
                    if best and theirs
                    else None
                ),
            }
        )
    return rows


def facts(runs: list[Run]) -> list[Json]:
    """Returns facts with the value of each run, and whether these differ although they should not."""
    columns = [dict(_facts(run.document)) for run in runs]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = []
    for name in names:
        values = [column.get(name, "–") for column in columns]
        differs = name not in PASSING and len(set(values)) > 1
        rows.append({"name": name, "values": values, "differs": differs})
    return rows


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "unknown" if value is None else str(value)


def _bytes(value: int | None) -> str:
    return "unknown" if value is None else units.size(value)


def _host_facts(machine: Json) -> Iterator[tuple[str, str]]:
    """Yields the facts that older results lack."""
    if "hypervisor" not in machine:
        return
    yield "Hypervisor", machine["hypervisor"] or "none"
    yield "L3 cache", _bytes(machine["l3_bytes"])
    yield "NUMA nodes", _text(machine["numa_nodes"])
    low, high = (_text(machine["frequency"][f"{end}_khz"]) for end in ("min", "max"))
    yield "Frequency", f"{low} to {high} kHz"
    states = machine["mitigations"] or {}
    active = [name for name, state in states.items() if state != "Not affected"]
    yield "Mitigations", ", ".join(active) or "none"
    limits = machine["cgroup"]
    memory = _bytes(limits["memory_bytes"]) if limits["memory_bytes"] else "no limit"
    yield "cgroup", f"CPU {limits['cpu_cores'] or 'no limit'}, memory {memory}"
    yield "nice", str(machine["nice"])
    yield "vm.dirty", ", ".join(
        f"{name.removeprefix('dirty_')} {_text(value)}"
        for name, value in machine["vm"].items()
    )


def machine_facts(document: Json) -> Iterator[tuple[str, str]]:
    """Yields the facts that results of all kinds have: of the storage, the machine and the program."""
    machine = document["machine"]
    storage, cpu = machine["storage"], machine["cpu"]
    pages, gpu = machine["transparent_huge_pages"], machine["gpu"]
    tool = document["tool"]
    yield "Directory", storage["directory"]
    yield "File system", _text(storage["file_system"])
    yield "Mount options", _text(storage["mount_options"])
    yield "Device", _text(storage["device"])
    yield "Device model", _text(storage["device_model"])
    yield "Rotational", _text(storage["rotational"])
    yield "Scheduler", _text(storage["scheduler"])
    yield "Write cache", _text(storage.get("write_cache"))
    yield "Readahead", _bytes(storage.get("readahead_bytes"))
    yield "Queue", f"{_text(storage['queue_requests'])} requests"
    logical, physical = (
        _bytes(storage[f"{kind}_block_bytes"]) for kind in ("logical", "physical")
    )
    yield "Blocks", f"logical {logical}, physical {physical}"
    memory, offset = (
        _bytes(storage[f"direct_{kind}_align_bytes"]) for kind in ("memory", "offset")
    )
    yield "O_DIRECT alignment", f"memory {memory}, offset {offset}"
    yield "Free", _bytes(storage["free_bytes"])
    yield "CPU", f"{cpu['model']}, {cpu['cores']} cores"
    yield "CPU features", ", ".join(cpu["features"]) or "none"
    yield "Governor", _text(cpu["governor"])
    if kernels := tool.get("kernels"):
        yield "Kernels", ", ".join(f"{name} {used}" for name, used in kernels.items())
    yield "Memory", units.size(machine["memory_bytes"])
    yield "Huge pages", f"{_text(pages['enabled'])}, defrag {_text(pages['defrag'])}"
    yield from _host_facts(machine)
    yield "GPU", f"{gpu['name']}, driver {gpu['driver']}" if gpu else "none"
    yield "Kernel", f"{machine['kernel']}, {machine['architecture']}"
    yield "Load average", ", ".join(f"{load:.2f}" for load in machine["load_average"])
    for name, version in machine["versions"].items():
        yield name, _text(version)
    yield "tzmark", f"{tool['version']}, commit {tool['commit'][:12]}"


def _facts(document: Json) -> Iterator[tuple[str, str]]:
    yield from machine_facts(document)
    for workload in document["workloads"]:
        size = f"{workload['tensors']:,} tensors, {units.size(workload['data_bytes'])}"
        part = f", scaled to {workload['scaled']:g}" if workload["scaled"] != 1 else ""
        yield f"Workload {workload['name']}", f"{size}{part}"
    seconds = document.get("duration_s")
    yield "Rounds", f"none, {seconds} s each" if seconds else str(document["rounds"])
    yield "Seed", str(document["seed"])
    yield "Started", document["started_at"].replace("T", " ").replace("Z", " UTC")
    yield "Took", units.duration(document["elapsed_ns"])


def sample_rows(result: Json) -> list[Json]:
    return [
        {
            **sample,
            "rate": (
                1e9 * result["bytes"] / sample["elapsed_ns"]
                if sample["elapsed_ns"]
                else None
            ),
            "device": (
                sample["device_written_bytes"]
                if result["op"] == "write"
                else sample["device_read_bytes"]
            ),
        }
        for sample in result["samples"]
    ]
