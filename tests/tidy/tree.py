"""Where the checkout and the build are, and which files belong to the project."""

import os
import subprocess
from pathlib import Path

SOURCE_DIR = Path(
    os.environ.get("TZMARK_SOURCE_DIR", Path(__file__).resolve().parents[2])
)
BUILD_DIR = Path(os.environ.get("TZMARK_BUILD_DIR", SOURCE_DIR / "build"))

# What .gitignore leaves out, for a checkout that came without git.
IGNORED = {"build", ".cache", ".git", "__pycache__"}
IGNORED_PATHS = {"reports/latest"}


def project_files(root: Path = SOURCE_DIR) -> list[Path]:
    """The files that git tracks or would track, relative to root; without git, all but the ignored ones."""
    if (root / ".git").exists():
        # In a container the checkout often belongs to someone else, which git otherwise refuses to look at.
        listing = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z"]
            + ["--cached", "--others", "--exclude-standard"],
            check=True,
            capture_output=True,
        ).stdout
        names = [os.fsdecode(name) for name in listing.split(b"\0") if name]
        return sorted({Path(name) for name in names if (root / name).is_file()})
    found = []
    for directory, directories, files in os.walk(root):
        relative = Path(directory).relative_to(root)
        directories[:] = [
            name
            for name in directories
            if name not in IGNORED and (relative / name).as_posix() not in IGNORED_PATHS
        ]
        found += [relative / name for name in files if not name.endswith(".pyc")]
    return sorted(found)


def read_text(path: Path) -> str | None:
    """The text of a project file, or None if it holds something else than text."""
    content = (SOURCE_DIR / path).read_bytes()
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def is_script(text: str) -> bool:
    """Whether a file without a telling name is a program."""
    return text.startswith("#!")
