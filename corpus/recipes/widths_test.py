#!/usr/bin/env python3
"""Tests that widths.py tries every integer field of the format, with every limit of a type that its width allows."""

from __future__ import annotations

import json
import unittest

import widths
from make import CORPUS

PLANTED = CORPUS.parent / "conformance" / "planted_bugs" / "widths.json"
# Fields that have the right value or break no rule that binds, so that only valid files try them.
ONLY_VALID = {
    "file header: total data bytes, u64",
    "tensor header: module_index, u16",
    "tensor header, crypt chunk: chunk_size, u64",
    # A wrong terminator is left to readers.
    "terminator: terminator, u64",
}


class Widths(unittest.TestCase):
    def test_fields_are_those_that_the_model_annotates(self) -> None:
        labels = [field.label for field in widths.FIELDS]
        self.assertEqual(len(labels), len(set(labels)))
        self.assertEqual(set(labels), set(json.loads(PLANTED.read_text())))

    def test_each_is_tried_with_a_number_that_is_too_high(self) -> None:
        untried = {field.label for field in widths.FIELDS if field.add is None}
        self.assertEqual(untried, ONLY_VALID)
        for field in widths.FIELDS:
            with self.subTest(field.label):
                tried = list(field.tried())
                self.assertEqual(bool(tried), field.add is not None)
                self.assertEqual(len(tried), len(set(tried)))
                self.assertLess(max(field.bits, default=0), int(field.type[1:]))
                self.assertLessEqual(set(field.everywhere), set(field.bits))
                self.assertEqual({bit for bit, _ in tried}, set(field.bits))
                for bit in field.everywhere:
                    families = {family for other, family in tried if other == bit}
                    self.assertEqual(families, set(field.families))

    def test_numbers_lie_on_both_sides_of_the_limits(self) -> None:
        self.assertEqual(widths.around((7, 8)), [127, 128, 255, 256])


if __name__ == "__main__":
    unittest.main()
