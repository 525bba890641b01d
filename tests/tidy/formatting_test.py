"""The formatters have nothing to change in Python (black) and C++ (clang-format), and shellcheck finds no fault.

Formatters differ from release to release, so the layout is that of one release; where another is installed, or none,
the test says so and skips: the exit status is then 77.
"""

import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from text_rules import CPP, kind_of
from tree import SOURCE_DIR, project_files, read_text

CLANG_FORMAT = "clang-format-14"
BLACK_YEAR = "23"
SKIPPED = 77


def sources(kinds: set[str]) -> list[str]:
    """The project's files of these kinds, as full paths."""
    found = []
    for path in project_files():
        if path.suffix and path.suffix not in kinds:
            continue
        text = read_text(path)
        if text is not None and kind_of(path, text) in kinds:
            found.append(str(SOURCE_DIR / path))
    return found


class Formatting(unittest.TestCase):
    def tool(self, name: str) -> str:
        found = shutil.which(name)
        if found is None:
            self.skipTest(f"{name} is not installed; scripts/setup --style does that")
        return found

    def assert_silent(self, command: list[str], files: list[str]) -> None:
        self.assertTrue(files, "no file of this kind: is the checkout whole?")
        done = subprocess.run(
            command + files, capture_output=True, text=True, cwd=SOURCE_DIR
        )
        self.assertEqual(done.returncode, 0, f"\n{done.stdout}{done.stderr}")

    def test_black(self) -> None:
        black = self.tool("black")
        version = subprocess.run([black, "--version"], capture_output=True, text=True)
        release = re.search(r"\d+", version.stdout)
        if release is None or release[0] != BLACK_YEAR:
            self.skipTest(
                f"the house is laid out by black {BLACK_YEAR}, not by {version.stdout}"
            )
        self.assert_silent([black, "--check", "--quiet", "--diff"], sources({".py"}))

    def test_clang_format(self) -> None:
        tool = self.tool(CLANG_FORMAT)
        files = sources(CPP)
        self.assertTrue(files, "no C++ at all: is the checkout whole?")
        done = subprocess.run(
            [tool, "--dry-run", "--Werror", *files], capture_output=True, text=True
        )
        # It repeats every line that it would change; the names are enough to mend it.
        ragged = sorted(
            set(re.findall(r"^(.+?):\d+:\d+: error", done.stderr, re.MULTILINE))
        )
        if done.returncode != 0:
            self.fail(f"{tool} -i " + " ".join(ragged or [done.stderr]))

    def test_shellcheck(self) -> None:
        command = [self.tool("shellcheck"), "--external-sources", "-P", "SCRIPTDIR"]
        self.assert_silent(command, sources({".sh"}))


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    if result.wasSuccessful() and result.skipped:
        print("; ".join(reason for _, reason in result.skipped), flush=True)
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())
