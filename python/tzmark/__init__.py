"""Model files in Python: .tensors and safetensors, read without copies, verified, encrypted and checkpointed.

    >>> import numpy as np, tzmark
    >>> tzmark.save_file({"w": np.arange(6, dtype="f4").reshape(2, 3)}, "model.tensors")
    >>> with tzmark.open("model.tensors") as model:
    ...     model["w"].sum()
    15.0

docs/python.md is a guide of ten minutes. Every failure is a ``tzmark.Error`` with ``rule``, ``offset`` and ``file``.
"""

from __future__ import annotations

from . import _tzmark
from ._checkpoint import Checkpoint, Checkpointer, CheckpointInfo
from ._errors import (
    EnvironmentFailure,
    Error,
    FormatError,
    MissingFileError,
    TensorNotFoundError,
    UnavailableError,
    UsageError,
)
from ._group import Group
from ._late import LateTensors
from ._nvidia import use_cufile_of_wheel
from ._reader import (
    FileInfo,
    Reader,
    TensorInfo,
    inspect,
    load,
    load_file,
    open,
    safe_open,
    verify,
    warm_up,
)
from ._save import convert, save, save_file
from ._slice import Slice
from ._tzmark import Buffer, __version__, version_text

use_cufile_of_wheel()


def io_paths() -> dict[str, str]:
    """Returns the I/O paths: the name of each, and why this machine lacks it, or an empty string if it does not."""
    return {name: reason for name, _, reason in _tzmark.io_paths()}


def rules() -> dict[str, str]:
    """Returns the text of every rule by its id, as in ``Error.rule``."""
    return {rule: text for _, rule, text in _tzmark.rules()}


__all__ = [
    "Buffer",
    "Checkpoint",
    "CheckpointInfo",
    "Checkpointer",
    "EnvironmentFailure",
    "Error",
    "FileInfo",
    "FormatError",
    "Group",
    "LateTensors",
    "MissingFileError",
    "Reader",
    "Slice",
    "TensorInfo",
    "TensorNotFoundError",
    "UnavailableError",
    "UsageError",
    "__version__",
    "convert",
    "inspect",
    "io_paths",
    "load",
    "load_file",
    "open",
    "rules",
    "safe_open",
    "save",
    "save_file",
    "verify",
    "version_text",
    "warm_up",
]
