"""Compares ways to save a PyTorch loop: how long the loop is delayed, how long until a checkpoint is durable, and what
`kill -9` leaves.

Savers take turns in an order shuffled by the seed, each in a process of its own, with the same state, the same steps
and the same directory. Loaded bytes are compared by SHA-256 with what the loop had at the step of the checkpoint.

Exit status: 0 success, 1 a checkpoint of tzmark was lost or differs, 2 wrong usage, 3 the environment. A checkpoint of
another saver that differs without a kill is a finding about that saver: it is printed, and does not fail the run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).resolve().parent
sys.path.insert(0, str(DIRECTORY.parent.parent / "reports"))

from common import output_file  # noqa: E402
from common.made_directory import MadeDirectory  # noqa: E402

Json = dict[str, Any]

SAVERS = ("tzmark", "async_save", "torch.save synced", "torch.save")
ANSWER_TIMEOUT_S = 300.0
OUTCOMES = ("newest", "nothing yet", "unloadable", "older", "different")


class EnvironmentFailure(Exception):
    """The machine lacks something, or a loop failed."""


class Loop:
    """A process of python_loop.py, with the requests that it takes."""

    def __init__(self, python: str, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [python, "-B", str(DIRECTORY / "python_loop.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._replies, selectors.EVENT_READ)
        self._rest = b""
        self._child = 0

    def request(self, **content: Any) -> None:
        try:
            self._requests.write((json.dumps(content) + "\n").encode())
            self._requests.flush()
        except BrokenPipeError as error:
            raise EnvironmentFailure("the loop ended; see its stderr above") from error

    def next(self, until: float | None = None) -> Json | None:
        """Returns the next reply; None if there is none until then, in s of the monotonic clock."""
        limit = time.monotonic() + ANSWER_TIMEOUT_S if until is None else until
        while b"\n" not in self._rest:
            left = limit - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                if until is None:
                    raise EnvironmentFailure(
                        f"the loop did not answer for {ANSWER_TIMEOUT_S:.0f} s"
                    )
                return None
            data = os.read(self._replies.fileno(), 1 << 16)
            if not data:
                raise EnvironmentFailure("the loop ended; see its stderr above")
            self._rest += data
        line, self._rest = self._rest.split(b"\n", 1)
        reply: Json = json.loads(line)
        if reply["event"] == "failed":
            self._child = 0  # it ends by itself
            raise EnvironmentFailure(reply["problem"])
        if reply["event"] == "process":
            self._child = reply["pid"]
        elif reply["event"] == "ended":
            self._child = 0
        return reply

    def expect(self, event: str) -> Json:
        """Skips replies until one of that event."""
        while True:
            reply = self.next()
            assert reply is not None
            if reply["event"] == event:
                return reply
            if reply["event"] == "ended":
                raise EnvironmentFailure(f"the loop ended with {reply['status']}")

    def kill(self) -> None:
        os.kill(self._child, signal.SIGKILL)

    def close(self) -> None:
        if self._child:
            self.kill()
        self._requests.close()
        self._process.wait()
        self._replies.close()
        self._selector.close()


def spread(values: list[int]) -> Json:
    """Returns the median with the 95 % interval of order statistics (null below 6 values), and the extremes."""
    ordered = sorted(values)
    count = len(ordered)
    middle = ordered[count // 2]
    if count % 2 == 0:
        middle = (middle + ordered[count // 2 - 1]) // 2
    # The largest rank below which at most 2.5 % of a binomial distribution lies.
    rank, below = 0, 0.0
    while (below := below + math.comb(count, rank) / 2**count) <= 0.025:
        rank += 1
    interval = (None, None) if rank == 0 else (ordered[rank - 1], ordered[count - rank])
    return {
        "median": middle,
        "low": interval[0],
        "high": interval[1],
        "best": ordered[0],
        "worst": ordered[-1],
        "samples": count,
    }


def measure(options: argparse.Namespace, loops: "Loops", scratch: Path) -> list[Json]:
    """Runs every saver once per round."""
    chance = random.Random(options.seed)
    rounds = []
    for number in range(options.rounds):
        order = list(loops.savers)
        chance.shuffle(order)
        for saver in order:
            made = MadeDirectory(scratch, name="measured")
            directory = made.path
            os.sync()  # what the previous saver left in the page cache is not this one's
            loop = loops.start(options.state_mib)
            try:
                loop.request(
                    action="measure",
                    saver=saver,
                    directory=str(directory),
                    keep=options.keep,
                    every=options.every,
                    saves=options.saves,
                    products=loops.products,
                )
                measured = loop.expect("measured")
                loop.expect("ended")
                loop.request(
                    action="load",
                    saver=saver,
                    directory=str(directory),
                    keep=options.keep,
                )
                loaded = loop.expect("loaded")
                loop.expect("ended")
            finally:
                loop.close()
            made.remove()
            content = {one["name"]: one for one in loaded["candidates"]}
            newest = content.get(loaded["newest"])
            if newest is None or newest["step"] != measured["last_step"]:
                raise EnvironmentFailure(f"{saver} lost its last checkpoint: {loaded}")
            rounds.append(
                {
                    "round": number,
                    "saver": saver,
                    "idle_step_ns": measured["idle_step_ns"],
                    "saves": measured["saves"],
                    "content": [one["content"] for one in loaded["candidates"]],
                }
            )
            print(f"round {number + 1}: {saver}", file=sys.stderr)
    return rounds


def outcome(
    reported: int | None, newest: str | None, content: dict[str, Json]
) -> tuple[str, int | None]:
    """Returns what a restarted loop finds, and the step from which it continues."""
    if newest is None:
        return ("nothing yet" if reported is None else "older"), None
    found = content[newest]
    if found["content"] != "equal":
        return found["content"], None
    if reported is not None and found["step"] < reported:
        return "older", found["step"]
    return "newest", found["step"]


def entries(directory: Path) -> dict[str, int]:
    """Returns the files below a directory with their sizes."""
    found = {}
    for parent, _, names in os.walk(directory):
        for name in names:
            path = Path(parent) / name
            found[str(path.relative_to(directory))] = path.stat().st_size
    return found


def strays(files: dict[str, int], content: list[Json]) -> Json:
    """Returns what belongs to no checkpoint that loads: temporary files, partial files and directories."""
    whole = {one["name"] for one in content if one["content"] == "equal"}
    left = {
        name: size
        for name, size in files.items()
        if name.split("/")[0] not in whole and name != "latest"
    }
    return {"files": len(left), "bytes": sum(left.values())}


def trial(options: argparse.Namespace, loop: Loop, kill: Json, scratch: Path) -> Json:
    """Trains until the kill, then restarts and loads."""
    made = MadeDirectory(scratch, name="killed")
    directory = made.path
    common = {
        "saver": kill["saver"],
        "directory": str(directory),
        "keep": options.keep,
        "every": options.every,
        "products": options.kill_products,
    }
    loop.request(action="train", **common)
    loop.expect("started")
    until = time.monotonic() + kill["after_ns"] / 1e9
    reported = None
    while (reply := loop.next(until)) is not None:
        if reply["event"] == "saved":
            reported = reply["step"]
    loop.kill()
    while (reply := loop.next()) is not None and reply["event"] != "ended":
        if reply["event"] == "saved":
            reported = reply["step"]
    assert reply is not None
    if reply["status"] != -signal.SIGKILL:
        raise EnvironmentFailure(f"the loop ended by itself with {reply['status']}")
    left = entries(directory)
    loop.request(action="load", **common)
    loaded = loop.expect("loaded")
    loop.expect("ended")
    content = {one["name"]: one for one in loaded["candidates"]}
    result, step = outcome(reported, loaded["newest"], content)
    after = entries(directory)
    made.remove()
    return {
        **kill,
        "reported_step": reported,
        "outcome": result,
        "loaded_step": step,
        "candidates": loaded["candidates"],
        "strays": strays(left, loaded["candidates"]),
        "strays_after_restart": strays(after, loaded["candidates"]),
    }


def kill_plan(savers: list[str], kills: int, window_ms: float, seed: int) -> list[Json]:
    """Returns when to kill which saver: so many kills each, in shuffled order."""
    chance = random.Random(seed)
    plan = [
        {"saver": saver, "after_ns": int(chance.uniform(0, window_ms) * 1e6)}
        for saver in savers
        for _ in range(kills)
    ]
    chance.shuffle(plan)
    return plan


def kill_all(options: argparse.Namespace, loops: "Loops", scratch: Path) -> list[Json]:
    """Kills the loop of every saver as planned."""
    plan = kill_plan(loops.savers, options.kills, options.kill_window_ms, options.seed)
    running = loops.start(options.kill_state_mib)
    results = []
    try:
        for number, kill in enumerate(plan):
            results.append(trial(options, running, kill, scratch))
            if (number + 1) % 10 == 0:
                print(f"kill {number + 1} of {len(plan)}", file=sys.stderr)
    finally:
        running.close()
    return results


class Loops:
    """Starts processes of python_loop.py, and knows what their PyTorch has."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        paths = [str(options.package), str(DIRECTORY)]
        threads = {
            name: "1"
            for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        }
        self._environment = {
            **os.environ,
            **threads,
            "PYTHONPATH": os.pathsep.join(paths),
            # What a library says of itself is no result.
            "PYTHONWARNINGS": "ignore",
            "GLOG_minloglevel": "2",
        }
        loop = Loop(options.python, self._environment)
        try:
            loop.request(
                action="prepare",
                state_mib=1,
                seed=options.seed,
                step_ms=options.step_ms,
            )
            self.facts = loop.expect("prepared")
        finally:
            loop.close()
        self.products = self.facts["products"]
        self.unavailable: dict[str, str] = self.facts["unavailable"]
        self.savers = [name for name in SAVERS if name not in self.unavailable]

    def start(self, state_mib: int) -> Loop:
        loop = Loop(self._options.python, self._environment)
        loop.request(
            action="prepare",
            state_mib=state_mib,
            seed=self._options.seed,
            step_ms=self._options.step_ms,
        )
        loop.expect("prepared")
        return loop


def machine(directory: Path) -> Json:
    cpu = None
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    kind, best = None, ""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, file_system, *_ = line.split()
        if directory.is_relative_to(mount) and len(mount) >= len(best):
            kind, best = file_system, mount
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "file_system": kind,
    }


def summarize(saver: str, rounds: list[Json], kills: list[Json]) -> Json:
    saves = [
        save for part in rounds if part["saver"] == saver for save in part["saves"]
    ]
    trials = [one for one in kills if one["saver"] == saver]
    durable = [save["durable_ns"] for save in saves if save["durable_ns"] is not None]
    results: Json = {"saver": saver}
    for name in ("stall_ns", "delay_ns", "complete_ns"):
        results[name] = spread([save[name] for save in saves]) if saves else None
    results["durable_ns"] = spread(durable) if durable else None
    results["kills"] = len(trials)
    results["outcomes"] = {
        name: sum(one["outcome"] == name for one in trials) for name in OUTCOMES
    }
    candidates = [item for one in trials for item in one["candidates"]]
    results["unloadable_checkpoints"] = sum(
        item["content"] == "unloadable" for item in candidates
    )
    results["different_checkpoints"] = sum(
        item["content"] == "different" for item in candidates
    )
    for name in ("strays", "strays_after_restart"):
        results[name] = {
            "kills": sum(one[name]["files"] > 0 for one in trials),
            "files": sum(one[name]["files"] for one in trials),
            "bytes": sum(one[name]["bytes"] for one in trials),
        }
    return results


def milliseconds(value: Json | None) -> str:
    if value is None:
        return "never synced | |"
    interval = ""
    if value["low"] is not None:
        interval = f" ({value['low'] / 1e6:.0f} to {value['high'] / 1e6:.0f})"
    return f"{value['median'] / 1e6:.0f}{interval} | {value['worst'] / 1e6:.0f} |"


def table(document: Json) -> str:
    lines = []
    if document["rounds"]:
        lines += [
            "| saver | stall, ms | worst | delay with its steps, ms | worst | durable, ms | worst |",
            "|---|---|---|---|---|---|---|",
        ]
        for one in document["savers"]:
            cells = [
                milliseconds(one[name])
                for name in ("stall_ns", "delay_ns", "durable_ns")
            ]
            lines.append(f"| {one['saver']} | {' '.join(cells)}")
    if document["kills"]:
        if lines:
            lines.append("")
        lines += [
            "| saver | kills | newest loads | none saved yet | newest does not load | older than reported "
            "| wrong content | kills with stray files | after a restart |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for one in document["savers"]:
            found = " | ".join(str(one["outcomes"][name]) for name in OUTCOMES)
            stray = [
                f"{one[name]['kills']} ({one[name]['bytes'] / 2**20:.0f} MiB)"
                for name in ("strays", "strays_after_restart")
            ]
            lines.append(
                f"| {one['saver']} | {one['kills']} | {found} | {' | '.join(stray)} |"
            )
    for name, why in document["unavailable"].items():
        lines.append(f"\n{name}: not measured: {why}")
    for what in findings(document):
        lines.append(f"\nfinding: {what}")
    return "\n".join(lines)


def unequal(document: Json) -> dict[str, str]:
    """Returns the savers whose checkpoints of rounds, which end without a kill, are not what was saved."""
    found = {}
    for saver in SAVERS:
        content = [
            one
            for part in document["rounds"]
            if part["saver"] == saver
            for one in part["content"]
        ]
        bad = [
            f"{content.count(kind)} {words}"
            for kind, words in (
                ("different", "with other content than was saved"),
                ("unloadable", "that cannot be loaded"),
            )
            if kind in content
        ]
        if bad:
            found[saver] = f"of {len(content)} checkpoints, {' and '.join(bad)}"
    return found


def findings(document: Json) -> list[str]:
    """Returns what was found about other savers, which does not fail the run."""
    return [
        f"{saver} of PyTorch {document['torch']}: {what}"
        for saver, what in unequal(document).items()
        if saver != "tzmark"
    ]


def problems(document: Json) -> list[str]:
    """Returns what makes the run fail."""
    found = [
        f"{saver}: {what}"
        for saver, what in unequal(document).items()
        if saver == "tzmark"
    ]
    for one in document["savers"]:
        if one["saver"] == "tzmark" and one["kills"]:
            bad = {
                name: one["outcomes"][name]
                for name in ("unloadable", "older", "different")
                if one["outcomes"][name]
            }
            if bad or one["unloadable_checkpoints"] or one["different_checkpoints"]:
                found.append(f"tzmark: a kill damaged or lost a checkpoint: {bad}")
    return found


def arguments(words: list[str]) -> argparse.Namespace:
    def count(least: int) -> Any:
        def number(text: str) -> int:
            value = int(text)
            if value < least:
                raise argparse.ArgumentTypeError(f"{value} is less than {least}")
            return value

        return number

    def duration(text: str) -> float:
        value = float(text)
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError(f"{text} is not a duration in ms")
        return value

    parser = argparse.ArgumentParser(
        prog="scripts/bench-checkpoint-python",
        description="Compares ways to save a PyTorch loop.",
    )
    add = parser.add_argument
    add("--dir", type=Path, required=True, help="Directory on the storage to measure")
    add("--python", default=sys.executable, help="Python that has the torch to use")
    add("--package", type=Path, required=True, help="Directory with the module tzmark")
    add("--state-mib", type=count(1), default=384, help="Size of the state (384)")
    add("--step-ms", type=duration, default=150, help="Compute time of a step (150)")
    add("--every", type=count(1), default=10, help="Steps between saves (10)")
    add("--keep", type=count(0), default=3, help="Checkpoints kept; 0 = all (3)")
    add("--rounds", type=count(0), default=5, help="Processes per saver (5)")
    add("--saves", type=count(1), default=4, help="Saves measured per process (4)")
    add("--kills", type=count(0), default=50, help="Kills per saver (50)")
    add("--kill-state-mib", type=count(1), default=64, help="Size while killed (64)")
    add("--kill-step-ms", type=duration, default=5, help="Step while killed (5)")
    add("--kill-window-ms", type=duration, default=2000, help="Latest kill (2000)")
    add("--seed", type=count(0), default=1, help="Seed of order and kills (1)")
    add("--json", type=Path, help="File for the result")
    return parser.parse_args(words)


def run(options: argparse.Namespace) -> Json:
    options.dir.mkdir(parents=True, exist_ok=True)
    with MadeDirectory(options.dir.resolve()) as made:
        scratch = made.path
        loops = Loops(options)
        share = options.kill_step_ms / options.step_ms
        options.kill_products = max(1, round(loops.products * share))
        rounds = measure(options, loops, scratch)
        kills = kill_all(options, loops, scratch) if options.kills else []
    return {
        "schema_version": 1,
        "kind": "checkpoint-python",
        "tool": loops.facts["tool"],
        "command": sys.argv,
        "machine": machine(options.dir.resolve()),
        "python": loops.facts["python"],
        "torch": loops.facts["torch"],
        "state_bytes": options.state_mib << 20,
        "kill_state_bytes": options.kill_state_mib << 20,
        "step_ms": options.step_ms,
        "kill_step_ms": options.kill_step_ms,
        "kill_window_ms": options.kill_window_ms,
        "every": options.every,
        "keep": options.keep,
        "seed": options.seed,
        "unavailable": loops.unavailable,
        "rounds": rounds,
        "kills": kills,
        "savers": [summarize(name, rounds, kills) for name in loops.savers],
    }


def main(words: list[str]) -> int:
    options = arguments(words)
    try:
        document = run(options)
        if options.json:
            output_file.write(options.json, json.dumps(document, indent=1) + "\n")
    except (EnvironmentFailure, OSError) as error:
        print(f"bench-checkpoint-python: {error}", file=sys.stderr)
        return 3
    print(table(document))
    found = problems(document)
    for one in found:
        print(f"bench-checkpoint-python: {one}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
