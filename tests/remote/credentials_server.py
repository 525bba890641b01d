"""The endpoints of AWS that hand out temporary credentials, of containers and of instances, with faults.

Each answer has other keys than the one before. A store of fake_s3 that is given the same keys accepts each of them
until it expires, and not longer.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATH = "/v2/credentials"
METADATA_TOKEN = "metadata-hunter2=="
ROLE = "role+1"
SECRET = "hunter2/secret+key="


@dataclass
class Endpoint:
    lifetime_s: float = 3600
    status: int = 200
    # Instead of credentials; "{...}" is not completed.
    body: bytes | None = None
    changed: dict[str, object] = field(default_factory=dict)  # fields; None: left out
    fault: str = ""  # "silent", "drip" or "redirect"
    faults_begin: int = 0  # the number of the first request with status, body or fault
    faults_end: int = 1 << 30
    authorization: str | None = None  # what a container must send
    log: list[tuple[str, str]] = field(default_factory=list)  # method and path
    problems: list[str] = field(default_factory=list)
    # The secret key, the session token and the end of each key id.
    keys: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)
    origin: str = ""

    def new_credentials(self) -> dict[str, object]:
        number = len(self.keys) + 1
        end = int(time.time() + self.lifetime_s)
        key_id, token = f"ASIAEXAMPLE{number}", f"hunter2//token+{number}=="
        self.keys[key_id] = (f"{SECRET}{number}", token, end)
        fields = {
            "Code": "Success",
            "AccessKeyId": key_id,
            "SecretAccessKey": f"{SECRET}{number}",
            "Token": token,
            "Expiration": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end)),
        } | self.changed
        return {name: value for name, value in fields.items() if value is not None}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    endpoint: Endpoint

    def log_message(self, format: str, *args: object) -> None:
        pass

    def answer(self) -> None:
        endpoint = self.endpoint
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with endpoint.lock:
            number = len(endpoint.log)
            endpoint.log.append((self.command, self.path))
            for name in ("x-amz-security-token", "x-amz-date", "proxy-connection"):
                if name in self.headers:
                    endpoint.problems.append(f"{name} in a request for credentials")
            status, body = self.usual()
        if endpoint.faults_begin <= number < endpoint.faults_end:
            if endpoint.fault == "silent":
                endpoint.stopped.wait(40)
                self.close_connection = True
                return
            if endpoint.fault == "redirect":
                return self.reply(302, b"", {"Location": f"{endpoint.origin}{PATH}/2"})
            if endpoint.fault == "drip":
                return self.drip()
            status = status if endpoint.status == 200 else endpoint.status
            body = body if endpoint.body is None else endpoint.body
        self.reply(status, body, {})

    do_GET = do_PUT = do_POST = answer

    def usual(self) -> tuple[int, bytes]:
        endpoint = self.endpoint
        if self.path.startswith(PATH):
            if self.headers.get("Authorization") != endpoint.authorization:
                return 401, b"{}"
            return 200, json.dumps(endpoint.new_credentials()).encode()
        if (self.command, self.path) == ("PUT", "/latest/api/token"):
            lifetime = int(self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", 0))
            return (
                (200, METADATA_TOKEN.encode()) if 0 < lifetime <= 21600 else (400, b"")
            )
        if self.headers.get("X-aws-ec2-metadata-token") != METADATA_TOKEN:
            return 401, b""
        roles = "/latest/meta-data/iam/security-credentials/"
        if self.path == roles:
            return 200, ROLE.encode()
        if self.path == roles + ROLE.replace("+", "%2B"):
            return 200, json.dumps(endpoint.new_credentials()).encode()
        return 404, b""

    def reply(self, status: int, body: bytes, fields: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def drip(self) -> None:
        """A body that is never silent and never ends."""
        self.close_connection = True
        self.send_response_only(200)
        self.end_headers()
        try:
            while not self.endpoint.stopped.wait(0.2):
                self.wfile.write(b" " * 100)
        except (BrokenPipeError, ConnectionResetError):
            pass


@contextmanager
def running() -> Iterator[Endpoint]:
    endpoint = Endpoint()

    class Bound(Handler):
        pass

    Bound.endpoint = endpoint
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    server.daemon_threads = True
    endpoint.origin = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield endpoint
    finally:
        endpoint.stopped.set()
        server.shutdown()
        server.server_close()
