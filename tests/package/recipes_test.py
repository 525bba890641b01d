"""The recipes of packages name this version, options that there are, and each library that the build looks for."""

from __future__ import annotations

import ast
import os
import re
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
CMAKE = (SOURCE / "CMakeLists.txt").read_text()
DEBIAN = (SOURCE / "packaging/debian/control").read_text()
SPACK = (SOURCE / "packaging/spack/packages/tzmark/package.py").read_text()
CONDA = (SOURCE / "packaging/conda/recipe.yaml").read_text()

# What CMake calls a library, and what it is called by Debian, Spack and conda-forge.
NAMES = {
    "OpenSSL": ("libssl-dev", "openssl", "openssl"),
    "ZLIB": ("zlib1g-dev", "zlib-api", "zlib"),
    "fmt": ("libfmt-dev", "fmt", "fmt"),
    "nlohmann_json": ("nlohmann-json3-dev", "nlohmann-json", "nlohmann_json"),
    "CLI11": ("libcli11-dev", "cli11", "cli11"),
    "libsodium": ("libsodium-dev", "libsodium", "libsodium"),
    "libisal": ("libisal-dev", "isa-l", "isa-l"),
    "liburing": ("liburing-dev", "liburing", "liburing"),
    "tinyxml2": ("libtinyxml2-dev", "tinyxml2", "tinyxml2"),
}
# Tools, what only tests need, and what is an option.
OTHERS = {
    "PkgConfig",
    "Threads",
    "Python3",
    "MPI",
    "GTest",
    "benchmark",
    "CUDAToolkit",
    "Git",
}
# Of the environment of a script, and one that CMake finds out by itself where it is not given.
VARIABLES = {"TZMARK_BUILD_DIR", "TZMARK_VERSION", "TZMARK_COMMIT"}


def cmake_files() -> str:
    """The text of all build files that are not of a test or a benchmark of its own."""
    files = [
        SOURCE / "CMakeLists.txt",
        *(SOURCE / "cmake").glob("*.cmake"),
        *(
            file
            for part in ("reference", "conformance", "bench", "corpus", "python")
            for file in (SOURCE / part).rglob("CMakeLists.txt")
        ),
    ]
    return "\n".join(file.read_text() for file in files)


def searched_libraries(text: str) -> set[str]:
    packages = re.findall(r"find_package\((\w+)", text)
    modules = re.findall(
        r"pkg_check_modules\(\w+ (?:QUIET |REQUIRED |IMPORTED_TARGET )*([a-z0-9]+)",
        text,
    )
    return set(packages) | set(modules)


def needed_by_debian(text: str) -> set[str]:
    needs = text.split("Build-Depends:")[1].split("Standards-Version")[0]
    return set(re.findall(r"(?m)^ ([a-z0-9.+-]+)", needs))


def needed_by_spack(text: str) -> set[str]:
    return set(re.findall(r'depends_on\(\s*"([a-z0-9-]+)', text))


def needed_by_conda(text: str) -> set[str]:
    host = text.split("  host:")[1].split("  run:")[0]
    return set(re.findall(r"(?m)^    - ([a-z0-9_-]+)", host))


def stated_options(text: str) -> set[str]:
    return set(re.findall(r"(?:-D|\b)(TZMARK_[A-Z_]+)\b", text))


class Recipes(unittest.TestCase):
    def setUp(self) -> None:
        match = re.search(r"project\(tzmark VERSION ([0-9.]+)", CMAKE)
        assert match is not None
        self.version = match[1]

    def test_libraries_are_those_of_the_build(self) -> None:
        searched = searched_libraries(cmake_files())
        self.assertLessEqual(set(NAMES), searched)
        self.assertLessEqual(searched, set(NAMES) | OTHERS, "a library has no row here")
        # Its header is looked for in another way, as it is loaded at run time.
        self.assertIn("find_path(TZMARK_CURL_HEADER curl/curl.h)", CMAKE)
        curl = ("libcurl4-openssl-dev", "curl", "libcurl")
        for library, (debian, spack, conda) in (NAMES | {"curl": curl}).items():
            with self.subTest(library=library):
                self.assertIn(debian, needed_by_debian(DEBIAN))
                self.assertIn(spack, needed_by_spack(SPACK))
                self.assertIn(conda, needed_by_conda(CONDA))

    def test_missing_library_is_found(self) -> None:
        self.assertNotIn(
            "liburing", needed_by_spack(SPACK.replace('"liburing@', '"other@'))
        )
        self.assertNotIn(
            "liburing", needed_by_conda(CONDA.replace("- liburing", "- other"))
        )
        self.assertEqual(
            searched_libraries("pkg_check_modules(x REQUIRED IMPORTED_TARGET y>=1)"),
            {"y"},
        )

    def test_oldest_versions_are_those_of_the_build(self) -> None:
        for spack, conda, version in (
            ("cmake@", "cmake >=", r"cmake_minimum_required\(VERSION ([0-9.]+)"),
            ("cli11@", "cli11 >=", r"find_package\(CLI11 ([0-9.]+)"),
            (
                "nlohmann-json@",
                "nlohmann_json >=",
                r"find_package\(nlohmann_json ([0-9.]+)",
            ),
            ("fmt@", "fmt >=", r"find_package\(fmt ([0-9.]+)"),
            ("liburing@", "liburing >=", r"liburing>=([0-9.]+)"),
        ):
            match = re.search(version, CMAKE)
            assert match is not None, version
            with self.subTest(library=spack):
                self.assertIn(f'"{spack}{match[1]}:"', SPACK)
                self.assertRegex(
                    CONDA, rf"(?m)^    - {re.escape(conda + match[1])}(\.0)?$"
                )

    def test_options_are_those_of_the_build(self) -> None:
        declared = set(
            re.findall(
                r"(?:option\(|set\((?=TZMARK_[A-Z_]+ [^()]*CACHE))(TZMARK_[A-Z_]+)",
                cmake_files(),
            )
        )
        for name in (
            "packaging/debian/rules",
            "packaging/rpm.sh",
            "packaging/spack/packages/tzmark/package.py",
            "packaging/conda/recipe.yaml",
            "pyproject.toml",
        ):
            with self.subTest(recipe=name):
                stated = stated_options((SOURCE / name).read_text())
                self.assertTrue(stated)
                self.assertLessEqual(stated - VARIABLES, declared)

    def test_version_is_that_of_the_project(self) -> None:
        self.assertIn(f'version("{self.version}", tag="v{self.version}")', SPACK)
        self.assertRegex(CONDA, rf"(?m)^  version: {re.escape(self.version)}$")

    def test_recipe_of_spack_is_a_class_of_python(self) -> None:
        classes = [
            node for node in ast.parse(SPACK).body if isinstance(node, ast.ClassDef)
        ]
        self.assertEqual([node.name for node in classes], ["Tzmark"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
