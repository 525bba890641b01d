"""The ways to save a PyTorch loop that scripts/bench-checkpoint-python compares, each written as its users write it.

All keep the same number of newest checkpoints. A saver that writes in the background first waits for its previous
write.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

State = dict[str, Any]


@dataclass(frozen=True)
class Done:
    """When a save was reported complete, and when its files and directories were synced; monotonic ns."""

    complete_ns: int
    durable_ns: int | None  # None: the saver never syncs


class Saver(Protocol):
    """One way to save. ``save`` returns a function that blocks until the checkpoint is complete."""

    background: bool

    def save(self, state: State, step: int) -> Callable[[], Done]:
        ...

    def close(self) -> None:
        ...

    def candidates(self) -> dict[str, int]:
        """Returns the entries that the loader of this saver takes for checkpoints, with their steps."""

    def newest(self) -> str | None:
        """Returns the one from which a restarted loop continues."""

    def load(self, name: str, template: State) -> State:
        """Loads one of them; may use the tensors of the template."""


def sync(path: Path) -> None:
    """Syncs a file or a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def named_steps(directory: Path, suffix: str) -> dict[str, int]:
    """Returns the entries named step-NUMBER and the suffix, in the order of their steps."""
    found = {}
    for name in sorted(os.listdir(directory)):
        if match := re.fullmatch(rf"step-(\d+){re.escape(suffix)}", name):
            found[name] = int(match[1])
    return found


def last(candidates: dict[str, int]) -> str | None:
    return list(candidates)[-1] if candidates else None


class TorchSave:
    """torch.save to the final name, and nothing else: what most loops do."""

    background = False

    def __init__(self, directory: Path, keep: int) -> None:
        self._directory, self._keep = directory, keep

    def save(self, state: State, step: int) -> Callable[[], Done]:
        torch.save(state, self._directory / f"step-{step:08d}.pt")
        self._delete_old()
        return lambda: Done(time.monotonic_ns(), None)

    def _delete_old(self) -> None:
        if self._keep:
            for name in list(self.candidates())[: -self._keep]:
                os.unlink(self._directory / name)

    def close(self) -> None:
        pass

    def candidates(self) -> dict[str, int]:
        return named_steps(self._directory, ".pt")

    def newest(self) -> str | None:
        return last(self.candidates())

    def load(self, name: str, template: State) -> State:
        loaded: State = torch.load(self._directory / name)
        return loaded


class TorchSaveSynced(TorchSave):
    """torch.save to a temporary name, fsync, rename, fsync of the directory: what makes torch.save durable."""

    def save(self, state: State, step: int) -> Callable[[], Done]:
        final = self._directory / f"step-{step:08d}.pt"
        temporary = final.with_suffix(".pt.tmp")
        with open(temporary, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, final)
        sync(self._directory)
        durable = time.monotonic_ns()
        self._delete_old()
        return lambda: Done(time.monotonic_ns(), durable)


class AsyncSave:
    """torch.distributed.checkpoint.async_save in a world of one rank, over gloo.

    It syncs its files but no directory, so the thread that waits for it does that. The loader takes the newest
    directory with ``.metadata``, which is renamed into place after the data.
    """

    background = True

    def __init__(self, directory: Path, keep: int) -> None:
        import torch.distributed as distributed
        import torch.distributed.checkpoint as checkpoint

        self._directory, self._keep, self._checkpoint = directory, keep, checkpoint
        self._future: Any = None
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        store = distributed.HashStore()
        distributed.init_process_group("gloo", store=store, rank=0, world_size=1)

    def save(self, state: State, step: int) -> Callable[[], Done]:
        if self._future is not None:
            self._future.result()
            self._delete_old()
        target = self._directory / f"step-{step:08d}"
        future = self._checkpoint.async_save(state, checkpoint_id=target)
        self._future = future

        def wait() -> Done:
            future.result()
            complete = time.monotonic_ns()
            sync(target)
            sync(self._directory)
            return Done(complete, time.monotonic_ns())

        return wait

    def _delete_old(self) -> None:
        if self._keep:
            for name in list(self.candidates())[: -self._keep]:
                shutil.rmtree(self._directory / name)

    def close(self) -> None:
        if self._future is not None:
            self._future.result()
            self._delete_old()

    def candidates(self) -> dict[str, int]:
        found = named_steps(self._directory, "")
        return {
            name: step
            for name, step in found.items()
            if (self._directory / name / ".metadata").is_file()
        }

    def newest(self) -> str | None:
        return last(self.candidates())

    def load(self, name: str, template: State) -> State:
        self._checkpoint.load(template, checkpoint_id=self._directory / name)
        return template


class Tzmark:
    """tzmark.Checkpointer with its defaults."""

    background = True

    def __init__(self, directory: Path, keep: int) -> None:
        import tzmark

        self._directory = directory
        self._checkpointer = tzmark.Checkpointer(directory, keep_latest=keep)

    def save(self, state: State, step: int) -> Callable[[], Done]:
        self._checkpointer.save(state, step)

        def wait() -> Done:
            report = self._checkpointer.wait()
            complete = time.monotonic_ns()
            # Old checkpoints are verified and deleted after the new one is durable.
            return Done(complete, complete - report.retention_ns)

        return wait

    def close(self) -> None:
        self._checkpointer.close()

    def candidates(self) -> dict[str, int]:
        return named_steps(self._directory, "")

    def newest(self) -> str | None:
        latest = self._checkpointer.load_latest()
        return None if latest is None else os.path.basename(latest.directory)

    def load(self, name: str, template: State) -> State:
        step = named_steps(self._directory, "")[name]
        loaded: State = self._checkpointer.load(step).state_dict
        return loaded


SAVERS: dict[str, Callable[[Path, int], Saver]] = {
    "tzmark": Tzmark,
    "torch.save": TorchSave,
    "torch.save synced": TorchSaveSynced,
    "async_save": AsyncSave,
}


def unavailable(name: str) -> str:
    """Returns why this PyTorch lacks a saver; empty if it does not."""
    if name != "async_save":
        return ""
    try:
        from torch.distributed.checkpoint import async_save  # noqa: F401
    except ImportError:
        return f"PyTorch {torch.__version__} has no torch.distributed.checkpoint.async_save"
    return ""
