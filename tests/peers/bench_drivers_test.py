"""Do the peer drivers of the benchmark do with the real releases what they are asked, and nothing less?

What they write is read by tzmark, and what tzmark writes is read by them, down to each byte. Run with the Python of an
environment that has the release which --peer names.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path
from typing import Any

DRIVERS = Path(__file__).resolve().parents[2] / "bench" / "peers"
sys.path.insert(0, str(DRIVERS))

import driver
from driver import Json, Read

KEY = bytes(range(32)).hex()
OTHER_KEY = bytes(32).hex()

# Name, dtype, the format's own name of it in safetensors files, and shape. numpy has no bfloat16.
OF_NUMPY = [
    ("flag", "bool", "BOOL", [3]),
    ("byte", "uint8", "U8", [5, 3]),
    ("signed", "int8", "I8", [7]),
    ("short", "int16", "I16", [2, 2]),
    ("half", "float16", "F16", [300, 200]),
    ("index", "int32", "I32", [9]),
    ("weight", "float32", "F32", [64, 33]),
    ("scale", "float32", "F32", []),
    ("empty", "float32", "F32", [0, 4]),
    ("position", "int64", "I64", [11]),
    ("double", "float64", "F64", [5]),
    ("wave", "complex64", "C64", [4]),
]
ALL = [*OF_NUMPY, ("brain", "bfloat16", "BF16", [128, 65])]


class Tzmark:
    """The command, as the other side."""

    program = ""

    def run(self, *arguments: str | Path) -> str:
        done = subprocess.run(
            [self.program, *arguments], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise AssertionError(f"tzmark {arguments[0]}: {done.stderr}")
        return done.stdout

    def dump(self, file: Path, *options: str) -> list[Json]:
        return json.loads(self.run("dump", file, *options))["tensors"]


class Conversation:
    """A driver as the bench runs it."""

    def __init__(self, name: str, *options: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-B", *options, DRIVERS / f"{name}_driver.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            env={**os.environ, **environment},
        )
        self.hello = self._reply()

    def _reply(self) -> Json:
        return json.loads(self._process.stdout.readline())

    def ask(self, **request: Any) -> Json:
        self._process.stdin.write(json.dumps(request) + "\n")
        return self._reply()

    def quit(self) -> int:
        """The exit status, once it was told to end. Its stdin stays open until then."""
        if self._process.poll() is None:
            self._process.stdin.write('{"op": "quit"}\n')
        status = self._process.wait(60)
        rest = self._process.stdout.read()
        self._process.stdin.close()
        self._process.stdout.close()
        if rest:
            raise AssertionError(f"left over: {rest}")
        return status


class Case(unittest.TestCase):
    """A driver, some tensors, and the same in a safetensors file that neither the driver nor tzmark wrote."""

    name = ""
    scratch: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.tzmark = Tzmark()
        cls.directory = tempfile.TemporaryDirectory()
        cls.scratch = Path(cls.directory.name)
        cls.driver = Conversation(cls.name)
        cls.spec, cls.source = cls.make("all", ALL)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.driver.quit()
        cls.directory.cleanup()

    @classmethod
    def make(
        cls, name: str, tensors: list[tuple[str, str, str, list[int]]]
    ) -> tuple[Path, Path]:
        """A specification and a safetensors file of these tensors. Their content is theirs alone."""
        entries, header, content = [], {}, b""
        for tensor, dtype, wire_dtype, shape in tensors:
            data = content_of(tensor, dtype, shape)
            begin = len(content)
            content += data
            entry = {"name": tensor, "dtype": dtype, "shape": shape}
            entries.append(entry | {"offset": begin, "length": len(data)})
            header[tensor] = {
                "dtype": wire_dtype,
                "shape": shape,
                "data_offsets": [begin, len(content)],
            }
        data = cls.scratch / f"{name}.bin"
        data.write_bytes(content)
        spec = cls.scratch / f"{name}.json"
        spec.write_text(json.dumps({"data": str(data), "tensors": entries}))
        text = json.dumps(header).encode()
        source = cls.scratch / f"{name}.safetensors"
        source.write_bytes(len(text).to_bytes(8, "little") + text + content)
        return spec, source

    def ask_well(self, **request: Any) -> Json:
        reply = self.driver.ask(**request)
        self.assertNotIn("error", reply)
        return reply

    def assert_refused(self, text: str, **request: Any) -> None:
        self.assertRegex(self.driver.ask(**request).get("error", "done"), text)

    def assert_written(self, file: Path, *options: str) -> None:
        """The file has the tensors of the specification, by what tzmark says of it."""
        self.tzmark.run("verify", file, *options)
        seen = {
            tensor["path"][0]: (tensor["dtype"], tensor["shape"], tensor["sha256"])
            for tensor in self.tzmark.dump(file, *options)
        }
        self.assertEqual(seen, wanted(ALL))

    def assert_checksums(
        self, file: Path, tensors: list[tuple[str, str, str, list[int]]]
    ) -> None:
        reply = self.ask_well(op="read", file=str(file), checksums=True)
        expected = {
            name: zlib.crc32(content_of(name, dtype, shape))
            for name, dtype, _, shape in tensors
        }
        self.assertEqual(reply["crc32"], expected)

    def assert_read(self, reply: Json, tensors: list[Any]) -> None:
        self.assertEqual(reply["tensors"], len(tensors))
        size = sum(len(content_of(name, dtype, s)) for name, dtype, _, s in tensors)
        self.assertEqual(reply["bytes"], size)
        self.assert_timed(reply)

    def assert_timed(self, reply: Json) -> None:
        for member in ("elapsed_ns", "cpu_ns"):
            self.assertIsInstance(reply[member], int)
            self.assertGreaterEqual(reply[member], 0)
        self.assertGreater(reply["elapsed_ns"], 0)

    def assert_own_memory(self, peer: driver.Peer, file: Path, **other: Any) -> Any:
        """Reads in this process, spoils the file, and returns what the read has brought."""
        result = peer.reader(Read(str(file), **other))()
        # In place: a mapping of the file would see it.
        with file.open("r+b") as stream:
            stream.write(b"\xaa" * file.stat().st_size)
        return result

    def assert_content(self, found: dict[str, Any], tensors: list[Any]) -> None:
        hashes = {
            name: hashlib.sha256(memory_of(tensor)).hexdigest()
            for name, tensor in found.items()
        }
        self.assertEqual(
            hashes, {name: hash for name, (*_, hash) in wanted(tensors).items()}
        )


def memory_of(tensor: Any) -> bytes:
    """The bytes of a contiguous tensor of torch or numpy."""
    if hasattr(tensor, "tobytes"):
        return tensor.tobytes()
    size = tensor.numel() * tensor.element_size()
    return ctypes.string_at(tensor.data_ptr(), size) if size else b""


def content_of(name: str, dtype: str, shape: list[int]) -> bytes:
    """Bytes that are like no other tensor's, and of which a bool can be made."""
    count = driver.ELEMENT_BYTES[dtype] * math.prod(shape)
    stream = hashlib.shake_128(name.encode()).digest(count)
    return bytes(byte & 1 for byte in stream) if dtype == "bool" else stream


def wanted(tensors: list[Any]) -> dict[str, Any]:
    return {
        name: (dtype, shape, hashlib.sha256(content_of(name, dtype, shape)).hexdigest())
        for name, dtype, _, shape in tensors
    }


class Common:
    """What both have to do."""

    def test_says_what_it_is(self) -> None:
        self.assertEqual(self.driver.hello["peer"], self.name)
        self.assertRegex(self.driver.hello["version"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(self.driver.hello["operations"], ["read", "write", "open"])
        self.assertIn("malloc in small pages", self.driver.hello["detail"])

    def test_says_that_it_has_huge_pages(self) -> None:
        asked = Conversation(self.name, GLIBC_TUNABLES="glibc.malloc.hugetlb=1")
        self.assertIn("huge pages", asked.hello["detail"])
        self.assertEqual(asked.quit(), 0)

    def test_quits(self) -> None:
        self.assertEqual(Conversation(self.name).quit(), 0)

    def test_is_unavailable_without_its_package(self) -> None:
        # Without the module site no directory of packages is looked into.
        bare = Conversation(self.name, "-S")
        self.assertRegex(bare.hello["unavailable"], "No module named")
        self.assertEqual(bare.quit(), 0)

    def test_errors_are_replies(self) -> None:
        missing = str(self.scratch / "missing")
        self.assert_refused("No such file", op="read", file=missing)
        self.assert_refused("No such file", op="open", file=missing)
        self.assert_refused("unexpected", op="read", file=missing, readres=2)
        self.assert_refused("no operation", op="fly")


class TensorizerCase(Common, Case):
    name = "tensorizer"

    def converted(self, name: str, *options: str) -> Path:
        file = self.scratch / name
        self.tzmark.run("convert", self.source, file, *options)
        return file

    def test_tzmark_verifies_what_it_writes(self) -> None:
        reply = self.ask_well(op="prepare", spec=str(self.spec))
        self.assertEqual(reply["bytes"], self.spec.with_suffix(".bin").stat().st_size)
        file = self.scratch / "theirs.tensors"
        # Twice, as the encryption works in the memory of the tensors.
        for sync in (False, True):
            reply = self.ask_well(
                op="write", file=str(file), hashes="both", key_hex=None, sync=sync
            )
            self.assert_timed(reply)
            self.assertEqual(reply["sync_ns"] is None, not sync)
            self.assert_written(file)
        for tensor in self.tzmark.dump(file):
            self.assertIsNotNone(tensor["crc32_field"])
            self.assertIsNotNone(tensor["sha256_field"])

    def test_tzmark_verifies_what_it_encrypts(self) -> None:
        # The release cannot encrypt a tensor without data.
        some = [tensor for tensor in ALL if 0 not in tensor[3]]
        spec, source = self.make("some", some)
        self.ask_well(op="prepare", spec=str(spec))
        theirs, ours = self.scratch / "locked", self.scratch / "locked-by-tzmark"
        for _ in range(2):
            self.ask_well(op="write", file=str(theirs), hashes="both", key_hex=KEY)
            self.tzmark.run("verify", theirs, "--key-hex", KEY)
        dumped = self.tzmark.dump(theirs, "--key-hex", KEY)
        hashes = {tensor["path"][0]: tensor["sha256"] for tensor in dumped}
        self.assertEqual(
            hashes, {name: hash for name, (*_, hash) in wanted(some).items()}
        )
        # What "both" means for an encrypted file is the same on both sides.
        self.tzmark.run("convert", source, ours, "--encrypt-key-hex", KEY)
        for file in (theirs, ours):
            for tensor in self.tzmark.dump(file, "--key-hex", KEY):
                self.assertIsNone(tensor["crc32_field"])
                self.assertIsNotNone(tensor["sha256_field"])
        self.assert_refused(
            "always writes both", op="write", file=str(theirs), hashes="none"
        )

    def test_leaves_no_file_that_it_could_not_write(self) -> None:
        self.ask_well(op="prepare", spec=str(self.spec))
        file = self.scratch / "not-written"
        self.assert_refused(
            "TypeError", op="write", file=str(file), hashes="both", key_hex=KEY
        )
        self.assertFalse(file.exists())
        self.assert_refused(
            "key length", op="write", file=str(file), hashes="both", key_hex="00"
        )

    def test_reads_what_tzmark_writes(self) -> None:
        plain = self.converted("plain.tensors", "--layout", "v4")
        locked = self.converted("locked.tensors", "--encrypt-key-hex", KEY)
        for file, key in ((plain, None), (locked, KEY)):
            for readers in (None, 1, 2, 4):
                for verify in (False, True):
                    for lazy in (False, True):
                        reply = self.ask_well(
                            op="read",
                            file=str(file),
                            verify=verify,
                            readers=readers,
                            key_hex=key,
                            lazy=lazy,
                        )
                        self.assert_read(reply, ALL)
        self.assert_checksums(plain, ALL)
        self.assert_timed(self.ask_well(op="open", file=str(plain)))
        self.assert_timed(self.ask_well(op="open", file=str(locked), key_hex=KEY))
        self.assert_refused("Crypto", op="read", file=str(locked), key_hex=OTHER_KEY)
        self.assert_refused("Crypto", op="read", file=str(locked))

    def test_verifies_only_when_asked(self) -> None:
        file = self.converted("flipped.tensors", "--layout", "v4")
        content = bytearray(file.read_bytes())
        # The last eight bytes are the terminator.
        content[-9] ^= 1
        file.write_bytes(content)
        self.assert_read(self.ask_well(op="read", file=str(file)), ALL)
        for lazy in (False, True):
            self.assert_refused(
                "HashMismatch", op="read", file=str(file), verify=True, lazy=lazy
            )

    def test_open_reads_no_data(self) -> None:
        file = self.converted("cut.tensors", "--layout", "v4")
        content = file.read_bytes()
        # The index begins at byte 73, behind its length.
        os.truncate(file, 73 + int.from_bytes(content[65:73], "little"))
        self.ask_well(op="open", file=str(file))
        self.assert_refused("unpack requires", op="read", file=str(file))

    def test_the_tensors_are_in_memory_of_their_own(self) -> None:
        import tensorizer_driver

        peer = tensorizer_driver.Tensorizer()
        for lazy in (False, True):
            file = self.converted("spoiled.tensors", "--layout", "v4")
            result = self.assert_own_memory(peer, file, lazy=lazy)
            self.assert_content(dict(result.items()), ALL)
            peer.release(result)


class SafetensorsCase(Common, Case):
    name = "safetensors"

    def test_tzmark_reads_what_it_writes(self) -> None:
        self.ask_well(op="prepare", spec=str(self.spec))
        file = self.scratch / "theirs.safetensors"
        for sync in (False, True):
            reply = self.ask_well(
                op="write", file=str(file), hashes="none", key_hex=None, sync=sync
            )
            self.assert_timed(reply)
            self.assertEqual(reply["sync_ns"] is None, not sync)
            self.assert_written(file)

    def test_reads_what_tzmark_writes(self) -> None:
        for name, tensors, framework in (
            ("with", ALL, "torch"),
            ("without", OF_NUMPY, "numpy"),
        ):
            _, source = self.make(name, tensors)
            file = self.scratch / f"{name}-converted.safetensors"
            self.tzmark.run("convert", source, file)
            for lazy in (False, True):
                reply = self.ask_well(
                    op="read",
                    file=str(file),
                    verify=False,
                    readers=None,
                    key_hex=None,
                    lazy=lazy,
                )
                self.assert_read(reply, tensors)
                self.assertTrue(reply["detail"].startswith(framework))
            self.assert_checksums(file, tensors)
            self.assert_timed(self.ask_well(op="open", file=str(file)))

    def test_the_tensors_are_in_memory_of_their_own(self) -> None:
        import safetensors_driver

        peer = safetensors_driver.Safetensors()
        for name, tensors in (("torch", ALL), ("numpy", OF_NUMPY)):
            for lazy in (False, True):
                _, file = self.make(f"spoiled-{name}", tensors)
                result = self.assert_own_memory(peer, file, lazy=lazy)
                self.assertEqual(result.framework, name)
                self.assert_content(result.tensors, tensors)

    def test_maps_when_asked(self) -> None:
        for touch in (False, True):
            reply = self.ask_well(
                op="read",
                file=str(self.source),
                framework="torch",
                mapped=True,
                touch=touch,
            )
            self.assert_read(reply, ALL)
            self.assertEqual(reply["detail"], "torch, mapped")
        self.assert_refused(
            "only for torch",
            op="read",
            file=str(self.make("mapped", OF_NUMPY)[1]),
            mapped=True,
        )

    def test_refuses_what_the_format_has_not(self) -> None:
        self.ask_well(op="prepare", spec=str(self.spec))
        out, source = str(self.scratch / "refused"), str(self.source)
        self.assert_refused("no hashes", op="write", file=out, hashes="both")
        self.assert_refused(
            "encrypted", op="write", file=out, hashes="none", key_hex=KEY
        )
        self.assert_refused("no hashes", op="read", file=source, verify=True)
        self.assert_refused("one thread", op="read", file=source, readers=2)
        self.assert_refused("encrypted", op="read", file=source, key_hex=KEY)
        self.assert_refused("encrypted", op="open", file=source, key_hex=KEY)
        self.assertFalse(Path(out).exists())


class TzmarkCase(Common, Case):
    """The module in Python."""

    name = "tzmark"

    def test_says_what_it_is(self) -> None:
        self.assertEqual(self.driver.hello["peer"], "tzmark-python")
        self.assertEqual(self.driver.hello["operations"], ["read", "open"])
        self.assertEqual(self.driver.hello["formats"], ["tensors", "safetensors"])

    def test_reads(self) -> None:
        plain, locked = (self.scratch / f"{name}.tensors" for name in ("a", "b"))
        self.tzmark.run("convert", self.source, plain)
        self.tzmark.run("convert", self.source, locked, "--encrypt-key-hex", KEY)
        for file, key in ((plain, None), (locked, KEY), (self.source, None)):
            for options in (
                {"readers": 2},
                {"framework": "torch", "touch": True},
                {"lazy": True, "touch": True},
                *([{"verify": True}] if file != self.source else []),
                *([{"mapped": True}] if key is None else []),
            ):
                reply = self.ask_well(op="read", file=str(file), key_hex=key, **options)
                self.assert_read(reply, ALL)
            if key is None:
                self.assert_checksums(file, ALL)
            self.assert_timed(self.ask_well(op="open", file=str(file), key_hex=key))
        self.assert_refused("verify", op="read", file=str(self.source), verify=True)
        self.assert_refused(
            "encrypted", op="read", file=str(locked), key_hex=KEY, mapped=True
        )

    def test_writes_nothing(self) -> None:
        self.ask_well(op="prepare", spec=str(self.spec))
        out = str(self.scratch / "refused.tensors")
        self.assert_refused("sync", op="write", file=out, hashes="both")

    def test_verifies_only_when_asked(self) -> None:
        file = self.scratch / "flipped.tensors"
        self.tzmark.run("convert", self.source, file, "--layout", "v4")
        content = bytearray(file.read_bytes())
        content[-9] ^= 1
        file.write_bytes(content)
        self.assert_read(self.ask_well(op="read", file=str(file)), ALL)
        self.assert_refused("TZR-HSH", op="read", file=str(file), verify=True)

    def test_the_tensors_are_in_memory_of_their_own(self) -> None:
        import tzmark_driver

        result = self.assert_own_memory(
            tzmark_driver.Tzmark(), self.make("spoiled", OF_NUMPY)[1]
        )
        self.assert_content(result, OF_NUMPY)


CASES = {case.name: case for case in (TensorizerCase, SafetensorsCase, TzmarkCase)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", choices=CASES, required=True)
    parser.add_argument("--tzmark", required=True)
    arguments = parser.parse_args()
    Tzmark.program = arguments.tzmark
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(CASES[arguments.peer])
    result = unittest.TextTestRunner().run(suite)
    return 0 if result.wasSuccessful() and result.testsRun else 1


if __name__ == "__main__":
    sys.exit(main())
