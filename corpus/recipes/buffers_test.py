#!/usr/bin/env python3
"""Tests that each length next to the size of a buffer is tried: read and written, plain and encrypted.

What there has to be is listed here anew, and found in the decodes of the cases.
"""

from __future__ import annotations

import json
import math
import unittest
from collections.abc import Iterator

import buffers
from case import Case
from encode_case import EncodeCase

BUFFER_BITS = range(12, 23)
CHUNK_BYTES = (1024, 4096, 1 << 16, 1 << 18, 1 << 20, 2 << 20)
# Of buffers of a million bytes and more one of these has to do.
MORE = (-1, 0, 1, 5)
FEWER_BITS = 20


def sizes_of(case: Case | EncodeCase) -> Iterator[int]:
    assert case.expected_path is not None
    for tensor in json.loads(case.outputs()[case.expected_path])["tensors"]:
        yield math.prod(tensor["shape"])


class Buffers(unittest.TestCase):
    cases = list(buffers.cases())

    def sizes(self, kind: type, encrypted: bool) -> set[int]:
        return {
            size
            for case in self.cases
            if isinstance(case, kind) and (case.key_hex is not None) == encrypted
            for size in sizes_of(case)
        }

    def test_each_length_is_read_and_written_in_each_kind(self) -> None:
        for kind in (Case, EncodeCase):
            for encrypted in (False, True):
                sizes = self.sizes(kind, encrypted)
                for bits in BUFFER_BITS:
                    with self.subTest(kind=kind, encrypted=encrypted, bits=bits):
                        found = {more for more in MORE if (1 << bits) + more in sizes}
                        if bits < FEWER_BITS:
                            self.assertEqual(found, set(MORE))
                        self.assertTrue(found)
                self.assertIn((1 << 20) + 5, sizes)
                self.assertIn((2 << 20) + 5, sizes)

    def test_the_last_message_has_one_byte_with_each_chunk_size(self) -> None:
        self.assertLessEqual(set(CHUNK_BYTES), set(buffers.CHUNK_BYTES.values()))
        for bits, chunk in buffers.CHUNK_BYTES.items():
            case = next(
                case
                for case in self.cases
                if isinstance(case, Case) and case.id.endswith(f"encrypted-2-{bits}")
            )
            with self.subTest(case.id):
                self.assertIn(1, {size % chunk for size in sizes_of(case)})

    def test_large_files_are_easy_to_compress(self) -> None:
        for case in self.cases:
            if isinstance(case, Case):
                runs = case.content.count(buffers.PATTERN)
                self.assertGreater(runs * len(buffers.PATTERN), len(case.content) / 2)


if __name__ == "__main__":
    unittest.main()
