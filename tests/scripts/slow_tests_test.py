"""The list of slow tests, which scripts/test samples, names tests that there are, and each of them once."""

import os
import re
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])


class SlowTests(unittest.TestCase):
    def test_each_is_a_test(self) -> None:
        lines = (SOURCE / "tests/slow_tests.txt").read_text().splitlines()
        slow = [line for line in lines if not line.startswith("#")]
        self.assertEqual(len(slow), len(set(slow)))
        tests: set[str] = set()
        directories = [BUILD]
        while directories:
            directory = directories.pop()
            text = (directory / "CTestTestfile.cmake").read_text()
            tests.update(re.findall(r"^add_test\((?:\[=\[)?([\w.]+)", text, re.M))
            for name in re.findall(r'^subdirs\("(.+)"\)', text, re.M):
                directories.append(directory / name)
        self.assertEqual(set(slow) - tests, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
