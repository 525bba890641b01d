"""Files and directories are changed in one directory, and the check sees it when they are not."""

import unittest
from pathlib import Path

from system_calls import RULES, wrong_calls
from tree import project_files, read_text

CODEC = Path("reference/codec/a.cc")


def use_of(name: str) -> str:
    """A line that uses a call or a flag."""
    if name.isupper():
        return f"directory.open_file(entry, O_RDWR | {name});\n"
    return f"{name}(a, b);\n" if "::" in name else f"if (::{name}(a, b) != 0) fail();\n"


class TheCheck(unittest.TestCase):
    def test_each_call_is_seen_where_it_is_not_allowed(self) -> None:
        for what, (names, directories) in RULES.items():
            for name in names:
                with self.subTest(what=what, name=name):
                    self.assertEqual(
                        wrong_calls(CODEC, use_of(name)),
                        [f"{CODEC} must not {what}, as {name} does"],
                    )
                    for directory in directories:
                        path = Path("reference", directory, "a.cc")
                        self.assertEqual(wrong_calls(path, use_of(name)), [])

    def test_what_only_looks_like_a_call(self) -> None:
        for line in (
            "directory.rename(a, b);",
            "changes.link(file, name);",
            "std::unique_ptr<TensorStream> SlicedSource::open(std::size_t tensor) const {",
            "path->open(name, mode);",
            "directory.unlink(name);",
            "// ::unlink(name) would follow the name.",
            "std::filesystem::exists(name);",
        ):
            with self.subTest(line=line):
                self.assertEqual(wrong_calls(CODEC, line + "\n"), [])

    def test_tests_and_test_doubles_make_their_own_files(self) -> None:
        for path in (
            "reference/codec/a_test.cc",
            "reference/testing/disk/a.cc",
            "bench/harness/a.cc",
        ):
            self.assertEqual(wrong_calls(Path(path), use_of("unlink")), [])


class TheTree(unittest.TestCase):
    def test_calls(self) -> None:
        wrong = []
        judged = 0
        for path in project_files():
            if path.parts[0] == "reference" and path.suffix in (".cc", ".h", ".cu"):
                judged += 1
                wrong += wrong_calls(path, read_text(path) or "")
        self.assertGreater(judged, 100)
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
