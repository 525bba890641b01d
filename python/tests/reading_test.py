"""Reading: lifetimes, threads, forks, signals, slices, arguments and hostile files."""

from __future__ import annotations

import gc
import gzip
import io
import json
import multiprocessing
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tzmark

try:
    import torch
except ImportError:
    torch = None

KEY = bytes(range(32))

# Of tzmark.io_paths(): they read URLs, and no files.
REMOTE_PATHS = ("http", "s3")


class Lying:
    """An array whose interface says something else than what it has."""

    def __init__(self, array: Any, dtype: Any, **words: Any) -> None:
        self.array, self.dtype, self.words = array, dtype, words

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {**self.array.__array_interface__, **self.words}


def read_bytes() -> int:
    """How many bytes this process has read by system calls."""
    return int(Path("/proc/self/io").read_text().split()[1])


class Reading(unittest.TestCase):
    def setUp(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.addCleanup(self._directory.cleanup)
        self.directory = Path(self._directory.name)
        generator = np.random.default_rng(20)
        self.tensors: dict[Any, Any] = {
            "w": generator.standard_normal((17, 300, 5), dtype="f4"),
            ("layers", 0, "bias"): generator.integers(0, 99, (64,), dtype="i8"),
            "scalar": np.float16(1.5),
            "empty": np.zeros((3, 0, 2), "c8"),
            "large": generator.integers(0, 255, (3 << 20,), dtype="u1"),
        }
        self.files = {
            "plain.tensors": {},
            "sealed.tensors": {"key": KEY},
            "model.safetensors": {},
        }
        for name, keys in self.files.items():
            tzmark.save_file(self.for_file(name), self.directory / name, **keys)

    def for_file(self, name: str) -> dict[Any, Any]:
        """Returns the tensors that a file can hold: safetensors has no structured names."""
        if not name.endswith(".safetensors"):
            return self.tensors
        return {key: value for key, value in self.tensors.items() if key == str(key)}

    def check(self, name: str, loaded: Any) -> None:
        tensors = self.for_file(name)
        self.assertEqual(set(loaded), set(tensors))
        for key, value in tensors.items():
            np.testing.assert_array_equal(loaded[key], value)
            self.assertEqual(loaded[key].dtype, value.dtype)
            self.assertEqual(loaded[key].shape, value.shape)

    def test_mapping(self) -> None:
        for name, keys in self.files.items():
            with self.subTest(name), tzmark.open(
                self.directory / name, **keys
            ) as reader:
                self.check(name, reader)
                self.check(name, reader.load())
                self.assertEqual(len(reader), len(self.for_file(name)))
                self.assertIn(("w",), reader)
                self.assertNotIn("x", reader)
                self.assertEqual(reader.info("w").shape, (17, 300, 5))

    def test_readers_are_equal_by_identity(self) -> None:
        reader, other = (tzmark.open(self.directory / "plain.tensors") for _ in "ab")
        self.assertEqual(len({reader, other}), 2)
        self.assertEqual(reader, reader)
        self.assertNotEqual(reader, other)

    def test_io_paths(self) -> None:
        usable = [
            name
            for name, reason in tzmark.io_paths().items()
            if not reason and name not in REMOTE_PATHS
        ]
        self.assertIn("pwrite", usable)
        for io in usable:
            for name, keys in self.files.items():
                with self.subTest(io=io, name=name):
                    self.check(
                        name, tzmark.load_file(self.directory / name, io=io, **keys)
                    )

    def test_arrays_outlive_the_reader(self) -> None:
        for name, keys in self.files.items():
            with self.subTest(name):
                reader = tzmark.open(self.directory / name, **keys)
                loaded, single = reader.load(), reader["large"]
                part = reader.get_slice("w")[3]
                reader.close()
                del reader
                for key in list(loaded):
                    if key != "w":
                        del loaded[key]
                gc.collect()
                # Memory that was freed would be reused here.
                other = [np.full(8 << 20, 7, "u1") for _ in range(4)]
                np.testing.assert_array_equal(loaded["w"], self.tensors["w"])
                np.testing.assert_array_equal(single, self.tensors["large"])
                np.testing.assert_array_equal(part, self.tensors["w"][3])
                del other

    def test_maps_files(self) -> None:
        for name, verify in (("model.safetensors", True), ("plain.tensors", False)):
            path = self.directory / name
            with self.subTest(name):
                reader = tzmark.open(path, mapped=True, verify=verify)
                loaded, single = reader.load(), reader["large"]
                self.check(name, loaded)
                self.check(name, reader)
                part = reader.get_slice("w")[3, :7]
                np.testing.assert_array_equal(part, self.tensors["w"][3, :7])
                reader.close()
                # Neither a replaced file nor a closed reader takes the memory away.
                before = path.read_bytes()
                path.unlink()
                path.write_bytes(b"other")
                self.check(name, loaded)
                # The memory is private: a write reaches neither the file nor the same tensor that was copied.
                path.unlink()
                path.write_bytes(before)
                again = tzmark.load_file(path, mapped=True, verify=verify)
                again["large"][:] = 7
                self.assertEqual(path.read_bytes(), before)
                self.check(name, tzmark.load_file(path))
                np.testing.assert_array_equal(single, self.tensors["large"])

    def test_mapped_tensors_are_views_of_the_file(self) -> None:
        for name, verify in (("model.safetensors", True), ("plain.tensors", False)):
            path = self.directory / name
            for mapped in (True, False):
                with self.subTest(name, mapped=mapped):
                    large = tzmark.load_file(path, mapped=mapped, verify=verify)[
                        "large"
                    ]
                    begin = large.__array_interface__["data"][0]
                    files = [
                        line.split()[-1]
                        for line in Path("/proc/self/maps").read_text().splitlines()
                        if int(line.split("-")[0], 16)
                        <= begin
                        < int(line.split("-")[1].split()[0], 16)
                    ]
                    self.assertEqual(files == [str(path)], mapped)

    def test_unaligned_tensors_of_a_mapping_are_copied(self) -> None:
        path = self.directory / "odd.safetensors"
        header = (
            b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
            b'"b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}}'
        )
        header += b" " * (-len(header) % 8)
        data = b"\x05" + np.array([1.5, 2.5], "f4").tobytes()
        path.write_bytes(struct.pack("<Q", len(header)) + header + data)
        loaded = tzmark.load_file(path, mapped=True)
        self.assertEqual(loaded["b"].tolist(), [1.5, 2.5])
        self.assertTrue(loaded["b"].flags.aligned)

    def test_maps_a_safe_open_for_torch(self) -> None:
        if torch is None:
            self.skipTest("torch is not installed")
        path = self.directory / "model.safetensors"
        with tzmark.safe_open(path, framework="pt", mapped=True) as file:
            tensor = file.get_tensor("w")
        np.testing.assert_array_equal(tensor.numpy(), self.tensors["w"])

    def test_refuses_what_cannot_be_mapped(self) -> None:
        for name, options, message in (
            ("plain.tensors", {}, "verify=False"),
            ("sealed.tensors", {"key": KEY, "verify": False}, "encrypted"),
            ("model.safetensors", {"io": "pwrite"}, "I/O path"),
        ):
            with self.subTest(name), self.assertRaisesRegex(tzmark.UsageError, message):
                tzmark.load_file(self.directory / name, mapped=True, **options)
        # A file that became shorter is an error where it is mapped, not a signal.
        path = self.directory / "model.safetensors"
        reader = tzmark.open(path, mapped=True)
        os.truncate(path, path.stat().st_size - 1)
        with self.assertRaisesRegex(tzmark.EnvironmentFailure, "replaced or changed"):
            reader.load()

    def test_a_mapping_is_of_the_file_that_was_opened(self) -> None:
        for name in ("plain.tensors", "model.safetensors"):
            path = self.directory / name
            with self.subTest(name):
                reader = tzmark.open(path, mapped=True, verify=False)
                copy = self.directory / "copy"
                copy.write_bytes(path.read_bytes())
                os.utime(copy, ns=(0, path.stat().st_mtime_ns))
                copy.replace(path)
                with self.assertRaises(tzmark.EnvironmentFailure) as caught:
                    reader["w"]
                self.assertEqual(caught.exception.rule, "TZE-ENV-005")
                # A new reader maps the new file.
                again = tzmark.open(path, mapped=True, verify=False)
                np.testing.assert_array_equal(again["w"], self.tensors["w"])

    def test_the_content_tells_the_format(self) -> None:
        for name, layout in (
            ("plain.tensors", None),
            ("model.safetensors", "safetensors"),
        ):
            content = (self.directory / name).read_bytes()
            for other in ("4d7a2146", "a.SAFETENSORS", "a.safetensors", "a.tensors"):
                path = self.directory / other
                path.write_bytes(content)
                with self.subTest(name, other=other), tzmark.open(path) as reader:
                    self.assertEqual(reader.layout == "safetensors", layout is not None)
                    np.testing.assert_array_equal(reader["w"], self.tensors["w"])
            np.testing.assert_array_equal(tzmark.load(content)["w"], self.tensors["w"])

    def test_a_suffix_in_upper_case_is_that_of_the_format(self) -> None:
        path = self.directory / "b.SAFETENSORS"
        tzmark.save_file({"w": self.tensors["w"]}, path)
        self.assertEqual(tzmark.inspect(path).layout, "safetensors")
        self.assertNotEqual(path.read_bytes()[:5], b"|TZR|")

    def test_a_directory_is_its_model(self) -> None:
        directory = self.directory / "model"
        directory.mkdir()
        with self.assertRaisesRegex(tzmark.EnvironmentFailure, "contains no model"):
            tzmark.open(directory)
        weights = {f"w{i}": np.full(100, i, "u1") for i in range(5)}
        tzmark.save_file(weights, directory / "model.safetensors", shard_bytes=200)
        for mapped in (False, True):
            loaded = tzmark.load_file(directory, mapped=mapped)
            self.assertEqual(
                {name: one[0] for name, one in loaded.items()},
                {f"w{i}": i for i in range(5)},
            )
        tzmark.verify(directory)
        tzmark.convert(directory, self.directory / "from.tensors")
        # Errors name the file in it.
        shard = directory / "model-00001-of-00003.safetensors"
        shard.write_bytes(
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 77\n"
        )
        with self.assertRaises(tzmark.FormatError) as caught:
            tzmark.open(directory)
        self.assertEqual(
            caught.exception.file, str(directory / "model.safetensors.index.json")
        )
        self.assertRegex(
            str(caught.exception),
            "ST-002 at byte 0: model-00001.*Git LFS pointer to a file of 77 bytes",
        )

    def test_says_what_a_foreign_file_is(self) -> None:
        pickled = pickle.dumps({"w": [1.0]}, protocol=2)
        contents = {
            b"": "is empty",
            b"version https://git-lfs.github.com/spec/v1\nsize 1\n": "Git LFS pointer",
            b"<!DOCTYPE html>": "web page",
            pickled: "a Python pickle",
            pickle.dumps({"w": [1.0]}, protocol=5): "a Python pickle",
        }
        zipped = io.BytesIO()
        with zipfile.ZipFile(zipped, "w") as archive:
            archive.writestr("archive/data.pkl", pickled)
        contents[zipped.getvalue()] = "a checkpoint of torch.save"
        zipped = io.BytesIO()
        np.savez(zipped, w=self.tensors["w"])
        contents[zipped.getvalue()] = "an .npz file"
        contents[gzip.compress(b"x")] = "a gzip file"
        if torch is not None:
            for new in (True, False):
                saved = io.BytesIO()
                torch.save(
                    {"w": torch.ones(3)}, saved, _use_new_zipfile_serialization=new
                )
                contents[saved.getvalue()] = "a checkpoint of torch.save"
        for content, expected in contents.items():
            for name, rule in (
                ("x.safetensors", "ST-00[12]"),
                ("x.tensors", "TZR-HDR-00[12]"),
                ("x", "TZR-HDR-00[12]"),
            ):
                path = self.directory / name
                path.write_bytes(content)
                with self.subTest(expected, name=name), self.assertRaises(
                    tzmark.FormatError
                ) as caught:
                    tzmark.open(path)
                self.assertRegex(caught.exception.rule, rule)
                self.assertEqual(caught.exception.offset, 0)
                self.assertIn(expected, caught.exception.message)
            with self.subTest(expected), self.assertRaisesRegex(
                tzmark.FormatError, expected
            ):
                tzmark.load(content)

    def test_many_shards_are_read_with_few_descriptors(self) -> None:
        weights = {f"w{i:03}": np.full(100, i % 256, "u1") for i in range(300)}
        index = self.directory / "many.safetensors.index.json"
        tzmark.save_file(weights, self.directory / "many.safetensors", shard_bytes=100)
        old = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, old[1]))
        try:
            for mapped in (False, True):
                with tzmark.open(index, mapped=mapped) as reader:
                    self.assertEqual(
                        [one[0] for one in reader.load().values()],
                        [i % 256 for i in range(300)],
                    )
                    self.assertEqual(reader["w299"][0], 299 % 256)
                    self.assertEqual(reader.get_slice("w123")[5:7].tolist(), [123, 123])
                    reader.verify()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, old)

    def test_memory_is_freed_with_the_last_array(self) -> None:
        def resident() -> int:
            return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

        path = self.directory / "big.tensors"
        tzmark.save_file({"a": np.ones(64 << 20, "u1")}, path)
        loaded = tzmark.load_file(path, verify=False)
        before = resident()
        del loaded
        gc.collect()
        self.assertLess(resident(), before - (48 << 20))

    def test_one_allocation(self) -> None:
        loaded = tzmark.load_file(self.directory / "plain.tensors")
        addresses = [array.ctypes.data for array in loaded.values() if array.size]
        total = sum(array.nbytes for array in loaded.values())
        self.assertLess(max(addresses) - min(addresses), total + 64 * len(loaded))
        self.assertTrue(all(array.ctypes.data % 64 == 0 for array in loaded.values()))
        self.assertTrue(all(array.flags.writeable for array in loaded.values()))

    def test_closed_reader(self) -> None:
        reader = tzmark.open(self.directory / "plain.tensors")
        reader.close()
        reader.close()
        self.assertTrue(reader.closed)
        for call in (reader.load, lambda: reader["w"], reader.verify):
            with self.assertRaises(tzmark.UsageError):
                call()

    def test_threads_read_at_once(self) -> None:
        for name, keys in self.files.items():
            with self.subTest(name), tzmark.open(
                self.directory / name, **keys
            ) as reader:
                problems: list[BaseException] = []

                def read() -> None:
                    try:
                        for _ in range(3):
                            self.check(name, reader.load())
                            np.testing.assert_array_equal(
                                reader["w"], self.tensors["w"]
                            )
                    except BaseException as error:
                        problems.append(error)

                threads = [threading.Thread(target=read) for _ in range(6)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertEqual(problems, [])

    def test_python_runs_while_a_thread_reads(self) -> None:
        path = self.directory / "big.tensors"
        tzmark.save_file({"a": np.ones(256 << 20, "u1")}, path)
        steps = 0
        thread = threading.Thread(target=tzmark.verify, args=(path,))
        thread.start()
        while thread.is_alive():
            steps += 1
            time.sleep(0.001)
        self.assertGreater(steps, 5)

    def test_process_ends_while_a_daemon_thread_reads(self) -> None:
        path = self.directory / "big.tensors"
        tzmark.save_file({"a": np.ones(64 << 20, "u1")}, path)
        script = """
import sys, threading, time, tzmark
def read():
    while True:
        tzmark.verify(sys.argv[1])
threading.Thread(target=read, daemon=True).start()
time.sleep(0.2)
"""
        for _ in range(3):
            done = subprocess.run(
                [sys.executable, "-c", script, path], stderr=subprocess.PIPE, timeout=60
            )
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_fork_after_open(self) -> None:
        with tzmark.open(self.directory / "plain.tensors") as reader:
            reader.load()
            context = multiprocessing.get_context("fork")
            queue = context.Queue()

            def child() -> None:
                queue.put(float(reader["w"].sum()) == float(self.tensors["w"].sum()))
                queue.put(len(reader.load()))

            process = context.Process(target=child)
            process.start()
            self.assertTrue(queue.get(timeout=60))
            self.assertEqual(queue.get(timeout=60), len(self.tensors))
            process.join(60)
            self.assertEqual(process.exitcode, 0)
            self.check("plain.tensors", reader.load())

    def test_looks_for_ml_dtypes_once(self) -> None:
        header = json.dumps(
            {
                str(i): {
                    "dtype": "BF16",
                    "shape": [2],
                    "data_offsets": [4 * i, 4 * i + 4],
                }
                for i in range(3)
            }
        ).encode()
        file = struct.pack("<Q", len(header)) + header + bytes(12)
        lookup = tzmark._tensors._ml_dtypes
        self.addCleanup(lookup.cache_clear)
        lookup.cache_clear()
        with mock.patch("importlib.import_module", side_effect=ImportError) as found:
            self.assertEqual(tzmark.load(file)["2"].dtype, np.dtype("V2"))
        self.assertEqual(found.call_count, 1)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch_of_more_dimensions_than_the_array_interface(self) -> None:
        path = self.directory / "deep.tensors"
        deep = torch.arange(6.0).reshape([1] * 38 + [2, 3])
        half = deep.to(torch.bfloat16)
        tzmark.save_file({"deep": deep, "half": half}, path)
        loaded = tzmark.load_file(path, framework="pt")
        self.assertTrue(torch.equal(loaded["deep"], deep))
        self.assertTrue(torch.equal(loaded["half"], half))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_what_has_many_dimensions_can_be_saved_again(self) -> None:
        path = self.directory / "deep.tensors"
        deep = torch.arange(6.0).reshape([1] * 38 + [2, 3])
        tzmark.save_file({"deep": deep}, path)
        # A buffer where numpy has no array of that shape.
        tzmark.save_file(tzmark.load_file(path), self.directory / "again.tensors")
        again = tzmark.load_file(self.directory / "again.tensors", framework="pt")
        self.assertTrue(torch.equal(again["deep"], deep))

    @unittest.skipIf(np.__version__ < "2", "numpy 1 has 32 dimensions at most")
    def test_big_endian_of_many_dimensions(self) -> None:
        path = self.directory / "deep.tensors"
        deep = np.arange(6, dtype="<f4").reshape((1,) * 38 + (2, 3))
        tzmark.save_file({"deep": deep}, path)
        path.write_bytes(path.read_bytes().replace(b"<f4", b">f4"))
        loaded = tzmark.open(path, verify=False)["deep"]
        self.assertEqual(loaded.tobytes(), deep.tobytes())
        np.testing.assert_array_equal(loaded, deep.view(">f4"))

    def test_fork_with_a_forced_path(self) -> None:
        """Paths whose state parent and child would share refuse in the child; the parent reads on."""
        for io in [name for name, why in tzmark.io_paths().items() if not why]:
            if io in REMOTE_PATHS:
                continue
            with self.subTest(io), tzmark.open(
                self.directory / "plain.tensors", io=io, verify=False
            ) as reader:
                self.check("plain.tensors", reader)
                child = os.fork()
                if child == 0:
                    # A hang ends, and no test runs twice.
                    signal.signal(signal.SIGALRM, signal.SIG_DFL)
                    signal.alarm(30)
                    status = 1
                    try:
                        self.check("plain.tensors", reader.load())
                        status = 10
                    except tzmark.UsageError:
                        status = 11
                    finally:
                        os._exit(status)
                self.check("plain.tensors", reader)
                _, ended = os.waitpid(child, 0)
                is_shared = io == "buffered" or io.startswith("uring")
                self.assertEqual(
                    os.waitstatus_to_exitcode(ended), 11 if is_shared else 10
                )

    def test_keyboard_interrupt_ends_a_long_load(self) -> None:
        # SHA-256 of one tensor is a chain on one core, so that this takes longer than the signal.
        path = self.directory / "long.tensors"
        tzmark.save_file({"a": np.ones(1 << 30, "u1")}, path, sha256=True)
        script = """
import os, signal, sys, threading, time, tzmark
sent = []
def interrupt():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
with tzmark.open(sys.argv[1]) as reader:
    threading.Timer(0.15, interrupt).start()
    try:
        reader.load()
    except KeyboardInterrupt:
        print(time.monotonic() - sent[0])
    # The reader works as before.
    assert reader.get_slice("a")[5:7].tolist() == [1, 1]
"""
        delays = []
        for _ in range(3):
            done = subprocess.run(
                [sys.executable, "-c", script, path],
                capture_output=True,
                text=True,
                timeout=120,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout, "the load ended before the signal")
            delays.append(float(done.stdout))
        # On a busy machine any one may be late.
        self.assertLess(min(delays), 0.2)

    def test_progress_counts_to_the_end_and_can_stop(self) -> None:
        path = self.directory / "big.tensors"
        tzmark.save_file({"a": np.ones(300 << 20, "u1")}, path)
        told: list[tuple[int, int]] = []
        tzmark.load_file(path, progress=lambda done, total: told.append((done, total)))
        self.assertEqual(told, sorted(told))
        self.assertEqual(told[-1], (path.stat().st_size, path.stat().st_size))

        class Enough(Exception):
            pass

        def stop(done: int, total: int) -> None:
            raise Enough

        with self.assertRaises(Enough):
            tzmark.load_file(path, progress=stop)

    def test_slices(self) -> None:
        indices: list[Any] = [
            3,
            -1,
            slice(2, 9),
            slice(None, None, -2),
            slice(5, 5),
            slice(14, 2, -3),
            ...,
            (),
            (slice(None), 7),
            (slice(1, 4), slice(10, 290, 7), 2),
            (..., 4),
            (2, ..., slice(1, 3)),
            (None, 0, None, slice(3, 8)),
            (slice(None), slice(0, 150)),
            (16, 299, 4),
            (slice(0, 100), slice(-3, None)),
            np.int64(4),
        ]
        for name, keys in self.files.items():
            with tzmark.open(self.directory / name, **keys) as reader:
                part = reader.get_slice("w")
                self.assertEqual(part.get_shape(), [17, 300, 5])
                self.assertEqual(part.get_dtype(), "F32")
                for index in indices:
                    with self.subTest(name=name, index=index):
                        got, want = part[index], self.tensors["w"][index]
                        np.testing.assert_array_equal(got, want)
                        self.assertEqual(got.shape, want.shape)
                for index in (17, -18, (0, 0, 0, 0), (..., ...)):
                    with self.assertRaises(IndexError):
                        part[index]
                for wrong in (1.5, True, [0, 1], "a"):
                    with self.assertRaises(TypeError):
                        part[wrong]
                self.assertEqual(reader.get_slice("scalar")[...].shape, ())
                self.assertEqual(reader.get_slice("empty")[1:].shape, (2, 0, 2))
                large = reader.get_slice("large")
                np.testing.assert_array_equal(
                    large[100 : 2 << 20], self.tensors["large"][100 : 2 << 20]
                )

    def test_shards_of_a_tensor_parallel_model(self) -> None:
        rows = np.arange(8 * 12 * 20, dtype="f4").reshape(8, 12, 20)
        wide = np.arange(4 << 20, dtype="u2").reshape(4, 1 << 20)
        tensors = {"a.rows": rows, "b.rows": rows + 1, "wide": wide, "other": rows[0]}
        tensors["rows.0"] = np.zeros((4, 0), "f8")
        options: dict[str, dict[str, Any]] = {
            "s.tensors": {},
            "s-sealed.tensors": {"key": bytes(32)},
            "s.safetensors": {},
        }
        for name, keys in options.items():
            path = self.directory / name
            tzmark.save_file(tensors, path, **keys)
            for world in (1, 2, 4):
                for dimension, axis in ((0, 0), (1, 1), (-1, 2)):
                    dimensions = {"a.*": None, "*.rows": dimension, "wide": 1, "r*": 0}
                    with self.subTest(name=name, world=world, dimension=dimension):
                        parts = [
                            tzmark.load_file(
                                path,
                                verify=False,
                                shard=(rank, world, dimensions),
                                **keys,
                            )
                            for rank in range(world)
                        ]
                        for part in parts:
                            self.assertEqual(set(part), set(tensors))
                            for whole in ("a.rows", "other"):
                                np.testing.assert_array_equal(
                                    part[whole], tensors[whole]
                                )
                        for divided, along in (("b.rows", axis), ("wide", 1)):
                            sizes = {part[divided].shape for part in parts}
                            self.assertEqual(len(sizes), 1)
                            together = np.concatenate(
                                [part[divided] for part in parts], axis=along
                            )
                            np.testing.assert_array_equal(together, tensors[divided])
                        self.assertEqual(parts[0]["rows.0"].shape, (4 // world, 0))

    def test_a_shard_reads_only_its_part(self) -> None:
        tensors = {
            "column": np.ones((1024, 8192), "u2"),
            "row": np.ones((512, 524288), "u1"),
        }
        for name in ("s.tensors", "s.safetensors"):
            path = self.directory / name
            tzmark.save_file(tensors, path)
            told: list[tuple[int, int]] = []
            before = read_bytes()
            tzmark.load_file(
                path,
                verify=False,
                io="pwrite",
                progress=lambda *counts: told.append(counts),
                shard=(3, 4, {"column": 0, "row": 1}),
            )
            share = sum(tensor.nbytes for tensor in tensors.values()) // 4
            self.assertLess(read_bytes() - before, 1.1 * share)
            self.assertEqual(told[-1], (share, share))

    def test_wrong_shards(self) -> None:
        path = self.directory / "plain.tensors"
        wrong: list[tuple[Any, type[Exception], str]] = [
            ((0, 2), TypeError, "rank, world"),
            (("0", 2, {}), TypeError, "rank, world"),
            ((0, 2, [("w", 0)]), TypeError, "rank, world"),
            ((0, 2, {"w": "0"}), TypeError, "no name and number"),
            ((0, 2, {"w": 1.0}), TypeError, "no name and number"),
            ((2, 2, {}), tzmark.UsageError, "no rank 2 of 2"),
            ((-1, 2, {}), tzmark.UsageError, "no rank -1 of 2"),
            ((True, 2, {}), TypeError, "rank, world"),
            ((0, 2, {"w": True}), TypeError, "no name and number"),
            ((0, 0, {}), tzmark.UsageError, "no rank 0 of 0"),
            ((0, 2, {"w": 3}), tzmark.UsageError, "no dimension 3"),
            ((0, 2, {"scalar": 0}), tzmark.UsageError, "no dimension 0"),
            ((0, 2, {"w": 0}), tzmark.UsageError, "17, which 2 ranks"),
            ((0, 1, {"W": 0}), tzmark.UsageError, "the pattern 'W'"),
            ((0, 1, {"*": 0, "w": 1}), tzmark.UsageError, "no dimension|'w'"),
        ]
        with tzmark.open(path, verify=False) as reader:
            for shard, kind, message in wrong:
                with self.subTest(shard=shard):
                    with self.assertRaisesRegex(kind, message):
                        reader.load(shard=shard)
            numbers = (np.int64(1), np.int32(3), {"w": np.int8(1)})
            part = reader.load(shard=numbers)["w"]
            np.testing.assert_array_equal(part, self.tensors["w"][:, 100:200])
        with self.assertRaisesRegex(tzmark.UsageError, "needs verify=False"):
            tzmark.load_file(path, shard=(0, 1, {}))

    def test_reads_into_memory_that_there_is(self) -> None:
        for name, keys in self.files.items():
            tensors = self.for_file(name)
            for verify in (True, False):
                with self.subTest(name=name, verify=verify):
                    told: list[tuple[int, int]] = []
                    mine = {
                        key: np.full(value.shape, 7, value.dtype)
                        for key, value in tensors.items()
                    }
                    left_out = mine.pop("w")
                    addresses = {
                        key: array.__array_interface__["data"]
                        for key, array in mine.items()
                    }
                    with tzmark.open(
                        self.directory / name,
                        verify=verify,
                        progress=lambda *counts: told.append(counts),
                        **keys,
                    ) as reader:
                        reader.load_into(mine)
                    for key, array in mine.items():
                        np.testing.assert_array_equal(array, tensors[key])
                        self.assertEqual(
                            array.__array_interface__["data"], addresses[key]
                        )
                    self.assertTrue((left_out == 7).all())
                    size = sum(array.nbytes for array in mine.values())
                    self.assertEqual(told[-1], (size, size))

    def test_memory_that_does_not_fit(self) -> None:
        w = np.zeros((17, 300, 5), "f4")
        read_only = w.copy()
        read_only.flags.writeable = False
        twice = np.zeros(2 << 20, "u1")
        wrong: list[tuple[dict[Any, Any], type[Exception], str]] = [
            ({"v": w}, tzmark.TensorNotFoundError, "no tensor 'v'"),
            ({"w": w[:16]}, tzmark.UsageError, r"\[17, 300, 5\] in the file"),
            ({"w": w.astype("f8")}, tzmark.UsageError, "float32.*float64"),
            ({"w": w.astype(">f4")}, tzmark.UsageError, "big-endian"),
            ({"w": np.asfortranarray(w)}, tzmark.UsageError, "not contiguous"),
            ({"w": w[::-1]}, tzmark.UsageError, "not contiguous"),
            ({"w": read_only}, tzmark.UsageError, "read-only"),
            ({"w": None}, TypeError, "no memory"),
            ({"scalar": np.float16(0)}, TypeError, "is a scalar"),
            ({"w": np.ma.array(w)}, tzmark.UsageError, "masked"),
            ({"w": Lying(w.astype("f2"), w.dtype)}, tzmark.UsageError, "contiguous"),
            ({"w": Lying(w, w.dtype, data=None)}, tzmark.UsageError, "an address"),
            ({"w": Lying(w, w.dtype, data=(0, False))}, tzmark.UsageError, "memory"),
            ({"w": Lying(w, w.dtype, offset=8)}, tzmark.UsageError, "an address"),
            ({"w": w, "large": twice[: 3 << 20]}, tzmark.UsageError, "in the file"),
        ]
        for name, keys in self.files.items():
            with tzmark.open(self.directory / name, **keys) as reader:
                for tensors, kind, message in wrong:
                    with self.subTest(name=name, message=message):
                        with self.assertRaisesRegex(kind, message):
                            reader.load_into(tensors)
                        (item,) = list(tensors)[:1]
                        if len(tensors) == 1:
                            self.assertFalse(reader.fits(item, tensors[item]))
                for no_mapping in (None, [], "w"):
                    with self.assertRaises(TypeError):
                        reader.load_into(no_mapping)  # type: ignore[arg-type]
                reader.load_into({})
        self.assertFalse(w.any())

    def test_memory_that_two_tensors_share(self) -> None:
        path = self.directory / "pair.safetensors"
        tensors = {"a": np.ones(8, "u1"), "b": np.ones(8, "u1")}
        tzmark.save_file({**tensors, "empty": np.zeros(0, "f4")}, path)
        memory = np.zeros(16, "u1")
        with tzmark.open(path) as reader:
            for first, second in ((0, 7), (7, 0), (3, 3)):
                mine = {
                    "a": memory[first : first + 8],
                    "b": memory[second : second + 8],
                }
                with self.assertRaisesRegex(tzmark.UsageError, "share memory"):
                    reader.load_into(mine)
                # What is empty shares nothing, and hides nothing.
                mine["empty"] = memory[5:5].view("f4")
                with self.assertRaisesRegex(tzmark.UsageError, "share memory"):
                    reader.load_into(mine)
            reader.load_into({"a": memory[:8], "b": memory[8:]})
        self.assertTrue((memory == 1).all())

    def test_damage_is_found_in_place(self) -> None:
        path = self.directory / "plain.tensors"
        data = bytearray(path.read_bytes())
        data[-100] ^= 1
        path.write_bytes(data)
        with tzmark.open(path) as reader:
            mine = {"large": np.zeros(3 << 20, "u1")}
            with self.assertRaises(tzmark.FormatError):
                reader.load_into(mine)

    def test_no_slices_of_elements_smaller_than_a_byte(self) -> None:
        path = self.directory / "f4.safetensors"
        header = b'{"a":{"dtype":"F4","shape":[8],"data_offsets":[0,4]}}'
        header += b" " * (-len(header) % 8)
        path.write_bytes(struct.pack("<Q", len(header)) + header + b"\x10\x32\x54\x76")
        with tzmark.open(path) as reader:
            self.assertEqual(reader["a"].tobytes(), b"\x10\x32\x54\x76")
            with self.assertRaises(tzmark.UsageError):
                reader.get_slice("a")[0:2]
            whole = reader.load(shard=(1, 2, {}))["a"]
            self.assertEqual(whole.tobytes(), b"\x10\x32\x54\x76")
            with self.assertRaises(tzmark.UsageError):
                reader.load(shard=(1, 2, {"a": 0}))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch(self) -> None:
        for name, keys in self.files.items():
            with self.subTest(name):
                path = self.directory / name
                loaded = tzmark.load_file(path, framework="pt", **keys)
                for key, value in self.for_file(name).items():
                    self.assertTrue(
                        torch.equal(loaded[key], torch.from_numpy(np.array(value)))
                    )
                with tzmark.open(path, framework="pt", **keys) as reader:
                    part = reader.get_slice("w")
                    for index in (
                        slice(9, 2, -2),
                        (slice(None), slice(None, None, -3)),
                    ):
                        want = torch.from_numpy(self.tensors["w"][index].copy())
                        self.assertTrue(torch.equal(part[index], want))
                    shared = torch.from_dlpack(reader.buffer("w"))
                del reader
                gc.collect()
                self.assertTrue(torch.equal(shared, loaded["w"]))

    def test_dlpack_copies_when_asked_to(self) -> None:
        class Copied:
            """What numpy makes of from_dlpack(buffer, copy=True) from 2.1 on."""

            def __init__(self, buffer: tzmark.Buffer) -> None:
                self._buffer = buffer

            def __dlpack__(self, **options: Any) -> Any:
                return self._buffer.__dlpack__(copy=True, dl_device=(1, 0))

            def __dlpack_device__(self) -> Any:
                return self._buffer.__dlpack_device__()

        with tzmark.open(self.directory / "plain.tensors") as reader:
            buffer = reader.buffer("w")
        shared, copied = np.from_dlpack(buffer), np.from_dlpack(Copied(buffer))
        self.assertTrue(np.shares_memory(shared, np.asarray(buffer)))
        self.assertFalse(np.shares_memory(copied, shared))
        np.testing.assert_array_equal(copied, self.tensors["w"])
        with self.assertRaises(BufferError):
            buffer.__dlpack__(dl_device=(2, 0))

    def test_torch_is_not_imported(self) -> None:
        script = (
            "import sys, tzmark\n"
            "capsule = tzmark.open(sys.argv[1]).buffer('w').__dlpack__()\n"
            "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
            "print(capsule)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, self.directory / "plain.tensors"],
            capture_output=True,
            text=True,
        )
        self.assertIn("dltensor", done.stdout, done.stderr)

    def test_wrong_arguments(self) -> None:
        path = self.directory / "plain.tensors"
        sealed = self.directory / "sealed.tensors"
        wrong: list[tuple[Any, dict[str, Any]]] = [
            ("", {}),
            (b"", {}),
            (path, {"io": ""}),
            (path, {"io": "nothing"}),
            (path, {"verify": "maybe"}),
            (path, {"framework": "tf"}),
            (path, {"profile": "loose"}),
            (sealed, {"key": b""}),
            (sealed, {"key": ""}),
            (sealed, {"key": b"short"}),
            (sealed, {"key": "no hex"}),
            (sealed, {"passphrase": ""}),
            (sealed, {"passphrase": b""}),
            (sealed, {"key": KEY, "passphrase": "both"}),
            (path, {"data_file": ""}),
            (path, {"device": "cuda"}),
        ]
        for name, arguments in wrong:
            with self.subTest(name=name, **arguments):
                with self.assertRaises((tzmark.UsageError, tzmark.UnavailableError)):
                    tzmark.open(name, **arguments)
        with self.assertRaises(ValueError):
            tzmark.open("nul\0byte")

    def test_errors(self) -> None:
        sealed = self.directory / "sealed.tensors"
        with self.assertRaises(tzmark.FormatError) as caught:
            tzmark.load_file(sealed)
        self.assertEqual(caught.exception.rule, "TZR-CRY-018")
        with self.assertRaises(tzmark.FormatError) as caught:
            tzmark.load_file(sealed, key=bytes(32))
        self.assertEqual(caught.exception.rule, "TZR-CRY-016")
        with self.assertRaises(FileNotFoundError) as missing:
            tzmark.open(self.directory / "nothing")
        self.assertIsInstance(missing.exception, tzmark.MissingFileError)
        with self.assertRaises(KeyError) as key:
            tzmark.open(self.directory / "plain.tensors")["nothing"]
        self.assertEqual(key.exception.rule, "TZE-USE-002")

        path = self.directory / "damaged.tensors"
        content = bytearray((self.directory / "plain.tensors").read_bytes())
        content[-100] ^= 1
        path.write_bytes(content)
        with self.assertRaises(tzmark.FormatError) as caught:
            tzmark.load_file(path)
        error = caught.exception
        self.assertTrue(error.rule.startswith("TZR-HSH-"))
        self.assertIsInstance(error.offset, int)
        self.assertEqual(error.file, str(path))
        self.assertIn(error.rule, str(error))
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual(
            (str(again), again.rule, again.offset),
            (str(error), error.rule, error.offset),
        )

    def test_bytes(self) -> None:
        for name, keys in self.files.items():
            with self.subTest(name):
                data = (self.directory / name).read_bytes()
                self.check(name, tzmark.load(data, **keys))
        for data in (b"", b"|TZR|", b"\xff" * 8, bytes(65)):
            with self.assertRaises(tzmark.FormatError):
                tzmark.load(data)

    def test_lies_about_sizes_allocate_nothing(self) -> None:
        header = b"|TZR|" + struct.pack("<I", 2) + bytes(32)
        lies = {
            "a million entries": header
            + struct.pack("<QQQ", 1 << 40, 0, 1_000_000)
            + struct.pack("<Q", 1 << 40),
            "2^63 entries": header
            + struct.pack("<QQQ", 0, 0, 1 << 63)
            + struct.pack("<Q", 8)
            + bytes(8),
        }
        tensors = (
            '{"a":{"dtype":"F32","shape":[1000000,1000000],"data_offsets":[0,%d]}}'
        )
        text = (tensors % (4 * 10**12)).encode()
        script = (
            "import sys, resource, tzmark\n"
            "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
            "try:\n    tzmark.load_file(sys.argv[1])\n"
            "except tzmark.FormatError as error:\n    print(error.rule)\n"
        )
        files = {name: ("lie.tensors", data) for name, data in lies.items()}
        files["safetensors"] = (
            "lie.safetensors",
            struct.pack("<Q", len(text)) + text + bytes(64),
        )
        for lie, (name, data) in files.items():
            with self.subTest(lie):
                (self.directory / name).write_bytes(data)
                done = subprocess.run(
                    [sys.executable, "-c", script, self.directory / name],
                    capture_output=True,
                    text=True,
                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                )
                self.assertRegex(done.stdout, "TZR-|ST-", done.stderr)

    def test_inspect(self) -> None:
        info = tzmark.inspect(self.directory / "sealed.tensors")
        self.assertTrue(info.encrypted)
        self.assertEqual(info.data_version, 3)
        self.assertEqual([one.name for one in info.tensors], list(self.tensors))
        self.assertEqual(info.tensors[0].dtype, "float32")


if __name__ == "__main__":
    unittest.main(verbosity=2)
