"""Asks a reader again about the invalid files that it accepted, and records what it returned for each.

usage: python3 -m readers.answers RESULT.json --cases DIR -o ANSWERS.json

The result of a run says that a file was accepted, but not with which content. RESULT.json is that of a reader that
serves, and DIR the directory of the cases. ANSWERS.json has the digests of the tensors by case, or null if the reader
did not answer this time.

Exit status: 0 success, 2 wrong usage, 3 a file cannot be read or has the wrong content.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import subprocess
import sys
import tempfile
from pathlib import Path

from common import output_file, results
from common.outcomes import Json

ANSWER_SECONDS_MAX = 30.0
START_SECONDS_MAX = 120.0


class Server:
    """An adapter that serves. It is started again after a question that it does not answer."""

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def ask(self, file: Path) -> Json | None:
        """Returns the answer to decode, or None without one."""
        if self._process is None:
            self._start()
        answer = self._exchange({"command": "decode", "file": str(file)})
        if answer is None:
            self.stop()
        return answer

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> None:
        self._rest = b""
        self._process = subprocess.Popen(
            [*self._argv, "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        # Libraries load before the first answer.
        self._exchange({"command": "capabilities"}, START_SECONDS_MAX)

    def _exchange(
        self, request: Json, seconds: float = ANSWER_SECONDS_MAX
    ) -> Json | None:
        process = self._process
        assert process is not None and process.stdin is not None
        try:
            process.stdin.write(json.dumps({"id": 1, **request}).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self._line(seconds)
        try:
            answer = json.loads(line) if line else None
        except ValueError:
            return None
        return answer if isinstance(answer, dict) else None

    def _line(self, seconds: float) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(seconds):
                    return b""
                part = os.read(descriptor, 1 << 16)
                if not part:
                    return b""
                self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def answers_of(result: Json, cases: Path) -> Json:
    """Returns the tensors of each accepted invalid file, by case."""
    answers: Json = {}
    if "decode" not in result["adapter"]["profile"]["commands"]:
        return answers
    server = Server(result["adapter"]["argv"])
    try:
        for case in result["cases"]:
            if case["outcome"] == "accepted-invalid":
                answer = server.ask(cases / case["path"]) or {}
                decoded = answer.get("decoded")
                answers[case["id"]] = decoded["tensors"] if decoded else None
    finally:
        server.stop()
    return answers


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="readers.answers", description=__doc__.splitlines()[0]
    )
    parser.add_argument("result", type=Path)
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        result = results.read(options.result, (results.CONFORMANCE,))
        # Some readers keep files of their own in the temporary directory.
        with tempfile.TemporaryDirectory() as directory:
            os.environ["TMPDIR"] = directory
            document = answers_of(result, options.cases)
        output_file.write(options.out, results.dump(document))
    except (OSError, results.NotAResult) as error:
        print(f"answers: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
