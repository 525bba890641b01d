"""Compares the tables of docs/what-the-numbers-mean.md with smaller simulations, and with what is promised.

Percentages may differ by four standard errors of the smaller simulation, numbers of pairs by half.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE, BUILD = (
    Path(os.environ[name]) for name in ("TZMARK_SOURCE_DIR", "TZMARK_BUILD_DIR")
)
SHARE = 0.05
# Comparisons of the smaller simulation per row.
COUNTS = {"intervals": 100, "false-alarms": 100, "power": 25}
# Kinds of noise that break the assumption of the interval.
BROKEN = ("skewed", "autocorrelated, each", "drifting, fixed")

Table = dict[str, list[str]]


def parse(text: str) -> tuple[list[str], Table]:
    """Returns the heads of a table's columns and its rows by their first cell."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return cells[0][1:], {row[0]: row[1:] for row in cells[2:]}


def share_of(cell: str) -> float:
    return float(cell.removesuffix(" %")) / 100


def differs(documented: str, found: str, count: int) -> bool:
    if documented.endswith(" %"):
        expected = share_of(documented)
        deviation = (max(expected * (1 - expected), 0.01) / count) ** 0.5
        return abs(expected - share_of(found)) > 4 * deviation
    if documented.isdigit() and found.isdigit():
        return not 0.5 < int(found) / int(documented) < 2
    return documented != found


class Simulations(unittest.TestCase):
    def documented(self, name: str) -> tuple[list[str], Table]:
        text = (SOURCE / "docs/what-the-numbers-mean.md").read_text(encoding="utf-8")
        found = re.search(rf"<!-- {name} -->\n((?:\|.*\n)+)", text)
        assert found is not None, name
        return parse(found[1])

    def test_tables_are_those_of_the_program(self) -> None:
        for name, count in COUNTS.items():
            done = subprocess.run(
                [BUILD / "bin/tzmark-bench-simulation", name, str(SHARE)]
                + [SOURCE / "bench/simulation/real-runs.json"],
                check=True,
                capture_output=True,
                text=True,
            )
            heads, rows = parse(done.stdout)
            documented_heads, documented = self.documented(name)
            self.assertEqual(heads, documented_heads)
            self.assertEqual(list(rows), list(documented))
            for noise, cells in documented.items():
                for head, cell, found in zip(heads, cells, rows[noise]):
                    self.assertFalse(
                        differs(cell, found, count), f"{noise}, {head}: {cell}, {found}"
                    )

    def test_tables_show_what_is_promised(self) -> None:
        _, intervals = self.documented("intervals")
        for noise, cells in intervals.items():
            if not noise.startswith(BROKEN):
                self.assertGreaterEqual(share_of(cells[0]), 0.95, noise)
        heads, alarms = self.documented("false-alarms")
        self.assertEqual(len(alarms), 6)
        for noise, cells in alarms.items():
            for head, cell in zip(heads[2:], cells[2:]):
                if cell != "busy":
                    self.assertLessEqual(share_of(cell), 0.01, f"{noise}, {head}")
        self.assertGreater(share_of(alarms["3 % between runs"][1]), 0.9)
        _, power = self.documented("power")
        for noise, cells in power.items():
            if noise.startswith("real"):
                self.assertGreaterEqual(share_of(cells[2]), 0.99, noise)
                continue
            self.assertGreaterEqual(share_of(cells[4]), 0.95, noise)
            self.assertGreaterEqual(share_of(cells[6]), 0.9, noise)

    def test_differences_are_noticed(self) -> None:
        for documented, found in (
            ("0.5 %", "30.0 %"),
            ("99.0 %", "60.0 %"),
            ("33", "70"),
            ("busy", "1.0 %"),
        ):
            self.assertTrue(differs(documented, found, 100))
        self.assertFalse(differs("97.0 %", "95.0 %", 100))


if __name__ == "__main__":
    sys.exit(unittest.main())
