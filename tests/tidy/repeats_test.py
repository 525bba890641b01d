"""No two places of product code share six lines in words, and the check sees it when two do."""

import unittest
from pathlib import Path

from repeats import RUN_LINES, is_product, repeats
from tree import project_files, read_text

CODE = "".join(f"  const int value_{i} = {i};\n" for i in range(RUN_LINES))


class TheCheck(unittest.TestCase):
    def test_sees_two_places(self) -> None:
        found = repeats({Path("a.cc"): "int a;\n" + CODE, Path("b.cc"): CODE})
        self.assertEqual(found, ["b.cc:1 repeats a.cc:2"])

    def test_names_a_longer_run_once(self) -> None:
        longer = CODE + "  int more;\n  int again;\n"
        self.assertEqual(
            repeats({Path("a.cc"): longer, Path("b.cc"): longer}),
            ["b.cc:1 repeats a.cc:1"],
        )

    def test_sees_a_repeat_in_one_file(self) -> None:
        self.assertEqual(
            len(repeats({Path("a.cc"): CODE + "int between;\n" + CODE})), 1
        )

    def test_layout_and_comments_do_not_matter(self) -> None:
        other = CODE.replace("  const", "const").replace(";\n", ";  // why\n\n")
        self.assertEqual(len(repeats({Path("a.cc"): CODE, Path("b.cc"): other})), 1)

    def test_five_lines_are_no_repeat(self) -> None:
        five = "".join(CODE.splitlines(keepends=True)[1:])
        self.assertEqual(repeats({Path("a.cc"): CODE, Path("b.cc"): five}), [])

    def test_which_files_are_product(self) -> None:
        for name, wanted in (
            ("reference/codec/reader.cc", True),
            ("bench/cli/bench.cc", True),
            ("reference/codec/reader_test.cc", False),
            ("reference/testing/files/memory_file.h", False),
            ("conformance/testing/test_corpus.h", False),
            ("bench/harness/test_tmpfs.h", False),
            ("reports/render.py", False),
        ):
            self.assertEqual(is_product(Path(name)), wanted, name)


class TheTree(unittest.TestCase):
    def test_product_does_not_repeat_itself(self) -> None:
        texts = {
            path: read_text(path) or "" for path in project_files() if is_product(path)
        }
        self.assertGreater(len(texts), 100)
        self.assertEqual(repeats(texts), [])


if __name__ == "__main__":
    unittest.main()
