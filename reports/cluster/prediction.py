"""The time until the last rank has its bytes, by pattern and number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cluster import exchange, flows
from cluster.measured import Costs
from cluster.network import READ, Cluster


@dataclass(frozen=True)
class Prediction:
    """The rate counts the bytes that all ranks get. bottleneck: of most of the time."""

    pattern: str
    ranks: int
    last_s: float
    rate_bytes_per_s: float
    bottleneck: str


def predict(pattern: str, cluster: Cluster, costs: Costs) -> Prediction:
    """Predicts a pattern for as many ranks as the cluster has; the exchanges need at least two."""
    limited = replace(cluster, rank_rate_bytes_per_s=costs.rate_bytes_per_s)
    if pattern in ("broadcast", "gather"):
        each_bytes = float(costs.unique_bytes)
        outcome = _exchanged(pattern, limited, costs)
    else:
        each_bytes = _bytes_of_rank(pattern, cluster.ranks, costs)
        readers = range(cluster.ranks)
        if costs.is_cached and pattern in ("same", "rotated"):
            # The others of the host find the bytes in its page cache.
            readers = readers[:: cluster.ranks_per_host]
        outcome = _read(limited, readers, each_bytes)
    last_s = costs.open_s + outcome.elapsed_s
    return Prediction(
        pattern,
        cluster.ranks,
        last_s,
        each_bytes * cluster.ranks / last_s,
        outcome.bottleneck,
    )


def _bytes_of_rank(pattern: str, ranks: int, costs: Costs) -> float:
    if pattern == "sharded":
        return costs.unique_bytes / ranks
    if pattern == "sliced":
        share = costs.replicated_share
        return costs.unique_bytes * (share + (1 - share) / ranks)
    return float(costs.unique_bytes)


def _read(
    cluster: Cluster, readers: Sequence[int], each_bytes: float
) -> exchange.Outcome:
    """All read the same number of bytes, so that those with the lowest rate end last."""
    of = cluster.classes(cluster.reads(readers))
    slowest = min(
        flows.max_min(of, {READ: 1}), key=lambda share: share.rate_bytes_per_s
    )
    return exchange.Outcome(each_bytes / slowest.rate_bytes_per_s, slowest.bottleneck)


def _exchanged(pattern: str, cluster: Cluster, costs: Costs) -> exchange.Outcome:
    reading = exchange.Reading(costs.depth, costs.transfer_bytes, costs.connections)
    if pattern == "broadcast":
        rounds = exchange.broadcast_rounds(cluster, costs.unique_bytes)
        return exchange.Exchange(cluster, reading, [0], rounds).run()
    rounds = exchange.gather_rounds(cluster, costs.unique_bytes)
    return exchange.Exchange(cluster, reading, range(cluster.ranks), rounds).run()
