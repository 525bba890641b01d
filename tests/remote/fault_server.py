"""An HTTP server with faults, for tests of the reader of remote files.

A URL is http://127.0.0.1:PORT/FAULT/NAME: the fault that every request below it meets, and the file. Faults that pass
do so after a number of requests. Every request is logged with its header. Of one seed, the random faults are the same.
"""

from __future__ import annotations

import hashlib
import random
import re
import socket
import struct
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Iterator

DATE = "Sat, 01 Nov 2025 10:00:00 GMT"
PAUSE_OF_STALL_S = 20
END_BYTES = 4096


@dataclass
class Logged:
    fault: str
    name: str
    header: Mapping[str, str]
    path: str  # as it was sent


@dataclass
class Answer:
    """What the server will send: faults change it."""

    status: int
    fields: dict[str, str]
    body: bytes
    sent: int | None = (
        None  # how much of the body goes out before the connection ends; None: all
    )
    pause_s: float = 0  # before the rest of the body
    chunked: bool = False
    # The header ends in the middle, and so does the connection, without an error.
    cut_header: bool = False
    # The body never ends: chunks of 1 KiB, each after this pause.
    endless_pause_s: float | None = None


@dataclass
class Server:
    """The files that are served, and what was asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    log: list[Logged] = field(default_factory=list)
    other_origin: str = ""  # a redirect to another host leads here
    seed: int = 0
    switch: str = "plain"  # what the fault "switched" is now
    delay_s: float = 0
    counts: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)
    origin: str = ""

    def url(self, fault: str, name: str) -> str:
        return f"{self.origin}/{fault}/{name}"

    def begin(self) -> None:
        """Forgets all requests."""
        with self.lock:
            self.log.clear()
            self.counts.clear()


def etag_of(content: bytes) -> str:
    return '"' + hashlib.sha256(content).hexdigest()[:16] + '"'


def usual(content: bytes, wanted: str | None) -> Answer:
    fields = {"ETag": etag_of(content), "Last-Modified": DATE, "Accept-Ranges": "bytes"}
    match = re.fullmatch(r"bytes=(\d*)-(\d+)", wanted or "")
    if not match:
        return Answer(200, fields, content)
    first, last = max(0, len(content) - int(match[2])), len(content) - 1
    if match[1]:
        first, last = int(match[1]), min(int(match[2]), last)
    if first >= len(content):
        return Answer(416, {"Content-Range": f"bytes */{len(content)}"}, b"")
    fields["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
    return Answer(206, fields, content[first : last + 1])


# Each takes the usual answer, the file, and how many requests came before; it returns another answer, or None if the
# connection ends without one.
Fault = Callable[[Answer, bytes, int, Server], "Answer | None"]


def status(code: int, times: int = 1 << 30, **more: str) -> Fault:
    def fault(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
        if before >= times:
            return answer
        fields = {name.replace("_", "-"): value for name, value in more.items()}
        return Answer(code, fields, b"x" * 300)

    return fault


def at_first(times: int, other: Fault) -> Fault:
    def fault(
        answer: Answer, content: bytes, before: int, server: Server
    ) -> Answer | None:
        return other(answer, content, before, server) if before < times else answer

    return fault


def later(after: int, other: Fault) -> Fault:
    def fault(
        answer: Answer, content: bytes, before: int, server: Server
    ) -> Answer | None:
        return other(answer, content, before, server) if before >= after else answer

    return fault


def of_end(other: Fault) -> Fault:
    """Of the answer with the end of the file that comes together with the first one."""

    def fault(
        answer: Answer, content: bytes, before: int, server: Server
    ) -> Answer | None:
        if len(answer.body) == END_BYTES and content.endswith(answer.body):
            return other(answer, content, before, server)
        return answer

    return fault


def cut(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    if len(answer.body) > 1:  # so that some bytes come each time
        answer.sent = len(answer.body) // 2
    return answer


def short_length(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    answer.body = answer.body[: len(answer.body) // 2]
    return answer


def short_chunked(
    answer: Answer, content: bytes, before: int, server: Server
) -> Answer:
    answer.chunked = True
    return short_length(answer, content, before, server)


def long_chunked(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    answer.chunked = True
    answer.body += b"more"
    return answer


def moved_range(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    """Another part of the same length, as it says itself."""
    match = re.fullmatch(
        r"bytes (\d+)-(\d+)/(\d+)", answer.fields.get("Content-Range", "")
    )
    if match:
        by = 1 if int(match[2]) + 1 < int(match[3]) else -1
        first, last = int(match[1]) + by, int(match[2]) + by
        answer.fields["Content-Range"] = f"bytes {first}-{last}/{match[3]}"
        answer.body = content[first : last + 1]
    return answer


def without_range(
    answer: Answer, content: bytes, before: int, server: Server
) -> Answer:
    del answer.fields["Content-Range"]
    return answer


def wrong_size(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    answer.fields["Content-Range"] = (
        answer.fields["Content-Range"].rpartition("/")[0] + f"/{len(content) + 1}"
    )
    return answer


def unknown_size(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    answer.fields["Content-Range"] = (
        answer.fields["Content-Range"].rpartition("/")[0] + "/*"
    )
    return answer


def changed_etag(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    answer.fields["ETag"] = '"another"'
    answer.body = bytes(byte ^ 0xFF for byte in answer.body)
    return answer


def changed_date(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    answer.fields["Last-Modified"] = "Sun, 02 Nov 2025 10:00:00 GMT"
    answer.fields.pop("ETag", None)
    answer.body = bytes(byte ^ 0xFF for byte in answer.body)
    return answer


def date_only(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    answer.fields.pop("ETag", None)
    return answer


def no_identity(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    answer.fields.pop("ETag", None)
    answer.fields.pop("Last-Modified", None)
    return answer


def weak_etag(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    answer.fields["ETag"] = "W/" + answer.fields.get("ETag", '""')
    return answer


def stall(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    answer.sent = len(answer.body) // 2
    answer.pause_s = PAUSE_OF_STALL_S
    return answer


def silent(answer: Answer, content: bytes, before: int, server: Server) -> None:
    server.stopped.wait(PAUSE_OF_STALL_S)


def hung_up(answer: Answer, content: bytes, before: int, server: Server) -> None:
    return None


def whole(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    return Answer(200, {"ETag": etag_of(content), "Last-Modified": DATE}, content)


def whole_chunked(
    answer: Answer, content: bytes, before: int, server: Server
) -> Answer:
    answer = whole(answer, content, before, server)
    answer.chunked = True
    return answer


def whole_unmarked(
    answer: Answer, content: bytes, before: int, server: Server
) -> Answer:
    answer = whole(answer, content, before, server)
    answer.fields["Connection"] = "close"
    answer.fields["X-No-Length"] = "1"
    return answer


def whole_cut(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    return cut(whole(answer, content, before, server), content, before, server)


def encoded(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    answer.fields["Content-Encoding"] = "gzip"
    return answer


def large_header(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    for i in range(90):
        answer.fields[f"X-Padding-{i}"] = "x" * 8000
    return answer


def cut_header(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    answer.cut_header = True
    return answer


def endless(pause_s: float) -> Fault:
    def fault(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
        return Answer(200, {}, b"", chunked=True, endless_pause_s=pause_s)

    return fault


def changing_etag(etag: str) -> Fault:
    """Of two contents in turn, each with its own ETag."""

    def fault(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
        answer.fields["ETag"] = f'"{etag}{min(before, 1)}"'
        return answer

    return fault


def switched(
    answer: Answer, content: bytes, before: int, server: Server
) -> Answer | None:
    return FAULTS[server.switch](answer, content, before, server)


def redirect(to: Callable[[Server], str], code: int = 302) -> Fault:
    def fault(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
        return Answer(code, {"Location": to(server)}, b"")

    return fault


def random_fault(percent: int) -> Fault:
    passing = (
        status(503, Retry_After="0"),
        status(500),
        status(429),
        status(502),
        status(504),
        cut,
        short_length,
        short_chunked,
        long_chunked,
        moved_range,
        without_range,
        hung_up,
    )

    def fault(
        answer: Answer, content: bytes, before: int, server: Server
    ) -> Answer | None:
        chance = random.Random(f"{server.seed} {before}")
        if chance.randrange(100) >= percent:
            return answer
        return chance.choice(passing)(answer, content, before, server)

    return fault


def none(answer: Answer, content: bytes, before: int, server: Server) -> Answer:
    return answer


FAULTS: dict[str, Fault] = {
    "plain": none,
    "first-500": status(500, 2),
    "first-502": status(502, 2),
    "first-503": status(503, 2),
    "first-504": status(504, 2),
    "first-429": status(429, 2),
    "retry-after": status(503, 1, Retry_After="1"),
    "retry-after-long": status(503, Retry_After="100000"),
    "retry-after-odd": status(503, 1, Retry_After="soon"),
    "first-cut": at_first(2, cut),
    "first-short-length": at_first(2, short_length),
    "first-short-chunked": at_first(2, short_chunked),
    "first-long": at_first(2, long_chunked),
    "first-moved": at_first(2, moved_range),
    "first-without-range": at_first(2, without_range),
    "first-hung-up": at_first(2, hung_up),
    "first-stall": at_first(1, stall),
    "first-silent": at_first(1, silent),
    "cut": cut,
    "short-length": short_length,
    "long": long_chunked,
    "moved": moved_range,
    "without-range": without_range,
    "unknown-size": unknown_size,
    "hung-up": hung_up,
    "500": status(500),
    "503": status(503),
    "403": status(403),
    "404": status(404),
    "410": status(410),
    "204": status(204),
    "silent": silent,
    "later-404": later(1, status(404)),
    "later-503": later(1, status(503)),
    "later-cut": later(1, cut),
    "later-long": later(1, long_chunked),
    "later-moved": later(1, moved_range),
    "later-wrong-size": later(1, wrong_size),
    "later-changed-etag": later(1, changed_etag),
    "later-no-etag": later(1, date_only),
    "later-412": later(1, status(412)),
    "later-416": later(1, status(416)),
    "later-whole": later(1, whole),
    "later-first-stall": later(1, at_first(2, stall)),
    "end-503": of_end(status(503)),
    "end-403": of_end(status(403)),
    "end-416": of_end(status(416)),
    "end-cut": of_end(cut),
    "end-whole": of_end(whole),
    "end-hung-up": of_end(hung_up),
    "end-stall": of_end(stall),
    "end-changed": of_end(changed_etag),
    "end-wrong-size": of_end(wrong_size),
    "end-moved": of_end(moved_range),
    "date-only": date_only,
    "date-only-changed": lambda *of: later(1, changed_date)(date_only(*of), *of[1:]),
    "no-identity": no_identity,
    "weak-etag": weak_etag,
    "whole": whole,
    "whole-chunked": whole_chunked,
    "whole-unmarked": whole_unmarked,
    "whole-cut": whole_cut,
    "whole-first-cut": lambda *of: (whole_cut if of[2] < 2 else whole)(*of),
    "encoded": encoded,
    "whole-encoded": lambda *of: encoded(whole(*of), *of[1:]),
    "large-header": large_header,
    "redirect": redirect(lambda server: "../plain/model"),
    "redirect-301": redirect(lambda server: server.url("plain", "model"), 301),
    "redirect-308": redirect(lambda server: server.url("plain", "model"), 308),
    "redirect-loop": redirect(lambda server: server.url("redirect-loop", "model")),
    "redirect-file": redirect(lambda server: "file:///etc/passwd"),
    "redirect-ftp": redirect(lambda server: "ftp://127.0.0.1/model"),
    "redirect-local": redirect(
        lambda server: "http://169.254.169.254/latest/meta-data"
    ),
    "redirect-other-host": redirect(
        lambda server: f"{server.other_origin}/plain/model"
    ),
    "redirect-nowhere": status(302),
    "first-cut-header": at_first(2, cut_header),
    "later-cut-header": later(1, at_first(3, cut_header)),
    "endless-slow": endless(0.1),
    "endless-fast": endless(0),
    "changing-long-etag": changing_etag("x" * 3000),
    "changing-odd-etag": changing_etag("\xe9"),
    "retry-after-9999": status(503, Retry_After="Fri, 31 Dec 9999 23:59:59 GMT"),
    "switched": switched,
    "random": random_fault(40),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    server_state: Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        server = self.server_state
        # A request to a proxy names the host as well.
        path = re.sub("^http://[^/]*", "", self.path.partition("?")[0])
        _, fault, name = (path + "/").split("/", 2)
        name = urllib.parse.unquote(name.removesuffix("/"))
        with server.lock:
            before = server.counts.get(fault, 0)
            # Two threads answer the beginning and the end, asked together: the beginning is the first in any order.
            if not self.headers.get("Range", "").startswith("bytes=-"):
                server.counts[fault] = before + 1
            server.log.append(
                Logged(fault, name, dict(self.headers.items()), self.path)
            )
        time.sleep(server.delay_s)
        content = server.files.get(name)
        if content is None or fault not in FAULTS:
            self.send(Answer(404, {}, b"no such file"))
            return
        answer = FAULTS[fault](
            usual(content, self.headers.get("Range")), content, before, server
        )
        if answer is None:
            self.hang_up()
        else:
            self.send(answer)

    def send_endlessly(self, pause_s: float) -> None:
        self.close_connection = True
        try:
            while not self.server_state.stopped.wait(pause_s):
                self.wfile.write(b"400\r\n" + bytes(1024) + b"\r\n")
        except OSError:
            pass

    def send(self, answer: Answer) -> None:
        if answer.cut_header:
            self.wfile.write(b"HTTP/1.1 206 Partial Content\r\nServer: cut\r\n")
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        no_length = answer.fields.pop("X-No-Length", None) is not None
        for name, value in answer.fields.items():
            self.send_header(name, value)
        if answer.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif not no_length and answer.status != 204:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if answer.endless_pause_s is not None:
            return self.send_endlessly(answer.endless_pause_s)
        body = answer.body if answer.status != 204 else b""
        try:
            if answer.sent is not None:
                self.wfile.write(body[: answer.sent])
                self.wfile.flush()
                self.server_state.stopped.wait(answer.pause_s)
                self.hang_up()
            elif answer.chunked:
                self.wfile.write(
                    b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
                    if body
                    else b"0\r\n\r\n"
                )
            else:
                self.wfile.write(body)
        except OSError:
            self.close_connection = True
        if no_length:
            self.close_connection = True

    def hang_up(self) -> None:
        """Resets the connection: the other end gets an error and not the end of a stream."""
        self.close_connection = True
        try:
            self.connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            self.connection.close()
        except OSError:
            pass


class _ThreadingServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # the client has gone


@contextmanager
def running(files: Mapping[str, bytes], address: str = "127.0.0.1") -> Iterator[Server]:
    state = Server(files=dict(files))
    handler = type("BoundHandler", (Handler,), {"server_state": state})
    with _ThreadingServer((address, 0), handler) as server:
        state.origin = f"http://{address}:{server.server_port}"
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        thread.start()
        try:
            yield state
        finally:
            state.stopped.set()
            server.shutdown()
            thread.join()
