"""Published idioms of safetensors' users, with only the import changed, for both formats.

They are those of safetensors' README and documentation: save_file and load_file; safe_open with a loop over keys and
with slices, as for tensor-parallel loading; save_model and load_model.
"""

from __future__ import annotations

import inspect
import tempfile
import unittest
import unittest.mock
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

    if torch is not None:
        import safetensors.torch
        import tzmark.torch
except ImportError:
    safetensors = None

NAMES = ("model.safetensors", "model.tensors")
# The calls of safetensors.torch and safetensors.numpy, without those that its own modules use.
API = ("save", "save_file", "load", "load_file", "save_model", "load_model")


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

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_modules_are_loaded_in_place(self) -> None:
        from tzmark.torch import load_model, save_model

        class Model(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a = torch.nn.Linear(300, 70)
                self.n = torch.nn.BatchNorm1d(4)

        for name in NAMES:
            model = Model()
            path = str(self.directory / name)
            save_model(model, path)
            other = Model()
            addresses = {k: v.data_ptr() for k, v in other.state_dict().items()}
            # No tensor is made, so there is no second copy.
            with unittest.mock.patch("tzmark._reader.convert", side_effect=OSError):
                self.assertEqual(load_model(other, path), ([], []))
            for key, tensor in model.state_dict().items():
                mine = other.state_dict()[key]
                self.assertTrue(torch.equal(mine, tensor), key)
                self.assertEqual(mine.data_ptr(), addresses[key])
            # What does not fit is converted.
            half = Model().half()
            self.assertEqual(load_model(half, path), ([], []))
            self.assertTrue(torch.equal(half.a.weight, model.a.weight.half()))
            with unittest.mock.patch("tzmark._reader.convert", side_effect=OSError):
                with self.assertRaises(OSError):
                    load_model(half, path)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_hooks_see_the_file_and_not_the_module(self) -> None:
        from tzmark.torch import load_model

        def shift(state: dict[str, Any], prefix: str, *_: Any) -> None:
            old = dict(state)
            state.clear()
            for name, tensor in old.items():
                number, rest = name.split(".", 1)
                state[f"{int(number) + 1}.{rest}"] = tensor

        def layers(count: int) -> Any:
            return torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(count)])

        class Averaging(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("w", torch.zeros(4))

            def _load_from_state_dict(
                self, state: dict[str, Any], prefix: str, *_: Any
            ) -> None:
                self.w.mul_(0.5).add_(state[prefix + "w"], alpha=0.5)

        for name in NAMES:
            path = str(self.directory / name)
            old = layers(2)
            tzmark.save_file(old.state_dict(), path)
            model = layers(3)
            first = model[0].weight.clone()
            model._register_load_state_dict_pre_hook(shift)
            missing, _ = load_model(model, path, strict=False)
            self.assertEqual(sorted(missing), ["0.bias", "0.weight"])
            self.assertTrue(torch.equal(model[2].weight, old[1].weight))
            self.assertTrue(torch.equal(model[0].weight, first))
            tzmark.save_file({"w": torch.full((4,), 4.0)}, path)
            averaging = Averaging()
            load_model(averaging, path)
            self.assertEqual(averaging.w.tolist(), [2.0] * 4)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_modules_without_memory(self) -> None:
        from tzmark.torch import load_model

        for name in NAMES:
            path = str(self.directory / name)
            layers = [torch.nn.Linear(4, 4) for _ in range(3)]
            tzmark.save_file(torch.nn.Sequential(*layers[:2]).state_dict(), path)
            with self.assertRaisesRegex(tzmark.UsageError, "2.bias"):
                load_model(torch.nn.Sequential(*layers).to("meta"), path)
            lazy = torch.nn.Sequential(
                torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.LazyLinear(4)
            )
            missing, _ = load_model(lazy, path, strict=False)
            self.assertEqual(sorted(missing), ["2.bias", "2.weight"])

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_memory_of_torch_that_does_not_fit(self) -> None:
        path = str(self.directory / "a.safetensors")
        tzmark.save_file({"a": torch.ones(3000)}, path)
        with tzmark.open(path, framework="pt") as reader:
            for size in (0, 16):
                freed = torch.zeros(3000)
                freed.storage().resize_(size)
                self.assertFalse(reader.fits("a", freed))
                with self.assertRaisesRegex(tzmark.UsageError, "less memory"):
                    reader.load_into({"a": freed})
            # A backward pass that needs the old values fails.
            w = torch.zeros(3000, requires_grad=True)
            result = (w * w).sum()
            reader.load_into({"a": w})
            with self.assertRaises(RuntimeError):
                result.backward()

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_a_view_across_a_tensor_is_copied_in_the_order_of_torch(self) -> None:
        from tzmark.torch import load_model

        class Model(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                base = torch.zeros(4, 4)
                self.register_buffer("b", base[:, 1])
                self.register_buffer("a", base)

        for name in NAMES:
            path = str(self.directory / name)
            tzmark.save_file({"a": torch.ones(4, 4), "b": torch.full((4,), 2.0)}, path)
            model = Model()
            load_model(model, path)
            self.assertTrue((model.a == 1).all())

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_shared_memory_has_what_the_last_name_has(self) -> None:
        from tzmark.torch import load_model

        class Model(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("a", torch.zeros(4))
                self.register_buffer("b", self.a[:2])
                self.register_buffer("c", torch.zeros(1))

        for name in NAMES:
            path = str(self.directory / name)
            tensors = {"b": torch.ones(2), "a": torch.full((4,), 2.0)}
            tzmark.save_file({**tensors, "c": torch.ones(1)}, path)
            model = Model()
            load_model(model, path)
            self.assertEqual(model.a.tolist(), [1, 1, 2, 2])
            self.assertEqual(model.c.tolist(), [1])

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_a_view_does_not_stand_for_its_base(self) -> None:
        from tzmark.torch import load_file, load_model, save_file, save_model

        class Model(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.w = torch.nn.Parameter(torch.zeros(4, 2))
                self.register_buffer("head", self.w.data[:1])

        class Conjugate(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("z", torch.tensor([1 + 2j]))
                self.register_buffer("conjugate", self.z.conj())

        for name in NAMES:
            path = str(self.directory / name)
            save_file({"head": torch.ones(1, 2)}, path)
            with self.assertRaises(tzmark.UsageError):
                load_model(Model(), path)
            self.assertEqual(load_model(Model(), path, strict=False), (["w"], []))
            save_model(Conjugate(), path)
            self.assertEqual(load_file(path)["conjugate"].tolist(), [1 - 2j])

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_every_call_for_torch(self) -> None:
        import tzmark.torch as module

        class Tied(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embedding = torch.nn.Embedding(4, 2)
                self.head = torch.nn.Linear(2, 4)
                self.head.weight = self.embedding.weight

        model, tensors = Tied(), {"w": torch.ones(2, 3), "b": torch.zeros(3)}
        metadata = {"format": "pt"}
        for name in NAMES:
            with self.subTest(name):
                path = self.directory / name
                kind = path.suffix.removeprefix(".")
                data = module.save(tensors, metadata, format=kind)
                module.save_file(tensors, path, metadata)
                self.assertEqual(data, path.read_bytes())
                for loaded in (
                    module.load(data),
                    module.load_file(path),
                    module.load_file(str(path), "cpu", backend="mmap"),
                ):
                    self.assertEqual(sorted(loaded), ["b", "w"])
                    self.assertTrue(torch.equal(loaded["w"], tensors["w"]))
                with tzmark.safe_open(path, framework="pt", backend="pread") as f:
                    self.assertEqual(f.keys(), ["b", "w"])
                    self.assertEqual(sorted(f.get_tensors()), sorted(f.offset_keys()))
                    self.assertTrue(torch.equal(f.get_tensor("w"), tensors["w"]))
                    self.assertEqual(f.get_slice("w").get_shape(), [2, 3])
                    f.metadata()
                module.save_model(model, str(path), metadata, force_contiguous=True)
                for backend in (None, "mmap"):
                    other = Tied()
                    self.assertEqual(
                        module.load_model(
                            other, path, strict=True, device="cpu", backend=backend
                        ),
                        ([], []),
                    )
                    for key, value in model.state_dict().items():
                        self.assertTrue(torch.equal(other.state_dict()[key], value))
        for call in (module.load_file, tzmark.numpy.load_file):
            with self.assertRaises(tzmark.UsageError):
                call(path, backend="carrier pigeon")

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_names_of_shared_tensors(self) -> None:
        from tzmark.torch import load_file, save_model

        class Tied(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a = torch.nn.Linear(2, 2, bias=False)
                self.b = torch.nn.Linear(2, 2, bias=False)
                self.b.weight = self.a.weight

        model = Tied()
        plain, single = (self.directory / name for name in ("m.tensors", NAMES[0]))
        save_model(model, plain)
        loaded = load_file(plain)
        self.assertEqual(sorted(loaded), ["a.weight", "b.weight"])
        for value in loaded.values():
            self.assertTrue(torch.equal(value, model.a.weight))
        save_model(model, single)
        self.assertEqual(list(load_file(single)), ["a.weight"])
        wanted = {"b.weight": "a.weight", "format": "pt"}
        self.assertEqual(tzmark.inspect(single).metadata, wanted)
        save_model(model, single, {"b.weight": "mine", "format": "other"})
        wanted = {"b.weight": "mine", "format": "other"}
        self.assertEqual(tzmark.inspect(single).metadata, wanted)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_modules_that_cannot_be_saved(self) -> None:
        from tzmark.torch import load_model, save_model

        class WithState(torch.nn.Module):
            def get_extra_state(self) -> dict[str, int]:
                return {"a": 1}

        path = self.directory / NAMES[0]
        module = torch.nn.Linear(2, 3)
        module.weight.data = torch.ones(2, 3).t()
        with self.assertRaisesRegex(tzmark.UsageError, "'weight' is not contiguous"):
            save_model(module, path, force_contiguous=False)
        with self.assertRaisesRegex(TypeError, "'_extra_state' is a dict"):
            save_model(WithState(), path)
        for call in (save_model, load_model):
            with self.assertRaisesRegex(TypeError, "a module is wanted, not a dict"):
                call({}, path)
        self.assertFalse(path.exists())

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_files_of_torch_say_so(self) -> None:
        import tzmark.torch as module

        tensors = {"w": torch.ones(2)}
        path = self.directory / NAMES[0]
        for metadata, wanted in (
            (None, {"format": "pt"}),
            ({"rank": "16"}, {"format": "pt", "rank": "16"}),
            ({"format": "flax"}, {"format": "flax"}),
        ):
            module.save_file(tensors, path, metadata)
            self.assertEqual(tzmark.inspect(path).metadata, wanted)
            self.assertEqual(module.save(tensors, metadata), path.read_bytes())
        module.save_model(torch.nn.Linear(1, 1), path)
        self.assertEqual(tzmark.inspect(path).metadata, {"format": "pt"})
        tzmark.numpy.save_file({"w": np.ones(2)}, path)
        self.assertEqual(tzmark.inspect(path).metadata, {})

    @unittest.skipIf(safetensors is None, "safetensors is not installed")
    def test_calls_have_the_parameters_of_safetensors(self) -> None:
        modules = [(safetensors.numpy, tzmark.numpy)]
        if torch is not None:
            modules.append((safetensors.torch, tzmark.torch))
        checked = set()
        for theirs, ours in modules:
            for name in API:
                call = getattr(theirs, name, None)
                if call is None:
                    continue
                checked.add(name)
                wanted = list(inspect.signature(call).parameters)
                found = list(inspect.signature(getattr(ours, name)).parameters)
                self.assertEqual(found[: len(wanted)], wanted, name)
        self.assertGreaterEqual(checked, {"save", "save_file", "load", "load_file"})
        for name in dir(safetensors.safe_open):
            if not name.startswith("__"):
                self.assertTrue(hasattr(tzmark.safe_open, name), name)

    def test_every_call_for_numpy(self) -> None:
        tensors = {"w": np.ones((2, 3), "f4"), "b": np.zeros(3, "f4")}
        module = tzmark.numpy
        for name in NAMES:
            with self.subTest(name):
                path = self.directory / name
                kind = path.suffix.removeprefix(".")
                data = module.save(tensors, None, format=kind)
                module.save_file(tensors, str(path), metadata={})
                self.assertEqual(data, path.read_bytes())
                for loaded in (
                    module.load(data),
                    module.load_file(path),
                    module.load_file(path, backend="pread"),
                ):
                    self.assertEqual(sorted(loaded), ["b", "w"])
                    np.testing.assert_array_equal(loaded["w"], tensors["w"])
                with tzmark.safe_open(path, framework="numpy") as f:
                    self.assertEqual(f.keys(), ["b", "w"])
                    self.assertEqual(sorted(f.get_tensors()), sorted(f.offset_keys()))
                    np.testing.assert_array_equal(f.get_tensor("w"), tensors["w"])
                    self.assertEqual(f.get_slice("w").get_shape(), [2, 3])
                    self.assertIsNone(f.metadata())

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
    unittest.main(verbosity=2)
