#!/usr/bin/env python3
"""Secrets stay where they are: out of what commands print and report, and of files that others could read."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

import stopped
from stopped import KEY, PASSPHRASE, PLAINTEXT, faulty

CHEAP = ["--opslimit", "1", "--memlimit", "8KiB"]
WARNING = "warning: other users can read this secret: change its mode to 600"


class LeaksTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark-leaks-")
        self.addCleanup(scratch.cleanup)
        self.where = Path(scratch.name)
        (self.where / "tmp").mkdir()
        stopped.make_model(self.where)

    def tzmark(self, *words: str, status: int = faulty.FINE) -> faulty.Ended:
        ended = faulty.run(words, self.where)
        self.assertEqual(ended.status, status, ended.errors)
        return ended

    def seal(self) -> None:
        model = ("convert", "model.safetensors")
        self.tzmark(*model, "sealed.tensors", "--encrypt-key-file", "key")
        phrase = ("--encrypt-passphrase-file", "passphrase")
        self.tzmark(*model, "phrase.tensors", *phrase, *CHEAP)

    def test_nothing_that_is_printed_holds_a_secret(self) -> None:
        self.seal()
        (self.where / "hex").write_text(KEY.hex() + "\n")
        (self.where / "hex").chmod(0o600)
        (self.where / "bad").write_bytes(KEY + b"x")
        (self.where / "bad").chmod(0o600)
        printed = b""
        for key in ("key", "hex", "passphrase", "bad"):
            for file in ("sealed.tensors", "phrase.tensors", "model.safetensors"):
                option = (
                    "--passphrase-file" if key == "passphrase" else "--key-file",
                    key,
                )
                for words in (
                    ("verify", file),
                    ("dump", file),
                    ("extract", file, "a", "-o", "out.bin"),
                    ("convert", file, "out.tensors"),
                    ("append", file, "model.safetensors"),
                    ("edit", file, "--rename", "a", "b"),
                ):
                    # append takes the key of the file by another name.
                    given = (
                        (option[0].replace("--", "--encrypt-"), option[1])
                        if words[0] == "append"
                        else option
                    )
                    ended = faulty.run((*words, *given), self.where)
                    printed += ended.output + ended.errors.encode()
        self.assertIn(b"TZR-CRY-", printed, "some of these keys are wrong")
        for secret in (
            KEY,
            KEY.hex().encode(),
            KEY.hex().upper().encode(),
            PASSPHRASE.encode(),
        ):
            self.assertTrue(secret not in printed, "a secret is printed")

    def test_a_secret_that_others_can_read_is_warned_of(self) -> None:
        self.seal()
        for mode in (0o600, 0o400, 0o640, 0o604, 0o644):
            (self.where / "key").chmod(mode)
            ended = self.tzmark("verify", "sealed.tensors", "--key-file", "key")
            warned = [line for line in ended.errors.splitlines() if WARNING in line]
            self.assertEqual(len(warned), 1 if mode & 0o044 else 0, oct(mode))
        (self.where / "passphrase").chmod(0o644)
        ended = self.tzmark(
            "verify", "phrase.tensors", "--passphrase-file", "passphrase"
        )
        self.assertEqual(ended.errors, f"tzmark: passphrase: {WARNING}\n")
        piped = subprocess.run(
            [
                "bash",
                "-c",
                f'"{faulty.TZMARK}" verify -q sealed.tensors --key-file <(cat key)',
            ],
            cwd=self.where,
            capture_output=True,
            text=True,
        )
        self.assertEqual((piped.returncode, piped.stderr), (0, ""))

    def test_outputs_have_the_mode_that_umask_leaves(self) -> None:
        for mask in (0o022, 0o027, 0o077):
            before = os.umask(mask)
            try:
                name = f"out-{mask}.tensors"
                self.tzmark(
                    "convert", "model.safetensors", name, "--encrypt-key-file", "key"
                )
                self.tzmark("extract", "model.safetensors", "a", "-o", f"{name}.bin")
            finally:
                os.umask(before)
            for file in (name, f"{name}.bin"):
                mode = stat.S_IMODE((self.where / file).stat().st_mode)
                self.assertEqual(mode, 0o666 & ~mask, file)

    def files_of(self, pid: int) -> dict[tuple[int, int], Path]:
        """Every regular file that the process has open, and every one below the directory, by its identity."""
        found = {}
        for path in [*Path(f"/proc/{pid}/fd").iterdir(), *self.where.rglob("*")]:
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                found[status.st_dev, status.st_ino] = path
        return found

    def test_no_file_has_plaintext_while_a_model_is_encrypted(self) -> None:
        status = os.stat(self.where / "model.safetensors")
        source = (status.st_dev, status.st_ino)
        for extra in ([], ["--split", "--layout", "v5-segments"]):
            encrypt = ["--encrypt-key-file", "key", *extra]
            words = ["convert", "model.safetensors", "out.tensors", *encrypt]
            calls = stopped.calls_of(words, self.where)
            self.assertGreater(len(calls), 4)
            for call in range(1, len(calls) + 1):
                for name in ("out.tensors", "out.tensors.data"):
                    (self.where / name).unlink(missing_ok=True)
                with stopped.stopped_at(call, words, self.where) as process:
                    files = self.files_of(process.pid)
                    self.assertIn(PLAINTEXT, files.pop(source).read_bytes())
                    for path in files.values():
                        self.assertTrue(
                            PLAINTEXT not in path.read_bytes(), f"{path} at call {call}"
                        )
                for path in self.where.glob("out.tensors*.tmp-*"):
                    path.unlink()


if __name__ == "__main__":
    unittest.main(verbosity=2)
