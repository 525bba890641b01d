"""The build backend of the Python package: that of scikit-build-core, after a check of what the build needs.

What is missing is named at once, with the packages of Debian that have it: otherwise CMake reports one thing at a time,
and the first report, on a machine without a compiler, says nothing of the rest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

SCIKIT_BUILD = "scikit-build-core==1.1.2"
# Debian's package, and the module of pkg-config that it has.
LIBRARIES = {
    "zlib1g-dev": "zlib",
    "libssl-dev": "libcrypto >= 3.0",
    "libsodium-dev": "libsodium",
    "libisal-dev": "libisal",
    "liburing-dev": "liburing >= 2.3",
    "libfmt-dev": "fmt >= 9",
    "nlohmann-json3-dev": "nlohmann_json >= 3.10",
    "libcli11-dev": "CLI11 >= 2.1",
    "libtinyxml2-dev": "tinyxml2",
}


def compiles() -> bool:
    """Returns whether the C++ compiler, $CXX or c++, knows the standard that the project is written in."""
    compiler = (os.environ.get("CXX") or "c++").split()
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "probe.cc"
        source.write_text("#include <span>\nint main() { return 0; }\n")
        command = [*compiler, "-std=c++20", str(source), "-o", f"{directory}/probe"]
        try:
            return subprocess.run(command, capture_output=True).returncode == 0
        except OSError:
            return False


def missing() -> list[str]:
    """Returns Debian's packages that the build needs and this machine lacks."""
    found = []
    if not compiles():
        found.append("g++")
    pkg_config = os.environ.get("PKG_CONFIG") or "pkg-config"
    if shutil.which(pkg_config) is None:
        found += ["pkg-config", *LIBRARIES]
    else:
        for package, module in LIBRARIES.items():
            asked = subprocess.run(
                [pkg_config, "--exists", module], capture_output=True
            )
            if asked.returncode != 0:
                found.append(package)
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        found.append("python3-dev")
    return found


def require_all() -> None:
    packages = missing()
    if packages:
        sys.exit(
            "tzmark cannot be built from source here. It needs these packages of Debian, or what other systems call "
            f"them:\n\n    apt-get install {' '.join(packages)}\n\nA wheel needs none of them."
        )


def get_requires_for_build_wheel(settings: dict[str, Any] | None = None) -> list[str]:
    require_all()
    requirements = [SCIKIT_BUILD]
    # Those of the system, if there are any: scikit-build-core looks at their versions.
    if shutil.which("cmake") is None:
        requirements.append("cmake>=3.22")
    if shutil.which("ninja") is None:
        requirements.append("ninja>=1.10")
    return requirements


def get_requires_for_build_sdist(settings: dict[str, Any] | None = None) -> list[str]:
    return [SCIKIT_BUILD]


def build_wheel(
    directory: str,
    settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    require_all()
    from scikit_build_core import build

    return build.build_wheel(directory, settings, metadata_directory)


def build_sdist(directory: str, settings: dict[str, Any] | None = None) -> str:
    from scikit_build_core import build

    return build.build_sdist(directory, settings)
