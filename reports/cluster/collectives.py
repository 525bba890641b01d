"""Which rank sends what to which in a collective call: by ourselves, or as OpenMPI 4.1 chooses over TCP.

A call is a sequence of steps. In a step, the same number of bytes goes from each sender to each receiver at the same
time, and the next step begins when all of them have arrived: a rank forwards what it received, so that the last message
decides after at most as many steps as there are binary digits in the number of ranks.

Parts of some size go around in a ring (bench/cluster/mpi_ranks.cc). Two facts about OpenMPI 4.1 decide the time of the
others, and of two ranks:

- MPI_Allgather in place passes 0 as the bytes of a part on to the choice of the algorithm, which then takes the one for
  tiny messages: recursive doubling where the number of ranks is a power of two, else Bruck's.
- Over TCP, two ranks have one connection. A message of more than 64 KiB is announced, and sent when the receiver asks
  for it; that request waits in the connection for the data that goes the same way. Two ranks that exchange long
  messages with each other so send one after the other, although the link could carry both at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

EAGER_BYTES = 64 << 10
# cluster/mpi_ranks.cc: parts of at least this are scattered to be broadcast, and gathered in a ring.
PART_BYTES_MIN = 64 << 10
RADIX = 4  # of the tree of the k-nomial broadcast


@dataclass(frozen=True, eq=False)
class Pairs:
    """Senders and their receivers. Made once for each number of ranks, and compared by identity."""

    ranks: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Step:
    """Messages of equal size that are under way at the same time. times: so many such steps follow each other."""

    pairs: Pairs
    size_bytes: int
    times: int = 1


def broadcast(ranks: int, size_bytes: int, takes_turns: bool) -> Iterator[Step]:
    """Yields the steps of MpiRanks::broadcast from rank 0. takes_turns: as over TCP; see above."""
    part_bytes = size_bytes // ranks
    if ranks >= 3 and part_bytes >= PART_BYTES_MIN:
        yield Step(_to_all(ranks), part_bytes)
        yield from allgather(ranks, part_bytes, takes_turns)
    elif ranks <= 3 or (ranks < 16 and size_bytes >= 1 << 15):
        yield Step(_to_all(ranks), size_bytes)
    elif ranks >= 1024 and size_bytes >= 1 << 19:
        yield from _scatter_tree(ranks, size_bytes)
        yield from _gathered(ranks, part_bytes, takes_turns, _is_power_of_two(ranks))
    else:
        radix = RADIX if ranks >= 32 else 2
        yield from (Step(pairs, size_bytes) for pairs in _tree(ranks, radix))


def allgather(ranks: int, part_bytes: int, takes_turns: bool) -> Iterator[Step]:
    """Returns the steps of MpiRanks::all_gather."""
    if part_bytes >= PART_BYTES_MIN:
        if ranks == 2:
            return _exchange(ranks, 1, part_bytes, takes_turns)
        return iter([Step(_to_next(ranks), part_bytes, ranks - 1)])
    # From 2,048 ranks on, and below 4,096, Bruck's algorithm is the one for tiny messages.
    doubles = _is_power_of_two(ranks) and not 2048 <= ranks < 4096
    return _gathered(ranks, part_bytes, takes_turns, doubles)


def _gathered(
    ranks: int, part_bytes: int, takes_turns: bool, doubles: bool
) -> Iterator[Step]:
    distance = 1
    while distance < ranks:
        if doubles:
            yield from _exchange(ranks, distance, distance * part_bytes, takes_turns)
        else:
            blocks = min(distance, ranks - distance)
            yield Step(_shifted(ranks, distance), blocks * part_bytes)
        distance *= 2


def _is_power_of_two(ranks: int) -> bool:
    return ranks & (ranks - 1) == 0


def _exchange(
    ranks: int, distance: int, size_bytes: int, takes_turns: bool
) -> Iterator[Step]:
    """Yields what ranks at a distance do that swap their blocks."""
    both = _swapped(ranks, distance)
    if not takes_turns or size_bytes <= EAGER_BYTES:
        yield Step(both, size_bytes)
        return
    yield Step(both, EAGER_BYTES)
    for turn in (0, 1):
        yield Step(_one_way(ranks, distance, turn), size_bytes - EAGER_BYTES)


@cache
def _to_all(ranks: int) -> Pairs:
    return Pairs(tuple((0, rank) for rank in range(1, ranks)))


@cache
def _to_next(ranks: int) -> Pairs:
    return Pairs(tuple((rank, (rank + 1) % ranks) for rank in range(ranks)))


@cache
def _swapped(ranks: int, distance: int) -> Pairs:
    return Pairs(tuple((rank, rank ^ distance) for rank in range(ranks)))


@cache
def _one_way(ranks: int, distance: int, turn: int) -> Pairs:
    """Returns one direction of each pair. The ranks of a host end the step before together, so that in all of its pairs
    the same side is first."""
    return Pairs(
        tuple(
            (rank, other)
            for rank, other in _swapped(ranks, distance).ranks
            if (rank > other) == turn
        )
    )


@cache
def _shifted(ranks: int, distance: int) -> Pairs:
    return Pairs(tuple((rank, (rank - distance) % ranks) for rank in range(ranks)))


@cache
def _tree(ranks: int, radix: int) -> tuple[Pairs, ...]:
    """Returns the edges of a k-nomial tree from rank 0, by the depth of the parent."""
    depth, edges = {0: 0}, dict[int, list[tuple[int, int]]]()
    for rank in range(1, ranks):
        stride = radix
        while rank % stride == 0:
            stride *= radix
        parent = rank - rank % stride
        depth[rank] = depth[parent] + 1
        edges.setdefault(depth[parent], []).append((parent, rank))
    return tuple(Pairs(tuple(edges[level])) for level in sorted(edges))


def _scatter_tree(ranks: int, size_bytes: int) -> Iterator[Step]:
    """Yields the steps of a binomial scatter: a rank passes on the half of what it has."""
    distance = 1 << (ranks - 1).bit_length() - 1
    while distance >= 1:
        pairs = _halves(ranks, distance)
        yield Step(pairs, size_bytes * distance // ranks)
        distance //= 2


@cache
def _halves(ranks: int, distance: int) -> Pairs:
    return Pairs(
        tuple(
            (rank, rank + distance) for rank in range(0, ranks - distance, 2 * distance)
        )
    )
