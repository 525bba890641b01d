"""The command ``tzmark``: where it is, and running the one that a wheel contains."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import NoReturn

from ._errors import UnavailableError

VARIABLE = "TZMARK_COMMAND"
# A wheel contains a whole installation.
PACKAGED = Path(__file__).resolve().parent / "_install/bin/tzmark"
ENVIRONMENT_STATUS = 3


def main() -> NoReturn:
    """Replaces this process by the command that the wheel contains, with the arguments of this process."""
    # Pages and change points are made by the interpreter that has the packages for them: this one.
    os.environ.setdefault("TZMARK_PYTHON", sys.executable)
    try:
        os.execv(PACKAGED, ["tzmark", *sys.argv[1:]])
    except OSError as error:
        print(f"tzmark: {PACKAGED}: {error.strerror}", file=sys.stderr)
        sys.exit(ENVIRONMENT_STATUS)


def find_command() -> str:
    """Returns the path of the command: $TZMARK_COMMAND, that of this package, of this Python, or the first in PATH."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        if not os.access(chosen, os.X_OK):
            raise UnavailableError(
                f"{VARIABLE} is {chosen!r}, which is not a program", "TZE-AVL-001"
            )
        return chosen
    if os.access(PACKAGED, os.X_OK):
        return str(PACKAGED)
    own = Path(sysconfig.get_path("scripts")) / "tzmark"
    if os.access(own, os.X_OK):
        return str(own)
    found = shutil.which("tzmark")
    if found is None:
        raise UnavailableError(
            f"the command tzmark is not in PATH; set {VARIABLE} to it", "TZE-AVL-001"
        )
    return found
