#!/usr/bin/env python3
"""Does "tzmark convert" keep a model whole when it replaces another and fails, is interrupted or is killed?

Each way to replace one runs under kill_at once for each of its calls that change something on disk: killed there,
failing there, and with SIGTERM there. After a failure or SIGTERM the old or the new model is whole and nothing else is
in its directory. After a kill the same holds but for temporary files; of a split pair, whose two names cannot change at
one moment, the halves may be apart, and the rule of FORMAT.md puts the old or the new one together.

All of it also as on a file system that can neither exchange two names nor make a file without a name, as NFS.

Further: shards that cannot be replaced (chattr +i), file systems without hard links (vfat, and kill_at in its place),
modes, owners, access control lists, temporary files at signals.
"""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from preload import preloadable

SOURCE = Path(os.environ.get("TZMARK_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("TZMARK_BUILD_DIR", SOURCE / "build"))
SHARDS = 3
ENVIRONMENT, UNAVAILABLE = 3, 4
ACL = "system.posix_acl_access"

options = argparse.Namespace()


def run(*words: object, **variables: object) -> subprocess.CompletedProcess[str]:
    """Runs tzmark; with variables, under kill_at."""
    environment = dict(os.environ)
    if variables:
        environment["LD_PRELOAD"] = str(options.preloaded)
        for name, value in variables.items():
            environment["TZMARK_TEST_" + name.upper()] = str(value)
    return subprocess.run(
        [str(options.tzmark), *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
    )


def succeed(*words: object, **variables: object) -> str:
    done = run(*words, **variables)
    if done.returncode != 0:
        raise AssertionError(f"{words} exits {done.returncode}: {done.stderr}")
    return done.stdout


def write_source(file: Path, seed: int) -> None:
    """A safetensors file of SHARDS tensors of 1000 bytes each, the same names and shapes for every seed."""
    names = [f"layer.{i}" for i in range(SHARDS)]
    entries = ",".join(
        f'"{name}":{{"dtype":"U8","shape":[1000],"data_offsets":[{1000 * i},{1000 * i + 1000}]}}'
        for i, name in enumerate(names)
    )
    header = ("{" + entries + "}").encode()
    header += b" " * (-len(header) % 8)
    data = b"".join(bytes([seed + i]) * 1000 for i in range(SHARDS))
    file.write_bytes(len(header).to_bytes(8, "little") + header + data)


@dataclass(frozen=True)
class Way:
    """One way to replace a model: what is written, how the old one was written, and how both are read."""

    name: str
    output: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    read: str  # what dump is given
    data_file: str = ""

    def write(
        self, source: Path, directory: Path, new: bool, **variables: object
    ) -> subprocess.CompletedProcess[str]:
        words = self.new if new else self.old
        return run("convert", source, directory / self.output, *words, **variables)

    def content(self, directory: Path) -> str | None:
        """What a reader finds; nothing if it refuses."""
        words = ["--data-file", directory / self.data_file] if self.data_file else []
        done = run("dump", directory / self.read, *words)
        return done.stdout if done.returncode == 0 else None


NFS_LACKS = "O_TMPFILE renameat2"
INDEX = "model.safetensors.index.json"
WAYS = (
    Way("one file", "model.tensors", (), (), "model.tensors"),
    Way(
        "shards of the same names",
        "model.safetensors",
        ("--shard-bytes", "1000"),
        ("--shard-bytes", "1000"),
        INDEX,
    ),
    Way(
        "shards of other names",
        "model.safetensors",
        ("--shard-bytes", "1000"),
        ("--shard-bytes", "2000"),
        INDEX,
    ),
    Way(
        "a split pair",
        "model.tensors",
        ("--layout", "v5-segments", "--split"),
        ("--layout", "v5-segments", "--split"),
        "model.tensors",
        "model.tensors.data",
    ),
)


# Held while several names change.
LOCK = ".tzmark-lock"


def names_of(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def mend_pair(directory: Path) -> None:
    """The rule of FORMAT.md: the temporary file that belongs to the head, or to the data file, takes its place."""
    for leftover in sorted(directory.glob("*.tmp-*")):
        target = directory / leftover.name.split(".tmp-")[0]
        spare = directory / "spare"
        target.rename(spare)
        leftover.rename(target)
        if WAYS[3].content(directory) is not None:
            spare.unlink()
            return
        target.rename(leftover)
        spare.rename(target)


class ReplaceTest(unittest.TestCase):
    def setUp(self) -> None:
        self.room = Path(tempfile.mkdtemp(prefix="tzmark-replace-", dir=BUILD))
        self.addCleanup(shutil.rmtree, self.room)
        self.known: dict[tuple[str, bool], tuple[str, set[str]]] = {}
        self.sources: dict[str, Path] = {}
        for name, seed in (("old", 1), ("new", 101)):
            self.sources[name] = self.room / f"{name}.safetensors"
            write_source(self.sources[name], seed)

    @contextmanager
    def replaced(self, way: Way) -> Iterator[Path]:
        """A directory with the old model in it."""
        directory = Path(tempfile.mkdtemp(dir=self.room))
        try:
            done = way.write(self.sources["old"], directory, new=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            yield directory
        finally:
            shutil.rmtree(directory)

    def whole(self, way: Way, new: bool) -> tuple[str, set[str]]:
        """What a reader finds in a directory to which only one model was ever written, and the names there."""
        if (way.name, new) in self.known:
            return self.known[way.name, new]
        directory = Path(tempfile.mkdtemp(dir=self.room))
        source = self.sources["new" if new else "old"]
        done = way.write(source, directory, new)
        self.assertEqual(done.returncode, 0, done.stderr)
        content = way.content(directory)
        assert content is not None
        self.known[way.name, new] = content, names_of(directory)
        return self.known[way.name, new]

    def calls(self, way: Way, **variables: object) -> list[str]:
        names = self.room / "names"
        with self.replaced(way) as directory:
            done = way.write(
                self.sources["new"], directory, True, names_to=names, **variables
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            content, names_there = self.whole(way, new=True)
            self.assertEqual(way.content(directory), content)
            self.assertEqual(names_of(directory), names_there)
        return names.read_text().split()

    def at_each_call(
        self, variable: str, check: Callable[[Way, Path, int, str, str], str]
    ) -> None:
        for way, lacks in [(way, "") for way in WAYS] + [
            (WAYS[1], NFS_LACKS),
            (WAYS[3], NFS_LACKS),
        ]:
            found: dict[str, int] = {}
            calls = self.calls(way, lacks=lacks)
            for number, name in enumerate(calls, start=1):
                with self.subTest(
                    way=way.name, lacks=lacks, call=number, name=name
                ), self.replaced(way) as directory:
                    done = way.write(
                        self.sources["new"],
                        directory,
                        True,
                        lacks=lacks,
                        **{variable: number, "fail_with": errno.EIO},
                    )
                    what = check(way, directory, done.returncode, done.stderr, name)
                    found[what] = found.get(what, 0) + 1
            print(f"{variable}, {way.name}, lacking '{lacks}': {found}", flush=True)
            # A test that sees one outcome only proves nothing.
            self.assertGreater(found.get("old", 0), 0, way.name)
            self.assertGreater(found.get("new", 0), 0, way.name)

    def which(self, way: Way, directory: Path) -> str:
        """Whether the old or the new model is there and whole."""
        content = way.content(directory)
        for name in ("old", "new"):
            if content == self.whole(way, new=name == "new")[0]:
                return name
        raise AssertionError(
            f"neither the old nor the new model can be read: {sorted(names_of(directory))}"
        )

    def test_a_failing_call(self) -> None:
        def check(
            way: Way, directory: Path, status: int, errors: str, call: str
        ) -> str:
            which = self.which(way, directory)
            names = self.whole(way, new=which == "new")[1]
            self.assertTrue(names <= names_of(directory))
            if status == 0:
                # Only a call whose failure means nothing, such as one that asks for a file without a name.
                self.assertEqual(which, "new")
                # A lock file that cannot be removed does not exclude the next one.
                stays = {LOCK} if call == "unlinkat" else set()
                self.assertEqual(names_of(directory) - stays, names)
                return "new"
            self.assertEqual(status, ENVIRONMENT, errors)
            if which == "old" and call != "unlinkat":
                # What cannot be removed stays, and what is complete if the lock cannot be had.
                stays = set()
                if "are complete and stay as" in errors:
                    stays = {name for name in names_of(directory) if ".tmp-" in name}
                    stays |= {LOCK}
                self.assertEqual(names_of(directory) - stays, names)
            return which

        self.at_each_call("fail_at", check)

    def test_a_kill(self) -> None:
        def check(
            way: Way, directory: Path, status: int, errors: str, call: str
        ) -> str:
            self.assertEqual(status, -signal.SIGKILL, errors)
            if way.data_file and way.content(directory) is None:
                mend_pair(directory)
            which = self.which(way, directory)
            # It can be done again, and then nothing of the model that was replaced has a lasting name.
            done = way.write(self.sources["new"], directory, True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.which(way, directory), "new")
            lasting = {name for name in names_of(directory) if ".tmp-" not in name}
            names = self.whole(way, new=True)[1]
            if which == "new" and way is WAYS[2]:
                # Killed while it removed old shards, which no index names any more.
                lasting -= self.whole(way, new=False)[1] - names
            self.assertEqual(lasting, names)
            return which

        self.at_each_call("kill_at", check)

    def test_a_signal(self) -> None:
        def check(
            way: Way, directory: Path, status: int, errors: str, call: str
        ) -> str:
            self.assertEqual(status, -signal.SIGTERM, errors)
            which = self.which(way, directory)
            self.assertEqual(
                names_of(directory), self.whole(way, new=which == "new")[1]
            )
            return which

        self.at_each_call("term_at", check)

    def test_a_shard_that_cannot_be_replaced(self) -> None:
        way = WAYS[1]
        for number in range(1, SHARDS + 1):
            with self.replaced(way) as directory:
                shard = directory / f"model-{number:05}-of-{SHARDS:05}.safetensors"
                if not self.made_immutable(shard):
                    self.skipTest("files cannot be made immutable here (chattr +i)")
                try:
                    done = way.write(self.sources["new"], directory, True)
                finally:
                    subprocess.run(["chattr", "-i", shard], check=True)
                self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
                self.assertIn(shard.name, done.stderr)
                self.assertEqual(self.which(way, directory), "old")
                self.assertEqual(names_of(directory), self.whole(way, new=False)[1])

    def made_immutable(self, file: Path) -> bool:
        if shutil.which("chattr") is None:
            return False
        return (
            subprocess.run(["chattr", "+i", file], capture_output=True).returncode == 0
        )

    def test_a_file_system_without_hard_links(self) -> None:
        for lacks in ("O_TMPFILE linkat", "O_TMPFILE linkat renameat2"):
            with tempfile.TemporaryDirectory(dir=self.room) as directory:
                self.check_without_hard_links(Path(directory), lacks=lacks)

    def test_vfat(self) -> None:
        with self.vfat() as mounted:
            self.check_without_hard_links(mounted)

    def test_the_first_process_of_a_container_ends(self) -> None:
        """The kernel keeps signals that PID 1 does not handle from it."""
        apart = ["unshare", "--pid", "--fork", "--kill-child"]
        if (
            shutil.which("unshare") is None
            or subprocess.run([*apart, "true"], capture_output=True).returncode != 0
        ):
            self.skipTest("no process namespace can be made here (unshare --pid)")
        count = len(self.calls(WAYS[0]))
        for number in range(1, count + 1):
            with self.replaced(WAYS[0]) as directory:
                done = subprocess.run(
                    [
                        *apart,
                        "env",
                        f"LD_PRELOAD={options.preloaded}",
                        f"TZMARK_TEST_TERM_AT={number}",
                        str(options.tzmark),
                        "convert",
                        str(self.sources["new"]),
                        str(directory / WAYS[0].output),
                    ],
                    capture_output=True,
                    text=True,
                    timeout=120,
                )
                self.assertEqual(done.returncode, 128 + signal.SIGTERM, done.stderr)
                which = self.which(WAYS[0], directory)
                self.assertEqual(
                    names_of(directory), self.whole(WAYS[0], new=which == "new")[1]
                )

    def check_without_hard_links(self, place: Path, **lacks: str) -> None:
        """Nothing is lost: a model is replaced, or kept with a reason (exit 4)."""
        for way in WAYS:
            directory = place / way.name.replace(" ", "-")
            directory.mkdir()
            done = way.write(self.sources["old"], directory, False, **lacks)
            self.assertEqual(done.returncode, 0, done.stderr)
            words = ("convert", self.sources["new"], directory / way.output, *way.old)
            done = run(*words, "--no-clobber", **lacks)
            self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
            self.assertIn("exists already", done.stderr)
            self.assertEqual(self.which(way, directory), "old")
            done = way.write(self.sources["new"], directory, True, **lacks)
            if done.returncode == UNAVAILABLE:
                self.assertIn(way, (WAYS[1], WAYS[3]))
                self.assertIn("remove", done.stderr)
                self.assertEqual(self.which(way, directory), "old")
                # Known before anything is written.
                names = self.room / "names"
                way.write(self.sources["new"], directory, True, names_to=names, **lacks)
                calls = names.read_text().split()
                self.assertFalse([call for call in calls if "write" in call], calls)
                self.assertFalse([call for call in calls if "uring" in call], calls)
            else:
                self.assertIsNot(way, WAYS[1])
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.which(way, directory), "new")
            fresh = directory / "fresh.tensors"
            done = run("convert", self.sources["new"], fresh, "--no-clobber", **lacks)
            self.assertIn(done.returncode, (0, UNAVAILABLE), done.stderr)
            self.assertEqual(fresh.exists(), done.returncode == 0)
            if "renameat2" not in str(lacks):
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertFalse([name for name in names_of(directory) if ".tmp-" in name])

    @contextmanager
    def vfat(self) -> Iterator[Path]:
        if shutil.which("mkfs.vfat", path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
            self.skipTest("there is no mkfs.vfat (dosfstools)")
        image, mounted = self.room / "image", self.room / "mounted"
        image.write_bytes(b"")
        os.truncate(image, 16 << 20)
        mounted.mkdir()
        subprocess.run(
            ["mkfs.vfat", str(image)],
            check=True,
            capture_output=True,
            env={**os.environ, "PATH": "/usr/sbin:/sbin:/usr/bin:/bin"},
        )
        done = subprocess.run(
            ["mount", "-o", "loop", image, mounted], capture_output=True, text=True
        )
        if done.returncode != 0:
            self.skipTest(f"vfat cannot be mounted: {done.stderr.strip()}")
        try:
            yield mounted
        finally:
            subprocess.run(["umount", mounted], check=True)

    def test_modes_are_kept(self) -> None:
        for way in WAYS:
            for mode in (0o600, 0o640, 0o666):
                with self.replaced(way) as directory:
                    for name in names_of(directory):
                        (directory / name).chmod(mode)
                    before = {name: mode for name in names_of(directory)}
                    done = way.write(self.sources["new"], directory, True)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    for name in names_of(directory) & set(before):
                        found = stat.S_IMODE((directory / name).stat().st_mode)
                        self.assertEqual(oct(found), oct(mode), name)

    def test_an_owner_is_kept(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can give files away")
        with self.replaced(WAYS[0]) as directory:
            file = directory / WAYS[0].output
            os.chown(file, 65534, 65533)
            file.chmod(0o640)
            WAYS[0].write(self.sources["new"], directory, True)
            status = file.stat()
            self.assertEqual((status.st_uid, status.st_gid), (65534, 65533))
            self.assertEqual(stat.S_IMODE(status.st_mode), 0o640)

    def test_an_owner_is_kept_without_the_right_to_change_files_of_others(
        self,
    ) -> None:
        without = ["setpriv", "--bounding-set=-fowner", "--inh-caps=-fowner"]
        if (
            os.geteuid() != 0
            or shutil.which("setpriv") is None
            or subprocess.run([*without, "true"], capture_output=True).returncode != 0
        ):
            self.skipTest("only root can give up CAP_FOWNER (setpriv)")
        for mode in (0o640, 0o600, 0o666):
            with self.replaced(WAYS[0]) as directory:
                file = directory / WAYS[0].output
                file.chmod(mode)
                os.chown(file, 65534, 65533)
                words = [
                    *without,
                    options.tzmark,
                    "convert",
                    self.sources["new"],
                    file,
                ]
                done = subprocess.run(
                    list(map(str, words)), capture_output=True, text=True
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.which(WAYS[0], directory), "new")
                status = file.stat()
                self.assertEqual((status.st_uid, status.st_gid), (65534, 65533))
                self.assertEqual(oct(stat.S_IMODE(status.st_mode)), oct(mode))

    def test_an_access_control_list_is_kept(self) -> None:
        def entry(tag: int, permissions: int, number: int = 0xFFFFFFFF) -> bytes:
            return (
                tag.to_bytes(2, "little")
                + permissions.to_bytes(2, "little")
                + number.to_bytes(4, "little")
            )

        acl = (
            (2).to_bytes(4, "little")
            + entry(0x01, 6)
            + entry(0x02, 4, 12345)
            + entry(0x04, 0)
            + entry(0x10, 4)
            + entry(0x20, 0)
        )
        with self.replaced(WAYS[0]) as directory:
            file = directory / WAYS[0].output
            try:
                os.setxattr(file, ACL, acl)
            except OSError as error:
                self.skipTest(f"no access control lists here: {error}")
            WAYS[0].write(self.sources["new"], directory, True)
            self.assertEqual(os.getxattr(file, ACL), acl)
            # A file without one gets none from its directory.
            os.removexattr(file, ACL)
            file.chmod(0o600)
            os.setxattr(directory, "system.posix_acl_default", acl)
            WAYS[0].write(self.sources["new"], directory, True)
            self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
            self.assertNotIn(ACL, os.listxattr(file))
            # A new file is open to those whom the directory names, as any other program's is.
            run("convert", self.sources["new"], directory / "fresh.tensors")
            self.assertIn(ACL, os.listxattr(directory / "fresh.tensors"))

    def test_nobody_else_can_open_it_meanwhile(self) -> None:
        """What is written over a private file is private from the first byte, whatever it is called."""
        for way in WAYS:
            with self.replaced(way) as directory:
                for name in names_of(directory):
                    (directory / name).chmod(0o600)
                count = len(self.calls(way))
                for number in range(1, count + 1, 2):
                    for name in names_of(directory):
                        (directory / name).chmod(0o600)
                    way.write(self.sources["new"], directory, True, kill_at=number)
                    if way is WAYS[2]:
                        continue  # its shards have new names, for which nothing is to be kept
                    for path in directory.iterdir():
                        found = stat.S_IMODE(path.stat().st_mode)
                        self.assertEqual(oct(found), oct(0o600), path.name)

    def test_links_are_replaced_themselves(self) -> None:
        with self.replaced(WAYS[0]) as directory:
            target, link = directory / WAYS[0].output, directory / "link.tensors"
            target.chmod(0o600)
            before = target.read_bytes()
            link.symlink_to(target.name)
            succeed("convert", self.sources["new"], link)
            self.assertFalse(link.is_symlink())
            self.assertEqual(stat.S_IMODE(link.stat().st_mode), 0o600)
            self.assertEqual(target.read_bytes(), before)
            for name in ("/dev/null", "/dev/full"):
                link.unlink()
                link.symlink_to(name)
                done = run("convert", self.sources["new"], link)
                self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
                self.assertTrue(link.is_symlink())
            # What /dev/stdout is where output goes to a file: not the place of a file of its own.
            with (directory / "out").open("wb") as out:
                link.unlink()
                link.symlink_to(f"/proc/self/fd/1")
                done = subprocess.run(
                    [options.tzmark, "convert", self.sources["new"], link],
                    stdout=out,
                    stderr=subprocess.PIPE,
                )
            self.assertEqual(done.returncode, ENVIRONMENT)
            self.assertTrue(link.is_symlink())

    def test_other_files_of_an_index_stay(self) -> None:
        with self.replaced(WAYS[2]) as directory:
            index = directory / INDEX
            text = index.read_text()
            mine = directory / "config.json"
            mine.write_text("mine")
            other = directory / "other-00001-of-00003.safetensors"
            other.write_text("mine")
            index.write_text(
                text.replace(
                    '"weight_map": {',
                    '"weight_map": {"a": "config.json", "b": "other-00001-of-00003.safetensors",',
                )
            )
            done = WAYS[2].write(self.sources["new"], directory, True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(
                names_of(directory),
                self.whole(WAYS[2], new=True)[1] | {mine.name, other.name},
            )

    def test_signals_leave_nothing(self) -> None:
        """As above, but with signals to the process, which any of its threads may get."""
        directory = self.room / "interrupted"
        directory.mkdir()
        for io_path in ("buffered", "pwrite"):
            words = (
                "convert",
                self.sources["new"],
                directory / "out.tensors",
                "--io",
                io_path,
            )
            names = self.room / "names"
            succeed(*words, names_to=names)
            (directory / "out.tensors").unlink()
            synced = names.read_text().split().index("fsync") + 1
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                process = subprocess.Popen(
                    [str(options.tzmark), *map(str, words)],
                    env={
                        **os.environ,
                        "LD_PRELOAD": str(options.preloaded),
                        "TZMARK_TEST_STOP_AT": str(synced),
                    },
                    stderr=subprocess.DEVNULL,
                )
                os.waitpid(process.pid, os.WUNTRACED)
                process.send_signal(number)
                process.send_signal(signal.SIGCONT)
                self.assertEqual(process.wait(), -number)
                self.assertEqual(names_of(directory), set())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tzmark", type=Path, default=BUILD / "bin/tzmark")
    parser.add_argument(
        "--kill-at", type=Path, default=BUILD / "tests/libtzmark_kill_at.so"
    )
    options, rest = parser.parse_known_args()
    with preloadable(options.kill_at) as options.preloaded:
        program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
    sys.exit(0 if program.result.wasSuccessful() else 1)
