#!/usr/bin/env python3
"""Measures reads from nginx on this machine, at several round trips: the codec and raw ranges against curl and against
tensorizer, in turns within one run each. Prints the rates, and their ratios within the same rounds.

usage: compare.py [--bytes N] [--round-trips-ms N,N,...] [--rounds N] [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import delay_proxy
import setting

TENSORS = 64
Json = dict[str, Any]


def make_file(directory: Path, data_bytes: int) -> None:
    """Writes model.tensors, with both hashes."""
    other = directory / "model.safetensors"
    other.write_bytes(setting.model(TENSORS, data_bytes // TENSORS))
    made = setting.run("convert", str(other), str(directory / "model.tensors"))
    if made.returncode != setting.FINE:
        raise SystemExit(made.stderr.decode())
    other.unlink()


def measured(url: str, rounds: int, result: Path) -> Json:
    subprocess.run(
        [
            *(str(setting.TZMARK), "bench", "remote", url, "--rounds", str(rounds)),
            *("--curl", "--peers", "--verify", "none,both", "--json", str(result)),
        ],
        env=setting.clean_environment(),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return json.loads(result.read_text())


def rates(result: Json) -> list[float]:
    """Bytes per ns of each round."""
    return [result["bytes"] / sample["elapsed_ns"] for sample in result["samples"]]


def ratio_text(one: Json, other: Json) -> str:
    """Within the rounds: the median, the lowest and the highest."""
    ratios = sorted(a / b for a, b in zip(rates(one), rates(other)))
    if not ratios:
        return "not measured"
    return f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def print_comparison(document: Json) -> None:
    def found(
        subject: str, detail: str | None, verification: str, memory: str
    ) -> Json | None:
        for result in document["results"]:
            of = (result["subject"], result["detail"], result["verification"])
            if of == (subject, detail, verification) and result["memory"] == memory:
                return result if result["samples"] else None
        return None

    for result in document["results"]:
        rate = sorted(rates(result))
        text = (
            f"{median(rate):.3f} GB/s ({rate[0]:.3f} to {rate[-1]:.3f})"
            if rate
            else result["notes"][-1]
        )
        print(f"  {result['id']}: {text}")
    curl = found("peer", "curl", "none", "sink")
    pairs = (
        ("raw / curl", found("raw", None, "none", "sink"), curl),
        ("load / curl", found("codec", None, "none", "thp"), curl),
        (
            "load / tensorizer",
            found("codec", None, "none", "thp"),
            found("peer", "tensorizer", "none", "thp"),
        ),
        (
            "verified load / tensorizer's",
            found("codec", None, "both", "thp"),
            found("peer", "tensorizer", "both", "thp"),
        ),
    )
    for name, one, other in pairs:
        print(
            f"  {name}: {ratio_text(one, other) if one and other else 'not measured'}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--bytes", type=int, default=256 << 20)
    parser.add_argument("--round-trips-ms", default="0,10,50")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, help="keeps the results as JSON")
    arguments = parser.parse_args()
    if setting.nginx() is None:
        print("nginx is not installed: nginx-light of Debian", file=sys.stderr)
        return setting.UNAVAILABLE
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        served = scratch / "served"
        served.mkdir()
        make_file(served, arguments.bytes)
        origin, _ = stack.enter_context(setting.serving_with_nginx(served, scratch))
        out = arguments.out or scratch
        out.mkdir(parents=True, exist_ok=True)
        for round_trip_ms in map(int, arguments.round_trips_ms.split(",")):
            at = origin
            if round_trip_ms > 0:
                port = setting.free_port()
                stack.enter_context(
                    delay_proxy.running(
                        port, int(origin.rpartition(":")[2]), round_trip_ms / 1000
                    )
                )
                at = f"http://127.0.0.1:{port}"
            print(f"round trip of {round_trip_ms} ms:", flush=True)
            result = out / f"remote-{round_trip_ms}ms.json"
            print_comparison(measured(f"{at}/model.tensors", arguments.rounds, result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
