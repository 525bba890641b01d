"""The libraries of NVIDIA's wheels, which are where the dynamic linker does not look."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

VARIABLE = "TZMARK_CUFILE_LIBRARY"


def use_cufile_of_wheel() -> None:
    """Names libcufile of the wheel ``nvidia-cufile`` for this process and its children, if that is installed.

    A user who has set the variable has chosen; the wheel wins over the system's library, as with torch. Called by the
    import, since the path gpudirect looks for it once.
    """
    if VARIABLE in os.environ:
        return
    try:
        spec = importlib.util.find_spec("nvidia")
        places = [] if spec is None else spec.submodule_search_locations or []
        # nvidia/cu13/lib for CUDA 13, nvidia/cufile/lib for CUDA 12.
        found = [
            library
            for place in places
            for library in sorted(Path(place).glob("*/lib/libcufile.so.0"))
        ]
    except (
        ImportError,
        OSError,
        ValueError,
    ):  # a package that is broken, or no package
        return
    if found:
        os.environ[VARIABLE] = str(found[0])
