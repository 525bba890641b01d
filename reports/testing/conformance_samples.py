"""Generates small results of the runner for tests of the pages."""

from __future__ import annotations

from collections.abc import Callable

from common.outcomes import OUTCOMES, Json

SECTIONS = {
    "TZR-HDR": "3 File header",
    "TZR-IDX": "4 Index",
    "TZR-CRY": "10 Encryption",
    "TZR-SEG": "14.3 v5-segments",
}
ACCEPTED: Json = {"kind": "accepted", "rejected": None, "text": None}


def rejected(rule: str | None, message: str = "no") -> Json:
    refusal = {"rule": rule, "offset": 5, "message": message}
    return {"kind": "rejected", "rejected": refusal, "text": None}


def no_answer(text: str) -> Json:
    return {"kind": "none", "rejected": None, "text": text}


def step(command: str, outcome: str, answer: Json, **members: object) -> Json:
    return {
        "command": command,
        "shape": "file",
        "outcome": outcome,
        "reason": None,
        "answer": answer,
        "cites_other_rule": False,
        "difference": None,
        "explanation": None,
        "written": None,
        "process": {
            "end": "answered",
            "exit_status": None,
            "signal": None,
            "elapsed_ns": 2_000_000,
            "rss_peak_bytes": 8 << 20,
            "rss_max_bytes": 72 << 20,
            "stdin_taken_bytes": 0,
        },
        "stderr_tail": "",
        **members,
    }


def explanation(rule: str = "TZR-HDR-002", fields: int = 9) -> Json:
    rows = [
        {
            "offset": 8 * index,
            "hex": "00 11 22 33 44 55 66 77",
            "field": f"index entry {index}: offset of the header",
            "value": str(index),
            "marked": index == fields // 2,
        }
        for index in range(fields)
    ]
    return {
        "rule": rule,
        "offset": 8 * (fields // 2),
        "message": "the magic is another",
        "bytes": rows,
    }


def case(id: str, rules: list[str], verdict: str = "valid", **members: object) -> Json:
    """Returns a case that passed; members override defaults."""
    reads = verdict == "valid"
    answer = ACCEPTED if reads else rejected(rules[0])
    return {
        "id": id,
        "operation": "read",
        "path": f"{'valid' if reads else 'invalid'}/{id}.tensors",
        "sha256": "ab" * 32,
        "size_bytes": 212,
        "layout": "v1",
        "features": [],
        "verdict": verdict,
        "tier": "MUST",
        "rules": rules,
        "why": f"Why {id} is there.",
        "open_choice": None,
        "erratum": None,
        "origin": {"recipe": "recipes/plain.py", "seed": 7},
        "outcome": "pass",
        "reason": None,
        "choice": None,
        "cites_other_rule": False,
        "known": None,
        "repro": f"adapter decode {id}.tensors",
        "steps": [
            step(command, "pass", answer) for command in ("decode", "verify", "stream")
        ],
        **members,
    }


def accepted(item: Json, text: str = "") -> Json:
    """Returns the case with its invalid file accepted."""
    failed = {"stderr_tail": text, "explanation": explanation(item["rules"][0])}
    return {
        **item,
        "outcome": "accepted-invalid",
        "reason": "decode: accepted, but is malformed",
        "steps": [
            step(
                command,
                "accepted-invalid",
                ACCEPTED,
                reason="accepted, but is malformed",
                **failed,
            )
            for command in ("decode", "verify")
        ],
    }


def crashed(item: Json, text: str = "KeyError: 'w'", stderr: str = "") -> Json:
    failed = {"stderr_tail": stderr, "explanation": explanation(item["rules"][0])}
    return {
        **item,
        "outcome": "crash",
        "reason": f"decode: {text}",
        "steps": [
            step("decode", "crash", no_answer(text), reason=text, **failed),
            step("verify", "pass", rejected(None)),
        ],
    }


def wrong_data(item: Json) -> Json:
    difference = {"pointer": "/tensors/0/shape/0", "expected": "2", "got": None}
    decode = step(
        "decode",
        "wrong-data",
        ACCEPTED,
        reason="/tensors/0/shape/0",
        difference=difference,
    )
    return {
        **item,
        "outcome": "wrong-data",
        "reason": "decode: /tensors/0/shape/0",
        "steps": [decode, step("verify", "pass", ACCEPTED)],
    }


def badly_written(item: Json) -> Json:
    written = {"size_bytes": 300, "sha256": "cd" * 32}
    encode = step(
        "encode",
        "wrong-data",
        ACCEPTED,
        reason="TZR-HDR-006",
        written=written,
        explanation=explanation("TZR-HDR-006"),
    )
    return {
        **item,
        "operation": "encode",
        "outcome": "wrong-data",
        "reason": "encode: TZR-HDR-006",
        "steps": [encode],
    }


def for_another_rule(item: Json, rule: str = "TZR-IDX-001") -> Json:
    steps = [
        step(command, "pass", rejected(rule), cites_other_rule=True)
        for command in ("decode", "verify")
    ]
    return {**item, "cites_other_rule": True, "steps": steps}


def skipped(item: Json) -> Json:
    return {**item, "outcome": "skipped", "reason": "not in the profile", "steps": []}


def known(item: Json, reason: str = "as is well known") -> Json:
    return {**item, "known": reason}


def chosen(item: Json, choice: str) -> Json:
    answer = ACCEPTED if choice == "accepted" else rejected(None)
    return {
        **item,
        "verdict": "implementation-defined",
        "outcome": "implementation-defined",
        "open_choice": "A reader may refuse this.",
        "choice_name": "refusal",
        "policy": None,
        "choice": choice,
        "steps": [step(command, "pass", answer) for command in ("decode", "verify")],
    }


def against_policy(item: Json) -> Json:
    """Returns an open case that was accepted though the run required a refusal; goes with REQUIRED."""
    reason = "accepted, against the policy refusal=reject"
    return {
        **chosen(item, "accepted"),
        "outcome": "accepted-invalid",
        "policy": "reject",
        "choice": None,
        "reason": f"decode: {reason}",
        "steps": [
            step(command, "accepted-invalid", ACCEPTED, reason=reason)
            for command in ("decode", "verify")
        ],
    }


# The options of a run with a policy.
REQUIRED: Json = {"strict": False, "policies": {"refusal": "reject"}}


def misread_in_pieces(item: Json) -> Json:
    """Returns the case, failing only with short reads."""
    answer = rejected(None, "cut off")
    reason = "rejected with no rule: cut off"
    short = step("decode", "rejected-valid", answer, reason=reason)
    short["shape"] = "short-reads"
    return {
        **item,
        "outcome": "rejected-valid",
        "reason": "decode (short-reads): rejected with no rule: cut off",
        "steps": [step("decode", "pass", ACCEPTED), short],
    }


def totals(cases: list[Json]) -> Json:
    kinds = {outcome.name: outcome.kind for outcome in OUTCOMES}
    came = [kinds[case["outcome"]] for case in cases]
    return {kind: came.count(kind) for kind in ("passed", "failed", "skipped")}


def summary(cases: list[Json]) -> Json:
    counts = {
        outcome.name: sum(case["outcome"] == outcome.name for case in cases)
        for outcome in OUTCOMES
    }
    of_kind = totals(cases)
    known_count = sum(case["known"] is not None for case in cases)
    return {
        **of_kind,
        "known": known_count,
        "unknown": of_kind["failed"] - known_count,
        "outcomes": counts,
        "cites_other_rule": sum(case["cites_other_rule"] for case in cases),
    }


def result(cases: list[Json], name: str = "tensors-js", version: str = "0.3.0") -> Json:
    cited = sorted({rule for case in cases for rule in case["rules"]})
    return {
        "schema": "tzmark-conformance",
        "schema_version": 3,
        "tzmark_version": "0.1.0",
        "started": "2026-01-02T03:04:05Z",
        "elapsed_ns": 1_500_000_000,
        "adapter": {
            "argv": ["node", "adapter.js"],
            "profile": {
                "protocol": 1,
                "name": name,
                "version": version,
                "commands": ["decode", "verify", "stream", "encode", "serve"],
                "reads": {"layouts": ["v1", "v2"], "lacks": ["encryption"]},
                "writes": {"layouts": ["v1"]},
            },
            "idle_elapsed_ns": 9_000_000,
            "idle_rss_bytes": 7 << 20,
            "idle_counted_elapsed_ns": 9_000_000,
            "idle_counted_rss_bytes": 7 << 20,
            "stale_exclusions": [],
        },
        "corpus": {"manifest_sha256": "12" * 32, "cases": len(cases)},
        "serve": True,
        "rules": {
            rule: {
                "level": "MUST",
                "binds": "both",
                "text": f"The text of {rule}.",
                "section": SECTIONS[rule[:7]],
            }
            for rule in cited
            # Those of another format have no text in a corpus.
            if rule[:7] in SECTIONS
        },
        "known_problems": [],
        "options": {
            "only": [],
            "layouts": [],
            "rules": [],
            "jobs": 2,
            "elapsed_max_ns": None,
            "memory_max_bytes": None,
            "seed": 20,
        },
        "shapes": [{"shape": "file", **totals(cases)}],
        "summary": summary(cases),
        "cases": cases,
    }


def every_kind() -> list[Json]:
    """Returns a case of every kind that the pages distinguish."""
    magic = case("magic", ["TZR-HDR-002"], "malformed")
    return [
        wrong_data(case("shape", ["TZR-IDX-005"], layout="v2", features=["meta"])),
        crashed(case("name", ["TZR-IDX-002"], "malformed"), stderr="Traceback\nlast"),
        accepted(magic),
        known(accepted({**magic, "id": "magic-known", "erratum": "An erratum."})),
        badly_written(case("encode-lowest", ["TZR-HDR-006"])),
        for_another_rule(case("count", ["TZR-HDR-005"], "malformed")),
        chosen(case("choice", ["TZR-SEG-001"], layout="v5-segments"), "accepted"),
        skipped(case("cipher", ["TZR-CRY-001"], layout="v3", features=["encryption"])),
        case("plain", ["TZR-HDR-001", "TZR-HDR-002"]),
    ]


def with_strings(
    value: object, change: Callable[[str, str], str], key: str = ""
) -> object:
    """Returns the document with each string transformed; the function gets the member's name."""
    if isinstance(value, str):
        return change(key, value)
    if isinstance(value, list):
        return [with_strings(element, change, key) for element in value]
    if isinstance(value, dict):
        return {
            (change("key", name) if key in ("rules", "origin") else name): with_strings(
                element, change, name
            )
            for name, element in value.items()
        }
    return value
