"""What else an interrupted change must stand: that its recovery is interrupted, that its intent is damaged or cut, that
others would change the file too, and that the file has more than one name."""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from subject import (
    FILE_FAILS,
    FILE_NAME,
    FINE,
    INTENT_NAME,
    INTERRUPTED,
    LOCKED,
    RECOVER,
    Subject,
    Wrong,
    require,
)

INTENT_HEADER_BYTES = 120


def recovery_is_killed(subject: Subject) -> str:
    """Where a change was killed, its recovery is killed at each of its calls, and then done again."""
    deaths = 0
    for call in range(1, subject.calls() + 1, 5):
        with subject.place.copy_of(subject.base) as file:
            subject.kill_at(call, file)
            recovery_calls = subject.count_calls(RECOVER, file)
        for recovery_call in range(1, recovery_calls + 1):
            with subject.place.copy_of(subject.base) as file:
                subject.kill_at(call, file)
                subject.kill_at(recovery_call, file, RECOVER)
                subject.check_reader(file)
                subject.check_recovery(file)
            deaths += 1
    return f"{deaths} deaths of a recovery"


def is_whole(intent: bytes) -> bool:
    """An intent ends with the SHA-256 of what is before it."""
    return hashlib.sha256(intent[:-32]).digest() == intent[-32:]


@contextmanager
def with_journal(subject: Subject, insert: bool) -> Iterator[Path]:
    """A file that a death has left changed, and its intent next to it: to overwrite, or to make room."""
    calls = subject.calls()
    # The last calls remove the intent and sync the directory. Room was made by the time the first insertion is removed.
    for call in range(1, calls) if insert else (calls - 1,):
        with subject.place.copy_of(subject.base) as file:
            subject.kill_at(call, file)
            intent = file.with_name(INTENT_NAME)
            changed = file.read_bytes() != subject.base.read_bytes()
            if changed and intent.exists() and is_whole(intent.read_bytes()):
                yield file
                return
    raise Wrong("there is no intent at any call")


def damaged_journal(subject: Subject) -> str:
    """A bit of the intent is flipped: it is refused, and nothing is changed."""
    flips = 0
    for insert in (False, True):
        with with_journal(subject, insert) as file:
            intent = file.with_name(INTENT_NAME)
            whole, content = intent.read_bytes(), file.read_bytes()
            # Each byte of its header, some of what it holds, and some of its digest.
            digest_at = len(whole) - 32
            for at in (
                *range(INTENT_HEADER_BYTES),
                *range(INTENT_HEADER_BYTES, digest_at, 311),
                *range(digest_at, len(whole), 7),
            ):
                damaged = bytearray(whole)
                damaged[at] ^= 1 << at % 8
                intent.write_bytes(damaged)
                writer = subject.scenario.command if at % 8 == 0 else RECOVER
                for command in (("dump",), writer):
                    subject.tzmark.fail(command, file, INTERRUPTED)
                require(
                    file.read_bytes() == content,
                    f"bit flip at {at}: the file is changed",
                )
                require(
                    intent.read_bytes() == damaged,
                    f"bit flip at {at}: the intent is changed",
                )
                flips += 1
            intent.write_bytes(whole)
            subject.check_recovery(file)
    return f"{flips} bits"


def cut_journal(subject: Subject) -> str:
    """A cut journal is refused and stays, since a journal gets its name when it is whole."""
    cuts = 0
    for insert in (False, True):
        with with_journal(subject, insert) as file:
            whole = file.with_name(INTENT_NAME).read_bytes()
        for length in (*range(0, len(whole), 1 + len(whole) // 30), len(whole) - 1):
            with subject.place.copy_of(subject.base) as file:
                intent = file.with_name(INTENT_NAME)
                intent.write_bytes(whole[:length])
                intent.chmod(0o600)
                for command in (("dump",), RECOVER):
                    subject.tzmark.fail(command, file, INTERRUPTED)
                require(
                    file.read_bytes() == subject.base.read_bytes(),
                    f"cut at {length}: the file is changed",
                )
                require(
                    intent.read_bytes() == whole[:length],
                    f"cut at {length}: the journal is changed",
                )
            cuts += 1
    return f"{cuts} lengths"


def nothing_to_recover(subject: Subject) -> str:
    """Recovery of a file without an interrupted change changes nothing and reports that."""
    with subject.place.copy_of(subject.base) as file:
        said = subject.tzmark.succeed(RECOVER, file)
        require(b"nothing to recover" in said, f"it says {said!r}")
        require(file.read_bytes() == subject.base.read_bytes(), "the file is changed")
        subject.check_alone(file)
    return "said so"


def two_processes(subject: Subject) -> str:
    """While one changes the file, at any of its calls, others that would are refused, and it ends undisturbed."""
    calls = subject.calls()
    others = (
        RECOVER,
        ("edit", "--drop", "first"),
        subject.scenario.command,
    )
    for call in range(1, calls + 1, 3):
        with subject.place.copy_of(subject.base) as file:
            process = subject.tzmark.start(subject.scenario.command, file, stop_at=call)
            try:
                _, status = os.waitpid(process.pid, os.WUNTRACED)
                require(os.WIFSTOPPED(status), f"it does not stop at call {call}")
                for command in others:
                    subject.tzmark.fail(command, file, LOCKED)
                subject.check_reader(file)
            finally:
                process.send_signal(signal.SIGCONT)
            require(
                process.wait() == FINE,
                f"stopped at call {call}, it exits {process.returncode}",
            )
            subject.check_new(file)
    # Another process that takes the same lock is respected too.
    with subject.place.copy_of(subject.base) as file, file.open("rb") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        for command in others:
            subject.tzmark.fail(command, file, LOCKED)
        require(
            file.read_bytes() == subject.base.read_bytes(), "a locked file is changed"
        )
        subject.check_alone(file)
    return f"stopped at every third of {calls} calls"


def other_names(subject: Subject) -> str:
    """A file has one intent, whatever it is called: by a link, or by a name relative to its directory."""
    calls = subject.calls()
    for call in range(1, calls + 1, 3):
        with subject.place.copy_of(
            subject.base
        ) as file, tempfile.TemporaryDirectory() as other:
            link = Path(other) / "link.tensors"
            link.symlink_to(file)
            subject.kill_at(call, link)
            seen = subject.check_reader(file)
            require(
                subject.check_reader(link) == seen, "file and link are not read alike"
            )
            if call % 2 == 0:
                subject.tzmark.succeed(RECOVER, link)
            else:
                subject.tzmark.succeed(RECOVER, FILE_NAME, file.parent)
            subject.check_alone(file)
            if subject.content(subject.dump(link)) == "old":
                subject.tzmark.succeed(subject.scenario.command, link)
                subject.check_alone(file)
            require(
                subject.content(subject.dump(FILE_NAME, file.parent)) == "new",
                "it is not the new content",
            )
            require(
                [path.name for path in Path(other).iterdir()] == [link.name],
                "something is next to the link",
            )
            require(
                link.is_symlink() and not file.is_symlink(), "the link was replaced"
            )
    return f"killed at every third of {calls} calls"


def reader_without_names(subject: Subject) -> str:
    """Who reads standard input, or a copy, or knows nothing of intents: what verifies is the old or the new content."""
    calls = subject.calls()
    refused = 0
    for call in range(1, calls + 1):
        with subject.place.copy_of(subject.base) as file:
            subject.kill_at(call, file)
            copy = file.with_name("copy.tensors")
            copy.write_bytes(file.read_bytes())
            verified = subject.tzmark.run(("verify",), copy)
            if verified.status == FINE:
                subject.content(subject.dump(copy))
            else:
                require(
                    verified.status == FILE_FAILS,
                    f"it exits {verified.status}: {verified.errors}",
                )
                refused += 1
    require(0 < refused < calls, f"{refused} of {calls} states are refused")
    return f"killed at {calls} calls, {refused} states are refused"


FURTHER: tuple[Callable[[Subject], str], ...] = (
    recovery_is_killed,
    damaged_journal,
    cut_journal,
    nothing_to_recover,
    two_processes,
    other_names,
    reader_without_names,
)
