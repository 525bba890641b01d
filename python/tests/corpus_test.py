"""Every file of the corpus through the module: valid ones equal their JSON, and invalid ones raise their errors.

The corpus includes the files that released writers of tensorizer wrote.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import unittest
from pathlib import Path
from typing import Any

import numpy
import tzmark

CORPUS = Path(os.environ["TZMARK_BUILD_DIR"]) / "share/tzmark/corpus"
MANIFEST = json.loads((CORPUS / "manifest.json").read_text())
# The least number of files that released writers wrote; fewer means that the corpus was not found.
UPSTREAM_MIN = 190


def keys(case: dict[str, Any]) -> dict[str, str]:
    """Returns the arguments that open the file of a case."""
    if "key_hex" in case:
        return {"key": case["key_hex"]}
    return {"passphrase": case["passphrase"]} if "passphrase" in case else {}


def cases(*verdicts: str) -> list[dict[str, Any]]:
    return [case for case in MANIFEST["cases"] if case["verdict"] in verdicts]


def name_of(path: list[Any]) -> Any:
    return path[0] if len(path) == 1 and isinstance(path[0], str) else tuple(path)


class Corpus(unittest.TestCase):
    def check_equal(self, tensors: dict[Any, Any], reader: Any, expected: Any) -> None:
        """Compares loaded arrays with canonical JSON: names in order, shapes, dtypes and bytes."""
        self.assertEqual(
            list(tensors), [name_of(tensor["path"]) for tensor in expected]
        )
        for tensor in expected:
            name = name_of(tensor["path"])
            array, info = tensors[name], reader.info(name)
            self.assertEqual(list(array.shape), tensor["shape"])
            is_array = not isinstance(array, tzmark.Buffer)
            if not is_array:
                # numpy has no array of this shape.
                size = math.prod(length for length in array.shape if length)
                self.assertTrue(len(array.shape) > 32 or size >= 2**60)
                if not array.meta:
                    array = numpy.asarray(array.as_bytes())
            self.assertEqual(info.dtype, tensor["dtype"])
            self.assertEqual(info.stored_dtype, tensor["wire_dtype"])
            self.assertEqual(info.meta, tensor["meta"])
            self.assertEqual(info.nbytes, tensor["data_length"])
            if tensor["meta"] and is_array:
                # Its elements share memory, whatever the shape promises.
                self.assertFalse(array.flags.writeable)
                self.assertEqual(set(array.strides) - {0}, set())
            if tensor["meta"]:
                continue
            if is_array and array.dtype.kind != "V":
                self.assertEqual(array.dtype.name, tensor["dtype"])
            digest = hashlib.sha256(array.tobytes()).hexdigest()
            self.assertEqual(digest, tensor["sha256"])

    def test_valid_files_equal_their_json(self) -> None:
        upstream = 0
        for case in cases("valid"):
            with self.subTest(case["id"]):
                expected = json.loads((CORPUS / case["expected"]).read_text())
                with tzmark.open(CORPUS / case["path"], **keys(case)) as reader:
                    self.assertEqual(reader.layout, expected["layout"])
                    self.assertEqual(reader.dump(), expected)
                    tensors = expected["tensors"]
                    self.check_equal(reader.load(), reader, tensors)
            upstream += case["path"].startswith("upstream/tensorizer-")
        self.assertGreater(upstream, UPSTREAM_MIN - 30)

    def test_files_with_wrong_hashes_load_unverified_only(self) -> None:
        found = [case for case in cases("integrity-failure") if "expected" in case]
        self.assertTrue(found)
        for case in found:
            with self.subTest(case["id"]):
                path = CORPUS / case["path"]
                expected = json.loads((CORPUS / case["expected"]).read_text())
                with tzmark.open(path, verify=False, **keys(case)) as reader:
                    self.check_equal(reader.load(), reader, expected["tensors"])
                with self.assertRaises(tzmark.FormatError) as caught:
                    tzmark.verify(path, **keys(case))
                self.assertTrue(
                    caught.exception.rule.startswith("TZR-HSH"), caught.exception
                )

    def test_invalid_files_raise_their_rule(self) -> None:
        known = tzmark.rules()
        other_rule, total = [], 0
        for case in cases("malformed", "invalid", "authentication-failure"):
            with self.subTest(case["id"]):
                path = CORPUS / case["path"]
                with self.assertRaises(tzmark.Error) as caught:
                    tzmark.verify(path, **keys(case))
                with self.assertRaises(tzmark.Error):
                    tzmark.load_file(path, **keys(case))
                error = caught.exception
                self.assertIn(error.rule, known)
                self.assertEqual(error.file, str(path))
                total += 1
                if error.rule not in case["rules"]:
                    other_rule.append((case["id"], error.rule))
                elif error.rule.startswith(("TZR-IDX", "TZR-REC")):
                    self.assertIsNotNone(error.offset)
        # Rules may be checked in any order.
        self.assertLess(len(other_rule), total / 20, other_rule)

    def test_open_choices_do_one_or_the_other(self) -> None:
        for case in cases("implementation-defined"):
            with self.subTest(case["id"]):
                try:
                    tzmark.load_file(CORPUS / case["path"], verify=False, **keys(case))
                except tzmark.Error as error:
                    self.assertTrue(error.rule)


if __name__ == "__main__":
    unittest.main()
