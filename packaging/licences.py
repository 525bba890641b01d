"""Adds the licences of the libraries that a wheel needs to its dist-info/licenses, one file per package of this system.

usage: licences.py WHEEL OUT_DIR

The libraries are those that the programs in the wheel load, apart from those that every Linux has, and those that only
headers came from. $TZMARK_LICENCES names a directory with the texts, one file per library, where libraries were built
from source; else Debian's are used.

Exit status: 0 done, 1 a licence is not found.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Of the system: the wheel does not contain them.
SYSTEM = re.compile(r"linux-vdso|ld-linux|lib(?:c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so")
LINKED_IN = ("libfmt-dev", "nlohmann-json3-dev", "libcli11-dev", "libstdc++-12-dev")


def output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_program(path: Path) -> bool:
    if path.is_dir() or path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def libraries(directory: Path) -> set[Path]:
    """Returns the libraries of this system that the programs in the directory load."""
    found = set()
    for program in filter(is_program, directory.rglob("*")):
        for name, path in re.findall(r"(\S+) => (/\S+)", output("ldd", program)):
            if not SYSTEM.search(name):
                found.add(Path(path).resolve())
    return found


def package_of(library: Path) -> str:
    # dpkg knows the files of merged directories by either name.
    for path in (library, Path(str(library).removeprefix("/usr"))):
        done = subprocess.run(
            ["dpkg-query", "--search", path], capture_output=True, text=True
        )
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    sys.exit(f"licences.py: no package of this system has {library}")


def texts(directory: Path) -> dict[str, Path]:
    """Returns a file with the licence by the name of the package."""
    given = os.environ.get("TZMARK_LICENCES")
    if given is not None:
        return {path.name: path for path in Path(given).iterdir()}
    packages = {package_of(library) for library in libraries(directory)}
    # The compiler's own package has the number of its release.
    release = output(os.environ.get("CXX", "c++"), "-dumpversion").strip()
    packages |= {name.replace("12", release) for name in LINKED_IN}
    return {name: Path("/usr/share/doc") / name / "copyright" for name in packages}


def main(wheel: Path, out: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        tool = [sys.executable, "-m", "wheel"]
        output(*tool, "unpack", "--dest", scratch, wheel)
        (directory,) = Path(scratch).iterdir()
        (information,) = directory.glob("*.dist-info")
        for name, text in sorted(texts(directory).items()):
            if not text.is_file():
                sys.exit(f"licences.py: {text} is missing")
            target = information / "licenses" / name
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(text, target)
        out.mkdir(parents=True, exist_ok=True)
        output(*tool, "pack", "--dest-dir", out, directory)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
