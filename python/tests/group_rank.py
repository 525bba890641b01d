"""One rank of a job that loads a file together, and prints as JSON what came of each load. group_test.py starts it.

usage: group_rank.py torch FILE STORE RANK SIZE | mpi FILE | slow FILE STORE RANK SIZE
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from typing import Any
from unittest import mock

import numpy as np
import tzmark


def digest(tensors: Any) -> str:
    """The SHA-256 of names and bytes."""
    hashed = hashlib.sha256()
    for name, tensor in tensors.items():
        hashed.update(repr(name).encode())
        hashed.update(np.asarray(tensor).tobytes())
    return hashed.hexdigest()


def outcome(file: str, group: Any, **options: Any) -> str:
    """Returns the digest of what is loaded, or the error."""
    try:
        return digest(tzmark.load_file(file, group=group, **options))
    except (tzmark.Error, TypeError) as error:
        return str(error)


def join(store: str, rank: int, size: int) -> Any:
    """Joins the ranks of torch.distributed, which meet at a file."""
    import torch.distributed as distributed

    distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=size
    )
    return distributed


def run_torch(file: str, store: str, rank: str, size: str) -> dict[str, str]:
    distributed = join(store, int(rank), int(size))
    world = distributed.group.WORLD
    result = {
        "gather": outcome(file, world),
        "broadcast": outcome(file, world, group_read="broadcast", framework="pt"),
    }
    # Its ranks are not those of the job.
    last_two = distributed.new_group([int(size) - 2, int(size) - 1])
    result["some"] = outcome(file, last_two)
    config = mock.patch.object(
        distributed, "get_backend_config", return_value="cuda:nccl", create=True
    )
    with config, mock.patch.object(distributed, "get_backend", return_value="nccl"):
        result["nccl"] = outcome(file, world)
    distributed.barrier()
    return result


def run_mpi(file: str) -> dict[str, str]:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    result = {
        "rank": str(world.Get_rank()),
        "gather": outcome(file, world),
        "broadcast": outcome(file, world, group_read="broadcast"),
    }
    # The ranks of the job in reverse order.
    reverse = world.Split(0, -world.Get_rank())
    result["reverse"] = outcome(file, reverse)
    with mock.patch.object(MPI, "Query_thread", return_value=MPI.THREAD_FUNNELED):
        result["threads"] = outcome(file, world)
    result["none"] = outcome(file, MPI.COMM_NULL)
    return result


class Slow:
    """A group whose calls take a tenth of a second each, as those of a slow network.

    The last rank is interrupted in one of them, as by Ctrl-C.
    """

    INTERRUPTED_CALL = 12

    def __init__(self, distributed: Any) -> None:
        import torch

        self.torch, self.distributed = torch, distributed
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()
        self.calls = 0

    def broadcast(self, buffer: memoryview, root: int) -> None:
        self.calls += 1
        if self.calls == self.INTERRUPTED_CALL and self.rank == self.size - 1:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        tensor = self.torch.frombuffer(buffer, dtype=self.torch.uint8)
        self.distributed.broadcast(tensor, src=root)


def run_slow(file: str, store: str, rank: str, size: str) -> dict[str, str]:
    distributed = join(store, int(rank), int(size))
    group = Slow(distributed)
    try:
        result = outcome(file, group)
    except KeyboardInterrupt:
        result = "KeyboardInterrupt"
    again = outcome(file, distributed.group.WORLD)
    return {"first": result, "calls": str(group.calls), "again": again}


if __name__ == "__main__":
    runs = {"torch": run_torch, "mpi": run_mpi, "slow": run_slow}
    # In one write, so that the lines of ranks do not mix.
    line = json.dumps(runs[sys.argv[1]](*sys.argv[2:])) + "\n"
    os.write(1, line.encode())
