"""Histories to test tzmark history with, and to show it: results of tzmark bench with planted steps.

usage: python3 -m testing.history_samples DIR [RESULT.json]

Writes 60 results to the new directory DIR, made from RESULT.json of tzmark bench or else from a sample. The codec
becomes 5 % slower at the 21st; the machine, and with it codec and raw path, 8 % slower at the 41st; and the codec is
15 % slower in the 30th only.
"""

from __future__ import annotations

import copy
import json
import sys
from datetime import datetime, timedelta, timezone
from math import exp
from pathlib import Path
from random import Random

from bench.intervals import median_interval
from common.outcomes import Json
from testing import bench_samples

RESULTS = 60
CODE_STEP, CODE_SIZE = 20, 0.95
OUTLIER, OUTLIER_SIZE = 29, 0.85
MACHINE_STEP, MACHINE_SIZE = 40, 0.92
# Between runs, and between codec and raw path of one run.
RUN_NOISE, OWN_NOISE = 0.01, 0.01
EPOCH = datetime(2026, 1, 1, 3, 4, 5, tzinfo=timezone.utc)


def base(seed: int = 1) -> Json:
    """Returns a result with reads and writes of the codec and of the raw path."""
    random = Random(seed)
    made = bench_samples.document(seed)
    made["results"] = []
    for subject, share in (("codec", 0.97), ("raw", 1.0)):
        for op, cache, durable in (("read", "warm", None), ("write", "none", 0.8e9)):
            result = bench_samples.result(
                random,
                op,
                "pwrite",
                cache,
                share * 2.4e9,
                durable=share * durable if durable else None,
                subject=subject,
                layout="v4" if subject == "codec" else None,
            )
            result["id"] = f"{subject} {op} gpt2 pwrite"
            made["results"].append(result)
    made["ceilings"] = [
        one for one in made["ceilings"] if one["rung"] in ("memcpy", "crc32")
    ]
    made["checks"] = []
    return made


def at(document: Json, number: int, random: Random, factors: dict[str, float]) -> Json:
    """Returns the document as if measured on day number, with rates multiplied by the factor of each subject.

    Every rate has noise of its own.
    """
    made = copy.deepcopy(document)
    made["started_at"] = (EPOCH + timedelta(days=number)).strftime("%Y-%m-%dT%H:%M:%SZ")
    made["elapsed_ns"] += number
    made["tool"]["commit"] = f"{0xC0FFEE00 + number:012x}"
    for result in made["results"]:
        noise = exp(random.gauss(0, OWN_NOISE))
        scale(result, noise * factors.get(result["subject"], 1.0))
    for ceiling in made["ceilings"]:
        noise = exp(random.gauss(0, OWN_NOISE))
        for member in ("median", "low", "high"):
            if ceiling["rate"][member] is not None:
                ceiling["rate"][member] *= noise * factors.get("ceiling", 1.0)
    return made


def scale(result: Json, factor: float) -> None:
    """Makes a result faster by the factor, in place."""
    for sample in result["samples"]:
        for member in ("elapsed_ns", "sync_ns"):
            if sample[member] is not None:
                sample[member] = max(round(sample[member] / factor), 1)
    samples, moved = result["samples"], result["bytes"]
    if not samples:
        return
    result["rate"] = median_interval(
        [1e9 * moved / one["elapsed_ns"] for one in samples]
    )
    if result["durable_rate"] is not None:
        result["durable_rate"] = median_interval(
            [1e9 * moved / (one["elapsed_ns"] + one["sync_ns"]) for one in samples]
        )


def history(
    document: Json, random: Random, results: int = RESULTS, planted: bool = True
) -> list[Json]:
    """Returns results with noise and, if asked for, the three planted steps."""
    made = []
    for number in range(results):
        machine, code = exp(random.gauss(0, RUN_NOISE)), 1.0
        if planted:
            machine *= MACHINE_SIZE if number >= MACHINE_STEP else 1
            code *= CODE_SIZE if number >= CODE_STEP else 1
            code *= OUTLIER_SIZE if number == OUTLIER else 1
        factors = dict.fromkeys(("codec", "raw", "fio", "peer", "ceiling"), machine)
        factors["codec"] *= code
        made.append(at(document, number, random, factors))
    return made


def write(directory: Path, documents: list[Json]) -> None:
    """Names the files so that neither names nor modification times are in the order of the runs."""
    directory.mkdir()
    names = [
        f"{0x9E3779B1 * number % (1 << 32):08x}" for number in range(len(documents))
    ]
    for name, document in zip(names, documents):
        (directory / f"{name}.json").write_text(json.dumps(document))


def main() -> None:
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    document = json.loads(Path(sys.argv[2]).read_text()) if sys.argv[2:] else base()
    write(Path(sys.argv[1]), history(document, Random(1)))


if __name__ == "__main__":
    main()
