"""How scripts/fresh-check takes its arguments; it checks nothing here."""

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


if __name__ == "__main__":
    unittest.main()
