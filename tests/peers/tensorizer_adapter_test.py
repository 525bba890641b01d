"""Does the adapter of tensorizer say what the release does: no refusal too many, no accident hidden, nothing else on
stdout? Run with the Python of an environment that has the release, over any torch.
"""

import errno
import json
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import torch

ADAPTERS = Path(__file__).resolve().parents[2] / "conformance" / "adapters"
ADAPTER = ADAPTERS / "tensorizer-python" / "adapter.py"
sys.path[:0] = [str(ADAPTERS / "python"), str(ADAPTER.parent)]

import protocol
import refusals
import structure
from specification import Item

KEY = bytes(range(32)).hex()


def tensor(path: list[str | int], data: Path, **other: Any) -> dict[str, Any]:
    """A tensor of a specification: four bytes."""
    return {
        "path": path,
        "kind": "state_dict",
        "module_index": 0,
        "dtype": "uint8",
        "shape": [4],
        "meta": False,
        "data": {"file": str(data), "offset": 0, "length": 4},
    } | other


class Serving(unittest.TestCase):
    """The adapter as the suite runs it."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = tempfile.TemporaryDirectory()
        cls.scratch = Path(cls.directory.name)
        cls.data = cls.scratch / "data.bin"
        cls.data.write_bytes(b"\1\2\3\4")
        cls.process = subprocess.Popen(
            [sys.executable, "-B", ADAPTER, "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        cls.number = 0

    @classmethod
    def tearDownClass(cls) -> None:
        cls.process.stdin.close()
        cls.process.wait(60)
        cls.process.stdout.close()
        cls.directory.cleanup()

    def ask(self, command: str, **members: Any) -> dict[str, Any]:
        type(self).number += 1
        request = {"id": self.number, "command": command, **members}
        self.process.stdin.write(json.dumps(request) + "\n")
        answer = json.loads(self.process.stdout.readline())
        self.assertEqual(answer.pop("id"), self.number)
        return answer

    def encode(self, name: str, tensors: list[dict[str, Any]], **other: Any) -> Path:
        """Writes a file that has to be written."""
        spec, out = self.scratch / "spec.json", self.scratch / name
        spec.write_text(json.dumps({"layout": "auto", "tensors": tensors}))
        answer = self.ask("encode", spec=str(spec), out=str(out), **other)
        self.assertEqual(answer, {"encoded": True})
        return out

    def decode(self, file: Path, **other: Any) -> dict[str, Any]:
        return self.ask("decode", file=str(file), **other)

    def test_reads_what_it_wrote(self) -> None:
        ways = {
            "nested": [["a", 0, "w"], ["a", 2], ["b"]],
            "plain": [["a.b"], ["c"]],
        }
        for name, paths in ways.items():
            file = self.encode(name, [tensor(path, self.data) for path in paths])
            decoded = self.decode(file)["decoded"]
            self.assertEqual([t["path"] for t in decoded["tensors"]], paths)
            self.assertEqual({t["data_length"] for t in decoded["tensors"]}, {4})
            self.assertEqual(self.ask("verify", file=str(file)), {"verified": True})

    def test_keeps_kinds_and_module_indices(self) -> None:
        entries = [
            tensor(["m"], self.data, kind="parameter", module_index=7),
            tensor(["n"], self.data, kind="buffer", module_index=1),
        ]
        decoded = self.decode(self.encode("kinds", entries))["decoded"]["tensors"]
        self.assertEqual(
            [(t["kind"], t["module_index"]) for t in decoded],
            [("parameter", 7), ("buffer", 1)],
        )

    def test_asks_with_the_key(self) -> None:
        file = self.encode("locked", [tensor(["w"], self.data)], key_hex=KEY)
        self.assertTrue(self.decode(file, key_hex=KEY)["decoded"]["encrypted"])
        for secret in ({}, {"key_hex": "00" * 32}, {"passphrase": "x"}):
            self.assertIn("rejected", self.decode(file, **secret))

    def test_tells_refusals_from_accidents(self) -> None:
        file = self.encode("whole", [tensor(["w"], self.data)])
        content = bytearray(file.read_bytes())
        file.write_bytes(b"|tzr|" + content[5:])
        rejected = self.decode(file)["rejected"]
        self.assertIn("Not a tensorizer file", rejected["message"])
        self.assertIsNone(rejected["rule"])
        # Too short for a number: upstream does not look before it unpacks.
        file.write_bytes(content[:70])
        self.assertRegex(self.decode(file)["crashed"], r"^struct.error: .* \(\S+\.py, ")
        # And the process goes on.
        file.write_bytes(content)
        self.assertIn("decoded", self.decode(file))

    def test_verifies(self) -> None:
        file = self.encode("flipped", [tensor(["w"], self.data)])
        content = bytearray(file.read_bytes())
        # The last eight bytes are the terminator.
        content[-9] ^= 1
        file.write_bytes(content)
        self.assertIn("decoded", self.decode(file))
        self.assertIn("rejected", self.ask("verify", file=str(file)))

    def test_leaves_no_file_behind(self) -> None:
        spec, out = self.scratch / "spec.json", self.scratch / "refused"
        twice = [tensor(["w"], self.data), tensor(["w"], self.data)]
        spec.write_text(json.dumps({"layout": "auto", "tensors": twice}))
        answer = self.ask("encode", spec=str(spec), out=str(out))
        self.assertIn("rejected", answer)
        self.assertFalse(out.exists())

    def test_a_missing_file_is_no_refusal(self) -> None:
        self.assertIn("FileNotFoundError", self.decode(self.scratch / "no")["crashed"])


class OneShot(unittest.TestCase):
    def run_adapter(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-B", str(ADAPTER), *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def test_statuses(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "file"
            file.write_bytes(b"no")
            refused = self.run_adapter("decode", str(file))
            self.assertEqual(refused.returncode, protocol.REJECTED_STATUS)
            self.assertIn("rejected", json.loads(refused.stdout))
            file.write_bytes(b"|TZR|")
            crashed = self.run_adapter("decode", str(file))
            self.assertEqual((crashed.returncode, crashed.stdout), (1, ""))
            self.assertIn("Traceback", crashed.stderr)

    def test_capabilities(self) -> None:
        answer = self.run_adapter("capabilities")
        self.assertEqual(answer.returncode, 0)
        self.assertEqual(json.loads(answer.stdout)["protocol"], 1)


class Stdout(unittest.TestCase):
    def test_only_answers_get_there(self) -> None:
        program = (
            "import os, sys; sys.path.insert(0, sys.argv[1]); import protocol\n"
            "answers = protocol.claim_stdout()\n"
            "print('noise'); os.system('echo noise'); os.write(1, b'noise')\n"
            "protocol.say(answers, {'a': 'ä\\ud800'})\n"
        )
        command = [sys.executable, "-c", program, str(ADAPTERS / "python")]
        done = subprocess.run(command, capture_output=True, check=True)
        self.assertEqual(done.stdout.decode(), '{"a":"ä?"}\n')
        self.assertEqual(done.stderr.count(b"noise"), 3)


class Refusals(unittest.TestCase):
    def test_classes(self) -> None:
        refused = (
            ValueError("x"),
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"),
            json.JSONDecodeError("x", "", 0),
            RuntimeError("x"),
            NotImplementedError("x"),
            OSError("x"),
            EOFError("x"),
        )
        for error in refused:
            self.assertTrue(refusals.is_refusal(error), error)
        accidents = (
            AssertionError("x"),
            KeyError("x"),
            IndexError("x"),
            TypeError("x"),
            AttributeError("x"),
            UnboundLocalError("x"),
            OverflowError("x"),
            ZeroDivisionError("x"),
            MemoryError("x"),
            RecursionError("x"),
            struct.error("x"),
            RuntimeError("DefaultCPUAllocator: can't allocate memory"),
            OSError(errno.ENOMEM, "x"),
        )
        for error in accidents:
            self.assertFalse(refusals.is_refusal(error), error)

    def test_a_dtype_of_later_torch_is_not_supported(self) -> None:
        text = "Invalid torch_dtype: torch.float8_e4m3fn"
        wanted = (
            protocol.Rejected
            if hasattr(torch, "float8_e4m3fn")
            else protocol.Unsupported
        )
        with self.assertRaises(wanted), refusals.Judged():
            raise ValueError(text)
        with self.assertRaises(protocol.Rejected), refusals.Judged():
            raise ValueError("Invalid torch_dtype: torch.float7")


def item(*path: str | int, kind: str = "state_dict", module_index: int = 0) -> Item:
    return Item(path, kind, module_index, torch.zeros(1), True)


class Structures(unittest.TestCase):
    def test_modules_that_say_the_same(self) -> None:
        items = [
            item(".scale", kind="parameter"),
            item(".mean", kind="buffer"),
            item("a.w", kind="parameter", module_index=1),
            item("a.b.w", kind="parameter", module_index=2),
        ]
        self.assertIsNotNone(structure.as_module(items))
        for other in (
            item("a.w", kind="parameter", module_index=2),
            item("w", kind="parameter"),
            item("a.w"),
            item("a", 0, kind="parameter"),
        ):
            self.assertIsNone(structure.as_module([other]), other)
        self.assertIsNone(structure.as_module(list(reversed(items))))

    def test_nested_dicts_and_lists(self) -> None:
        items = [item("a", 1), item("a", 3, "w"), item("b")]
        nested = structure.as_state_dict(items)
        self.assertEqual(list(nested), ["a", "b"])
        self.assertEqual([type(one).__name__ for one in nested["a"]][0], "dict")
        self.assertIs(nested["a"][3]["w"], items[1].tensor)
        self.assertIsNone(
            structure.as_state_dict([item("a", 0), item("b"), item("a", 1)])
        )

    def test_what_no_structure_is(self) -> None:
        for items in (
            [item("a"), item("a", "b")],
            [item("a", "b"), item("a")],
            [item("a", "b"), item("a", 0)],
            [item("a", -1)],
            [item("a", True)],
            [item("a", 0.5)],
        ):
            with self.assertRaises(protocol.Rejected, msg=items):
                structure.as_state_dict(items)
        with self.assertRaises(protocol.Unsupported):
            structure.as_state_dict([item("a", 1 << 40)])


if __name__ == "__main__":
    unittest.main()
