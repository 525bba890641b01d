"""What the page of tzmark tune shows of a task: settings with their roles, the frontier, words for a setting."""

from __future__ import annotations

from bench import units
from common.outcomes import Json

TITLES = {
    "load-warm": "Load from the page cache",
    "load-cold": "Load from the device",
    "load-server": "Load from the server",
    "save": "Save",
    "all": "All tasks",
}
# Members of a task that name a setting, the letter that marks it in maps, and what it is called.
ROLES = (
    ("recommended", "R", "recommended"),
    ("best", "B", "fastest"),
    ("least_in_flight", "L", "least in flight"),
    ("default", "D", "default"),
)


def title(task: Json) -> str:
    return TITLES[task["task"]]


def chosen(task: Json, role: str) -> Json | None:
    """Returns the setting in a role, None if it is not known."""
    index = task[role]
    return None if index is None else _settings(task)[index]


def roles_of(task: Json, index: int) -> list[tuple[str, str]]:
    """Returns letters and names of all roles of a setting."""
    return [(letter, name) for role, letter, name in ROLES if task[role] == index]


def measured(task: Json) -> list[tuple[int, Json]]:
    """Returns the settings with a rate and their indexes."""
    return [(index, one) for index, one in enumerate(_settings(task)) if one["rate"]]


def fastest(task: Json) -> Json | None:
    """Returns the setting with the highest median, judged or not."""
    known = [one for _, one in measured(task)]
    return max(known, key=median_of, default=None)


def failed(task: Json) -> list[Json]:
    return [one for one in _settings(task) if one["failed"] is not None]


def median_of(one: Json) -> float:
    """REQUIRES: it has a rate."""
    return float(one["rate"]["median"])


def shape(one: Json) -> str:
    """Returns block x depth."""
    return f"{units.size(one['block_bytes'])} × {one['queue_depth']}"


def label(one: Json) -> str:
    """Returns all but the path."""
    threads = f"{one['threads']} thread{'s' if one['threads'] != 1 else ''}"
    return f"{shape(one)}, {threads}, {one['pages']} pages"


def frontier(task: Json) -> list[Json]:
    """Returns the settings that no other with as few bytes in flight beats, by rising bytes in flight.

    Settings that were dropped early have the luck of few samples, so only those with an interval count where there are
    any.
    """
    known = [one for _, one in measured(task)]
    judged = [one for one in known if one["rate"]["low"] is not None] or known
    ordered = sorted(
        judged, key=lambda one: (one["bytes_in_flight_bytes"], -median_of(one))
    )
    found: list[Json] = []
    for one in ordered:
        if not found or median_of(one) > median_of(found[-1]):
            found.append(one)
    return found


def _settings(task: Json) -> list[Json]:
    settings: list[Json] = task["settings"]
    return settings
