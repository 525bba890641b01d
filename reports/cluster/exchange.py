"""How long ranks take that read a file together: reading goes on while chunks are exchanged.

It is simulated from one event to the next: a transfer from storage ends, or a step of the collective call. In between,
all rates are constant. A rank keeps a number of transfers in flight, which share what the rank gets, and the exchange
of a round waits until its chunks were read. Ranks that read do the same at the same time, so that one stands for all.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cluster import collectives, flows
from cluster.collectives import EAGER_BYTES, Pairs, Step
from cluster.flows import Share
from cluster.network import READ, SEND, Cluster

# codec/group_exchange.cc and tzmark/group.h: the defaults of GroupReadOptions, and what follows a chunk.
CHUNK_BYTES = 8 << 20
MEMORY_BYTES = 256 << 20
GATHERED_BYTES_MIN = 128 << 10
ROUNDS_WANTED = 8
PAGE_BYTES = 4096
REPORT_BYTES = 1024

# A request and an answer come before the bytes of a long message.
LONG_MESSAGE_LATENCIES = 3
BYTES_LEFT = 1e-3  # less is a rounding error
NONE = Pairs(())


@dataclass(frozen=True)
class Reading:
    """How a rank reads. connections: over which its transfers come, at most as many as are in flight."""

    depth: int
    transfer_bytes: int
    connections: int


@dataclass(frozen=True)
class Round:
    """What is exchanged together. read_bytes: of the chunk that a reader reads for it. memory_bytes: of all chunks."""

    read_bytes: int
    memory_bytes: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Outcome:
    elapsed_s: float
    bottleneck: str


def broadcast_rounds(cluster: Cluster, file_bytes: int) -> list[Round]:
    """Returns a round for each chunk, which rank 0 reads."""
    return [
        Round(size_bytes, CHUNK_BYTES + PAGE_BYTES, steps)
        for size_bytes, steps in _broadcasts(cluster, file_bytes, CHUNK_BYTES)
    ]


def gather_chunk_bytes(file_bytes: int, ranks: int) -> int:
    """Returns what GroupExchange::chunk_bytes_for does."""
    share_bytes = file_bytes // (ROUNDS_WANTED * ranks)
    wanted_bytes = max(
        GATHERED_BYTES_MIN, min(share_bytes, MEMORY_BYTES // (2 * ranks))
    )
    return min(CHUNK_BYTES, wanted_bytes // PAGE_BYTES * PAGE_BYTES)


def gather_rounds(cluster: Cluster, file_bytes: int) -> list[Round]:
    """Returns the rounds in which each rank sends a chunk to all. The chunks of the last one are broadcast, unless each
    rank has one, of which the last may be shorter."""
    chunk_bytes = gather_chunk_bytes(file_bytes, cluster.ranks)
    part_bytes = chunk_bytes + PAGE_BYTES
    steps = collectives.allgather(cluster.ranks, part_bytes, cluster.takes_turns)
    memory_bytes = cluster.ranks * part_bytes
    gathered = Round(chunk_bytes, memory_bytes, tuple(steps))
    whole, rest_bytes = divmod(file_bytes, chunk_bytes * cluster.ranks)
    rounds = [gathered] * whole
    if rest_bytes > chunk_bytes * (cluster.ranks - 1):
        rounds.append(gathered)
    elif rest_bytes > 0:
        # All links of hosts are equal, so that any root takes as long as rank 0.
        one_by_one = _broadcasts(cluster, rest_bytes, chunk_bytes)
        joined = tuple(step for _, steps in one_by_one for step in steps)
        rounds.append(Round(min(rest_bytes, chunk_bytes), memory_bytes, joined))
    return rounds


def _broadcasts(
    cluster: Cluster, total_bytes: int, chunk_bytes: int
) -> Iterator[tuple[int, tuple[Step, ...]]]:
    """Yields the size of each chunk, and the steps of its broadcast with the report after it."""
    whole, rest_bytes = divmod(total_bytes, chunk_bytes)
    for size_bytes, count in ((chunk_bytes, whole), (rest_bytes, rest_bytes > 0)):
        steps = collectives.broadcast(
            cluster.ranks, size_bytes + REPORT_BYTES, cluster.takes_turns
        )
        yield from itertools.repeat((size_bytes, tuple(steps)), int(count))


class Exchange:
    """Simulates one run. A round is exchanged as soon as its chunks were read and the one before was exchanged."""

    def __init__(
        self,
        cluster: Cluster,
        reading: Reading,
        readers: Sequence[int],
        rounds: Sequence[Round],
    ) -> None:
        self._cluster = cluster
        self._reading = reading
        self._reads = cluster.reads(readers)
        self._rounds = rounds
        # Rounds that the memory of a rank has room for.
        self._places = max(2, MEMORY_BYTES // rounds[0].memory_bytes)
        self._ahead = deque(self._transfers())
        self._unread = Counter(number for number, _ in self._ahead)
        self._in_flight: list[tuple[int, float]] = []
        self._elapsed_s = 0.0
        self._limited_s: defaultdict[str, float] = defaultdict(float)
        self._classes: dict[Pairs, flows.Classes] = {}
        self._rates: dict[tuple[Pairs, int], tuple[Share, Share]] = {}

    def run(self) -> Outcome:
        for number, each in enumerate(self._rounds):
            self._start_transfers(number)
            while self._unread[number] > 0:
                self._pass(NONE, math.inf)
                self._start_transfers(number)
            for step in each.steps:
                self._carry_out(step, number)
        longest = max(self._limited_s, key=lambda name: self._limited_s[name])
        return Outcome(self._elapsed_s, longest)

    def _transfers(self) -> Iterator[tuple[int, float]]:
        for number, each in enumerate(self._rounds):
            for at in range(0, each.read_bytes, self._reading.transfer_bytes):
                yield number, min(self._reading.transfer_bytes, each.read_bytes - at)

    def _start_transfers(self, exchanged: int) -> None:
        while (
            self._ahead
            and len(self._in_flight) < self._reading.depth
            and self._ahead[0][0] < exchanged + self._places
        ):
            self._in_flight.append(self._ahead.popleft())

    def _carry_out(self, step: Step, number: int) -> None:
        if SEND not in self._classes_of(step.pairs).kinds:
            return  # within the memory of each host
        is_long = step.size_bytes > EAGER_BYTES
        latencies = step.times * (LONG_MESSAGE_LATENCIES if is_long else 1)
        latency_s = self._cluster.latency_s * latencies
        while latency_s > 0:
            latency_s -= self._pass(NONE, latency_s)
            self._start_transfers(number)
        left_bytes = float(step.times * step.size_bytes)
        while left_bytes > BYTES_LEFT:
            rate = self._shares(step.pairs)[1].rate_bytes_per_s
            left_bytes -= rate * self._pass(step.pairs, left_bytes / rate)
            self._start_transfers(number)

    def _pass(self, pairs: Pairs, limit_s: float) -> float:
        """Lets time pass until the next transfer ends, or up to the limit; returns how much. pairs: that send."""
        read, send = self._shares(pairs)
        rate = read.rate_bytes_per_s / max(1, len(self._in_flight))
        ends_s = (left_bytes / rate for _, left_bytes in self._in_flight)
        duration_s = min(limit_s, *ends_s) if self._in_flight else limit_s
        self._elapsed_s += duration_s
        self._limited_s[(send if pairs.ranks else read).bottleneck] += duration_s
        still = []
        for number, left_bytes in self._in_flight:
            still_bytes = left_bytes - duration_s * rate
            if still_bytes > BYTES_LEFT:
                still.append((number, still_bytes))
            else:
                self._unread[number] -= 1
        self._in_flight = still
        return duration_s

    def _shares(self, pairs: Pairs) -> tuple[Share, Share]:
        """Returns what a rank reads and what a message gets, while the transfers of now are in flight."""
        connections = min(len(self._in_flight), self._reading.connections)
        key = pairs, connections
        if key not in self._rates:
            self._rates[key] = _summed_up(self._classes_of(pairs), connections)
        return self._rates[key]

    def _classes_of(self, pairs: Pairs) -> flows.Classes:
        if pairs not in self._classes:
            sends = self._cluster.sends(pairs)
            self._classes[pairs] = self._cluster.classes(self._reads + sends)
        return self._classes[pairs]


def _summed_up(of: flows.Classes, connections: int) -> tuple[Share, Share]:
    """Returns the mean of the reads and the slowest of the sends. Where ranks take turns, reads of half of them are
    slow in one step, and those of the others in the next."""
    shares = flows.max_min(of, {READ: connections, SEND: 1})
    reads = [n for n, kind in enumerate(of.kinds) if kind == READ]
    total = sum(of.counts[n] * shares[n].rate_bytes_per_s for n in reads)
    slowest = min(
        (shares[n] for n, kind in enumerate(of.kinds) if kind == SEND),
        key=lambda share: share.rate_bytes_per_s,
        default=Share(0.0, "latency"),
    )
    count = sum(of.counts[n] for n in reads)
    return Share(total / count, shares[reads[0]].bottleneck or "latency"), slowest
