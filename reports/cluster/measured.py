"""What was measured by tzmark bench cluster: the costs of one rank, and the times of more ranks to compare with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from common.outcomes import Json

# Those that read.
PATTERNS = ("same", "rotated", "broadcast", "gather", "sliced", "sharded")
# Where the result has no depth, calls block: GroupExchange has so many threads at most.
BLOCKING_DEPTH = 4


class Unusable(Exception):
    """A file that is no result of tzmark bench cluster, or lacks what a prediction needs."""


@dataclass(frozen=True)
class Measured:
    """One pattern with a number of ranks. bytes: that all ranks got."""

    pattern: str
    ranks: int
    hosts: int
    unique_bytes: int
    bytes: int
    last_s: float
    low_s: float
    high_s: float
    open_s: float
    block_bytes: int
    depth: int
    is_remote: bool
    # Whether ranks of a host find in its page cache what others have read.
    is_cached: bool


def read(paths: list[Path]) -> list[Measured]:
    """Returns what all files have. Throws Unusable and OSError."""
    found = []
    for path in paths:
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            results = [each for each in document["results"] if each.get("cluster")]
            found += [
                _of(result)
                for result in results
                if result["cluster"]["pattern"] in PATTERNS
            ]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unusable(f"{path}: no result of tzmark bench: {error!r}") from error
        if not results:
            raise Unusable(f"{path}: no result of tzmark bench cluster")
    return found


def _of(result: Json) -> Measured:
    cluster = result["cluster"]
    elapsed_s = [
        max(rank["elapsed_ns"] for rank in sample["ranks"]) / 1e9
        for sample in result["samples"]
    ]
    return Measured(
        pattern=cluster["pattern"],
        ranks=cluster["ranks"],
        hosts=cluster["hosts"],
        unique_bytes=cluster["unique_bytes"],
        bytes=result["bytes"],
        last_s=cluster["last_s"]["median"],
        low_s=min(elapsed_s),
        high_s=max(elapsed_s),
        open_s=cluster["open_s"]["median"],
        block_bytes=result["block_bytes"],
        depth=result["queue_depth"] or BLOCKING_DEPTH,
        is_remote=result["cache"] == "server",
        is_cached=result["cache"] in ("cold", "warm"),
    )


@dataclass(frozen=True)
class Costs:
    """Of one rank that reads. replicated_share: of the bytes of a model that every rank of `sliced` reads."""

    unique_bytes: int
    open_s: float
    rate_bytes_per_s: float
    transfer_bytes: int
    depth: int
    connections: int
    is_cached: bool
    replicated_share: float


def costs(measured: list[Measured], pattern: str) -> Costs:
    """Returns the costs of a pattern. One rank exchanges nothing, so that those patterns cost it what `same` does."""
    of_one = {each.pattern: each for each in measured if each.ranks == 1}
    one = of_one.get(pattern) or of_one.get("same")
    if one is None:
        raise Unusable(
            f"no file has a result of one rank with the pattern {pattern} or same"
        )
    if one.last_s <= one.open_s or one.bytes == 0:
        raise Unusable(f"{pattern}: one rank opened the file and read nothing")
    return Costs(
        unique_bytes=one.unique_bytes,
        open_s=one.open_s,
        rate_bytes_per_s=one.bytes / (one.last_s - one.open_s),
        transfer_bytes=one.block_bytes,
        depth=one.depth,
        # An HTTP connection for each transfer; a mounted file system has one for all.
        connections=one.depth if one.is_remote else 1,
        is_cached=one.is_cached,
        replicated_share=_replicated_share(measured),
    )


def _replicated_share(measured: list[Measured]) -> float:
    """Returns the share that N ranks of `sliced` read N times; 0 where only one rank was measured."""
    for each in measured:
        if each.pattern == "sliced" and each.ranks > 1:
            more = each.bytes / each.unique_bytes - 1
            return max(0.0, more / (each.ranks - 1))
    return 0.0
