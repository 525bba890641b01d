"""The readers of safetensors that the adapter can ask, one function each: it imports the library and returns what reads
a file. The environments with the libraries are those of scripts/peers.

A reader of data returns the tensors. A reader of headers returns None if it accepts the file: it has no data to judge,
so that the adapter offers verify alone for it.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from content import Tensor, format_dtype

SUB_BYTE = frozenset({"F4", "F6_E2M3", "F6_E3M2"})
FNUZ = frozenset({"F8_E4M3FNUZ", "F8_E5M2FNUZ"})


class Refused(Exception):
    """The reader says in its answer, and not with an exception, that it refuses the file."""


@dataclass(frozen=True)
class Reader:
    """A library that has been imported."""

    # What reads a file.
    read: Callable[[str], Iterable[Tensor] | None]
    # The classes of the library that are refusals.
    errors: tuple[type[Exception], ...] = ()
    # The dtypes of the format that it lacks. Files with them are not judged.
    lacks: frozenset[str] = frozenset()
    # Whether it returns the tensors in the order of their data. Those of other readers are sorted.
    tells_order: bool = False
    # Returns the metadata of a file that it has read; a library without one does not tell them.
    metadata: Callable[[str], dict[str, str] | None] | None = None


def _safetensors() -> Reader:
    import safetensors

    # Releases before 0.6 do not tell the order of the data.
    tells_order = hasattr(safetensors.safe_open, "offset_keys")

    def read(file: str) -> list[Tensor]:
        tensors = dict(safetensors.deserialize(Path(file).read_bytes()))
        with safetensors.safe_open(file, "numpy") as opened:
            names = opened.offset_keys() if tells_order else opened.keys()
        return [_of_rust(name, tensors[name]) for name in names]

    def metadata(file: str) -> dict[str, str] | None:
        with safetensors.safe_open(file, "numpy") as opened:
            return opened.metadata()

    return Reader(
        read,
        errors=(safetensors.SafetensorError,),
        lacks=safetensors_lacks(),
        tells_order=tells_order,
        metadata=metadata,
    )


def _of_rust(name: str, tensor: dict[str, Any]) -> Tensor:
    return Tensor(name, tensor["dtype"], list(tensor["shape"]), bytes(tensor["data"]))


def safetensors_lacks() -> frozenset[str]:
    """Returns the dtypes that the installed release of the safetensors library lacks."""
    release = importlib.metadata.version("safetensors").split(".")
    number = tuple(int(part) for part in release[:2])
    lacks: frozenset[str] = frozenset()
    if number < (0, 6):
        lacks |= SUB_BYTE | {"F8_E8M0"}
    if number < (0, 7):
        lacks |= {"C64"}
    if number < (0, 8):
        lacks |= FNUZ
    return lacks


def _cryptotensors() -> Reader:
    import cryptotensors

    def read(file: str) -> list[Tensor]:
        content = Path(file).read_bytes()
        with cryptotensors.safe_open(file, "numpy"):
            pass
        return [_of_rust(*each) for each in cryptotensors.deserialize(content)]

    def metadata(file: str) -> dict[str, str] | None:
        with cryptotensors.safe_open(file, "numpy") as opened:
            return opened.metadata()

    errors = (cryptotensors.SafetensorError,)
    return Reader(read, errors=errors, lacks=FNUZ, metadata=metadata)


def _tinygrad() -> Reader:
    from tinygrad import dtypes
    from tinygrad.nn import state

    names = {dtype: name for name, dtype in state.safe_dtypes.items()}

    def data(tensor: Any) -> bytes:
        if 0 in tensor.shape:
            return b""
        return bytes(tensor.reshape(-1).bitcast(dtypes.uint8).data())

    def read(file: str) -> list[Tensor]:
        return [
            Tensor(
                name,
                names.get(tensor.dtype, str(tensor.dtype)),
                list(tensor.shape),
                data(tensor),
            )
            for name, tensor in state.safe_load(file).items()
        ]

    def metadata(file: str) -> dict[str, str] | None:
        *_, header = state.safe_load_metadata(file)
        return header.get("__metadata__")

    lacks = SUB_BYTE | FNUZ | {"F8_E8M0", "C64"}
    return Reader(read, lacks=lacks, metadata=metadata)


def _mlx() -> Reader:
    import mlx.core as mx

    mx.set_default_device(mx.cpu)

    def data(array: Any) -> bytes:
        mx.eval(array)
        if array.size == 0:
            return b""
        return bytes(memoryview(mx.contiguous(array.reshape(-1)).view(mx.uint8)))

    def read(file: str) -> list[Tensor]:
        return [
            Tensor(name, _of_mlx(array.dtype), list(array.shape), data(array))
            for name, array in mx.load(file).items()
        ]

    def metadata(file: str) -> dict[str, str]:
        _, texts = mx.load(file, return_metadata=True)
        return texts

    return Reader(
        read,
        metadata=metadata,
        lacks=SUB_BYTE | FNUZ | {"F64", "F8_E5M2"}
        # It returns these two as bytes, U8.
        | {"F8_E4M3", "F8_E8M0"},
    )


def _of_mlx(dtype: object) -> str:
    return "BOOL" if str(dtype).endswith(".bool_") else format_dtype(dtype)


def _pure_safetensors() -> Reader:
    import marshmallow
    import pure_safetensors
    from pure_safetensors import exc

    def read(file: str) -> list[Tensor]:
        tensors = []
        with pure_safetensors.SafeTensors(file, "r") as opened:
            for name in opened.tensors:
                info, mapped = opened.get_memory_mapping_for_tensor(name)
                data = bytes(mapped.buffer)
                tensors.append(Tensor(name, info.dtype.name, list(info.shape), data))
                del mapped
        return tensors

    def metadata(file: str) -> dict[str, str] | None:
        with pure_safetensors.SafeTensors(file, "r") as opened:
            return opened.metadata

    return Reader(
        read,
        metadata=metadata,
        errors=(exc.SafeTensorError, marshmallow.ValidationError),
        lacks=SUB_BYTE | FNUZ | {"F8_E5M2", "F8_E4M3", "F8_E8M0", "C64"},
    )


def _of_torch(name: str, tensor: Any) -> Tensor:
    import torch

    shape, data = list(tensor.shape), b""
    if 0 not in shape:
        data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    if shape and tensor.dtype == getattr(torch, "float4_e2m1fn_x2", None):
        # Torch counts pairs of elements.
        return Tensor(name, "F4", [*shape[:-1], 2 * shape[-1]], data)
    return Tensor(name, format_dtype(tensor.dtype), shape, data)


def _runai_model_streamer() -> Reader:
    from runai_model_streamer import SafetensorsStreamer

    def read(file: str) -> list[Tensor]:
        with SafetensorsStreamer() as streamer:
            streamer.stream_file(file)
            return [_of_torch(*each) for each in streamer.get_tensors()]

    return Reader(read, lacks=FNUZ | {"F6_E2M3", "F6_E3M2"})


def _fastsafetensors() -> Reader:
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    def read(file: str) -> list[Tensor]:
        # The default buffers, 16 of 16 MiB, are there for files of any size, and beyond the memory of a case.
        loader = SafeTensorsFileLoader(
            SingleGroup(), "cpu", nogds=True, bbuf_size_kb=1024, max_threads=1
        )
        try:
            loader.add_filenames({0: [file]})
            buffers = loader.copy_files_to_device()
            names = list(loader.get_keys())
            return [_of_torch(name, buffers.get_tensor(name)) for name in names]
        finally:
            loader.close()

    return Reader(read, lacks=FNUZ | {"F6_E2M3", "F6_E3M2", "C64"})


def _unifiedefficientloader() -> Reader:
    import torch
    from unifiedefficientloader import UnifiedSafetensorsLoader

    del torch  # it is imported here, so that the first question does not pay for it

    def read(file: str) -> list[Tensor]:
        # The other mode is that of the safetensors library.
        with UnifiedSafetensorsLoader(file, low_memory=True) as loader:
            return [_of_torch(name, loader.get_tensor(name)) for name in loader.keys()]

    def metadata(file: str) -> dict[str, str] | None:
        with UnifiedSafetensorsLoader(file, low_memory=True) as loader:
            return loader.metadata()

    return Reader(read, lacks=FNUZ | {"F6_E2M3", "F6_E3M2"}, metadata=metadata)


def _safetensors_streaming() -> Reader:
    import torch
    from safetensors_streaming import safe_open

    del torch  # as above

    def read(file: str) -> list[Tensor]:
        with safe_open(file, framework="pt", device="cpu") as opened:
            return [_of_torch(name, opened.get_tensor(name)) for name in opened.keys()]

    def metadata(file: str) -> dict[str, str] | None:
        with safe_open(file, framework="pt", device="cpu") as opened:
            return opened.metadata()

    return Reader(
        read,
        metadata=metadata,
        lacks=SUB_BYTE
        | FNUZ
        | {"F8_E5M2", "F8_E4M3", "F8_E8M0", "U16", "U32", "U64", "C64"},
    )


def _reminis() -> Reader:
    from reminis.safetensors_io import safetensors_to_sqlite

    def read(file: str) -> list[Tensor]:
        with tempfile.TemporaryDirectory() as directory:
            made = safetensors_to_sqlite(file, f"{directory}/model.db", verbose=False)
            with closing(sqlite3.connect(made)) as database:
                rows = database.execute("select name, dtype, shape, data from tensors")
                # Its shapes are those of GGUF, the last dimension first.
                return [
                    Tensor(name, dtype, json.loads(shape)[::-1], data or b"")
                    for name, dtype, shape, data in rows
                ]

    return Reader(read, lacks=SUB_BYTE | FNUZ | {"F8_E8M0", "C64"})


def _gguf() -> Reader:
    from gguf.utility import SafetensorsLocal

    def data(tensor: Any) -> bytes:
        return tensor.mmap_bytes().tobytes() if tensor.data_range.size else b""

    def read(file: str) -> list[Tensor]:
        with SafetensorsLocal(Path(file)) as tensors:
            return [
                Tensor(name, tensor.dtype, list(tensor.shape), data(tensor))
                for name, tensor in tensors.items()
            ]

    return Reader(read)


def _model_fingerprint() -> Reader:
    import model_fingerprint

    def read(file: str) -> list[Tensor]:
        with model_fingerprint.FileReader(Path(file)) as reader:
            model = model_fingerprint.parse_safetensors(reader, Path(file))
            model_fingerprint.fingerprint(model, reader)
        content = Path(file).read_bytes()[model.data_start :]
        return [
            Tensor(
                tensor.name,
                tensor.dtype,
                list(tensor.dims),
                content[tensor.offset : tensor.offset + tensor.nbytes],
            )
            for tensor in model.tensors
        ]

    def metadata(file: str) -> dict[str, str] | None:
        with model_fingerprint.FileReader(Path(file)) as reader:
            return model_fingerprint.parse_safetensors(reader, Path(file)).metadata

    return Reader(read, errors=(model_fingerprint.ModelError,), metadata=metadata)


def _huggingface_hub() -> Reader:
    from huggingface_hub import errors, hf_api

    def read(file: str) -> None:
        hf_api.parse_local_safetensors_file_metadata(file)

    return Reader(read, errors=(errors.SafetensorsParsingError,))


def _safetensors_print() -> Reader:
    from safetensors_print import reader

    def read(file: str) -> None:
        report = reader.read_report(file)
        if report.has_errors:
            raise Refused("; ".join(issue.message for issue in report.issues))

    return Reader(read, errors=(reader.SafetensorsFormatError,))


def _modelinfo_cli() -> Reader:
    from modelinfo.parsers import safetensors

    def read(file: str) -> None:
        safetensors.parse_safetensors_header(file)

    return Reader(read)


def _sft_cli() -> Reader:
    from sft.index import TensorIndex

    def read(file: str) -> None:
        TensorIndex.from_file(Path(file))

    return Reader(read)


def _quantbenchx() -> Reader:
    from quantbenchx import profile

    def read(file: str) -> None:
        profile.profile_safetensors(file)

    return Reader(read, errors=(profile.QuantbenchError,))


def _safetensors_arch() -> Reader:
    import safetensors_arch

    def read(file: str) -> None:
        if safetensors_arch.read_header(os.fspath(file)) is None:
            raise Refused("read_header returned None")

    return Reader(read)


READERS = {
    "safetensors": _safetensors,
    "cryptotensors": _cryptotensors,
    "tinygrad": _tinygrad,
    "mlx": _mlx,
    "pure-safetensors": _pure_safetensors,
    "runai-model-streamer": _runai_model_streamer,
    "fastsafetensors": _fastsafetensors,
    "unifiedefficientloader": _unifiedefficientloader,
    "safetensors-streaming": _safetensors_streaming,
    "reminis": _reminis,
    "gguf": _gguf,
    "model-fingerprint": _model_fingerprint,
}
HEADER_READERS = {
    "huggingface-hub": _huggingface_hub,
    "safetensors-print": _safetensors_print,
    "modelinfo-cli": _modelinfo_cli,
    "sft-cli": _sft_cli,
    "quantbenchx": _quantbenchx,
    "safetensors-arch": _safetensors_arch,
}
