"""What the linker and the compiler put into a program so that an error in memory ends it: found in the file itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

# The first instruction of a function that may be called by its address.
ENDBR64 = b"\xf3\x0f\x1e\xfa"
PROGRAM_ENTRIES_MIN = 10
# What the checks of the C++ library say, in a program that has this library's code inside.
ASSERTION = b"Assertion '%s' failed"
# An allowance for libraries that have no arrays on the stack, no sizes to check and no containers.
SMALL_BYTES = 1 << 17


def said(option: str, file: Path) -> str:
    return subprocess.run(
        ["readelf", option, "-W", file], check=True, capture_output=True, text=True
    ).stdout


def is_elf(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4) == b"\x7fELF"


def lacking(file: Path) -> list[str]:
    """The protections that a program or a shared library lacks, by their usual names."""
    header, segments = said("-h", file), said("-l", file)
    dynamic, symbols = said("-d", file), said("--dyn-syms", file)
    content = file.read_bytes()
    is_program = "Requesting program interpreter" in segments
    is_large = len(content) > SMALL_BYTES
    wanted = {
        "PIE": "DYN (" in header and (not is_program or "PIE" in dynamic),
        "RELRO": "GNU_RELRO" in segments,
        "BIND_NOW": re.search(r"\(FLAGS.*\bNOW\b|BIND_NOW", dynamic) is not None,
        "NX": re.search(r"GNU_STACK .* RW +0x", segments) is not None,
        "no text relocations": "TEXTREL" not in dynamic,
        "stack protector": not is_large or "UND __stack_chk_fail" in symbols,
        "FORTIFY": not is_large
        or re.search(r"UND __(?!stack_)\w+_chk\b", symbols) is not None,
        "GLIBCXX_ASSERTIONS": not is_large
        or "__glibcxx_assert_fail" in symbols
        or ASSERTION in content,
    }
    if "X86-64" in header:
        entries = content.count(ENDBR64)
        wanted["CET"] = entries >= (PROGRAM_ENTRIES_MIN if is_large else 1)
    return [name for name, is_there in wanted.items() if not is_there]
