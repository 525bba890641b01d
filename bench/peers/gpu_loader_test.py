#!/usr/bin/env python3
"""The drivers of GPU loaders, each run as the bench runs it, over stand-ins of the packages that keep what they were
asked for. Neither the packages nor a GPU are needed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).resolve().parent
Json = dict[str, Any]

TORCH = """
__version__ = "9.9"
has_gpu, waits = True, 0

class Tensor:
    def __init__(self, is_cuda=True): self.is_cuda = is_cuda
    def numel(self): return 3
    def element_size(self): return 4

class cuda:
    @staticmethod
    def is_available(): return has_gpu
    @staticmethod
    def synchronize():
        global waits
        waits += 1
"""
# Each checks what it is asked for, and says it in an error.
PACKAGES = {
    "fastsafetensors": """
import contextlib, os, torch
mode = os.environ["FASTSAFETENSORS_ODIRECT"]

@contextlib.contextmanager
def fastsafe_open(**options):
    wanted = {"filenames": ["m"], "nogds": True, "framework": "pytorch", "device": "cuda:0"}
    if options != wanted or mode != "0": raise RuntimeError(f"{options}, {mode}")
    class Opened:
        def keys(self): return ["a", "b"]
        def get_tensor(self, name): return torch.Tensor()
    yield Opened()
""",
    "instanttensor": """
import contextlib, torch
class BackendPolicy: BUFFERED = "buffered"

@contextlib.contextmanager
def safe_open(files, **options):
    wanted = {"framework": "pt", "device": "cuda:0", "backend": "buffered"}
    if files != ["m"] or options != wanted: raise RuntimeError(f"{files}, {options}")
    class Opened:
        def tensors(self): return [("a", torch.Tensor()), ("b", torch.Tensor())]
    yield Opened()
""",
    "runai_model_streamer": """
import os, torch
strategy = os.environ["RUNAI_STREAMER_FS_STRATEGY"]

class SafetensorsStreamer:
    def __enter__(self): return self
    def __exit__(self, *error): pass
    def stream_files(self, files, device):
        if (files, device, strategy) != (["m"], "cuda:0", "sync_buffered"): raise RuntimeError(f"{files}, {device}")
    def get_tensors(self): return [("a", torch.Tensor()), ("b", torch.Tensor())]
""",
}
DRIVERS = {
    "fastsafetensors": "fastsafetensors",
    "instanttensor": "instanttensor",
    "runai": "runai_model_streamer",
}


class Loaders(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.packages = Path(directory.name)
        (self.packages / "torch.py").write_text(TORCH)
        for name, text in PACKAGES.items():
            (self.packages / f"{name}.py").write_text(text)
            about = self.packages / f"{name}-1.2.dist-info/METADATA"
            about.parent.mkdir()
            about.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")

    def converse(self, name: str, *requests: Json) -> list[Json]:
        done = subprocess.run(
            [sys.executable, "-B", str(DIRECTORY / f"{name}_driver.py"), "--gpu"],
            input="".join(json.dumps(request) + "\n" for request in requests),
            env={"PYTHONPATH": str(self.packages)},
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_load_through_the_page_cache_to_the_gpu(self) -> None:
        for name in DRIVERS:
            with self.subTest(name):
                read = {"op": "read", "file": "m", "device": "cuda"}
                hello, reply = self.converse(name, read)
                self.assertEqual(hello["version"], "1.2")
                self.assertEqual(hello["formats"], ["safetensors"])
                self.assertIn("torch 9.9", hello["detail"])
                self.assertIn("buffered", hello["detail"])
                self.assertEqual((reply["bytes"], reply["tensors"]), (24, 2), reply)
                self.assertGreaterEqual(reply["peak_memory_bytes"], 0)

    def test_wait_for_the_gpu_before_and_after(self) -> None:
        module = self.packages / "instanttensor.py"
        module.write_text(
            module.read_text().replace(
                "    yield Opened()",
                "    yield Opened()\n    raise RuntimeError(f'{torch.waits} before')",
            )
        )
        (_, reply) = self.converse(
            "instanttensor", {"op": "read", "file": "m", "device": "cuda"}
        )
        # Once by --gpu, once for the read.
        self.assertEqual(reply, {"error": "RuntimeError: 2 before"})

    def test_refuse_what_they_cannot_do(self) -> None:
        read = {"op": "read", "file": "m", "device": "cuda"}
        requests: list[Json] = [
            {"op": "read", "file": "m"},
            read | {"verify": True},
            read | {"key_hex": "00"},
            read | {"readers": 2},
            read | {"mapped": True},
            read | {"touch": True},
            {"op": "open", "file": "m"},
        ]
        for name in DRIVERS:
            with self.subTest(name):
                _, *replies = self.converse(name, *requests)
                self.assertEqual(len(replies), len(requests))
                for reply in replies:
                    self.assertEqual(list(reply), ["error"])
                    self.assertNotIn("Error:", reply["error"])

    def test_tensors_that_stay_in_host_memory_are_refused(self) -> None:
        module = self.packages / "runai_model_streamer.py"
        module.write_text(
            module.read_text().replace(
                '"b", torch.Tensor()', '"b", torch.Tensor(False)'
            )
        )
        (_, reply) = self.converse(
            "runai", {"op": "read", "file": "m", "device": "cuda"}
        )
        self.assertEqual(reply, {"error": "it left tensors in host memory"})

    def test_are_unavailable_without_a_gpu_or_the_package(self) -> None:
        torch = self.packages / "torch.py"
        torch.write_text(
            TORCH.replace("has_gpu, waits = True", "has_gpu, waits = False")
        )
        for name in DRIVERS:
            (hello,) = self.converse(name)
            self.assertEqual(hello, {"unavailable": "torch 9.9 has no GPU here"})
        torch.write_text(TORCH)
        for name, package in DRIVERS.items():
            (self.packages / f"{package}.py").unlink()
            (hello,) = self.converse(name)
            self.assertIn(package, hello["unavailable"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
