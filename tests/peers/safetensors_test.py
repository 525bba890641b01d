"""Do tzmark and the reference library of safetensors read each other's files, and refuse the same ones?

The library writes files of every dtype that it can write, and tzmark reads them and writes them again, byte for byte.
tzmark converts each valid file of the corpus that a safetensors file can hold, and the library reads the result. And
the library judges every case of reference/safetensors/cases: its verdict and its error are those of the lists, and
"tzmark verify" in the library's profile comes to the same verdict.
"""

import argparse
import ctypes
import hashlib
import json
import math
import operator
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy
import safetensors
import safetensors.numpy

# For each dtype that the library can write: what it calls it there, and the bytes of an element.
WRITABLE = {
    "BOOL": ("bool", 1),
    "U8": ("uint8", 1),
    "I8": ("int8", 1),
    "F8_E5M2": ("float8_e5m2", 1),
    "F8_E4M3": ("float8_e4m3fn", 1),
    "F8_E8M0": ("float8_e8m0fnu", 1),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 1),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 1),
    "I16": ("int16", 2),
    "U16": ("uint16", 2),
    "F16": ("float16", 2),
    "BF16": ("bfloat16", 2),
    "I32": ("int32", 4),
    "U32": ("uint32", 4),
    "F32": ("float32", 4),
    "C64": ("complex64", 8),
    "F64": ("float64", 8),
    "I64": ("int64", 8),
    "U64": ("uint64", 8),
}
FORMAT_NAMES = {ours: name for name, (ours, _) in WRITABLE.items()}
# The one that the library can write and .tensors files cannot hold; two elements a byte, and shapes count bytes.
HALF_BYTE = ("F4", "float4_e2m1fn_x2")

NUMPY_DIMENSIONS_MAX = 32

# How the messages of the library begin, for each of its errors that a file can cause.
ERRORS = {
    "header too small": "HeaderTooSmall",
    "header too large": "HeaderTooLarge",
    "invalid header length": "InvalidHeaderLength",
    "invalid UTF-8 in header": "InvalidHeader",
    "invalid JSON in header": "InvalidHeaderDeserialization",
    "invalid offset for tensor": "InvalidOffset",
    "overflow computing buffer size": "ValidationOverflow",
    "The slice is slicing for subbytes": "MisalignedSlice",
    "invalid shape, data type, or offset": "TensorInvalidInfo",
    "incomplete metadata": "MetadataIncompleteBuffer",
}
MESSAGE_PREFIX = "Error while deserializing: "

# Exit statuses of tzmark.
FINE, FILE_FAILS, WRONG_USAGE = 0, 1, 2


class Mismatch(Exception):
    """The library, tzmark and the expectation do not say the same."""


def require_equal(what: str, ours: object, theirs: object) -> None:
    if ours != theirs:
        raise Mismatch(f"{what}: {ours!r} is not {theirs!r}")


@dataclass(frozen=True)
class Tensor:
    """A tensor to write, or one that was read."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def listed(self) -> tuple[str, str, tuple[int, ...], str]:
        """What can be compared with a dump."""
        return (
            self.name,
            self.dtype,
            self.shape,
            hashlib.sha256(self.data).hexdigest(),
        )


def library_writes(
    tensors: list[Tensor], metadata: Mapping[str, str] | None = None
) -> bytes:
    """The file that the library makes of these tensors."""
    memory = {
        tensor.name: ctypes.create_string_buffer(tensor.data, max(1, len(tensor.data)))
        for tensor in tensors
    }
    specs = {
        tensor.name: safetensors.TensorSpec(
            dtype=WRITABLE[tensor.dtype][0],
            shape=list(tensor.shape),
            data_ptr=ctypes.addressof(memory[tensor.name]),
            data_len=len(tensor.data),
        )
        for tensor in tensors
    }
    return safetensors.serialize(specs, dict(metadata) if metadata else None)


def library_reads(content: bytes) -> list[Tensor]:
    """What the library finds in a file, sorted by name."""
    found = [
        Tensor(name, info["dtype"], tuple(info["shape"]), bytes(info["data"]))
        for name, info in safetensors.deserialize(content)
    ]
    return sorted(found, key=lambda tensor: tensor.name)


def library_error(content: bytes) -> str | None:
    """The Rust name of the error by which the library refuses a file; None if it reads it."""
    try:
        safetensors.deserialize(content)
    except safetensors.SafetensorError as error:
        message = str(error).removeprefix(MESSAGE_PREFIX)
        for beginning, name in ERRORS.items():
            if message.startswith(beginning):
                return name
        raise Mismatch(f"an error of no known kind: {error}") from error
    return None


class Tzmark:
    """The command under test."""

    def __init__(self, program: str) -> None:
        self._program = program

    def status(self, *arguments: str | Path) -> tuple[int, bytes, str]:
        """Exit status, standard output and standard error."""
        done = subprocess.run(
            [self._program, *map(str, arguments)], capture_output=True
        )
        return done.returncode, done.stdout, done.stderr.decode().strip()

    def run(self, *arguments: str | Path) -> bytes:
        status, output, errors = self.status(*arguments)
        if status != FINE:
            raise Mismatch(f"tzmark {arguments[0]} exits {status}: {errors}")
        return output

    def dump(self, path: Path) -> dict[str, Any]:
        return json.loads(self.run("dump", path))

    def verdict(self, path: Path, profile: str) -> bool:
        """Whether it accepts the file."""
        status, _, errors = self.status(
            "verify", path, "--safetensors-profile", profile
        )
        if status not in (FINE, FILE_FAILS):
            raise Mismatch(f"tzmark verify exits {status}: {errors}")
        return status == FINE


def compare_dump(
    dump: Mapping[str, Any], tensors: list[Tensor], metadata: Mapping[str, str]
) -> None:
    """Holds a dump of a safetensors file against what was written."""
    require_equal("metadata", dump["metadata"], dict(metadata))
    listed = [
        (
            tensor["path"][0],
            tensor["wire_dtype"],
            tuple(tensor["shape"]),
            tensor["sha256"],
        )
        for tensor in dump["tensors"]
    ]
    require_equal(
        "tensors", sorted(listed), sorted(tensor.listed() for tensor in tensors)
    )


def made_tensors(seed: str) -> list[Tensor]:
    """Tensors of every dtype, with names and shapes that are different each time."""
    numbers = random.Random(seed)
    tensors = []
    for dtype, (_, item_bytes) in WRITABLE.items():
        shapes = [
            (),
            (0,),
            (numbers.randrange(1, 9), numbers.randrange(1, 9)),
            (3, 0, 2),
        ]
        for shape in shapes[: numbers.randrange(1, 5)]:
            name = "".join(numbers.choices('aZ.0"\\/ ä😀\n\x01', k=6)) + str(
                len(tensors)
            )
            size = math.prod(shape) * item_bytes
            data = bytes(size) if dtype == "BOOL" else numbers.randbytes(size)
            tensors.append(Tensor(name, dtype, shape, data))
    return tensors


@dataclass
class Tally:
    """What was done, and what went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def attempt(
        self, what: str, name: str, action: Callable[..., None], *arguments: Any
    ) -> None:
        try:
            action(*arguments)
        except Mismatch as mismatch:
            self.failures.append(f"{name}: {mismatch}")
        self.counts[what] += 1


def read_theirs(tzmark: Tzmark, scratch: Path, seed: str) -> None:
    """The library writes, tzmark reads; what tzmark then writes is the same file again."""
    tensors = made_tensors(seed)
    for metadata in ({}, {"format": "np", "größe": "1\n"}):
        theirs = scratch / "theirs.safetensors"
        theirs.write_bytes(library_writes(tensors, metadata))
        for profile in ("spec", "library"):
            require_equal(
                f"verdict as {profile}", tzmark.verdict(theirs, profile), True
            )
        compare_dump(tzmark.dump(theirs), tensors, metadata)
        between, ours = scratch / "between.tensors", scratch / "ours.safetensors"
        if metadata:
            # A .tensors file has no place for it.
            status, _, errors = tzmark.status("convert", theirs, between)
            require_equal("status of the conversion", status, WRONG_USAGE)
            require_equal("the error names metadata", "'größe'" in errors, True)
        tzmark.run("convert", theirs, between, "--drop-metadata")
        tzmark.run("verify", between)
        for options, written in (
            (("--drop-metadata",), library_writes(tensors)),
            ((), library_writes(tensors, {"format": "pt"})),
        ):
            tzmark.run("convert", between, ours, *options)
            require_equal("the file written again", ours.read_bytes() == written, True)


def read_half_bytes(tzmark: Tzmark, scratch: Path) -> None:
    """Elements of half a byte are read, but no .tensors file can hold them."""
    memory = ctypes.create_string_buffer(bytes(range(6)), 6)
    spec = safetensors.TensorSpec(
        dtype=HALF_BYTE[1], shape=[2, 3], data_ptr=ctypes.addressof(memory), data_len=6
    )
    theirs = scratch / "half.safetensors"
    theirs.write_bytes(safetensors.serialize({"h": spec}))
    require_equal("verdict", tzmark.verdict(theirs, "spec"), True)
    tensor = Tensor("h", HALF_BYTE[0], (2, 6), bytes(range(6)))
    compare_dump(tzmark.dump(theirs), [tensor], {})
    status, _, errors = tzmark.status("convert", theirs, scratch / "half.tensors")
    require_equal("status of the conversion", status, WRONG_USAGE)
    require_equal("the error names the tensor", "'h'" in errors, True)
    require_equal("a file is left", (scratch / "half.tensors").exists(), False)


def read_shards(tzmark: Tzmark, scratch: Path) -> None:
    """Shards that the library wrote, with an index as others write it, become one file."""
    halves = [made_tensors("first shard"), made_tensors("second shard")]
    halves = [
        [Tensor(f"{i}.{t.name}", t.dtype, t.shape, t.data) for t in half]
        for i, half in enumerate(halves)
    ]
    weight_map = {}
    for i, half in enumerate(halves, start=1):
        name = f"model-{i:05}-of-{len(halves):05}.safetensors"
        (scratch / name).write_bytes(library_writes(half, {"format": "pt"}))
        weight_map |= {tensor.name: name for tensor in half}
    index = scratch / "model.safetensors.index.json"
    total = sum(len(tensor.data) for half in halves for tensor in half)
    index.write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map})
    )
    everything = halves[0] + halves[1]
    require_equal("verdict", tzmark.verdict(index, "spec"), True)
    compare_dump(tzmark.dump(index), everything, {"format": "pt"})
    tzmark.run("convert", index, scratch / "whole.tensors")
    tzmark.run("convert", scratch / "whole.tensors", scratch / "whole.safetensors")
    require_equal(
        "the shards in one file",
        (scratch / "whole.safetensors").read_bytes()
        == library_writes(everything, {"format": "pt"}),
        True,
    )


# A safetensors file could hold it, but the command writes it nowhere.
UNWRITABLE_NAME = "an empty name"


def cannot_hold(tensor: Mapping[str, Any]) -> str | None:
    """Why tzmark makes no safetensors file of a tensor of a .tensors file; None if it does."""
    if tensor["path"] == [""]:
        return UNWRITABLE_NAME
    if len(tensor["path"]) != 1 or not isinstance(tensor["path"][0], str):
        return "a structured name"
    if tensor["meta"]:
        return "a meta tensor"
    if tensor["wire_dtype"].startswith(">") and tensor["wire_dtype"][2:] != "1":
        return "big-endian data"
    if tensor["dtype"] not in FORMAT_NAMES:
        return "a dtype that the format lacks"
    bits = 8 * WRITABLE[FORMAT_NAMES[tensor["dtype"]]][1]
    # The library multiplies in this order, and a zero does not take back an overflow before it.
    for product in accumulate([*tensor["shape"], bits], operator.mul):
        if product >= 2**64:
            return "a shape that overflows"
    return None


def they_read(
    tzmark: Tzmark, scratch: Path, source: Path, options: list[str | Path]
) -> str:
    """tzmark converts a .tensors file, and the library reads the result. Returns what came of it."""
    dump = json.loads(tzmark.run("dump", source, *options))
    ours = scratch / "ours.safetensors"
    ours.unlink(missing_ok=True)
    reasons = sorted({reason for t in dump["tensors"] if (reason := cannot_hold(t))})
    status, _, errors = tzmark.status("convert", source, ours, *options)
    if reasons:
        require_equal("status of the conversion", status, WRONG_USAGE)
        rule = "TZR-NAM-009" if UNWRITABLE_NAME in reasons else "ST-018"
        require_equal(f"the rule is {rule}", rule in errors, True)
        require_equal("a file is left", ours.exists(), False)
        return f"refused, as they hold {' and '.join(reasons)}"
    if status != FINE:
        raise Mismatch(f"tzmark convert exits {status}: {errors}")
    found = library_reads(ours.read_bytes())
    expected = [
        (t["path"][0], FORMAT_NAMES[t["dtype"]], tuple(t["shape"]), t["sha256"])
        for t in dump["tensors"]
    ]
    require_equal("tensors", [tensor.listed() for tensor in found], sorted(expected))
    require_equal(
        "the library's own file",
        ours.read_bytes() == library_writes(found, {"format": "pt"}),
        True,
    )
    numpy_reads(ours, found)
    return "read by the library"


def numpy_holds(tensor: Tensor) -> bool:
    """Whether numpy has the dtype, and a place for the shape: it counts bytes as if no dimension were 0."""
    name, item_bytes = WRITABLE[tensor.dtype]
    spanned = math.prod(max(1, dimension) for dimension in tensor.shape)
    return (
        hasattr(numpy, name.replace("bool", "bool_"))
        and len(tensor.shape) <= NUMPY_DIMENSIONS_MAX
        and spanned * item_bytes < 2**63
    )


def numpy_reads(path: Path, tensors: list[Tensor]) -> None:
    """The same through the API that people use, where numpy can hold all of it."""
    if not all(map(numpy_holds, tensors)):
        return
    arrays = safetensors.numpy.load_file(path)
    require_equal("names", sorted(arrays), [tensor.name for tensor in tensors])
    for tensor in tensors:
        array = arrays[tensor.name]
        require_equal("dtype", array.dtype.name, WRITABLE[tensor.dtype][0])
        require_equal("shape", array.shape, tensor.shape)
        require_equal("data", array.tobytes(), tensor.data)


def judge_case(tzmark: Tzmark, case: Mapping[str, Any], path: Path) -> None:
    """List, library and tzmark judge a case alike."""
    accepted = case["library"] is None
    if not path.name.endswith(".json"):
        error = library_error(path.read_bytes())
        require_equal("the library's error", case["library_error"], error)
        require_equal("the list", accepted, error is None)
    require_equal("tzmark as library", tzmark.verdict(path, "library"), accepted)
    require_equal("tzmark as spec", tzmark.verdict(path, "spec"), case["spec"] is None)


def listed_cases(directory: Path) -> list[dict[str, Any]]:
    """The cases of both lists in the form of calls.json."""
    calls = json.loads((directory / "calls.json").read_text())["cases"]
    files = json.loads((directory / "manifest.json").read_text())["cases"]
    return calls + [
        {"id": case["id"], "file": case["path"], **case["safetensors"]}
        for case in files
    ]


def corpus_files(
    corpus: Path, scratch: Path
) -> Iterator[tuple[str, Path, list[str | Path]]]:
    """The valid files of the corpus, each with its case's id and the options that open it.

    The options of one file hold until the next one is taken.
    """
    secret = scratch / "passphrase"
    for case in json.loads((corpus / "manifest.json").read_text())["cases"]:
        # A meta tensor of a terabyte is refused like any other; opening costs nothing. 65,537 tensors take seconds.
        if case["verdict"] != "valid" or case["id"] == "large-tensors-65537":
            continue
        options: list[str | Path] = []
        if key := case.get("key_hex"):
            options = ["--key-hex", key]
        elif passphrase := case.get("passphrase"):
            # No argument holds a NUL byte. One line end at the end of the file does not belong to the passphrase.
            secret.write_text(f"{passphrase}\n", encoding="utf-8", newline="")
            options = ["--passphrase-file", secret]
        yield case["id"], corpus / case["path"], options


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tzmark", required=True, help="the command under test")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument(
        "--cases", type=Path, required=True, help="the directory of cases"
    )
    arguments = parser.parse_args()
    tzmark = Tzmark(arguments.tzmark)
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for seed in ("one", "two", "three"):
            tally.attempt(
                "files of the library", seed, read_theirs, tzmark, scratch, seed
            )
        tally.attempt("half bytes", "F4", read_half_bytes, tzmark, scratch)
        tally.attempt("sharded models", "shards", read_shards, tzmark, scratch)
        outcomes: Counter[str] = Counter()
        for id, path, options in corpus_files(arguments.corpus, scratch):
            try:
                outcomes[they_read(tzmark, scratch, path, options)] += 1
            except Mismatch as mismatch:
                tally.failures.append(f"{id}: {mismatch}")
        for case in listed_cases(arguments.cases):
            path = arguments.cases / case["file"]
            tally.attempt("cases", case["id"], judge_case, tzmark, case, path)

    # Without these the test would compare nothing.
    if outcomes["read by the library"] < 20:
        tally.failures.append("the library has read next to nothing of the corpus")
    if tally.counts["cases"] < 900:
        tally.failures.append("next to no case was judged")
    print(f"safetensors {safetensors.__version__}")
    for what, count in (tally.counts + outcomes).items():
        print(f"{count:6} {what}")
    for failure in tally.failures:
        print(f"FAILED {failure}")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
