"""Every promise of SECURITY.md names tests, and each of them exists."""

import re
import unittest

from tree import SOURCE_DIR, project_files, read_text

PAGE = SOURCE_DIR / "SECURITY.md"
UNIT_TEST = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
# The names of ctest: written out, or made from a prefix and the items of a loop.
CTEST_NAME = re.compile(r"add_test\(\s*(?:NAME )?([\w.]+(?:\$\{\w+\})?)[\s)]")
LOOP = re.compile(r"foreach\((\w+) ([^)]*)\)")


def unit_tests() -> set[str]:
    """Names as in SuiteTest.SaysSomething, and those of suites alone."""
    names = set()
    for path in project_files():
        if path.name.endswith("_test.cc"):
            for suite, test in UNIT_TEST.findall(read_text(path)):
                names |= {suite, f"{suite}.{test}"}
    return names


def ctest_names() -> set[str]:
    """What the CMake files add, a superset of it where names are made in loops."""
    names = set()
    for path in project_files():
        if path.name != "CMakeLists.txt":
            continue
        text = read_text(path)
        items = " ".join(items for _, items in LOOP.findall(text)).split()
        for name in CTEST_NAME.findall(text):
            if name.endswith("}"):
                prefix = name[: name.index("$")]
                names |= {prefix + item for item in items}
                if prefix == "fuzz.":
                    names |= {
                        prefix + fuzzer
                        for fuzzer in re.findall(r"tzmark_add_fuzzer\((\w+)", text)
                    }
            else:
                names.add(name)
    return names


def promises(text: str) -> list[tuple[str, list[str]]]:
    """The first cell of each row below a heading whose last cell is `tests`, and the tests in the row's last cell."""
    found = []
    is_table = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            is_table = False
        elif cells[-1] == "tests":
            is_table = True
        elif is_table and not line.startswith("|---"):
            found.append((cells[0], re.findall(r"`([^`]+)`", cells[-1])))
    return found


class Security(unittest.TestCase):
    def test_rows_are_found(self) -> None:
        table = "| a | tests |\n|---|---|\n| x | `T.A`, `b.c` |\n| y | none |\n"
        self.assertEqual(promises(table), [("x", ["T.A", "b.c"]), ("y", [])])

    def test_each_promise_has_tests_that_exist(self) -> None:
        known = unit_tests() | ctest_names()
        self.assertIn("NamedFileTest.BecomingShorterIsNoticed", known)
        self.assertIn("remote.faults", known)
        self.assertNotIn("remote.nothing", known)
        rows = promises(read_text(PAGE))
        self.assertGreater(len(rows), 20)
        for promise, tests in rows:
            with self.subTest(promise):
                self.assertTrue(tests)
                self.assertEqual([test for test in tests if test not in known], [])


if __name__ == "__main__":
    unittest.main()
