"""The committed results of storage: each machine, what was measured there, and what bounds it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import report
from bench import tables, units
from common.outcomes import Json
from common.results import NotAResult

# Of a machine, in the order of the page; the page of each result has all of them.
FACTS = ("CPU", "Memory", "GPU", "Device", "File system", "Kernel", "Started")

# What the benchmark takes of the slowest, peers; a median of fewer says little.
SAMPLES_MIN = 3


@dataclass
class Measurement:
    """One result: what its rows show, and the files of its own page, by their names."""

    name: str
    command: str
    rows: list[Json]
    files: dict[str, bytes]


@dataclass
class Machine:
    """A directory of results of one machine. document: its README, below the root of the project."""

    name: str
    document: str
    facts: list[tuple[str, str]]
    measurements: list[Measurement]


def load(root: Path, directory: str) -> list[Machine]:
    """Reads each machine's results, the newest first. Throws NotAResult where one is not whole."""
    machines = []
    for place in sorted((root / directory).iterdir()):
        files = sorted(place.glob("*.json"))
        if not files:
            raise NotAResult(f"{place}: has no results")
        if not (place / "README.md").is_file():
            raise NotAResult(f"{place}: has no README.md")
        try:
            machines.append(machine_of(place, f"{directory}/{place.name}", files))
        except NotAResult:
            raise
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            # The schema lists the required members.
            raise NotAResult(f"{place}: incomplete: {error!r}") from error
    machines.sort(key=lambda machine: dict(machine.facts)["Started"], reverse=True)
    return machines


def machine_of(place: Path, name: str, files: list[Path]) -> Machine:
    documents = [report.read(file) for file in files]
    return Machine(
        place.name,
        f"{name}/README.md",
        list(shown_facts(documents[0])),
        [measurement(file, document) for file, document in zip(files, documents)],
    )


def shown_facts(document: Json) -> Iterator[tuple[str, str]]:
    facts = {
        **dict(tables.machine_facts(document)),
        "Started": document["started_at"].replace("T", " ").replace("Z", " UTC"),
    }
    for name in FACTS:
        yield name, facts[name]


def measurement(file: Path, document: Json) -> Measurement:
    if document["kind"] != report.KIND:
        raise NotAResult(f"{file}: a result of the benchmark belongs here")
    require_whole(file, document)
    return Measurement(
        file.stem,
        " ".join(document["command"]),
        [row(result) for result in document["results"]],
        report.output([file]),
    )


def require_whole(file: Path, document: Json) -> None:
    """Throws NotAResult if the run was ended before it had measured everything."""
    for warning in document["warnings"]:
        if warning.startswith("interrupted"):
            raise NotAResult(f"{file}: {warning}")
    if not document["results"]:
        raise NotAResult(f"{file}: nothing was measured")
    for result in document["results"]:
        if not result["rate"] or len(result["samples"]) < SAMPLES_MIN:
            raise NotAResult(f"{file}: {result['id']} was not measured often enough")


def row(result: Json) -> Json:
    bound = result["bound_by"]
    return {
        "id": result["id"],
        "rate": units.rate(result["rate"]["median"]),
        "interval": units.interval(result["rate"]),
        "bound": f"{bound['rung']}, {units.share(bound['share'])}" if bound else "",
    }
