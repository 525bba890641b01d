"""Code asks for the traits of I/O paths, and the check sees it when it compares names instead."""

import unittest
from pathlib import Path

from path_names import registered, wrong_lines
from tree import project_files, read_text

NAMES = {"pwrite", "direct", "uring", "uring-direct", "uring-sqpoll", "mmap"}


class TheCheck(unittest.TestCase):
    def test_each_kind_of_comparison_is_seen(self) -> None:
        for path, line in (
            ("bench/a.cc", 'if (io == "pwrite") return;'),
            ("bench/a.h", 'return "uring-direct" != io;'),
            ("python/native/a.cc", 'return io.starts_with("uring");'),
            ("bench/a.cc", 'return setting.io.ends_with("-direct");'),
            (
                "reference/os/a.cc",
                'std::ranges::find(io_paths(), "mmap", &IoPath::name)',
            ),
            ("reports/a.py", 'if name in ("pwrite", "mmap"):'),
            ("reports/a.py", 'if name.startswith("uring"):'),
            ("reports/a.py", 'if "uring" in name:'),
            ("reports/a.py", '    "pwrite": ("#2f62a3", "#6ba0da"),'),
            ("scripts/a", "if io == 'direct':"),
        ):
            with self.subTest(line=line):
                self.assertEqual(
                    wrong_lines(Path(path), f"\n{line}\n", NAMES),
                    [f"{path}:2 compares the name of an I/O path: ask for a trait"],
                )
                for other in ("reference/io/a.cc", "bench/a_test.cc", "tests/a.py"):
                    self.assertEqual(wrong_lines(Path(other), line, NAMES), [])

    def test_what_is_no_comparison(self) -> None:
        for path, line in (
            (
                "reference/os/a.cc",
                'return open_file(name, OpenMode::kModify, "pwrite");',
            ),
            ("bench/a.cc", '// io == "pwrite" would miss new paths.'),
            ("bench/a.cc", 'return result["cache"] == "direct";'),
            ("bench/a.cc", 'throw call_failed("mmap", ErrorCode::kResource);'),
            ("scripts/a", '"--io", "direct", "--op", "read",'),
        ):
            with self.subTest(line=line):
                self.assertEqual(wrong_lines(Path(path), line, NAMES), [])


class TheTree(unittest.TestCase):
    def test_no_code_compares_names(self) -> None:
        texts = {path: read_text(path) or "" for path in project_files()}
        names = registered(
            text
            for path, text in texts.items()
            if path.parts[:2] == ("reference", "io") and not path.stem.endswith("_test")
        )
        self.assertLessEqual(NAMES, names)
        wrong = [
            line
            for path, text in texts.items()
            for line in wrong_lines(path, text, names)
        ]
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
