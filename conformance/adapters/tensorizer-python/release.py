"""What the installed release of tensorizer offers, asked of its own interface, and the profile that follows from it.

Only what a release does not claim to do is listed as lacking: a feature that it has and does wrong is for the suite to
find.
"""

import importlib.metadata
import inspect
from typing import Any

import torch
from tensorizer import TensorDeserializer, TensorSerializer, serialization

VERSION = importlib.metadata.version("tensorizer")

# The highest number in the file that the release reads and writes.
DATA_VERSION_MAX = serialization.TENSORIZER_VERSION

_reader_options = inspect.signature(TensorDeserializer.__init__).parameters
_module_options = inspect.signature(TensorSerializer.write_module).parameters

VERIFIES = "verify_hash" in _reader_options
ENCRYPTS = "encryption" in _reader_options
READS_IN_PARALLEL = "num_readers" in _reader_options
# Releases that read a structure back have a method for it, and write_state_dict takes nested ones.
STRUCTURES = hasattr(TensorDeserializer, "tree")
META = DATA_VERSION_MAX >= 4
OMITS_NON_PERSISTENT_BUFFERS = "include_non_persistent_buffers" in _module_options

# Only the layouts of data versions that a release names; of data version 5 the one that was released.
LAYOUTS = [
    *(f"v{number}" for number in range(1, min(DATA_VERSION_MAX, 4) + 1)),
    *(["v5-flagged-dims"] if DATA_VERSION_MAX >= 5 else []),
]

# What torch has no type for, so that a library of torch tensors cannot hand it out.
NOT_OF_TORCH = ["big-endian", "foreign-dtype"]


def profile(num_readers: int | None) -> dict[str, Any]:
    """The answer to "capabilities"."""
    over = f"torch {'.'.join(torch.__version__.split('.')[:2])}"
    if num_readers is not None:
        over += f", num_readers={num_readers}"
    lacks = list(NOT_OF_TORCH)
    if not ENCRYPTS:
        lacks.append("encryption")
    if not META:
        lacks.append("meta")
    if not STRUCTURES:
        lacks.append("structured-names")
    lacks_writing = [*lacks, "forced-layout"]
    if not OMITS_NON_PERSISTENT_BUFFERS:
        lacks_writing.append("non-persistent-buffers")
    return {
        "protocol": 1,
        "name": "tensorizer",
        "version": f"{VERSION} ({over})",
        "commands": ["decode", *(["verify"] if VERIFIES else []), "encode", "serve"],
        "reads": {
            "layouts": LAYOUTS,
            "lacks": lacks,
            # The public interface does not tell these.
            "omits": ["layout", "wire_dtype", "crc32_field", "sha256_field"],
        },
        "writes": {"layouts": LAYOUTS, "lacks": lacks_writing},
    }
