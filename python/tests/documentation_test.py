"""The examples of docs/python.md and of the docstrings are what happens, and everything public has a docstring.

Examples with torch are left out where it is not installed.
"""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import os
import re
import tempfile
import unittest
from pathlib import Path

import numpy
import tzmark

GUIDE = Path(os.environ["TZMARK_SOURCE_DIR"]) / "docs/python.md"
BLOCK = re.compile(r"^```pycon\n(.*?)^```", re.MULTILINE | re.DOTALL)
HAS_TORCH = importlib.util.find_spec("torch") is not None
USES_TORCH = re.compile(r"torch|half\.|network|checkpointer")
MODULES = ("tzmark", "tzmark.numpy", "tzmark.torch", "tzmark.conformance")


class Documentation(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(directory.name)

    def run_text(self, text: str, name: str) -> int:
        """Runs the examples of a text, and returns how many there were."""
        test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
        output: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
        result = runner.run(test, out=output.append)
        self.assertEqual(result.failed, 0, "".join(output))
        return result.attempted

    def test_guide(self) -> None:
        blocks = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
        kept = [one for one in blocks if HAS_TORCH or not USES_TORCH.search(one)]
        attempted = self.run_text("\n".join(kept), "python.md")
        self.assertGreater(attempted, 30 if HAS_TORCH else 10)

    def test_a_wrong_example_is_found(self) -> None:
        with self.assertRaises(AssertionError):
            self.run_text(">>> 1 + 1\n3\n", "wrong")

    def test_docstrings(self) -> None:
        with numpy.printoptions(legacy="1.25" if numpy.__version__ >= "2" else False):
            self.assertGreater(self.run_text(tzmark.__doc__ or "", "tzmark"), 2)

    def test_everything_public_has_a_docstring(self) -> None:
        missing = []
        for module_name in MODULES:
            module = importlib.import_module(module_name)
            names = getattr(module, "__all__", dir(module))
            for name in names:
                value = getattr(module, name)
                if name.startswith("_") or not callable(value):
                    continue
                if not getattr(value, "__module__", "").startswith("tzmark"):
                    continue
                if not inspect.getdoc(value):
                    missing.append(f"{module_name}.{name}")
                for member, one in (
                    vars(value).items() if isinstance(value, type) else ()
                ):
                    if not member.startswith("_") and not getattr(one, "__doc__", None):
                        missing.append(f"{module_name}.{name}.{member}")
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
