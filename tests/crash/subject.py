"""What the crash tests run and check: tzmark, alone or under kill_at, on a copy of a file in a directory of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

RECOVER = ("edit", "--recover")

FILE_NAME = "model.tensors"
INTENT_NAME = FILE_NAME + ".tzmark-intent"
COPY_NAME = re.compile(re.escape(FILE_NAME) + r"\.tzmark-grow-[0-9a-f]{16}")
FILE_MODE = 0o640

FINE, FILE_FAILS, ENVIRONMENT = 0, 1, 3
INTERRUPTED, LOCKED = "TZE-ENV-007", "TZE-ENV-008"

METADATA, HEADERS = "metadata", "headers"


class Wrong(Exception):
    """tzmark did not do what it has to."""


def require(condition: bool, what: str) -> None:
    if not condition:
        raise Wrong(what)


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it said."""

    status: int
    output: bytes
    errors: str


@dataclass(frozen=True)
class Tzmark:
    """The command under test, and the library that counts its calls."""

    program: Path
    kill_at: Path
    temporary: Path  # where it makes files without a name; one that dies may leave an empty one with a name

    def run(
        self,
        command: Sequence[str],
        file: Path | str,
        directory: Path | None = None,
        **variables: int | Path,
    ) -> Ended:
        """Runs "tzmark COMMAND[0] FILE COMMAND[1:]"; with variables, under kill_at."""
        done = subprocess.run(
            self.words(command, file),
            capture_output=True,
            env=self.environment(variables),
            cwd=directory,
        )
        return Ended(done.returncode, done.stdout, done.stderr.decode())

    def start(
        self, command: Sequence[str], file: Path, **variables: int | Path
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.words(command, file),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self.environment(variables),
        )

    def words(self, command: Sequence[str], file: Path | str) -> list[str]:
        return [str(self.program), command[0], str(file), *command[1:]]

    def environment(self, variables: Mapping[str, int | Path]) -> dict[str, str]:
        environment = {**os.environ, "TMPDIR": str(self.temporary)}
        if variables:
            environment["LD_PRELOAD"] = str(self.kill_at)
            for name, value in variables.items():
                environment["TZMARK_TEST_" + name.upper()] = str(value)
        return environment

    def succeed(
        self, command: Sequence[str], file: Path | str, directory: Path | None = None
    ) -> bytes:
        ended = self.run(command, file, directory)
        require(
            ended.status == FINE,
            f"tzmark {command[0]} exits {ended.status}: {ended.errors}",
        )
        return ended.output

    def fail(self, command: Sequence[str], file: Path, rule: str) -> None:
        ended = self.run(command, file)
        require(
            ended.status == ENVIRONMENT and rule in ended.errors,
            f"tzmark {command[0]} exits {ended.status} instead of failing with {rule}: {ended.errors}",
        )


def segment_bytes(file: Path) -> tuple[int, int]:
    """How large the metadata segment and the header segment of a file are."""
    head = file.read_bytes()[:118]
    (
        _,
        _,
        _,
        metadata_begin,
        metadata_end,
        _,
        headers_begin,
        headers_end,
        _,
        _,
    ) = struct.unpack_from("<BBBQQBQQBQ", head, 73)
    return metadata_end - metadata_begin, headers_end - headers_begin


@dataclass(frozen=True)
class Scenario:
    """A change of a file, the file that it changes, and which segments have to grow for it."""

    name: str
    base: str
    command: tuple[str, ...]
    grows: frozenset[str] = frozenset()
    read_options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """A directory of a file system. inserts: it makes room inside a file without moving the rest."""

    name: str
    directory: Path
    inserts: bool

    @contextmanager
    def copy_of(self, base: Path) -> Iterator[Path]:
        """A file with the content of base, alone in a directory of its own."""
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            file = Path(directory) / FILE_NAME
            shutil.copyfile(base, file)
            file.chmod(FILE_MODE)
            yield file


@dataclass(frozen=True)
class Subject:
    """A scenario at a place, and what it does undisturbed."""

    tzmark: Tzmark
    scenario: Scenario
    place: Place
    base: Path
    old: bytes
    new: bytes
    new_file: bytes

    def dump(self, file: Path | str, directory: Path | None = None) -> bytes:
        return self.tzmark.succeed(
            ("dump", *self.scenario.read_options), file, directory
        )

    def verify(self, file: Path) -> None:
        self.tzmark.succeed(("verify", *self.scenario.read_options), file)

    def content(self, dump: bytes) -> str:
        require(dump in (self.old, self.new), f"neither old nor new: {dump[:2000]!r}")
        return "old" if dump == self.old else "new"

    def check_alone(self, file: Path) -> None:
        left = sorted(path.name for path in file.parent.iterdir())
        # A process that is killed while it copies the file leaves the copy.
        if self.scenario.grows and not self.place.inserts:
            left = [name for name in left if not COPY_NAME.fullmatch(name)]
        require(left == [file.name], f"in the directory there are {left}")
        mode = file.stat().st_mode & 0o7777
        require(mode == FILE_MODE, f"the file's mode is {mode:o}")

    def check_reader(self, file: Path) -> str:
        """What a reader makes of the file as it is: refused, old or new."""
        ended = self.tzmark.run(("dump", *self.scenario.read_options), file)
        if ended.status == FINE:
            self.verify(file)
            return self.content(ended.output)
        require(
            ended.status == ENVIRONMENT and INTERRUPTED in ended.errors,
            f"a reader exits {ended.status}: {ended.errors}",
        )
        self.tzmark.fail(
            ("verify", *self.scenario.read_options), file, rule=INTERRUPTED
        )
        return "refused"

    def check_recovery(self, file: Path) -> str:
        """Recovers, and returns which content the file then has."""
        self.tzmark.succeed(RECOVER, file)
        recovered = self.content(self.dump(file))
        self.verify(file)
        self.check_alone(file)
        if recovered == "old":
            if not self.scenario.grows:
                require(
                    file.read_bytes() == self.base.read_bytes(),
                    "the content is the old one, but the bytes are not",
                )
            self.tzmark.succeed(self.scenario.command, file)
            self.check_new(file)
        return recovered

    def check_new(self, file: Path) -> None:
        """The change is made as if nothing had ever happened: byte for byte, but for nonces and MACs."""
        if self.scenario.read_options:
            require(self.content(self.dump(file)) == "new", "it has changed nothing")
            self.verify(file)
        else:
            require(
                file.read_bytes() == self.new_file, "the bytes are not the new ones"
            )
        self.check_alone(file)

    def kill_at(
        self, call: int, file: Path, command: tuple[str, ...] | None = None
    ) -> None:
        """Runs the scenario's command, or another one, and lets it die in the place of a call."""
        ended = self.tzmark.run(command or self.scenario.command, file, kill_at=call)
        require(
            ended.status == -signal.SIGKILL,
            f"it was to be killed at call {call}, but exits {ended.status}: {ended.errors}",
        )

    def calls(self) -> int:
        """How many calls of the scenario's command change something."""
        with self.place.copy_of(self.base) as file:
            return self.count_calls(self.scenario.command, file)

    def count_calls(self, command: Sequence[str], file: Path) -> int:
        count = file.parent / "count"
        ended = self.tzmark.run(command, file, count_to=count)
        require(ended.status == FINE, f"it exits {ended.status}: {ended.errors}")
        calls = int(count.read_text())
        count.unlink()
        return calls


def undisturbed(
    tzmark: Tzmark, scenario: Scenario, place: Place, base: Path
) -> Subject:
    """Runs a scenario once to its end: what it changes is what it was made to change."""
    with place.copy_of(base) as file:
        dump = ("dump", *scenario.read_options)
        old = tzmark.succeed(dump, file)
        before = segment_bytes(file)
        tzmark.succeed(scenario.command, file)
        new = tzmark.succeed(dump, file)
        subject = Subject(tzmark, scenario, place, base, old, new, file.read_bytes())
        subject.verify(file)
        subject.check_alone(file)
        require(subject.old != subject.new, "it changes nothing")
        after = segment_bytes(file)
        grown = {
            name for name, a, b in zip((METADATA, HEADERS), before, after) if a != b
        }
        require(grown == scenario.grows, f"what grows is {sorted(grown)}")
    return subject
