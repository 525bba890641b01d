"""The words and the rows of the tables of the page of tzmark tune."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2

from bench import units
from common.outcomes import Json
from tune import costs, selection

EXPORTS = {
    "tzmark": "tzmark profile",
    "fio": "fio",
    "elbencho": "elbencho",
    "ior": "IOR",
    "deepspeed": "DeepSpeed",
    "runai": "Run:ai Model Streamer",
    "instanttensor": "InstantTensor",
    "tensorizer": "tensorizer",
}
# The least half width of the plot of ratios, in doublings: small differences are to look small.
PLOT_MIN = log2(1.1)


def percent(value: float) -> str:
    """Returns a signed fraction as a percentage with as many digits as are of use."""
    shown = f"{100 * value:.1f}" if abs(value) < 0.0995 else f"{100 * value:.0f}"
    return "0.0" if shown == "-0.0" else shown.replace("-", "−")


def ratio_text(value: float) -> str:
    """Returns a ratio with a third digit where it is near 1."""
    return f"{value:.3f}" if abs(value) < 2 else units.number(value)


def verdict(task: Json) -> str:
    """Returns the verdict as a sentence about the recommended setting."""
    works = len(selection.measured(task))
    ties = sum(one["is_tie"] for one in task["settings"])
    if task["verdict"] == "a setting is best":
        return f"No other of {works} settings ties with it."
    if task["verdict"] == "settings tie":
        return (
            f"{ties} of {works} settings tie with the fastest; "
            "of these it takes the least CPU time, then the least memory."
        )
    if task["verdict"] == "nothing matters":
        return f"Nothing matters: none of {works} settings is faster than the default."
    return f"Undecided: the time did not suffice to tell {works} settings apart; a longer budget may."


def default_state(task: Json) -> str:
    """Returns unknown, itself, slower, likely, tie, faster or guess: the default against the recommended setting."""
    loses = task["default_loses"]
    if task["default"] is None or task["recommended"] is None:
        return "unknown"
    if task["default"] == task["recommended"]:
        return "itself"
    if loses is None:
        return "unknown"
    if loses["low"] is None or loses["high"] is None:
        return "guess"
    if loses["low"] > 0:
        return "slower"
    if task["verdict"] == "undecided":
        return "likely"
    return "faster" if loses["high"] < 0 else "tie"


def confirmations(task: Json) -> list[Json]:
    ends = [
        end
        for row in task["confirmation"]
        for end in (row["ratio"]["low"], row["ratio"]["high"])
        if end
    ]
    reach = max([PLOT_MIN, *(abs(log2(end)) for end in ends if end > 0)])
    return [
        {
            **row,
            "first": task["settings"][row["setting"]],
            "second": task["settings"][row["against"]],
            "first_names": _names(task, row["setting"]),
            "second_names": _names(task, row["against"]),
            "shade": _shade(row["ratio"]),
            "verdict": _said(row["ratio"]),
            "plot": _plot(row["ratio"], reach),
        }
        for row in task["confirmation"]
    ]


def _names(task: Json, index: int) -> str:
    return ", ".join(name for _, name in selection.roles_of(task, index))


def _said(ratio: Json) -> str:
    if ratio["low"] is None or ratio["high"] is None:
        return "undecided"
    if ratio["low"] > 1:
        return "faster"
    return "slower" if ratio["high"] < 1 else "tie"


def _shade(ratio: Json) -> str:
    return {"faster": "p", "slower": "w", "tie": "i", "undecided": "r"}[_said(ratio)]


def _plot(ratio: Json, reach: float) -> Json | None:
    """Returns the positions of the ratio and its interval in percent of a logarithmic scale around 1."""
    if _said(ratio) == "undecided" or ratio["low"] <= 0:
        return None

    def place(value: float) -> float:
        return round(50 + 50 * log2(value) / reach, 1)

    low, high = place(ratio["low"]), place(ratio["high"])
    return {
        "median": place(ratio["estimate"]),
        "low": low,
        "width": round(high - low, 1),
    }


def ceilings(task: Json) -> list[Json]:
    """Returns the rates that could limit the task, the lowest first, with the length of their bars."""
    if not task["ceiling"]:
        return []
    rows = sorted(
        task["ceiling"]["measured"], key=lambda one: float(one["rate"]["median"])
    )
    highest = max((one["rate"]["median"] for one in rows), default=0)
    return [
        {
            **one,
            "binds": _binds(task["ceiling"]["name"], one["name"]),
            "width": round(100 * one["rate"]["median"] / highest, 1) if highest else 0,
        }
        for one in rows
    ]


def _binds(ceiling: str, name: str) -> bool:
    """Whether a rate is the one that a ceiling is named after; a path and the processor are found by raw transfers."""
    if ceiling in ("path", "processor"):
        return name.startswith("raw ")
    return name == ceiling or name.startswith(f"{ceiling},")


def advice(document: Json) -> list[Json]:
    """Returns each advice once, with its effects by task."""
    found: dict[tuple[object, ...], Json] = {}
    for one in document["advice"]:
        key = tuple(one[name] for name in ("what", "why", "command", "needs_root"))
        shown = found.setdefault(key, {**one, "effects": []})
        shown["effects"].append((one["task"], one["effect"]))
    return list(found.values())


def settings(task: Json) -> list[Json]:
    """Returns all settings, the fastest first, those without a rate last."""
    rows = [
        {
            "setting": one,
            "index": index,
            "roles": [name for _, name in selection.roles_of(task, index)],
        }
        for index, one in enumerate(task["settings"])
    ]
    return sorted(
        rows,
        key=lambda row: (
            -selection.median_of(row["setting"]) if row["setting"]["rate"] else 0,
            row["setting"]["failed"] is not None,
        ),
    )


def fits(model: Json) -> list[Json]:
    """Returns the fits with the fitted time of each point and its error."""
    rows = []
    for fit in model["fits"]:
        points = []
        for point in fit["points"]:
            fitted = sum(costs.parts_of(fit, point["tensors"], point["bytes"]))
            points.append(
                {**point, "fitted": fitted, "error": fitted / point["seconds"] - 1}
            )
        rows.append({**fit, "title": selection.TITLES[fit["task"]], "points": points})
    return rows


def exports(document: Json) -> list[Json]:
    """Returns the exports by task, the profile of tzmark first."""
    groups: dict[str, list[Json]] = {}
    for one in sorted(document["exports"], key=lambda one: one["name"] != "tzmark"):
        shown = {**one, "title": EXPORTS[one["name"]]}
        groups.setdefault(one["task"], []).append(shown)
    order = ["all", *selection.TITLES]
    return [
        {"task": task, "title": selection.TITLES[task], "exports": members}
        for task, members in sorted(
            groups.items(), key=lambda pair: order.index(pair[0])
        )
    ]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "unknown" if value is None else str(value)


def _bytes(value: int | None) -> str:
    return "unknown" if value is None else units.size(value)


def storage_facts(document: Json) -> Iterator[tuple[str, str]]:
    probe = document["probe"]
    if probe is None:
        storage = document["machine"]["storage"]
        yield "URL", storage["directory"]
        yield "Path", _text(storage["file_system"])
        yield "Cache", "that of the server, whose state is not known"
        return
    yield "File system", _text(probe["file_system"])
    yield "Mount options", _text(probe["mount_options"])
    yield "Network file system", _text(probe["is_network"])
    yield "Device", probe["device"] or "none"
    yield "RAID", probe["raid"] or "none"
    yield "Scheduler", _text(probe["scheduler"])
    yield "Readahead", _bytes(probe["readahead_bytes"])
    memory, offset = (
        _bytes(probe[name])
        for name in ("direct_memory_align_bytes", "direct_align_bytes")
    )
    yield "O_DIRECT alignment", f"memory {memory}, offset {offset}"
    yield "Free", _bytes(probe["free_bytes"])
    yield "Transparent huge pages", _text(probe["huge_pages"])
    node = _text(probe["numa_node"])
    yield "NUMA", f"device on node {node}, nodes of the machine: {_text(probe['numa_nodes'])}"
    yield "GPU", probe["gpu"] or "none"
    yield "GPUDirect Storage", _text(probe["gpudirect"])
    for name, value in probe["dirty"].items():
        is_size = name.endswith("_bytes")
        yield f"vm.{name}", _bytes(value) if is_size and value else _text(value)
