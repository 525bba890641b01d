"""Libraries to preload, by paths that LD_PRELOAD can hold: it splits at spaces and colons."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from subject import require

SPLITS = re.compile("[ :$]")


@contextmanager
def preloadable(library: Path) -> Iterator[Path]:
    """The library itself, or a link to it among the temporary files."""
    if not SPLITS.search(str(library)):
        yield library
        return
    with tempfile.TemporaryDirectory(prefix="tzmark-preload-") as directory:
        link = Path(directory) / library.name
        link.symlink_to(library.resolve())
        require(not SPLITS.search(str(link)), f"TMPDIR cannot hold {link.name}: {link}")
        yield link
