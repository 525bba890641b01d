"""The rows of a comparison, of tzmark compare or of tzmark bench against, as its figure and its page show them.

Values that cannot be drawn are refused here: a ratio is a positive number, and a verdict is one of those known.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import isfinite

from common.outcomes import Json
from common.results import NotAResult

COMPARE = "comparison"
AGAINST = "bench-against"
MISSING = "missing"
NOT_MEASURED = "not measured"
REGRESSION = "REGRESSION"
# Verdicts, in the order of the legend, and the letters of their shades in the page.
SHADES = {
    REGRESSION: "w",
    MISSING: "w",
    "machine slower": "o",
    "machine faster": "o",
    "faster": "p",
    "below the threshold": "s",
    "no difference found": "s",
    "same": "s",
    "too few runs": "r",
    "undecided": "r",
    NOT_MEASURED: "r",
}
# Those without news: a figure of very many rows leaves them out.
QUIET = ("below the threshold", "no difference found", "same")
# Ratios beyond these cannot be told apart from damage.
RATIO_MIN, RATIO_MAX = 1e-9, 1e9
ZONE_MAX = 0.999


@dataclass(frozen=True)
class Estimate:
    """The new rate over the old one. Both ends of the interval are known, or neither."""

    ratio: float
    low: float | None
    high: float | None

    def ends(self) -> tuple[float, float] | None:
        if self.low is None or self.high is None:
            return None
        return self.low, self.high


@dataclass(frozen=True)
class Row:
    name: str
    estimate: Estimate | None  # of what is judged; None: there is none
    verdict: str
    zone: float  # the fraction below which no difference is claimed
    # The change of the rate itself, where the verdict is that the machine changed.
    machine: Estimate | None
    details: tuple[str, ...]
    cells: tuple[str, ...]  # of the table, by COLUMNS


@dataclass(frozen=True)
class Comparison:
    command: str
    old: str
    new: str
    interval: str  # what the intervals mean
    zone: str  # what the shaded zone means
    effect: float | None  # the slow-down to find, as a fraction
    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    remarks: tuple[str, ...]
    missing: tuple[str, ...]

    def said(self) -> str:
        """Returns the verdicts with their numbers of rows, the worst first."""
        counts = Counter(row.verdict for row in self.rows)
        return ", ".join(
            (
                plural(counts[verdict], "regression")
                if verdict == REGRESSION
                else f"{counts[verdict]} {verdict}"
            )
            for verdict in SHADES
            if counts[verdict]
        )


def of(document: Json) -> Comparison:
    """Throws NotAResult, and what a missing member throws."""
    made = _compared(document) if document["kind"] == COMPARE else _against(document)
    if not made.rows:
        raise NotAResult("the comparison has no rows")
    return made


def plural(count: int, noun: str) -> str:
    ending = "es" if noun.endswith("s") else "s"
    return f"{count} {noun}{'' if count == 1 else ending}"


def percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"


def interval(estimate: Estimate) -> str:
    ends = estimate.ends()
    return f"{_short(ends[0])} to {_short(ends[1])}" if ends else "unknown"


def ratio(estimate: Estimate) -> str:
    return _short(estimate.ratio)


def _short(value: float) -> str:
    return f"{value:.3f}" if 0.001 <= value < 1000 else f"{value:.2g}"


def _compared(document: Json) -> Comparison:
    threshold = _fraction(document["threshold"])
    absent = document["missing"]
    lacking = Counter(_text(one["id"]) for one in absent)
    rows = [_compared_row(row, threshold, lacking) for row in document["rows"]]
    named = {row.name for row in rows}
    reasons: dict[str, list[str]] = {name: [] for name in lacking if name not in named}
    for one in absent:
        if one["id"] in reasons and one["why"]:
            reasons[one["id"]].append(_text(one["why"]))
    rows += [
        Row(
            *(name, None, MISSING, threshold, None),
            tuple([f"in {plural(lacking[name], 'run')}", *dict.fromkeys(why)]),
            ("–",) * 6,
        )
        for name, why in reasons.items()
    ]
    old, new = document["old"], document["new"]
    return Comparison(
        command="tzmark compare",
        old=f"{plural(len(old), 'process')} of {_tools(old)}",
        new=f"{plural(len(new), 'process')} of {_tools(new)}",
        interval="95 % intervals",
        zone=f"less than {percent(threshold)}, or the floor of a row: not claimed",
        effect=None,
        rows=tuple(rows),
        columns=("old", "new", "ratio", "95 % interval", "p", "finds"),
        remarks=tuple(map(_text, document["remarks"]))
        + tuple(
            f"{_text(one['fact'])} differs in {_text(one['file'])}"
            for one in document["differences"]
        ),
        missing=tuple(
            f"{_text(one['id'])} in {_text(one['file'])}"
            + (f" ({_text(one['why'])})" if one["why"] else "")
            for one in absent
        ),
    )


def _compared_row(row: Json, threshold: float, lacking: Counter[str]) -> Row:
    name, verdict = _text(row["id"]), _verdict(row["verdict"])
    judged = _comparison(row["judged"])
    floor = row["judged"]["floor"]
    details = []
    if row["reference"] is not None:
        details.append("relative to raw")
    if lacking[name]:
        details.append(f"missing in {plural(lacking[name], 'run')}")
    p, finds = _number(row["judged"]["p"]), _number(row["judged"]["detectable"])
    unit = "/s" if row["subject"] == "benchmark" else " GB/s"
    return Row(
        name,
        judged,
        verdict,
        max(threshold, 0 if floor is None else _fraction(floor)),
        _comparison(row["rate"]) if verdict.startswith("machine") else None,
        tuple(details),
        (
            _rate(row["old"]["rate"], unit),
            _rate(row["new"]["rate"], unit),
            ratio(judged),
            interval(judged),
            "–" if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}",
            "nothing" if finds is None else percent(finds),
        ),
    )


def _comparison(found: Json) -> Estimate:
    return Estimate(_ratio(found["ratio"]), *_ends(found))


def _against(document: Json) -> Comparison:
    floor, effect = _fraction(document["floor"]), _fraction(document["effect"])
    conditions = document["conditions"]
    remarks = []
    if conditions["was_busy"]:
        remarks.append("the machine was so busy that disturbed laps had to count")
    elif conditions["disturbed_laps"]:
        laps = plural(conditions["disturbed_laps"], "lap")
        remarks.append(f"{laps} disturbed by others, which do not count")
    return Comparison(
        command="tzmark bench against",
        old=_build(document["old"]),
        new=_build(document["new"]),
        interval=f"intervals that hold together with {percent(1 - _fraction(document['alpha']))}",
        zone=f"less than {percent(floor)}: not claimed",
        effect=effect,
        rows=tuple(_against_row(row, floor) for row in document["rows"]),
        columns=("old", "new", "ratio", "interval", "processes"),
        remarks=tuple(remarks),
        missing=(),
    )


def _against_row(row: Json, floor: float) -> Row:
    name, verdict = _text(row["id"]), _verdict(row["verdict"])
    found = row["ratio"]
    estimate = None
    if found["estimate"] is not None:
        estimate = Estimate(_ratio(found["estimate"]), *_ends(found))
    details = []
    if row["why"]:
        details.append(_text(row["why"]))
    if row["old_id"] != row["id"]:
        details.append(f"the old build runs {_text(row['old_id'])}")
    return Row(
        name,
        estimate,
        verdict,
        floor,
        None,
        tuple(details),
        (
            *(_rate(row[member], " GB/s") for member in ("old_rate", "new_rate")),
            ratio(estimate) if estimate else "–",
            interval(estimate) if estimate else "–",
            f"{row['processes']:d}",
        ),
    )


def _tools(runs: list[Json]) -> str:
    return ", ".join(dict.fromkeys(_text(run["tool"]) for run in runs))


def _build(build: Json) -> str:
    return f"{_text(build['program'])}, {_text(build['version'])}, commit {_text(build['commit'])}"


def _rate(rate: object, unit: str) -> str:
    found = _number(rate)
    if found is None:
        return "–"
    return f"{found / 1e9:.3f}{unit}" if unit == " GB/s" else f"{found:.4g}{unit}"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise NotAResult(f"not a text: {value!r:.60}")
    return value


def _verdict(value: object) -> str:
    if _text(value) not in SHADES:
        raise NotAResult(f"unknown verdict {value!r:.60}")
    return str(value)


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise NotAResult(f"not a number: {value!r:.60}")
    try:
        found = float(value)
    except OverflowError as error:
        raise NotAResult(f"a number is too large: {value!r:.60}") from error
    if not isfinite(found):
        raise NotAResult(f"not a finite number: {found}")
    return found


def _ratio(value: object) -> float:
    found = _number(value)
    if found is None or not RATIO_MIN <= found <= RATIO_MAX:
        raise NotAResult(f"a ratio is not a positive number: {value!r:.60}")
    return found


def _ends(found: Json) -> tuple[float | None, float | None]:
    if found["low"] is None or found["high"] is None:
        return None, None
    low, high = _ratio(found["low"]), _ratio(found["high"])
    if low > high:
        raise NotAResult(f"an interval ends before it begins: {low} to {high}")
    return low, high


def _fraction(value: object) -> float:
    found = _number(value)
    if found is None or not 0 <= found <= 1:
        raise NotAResult(f"not a fraction: {value!r:.60}")
    return min(found, ZONE_MAX)
