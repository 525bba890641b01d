"""The direction of dependencies: what each directory may include and what each CMake target may link.

Each part of the reference includes only parts below it. The conformance suite depends on none of them, since the judge
and the judged share no code. The benchmark uses the reference, and nothing uses the benchmark.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

BELOW_CHECKPOINT = frozenset(
    {"bytes", "simd", "format", "io", "remote", "os", "gpu", "codec", "safetensors"}
)

# For each directory of the reference, the directories below it.
LAYERS: Mapping[str, frozenset[str]] = {
    "bytes": frozenset(),
    "simd": frozenset({"bytes"}),
    "format": frozenset({"bytes"}),
    "io": frozenset({"bytes"}),
    "remote": frozenset({"bytes", "io"}),
    "os": frozenset({"bytes", "io", "remote"}),
    "gpu": frozenset({"bytes", "io"}),
    "codec": frozenset({"bytes", "simd", "format", "io", "remote", "os", "gpu"}),
    "safetensors": BELOW_CHECKPOINT - {"safetensors"},
    "checkpoint": BELOW_CHECKPOINT,
    "program": frozenset({"bytes", "io", "remote", "os"}),
    "cli": BELOW_CHECKPOINT | {"checkpoint", "program"},
    "training": BELOW_CHECKPOINT | {"checkpoint", "program", "cli"},
}

# Test doubles, which only tests, fuzz targets and the doubles themselves include.
TESTING = "testing"
TESTING_USERS = (
    "reference/testing",
    "fuzz",
    "conformance/testing",
    "tests",
)

TESTING_TARGETS = {"tzmark_testing"}

# CMake's targets are called tzmark_DIRECTORY, but for the command itself.
TARGETS = {layer: f"tzmark_{layer}" for layer in LAYERS} | {"cli": "tzmark"}

# Edges that must be there: without them the graph was read wrongly, and every other check would pass for nothing.
BACKBONE = (
    ("tzmark_format", "tzmark_bytes"),
    ("tzmark_simd", "tzmark_bytes"),
    ("tzmark_codec", "tzmark_simd"),
    ("tzmark_io", "tzmark_bytes"),
    ("tzmark_codec", "tzmark_format"),
    ("tzmark_gpu", "tzmark_io"),
    ("tzmark_remote", "tzmark_io"),
    ("tzmark_os", "tzmark_remote"),
    ("tzmark_codec", "tzmark_os"),
    ("tzmark_codec", "tzmark_gpu"),
    ("tzmark_safetensors", "tzmark_codec"),
    ("tzmark_checkpoint", "tzmark_safetensors"),
    ("tzmark_reference", "tzmark_codec"),
    ("tzmark", "tzmark_codec"),
    ("tzmark_program", "tzmark_io"),
    ("tzmark", "tzmark_program"),
    ("tzmark-conform", "tzmark_conformance_runner"),
    ("tzmark-adapter-reference", "tzmark_codec"),
    ("tzmark_bench_workloads", "tzmark_format"),
    ("tzmark_bench_harness", "tzmark_codec"),
    ("tzmark_bench_measure", "tzmark_bench_harness"),
)

# The programs and the library that people install. None of them links test doubles.
PRODUCT = (
    "tzmark",
    "tzmark_reference",
    "tzmark-checkpoint-simulate",
    "tzmark-conform",
    "tzmark-bench",
)

# What programs share with the suite: terminals, files, trees of options. No code of the codec, and it links none.
SHARED_TARGET = "tzmark_program_files"
OPTIONS_TARGETS = frozenset({"tzmark_options", "tzmark_small_options"})
SHARED_HEADERS = frozenset(
    f"program/{name}.h"
    for name in (
        *("installation", "local_name", "made_directory", "option_tree"),
        *("output_file", "python_path", "suggestion"),
    )
)

# Directories under conformance/ that may use the reference: the adapter that puts it under test.
REFERENCE_USERS = frozenset({"conformance/adapters/reference"})

# The parts of the project that the benchmark measures or has nothing to do with.
BENCH_STRANGERS = ("reference", "conformance")

# Directories under bench/ whose headers are included by that name. Its cli/ shares the name with that of the reference.
BENCH_DIRECTORIES = frozenset(
    {
        "checkpoints",
        "workloads",
        "harness",
        "measure",
        "subjects",
        "micro",
        "simulation",
        "tune",
    }
)

# The benchmark measures the library that users get: of the reference it includes public headers (tzmark/), and its
# commands include program/ as well. Its tests also use test doubles.
BENCH_PROGRAMS = ("bench/cli", "bench/cluster")
PRIVATE_HEADERS = frozenset(LAYERS) - {"cli", "program"}

# The include root of private headers, which no target of the benchmark gets; tests get it with the test doubles.
PRIVATE_ROOT = "reference"

Graph = dict[str, set[str]]

# For each target, the directories below the source in which the compiler looks for headers.
IncludeRoots = dict[str, set[str]]


def configure(
    source: Path, scratch: Path, python: str
) -> tuple[Graph, dict[str, str], IncludeRoots]:
    """Configures the project anew and returns who links whom and, for each target, its directory and include roots."""
    query = scratch / ".cmake/api/v1/query/codemodel-v2"
    query.parent.mkdir(parents=True)
    query.touch()
    dot = scratch / "links.dot"
    done = subprocess.run(
        ["cmake", "-S", str(source), "-B", str(scratch), f"--graphviz={dot}"]
        + ["-G", "Ninja", f"-DPython3_EXECUTABLE={python}"],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"cmake failed\n{done.stdout}{done.stderr}")
    directories, roots = {}, {}
    for reply in (scratch / ".cmake/api/v1/reply").glob("target-*.json"):
        target = json.loads(reply.read_text())
        directories[target["name"]] = target["paths"]["source"]
        roots[target["name"]] = {
            Path(include["path"]).relative_to(source).as_posix()
            for group in target.get("compileGroups", [])
            for include in group.get("includes", [])
            if Path(include["path"]).is_relative_to(source)
        }
    return read_dot(dot.read_text()), directories, roots


def read_dot(dot: str) -> Graph:
    """The edges of CMake's graph. It repeats each edge in plain names behind //."""
    graph: Graph = {}
    for source, target in re.findall(r"// (\S+) -> (\S+)$", dot, re.MULTILINE):
        graph.setdefault(source, set()).add(target)
    return graph


def closure(graph: Graph, target: str) -> set[str]:
    """Everything that a target links, directly or not."""
    found: set[str] = set()
    waiting = [target]
    while waiting:
        for name in graph.get(waiting.pop(), set()) - found:
            found.add(name)
            waiting.append(name)
    return found


def judges(target: str, directories: Mapping[str, str]) -> bool:
    """Whether a target belongs to the suite and not to what it judges."""
    directory = directories.get(target, "")
    return directory.startswith("conformance") and directory not in REFERENCE_USERS


def wrong_links(graph: Graph, directories: Mapping[str, str]) -> list[str]:
    """Every link that goes against the way of dependency."""
    wrong = [
        f"{source} should link {target}"
        for source, target in BACKBONE
        if target not in closure(graph, source)
    ]
    for layer, below in LAYERS.items():
        linked = closure(graph, TARGETS[layer])
        for other, target in TARGETS.items():
            if target in linked and other not in below:
                wrong.append(f"{TARGETS[layer]} must not link {target}")
    for target in PRODUCT:
        for other in sorted(closure(graph, target) & TESTING_TARGETS):
            wrong.append(f"{target} is of the product and must not link {other}")
    for target in sorted(filter(lambda name: judges(name, directories), graph)):
        for other in sorted(closure(graph, target)):
            is_reference = directories.get(other, "").startswith("reference")
            if is_reference and other != SHARED_TARGET:
                wrong.append(f"{target} judges the reference and must not link {other}")
    for other in sorted(closure(graph, SHARED_TARGET)):
        if other in directories and other not in OPTIONS_TARGETS:
            wrong.append(
                f"{SHARED_TARGET} is shared with the suite and must not link {other}"
            )
    for target in sorted(graph):
        if directories.get(target, "").startswith(BENCH_STRANGERS):
            for other in sorted(closure(graph, target)):
                if directories.get(other, "").startswith("bench"):
                    wrong.append(
                        f"{target} is not of the benchmark and must not link {other}"
                    )
    return wrong


def wrong_include_roots(
    roots: IncludeRoots, directories: Mapping[str, str]
) -> list[str]:
    """Every target of the benchmark that could include private headers of the reference."""
    return [
        f"{target} is of the benchmark and must not look for headers in {PRIVATE_ROOT}/"
        for target in sorted(roots)
        if directories[target].startswith("bench")
        and not target.endswith("_test")
        and PRIVATE_ROOT in roots[target]
    ]


def may_use_testing(path: Path) -> bool:
    """Whether a file is a test, or one of the test doubles."""
    return path.stem.endswith("_test") or path.as_posix().startswith(TESTING_USERS)


def is_for_tests(included: str) -> bool:
    """Whether a header exists for tests only, by its directory or its name."""
    return TESTING in included.split("/") or Path(included).name.startswith("test_")


def wrong_includes(path: Path, text: str) -> list[str]:
    """Every include of a file that goes against the way of dependency, or over the wall."""
    wrong = []
    directory = path.parent.as_posix()
    for included in re.findall(r'^#include ["<]([^">]+)[">]', text, re.MULTILINE):
        first = included.split("/")[0]
        if included in SHARED_HEADERS and path.parts[0] in ("conformance", "bench"):
            continue
        if path.parts[0] == "reference" and path.parts[1] in LAYERS:
            own = path.parts[1]
            if first in LAYERS and first != own and first not in LAYERS[own]:
                wrong.append(f"{path} must not include {included}")
        elif path.parts[0] == "conformance" and directory not in REFERENCE_USERS:
            if first == "tzmark" or (first in LAYERS and "/" in included):
                wrong.append(
                    f"{path} judges the reference and must not include {included}"
                )
        elif path.parts[0] == "bench":
            is_program = path.as_posix().startswith(BENCH_PROGRAMS)
            if first in PRIVATE_HEADERS or (first == "program" and not is_program):
                wrong.append(
                    f"{path} is of the benchmark and must not include {included}"
                )
        if is_for_tests(included) and not may_use_testing(path):
            wrong.append(f"{path} is of the product and must not include {included}")
        if path.parts[0] in BENCH_STRANGERS and first in BENCH_DIRECTORIES:
            wrong.append(
                f"{path} is not of the benchmark and must not include {included}"
            )
    return wrong
