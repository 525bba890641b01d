"""The way of dependency is kept by CMake's link graph and by the includes, and the checks see it when it is not."""

import sys
import tempfile
import unittest
from pathlib import Path

from layers import (
    configure,
    read_dot,
    wrong_include_roots,
    wrong_includes,
    wrong_links,
)
from text_rules import CPP
from tree import SOURCE_DIR, project_files, read_text

GOOD = {
    "tzmark_format": {"tzmark_bytes", "fmt::fmt"},
    "tzmark_simd": {"tzmark_bytes"},
    "tzmark_io": {"tzmark_bytes"},
    "tzmark_gpu": {"tzmark_io"},
    "tzmark_remote": {"tzmark_io"},
    "tzmark_os": {"tzmark_io", "tzmark_remote"},
    "tzmark_program": {"tzmark_io"},
    "tzmark_codec": {"tzmark_format", "tzmark_gpu", "tzmark_os", "tzmark_simd"},
    "tzmark_safetensors": {"tzmark_codec"},
    "tzmark_checkpoint": {"tzmark_safetensors"},
    "tzmark_reference": {"tzmark_codec"},
    "tzmark": {"tzmark_codec", "tzmark_program"},
    "tzmark-conform": {"tzmark_conformance_runner"},
    "tzmark_conformance_runner": {"fmt::fmt"},
    "tzmark-adapter-reference": {"tzmark_codec"},
    "tzmark_bench_workloads": {"tzmark_format"},
    "tzmark_bench_harness": {"tzmark_codec"},
    "tzmark_bench_measure": {"tzmark_bench_harness"},
}
DIRECTORIES = {
    "tzmark_bytes": "reference/bytes",
    "tzmark_codec": "reference/codec",
    "tzmark-conform": "conformance/commands",
    "tzmark_conformance_runner": "conformance/runner",
    "tzmark-adapter-reference": "conformance/adapters/reference",
    "tzmark_bench_workloads": "bench",
    "tzmark_bench_harness": "bench",
    "tzmark_bench_measure": "bench",
}


class TheChecks(unittest.TestCase):
    def test_good_graph_passes(self) -> None:
        self.assertEqual(wrong_links(GOOD, DIRECTORIES), [])

    def test_link_upwards(self) -> None:
        graph = GOOD | {"tzmark_bytes": {"tzmark_io"}}
        self.assertIn(
            "tzmark_bytes must not link tzmark_io", wrong_links(graph, DIRECTORIES)
        )

    def test_link_sideways(self) -> None:
        graph = GOOD | {"tzmark_format": {"tzmark_bytes", "tzmark_io"}}
        self.assertIn(
            "tzmark_format must not link tzmark_io", wrong_links(graph, DIRECTORIES)
        )

    def test_judge_links_the_judged(self) -> None:
        graph = GOOD | {
            "tzmark_conformance_runner": {"helper"},
            "helper": {"tzmark_bytes"},
        }
        wrong = wrong_links(graph, DIRECTORIES)
        self.assertIn(
            "tzmark-conform judges the reference and must not link tzmark_bytes", wrong
        )

    def test_what_the_judge_shares(self) -> None:
        shared = {"tzmark_conformance_runner": {"tzmark_program_files"}}
        directories = DIRECTORIES | {"tzmark_program_files": "program"}
        self.assertEqual(wrong_links(GOOD | shared, directories), [])
        graph = GOOD | shared | {"tzmark_program_files": {"tzmark_bytes"}}
        self.assertIn(
            "tzmark_program_files is shared with the suite and must not link tzmark_bytes",
            wrong_links(graph, directories),
        )

    def test_the_measured_links_the_benchmark(self) -> None:
        for target in ("tzmark_codec", "tzmark_conformance_runner"):
            with self.subTest(target=target):
                graph = GOOD | {target: GOOD[target] | {"tzmark_bench_workloads"}}
                self.assertIn(
                    f"{target} is not of the benchmark and must not link tzmark_bench_workloads",
                    wrong_links(graph, DIRECTORIES),
                )

    def test_product_links_test_doubles(self) -> None:
        for target in ("tzmark_codec", "tzmark-checkpoint-simulate"):
            with self.subTest(target=target):
                graph = GOOD | {target: GOOD.get(target, set()) | {"tzmark_testing"}}
                product = "tzmark" if target in GOOD else target
                self.assertIn(
                    f"{product} is of the product and must not link tzmark_testing",
                    wrong_links(graph, DIRECTORIES),
                )

    def test_command_links_the_simulated_training(self) -> None:
        graph = GOOD | {"tzmark": GOOD["tzmark"] | {"tzmark_training"}}
        self.assertIn(
            "tzmark must not link tzmark_training", wrong_links(graph, DIRECTORIES)
        )

    def test_private_include_root(self) -> None:
        private = {"reference", "reference/include"}
        directories = DIRECTORIES | {"bench_test": "bench"}
        for target, roots, is_wrong in (
            ("tzmark_bench_harness", private, True),
            ("tzmark_bench_harness", {"bench", "reference/include"}, False),
            ("bench_test", private, False),
            ("tzmark_codec", private, False),
        ):
            with self.subTest(target=target, roots=roots):
                found = wrong_include_roots({target: roots}, directories)
                self.assertEqual(bool(found), is_wrong)

    def test_empty_graph(self) -> None:
        self.assertTrue(wrong_links({}, {}))

    def test_dot(self) -> None:
        dot = '    "node1" -> "node0"  // a -> b::c\n    "node2" -> "node1" [ style = dotted ] // d-e -> a\n'
        self.assertEqual(read_dot(dot), {"a": {"b::c"}, "d-e": {"a"}})

    def test_includes(self) -> None:
        for path, included, is_wrong in (
            ("reference/bytes/a.cc", "io/paths.h", True),
            ("reference/simd/a.cc", "bytes/cursor.h", False),
            ("reference/bytes/a.cc", "simd/sha256.h", True),
            ("reference/codec/a.cc", "simd/sha256.h", False),
            ("reference/io/a.cc", "format/name.h", True),
            ("reference/io/a.cc", "gpu/crc32.h", True),
            ("reference/gpu/a.cc", "codec/secretbox.h", True),
            ("reference/gpu/a.cu", "gpu/crc32.h", False),
            ("reference/codec/a.cc", "io/paths.h", False),
            ("reference/codec/a.cc", "codec/b.h", False),
            ("reference/io/a.cc", "os/directory.h", True),
            ("reference/codec/a.cc", "os/directory.h", False),
            ("reference/codec/a.cc", "testing/files/memory_file.h", True),
            ("reference/codec/a_test.cc", "testing/files/memory_file.h", False),
            ("reference/testing/files/a.h", "testing/files/memory_file.h", False),
            ("reference/include/tzmark/a.h", "testing/files/memory_file.h", True),
            ("bench/harness/a.cc", "testing/files/memory_file.h", True),
            ("bench/harness/a.cc", "harness/test_tmpfs.h", True),
            ("bench/harness/a_test.cc", "harness/test_tmpfs.h", False),
            ("conformance/runner/a.cc", "testing/test_corpus.h", True),
            ("conformance/runner/a.cc", "runner/test_corpus.h", True),
            ("conformance/runner/a_test.cc", "testing/test_corpus.h", False),
            ("conformance/testing/a.h", "testing/test_corpus.h", False),
            ("conformance/runner/a.cc", "tzmark/error.h", True),
            ("conformance/commands/a.cc", "bytes/cursor.h", True),
            ("conformance/adapters/reference/a.cc", "tzmark/error.h", False),
            ("conformance/runner/a.cc", "program/made_directory.h", False),
            ("conformance/runner/a.cc", "program/suggestion.h", False),
            ("conformance/runner/a.cc", "program/arguments.h", True),
            ("reference/training/a.cc", "testing/files/memory_file.h", True),
            ("reference/cli/a.cc", "training/ranks.h", True),
            ("reference/training/a.cc", "cli/commands.h", False),
            ("bench/harness/a.cc", "program/made_directory.h", False),
            ("reference/codec/a.cc", "workloads/workload.h", True),
            ("conformance/runner/a.cc", "harness/statistics.h", True),
            ("bench/cli/a.cc", "harness/statistics.h", False),
            ("bench/cli/a.cc", "io/paths.h", True),
            ("bench/harness/a_test.cc", "io/paths.h", True),
            ("bench/harness/a_test.cc", "testing/files/memory_file.h", False),
            ("bench/micro/a.cc", "bytes/cursor.h", True),
            ("bench/micro/a.cc", "tzmark/digest.h", False),
            ("bench/cli/a.cc", "program/arguments.h", False),
            ("bench/checkpoints/a.cc", "program/arguments.h", True),
            ("bench/subjects/a.cc", "program/arguments.h", True),
            ("bench/subjects/a.cc", "tzmark/reader.h", False),
        ):
            with self.subTest(path=path, included=included):
                found = wrong_includes(Path(path), f'#include "{included}"\n')
                self.assertEqual(bool(found), is_wrong)


class TheTree(unittest.TestCase):
    def test_links(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            graph, directories, roots = configure(
                SOURCE_DIR, Path(scratch), sys.executable
            )
        self.assertEqual(wrong_links(graph, directories), [])
        self.assertEqual(wrong_include_roots(roots, directories), [])
        # Without roots the check would pass for nothing.
        self.assertIn("reference/include", roots["tzmark_bench_harness"])

    def test_includes(self) -> None:
        wrong = []
        for path in project_files():
            if path.suffix in CPP:
                wrong += wrong_includes(path, read_text(path) or "")
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
