"""Generates plausible results of tzmark tune for tests of the page. The same seed gives the same result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random

from bench.intervals import has_interval, median_interval, overlap
from common.outcomes import Json
from testing import bench_samples

KIB, MIB = 1 << 10, 1 << 20
BLOCKS = (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB)
DEPTHS = (1, 2, 4, 8, 16, 32)
# How many settings a search begins with, besides the default.
TRIED = 120
ROUNDS = 3
# The workload of GPT-2 in seconds: opening, a tensor, a byte.
COSTS = {
    "load-warm": (0.0021, 38e-6, 1 / 9.9e9),
    "load-cold": (0.0094, 71e-6, 1 / 0.92e9),
    "save": (0.0160, 95e-6, 1 / 1.55e9),
}
CACHES = {"load-warm": "warm", "load-cold": "cold", "save": "none"}
MODELS = (
    ("gpt2", 160, 548_000_000),
    ("many-tiny", 10_000, 40_960_000),
    ("one-huge", 1, 1 << 30),
    ("pythia-1b", 244, 2_090_000_000),
)
PREDICTED = (
    ("llama-3.1-8b", 291, 16_060_522_496),
    ("mixtral-8x7b", 995, 93_405_585_408),
)


@dataclass(frozen=True)
class Path:
    """The rate of a path grows with the bytes in flight until a ceiling."""

    ceiling: float  # bytes per second
    half: float  # bytes in flight at which half of it is reached
    cpu: float  # CPU seconds per GB


SURFACES: dict[str, dict[str, Path]] = {
    "load-warm": {
        "pwrite": Path(9.9e9, 0.5 * MIB, 0.21),
        "buffered": Path(7.4e9, 0.4 * MIB, 0.29),
        "mmap": Path(9.1e9, 0.0, 0.24),
        "uring": Path(9.7e9, 0.7 * MIB, 0.26),
    },
    "load-cold": {
        "pwrite": Path(0.83e9, 0.9 * MIB, 0.24),
        "mmap": Path(0.55e9, 0.0, 0.31),
        "direct": Path(0.92e9, 0.6 * MIB, 0.09),
        "uring": Path(0.84e9, 0.8 * MIB, 0.25),
        "uring-direct": Path(0.93e9, 0.35 * MIB, 0.06),
    },
    "save": {
        "pwrite": Path(1.13e9, 0.5 * MIB, 0.33),
        "direct": Path(1.55e9, 1.1 * MIB, 0.12),
        "uring": Path(1.15e9, 0.6 * MIB, 0.35),
        "uring-direct": Path(1.63e9, 0.8 * MIB, 0.11),
    },
}
DEFAULT = ("pwrite", 2 * MIB, 2)


def setting(
    io: str,
    block_bytes: int,
    queue_depth: int,
    threads: int = 2,
    pages: str = "huge",
    samples: list[float] | None = None,
    **members: object,
) -> Json:
    rates = samples or []
    return {
        "io": io,
        "block_bytes": block_bytes,
        "queue_depth": queue_depth,
        "threads": threads,
        "pages": pages,
        "bytes_in_flight_bytes": block_bytes * queue_depth,
        "samples": rates,
        "rate": median_interval(rates) if rates else None,
        "cpu_seconds_per_gb": None,
        "peak_memory_bytes": None,
        "rounds_survived": 0,
        "is_tie": False,
        "failed": None,
        **members,
    }


def true_rate(path: Path, io: str, one: Json) -> float:
    """Returns the rate without noise: large blocks in deep queues miss the caches, and small pages cost a little."""
    in_flight = one["bytes_in_flight_bytes"]
    rate = path.ceiling * in_flight / (in_flight + path.half)
    if in_flight > 128 * MIB:
        rate *= 0.82
    if one["threads"] == 1:
        rate *= 0.97 if "direct" in io else 0.8
    if one["pages"] == "small":
        rate *= 0.94
    return rate


def candidates(random: Random, task: str) -> list[Json]:
    grid = [
        setting(name, *shape)
        for name in SURFACES[task]
        for shape in product(BLOCKS, DEPTHS, (1, 2), ("huge", "small"))
        if name != "mmap" or shape[:2] == (BLOCKS[2], 1)
    ]
    return [setting(*DEFAULT), *random.sample(grid, TRIED)]


def searched(random: Random, task: str) -> list[Json]:
    """Returns all settings after successive halving."""
    tried = candidates(random, task)
    truth = [true_rate(SURFACES[task][one["io"]], one["io"], one) for one in tried]
    alive = list(range(len(tried)))
    for number in range(ROUNDS + 1):
        for index in alive:
            tried[index]["samples"] += [
                truth[index] / (1 + abs(random.gauss(0, 0.02)))
                for _ in range(2 << number)
            ]
            tried[index]["rate"] = median_interval(tried[index]["samples"])
        if number == ROUNDS:
            break
        alive.sort(key=lambda index: -tried[index]["rate"]["median"])
        # The default is measured to the end, however slow it is.
        alive = sorted({0, *alive[: len(alive) // 2]})
        for index in alive:
            tried[index]["rounds_survived"] = number + 1
    for one in tried:
        cpu = SURFACES[task][one["io"]].cpu * (1 + 0.05 / one["queue_depth"])
        one["cpu_seconds_per_gb"] = round(cpu * (1 + random.gauss(0, 0.02)), 4)
        one["peak_memory_bytes"] = 548_000_000 + one["bytes_in_flight_bytes"] + 8 * MIB
    refused = "io_uring_setup: Operation not permitted"
    return [*tried, setting("uring-sqpoll", MIB, 8, failed=refused)]


def answered(settings: list[Json]) -> Json:
    """Returns the members that a search ends with."""
    works = [index for index, one in enumerate(settings) if one["rate"]]
    judged = [index for index in works if has_interval(settings[index]["rate"])]
    best = max(judged, key=lambda index: settings[index]["rate"]["median"])
    top = settings[best]["rate"]
    ties = [index for index in judged if overlap(settings[index]["rate"], top)]
    for index in ties:
        settings[index]["is_tie"] = True
    recommended = min(
        ties,
        key=lambda index: (
            settings[index]["cpu_seconds_per_gb"],
            settings[index]["bytes_in_flight_bytes"],
        ),
    )
    least = min(
        (
            index
            for index in judged
            if settings[index]["rate"]["median"] >= 0.95 * top["median"]
        ),
        key=lambda index: settings[index]["bytes_in_flight_bytes"],
    )
    return {
        "settings": settings,
        "best": best,
        "recommended": recommended,
        "default": 0,
        "least_in_flight": least,
        "verdict": "settings tie" if len(ties) > 1 else "a setting is best",
    }


def interval(estimate: float, reach: float = 0.012) -> Json:
    return {"estimate": estimate, "low": estimate - reach, "high": estimate + reach}


def confirmed(made: Json) -> list[Json]:
    settings = made["settings"]

    def rate(index: int) -> float:
        return float(settings[index]["rate"]["median"])

    first = made["recommended"]
    others = [
        index
        for index in dict.fromkeys((made["best"], made["default"]))
        if index != first
    ]
    return [
        {
            "setting": first,
            "against": other,
            "ratio": interval(rate(first) / rate(other)),
            "pairs": 14,
        }
        for other in others
    ]


def ceiling(task: str, rate: float, io: str) -> Json:
    device = {"load-cold": 0.945e9, "save": 1.71e9}.get(task)
    limit = device or 12.4e9
    name = "device" if device else "memory copy"
    measured = [("memory copy", 12.4e9), (f"raw {io}", 1.03 * rate)]
    if device:
        measured.insert(0, ("device, 16 MiB in flight", device))
    return {
        "name": name,
        "text": f"the {name} moves {limit / 1e9:.2f} GB/s, whatever the setting",
        "rate": limit,
        "share": rate / limit,
        "measured": [
            {"name": name, "rate": bench_samples.rate(value)}
            for name, value in measured
        ],
    }


def sustained(
    random: Random, rate: float, seconds: int = 60, began: int | None = None
) -> Json:
    """began: the second at which the rate falls by a third."""
    rates: list[float | None] = [
        rate * (1 + random.gauss(0, 0.012)) * (0.66 if began and second >= began else 1)
        for second in range(seconds)
    ]
    rates[7] = None
    return {
        "duration_s": seconds,
        "bucket_ns": 1_000_000_000,
        "rates": rates,
        "verdict": "not steady" if began else "steady",
        "began_s": began,
        "text": (
            f"fell by 34 % after {began} s and did not recover: throttling, or a write cache that is full"
            if began
            else "kept its rate for the whole phase"
        ),
    }


def task_of(random: Random, name: str, began: int | None = None) -> Json:
    answer = answered(searched(random, name))
    rates = [one["rate"] for one in answer["settings"]]
    recommended = rates[answer["recommended"]]["median"]
    io = answer["settings"][answer["recommended"]]["io"]
    return {
        "task": name,
        "cache": CACHES[name],
        "elapsed_ns": 38_000_000_000,
        **answer,
        "confirmation": confirmed(answer),
        "default_loses": interval(1 - rates[0]["median"] / recommended),
        "ceiling": ceiling(name, recommended, io),
        "sustained": sustained(random, recommended, began=began),
    }


def cost(task: str, tensors: int, size_bytes: int) -> float:
    at_open, per_tensor, per_byte = COSTS[task]
    return at_open + per_tensor * tensors + per_byte * size_bytes


def model(random: Random, tasks: list[str]) -> Json:
    return {
        "fits": [
            {
                "task": task,
                "open_s": COSTS[task][0],
                "per_tensor_s": COSTS[task][1],
                "per_byte_s": COSTS[task][2],
                "points": [
                    {
                        "workload": name,
                        "tensors": tensors,
                        "bytes": size_bytes,
                        "seconds": cost(task, tensors, size_bytes)
                        * (1 + random.gauss(0, 0.02)),
                    }
                    for name, tensors, size_bytes in MODELS
                ],
                "spread": 0.021,
            }
            for task in tasks
        ],
        "predictions": [
            {
                "workload": name,
                "task": task,
                "tensors": tensors,
                "bytes": size_bytes,
                "seconds": cost(task, tensors, size_bytes),
                "low": 0.93 * cost(task, tensors, size_bytes),
                "high": 1.08 * cost(task, tensors, size_bytes),
            }
            for name, tensors, size_bytes in PREDICTED
            for task in tasks
        ],
    }


def probe() -> Json:
    machine = bench_samples.machine()
    return {
        "file_system": "ext4",
        "mount_options": "rw,relatime",
        "is_network": False,
        "device": "nvme0n1 nvme1n1",
        "scheduler": "none",
        "readahead_bytes": 128 * KIB,
        "raid": "md0: raid0 of nvme0n1, nvme1n1, 512 KiB chunks",
        "direct_align_bytes": 512,
        "direct_memory_align_bytes": 4,
        "free_bytes": 70 << 30,
        "huge_pages": "madvise",
        "numa_node": 0,
        "numa_nodes": 1,
        "gpu": None,
        "gpudirect": "libcuda.so.1 is not there, so there is no GPU",
        "dirty": machine["vm"],
    }


def advice() -> list[Json]:
    return [
        {
            "what": "Raise the readahead of the file system to 4 MiB",
            "why": "Paths through the page cache read ahead 128 KiB, less than the device needs in flight.",
            "command": "echo 4096 > /sys/class/bdi/254:0/read_ahead_kb",
            "needs_root": True,
            "effect": None,
            "task": "load-cold",
        },
        {
            "what": "Read into huge pages",
            "why": "Transparent huge pages are granted on request here; small pages cost a fault for each 4 KiB.",
            "command": "export GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
            "needs_root": False,
            "effect": interval(1.064),
            "task": "load-warm",
        },
        {
            "what": "Write past the page cache",
            "why": "Programs that write through it are stopped at vm.dirty_ratio (20 % of memory).",
            "command": None,
            "needs_root": False,
            "effect": interval(1.42, 0.03),
            "task": "save",
        },
    ]


def exports(task: str, one: Json, directory: str = "/data/bench") -> Iterator[Json]:
    """Yields what tune writes for a setting, in about its words."""
    block, depth = one["block_bytes"], one["queue_depth"]
    direct = int("direct" in one["io"])
    kib = block // KIB
    reads = task != "save"
    fio = (
        f"[tzmark-{task}]\ndirectory={directory}\nfilename=tzmark.fio\nrw={'read' if reads else 'write'}\n"
        f"ioengine=io_uring\ndirect={direct}\nbs={kib}k\niodepth={depth}\nsize=548m\n"
    )
    rows: list[tuple[str, str | None, str, list[str]]] = [
        ("fio", f"{task}.fio", fio, ["Kind of pages: fio allocates its own buffers."]),
        (
            "elbencho",
            None,
            f"elbencho {'-r' if reads else '-w'} --direct -t 2 --iodepth {depth} -b {kib}k -s 548m {directory}/f\n",
            ["Compute threads: elbencho moves bytes and computes nothing."],
        ),
        (
            "ior",
            None,
            f"ior -a POSIX {'-r' if reads else '-w'} -t {kib}k -b 548m -o {directory}/ior\n",
            ["Queue depth: the POSIX interface of IOR has one transfer per process."],
        ),
    ]
    if reads:
        rows += [
            (
                "deepspeed",
                "ds_config.json",
                f'{{\n  "aio": {{\n    "block_size": {block},\n    "queue_depth": {depth},\n'
                '    "intra_op_parallelism": 2,\n    "single_submit": false,\n    "overlap_events": true\n  }\n}\n',
                ["Pages: DeepSpeed pins memory of its own."],
            ),
            (
                "runai",
                None,
                f"RUNAI_STREAMER_CONCURRENCY={depth}\nRUNAI_STREAMER_CHUNK_BYTESIZE={block}\n"
                f"RUNAI_STREAMER_MEMORY_LIMIT={block * depth}\n",
                ["Path: the streamer reads through the page cache."],
            ),
            (
                "instanttensor",
                None,
                f'{{"buffer_size": {block * depth}, "chunk_size": {block}, "concurrency": 2, "io_depth": {depth}}}\n',
                [],
            ),
            (
                "tensorizer",
                None,
                "TensorDeserializer(file, num_readers=2)\n",
                ["Block size and queue depth: tensorizer has no option for them."],
            ),
        ]
    for name, file_name, text, lost in rows:
        yield {
            "name": name,
            "task": task,
            "file_name": file_name,
            "text": text,
            "lost": lost,
        }


def profile(tasks: list[Json]) -> Json:
    lines = [
        f'  "{task["task"]}": {{"io": "{one["io"]}", "block_bytes": {one["block_bytes"]}, '
        f'"queue_depth": {one["queue_depth"]}, "threads": {one["threads"]}}}'
        for task in tasks
        for one in [task["settings"][task["recommended"]]]
    ]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    return {
        "name": "tzmark",
        "task": "all",
        "file_name": "storage.tzmark-profile.json",
        "text": text,
        "lost": [],
    }


def document(seed: int = 1, **storage: object) -> Json:
    """Returns a complete result of a machine with a slow disk."""
    random = Random(seed)
    names = list(COSTS)
    tasks = [task_of(random, name, 34 if name == "save" else None) for name in names]
    return {
        "schema_version": 1,
        "kind": "tune",
        "tool": {
            "name": "tzmark",
            "version": "0.1.0",
            "commit": "0123456789ab",
            "measuring_core": 4,
            "kernels": {"sha256": "avx512", "encryption": "avx2"},
        },
        "command": ["tzmark", "tune", "/data/my models", "--budget", "120s"],
        "started_at": "2026-01-02T03:04:05Z",
        "elapsed_ns": 312_000_000_000,
        "seed": seed,
        "budget_s": 120,
        "is_complete": True,
        "warnings": [
            "this is a virtual machine (QEMU Standard PC): cold means its own page cache"
        ],
        "skipped": [{"task": "save", "reason": "model not measured: no memory"}],
        "machine": bench_samples.machine(directory="/data/my models", **storage),
        "io_paths": bench_samples.paths(),
        "probe": probe(),
        "workload": {
            "name": "gpt2",
            "label": "gpt2/523MiB",
            "bytes": 548_000_000,
            "tensors": 160,
        },
        "tasks": tasks,
        "advice": advice(),
        "model": model(random, names),
        "exports": [
            profile(tasks),
            *(
                export
                for task in tasks
                for export in exports(
                    task["task"], task["settings"][task["recommended"]]
                )
            ),
        ],
    }


def small(seed: int = 3) -> Json:
    """Returns a result with something in every part of the page, and little of it."""
    made = document(seed)
    made["tasks"] = made["tasks"][1:2]
    (task,) = made["tasks"]
    kept = [task["best"], task["recommended"], task["least_in_flight"], 0]
    kept += range(1, 9)
    kept.append(len(task["settings"]) - 1)
    indexes = list(dict.fromkeys(kept))
    task["settings"] = [task["settings"][index] for index in indexes]
    for member in ("best", "recommended", "default", "least_in_flight"):
        task[member] = indexes.index(task[member])
    for row in task["confirmation"]:
        for side in ("setting", "against"):
            row[side] = indexes.index(row[side])
    made["advice"] = [{**made["advice"][1], "task": "load-cold"}]
    model_of_all = made["model"]
    for member in ("fits", "predictions"):
        model_of_all[member] = [
            one for one in model_of_all[member] if one["task"] == "load-cold"
        ]
    made["exports"] = [
        one for one in made["exports"] if one["task"] in ("load-cold", "all")
    ]
    return made


def served(seed: int = 9) -> Json:
    """Returns a result of a file on a server, which no probe looks at."""
    url = "s3://models/llama/model.tensors"
    made = small(seed)
    made["command"] = ["tzmark", "tune", url]
    made["machine"] = bench_samples.machine(
        directory=url,
        file_system="s3",
        device=None,
        scheduler=None,
        readahead_bytes=None,
    )
    made["probe"] = None
    made["workload"] = {**made["workload"], "name": "model.tensors"}
    (task,) = made["tasks"]
    task.update(task="load-server", cache="server")
    for one in task["settings"]:
        one["io"] = "s3"
    made["advice"], made["model"] = [], None
    made["exports"] = [
        {**one, "task": "load-server" if one["task"] == "load-cold" else one["task"]}
        for one in made["exports"]
        if one["name"] in ("tzmark", "runai", "tensorizer")
    ]
    return made


def indifferent(seed: int = 5) -> Json:
    """Returns a result in which all settings tie, on storage in memory, without a device or a sustained phase."""
    made = document(
        seed, file_system="tmpfs", device=None, scheduler=None, readahead_bytes=None
    )
    random = Random(seed)
    made["tasks"] = made["tasks"][:1]
    (task,) = made["tasks"]
    for one in task["settings"]:
        if one["failed"] is None:
            one["samples"] = [5e9 * (1 + random.gauss(0, 0.03)) for _ in range(8)]
            one["rate"] = median_interval(one["samples"])
            one["is_tie"] = True
    works = task["settings"][:-1]
    order = range(len(works))
    task.update(
        best=max(order, key=lambda at: works[at]["rate"]["median"]),
        recommended=0,
        least_in_flight=min(order, key=lambda at: works[at]["bytes_in_flight_bytes"]),
        verdict="nothing matters",
        default_loses=interval(0.0, 0.01),
        ceiling=None,
        sustained=None,
        confirmation=[],
    )
    made["probe"].update(device=None, scheduler=None, readahead_bytes=None, raid=None)
    made["advice"], made["model"], made["exports"] = [], None, []
    return made


def interrupted(seed: int = 7) -> Json:
    """Returns a result cut short within the search of its only task."""
    made = document(seed)
    made["tasks"] = made["tasks"][:1]
    (task,) = made["tasks"]
    for one in task["settings"]:
        one.update(rounds_survived=0, is_tie=False, samples=one["samples"][:2])
        one["rate"] = median_interval(one["samples"]) if one["samples"] else None
    for one in task["settings"][40:-1]:
        one.update(
            samples=[], rate=None, cpu_seconds_per_gb=None, peak_memory_bytes=None
        )
    task.update(
        best=None,
        recommended=None,
        least_in_flight=None,
        verdict="undecided",
        confirmation=[],
        default_loses=None,
        ceiling=None,
        sustained=None,
    )
    made["is_complete"] = False
    made["warnings"] = ["interrupted: the answer is missing"]
    made["advice"], made["model"], made["exports"] = [], None, []
    return made


def empty(seed: int = 9) -> Json:
    """Returns a result interrupted before its first task."""
    made = interrupted(seed)
    made["tasks"] = []
    return made
