"""Asynchronous checkpoints of a training loop: tzmark.Checkpointer. reference/CHECKPOINTS.md specifies the files."""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import secrets
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _tzmark
from ._errors import EnvironmentFailure, Error, FormatError, UsageError
from ._reader import whole_number
from ._save import strings
from ._state import STRUCTURE, Flat, flatten, unflatten
from ._memory import rows_in_place
from ._tensors import framework_name

if TYPE_CHECKING:
    from ._reader import Path

# Of what rank 0 tells the others.
_NUMBER_BITS = 64

_open: weakref.WeakSet[Checkpointer] = weakref.WeakSet()
# Those with a barrier or keep: a collection that these start must not delete them in the thread that writes.
_called_back: set[Checkpointer] = set()

# Rules whose errors say that a checkpoint cannot be read, and not that the call or the machine is wrong.
_UNREADABLE = ("TZE-ENV-001", "TZE-ENV-002")
_DAMAGED = 852
_READ_FAILED = 904


class _Callbacks(threading.local):
    """Whether this thread runs a function of the user that a checkpointer calls, and waits for."""

    is_running = False

    def mark(self, function: Callable[..., bool]) -> Callable[..., bool]:
        """Returns a function that does the same, and is seen while it runs."""

        def marked(*arguments: Any) -> bool:
            self.is_running = True
            try:
                return function(*arguments)
            finally:
                self.is_running = False

        return marked


@dataclass(frozen=True)
class SaveTimes:
    """How long a save blocked the loop, in nanoseconds: waiting for the write before, copying, starting the write."""

    wait_ns: int
    copy_ns: int
    submit_ns: int


@dataclass(frozen=True)
class WriteReport:
    """What a background write did; zeros if nothing was written.

    Bytes: of the snapshot, and of the files of this rank. Nanoseconds: until the files were durable, then until the
    checkpoint was, then for verifying and deleting old ones. ``names_durable`` is False where the file system has no
    fsync of directories, so that a loss of power may undo the names. ``warnings`` says that, what was not deleted,
    which older checkpoints are damaged, and which other process saves to the directory. ``commit``: "rename" or
    "marker", as was used; "auto" if nothing was written.
    """

    snapshot_bytes: int
    file_bytes: int
    drain_ns: int
    commit_ns: int
    retention_ns: int
    names_durable: bool
    commit: str
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class CheckpointInfo:
    """What ``keep`` is told of a checkpoint. sequence: the checkpoints of a directory in the order of their commits."""

    directory: str
    step: int
    epoch: int
    learning_rate: float
    metadata: dict[str, str]
    save_id: str
    sequence: int
    committed_unix_ns: int


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint. ``state_dict`` has the structure that was saved; its tensors own their memory.

    ``passed_over`` says what else ``load_latest`` has found that may be a newer one, and why it has not loaded it.
    """

    directory: str
    step: int
    epoch: int
    learning_rate: float
    metadata: dict[str, str]
    state_dict: Any
    save_id: str
    passed_over: tuple[str, ...] = ()


class Checkpointer:
    """Saves the state of a training loop in the background. A checkpoint is complete or absent, whatever dies when.

    directory: of all checkpoints of the run; it is made if it is missing. Each becomes ``directory/step-00000010``.
    keep_latest: how many verified checkpoints are kept, those committed last; older ones are deleted after the new one
    has been read back and verified. 0 keeps all. keep_every: also keeps steps that are a multiple of it. protect: also
    keeps these, by step or by the name of the directory. keep: also keeps those for which it returns True; it gets a
    CheckpointInfo, and is called from a background thread for each checkpoint that would be deleted; it cannot call the
    checkpointer, whose save waits for it. Only checkpoints from which the new one continues are deleted, and no copies:
    a run continues from what it loaded last.
    exclusive: raises EnvironmentFailure if another process saves to the directory; otherwise a warning names it.
    format: "safetensors" or "tensors"; layout and sha256 are for the latter. threads: for copying and writing; 0 = one
    per core. memory_limit_bytes: for the copy and the buffers; a save that cannot fit is refused. require_durable: a
    save fails, before it writes anything, where names cannot be made durable.
    commit: "rename" writes under a temporary name; "marker" writes under the final one and commit.json last, for mounts
    of object stores that cannot rename directories; "auto" finds out.

    Several ranks: rank, world_size, and ``barrier(ok)``, which waits until every rank has called it and returns whether
    all passed True. It is called by the constructor and load_latest, and later from a background thread, so it needs a
    communicator of its own. Rank 0 also tells the others numbers by it, one bit at a time, so False need not be a
    failure. strategy: "replicated" (every rank has all tensors), "zero" (each has some), or "tensor-parallel" (each
    has a part of the tensors in split_dims, by name and dimension).

    Made in one process, and not usable after a fork. Several threads may call it; their calls take turns. A signal
    handler may not, as it may interrupt one of these calls: let it set a flag, and save after the step.
    """

    def __init__(
        self,
        directory: Path,
        keep_latest: int = 3,
        *,
        keep_every: int = 0,
        protect: Sequence[int | str] = (),
        keep: Callable[[CheckpointInfo], bool] | None = None,
        exclusive: bool = False,
        format: str = "safetensors",
        layout: str | None = None,
        sha256: bool = True,
        io: str = "auto",
        threads: int = 0,
        memory_limit_bytes: int = 0,
        require_durable: bool = False,
        commit: str = "auto",
        rank: int | None = None,
        world_size: int | None = None,
        barrier: Callable[[bool], bool] | None = None,
        strategy: str = "zero",
        split_dims: Mapping[str, int] | None = None,
    ) -> None:
        callbacks = _Callbacks()
        self._callbacks = callbacks
        self._parent = os.fsencode(directory)
        if not self._parent:
            raise UsageError("the directory is empty")
        if not io:
            raise UsageError("the I/O path is empty")
        sharded = [value is not None for value in (rank, world_size, barrier)]
        if any(sharded) and not all(sharded):
            raise UsageError("several ranks need rank, world_size and barrier")
        if min(keep_latest, keep_every) < 0:
            raise UsageError("a number of checkpoints is not negative")
        if rank is not None and world_size is not None and not 0 <= rank < world_size:
            raise UsageError(f"rank {rank} is not below world_size {world_size}")
        self._rank, self._world_size, self._barrier = (
            rank or 0,
            world_size or 0,
            None if barrier is None else callbacks.mark(barrier),
        )
        self._strategy, self._split_dims = strategy, dict(split_dims or {})
        self._io, self._threads = io, threads
        # A signal handler in the thread that has it must not wait for itself.
        self._lock = threading.RLock()
        self._busy = False
        self._process = os.getpid()
        self._saves = 0
        self._writer = _tzmark.Checkpointer(
            keep_latest,
            keep_every,
            format,
            layout,
            sha256,
            io,
            threads,
            memory_limit_bytes,
            require_durable,
            commit,
            [_name_of(one) for one in protect],
            None if keep is None else callbacks.mark(_keeper(keep)),
            exclusive,
        )
        self._session = self._begin(exclusive)
        _open.add(self)
        if self._barrier is not None or keep is not None:
            _called_back.add(self)

    def save(
        self,
        state_dict: Any,
        step: int,
        *,
        epoch: int = 0,
        learning_rate: float = 0.0,
        metadata: Mapping[str, str] | None = None,
    ) -> SaveTimes:
        """Copies the tensors, starts the write and returns; the tensors may change then. Returns how long it took.

        state_dict: mappings, lists and tuples of tensors (torch, of any device; numpy; DLPack), numbers, strings and
        None, nested up to 100 levels deep: ``{"model": model.state_dict(), "optimizer": optimizer.state_dict()}``.
        What is under "optimizer" goes to its own file. Waits for the write before. If that has failed, its error is
        raised here, and this checkpoint is written nevertheless. All ranks pass the same step.

        Raises TypeError for a value that cannot be saved, with its place; UsageError, EnvironmentFailure, FormatError.
        """
        with self._turn():
            self._saves += 1
            rank = None
            if self._barrier is not None:
                save_id = f"{self._session}-{self._saves}"
                rank = (
                    self._rank,
                    self._world_size,
                    self._strategy,
                    self._split_dims,
                    save_id,
                    self._barrier,
                )
            try:
                step = whole_number("step", step)
                epoch = whole_number("epoch", epoch)
                flat = flatten(state_dict)
                words = strings(metadata)
                if STRUCTURE in words:
                    raise UsageError(f"the metadata {STRUCTURE!r} is reserved")
                words.update(flat.metadata)
                model, alive = rows_in_place(flat.model, "state_dict")
                optimizer, more = rows_in_place(flat.optimizer, "state_dict")
                name = os.path.join(self._parent, _name_of(step))
                times = self._writer.save(
                    name, model, optimizer, step, epoch, learning_rate, words, rank
                )
            except BaseException:
                # The other ranks wait for this one.
                self._writer.decline(rank)
                raise
            del alive, more
        return SaveTimes(**times)

    def wait(self) -> WriteReport:
        """Waits until nothing is being written, and returns what the last write did. Raises its error, once."""
        with self._turn():
            report = self._writer.wait()
        report["warnings"] = tuple(report["warnings"])
        return WriteReport(**report)

    def reserve(self, nbytes: int) -> None:
        """Allocates memory for copies of that many bytes, so that the first save does not have to."""
        with self._turn():
            self._writer.reserve(nbytes)

    def load_latest(
        self,
        *,
        framework: str | None = None,
        flat: bool = False,
        intact: bool = False,
    ) -> Checkpoint | None:
        """Waits for the write in flight, and loads the checkpoint that was committed last; None without one.

        Every file is compared with its digest while it is read. framework: "np" or "pt" for all tensors; None gives
        each tensor as it was saved. flat: returns tensors by their names in the files, without their structure.
        The next save continues from the loaded checkpoint; if none is loaded, that does not change.
        Raises FormatError (CKP-002) for a damaged checkpoint, and if another one may be newer, because its commit.json
        is damaged or ``latest`` names it; EnvironmentFailure if the system fails to read that file. intact: then loads
        the newest one that is not damaged; raises FormatError if all are damaged. Warns of each directory that it
        passes over and that looks like a checkpoint. Of several ranks, all call it, with the
        same intact: they agree on the checkpoint.
        """
        with self._turn():
            return self._load_newest(framework, flat, intact)

    def load(
        self, step: int, *, framework: str | None = None, flat: bool = False
    ) -> Checkpoint:
        """Loads the checkpoint of a step, as ``load_latest`` does. Raises MissingFileError if there is none.

        The next save continues from it: later checkpoints of the same run are neither deleted nor loaded any more.
        """
        step = whole_number("step", step)
        with self._turn():
            self._writer.wait()
            loaded = self._load(
                os.path.join(self._parent, _name_of(step)), framework, flat
            )
            self._writer.continue_from(loaded.save_id)
        return loaded

    def continue_from(self, checkpoint: Checkpoint | None) -> None:
        """Makes the next save the successor of a checkpoint that was loaded elsewhere; None: of none."""
        with self._turn():
            self._writer.continue_from("" if checkpoint is None else checkpoint.save_id)

    def close(self) -> None:
        """Waits for the write in flight, and raises its error."""
        with self._turn():
            try:
                self._writer.wait()
            except Error:
                self._forget()
                raise
            # After an interruption the write goes on, and the end of the process waits for it.
            self._forget()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _forget(self) -> None:
        self._writer.release()
        _open.discard(self)
        _called_back.discard(self)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Lets one call at a time run."""
        if self._process != os.getpid():
            # The lock may be that of a thread which the fork has not copied.
            raise UsageError(
                "this checkpointer belongs to the parent process: a fork makes its own"
            )
        if self._callbacks.is_running:
            raise UsageError(
                "keep and barrier cannot call the checkpointer, which waits for them: CheckpointInfo.directory has the "
                "files that keep is asked about"
            )
        with self._lock:
            if self._busy:
                raise UsageError(
                    "a signal handler interrupts a call of this checkpointer: let it set a flag, and save after the "
                    "step"
                )
            self._busy = True
            try:
                yield
            finally:
                self._busy = False

    def _load(self, directory: bytes, framework: str | None, flat: bool) -> Checkpoint:
        chosen = None if framework is None else framework_name(framework)
        state, model, optimizer = _tzmark.load_checkpoint(
            directory, self._rank, self._world_size, True, self._io, self._threads
        )
        words = dict(state.pop("metadata"))
        stored = Flat(dict(model), dict(optimizer), {})
        content = unflatten(stored, words, chosen, flat, os.fsdecode(directory))
        return Checkpoint(
            directory=os.fsdecode(directory),
            metadata=words,
            state_dict=content,
            **state,
        )

    def _load_newest(
        self, framework: str | None, flat: bool, intact: bool
    ) -> Checkpoint | None:
        problem: Exception | None = None
        try:
            self._writer.wait()
        except (
            Exception
        ) as error:  # noqa: BLE001 - the other ranks must not wait forever
            problem = error
        # After it, no rank deletes checkpoints.
        self._agree(problem)
        candidates: dict[int, tuple[str, str]] = {}
        passed_over: list[str] = []
        try:
            candidates, passed_over = self._candidates(intact)
        except Exception as error:  # noqa: BLE001 - as above
            problem = error
        self._agree(problem)
        remaining = iter(candidates)
        damaged: list[str] = []
        while True:
            # What rank 0 has found: another job may have committed or deleted checkpoints before this rank looked.
            chosen = self._from_first(next(remaining, 0))
            if chosen == 0:
                break
            loaded: Checkpoint | None = None
            reason = "another rank cannot load its shard"
            try:
                if chosen not in candidates:
                    candidates, passed_over = self._candidates(intact=True)
                loaded = self._load_candidate(candidates.get(chosen), framework, flat)
            except Exception as error:  # noqa: BLE001 - as above
                if intact and self._is_damage(error):
                    reason = str(error)
                else:
                    problem = error
            if self._vote(loaded is not None) and loaded is not None:
                told = _told_of(passed_over + damaged, stacklevel=4)
                self._writer.continue_from(loaded.save_id)
                return replace(loaded, passed_over=told)
            self._agree(problem)
            name = candidates[chosen][0] if chosen in candidates else "a checkpoint"
            damaged.append(f"passed over {name}: {reason}")
        if damaged:
            raise FormatError(
                f"no checkpoint is intact: {'; '.join(passed_over + damaged)}",
                "CKP-002",
                file=os.fsdecode(self._parent),
                code=_DAMAGED,
            )
        _told_of(passed_over, stacklevel=4)
        return None

    def _candidates(self, intact: bool) -> tuple[dict[int, tuple[str, str]], list[str]]:
        """Returns directory and save id of all checkpoints by a number, and what else looks like one.

        The number is the same on all ranks, wherever they have mounted the directory.
        """
        found, passed_over, damage, is_unread = _tzmark.checkpoint_candidates(
            self._parent
        )
        if damage and not intact:
            parent = os.fsdecode(self._parent)
            if is_unread:
                raise EnvironmentFailure(
                    damage, "TZE-ENV-002", file=parent, code=_READ_FAILED
                )
            raise FormatError(damage, "CKP-002", file=parent, code=_DAMAGED)
        numbered = {}
        for directory, save_id in found:
            identity = (
                os.fsencode(os.path.basename(directory)) + b"/" + save_id.encode()
            )
            digest = hashlib.sha256(identity).digest()[: _NUMBER_BITS // 8]
            numbered[int.from_bytes(digest, "big")] = (directory, save_id)
        return numbered, passed_over

    def _load_candidate(
        self, candidate: tuple[str, str] | None, framework: str | None, flat: bool
    ) -> Checkpoint:
        problem = "rank 0 has found it, and this rank does not see it"
        if candidate is not None:
            directory, save_id = candidate
            loaded = self._load(os.fsencode(directory), framework, flat)
            if loaded.save_id == save_id or self._barrier is None:
                return loaded
            problem = "another process has replaced it meanwhile"
        raise FormatError(
            problem,
            "CKP-002",
            file=os.fsdecode(self._parent) if candidate is None else candidate[0],
            code=_DAMAGED,
        )

    def _is_damage(self, error: Exception) -> bool:
        """Whether a checkpoint cannot be loaded for a reason of its own."""
        if isinstance(error, FormatError):
            return True
        if not isinstance(error, EnvironmentFailure) or error.rule not in _UNREADABLE:
            return False
        try:
            os.close(os.open(self._parent, os.O_RDONLY))
        except OSError:
            # Such as too many open files.
            return False
        return True

    def _begin(self, exclusive: bool) -> str:
        """Makes and claims the directory, deletes what interrupted saves left, and returns the name of the session."""
        problem: Exception | None = None
        if self._rank == 0:
            try:
                _make_directory(self._parent)
                if exclusive:
                    self._writer.claim(self._parent)
                self._clean()
            except (
                Exception
            ) as error:  # noqa: BLE001 - the other ranks must not wait forever
                problem = error
        self._agree(problem)
        return f"{self._from_first(secrets.randbits(_NUMBER_BITS)):016x}"

    def _clean(self) -> None:
        other = _tzmark.other_writer(self._parent)
        if other:
            # Its locks of directories may not reach this machine.
            kept = [f"{os.fsdecode(self._parent)}: not cleaned up: {other}"]
        else:
            kept = _tzmark.clean_checkpoints(self._parent)[1]
        _told_of(kept, stacklevel=5)

    def _from_first(self, number: int) -> int:
        """Returns the number of rank 0 on all ranks, which have nothing but the barrier in common.

        A file could be seen late on another machine, and could be that of another job in the same directory.
        """
        told = 0
        for bit in range(_NUMBER_BITS):
            told |= self._vote(self._rank != 0 or bool(number >> bit & 1)) << bit
        return told

    def _vote(self, mine_ok: bool) -> bool:
        """Waits for all ranks, and returns whether all passed True."""
        ok = mine_ok if self._barrier is None else self._barrier(mine_ok)
        if not isinstance(ok, bool):
            raise TypeError(
                "the barrier must return a bool: whether every rank passed True"
            )
        return ok

    def _agree(self, problem: Exception | None) -> None:
        try:
            ok = self._vote(problem is None)
        except TypeError:
            if problem is not None:
                raise problem from None
            raise
        if problem is not None:
            raise problem
        if not ok:
            raise UsageError("another rank has failed", "CKP-006", code=856)


def _told_of(sentences: list[str], stacklevel: int) -> tuple[str, ...]:
    """Warns of each, and returns them."""
    for sentence in sentences:
        warnings.warn(sentence, stacklevel=stacklevel)
    return tuple(sentences)


def _name_of(checkpoint: int | str) -> bytes:
    """The name of a checkpoint's directory, which a string already is."""
    if isinstance(checkpoint, str):
        return os.fsencode(checkpoint)
    return b"step-%08d" % checkpoint


def _keeper(
    keep: Callable[[CheckpointInfo], bool],
) -> Callable[[str, str, int, int, dict[str, Any]], bool]:
    """What the extension calls for each checkpoint that would be deleted."""

    def asked(
        directory: str,
        save_id: str,
        sequence: int,
        committed_unix_ns: int,
        state: dict[str, Any],
    ) -> bool:
        state["metadata"].pop(STRUCTURE, None)
        info = CheckpointInfo(
            directory=directory,
            save_id=save_id,
            sequence=sequence,
            committed_unix_ns=committed_unix_ns,
            **state,
        )
        answer = keep(info)
        # A function without a return statement must not delete anything.
        if answer is None:
            raise TypeError("keep must return whether a checkpoint is kept, not None")
        return bool(answer)

    return asked


def _make_directory(name: bytes) -> None:
    """Makes a directory and the missing ones above it, durable where the file system has fsync of directories."""
    path = os.path.abspath(name)
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for one in reversed(missing):
        os.makedirs(one, exist_ok=True)
        _sync_directory(os.path.dirname(one))


# What an attempt to sync a directory answers where the file system does not support that. A save then says so.
_CANNOT_SYNC = (errno.EACCES, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def _sync_directory(name: bytes) -> None:
    try:
        opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def _close_all() -> None:
    """Waits for the writes of checkpointers that were not closed: a background thread may need the interpreter."""
    for checkpointer in list(_open):
        if checkpointer._process != os.getpid():
            continue
        try:
            checkpointer.close()
        except Exception:
            # The others are still being written.
            traceback.print_exc()


atexit.register(_close_all)
