"""The adapter turns what readers and writers do into the answers of the protocol. They are fakes of three libraries."""

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
    model.metadata = header.pop("__metadata__", None)
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
# In place of cryptotensors: it writes what it is given as text.
WRITER = """
from pathlib import Path

class SafetensorError(Exception):
    pass

def deserialize(content):
    return []

def safe_open(path, framework):
    return open(path)

def serialize_file(tensors, path):
    if "refused" in tensors:
        raise SafetensorError("refused")
    if "accident" in tensors:
        raise KeyError("accident")
    Path(path).write_text(repr(tensors))
    if "late" in tensors:
        raise ValueError("refused late")
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
            ("cryptotensors", WRITER),
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

    def test_metadata_by_key(self) -> None:
        answer = self.ask({"a": entry(), "__metadata__": {"k": "v", "": "x"}})
        self.assertEqual(answer["decoded"]["metadata"], [["", "x"], ["k", "v"]])
        answer = self.ask({"a": entry()})
        self.assertEqual(answer["decoded"]["metadata"], [])

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

    def encode(self, *tensors: dict[str, Any], layout: str = "safetensors") -> Any:
        """Returns the answer and the file, None if there is none."""
        data = self.directory / "data"
        data.write_bytes(b"01234567")
        plain = {"kind": "state_dict", "module_index": 0, "dtype": "uint8"}
        plain |= {"shape": [2], "meta": False}
        plain |= {"data": {"file": str(data), "offset": 3, "length": 2}}
        asked = [plain | tensor for tensor in tensors]
        spec, out = self.directory / "spec.json", self.directory / "out"
        out.unlink(missing_ok=True)
        spec.write_text(json.dumps({"layout": layout, "tensors": asked}))
        (answer,) = self.serve(
            "cryptotensors", {"command": "encode", "spec": str(spec), "out": str(out)}
        )
        return answer, out.read_text() if out.exists() else None

    def test_a_writer_gets_what_the_specification_says(self) -> None:
        (profile,) = self.serve("cryptotensors", {"command": "capabilities"})
        self.assertIn("encode", profile["capabilities"]["commands"])
        self.assertEqual(
            profile["capabilities"]["writes"],
            {"layouts": ["safetensors"], "lacks": ["structured-names"]},
        )
        answer, written = self.encode({"path": ["b"]}, {"path": ["a"], "shape": [1, 2]})
        self.assertEqual(answer, {"id": 1, "encoded": True})
        self.assertEqual(
            written,
            repr(
                {
                    name: {"dtype": "uint8", "shape": shape, "data": b"34"}
                    for name, shape in (("b", [2]), ("a", [1, 2]))
                }
            ),
        )

    def test_what_a_writer_cannot_be_asked_is_unsupported(self) -> None:
        for tensors, reason in (
            (({"path": ["a", "b"]},), "a name that is not one string"),
            (({"path": [0]},), "a name that is not one string"),
            (({"path": ["a"]}, {"path": ["a"]}), "a name twice"),
            (({"path": ["a"], "meta": True, "data": None},), "a tensor without data"),
            (({"path": ["a"], "dtype": "float8_e5m2fnuz"},), "the dtype F8_E5M2FNUZ"),
        ):
            answer, written = self.encode(*tensors)
            self.assertIn(reason, answer["unsupported"])
            self.assertIsNone(written)
        self.assertIn("unsupported", self.encode(layout="v1")[0])

    def test_refusals_and_accidents_of_a_writer(self) -> None:
        for name, kind, writes in (
            ("refused", "rejected", False),
            ("accident", "crashed", False),
            # The file stays: it is what a user of the library is left with.
            ("late", "rejected", True),
        ):
            answer, written = self.encode({"path": [name]})
            self.assertIn(kind, answer)
            self.assertEqual(written is not None, writes)

    def test_a_reader_alone_does_not_write(self) -> None:
        request = {"command": "encode", "spec": "none", "out": "none"}
        (answer,) = self.serve("model-fingerprint", request)
        self.assertIn("does not write", answer["unsupported"])


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
