"""Published idioms of safetensors' users, with only the import changed, for both formats.

They are those of safetensors' README and documentation: save_file and load_file; safe_open with a loop over keys and
with slices, as for tensor-parallel loading; save_model and load_model.
"""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import numpy as np
import tzmark
import tzmark.numpy

try:
    import torch
except ImportError:
    torch = None
try:
    import safetensors.numpy
except ImportError:
    safetensors = None

NAMES = ("model.safetensors", "model.tensors")


class Idioms(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_readme(self) -> None:
        from tzmark import safe_open
        from tzmark.torch import save_file

        for filename in NAMES:
            path = str(self.directory / filename)
            tensors = {
                "weight1": torch.zeros((1024, 1024)),
                "weight2": torch.zeros((1024, 1024)),
            }
            save_file(tensors, path)

            tensors = {}
            with safe_open(path, framework="pt", device="cpu") as f:
                for key in f.keys():
                    tensors[key] = f.get_tensor(key)
            self.assertEqual(sorted(tensors), ["weight1", "weight2"])
            self.assertEqual(tensors["weight1"].shape, (1024, 1024))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_slices_of_a_tensor_parallel_rank(self) -> None:
        from tzmark import safe_open
        from tzmark.torch import load_file, save_file

        embedding = torch.rand(100, 64)
        for filename in NAMES:
            path = str(self.directory / filename)
            save_file({"embedding": embedding}, path)
            parts = []
            world_size = 4
            for rank in range(world_size):
                with safe_open(path, framework="pt", device="cpu") as f:
                    tensor_slice = f.get_slice("embedding")
                    vocab_size, hidden_dim = tensor_slice.get_shape()
                    block_size = hidden_dim // world_size
                    start = rank * block_size
                    stop = (rank + 1) * block_size
                    parts.append(tensor_slice[:, start:stop])
            self.assertTrue(torch.equal(torch.cat(parts, 1), embedding))
            self.assertTrue(torch.equal(load_file(path)["embedding"], embedding))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_modules_with_shared_tensors(self) -> None:
        from tzmark.torch import load_model, save_model

        class Model(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a = torch.nn.Linear(10, 10)
                self.b = self.a
                self.c = torch.nn.Linear(10, 3)

        model, other = Model(), Model()
        path = str(self.directory / "model.safetensors")
        save_model(model, path)
        self.assertEqual(load_model(other, path), ([], []))
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(other.state_dict()[name], tensor), name)

        class Larger(Model):
            def __init__(self) -> None:
                super().__init__()
                self.d = torch.nn.Linear(2, 2)

        with self.assertRaises(tzmark.UsageError):
            load_model(Larger(), path)
        missing, _ = load_model(Larger(), path, strict=False)
        self.assertEqual(sorted(missing), ["d.bias", "d.weight"])

    def test_numpy(self) -> None:
        from tzmark.numpy import load, load_file, save, save_file

        tensors = {
            "embedding": np.zeros((512, 1024)),
            "attention": np.zeros((256, 256)),
        }
        for filename in NAMES:
            path = str(self.directory / filename)
            save_file(tensors, path)
            loaded = load_file(path)
            self.assertEqual(sorted(loaded), sorted(tensors))
        loaded = load(save(tensors, metadata={"a": "b"}))
        np.testing.assert_array_equal(loaded["attention"], tensors["attention"])

    def test_safe_open(self) -> None:
        from tzmark import safe_open
        from tzmark.numpy import save_file

        tensors = {"b": np.ones(3, "f4"), "a": np.ones(3, "f8"), "c": np.ones(3, "i1")}
        path = self.directory / "model.safetensors"
        save_file(tensors, path, {"format": "np"})
        with safe_open(path, "numpy") as f:
            self.assertEqual(f.keys(), ["a", "b", "c"])
            self.assertEqual(f.offset_keys(), ["a", "b", "c"])
            self.assertEqual(f.metadata(), {"format": "np"})
            self.assertEqual(f.get_slice("b").get_dtype(), "F32")
            with self.assertRaises(KeyError):
                f.get_tensor("d")
        save_file(tensors, path)
        with safe_open(path, "np") as f:
            self.assertIsNone(f.metadata())
        with self.assertRaises(FileNotFoundError):
            safe_open(self.directory / "nothing", "np")

    @unittest.skipIf(safetensors is None, "safetensors is not installed")
    def test_same_files(self) -> None:
        tensors = {"b": np.ones(3, "f4"), "a": np.arange(3.0), "c": np.ones(3, "i1")}
        ours, theirs = (self.directory / f"{name}.safetensors" for name in "ab")
        tzmark.numpy.save_file(tensors, ours, {"a": "b"})
        safetensors.numpy.save_file(tensors, theirs, {"a": "b"})
        self.assertEqual(ours.read_bytes(), theirs.read_bytes())
        loaded = safetensors.numpy.load_file(ours)
        for name, value in tensors.items():
            np.testing.assert_array_equal(loaded[name], value)


if __name__ == "__main__":
    unittest.main()
