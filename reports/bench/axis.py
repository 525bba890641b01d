"""Axes: positions of values in a figure, and their ticks, linear or by powers of ten."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10

from matplotlib.ticker import MaxNLocator


@dataclass(frozen=True)
class Linear:
    """A linear axis: zero at start, limit at end."""

    start: float
    end: float
    limit: float

    def at(self, value: float) -> float:
        return self.start + (self.end - self.start) * value / self.limit

    def ticks(self, count: int) -> list[float]:
        """Returns about that many round values, including zero, none beyond the limit."""
        locator = MaxNLocator(nbins=count, steps=[1, 2, 2.5, 5, 10])
        values = [float(value) for value in locator.tick_values(0, self.limit)]
        return [value for value in values if 0 <= value <= self.limit * 1.001]


@dataclass(frozen=True)
class Between:
    """A linear axis that need not begin at zero: low at start, high at end.

    REQUIRES: low < high.
    """

    start: float
    end: float
    low: float
    high: float

    def at(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * part

    def ticks(self, count: int) -> list[float]:
        """Returns about that many round values."""
        locator = MaxNLocator(nbins=count, steps=[1, 2, 2.5, 5, 10])
        values = [float(value) for value in locator.tick_values(self.low, self.high)]
        return [value for value in values if self.low <= value <= self.high]


@dataclass(frozen=True)
class Logarithmic:
    """REQUIRES: 0 < low < high."""

    start: float
    end: float
    low: float
    high: float

    def at(self, value: float) -> float:
        part = (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return self.start + (self.end - self.start) * part

    def ticks(self) -> list[float]:
        """Returns powers of ten, and their multiples by 2 and 5 if there are few."""
        powers = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        factors = (1, 2, 5) if self.high < 300 * self.low else (1,)
        values = [10.0**power * factor for power in powers for factor in factors]
        return [
            value for value in values if self.low * 0.999 <= value <= self.high * 1.001
        ]


def tick_text(value: float) -> str:
    return f"{value:,.10g}"


def apart(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Returns positions close to the wanted ones with a gap between neighbours, within low and high if they fit."""
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    placed = list(wanted)
    previous = low - gap
    for index in order:
        placed[index] = previous = max(wanted[index], previous + gap)
    following = high + gap
    for index in reversed(order):
        placed[index] = following = min(placed[index], following - gap)
    return placed
