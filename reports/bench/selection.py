"""Selects the results that are compared, those that answer which path is best, and those whose samples prove their
cache state.

Results are compared within a panel (read from the device, read warm, write) and a workload, and only where hashes,
encryption and memory are the same. A path is represented by the best of its block sizes, depths, threads and layouts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from bench.intervals import has_interval, overlap
from common.outcomes import Json


@dataclass(frozen=True)
class Panel:
    name: str
    title: str
    op: str
    caches: tuple[str, ...]
    # The rungs of the ladder that can limit it.
    rungs: tuple[str, ...]
    # Whether it is shown as "not measured" if it has no results.
    always: bool = True


WORK_RUNGS = (
    "memcpy",
    "crc32",
    "sha256",
    "sha256-lanes",
    "secretbox",
    "secretbox-lanes",
    "host-to-device",
)
PANELS = (
    Panel(
        "read-device",
        "Read from the device",
        "read",
        ("cold", "direct"),
        ("device-read", *WORK_RUNGS),
    ),
    Panel("read-warm", "Read from the page cache", "read", ("warm",), WORK_RUNGS),
    Panel(
        "read-other",
        "Read, cache not stated",
        "read",
        ("none",),
        ("device-read", *WORK_RUNGS),
        always=False,
    ),
    Panel(
        "read-server",
        "Read from the server",
        "read",
        ("server",),
        ("device-read", *WORK_RUNGS),
        always=False,
    ),
    Panel(
        "write",
        "Write",
        "write",
        ("none", "warm", "cold", "direct"),
        ("device-write", *WORK_RUNGS),
    ),
)
PROTECTIONS = (
    ("none", False),
    ("crc32", False),
    ("sha256", False),
    ("both", False),
    ("none", True),
    ("crc32", True),
    ("sha256", True),
    ("both", True),
)
# The usual memory: newly mapped, or GPU memory for the paths that transfer to it.
MEMORIES = (("thp", "device"), ("small-pages",), ("sink",))
# What a sample may lack, or have too much of, and still be of the cache state that it tells: the file holds more than
# the tensors.
MISSING_MAX = 0.05
# Tensors with a smaller average size are counted per second.
TINY_BYTES_MAX = 16 << 10


def headline(result: Json) -> Json:
    """Returns the rate that ranks a result: for writes, the durable one."""
    rate: Json = result["durable_rate"] or result["rate"]
    return rate


def median_of(result: Json) -> float:
    return float(headline(result)["median"])


def protection_of(result: Json) -> tuple[str, bool]:
    return result["verification"], result["encrypted"]


@dataclass(frozen=True)
class Proof:
    """Medians and worst values over the samples; None if not available."""

    resident: float | None
    device: float | None
    state: str  # "proved", "contradicted", "not seen"


def _shares(result: Json, member: str) -> list[float]:
    # Ranks of a program share what one of them has read into a page cache, or sends to the others.
    cluster = result.get("cluster")
    moved_bytes = cluster["unique_bytes"] if cluster else result["bytes"]
    if not moved_bytes:
        return []
    return [
        sample[member] / moved_bytes
        for sample in result["samples"]
        if sample[member] is not None
    ]


def proof(result: Json) -> Proof:
    """Whether the samples show the cache state that the result tells, by the sample that shows it worst.

    The device also counts what others do meanwhile. So of what it must not have done, the median sample decides.
    """
    resident = [
        sample["resident_share"]
        for sample in result["samples"]
        if sample["resident_share"] is not None
    ]
    written = result["op"] == "write"
    device = _shares(result, "device_written_bytes" if written else "device_read_bytes")
    most, least = MISSING_MAX, 1 - MISSING_MAX
    seen, broken = [resident, device], False
    if written:
        seen = [device]
        broken = min(device, default=1) < least
    elif result["cache"] == "warm":
        busy = median(device) > most if device else False
        broken = min(resident, default=1) < least or busy
    elif result["cache"] == "cold":
        broken = max(resident, default=0) > most or min(device, default=1) < least
    elif result["cache"] == "direct":
        seen = [device]
        broken = min(device, default=1) < least
    else:
        seen = [[]]
    state = "contradicted" if broken else "proved" if all(seen) else "not seen"
    return Proof(
        median(resident) if resident else None,
        median(device) if device else None,
        state,
    )


@dataclass(frozen=True)
class Answer:
    """The best path of a panel and workload for one kind of protection."""

    result: Json
    settings: int  # the number of results that it is the best of
    ties: tuple[Json, ...]  # the best of other paths that tie with it
    slower: tuple[Json, ...]  # the best of all others
    decided: bool  # whether intervals decided it


@dataclass(frozen=True)
class Run:
    """One result document of the page."""

    document: Json
    letter: str
    name: str

    @cached_property
    def paths(self) -> list[str]:
        """Returns all paths in the order of the registry, then others that results name."""
        names = [path["name"] for path in self.document["io_paths"]]
        names += [
            result["io"]["actual"]
            for result in self.document["results"]
            if result["subject"] in ("codec", "raw")
        ]
        return list(dict.fromkeys(names))

    @cached_property
    def measured(self) -> list[Json]:
        return [result for result in self.document["results"] if result["samples"]]

    @cached_property
    def unmeasured(self) -> list[Json]:
        """Returns the results that could not be measured; their notes give the reason."""
        return [result for result in self.document["results"] if not result["samples"]]

    @cached_property
    def workloads(self) -> list[str]:
        names = [workload["name"] for workload in self.document["workloads"]]
        names += [result["workload"] for result in self.document["results"]]
        return list(dict.fromkeys(names))

    def why_unavailable(self, path: str) -> str | None:
        for row in self.document["io_paths"]:
            if row["name"] == path and not row["available"]:
                return row["reason"] or "no reason given"
        return None

    def of(self, panel: Panel, workload: str, subject: str = "codec") -> list[Json]:
        return [
            result
            for result in self.measured
            if result["subject"] == subject
            and not as_fio(result)
            and result["op"] == panel.op
            and result["cache"] in panel.caches
            and result["workload"] == workload
        ]

    def main_workload(self, panel: Panel) -> str | None:
        """Returns the first workload that was measured in the panel."""
        for workload in self.workloads:
            if self.of(panel, workload):
                return workload
        return None


def as_fio(result: Json) -> bool:
    """Whether these are raw transfers as fio makes them, which are compared with fio alone."""
    return result["subject"] == "raw" and result["detail"] == "as-fio"


def usual_memory(results: Iterable[Json]) -> list[Json]:
    """Returns the results with the usual kind of memory; others do different work."""
    results = list(results)
    for memories in MEMORIES:
        found = [result for result in results if result["memory"] in memories]
        if found:
            return found
    return []


def fastest(results: Iterable[Json]) -> Json:
    return max(results, key=median_of)


def best_of_paths(results: Iterable[Json]) -> list[Json]:
    """Returns the best result of each path, fastest first."""
    paths: dict[str, list[Json]] = {}
    for result in results:
        paths.setdefault(result["io"]["actual"], []).append(result)
    return sorted(map(fastest, paths.values()), key=median_of, reverse=True)


def by_protection(results: list[Json]) -> list[list[Json]]:
    """Returns the results grouped by hashes and encryption, least work first; no group is empty."""
    apart = [
        [result for result in results if protection_of(result) == protection]
        for protection in PROTECTIONS
    ]
    return [members for members in apart if members]


def answers(run: Run, panel: Panel, workload: str) -> list[Answer]:
    """The best path for each kind of protection that was measured, the least work first.

    A read whose samples contradict its cache state answers nothing.
    """
    candidates = [
        result
        for result in run.of(panel, workload)
        if panel.op == "write" or proof(result).state != "contradicted"
    ]
    return [_answer(members) for members in by_protection(usual_memory(candidates))]


def _answer(results: list[Json]) -> Answer:
    best, *others = best_of_paths(results)
    if not has_interval(headline(best)):
        return Answer(best, len(results), (), tuple(others), False)
    ties = [
        other
        for other in others
        if not has_interval(headline(other)) or overlap(headline(best), headline(other))
    ]
    slower = [other for other in others if other not in ties]
    return Answer(best, len(results), tuple(ties), tuple(slower), True)


def counts_tensors(result: Json) -> bool:
    """Returns whether tensors per second describe a result better than bytes per second."""
    if result["operations_per_second"] is None:
        return False
    mean_bytes = result["bytes"] / max(result["tensors"], 1)
    return bool(result["op"] == "open" or mean_bytes < TINY_BYTES_MAX)


def contradicted(run: Run) -> list[Json]:
    return [result for result in run.measured if proof(result).state == "contradicted"]
