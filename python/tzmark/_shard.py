"""The part of each tensor that one rank of a tensor-parallel model reads."""

from __future__ import annotations

import fnmatch
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from ._errors import UsageError

if TYPE_CHECKING:
    from ._reader import TensorInfo

    # Of the module: a tensor's number, and the first and the last index of each dimension; None for a whole tensor.
    Range = tuple[int, Union[tuple[int, ...], None], Union[tuple[int, ...], None]]


def ranges(shard: Any, infos: Sequence[TensorInfo]) -> list[Range]:
    """Returns what a rank reads of each tensor.

    shard: the rank, how many ranks there are, and a mapping from patterns of names to the dimension that is divided
    among them, or None.
    """
    rank, world, dimensions = _checked(shard)
    unused = set(dimensions)
    result: list[Range] = []
    for number, info in enumerate(infos):
        name = (
            info.name if isinstance(info.name, str) else ".".join(map(str, info.name))
        )
        pattern = next((p for p in dimensions if fnmatch.fnmatchcase(name, p)), None)
        dimension = None
        if pattern is not None:
            dimension = dimensions[pattern]
            unused.discard(pattern)
        if dimension is None:
            result.append((number, None, None))
            continue
        begin, end = _part(info, dimension, rank, world)
        result.append((number, begin, end))
    if unused:
        # A misspelt one would read every tensor whole on each rank.
        names = ", ".join(sorted(map(repr, unused)))
        raise UsageError(f"no tensor is the first to match the pattern {names}")
    return result


def _checked(shard: Any) -> tuple[int, int, Mapping[str, int | None]]:
    wanted = "shard is (rank, world, {pattern: dimension})"
    if not isinstance(shard, (tuple, list)) or len(shard) != 3:
        raise TypeError(f"{wanted}, not {shard!r:.80}")
    rank, world = _integer(shard[0]), _integer(shard[1])
    if rank is None or world is None or not isinstance(shard[2], Mapping):
        raise TypeError(f"{wanted}, not {shard!r:.80}")
    if not 0 <= rank < world:
        raise UsageError(f"there is no rank {rank} of {world}")
    dimensions: dict[str, int | None] = {}
    for pattern, given in shard[2].items():
        dimension = _integer(given)
        if not isinstance(pattern, str) or (dimension is None and given is not None):
            raise TypeError(
                f"{wanted}: {pattern!r:.80} and {given!r:.80} are no name and number"
            )
        dimensions[pattern] = dimension
    return rank, world, dimensions


def _integer(value: Any) -> int | None:
    """An integer of any library as an int; None for anything else, also for a bool, which is a mistake here."""
    try:
        return None if isinstance(value, bool) else int(operator.index(value))
    except TypeError:
        return None


def _part(
    info: TensorInfo, dimension: int, rank: int, world: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    count = len(info.shape)
    if not -count <= dimension < count:
        raise UsageError(
            f"{info.name!r} has no dimension {dimension}: its shape is {list(info.shape)}"
        )
    dimension %= count
    size = info.shape[dimension]
    # Frameworks round differently: a part of another size than they expect would be worse.
    if size % world:
        raise UsageError(
            f"dimension {dimension} of {info.name!r} is {size}, which {world} ranks cannot divide evenly"
        )
    begin, end = [0] * count, list(info.shape)
    begin[dimension], end[dimension] = size // world * rank, size // world * (rank + 1)
    return tuple(begin), tuple(end)
