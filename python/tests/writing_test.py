"""Writing: layouts, hashes, keys, sources of tensors, conversion, and files that are left alone on failure."""

from __future__ import annotations

import gc
import json
import os
import resource
import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import tzmark

try:
    import torch
except ImportError:
    torch = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

LAYOUTS = ("v1", "v2", "v4", "v5-flagged-dims", "v5-headers-first", "v5-segments")
NUMPY_TYPES = "bool u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 c8 c16"


def wrapped(tensor: Any) -> Any:
    """Returns a tensor of a subclass that wraps another one, as DTensor does."""

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner: Any) -> Any:
            new = torch.Tensor._make_wrapper_subclass(
                cls, inner.shape, dtype=inner.dtype
            )
            new.inner = inner
            return new

        @classmethod
        def __torch_dispatch__(
            cls, function: Any, types: Any, arguments: Any = (), options: Any = None
        ) -> Any:
            inner = [getattr(one, "inner", one) for one in arguments]
            return cls(function(*inner, **(options or {})))

    return Wrapper(tensor)


class Writing(unittest.TestCase):
    def setUp(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self.addCleanup(self._directory.cleanup)
        self.directory = Path(self._directory.name)
        self.path = self.directory / "model.tensors"

    def check(self, tensors: dict[Any, Any], path: Path, **arguments: Any) -> None:
        loaded = tzmark.load_file(path, **arguments)
        self.assertEqual(set(loaded), set(tensors))
        for name, value in tensors.items():
            np.testing.assert_array_equal(loaded[name], value)
            self.assertEqual(loaded[name].shape, np.shape(value))

    def test_numpy_types(self) -> None:
        tensors = {name: np.arange(5).astype(name) for name in NUMPY_TYPES.split()}
        for name in ("a.tensors", "a.safetensors"):
            kept = dict(tensors)
            if name.endswith(".safetensors"):
                del kept["c16"]
                with self.assertRaises(tzmark.UsageError) as caught:
                    tzmark.save_file(tensors, self.directory / name)
                self.assertEqual(caught.exception.rule, "ST-018")
            tzmark.save_file(kept, self.directory / name)
            self.check(kept, self.directory / name)

    def test_memory_of_any_order(self) -> None:
        base = np.arange(24.0).reshape(4, 6)
        tensors = {
            "transposed": base.T,
            "strided": base[::2, ::-3],
            "big": base.astype(">f8"),
            "zero dimensions": np.array(3.0),
            "scalar": np.float32(2),
            "empty": base[:0],
            "read-only": np.broadcast_to(np.float32(1), (3, 4)),
        }
        tzmark.save_file(tensors, self.path)
        self.check(tensors, self.path)

    def test_masked_arrays(self) -> None:
        masked = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
        with self.assertRaises(tzmark.UsageError):
            tzmark.save_file({"w": masked}, self.path)
        tensors = {"filled": masked.filled(0), "no mask": np.ma.array([1.0, 2.0])}
        tzmark.save_file(tensors, self.path)
        self.check(tensors, self.path)

    def test_layouts_and_hashes(self) -> None:
        tensors = {"w": np.arange(1000.0)}
        for layout in LAYOUTS:
            with self.subTest(layout):
                tzmark.save_file(tensors, self.path, layout=layout)
                self.assertEqual(tzmark.inspect(self.path).layout, layout)
                self.check(tensors, self.path)
        tzmark.save_file(tensors, self.path, sha256=False)
        self.check(tensors, self.path, verify="crc32")
        tzmark.save_file(tensors, self.path, crc32=False)
        with self.assertRaises(tzmark.FormatError):
            tzmark.load_file(self.path, verify="crc32")
        with self.assertRaises(tzmark.UsageError):
            tzmark.save_file(tensors, self.path, crc32=False, sha256=False)

    def test_keys(self) -> None:
        tensors = {"w": np.arange(1000.0)}
        tzmark.save_file(tensors, self.path, key="00" * 31 + "01")
        self.check(tensors, self.path, key=bytes(31) + b"\1")
        other = self.directory / "other.tensors"
        tzmark.convert(
            self.path, other, key="00" * 31 + "01", encrypt_passphrase="pass"
        )
        self.check(tensors, other, passphrase=b"pass")
        for wrong in ({"key": b""}, {"key": b"x"}, {"passphrase": ""}, {"io": ""}):
            with self.subTest(**wrong), self.assertRaises(tzmark.UsageError):
                tzmark.save_file(tensors, self.path, **wrong)

    def test_convert(self) -> None:
        tensors = {"a": np.arange(100.0), "b": np.ones((3, 4), "i2")}
        names = [self.directory / f"{i}.safetensors" for i in (1, 2)]
        tzmark.save_file(tensors, names[0], {"format": "np", "words": "é"})
        tzmark.convert(names[0], self.path, drop_metadata=True)
        self.check(tensors, self.path)
        tzmark.convert(names[0], names[1])
        with tzmark.open(names[1]) as reader:
            self.assertEqual(reader.metadata, {"format": "np", "words": "é"})
        tzmark.convert(self.path, names[1], shard_bytes=400, metadata={"x": "y"})
        shards = self.directory / "2.safetensors.index.json"
        self.check(tensors, shards)

    def test_metadata_is_never_lost_silently(self) -> None:
        tensors = {"a": np.arange(100.0)}
        lora, pt, back = (self.directory / f"{n}.safetensors" for n in "lpb")
        tzmark.save_file(tensors, lora, {"format": "pt", "rank": "16"})
        with self.assertRaises(tzmark.UsageError) as caught:
            tzmark.convert(lora, self.path)
        self.assertEqual(caught.exception.file, str(lora))
        self.assertEqual(
            caught.exception.message,
            "the metadata 'rank' would be lost, because a .tensors file has none: drop_metadata=True leaves it out",
        )
        self.assertFalse(self.path.exists())
        tzmark.convert(lora, self.path, drop_metadata=True)
        self.check(tensors, self.path)
        with self.assertRaises(tzmark.UsageError):
            tzmark.save_file(tensors, self.path, {"rank": "16"})
        # What a .tensors file implies goes there and back.
        tzmark.save_file(tensors, self.path, {"format": "pt"})
        tzmark.save_file(tensors, pt, {"format": "pt"})
        tzmark.convert(pt, self.path)
        tzmark.convert(self.path, back)
        self.assertEqual(back.read_bytes(), pt.read_bytes())
        for options, wanted in (
            ({"metadata": {"format": "np", "a": "b"}}, {"format": "np", "a": "b"}),
            ({"drop_metadata": True}, {}),
            ({"drop_metadata": True, "metadata": {"a": "b"}}, {"a": "b"}),
        ):
            tzmark.convert(self.path, back, **options)
            self.assertEqual(tzmark.inspect(back).metadata, wanted)

    def test_a_conversion_loses_nothing_of_shards(self) -> None:
        index = self.directory / "s.safetensors.index.json"
        shards = [self.directory / f"s-0000{n}-of-00002.safetensors" for n in (1, 2)]
        for number, shard in enumerate(shards):
            tzmark.save_file({f"w{number}": np.ones(2)}, shard, {"n": str(number)})
        document = {
            "metadata": {"total_size": 32, "quantization": "awq"},
            "weight_map": {f"w{n}": shard.name for n, shard in enumerate(shards)},
        }
        index.write_text(json.dumps(document))
        one = self.directory / "one.safetensors"
        for target in (one, self.path):
            with self.assertRaises(tzmark.UsageError) as caught:
                tzmark.convert(index, target)
            self.assertIn("the metadata 'n' is '0' in", caught.exception.message)
        tzmark.convert(index, one, metadata={"n": "2"})
        wanted = {"n": "2", "quantization": "awq"}
        self.assertEqual(tzmark.inspect(one).metadata, wanted)
        # The rest of the model would be useless.
        with self.assertRaises(tzmark.UsageError):
            tzmark.convert(index, shards[0], metadata=wanted)
        tzmark.convert(index, index, metadata=wanted, shard_bytes=16)
        written = json.loads(index.read_text())["metadata"]
        self.assertEqual(written, document["metadata"])

    def test_errors_of_a_conversion_name_the_file(self) -> None:
        tzmark.save_file({"w": np.arange(1000.0)}, self.path)
        content = bytearray(self.path.read_bytes())
        content[-50] ^= 1
        self.path.write_bytes(content)
        target = self.directory / "out.tensors"
        with self.assertRaises(tzmark.FormatError) as caught:
            tzmark.convert(self.path, target)
        self.assertEqual(caught.exception.file, str(self.path))
        self.assertFalse(target.exists())
        tzmark.convert(self.path, target, verify=False)
        with self.assertRaises(tzmark.EnvironmentFailure) as failed:
            tzmark.convert(target, self.directory / "nothing" / "out.tensors")
        self.assertIn("nothing", str(failed.exception.file))

    def test_failures_leave_the_old_file(self) -> None:
        tensors = {"w": np.arange(10.0)}
        tzmark.save_file(tensors, self.path)
        before = sorted(os.listdir(self.directory))
        with self.assertRaises(tzmark.EnvironmentFailure):
            tzmark.save_file({"v": np.ones(3)}, self.path, replace=False)

        def stop(done: int, total: int) -> None:
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            tzmark.save_file({"v": np.ones(128 << 20, "u1")}, self.path, progress=stop)
        self.check(tensors, self.path)
        self.assertEqual(sorted(os.listdir(self.directory)), before)

    def test_what_cannot_be_saved(self) -> None:
        wrong: list[tuple[Any, type[Exception]]] = [
            ({"w": 1.5}, TypeError),
            ({"w": [1, 2]}, TypeError),
            ({"w": np.array(["text"])}, tzmark.UsageError),
            ({"w": np.array([object()])}, tzmark.UsageError),
            ({"w": np.zeros(2, "V2")}, tzmark.UsageError),
            ({"w": np.zeros(2, "M8[s]")}, tzmark.UsageError),
            ({1: np.ones(2)}, TypeError),
            ({("a", -1): np.ones(2)}, (OverflowError, ValueError)),
            ({("a", 1.5): np.ones(2)}, TypeError),
            ({(): np.ones(2)}, tzmark.Error),
            ({"": np.ones(2)}, tzmark.UsageError),
            ({"a": np.ones(2), ("a", 0): np.ones(2)}, tzmark.Error),
        ]
        for tensors, error in wrong:
            with self.subTest(str(tensors)), self.assertRaises(error):
                tzmark.save_file(tensors, self.path)
        self.assertFalse(self.path.exists())
        for name in ("", b""):
            with self.assertRaises(tzmark.UsageError):
                tzmark.save_file({"w": np.ones(1)}, name)
        with self.assertRaises(tzmark.UsageError):
            tzmark.save_file({"w": np.ones(1)}, self.path, {"a": "b"})

    def test_bytes(self) -> None:
        tensors = {"a": np.arange(9, dtype="u2")}
        data = tzmark.save(tensors, {"k": "v"})
        np.testing.assert_array_equal(tzmark.load(data)["a"], tensors["a"])
        tzmark.save_file(tensors, self.path)
        self.assertEqual(tzmark.save(tensors, format="tensors"), self.path.read_bytes())

    @unittest.skipIf(ml_dtypes is None, "ml_dtypes is not installed")
    def test_ml_dtypes(self) -> None:
        names = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz")
        tensors = {
            name: np.arange(6).astype(getattr(ml_dtypes, name)) for name in names
        }
        for name in ("a.tensors", "a.safetensors"):
            tzmark.save_file(tensors, self.directory / name)
            loaded = tzmark.load_file(self.directory / name)
            for dtype, value in tensors.items():
                self.assertEqual(loaded[dtype].dtype, value.dtype)
                np.testing.assert_array_equal(loaded[dtype], value)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch(self) -> None:
        base = torch.arange(24.0).reshape(4, 6)
        tensors = {
            "plain": base,
            "transposed": base.t(),
            "parameter": torch.nn.Parameter(base + 1),
            "bfloat16": base.to(torch.bfloat16),
            "bool": base > 3,
            "conjugate": torch.complex(base, base).conj(),
            "empty": base[:0],
            "scalar": torch.tensor(7),
        }
        tzmark.save_file(tensors, self.path)
        loaded = tzmark.load_file(self.path, framework="pt")
        gc.collect()
        for name, value in tensors.items():
            self.assertEqual(loaded[name].dtype, value.dtype)
            self.assertTrue(torch.equal(loaded[name], value.detach()), name)
        if ml_dtypes is None:
            raw = tzmark.load_file(self.path)["bfloat16"]
            self.assertEqual(raw.dtype, np.dtype("V2"))
            bits = raw.view("u2").astype("u4") << 16
            np.testing.assert_array_equal(bits.view("f4"), base.numpy())
        nested = torch.nested.as_nested_tensor([base[0], base[1, :2]])
        meta = torch.empty(2, device="meta")
        for wrong in (base.to_sparse(), meta, wrapped(base), nested):
            with self.assertRaises(tzmark.UsageError):
                tzmark.save_file({"w": wrong}, self.path)


class Mistakes(unittest.TestCase):
    """An error says which argument is wrong, what it is, and what to do."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def check(self, error: type[Exception], text: str, call: Any) -> None:
        with self.subTest(text), self.assertRaises(error) as caught:
            call()
        self.assertIn(text, str(caught.exception))
        self.assertNotIn("built-in operation", str(caught.exception))

    def test_metadata(self) -> None:
        tensors = {"w": np.ones(2)}
        half = "has half of a surrogate pair"
        for metadata, error, text in (
            ({"rank": 16}, TypeError, "metadata['rank'] is 16, not a string"),
            ({"rank": None}, TypeError, "metadata['rank'] is None, not a string"),
            ({"rank": b"16"}, TypeError, "metadata['rank'] is b'16', not a string"),
            ({16: "rank"}, TypeError, "metadata has the key 16, which is not a string"),
            (["rank"], TypeError, "metadata is ['rank'], not a mapping"),
            (16, TypeError, "metadata is 16, not a mapping"),
            ({"rank": "\ud800"}, tzmark.UsageError, half),
            ({"\ud800": "16"}, tzmark.UsageError, half),
        ):
            for name in ("a.safetensors", "a.tensors"):
                self.check(
                    error,
                    text,
                    lambda: tzmark.save_file(tensors, self.directory / name, metadata),
                )
            self.check(error, text, lambda: tzmark.save(tensors, metadata))
            with tzmark.Checkpointer(self.directory / "run") as checkpointer:
                self.check(
                    error, text, lambda: checkpointer.save({}, 1, metadata=metadata)
                )
        with tzmark.Checkpointer(self.directory / "run") as checkpointer:
            self.check(
                tzmark.UsageError,
                "'tzmark.structure' is reserved",
                lambda: checkpointer.save({}, 1, metadata={"tzmark.structure": "{}"}),
            )
            self.check(
                TypeError,
                "step is '1', not an integer",
                lambda: checkpointer.save({}, "1"),
            )
            self.check(
                TypeError,
                "epoch is 1.5, not an integer",
                lambda: checkpointer.save({}, 1, epoch=1.5),
            )
            self.check(
                TypeError, "step is 'x', not an integer", lambda: checkpointer.load("x")
            )
            self.check(
                tzmark.UsageError,
                "step is -1, and must not be negative",
                lambda: checkpointer.load(-1),
            )

    def test_arguments(self) -> None:
        one = {"w": np.ones(2)}
        file = self.directory / "a.tensors"
        tzmark.save_file(one, file)
        for arguments, error, text in (
            ({"layout": 5}, TypeError, "layout is 5, not a string"),
            ({"io": 5}, TypeError, "io is 5, not a string"),
            ({"kind": None}, TypeError, "kind is None, not a string"),
            ({"key": 5}, TypeError, "key is a int, not bytes or hex digits"),
            ({"passphrase": 5}, TypeError, "passphrase is a int, not a string"),
            ({"passphrase": "\ud800"}, tzmark.UsageError, "the passphrase is not"),
            ({"shard_bytes": "5"}, TypeError, "shard_bytes is '5', not an integer"),
        ):
            self.check(error, text, lambda: tzmark.save_file(one, file, **arguments))
        tzmark.save_file(one, file, key=bytearray(32))
        self.assertEqual(list(tzmark.load_file(file, key=memoryview(bytes(32)))), ["w"])
        for arguments, error, text in (
            ({"profile": 5}, TypeError, "profile is 5, not a string"),
            ({"io": 5}, TypeError, "io is 5, not a string"),
            ({"key": 5}, TypeError, "key is a int, not bytes or hex digits"),
        ):
            self.check(error, text, lambda: tzmark.open(file, **arguments))
        for data in (5, [1], "abc", None):
            self.check(TypeError, "not the bytes of a file", lambda: tzmark.load(data))

    def test_names_and_tensors(self) -> None:
        array = np.ones(2)
        for tensors, error, text in (
            (None, TypeError, "a mapping from names to tensors is wanted"),
            (array, TypeError, "a mapping from names to tensors is wanted"),
            ([array], TypeError, "a mapping from names to tensors is wanted"),
            ("abc", TypeError, "a mapping from names to tensors is wanted"),
            ({1: array}, TypeError, "a tuple of str and int, not 1"),
            ({b"a": array}, TypeError, "a tuple of str and int, not b'a'"),
            ({("a", True): array}, TypeError, "is a str or an int: ('a', True)"),
            ({("a", -1): array}, OverflowError, "the name ('a', -1) has the integer"),
            ({("a", 2**64): array}, OverflowError, "from 0 to 2^64 - 1 is possible"),
            ({"\ud800": array}, tzmark.UsageError, "has half of a surrogate pair"),
            ({}, tzmark.UsageError, "a file holds at least one tensor"),
            ({"a": array, ("a",): array}, tzmark.UsageError, "has the same path"),
            ({"w": np.array(["text"])}, tzmark.UsageError, "'w' is of dtype str128"),
            ({"w": np.ones(1, "g")}, tzmark.UsageError, "'w' is of dtype float128"),
            ({"w": np.ones(1, "V2")}, tzmark.UsageError, "'w' has the raw type |V2"),
            (
                {"w": np.ones(1, [("a", "f4")])},
                tzmark.UsageError,
                "'w' has the structured type",
            ),
        ):
            self.check(
                error,
                text,
                lambda: tzmark.save_file(tensors, self.directory / "a.tensors"),
            )
        self.assertEqual(os.listdir(self.directory), [])

    @unittest.skipIf(ml_dtypes is None, "ml_dtypes is not installed")
    def test_types_of_ml_dtypes(self) -> None:
        # It is installed: advice to install it would be wrong.
        for name in ("int4", "uint4"):
            values = np.zeros(2, getattr(ml_dtypes, name))
            for file in ("a.tensors", "a.safetensors"):
                with self.assertRaises(tzmark.UsageError) as caught:
                    tzmark.save_file({"w": values}, self.directory / file)
                self.assertIn(
                    f"'w' is of dtype {name}, which neither format has",
                    str(caught.exception),
                )
        with self.assertRaises(tzmark.UsageError) as caught:
            tzmark.save_file({"w": np.ones(1, "V2")}, self.directory / "a.tensors")
        self.assertNotIn("install", str(caught.exception))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_tensors_of_torch(self) -> None:
        base = torch.ones(2, 3)
        lazy = torch.nn.LazyLinear(2)
        quantized = torch.quantize_per_tensor(base, 0.1, 0, torch.qint8)
        for tensors, error, text in (
            ({"w": base.to_sparse()}, tzmark.UsageError, "sparse tensor (sparse_coo)"),
            ({"w": quantized}, tzmark.UsageError, "'w' is of dtype qint8"),
            (dict(lazy.named_parameters()), tzmark.UsageError, "has no shape yet"),
            (lazy, TypeError, "not a LazyLinear: pass its state_dict()"),
        ):
            self.check(
                error,
                text,
                lambda: tzmark.save_file(tensors, self.directory / "a.tensors"),
            )
        if torch.backends.mkldnn.is_available():
            dense = base.to_mkldnn()
            self.check(
                tzmark.UsageError,
                "'w' is in the layout mkldnn, whose memory has no defined order: save to_dense()",
                lambda: tzmark.save_file({"w": dense}, self.directory / "a.tensors"),
            )
        tzmark.save_file({"w": np.ones(1, "c16")}, self.directory / "a.tensors")

    def test_the_limit_of_file_sizes_is_named(self) -> None:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            for name in ("a.tensors", "a.safetensors"):
                self.check(
                    tzmark.EnvironmentFailure,
                    "File too large: this process may write files of at most 1000 bytes (ulimit -f, RLIMIT_FSIZE)",
                    lambda: tzmark.save_file(
                        {"w": np.ones(1000)}, self.directory / name
                    ),
                )
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        self.assertEqual(os.listdir(self.directory), [])

    def test_only_a_missing_file_is_missing(self) -> None:
        one = {"w": np.ones(1)}
        with self.assertRaises(tzmark.EnvironmentFailure) as caught:
            tzmark.save_file(one, self.directory / ("x" * 300 + ".tensors"))
        self.assertNotIsInstance(caught.exception, FileNotFoundError)
        with self.assertRaises(FileNotFoundError):
            tzmark.save_file(one, self.directory / "nothing" / "x.tensors")
        with self.assertRaises(FileNotFoundError):
            tzmark.open(self.directory / "nothing")


class Numbers(unittest.TestCase):
    """Numbers that do not fit are refused, never taken modulo 2^32 or 2^64."""

    def test_threads(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "w.tensors")
            tzmark.save_file({"w": np.ones(2)}, file)
            for threads in (2**32 + 1, 2**64 + 1, -1):
                with self.assertRaises(OverflowError):
                    tzmark.save_file({"w": np.ones(2)}, file, threads=threads)
                with self.assertRaises(OverflowError):
                    tzmark.open(file, threads=threads)

    def test_kept_checkpoints(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            for keep_latest in (2**64 + 1, -1):
                with self.assertRaises((OverflowError, tzmark.UsageError)):
                    tzmark.Checkpointer(directory, keep_latest=keep_latest)


if __name__ == "__main__":
    unittest.main(verbosity=2)
