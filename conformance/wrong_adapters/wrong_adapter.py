"""Defines wrong adapters: each asks the reference codec and changes its answer in one way.

A wrong adapter is a function that a decorator registers in WRONG_ADAPTERS under the function's name. The docstring says
what it does wrong, and the decorator names the rules, one of which a failing case must cite.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class Reference:
    """The reference adapter, asked through one process."""

    def __init__(self, command: str) -> None:
        self._process = subprocess.Popen(
            [command, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self, request: Json) -> Json:
        """The answer, without its id."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        print(json.dumps({**request, "id": 0}), file=stdin, flush=True)
        answer = json.loads(stdout.readline())
        del answer["id"]
        return answer


class Question:
    """One request, and the reference that knows the right answer."""

    def __init__(self, request: Json, reference: Reference) -> None:
        self.request = request
        self._reference = reference

    @property
    def command(self) -> str:
        return self.request["command"]

    def file(self) -> bytes:
        """The file that a reader is asked about."""
        return Path(self.request["file"]).read_bytes()

    def right_answer(self, **changes: Any) -> Json:
        """What the reference says, to the request or to a changed one. None takes a member out of the request."""
        changed = {**self.request, **changes}
        return self._reference.answer(
            {name: value for name, value in changed.items() if value is not None}
        )

    def right_answer_about(self, file: bytes, **changes: Any) -> Json:
        """What the reference would say to the request, or to a changed one, if the file were this one."""
        with tempfile.NamedTemporaryFile(prefix="tzmark-wrong-adapter-") as copy:
            copy.write(file)
            copy.flush()
            return self.right_answer(file=copy.name, **changes)

    def is_about_reading(self) -> bool:
        return self.command in ("decode", "verify")


def is_rejected_for(answer: Json, *rules: str) -> bool:
    return answer.get("rejected", {}).get("rule") in rules


@dataclass(frozen=True)
class WrongAdapter:
    """A mistake, and what is known of it."""

    name: str
    mistake: str
    rules: tuple[str, ...]
    answer: Callable[[Question], Json]
    # Which cases the suite runs on it, and how.
    options: tuple[str, ...]
    # What it answers; without serve, one process a question.
    commands: tuple[str, ...] = ("decode", "verify", "encode", "serve")
    # Whether it makes no mistake: a control, which must pass.
    is_right: bool = False
    # The only input modes in which it makes its mistake.
    input_modes: tuple[str, ...] = ()
    # The ids of the cases that it fails, if the test compares them: it passes all others that it is asked.
    caught_by: tuple[str, ...] = ()


WRONG_ADAPTERS: dict[str, WrongAdapter] = {}

Answerer = Callable[[Question], Json]


def about(rules: tuple[str, ...]) -> tuple[str, ...]:
    """The options of the suite that choose the cases about certain rules."""
    return tuple(word for rule in rules for word in ("--rule", rule))


def only(pattern: str) -> tuple[str, ...]:
    """The options of the suite that choose the cases with such an id."""
    return ("--only", pattern)


def enter(
    function: Callable[..., Any],
    rules: tuple[str, ...],
    answer: Answerer,
    options: tuple[str, ...] | None = None,
    **details: Any,
) -> None:
    """Registers a function with its name and docstring. Without options the rules choose the cases."""
    name = function.__name__.replace("_", "-")
    chosen = about(rules) if options is None else options
    wrong = WrongAdapter(name, function.__doc__ or "", rules, answer, chosen, **details)
    is_known = bool(rules) or bool(wrong.input_modes)
    if not wrong.mistake or name in WRONG_ADAPTERS or is_known == wrong.is_right:
        raise ValueError(
            f"wrong adapter {name} is registered twice, or lacks its description or rules"
        )
    WRONG_ADAPTERS[name] = wrong


def answers(
    *rules: str, options: tuple[str, ...] | None = None, **details: Any
) -> Callable[[Answerer], Answerer]:
    """Registers a function that answers every question."""

    def decorate(function: Answerer) -> Answerer:
        enter(function, rules, function, options, **details)
        return function

    return decorate


# Plain and encrypted files, such that are cut off, and such that no pipe holds at once.
OF_EVERY_KIND = ("dtype-f*", "crypt-*", "malformed-trunc-*", "tensorizer-2.0.0-*")


def misreads(
    *input_modes: str, cases: tuple[str, ...] = OF_EVERY_KIND
) -> Callable[[Answerer], Answerer]:
    """Registers a function that answers every question, wrongly in those input modes alone."""
    chosen = tuple(word for pattern in cases for word in only(pattern))
    return answers(options=chosen, input_modes=input_modes)


@answers(options=only("*"), is_right=True)
def none(question: Question) -> Json:
    """Nothing: the suite has to pass it, so whatever fails elsewhere is the fault of the mutation."""
    return question.right_answer()
