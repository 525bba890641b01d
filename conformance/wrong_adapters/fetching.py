"""Wrong adapters that read files correctly, and URLs with one mistake.

Each reads a URL part by part, as readers of remote files do, and asks the reference about what it got as a file.
"""

from __future__ import annotations

import http.client
import socket
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from wrong_adapter import Json, Question, misreads

ATTEMPTS_MAX = 4
PAUSE_S = 0.001
TIMEOUT_S = 10
# Small files, enough for each behaviour of the server.
CASES = ("dtype-f*",)


@dataclass
class Answer:
    """What arrived of an answer, and how long its body was to be."""

    status: int
    body: bytes
    whole_bytes: int
    # Of the file, where the answer says so.
    file_bytes: int | None

    def is_complete(self) -> bool:
        return len(self.body) == self.whole_bytes


# Takes the URL and the first byte that is wanted, with the last one if not all others are; None: no answer came.
Ask = Callable[[str, int, "int | None"], "Answer | None"]


def ask(url: str, first: int, last: int | None) -> Answer | None:
    """Sends one request for a range."""
    parsed = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parsed.netloc, timeout=TIMEOUT_S)
    wanted = f"bytes={first}-{'' if last is None else last}"
    try:
        connection.request("GET", parsed.path, headers={"Range": wanted})
        answer = connection.getresponse()
        whole_bytes = int(answer.headers["Content-Length"])
        total = answer.headers.get("Content-Range", "/").rpartition("/")[2]
        try:
            body = answer.read()
        except http.client.IncompleteRead as cut:
            body = cut.partial
    except (http.client.HTTPException, OSError):
        return None
    finally:
        connection.close()
    return Answer(answer.status, body, whole_bytes, int(total) if total else None)


def repeat(send: Callable[[], Answer | None]) -> Answer:
    """Sends a request until its answer is no fault that passes. The last one may be cut off."""
    for _ in range(ATTEMPTS_MAX):
        answer = send()
        if answer and answer.status not in (429, 503) and answer.is_complete():
            return answer
        time.sleep(PAUSE_S)
    raise OSError("the server fails again and again")


def fetch(url: str, send: Ask = ask) -> bytes:
    """The file, in two parts: right, if what sends the requests is."""
    first = repeat(lambda: send(url, 0, 0))
    if first.status == 416:
        return b""
    if first.status == 200:
        return first.body
    assert first.file_bytes is not None
    content, end = b"", first.file_bytes
    for begin, last in ((0, (end - 1) // 2), ((end - 1) // 2 + 1, end - 1)):
        if begin > last:
            continue
        part = repeat(lambda: send(url, begin, last))
        content = part.body if part.status == 200 else content + part.body
    return content


def is_url(question: Question) -> bool:
    return question.is_about_reading() and question.request["file"].startswith("http:")


def right_but(question: Question, send: Ask) -> Json:
    """The right answer, but about what is fetched so where the file is a URL."""
    if not is_url(question):
        return question.right_answer()
    return question.right_answer_about(fetch(question.request["file"], send))


@misreads("http", "http-faults", cases=CASES)
def takes_a_whole_answer_for_a_part(question: Question) -> Json:
    """Takes the body of an answer for the range that it asked for, also where the server sent all of the file."""

    def send(url: str, first: int, last: int | None) -> Answer | None:
        answer = ask(url, first, last)
        if answer and answer.status == 200:
            end = len(answer.body) if last is None else last + 1
            # As from a server with ranges, of a file of this size.
            body = answer.body[: end - first]
            return Answer(206, body, len(body), answer.whole_bytes)
        return answer

    return right_but(question, send)


@misreads("http-faults", cases=CASES)
def takes_a_cut_body_for_a_whole_one(question: Question) -> Json:
    """Compares no body with its Content-Length."""

    def send(url: str, first: int, last: int | None) -> Answer | None:
        answer = ask(url, first, last)
        if answer and answer.status < 400:
            answer.whole_bytes = len(answer.body)
        return answer

    return right_but(question, send)


@misreads("http-faults", cases=CASES)
def goes_on_where_no_range_is_sent(question: Question) -> Json:
    """Keeps what arrived of a cut body, and appends the answer to a request for the rest, also if it is all again."""

    def send(url: str, first: int, last: int | None) -> Answer | None:
        answer = ask(url, first, last)
        while answer and answer.status < 400 and not answer.is_complete():
            rest = repeat(lambda: ask(url, first + len(answer.body), last))
            answer.body += rest.body
            answer.whole_bytes = len(answer.body)
        return answer

    return right_but(question, send)


@misreads("http-faults", cases=CASES)
def takes_an_error_for_the_file(question: Question) -> Json:
    """Does not look at the status of an answer to a request for the whole file."""

    def send(url: str, first: int, last: int | None) -> Answer | None:
        answer = ask(url, first, last)
        if answer and answer.status in (429, 503):
            answer.status = 200
        return answer

    return right_but(question, send)


@misreads("http-faults", cases=("dtype-float8*",))
def gives_up_at_once(question: Question) -> Json:
    """Repeats no request."""
    if not is_url(question):
        return question.right_answer()
    answer = ask(question.request["file"], 0, None)
    if answer and answer.status == 416:
        return question.right_answer_about(b"")
    if answer is None or answer.status >= 400 or not answer.is_complete():
        return {"crashed": "the server failed"}
    return question.right_answer_about(answer.body)


@contextmanager
def request_for(url: str) -> Iterator[socket.socket]:
    """A connection on which the file was asked for."""
    parsed = urllib.parse.urlsplit(url)
    assert parsed.hostname and parsed.port
    address = (parsed.hostname, parsed.port)
    with socket.create_connection(address, timeout=TIMEOUT_S) as connection:
        request = f"GET {parsed.path} HTTP/1.1\r\nHost: {parsed.netloc}\r\n\r\n"
        connection.sendall(request.encode())
        yield connection


@misreads("http", "http-faults", cases=CASES)
def takes_what_has_arrived_for_all(question: Question) -> Json:
    """Reads once after the head of an answer, and takes what came for the whole body."""
    if not is_url(question):
        return question.right_answer()
    received = b""
    for _ in range(ATTEMPTS_MAX):
        try:
            with request_for(question.request["file"]) as connection:
                received = b""
                while b"\r\n\r\n" not in received:
                    if not (piece := connection.recv(1 << 24)):
                        break
                    received += piece
                head, _, body = received.partition(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split()[0])
                if len(body) < length:
                    body += connection.recv(length - len(body))
        except (OSError, IndexError):
            continue
        if head.split()[1] == b"200":
            return question.right_answer_about(body)
    return {"crashed": "the server fails again and again"}
