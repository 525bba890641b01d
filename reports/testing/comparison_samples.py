"""Comparisons to test the page with, and to look at it: documents of tzmark compare and of tzmark bench against.

usage: python3 -m testing.comparison_samples DIR

Writes three.json, many.json, hard.json and against.json to the new directory DIR.
"""

from __future__ import annotations

import json
import sys
from math import exp
from pathlib import Path
from random import Random

from common.outcomes import Json
from testing import bench_samples

VERDICTS = ("no difference found", "REGRESSION", "faster", "below the threshold")


def estimate(ratio: float, spread: float | None, floor: float | None = None) -> Json:
    known = spread is not None
    return {
        "ratio": ratio,
        "low": None if spread is None else ratio * exp(-spread),
        "high": None if spread is None else ratio * exp(spread),
        "p": 0.004 if known else None,
        "detectable": 0.03 if known else None,
        "floor": floor,
    }


def row(name: str, ratio: float, spread: float | None, verdict: str) -> Json:
    """Returns a row that is judged by its rate."""
    found = estimate(ratio, spread)
    return {
        "id": name,
        "subject": name.partition(" ")[0],
        "reference": None,
        "old": {"rate": 2e9, "runs": 12},
        "new": {"rate": 2e9 * ratio, "runs": 12},
        "rate": found,
        "judged": found,
        "verdict": verdict,
    }


def of_machine(name: str, raw: str, ratio: float) -> Json:
    """Returns a row whose rate changed with the raw path."""
    made = row(name, ratio, 0.02, "machine slower")
    return {**made, "reference": raw, "judged": estimate(1.001, 0.015)}


def document(rows: list[Json], missing: list[Json] | None = None) -> Json:
    runs = [{"file": f"{at}.json", "tool": "tzmark 0.1.0"} for at in range(12)]
    return {
        "schema_version": 1,
        "kind": "comparison",
        "tool": {"name": "tzmark", "version": "0.1.0", "commit": "abc"},
        "old": runs,
        "new": runs,
        "alpha": 0.01,
        "threshold": 0.02,
        "paired": True,
        "floor": None,
        "differences": [],
        "missing": missing or [],
        "remarks": [],
        "rows": rows,
    }


def three() -> Json:
    return document(
        [
            row("codec read gpt2 pwrite warm", 0.93, 0.02, "REGRESSION"),
            row("codec write gpt2 pwrite", 1.004, 0.012, "no difference found"),
            row("raw read gpt2 pwrite warm", 1.06, 0.015, "faster"),
        ]
    )


def many(count: int = 66) -> Json:
    random = Random(5)
    raw = "raw read gpt2/63MiB direct v4 2MiB d8 t2 none direct"
    rows = [row(raw, 0.91, 0.015, "machine slower")]
    rows.append(of_machine(raw.replace("raw", "codec", 1), raw, 0.9))
    while len(rows) < count:
        at = len(rows)
        verdict = VERDICTS[random.choice((0, 0, 0, 0, 0, 0, 0, 1, 2, 3))]
        ratio = {
            "REGRESSION": random.uniform(0.85, 0.95),
            "faster": random.uniform(1.05, 1.15),
            "below the threshold": 0.987,
        }.get(verdict, random.uniform(0.99, 1.01))
        name = f"codec read gpt2/63MiB pwrite v4 {2 ** (at % 6)}MiB d{at} t2 both warm huge-pages"
        rows.append(row(name, ratio, random.uniform(0.005, 0.03), verdict))
    rows.sort(key=lambda one: str(one["id"]))
    return document(rows)


def hard() -> Json:
    """Very wide intervals, none, results that are missing, a floor of 30 %, names of all kinds."""
    wide = row("codec read wide", 1.5, 2.6, "no difference found")
    huge = row("codec read huge", 1.1, 12.0, "too few runs")
    alone = row("codec read no-interval", 0.97, None, "too few runs")
    alone["judged"] = alone["rate"] = estimate(0.97, None, 0.3)
    long = row(
        "BM_Decode<" + "std::pair<int, long>/" * 12 + ">", 1.0, 0.01, VERDICTS[0]
    )
    long["subject"] = "benchmark"
    rows = [
        wide,
        huge,
        alone,
        long,
        row('<script>alert(1)</script> & "x" $y^{2}$', 0.95, 0.01, "REGRESSION"),
        row("codec read narrow", 1.0, 0.004, "no difference found"),
        row("codec write narrow", 1.0, 0.005, "no difference found"),
    ]
    missing = [
        {"id": name, "file": f"{at}.json", "why": why}
        for name, why in (
            ("codec write uring", "not measured: no space left on device"),
            ("codec write mmap", ""),
        )
        for at in (3, 4)
    ]
    missing.append({"id": "codec read wide", "file": "7.json", "why": ""})
    made = document(rows, missing)
    made["remarks"] = ["the machine was busy at the start of 3.json: load 8 on 2 cores"]
    return made


def against() -> Json:
    build = {
        "program": "/opt/old/bin/tzmark",
        "version": "0.1.0",
        "commit": "abc",
        "measuring_core": 3,
        "file": "1:2:3",
    }

    def line(
        name: str,
        ratio: float | None,
        spread: float | None,
        verdict: str,
        why: str = "",
    ) -> Json:
        found = estimate(ratio, spread) if ratio else {}
        return {
            "id": name,
            "old_id": name,
            "old_rate": 2e9 if ratio else None,
            "new_rate": 2e9 * ratio if ratio else None,
            "ratio": {
                "estimate": ratio,
                "low": found.get("low"),
                "high": found.get("high"),
            },
            "processes": 40 if ratio else 0,
            "laps": 120 if ratio else 0,
            "disturbed_laps": 2,
            "failures": 0,
            "verdict": verdict,
            "why": why,
        }

    rows = [
        line("codec read gpt2 pwrite none warm", 0.972, 0.022, "REGRESSION"),
        line("codec read gpt2 pwrite both warm", 1.001, 0.012, "same"),
        line("codec write gpt2 pwrite", 1.03, 0.02, "faster"),
        line("codec read gpt2 direct", 0.99, 0.04, "undecided"),
        line("codec write gpt2 direct", 0.98, None, "undecided"),
        line("raw write gpt2 direct", None, None, "not measured", "no space left"),
    ]
    rows[1]["old_id"] = "codec read gpt2 pwrite both warm d4"
    return {
        "schema_version": 1,
        "kind": "bench-against",
        "tool": {"name": "tzmark", "version": "0.1.0", "commit": "abc"},
        "command": ["tzmark", "bench", "against", "/opt/old/bin/tzmark"],
        "started_at": "2026-01-01T00:00:00Z",
        "machine": bench_samples.document()["machine"],
        "old": build,
        "new": {**build, "program": "/opt/new/bin/tzmark", "commit": "def"},
        "alpha": 0.01,
        "floor": 0.005,
        "effect": 0.02,
        "seed": 1,
        "budget_s": 600,
        "conditions": {"laps": 720, "disturbed_laps": 12, "was_busy": False},
        "is_complete": True,
        "warnings": ["16 MiB of data instead of 64 MiB: a cgroup limits memory"],
        "rows": rows,
    }


def main(directory: str) -> None:
    Path(directory).mkdir()
    for made in (three, many, hard, against):
        file = Path(directory, f"{made.__name__}.json")
        file.write_text(json.dumps(made(), indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
