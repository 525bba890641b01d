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
    @staticmethod
    def empty_cache(): pass
"""
# Each checks what it is asked for, and says it in an error. EXPECTED: the reader that the driver has to choose.
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
import contextlib, os, torch
Backend = {"URING_BUFFERED": "io_uring", "MMAP": "mapping"}

@contextlib.contextmanager
def safe_open(files, **options):
    wanted = {"framework": "pt", "device": "cuda:0", "backend": os.environ["EXPECTED"]}
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
        wanted = (["m"], "cuda:0", os.environ["EXPECTED"])
        if (files, device, strategy) != wanted: raise RuntimeError(f"{files}, {device}, {strategy}")
    def get_tensors(self): return [("a", torch.Tensor()), ("b", torch.Tensor())]
""",
}
# Of each driver: its package, the reader, and what it says of itself.
DRIVERS = {
    "fastsafetensors": ("fastsafetensors", "", "nogds, buffered"),
    "instanttensor": ("instanttensor", "io_uring", "URING_BUFFERED"),
    "instanttensor_mmap": ("instanttensor", "mapping", "MMAP"),
    "runai": ("runai_model_streamer", "sync_buffered", "sync_buffered"),
    "runai_uring": ("runai_model_streamer", "io_uring_buffered", "io_uring_buffered"),
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
            env={"PYTHONPATH": str(self.packages), "EXPECTED": DRIVERS[name][1]},
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_load_through_the_page_cache_to_the_gpu(self) -> None:
        for name, (_, _, detail) in DRIVERS.items():
            with self.subTest(name):
                read = {"op": "read", "file": "m", "device": "cuda"}
                hello, reply = self.converse(name, read)
                # Part of the id of a result, which tells those of two readers apart.
                self.assertEqual(hello["peer"], name)
                self.assertEqual(hello["version"], "1.2")
                self.assertEqual(hello["formats"], ["safetensors"])
                self.assertEqual(hello["detail"], f"torch 9.9, {detail}")
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
        for name, (package, _, _) in DRIVERS.items():
            (self.packages / f"{package}.py").unlink(missing_ok=True)
            (hello,) = self.converse(name)
            self.assertIn(package, hello["unavailable"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
