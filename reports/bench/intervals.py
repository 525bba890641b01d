"""The median of a few samples with its 95 % interval by order statistics, computed as in the bench."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import median

from common.outcomes import Json

# The probability of both tails together.
TAILS_MAX = 0.05


def rank(samples: int) -> int:
    """How far in from both ends, counted from 1, the interval of the median lies; 0 where there are too few samples.

    As many samples as a fair coin shows heads lie below the median, whatever their distribution is.
    """
    below, found = 0.0, 0
    for heads in range(samples // 2):
        below += comb(samples, heads) / 2**samples
        if 2 * below > TAILS_MAX:
            break
        found = heads + 1
    return found


def median_interval(values: Sequence[float]) -> Json:
    """REQUIRES: there is at least one value."""
    ordered = sorted(values)
    inside = rank(len(ordered))
    return {
        "median": median(ordered),
        "low": ordered[inside - 1] if inside else None,
        "high": ordered[-inside] if inside else None,
        "samples": len(ordered),
    }


def has_interval(rate: Json) -> bool:
    return rate["low"] is not None and rate["high"] is not None


def overlap(one: Json, other: Json) -> bool:
    """Whether the intervals of both have a value in common, so that neither can be called the greater.

    REQUIRES: both have an interval.
    """
    return bool(one["low"] <= other["high"] and other["low"] <= one["high"])
