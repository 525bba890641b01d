"""What a name for a result may lead to, and which directories are removed."""

import errno
import os
import socket
import stat
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

from common import output_file
from common.made_directory import MadeDirectory

OTHER_USER = 65534


class OutputFile(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        self.out = self.directory / "out"
        self.secret = self.directory / "secret"
        self.secret.write_text("secret")
        self.addCleanup(os.umask, os.umask(0o022))

    def refusal(self) -> str:
        with self.assertRaises(OSError) as raised:
            output_file.write(self.out, "new")
        self.assertEqual(raised.exception.filename, str(self.out))
        self.assertEqual(list(self.directory.glob(".tzmark*")), [])
        return str(raised.exception)

    def test_creates_and_replaces(self) -> None:
        output_file.write(self.out, "new")
        self.assertEqual(stat.S_IMODE(self.out.stat().st_mode), 0o644)
        for mode in (0o600, 0o664, 0o444):
            self.out.chmod(mode)
            output_file.write(str(self.out), b"again")
            self.assertEqual(stat.S_IMODE(self.out.stat().st_mode), mode)
        self.assertEqual(self.out.read_text(), "again")
        self.assertEqual(
            {path.name for path in self.directory.iterdir()}, {"out", "secret"}
        )

    def test_replaces_a_link(self) -> None:
        for target in ("secret", "nothing"):
            self.out.symlink_to(target)
            output_file.write(self.out, "new")
            self.assertFalse(self.out.is_symlink())
            self.out.unlink()
        os.link(self.secret, self.out)
        output_file.write(self.out, "new")
        self.assertEqual(self.secret.read_text(), "secret")
        self.assertFalse((self.directory / "nothing").exists())

    def test_refuses_what_is_no_file(self) -> None:
        self.out.mkdir()
        self.assertIn("Is a directory", self.refusal())
        self.out.rmdir()
        for target, reason in (
            ("/", "Is a directory"),
            ("/dev/null", "neither a file"),
        ):
            self.out.symlink_to(target)
            self.assertIn(reason, self.refusal())
            self.out.unlink()
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(self.out))
            self.assertIn("neither a file", self.refusal())
        self.out = self.directory / "none" / "out"
        self.assertIn("No such file", self.refusal())

    def test_devices_and_descriptors(self) -> None:
        output_file.write("/dev/null", "new")
        self.assertTrue(Path("/dev/null").is_char_device())
        with self.assertRaises(OSError) as full:
            output_file.write("/dev/full", "new")
        self.assertEqual(full.exception.errno, errno.ENOSPC)
        taken, given = os.pipe()
        for name in (f"/dev/fd/{given}", f"/proc/self/fd/{given}"):
            output_file.write(name, "new")
            self.assertEqual(os.read(taken, 8), b"new")
        os.close(taken)
        os.close(given)

    def test_fifo(self) -> None:
        os.mkfifo(self.out)
        read: list[bytes] = []
        reader = threading.Thread(target=lambda: read.append(self.out.read_bytes()))
        reader.start()
        output_file.write(self.out, b"x" * (1 << 20))
        reader.join()
        self.assertEqual(read, [b"x" * (1 << 20)])
        with mock.patch.object(output_file, "READER_WAIT_S", 0.1):
            self.assertIn("no process reads this FIFO", self.refusal())
        if os.geteuid() == 0:
            os.chown(self.out, OTHER_USER, OTHER_USER)
            self.assertIn("a FIFO of another user", self.refusal())

    def test_failure_keeps_the_old_file(self) -> None:
        self.out.write_text("old")
        for call in ("os.write", "os.fsync", "os.rename", "os.fchmod"):
            with mock.patch(call, side_effect=OSError(errno.EIO, "broken")):
                self.assertIn("broken", self.refusal())
        self.assertEqual(self.out.read_text(), "old")

    def test_directory(self) -> None:
        new = self.directory / "a/b"
        output_file.write_directory(new, {"one": b"1", "two": b"2"})
        (new / "one").unlink()
        (new / "one").symlink_to(self.secret)
        output_file.write_directory(new, {"one": b"3"})
        self.assertEqual((new / "one").read_text(), "3")
        self.assertEqual((new / "two").read_text(), "2")
        self.assertEqual(self.secret.read_text(), "secret")


class Made(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.parent = Path(scratch.name)
        self.foreign = self.parent / "foreign"
        (self.foreign / "below").mkdir(parents=True)
        (self.foreign / "below/file").write_text("theirs")

    def test_removes_its_content_and_follows_no_link(self) -> None:
        with MadeDirectory(self.parent) as made:
            self.assertEqual(stat.S_IMODE(made.path.stat().st_mode), 0o700)
            (made.path / "a/b").mkdir(parents=True)
            (made.path / "a/b/file").write_text("own")
            (made.path / "link").symlink_to(self.foreign)
            (made.path / "a/link").symlink_to(self.foreign)
        self.assertFalse(made.path.exists())
        self.assertTrue((self.foreign / "below/file").exists())

    def test_refuses_a_name_that_exists(self) -> None:
        with self.assertRaises(FileExistsError):
            MadeDirectory(self.parent, name="foreign")

    def test_leaves_what_has_taken_its_name(self) -> None:
        made = MadeDirectory(self.parent)
        (made.path / "own").write_text("own")
        moved = made.path.rename(self.parent / "moved")
        self.foreign.rename(made.path)
        with self.assertRaisesRegex(OSError, "another process has renamed it"):
            made.remove()
        self.assertTrue((made.path / "below/file").exists())
        self.assertEqual(list(moved.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
