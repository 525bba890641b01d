"""Writing model files: tzmark.save_file, save and convert."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _tzmark
from ._errors import UsageError
from ._reader import (
    Name,
    Progress,
    is_safetensors_name,
    key_bytes,
    open,
    passphrase_bytes,
    require_text,
    whole_number,
)
from ._tensors import describe

if TYPE_CHECKING:
    from ._reader import Path

_CHUNK_BYTES = 2 << 20
_OPSLIMIT = 3
_MEMLIMIT = 256 << 20


def _format_is_safetensors(format: str | None, name: bytes | None) -> bool:
    if format is None:
        return name is not None and is_safetensors_name(name)
    if format not in ("tensors", "safetensors"):
        raise UsageError(f'the format is "tensors" or "safetensors", not {format!r}')
    return format == "safetensors"


def strings(metadata: Any) -> dict[str, str]:
    """Returns metadata as a dict. Raises TypeError for anything but strings by string."""
    try:
        entries: dict[str, str] = dict(metadata or {})
    except (TypeError, ValueError):
        raise TypeError(
            f"metadata is {metadata!r:.80}, not a mapping from strings to strings"
        ) from None
    for key, value in entries.items():
        if not isinstance(key, str):
            raise TypeError(
                f"metadata has the key {key!r:.80}, which is not a string: use str(key)"
            )
        if not isinstance(value, str):
            raise TypeError(
                f"metadata[{key!r}] is {value!r:.80}, not a string: use str(value), or json.dumps(value)"
            )
    return entries


def _options(
    metadata: Mapping[str, str] | None,
    layout: str | None,
    crc32: bool,
    sha256: bool,
    key: bytes | str | None,
    passphrase: bytes | str | None,
    io: str,
    threads: int,
    replace: bool,
    shard_bytes: int | None,
    require_durable: bool = False,
) -> dict[str, Any]:
    require_text(io=io)
    if layout is not None:
        require_text(layout=layout)
    if not io:
        raise UsageError("the I/O path is empty")
    if shard_bytes is not None and whole_number("shard_bytes", shard_bytes) == 0:
        raise UsageError("a shard has at least 1 byte")
    return {
        "metadata": strings(metadata),
        "layout": layout,
        "crc32": crc32,
        "sha256": sha256,
        "key": key_bytes(key),
        "passphrase": passphrase_bytes(passphrase),
        "chunk_bytes": _CHUNK_BYTES,
        "opslimit": _OPSLIMIT,
        "memlimit": _MEMLIMIT,
        "io": io,
        "threads": threads,
        "replace": replace,
        "shard_bytes": shard_bytes or 0,
        "require_durable": require_durable,
    }


def _warn_unless_durable(name: bytes, reason: bytes | str | None) -> None:
    if isinstance(reason, str):
        warnings.warn(f"{os.fsdecode(name)}: complete, but {reason}", stacklevel=3)


def save_file(
    tensors: Mapping[Any, Any],
    filename: Path,
    metadata: Mapping[str, str] | None = None,
    *,
    format: str | None = None,
    layout: str | None = None,
    crc32: bool = True,
    sha256: bool = True,
    key: bytes | str | None = None,
    passphrase: bytes | str | None = None,
    io: str = "auto",
    threads: int = 0,
    replace: bool = True,
    shard_bytes: int | None = None,
    kind: str = "state_dict",
    require_durable: bool = False,
    progress: Progress | None = None,
) -> None:
    """Writes tensors to a file: safetensors if its name ends in .safetensors, otherwise .tensors.

    tensors: numpy arrays, torch tensors or arrays with DLPack, by name; a tuple of strings and integers is a structured
    name. Data that is not contiguous in host memory is copied first.
    metadata: strings by string, for safetensors; a .tensors file has none, and accepts only {"format": "pt"}, which its
    types imply. shard_bytes: the most data in bytes of each file of a sharded
    safetensors model. layout: of a .tensors file; None is the lowest that can hold the content. crc32, sha256: the
    hashes that a .tensors file stores. key or passphrase: encrypts, see ``tzmark.open``. replace: False refuses to
    replace a file. kind: "parameter", "buffer" or "state_dict". progress: see ``tzmark.open``.

    The file appears under its name complete and synced, or not at all. On a file system without fsync of directories
    the name cannot be made durable: a warning says so, or with require_durable UnavailableError is raised before
    anything is written. Raises UsageError for what the format cannot
    hold, EnvironmentFailure if writing fails.
    """
    name = os.fsencode(filename)
    if not name:
        raise UsageError("the file name is empty")
    options = _options(
        metadata,
        layout,
        crc32,
        sha256,
        key,
        passphrase,
        io,
        threads,
        replace,
        shard_bytes,
        require_durable,
    )
    require_text(kind=kind)
    rows, alive = describe(tensors, kind)
    reason = _tzmark.write(
        name, rows, _format_is_safetensors(format, name), options, progress
    )
    _warn_unless_durable(name, reason)
    del alive


def save(
    tensors: Mapping[Any, Any],
    metadata: Mapping[str, str] | None = None,
    *,
    format: str = "safetensors",
    layout: str | None = None,
    crc32: bool = True,
    sha256: bool = True,
    key: bytes | str | None = None,
    passphrase: bytes | str | None = None,
    kind: str = "state_dict",
) -> bytes:
    """Returns the bytes of the file that ``save_file`` would write; of the format "safetensors" or "tensors"."""
    options = _options(
        metadata, layout, crc32, sha256, key, passphrase, "auto", 0, True, None
    )
    require_text(kind=kind)
    rows, alive = describe(tensors, kind)
    result = _tzmark.write(
        None, rows, _format_is_safetensors(format, None), options, None
    )
    del alive
    assert isinstance(result, bytes)
    return result


def convert(
    source: Path,
    target: Path,
    *,
    key: bytes | str | None = None,
    passphrase: bytes | str | None = None,
    encrypt_key: bytes | str | None = None,
    encrypt_passphrase: bytes | str | None = None,
    verify: bool = True,
    metadata: Mapping[str, str] | None = None,
    drop_metadata: bool = False,
    format: str | None = None,
    layout: str | None = None,
    crc32: bool = True,
    sha256: bool = True,
    io: str = "auto",
    threads: int = 0,
    replace: bool = True,
    shard_bytes: int | None = None,
    profile: str = "spec",
    data_file: Path | None = None,
    require_durable: bool = False,
    progress: Progress | None = None,
) -> None:
    """Copies a file to another layout or format, chosen by the names as in ``open`` and ``save_file``.

    key, passphrase: of the source; encrypt_key, encrypt_passphrase: of the target. verify: checks the hashes that the
    source stores. metadata: added to that of the source, for safetensors. drop_metadata: leaves out that of the source.
    Without it, metadata other than {"format": "pt"} cannot be converted to .tensors; in the other direction, that entry
    is written. The data is streamed, so memory does not depend on the size of the file. require_durable: as in
    ``save_file``. Errors are those of ``open`` and ``save_file``; ``Error.file`` names the file.
    """
    name = os.fsencode(target)
    options = _options(
        metadata,
        layout,
        crc32,
        sha256,
        encrypt_key,
        encrypt_passphrase,
        io,
        threads,
        replace,
        shard_bytes,
        require_durable,
    )
    reader = open(
        source,
        key=key,
        passphrase=passphrase,
        io=io,
        threads=threads,
        profile=profile,
        data_file=data_file,
    )
    with reader:
        reason = _tzmark.convert(
            reader._file,
            name,
            _format_is_safetensors(format, name),
            verify,
            drop_metadata,
            options,
            progress,
        )
    _warn_unless_durable(name, reason)


__all__ = ["Name", "convert", "save", "save_file"]
