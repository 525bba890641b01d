"""Places the names of lines above a figure next to their lines, without overlapping names or lines."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from bench.canvas import SMALL, text_width

LEVEL_HEIGHT = 15
# Gaps between a line and its name, and between names.
MARGIN, GAP = 4, 8
# With more lines than this, not all arrangements are tried.
TRIED_MAX = 8


@dataclass(frozen=True)
class Flag:
    """A name at a level counted from below, from start to end; its line is at one of its ends."""

    text: str
    at: float
    level: int
    start: float
    end: float

    def meets(self, other: Flag) -> bool:
        if self.level == other.level:
            return self.start < other.end + GAP and other.start < self.end + GAP
        upper, lower = (self, other) if self.level > other.level else (other, self)
        return lower.start - 3 < upper.at < lower.end + 3


def placed(names: list[tuple[str, float]], width: float) -> list[Flag]:
    """Places the names at their x positions in as few lines as fit the width."""
    sides = (False, True) if len(names) <= TRIED_MAX else (False,)
    tried = (_hung(names, hung, width) for hung in product(sides, repeat=len(names)))
    return min(tried, key=lambda found: found[0])[1]


def _hung(
    names: list[tuple[str, float]], leftward: tuple[bool, ...], width: float
) -> tuple[tuple[int, int, int], list[Flag]]:
    """The flags for one choice of which hang to the left, and how bad that is.

    Those to the left are placed from the left on, then the others from the right on: so each finds the lines of those
    before it away from where its name goes.
    """
    ordered = sorted(zip(names, leftward), key=lambda one: one[0][1])
    queue = [one for one in ordered if one[1]]
    queue += [one for one in reversed(ordered) if not one[1]]
    flags: list[Flag] = []
    bad = 0
    for (text, at), left in queue:
        wide = text_width(text, SMALL)
        wanted = at - MARGIN - wide if left else at + MARGIN
        start = max(0.0, min(wanted, width - wide))
        bad += start != wanted
        levels = (
            Flag(text, at, level, start, start + wide)
            for level in range(len(flags) + 1)
        )
        free = (
            flag for flag in levels if not any(flag.meets(other) for other in flags)
        )
        found = next(free, None)
        bad += found is None
        flags.append(found or Flag(text, at, len(flags), start, start + wide))
    height = max((flag.level + 1 for flag in flags), default=0)
    return (bad, height, sum(leftward)), flags
