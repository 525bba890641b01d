"""What a checkpoint of "tzmark checkpoint simulate" has to hold, computed from seed and step, and read without tzmark.

The formula is that of reference/training/simulated_model.h; this is a second implementation of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy

from subject import require

OF_ELEMENT = 0x9E3779B97F4A7C15
OF_STEP = 0xD1B54A32D192ED03
# How safetensors calls what the simulation has, and the integers that its elements are computed as.
WORDS = {"BF16": numpy.dtype("<u2"), "F32": numpy.dtype("<u4")}
LAYERS = 8


def expected(
    name: str, shape: list[int], words: numpy.dtype, seed: int, step: int
) -> numpy.ndarray:
    """A whole tensor after a step."""
    begin = int.from_bytes(
        hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "little"
    )
    limit = 1 << (8 * words.itemsize)
    elements = numpy.arange(numpy.prod(shape, dtype=int), dtype=words)
    elements *= words.type(OF_ELEMENT % limit)
    elements += words.type((begin + step * OF_STEP) % limit)
    return elements.reshape(shape)


def tensors_of(file: Path) -> Iterator[tuple[str, str, numpy.ndarray]]:
    """Name, dtype and content of each tensor in a safetensors file."""
    content = file.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    for name, entry in json.loads(content[8:begin]).items():
        if name == "__metadata__":
            continue
        first, last = (begin + offset for offset in entry["data_offsets"])
        words = numpy.frombuffer(content[first:last], WORDS[entry["dtype"]])
        yield name, entry["dtype"], words.reshape(entry["shape"])


def check_content(checkpoint: Path, step: int) -> None:
    """A checkpoint that is not sharded has the content of the step, all of it and nothing else."""
    state = json.loads((checkpoint / "training_state.json").read_text())
    require(
        state["step"] == step,
        f"{checkpoint.name} is of step {state['step']}, not {step}",
    )
    seed = int(state["metadata"]["seed"])
    weights = dict[str, list[int]]()
    for file, dtype in (("model", "BF16"), ("optimizer", "F32")):
        names = set()
        for name, own, content in tensors_of(checkpoint / f"{file}.safetensors"):
            require(own == dtype, f"{name} is {own}")
            wanted = expected(name, list(content.shape), WORDS[own], seed, step)
            require(
                numpy.array_equal(content, wanted),
                f"{checkpoint.name}: {name} has not the content of step {step}",
            )
            if file == "model":
                weights[name] = list(content.shape)
            else:
                weight = name.rpartition(".")[0]
                require(weights[weight] == list(content.shape), f"shape of {name}")
            names.add(name)
        suffixes = ("",) if file == "model" else (".m", ".v")
        wanted_names = {weight + suffix for weight in weights for suffix in suffixes}
        require(names == wanted_names, f"{file} lacks {sorted(wanted_names - names)}")
    require(len(weights) == 3 + LAYERS * 9, f"there are {len(weights)} weights")
