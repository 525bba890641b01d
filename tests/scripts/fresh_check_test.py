"""How scripts/fresh-check takes its arguments, and what it says if a system cannot be made; it checks nothing here."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/fresh-check"


class Arguments(unittest.TestCase):
    def test_a_step_is_no_value_of_an_option(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            for option in ("--ccache", "--dir"):
                done = subprocess.run(
                    [SCRIPT, option, "setup", "run"],
                    cwd=directory,
                    capture_output=True,
                    text=True,
                )
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(
                    f"{option} needs a value, and setup is a step", done.stderr
                )
            self.assertEqual(list(Path(directory).iterdir()), [])

    def test_a_system_that_cannot_be_made_is_the_environments(self) -> None:
        """Status 3, which .ci/run takes for no failure of the commit, and not 1."""
        mounts = subprocess.run(["unshare", "--mount", "true"], capture_output=True)
        if os.geteuid() != 0 or mounts.returncode != 0:
            self.skipTest("needs to be root, with the right to mount")
        with tempfile.TemporaryDirectory() as directory:
            tools, systems = Path(directory, "tools"), Path(directory, "systems")
            tools.mkdir()
            (tools / "debootstrap").write_text(
                f'#!/bin/sh\necho "$*" >>{directory}/tried\nexit 1\n'
            )
            (tools / "debootstrap").chmod(0o755)
            for suites, tried in (("trixie", 1), ("bookworm,trixie", 2)):
                done = subprocess.run(
                    [SCRIPT, "--suite", suites, "--mirror", "http://localhost:9/none"]
                    + ["--dir", systems, "--way", "container", "setup"],
                    env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"},
                    capture_output=True,
                    text=True,
                )
                self.assertEqual(done.returncode, 3, done.stderr)
                # The first of several ends the check.
                first = suites.partition(",")[0]
                self.assertIn(f"cannot make a bare {first} from http://", done.stderr)
                calls = Path(directory, "tried").read_text().splitlines()
                self.assertEqual(len(calls), tried)
                self.assertIn(f" {first} {systems}", calls[-1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
