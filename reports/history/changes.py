"""Finds the change points of series, and attributes each to the code or to the machine.

apache-otava finds them. Here are only the clipping of outliers before it, the intervals of sizes after it, and the
comparison with the raw path of the same run.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log, prod, sqrt
from statistics import median

import numpy as np
from otava.analysis import compute_change_points
from scipy.stats import t as student

from history.read import MACHINE_CEILINGS, History, Series

# Series with fewer results are not analysed.
RESULTS_MIN = 8
# A value is compared with the median of this many results around it; at the ends, of the nearest ones.
WINDOW = 7
# How far from that median a value may be, in standard deviations.
CLIP_SIGMAS = 2.5
# The standard deviation of a normal distribution, in median absolute deviations.
SIGMAS_PER_MAD = 1.4826
# An interval in this many results of the environment around a change point is searched for steps of other series.
NEIGHBOURS = 1
CONFIDENCE = 0.95
# Whose a change is.
CODE, MACHINE, UNKNOWN = "code", "machine", "unknown"


@dataclass(frozen=True)
class Effect:
    """A relative change and its 95 % interval: -0.05 is 5 % slower."""

    size: float
    low: float
    high: float

    def is_clear(self) -> bool:
        return self.low > 0 or self.high < 0


@dataclass
class Change:
    """A change point of a series. position: of the first value after it."""

    position: int
    before: int  # index of the last result before it
    after: int  # index of the first result after it
    effect: Effect
    whose: str = UNKNOWN
    why: str = ""

    def is_slower(self) -> bool:
        return self.effect.size < 0


@dataclass
class Analysed:
    series: Series
    is_analysed: bool
    clipped: list[float]  # the values with outliers moved, within each segment
    outliers: list[int]  # positions
    changes: list[Change] = field(default_factory=list)

    def segments(self) -> list[tuple[int, int]]:
        """Returns the positions between change points as half-open ranges."""
        bounds = [0, *(change.position for change in self.changes), len(self.clipped)]
        return list(zip(bounds, bounds[1:]))


def clip(values: Sequence[float]) -> tuple[list[float], list[int]]:
    """Returns the values with outliers moved to the bound, and the positions of outliers.

    The first three results after a step are moved as well, but in one direction, which still shows the step.
    """
    if not values:
        return [], []
    width = min(WINDOW, len(values))
    middles = []
    for position in range(len(values)):
        start = min(max(position - width // 2, 0), len(values) - width)
        middles.append(median(values[start : start + width]))
    distances = [abs(value - middle) for value, middle in zip(values, middles)]
    bound = CLIP_SIGMAS * SIGMAS_PER_MAD * median(distances)
    clipped = [
        min(max(value, middle - bound), middle + bound)
        for value, middle in zip(values, middles)
    ]
    outliers = [at for at, distance in enumerate(distances) if distance > bound]
    return clipped, outliers


def change_points(values: Sequence[float], p_max: float, threshold: float) -> list[int]:
    """Returns the positions of the first values after each change."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Segments without any noise have no p value, but otava handles that.
        warnings.simplefilter("ignore", RuntimeWarning)
        found, _ = compute_change_points(
            list(values), max_pvalue=p_max, min_magnitude=threshold
        )
    return sorted(int(point.index) for point in found)


def effect(before: Sequence[float], after: Sequence[float]) -> Effect:
    """Returns the change of the geometric mean, with Student's interval.

    REQUIRES: three values together, at least one on each side, all positive.
    """
    sides = [[log(value) for value in side] for side in (before, after)]
    means = [sum(side) / len(side) for side in sides]
    squares = sum(
        (value - mean) ** 2 for side, mean in zip(sides, means) for value in side
    )
    freedom = len(before) + len(after) - 2
    error = sqrt(squares / freedom * (1 / len(before) + 1 / len(after)))
    reach = float(student.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    change = means[1] - means[0]
    return Effect(
        *(exp(value) - 1 for value in (change, change - reach, change + reach))
    )


def analyse(history: History, alpha: float, threshold: float) -> list[Analysed]:
    """alpha: the p value below which a change counts, divided by the number of analysed series."""
    long = [len(series.values) >= RESULTS_MIN for series in history.series]
    p_max = alpha / max(sum(long), 1)
    analysed = []
    for series, is_long in zip(history.series, long):
        made = Analysed(series, is_long, [], [])
        points = (
            change_points(clip(series.values)[0], p_max, threshold) if is_long else []
        )
        bounds = [0, *points, len(series.values)]
        for start, end in zip(bounds, bounds[1:]):
            # Without the other side of the step, its first results are no outliers.
            clipped, outliers = clip(series.values[start:end])
            made.clipped += clipped
            made.outliers += [start + at for at in outliers]
        for start, point, end in zip(bounds, bounds[1:], bounds[2:]):
            sides = made.clipped[start:point], made.clipped[point:end]
            before, after = series.indexes[point - 1], series.indexes[point]
            made.changes.append(Change(point, before, after, effect(*sides)))
        analysed.append(made)
    _attribute(analysed, _ranks(history.environment_of))
    return analysed


def _ranks(environment_of: Sequence[int]) -> list[int]:
    """Returns for each result how many of its environment are before it."""
    seen: Counter[int] = Counter()
    ranks = []
    for environment in environment_of:
        ranks.append(seen[environment])
        seen[environment] += 1
    return ranks


def net_of_code(analysed: Analysed, first: Change) -> Effect:
    """Returns the change by the code from before its change first until now, without what the machine changed."""
    starts = dict(
        zip((change.position for change in analysed.changes), analysed.segments())
    )
    before = analysed.clipped[slice(*starts[first.position])]
    later = [change for change in analysed.changes if change.position > first.position]
    others = prod(1 + change.effect.size for change in later if change.whose != CODE)
    now = analysed.clipped[analysed.changes[-1].position :]
    return effect(before, [value / others for value in now])


def _is_of_machine(series: Series) -> bool:
    if series.subject == "ceiling":
        return series.name.split()[1].startswith(MACHINE_CEILINGS)
    # The version of a peer identifies its series, so its code does not change within it.
    return series.subject != "codec"


def _attribute(analysed: list[Analysed], ranks: Sequence[int]) -> None:
    references = [
        each for each in analysed if each.is_analysed and _is_of_machine(each.series)
    ]
    for each in analysed:
        for number, change in enumerate(each.changes):
            start, end = each.segments()[number][0], each.segments()[number + 1][1]
            if each.series.subject == "raw":
                change.whose, change.why = _by_fio(each, change, start, end, analysed)
            elif _is_of_machine(each.series):
                change.whose = MACHINE
                change.why = f"{each.series.subject}: measured without the codec"
            elif each.series.reference is not None:
                change.whose, change.why = _by_raw_path(each, change, start, end)
            else:
                change.whose, change.why = _by_others(each, change, references, ranks)


def _by_fio(
    analysed: Analysed, change: Change, start: int, end: int, all_of: list[Analysed]
) -> tuple[str, str]:
    """Attributes a step of a raw path, which runs the I/O layer of tzmark: the code's if fio kept its rate."""
    series = analysed.series
    first, last = series.indexes[start], series.indexes[end - 1]
    # Half of the step, as a logarithm.
    half = log(1 + change.effect.size) / 2
    found: dict[str, str] = {}
    for other in (each.series for each in all_of):
        if other.subject != "fio" or other.environment != series.environment:
            continue
        if other.name.split()[1:2] != series.name.split()[1:2]:  # the operation
            continue
        sides = [
            [rate for at, rate in zip(other.indexes, other.rates) if low <= at <= high]
            for low, high in ((first, change.before), (change.after, last))
        ]
        if min(map(len, sides)) < 2:
            continue
        moved = effect(*(clip(side)[0] for side in sides))
        size, low, high = (
            log(1 + value) / half for value in (moved.size, moved.low, moved.high)
        )
        low, high = min(low, high), max(low, high)
        if size >= 1 and low > 0:
            found.setdefault(MACHINE, f"{other.name} changed with it")
        elif high < 1:
            found.setdefault(CODE, f"{other.name} kept its rate: the I/O layer changed")
        else:
            found.setdefault(UNKNOWN, f"{other.name} does not show whether it changed")
    for whose in (MACHINE, CODE, UNKNOWN):
        if whose in found:
            return whose, found[whose]
    return (
        MACHINE,
        "raw: measured without the codec; only fio could show that the I/O layer changed",
    )


def _by_raw_path(
    analysed: Analysed, change: Change, start: int, end: int
) -> tuple[str, str]:
    """Attributes a step of codec over raw path: the machine's if only the raw path moved."""
    series, at = analysed.series, change.position
    own, raw = (
        effect(clip(rates[start:at])[0], clip(rates[at:end])[0])
        for rates in (series.rates, series.raw_rates)
    )
    follows = own.is_clear() and (own.size < 0) == change.is_slower()
    if not follows and raw.is_clear():
        return MACHINE, f"only the raw path changed, by {percent(raw.size)}"
    return CODE, "the codec changed relative to the raw path of the same run"


def _by_others(
    analysed: Analysed,
    change: Change,
    references: list[Analysed],
    ranks: Sequence[int],
) -> tuple[str, str]:
    """Attributes a step of a series without its own raw path by steps of raw paths, fio, peers and memcpy."""
    environment = analysed.series.environment
    near = [each for each in references if each.series.environment == environment]
    for reference in near:
        for other in reference.changes:
            if (
                other.is_slower() == change.is_slower()
                and ranks[other.before] - NEIGHBOURS <= ranks[change.after]
                and ranks[change.before] <= ranks[other.after] + NEIGHBOURS
            ):
                return MACHINE, f"{reference.series.name} changed with it"
    if not near:
        return UNKNOWN, "nothing in the same runs tells code and machine apart"
    return CODE, f"none of {len(near)} series of the machine changed with it"


def percent(share: float) -> str:
    return f"{100 * share:+.1f} %"
