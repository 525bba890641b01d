#!/usr/bin/env python3
"""Tests of scripts/shell-files: manual pages that are clean, and completions that each shell makes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
COMMANDS = {
    *("inspect", "dump", "verify", "convert", "extract", "append", "edit"),
    *("checkpoint", "conform", "corpus", "mutate", "against", "minimize"),
    *("bench", "tune", "compare", "history", "report"),
}


def run(*words: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, words)], capture_output=True, text=True, timeout=300, **options
    )


def needs(program: str) -> None:
    if not shutil.which(program):
        raise unittest.SkipTest(f"no {program} here: apt-get install {program}")


class ShellFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        directory = tempfile.TemporaryDirectory(prefix="tzmark-shell-files-")
        cls.addClassCleanup(directory.cleanup)
        cls.files = Path(directory.name) / "a prefix"
        made = run(SOURCE / "scripts/shell-files", "--build", BUILD, "-o", cls.files)
        if made.returncode != 0:
            raise AssertionError(made.stderr)

    def test_every_command_has_a_page_with_its_options(self) -> None:
        pages = {file.stem for file in (self.files / "man/man1").iterdir()}
        self.assertEqual(
            {page for page in pages if page.count("-") == 1},
            {f"tzmark-{name}" for name in COMMANDS},
        )
        self.assertIn("tzmark", pages)
        self.assertIn("tzmark-checkpoint-list", pages)
        for words in (
            ("convert",),
            ("conform",),
            ("bench",),
            ("bench", "against"),
            ("checkpoint", "simulate"),
            ("tune",),
            ("history",),
        ):
            page = (self.files / f"man/man1/tzmark-{'-'.join(words)}.1").read_text()
            said = page.replace("\\-", "-")
            help_text = run(BUILD / "bin/tzmark", *words, "--help").stdout
            options = set(re.findall(r"(?m)^  (?:-\w, ?)?(--[\w-]+)", help_text))
            self.assertGreater(len(options), 3, words)
            for option in options:
                self.assertIn(option, said, words)

    def test_pages_are_clean(self) -> None:
        needs("groff")
        for page in (self.files / "man/man1").iterdir():
            done = run("groff", "-man", "-Tutf8", "-ww", "-z", page)
            self.assertEqual((done.returncode, done.stderr), (0, ""), page.name)

    def completed_by_bash(self, *words: str) -> list[str]:
        script = (
            'compopt() { echo "compopt $*"; }; source "$1"; shift; '
            'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tzmark 2>&1; '
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = run("bash", "-c", script, "bash", self.completions(), *words)
        return done.stdout.split()

    def completions(self) -> Path:
        return self.files / "bash-completion/completions/tzmark"

    def test_bash(self) -> None:
        self.assertEqual(self.completed_by_bash("tzmark", "conv"), ["convert"])
        self.assertEqual(set(self.completed_by_bash("tzmark", "")), COMMANDS)
        self.assertEqual(
            self.completed_by_bash("tzmark", "checkpoint", "ver"), ["verify"]
        )
        found = self.completed_by_bash("tzmark", "conform", "--ju")
        self.assertEqual(found, ["--junit"])
        found = self.completed_by_bash(
            "tzmark", "checkpoint", "simulate", "--commit", ""
        )
        self.assertEqual(found, ["auto", "rename", "marker"])
        words = ("tzmark", "checkpoint", "simulate", "--commit", "=", "re")
        self.assertEqual(self.completed_by_bash(*words), ["rename"])
        # The value of an option that takes one is no option.
        found = self.completed_by_bash("tzmark", "convert", "--io", "--la")
        self.assertEqual(found, ["compopt", "-o", "default"])

    def test_zsh(self) -> None:
        needs("zsh")
        script = (
            "_arguments() { print -rl -- $words -- $@ }; "
            'file=$1; shift; words=("$@"); CURRENT=$#; source $file'
        )
        file = self.files / "zsh/site-functions/_tzmark"
        for words, expected in (
            (("tzmark", "convert", ""), "--layout["),
            (("tzmark", "checkpoint", "simulate", ""), ":TEXT:(auto rename marker)"),
            (("tzmark", ""), "1:command:{_describe command commands_}"),
        ):
            done = run("zsh", "-f", "-c", script, "zsh", file, *words)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            self.assertIn(expected, done.stdout)
            self.assertEqual(
                done.stdout.splitlines()[0], words[-2] if len(words) > 1 else ""
            )

    def test_fish(self) -> None:
        needs("fish")
        file = self.files / "fish/vendor_completions.d/tzmark.fish"
        for line, expected in (
            ("tzmark conv", ["convert"]),
            ("tzmark checkpoint ver", ["verify"]),
            ("tzmark conform --jun", ["--junit"]),
            ("tzmark checkpoint simulate --commit re", ["rename"]),
        ):
            script = f"source $argv[1]; complete -C {line!r}"
            done = run("fish", "--no-config", "-c", script, file)
            self.assertEqual((done.returncode, done.stderr), (0, ""), line)
            found = [one.split("\t")[0] for one in done.stdout.splitlines()]
            self.assertEqual(found, expected)

    def test_wrong_usage(self) -> None:
        script = SOURCE / "scripts/shell-files"
        self.assertEqual(run(script, "--other").returncode, 2)
        self.assertEqual(run(script, "--build", self.files).returncode, 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
