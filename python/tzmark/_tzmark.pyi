"""The extension module: types of the codec. Users call the package tzmark instead."""

from collections.abc import Callable
from typing import Any, Union, final

_Name = Union[str, tuple[Union[str, int], ...]]
_Row = tuple[_Name, str, str, tuple[int, ...], int, int]
_Progress = Callable[[int, int], object]

__version__: str
version_text: str

@final
class Buffer:
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str | None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def meta(self) -> bool: ...
    @property
    def big_endian(self) -> bool: ...
    def __dlpack__(self, *args: object, **kwargs: object) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def as_bytes(self) -> Buffer: ...

@final
class Reader:
    def __new__(
        cls,
        file: bytes,
        data: bytes | None,
        key: bytes | None,
        passphrase: bytes | None,
        io: str,
        data_file: bytes,
        profile: str,
        threads: int,
        mapped: bool,
    ) -> Reader: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def share(self) -> Reader: ...
    def names(self) -> list[_Name]: ...
    def describe(
        self, tensor: int, /
    ) -> tuple[str | None, str, tuple[int, ...], int, bool, str, bool]: ...
    def load(
        self, verify: str, huge_pages: bool, progress: _Progress | None, /
    ) -> list[Buffer]: ...
    def read(
        self, tensor: int, verify: str, progress: _Progress | None, /
    ) -> Buffer: ...
    def load_into_device(
        self, device: int, verify: str, progress: _Progress | None, /
    ) -> list[Buffer]: ...
    def check_loaded(self, buffers: list[Buffer], verify: str, /) -> None: ...
    def read_into_device(
        self, tensor: int, device: int, verify: str, progress: _Progress | None, /
    ) -> Buffer: ...
    def read_into(
        self,
        targets: list[tuple[int, int, int, bool]],
        verify: str,
        progress: _Progress | None,
        /,
    ) -> None: ...
    def read_slices(
        self,
        slices: list[tuple[int, tuple[int, ...] | None, tuple[int, ...] | None]],
        device: int | None,
        huge_pages: bool,
        progress: _Progress | None,
        /,
    ) -> list[Buffer]: ...
    def verify(self, progress: _Progress | None, /) -> None: ...
    def canonical(self, progress: _Progress | None, /) -> str: ...
    def summary(self) -> dict[str, Any]: ...

@final
class Checkpointer:
    def __new__(
        cls,
        keep_latest: int,
        keep_every: int,
        format: str,
        layout: str | None,
        sha256: bool,
        io: str,
        threads: int,
        memory_limit_bytes: int,
        require_durable: bool,
        commit: str,
        protect: list[bytes],
        keep: Callable[[str, str, int, int, dict[str, Any]], bool] | None,
        exclusive: bool,
    ) -> Checkpointer: ...
    def save(
        self,
        directory: bytes,
        model: list[tuple[_Row, bool]],
        optimizer: list[tuple[_Row, bool]],
        step: int,
        epoch: int,
        learning_rate: float,
        metadata: dict[str, str],
        rank: tuple[int, int, str, dict[str, int], str, Callable[[bool], bool]] | None,
        /,
    ) -> dict[str, int]: ...
    def decline(self, rank: tuple[Any, ...] | None, /) -> None: ...
    def wait(self) -> dict[str, Any]: ...
    def continue_from(self, save_id: str, /) -> None: ...
    def claim(self, parent: bytes, /) -> str: ...
    def release(self) -> None: ...
    def reserve(self, nbytes: int, /) -> None: ...

def wait_for_stream(address: int, nbytes: int, stream: int, /) -> None: ...
def warm_up(device: int, verify: str, threads: int, /) -> None: ...
def write(
    file: bytes | None,
    tensors: list[_Row],
    is_safetensors: bool,
    options: dict[str, Any],
    progress: _Progress | None,
    /,
) -> bytes | str | None: ...
def convert(
    reader: Reader,
    file: bytes,
    is_safetensors: bool,
    verify_source: bool,
    drop_metadata: bool,
    options: dict[str, Any],
    progress: _Progress | None,
    /,
) -> str | None: ...
def load_together(
    file: bytes,
    group: tuple[
        int,
        int,
        Callable[[memoryview, int], object],
        Callable[[memoryview], object] | None,
    ],
    group_read: str,
    key: bytes | None,
    passphrase: bytes | None,
    io: str,
    verify: str,
    threads: int,
    huge_pages: bool,
    progress: _Progress | None,
    /,
) -> list[tuple[_Name, str, Buffer]]: ...
def load_checkpoint(
    directory: bytes,
    rank: int,
    world_size: int,
    committed_only: bool,
    io: str,
    threads: int,
    /,
) -> tuple[dict[str, Any], list[tuple[str, Buffer]], list[tuple[str, Buffer]]]: ...
def checkpoint_candidates(
    parent: bytes, /
) -> tuple[list[tuple[str, str]], list[str], str, bool]: ...
def other_writer(parent: bytes, /) -> str: ...
def clean_checkpoints(parent: bytes, /) -> tuple[list[str], list[str]]: ...
def io_paths() -> list[tuple[str, str, str]]: ...
def rules() -> list[tuple[int, str, str]]: ...
