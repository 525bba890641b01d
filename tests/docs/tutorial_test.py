"""Follows docs/tutorial.md literally, in an empty directory, and checks that what it shows is what happens."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from follow import BLOCK, Follower


def home_with_a_clone(home: Path) -> None:
    """Creates a clone as the document expects it, with only the folders that a newcomer needs."""
    source, build = (
        Path(os.environ[name]) for name in ("TZMARK_SOURCE_DIR", "TZMARK_BUILD_DIR")
    )
    clone = home / "tzmark"
    clone.mkdir()
    (clone / "build").symlink_to(build)
    for folder in ("conformance", "docs", "reference"):
        (clone / folder).symlink_to(source / folder)


def main() -> int:
    document = Path(os.environ["TZMARK_SOURCE_DIR"]) / "docs/tutorial.md"
    blocks = BLOCK.findall(document.read_text(encoding="utf-8"))
    if not any("--repro" in block for language, block in blocks if language == "sh"):
        print(f"{document} has no commands to run")
        return 1
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as empty:
        home_with_a_clone(Path(home))
        environment = {**os.environ, "HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}
        Follower(Path(empty), environment).follow(blocks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
