"""The figure of ARCHITECTURE.md is that of CMake's link graph, directories include each other without a cycle, and
scripts/draw-architecture notices what is wrong with either.
"""

import importlib.machinery
import importlib.util
import subprocess
import sys
import unittest
from types import ModuleType

from tree import SOURCE_DIR

SCRIPT = SOURCE_DIR / "scripts/draw-architecture"


def load() -> ModuleType:
    """Returns the script as a module; its name has no suffix."""
    loader = importlib.machinery.SourceFileLoader("draw_architecture", str(SCRIPT))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


draw = load()

GRAPH = {
    "reference/cli": {"reference/codec", "reference/bytes"},
    "reference/codec": {"reference/bytes"},
    "reference/bytes": set(),
    "bench/cli": {"reference/codec"},
}
PURPOSES = {name: f"what {name} is for" for name in GRAPH}


class Drawing(unittest.TestCase):
    def test_links_that_follow_are_left_out(self) -> None:
        found = draw.reduced(GRAPH)
        self.assertEqual(found["reference/cli"], {"reference/codec"})
        self.assertEqual(found["reference/codec"], {"reference/bytes"})

    def test_cycle(self) -> None:
        graph = GRAPH | {"reference/bytes": {"reference/codec"}}
        with self.assertRaisesRegex(
            draw.BadGraph, "reference/bytes -> reference/codec"
        ):
            draw.svg(graph, PURPOSES)

    def test_directory_without_purpose(self) -> None:
        graph = GRAPH | {"reference/new": set()}
        with self.assertRaisesRegex(draw.BadGraph, "no row for reference/new"):
            draw.svg(graph, PURPOSES)

    def test_purpose_without_directory(self) -> None:
        purposes = PURPOSES | {"reference/old": "what is gone"}
        with self.assertRaisesRegex(draw.BadGraph, "a row for reference/old"):
            draw.svg(GRAPH, purposes)

    def test_each_link_shows(self) -> None:
        without = draw.svg(GRAPH | {"bench/cli": set()}, PURPOSES)
        figure = draw.svg(GRAPH, PURPOSES)
        self.assertEqual(figure.count("marker-end"), 3)
        self.assertEqual(without.count("marker-end"), 2)
        self.assertEqual(figure, draw.svg(GRAPH, PURPOSES))

    def test_target_without_sources_stands_for_what_it_links(self) -> None:
        graph = {"tool": {"whole"}, "whole": {"part", "fmt::fmt"}}
        directories = {"tool": "bench/cli", "part": "reference/codec", "whole": ""}
        for known in (directories, {k: v for k, v in directories.items() if v}):
            self.assertEqual(
                draw.directory_links(graph, known)["bench/cli"], {"reference/codec"}
            )


class Includes(unittest.TestCase):
    SOURCES = {
        "reference/codec/a.cc": '#include "bytes/b.h"\n#include <vector>\n#include "codec/c.h"\n',
        "reference/codec/c.h": "",
        "reference/bytes/b.h": "",
        "conformance/runner/c.h": "",
        "conformance/cli/d.cc": '#include "c.h"\n',
    }

    def test_counts(self) -> None:
        found = draw.directory_includes(self.SOURCES)
        self.assertEqual(found["reference/codec"], {"reference/bytes": 1})
        self.assertEqual(found["conformance/cli"], {"conformance/runner": 1})

    def test_arrow_back(self) -> None:
        sources = self.SOURCES | {"reference/bytes/b.h": '#include "codec/c.h"\n'}
        found = draw.directory_includes(sources)
        back = draw.cycle_edges({name: set(counts) for name, counts in found.items()})
        self.assertEqual(
            back,
            [
                ("reference/bytes", "reference/codec"),
                ("reference/codec", "reference/bytes"),
            ],
        )


class TheTree(unittest.TestCase):
    def run_script(self, option: str) -> str:
        done = subprocess.run(
            [sys.executable, "-B", str(SCRIPT), option], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_figure(self) -> None:
        self.run_script("--check")

    def test_includes(self) -> None:
        self.assertIn("| reference/codec |", self.run_script("--includes"))


if __name__ == "__main__":
    unittest.main()
