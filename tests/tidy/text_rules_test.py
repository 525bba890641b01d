"""Every text rule catches what it forbids and lets good text pass, and the tree breaks none of them."""

import unittest
from pathlib import Path

from text_rules import findings
from tree import SOURCE_DIR, project_files, read_text

# The corpus holds other writers' data; its own programs are judged like all the others.
JUDGED_IN_CORPUS = {".py", ".md", ".txt"}


def messages(name: str, text: str) -> list[str]:
    return [message for _, message in findings(Path(name), text)]


class EachRule(unittest.TestCase):
    def assert_found(self, name: str, text: str, part: str) -> None:
        self.assertTrue(
            any(part in message for message in messages(name, text)),
            f"{name}: nothing about {part!r} in {messages(name, text)}",
        )

    def test_good_files_pass(self) -> None:
        for name, text in {
            "a.h": "// Says why.\n#pragma once\n\nint f();\n",
            "a.cc": "// Says why.\nint f() { return 1; }\n",
            "a.py": '"""Says why."""\n',
            "tool": "#!/usr/bin/env bash\n# Says why.\ntrue\n",
            "a.md": "| " + "long row " * 30 + "|\n",
            "a.json": '"' + "x" * 200 + '"\n',
            "b.cc": "// Paths of the format: layers/work/weight, https://example.org/home/x\n",
        }.items():
            with self.subTest(name):
                self.assertEqual(messages(name, text), [])

    def test_no_opening_comment(self) -> None:
        self.assert_found("a.cc", "int x;\n", "purpose")
        self.assert_found("a.cc", "//\n", "purpose")
        self.assert_found("a.cc", "", "purpose")
        self.assert_found("a.py", "import os\n", "purpose")
        self.assert_found("a.sh", "set -e\n", "purpose")
        self.assert_found("a.rs", "// Not of the file.\nfn f() {}\n", "purpose")
        self.assert_found("tool", "#!/usr/bin/env bash\nset -e\n", "purpose")
        self.assert_found("tool", "#!/usr/bin/env python3\nimport os\n", "purpose")

    def test_white_space(self) -> None:
        self.assert_found("a.cc", "// A.\n\tint x;\n", "tab")
        self.assert_found("a.go", "// A.\nvar a\t= 1\n", "tab")
        self.assert_found("a.md", "text \n", "blanks")
        self.assert_found("a.md", "text\r\n", "blanks")
        self.assert_found("a.md", "text", "no end")

    def test_long_line(self) -> None:
        self.assert_found("a.cc", "// " + "x" * 118 + "\n", "121 columns")
        self.assertEqual(messages("a.cc", "// " + "x" * 117 + "\n"), [])

    def test_unfinished(self) -> None:
        for word in ("TO" + "DO", "FIX" + "ME", "XX" + "X"):
            self.assert_found("a.cc", f"// Later. {word}: all\n", word)

    def test_machine(self) -> None:
        for path in ("/wo" + "rk/main", "/ho" + "me/someone", "/ro" + "ot/.cache"):
            self.assert_found("a.md", f"See {path}.\n", "machine")
        self.assert_found("a.md", "from py" + "pi.org\n", "registry")

    def test_header_guard(self) -> None:
        self.assert_found("a.h", "// A.\nint f();\n", "pragma once")
        guarded = "// A.\n#pragma once\n#ifndef A_H_\n#define A_H_\n#endif\n"
        self.assert_found("a.h", guarded, "guard macro")

    def test_unwanted_words(self) -> None:
        for word in ("no" + "body", "Be" + "side", "who" + "ever"):
            self.assert_found("a.cc", f"// A file {word} it.\n", word)
        self.assertEqual(messages("a.cc", "// Besides, it is next to a reader.\n"), [])


class TheTree(unittest.TestCase):
    def test_no_file_breaks_a_rule(self) -> None:
        judged = 0
        broken = []
        for path in project_files():
            if path.parts[0] == "corpus" and path.suffix not in JUDGED_IN_CORPUS:
                continue
            text = read_text(path)
            if text is None:
                continue
            judged += 1
            for line, message in findings(path, text):
                broken.append(f"{path}:{line}: {message}")
        self.assertGreater(judged, 50, f"is {SOURCE_DIR} the checkout?")
        if broken:
            self.fail("\n" + "\n".join(broken))


if __name__ == "__main__":
    unittest.main()
