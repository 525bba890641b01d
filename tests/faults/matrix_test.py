#!/usr/bin/env python3
"""Lets each call to the system fail, in every command and on every I/O path, and counts what becomes of it.

A fault is survived with the right result, or it is one clear error with the exit status of the environment. Nothing
unfinished is left: no part of a file, no temporary file, no process that hangs. An in-place edit that cannot undo
itself leaves its journal, and `edit --recover` then restores the old or the new content. A file that was there keeps
its mode.

Not every fault may be survived: MUST_FAIL lists those where success would be a lie, such as a write or a sync that
failed.

Without --full, it takes a sample of the faults, which --seed chooses. --table prints the counts of docs/robustness.md,
and --by-call what became of each function's errors.
"""

from __future__ import annotations

import argparse
import errno
import itertools
import os
import random
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import faulty
from faulty import ENVIRONMENT, FINE, UNAVAILABLE, Ended, Wrong

# Calls that look for the journal of an interrupted edit.
HALF_EDITED = ("lstat", "openat", "readlinkat")
# What else a failed run may leave: the journal of an in-place edit.
JOURNAL = ".tzmark-intent"
# What a save says about other checkpoints that it leaves alone or cannot read.
RETENTION = re.compile("delete|retention|may count as newer|^passed over ", re.M)
# Of what a command changes; not that of a new file.
OLD_MODE = 0o640
# Faults without --full: 30 s on two cores.
SAMPLE = 700

READ = ("EIO", "EINTR", "ESTALE", "short")
WRITE = ("ENOSPC", "EIO", "EINTR", "EDQUOT", "short")
NAME = ("ENOSPC", "EIO", "ESTALE")
ASK = ("EIO", "ESTALE", "ENOMEM")
RING = ("EINTR", "EAGAIN", "ENOMEM")
# The errors of each function, as the manual lists them. After "+", every later call fails too.
FAULTS: dict[str, tuple[str, ...]] = {
    "open": ("EMFILE", "EMFILE+", "EIO", "ENOMEM", "ESTALE", "EINTR"),
    "openat": ("EMFILE", "EMFILE+", "EIO", "ENOSPC", "ESTALE", "EINTR"),
    "close": ("EIO", "EINTR"),
    "read": READ,
    "pread": (*READ, "EAGAIN", "EIO+"),
    "preadv2": (*READ, "EAGAIN", "EIO+"),
    "fread": (*READ, "EAGAIN", "EIO+"),
    "write": WRITE,
    "pwrite": (*WRITE, "EAGAIN", "ENOSPC+"),
    "pwritev2": (*WRITE, "EAGAIN", "ENOSPC+"),
    "fwrite": (*WRITE, "EAGAIN", "ENOSPC+"),
    "fflush": ("ENOSPC", "EIO"),
    "fseeko": ("EIO",),
    "completion": ("EIO", "ENOSPC", "EINTR", "EAGAIN", "ESTALE", "short", "EIO+"),
    "fsync": ("EIO", "ENOSPC", "EINTR", "EIO+"),
    "sync_file_range": ("EIO", "ENOSPC", "ENOMEM"),
    "fallocate": ("ENOSPC", "EIO", "EINTR", "EOPNOTSUPP"),
    "ftruncate": ("ENOSPC", "EIO", "EINTR"),
    "fstat": ASK,
    "fstatat": ASK,
    "lstat": ASK,
    "statx": (*ASK, "EPERM+"),
    "faccessat": ASK,
    "readlinkat": ASK,
    "lseek": ("EIO", "ESTALE"),
    "mmap": ("ENOMEM", "EMFILE"),
    "madvise": ("EFAULT", "EINTR", "EAGAIN", "ENOMEM", "EFAULT+"),
    "posix_memalign": ("ENOMEM",),
    "renameat": NAME,
    "renameat2": NAME,
    "linkat": NAME,
    "unlinkat": ("EIO", "ESTALE"),
    "mkdirat": NAME,
    "fchmod": ("EIO", "EPERM"),
    "fchown": ("EIO", "EPERM"),
    "fgetxattr": ("EIO",),
    "fsetxattr": ("EIO", "ENOSPC", "EPERM"),
    "fremovexattr": ("EIO", "EPERM"),
    "flock": ("EIO", "EINTR", "ENOLCK"),
    "fcntl": ("EMFILE", "EIO"),
    "fdopendir": ("ENOMEM",),
    "readdir": ("EIO",),
    "pthread_create": ("EAGAIN", "EAGAIN+"),
    "io_uring_queue_init_params": ("ENOMEM", "EMFILE", "ENOMEM+"),
    "io_uring_submit": RING,
    "io_uring_submit_and_wait": RING,
    "io_uring_register_buffers": ("ENOMEM",),
    "io_uring_register_files": ("ENOMEM", "EMFILE"),
}
# Called after other failures alone, or for streams, files of other users and access control lists.
UNCALLED = {
    "write",
    "ftruncate",
    "faccessat",
    "fchown",
    "fsetxattr",
    "fremovexattr",
}
# A command that succeeds after one of these has lost data, or has shown what it did not read.
DATA_LOST = ("EIO", "ENOSPC", "EDQUOT", "ESTALE")
MUST_FAIL = {
    (call, error + after)
    for call in (
        *("pread", "preadv2", "fread", "completion"),
        *("pwrite", "pwritev2", "fwrite", "fsync", "sync_file_range", "ftruncate"),
    )
    for error in DATA_LOST
    for after in ("", "+")
} | {("madvise", "EFAULT"), ("madvise", "EFAULT+")}


@dataclass(frozen=True)
class Command:
    """A command, run in a directory with a copy of the models."""

    name: str
    words: tuple[str, ...]
    output: str = ""  # the file or directory that appears, or stays away
    changes: str = ""  # the file that it changes in place
    stdin: str = ""
    is_random: bool = False  # each run writes other bytes
    checks: tuple[str, ...] = ()  # a command that prints the same of each right output
    keeps: tuple[str, ...] = ()  # a command that succeeds after it, whatever happened
    copies: str = ""  # a directory that it adds to
    has_paths: bool = True


@dataclass(frozen=True)
class Case:
    command: Command
    io: str
    call: str
    at: int
    error: str

    def may_succeed(self) -> bool:
        """Whether nothing is lost by it."""
        # The names of checkpoints tell what the file "latest" does.
        is_hint = self.command.name.startswith("checkpoint") and self.call == "pread"
        hint_at = 2 if self.command.copies else 1
        return (self.call, self.error) not in MUST_FAIL or (
            is_hint and self.at == hint_at
        )

    def __str__(self) -> str:
        return f"{self.command.name} --io {self.io}: {self.call} {self.at} {self.error}"


KEY = ("--key-file", "key")
COMMANDS = (
    Command("verify", ("verify", "model.tensors")),
    Command("verify, encrypted", ("verify", "sealed.tensors", *KEY)),
    Command("verify, safetensors", ("verify", "model.safetensors")),
    Command("dump", ("dump", "model.tensors")),
    Command("inspect", ("inspect", "model.tensors"), has_paths=False),
    Command("extract", ("extract", "model.tensors", "a", "-o", "out"), output="out"),
    Command(
        "convert",
        ("convert", "model.tensors", "out", "--layout", "v5-segments"),
        output="out",
    ),
    Command(
        "convert over a file",
        ("convert", "model.tensors", "old.tensors"),
        changes="old.tensors",
        has_paths=False,
    ),
    Command(
        "convert, encrypting",
        ("convert", "model.tensors", "out", "--encrypt-key-file", "key"),
        output="out",
        is_random=True,
        checks=("dump", "out", *KEY),
    ),
    Command(
        "convert, decrypting",
        ("convert", "sealed.tensors", "out", *KEY),
        output="out",
        has_paths=False,
    ),
    Command(
        "convert --split",
        ("convert", "model.tensors", "out", "--layout", "v5-segments", "--split"),
        output="out",
        is_random=True,
        checks=("dump", "out", "--data-file", "out.data"),
        has_paths=False,
    ),
    Command(
        "convert to safetensors",
        ("convert", "model.tensors", "out.safetensors"),
        output="out.safetensors",
        has_paths=False,
    ),
    Command(
        "convert from a pipe",
        ("convert", "-", "out"),
        output="out",
        stdin="model.tensors",
        has_paths=False,
    ),
    Command(
        "convert to a pipe", ("convert", "model.safetensors", "-"), has_paths=False
    ),
    Command(
        "append",
        ("append", "segments.tensors", "--raw", "more", "uint8", "9000", "raw"),
        changes="segments.tensors",
    ),
    Command(
        "edit",
        ("edit", "segments.tensors", "--rename", "b", "z", "--drop", "c"),
        changes="segments.tensors",
    ),
    Command("checkpoint list", ("checkpoint", "list", "run"), has_paths=False),
    Command("checkpoint verify", ("checkpoint", "verify", "run"), has_paths=False),
    Command(
        "checkpoint simulate",
        (
            *("checkpoint", "simulate", "out", "--steps", "1", "--interval", "1"),
            *("--state-mib", "1", "--step-ms", "0"),
        ),
        output="out",
        is_random=True,
        checks=("checkpoint", "verify", "out"),
        has_paths=False,
    ),
    Command(
        "checkpoint simulate, again",
        (
            *("checkpoint", "simulate", "run", "--steps", "2", "--interval", "1"),
            *("--state-mib", "1", "--step-ms", "0", "--keep-latest", "1"),
        ),
        copies="run",
        is_random=True,
        checks=("checkpoint", "verify", "run"),
        keeps=("checkpoint", "verify", "run"),
        has_paths=False,
    ),
)


def words_of(command: Command, io: str) -> list[str]:
    return [*command.words, *(("--io", io) if command.has_paths else ())]


class Models:
    """The files that the commands read, made once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        data = random.Random(1).randbytes(280_000)
        content = faulty.safetensors(
            ("a", "F32", (70_000,), data),
            ("b", "U8", (8,), bytes(range(8))),
            ("c", "F32", (3, 5), data[:60]),
        )
        (directory / "model.safetensors").write_bytes(content)
        (directory / "raw").write_bytes(data[:9_000])
        (directory / "key").write_bytes(b"k" * 32)
        (directory / "key").chmod(0o600)
        sealed = ("sealed.tensors", "--encrypt-key-file", "key")
        for words in (
            ("convert", "model.safetensors", "model.tensors"),
            ("convert", "model.safetensors", "old.tensors", "--layout", "v1"),
            ("convert", "model.safetensors", *sealed),
            (
                *("convert", "model.safetensors", "segments.tensors"),
                *("--layout", "v5-segments"),
            ),
            (
                *("checkpoint", "simulate", "run", "--steps", "1", "--interval", "1"),
                *("--state-mib", "1", "--step-ms", "0"),
            ),
        ):
            done = faulty.run(words, directory)
            if done.status != FINE:
                raise Wrong(f"{words}: {done.errors}")

    def copy_to(self, where: Path, command: Command) -> None:
        """Makes the directory of a run, whose files are those that it only reads."""
        faulty.remake(where)
        for entry in self.directory.iterdir():
            if entry.name == command.changes:
                (where / entry.name).write_bytes(entry.read_bytes())
                (where / entry.name).chmod(OLD_MODE)
            elif entry.name == command.copies:
                faulty.shutil.copytree(entry, where / entry.name)
            else:
                (where / entry.name).symlink_to(entry)


class Baseline:
    """What a command does without faults, and which calls it makes."""

    def __init__(
        self, models: Models, command: Command, io: str, place: Path, library: Path
    ) -> None:
        models.copy_to(place, command)
        self.before = faulty.entries(place)
        counts = place.parent / f"{place.name}-counts"
        self.ended = faulty.run(
            words_of(command, io),
            place,
            {"LD_PRELOAD": str(library), "TZMARK_FAULT_COUNTS": str(counts)},
            place / command.stdin if command.stdin else None,
        )
        if self.ended.status != FINE or self.ended.why_not_clean():
            raise Wrong(f"{command.name} --io {io} without a fault: {self.ended}")
        self.after = faulty.entries(place)
        self.content = content_of(place, command)
        self.mode = mode_of(place, command)
        self.checked = (
            faulty.run(command.checks, place).output if command.checks else b""
        )
        self.old = (
            (models.directory / command.changes).read_bytes()
            if command.changes
            else b""
        )
        lines = counts.read_text().splitlines()
        self.calls = {
            name: int(count) for name, count in (line.split() for line in lines)
        }
        if not self.calls.keys() & {"open", "openat"}:
            raise Wrong(f"{command.name}: no call is counted")


def content_of(place: Path, command: Command) -> bytes:
    """The file that a command writes or changes; of a directory, the names."""
    path = place / (command.output or command.changes)
    if not (command.output or command.changes) or not path.exists():
        return b""
    return (
        b"\n".join(sorted(os.fsencode(name) for name in os.listdir(path)))
        if path.is_dir()
        else path.read_bytes()
    )


def mode_of(place: Path, command: Command) -> int | None:
    """The mode of what a command writes or changes."""
    path = place / (command.output or command.changes)
    is_there = (command.output or command.changes) and path.exists()
    return stat.S_IMODE(path.stat().st_mode) if is_there else None


def cases_of(command: Command, io: str, calls: dict[str, int]) -> Iterator[Case]:
    for call, count in calls.items():
        if call not in FAULTS:
            raise Wrong(f"{call} has no row in FAULTS")
        for at in range(1, count + 1):
            for error in FAULTS[call]:
                yield Case(command, io, call, at, error)


def judge(
    case: Case, baseline: Baseline, place: Path, ended: Ended, is_met: bool
) -> str:
    """Returns "survived" or "one error"; raises Wrong for anything else."""
    command = case.command
    problem = ended.why_not_clean()
    if problem:
        raise Wrong(problem)
    left = faulty.entries(place)
    if command.keeps and faulty.run(command.keeps, place).status != FINE:
        raise Wrong(f"status {ended.status}, and {' '.join(command.keeps)} fails")
    if command.changes:
        if any(name.endswith(JOURNAL) for name in faulty.entries(place)):
            recovered = faulty.run(("edit", "--recover", command.changes), place)
            if recovered.status != FINE:
                raise Wrong(f"recovery: {recovered.errors}")
            left = faulty.entries(place)
        content = (place / command.changes).read_bytes()
        expected = (
            [baseline.content]
            if ended.status == FINE
            else [baseline.old, baseline.content]
        )
        if content not in expected and not is_same_model(place, command, expected):
            raise Wrong(
                f"neither the old nor the new content, with status {ended.status}"
            )
        require_mode(case, mode_of(place, command), OLD_MODE)
    if ended.status == FINE:
        # A list says which checkpoint it cannot read, and which line is missing; retention, what it leaves alone.
        is_told = command.name == "checkpoint list" and (
            bool(ended.errors) or b"  unreadable: " in ended.output
        )
        is_told |= bool(command.copies) and bool(RETENTION.search(ended.errors))
        is_lock = case.call == "pwrite" and case.at == 1
        is_told |= is_lock and "cannot find out whether another process" in ended.errors
        if is_met and not case.may_succeed() and not is_told:
            raise Wrong("succeeded, and has lost or not read something")
        is_same = ended.output == baseline.ended.output
        if not is_same and not command.is_random and not is_told:
            raise Wrong("succeeded, and printed something else")
        if not baseline.after <= left | {"tmp"}:
            raise Wrong(f"succeeded without {baseline.after - left}")
        if (
            command.output
            and not command.is_random
            and content_of(place, command) != baseline.content
        ):
            raise Wrong("succeeded, and wrote something else")
        if command.checks and not is_accepted(command, baseline, place):
            raise Wrong(f"succeeded, and {command.checks[0]} refuses the result")
        require_mode(case, mode_of(place, command), baseline.mode)
        if not left <= baseline.after | may_stay(case, left, ended):
            raise Wrong(f"left {left - baseline.after}")
        return "survived"
    if ended.status not in (ENVIRONMENT, UNAVAILABLE):
        raise Wrong(f"status {ended.status}: {ended.errors}")
    if command.name.startswith("checkpoint simulate") and case.error == "EMFILE+":
        # Without descriptors it cannot list what it has made; the next save removes that.
        again = faulty.run(words_of(command, case.io), place)
        stays = [name for name in faulty.entries(place) if ".tmp-" in name]
        if again.status != FINE or stays:
            raise Wrong(f"the next save: status {again.status}, left {stays}")
        return "one error"
    # A name that is complete, but not durable, may be there.
    extra = left - baseline.before - may_stay(case, left, ended)
    if (place / "out").is_dir() and not os.listdir(place / "out"):
        extra.discard("out")  # of the checkpoints, made before the first of them
    if extra and not (
        extra <= baseline.after and content_of(place, command) == baseline.content
    ):
        if not (command.checks and is_accepted(command, baseline, place)):
            raise Wrong(f"failed, and left {extra}: {ended.errors}")
    return "one error"


def require_mode(case: Case, mode: int | None, expected: int | None) -> None:
    """That of a file system that refuses to change modes may be narrower."""
    refused = case.call == "fchmod" and case.error == "EPERM"
    if mode != expected and not (refused and mode & ~expected == 0):
        raise Wrong(f"the mode is {mode:o}, and was {expected:o}")


def is_accepted(command: Command, baseline: Baseline, place: Path) -> bool:
    checked = faulty.run(command.checks, place)
    return checked.status == FINE and checked.output == baseline.checked


def may_stay(case: Case, left: set[str], ended: Ended) -> set[str]:
    """What a run may leave: what it failed to remove, locks that it cannot prove to be its own, and what it tells."""
    temporary = {name for name in left if ".tmp-" in name}
    stay = {name for name in left if name.endswith((".tzmark-lock", ".tzmark-writer"))}
    if "stay as NAME.tmp-" in ended.errors or case.call == "unlinkat":
        stay |= temporary
    if case.call == "unlinkat":
        stay |= {name for name in left if name.endswith(JOURNAL)}
    if case.command.copies and RETENTION.search(ended.errors):
        stay |= {name for name in left if name.startswith(case.command.copies)}
    return stay


def is_same_model(place: Path, command: Command, expected: list[bytes]) -> bool:
    """Whether a file that was changed in place has the tensors of one of the expected files."""
    dumps = []
    for number, content in enumerate(
        [(place / command.changes).read_bytes(), *expected]
    ):
        file = place / "tmp" / f"dump-{number}"
        file.write_bytes(content)
        dumps.append(faulty.run(("dump", file), place))
        file.unlink()
    return dumps[0].status == FINE and any(
        dumps[0].output == other.output for other in dumps[1:]
    )


class Matrix:
    def __init__(self, scratch: Path, library: Path) -> None:
        self.scratch, self.library = scratch, library
        self.models = Models(scratch / "models")
        self.baselines: dict[tuple[str, str], Baseline] = {}
        self.counts: dict[tuple[str, str], Counter[str]] = {}
        self.by_call: dict[tuple[str, str], Counter[str]] = {}
        self.wrong: list[str] = []
        self.half_edited: Counter[str] = Counter()

    def cases(self) -> list[Case]:
        paths = faulty.io_paths()
        found: list[Case] = []
        for command in COMMANDS:
            for io in paths if command.has_paths else ["auto"]:
                baseline = Baseline(
                    self.models, command, io, self.scratch / "baseline", self.library
                )
                self.baselines[command.name, io] = baseline
                self.counts[command.name, io] = Counter()
                found += cases_of(command, io, baseline.calls)
        return found

    def environment_of(
        self, call: str, at: int, error: str, met: Path
    ) -> dict[str, str]:
        once = error.rstrip("+")
        environment = {
            "LD_PRELOAD": str(self.library),
            "TZMARK_FAULT_CALL": call,
            "TZMARK_FAULT_AT": str(at),
            "TZMARK_FAULT_WITH": once if once == "short" else str(getattr(errno, once)),
            "TZMARK_FAULT_MET": str(met),
        }
        return environment | ({"TZMARK_FAULT_AND_AFTER": "1"} if once != error else {})

    def try_case(self, numbered: tuple[int, Case]) -> None:
        number, case = numbered
        place = self.scratch / f"run-{number}"
        self.models.copy_to(place, case.command)
        met = self.scratch / f"met-{number}"
        environment = self.environment_of(case.call, case.at, case.error, met)
        counts = self.counts[case.command.name, case.io]
        try:
            stdin = place / case.command.stdin if case.command.stdin else None
            ended = faulty.run(
                words_of(case.command, case.io), place, environment, stdin
            )
            # Threads share the calls, and one of them may need fewer this time.
            is_met = met.exists()
            baseline = self.baselines[case.command.name, case.io]
            outcome = judge(case, baseline, place, ended, is_met)
            counts[outcome if is_met else "not met"] += 1
            by_call = self.by_call.setdefault((case.call, case.error), Counter())
            by_call[outcome if is_met else "not met"] += 1
        except Wrong as why:
            counts["wrong"] += 1
            self.wrong.append(f"{case}: {why}")
        met.unlink(missing_ok=True)
        faulty.shutil.rmtree(place)

    def read_half_edited(self) -> None:
        """Lets lookups fail where an edit was interrupted: no fault may make the file look whole."""
        place = self.scratch / "half-edited"
        faulty.remake(place)
        (place / "real").mkdir()
        model = (self.models.directory / "model.tensors").read_bytes()
        (place / "real/model.tensors").write_bytes(model)
        (place / f"real/model.tensors{JOURNAL}").write_bytes(b"interrupted")
        (place / "link.tensors").symlink_to("real/model.tensors")
        errors = (*ASK, "EUCLEAN", "EBADMSG", "ENOTCONN", "EINTR")
        for call, error in itertools.product(HALF_EDITED, errors):
            for at in itertools.count(1):
                met = self.scratch / f"met-{call}-{error}-{at}"
                environment = self.environment_of(call, at, error, met)
                ended = faulty.run(("dump", "link.tensors"), place, environment)
                if not met.exists():
                    break
                self.half_edited[call] += 1
                if ended.status == FINE or ended.why_not_clean():
                    self.wrong.append(f"half edited: {call} {at} {error}: {ended}")

    def total(self) -> Counter[str]:
        return sum(self.counts.values(), Counter())


def table(matrix: Matrix) -> str:
    """Counts by command and path, as in docs/robustness.md."""
    paths = list(dict.fromkeys(io for _, io in matrix.counts))
    lines = [
        "| command | path | faults | survived | one error |",
        "|---|---|---|---|---|",
    ]
    for command in COMMANDS:
        for io in paths:
            counts = matrix.counts.get((command.name, io))
            if counts is None:
                continue
            tried = counts["survived"] + counts["one error"] + counts["wrong"]
            lines.append(
                f"| {command.name} | {io} | {tried:,} | {counts['survived']:,} | {counts['one error']:,} |"
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--full",
        action="store_true",
        default="TZMARK_FULL" in os.environ,
        help="every fault, which takes minutes",
    )
    parser.add_argument(
        "--count", type=int, default=SAMPLE, help="faults of the sample"
    )
    parser.add_argument("--seed", type=int, default=faulty.SEED)
    parser.add_argument(
        "--table", action="store_true", help="print the counts as a table"
    )
    parser.add_argument(
        "--by-call", action="store_true", help="print the counts of each call"
    )
    parser.add_argument("--only", default="", help="commands with these words")
    options = parser.parse_args()
    with faulty.scratch_directory("tzmark-matrix-") as scratch, faulty.preloadable(
        faulty.FAIL_CALL
    ) as library:
        matrix = Matrix(scratch, library)
        cases = [case for case in matrix.cases() if options.only in case.command.name]
        chosen = (
            cases
            if options.full
            else random.Random(options.seed).sample(
                cases, min(options.count, len(cases))
            )
        )
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(matrix.try_case, enumerate(chosen)))
        matrix.read_half_edited()
    if options.table:
        print(table(matrix))
    if options.by_call:
        for (call, error), counts in sorted(matrix.by_call.items()):
            print(f"{call:28} {error:12} {dict(counts)}")
    total = matrix.total()
    print(
        f"{len(chosen):,} of {len(cases):,} faults, seed {options.seed}: "
        + ", ".join(f"{n:,} {name}" for name, n in sorted(total.items()))
    )
    print(f"half edited: {matrix.half_edited.total()} faults")
    for line in matrix.wrong[:50]:
        print(line, file=sys.stderr)
    # A matrix whose faults do not meet the program would pass for nothing.
    why_not = [
        f"{call} was not met half edited"
        for call in HALF_EDITED
        if not matrix.half_edited[call]
    ]
    for outcome in ("survived", "one error"):
        if total[outcome] <= len(chosen) // 10:
            why_not.append(f"few faults: {outcome}")
    if total["not met"] > max(3, len(chosen) // 100):
        why_not.append("many faults were not met")
    if not options.only:
        called = {case.call for case in cases} | UNCALLED
        has_rings = any("uring" in io for _, io in matrix.counts)
        why_not += [
            f"no command calls {call}"
            for call in FAULTS
            if call not in called
            and (has_rings or not call.startswith(("io_uring", "completion")))
        ]
    for line in why_not:
        print(line, file=sys.stderr)
    return 0 if not why_not and not matrix.wrong else 1


if __name__ == "__main__":
    sys.exit(main())
