"""The adapter turns what a reader does into the answers of the protocol. The readers are fakes of two libraries."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

ADAPTER = Path(__file__).resolve().parent / "adapter.py"

# In place of model_fingerprint: what it does depends on the name of the first tensor.
DATA_READER = """
import json

class ModelError(Exception):
    pass

class PanicException(BaseException):
    pass

class FileReader:
    def __init__(self, path):
        self.path = path
    def __enter__(self):
        return self
    def __exit__(self, *exc):
        pass

class Model:
    pass

class Info:
    def __init__(self, name, entry):
        self.name, self.dtype, self.dims = name, entry["dtype"], entry["shape"]
        self.offset, end = entry["data_offsets"]
        self.nbytes = end - self.offset

def parse_safetensors(reader, path):
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + size])
    name = next(iter(header))
    if name == "own":
        raise ModelError("refused")
    if name == "value":
        raise ValueError("refused too")
    if name == "memory":
        raise RuntimeError("std::bad_alloc")
    if name == "panic":
        raise PanicException("index out of bounds")
    model = Model()
    model.data_start = 8 + size
    model.tensors = [Info(*item) for item in reversed(header.items())]
    return model

def fingerprint(model, reader):
    pass
"""
HEADER_READER = """
import json

def read_header(path):
    with open(path, "rb") as file:
        header = json.loads(file.read()[8:])
    return None if "refused" in header else header
"""


def entry(dtype: object = "U8", begin: int = 0) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [2], "data_offsets": [begin, begin + 2]}


class Adapter(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        for name, source in (
            ("model_fingerprint", DATA_READER),
            ("safetensors_arch", HEADER_READER),
        ):
            (self.directory / f"{name}.py").write_text(source)
            information = self.directory / f"{name}-1.0.dist-info"
            information.mkdir()
            (information / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
            )

    def serve(self, reader: str, *requests: dict[str, Any]) -> list[dict[str, Any]]:
        lines = "".join(json.dumps({"id": 1, **request}) + "\n" for request in requests)
        ran = subprocess.run(
            [sys.executable, "-B", ADAPTER, reader, "serve"],
            input=lines,
            capture_output=True,
            text=True,
            env={"PYTHONPATH": str(self.directory)},
            check=True,
        )
        answers = [json.loads(line) for line in ran.stdout.splitlines()]
        self.assertEqual(len(answers), len(requests), ran.stderr)
        return answers

    def ask(
        self, header: dict[str, Any], reader: str = "model-fingerprint", **request: Any
    ) -> dict[str, Any]:
        text = json.dumps(header).encode()
        file = self.directory / "asked.safetensors"
        data = b"" if reader == "safetensors-arch" else b"\1\2\3\4"
        file.write_bytes(len(text).to_bytes(8, "little") + text + data)
        (answer,) = self.serve(
            reader, {"command": "decode", "file": str(file), **request}
        )
        return answer

    def test_content_in_the_order_of_the_data(self) -> None:
        answer = self.ask({"b": entry(), "a": entry("I8", 2)})["decoded"]
        self.assertEqual(
            [(one["path"], one["dtype"]) for one in answer["tensors"]],
            [(["b"], "uint8"), (["a"], "int8")],
        )
        self.assertEqual([one["data_length"] for one in answer["tensors"]], [2, 2])

    def test_refusals(self) -> None:
        for name in ("own", "value"):
            self.assertIn("rejected", self.ask({name: entry()}))

    def test_accidents(self) -> None:
        for header, text in (
            ({"a": {"shape": [2]}}, "KeyError: 'dtype'"),
            ({"memory": entry()}, "bad_alloc"),
            ({"panic": entry()}, "Panicked: index out of bounds"),
        ):
            self.assertIn(text, self.ask(header)["crashed"])

    def test_a_dtype_that_is_no_text(self) -> None:
        (tensor,) = self.ask({"a": entry(8)})["decoded"]["tensors"]
        self.assertEqual((tensor["dtype"], tensor["wire_dtype"]), (None, "8"))

    def test_a_reader_of_headers_only_verifies(self) -> None:
        reader = "safetensors-arch"
        (profile,) = self.serve(reader, {"command": "capabilities"})
        self.assertEqual(profile["capabilities"]["commands"], ["verify", "serve"])
        self.assertEqual(profile["capabilities"]["version"], "1.0")
        self.assertIn("unsupported", self.ask({"a": entry()}, reader))
        for name, kind in (("a", "verified"), ("refused", "rejected")):
            answer = self.ask({name: entry()}, reader, command="verify")
            self.assertIn(kind, answer)


class Lacking(unittest.TestCase):
    def test_a_dtype_that_the_reader_lacks_is_unsupported(self) -> None:
        sys.path.insert(0, str(ADAPTER.parent))
        try:
            import adapter
            from readers import Reader
        finally:
            sys.path.pop(0)

        def refuse(file: str) -> None:
            raise ValueError(file)

        asked = adapter.Safetensors.__new__(adapter.Safetensors)
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "file"
            for dtype, read, raised in (
                ("F4", refuse, adapter.protocol.Unsupported),
                ("F4", lambda file: [], adapter.protocol.Unsupported),
                ("U8", refuse, adapter.protocol.Rejected),
                ("f4", refuse, adapter.protocol.Rejected),
            ):
                text = json.dumps({"a": entry(dtype)}).encode()
                file.write_bytes(len(text).to_bytes(8, "little") + text)
                asked._header_only = False
                asked._reader = Reader(read, lacks=frozenset({"F4"}))
                with self.assertRaises(raised):
                    asked.decode(str(file), None)


if __name__ == "__main__":
    unittest.main()
