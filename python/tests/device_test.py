"""Reading into GPU memory, over the stand-in of libcuda, whose two GPUs are ordinary memory."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
FAKE = Path(os.environ["TZMARK_BUILD_DIR"], "tests/fake/libtzmark_fake_cuda.so")
SKIPPED = 77
if not FAKE.exists():
    print("the stand-in of libcuda is not built")
    sys.exit(SKIPPED)
# Both are read when the library is loaded, by the first use of a GPU.
os.environ["TZMARK_CUDA_LIBRARY"] = str(FAKE)
os.environ["TZMARK_FAKE_DEVICES"] = "2"

import tzmark  # noqa: E402

KEY = bytes(range(32))
CPU, CUDA = 1, 2
cuda = ctypes.CDLL(str(FAKE))
cuda.tzmark_fake_device_bytes.restype = ctypes.c_void_p
cuda.tzmark_fake_device_bytes.argtypes = [ctypes.c_uint64, ctypes.c_size_t]


def bytes_at(address: int, size: int) -> bytes | None:
    """The content of device memory; None if it is not allocated."""
    if size == 0:
        return b""
    content = cuda.tzmark_fake_device_bytes(address, size)
    return None if content is None else ctypes.string_at(content, size)


def content_of(buffer: Any) -> bytes | None:
    """The bytes of a tensor, wherever it is."""
    if buffer.meta:
        return b""
    if buffer.__dlpack_device__()[0] == CUDA:
        return bytes_at(buffer.__cuda_array_interface__["data"][0] or 0, buffer.nbytes)
    return np.asarray(buffer.as_bytes()).tobytes()


class ManagedTensor(ctypes.Structure):
    """The beginning of DLManagedTensor."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
    ]


def managed(capsule: Any) -> ManagedTensor:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = (
        ctypes.c_void_p,
        [ctypes.py_object, ctypes.c_char_p],
    )
    return ManagedTensor.from_address(pointer(capsule, b"dltensor"))


class Device(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        generator = np.random.default_rng(7)
        self.tensors = {
            "large": generator.integers(0, 255, (9 << 20,), dtype="u1"),
            "w": generator.standard_normal((17, 300, 5), dtype="f4"),
            "empty": np.zeros((3, 0, 2), "f8"),
            "scalar": np.float16(1.5),
        }
        self.files: dict[Path, dict[str, Any]] = {
            self.directory / "plain.tensors": {},
            self.directory / "sealed.tensors": {"key": KEY},
            self.directory / "model.safetensors": {},
        }
        for file, keys in self.files.items():
            tzmark.save_file(self.tensors, file, **keys)

    def open(self, file: Path, device: str = "cuda:1", **options: Any) -> tzmark.Reader:
        return tzmark.open(file, framework="pt", device=device, **options)

    def load(self, reader: tzmark.Reader) -> dict[Any, Any]:
        """What ``load`` passes to torch, which has no GPU here."""
        with mock.patch("tzmark._reader.convert", lambda buffer, *_: buffer):
            return reader.load()

    def test_every_tensor_is_the_same_as_on_the_host(self) -> None:
        for file, keys in self.files.items():
            for verify in (True, False):
                with self.subTest(file=file.name, verify=verify):
                    with self.open(file, verify=verify, **keys) as reader:
                        loaded = self.load(reader)
                        one_by_one = {name: reader.buffer(name) for name in reader}
                    for buffers in (loaded, one_by_one):
                        self.assertEqual(set(buffers), set(self.tensors))
                        for name, tensor in self.tensors.items():
                            self.assertEqual(
                                content_of(buffers[name]), tensor.tobytes(), name
                            )
                            self.assertEqual(
                                buffers[name].__dlpack_device__(), (CUDA, 1)
                            )

    def test_tensors_in_use_are_verified(self) -> None:
        for file, keys in self.files.items():
            with self.subTest(file=file.name):
                with self.open(file, verify="late", **keys) as reader:
                    loaded = self.load(reader)
                loaded.verified()
                self.assertEqual(content_of(loaded["w"]), self.tensors["w"].tobytes())
        file = self.directory / "plain.tensors"
        content = bytearray(file.read_bytes())
        content[content.index(self.tensors["large"].tobytes()) + 8_000_000] ^= 1
        file.write_bytes(content)
        with self.open(file, verify="late") as reader:
            loaded = self.load(reader)
            with self.assertRaises(tzmark.FormatError) as late:
                loaded.verified()
        with self.open(file) as reader, self.assertRaises(tzmark.FormatError) as now:
            self.load(reader)
        self.assertEqual(str(late.exception), str(now.exception))

    def test_the_cufile_of_a_wheel_is_used(self) -> None:
        wheel = self.directory / "nvidia/cu13/lib/libcufile.so.0"
        wheel.parent.mkdir(parents=True)
        wheel.symlink_to(FAKE.with_name("libtzmark_fake_cufile.so"))
        asks = "import os, tzmark; print(os.environ['TZMARK_CUFILE_LIBRARY'], tzmark.io_paths()['gpudirect'])"
        environment = {
            **os.environ,
            "PYTHONPATH": f"{os.environ['PYTHONPATH']}:{self.directory}",
            "TZMARK_SYSTEM_ROOT": str(self.directory),
        }
        environment.pop("TZMARK_CUFILE_LIBRARY", None)
        for chosen, named, reason in (
            (None, wheel, f"{self.directory}/run/udev cannot be read"),
            ("/none.so", "/none.so", "there is no libcufile: "),
        ):
            with self.subTest(chosen=chosen):
                choice = {} if chosen is None else {"TZMARK_CUFILE_LIBRARY": chosen}
                done = subprocess.run(
                    [sys.executable, "-c", asks],
                    env={**environment, **choice},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                self.assertTrue(
                    done.stdout.startswith(f"{named} {reason}"), done.stdout
                )

    def test_parts_of_tensors(self) -> None:
        w, large = self.tensors["w"], self.tensors["large"]
        for file, keys in self.files.items():
            with self.subTest(file=file.name):
                with self.open(file, verify=False, **keys) as reader:
                    with mock.patch(
                        "tzmark._reader.convert", lambda buffer, *_: buffer
                    ):
                        parts = reader.load(shard=(1, 3, {"w": 1, "large": 0}))
                        part = reader.get_slice("w")[3:9, 40:41]
                third = large.size // 3
                for name, content in (
                    ("w", w[:, 100:200]),
                    ("large", large[third : 2 * third]),
                    ("scalar", self.tensors["scalar"]),
                    ("empty", self.tensors["empty"]),
                ):
                    self.assertEqual(content_of(parts[name]), content.tobytes(), name)
                    self.assertEqual(parts[name].__dlpack_device__(), (CUDA, 1))
                self.assertEqual(content_of(part), w[3:9, 40:41].tobytes())
                self.assertEqual(part.__dlpack_device__(), (CUDA, 1))

    def test_memory_that_there_is(self) -> None:
        for file, keys in self.files.items():
            for verify in (True, False):
                with self.subTest(file=file.name, verify=verify):
                    with self.open(file, verify=verify, **keys) as reader:
                        mine = {name: reader.buffer(name) for name in reader}
                        for buffer in mine.values():
                            where = buffer.__cuda_array_interface__["data"][0] or 0
                            if buffer.nbytes:
                                content = cuda.tzmark_fake_device_bytes(
                                    where, buffer.nbytes
                                )
                                ctypes.memset(content, 7, buffer.nbytes)
                        reader.load_into(mine)
                    for name, tensor in self.tensors.items():
                        self.assertEqual(content_of(mine[name]), tensor.tobytes(), name)

    def test_checkpoints_of_gpu_memory(self) -> None:
        with self.open(self.directory / "plain.tensors") as reader:
            on_gpu = {name: reader.buffer(name) for name in reader}
        with tzmark.open(self.directory / "plain.tensors", framework="np") as reader:
            on_host = reader.load()
        parent = self.directory / "run"
        state = {
            "model": on_gpu,
            "optimizer": {"step": 3, "w": on_gpu["w"], "host": on_host["w"]},
        }
        with tzmark.Checkpointer(parent) as saver:
            saver.save(state, 1)
            # The copy is complete, so the memory may change.
            for buffer in on_gpu.values():
                where = buffer.__cuda_array_interface__["data"][0] or 0
                if buffer.nbytes:
                    content = cuda.tzmark_fake_device_bytes(where, buffer.nbytes)
                    ctypes.memset(content, 7, buffer.nbytes)
            saver.wait()
            loaded = saver.load_latest(framework="np")
            assert loaded is not None
            for name, tensor in self.tensors.items():
                np.testing.assert_array_equal(
                    loaded.state_dict["model"][name], tensor, name
                )
            for name in ("w", "host"):
                np.testing.assert_array_equal(
                    loaded.state_dict["optimizer"][name], self.tensors["w"]
                )

    def test_what_a_checkpoint_refuses_of_gpu_memory(self) -> None:
        with self.open(self.directory / "plain.tensors") as reader:
            w = reader.buffer("w")

        class Other:
            def __init__(self, **words: Any) -> None:
                self.__cuda_array_interface__ = {
                    **w.__cuda_array_interface__,
                    **words,
                }

        with tzmark.Checkpointer(self.directory / "run") as saver:
            for words in (
                {"typestr": ">f4"},
                {"mask": object()},
                {"data": None},
                {"strides": (4, 4, 4)},
            ):
                with self.assertRaises(tzmark.UsageError):
                    saver.save({"w": Other(**words)}, 1)
            # It is waited for; a stream that there is not is an error.
            with self.assertRaises(tzmark.EnvironmentFailure):
                saver.save({"w": Other(stream=12345)}, 1)
            for words in ({"stream": 1}, {"strides": (6000, 20, 4)}):
                saver.save({"w": Other(**words)}, 1)
                saver.wait()
                loaded = saver.load_latest()
                assert loaded is not None
                np.testing.assert_array_equal(loaded.state_dict["w"], self.tensors["w"])

    def test_each_gpu_has_default_streams_of_its_own(self) -> None:
        path = self.directory / "plain.tensors"
        gpus = ("cuda:0", "cuda:1")
        on_both = []
        for gpu in gpus:
            with self.open(path, device=gpu) as reader:
                on_both += [reader.buffer(name) for name in ("w", "large")]

        class Other:
            def __init__(self, buffer: Any) -> None:
                self.buffer = buffer
                self.__dlpack_device__ = buffer.__dlpack_device__
                self.__cuda_array_interface__ = {
                    **buffer.__cuda_array_interface__,
                    "stream": 1,
                }

        state = {str(i): Other(buffer) for i, buffer in enumerate(on_both)}
        with tzmark.Checkpointer(self.directory / "run") as saver:
            with mock.patch("tzmark._tzmark.wait_for_stream") as wait:
                saver.save(state, 1)
        self.assertEqual(wait.call_count, len(gpus))

    def test_warming_up(self) -> None:
        program = """if True:
            import ctypes, os, sys, tzmark
            cuda = ctypes.CDLL(os.environ["TZMARK_CUDA_LIBRARY"])
            cuda.tzmark_fake_pinned_bytes.restype = ctypes.c_size_t
            def load():
                with tzmark.open(sys.argv[1], framework="pt", device="cuda:1") as reader:
                    for name in reader:
                        reader.buffer(name)
                return cuda.tzmark_fake_pinned_bytes()
            tzmark.warm_up("cuda:1")
            before = cuda.tzmark_fake_pinned_bytes()
            print(before > 0, load() == before)
        """
        file = self.directory / "plain.tensors"
        done = subprocess.run(
            [sys.executable, "-c", program, file], capture_output=True, text=True
        )
        self.assertEqual((done.stdout, done.stderr), ("True True\n", ""))
        for wrong in ("cpu", "cuda:x", "meta", ""):
            with self.assertRaises(tzmark.UsageError):
                tzmark.warm_up(wrong)
        with self.assertRaises(tzmark.UsageError):
            tzmark.warm_up("cuda:0", verify="sha256")
        with self.assertRaises(tzmark.UnavailableError):
            tzmark.warm_up("cuda:2")

    def test_files_of_the_corpus(self) -> None:
        cases = SOURCE / "reference/safetensors/cases"
        files = [
            *sorted((SOURCE / "corpus/valid").glob("*.tensors")),
            *sorted(cases.glob("**/*.safetensors")),
            *sorted(cases.glob("**/*.index.json")),
        ]
        compared = {".tensors": 0, ".safetensors": 0, ".json": 0}
        for file in files:
            try:
                with tzmark.open(file, verify=False) as reader:
                    expected = self.contents(reader)
            except tzmark.Error:
                continue
            with self.subTest(file=file.name):
                with self.open(file, "cuda:0", verify=False) as reader:
                    self.assertEqual(self.contents(reader), expected)
                compared[file.suffix] += 1
        self.assertGreater(compared[".tensors"], 300)
        self.assertGreater(compared[".safetensors"], 30)
        self.assertGreater(compared[".json"], 2)

    def contents(self, reader: tzmark.Reader) -> dict[Any, bytes | None]:
        return {name: content_of(buffer) for name, buffer in self.load(reader).items()}

    def test_memory_is_described_to_each_consumer(self) -> None:
        (file, *_) = self.files
        with self.open(file) as reader:
            buffer = reader.buffer("w")
        interface = buffer.__cuda_array_interface__
        self.assertEqual(interface["shape"], (17, 300, 5))
        self.assertEqual(interface["typestr"], "<f4")
        self.assertIsNone(interface["stream"])
        self.assertFalse(hasattr(buffer, "__array_interface__"))
        capsule = buffer.__dlpack__(stream=1, dl_device=(CUDA, 1))
        tensor = managed(capsule)
        self.assertEqual((tensor.device_type, tensor.device), (CUDA, 1))
        self.assertEqual(tensor.data, interface["data"][0])
        self.assertEqual(tensor.dimensions, 3)
        for place in ((CUDA, 0), (CPU, 0)):
            with self.assertRaises(BufferError):
                buffer.__dlpack__(dl_device=place)
        copy = managed(buffer.__dlpack__(copy=True))
        self.assertNotEqual(copy.data, tensor.data)
        with tzmark.open(file) as reader:
            self.assertFalse(hasattr(reader.buffer("w"), "__cuda_array_interface__"))

    def test_memory_lives_as_long_as_a_tensor(self) -> None:
        (file, *_) = self.files
        with self.open(file) as reader:
            loaded = self.load(reader)
        address = loaded["w"].__cuda_array_interface__["data"][0]
        capsule = loaded["scalar"].__dlpack__()
        del loaded
        gc.collect()
        self.assertIsNotNone(bytes_at(address, 4))
        del capsule
        gc.collect()
        self.assertIsNone(bytes_at(address, 4))

    def test_progress_and_its_exception(self) -> None:
        for file, keys in self.files.items():
            seen: list[tuple[int, int]] = []
            with self.open(
                file, progress=lambda *counts: seen.append(counts), **keys
            ) as reader:
                self.load(reader)
            self.assertEqual(seen[-1][0], seen[-1][1])

            def interrupt(*_: int) -> None:
                raise KeyboardInterrupt

            with self.open(file, progress=interrupt, **keys) as reader:
                with self.assertRaises(KeyboardInterrupt):
                    self.load(reader)

    def test_damage_is_found(self) -> None:
        (file, *_) = self.files
        with tzmark.open(file) as reader:
            place = file.read_bytes().find(self.tensors["large"].tobytes()[:64])
        with file.open("r+b") as changed:
            changed.seek(place + 12345)
            byte = changed.read(1)
            changed.seek(-1, os.SEEK_CUR)
            changed.write(bytes([byte[0] ^ 1]))
        with self.open(file) as reader:
            with self.assertRaises(tzmark.FormatError) as caught:
                self.load(reader)
        self.assertIn(caught.exception.rule, ("TZR-HSH-004", "TZR-HSH-005"))

    def test_what_is_no_device(self) -> None:
        (file, *_) = self.files
        for device in ("cuda:", "cuda:x", "cuda:-1", "cuda:1:2", "cuda:١"):
            with self.assertRaises(tzmark.UsageError):
                self.open(file, device)
        with self.open(file, "cuda:2") as reader:
            with self.assertRaisesRegex(tzmark.UnavailableError, "GPU 2: CUDA knows 2"):
                self.load(reader)
        with self.assertRaises(tzmark.UsageError):
            tzmark.open(file, framework="np", device="cuda:0")

    def test_devices_of_torch(self) -> None:
        """torch.device is named by str; torch for AMD copies by itself."""

        class Named:
            def __init__(self, name: str) -> None:
                self.name = name

            def __str__(self) -> str:
                return self.name

        (file, *_) = self.files
        options: dict[str, Any] = {"device": Named("cuda:1")}
        with tzmark.open(file, framework="pt", **options) as reader:
            self.assertEqual(reader.buffer("w").__dlpack_device__(), (CUDA, 1))
        options = {"device": Named("cpu")}
        with tzmark.open(file, framework="pt", **options) as reader:
            self.assertEqual(reader.buffer("w").__dlpack_device__(), (CPU, 0))
        amd = mock.Mock()
        amd.version.hip = "6.0"
        with mock.patch.dict(sys.modules, torch=amd):
            with self.open(file) as reader:
                self.assertEqual(reader.buffer("w").__dlpack_device__(), (CPU, 0))

    def test_a_child_cannot_use_the_gpu(self) -> None:
        (file, *_) = self.files
        with self.open(file) as reader:
            self.load(reader)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with self.open(file) as reader:
                    self.load(reader)
            except tzmark.UnavailableError as error:
                status = 0 if "forked" in str(error) else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
