"""Follows docs/tutorial.md literally, in an empty directory, and checks that what it shows is what happens.

usage: tutorial_test.py [go | safetensors | rust]

With "go", only the section about Go is followed, after the tools of Go have checked the template; without, all others.
With "safetensors", docs/safetensors.md is followed without its section about Rust, and with "rust" that section alone.
Exit status: 77 if the compiler of the language is not installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from follow import BLOCK, Follower, commands

SKIPPED = 77

Blocks = list[tuple[str, str]]
Command = tuple[str, ...]


@dataclass(frozen=True)
class Subject:
    """What is followed: a document without the section about a language, or that section alone."""

    document: str
    # A command that occurs if the blocks are the right ones.
    needed: str
    # The section about a language.
    section: str
    # Its compiler and that one's package, if the section is what is followed.
    compiler: str = ""
    package: str = ""
    template: str = ""
    # Commands that check the template: they succeed and print nothing.
    checks: tuple[Command, ...] = ()


SUBJECTS = {
    "": Subject("tutorial.md", "--repro", "Go"),
    "go": Subject(
        *("tutorial.md", "go build", "Go", "go", "golang-go"),
        template="template-go/adapter.go",
        checks=(("gofmt", "-d"), ("go", "vet")),
    ),
    "safetensors": Subject("safetensors.md", "mutate", "Rust"),
    "rust": Subject(
        *("safetensors.md", "rustc", "Rust", "rustc", "rustc"),
        template="template-rust/adapter.rs",
        checks=(("rustc", "--edition=2021", "-Dwarnings", "--emit=metadata"),),
    ),
}


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


def blocks_of(text: str, subject: Subject) -> Blocks:
    """Returns the blocks of the section about a language, after the settings of the first section; or all others."""
    pattern = rf"^## \d+\.? {subject.section}\n.*?(?=^## |\Z)"
    (section,) = re.findall(pattern, text, re.MULTILINE | re.DOTALL)
    if not subject.compiler:
        return BLOCK.findall(text.replace(section, ""))
    first = next(block for language, block in BLOCK.findall(text) if language == "sh")
    settings = [line for line in commands(first) if line.startswith("export ")]
    return [("sh", "\n".join(settings)), *BLOCK.findall(section)]


def check_template(file: Path, checks: Iterable[Command]) -> None:
    """Throws unless the tools of the language find nothing in the template."""
    # A compiler writes into the current directory.
    with tempfile.TemporaryDirectory() as scratch:
        for check in checks:
            done = subprocess.run(
                [*check, file], cwd=scratch, capture_output=True, text=True
            )
            if done.returncode or done.stdout:
                raise AssertionError(f"{check}:\n{done.stdout}{done.stderr}")


def main(chosen: str = "") -> int:
    subject = SUBJECTS[chosen]
    if subject.compiler and not shutil.which(subject.compiler):
        print(f"no {subject.compiler} here: apt-get install {subject.package}")
        return SKIPPED
    source = Path(os.environ["TZMARK_SOURCE_DIR"])
    check_template(source / "conformance/adapters" / subject.template, subject.checks)
    document = source / "docs" / subject.document
    blocks = blocks_of(document.read_text(encoding="utf-8"), subject)
    scripts = [block for language, block in blocks if language == "sh"]
    if not any(subject.needed in block for block in scripts):
        print(f"{document} has no commands with {subject.needed}")
        return 1
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as empty:
        home_with_a_clone(Path(home))
        environment = {
            # rustup looks for its compilers in the home directory.
            "RUSTUP_HOME": str(Path.home() / ".rustup"),
            **os.environ,
            "HOME": home,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        Follower(Path(empty), environment).follow(blocks)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
