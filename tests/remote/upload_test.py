#!/usr/bin/env python3
"""Writes models to S3: all of an object appears or nothing of it, whatever the server does, and no part stays there."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import fake_s3
from fake_s3 import Fault
from setting import (
    ENVIRONMENT,
    FINE,
    QUICK,
    TZMARK,
    UNAVAILABLE,
    USAGE,
    clean_environment,
    model,
    run,
)

OBJECT = "bucket/a b+c/model.tensors"
URL = f"s3://{OBJECT}"
PART_BYTES = 16 << 20


class Upload(fake_s3.TestCase):
    place: tempfile.TemporaryDirectory[str]
    small: str
    large: str

    @classmethod
    def setUpClass(cls) -> None:
        cls.place = tempfile.TemporaryDirectory()
        path = Path(cls.place.name)
        for name, tensors, tensor_bytes in (
            ("small", 4, 50_000),
            ("large", 5, 9 << 20),
        ):
            source = path / f"{name}.safetensors"
            source.write_bytes(model(tensors, tensor_bytes))
            made = run("convert", str(source), str(path / f"{name}.tensors"))
            assert made.returncode == FINE, made.stderr
            setattr(cls, name, str(path / f"{name}.tensors"))

    @classmethod
    def tearDownClass(cls) -> None:
        cls.place.cleanup()

    def write(
        self, source: str, *options: str, url: str = URL, **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        result = run("convert", source, url, *options, **(self.access | environment))
        self.assertNotIn(b"hunter2", result.stdout + result.stderr)
        self.assertEqual(self.store.problems, [])
        return result

    def assert_there(self, source: str) -> None:
        """The object is what the command writes to a file of this machine."""
        local = Path(self.place.name) / "again.tensors"
        made = run("convert", source, str(local))
        self.assertEqual(made.returncode, FINE, made.stderr)
        self.assertEqual(self.store.objects[OBJECT], local.read_bytes())
        self.assertEqual(self.store.uploads, {})

    def test_a_small_file_is_one_request(self) -> None:
        done = self.write(self.small)
        self.assertEqual((done.returncode, done.stderr), (FINE, b""))
        self.assertEqual([what for what, _ in self.store.log], ["head", "put", "head"])
        self.assert_there(self.small)

    def test_a_large_file_goes_in_parts(self) -> None:
        done = self.write(self.large)
        self.assertEqual((done.returncode, done.stderr), (FINE, b""))
        parts = -(-Path(self.large).stat().st_size // PART_BYTES)
        self.assertEqual(self.store.count("part"), parts)
        self.assertEqual([what for what, _ in self.store.log[:2]], ["head", "create"])
        self.assertEqual(
            [what for what, _ in self.store.log[-3:]], ["part", "complete", "head"]
        )
        self.assert_there(self.large)

    def test_faults_that_pass(self) -> None:
        for operation in ("create", "part", "complete", "head"):
            for kind in ("503", "500", "cut", "silent"):
                if (operation, kind) == ("complete", "silent"):
                    continue  # it may take as long as the deadline says
                with self.subTest(operation, kind=kind):
                    self.store.objects.clear()
                    self.store.faults = {
                        operation: Fault(kind, 1 if kind == "silent" else 3)
                    }
                    done = self.write(self.large)
                    self.assertEqual(done.returncode, FINE, done.stderr)
                    self.assert_there(self.large)
        self.store.objects.clear()
        self.store.faults = {"put": Fault("cut", 2)}
        self.assertEqual(self.write(self.small).returncode, FINE)
        self.assert_there(self.small)

    def test_a_lost_answer_is_asked_for(self) -> None:
        """An upload that is complete although its answer did not arrive is found by its object."""
        for operation in ("part", "complete"):
            self.store.objects.clear()
            self.store.faults = {operation: Fault("lost")}
            done = self.write(self.large)
            self.assertEqual(done.returncode, FINE, (operation, done.stderr))
            self.assert_there(self.large)
        self.store.objects.clear()
        self.store.faults = {"abort": Fault("lost"), "part": Fault("403", 9)}
        self.assertEqual(self.write(self.large).returncode, ENVIRONMENT)
        self.assertEqual((self.store.objects, self.store.uploads), ({}, {}))

    def test_only_a_result_is_a_success(self) -> None:
        """Not status 200 alone, which a server sends before it knows; an older object of that size stays as it was."""
        size = Path(self.large).stat().st_size
        for kind in ("blank", "late"):
            self.store.objects = {OBJECT: bytes(size)}
            self.store.faults = {"complete": Fault(kind, 1000)}
            done = self.write(self.large)
            self.assertEqual(done.returncode, ENVIRONMENT, (kind, done.stderr))
            self.assertEqual(self.store.objects, {OBJECT: bytes(size)})
            self.assertEqual(self.store.uploads, {})
            self.store.faults = {"complete": Fault(kind, 1)}
            self.assertEqual(self.write(self.large).returncode, FINE)
            self.assert_there(self.large)
        self.store.objects = {OBJECT: bytes(size)}
        self.store.faults = {"complete": Fault("done-500", 1)}
        self.assertEqual(self.write(self.large).returncode, FINE)
        self.assert_there(self.large)

    def test_a_completion_may_take_its_time(self) -> None:
        self.store.faults = {"complete": Fault("slow", 1)}
        done = self.write(self.large)
        self.assertEqual(done.returncode, FINE, done.stderr)
        self.assertEqual(self.store.count("complete"), 1)
        self.assert_there(self.large)

    def test_an_answer_before_the_end_of_a_part_is_none(self) -> None:
        self.store.faults = {"part": Fault("early", 1)}
        self.assertEqual(self.write(self.large).returncode, FINE)
        self.assert_there(self.large)

    def test_ctrl_c_removes_the_parts(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self.store.arrived.clear()
            self.store.faults = {"complete": Fault("silent", 1000)}
            process = subprocess.Popen(
                [str(TZMARK), "convert", self.large, URL],
                env=clean_environment() | QUICK | self.access,
                stderr=subprocess.PIPE,
            )
            try:
                self.assertTrue(self.store.arrived.wait(60))
                process.send_signal(number)
                _, text = process.communicate(timeout=30)
            finally:
                process.kill()
            self.assertEqual(process.returncode, -number)
            self.assertIn(b"interrupted", text)
            self.assertEqual((self.store.objects, self.store.uploads), ({}, {}))

    def test_who_may_not_read_may_write(self) -> None:
        self.store.faults = {"head": Fault("403", 1000)}
        for source in (self.small, self.large):
            done = self.write(source)
            self.assertEqual(done.returncode, FINE, done.stderr)
            self.assertIn(b"note: written, but its size could not be", done.stderr)
            self.assert_there(source)
            refused = self.write(source, "--no-clobber")
            self.assertEqual(refused.returncode, ENVIRONMENT, refused.stderr)
            self.assertIn(b"whether the object exists: HTTP 403", refused.stderr)

    def test_an_upload_that_another_has_removed_fails(self) -> None:
        self.assertEqual(self.write(self.large).returncode, FINE)
        self.store.faults = {"complete": Fault("404", 1)}
        done = self.write(self.large)
        self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
        self.assertIn(b"the upload was not completed: HTTP 404", done.stderr)

    def test_a_failure_leaves_what_was_there(self) -> None:
        old = {OBJECT: b"old"}
        for operation in ("create", "part", "complete"):
            for kind in ("403", "503", "cut", "late"):
                if (operation, kind) in (("create", "late"), ("part", "late")):
                    continue
                with self.subTest(operation, kind=kind):
                    self.store.objects = dict(old)
                    self.store.faults = {operation: Fault(kind, 1000)}
                    done = self.write(self.large)
                    text = done.stderr.decode()
                    self.assertEqual(done.returncode, ENVIRONMENT, text)
                    self.assertIn("TZE-ENV-003", text)
                    self.assertIn(f"tzmark: {URL}: ", text)
                    self.assertEqual(text.count("\n"), 1, text)
                    self.assertEqual(self.store.objects, old)
                    self.assertEqual(self.store.uploads, {}, "parts stay")
        for kind in ("403", "503", "cut"):
            self.store.faults = {"put": Fault(kind, 1000)}
            self.assertEqual(self.write(self.small).returncode, ENVIRONMENT)
            self.assertEqual(self.store.objects, old)

    def test_parts_that_stay_are_named(self) -> None:
        self.store.faults = {"part": Fault("403", 9), "abort": Fault("503", 1000)}
        done = self.write(self.large)
        self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
        (upload,) = self.store.uploads
        self.assertIn(f"stay on the server as upload '{upload}'", done.stderr.decode())

    def test_a_process_that_is_killed_leaves_no_object(self) -> None:
        self.store.faults = {"complete": Fault("silent", 1000)}
        process = subprocess.Popen(
            [str(TZMARK), "convert", self.large, URL],
            env=clean_environment() | QUICK | self.access,
            stderr=subprocess.DEVNULL,
        )
        try:
            self.assertTrue(self.store.arrived.wait(60))
        finally:
            process.kill()
            process.wait()
        self.assertEqual(self.store.objects, {})
        self.store.faults = {}
        self.assertEqual(self.write(self.large).returncode, FINE)
        self.assertIn(OBJECT, self.store.objects)

    def test_no_clobber(self) -> None:
        for source in (self.small, self.large):
            self.store.objects = {OBJECT: b"old"}
            done = self.write(source, "--no-clobber")
            self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
            self.assertIn(b"exists already", done.stderr)
            self.assertEqual(self.store.objects, {OBJECT: b"old"})
            # Another one has made it in the meantime.
            self.store.faults = {"head": Fault("404", 1)}
            done = self.write(source, "--no-clobber")
            self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
            self.assertEqual(self.store.objects, {OBJECT: b"old"})
            self.assertEqual(self.store.uploads, {})
            self.store.objects = {}
            done = self.write(source, "--no-clobber")
            self.assertEqual(done.returncode, FINE, done.stderr)
            self.assert_there(source)

    def test_what_cannot_be_written(self) -> None:
        for url, options in (
            (f"{self.store.origin}/bucket/model.tensors", ()),
            ("s3://bucket/model.safetensors", ()),
            (URL, ("--split",)),
            ("s3://bucket", ()),
            ("s3:///key", ()),
        ):
            done = self.write(self.small, *options, url=url)
            self.assertEqual(done.returncode, USAGE, (url, done.stderr))
        self.assertEqual(self.store.log, [])
        absent = self.write(self.small, TZMARK_CURL_LIBRARY="/no/such/library.so")
        self.assertEqual(absent.returncode, UNAVAILABLE, absent.stderr)

    def test_a_wrong_key_is_told(self) -> None:
        self.store.faults = {"put": Fault("403", 9)}
        environment = self.access | {"AWS_SECRET_ACCESS_KEY": "hunter2-wrong"}
        done = run("convert", self.small, URL, **environment)
        self.assertEqual(done.returncode, ENVIRONMENT)
        self.assertIn(b"HTTP 403", done.stderr)
        self.assertNotIn(b"hunter2", done.stderr)
        self.assertNotEqual(self.store.problems, [], "the check sees a wrong signature")

    def test_nothing_is_left_in_tmpdir(self) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            self.assertEqual(self.write(self.large, TMPDIR=temporary).returncode, FINE)
            self.assertEqual(os.listdir(temporary), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
