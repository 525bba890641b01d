"""The documents name only scripts, presets, commands and options that are there; and what is not there is noticed."""

import unittest
from pathlib import Path

from commands import Checker, commands, simple_commands, wrong_commands
from tree import BUILD_DIR, SOURCE_DIR, project_files, read_text


class Parsing(unittest.TestCase):
    def test_simple_commands(self) -> None:
        line = (
            "A=1 scripts/run --only 'a b' | head -3 && tzmark dump x >out.json  # why"
        )
        self.assertEqual(
            list(simple_commands(line)),
            [
                ("scripts/run", "--only", "a b"),
                ("head", "-3"),
                ("tzmark", "dump", "x"),
            ],
        )

    def test_only_sh_blocks(self) -> None:
        text = "x\n```sh\n$ scripts/a \\\n  --b\n```\n```json\nscripts/c\n```\n"
        found = list(commands(Path("a.md"), text))
        self.assertEqual([command.words for command in found], [("scripts/a", "--b")])
        self.assertEqual(found[0].line, 2)


class Checking(unittest.TestCase):
    def setUp(self) -> None:
        self.checker = Checker(SOURCE_DIR, BUILD_DIR)

    def test_what_is_there(self) -> None:
        for words in (
            ("scripts/run",),
            ("scripts/test", "--preset", "asan-ubsan"),
            ("build/bin/tzmark", "dump", "FILE"),
            ("tzmark", "convert", "IN", "OUT", "--layout", "v4"),
            ("tzmark", "checkpoint", "simulate", "DIR", "--steps", "10"),
            ("ls", "--no-such-option"),
        ):
            with self.subTest(words=words):
                self.assertIsNone(self.checker.wrong(words))

    def test_what_is_not_there(self) -> None:
        for words in (
            ("scripts/nothing",),
            ("scripts/test", "--preset", "nothing"),
            ("cmake", "--preset", "nothing"),
            ("build/bin/nothing",),
            ("build/bin/tzmark", "nothing"),
            ("tzmark", "dump", "--nothing", "FILE"),
            ("tzmark", "checkpoint", "nothing", "DIR"),
            ("tzmark", "checkpoint", "list", "DIR", "--steps", "10"),
        ):
            with self.subTest(words=words):
                self.assertIsNotNone(self.checker.wrong(words))


class TheDocuments(unittest.TestCase):
    def test_commands(self) -> None:
        checker = Checker(SOURCE_DIR, BUILD_DIR)
        checked = 0
        wrong = []
        for path in project_files():
            if path.suffix == ".md":
                text = read_text(path) or ""
                checked += len(list(commands(path, text)))
                wrong += wrong_commands(path, text, checker.wrong)
        self.assertGreater(checked, 0, "no document has a sh block")
        if wrong:
            self.fail("\n" + "\n".join(wrong))


if __name__ == "__main__":
    unittest.main()
