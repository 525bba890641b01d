#!/usr/bin/env python3
"""Requests to S3: their signatures, computed here a second time from what was received, and where secrets appear."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import fault_server
import setting
import signature
from setting import ENVIRONMENT, FINE, USAGE, model, run

KEY_ID = "ASIAEXAMPLEKEY"
SECRET_KEY = "hunter2/secret+key="
TOKEN = "FwoGZXIvYXdzEXAMPLE//token+with/odd=="
# Where the server puts what it serves; the fault is the bucket.
KEYS = (
    "model",
    "a b+c%20d&e=f;g,h@i$j!k'l(m)*n~o",
    "d\u00e9/\u4e2d\U0001f600",
    "x?y#z",
    "a//b",
    "-._~",
)


class S3(unittest.TestCase):
    def setUp(self) -> None:
        self.content = model(tensor_bytes=100_000)
        running = fault_server.running({key: self.content for key in KEYS})
        self.server = running.__enter__()
        self.addCleanup(running.__exit__, None, None, None)
        self.access = {
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": self.server.origin,
        }

    def read(
        self, key: str, bucket: str = "plain", **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        return run(
            "extract", f"s3://{bucket}/{key}", "t5", **(self.access | environment)
        )

    def test_signatures(self) -> None:
        for key in KEYS:
            for environment in (
                {},
                {"AWS_SESSION_TOKEN": TOKEN, "AWS_REGION": "eu-central-1"},
            ):
                with self.subTest(key, token=bool(environment)):
                    self.server.begin()
                    result = self.read(key, **environment)
                    self.assertEqual(
                        (result.returncode, result.stdout[:100]),
                        (FINE, self.content[-100_000:][:100]),
                    )
                    self.assertGreater(len(self.server.log), 1)
                    for logged in self.server.log:
                        region = signature.check(
                            "GET", logged.path, logged.header, b"", KEY_ID, SECRET_KEY
                        )
                        self.assertEqual(
                            region, environment.get("AWS_REGION", "us-east-1")
                        )
                        signed = logged.header["Authorization"].partition(
                            "SignedHeaders="
                        )[2]
                        self.assertEqual(
                            "x-amz-security-token" in signed, bool(environment)
                        )
                        self.assertEqual(
                            logged.header.get("x-amz-security-token"),
                            environment.get("AWS_SESSION_TOKEN"),
                        )

    def test_signatures_tell_a_wrong_key(self) -> None:
        self.read("model")
        with self.assertRaises(AssertionError):
            logged = self.server.log[0]
            signature.check("GET", logged.path, logged.header, b"", KEY_ID, "another")

    def test_retries_are_signed(self) -> None:
        result = self.read("model", bucket="first-503")
        self.assertEqual(result.returncode, FINE, result.stderr)
        for logged in self.server.log:
            signature.check("GET", logged.path, logged.header, b"", KEY_ID, SECRET_KEY)

    def test_anonymous(self) -> None:
        for environment in (
            {"AWS_NO_SIGN_REQUEST": "YES"},
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
        ):
            self.server.begin()
            self.assertEqual(self.read("model", **environment).returncode, FINE)
            for logged in self.server.log:
                self.assertFalse(
                    {"Authorization", "x-amz-security-token"} & logged.header.keys()
                )
            refused = self.read("model", bucket="403", **environment)
            self.assertEqual(refused.returncode, ENVIRONMENT)
            self.assertIn(b"for a request without credentials", refused.stderr)

    def test_another_host_gets_nothing(self) -> None:
        with fault_server.running({"model": self.content}) as other:
            self.server.other_origin = other.origin
            result = self.read(
                "model", bucket="redirect-other-host", AWS_SESSION_TOKEN=TOKEN
            )
            self.assertEqual(result.returncode, FINE, result.stderr)
            self.assertGreater(len(other.log), 1)
            for logged in other.log:
                self.assertFalse(
                    {"authorization", "x-amz-security-token", "x-amz-date"}
                    & {name.lower() for name in logged.header}
                )

    def test_files_of_aws(self) -> None:
        with tempfile.TemporaryDirectory() as home:
            (Path(home) / ".aws").mkdir()
            (Path(home) / ".aws/credentials").write_text(
                f"[work]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET_KEY}\n"
            )
            (Path(home) / ".aws/config").write_text(
                f"[profile work]\nregion = eu-north-1\nendpoint_url = {self.server.origin}\n"
            )
            result = run(
                "extract", "s3://plain/model", "t5", HOME=home, AWS_PROFILE="work"
            )
            self.assertEqual(result.returncode, FINE, result.stderr)
            self.assertEqual(
                {
                    signature.check(
                        "GET", logged.path, logged.header, b"", KEY_ID, SECRET_KEY
                    )
                    for logged in self.server.log
                },
                {"eu-north-1"},
            )

    def test_secrets_do_not_appear(self) -> None:
        for bucket in (
            "plain",
            "403",
            "404",
            "hung-up",
            "later-changed-etag",
            "redirect-loop",
        ):
            result = self.read("model", bucket=bucket, AWS_SESSION_TOKEN=TOKEN)
            for secret in (SECRET_KEY, TOKEN, KEY_ID, "hunter2"):
                self.assertNotIn(secret.encode(), result.stderr, bucket)
        for url in (
            f"s3://{KEY_ID}:{SECRET_KEY}@bucket/key",
            "s3://bucket",
            "s3:///key",
        ):
            result = run("dump", url)
            self.assertEqual(result.returncode, USAGE, result.stderr)
            self.assertNotIn(b"hunter2", result.stderr)

    @unittest.skipUnless(shutil.which("strace"), "no strace")
    def test_secrets_are_not_passed_on(self) -> None:
        """Neither to another program, nor to a file."""
        with tempfile.TemporaryDirectory() as directory:
            trace = Path(directory) / "trace"
            command = [
                "strace",
                "-f",
                "-s",
                "100000",
                "-e",
                "trace=execve,write,openat",
                "-o",
                str(trace),
            ]
            subprocess.run(
                [*command, str(setting.TZMARK), "verify", "s3://plain/model"],
                env=setting.clean_environment() | self.access,
                capture_output=True,
                timeout=60,
                check=True,
            )
            # strace prints the number of variables of an environment, and not what they are.
            self.assertNotIn("hunter2", trace.read_text(errors="replace"))


if __name__ == "__main__":
    unittest.main()
