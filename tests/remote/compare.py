#!/usr/bin/env python3
"""Measures reads from nginx on this machine, at several round trips: the codec and raw ranges against curl and against
tensorizer, and the Python module against Run:ai's streamer by s3, in turns within one run each. Prints the rates, and
their ratios within the same rounds.

Tensorizer reads s3 only by TLS, and as it reads http: it signs a URL and starts curl.

usage: compare.py [--bytes N] [--round-trips-ms N,N,...] [--rounds N] [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import delay_proxy
import setting

TENSORS = 64
Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
RUNAI = ROOT / "build/peers/safetensors-matrix/runai-model-streamer"


@dataclass
class S3Subject:
    """What reads a whole file by s3, in a process of its own; bench/peers/driver.py has the protocol."""

    name: str
    process: subprocess.Popen[str]
    request: Json
    elapsed_ns: list[int] = field(default_factory=list)

    def read(self) -> Json:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(self.request) + "\n")
        self.process.stdin.flush()
        answer: Json = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise SystemExit(f"{self.name}: {answer['error']}")
        return answer


def make_files(directory: Path, data_bytes: int) -> None:
    """Writes model.safetensors, and the same tensors as model.tensors with both hashes."""
    other = directory / "model.safetensors"
    other.write_bytes(setting.model(TENSORS, data_bytes // TENSORS))
    made = setting.run("convert", str(other), str(directory / "model.tensors"))
    if made.returncode != setting.FINE:
        raise SystemExit(made.stderr.decode())


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


def s3_subjects(stack: ExitStack, endpoint: str) -> list[S3Subject]:
    """Starts them, with credentials that nginx does not look at."""
    environment = setting.clean_environment() | {
        "AWS_ACCESS_KEY_ID": "AKIDCOMPARE",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_ENDPOINT_URL": endpoint,
        "RUNAI_STREAMER_S3_ENDPOINT": endpoint,
        "AWS_REGION": "us-east-1",
        "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": "0",
    }

    def started(name: str, python: str, script: str, file: str, **more: Any) -> None:
        process = stack.enter_context(
            subprocess.Popen(
                [python, str(ROOT / script), "--pages", "huge"],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(process.terminate)
        assert process.stdout
        hello = json.loads(process.stdout.readline())
        if "unavailable" in hello:
            raise SystemExit(f"{name}: {hello['unavailable']}")
        request = {"op": "read", "file": f"s3://served/{file}"} | more
        subjects.append(S3Subject(name, process, request))

    subjects: list[S3Subject] = []
    ours = "bench/peers/tzmark_driver.py"
    started("tzmark", sys.executable, ours, "model.safetensors")
    started("tzmark, verified", sys.executable, ours, "model.tensors", verify=True)
    python = str(RUNAI / "bin/python")
    started("Run:ai", python, "tests/remote/runai_driver.py", "model.safetensors")
    return subjects


def compare_s3(endpoint: str, data_bytes: int, rounds: int, result: Path) -> None:
    with ExitStack() as stack:
        subjects = s3_subjects(stack, endpoint)
        for subject in subjects:
            if subject.read()["bytes"] != data_bytes:
                raise SystemExit(f"{subject.name} did not read {data_bytes} bytes")
        for number in range(rounds):
            for subject in subjects if number % 2 == 0 else reversed(subjects):
                subject.elapsed_ns.append(subject.read()["elapsed_ns"])
    results = [
        {
            "subject": subject.name,
            "bytes": data_bytes,
            "samples": [{"elapsed_ns": each} for each in subject.elapsed_ns],
        }
        for subject in subjects
    ]
    result.write_text(json.dumps(results, indent=1) + "\n")
    for each in results:
        rate = sorted(rates(each))
        print(
            f"  s3, {each['subject']}: {median(rate):.3f} GB/s ({rate[0]:.3f} to {rate[-1]:.3f})"
        )
    for ours in results[:-1]:
        print(f"  s3, {ours['subject']} / Run:ai: {ratio_text(ours, results[-1])}")


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
        make_files(served, arguments.bytes)
        origin, _ = stack.enter_context(setting.serving_with_nginx(scratch, scratch))
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
            url = f"{at}/served/model.tensors"
            print_comparison(measured(url, arguments.rounds, result))
            if not RUNAI.is_dir():
                print(
                    "  s3: not measured; scripts/peers --safetensors runai-model-streamer installs it"
                )
                continue
            data_bytes = arguments.bytes // TENSORS * TENSORS
            result = out / f"remote-s3-{round_trip_ms}ms.json"
            compare_s3(at, data_bytes, arguments.rounds, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
