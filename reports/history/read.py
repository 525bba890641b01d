"""Reads a directory of results of tzmark bench as one series per benchmark, in the order of their start times.

Only results of the same machine, kernel, measuring version, workload and scale are in one series. Files that cannot be
used are listed with the reason, never skipped silently.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from common.outcomes import Json
from common.results import NotAResult
from report import KIND, VERSION

# The kind of the document that tzmark history --json writes.
ANALYSIS_KIND = "history"
STARTED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
GIB = 1 << 30
# The members that a codec result and the raw path with the same parameters have in common.
PARAMETERS = (
    "group",
    "op",
    "workload",
    "block_bytes",
    "queue_depth",
    "threads",
    "cache",
)
# How the names of ceilings begin that do not run the hash and cipher kernels of tzmark.
MACHINE_CEILINGS = ("memcpy", "host-to-device", "gpu-memory", "device-", "path-")
SUBJECTS = ("codec", "raw", "fio", "peer")
# Bytes a second. Products and quotients of rates between these are finite.
RATE_MIN, RATE_MAX = 1e-6, 1e18


@dataclass(frozen=True)
class Skipped:
    """A file, or part of one, that is in no series."""

    file: str
    reason: str
    # Whether the file should have been usable: damaged or newer, rather than of another kind or a copy.
    is_error: bool


@dataclass(frozen=True)
class Measurement:
    """One benchmark in one file."""

    name: str
    scale: tuple[
        object, ...
    ]  # distinguishes results that have the same name but did other work
    subject: str
    rate: float
    measure: str  # "rate" or "durable rate"
    raw_rate: float | None  # of the raw path with the same parameters in the same file
    raw_name: str | None


@dataclass(frozen=True)
class Result:
    """A usable file."""

    file: str
    started_at: str
    commit: str
    facts: dict[str, str]
    measurements: list[Measurement]


@dataclass
class Series:
    """The values of one benchmark in one environment. indexes: of the results that have them."""

    name: str
    subject: str
    environment: int
    scale: tuple[object, ...]
    measure: str
    reference: str | None
    indexes: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    raw_rates: list[float] = field(default_factory=list)
    # Results without the raw path, which a ratio cannot use.
    without_reference: int = 0


@dataclass(frozen=True)
class History:
    results: list[Result]
    environments: list[dict[str, str]]  # facts, in order of first appearance
    environment_of: list[int]  # per result
    series: list[Series]
    skipped: list[Skipped]


def read(directory: Path) -> History:
    """Throws OSError if the directory cannot be read."""
    results: list[Result] = []
    skipped: list[Skipped] = []
    runs: dict[str, str] = {}
    for path in sorted(directory.iterdir()):
        if path.suffix != ".json":
            continue
        try:
            document = _document(path)
            run = json.dumps(
                [document[member] for member in ("started_at", "elapsed_ns", "command")]
            )
            if run in runs:
                raise _Foreign(f"the same run as {runs[run]}")
            results.append(_result(path.name, document, skipped))
            runs[run] = path.name
        except _Foreign as error:
            skipped.append(Skipped(path.name, str(error), is_error=False))
        except NotAResult as error:
            skipped.append(Skipped(path.name, str(error), is_error=True))
        except Exception as error:
            # Any value may be of another type than the schema says, or out of range.
            reason = f"damaged result: {error!r:.200}"
            skipped.append(Skipped(path.name, reason, is_error=True))
    results.sort(key=lambda result: (result.started_at, result.file))
    environments: list[dict[str, str]] = []
    for result in results:
        if result.facts not in environments:
            environments.append(result.facts)
    of = [environments.index(result.facts) for result in results]
    return History(results, environments, of, _series(results, of), skipped)


class _Foreign(Exception):
    """A file is fine, but no result to use."""


def _document(path: Path) -> Json:
    if not path.is_file():
        raise _Foreign("not a file")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotAResult(error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise NotAResult(f"not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise _Foreign("not a result of tzmark bench")
    version = document.get("schema_version")
    if version != VERSION:
        raise NotAResult(
            f"schema version {version!r}; this tzmark reads version {VERSION}"
        )
    return document


def _result(file: str, document: Json, skipped: list[Skipped]) -> Result:
    if not STARTED.fullmatch(document["started_at"]):
        raise NotAResult(f"started_at is {document['started_at']!r}")
    found = list(_measurements(document))
    times = Counter((each.name, each.scale) for each in found)
    repeated = [key for key, count in times.items() if count > 1]
    result = Result(
        file,
        document["started_at"],
        str(document["tool"]["commit"]),
        _facts(document),
        [each for each in found if times[each.name, each.scale] == 1],
    )
    if repeated:
        reason = f"{len(repeated)} ids occur more than once and are left out, such as {repeated[0][0]}"
        skipped.append(Skipped(file, reason, is_error=True))
    return result


def _facts(document: Json) -> dict[str, str]:
    """Returns what must not differ within a series. Facts that change while a machine runs are left out."""
    machine = document["machine"]
    cpu, storage, gpu = machine["cpu"], machine["storage"], machine["gpu"]
    # Firmware and kernels reserve slightly different amounts at each boot.
    memory = _number(machine["memory_bytes"], 1, 1 << 60, "memory_bytes") / GIB
    device = storage["device"] or "no device"
    model = f" ({storage['device_model']})" if storage["device_model"] else ""
    found = {
        "CPU": f"{cpu['model']}, {cpu['cores']} cores, {machine['architecture']}",
        "memory": f"{memory:.0f} GiB",
        "kernel": _text(machine["kernel"], "kernel"),
        "huge pages": str(machine["transparent_huge_pages"]["enabled"] or "unknown"),
        "storage": f"{storage['file_system'] or 'unknown file system'} on {device}{model}",
        "GPU": f"{gpu['name']}, driver {gpu['driver']}" if gpu else "none",
    }
    if document.get("duration_s"):
        found["duration"] = f"{document['duration_s']} s for each result"
    if "measuring_core" in document["tool"]:
        found["measuring core"] = str(document["tool"]["measuring_core"])
    return found


def _measurements(document: Json) -> Iterator[Measurement]:
    raw = {
        _parameters(result): result
        for result in document["results"]
        # Raw I/O with a detail is in the manner of another program, such as fio.
        if result["subject"] == "raw" and result["samples"] and not result["detail"]
    }
    for result in document["results"]:
        if _text(result["subject"], "subject") not in SUBJECTS:
            raise NotAResult(f"the subject of a result is {result['subject']!r:.40}")
        if not result["samples"]:
            continue
        measure, rate = _rate(result)
        reference = raw.get(_parameters(result))
        if result["subject"] != "codec" or reference is None:
            raw_name, raw_rate = None, None
        else:
            raw_name, raw_rate = reference["id"], _rate(reference)[1]
        peer = result["peer"] or {}
        yield Measurement(
            _text(result["id"], "id"),
            (result["bytes"], result["tensors"], peer.get("version")),
            result["subject"],
            rate,
            measure,
            raw_rate,
            raw_name,
        )
    for ceiling in document["ceilings"]:
        # Those with a note repeat a result.
        if ceiling["note"] is None:
            name = f"ceiling {ceiling['rung']} t{ceiling['threads']}"
            rate = _checked(ceiling["rate"]["median"], name)
            yield Measurement(name, (), "ceiling", rate, "rate", None, None)


def _parameters(result: Json) -> tuple[object, ...]:
    # A read to the GPU through host memory is compared with a read into reused memory, as in the result itself.
    memory = "sink" if result["memory"] == "device" else result["memory"]
    return (
        result["io"]["actual"],
        memory,
        *(result[name] for name in PARAMETERS),
    )


def _rate(result: Json) -> tuple[str, float]:
    durable = result["durable_rate"]
    median = (durable or result["rate"])["median"]
    return "durable rate" if durable else "rate", _checked(median, result["id"])


def _checked(rate: object, name: str) -> float:
    return _number(rate, RATE_MIN, RATE_MAX, f"the rate of {name}")


def _number(value: object, low: float, high: float, name: str) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:
        raise NotAResult(f"{name} is {value!r:.40}")
    return float(value)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise NotAResult(f"{name} is {value!r:.40}")
    return value


def _series(results: list[Result], environment_of: list[int]) -> list[Series]:
    """Returns the series in the order in which they first appear.

    The ratio to the raw path is used if most results have it; the others are then left out.
    """
    with_raw: Counter[tuple[object, ...]] = Counter()
    for environment, result in zip(environment_of, results):
        for each in result.measurements:
            vote = 1 if each.raw_rate is not None else -1
            with_raw[environment, each.name, each.scale] += vote
    found: dict[tuple[object, ...], Series] = {}
    for index, (environment, result) in enumerate(zip(environment_of, results)):
        for each in result.measurements:
            identity = (environment, each.name, each.scale)
            key = (*identity, each.measure)
            if key not in found:
                found[key] = Series(
                    each.name,
                    each.subject,
                    environment,
                    each.scale,
                    each.measure,
                    "" if with_raw[identity] > 0 else None,
                )
            series = found[key]
            if series.reference is None:
                value = each.rate
            elif each.raw_rate is None:
                series.without_reference += 1
                continue
            else:
                value = each.rate / each.raw_rate
                series.raw_rates.append(each.raw_rate)
                series.reference = each.raw_name
            series.indexes.append(index)
            series.values.append(value)
            series.rates.append(each.rate)
    return list(found.values())
