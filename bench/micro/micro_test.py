#!/usr/bin/env python3
"""Runs each micro benchmark for a moment: it has to verify its function and report a result. No time is judged."""

import json
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
FAMILIES = {
    "crc32",
    "crc32_combine",
    "sha256",
    "sha256_side_by_side",
    "seal_message",
    "seal_message_libsodium",
    "open_message",
    "open_message_libsodium",
    "decode_file_header",
    "decode_tensor_header",
    "encode_tensor_header",
    "open_index",
    "parse_name",
    "pread",
    "serialize_name",
    "open_safetensors",
    "canonical_json",
}


class MicroTest(unittest.TestCase):
    def run_program(self, *arguments: str) -> str:
        done = subprocess.run(
            [PROGRAM, *arguments], capture_output=True, text=True, timeout=100
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_each_verifies_and_runs(self) -> None:
        names = self.run_program("--benchmark_list_tests").split()
        self.assertEqual({name.split("/")[0] for name in names}, FAMILIES)
        document = json.loads(
            self.run_program("--benchmark_min_time=0.0001", "--benchmark_format=json")
        )
        entries = document["benchmarks"]
        self.assertEqual([entry["name"] for entry in entries], names)
        for entry in entries:
            self.assertNotIn("error_occurred", entry, entry["name"])
            self.assertGreater(entry["iterations"], 0, entry["name"])
            if entry["name"].split("/")[0] != "crc32_combine":
                self.assertGreater(entry["bytes_per_second"], 0, entry["name"])


if __name__ == "__main__":
    unittest.main()
