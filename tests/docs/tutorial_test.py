"""Follows docs/tutorial.md literally, in an empty directory, and checks that what it shows is what happens.

usage: tutorial_test.py [go | safetensors]

With "go", only the section about Go is followed, after the tools of Go have checked the template; without, all others.
With "safetensors", docs/safetensors.md is followed.
Exit status: 77 if no Go is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from follow import BLOCK, Follower, commands

SKIPPED = 77
GO_SECTION = re.compile(r"^## \d+\. Go\n.*?(?=^## )", re.MULTILINE | re.DOTALL)

Blocks = list[tuple[str, str]]


def home_with_a_clone(home: Path) -> None:
    """Creates a clone as the document expects it, with only the directories that a newcomer needs."""
    source, build = (
        Path(os.environ[name]) for name in ("TZMARK_SOURCE_DIR", "TZMARK_BUILD_DIR")
    )
    clone = home / "tzmark"
    clone.mkdir()
    (clone / "build").symlink_to(build)
    for directory in ("conformance", "docs", "reference"):
        (clone / directory).symlink_to(source / directory)


def blocks_of(text: str, of_go: bool) -> Blocks:
    """Returns the blocks of the section about Go, after the settings of the first section; or all others."""
    (section,) = GO_SECTION.findall(text)
    if not of_go:
        return BLOCK.findall(text.replace(section, ""))
    first = next(block for language, block in BLOCK.findall(text) if language == "sh")
    settings = [line for line in commands(first) if line.startswith("export ")]
    return [("sh", "\n".join(settings)), *BLOCK.findall(section)]


def check_template(file: Path) -> None:
    """Throws unless the template is formatted, and vet finds nothing in it."""
    for command in (["gofmt", "-d", file], ["go", "vet", file]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or done.stdout:
            raise AssertionError(f"{command}:\n{done.stdout}{done.stderr}")


def main(chosen: str = "") -> int:
    of_go = chosen == "go"
    if of_go and not shutil.which("go"):
        print("no go command here: apt-get install golang-go")
        return SKIPPED
    source = Path(os.environ["TZMARK_SOURCE_DIR"])
    if of_go:
        check_template(source / "conformance/adapters/template-go/adapter.go")
    of_safetensors = chosen == "safetensors"
    document = source / "docs" / ("safetensors.md" if of_safetensors else "tutorial.md")
    text = document.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text) if of_safetensors else blocks_of(text, of_go)
    needed = {"go": "go build", "safetensors": "mutate"}.get(chosen, "--repro")
    if not any(needed in block for language, block in blocks if language == "sh"):
        print(f"{document} has no commands with {needed}")
        return 1
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as empty:
        home_with_a_clone(Path(home))
        environment = {**os.environ, "HOME": home, "PYTHONDONTWRITEBYTECODE": "1"}
        Follower(Path(empty), environment).follow(blocks)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
