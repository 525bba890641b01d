"""The training loop that scripts/bench-checkpoint-python measures and kills, in the Python that has torch.

usage: python_loop.py

Reads one JSON request per line from stdin. Each but "prepare" runs in a forked process of its own, so that torch is
imported once; every reply is a line of JSON on stdout. The requests: "prepare" makes the state, "measure" times a loop,
"train" runs one until it is killed, and "load" loads what a loop has left.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# The test environment has empty files for the libraries of CUDA, which resolve only with lazy binding.
sys.setdlopenflags(os.RTLD_LAZY)

import torch  # noqa: E402

from python_savers import SAVERS, Done, Saver, State, unavailable  # noqa: E402

ELEMENTS_MAX = 1 << 20  # per tensor
MATRIX = 192
# Libraries print on stdout; only replies go to what it was at the start.
REPLIES = os.dup(1)


def tell(**reply: Any) -> None:
    """Writes one line at once, so that a kill cannot split it."""
    os.write(REPLIES, (json.dumps(reply) + "\n").encode())


def make_state(mib: int, seed: int) -> State:
    """Makes a model and its Adam optimizer: integers below 2^16 in float32, so that adding steps is exact."""
    generator = torch.Generator().manual_seed(seed)

    def tensor(elements: int) -> torch.Tensor:
        return torch.randint(
            1 << 16, (elements,), generator=generator, dtype=torch.float32
        )

    left = mib * (1 << 20) // 12
    model: State = {}
    moments: State = {}
    while left:
        elements = min(left, ELEMENTS_MAX)
        name = f"layers.{len(model)}.weight"
        # Not the integer keys of torch.optim: torch.distributed.checkpoint.load would return numbers below them under
        # the key's text.
        moments[name] = {
            "step": torch.zeros(()),
            "exp_avg": tensor(elements),
            "exp_avg_sq": tensor(elements),
        }
        model[name] = tensor(elements)
        left -= elements
    group = {"lr": 0.001, "betas": [0.9, 0.999], "params": list(model)}
    return {
        "model": model,
        "optimizer": {"state": moments, "param_groups": [group]},
        "step": 0,
    }


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values of a state with their places, in an order that does not depend on the mappings'."""
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from leaves(value[key], f"{place}/{key}")
    elif isinstance(value, (list, tuple)):
        for number, one in enumerate(value):
            yield from leaves(one, f"{place}/{number}")
    else:
        yield place, value


def tensors(state: State) -> list[torch.Tensor]:
    return [one for _, one in leaves(state) if isinstance(one, torch.Tensor)]


def advance(state: State, steps: int) -> None:
    """Changes every element, as so many training steps would."""
    for one in tensors(state):
        one.add_(steps)
    state["step"] += steps


def digest(state: State) -> str:
    """Returns the SHA-256 of every place, dtype, shape and byte."""
    total = hashlib.sha256()
    for place, value in leaves(state):
        if isinstance(value, torch.Tensor):
            total.update(f"{place} {value.dtype} {tuple(value.shape)}\n".encode())
            total.update(value.contiguous().numpy())
        else:
            total.update(f"{place} {value!r}\n".encode())
    return total.hexdigest()


class Step:
    """A training step of fixed work: matrix products, then a change of every element."""

    def __init__(self, state: State, products: int) -> None:
        self._state, self._products = state, products
        self._matrix = torch.rand(MATRIX, MATRIX)

    def __call__(self) -> int:
        """Returns how long it took, in ns."""
        started = time.monotonic_ns()
        for _ in range(self._products):
            torch.mm(self._matrix, self._matrix)
        advance(self._state, 1)
        return time.monotonic_ns() - started


class Watcher:
    """Waits for saves in a thread, as a program that reports them would."""

    def __init__(self, saver: Saver, report: Callable[[int, Done], None]) -> None:
        self._background, self._report = saver.background, report
        self._saves: queue.Queue[tuple[int, Callable[[], Done]] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def watch(self, step: int, wait: Callable[[], Done]) -> None:
        if self._background:
            self._saves.put((step, wait))
        else:
            self._report(step, wait())

    def finish(self) -> None:
        self._saves.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._saves.get()) is not None:
            try:
                self._report(item[0], item[1]())
            except BaseException:  # noqa: BLE001 - a thread's exception would be lost
                tell(event="failed", problem=traceback.format_exc())
                os._exit(1)


def median(values: list[int]) -> int:
    return sorted(values)[len(values) // 2]


def products_for(step_ms: float) -> int:
    """Returns how many matrix products take that long."""
    matrix, laps = torch.rand(MATRIX, MATRIX), []
    for _ in range(200):
        started = time.monotonic_ns()
        torch.mm(matrix, matrix)
        laps.append(time.monotonic_ns() - started)
    return max(1, round(step_ms * 1e6 / median(laps)))


def measure(request: dict[str, Any], state: State) -> None:
    """Times saves of a loop, after one save that warms up and steps without any."""
    saver = SAVERS[request["saver"]](Path(request["directory"]), request["keep"])
    every, saves = request["every"], request["saves"]
    done: dict[int, Done] = {}
    watcher = Watcher(saver, done.__setitem__)
    step = Step(state, request["products"])
    step()
    watcher.watch(1, saver.save(state, 1))
    while 1 not in done:
        time.sleep(0.001)
    os.sync()
    idle = [step() for _ in range(2 * every)]
    idle_ns = median(idle)
    result = []
    for _ in range(saves):
        started = time.monotonic_ns()
        number = state["step"]
        watcher.watch(number, saver.save(state, number))
        saved = time.monotonic_ns()
        for _ in range(every):
            step()
        late = time.monotonic_ns() - started - every * idle_ns
        result.append((number, started, saved - started, late))
    watcher.finish()
    saver.close()
    tell(
        event="measured",
        idle_step_ns=idle_ns,
        last_step=result[-1][0],
        saves=[
            {
                "step": number,
                "stall_ns": stall,
                "delay_ns": late,
                "complete_ns": done[number].complete_ns - started,
                "durable_ns": (
                    None
                    if (at := done[number].durable_ns) is None
                    else max(0, at - started)
                ),
            }
            for number, started, stall, late in result
        ],
    )


def train(request: dict[str, Any], state: State) -> None:
    """Trains and saves until the process is killed, and says which checkpoints were reported complete."""
    saver = SAVERS[request["saver"]](Path(request["directory"]), request["keep"])
    watcher = Watcher(saver, lambda number, _: tell(event="saved", step=number))
    step = Step(state, request["products"])
    tell(event="started")
    while True:
        step()
        if state["step"] % request["every"] == 0:
            watcher.watch(state["step"], saver.save(state, state["step"]))


def load(request: dict[str, Any], state: State) -> None:
    """Loads every checkpoint that the loader of the saver finds, and compares it with what the loop had at its step."""
    saver = SAVERS[request["saver"]](Path(request["directory"]), request["keep"])
    found = []
    for name, number in saver.candidates().items():
        template = make_template(state)
        try:
            loaded = saver.load(name, template)
        except KeyboardInterrupt:
            raise
        except (
            BaseException
        ) as error:  # noqa: BLE001 - CheckpointException of torch is no Exception
            problem = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            found.append(
                {
                    "name": name,
                    "step": number,
                    "content": "unloadable",
                    "problem": problem,
                }
            )
            continue
        advance(state, number - state["step"])
        equal = digest(loaded) == digest(state)
        found.append(
            {
                "name": name,
                "step": number,
                "content": "equal" if equal else "different",
                "problem": None,
            }
        )
    newest = saver.newest()
    saver.close()
    tell(event="loaded", newest=newest, candidates=found)


def make_template(value: Any) -> Any:
    """Returns the structure with zeros: what torch.distributed.checkpoint.load fills."""
    if isinstance(value, dict):
        return {key: make_template(one) for key, one in value.items()}
    if isinstance(value, list):
        return [make_template(one) for one in value]
    return torch.zeros_like(value) if isinstance(value, torch.Tensor) else value


def in_child(action: Callable[[], None]) -> None:
    """Runs the action in a forked process, and says how that ended."""
    child = os.fork()
    if child == 0:
        try:
            tell(event="process", pid=os.getpid())
            action()
            os._exit(0)
        except (
            BaseException
        ):  # noqa: BLE001 - the child must not go on with the parent's work
            tell(event="failed", problem=traceback.format_exc())
            os._exit(1)
    _, status = os.waitpid(child, 0)
    tell(event="ended", status=os.waitstatus_to_exitcode(status))


def prepare(request: dict[str, Any]) -> State:
    import tzmark

    version = re.match(r"tzmark (\S+) \(commit (\S+)\)", tzmark.version_text)
    tell(
        event="prepared",
        products=products_for(request["step_ms"]),
        torch=torch.__version__,
        python=sys.version.split()[0],
        tool={
            "name": "tzmark",
            "version": tzmark.__version__,
            "commit": version[2] if version else "",
        },
        unavailable={name: why for name in SAVERS if (why := unavailable(name))},
    )
    return make_state(request["state_mib"], request["seed"])


def main() -> int:
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)
    torch.set_num_threads(1)
    state: State = {}
    actions = {"measure": measure, "train": train, "load": load}
    for line in sys.stdin:
        request = json.loads(line)
        if request["action"] == "prepare":
            state = prepare(request)
        else:
            action = actions[request["action"]]
            in_child(lambda: action(request, state))
    return 0


if __name__ == "__main__":
    sys.exit(main())
