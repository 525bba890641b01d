"""Does the reference library of safetensors load our checkpoints, with every dtype that it knows?

save_dtypes saves a checkpoint through the library, and what the other one finds in its two files is compared with bytes
that are computed here.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import safetensors
import safetensors.numpy

from safetensors_test import WRITABLE, Tensor, library_reads

SHAPES: tuple[tuple[int, ...], ...] = ((3, 5), (), (0, 4))
# Those that the package turns into arrays.
NUMPY = (
    "BOOL",
    "U8",
    "I8",
    "I16",
    "U16",
    "F16",
    "I32",
    "U32",
    "F32",
    "F64",
    "I64",
    "U64",
)


def expected() -> list[Tensor]:
    """What save_dtypes saves of all dtypes, by its description; sorted by name."""
    tensors = []
    for dtype, (torch_name, element_bytes) in WRITABLE.items():
        for shape in SHAPES:
            number = len(tensors)
            count = math.prod(shape) * element_bytes
            data = bytes((31 * number + 7 * i) % 256 for i in range(count))
            name = f"{torch_name}.{len(shape)}.{number}"
            tensors.append(Tensor(name, dtype, shape, data))
    return sorted(tensors, key=lambda tensor: tensor.name)


def differences(found: list[Tensor], wanted: list[Tensor]) -> list[str]:
    """The names of tensors that only one side has, or that differ."""
    return sorted({tensor.name for tensor in set(found) ^ set(wanted)})


def as_arrays(file: Path, wanted: list[Tensor]) -> list[str]:
    """What is wrong with the arrays that the package makes, of the dtypes that numpy has."""
    wrong = []
    with safetensors.safe_open(file, framework="numpy") as opened:
        for tensor in wanted:
            if tensor.dtype not in NUMPY:
                continue
            array = opened.get_tensor(tensor.name)
            if array.shape != tensor.shape or array.tobytes() != tensor.data:
                wrong.append(tensor.name)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save-dtypes", type=Path, required=True)
    arguments = parser.parse_args()
    wanted = expected()
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = Path(scratch) / "checkpoint"
        torch_names = [torch_name for torch_name, _ in WRITABLE.values()]
        subprocess.run([arguments.save_dtypes, checkpoint, *torch_names], check=True)
        for name in ("model.safetensors", "optimizer.safetensors"):
            file = checkpoint / name
            found = library_reads(file.read_bytes())
            wrong += [f"{name}: {what}" for what in differences(found, wanted)]
            wrong += [f"{name}, array: {what}" for what in as_arrays(file, wanted)]
    changed = [*wanted[1:], Tensor(wanted[0].name, "U8", (1,), b"x")]
    if differences(changed, wanted) != [wanted[0].name]:
        wrong.append("the comparison notices nothing")
    print(
        f"safetensors {safetensors.__version__}: {len(wanted)} tensors in each of two files"
    )
    for what in wrong:
        print(f"FAILED {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
