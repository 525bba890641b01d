"""Says in words what an implementation had to do with a case, and what it did."""

from __future__ import annotations

from outcomes import Json, shade_of

# What a conforming implementation does, by verdict and command; stream is decode, from a pipe.
EXPECTED = {
    "valid": {
        "decode": "decodes as expected",
        "verify": "verifies",
        "encode": "writes it, by the rules",
    },
    "malformed": {"decode": "refused", "verify": "refused"},
    "invalid": {"decode": "refused", "verify": "refused", "encode": "refused"},
    "authentication-failure": {"decode": "refused", "verify": "refused"},
    "integrity-failure": {
        "decode": "decodes as expected, or refused",
        "verify": "refused",
    },
    "implementation-defined": {
        "decode": "decodes as expected, or refused",
        "verify": "verifies, or refused",
    },
}
ACCEPTED = {"decode": "decodes", "verify": "verifies", "encode": "writes a file"}


def question(command: str) -> str:
    return "decode" if command == "stream" else command


def label(step: Json) -> str:
    """The command, and the input mode if it was not a plain file."""
    shape = step.get("shape", "file")
    return step["command"] if shape == "file" else f"{step['command']} ({shape})"


def got(step: Json) -> str:
    """What the implementation did, in words."""
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
    """The steps in words; one that had and gave the same answer as one before is told with it."""
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
