#!/usr/bin/env python3
"""Credentials of containers and instances: fetched only where that is asked for, again before they expire, and never
shown."""

from __future__ import annotations

import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import credentials_server
import fake_s3
from credentials_server import PATH
from fake_s3 import Fault
from setting import ENVIRONMENT, FINE, USAGE, model, run

URL = "s3://bucket/model"
TOKEN = "Bearer hunter2"
METADATA = "/latest/meta-data/iam/security-credentials/"


class Credentials(fake_s3.TestCase):
    def setUp(self) -> None:
        super().setUp()
        running = credentials_server.running()
        self.endpoint = running.__enter__()
        self.addCleanup(running.__exit__, None, None, None)
        self.store.temporary = self.endpoint.keys
        self.store.objects["bucket/model"] = model(tensor_bytes=100_000)
        server = {"AWS_ENDPOINT_URL": self.store.origin}
        self.container = server | {
            "TZMARK_S3_CREDENTIALS": "container",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": self.endpoint.origin + PATH,
        }
        self.instance = server | {
            "TZMARK_S3_CREDENTIALS": "instance",
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.endpoint.origin,
        }

    def run_command(
        self, *words: str, **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        done = run(*words, **environment)
        self.assertNotIn(b"hunter2", done.stdout + done.stderr)
        self.assertEqual(self.store.problems + self.endpoint.problems, [])
        return done

    def read(self, **environment: str) -> subprocess.CompletedProcess[bytes]:
        return self.run_command("verify", URL, **environment)

    def assert_fails(self, text: str, status: int, **environment: str) -> None:
        """The command ends with that status and text, before a request to S3."""
        before = len(self.store.log)
        done = self.read(**environment)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(text, done.stderr.decode())
        self.assertEqual(len(self.store.log), before)

    def test_of_a_container(self) -> None:
        self.assertEqual(self.read(**self.container).returncode, FINE)
        self.assertGreater(len(self.store.log), 1)
        self.assertEqual(self.endpoint.log, [("GET", PATH)])

    def test_of_an_instance(self) -> None:
        self.assertEqual(self.read(**self.instance).returncode, FINE)
        asked = [
            ("PUT", "/latest/api/token"),
            ("GET", METADATA),
            ("GET", METADATA + "role%2B1"),
        ]
        self.assertEqual(self.endpoint.log, asked)

    def test_all_that_is_signed(self) -> None:
        """Uploads in parts, by several threads, and those of checkpoints, which fetch once for each process."""
        with tempfile.TemporaryDirectory() as place:
            source, checkpoints = f"{place}/m.safetensors", f"{place}/run"
            Path(source).write_bytes(model(5, 9 << 20))
            words = ["--steps", "1", "--interval", "1", "--step-ms", "0"]
            made = run(
                "checkpoint", "simulate", checkpoints, *words, "--state-mib", "2"
            )
            self.assertEqual(made.returncode, FINE, made.stderr)
            patience = {"TZMARK_HTTP_STALL_S": "20", "TZMARK_HTTP_DEADLINE_S": "60"}
            for words in (
                ["convert", source, "s3://bucket/new"],
                ["checkpoint", "upload", checkpoints, "s3://bucket/run/step-1"],
                ["verify", "s3://bucket/new"],
            ):
                self.endpoint.log.clear()
                done = self.run_command(*words, **(self.container | patience))
                self.assertEqual(done.returncode, FINE, done.stderr)
                self.assertEqual(self.endpoint.log, [("GET", PATH)], words)
            self.assertGreater(self.store.count("part"), 2)

    def test_are_not_asked_for_by_themselves(self) -> None:
        self.container.pop("TZMARK_S3_CREDENTIALS")
        run("verify", URL, **self.container)
        self.assertEqual(
            set(self.store.problems), {"get: AssertionError('not signed')"}
        )
        self.assertEqual(self.endpoint.log, [])

    def test_settings(self) -> None:
        for value in ("", "ec2", "container,instance"):
            self.assert_fails(
                "is neither container nor instance",
                USAGE,
                **(self.container | {"TZMARK_S3_CREDENTIALS": value}),
            )
        keys = {"AWS_ACCESS_KEY_ID": "hunter2", "AWS_SECRET_ACCESS_KEY": "hunter2"}
        self.assert_fails("unset one of them", USAGE, **(self.container | keys))
        self.assert_fails(
            "need https",
            USAGE,
            **(self.container)
            | {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://models.example/hunter2"},
        )
        self.assert_fails(
            "AWS_EC2_METADATA_DISABLED",
            USAGE,
            **(self.instance | {"AWS_EC2_METADATA_DISABLED": "true"}),
        )
        web = {"AWS_WEB_IDENTITY_TOKEN_FILE": "/hunter2", "AWS_ROLE_ARN": "arn:x"}
        self.assert_fails(
            "export-credentials", USAGE, AWS_ENDPOINT_URL=self.store.origin, **web
        )
        self.assertEqual(self.endpoint.log, [])

    def test_authorization(self) -> None:
        self.endpoint.authorization = TOKEN
        self.assert_fails("HTTP 401", ENVIRONMENT, **self.container)
        variable = "AWS_CONTAINER_AUTHORIZATION_TOKEN"
        done = self.read(**(self.container | {variable: TOKEN}))
        self.assertEqual(done.returncode, FINE, done.stderr)
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "token"
            named = self.container | {f"{variable}_FILE": str(file), variable: "x"}
            self.assert_fails("cannot read", USAGE, **named)
            file.write_text(TOKEN + "\n")
            self.assertEqual(self.read(**named).returncode, FINE)
            file.write_text(f"{TOKEN}\nX-Other: hunter2")
            self.assert_fails("line break", USAGE, **named)

    def test_the_file_of_a_token_is_read_each_time(self) -> None:
        self.endpoint.authorization = TOKEN
        self.endpoint.lifetime_s = 3
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "token"
            file.write_text(TOKEN)

            def replace(number: int, is_done: bool) -> None:
                if number == 1 and not is_done:
                    self.endpoint.authorization = TOKEN + "2"
                    file.write_text(TOKEN + "2")
                    time.sleep(2.5)

            self.store.hook = replace
            variable = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
            named = self.container | {variable: str(file)}
            done = self.read(**named, TZMARK_HTTP_STALL_S="20")
        self.assertEqual(done.returncode, FINE, done.stderr)
        self.assertGreater(len(self.endpoint.keys), 1)

    def test_answers(self) -> None:
        """Every answer that is none ends the command, and at once unless it may pass."""
        for fields, text in (
            ({"body": b"hunter2"}, "not a JSON object"),
            ({"body": b""}, "not a JSON object"),
            ({"body": b"[" * 60_000}, "not a JSON object"),
            ({"body": b" " * (64 << 10) + b"{}"}, "more than 65536 bytes"),
            ({"changed": {"AccessKeyId": None}}, "no AccessKeyId"),
            ({"changed": {"SecretAccessKey": None}}, "no SecretAccessKey"),
            ({"changed": {"Token": None}}, "no Token"),
            ({"changed": {"Expiration": None}}, "no Expiration"),
            ({"changed": {"Token": "hunter2\nX: 1"}}, "no valid Token"),
            ({"changed": {"Token": 1}}, "no valid Token"),
            ({"changed": {"Expiration": "hunter2"}}, "no valid Expiration"),
            ({"changed": {"Code": "hunter2"}}, "another Code"),
            ({"lifetime_s": -10}, "have expired"),
            ({"status": 404}, "HTTP 404"),
            ({"status": 403, "body": b"hunter2"}, "HTTP 403"),
            ({"status": 204}, "HTTP 204"),
            ({"fault": "redirect"}, "not followed"),
        ):
            with self.subTest(text, **fields):
                self.endpoint.log.clear()
                self.change(fields)
                self.assert_fails(text, ENVIRONMENT, **self.container)
                self.assertEqual(len(self.endpoint.log), 1)

    def change(self, fields: dict[str, object]) -> None:
        usual = {"changed": {}, "lifetime_s": 3600, "status": 200, "body": None}
        for name, value in (usual | {"fault": ""} | fields).items():
            setattr(self.endpoint, name, value)

    def test_answers_of_an_instance(self) -> None:
        for number, body, text in (
            (0, b"a b hunter2", "not a token"),
            (0, b"", "not a token"),
            (1, b"", "not the name of a role"),
            (1, b"../hunter2", "not the name of a role"),
            (2, b"hunter2", "not a JSON object"),
        ):
            with self.subTest(text, number=number):
                self.endpoint.log.clear()
                self.endpoint.body = body
                self.endpoint.faults_begin = number
                self.assert_fails(text, ENVIRONMENT, **self.instance)
                self.assertEqual(len(self.endpoint.log), number + 1)
        self.endpoint.log.clear()
        self.change({"status": 404})
        self.endpoint.faults_begin = 0
        self.assert_fails("HTTP 404", ENVIRONMENT, **self.instance)

    def test_faults_that_pass(self) -> None:
        for status in (500, 503, 429):
            self.endpoint.log.clear()
            self.change({"status": status})
            self.endpoint.faults_end = 3
            self.assertEqual(self.read(**self.container).returncode, FINE)
            self.assertEqual(len(self.endpoint.log), 4)
        self.endpoint.log.clear()
        self.endpoint.faults_end = 1 << 30
        self.change({"status": 500})
        attempts = {"TZMARK_HTTP_ATTEMPTS": "3"}
        self.assert_fails(
            "HTTP 500 (Internal Server Error); 3 requests",
            ENVIRONMENT,
            **(self.container | attempts),
        )

    def test_an_endpoint_that_is_silent(self) -> None:
        for fault, environment in (
            # Its own limit, of 5 s.
            ("silent", {"TZMARK_HTTP_STALL_S": "30", "TZMARK_HTTP_ATTEMPTS": "1"}),
            ("silent", {"TZMARK_HTTP_ATTEMPTS": "2"}),
            ("drip", {"TZMARK_HTTP_DEADLINE_S": "3"}),
        ):
            with self.subTest(fault, **environment):
                self.change({"fault": fault})
                began = time.monotonic()
                self.assert_fails(
                    "cannot get credentials from http://127.0.0.1:",
                    ENVIRONMENT,
                    **(self.container | environment),
                )
                self.assertLess(time.monotonic() - began, 20)

    def test_no_proxy_is_used(self) -> None:
        self.container["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = (
            self.endpoint.origin.replace("127.0.0.1", "localhost") + PATH
        )
        proxy = {"http_proxy": "http://127.0.0.1:1", "no_proxy": "127.0.0.1"}
        done = self.read(**(self.container | proxy))
        self.assertEqual(done.returncode, FINE, done.stderr)

    def delay(self, requests: int, seconds: float, text: str = "503") -> None:
        """Answers the first requests to S3 late, and then so that they are repeated."""

        def hook(number: int, is_done: bool) -> None:
            if number <= requests and not is_done:
                time.sleep(seconds)

        self.store.hook = hook
        self.store.faults = {"get": Fault(text, requests)}

    def test_are_fetched_again(self) -> None:
        for environment in (self.container, self.instance):
            self.endpoint.lifetime_s = 4
            self.endpoint.keys.clear()
            self.store.log.clear()
            self.delay(3, 2.2)
            patience = {"TZMARK_HTTP_STALL_S": "20", "TZMARK_HTTP_DEADLINE_S": "60"}
            done = self.read(**(environment | patience))
            self.assertEqual(done.returncode, FINE, done.stderr)
            self.assertGreater(len(self.endpoint.keys), 2)
            self.assertLess(len(self.endpoint.keys), 8)

    def test_a_failed_refresh_is_no_error(self) -> None:
        """While the credentials are valid, and one afterwards."""
        patience = {"TZMARK_HTTP_STALL_S": "20", "TZMARK_HTTP_DEADLINE_S": "60"}
        self.endpoint.lifetime_s = 12
        self.endpoint.faults_begin = 1
        self.endpoint.status = 500
        self.delay(1, 6.5)
        done = self.read(**(self.container | patience))
        self.assertEqual(done.returncode, FINE, done.stderr)
        self.assertEqual(len(self.endpoint.log), 2)
        self.endpoint.log.clear()
        self.store.log.clear()
        self.endpoint.lifetime_s = 2
        self.delay(1, 2.5)
        done = self.read(**(self.container | patience))
        self.assertEqual(done.returncode, ENVIRONMENT, done.stderr)
        self.assertIn(b"HTTP 500", done.stderr)


if __name__ == "__main__":
    unittest.main()
