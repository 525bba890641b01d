"""The common part of the peer drivers: the protocol, the clock, and the tensors to write.

A driver is one process around another implementation, so that "tzmark bench" can time it in the same run. With
"--pages huge" malloc asks for huge pages, with "--pages small" the kernel gives this process none; with "--gpu" it is
unavailable where torch has no GPU. The answers to read and write have the share of the tensors' memory that is in huge
pages, as the kernel counts it. Its first line describes the implementation, or is {"unavailable": WHY}. Then each line
of stdin is a request with an "op", and gets one line on stdout:

- prepare: spec. Creates the tensors of the file in memory. Required before the first write.
- write: file, hashes, key_hex, sync, version. Includes closing the file; an fsync is timed separately. Before it, the
  version is put into the first bytes of every 4 KiB of each tensor, so that no two files are equal.
- read: file, verify, readers, key_hex, lazy, device, framework, mapped, touch, checksums. Puts each tensor into newly
  allocated memory on the device ("cpu" or "cuda"), as an array or tensor of the framework ("numpy" or "torch", or what
  suits the implementation). With mapped, tensors may be views of a mapping of the file. With touch, every byte is read
  once more, in one thread, before the clock stops: otherwise a mapping would cost nothing. A GPU has its context before
  the clock starts, and the answer has the peak of the host memory that was taken beyond what the process kept, as far
  as the kernel counts it as the process's. With checksums, the answer has the CRC32 of each tensor.
- open: file, key_hex. Reads the index, and whatever else the implementation reads at that point.
- quit.

The answer is {"error": TEXT} if a request cannot be done exactly as asked, so that only equal work is compared.

The clock runs around the operation alone. Before it, the previous result is freed and its memory returned to the
system, so that each read pays for new pages, and the file that a write replaces is removed. CPU time is that of all
threads.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import resource
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    import numpy

Json = dict[str, Any]

# Bytes per element of a dtype, by the names of torch.
ELEMENT_BYTES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
    "complex64": 8,
}

MESSAGE_CHARACTERS_MAX = 400
VERSIONED_BYTES = 4096
SEEN_KILOBYTES_MIN = 4096
PR_SET_THP_DISABLE = 41
HUGE_PAGES = "glibc.malloc.hugetlb=1"


class Refused(Exception):
    """The implementation cannot do exactly what is asked."""


@dataclass(frozen=True)
class Tensor:
    """A tensor to write: dtype, shape, and its own memory."""

    name: str
    dtype: str
    shape: list[int]
    data: numpy.ndarray  # of bytes


@dataclass(frozen=True)
class Write:
    """A request to write what was prepared. REQUIRES: hashes is "none", "crc32", "sha256" or "both"."""

    file: str
    hashes: str = "none"
    key_hex: str | None = None
    sync: bool = False
    version: int | None = None


@dataclass(frozen=True)
class Read:
    """A request to read a whole file. Without a number of readers the implementation chooses."""

    file: str
    verify: bool = False
    readers: int | None = None
    key_hex: str | None = None
    lazy: bool = False
    device: str = "cpu"
    framework: str | None = None
    mapped: bool = False
    touch: bool = False
    checksums: bool = False


@dataclass(frozen=True)
class Open:
    """A request to open a file without reading data."""

    file: str
    key_hex: str | None = None


@dataclass(frozen=True)
class Content:
    """The data that a read returned."""

    bytes: int
    tensors: int
    # The method used, if it depends on the file.
    detail: str | None = None


class Peer(Protocol):
    """An implementation. The functions that it returns are timed; making them is not."""

    def describe(self) -> Json:
        """Returns the first line."""

    def warm_up_requests(self, file: str) -> list[Json]:
        """Returns one write and one read of each supported kind, on tensors of a few bytes."""

    def prepare(self, tensors: list[Tensor]) -> None:
        """Keeps the tensors for later writes."""

    def writer(self, request: Write) -> Callable[[], None]:
        """Returns a function that writes and closes the file."""

    def reader(self, request: Read) -> Callable[[], Any]:
        """Returns a function whose result owns every tensor."""

    def opener(self, request: Open) -> Callable[[], Any]:
        """Returns a function whose result keeps the file open."""

    def content(self, result: Any) -> Content:
        """Describes the result of a read; not timed."""

    def tensors(self, result: Any) -> Mapping[str, Any]:
        """Returns the tensors of a read by their names, for checksums; not timed."""

    def release(self, result: Any) -> None:
        """Releases the result of a read or an open; not timed."""


@dataclass(frozen=True)
class Timed:
    """A result and its times."""

    result: Any
    elapsed_ns: int
    cpu_ns: int
    huge_share: float | None  # of the memory that it took


def user_ns() -> int:
    """Returns the user time of this process, all threads included."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_utime * 1e9)


def cpu_ns() -> int:
    """Returns the user and system time of this process, all threads included."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return round((used.ru_utime + used.ru_stime) * 1e9)


def free_memory() -> None:
    """Collects garbage, and returns free memory to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def timed(operation: Callable[[], Any]) -> Timed:
    """Runs and times the operation, after freeing memory."""
    free_memory()
    before = anonymous_kilobytes()
    cpu_before_ns = cpu_ns()
    begin_ns = time.perf_counter_ns()
    result = operation()
    elapsed_ns = time.perf_counter_ns() - begin_ns
    cpu_used_ns = cpu_ns() - cpu_before_ns
    return Timed(result, elapsed_ns, cpu_used_ns, huge_share(before))


def anonymous_kilobytes() -> dict[str, int]:
    """Returns the anonymous memory of this process, and how much of it is in huge pages."""
    names = ("Anonymous", "AnonHugePages")
    lines = (
        line.split()
        for line in Path("/proc/self/smaps_rollup").read_text().splitlines()
    )
    return {
        words[0].rstrip(":"): int(words[1])
        for words in lines
        if words[0].rstrip(":") in names
    }


def huge_share(before: dict[str, int]) -> float | None:
    """Returns the share of huge pages in the memory that was taken since; None if that was next to nothing."""
    now = anonymous_kilobytes()
    taken = now["Anonymous"] - before["Anonymous"]
    if taken < SEEN_KILOBYTES_MIN:
        return None
    huge = now["AnonHugePages"] - before["AnonHugePages"]
    return min(1.0, max(0.0, huge / taken))


def prepare_gpu(torch: Any) -> None:
    """Creates the context of GPU 0, which takes longer than a load and is done once in a process."""
    if not torch.cuda.is_available():
        raise Refused(f"torch {torch.__version__} has no GPU here")
    torch.cuda.synchronize()


def free_gpu_memory() -> None:
    """Returns what the allocator of torch keeps to the GPU."""
    gc.collect()
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()


class HostPeak:
    """The peak of this process's resident memory beyond what it had; None where the kernel does not tell."""

    def __init__(self) -> None:
        self._before = self._kilobytes("VmRSS") if self._reset() else None

    @staticmethod
    def _reset() -> bool:
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            return False
        return True

    @staticmethod
    def _kilobytes(name: str) -> int:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise RuntimeError(f"/proc/self/status has no {name}")

    def bytes(self) -> int | None:
        if self._before is None:
            return None
        return max(0, self._kilobytes("VmHWM") - self._before) * 1024


def tensor_bytes(tensor: Any) -> int:
    """Returns the size of an array of numpy or a tensor of torch."""
    if hasattr(tensor, "element_size"):
        return int(tensor.numel() * tensor.element_size())
    return int(tensor.nbytes)


def checksums(tensors: Mapping[str, Any]) -> dict[str, int]:
    """Returns the CRC32 of the bytes of each array of numpy or tensor of torch, wherever it is."""
    import numpy

    crcs = {}
    for name, tensor in tensors.items():
        if hasattr(tensor, "element_size"):
            import torch

            flat = tensor.detach().cpu().contiguous().reshape(-1)
            data = flat.view(torch.uint8).numpy()
        else:
            data = numpy.ascontiguousarray(tensor).reshape(-1).view(numpy.uint8)
        crcs[name] = zlib.crc32(data)
    return crcs


def touch(tensors: Iterable[Any]) -> int:
    """Reads every byte of contiguous tensors of numpy or torch in host memory, and returns their sum in words."""
    import numpy

    total = 0
    for tensor in tensors:
        if tensor_bytes(tensor) == 0:
            continue
        flat = tensor.reshape(-1)
        if hasattr(tensor, "element_size"):
            import torch

            flat = flat.view(torch.uint8).numpy()
        data = flat.view(numpy.uint8)
        # numpy copies words that are not aligned, which is slower.
        begin = min(-data.ctypes.data % 8, len(data))
        end = begin + (len(data) - begin) // 8 * 8
        total += int(numpy.add.reduce(data[begin:end].view(numpy.uint64)))
        for edge in (data[:begin], data[end:]):
            total += int(numpy.add.reduce(edge, dtype=numpy.uint64))
    return total % 2**64


def timed_sync_ns(file: str) -> int:
    """Returns the duration of an fsync."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        begin_ns = time.perf_counter_ns()
        os.fsync(descriptor)
        return time.perf_counter_ns() - begin_ns
    finally:
        os.close(descriptor)


def load_tensors(spec: str) -> list[Tensor]:
    """The tensors of a specification: {"data": FILE, "tensors": [{"name", "dtype", "shape", "offset", "length"}]}.

    Their data may be adjacent or apart in the raw file. A relative name counts from the driver's working directory.
    """
    document = json.loads(Path(spec).read_bytes())
    with open(document["data"], "rb") as data:
        return [load_tensor(entry, data) for entry in document["tensors"]]


def load_tensor(entry: Json, data: Any) -> Tensor:
    """Reads one tensor from the raw file."""
    # Imported here, so that a missing numpy becomes a reply.
    import numpy

    name, dtype, shape, length = (
        entry[member] for member in ("name", "dtype", "shape", "length")
    )
    if dtype not in ELEMENT_BYTES:
        raise Refused(f"{name}: no dtype {dtype}")
    if math.prod(shape) * ELEMENT_BYTES[dtype] != length:
        raise Refused(f"{name}: {length} bytes are not those of {dtype} {shape}")
    # numpy requests huge pages for large arrays, which makes the source of a write as fast as possible.
    content = numpy.empty(length, numpy.uint8)
    data.seek(entry["offset"])
    if data.readinto(content) != length:
        raise Refused(f"{name}: the data file is too short")
    return Tensor(name, dtype, shape, content)


def make_version(tensors: list[Tensor], version: int) -> None:
    """Puts the version into the tensors, as TensorContent::make_version of bench/subjects does."""
    for tensor in tensors:
        data = tensor.data
        whole = len(data) // VERSIONED_BYTES * VERSIONED_BYTES
        number = bytearray(version.to_bytes(8, "little"))
        data[:whole].reshape(-1, VERSIONED_BYTES)[:, :8] = number
        if len(data) - whole >= 8:
            data[whole : whole + 8] = number


class Driver:
    """Answers requests for one implementation."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._prepared = False
        self._tensors: list[Tensor] = []
        self._huge_share: float | None = None

    def answer(self, request: Json) -> Json:
        """Returns the reply to one request. Errors are replies, so that the process continues.

        The user time is that of all the work for the request: what watches the machine can subtract it.
        """
        user_before_ns = user_ns()
        reply = self._reply(request)
        if "error" in reply:
            return reply
        return reply | {"user_ns": user_ns() - user_before_ns}

    def _reply(self, request: Json) -> Json:
        try:
            if not isinstance(request, dict):
                raise Refused("a request is an object")
            members = dict(request)
            match members.pop("op", None):
                case "prepare":
                    return self._prepare(**members)
                case "write":
                    return self._write(Write(**members))
                case "read":
                    return self._read(Read(**members))
                case "open":
                    return self._open(Open(**members))
                case other:
                    raise Refused(f"no operation {other!r}")
        except Exception as error:  # of the implementation, whatever it is
            return {"error": error_text(error)}

    def _prepare(self, spec: str) -> Json:
        # Frees the previous tensors first, so that memory never holds two sets.
        self._prepared = False
        self._tensors = []
        self._peer.prepare([])
        before = anonymous_kilobytes()
        tensors = load_tensors(spec)
        self._peer.prepare(tensors)
        self._huge_share = huge_share(before)
        self._tensors = tensors
        self._prepared = True
        leave_to_stay()
        return {"ok": True, "bytes": sum(tensor.data.nbytes for tensor in tensors)}

    def _write(self, request: Write) -> Json:
        if not self._prepared:
            raise Refused("nothing is prepared that could be written")
        file = Path(request.file)
        if request.version is not None:
            make_version(self._tensors, request.version)
        operation = self._peer.writer(request)
        file.unlink(missing_ok=True)
        try:
            done = timed(operation)
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        return {
            "elapsed_ns": done.elapsed_ns,
            "sync_ns": timed_sync_ns(request.file) if request.sync else None,
            "cpu_ns": done.cpu_ns,
            "huge_share": self._huge_share,
        }

    def _read(self, request: Read) -> Json:
        operation = self._peer.reader(request)
        if request.device == "cpu":
            return self._read_by(operation, request, None)
        free_memory()
        try:
            return self._read_by(operation, request, HostPeak())
        finally:
            # The memory of a GPU has room for the model of one loader, not for those of all that take turns.
            free_gpu_memory()

    def _read_by(
        self, operation: Callable[[], Any], request: Read, peak: HostPeak | None
    ) -> Json:
        done = timed(operation)
        peak_bytes = peak.bytes() if peak else None
        content = self._peer.content(done.result)
        self._peer.release(done.result)
        reply: Json = {
            "elapsed_ns": done.elapsed_ns,
            "cpu_ns": done.cpu_ns,
            "bytes": content.bytes,
            "tensors": content.tensors,
            "huge_share": done.huge_share,
        }
        if peak_bytes is not None:
            reply["peak_memory_bytes"] = peak_bytes
        if request.checksums:
            reply["crc32"] = checksums(self._peer.tensors(done.result))
        return reply | ({"detail": content.detail} if content.detail else {})

    def _open(self, request: Open) -> Json:
        done = timed(self._peer.opener(request))
        self._peer.release(done.result)
        return {"elapsed_ns": done.elapsed_ns, "cpu_ns": done.cpu_ns}


def error_text(error: BaseException) -> str:
    """Describes an error on one line."""
    text = " ".join(str(error).split())
    if not isinstance(error, Refused):
        text = f"{type(error).__name__}: {text}"
    return text[:MESSAGE_CHARACTERS_MAX]


def leave_to_stay() -> None:
    """Excludes all present objects from garbage collection."""
    gc.collect()
    gc.freeze()


def memory_detail() -> str:
    """Says how the C library allocates large blocks, which affects the speed of filling new memory."""
    huge = HUGE_PAGES in os.environ.get("GLIBC_TUNABLES", "").split(":")
    return "malloc asks for huge pages" if huge else "malloc in small pages"


def warm_up(peer: Peer) -> None:
    """Runs everything once, because an implementation may load and start parts on first use."""
    with tempfile.TemporaryDirectory() as directory:
        data, spec, file = (
            Path(directory) / name for name in ("data.bin", "spec.json", "file")
        )
        data.write_bytes(bytes(8))
        tensor = {"name": "x", "dtype": "float32", "shape": [2]}
        entry = tensor | {"offset": 0, "length": 8}
        spec.write_text(json.dumps({"data": str(data), "tensors": [entry]}))
        driver = Driver(peer)
        requests = [{"op": "prepare", "spec": str(spec)}]
        for request in requests + peer.warm_up_requests(str(file)):
            reply = driver.answer(request)
            if "error" in reply:
                raise RuntimeError(f"{request['op']}: {reply['error']}")
    peer.prepare([])


def claim_stdout() -> TextIO:
    """Returns the real stdout, for replies alone. All other output, from Python or C, goes to stderr from now on."""
    replies = os.fdopen(
        os.dup(1), "w", encoding="utf-8", errors="replace", newline="\n"
    )
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return replies


def say(replies: TextIO, document: Json) -> None:
    replies.write(json.dumps(document, ensure_ascii=False) + "\n")
    replies.flush()


def choose_pages(kind: str) -> None:
    """Lets the memory of this process come in pages of that kind. The C library reads its setting at the start."""
    if kind == "small":
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_THP_DISABLE)")
        return
    settings = [
        word for word in os.environ.get("GLIBC_TUNABLES", "").split(":") if word
    ]
    if HUGE_PAGES not in settings:
        os.environ["GLIBC_TUNABLES"] = ":".join([*settings, HUGE_PAGES])
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def main(load: Callable[[], Peer]) -> int:
    """Runs a driver: load imports the implementation and returns it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", choices=("huge", "small"))
    parser.add_argument("--gpu", action="store_true")
    arguments = parser.parse_args()
    if arguments.pages:
        choose_pages(arguments.pages)
    replies = claim_stdout()
    try:
        if arguments.gpu:
            import torch

            prepare_gpu(torch)
        peer = load()
        warm_up(peer)
    except Exception as error:  # a package that is missing, or does not work
        say(replies, {"unavailable": error_text(error)})
        return 0
    leave_to_stay()
    say(replies, peer.describe())
    driver = Driver(peer)
    for line in sys.stdin.buffer:
        try:
            request = json.loads(line)
        except ValueError as error:
            say(replies, {"error": error_text(error)})
            continue
        if request == {"op": "quit"}:
            break
        say(replies, driver.answer(request))
    return 0
