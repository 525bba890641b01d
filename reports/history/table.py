"""The analysis of a history as text for a terminal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from common.outcomes import Json

UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# More series with the same note share a line, and more changes of the machine at one place are only counted.
NAMES_MAX = 3
WHOSE = {"code": "the code's", "machine": "the machine's", "unknown": "unknown"}


def one_line(text: str) -> str:
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def percent(share: float) -> str:
    return f"{100 * share:+.1f} %"


def interval(change: Json) -> str:
    return f"[{100 * change['low']:+.1f}, {100 * change['high']:+.1f}]"


def changes(document: Json) -> list[tuple[Json, Json]]:
    """Returns all changes with their series, in the order of the results."""
    found = [
        (change, series)
        for series in document["series"]
        for change in series["changes"]
    ]
    return sorted(found, key=lambda pair: (pair[0]["after"], pair[0]["before"]))


def place(result: Json) -> str:
    return f"{result['file']} ({result['commit']})"


def table(document: Json, directory: str) -> str:
    return "".join(one_line(line) + "\n" for line in _lines(document, directory))


def _lines(document: Json, directory: str) -> Iterator[str]:
    results, series = document["results"], document["series"]
    first, last = results[0]["started_at"], results[-1]["started_at"]
    yield f"{plural(len(results), 'result')} in {directory}, {first} to {last}"
    for environment in document["environments"]:
        facts = environment["facts"]
        text = ", ".join(f"{name}: {value}" for name, value in facts.items())
        if environment["differs_in"]:
            named = ", ".join(environment["differs_in"])
            text = f"separate series, as these facts differ: {named}; {text}"
        count = plural(environment["results"], "result")
        yield f"environment {environment['name']}, {count}: {text}"
    analysed = [each for each in series if each["analysed"]]
    yield (
        f"{len(analysed)} series analysed; a change point has p < {document['p_max']:.2g} "
        f"and changes at least {100 * document['options']['threshold']:g} %"
    )
    outliers = sum(point["outlier"] for each in series for point in each["points"])
    if outliers:
        yield f"{plural(outliers, 'outlier')} clipped"
    yield from _notes(document)
    yield ""
    yield from _change_lines(document)


def _change_lines(document: Json) -> Iterator[str]:
    results, found = document["results"], changes(document)
    if not found:
        yield "no change points"
        return
    rows = [("change", "95 % interval, %", "whose", "", "last before", "first after")]
    names = ["benchmark"]
    of_machine: Counter[tuple[int, int]] = Counter()
    for change, series in found:
        between = (change["before"], change["after"])
        of_machine[between] += change["whose"] == "machine"
        if change["whose"] == "machine" and of_machine[between] > NAMES_MAX:
            continue
        rows.append(
            (
                percent(change["size"]),
                interval(change),
                WHOSE[change["whose"]],
                "REGRESSION" if change["regression"] else change["direction"],
                place(results[change["before"]]),
                place(results[change["after"]]),
            )
        )
        names.append(_name(series, document))
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row, name in zip(rows, names):
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        yield "  ".join([row[0].rjust(widths[0]), *cells[1:], name])
    for (before, _), count in of_machine.items():
        if count > NAMES_MAX:
            where = place(results[before])
            yield f"{count - NAMES_MAX} more of the machine's after {where}; --json and --html have all"


def _notes(document: Json) -> Iterator[str]:
    """One line per note, or one for all series that have it."""
    named: dict[str, list[str]] = {}
    for series in document["series"]:
        for note in series["notes"]:
            named.setdefault(note, []).append(_name(series, document))
    for note, names in named.items():
        if len(names) > NAMES_MAX:
            names = [f"{len(names)} series, such as {names[0]}"]
        for name in names:
            yield f"note: {name}: {note}"


def _name(series: Json, document: Json) -> str:
    several = len(document["environments"]) > 1
    where = f", environment {series['environment']}" if several else ""
    return f"{series['id']}: {series['measure']}{where}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
