"""Describes the expected and the actual answer of an implementation."""

from __future__ import annotations

from common.outcomes import Json, shade_of

# The expected answer by verdict and command; stream is decode from a pipe.
EXPECTED = {
    "valid": {
        "decode": "decodes as expected",
        "verify": "verifies",
        "encode": "writes a file that follows the rules",
    },
    "malformed": {"decode": "refused", "verify": "refused"},
    "invalid": {"decode": "refused", "verify": "refused", "encode": "refused"},
    "authentication-failure": {"decode": "refused", "verify": "refused"},
    "integrity-failure": {
        "decode": "decodes as expected, or is refused",
        "verify": "refused",
    },
    "implementation-defined": {
        "decode": "decodes as expected, or is refused",
        "verify": "verifies, or is refused",
    },
}
ACCEPTED = {"decode": "decodes", "verify": "verifies", "encode": "writes a file"}


def question(command: str) -> str:
    return "decode" if command == "stream" else command


def label(step: Json) -> str:
    """Returns the command, and the input mode if it was not the plain file."""
    shape = step.get("shape", "file")
    return step["command"] if shape == "file" else f"{step['command']} ({shape})"


def got(step: Json) -> str:
    """Describes the answer of the implementation."""
    answer = step["answer"]
    if answer["kind"] == "rejected":
        return "refused"
    if answer["kind"] == "none":
        return f"no answer: {answer['text']}"
    if answer["kind"] == "unsupported":
        return f"unsupported: {answer['text']}"
    text = ACCEPTED[question(step["command"])]
    if step["outcome"] != "wrong-data":
        return text
    return f"{text}, with other data" if step["difference"] else f"{text} that is wrong"


def answers(verdict: str, steps: list[Json]) -> list[Json]:
    """Returns descriptions of the steps; steps with equal expected and actual answers are merged."""
    told: list[Json] = []
    for step in steps:
        answer = {
            "expected": EXPECTED[verdict][question(step["command"])],
            "got": got(step),
            "shade": shade_of(step["outcome"], step["cites_other_rule"]),
            "rejected": step["answer"]["rejected"],
            "cites_other_rule": step["cites_other_rule"],
            "difference": step["difference"],
            "written": step["written"],
            "stderr": step["stderr"],
        }
        same = next((other for other in told if other["answer"] == answer), None)
        if same:
            same["commands"].append(label(step))
        else:
            told.append({"commands": [label(step)], "answer": answer})
    return told
