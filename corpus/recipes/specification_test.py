"""Are the parts right that encode cases and rules.json are made of?"""

import hashlib
import json
import unittest

from encode_case import EncodeRecipe
from rules import rules_of
from specification import Data, Specification, Tensor, View, stream, wire_dtype


def of_ranges(*ranges: tuple[int, int]) -> Specification:
    memory = Data("memory", 100)
    return Specification(
        [
            Tensor([str(begin)], shape=[size], view=View(memory, begin, size))
            for begin, size in ranges
        ]
    )


class Specifications(unittest.TestCase):
    def test_stream_is_the_blocks_one_behind_another(self) -> None:
        blocks = [hashlib.sha256(text).digest() for text in (b"x:0", b"x:1")]
        self.assertEqual(stream("x", 40), blocks[0] + blocks[1][:8])
        self.assertEqual(stream("x", 0), b"")

    def test_sharing_is_found_between_tensors_that_are_not_neighbours(self) -> None:
        self.assertTrue(of_ranges((50, 10), (0, 51)).shares_memory())
        self.assertTrue(of_ranges((0, 90), (1, 2), (80, 5)).shares_memory())
        self.assertFalse(of_ranges((50, 10), (0, 50), (60, 1)).shares_memory())

    def test_dtypes_are_spelled_as_writers_spell_them(self) -> None:
        for name, spelling in {
            "bool": "|b1",
            "complex128": "<c16",
            "bfloat16": "<V2\0torch.bfloat16",
            "bits8": "|V1\0torch.bits8",
        }.items():
            self.assertEqual(wire_dtype(name), spelling)

    def test_text_and_expected_decode_are_about_the_same_tensors(self) -> None:
        tensors = [
            Tensor(["a"], "int16", [3], kind="buffer", persistent=False),
            Tensor(["b", 0], "bool", [2], literal=b"\1\0"),
            Tensor(["c"], "float32", [2], meta=True),
        ]
        case = EncodeRecipe("x").written(
            "x", Specification(tensors, omits_buffers=True), "HDR-006", "", layout="v4"
        )
        text, expected = (json.loads(content) for content in case.outputs().values())
        self.assertEqual(
            [entry["path"] for entry in text["tensors"]], [["a"], ["b", 0], ["c"]]
        )
        self.assertEqual(text["data"]["data-1"], {"hex": "0100"})
        self.assertEqual(
            [entry["path"] for entry in expected["tensors"]], [["b", 0], ["c"]]
        )
        self.assertEqual(expected["data_version"], 4)
        digests = [entry["sha256"] for entry in expected["tensors"]]
        self.assertEqual(digests, [hashlib.sha256(b"\1\0").hexdigest(), None])
        self.assertEqual(
            case.features, ["meta", "non-persistent-buffers", "structured-names"]
        )


class Rules(unittest.TestCase):
    TEXT = "## 3 Part\n\n- **TZR-ABC-001** (MUST, both): It is so.\n  Because of\n  [this](#there).\n- a list\n"

    def test_a_rule_is_read_with_what_explains_it(self) -> None:
        self.assertEqual(
            rules_of(self.TEXT, "x: "),
            {
                "TZR-ABC-001": {
                    "level": "MUST",
                    "binds": "both",
                    "text": "It is so.",
                    "more": "Because of this.",
                    "open_choices": [],
                    "section": "x: 3 Part",
                }
            },
        )

    def test_a_slip_in_a_rule_does_not_lose_it(self) -> None:
        for wrong in (
            self.TEXT.replace("MUST", "WANT"),
            self.TEXT.replace("so.", "so"),
            self.TEXT + self.TEXT,
        ):
            with self.assertRaises(SystemExit):
                rules_of(wrong, "")


if __name__ == "__main__":
    unittest.main()
