"""Checks that the reference adapter rejects what is no specification, and answers the questions that follow."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ADAPTER = (
    Path(os.environ["TZMARK_BUILD_DIR"]) / "libexec/tzmark/tzmark-adapter-reference"
)


class SpecificationTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        (self.directory / "data.bin").write_bytes(bytes(4))
        self.adapter = subprocess.Popen(
            [ADAPTER, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(self.adapter.__exit__, None, None, None)

    def answer(self, specification: str) -> dict[str, object]:
        spec = self.directory / "spec.json"
        spec.write_text(specification, encoding="utf-8")
        out = self.directory / "out.tensors"
        request = {"id": 1, "command": "encode", "spec": str(spec), "out": str(out)}
        print(json.dumps(request), file=self.adapter.stdin, flush=True)
        answer = json.loads(self.adapter.stdout.readline())
        self.assertEqual("encoded" in answer, out.exists())
        out.unlink(missing_ok=True)
        return answer

    def specification(self, **changes: object) -> str:
        data = {"file": str(self.directory / "data.bin"), "offset": 0, "length": 4}
        tensor = {
            "path": ["a"],
            "kind": "state_dict",
            "module_index": 0,
            "dtype": "uint8",
            "shape": [4],
            "meta": False,
            "data": data,
        }
        return json.dumps({"layout": "auto", "tensors": [{**tensor, **changes}]})

    def test_what_is_no_specification_is_rejected(self) -> None:
        right = self.specification()
        wrong = {
            "no text": "",
            "no object": "[]",
            "cut off": right[:-1],
            "half of a surrogate pair": right.replace('"a"', r'"\ud800"'),
            "no tensors": '{"layout": "auto"}',
            "no layout": right.replace('"layout"', '"room"'),
            "dtype null": self.specification(dtype=None),
            "shape of text": self.specification(shape=["4"]),
            "path of null": self.specification(path=[None]),
            "meta null": self.specification(meta=None),
            "data of a number": self.specification(data=4),
            "module_index of 17 bits": self.specification(module_index=1 << 16),
            "module_index of 64 bits": self.specification(module_index=1 << 63),
            "module_index below 0": self.specification(module_index=-1),
            "module_index of a float": self.specification(module_index=1.0),
            "module_index null": self.specification(module_index=None),
        }
        for name, specification in wrong.items():
            with self.subTest(name):
                self.assertIn("rejected", self.answer(specification))
                self.assertIn("encoded", self.answer(right))

    def test_the_largest_module_index_is_written(self) -> None:
        self.assertIn("encoded", self.answer(self.specification(module_index=65_535)))


if __name__ == "__main__":
    unittest.main()
