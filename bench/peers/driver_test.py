"""Tests that the peer drivers keep the protocol, and that the clock runs around the operation alone.

Implementations are played by small ones of the test's own, so that no package of a peer is needed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

DIRECTORY = Path(__file__).resolve().parent
sys.path.insert(0, str(DIRECTORY))

import driver
from driver import Content, Driver, Json, Open, Read, Refused, Tensor, Write

PLAYED = """
import sys
sys.path[:0] = [{directory!r}]
import driver
import driver_test
{more}
sys.exit(driver.main({load}))
"""


class Result:
    """The result of a read, to observe when it is freed."""


class Played:
    """Writes the prepared tensors and reads them back."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.last_result: weakref.ref[Result] | None = None
        self.released = 0

    def describe(self) -> Json:
        return {"peer": "played"}

    def warm_up_requests(self, file: str) -> list[Json]:
        return [{"op": "write", "file": file, "hashes": "none"}]

    def prepare(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors

    def writer(self, request: Write) -> Callable[[], None]:
        print("noise")
        if request.hashes != "none":
            raise Refused("no hashes")
        content = b"".join(tensor.data.tobytes() for tensor in self.tensors)

        def write() -> None:
            # "x" refuses to replace an existing file.
            with open(request.file, "xb") as stream:
                stream.write(content)

        return write

    def reader(self, request: Read) -> Callable[[], Result]:
        earlier = self.last_result

        def read() -> Result:
            if earlier is not None and earlier() is not None:
                raise RuntimeError("the result of the read before is still there")
            Path(request.file).read_bytes()
            result = Result()
            self.last_result = weakref.ref(result)
            return result

        return read

    def opener(self, request: Open) -> Callable[[], Result]:
        return self.reader(Read(request.file))

    def content(self, result: Result) -> Content:
        return Content(7, 2, "by hand")

    def release(self, result: Result) -> None:
        self.released += 1


class Scratch(unittest.TestCase):
    """A directory with a specification of two tensors, whose data is in reverse order in the data file."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.file = self.directory / "file"
        (self.directory / "data.bin").write_bytes(bytes(range(10)))
        self.entries: list[Json] = [
            {
                "name": "b",
                "dtype": "bfloat16",
                "shape": [1, 2],
                "offset": 6,
                "length": 4,
            },
            {"name": "a", "dtype": "int8", "shape": [3], "offset": 1, "length": 3},
        ]

    def spec(self) -> str:
        path = self.directory / "spec.json"
        data = str(self.directory / "data.bin")
        path.write_text(json.dumps({"data": data, "tensors": self.entries}))
        return str(path)


class Tensors(Scratch):
    def test_are_read_as_specified(self) -> None:
        loaded = driver.load_tensors(self.spec())
        self.assertEqual(
            [(t.name, t.dtype, t.shape, t.data.tobytes()) for t in loaded],
            [("b", "bfloat16", [1, 2], b"\6\7\10\11"), ("a", "int8", [3], b"\1\2\3")],
        )

    def test_names_count_from_where_the_driver_runs(self) -> None:
        spec = self.spec()
        document = json.loads(Path(spec).read_text())
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.directory)
        os.mkdir("deeper")
        deeper = "deeper/spec.json"
        Path(deeper).write_text(json.dumps(document | {"data": "data.bin"}))
        self.assertEqual(len(driver.load_tensors(deeper)), 2)

    def test_have_the_length_of_their_shape(self) -> None:
        self.entries[0]["length"] = 3
        with self.assertRaisesRegex(Refused, "b: 3 bytes are not those of bfloat16"):
            driver.load_tensors(self.spec())

    def test_lie_in_the_file(self) -> None:
        self.entries[0]["offset"] = 7
        with self.assertRaisesRegex(Refused, "b: the data file is too short"):
            driver.load_tensors(self.spec())

    def test_have_a_known_dtype(self) -> None:
        self.entries[0]["dtype"] = "float7"
        with self.assertRaisesRegex(Refused, "b: no dtype float7"):
            driver.load_tensors(self.spec())


class Answers(Scratch):
    def setUp(self) -> None:
        super().setUp()
        self.peer = Played()
        self.driver = Driver(self.peer)

    def ask(self, **request: Any) -> Json:
        return self.driver.answer(request)

    def prepare(self) -> None:
        reply = self.ask(op="prepare", spec=self.spec())
        self.assertGreaterEqual(reply.pop("user_ns"), 0)
        self.assertEqual(reply, {"ok": True, "bytes": 7})

    def write(self, **other: Any) -> Json:
        return self.ask(op="write", file=str(self.file), hashes="none", **other)

    def test_writes_what_was_prepared(self) -> None:
        self.prepare()
        # The file exists each time but the first.
        for _ in range(3):
            reply = self.write()
            self.assertEqual(
                list(reply),
                ["elapsed_ns", "sync_ns", "cpu_ns", "huge_share", "user_ns"],
            )
            self.assertIsNone(reply["sync_ns"])
            self.assertEqual(self.file.read_bytes(), b"\6\7\10\11\1\2\3")
        self.assertIsInstance(self.write(sync=True)["sync_ns"], int)

    def test_writes_another_version_each_time(self) -> None:
        size = 4096 + 12
        (self.directory / "data.bin").write_bytes(bytes(size))
        self.entries = [
            {"name": name, "dtype": "int8", "offset": at, "length": length}
            | {"shape": [length]}
            for name, at, length in (("a", 0, size), ("b", 0, 7))
        ]
        self.ask(op="prepare", spec=self.spec())
        for version in (5, 261):
            self.assertNotIn("error", self.write(version=version))
            number = version.to_bytes(8, "little")
            self.assertEqual(
                self.file.read_bytes(),
                number + bytes(4088) + number + bytes(4) + bytes(7),
            )

    def test_writes_nothing_unprepared(self) -> None:
        self.assertIn("nothing is prepared", self.write()["error"])
        self.prepare()
        self.entries[0]["dtype"] = "float7"
        self.assertIn("float7", self.ask(op="prepare", spec=self.spec())["error"])
        # The previous tensors are dropped, so that they cannot replace those that failed.
        self.assertIn("nothing is prepared", self.write()["error"])

    def test_reads(self) -> None:
        self.file.write_bytes(b"x")
        for count in range(1, 4):
            reply = self.ask(op="read", file=str(self.file))
            self.assertNotIn("error", reply)
            self.assertEqual(
                (reply["bytes"], reply["tensors"], reply["detail"]), (7, 2, "by hand")
            )
            self.assertEqual(self.peer.released, count)

    def test_opens(self) -> None:
        self.file.write_bytes(b"x")
        reply = self.ask(op="open", file=str(self.file))
        self.assertEqual(list(reply), ["elapsed_ns", "cpu_ns", "user_ns"])
        self.assertEqual(self.peer.released, 1)

    def test_says_what_went_wrong(self) -> None:
        missing = str(self.directory / "missing")
        for request, text in (
            ({"op": "read", "file": missing}, "FileNotFoundError"),
            ({"op": "read"}, "missing 1 required positional argument: 'file'"),
            ({"op": "read", "file": missing, "redaers": 1}, "redaers"),
            ({"op": "prepare"}, "spec"),
            ({"op": "burn"}, "no operation 'burn'"),
            ({}, "no operation None"),
            ([], "a request is an object"),
        ):
            reply = self.driver.answer(request)
            self.assertEqual(list(reply), ["error"], request)
            self.assertIn(text, reply["error"])

    def test_refuses_as_the_peer_does(self) -> None:
        self.prepare()
        self.file.write_bytes(b"kept")
        reply = self.ask(op="write", file=str(self.file), hashes="both")
        self.assertEqual(reply, {"error": "no hashes"})
        self.assertEqual(self.file.read_bytes(), b"kept")

    def test_leaves_no_part_of_a_file(self) -> None:
        self.prepare()

        def fail() -> None:
            self.file.write_bytes(b"part")
            raise OSError("no room\nleft")

        with mock.patch.object(self.peer, "writer", lambda _: fail):
            self.assertEqual(self.write(), {"error": "OSError: no room left"})
        self.assertFalse(self.file.exists())

    def test_frees_the_result_before(self) -> None:
        self.file.write_bytes(b"x")
        self.ask(op="read", file=str(self.file))
        kept = Result()
        self.peer.last_result = weakref.ref(kept)
        # The check itself detects a violation.
        self.assertIn("still there", self.ask(op="read", file=str(self.file))["error"])


class Clock(unittest.TestCase):
    def test_runs_around_the_operation_alone(self) -> None:
        now_ns = 0

        def spend(ns: int) -> int:
            nonlocal now_ns
            now_ns += ns
            return now_ns

        with (
            mock.patch("driver.gc.collect", lambda: spend(1000)),
            mock.patch("driver.cpu_ns", lambda: spend(100) // 10),
            mock.patch("driver.time.perf_counter_ns", lambda: spend(0)),
        ):
            done = driver.timed(lambda: spend(7))
        self.assertEqual((done.result, done.elapsed_ns), (1107, 7))
        self.assertEqual(done.cpu_ns, 120 - 110)

    def test_counts_the_processor_time_of_all_threads(self) -> None:
        def burn() -> None:
            while time.thread_time_ns() < 20_000_000:
                pass

        def operation() -> None:
            thread = threading.Thread(target=burn)
            thread.start()
            thread.join()

        self.assertGreaterEqual(driver.timed(operation).cpu_ns, 20_000_000)

    def test_says_how_memory_comes(self) -> None:
        for tunables, text in (
            ("", "malloc in small pages"),
            ("glibc.malloc.check=0", "malloc in small pages"),
            (
                "glibc.malloc.check=0:glibc.malloc.hugetlb=1",
                "malloc asks for huge pages",
            ),
        ):
            with mock.patch.dict("os.environ", {"GLIBC_TUNABLES": tunables}):
                self.assertEqual(driver.memory_detail(), text)


class HostPeak(unittest.TestCase):
    def test_counts_memory_that_is_freed_again(self) -> None:
        size = 64 << 20
        peak = driver.HostPeak()
        self.assertLess(peak.bytes(), size // 2)
        bytearray(b"x" * size)
        self.assertGreaterEqual(peak.bytes(), size)
        self.assertLess(driver.HostPeak().bytes(), size // 2)


class Touch(unittest.TestCase):
    def test_reads_every_byte(self) -> None:
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        data = numpy.arange(29, dtype="u1")
        words = int(data[:24].view("<u8").sum(dtype="u8")) + int(data[24:].sum())
        empty = numpy.zeros((0, 3))
        self.assertEqual(driver.touch([data, empty]), words % 2**64)
        for i in range(len(data)):
            data[i] ^= 1
            self.assertNotEqual(driver.touch([data, empty]), words % 2**64)
            data[i] ^= 1


class Module(Scratch):
    def test_is_found_where_it_is_installed(self) -> None:
        import tzmark_driver

        for prefix, package in (
            ("build", "build/python"),
            ("usr", "usr/lib/python3/dist-packages"),
            ("site/tzmark/_install", "site"),
        ):
            directory = self.directory / prefix / "share/tzmark/bench/peers"
            directory.mkdir(parents=True)
            file = directory / "tzmark_driver.py"
            self.assertIsNone(tzmark_driver.module_directory(file))
            module = self.directory / package / tzmark_driver.MODULE
            module.parent.mkdir(parents=True, exist_ok=True)
            module.touch()
            found = tzmark_driver.module_directory(file)
            self.assertEqual(found, (self.directory / package).resolve())
        # In the source tree it is what the interpreter finds.
        self.assertIsNone(
            tzmark_driver.module_directory(DIRECTORY / "tzmark_driver.py")
        )


class Process(unittest.TestCase):
    """A driver, run as the bench runs it."""

    def converse(
        self, program: str, text: str, *arguments: str
    ) -> tuple[list[Json], subprocess.CompletedProcess[str]]:
        done = subprocess.run(
            [sys.executable, "-B", "-c", program, *arguments],
            input=text,
            capture_output=True,
            text=True,
        )
        return [json.loads(line) for line in done.stdout.splitlines()], done

    def played(self, load: str, text: str, more: str = "") -> list[Json]:
        program = PLAYED.format(directory=str(DIRECTORY), load=load, more=more)
        replies, done = self.converse(program, text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return replies

    def test_goes_on_until_it_is_told_to_quit(self) -> None:
        text = 'no JSON\n{"op": "burn"}\n{"op": "quit"}\n{"op": "burn"}\n'
        hello, first, second = self.played("driver_test.Played", text)
        self.assertEqual(hello, {"peer": "played"})
        self.assertIn("JSONDecodeError", first["error"])
        self.assertIn("burn", second["error"])

    def test_ends_with_its_input(self) -> None:
        # That "noise" of the write in the warm-up is no line here is part of what is tested.
        self.assertEqual(
            self.played("driver_test.Played", '{"op": "burn"}\n'),
            [{"peer": "played"}, {"error": "no operation 'burn'"}],
        )

    def test_noise_goes_to_stderr(self) -> None:
        program = PLAYED.format(
            directory=str(DIRECTORY), load="driver_test.Played", more=""
        )
        self.assertIn("noise", self.converse(program, "")[1].stderr)

    def test_a_peer_that_cannot_be_loaded_is_unavailable(self) -> None:
        for more, text in (
            ("def load(): import no_such_package", "no_such_package"),
            ("def load(): raise OSError('no library')", "OSError: no library"),
            (
                "def load():\n peer = driver_test.Played()\n peer.writer = None\n return peer",
                "write: TypeError",
            ),
        ):
            (reply,) = self.played("load", '{"op": "burn"}\n', more)
            self.assertEqual(list(reply), ["unavailable"])
            self.assertIn(text, reply["unavailable"])

    def test_memory_comes_in_the_pages_asked_for(self) -> None:
        size = 64 << 20
        more = f"""
class Filled(driver_test.Played):
    def reader(self, request):
        return lambda: b"x" * {size}
"""
        request = '{"op": "read", "file": "f"}\n'
        setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
        has_huge = setting.exists() and "[never]" not in setting.read_text()
        for kind, least, most in (("small", 0, 0.1), ("huge", 0.9 * has_huge, 1)):
            program = PLAYED.format(directory=str(DIRECTORY), load="Filled", more=more)
            (_, reply), done = self.converse(program, request, "--pages", kind)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLessEqual(least, reply["huge_share"], kind)
            self.assertLessEqual(reply["huge_share"], most, kind)

    def test_drivers_without_their_packages_are_unavailable(self) -> None:
        for name in ("tensorizer", "safetensors", "tzmark"):
            # Without the module site no directory of packages is looked into.
            done = subprocess.run(
                [sys.executable, "-B", "-S", DIRECTORY / f"{name}_driver.py"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("No module named", json.loads(done.stdout)["unavailable"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
