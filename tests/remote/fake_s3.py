"""An S3 server that takes objects, in memory, with faults: what is asked of it is checked as S3 would.

A fault is a kind that a number of requests for one operation meet: "put", "create", "part", "complete", "abort",
"head", "get" or "list". Objects appear when an upload is complete, never in part.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
import unittest
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

import signature

PART_BYTES_MIN = 5 << 20


@dataclass
class Fault:
    # A status, or "cut", "silent", "lost" (done, and then cut), "done-500" (done, and another status), "late" (status
    # 200 with an error in it), "blank" (status 200 and blanks), "slow" (blanks for 3 s, and then done), or "early" (an
    # answer before the body was read).
    kind: str
    times: int = 1


@dataclass
class Store:
    key_id: str
    secret_key: str
    # Instead of these two: temporary ones by key id, each with its session token and its end.
    temporary: dict[str, tuple[str, str, float]] | None = None
    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # of the objects of uploads
    listed_max: int = 1000  # uploads in one answer
    list_answer: bytes = b""  # instead of a list
    # Called with the number of the request and whether it is done, before its answer.
    hook: Callable[[int, bool], None] = lambda number, is_done: None
    faults: dict[str, Fault] = field(default_factory=dict)
    log: list[tuple[str, str]] = field(default_factory=list)  # operation and path
    problems: list[str] = field(default_factory=list)
    fields: list[dict[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    arrived: threading.Event = field(default_factory=threading.Event)  # a part has
    stopped: threading.Event = field(default_factory=threading.Event)
    origin: str = ""

    def count(self, operation: str) -> int:
        return sum(1 for found, _ in self.log if found == operation)

    def fault(self, operation: str) -> str | None:
        with self.lock:
            fault = self.faults.get(operation)
            if fault is None or fault.times == 0:
                return None
            fault.times -= 1
            return fault.kind


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    store: Store

    def log_message(self, format: str, *args: object) -> None:
        pass

    def operation(self, query: dict[str, list[str]]) -> str:
        if self.command == "HEAD":
            return "head"
        if self.command == "GET":
            return "list" if "uploads" in query else "get"
        if self.command == "POST":
            return "create" if "uploads" in query else "complete"
        if self.command == "DELETE":
            return "abort"
        return "part" if "partNumber" in query else "put"

    def answer(self) -> None:
        store = self.store
        if self.peeked("early"):
            self.close_connection = True
            return self.reply(200, b"", {"ETag": '"early"'})
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # the sender is gone
            self.close_connection = True
            return
        path, _, query_text = self.path.partition("?")
        query = urllib.parse.parse_qs(query_text, keep_blank_values=True)
        operation = self.operation(query)
        with store.lock:
            store.log.append((operation, path))
            number = len(store.log)
            store.fields.append(dict(self.headers.items()))
            try:
                self.check(body)
            except (AssertionError, KeyError) as error:
                store.problems.append(f"{operation}: {error!r}")
        store.hook(number, False)
        kind = store.fault(operation)
        if kind == "cut":
            return self.cut()
        if kind == "silent":
            store.stopped.wait(20)
            return self.cut()
        if kind == "blank":
            return self.reply(200, b" \n ")
        if kind == "slow":
            self.send_response_only(200)
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            for _ in range(6):
                self.wfile.write(b" ")
                self.wfile.flush()
                store.stopped.wait(0.5)
        if kind == "late":
            return self.reply(200, b"<Error><Code>InternalError</Code></Error>")
        if kind not in (None, "lost", "done-500", "slow"):
            return self.reply(int(kind or 500), b"<Error><Code>SlowDown</Code></Error>")
        name = urllib.parse.unquote(path).lstrip("/")
        with store.lock:
            answer = self.done(operation, name, query, body)
        store.hook(number, True)
        if kind == "lost":
            return self.cut()
        if kind == "slow":
            self.wfile.write(answer[1])
            return
        if kind == "done-500":
            return self.reply(500, b"")
        self.reply(*answer)

    def check(self, body: bytes) -> None:
        """Fails for a request that is not signed with valid credentials."""
        store = self.store
        key_id, secret_key = store.key_id, store.secret_key
        if store.temporary is not None:
            signer = self.headers.get("Authorization", "").partition("Credential=")[2]
            assert signer, "not signed"
            key_id = signer.split("/")[0]
            secret_key, token, end = store.temporary[key_id]
            assert self.headers["x-amz-security-token"] == token, "another token"
            assert time.time() < end, "expired"
        fields = dict(self.headers.items())
        signature.check(self.command, self.path, fields, body, key_id, secret_key)

    def peeked(self, kind: str) -> bool:
        """Whether the request meets that fault, which then has one time less."""
        store = self.store
        query = urllib.parse.parse_qs(self.path.partition("?")[2])
        with store.lock:
            fault = store.faults.get(self.operation(query))
            if fault is None or fault.kind != kind or fault.times == 0:
                return False
            fault.times -= 1
            return True

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET = answer

    def done(
        self, operation: str, name: str, query: dict[str, list[str]], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        store = self.store
        must_be_new = self.headers.get("If-None-Match") == "*"
        if operation == "head":
            content = store.objects.get(name)
            if content is None:
                return 404, b"", {}
            return 200, content, {"ETag": store_etag(content)}
        if operation == "get":
            return self.part_of(store.objects.get(name))
        if operation == "list":
            return self.list(name, query)
        if operation == "put":
            if must_be_new and name in store.objects:
                return 412, b"<Error><Code>PreconditionFailed</Code></Error>", {}
            store.objects[name] = body
            return 200, b"", {"ETag": etag_of(body)}
        if operation == "create":
            # No plus sign: libcurl 8.14 signs one in a query wrongly, and the server then refuses the request.
            upload = f"id &{len(store.uploads)}/~="
            store.uploads[upload] = {}
            store.names[upload] = name
            escaped = upload.replace("&", "&amp;")
            return 200, f"<R><UploadId>{escaped}</UploadId></R>".encode(), {}
        upload = query["uploadId"][0]
        if upload not in store.uploads:
            return 404, b"<Error><Code>NoSuchUpload</Code></Error>", {}
        if operation == "abort":
            del store.uploads[upload]
            return 204, b"", {}
        if operation == "part":
            store.uploads[upload][int(query["partNumber"][0])] = body
            store.arrived.set()
            return 200, b"", {"ETag": etag_of(body)}
        return self.complete(name, upload, body, must_be_new)

    def part_of(self, content: bytes | None) -> tuple[int, bytes, dict[str, str]]:
        if content is None:
            return 404, b"<Error><Code>NoSuchKey</Code></Error>", {}
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        end = min(int(last) + 1, len(content))
        place = f"bytes {first}-{end - 1}/{len(content)}"
        fields = {"ETag": store_etag(content), "Content-Range": place}
        return 206, content[int(first) : end], fields

    def list(
        self, bucket: str, query: dict[str, list[str]]
    ) -> tuple[int, bytes, dict[str, str]]:
        """The unfinished uploads after the markers, in the order of their objects."""
        store = self.store
        if store.list_answer:
            return 200, store.list_answer, {}
        prefix = f"{bucket.rstrip('/')}/{query['prefix'][0]}"
        after = tuple(
            query.get(f"{name}-marker", [""])[0] for name in ("key", "upload-id")
        )
        found = sorted(
            (store.names[upload].partition("/")[2], upload)
            for upload in store.uploads
            if store.names[upload].startswith(prefix)
        )
        rest = [one for one in found if one > after]
        most = min(store.listed_max, int(query["max-uploads"][0]))
        text = "".join(
            f"<Upload><Key>{escape(key)}</Key><UploadId>{escape(upload)}</UploadId></Upload>"
            for key, upload in rest[:most]
        )
        if len(rest) > most:
            key, upload = map(escape, rest[most - 1])
            text += f"<NextKeyMarker>{key}</NextKeyMarker><NextUploadIdMarker>{upload}</NextUploadIdMarker>"
        is_cut = "true" if len(rest) > most else "false"
        return 200, f"<R>{text}<IsTruncated>{is_cut}</IsTruncated></R>".encode(), {}

    def complete(
        self, name: str, upload: str, body: bytes, must_be_new: bool
    ) -> tuple[int, bytes, dict[str, str]]:
        store = self.store
        if must_be_new and name in store.objects:
            return 412, b"<Error><Code>PreconditionFailed</Code></Error>", {}
        listed = re.findall(
            "<Part><PartNumber>([0-9]+)</PartNumber><ETag>([^<]*)</ETag></Part>",
            body.decode(),
        )
        parts = store.uploads[upload]
        numbers = [int(number) for number, _ in listed]
        etags = [etag.replace("&quot;", '"') for _, etag in listed]
        if numbers != sorted(parts) or etags != [etag_of(parts[n]) for n in numbers]:
            return 400, b"<Error><Code>InvalidPart</Code></Error>", {}
        if any(len(parts[number]) < PART_BYTES_MIN for number in numbers[:-1]):
            return 400, b"<Error><Code>EntityTooSmall</Code></Error>", {}
        store.objects[name] = b"".join(parts[number] for number in numbers)
        MULTIPART[store.objects[name]] = len(numbers)
        del store.uploads[upload]
        return 200, b"<CompleteMultipartUploadResult/>", {}

    def reply(
        self, status: int, body: bytes, fields: dict[str, str] | None = None
    ) -> None:
        self.send_response_only(status)
        for name, value in (fields or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            if self.command != "HEAD":
                self.wfile.write(body)
        except BrokenPipeError:  # the client was killed
            self.close_connection = True

    def cut(self) -> None:
        self.close_connection = True
        self.connection.close()


# How many parts an object was sent in; one that was sent at once has none.
MULTIPART: dict[bytes, int] = {}


def etag_of(body: bytes) -> str:
    return '"' + hashlib.md5(body).hexdigest() + '"'


def store_etag(content: bytes) -> str:
    parts = MULTIPART.get(content)
    return etag_of(content) if parts is None else f'{etag_of(content)[:-1]}-{parts}"'


@contextmanager
def running(key_id: str, secret_key: str) -> Iterator[Store]:
    store = Store(key_id, secret_key)

    class Bound(Handler):
        pass

    Bound.store = store
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    server.daemon_threads = True
    store.origin = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        store.stopped.set()
        server.shutdown()
        server.server_close()


class TestCase(unittest.TestCase):
    """One with a server and the environment that leads there. No test may print the secret key."""

    KEY_ID, SECRET_KEY = "AKIDEXAMPLE", "hunter2/secret+key="

    def setUp(self) -> None:
        serving = running(self.KEY_ID, self.SECRET_KEY)
        self.store = serving.__enter__()
        self.addCleanup(serving.__exit__, None, None, None)
        self.access = {
            "AWS_ACCESS_KEY_ID": self.KEY_ID,
            "AWS_SECRET_ACCESS_KEY": self.SECRET_KEY,
            "AWS_ENDPOINT_URL": self.store.origin,
        }
