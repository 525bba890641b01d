"""A group of threads in place of processes, whose collective calls may fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Union

# No call takes as long; a test that would hang fails instead.
LIMIT_S = 60


class ThreadsGroup:
    """What the ranks share. A rank whose call raises breaks the group for all."""

    def __init__(self, size: int, gathers: bool = True) -> None:
        self.size = size
        self.calls: list[str] = []  # of rank 0
        kind = GatheringRank if gathers else Rank
        self.ranks = [kind(self, rank) for rank in range(size)]
        self._barrier = threading.Barrier(size)
        self._buffers: dict[int, memoryview] = {}

    def run(self, action: Callable[[Rank], Any]) -> list[Any]:
        """Calls the action for each rank in a thread of its own, and returns its results, or what it raised."""
        results: list[Any] = [TimeoutError(f"no result within {LIMIT_S} s")] * self.size

        def run_rank(rank: Rank) -> None:
            try:
                results[rank.rank] = action(rank)
            except BaseException as error:
                results[rank.rank] = error

        threads = [
            threading.Thread(target=run_rank, args=(rank,), daemon=True)
            for rank in self.ranks
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
        return results

    def exchange(
        self, rank: int, name: str, buffer: memoryview, copy: Callable[[], None]
    ) -> None:
        """Meets the other ranks, copies what they have, and meets them again."""
        if rank == 0:
            self.calls.append(name)
        self._buffers[rank] = buffer
        self._barrier.wait(LIMIT_S)
        copy()
        self._barrier.wait(LIMIT_S)

    def of(self, rank: int) -> memoryview:
        return self._buffers[rank]

    def break_up(self) -> None:
        self._barrier.abort()


class Rank:
    """One of the threads: what tzmark.Group describes."""

    def __init__(self, group: ThreadsGroup, rank: int) -> None:
        self.group, self.rank, self.size = group, rank, group.size
        # The call, from 0, that raises what is given.
        self.fails_at: Union[tuple[int, BaseException], None] = None
        self.count = 0

    def broadcast(self, buffer: memoryview, root: int) -> None:
        def copy() -> None:
            if root != self.rank:
                buffer[:] = self.group.of(root)

        self._call("broadcast", buffer, copy)

    def _call(self, name: str, buffer: memoryview, copy: Callable[[], None]) -> None:
        number, self.count = self.count, self.count + 1
        if self.fails_at is not None and number == self.fails_at[0]:
            self.group.break_up()
            raise self.fails_at[1]
        self.group.exchange(self.rank, name, buffer, copy)


class GatheringRank(Rank):
    def all_gather(self, buffer: memoryview) -> None:
        part = len(buffer) // self.size

        def copy() -> None:
            for rank in set(range(self.size)) - {self.rank}:
                place = slice(rank * part, (rank + 1) * part)
                buffer[place] = self.group.of(rank)[place]

        self._call("all_gather", buffer, copy)
