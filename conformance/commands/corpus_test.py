#!/usr/bin/env python3
"""Tests of tzmark corpus, and of the installed cases of another format."""

from __future__ import annotations

import os
import shlex
import unittest

from conform_fixture import MODEL, SOURCE, CorpusTest, conform


class Corpus(CorpusTest):
    def test_the_installed_cases_of_another_format(self) -> None:
        file = SOURCE / "reference/safetensors/cases/one.safetensors"
        model = shlex.quote(str(MODEL))
        run = conform("corpus", "list", "--format", "safetensors")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("st-overlap\tsafetensors\tmalformed\t\n", run.stdout)
        run = conform(
            *("--format", "safetensors", "--only", "st-overlap"),
            *("--adapter", f"{model} --without ST-014 --without ST-015"),
        )
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("accepted-invalid st-overlap (ST-014)", run.stdout)
        self.assertRegex(run.stdout, "byte 61: tensor 1: name, .* = 'b'")
        for words in (
            ("--format", "gguf"),
            ("--format", ""),
            ("--format", "safetensors", "--corpus", self.corpus),
            ("--format", "safetensors", "--file", file),
        ):
            run = conform(*words)
            self.assertEqual((run.returncode, run.stdout), (2, ""), run.stderr)

    def test_corpus_list_check_export(self) -> None:
        run = conform("corpus", "list", "--corpus", self.corpus)
        self.assertEqual(run.stdout.splitlines()[0], "valid\tv1\tvalid\t")
        self.assertEqual(len(run.stdout.splitlines()), 6)
        run = conform("corpus", "list", "--corpus", self.corpus, "--only", "*valid")
        self.assertEqual(
            [line.split("\t")[0] for line in run.stdout.splitlines()],
            ["valid", "invalid"],
        )
        run = conform("corpus", "list", "--corpus", self.corpus, "--only", "!*valid")
        self.assertEqual(len(run.stdout.splitlines()), 4)
        run = conform("corpus", "check", "--corpus", self.corpus)
        self.assertEqual((run.returncode, run.stdout), (0, "6 cases, 0 wrong\n"))
        target = self.directory / "exported"
        run = conform("corpus", "export", target, "--corpus", self.corpus)
        self.assertEqual(run.returncode, 0, run.stderr)
        run = conform("corpus", "check", "--corpus", target)
        self.assertEqual(run.returncode, 0, run.stdout)
        # Nothing is overwritten.
        run = conform("corpus", "export", target, "--corpus", self.corpus)
        self.assertEqual(run.returncode, 2)
        (target / "valid.bin").write_text("changed")
        (target / "valid.json").unlink()
        run = conform("corpus", "check", "--corpus", target)
        self.assertEqual(run.returncode, 1)
        self.assertIn("6 cases, 1 wrong", run.stdout)
        self.assertEqual(conform("corpus").returncode, 2)
        self.assertEqual(conform("corpus", "burn").returncode, 2)

    def test_a_corpus_of_a_stranger(self) -> None:
        secret = self.directory / "secret"
        secret.write_text("secret")
        readme, target = self.corpus / "README.md", self.directory / "exported"
        readme.unlink(missing_ok=True)
        readme.symlink_to(secret)
        run = conform("corpus", "export", target, "--corpus", self.corpus)
        self.assertEqual(run.returncode, 3, run.stdout)
        self.assertIn("README.md: a link is not exported", run.stderr)
        self.assertFalse((target / "README.md").exists())
        readme.unlink()
        manifest = self.corpus / "manifest.json"
        manifest.unlink()
        os.mkfifo(manifest)
        for words in (("corpus", "list"), ("corpus", "export", target), ("--list",)):
            run = conform(*words, "--corpus", self.corpus)
            self.assertEqual((run.returncode, run.stdout), (3, ""), words)
            self.assertIn("manifest.json: is not a file", run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
