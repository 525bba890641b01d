"""Does the real upstream read what tzmark writes? Every tensor of it, with hash verification?

Each valid file of the corpus is converted to every layout that tensorizer reads and that can hold it, plain and
encrypted, and tensorizer decodes the result. What it says of each tensor is held against the case's own expectation,
which neither of the two wrote, and against what "tzmark dump" and "tzmark extract" say of the converted file.

What the peer is known not to read is left out with the reason, and the peer has to refuse it in a layout that it reads;
what tzmark does not write is left out likewise. Should either stop to refuse, the reason is stale and the test fails.
"""

import argparse
import ctypes
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import tensorizer
import torch

KINDS = {0: "parameter", 1: "buffer", 2: "state_dict"}

KEY = bytes(range(32))
PASSPHRASE = "correct horse bätterỳ staple"

# The peer allocates what the shape of a meta tensor promises, and that may be more than any memory.
META_BYTES_MAX = 64 << 20
# Each extraction is a process; files with more tensors than this are compared by their hashes alone.
EXTRACTED_MAX = 8
# Deriving a key is slow by design, in the writer and in the reader, so only some files are written with a passphrase.
PASSPHRASE_FILES = 4

# What tzmark cites when it does not write an empty name.
EMPTY_NAME_RULE = "TZR-NAM-009"
# What the peer reads. Each holds all that those before it hold, and more.
LAYOUTS = ("v1", "v2", "v3", "v4", "v5-flagged-dims")

Tensor = Mapping[str, Any]


@dataclass(frozen=True)
class Secret:
    """How a file is locked: the options that tzmark takes for it, and what the peer takes."""

    name: str
    file_option: str
    encrypt_option: str
    content: bytes

    def peer(self) -> tensorizer.DecryptionParams:
        """The peer's own object for opening such a file."""
        if self.name == "key":
            return tensorizer.DecryptionParams.from_key(self.content)
        return tensorizer.DecryptionParams.from_string(self.content.decode())


def raw_key(content: bytes) -> Secret:
    return Secret("key", "--key-file", "--encrypt-key-file", content)


def passphrase(content: str) -> Secret:
    return Secret(
        "passphrase",
        "--passphrase-file",
        "--encrypt-passphrase-file",
        content.encode(),
    )


@dataclass(frozen=True)
class Target:
    """What a file is converted to."""

    layout: str
    secret: Secret | None

    def __str__(self) -> str:
        return f"{self.layout} {self.secret.name if self.secret else 'plain'}"


TARGETS = (
    Target("v1", None),
    Target("v2", None),
    Target("v3", raw_key(KEY)),
    Target("v3", passphrase(PASSPHRASE)),
    Target("v4", None),
    Target("v4", raw_key(KEY)),
    Target("v5-flagged-dims", None),
    Target("v5-flagged-dims", raw_key(KEY)),
    Target("v5-flagged-dims", passphrase(PASSPHRASE)),
)


class Mismatch(Exception):
    """The peer, tzmark and the expectation do not say the same."""


class Tzmark:
    """The command under test."""

    def __init__(self, program: str, scratch: Path) -> None:
        self._program = program
        self._scratch = scratch

    def _run(self, *arguments: str | Path) -> bytes:
        done = subprocess.run(
            [self._program, *map(str, arguments)], capture_output=True
        )
        if done.returncode != 0:
            raise Mismatch(
                f"tzmark {arguments[0]} exits {done.returncode}: {done.stderr.decode().strip()}"
            )
        return done.stdout

    def _secret_file(self, secret: Secret) -> Path:
        path = self._scratch / f"{hashlib.sha256(secret.content).hexdigest()}.secret"
        # Of a file with a passphrase, one line end at the end is not a part of it.
        end = b"\n" if secret.name == "passphrase" else b""
        path.write_bytes(secret.content + end)
        return path

    def _open_options(self, secret: Secret | None) -> list[str | Path]:
        return [secret.file_option, self._secret_file(secret)] if secret else []

    def convert(
        self, source: Path, opened_with: Secret | None, out: Path, target: Target
    ) -> None:
        options = self._open_options(opened_with)
        if target.secret:
            options += [
                target.secret.encrypt_option,
                self._secret_file(target.secret),
            ]
        self._run("convert", source, out, "--layout", target.layout, *options)

    def dump(self, path: Path, secret: Secret | None) -> dict[str, Any]:
        return json.loads(self._run("dump", path, *self._open_options(secret)))

    def extract(self, path: Path, name: str, secret: Secret | None) -> bytes:
        return self._run("extract", path, name, *self._open_options(secret))


def nominal_bytes(tensor: Tensor) -> int:
    """What the shape and the dtype promise. REQUIRES: a dtype that torch has."""
    element = torch.empty(0, dtype=getattr(torch, tensor["dtype"])).element_size()
    return math.prod(tensor["shape"]) * element


def is_written(tensor: Tensor) -> bool:
    """Whether tzmark writes this tensor."""
    return tensor["path"] != [""]


def is_opaque(tensor: Tensor) -> bool:
    return "\0" in tensor["wire_dtype"]


def peer_refuses(tensor: Tensor) -> str | None:
    """Why the peer does not read this tensor; None if it does."""
    dtype = tensor["dtype"]
    if dtype is None:
        return "a dtype that torch does not have at all"
    if not hasattr(torch, dtype):
        return f"{dtype}, which torch {torch.__version__} does not have"
    # A single byte has no order.
    if tensor["wire_dtype"].startswith(">") and not tensor["wire_dtype"].endswith("1"):
        return "big-endian data"
    if tensor["meta"] and not tensor["shape"]:
        return "a meta scalar, whose size upstream computes as a fraction"
    if is_opaque(tensor) and tensor["data_length"] == 0:
        return "an opaque dtype without data, which upstream writes and cannot read"
    if not is_opaque(tensor):
        try:
            torch.from_numpy(numpy.empty(0, tensor["wire_dtype"]))
        except TypeError:
            return f"{dtype}, which torch {torch.__version__} takes from no numpy array"
    return None


def too_large_for_peer(tensor: Tensor) -> bool:
    return tensor["meta"] and nominal_bytes(tensor) > META_BYTES_MAX


def too_long_for_peer(tensor: Tensor) -> bool:
    """Dimensions that numpy multiplies even though one of them is zero."""
    return math.prod(dimension for dimension in tensor["shape"] if dimension) >= 1 << 59


def lowest_layout(tensors: list[Tensor]) -> str:
    """The first of LAYOUTS that holds these tensors."""
    if any(dimension >> 32 for tensor in tensors for dimension in tensor["shape"]):
        return "v5-flagged-dims"
    if any(tensor["meta"] for tensor in tensors):
        return "v4"
    return "v2" if any(map(is_opaque, tensors)) else "v1"


def peer_tensors(path: Path, secret: Secret | None) -> Iterator[tuple[Tensor, bytes]]:
    """What the peer decodes, in its order, hashes verified: for each tensor what dump would say, and its bytes."""
    deserializer = tensorizer.TensorDeserializer(
        str(path),
        device="cpu",
        lazy_load=True,
        verify_hash=True,
        encryption=secret.peer() if secret else None,
    )
    with deserializer:
        for module_index, kind, name, parameter in deserializer.read_tensors():
            data = parameter.detach()
            assert data.is_contiguous()
            size = data.numel() * data.element_size()
            content = ctypes.string_at(data.data_ptr(), size) if size else b""
            yield {
                "path": [name] if isinstance(name, str) else list(name),
                "kind": KINDS[int(kind)],
                "module_index": module_index,
                "dtype": str(data.dtype).removeprefix("torch."),
                "shape": list(data.shape),
            }, content


def require_equal(what: str, ours: object, theirs: object) -> None:
    if ours != theirs:
        raise Mismatch(f"{what}: {ours!r} is not {theirs!r}")


def compare(
    tzmark: Tzmark, path: Path, secret: Secret | None, expected: list[Tensor]
) -> int:
    """Holds peer, dump and extract against the expectation; returns how many tensors that were."""
    dumped = tzmark.dump(path, secret)["tensors"]
    decoded = list(peer_tensors(path, secret))
    require_equal("tensors in dump", len(dumped), len(expected))
    require_equal("tensors that the peer sees", len(decoded), len(expected))
    for want, dump, (peer, content) in zip(expected, dumped, decoded):
        where = f"tensor {want['path']}"
        for field in ("path", "kind", "module_index", "dtype", "shape"):
            require_equal(f"{where}: {field} in dump", dump[field], want[field])
            require_equal(f"{where}: {field} of the peer", peer[field], want[field])
        for field in ("meta", "data_length", "sha256"):
            require_equal(f"{where}: {field} in dump", dump[field], want[field])
        if want["meta"]:
            require_equal(f"{where}: peer's zeros", content, bytes(nominal_bytes(want)))
        else:
            digest = hashlib.sha256(content).hexdigest()
            require_equal(f"{where}: sha256 of the peer", digest, want["sha256"])
        # A meta tensor has no bytes to extract.
        if len(expected) <= EXTRACTED_MAX and not want["meta"]:
            extracted = tzmark.extract(path, extract_name(want["path"]), secret)
            require_equal(f"{where}: extract", extracted, content)
    return len(expected)


def extract_name(path: list[str | int]) -> str:
    """How a tensor's path is written on the command line, where no argument can hold a NUL byte."""
    if len(path) == 1 and isinstance(path[0], str) and "\0" not in path[0]:
        return path[0]
    return json.dumps(path, separators=(",", ":"))


def require_refusal(path: Path, secret: Secret | None) -> None:
    """The peer must not read this file."""
    try:
        for _ in peer_tensors(path, secret):
            pass
    except Exception:  # upstream's errors are of every class there is
        return
    raise Mismatch("the peer reads it, though it is known not to")


def require_verification(
    tzmark: Tzmark, source: Path, out: Path, target: Target
) -> None:
    """A changed bit of data must stop the peer: else its verification would verify nothing."""
    tzmark.convert(source, None, out, target)
    content = bytearray(out.read_bytes())
    # The last eight bytes are the terminator; before them lies the last tensor's data.
    content[-9] ^= 1
    out.write_bytes(content)
    require_refusal(out, target.secret)


@dataclass
class Tally:
    """What came of it, for the table at the end."""

    converted: Counter[str] = field(default_factory=Counter)
    read: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    not_written: Counter[str] = field(default_factory=Counter)
    not_tried: Counter[str] = field(default_factory=Counter)
    tensors: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """A valid file of the corpus, how it opens, and what is in it."""

    name: str
    path: Path
    layout: str
    secret: Secret | None
    tensors: list[Tensor]


def read_cases(corpus: Path) -> Iterator[Case]:
    """The valid files of the corpus."""
    for case in json.loads((corpus / "manifest.json").read_text())["cases"]:
        # Of 65,537 tensors each of the many conversions takes seconds, and shows nothing that 257 do not.
        if case["verdict"] != "valid" or case["id"] == "large-tensors-65537":
            continue
        secret = None
        if "key_hex" in case:
            secret = raw_key(bytes.fromhex(case["key_hex"]))
        elif "passphrase" in case:
            secret = passphrase(case["passphrase"])
        expected = json.loads((corpus / case["expected"]).read_text())
        path = corpus / case["path"]
        yield Case(case["id"], path, case["layout"], secret, expected["tensors"])


def targets_for(tensors: list[Tensor], tally: Tally) -> Iterator[Target]:
    """Everything that these tensors can be converted to; with a passphrase only until enough files have one."""
    lowest = LAYOUTS.index(lowest_layout(tensors))
    for target in TARGETS:
        slow = target.secret is not None and target.secret.name == "passphrase"
        if LAYOUTS.index(target.layout) < lowest or (
            slow and tally.converted[str(target)] >= PASSPHRASE_FILES
        ):
            continue
        yield target


def check_refusal(tzmark: Tzmark, case: Case, out: Path) -> None:
    """The peer must refuse the tensors, in a layout that it reads: in others it would refuse any tensors."""
    if case.layout in LAYOUTS:
        require_refusal(case.path, case.secret)
    lowest = Target(lowest_layout(case.tensors), None)
    tzmark.convert(case.path, case.secret, out, lowest)
    require_refusal(out, None)


def check_empty_name(tzmark: Tzmark, case: Case, out: Path) -> None:
    """tzmark must not write the name; the peer must refuse it where the case is of a layout that the peer reads."""
    if case.layout in LAYOUTS:
        require_refusal(case.path, case.secret)
    try:
        lowest = Target(lowest_layout(case.tensors), None)
        tzmark.convert(case.path, case.secret, out, lowest)
    except Mismatch as error:
        if EMPTY_NAME_RULE in str(error):
            return
        raise
    raise Mismatch("tzmark writes it, though it is known not to")


def check_left_out(tzmark: Tzmark, case: Case, out: Path, tally: Tally) -> bool:
    """Has refused what is known to be. Returns whether that is so of this case; failures go into the tally."""
    reason = next(filter(None, map(peer_refuses, case.tensors)), None)
    try:
        if not all(map(is_written, case.tensors)):
            tally.not_written["an empty name"] += 1
            check_empty_name(tzmark, case, out)
        elif reason is not None:
            tally.refused[reason] += 1
            check_refusal(tzmark, case, out)
        else:
            return False
    except Mismatch as error:
        tally.failures.append(f"{case.name}: {error}")
    return True


def check_case(tzmark: Tzmark, case: Case, out: Path, tally: Tally) -> None:
    """Converts one file to all it can be and compares, or has it refused. Failures go into the tally."""
    if check_left_out(tzmark, case, out, tally):
        return
    if any(map(too_long_for_peer, case.tensors)):
        tally.not_tried["dimensions too large for numpy"] += 1
        return
    if any(map(too_large_for_peer, case.tensors)):
        tally.not_tried["a meta tensor too large for the peer, which allocates it"] += 1
        return
    failures = len(tally.failures)
    for target in targets_for(case.tensors, tally):
        try:
            tzmark.convert(case.path, case.secret, out, target)
            tally.tensors += compare(tzmark, out, target.secret, case.tensors)
            tally.converted[str(target)] += 1
        except Exception as error:  # whatever the peer raises is its verdict
            problem = f"{type(error).__name__}: {error}"
            tally.failures.append(f"{case.name} as {target}: {problem}")
    tally.read += len(tally.failures) == failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tzmark", required=True, help="the command under test")
    parser.add_argument("--corpus", required=True, type=Path, help="unpacked corpus")
    arguments = parser.parse_args()

    tally = Tally()
    cases = list(read_cases(arguments.corpus))
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        out = scratch / "ours.tensors"
        tzmark = Tzmark(arguments.tzmark, scratch)
        # K/N: each Nth of them from the Kth on, for runs after each commit.
        first, parts = map(int, os.environ.get("TZMARK_PART", "0/1").split("/"))
        for case in cases[first::parts]:
            check_case(tzmark, case, out, tally)
        # A small plain file serves to show that the peer really verifies.
        (plain,) = [case for case in cases if case.name == "malformed-base-v1"]
        for target in TARGETS:
            try:
                require_verification(tzmark, plain.path, out, target)
            except Mismatch as error:
                tally.failures.append(f"a changed bit as {target}: {error}")

    tally.failures += [
        f"no file was compared as {target}"
        for target in TARGETS
        if not tally.converted[str(target)]
    ]
    print(f"tensorizer {tensorizer.__version__} over torch {torch.__version__}")
    asked = len(cases[first::parts])
    print(f"{asked:6} of {len(cases)} valid files of the corpus, of these")
    print(f"{tally.read:6} read in every layout that holds them, hashes verified:")
    for target in TARGETS:
        print(f"{tally.converted[str(target)]:12} as {target}")
    print(f"{tally.tensors:12} tensors in all of these")
    for what, reasons in (
        ("refused by the peer", tally.refused),
        ("not written by tzmark", tally.not_written),
        ("not tried", tally.not_tried),
    ):
        print(f"{reasons.total():6} {what}:")
        for reason, count in reasons.most_common():
            print(f"{count:12} {reason}")
    for failure in tally.failures:
        print(f"FAILED {failure}")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
