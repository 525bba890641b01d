"""Reading model files: tzmark.open, load_file, safe_open, verify and inspect."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Union

from . import _group, _shard, _tzmark
from ._errors import Error, TensorNotFoundError, UnavailableError, UsageError
from ._late import LateTensors
from ._memory import Memory, finish_gpu_work, mark_as_changed, target_of
from ._slice import Slice
from ._tensors import convert, framework_name, gpu_number

Name = Union[str, tuple[Union[str, int], ...]]
Progress = Callable[[int, int], object]
Verify = Union[bool, str]
Shard = tuple[int, int, Mapping[str, Union[int, None]]]
if TYPE_CHECKING:
    Path = Union[str, bytes, os.PathLike[str], os.PathLike[bytes]]


def is_safetensors_name(name: bytes) -> bool:
    """Whether a file name is that of a safetensors file, or of the index of several."""
    lower = name.lower()
    is_index = b".safetensors.index." in lower and lower.endswith(b".json")
    return is_index or lower.endswith(b".safetensors")


def key_bytes(key: bytes | str | None) -> bytes | None:
    """Returns the 32 bytes of a key: as they are, or from 64 hex digits."""
    if key is None:
        return None
    if not isinstance(key, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"key is a {type(key).__name__}, not bytes or hex digits")
    if len(key) == 0:
        raise UsageError("the key is empty")
    if not isinstance(key, str):
        return bytes(key)
    try:
        return bytes.fromhex(key)
    except ValueError:
        raise UsageError("a key is 32 bytes, or 64 hex digits") from None


def passphrase_bytes(passphrase: bytes | str | None) -> bytes | None:
    """Returns a passphrase in UTF-8."""
    if passphrase is None or isinstance(passphrase, bytes):
        return passphrase
    if not isinstance(passphrase, str):
        raise TypeError(f"passphrase is a {type(passphrase).__name__}, not a string")
    try:
        return passphrase.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the passphrase is not valid Unicode: {error}") from None


def check_backend(backend: str | None) -> None:
    """Accepts what safetensors calls the backend of a read, which changes nothing here."""
    if backend not in (None, "mmap", "pread"):
        raise UsageError(f'the backend is "mmap" or "pread", not {backend!r}')


def require_text(**arguments: object) -> None:
    """Raises TypeError for an argument that is not a string, with its name."""
    for name, value in arguments.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} is {value!r:.80}, not a string")


def whole_number(name: str, value: Any) -> int:
    """Returns an argument as an int. Raises TypeError if it is none, UsageError if it is negative."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r:.80}, not an integer") from None
    if number < 0:
        raise UsageError(f"{name} is {number}, and must not be negative")
    return int(number)


def checks_of(verify: Verify, may_be_late: bool = False) -> str:
    """Returns the name of what verify= asks for: "all", "none" or "crc32", or "late" where that may be."""
    checks = ("none", "all")[verify] if isinstance(verify, bool) else verify
    if checks == "late" and may_be_late:
        return checks
    if checks not in ("all", "none", "crc32"):
        raise UsageError('verify is True, False or "crc32"')
    return checks


@dataclass(frozen=True)
class TensorInfo:
    """What a file says about a tensor.

    ``shape`` counts elements; ``nbytes`` is the size of the data in the file, 0 for a ``meta`` tensor, which has a
    size but no values. ``dtype`` is torch's name without "torch.", None for a type that torch lacks; ``stored_dtype``
    is the name in the file.
    """

    name: Name
    dtype: str | None
    stored_dtype: str
    shape: tuple[int, ...]
    nbytes: int
    meta: bool
    kind: str


@dataclass(frozen=True)
class FileInfo:
    """What a file says about itself, and its tensors in file order."""

    layout: str
    data_version: int | None
    encrypted: bool
    file_bytes: int
    metadata: dict[str, str]
    tensors: tuple[TensorInfo, ...]


class Reader(Mapping[Name, Any]):
    """An open model file: a mapping from names to tensors, in file order. Made by ``tzmark.open``.

    Names are strings; a structured name is a tuple of strings and integers. ``reader[name]`` reads one tensor into
    memory of its own, and ``load`` reads all of them into one allocation. Tensors stay valid after ``close``. Several
    threads may read at once.
    """

    def __init__(
        self,
        file: _tzmark.Reader,
        framework: str = "np",
        device: str = "cpu",
        verify: Verify = True,
        progress: Progress | None = None,
        huge_pages: bool = True,
        mapped: bool = False,
    ) -> None:
        self._file = file
        self._framework = framework_name(framework)
        device = str(device)  # torch.device, too
        if self._framework == "np" and device != "cpu":
            raise UsageError('numpy arrays are on the device "cpu"')
        self._device = device
        # A mapping is in host memory, from which torch copies.
        self._gpu = None if mapped else gpu_number(device)
        self._verify = checks_of(verify, may_be_late=True)
        self._progress = progress
        self._huge_pages = huge_pages
        self._names = file.names()
        self._numbers = {name: i for i, name in enumerate(self._names)}
        self._summary = file.summary()
        if mapped and self._verify == "late" and self.data_version is not None:
            raise UsageError(
                "mapped needs verify=False: the file can change after its hashes were compared"
            )

    def __getitem__(self, name: Name) -> Any:
        """Reads a tensor, in its shape. Raises TensorNotFoundError, a KeyError, if there is none of that name."""
        return self._convert(name, self.buffer(name))

    def __iter__(self) -> Iterator[Name]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return _plain(name) in self._numbers

    # A mapping is equal to another one by its values, which would read both files.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self)} tensors, {self.layout}"
        return f"<tzmark.Reader: {state}>"

    def close(self) -> None:
        """Closes the file. Tensors that were read stay valid; reading more raises UsageError."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._file.closed

    @property
    def layout(self) -> str:
        """The layout: "v1" to "v4", "v5-…", or "safetensors"."""
        return str(self._summary["layout"])

    @property
    def data_version(self) -> int | None:
        """The data version, 1 to 5; None for safetensors."""
        version = self._summary["data_version"]
        return None if version is None else int(version)

    @property
    def encrypted(self) -> bool:
        """Whether the data is encrypted."""
        return bool(self._summary["encrypted"])

    @property
    def file_bytes(self) -> int:
        """The size of the file in bytes, with detached data; of all shards."""
        return int(self._summary["file_bytes"])

    @property
    def metadata(self) -> dict[str, str]:
        """``__metadata__`` of a safetensors file; empty for other files."""
        return dict(self._summary["metadata"])

    def info(self, name: Name) -> TensorInfo:
        """Returns what the file says about a tensor, without reading its data."""
        number = self._number(name)
        return self._info(number)

    def infos(self) -> tuple[TensorInfo, ...]:
        """Returns ``info`` of every tensor, in file order."""
        return tuple(self._info(number) for number in range(len(self)))

    def buffer(self, name: Name) -> _tzmark.Buffer:
        """Reads a tensor and returns its memory, which has ``__array_interface__`` and ``__dlpack__``.

        ``torch.from_dlpack(reader.buffer(name))`` and the like of other libraries share the memory. With a GPU as the
        device it is GPU memory, with ``__cuda_array_interface__`` instead.
        """
        number = self._number(name)
        if self._gpu is None or self._needs_host(number):
            return self._file.read(number, self._checks(), self._progress)
        return self._file.read_into_device(
            number, self._gpu, self._checks(), self._progress
        )

    def load(self, *, shard: Shard | None = None) -> dict[Name, Any]:
        """Reads all tensors into one allocation, in huge pages if the system has them, and returns them by name.

        With a GPU as the device it is an allocation of GPU memory (one per shard of a sharded model), into which the
        bytes are copied while others are read: the host holds at most 256 MiB of them at a time.

        shard: the part of one rank of a tensor-parallel model, as ``(rank, world, {pattern: dimension})``. Of a tensor
        whose name matches a pattern, as in a shell, the rank gets its part of that dimension, and only that part is
        read; the first pattern that matches counts. Other tensors, and those of a pattern with None, are read whole.
        The parts are equal, or the call fails. Hashes cover whole tensors: a .tensors file needs verify=False.

        With verify="late" it returns ``LateTensors`` as soon as the bytes are there, and checks them meanwhile.

        The memory stays as long as one of the tensors does. Raises FormatError if a stored hash does not match.
        """
        is_late = self._verify == "late"
        checks = "none" if is_late else self._verify
        # It stays open when this reader is closed.
        file = self._file.share() if is_late else self._file
        on_host = any(map(self._needs_host, range(len(self))))
        gpu = None if on_host else self._gpu
        if shard is not None:
            if self._verify != "none" and self.data_version is not None:
                raise UsageError(
                    "shard needs verify=False: a rank reads parts of tensors, and hashes cover whole ones"
                )
            parts = _shard.ranges(shard, self.infos())
            buffers = self._file.read_slices(
                parts, gpu, self._huge_pages, self._progress
            )
        elif gpu is None:
            buffers = self._file.load(checks, self._huge_pages, self._progress)
        else:
            buffers = self._file.load_into_device(gpu, checks, self._progress)
        tensors = {
            name: self._convert(name, buffer)
            for name, buffer in zip(self._names, buffers)
        }
        if not is_late:
            return tensors
        return LateTensors(tensors, lambda: file.check_loaded(buffers, "all"))

    def load_into(self, tensors: Mapping[Name, Any]) -> None:
        """Reads tensors into memory that there is already: of torch, numpy, or a library with its interface, or a GPU.

        tensors: by name, of the dtype and shape that the file says, contiguous, and each with memory of its own.
        Tensors of the file that it lacks are not read. GPU work of torch on the memory, and that of the stream that a
        CUDA array interface names, is waited for; no other may use it.

        If this raises an exception, the content of the tensors is undefined. Raises TensorNotFoundError, or UsageError
        for memory that does not fit, in both cases before anything is written.
        """
        if not isinstance(tensors, Mapping):
            raise TypeError(
                f"a mapping from names to tensors is wanted, not a {type(tensors).__name__}"
            )
        targets = [
            (self._number(name), self._target(name, value))
            for name, value in tensors.items()
        ]
        memories = [memory for _, memory in targets]
        spans = sorted((m.address, m.nbytes) for m in memories if m.nbytes)
        for (address, size), (next_address, _) in zip(spans, spans[1:]):
            if address + size > next_address:
                raise UsageError("two of the tensors share memory")
        finish_gpu_work(memories)
        try:
            self._file.read_into(
                [
                    (number, memory.address, memory.nbytes, memory.gpu is not None)
                    for number, memory in targets
                ],
                self._checks(),
                self._progress,
            )
        finally:
            mark_as_changed(memories)

    def fits(self, name: Name, value: Any) -> bool:
        """Whether ``load_into`` can read the tensor of that name into the memory of a value."""
        try:
            self._target(name, value)
        except (Error, TypeError):
            return False
        return True

    def _target(self, name: Name, value: Any) -> Memory:
        """The memory of a value, if the tensor of that name fits into it."""
        info = self.info(name)
        target = target_of(value, name)
        if self._needs_host(self._number(name)) or info.meta or info.dtype is None:
            raise UsageError(
                f"{name!r} is stored as {info.stored_dtype}, which is not read in place"
            )
        if (target.dtype, target.shape) != (info.dtype, info.shape):
            raise UsageError(
                f"{name!r} is {info.dtype}{list(info.shape)} in the file, and {target.dtype}{list(target.shape)} here"
            )
        return target

    def get_slice(self, name: Name) -> Slice:
        """Returns a tensor of which only the parts that are indexed are read."""
        return Slice(self, self._number(name))

    def verify(self) -> None:
        """Reads the file and checks everything: structure, headers, MACs, CRC32 and SHA-256.

        Raises FormatError for the first failure. A safetensors file stores no hashes: its structure is checked, and
        that all of it can be read.
        """
        self._file.verify(self._progress)

    def dump(self) -> dict[str, Any]:
        """Reads the file and returns its canonical JSON, with the SHA-256 of each tensor's data.

        Checks structure, headers and MACs, but not the stored hashes.
        """
        result: dict[str, Any] = json.loads(self._file.canonical(self._progress))
        return result

    def _checks(self) -> str:
        """What a read checks before it returns."""
        if self._verify == "late":
            raise UsageError('verify="late" is for loads of all tensors')
        return self._verify

    def _needs_host(self, number: int) -> bool:
        """Whether the elements of a tensor have to be reversed, which numpy does."""
        return bool(self._file.describe(number)[6])

    def _number(self, name: Name) -> int:
        number = self._numbers.get(_plain(name))
        if number is None:
            raise TensorNotFoundError(
                f"there is no tensor {name!r}", "TZE-USE-002", code=902
            )
        return number

    def _info(self, number: int) -> TensorInfo:
        dtype, stored, shape, size, meta, kind, _ = self._file.describe(number)
        return TensorInfo(self._names[number], dtype, stored, shape, size, meta, kind)

    def _convert(self, name: Name, buffer: _tzmark.Buffer) -> Any:
        try:
            return convert(buffer, self._framework, self._device)
        except UnavailableError as error:
            raise _with_dtype(error, name, self.info(name).stored_dtype) from None


def _with_dtype(error: UnavailableError, name: Name, stored: str) -> UnavailableError:
    """The error of a tensor whose type a framework lacks, with its name."""
    return UnavailableError(
        f"{name!r} is of dtype {stored!r}: {error.message}", error.rule
    )


def _plain(name: Any) -> Any:
    """A path of one string is the same name as the string."""
    if isinstance(name, tuple) and len(name) == 1 and isinstance(name[0], str):
        return name[0]
    return name


def _open_file(
    path: Path | None,
    data: bytes | None,
    key: bytes | str | None,
    passphrase: bytes | str | None,
    io: str,
    threads: int,
    profile: str,
    data_file: Path | None,
    mapped: bool = False,
) -> _tzmark.Reader:
    name = b"" if path is None else os.fsencode(path)
    other = b"" if data_file is None else os.fsencode(data_file)
    if data_file is not None and not other:
        raise UsageError("the name of the data file is empty")
    require_text(io=io, profile=profile)
    if not io:
        raise UsageError("the I/O path is empty")
    return _tzmark.Reader(
        name,
        data,
        key_bytes(key),
        passphrase_bytes(passphrase),
        io,
        other,
        profile,
        threads,
        mapped,
    )


def open(  # noqa: A001 - as in the standard library's modules for formats
    path: Path,
    *,
    key: bytes | str | None = None,
    passphrase: bytes | str | None = None,
    io: str = "auto",
    verify: Verify = True,
    progress: Progress | None = None,
    framework: str = "np",
    device: str = "cpu",
    threads: int = 0,
    huge_pages: bool = True,
    profile: str = "spec",
    data_file: Path | None = None,
    mapped: bool = False,
) -> Reader:
    """Opens a model and checks its structure: a .tensors or safetensors file, an index of shards, or their directory.

    The content tells the format, not the name. A directory must contain one model, or one that is named "model".
    key: 32 bytes or 64 hex digits; passphrase: text or UTF-8. Only one of them, and only for an encrypted file.
    io: an I/O path of ``tzmark.io_paths()``, which is used or the call fails; "auto" is the first one available.
    verify: True checks every stored hash, and fails for a tensor without any; "crc32" checks only CRC32; False checks
    only MACs; "late" checks every hash while the tensors of ``load`` are in use already: see ``LateTensors``.
    Safetensors files store no hashes.
    progress: called as ``progress(done, total)``, in bytes, by the thread that reads, up to 25 times per second. Reads
    of other threads on the same reader count, too. An exception that it raises ends the read.
    framework: "np" for numpy arrays, "pt" for torch tensors on ``device``; "cuda" and "cuda:N" read into GPU memory.
    threads: compute threads; 0 = one per core. profile: the rules for safetensors, "spec" or "library".
    data_file: the second file of a file with detached data.
    mapped: tensors are views of a private mapping of the file instead of copies, except for slices and tensors that are
    not aligned in the file. Reading them costs nothing until they are used; writing to them does not change the file.
    While a tensor exists, the file must not be changed in place: the tensor would change too, and after a truncation
    access to it would end the process (SIGBUS). A .tensors file needs verify=False and must not be encrypted.

    Raises FormatError with ``rule`` and ``offset`` if the file breaks a rule, MissingFileError, EnvironmentFailure,
    UsageError, or UnavailableError for an I/O path that this machine lacks.
    """
    file = _open_file(
        path, None, key, passphrase, io, threads, profile, data_file, mapped
    )
    return Reader(file, framework, device, verify, progress, huge_pages, mapped)


def load_file(
    filename: Path,
    *,
    framework: str = "np",
    device: str = "cpu",
    key: bytes | str | None = None,
    passphrase: bytes | str | None = None,
    io: str = "auto",
    verify: Verify = True,
    progress: Progress | None = None,
    threads: int = 0,
    huge_pages: bool = True,
    mapped: bool = False,
    shard: Shard | None = None,
    group: object = None,
    group_read: str = "gather",
) -> dict[Name, Any]:
    """Reads all tensors of a file into one allocation.

    shard: the part of one rank, see ``Reader.load``.
    group: the processes that load the file together, each of which gets all tensors: a process group of
    torch.distributed whose backend is gloo, a communicator of mpi4py, or a ``tzmark.Group``. All of them make this
    call, with the same arguments, and do not use the group meanwhile. Storage is read once: each rank opens the file,
    reads a part of it, and gets the others from the group (group_read="gather"), or rank 0 reads all of it
    ("broadcast"). For .tensors files, and without ``device``, ``mapped`` and ``shard``.

    If one rank fails, all of them raise its error, with "rank N: " before its text. If what the group does raises, it
    is the cause of EnvironmentFailure (TZE-ENV-002), and the group cannot be used any more. Files of the ranks that
    differ raise TZE-ENV-005.

    The other arguments, and the errors, are those of ``tzmark.open``.
    """
    if group is not None:
        if shard is not None:
            raise UsageError(
                "shard excludes a group: each rank reads its part of the tensors from storage"
            )
        if mapped:
            raise UsageError("mapped=True excludes a group, which reads into memory")
        if str(device) != "cpu":
            raise UsageError(
                f"a group reads into host memory: move the tensors to {device} afterwards"
            )
        return _load_together(
            filename,
            _group.functions_of(group),
            group_read,
            framework_name(framework),
            key,
            passphrase,
            io,
            checks_of(verify),
            progress,
            threads,
            huge_pages,
        )
    if group_read != "gather":
        raise UsageError("group_read needs a group")
    with open(
        filename,
        key=key,
        passphrase=passphrase,
        io=io,
        verify=verify,
        progress=progress,
        framework=framework,
        device=device,
        threads=threads,
        huge_pages=huge_pages,
        mapped=mapped,
    ) as reader:
        return reader.load(shard=shard)


def _load_together(
    filename: Path,
    functions: _group.Functions,
    group_read: str,
    framework: str,
    key: bytes | str | None,
    passphrase: bytes | str | None,
    io: str,
    checks: str,
    progress: Progress | None,
    threads: int,
    huge_pages: bool,
) -> dict[Name, Any]:
    require_text(io=io, group_read=group_read)
    if not io:
        raise UsageError("the I/O path is empty")
    loaded = _tzmark.load_together(
        os.fsencode(filename),
        functions,
        group_read,
        key_bytes(key),
        passphrase_bytes(passphrase),
        io,
        checks,
        threads,
        huge_pages,
        progress,
    )
    tensors: dict[Name, Any] = {}
    for name, stored, buffer in loaded:
        try:
            tensors[name] = convert(buffer, framework)
        except UnavailableError as error:
            raise _with_dtype(error, name, stored) from None
    return tensors


def load(
    data: bytes,
    *,
    framework: str = "np",
    device: str = "cpu",
    key: bytes | str | None = None,
    passphrase: bytes | str | None = None,
    verify: Verify = True,
) -> dict[Name, Any]:
    """Reads all tensors from the bytes of a file of either format. The tensors do not share memory with the bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data is a {type(data).__name__}, not the bytes of a file")
    data = bytes(data)
    file = _open_file(None, data, key, passphrase, "auto", 0, "spec", None)
    with Reader(file, framework, device, verify) as reader:
        return reader.load()


def warm_up(device: str, *, verify: Verify = True, threads: int = 0) -> None:
    """Prepares this process for loads into the memory of a GPU, so that the first one takes as long as the next ones.

    For servers: creates the context of the GPU, loads the kernels, and pins up to 256 MiB of host memory, which stay
    pinned. device: "cuda" or "cuda:N"; verify and threads: of the loads.
    """
    gpu = gpu_number(str(device))
    if gpu is None:
        raise UsageError(f'the device is "cuda" or "cuda:N", not {device!r}')
    _tzmark.warm_up(gpu, checks_of(verify), threads)


def verify(
    path: Path,
    *,
    key: bytes | str | None = None,
    passphrase: bytes | str | None = None,
    io: str = "auto",
    progress: Progress | None = None,
    threads: int = 0,
) -> None:
    """Checks that a file is valid and undamaged: ``Reader.verify``. Raises FormatError for the first failure."""
    with open(
        path, key=key, passphrase=passphrase, io=io, progress=progress, threads=threads
    ) as reader:
        reader.verify()


def inspect(path: Path, *, io: str = "auto", profile: str = "spec") -> FileInfo:
    """Returns what a file says about itself and its tensors. Reads no data and needs no key."""
    with open(path, io=io, profile=profile) as reader:
        return FileInfo(
            layout=reader.layout,
            data_version=reader.data_version,
            encrypted=reader.encrypted,
            file_bytes=reader.file_bytes,
            metadata=reader.metadata,
            tensors=reader.infos(),
        )


class safe_open:  # noqa: N801 - the name that safetensors' users know
    """Opens a file as ``safetensors.safe_open`` does: ``with safe_open(name, framework="pt", device="cpu") as f``.

    Takes .tensors files, too; ``key``, ``passphrase``, ``io``, ``verify``, ``progress`` and ``mapped`` are those of
    ``tzmark.open``. backend: accepted and without effect, see ``tzmark.torch.load_file``.
    """

    def __init__(
        self,
        filename: Path,
        framework: str,
        device: str | int = "cpu",
        *,
        key: bytes | str | None = None,
        passphrase: bytes | str | None = None,
        io: str = "auto",
        verify: Verify = True,
        progress: Progress | None = None,
        mapped: bool = False,
        backend: str | None = None,
    ) -> None:
        check_backend(backend)
        place = f"cuda:{device}" if isinstance(device, int) else device
        self._reader = open(
            filename,
            key=key,
            passphrase=passphrase,
            io=io,
            verify=verify,
            progress=progress,
            framework=framework,
            device=place,
            mapped=mapped,
        )

    def __enter__(self) -> safe_open:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reader.close()

    def keys(self) -> list[Name]:
        """Returns the names of all tensors, sorted where all are strings."""
        names = list(self._reader)
        return (
            sorted(names, key=str)
            if all(isinstance(name, str) for name in names)
            else names
        )

    def offset_keys(self) -> list[Name]:
        """Returns the names of all tensors in file order."""
        return list(self._reader)

    def metadata(self) -> dict[str, str] | None:
        """Returns ``__metadata__``, or None if the file has none."""
        return self._reader.metadata or None

    def get_tensor(self, name: Name) -> Any:
        """Reads a tensor."""
        return self._reader[name]

    def get_tensors(self) -> dict[Name, Any]:
        """Reads all tensors, in file order."""
        return self._reader.load()

    def get_slice(self, name: Name) -> Slice:
        """Returns a tensor of which only the parts that are indexed are read."""
        return self._reader.get_slice(name)
