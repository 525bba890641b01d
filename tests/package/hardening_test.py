"""Each installed program and library has what makes an error in memory end it; the check sees what lacks."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import hardening

BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
ARRAY = """
#include <cstdio>
#include <cstring>
#include <vector>
char large[1 << 18] = {1};
int main(int count, char** texts) {
  char copy[64];
  std::vector<char> bytes(64);
  std::strcpy(copy, texts[count - 1]);
  std::printf("%s %d %d", copy, bytes[count], large[count]);
}
"""
OFF = "-O2 -fno-pie -no-pie -U_FORTIFY_SOURCE -fno-stack-protector -fcf-protection=none"
OFF_LINK = "-Wl,-z,norelro,-z,lazy,-z,execstack"


class Hardening(unittest.TestCase):
    def test_what_is_installed(self) -> None:
        with tempfile.TemporaryDirectory(prefix="tzmark-test-") as directory:
            subprocess.run(
                ["cmake", "--install", BUILD, "--prefix", directory],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            binaries = [
                file
                for file in sorted(Path(directory).rglob("*"))
                if file.is_file() and not file.is_symlink() and hardening.is_elf(file)
            ]
            self.assertIn("tzmark-conform", [file.name for file in binaries])
            for file in binaries:
                with self.subTest(file=file.name):
                    self.assertEqual(hardening.lacking(file), [])

    def lacking(self, *options: str) -> list[str]:
        """What a program lacks that is built with these options."""
        with tempfile.TemporaryDirectory(prefix="tzmark-test-") as directory:
            source, program = Path(directory, "array.cc"), Path(directory, "array")
            source.write_text(ARRAY)
            subprocess.run(
                ["c++", *OFF.split(), OFF_LINK, *options, "-o", program, source],
                check=True,
                capture_output=True,
            )
            return hardening.lacking(program)

    def test_a_program_without(self) -> None:
        expected = ["PIE", "RELRO", "BIND_NOW", "NX", "stack protector", "FORTIFY"]
        expected += ["GLIBCXX_ASSERTIONS"]
        if os.uname().machine == "x86_64":
            expected += ["CET"]
        self.assertEqual(self.lacking(), expected)

    def test_one_of_them_is_not_another(self) -> None:
        found = self.lacking("-fstack-protector-all")
        self.assertIn("FORTIFY", found)
        self.assertNotIn("stack protector", found)


if __name__ == "__main__":
    unittest.main(verbosity=2)
