"""Parts of tensors, of which only the bytes in the range of the indices are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._tensors import SAFETENSORS_NAMES

if TYPE_CHECKING:
    from ._reader import Reader


class Slice:
    """A tensor of which only the parts that are indexed are read: ``slice[2:4, :, 0]``.

    Indices are integers, slices with any step, ``...`` and ``None``. MACs of encrypted data are checked; hashes, which
    cover a whole tensor, are not.
    """

    def __init__(self, reader: Reader, number: int) -> None:
        self._reader = reader
        self._number = number
        self._info = reader._info(number)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor."""
        return self._info.shape

    def get_shape(self) -> list[int]:
        """Returns the shape of the whole tensor, as safetensors does."""
        return list(self._info.shape)

    def get_dtype(self) -> str:
        """Returns the dtype by safetensors' name, such as "F32"; one that it lacks by torch's."""
        name = self._info.dtype
        return (
            self._info.stored_dtype
            if name is None
            else SAFETENSORS_NAMES.get(name, name)
        )

    def __getitem__(self, index: Any) -> Any:
        ranges, then = _ranges(index, self._info.shape)
        begin, end = tuple(first for first, _ in ranges), tuple(
            last for _, last in ranges
        )
        reader = self._reader
        on_host = reader._gpu is None or reader._needs_host(self._number)
        (buffer,) = reader._file.read_slices(
            [(self._number, begin, end)],
            None if on_host else reader._gpu,
            reader._huge_pages,
            reader._progress,
        )
        tensor = reader._convert(self._info.name, buffer)
        if reader._framework == "pt":
            # torch has no negative steps.
            axis = 0
            for i, part in enumerate(then):
                if isinstance(part, slice) and part.step is not None and part.step < 0:
                    tensor = tensor.flip(axis)
                    then[i] = slice(None, None, -part.step)
                axis += part is not None
        is_done = all(part == slice(None) for part in then)
        return tensor if is_done else tensor[tuple(then)]


def _ranges(
    index: Any, shape: tuple[int, ...]
) -> tuple[list[tuple[int, int]], list[Any]]:
    """Returns the range of each dimension that an index needs, and the index to apply to what is in the ranges."""
    parts = list(index) if isinstance(index, tuple) else [index]
    used = sum(part is not None and part is not Ellipsis for part in parts)
    dots = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > len(shape):
        raise IndexError(
            f"too many indices: the tensor has {len(shape)} dimensions, but {used} were indexed"
        )
    at = dots[0] if dots else len(parts)
    parts[at : at + len(dots)] = [slice(None)] * (len(shape) - used)
    ranges: list[tuple[int, int]] = []
    then: list[Any] = []
    for part in parts:
        if part is None:
            then.append(None)
            continue
        size = shape[len(ranges)]
        if isinstance(part, slice):
            chosen = range(*part.indices(size))
            if len(chosen) == 0:
                ranges.append((0, 0))
                then.append(slice(None))
            else:
                ranges.append(
                    (min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1]) + 1)
                )
                then.append(
                    slice(None, None, chosen.step if chosen.step != 1 else None)
                )
        elif isinstance(part, bool) or not hasattr(part, "__index__"):
            raise TypeError("an index is an int, a slice, ... or None")
        else:
            number = part.__index__()
            if not -size <= number < size:
                raise IndexError(
                    f"index {number} is out of bounds for a dimension of size {size}"
                )
            number %= size
            ranges.append((number, number + 1))
            then.append(0)
    return ranges, then
