"""What tests of pages and of the programs that make them share: a directory, documents in it, a run, a whole page."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from collections.abc import Iterable, Sequence
from pathlib import Path

from testing.page_elements import Elements


class ReportTestCase(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def written(self, documents: Iterable[object]) -> list[Path]:
        """Writes each document to a file of its own; a string is the text of the file."""
        files = []
        for index, document in enumerate(documents):
            files.append(self.directory / f"{index}.json")
            text = document if isinstance(document, str) else json.dumps(document)
            files[-1].write_text(text, encoding="utf-8")
        return files

    def run_command(
        self, command: Sequence[object], **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*map(str, command)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **environment},
        )

    def assert_whole(self, page: str) -> None:
        """Fails unless the page is one file that needs no other, and its links lead somewhere."""
        elements = Elements(page)
        self.assertEqual(elements.open, [])
        for tag, attributes in elements.found:
            self.assertNotIn(tag, ("link", "img", "iframe", "image", "use"))
            self.assertNotIn("src", attributes)
        self.assertNotRegex(page, r"https?:|@import|url\(|xmlns|xlink")
        ids = [found["id"] for _, found in elements.found if "id" in found]
        self.assertEqual(len(ids), len(set(ids)))
        for tag, attributes in elements.found:
            target = attributes.get("href", "")
            if tag == "a" and target.startswith("#"):
                self.assertIn(target[1:], ids)
            elif tag == "a":
                self.assertRegex(target, r"^[a-z0-9-]+\.(svg|png)$")
