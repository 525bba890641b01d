"""Generates plausible results of the bench for tests of the page. The same seed gives the same result."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from bench.intervals import median_interval
from common.outcomes import Json

MIB = 1 << 20
# A rate of the page cache and of the device, bytes a second, for reads; and one before and with the fsync, for writes.
WARM = {"pwrite": 10.9e9, "buffered": 7.8e9, "mmap": 9.6e9, "uring": 10.2e9}
DEVICE = {"direct": 0.91e9, "uring-direct": 0.93e9, "mmap": 0.55e9, "pwrite": 0.83e9}
WRITTEN = {
    "pwrite": (3.1e9, 1.12e9),
    "buffered": (2.2e9, 1.02e9),
    "direct": (1.61e9, 1.55e9),
    "mmap": (1.9e9, 0.98e9),
    "uring": (2.9e9, 1.15e9),
    "uring-direct": (1.68e9, 1.63e9),
}
TRAITS = {
    "pwrite": {"starts_writeback", "is_fork_safe"},
    "buffered": {"starts_writeback", "uses_stdio"},
    "direct": {"bypasses_cache", "is_fork_safe"},
    "mmap": {"maps_file", "is_fork_safe"},
    "uring": {"is_asynchronous"},
    "uring-direct": {"bypasses_cache", "is_asynchronous"},
    "uring-sqpoll": {"bypasses_cache", "is_asynchronous", "polls_submissions"},
    "pwrite-dontcache": {"drops_pages", "is_fork_safe"},
    "gpudirect": {"bypasses_cache", "moves_device_memory", "needs_file_name"},
}
ALL_TRAITS = sorted(set().union(*TRAITS.values()))
CEILINGS = {
    "memcpy": 12.4e9,
    "crc32": 11.6e9,
    "sha256": 0.96e9,
    "sha256-lanes": 2.3e9,
    "secretbox": 1.62e9,
    "secretbox-lanes": 3.9e9,
}
DEVICE_CEILINGS = {"device-read": 0.94e9, "device-write": 1.7e9}
BLOCKS = (256 << 10, MIB, 2 * MIB, 4 * MIB)
DEPTHS = (1, 4, 8, 16)
GPT2: Json = {
    "name": "gpt2",
    "summary": "GPT-2, float32",
    "tensors": 160,
    "data_bytes": 548_000_000,
    "scaled": 1.0,
    "scaled_from": None,
}
PROTECTIONS = (("none", False), ("crc32", False), ("both", False), ("both", True))


def paths() -> list[Json]:
    rows = (
        ("pwrite", "pread and pwrite on threads", "", None),
        ("buffered", "stdio", "", None),
        ("direct", "O_DIRECT, aligned", "", None),
        ("mmap", "mapped memory", "", None),
        ("uring", "io_uring, buffered", "", None),
        ("uring-direct", "io_uring, O_DIRECT", "uring", None),
        ("uring-sqpoll", "io_uring with a polling thread", "uring", None),
        (
            "pwrite-dontcache",
            "uncached buffered",
            "pwrite",
            "the file system does not take RWF_DONTCACHE",
        ),
        ("gpudirect", "cuFile", "", "libcuda.so.1 is not there, so there is no GPU"),
    )
    return [
        {
            "name": name,
            "summary": summary,
            "variant_of": variant_of,
            "traits": {trait: trait in TRAITS[name] for trait in ALL_TRAITS},
            "available": reason is None,
            "reason": reason,
        }
        for name, summary, variant_of, reason in rows
    ]


def machine(**storage: object) -> Json:
    return {
        "kernel": "6.18.2",
        "architecture": "x86_64",
        "cpu": {
            "model": "Intel Xeon Processor (Cascadelake)",
            "cores": 2,
            "features": ["avx2", "avx512f", "pclmul"],
            "governor": None,
        },
        "memory_bytes": 16 << 30,
        "transparent_huge_pages": {"enabled": "madvise", "defrag": "madvise"},
        "gpu": None,
        "storage": {
            "directory": "/data/bench",
            "file_system": "ext4",
            "mount_options": "rw,relatime",
            "device": "vda",
            "device_model": None,
            "rotational": False,
            "scheduler": "none",
            "readahead_bytes": 128 << 10,
            "write_cache": "write back",
            "queue_requests": 256,
            "logical_block_bytes": 512,
            "physical_block_bytes": 4096,
            "direct_memory_align_bytes": 4096,
            "direct_offset_align_bytes": 4096,
            "free_bytes": 70 << 30,
            **storage,
        },
        "load_average": [0.31, 0.22, 0.18],
        "nice": 0,
        "hypervisor": "QEMU Standard PC",
        "l3_bytes": 32 * MIB,
        "numa_nodes": 1,
        "frequency": {"min_khz": None, "max_khz": None},
        "mitigations": {"meltdown": "Mitigation: PTI", "l1tf": "Not affected"},
        "cgroup": {"cpu_cores": None, "memory_bytes": 8 << 30},
        "vm": {
            "dirty_background_bytes": 0,
            "dirty_background_ratio": 10,
            "dirty_bytes": 0,
            "dirty_expire_centisecs": 3000,
            "dirty_ratio": 20,
            "dirty_writeback_centisecs": 500,
        },
        "versions": {
            "liburing": "2.3",
            "OpenSSL": "3.0.15",
            "libsodium": "1.0.18",
            "ISA-L": "2.30.0",
            "zlib": "1.2.13",
            "fio": "fio-3.33",
            "Google Benchmark": "1.7.1",
            "compiler": "GCC 12.2.0",
        },
    }


def rate(median: float, samples: int = 9, spread: float = 0.03) -> Json:
    return {
        "median": median,
        "low": median * (1 - spread) if samples >= 6 else None,
        "high": median * (1 + spread) if samples >= 6 else None,
        "samples": samples,
    }


def latency(per_second: float, block_bytes: int, deep: int, count: int = 2400) -> Json:
    """Returns latencies of transfers that share the rate evenly, with a tail like that of devices."""
    usual = deep * block_bytes / per_second * 1e9
    names = ("p50", "p90", "p99", "p99_9", "max")
    factors = (0.92, 1.4, 2.6, 6.5, 11.0)
    shape: Json = {name: round(usual * factor) for name, factor in zip(names, factors)}
    # A percentile needs ten slower transfers.
    shape["p99_9"] = shape["p99_9"] if count >= 10_000 else None
    return {"count": count, **shape, "submission": None, "first_touch": True}


def sample(
    round_number: int, result: Json, elapsed_ns: int, sync_ns: int | None, cpu: float
) -> Json:
    """Returns the proof members for a cache state."""
    warm, cold = result["cache"] == "warm", result["cache"] in ("cold", "direct")
    read, written = result["op"] != "write", result["op"] == "write"
    return {
        "round": round_number,
        "elapsed_ns": elapsed_ns,
        "sync_ns": sync_ns,
        "cpu_ns": round(cpu * result["bytes"]),
        "resident_share": 1.0 if warm else 0.0 if cold else None,
        "device_read_bytes": result["bytes"] + 65536 if cold else 0 if read else None,
        "device_written_bytes": result["bytes"] + 81920 if written else None,
        "peak_memory_bytes": result["bytes"] + 40 * MIB,
        "began_ns": 400_000_000,
        "position": 3,
        "other_user_ns": 0,
        "steal_ns": 10_000_000,
        "cpu_pressure_ns": 1_200_000,
        "io_pressure_ns": 300_000,
        "memory_pressure_ns": 0,
        "involuntary_switches": 12,
        "minor_faults": 2_300,
        "memory_reports": 0,
    }


def result(
    random: Random,
    op: str,
    path: str,
    cache: str,
    per_second: float,
    *,
    durable: float | None = None,
    samples: int = 9,
    spread: float = 0.02,
    cpu: float = 0.25,
    **members: object,
) -> Json:
    """Returns a codec result around a rate; cpu is in CPU seconds per GB, and members override defaults."""
    made: Json = {
        "id": "",
        "subject": "codec",
        "detail": None,
        "group": None,
        "peer": None,
        "op": op,
        "io": {"requested": path, "actual": path},
        "layout": "v4",
        "workload": "gpt2",
        "block_bytes": 2 * MIB,
        "queue_depth": 8,
        "threads": 2,
        "verification": "none",
        "encrypted": False,
        "memory": "thp",
        "pages": {"requested": "huge", "actual": "huge", "huge_share": 1.0},
        "cache": cache,
        "bytes": GPT2["data_bytes"],
        "tensors": GPT2["tensors"],
        "verified_first": True,
        "samples": [],
        "durable_rate": None,
        "operations_per_second": None,
        "cpu_seconds_per_gb": None,
        "latency_ns": None,
        "bound_by": None,
        "steady": None,
        "gpudirect": None,
        "notes": [],
        **members,
    }
    made["id"] = made["id"] or identify(made)
    moved = made["bytes"]
    for number in range(samples):
        noise = 1 + random.uniform(-spread, spread)
        elapsed_ns = round(moved / per_second * noise * 1e9)
        sync_ns = None
        if durable is not None:
            sync_ns = max(round(moved / durable * noise * 1e9) - elapsed_ns, 1000)
        made["samples"].append(sample(number, made, elapsed_ns, sync_ns, cpu * noise))
    made["rate"] = median_interval(
        [1e9 * moved / one["elapsed_ns"] for one in made["samples"]]
    )
    made["cpu_seconds_per_gb"] = median_interval(
        [one["cpu_ns"] / moved for one in made["samples"]]
    )["median"]
    if durable is not None:
        made["durable_rate"] = median_interval(
            [
                1e9 * moved / (one["elapsed_ns"] + one["sync_ns"])
                for one in made["samples"]
            ]
        )
    if made["queue_depth"] is not None and op != "open" and samples >= 6:
        made["latency_ns"] = latency(
            per_second, made["block_bytes"], made["queue_depth"] * made["threads"]
        )
    return made


def steady(per_second: float, seconds: int = 60, falls: float = 0.0) -> Json:
    """Returns a run with a burst cache in its first third. falls: the part of the rate lost in the second half."""
    window = seconds // 2
    rates: list[float | None] = [
        per_second * (2 if second < seconds // 3 else 1) for second in range(window)
    ]
    rates += [
        per_second * (1 - falls * second / window + 0.01 * (-1) ** second)
        for second in range(seconds - window)
    ]
    rates[1] = None
    return {
        "elapsed_ns": seconds * 1_000_000_000 + 40_000_000,
        "operations": 20 * seconds,
        "busy_share": 0.93,
        "cores_of_others": 0.04,
        "rate": 1.3 * per_second,
        "series": {"bucket_ns": 1_000_000_000, "rates": rates},
        "window": {
            "from_ns": window * 1_000_000_000,
            "to_ns": seconds * 1_000_000_000,
            "rate": per_second * (1 - falls / 2),
            "change": -falls,
            "low": -falls - 0.011,
            "high": -falls + 0.012,
            "p": 1e-6 if falls else 0.8,
            "excursion": falls,
            "fit": -falls,
        },
        "verdict": "not steady" if falls else "steady",
        "why": f"fell by {100 * falls:.1f} % in the second half" if falls else "",
    }


def long_run(seed: int = 4) -> Json:
    """Returns a result of bench soak: one row whose throughput lasts, one that slows down, one that failed."""
    made = document(seed)
    random = Random(seed)
    made["command"][2:2] = ["soak", "--duration", "60s"]
    made["rounds"], made["duration_s"] = 0, 60
    rows = (
        ("read", "direct", "direct", 0.9e9, None, 0.0),
        ("write", "pwrite", "none", 3e9, 1e9, 0.3),
    )
    made["results"] = [
        result(
            random,
            *(op, path, cache, per_second),
            durable=durable,
            steady=steady(durable or per_second, falls=falls),
        )
        for op, path, cache, per_second, durable, falls in rows
    ]
    failed = result(random, "read", "mmap", "cold", 1e9)
    failed["samples"], failed["notes"] = [], ["not measured: no such path"]
    failed["rate"] = {"median": 0, "low": None, "high": None, "samples": 0}
    made["results"].append(failed)
    made["checks"] = []
    return made


def identify(made: Json) -> str:
    parts: list[object] = [
        made["op"],
        made["cache"],
        made["io"]["actual"],
        made["layout"],
    ]
    parts += [f"{(made['block_bytes'] or 0) >> 10}KiB", f"d{made['queue_depth']}"]
    parts += [f"t{made['threads']}", made["verification"], made["workload"]]
    parts += [made["subject"]] if made["subject"] != "codec" else []
    parts += ["encrypted"] if made["encrypted"] else []
    return " ".join(str(part) for part in parts if part)


def bound(per_second: float, *rungs: str) -> Json:
    """Returns the limit of these rungs in turn, and the fraction of it that a rate reaches."""
    rates = {**CEILINGS, **DEVICE_CEILINGS}
    lowest = min(rungs, key=lambda rung: rates[rung])
    limit = 1 / sum(1 / rates[rung] for rung in rungs)
    share = per_second / limit
    return {
        "rung": lowest,
        "rate": limit,
        "share": share,
        "low": 0.97 * share,
        "high": 1.02 * share,
    }


def work_rungs(verification: str, encrypted: bool) -> list[str]:
    hashes: dict[str, list[str]] = {
        "none": [],
        "crc32": ["crc32"],
        "both": ["crc32", "sha256-lanes"],
    }
    return hashes[verification] + (["secretbox-lanes"] if encrypted else [])


def together(per_second: float, rungs: list[str]) -> float:
    """Returns the remaining rate if the same cores also do this work."""
    return 0.95 / (1 / per_second + sum(1 / CEILINGS[rung] for rung in rungs))


def reads(random: Random) -> Iterator[Json]:
    for path, per_second in WARM.items():
        for verification, encrypted in PROTECTIONS:
            work = work_rungs(verification, encrypted)
            reached = together(per_second, work)
            yield result(
                random,
                "read",
                path,
                "warm",
                reached,
                cpu=1.6e9 / reached,
                verification=verification,
                encrypted=encrypted,
                bound_by=bound(reached, "memcpy", *work),
            )
    for path, per_second in DEVICE.items():
        for verification in ("none", "crc32"):
            yield result(
                random,
                "read",
                path,
                "direct" if "bypasses_cache" in TRAITS[path] else "cold",
                per_second,
                spread=0.06,
                cpu=0.11 if verification == "none" else 0.2,
                verification=verification,
                bound_by=bound(per_second, "device-read"),
            )


def writes(random: Random) -> Iterator[Json]:
    for path, (per_second, durable) in WRITTEN.items():
        for verification in ("none", "both"):
            work = work_rungs(verification, False)
            reached = together(per_second, work)
            yield result(
                random,
                "write",
                path,
                "none",
                reached,
                durable=min(0.98 * reached, durable),
                spread=0.08,
                cpu=0.4 + len(work),
                verification=verification,
                bound_by=bound(min(reached, durable), "device-write", *work),
            )


def sweeps(random: Random) -> Iterator[Json]:
    """Yields results by block and depth for the maps of two paths, except those measured elsewhere."""
    for path in ("direct", "uring-direct"):
        for block_bytes in BLOCKS:
            for depth in DEPTHS:
                if (
                    (block_bytes, depth) == (2 * MIB, 8)
                    or depth == 16
                    and path == ("direct")
                ):
                    continue
                fill = min(1.0, 0.35 + 0.2 * (block_bytes * depth / MIB) ** 0.5)
                for op, cache, most in (
                    ("read", "direct", DEVICE[path]),
                    ("write", "none", WRITTEN[path][0]),
                ):
                    yield result(
                        random,
                        op,
                        path,
                        cache,
                        most * fill * (0.99 if depth == 16 else 0.97),
                        durable=0.95 * most * fill if op == "write" else None,
                        block_bytes=block_bytes,
                        queue_depth=depth,
                    )


def neighbours(random: Random) -> Iterator[Json]:
    """Yields results of the raw path, fio, and the peers."""
    for path, per_second in DEVICE.items():
        cache = "direct" if "bypasses_cache" in TRAITS[path] else "cold"
        yield result(
            random, "read", path, cache, per_second * 1.02, subject="raw", layout=None
        )
    yield result(
        random,
        "read",
        "psync",
        "direct",
        0.94e9,
        subject="fio",
        layout=None,
        spread=0.05,
    )
    for verification, ours in (("none", 1), ("crc32", 0.9), ("both", 0.3)):
        yield peer(random, "read", "warm", 2.6e9 * ours, verification)
    yield peer(random, "write", "none", 0.62e9, "both", durable=0.5e9)
    yield peer(random, "read", "warm", 3.9e9, "none", name="safetensors")
    many: Json = {"workload": "many-tiny", "tensors": 10_000, "bytes": 640_000}
    for subject, per_second in (("codec", 0.4e9), ("peer", 9e6)):
        made = result(
            random, "open", "pwrite", "warm", per_second, **many, block_bytes=None
        )
        if subject == "peer":
            made = as_peer(made, "tensorizer")
        made["operations_per_second"] = median_interval(
            [1e9 * made["tensors"] / one["elapsed_ns"] for one in made["samples"]]
        )
        yield made


def peer(
    random: Random,
    op: str,
    cache: str,
    per_second: float,
    verification: str,
    name: str = "tensorizer",
    durable: float | None = None,
) -> Json:
    return as_peer(
        result(
            random,
            op,
            "",
            cache,
            per_second,
            durable=durable,
            verification=verification,
            queue_depth=None,
            block_bytes=None,
        ),
        name,
    )


def as_peer(made: Json, name: str) -> Json:
    version, detail = {
        "tensorizer": ("2.11.1", "num_readers=2, torch 1.13.1"),
        "safetensors": ("0.8.0", "numpy, copied"),
    }[name]
    return {
        **made,
        "id": f"{made['id']} {name}",
        "subject": "peer",
        "peer": {"name": name, "version": version, "detail": detail},
        "io": {"requested": name, "actual": name},
    }


def ceilings() -> list[Json]:
    rows = [(rung, 1, value / 2) for rung, value in CEILINGS.items()]
    rows += [(rung, 2, value) for rung, value in CEILINGS.items()]
    rows += [(rung, 8, value) for rung, value in DEVICE_CEILINGS.items()]
    rows += [(f"path-read/{path}", 2, 1.02 * value) for path, value in DEVICE.items()]
    return [
        {"rung": rung, "threads": threads, "rate": rate(value), "note": None}
        for rung, threads, value in rows
    ]


def check(verdict: str, item: str, name: str, **members: object) -> Json:
    """Returns a check with this verdict and a matching ratio, unless members override it."""
    ratios = {
        "pass": 1.3,
        "pass, borderline": 0.99,
        "borderline": 0.97,
        "fail": 0.6,
        "undecided": 1.01,
        "not measured": None,
    }
    times = ratios[verdict]
    required = members.get("required", 0.95)
    assert isinstance(required, float)
    return {
        "item": item,
        "name": name,
        "measured": [],
        "against": [],
        "ratio": None if times is None else rate(times * required, spread=0.08),
        "required": required,
        "at_most": False,
        "verdict": verdict,
        "disturbed_laps": 2,
        "elapsed_ns": 4_000_000_000,
        "note": "",
        **members,
    }


def checks(results: list[Json]) -> list[Json]:
    ids = {one["subject"]: one["id"] for one in reversed(results)}
    return [
        check(
            "pass",
            "1",
            "raw direct read against fio",
            measured=[ids["raw"]],
            against=[ids["fio"]],
        ),
        check(
            "undecided",
            "1",
            "codec against its raw path, direct",
            measured=[ids["codec"]],
            against=[ids["raw"]],
        ),
        check(
            "fail",
            "2",
            "read with both hashes, pwrite",
            required=0.9,
            measured=[ids["codec"]],
            against=["1/(1/path + 1/crc32 + 1/sha256)"],
            note="SHA-256 has no instructions of its own on this CPU",
        ),
        check(
            "pass",
            "4",
            "read, upstream at its best",
            required=2.0,
            measured=[ids["codec"]],
            against=[ids["peer"]],
        ),
        check("pass, borderline", "4", "write", required=1.2),
        check("borderline", "4", "write 2,000 tensors", required=1.5),
        check(
            "not measured",
            "4",
            "write encrypted",
            required=1.6,
            note="tensorizer is not installed; scripts/peers does that",
        ),
        check(
            "pass",
            "5",
            "memory to a sink",
            required=1.0,
            at_most=True,
            ratio=rate(0.42, spread=0.01),
        ),
    ]


def document(seed: int = 1, **storage: object) -> Json:
    """Returns a complete result of a machine with a slow disk."""
    random = Random(seed)
    results = [
        one for part in (reads, writes, sweeps, neighbours) for one in part(random)
    ]
    return {
        "schema_version": 1,
        "kind": "bench",
        "tool": {"name": "tzmark", "version": "0.1.0", "commit": "0123456789ab"},
        "command": ["tzmark", "bench", "--dir", "/data/bench dir", "--json", "b.json"],
        "started_at": "2026-01-02T03:04:05Z",
        "elapsed_ns": 55_000_000_000,
        "seed": seed,
        "rounds": 9,
        "duration_s": None,
        "warnings": [
            "this is a virtual machine (QEMU Standard PC): cold means its own page cache"
        ],
        "machine": machine(**storage),
        "io_paths": paths(),
        "workloads": [GPT2],
        "results": results,
        "ceilings": ceilings(),
        "skipped": [
            {
                "id": result["id"],
                "reason": result["notes"][-1].removeprefix("not measured: "),
                "has_failed": False,
            }
            for result in results
            if not result["samples"]
        ],
        "checks": checks(results),
        "conditions": {"laps": 240, "disturbed_laps": 12, "was_busy": False},
        "is_complete": True,
    }


def in_memory(seed: int = 2) -> Json:
    """Returns a short result on tmpfs: no device, three samples each and hence no intervals, two paths."""
    made = document(
        seed,
        directory="/dev/shm",
        file_system="tmpfs",
        mount_options="rw,nosuid",
        device=None,
        scheduler=None,
        rotational=None,
    )
    random = Random(seed)
    made["rounds"] = 3
    made["results"] = [
        result(
            random,
            op,
            path,
            cache,
            per_second,
            durable=durable,
            samples=3,
        )
        for op, path, cache, per_second, durable in (
            ("read", "pwrite", "warm", 11.2e9, None),
            ("read", "mmap", "warm", 9.9e9, None),
            ("write", "pwrite", "none", 4.1e9, 4.0e9),
        )
    ]
    for one in made["results"]:
        for each in one["samples"]:
            each["device_read_bytes"] = each["device_written_bytes"] = None
    made["ceilings"] = [
        {**one, "rate": rate(one["rate"]["median"], 3)}
        for one in made["ceilings"]
        if not one["rung"].startswith(("device", "path"))
    ]
    made["checks"] = [check("not measured", "1", "raw direct read against fio")]
    return made


def empty() -> Json:
    return {
        **document(),
        "results": [],
        "skipped": [],
        "ceilings": [],
        "checks": [],
    }
