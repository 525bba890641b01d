#!/usr/bin/env python3
"""Tests of the command line of tzmark-conform: what it checks, and where it prints."""

from __future__ import annotations

import subprocess
import unittest

from conform_fixture import BUILD, CONFORM, conform


class CommandLineTest(unittest.TestCase):
    """Checks of a command line, and where the program prints."""

    def test_an_empty_value_is_not_taken_for_an_option_that_was_not_given(self) -> None:
        for words in (
            ("--adapter", ""),
            ("--corpus", ""),
            ("--only", ""),
            ("--layout", ""),
            ("mutate", "--findings", ""),
            ("against", "--with", ""),
            ("--json", ""),
            ("--html", ""),
            ("--junit="),
            ("--tap="),
            ("--badge", ""),
            ("--summary", ""),
            ("--diff", "", "x"),
            ("corpus", "export", ""),
            ("corpus", "list", "--corpus", ""),
            ("minimize", "file", "--key-file", ""),
            ("minimize", ""),
        ):
            run = conform(*([words] if isinstance(words, str) else words))
            self.assertEqual((run.returncode, run.stdout), (2, ""), words)
            self.assertIn("the value is empty", run.stderr, words)

    def test_what_nothing_knows_is_named(self) -> None:
        for words, text in (
            (("corpus", "exprt"), "unknown command 'exprt'; did you mean 'export'?"),
            (("corpus", "burn"), "unknown command 'burn'"),
            (("--jsn", "x"), "unknown option '--jsn'; did you mean '--json'?"),
            (("minimize", "a", "b"), "one argument too many: 'b'"),
            (("a\x1b[2J\u202e",), "one argument too many: 'a\\x1b[2J\\xe2\\x80\\xae'"),
        ):
            run = conform(*words)
            self.assertEqual((run.returncode, run.stdout), (2, ""), words)
            self.assertEqual(run.stderr, f"tzmark-conform: {text}\n")

    def test_each_command_has_its_own_options(self) -> None:
        for words in (
            ("conform", "--count", "5"),
            ("conform", "--with", "x"),
            ("mutate",),
            ("mutate", "--count", "5", "--html", "x"),
            ("mutate", "--count", "5", "--max-skipped", "5"),
            ("mutate", "--mutation", "5", "--stop-at-first"),
            ("against", "--count", "5"),
            ("against", "--with", "x", "--mutation", "5"),
            ("against", "--with", "x", "--list"),
            ("minimize", "file", "--seed", "3"),
        ):
            run = conform(*words)
            self.assertEqual((run.returncode, run.stdout), (2, ""), words)
        for command in ("conform", "corpus", "mutate", "against", "minimize"):
            run = conform(command, "--help")
            self.assertEqual(run.returncode, 0)
            self.assertIn("Exit status:", run.stdout)
            through_tzmark = subprocess.run(
                [BUILD / "bin/tzmark", command, "--help"],
                capture_output=True,
                text=True,
            )
            self.assertEqual(through_tzmark.stdout, run.stdout)

    def test_options_for_local_files_take_no_url(self) -> None:
        url = "https://user:password@host.example/file"
        conforms = ("--corpus", "--json", "--html", "--junit", "--keep", "--known")
        conforms += ("--profile", "--tap", "--badge", "--summary")
        keys = ("--key-file", "--passphrase-file")
        for words in (
            *((option, url) for option in conforms),
            *(("--file", "x", option, url) for option in keys),
            *(("minimize", "x", option, url) for option in (*keys, "--out", "--json")),
            ("mutate", "--count", "1", "--findings", url),
            ("against", "--with", "x", "--findings", url),
            ("corpus", "list", "--corpus", url),
            ("corpus", "export", url),
        ):
            run = conform(*words)
            self.assertEqual((run.returncode, run.stdout), (2, ""), words)
            self.assertIn(f"{words[-2]}: a URL", run.stderr.replace("DIR:", "export:"))
            self.assertNotIn("password", run.stderr.replace("--passphrase-file", ""))

    def test_stderr_that_is_full_or_closed_ends_nothing(self) -> None:
        with open("/dev/full", "wb") as full:
            done = subprocess.run([CONFORM, "--only", "nothing"], stderr=full)
        self.assertEqual(done.returncode, 2)
        shell = ("sh", "-c", 'exec "$0" --only nothing 2>&-', CONFORM)
        self.assertEqual(subprocess.run(shell).returncode, 2)

    def test_text_that_cannot_be_printed_is_an_error(self) -> None:
        for command in ("corpus list", "--list", "--help"):
            for to in (">/dev/full", ">&-"):
                done = subprocess.run(
                    ("sh", "-c", f'exec "$0" {command} {to}', CONFORM),
                    capture_output=True,
                    text=True,
                )
                self.assertEqual(done.returncode, 3, (command, to))
                self.assertIn("stdout cannot be written", done.stderr)

    def test_help_and_version(self) -> None:
        run = conform("--help")
        self.assertEqual(run.returncode, 0)
        self.assertIn("Exit status:", run.stdout)
        self.assertRegex(conform("--version").stdout, r"^tzmark-conform \d+\.\d+\.\d+")


if __name__ == "__main__":
    unittest.main(verbosity=2)
