#!/usr/bin/env python3
"""An adapter that implements nothing: it looks the right answer up in the manifest of the corpus, by the file's digest.

usage: fake_adapter.py [--corpus DIR] [--case PATTERN=BEHAVIOUR]... [--profile JSON] [--idle-bytes N]
                       COMMAND [FILE [OUT]] [options]

Where told, it misbehaves. PATTERN is matched against the id of the case, or against ID:COMMAND if it holds a colon.
Without a match the answer is honest, so a run with a few misbehaving cases shows what the suite makes of each kind of
fault. Reports and tests are tried on it. The behaviours of attacks.py are those of a hostile adapter.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import fcntl
import fnmatch
import hashlib
import io
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

# An isolated interpreter does not look next to the program.
sys.path.insert(0, str(Path(__file__).parent))

from attacks import ATTACKS

Json = dict[str, Any]

LAYOUTS = [
    "v1",
    "v2",
    "v3",
    "v4",
    "v5-flagged-dims",
    "v5-headers-first",
    "v5-segments",
    "v5-long-dims",
]
# What manifest and command line call the two kinds of key.
KEYS = ("key_hex", "passphrase")
PROFILE: Json = {
    "protocol": 1,
    "name": "fake",
    "version": "1",
    "commands": ["decode", "verify"],
    "reads": {"layouts": LAYOUTS},
}


def content_of(file: Path) -> bytes:
    """The content of a file, or of what a URL names, which is asked for once."""
    # A path has one slash where a URL has two.
    if file.parts[0] == "http:":
        # Most processes need it not, and are short.
        import urllib.request

        url = str(file).replace("/", "//", 1)
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read()
    return file.read_bytes()


class Question:
    """One command for one file, with what the manifest says about it."""

    def __init__(
        self, command: str, file: Path, key: Json, out: Path | None, corpus: Path
    ) -> None:
        self.command = command
        self.file = file
        self.out = out
        self.corpus = corpus
        if command == "encode":
            # Tests put the case into its specification.
            self.case: Json = json.loads(file.read_text())["case"]
            return
        cases = json.loads((corpus / "manifest.json").read_text())["cases"]
        if command == "stream":
            # Tests give streamed files no key, and their content names them.
            first = os.read(0, 64)
            more = sys.stdin.buffer.read(max(64 - len(first), 0))
            name = (first + more).split(b"\0")[0].decode()
            self.came_at_once = len(first) >= len(name)
            self.case = next(
                case for case in cases if f"content of {case['id']}" == name
            )
            return
        # The path of the file does not tell.
        sha256 = hashlib.sha256(content_of(file)).hexdigest()
        # One file may be several cases, which open it with different keys.
        matches = [
            case
            for case in cases
            if case["sha256"] == sha256
            and {name: case[name] for name in KEYS if name in case} == key
        ]
        if len(matches) != 1:
            raise ValueError(
                f"{len(matches)} cases have this content, opened with {key}"
            )
        self.case = matches[0]

    def expected(self) -> Json:
        path = self.case.get("expected")
        return json.loads((self.corpus / path).read_text()) if path else {"tensors": []}

    def is_to_be_rejected(self) -> bool:
        verdict = self.case["verdict"]
        if verdict == "integrity-failure":
            return self.command == "verify"
        return verdict not in ("valid", "implementation-defined")


def accept(question: Question) -> NoReturn:
    if question.command == "encode":
        if question.out and question.case["writes"]:
            shutil.copyfile(question.case["writes"], question.out)
        document: Json = {"encoded": True}
    else:
        document = (
            {"verified": True} if question.command == "verify" else question.expected()
        )
    print(json.dumps(document))
    sys.exit(0)


def reject(question: Question, rule: str | None = None) -> NoReturn:
    cited = rule or question.case["rules"][0]
    print(
        json.dumps(
            {
                "rejected": {
                    "rule": cited,
                    "offset": 65,
                    "message": "the file breaks this rule",
                }
            }
        )
    )
    sys.exit(1)


def honest(question: Question) -> NoReturn:
    if question.is_to_be_rejected():
        reject(question)
    accept(question)


def reject_for_another_rule(question: Question) -> NoReturn:
    reject(question, "TZR-HDR-999")


def unsupported(question: Question) -> NoReturn:
    print(json.dumps({"unsupported": "not built"}))
    sys.exit(2)


def wrong_data(question: Question) -> NoReturn:
    if question.command == "verify":
        accept(question)
    if question.command == "encode":
        print(json.dumps({"encoded": True}))
        sys.exit(0)
    document = question.expected()
    document["tensors"][0]["shape"] = [4, 4]
    print(json.dumps(document))
    sys.exit(0)


def raise_exception(question: Question) -> NoReturn:
    """Exits with status 1, as every uncaught exception in Python does: not a rejection."""
    raise ValueError(f"cannot unpack {question.case['id']}")


def exit_in_usage(question: Question) -> NoReturn:
    """Exits with status 2, as argparse does: not 'unsupported'."""
    argparse.ArgumentParser().error("no such file")


def print_nothing(question: Question) -> NoReturn:
    sys.exit(0)


def print_noise(question: Question) -> NoReturn:
    print("loading library ... done")
    sys.exit(0)


def chatty(question: Question) -> NoReturn:
    """Prints a line before its answer, which is allowed before the lines that are looked for at the end."""
    print("warning: slow path", flush=True)
    honest(question)


def segfault(question: Question) -> NoReturn:
    print("about to fall", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("unreachable")


def segfault_in_another_group(question: Question) -> NoReturn:
    """Answers, leaves for the group of its parent, and is killed there."""
    os.setpgid(0, os.getpgid(os.getppid()))
    end_after_the_answer(question, lambda: os.kill(os.getpid(), signal.SIGSEGV))


def fail_in_another_group(question: Question) -> NoReturn:
    """The same, with an exit status that is none of the protocol's."""
    os.setpgid(0, os.getpgid(os.getppid()))
    end_after_the_answer(question, lambda: os._exit(7))


def end_after_the_answer(question: Question, end: Callable[[], None]) -> NoReturn:
    try:
        honest(question)
    except SystemExit:
        sys.stdout.flush()
        end()
    raise AssertionError("unreachable")


def kill_parent(question: Question) -> NoReturn:
    """Answers, and kills the process that could report how it ended."""
    end_after_the_answer(question, lambda: os.kill(os.getppid(), signal.SIGKILL))


def leave_chain_behind(question: Question) -> NoReturn:
    """Answers, and leaves processes that start the next one and end, in a session of their own."""
    if os.fork() == 0:
        os.setsid()
        while True:
            if os.fork():
                os._exit(0)
    honest(question)


def fill_disk(question: Question) -> NoReturn:
    """Takes the directory for temporary files piece by piece, far more than it may, and answers."""
    with tempfile.NamedTemporaryFile() as file:
        for piece in range(375):
            os.posix_fallocate(file.fileno(), piece << 23, 1 << 23)
            time.sleep(0.01)
    honest(question)


def leave_temporary_files(question: Question) -> NoReturn:
    """Answers, and leaves files behind, more than it may."""
    for _ in range(4):
        descriptor, _ = tempfile.mkstemp()
        os.posix_fallocate(descriptor, 0, 100 << 20)
    honest(question)


def spike_after_a_costly_start(question: Question) -> NoReturn:
    """Takes less memory than capabilities did, and more than it may."""
    piece = b"\xaa" * (850 << 20)
    del piece
    honest(question)


def hang(question: Question) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(60)


def hang_behind_closed_output(question: Question) -> NoReturn:
    os.close(1)
    os.close(2)
    hang(question)


def hog(question: Question) -> NoReturn:
    """Takes memory piece by piece, far beyond every limit, for as long as it lives."""
    pieces = []
    for _ in range(4096):
        pieces.append(b"\xaa" * (16 << 20))
    honest(question)


def spike(question: Question) -> NoReturn:
    """Takes much memory for a moment and answers properly."""
    piece = b"\xaa" * (300 << 20)
    del piece
    honest(question)


def child_hogs(question: Question) -> NoReturn:
    """Is small itself, but starts a process that is not."""
    subprocess.run(
        [sys.executable, "-c", "import time; x = b'1' * (300 << 20); time.sleep(0.2)"],
        check=True,
    )
    honest(question)


def flood(question: Question) -> NoReturn:
    """Prints 10 GiB, none of it a line end."""
    line = b"x" * (1 << 20)
    for _ in range(10 << 10):
        sys.__stdout__.buffer.write(line)
    sys.exit(0)


def flood_stderr(question: Question) -> NoReturn:
    """Prints 80 MiB of diagnosis, which is allowed, and then answers."""
    for _ in range(80):
        sys.stderr.write("e" * ((1 << 20) - 1) + "\n")
    print("the end of stderr", file=sys.stderr, flush=True)
    honest(question)


def leave_child_behind(question: Question) -> NoReturn:
    """Answers, but leaves a process behind that holds its output open."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    honest(question)


def read_on(question: Question) -> NoReturn:
    """Takes all that comes on stdin before it looks at it."""
    while sys.stdin.buffer.read(1 << 16):
        pass
    honest(question)


def refuse_after_one_read(question: Question) -> NoReturn:
    """Of stdin, takes the first read for all of it."""
    if not question.came_at_once:
        reject(question)
    honest(question)


def open_for_writing(question: Question) -> NoReturn:
    """Opens the file to write to it, which is not needed to read it."""
    with question.file.open("r+b"):
        honest(question)


def leave_file_behind(question: Question) -> NoReturn:
    """Rejects a specification, but leaves a file under the name of the result."""
    assert question.out
    question.out.write_bytes(b"half a file")
    reject(question)


def leave_fifo(question: Question) -> NoReturn:
    """Says that it wrote a file, and left something that blocks who opens it."""
    assert question.out
    os.mkfifo(question.out)
    print(json.dumps({"encoded": True}))
    sys.exit(0)


def leave_endless_file(question: Question) -> NoReturn:
    """Writes a sparse file larger than any that the specification asks for."""
    assert question.out
    with question.out.open("wb") as file:
        file.truncate(2 << 30)
    print(json.dumps({"encoded": True}))
    sys.exit(0)


def answer_and_die(question: Question) -> NoReturn:
    """In serve, answers and falls over a moment later."""
    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    honest(question)


def answer_and_end(question: Question) -> NoReturn:
    """In serve, answers and ends a moment later, which is allowed."""
    threading.Timer(0.05, lambda: os._exit(0)).start()
    honest(question)


def die_at_the_end(question: Question) -> NoReturn:
    """In serve, answers, and falls over when stdin has ended."""
    atexit.register(lambda: os.kill(os.getpid(), signal.SIGKILL))
    honest(question)


def remove_file(question: Question) -> NoReturn:
    """Answers about a file that it has removed."""
    question.file.unlink()
    honest(question)


def change_data(question: Question) -> NoReturn:
    """Writes, and changes the data that the specification names."""
    for path in question.file.parent.glob("*.bin"):
        path.write_bytes(b"x" + path.read_bytes()[1:])
    honest(question)


def replace_data(question: Question) -> NoReturn:
    """Writes, and puts a FIFO, from which nothing can be read, in the place of the data."""
    for path in question.file.parent.glob("*.bin"):
        path.unlink()
        os.mkfifo(path)
    honest(question)


def change_file(question: Question) -> NoReturn:
    """Answers about a file to which it has added a byte."""
    with question.file.open("ab") as file:
        file.write(b"x")
    honest(question)


def answer_twice(question: Question) -> NoReturn:
    """In serve, answers and then prints an unrequested line."""
    print(json.dumps(question.expected()))
    print("done", file=sys.__stdout__, flush=True)
    sys.exit(0)


class Caught(Exception):
    """A fault that serve reports and survives."""


def crash_and_go_on(question: Question) -> NoReturn:
    raise Caught("an assertion failed")


# Of a process that serves: the cases that it was asked about and must not forget.
REMEMBERED: set[str] = set()


def remember(question: Question) -> NoReturn:
    """In serve, answers properly, and remembers the case."""
    REMEMBERED.add(question.case["id"])
    honest(question)


def wrong_after_one(question: Question) -> NoReturn:
    """In serve, answers wrongly once a case is remembered."""
    if REMEMBERED:
        wrong_data(question)
    honest(question)


def wrong_after_two(question: Question) -> NoReturn:
    """In serve, answers wrongly once two cases are remembered."""
    if len(REMEMBERED) > 1:
        wrong_data(question)
    honest(question)


# Of a process that serves: the paths that it must not forget.
REMEMBERED_PATHS: set[Path] = set()


def remember_path(question: Question) -> NoReturn:
    """In serve, answers properly, and remembers the path."""
    REMEMBERED_PATHS.add(question.file)
    honest(question)


def wrong_about_a_path(question: Question) -> NoReturn:
    """In serve, answers wrongly about a file whose path is remembered."""
    if question.file in REMEMBERED_PATHS:
        wrong_data(question)
    honest(question)


def wrong_once(question: Question) -> NoReturn:
    """Answers wrongly the first time, and leaves a file in the corpus by which it knows."""
    mark = question.corpus / ".asked"
    if question.command == "decode" and not mark.exists():
        mark.touch()
        wrong_data(question)
    honest(question)


def overwrite_expectation(question: Question) -> NoReturn:
    """Writes its wrong answer over the one that the corpus expects, and gives it."""
    document = question.expected()
    document["tensors"][0]["shape"] = [4, 4]
    (question.corpus / question.case["expected"]).write_text(json.dumps(document))
    honest(question)


def wrong_now_and_then(question: Question) -> NoReturn:
    """Answers wrongly every second time, whatever else it was asked."""
    mark = question.corpus / ".asked"
    if question.command == "decode":
        if not mark.exists():
            mark.touch()
            wrong_data(question)
        mark.unlink()
    honest(question)


def change_mapped_file(question: Question) -> NoReturn:
    """Changes the file through a mapping, which changes no time of a file in memory, and answers."""
    with question.file.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[-1] ^= 255
    honest(question)


def fill_directory_of_file(question: Question) -> NoReturn:
    """Writes more than it may next to the file, and answers."""
    with (question.file.parent / "cache").open("wb") as cache:
        os.posix_fallocate(cache.fileno(), 0, 300 << 20)
    honest(question)


def remove_directory_of_file(question: Question) -> NoReturn:
    """Cleans up too much, and answers."""
    shutil.rmtree(question.file.parent)
    honest(question)


def overwrite_case(question: Question) -> NoReturn:
    """Writes over the file of its case in the corpus, and answers."""
    (question.corpus / question.case["path"]).write_text("changed")
    honest(question)


def overwrite_rules(question: Question) -> NoReturn:
    """Writes over the rules of the corpus, and answers."""
    (question.corpus / "rules.json").write_text("{}")
    honest(question)


def leave_unreadable_file(question: Question) -> NoReturn:
    """Writes a file that its own user may not read."""
    assert question.out
    question.out.write_bytes(b"x")
    question.out.chmod(0)
    accept(question)


BEHAVIOURS: dict[str, Callable[[Question], NoReturn]] = {
    "accept": accept,
    "reject": reject,
    "honest": honest,
    "reject-for-another-rule": reject_for_another_rule,
    "unsupported": unsupported,
    "wrong-data": wrong_data,
    "exception": raise_exception,
    "usage": exit_in_usage,
    "print-nothing": print_nothing,
    "print-noise": print_noise,
    "chatty": chatty,
    "segfault": segfault,
    "segfault-in-another-group": segfault_in_another_group,
    "fail-in-another-group": fail_in_another_group,
    "kill-parent": kill_parent,
    "leave-chain-behind": leave_chain_behind,
    "fill-disk": fill_disk,
    "leave-temporary-files": leave_temporary_files,
    "spike-after-a-costly-start": spike_after_a_costly_start,
    "hang": hang,
    "hang-behind-closed-output": hang_behind_closed_output,
    "hog": hog,
    "spike": spike,
    "child-hogs": child_hogs,
    "flood": flood,
    "flood-stderr": flood_stderr,
    "leave-child-behind": leave_child_behind,
    "read-on": read_on,
    "refuse-after-one-read": refuse_after_one_read,
    "open-for-writing": open_for_writing,
    "leave-file-behind": leave_file_behind,
    "leave-fifo": leave_fifo,
    "leave-endless-file": leave_endless_file,
    "answer-and-die": answer_and_die,
    "answer-and-end": answer_and_end,
    "die-at-the-end": die_at_the_end,
    "remove-file": remove_file,
    "change-data": change_data,
    "replace-data": replace_data,
    "change-file": change_file,
    "change-mapped-file": change_mapped_file,
    "fill-directory-of-file": fill_directory_of_file,
    "remove-directory-of-file": remove_directory_of_file,
    "overwrite-case": overwrite_case,
    "overwrite-rules": overwrite_rules,
    "leave-unreadable-file": leave_unreadable_file,
    "answer-twice": answer_twice,
    "remember": remember,
    "remember-path": remember_path,
    "wrong-about-a-path": wrong_about_a_path,
    "wrong-after-one": wrong_after_one,
    "wrong-after-two": wrong_after_two,
    "wrong-once": wrong_once,
    "overwrite-expectation": overwrite_expectation,
    "wrong-now-and-then": wrong_now_and_then,
    "caught": crash_and_go_on,
}


def behave(question: Question, rules: list[str]) -> NoReturn:
    """Answers as the first rule that matches the case says."""
    for rule in rules:
        pattern, _, behaviour = rule.rpartition("=")
        case_id = question.case["id"]
        subject = f"{case_id}:{question.command}" if ":" in pattern else case_id
        if fnmatch.fnmatchcase(subject, pattern):
            if behaviour in ATTACKS:
                ATTACKS[behaviour]()
                break
            BEHAVIOURS[behaviour](question)
    honest(question)


def served(request: Json, rules: list[str], corpus: Path) -> str:
    """What a process that was started for this question would print, as the answer of one that serves."""
    question = Question(
        request["command"],
        Path(request.get("file") or request["spec"]),
        {name: request[name] for name in KEYS if name in request},
        Path(request["out"]) if "out" in request else None,
        corpus,
    )
    output = io.StringIO()
    status: Any = None
    try:
        with contextlib.redirect_stdout(output):
            behave(question, rules)
    except Caught as fault:
        return json.dumps({"id": request["id"], "crashed": str(fault)})
    except SystemExit as end:
        status = end.code
    try:
        lines = output.getvalue().splitlines()
        answer = json.loads(lines[-1])
    except (ValueError, IndexError):
        return output.getvalue()
    if status == 0 and request["command"] == "decode":
        answer = {"decoded": answer}
    return json.dumps({"id": request["id"], **answer})


def serve_alone(name: Path) -> None:
    """Fails where another process has the lock, and takes long to start with it."""
    lock = os.open(name, os.O_WRONLY | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    time.sleep(1)


def serve(profile: str, rules: list[str], corpus: Path) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if request["command"] == "capabilities":
            capabilities = json.loads(profile)
            print(json.dumps({"id": request["id"], "capabilities": capabilities}))
        else:
            print(served(request, rules, corpus))
        sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--case", action="append", default=[], metavar="PATTERN=BEHAVIOUR"
    )
    parser.add_argument("--corpus", type=Path, help="where the answers are")
    parser.add_argument("--profile", default=json.dumps(PROFILE))
    parser.add_argument(
        "--idle-bytes", type=int, default=0, help="memory to hold from the start"
    )
    parser.add_argument(
        "--costly-start",
        action="store_true",
        help="capabilities takes 4 seconds and 700 MiB for nothing",
    )
    parser.add_argument(
        "--leave",
        action="store_true",
        help="capabilities prints the id of a process that it leaves, and fails",
    )
    parser.add_argument(
        "command",
        choices=["capabilities", "decode", "verify", "stream", "encode", "serve"],
    )
    parser.add_argument("--at-end", type=Path, help="what serve makes when stdin ends")
    parser.add_argument("--starts-once", type=Path, help="what serve makes first")
    parser.add_argument("--starts-later", type=Path, help="what the first serve makes")
    parser.add_argument("--serves-alone", type=Path, help="what serve locks")
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--key-file", type=Path)
    parser.add_argument("--passphrase-file", type=Path)
    arguments = parser.parse_args()
    ballast = b"\xaa" * arguments.idle_bytes
    if arguments.command == "capabilities":
        if arguments.costly_start:
            cost = b"\xaa" * (700 << 20)
            time.sleep(4)
            del cost
        if arguments.leave:
            left = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True)
            sys.exit(f"left {left.pid}")
        print(arguments.profile)
        return
    if arguments.command == "serve":
        if arguments.starts_once:
            # Fails where an earlier process made it.
            arguments.starts_once.touch(exist_ok=False)
        if arguments.starts_later:
            # Fails where no earlier process made it.
            if not arguments.starts_later.exists():
                arguments.starts_later.touch()
                sys.exit("the first process does not serve")
        if arguments.serves_alone:
            serve_alone(arguments.serves_alone)
        serve(arguments.profile, arguments.case, arguments.corpus)
        if arguments.at_end:
            arguments.at_end.touch()
        return
    options = (arguments.key_file, arguments.passphrase_file)
    key = {name: option.read_text() for name, option in zip(KEYS, options) if option}
    behave(
        Question(
            arguments.command,
            arguments.file,
            key,
            arguments.out,
            arguments.corpus,
        ),
        arguments.case,
    )
    del ballast


if __name__ == "__main__":
    main()
