"""Groups of processes that load a file together: of torch.distributed, of mpi4py, or of any other communication."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Union

from ._errors import UsageError

# Of the module: rank, size, and the functions that it calls with memory.
Functions = tuple[
    int,
    int,
    Callable[[memoryview, int], object],
    Union[Callable[[memoryview], object], None],
]


class Group(Protocol):
    """The processes that load a file together, as ``load_file(group=)`` takes them from any communication.

    A group may also have ``all_gather(buffer)``: the buffer consists of ``size`` parts of equal length in the order of
    the ranks, of which that of this rank is filled, and all ranks get all parts. Without it, every rank broadcasts its
    part in turn, which takes longer the more ranks there are.

    Both are called from a thread of their own, in the same order on every rank, with writable memory that is theirs
    only until they return. They block until the memory is filled and may be changed, and raise if that fails, for
    instance because a process died. No other communication of the group may run meanwhile.
    """

    @property
    def rank(self) -> int:
        """The number of this process, below ``size``."""

    @property
    def size(self) -> int:
        """How many processes the group has."""

    def broadcast(self, buffer: memoryview, root: int, /) -> object:
        """Copies the buffer of the rank ``root`` to the buffers of all ranks, which have the same length."""


@dataclass(frozen=True)
class _Collectives:
    rank: int
    size: int
    broadcast: Callable[[memoryview, int], object]
    all_gather: Callable[[memoryview], object] | None


def functions_of(group: object) -> Functions:
    """Returns what the module needs of a group. Raises TypeError or UsageError for what cannot communicate."""
    collectives = _of_torch(group) or _of_mpi(group) or _of_object(group)
    size, rank = collectives.size, collectives.rank
    if not 0 <= rank < size:
        raise UsageError(f"a group of {size} processes has no rank {rank}")
    gather = collectives.all_gather
    return (
        rank,
        size,
        _lending(collectives.broadcast),
        None if gather is None else _lending(gather),
    )


def _lending(collective: Callable[..., object]) -> Callable[..., object]:
    """Returns a function that takes the memory back when the collective ends, because it will be freed."""

    def lend(buffer: memoryview, *root: int) -> None:
        try:
            collective(buffer, *root)
        except BaseException as error:
            # Its frames have views of the memory, which debuggers would read.
            traceback.clear_frames(error.__traceback__)
            raise
        finally:
            buffer.release()

    return lend


def _of_object(group: Any) -> _Collectives:
    rank, size = getattr(group, "rank", None), getattr(group, "size", None)
    broadcast = getattr(group, "broadcast", None)
    if (
        not isinstance(rank, int)
        or not isinstance(size, int)
        or not callable(broadcast)
    ):
        raise TypeError(
            "group is a process group of torch.distributed, a communicator of mpi4py, or an object with rank, size and "
            f"broadcast(buffer, root), not {group!r:.80}"
        )
    return _Collectives(rank, size, broadcast, getattr(group, "all_gather", None))


def _of_torch(group: object) -> _Collectives | None:
    """A process group of torch.distributed, whose backend must move host memory."""
    # It is imported where a group of it exists; a build of torch may lack the class.
    torch: Any = sys.modules.get("torch")
    distributed: Any = sys.modules.get("torch.distributed")
    kind = getattr(distributed, "ProcessGroup", None)
    if kind is None:
        return None
    if group is distributed.GroupMember.NON_GROUP_MEMBER:
        raise UsageError("this process is not a member of the group")
    if not isinstance(group, kind):
        return None
    if _backend_of_host_memory(distributed, group) in ("", "nccl"):
        raise UsageError(
            f"the group's backend is {distributed.get_backend(group)}, which does not move host memory: pass "
            'torch.distributed.new_group(backend="gloo")'
        )
    rank, size = distributed.get_rank(group), distributed.get_world_size(group)
    global_ranks = [distributed.get_global_rank(group, i) for i in range(size)]

    def broadcast(buffer: memoryview, root: int) -> None:
        tensor = torch.frombuffer(buffer, dtype=torch.uint8)
        distributed.broadcast(tensor, src=global_ranks[root], group=group)

    # The form with one tensor for all parts is missing in gloo of older releases.
    def all_gather(buffer: memoryview) -> None:
        parts = list(torch.frombuffer(buffer, dtype=torch.uint8).view(size, -1))
        distributed.all_gather(parts, parts[rank], group=group)

    return _Collectives(rank, size, broadcast, all_gather)


def _backend_of_host_memory(distributed: Any, group: object) -> str:
    """The name of the backend by which a group moves tensors of the CPU; empty without one."""
    if not hasattr(distributed, "get_backend_config"):
        return str(distributed.get_backend(group))
    # "cpu:gloo,cuda:nccl"
    pairs = (x.partition(":") for x in distributed.get_backend_config(group).split(","))
    return next((backend for device, _, backend in pairs if device == "cpu"), "")


def _of_mpi(group: Any) -> _Collectives | None:
    """A communicator of mpi4py."""
    mpi: Any = sys.modules.get("mpi4py.MPI")
    if mpi is None or not isinstance(group, mpi.Comm):
        return None
    if group == mpi.COMM_NULL:
        raise UsageError("this process is not a member of the communicator")
    if group.Is_inter():
        raise UsageError("a group has no inter-communicator: merge it")
    if mpi.Query_thread() < mpi.THREAD_SERIALIZED:
        raise UsageError(
            "MPI was initialized for calls of the main thread only, and a group calls it from another one: set "
            'mpi4py.rc.thread_level = "serialized" before mpi4py.MPI is imported'
        )

    def broadcast(buffer: memoryview, root: int) -> None:
        group.Bcast([buffer, mpi.BYTE], root)

    def all_gather(buffer: memoryview) -> None:
        group.Allgather(mpi.IN_PLACE, [buffer, mpi.BYTE])

    return _Collectives(group.Get_rank(), group.Get_size(), broadcast, all_gather)
