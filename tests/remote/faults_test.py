#!/usr/bin/env python3
"""Reads a model by HTTP from a server with faults: each ends in the right bytes, or in one clear error.

Never wrong bytes, never a hang, never a secret in a message.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import fault_server
from setting import ENVIRONMENT, FINE, UNAVAILABLE, USAGE, model, run

REQUESTS = 1500  # of the run with random faults


class Faults(unittest.TestCase):
    directory: tempfile.TemporaryDirectory[str]
    content: bytes
    local: bytes

    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = tempfile.TemporaryDirectory()
        path = Path(cls.directory.name)
        (path / "model.safetensors").write_bytes(model())
        made = run(
            "convert", str(path / "model.safetensors"), str(path / "model.tensors")
        )
        assert made.returncode == FINE, made.stderr
        cls.content = (path / "model.tensors").read_bytes()
        cls.local = run("dump", str(path / "model.tensors")).stdout

    @classmethod
    def tearDownClass(cls) -> None:
        cls.directory.cleanup()

    def setUp(self) -> None:
        running = fault_server.running({"model": self.content})
        self.server = running.__enter__()
        self.addCleanup(running.__exit__, None, None, None)

    def dump(
        self, fault: str, **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        return run("dump", self.server.url(fault, "model"), **environment)

    def assert_read(self, fault: str, **environment: str) -> str:
        result = self.dump(fault, **environment)
        self.assertEqual(result.returncode, FINE, (fault, result.stderr))
        self.assertEqual(result.stdout, self.local, fault)
        return result.stderr.decode()

    def assert_error(
        self,
        fault: str,
        words: str,
        code: str = "TZE-ENV",
        exit_status: int = ENVIRONMENT,
    ) -> str:
        result = self.dump(fault)
        text = result.stderr.decode()
        self.assertEqual(result.returncode, exit_status, (fault, text))
        self.assertEqual(result.stdout, b"", fault)
        self.assertEqual(text.count("\n"), 1, (fault, text))
        self.assertIn(words, text, fault)
        self.assertIn(code, text, fault)
        return text

    def test_faults_that_pass(self) -> None:
        passing = [name for name in fault_server.FAULTS if name.startswith("first-")]
        for fault in [
            *passing,
            "later-first-stall",
            "later-cut-header",
            "later-cut",
            "retry-after-odd",
            "cut",
        ]:
            with self.subTest(fault):
                self.server.begin()
                if (
                    fault == "cut"
                ):  # the first answer never comes to its end, so nothing is known of the file
                    self.assert_error(fault, "5 requests")
                    continue
                self.assertEqual(self.assert_read(fault), "")
                self.assertGreater(self.server.counts[fault], 3)

    def test_retry_after_is_kept(self) -> None:
        began = time.monotonic()
        self.assert_read("retry-after")
        self.assertGreaterEqual(time.monotonic() - began, 1)
        self.assert_error("retry-after-long", "after the deadline")
        self.assert_error("retry-after-9999", "after the deadline")

    def test_statuses_that_do_not_pass(self) -> None:
        for fault in ("403", "404", "410", "204"):
            with self.subTest(fault):
                self.server.begin()
                self.assert_error(fault, f"HTTP {fault}", "TZE-ENV-001")
                self.assertEqual(self.server.counts[fault], 1, "repeated in vain")
        for fault in ("500", "503"):
            with self.subTest(fault):
                self.server.begin()
                text = self.assert_error(fault, f"HTTP {fault}", "TZE-ENV-001")
                self.assertIn("5 requests", text)
                self.assertEqual(self.server.counts[fault], 5)

    def test_answers_that_stay_wrong(self) -> None:
        for fault, words in {
            "short-length": "Content-Length",
            "long": "longer than",
            "moved": "instead of 0 to 65535",
            "without-range": "without a valid Content-Range",
            "unknown-size": "without the size",
            "encoded": "encoded (gzip)",
            "hung-up": "requests in",
            "silent": "stalled",
            "large-header": "too large",
            "whole-encoded": "encodes",
            "whole-unmarked": "neither parts of the file nor its length",
            "whole-cut": "requests in",
            "later-503": "HTTP 503",
            "later-404": "HTTP 404",
            "later-long": "longer than",
            "later-moved": "instead of",
            "later-whole": "with all of it",
        }.items():
            with self.subTest(fault):
                self.assert_error(fault, words)

    def test_a_file_that_changes(self) -> None:
        for fault, words in {
            "later-changed-etag": "its ETag is another one",
            "later-no-etag": "now has none",
            "later-wrong-size": "bytes and now has",
            "later-412": "HTTP 412",
            "later-416": "HTTP 416",
            "date-only-changed": "Last-Modified",
            "changing-long-etag": "its ETag is another one",
            "changing-odd-etag": "its ETag is another one",
        }.items():
            with self.subTest(fault):
                text = self.assert_error(fault, words, "TZE-ENV-005")
                self.assertIn("changed on the server", text)

    def test_what_identifies_the_file_is_sent_back(self) -> None:
        for fault, field in {
            "plain": ("If-Match", fault_server.etag_of(self.content)),
            "date-only": ("If-Unmodified-Since", fault_server.DATE),
            "weak-etag": ("If-Unmodified-Since", fault_server.DATE),
            "no-identity": None,
        }.items():
            with self.subTest(fault):
                self.server.begin()
                self.assert_read(fault)
                headers = [logged.header for logged in self.server.log]
                self.assertGreater(len(headers), 2)
                self.assertFalse(
                    {"If-Match", "If-Unmodified-Since"} & headers[0].keys()
                )
                for header in headers[1:]:
                    conditions = {
                        name: header[name]
                        for name in ("If-Match", "If-Unmodified-Since")
                        if name in header
                    }
                    self.assertEqual(conditions, dict([field]) if field else {})

    def test_a_server_without_ranges(self) -> None:
        for fault in ("whole", "whole-chunked", "whole-first-cut"):
            with self.subTest(fault):
                text = self.assert_read(fault)
                self.assertIn("the server cannot send parts of a file", text)
                self.assertEqual(text.count("\n"), 1)

    def test_a_copy_has_an_end(self) -> None:
        slow = self.dump("endless-slow", TZMARK_HTTP_DEADLINE_S="2")
        self.assertEqual(slow.returncode, ENVIRONMENT, slow.stderr)
        self.assertIn(b"not complete at its deadline", slow.stderr)
        for fault in ("endless-fast", "whole"):
            large = self.dump(fault, TZMARK_HTTP_COPY_MIB="2")
            self.assertEqual(large.returncode, ENVIRONMENT, large.stderr)
            self.assertIn(b"more than 2 MiB; TZMARK_HTTP_COPY_MIB", large.stderr)
            self.assertEqual(large.stderr.count(b"\n"), 1)

    def test_a_proxy_leads_to_no_link_local_address(self) -> None:
        for host in (
            "169.254.169.254",
            "2852039166",
            "[::ffff:a9fe:a9fe]",
            "[64:ff9b::a9fe:a9fe]",
            "metadata.google.internal",
        ):
            self.server.other_origin = f"http://{host}"
            self.server.begin()
            result = run(
                "dump",
                "http://models.example/redirect-other-host/model",
                http_proxy=self.server.origin,
            )
            self.assertEqual(result.returncode, ENVIRONMENT, (host, result.stderr))
            self.assertIn(b"link-local", result.stderr)
            self.assertEqual(len(self.server.log), 1)
        through = run(
            "dump", "http://models.example/plain/model", http_proxy=self.server.origin
        )
        self.assertEqual(through.stdout, self.local, through.stderr)

    def test_a_proxy_keeps_its_password(self) -> None:
        for proxy in (
            "http://user:hunter2/x@proxy.example:3128",
            "http://user:hunter2@127.0.0.1:99999",
            "http://user:hunter2#@127.0.0.1:9",
            "ftp://user:hunter2@127.0.0.1:9",
            "http://user:hunter2@127.0.0.1:9",
            "http://user:hunter2@no-such-host.invalid:9",
        ):
            result = run("dump", "http://models.example/model", http_proxy=proxy)
            self.assertEqual(result.returncode, ENVIRONMENT, (proxy, result.stderr))
            self.assertNotIn(b"hunter2", result.stderr, proxy)

    def test_redirects(self) -> None:
        for fault in ("redirect", "redirect-301", "redirect-308"):
            with self.subTest(fault):
                self.server.begin()
                self.assert_read(fault)
                self.assertEqual(
                    self.server.counts[fault], 1, "where a redirect leads is remembered"
                )
        for fault, words in {
            "redirect-loop": "more than 5 redirects",
            "redirect-file": "neither http nor https",
            "redirect-ftp": "neither http nor https",
            "redirect-local": "link-local",
            "redirect-nowhere": "without an address",
        }.items():
            with self.subTest(fault):
                self.assert_error(fault, words)

    def test_another_host_gets_no_credentials(self) -> None:
        with fault_server.running({"model": self.content}) as other:
            self.server.other_origin = other.origin
            for fault in ("plain", "redirect-other-host"):
                url = self.server.url(fault, "model").replace(
                    "http://", "http://user:pass%40word@"
                )
                result = run("dump", url)
                self.assertEqual(result.returncode, FINE, result.stderr)
                self.assertEqual(result.stdout, self.local)
            sent = [logged.header.get("Authorization") for logged in self.server.log]
            self.assertEqual(set(sent), {"Basic dXNlcjpwYXNzQHdvcmQ="})
            self.assertGreater(len(other.log), 2)
            for logged in other.log:
                self.assertFalse(
                    {"Authorization", "Cookie"} & logged.header.keys(), logged.header
                )

    def test_messages_contain_no_secret(self) -> None:
        for fault in (
            "404",
            "hung-up",
            "later-changed-etag",
            "redirect-loop",
            "no such fault",
            "whole",
        ):
            url = self.server.url(fault.replace(" ", "%20"), "model").replace(
                "http://", "http://user:hunter2@"
            )
            for command in (
                ["dump"],
                ["inspect"],
                ["verify"],
                ["append"],
                ["extract", "--no-verify"],
            ):
                result = run(*command, url + "?X-Amz-Signature=hunter2", "absent")
                for text in (result.stdout, result.stderr):
                    self.assertNotIn(b"hunter2", text, (fault, command))
        url = "http://user:hunter2@h/model?signature=hunter2"
        for arguments in (
            ["dump", url, url],
            [url],
            ["dump", "--io", url, url],
            ["conform", url],
            ["minimize", url],
            ["tune", url, "--goal", "save"],
            ["bench", "remote", "--json", url, "http://h/"],
        ):
            result = run(*arguments)
            self.assertEqual(result.returncode, USAGE, (arguments, result.stderr))
            self.assertNotIn(b"hunter2", result.stdout + result.stderr, arguments)
        local = str(Path(self.directory.name) / "model.tensors")
        for arguments in (
            ["verify", "--key-file", url, local],
            ["verify", "--profile", url, local],
            ["convert", local, url],
            ["bench", "--dir", self.directory.name, "--json", url],
        ):
            result = run(*arguments)
            self.assertNotEqual(result.returncode, FINE, arguments)
            self.assertNotIn(b"hunter2", result.stdout + result.stderr, arguments)
        for url in (
            "http://user:hunter2@",
            "http://user:hunt/er2@host/",
            "http://h:hunter2/",
        ):
            result = run("dump", url)
            self.assertEqual(result.returncode, USAGE, result.stderr)
            self.assertNotIn(b"hunt", result.stderr)

    def test_no_server(self) -> None:
        refused = run("dump", "http://127.0.0.1:9/model")
        self.assertEqual(refused.returncode, ENVIRONMENT)
        self.assertIn(b"5 requests", refused.stderr)
        unknown = run("dump", "http://no-such-host.invalid/model")
        self.assertEqual(unknown.returncode, ENVIRONMENT)
        self.assertIn(b"resolve", unknown.stderr)
        not_tls = run(
            "dump", self.server.url("plain", "model").replace("http:", "https:")
        )
        self.assertEqual(not_tls.returncode, ENVIRONMENT)
        self.assertIn(b"SSL", not_tls.stderr)

    def test_paths_are_not_exchanged(self) -> None:
        url = self.server.url("plain", "model")
        local = str(Path(self.directory.name) / "model.tensors")
        self.assertEqual(run("verify", "--io", "http", url).returncode, FINE)
        for arguments in (
            ("--io", "pwrite", url),
            ("--io", "s3", url),
            ("--io", "http", local),
        ):
            result = run("verify", *arguments)
            self.assertEqual(result.returncode, UNAVAILABLE, result.stderr)
            self.assertIn(b"TZE-AVL-001", result.stderr)

    def test_a_url_is_never_written(self) -> None:
        url = self.server.url("plain", "model")
        local = str(Path(self.directory.name) / "model.tensors")
        for arguments in (
            ("append", url, local),
            ("edit", url, "--drop", "t0"),
            ("convert", local, url),
            ("convert", local, url + ".safetensors"),
            ("extract", local, "t0", "-o", url),
            ("checkpoint", "list", url),
            ("inspect", "--bytes", url),
            ("conform", "--file", url),
            ("minimize", url, "--adapter", "true"),
            ("corpus", "export", url),
            ("bench", "--dir", url),
        ):
            with self.subTest(arguments):
                result = run(*arguments)
                self.assertEqual(result.returncode, USAGE, result.stderr)
                self.assertIn(b"of this machine", result.stderr)
                self.assertEqual(result.stderr.count(b"\n"), 1)

    def test_a_build_without_the_library(self) -> None:
        result = run(
            "dump",
            self.server.url("plain", "model"),
            TZMARK_CURL_LIBRARY="/no/such/library.so",
        )
        self.assertEqual(result.returncode, UNAVAILABLE)
        self.assertIn(b"/no/such/library.so", result.stderr)

    def test_commands_over_it(self) -> None:
        url = self.server.url("plain", "model")
        path = Path(self.directory.name)
        local = str(path / "model.tensors")
        for command in ("verify", "inspect"):
            result, expected = run(command, url), run(command, local)
            self.assertEqual(
                result.stdout, expected.stdout.replace(local.encode(), url.encode())
            )
        self.assertEqual(
            run("extract", url, "t3").stdout, run("extract", local, "t3").stdout
        )
        converted = run("convert", url, str(path / "copy.safetensors"))
        self.assertEqual(converted.returncode, FINE, converted.stderr)
        self.assertEqual(
            (path / "copy.safetensors").read_bytes()[-4_200_000:], model()[-4_200_000:]
        )

    def test_nothing_is_read_twice(self) -> None:
        path = Path(self.directory.name)
        url = self.server.url("plain", "model")
        for content in (self.content, model()):
            self.server.files["model"] = content
            for command in (
                ["dump", url],
                ["convert", url, str(path / "copy.tensors")],
                ["verify", url],
            ):
                self.server.begin()
                result = run(*command)
                self.assertEqual(result.returncode, FINE, result.stderr)
                ranges = [
                    logged.header["Range"].removeprefix("bytes=").split("-")
                    for logged in self.server.log
                ]
                asked = sum(int(last) - int(first) + 1 for first, last in ranges)
                self.assertLess(asked, 1.15 * len(content), command)

    def test_round_trips(self) -> None:
        """Opening a file of 10,000 tensors takes at most 4 requests in a row; one tensor one more."""
        small = model(tensors=10_000, tensor_bytes=1000)
        path = Path(self.directory.name)
        (path / "many.safetensors").write_bytes(small)
        made = run(
            "convert", str(path / "many.safetensors"), str(path / "many.tensors")
        )
        self.assertEqual(made.returncode, FINE, made.stderr)
        for name in ("many.tensors", "many.safetensors"):
            self.server.files["model"] = (path / name).read_bytes()
            self.server.begin()
            result = run(
                "extract", "--no-verify", self.server.url("plain", "model"), "t5000"
            )
            self.assertEqual(result.returncode, FINE, result.stderr)
            self.assertEqual(
                hashlib.sha256(result.stdout).digest(),
                hashlib.sha256(small[-5_000_000:-4_999_000]).digest(),
            )
            self.assertLessEqual(self.server.counts["plain"], 5, name)

    def test_the_end_comes_with_the_first_request(self) -> None:
        """A reader looks at the last bytes of most layouts first; that takes no request more in a row."""
        content = (Path(self.directory.name) / "model.tensors").read_bytes()
        self.server.files["model.tensors"] = content
        ends = [name for name in fault_server.FAULTS if name.startswith("end-")]
        self.assertGreater(len(ends), 5)
        # What did not come is asked for again when it is needed.
        at_end = f"bytes={len(content) - 8}-{len(content) - 1}"
        for fault in ends:
            with self.subTest(fault):
                self.assertIn(at_end, self.ranges_of_inspect(fault))
        # The server of a busy machine may take longer than is waited for. It is not always so.
        for _ in range(5):
            ranges = self.ranges_of_inspect("plain")
            if at_end not in ranges:
                break
        self.assertNotIn(at_end, ranges)

    def ranges_of_inspect(self, fault: str) -> list[str]:
        """Which parts of the model are asked for, first of all the beginning and the end."""
        self.server.begin()
        begin = time.monotonic()
        result = run("inspect", self.server.url(fault, "model.tensors"))
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(result.returncode, FINE, result.stderr)
        ranges = [logged.header["Range"] for logged in self.server.log]
        self.assertEqual(set(ranges[:2]), {"bytes=0-65535", "bytes=-4096"}, ranges)
        return ranges

    def test_random_faults(self) -> None:
        """Right bytes or one clear error, of thousands of requests with seeded faults."""
        profile = Path(self.directory.name) / "profile.json"
        settings = {"block_bytes": 65536, "queue_depth": 16}
        profile.write_text(
            json.dumps({"kind": "profile", "schema_version": 1, "load-cold": settings})
        )
        sent = right = refused = 0
        while sent < REQUESTS:
            self.server.begin()
            self.server.seed += 1
            result = run(
                "dump", "--profile", str(profile), self.server.url("random", "model")
            )
            sent += self.server.counts["random"]
            if result.returncode == FINE:
                self.assertEqual(
                    (result.stdout, result.stderr), (self.local, b""), self.server.seed
                )
                right += 1
            else:
                self.assertEqual(
                    result.returncode, ENVIRONMENT, (self.server.seed, result.stderr)
                )
                self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
                self.assertRegex(result.stderr.decode(), r"error TZE-ENV-00[12]")
                refused += 1
        print(
            f"{sent} requests: {right} models with the right bytes, {refused} with one error",
            file=sys.stderr,
        )
        self.assertGreater(right, 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=REQUESTS)
    known, rest = parser.parse_known_args()
    REQUESTS = known.requests
    unittest.main(argv=[sys.argv[0], *rest])
