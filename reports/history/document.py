"""The analysis of a history as one JSON document, from which table and page are made."""

from __future__ import annotations

from collections import Counter

from common.outcomes import Json
from history.changes import CODE, RESULTS_MIN, Analysed, Change, net_of_code, percent
from history.read import ANALYSIS_KIND, History

VERSION = 1
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def of(
    history: History,
    analysed: list[Analysed],
    alpha: float,
    threshold: float,
    last: int,
) -> Json:
    count = sum(each.is_analysed for each in analysed)
    series = [_series(each, history, analysed, threshold, last) for each in analysed]
    return {
        "schema_version": VERSION,
        "kind": ANALYSIS_KIND,
        "options": {"alpha": alpha, "threshold": threshold, "last": last},
        "p_max": alpha / max(count, 1),
        "results": [
            {
                "file": result.file,
                "started_at": result.started_at,
                "commit": result.commit,
                "environment": letter(environment),
            }
            for result, environment in zip(history.results, history.environment_of)
        ],
        "environments": [
            {
                "name": letter(index),
                "results": history.environment_of.count(index),
                "facts": facts,
                "differs_in": _differences(history.environments, index),
            }
            for index, facts in enumerate(history.environments)
        ],
        "skipped": [
            {"file": each.file, "reason": each.reason, "error": each.is_error}
            for each in history.skipped
        ],
        "series": series,
        "regressions": sum(each["regression"] for each in series),
    }


def letter(index: int) -> str:
    number = index // len(LETTERS)
    return LETTERS[index % len(LETTERS)] + (str(number) if number else "")


def _differences(environments: list[dict[str, str]], index: int) -> list[str]:
    """Returns the names of the facts that differ from those of the environment before."""
    if index == 0:
        return []
    before, now = environments[index - 1], environments[index]
    return [name for name in {**before, **now} if before.get(name) != now.get(name)]


def _series(
    each: Analysed,
    history: History,
    analysed: list[Analysed],
    threshold: float,
    last: int,
) -> Json:
    series = each.series
    members = [
        index
        for index, environment in enumerate(history.environment_of)
        if environment == series.environment
    ]
    # Of those that have the series: what was measured otherwise, or on another machine, says nothing about it.
    recent = (series.indexes or members)[-last:][0]
    notes = []
    if not each.is_analysed:
        notes.append(
            f"not analysed: {len(series.values)} of at least {RESULTS_MIN} results"
        )
    if series.without_reference:
        notes.append(f"results without a raw path left out: {series.without_reference}")
    if series.indexes and series.indexes[-1] != members[-1]:
        notes.append("not in the newest result")
    names = Counter(
        other.series.name
        for other in analysed
        if other.series.environment == series.environment
    )
    if names[series.name] > 1:
        notes.append("one of several series of this id: other scale, peer or measure")
    codes = [
        change
        for change in each.changes
        if change.whose == CODE and change.after >= recent
    ]
    regression = bool(codes) and codes[-1].is_slower()
    if codes and not regression:
        # The last change may have mended only a part.
        net = net_of_code(each, codes[0])
        regression = net.size <= -threshold and net.high < 0
        if regression:
            notes.append(
                f"recovered in part: the code's changes among the last results together are {percent(net.size)}"
            )
    slower = [change for change in codes if change.is_slower()]
    flagged = slower[-1] if regression else None
    outliers = set(each.outliers)
    is_ratio = series.reference is not None
    return {
        "id": series.name,
        "subject": series.subject,
        "environment": letter(series.environment),
        "measure": f"{series.measure} over raw path" if is_ratio else series.measure,
        "reference": series.reference,
        "analysed": each.is_analysed,
        "regression": regression,
        "notes": notes,
        "points": [
            {
                "result": index,
                "value": series.values[at],
                "clipped": each.clipped[at],
                "outlier": at in outliers,
                "rate": series.rates[at],
                "raw_rate": series.raw_rates[at] if is_ratio else None,
            }
            for at, index in enumerate(series.indexes)
        ],
        "changes": [_change(change, change is flagged) for change in each.changes],
    }


def _change(change: Change, regression: bool) -> Json:
    return {
        "before": change.before,
        "after": change.after,
        "size": change.effect.size,
        "low": change.effect.low,
        "high": change.effect.high,
        "direction": "slower" if change.is_slower() else "faster",
        "whose": change.whose,
        "why": change.why,
        "regression": regression,
    }
