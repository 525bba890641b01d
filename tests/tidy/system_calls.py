"""Which directories of the reference may change files and directories, and which may open files by name.

Names, attributes and locks change in reference/os alone, on the descriptors of open directories: there tests can meet
every change with a fault or a loss of power, and no name that was looked up can come to mean another file.
"""

import re
from collections.abc import Mapping
from pathlib import Path

# Calls and flags, and the directories under reference/ that may use them.
RULES: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "change names": (
        frozenset(
            "rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat mkdir mkdirat rmdir mkfifo"
            " mkfifoat mknod mknodat mkstemp mkostemp mkdtemp std::rename std::tmpfile".split()
        ),
        frozenset({"os"}),
    ),
    "change attributes": (
        frozenset(
            "chmod fchmod fchmodat chown fchown fchownat lchown setxattr lsetxattr fsetxattr removexattr lremovexattr"
            " fremovexattr utimensat futimens".split()
        ),
        frozenset({"os"}),
    ),
    "lock files": (frozenset({"flock", "lockf"}), frozenset({"os"})),
    "create files": (
        frozenset("O_CREAT O_TMPFILE O_TRUNC creat std::ofstream std::fstream".split()),
        frozenset({"os"}),
    ),
    "change files through std::filesystem": (
        frozenset(
            f"{namespace}::{call}"
            for namespace in ("fs", "filesystem")
            for call in "rename remove remove_all copy copy_file resize_file permissions last_write_time"
            " create_directory create_directories create_symlink create_directory_symlink create_hard_link".split()
        ),
        frozenset(),
    ),
    "open files": (
        frozenset({"open", "openat", "openat2", "std::fopen"}),
        frozenset({"io", "os", "program"}),
    ),
    "change the content of open files": (
        frozenset({"pwrite", "pwritev", "pwritev2", "ftruncate", "fallocate"}),
        frozenset({"io", "os"}),
    ),
    "make files durable": (
        frozenset({"fsync", "fdatasync", "sync_file_range", "syncfs"}),
        frozenset({"io"}),
    ),
}

# Names that methods have too: these calls are only seen as the project writes them, ::call(...).
NAMES_OF_METHODS = frozenset({"link", "open", "rename"})

# The file that reads a table of the system outside these directories, and those that the programs share with the suite,
# which links nothing of reference/os: they work on descriptors too.
EXCEPTIONS = {("reference/codec/undo_journal_recovery.cc", "std::fopen")} | {
    (f"program/{file}", name)
    for file, names in (
        ("made_directory.cc", "mkdirat unlinkat renameat fchmod fchmodat O_CREAT"),
        ("output_file.cc", "renameat unlinkat fchmod fsync O_CREAT"),
    )
    for name in names.split()
}


def is_judged(path: Path) -> bool:
    """Whether a file is a part of the product's reference, where all of its directories are meant."""
    return (
        path.parts[0] in ("reference", "program")
        and path.suffix in (".cc", ".h", ".cu")
        and path.parts[1] != "testing"
        and not path.stem.endswith("_test")
    )


def directory_of(path: Path) -> str:
    """The directory below reference/, or program."""
    return path.parts[1] if path.parts[0] == "reference" else path.parts[0]


def pattern(name: str) -> str:
    """A regular expression for a flag, a name of C++, or a system call."""
    if name.isupper() or "::" in name:
        return rf"(?<!\w){name}\b"
    if name in NAMES_OF_METHODS:
        return rf"(?<![\w>])::{name}\("
    return rf"(?<![\w.>:])(::)?{name}\("


def wrong_calls(path: Path, text: str) -> list[str]:
    """Every call of a file that its directory may not make."""
    if not is_judged(path):
        return []
    code = re.sub(r"//.*", "", text)
    return [
        f"{path} must not {what}, as {name} does"
        for what, (names, directories) in RULES.items()
        if directory_of(path) not in directories
        for name in sorted(names)
        if (path.as_posix(), name) not in EXCEPTIONS and re.search(pattern(name), code)
    ]
