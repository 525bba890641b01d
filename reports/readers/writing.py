"""What a writer did with the specifications of files, as a user of the writer would see it."""

from __future__ import annotations

from collections import Counter, defaultdict

from common.outcomes import Json
from readers import kinds

# What a user sees, worst first, by kind.
MEANINGS = {
    "content": "writes other content than it was given",
    "malformed": "writes a file that breaks a rule",
    "unwritable": "writes what no file can hold",
    "left": "refuses, and leaves a file",
    "refuses": "does not write what a file can hold",
    "memory": "needs more memory, time or disk than the limit",
    "unexpected": "refuses with an exception that callers do not expect",
}
CHOICE = "choice (beyond-description)"
_ORDER = {kind: order for order, kind in enumerate(MEANINGS)}
_PASSED = ("pass", "implementation-defined")


def writer_of(result: Json, written: Json) -> Json | None:
    """Returns the row of a writer with its findings, or None for an implementation that does not write.

    written: what readers.written says about its files.
    """
    profile = result["adapter"]["profile"]
    if "encode" not in profile["commands"]:
        return None
    counts: Counter[str] = Counter()
    found: dict[tuple[str, str, str], list[Json]] = defaultdict(list)
    for case in result["cases"]:
        if case.get("operation") != "encode":
            continue
        counts[_column_of(case)] += 1
        if _column_of(case) == "failed":
            kind, looked_at = _kind_of(case), written.get(case["id"])
            found[kind, _rule_of(case), _class_of(kind, looked_at)].append(case)
    findings = [
        {
            "kind": kind,
            "rule": rule,
            "classification": classification,
            "cases": len(cases),
            "example": _example_of(cases, written),
        }
        for (kind, rule, classification), cases in found.items()
    ]
    findings.sort(key=lambda one: (_ORDER[one["kind"]], one["rule"]))
    choices = sum(
        finding["cases"] for finding in findings if finding["classification"] == CHOICE
    )
    return {
        "name": profile["name"],
        "version": profile["version"],
        "written": counts["written"],
        "refused": counts["refused"],
        "choices": choices,
        "failed": counts["failed"] - choices,
        "not_asked": counts["not asked"],
        "findings": findings,
    }


def _column_of(case: Json) -> str:
    if case["outcome"] == "skipped":
        return "not asked"
    if case["outcome"] not in _PASSED:
        return "failed"
    return "written" if case["verdict"] == "valid" else "refused"


def _kind_of(case: Json) -> str:
    outcome, step = case["outcome"], kinds.failed_step(case)
    if outcome == "wrong-data":
        if step["answer"]["kind"] == "rejected":
            return "left"
        return "content" if step["difference"] else "malformed"
    if outcome == "accepted-invalid":
        return "unwritable"
    if outcome in kinds.BEYOND_LIMITS:
        return "memory"
    return "refuses" if case["verdict"] == "valid" else "unexpected"


def _rule_of(case: Json) -> str:
    """Returns the rule that the written file breaks, or else the first one that the case is about."""
    explanation = kinds.failed_step(case)["explanation"]
    rule = explanation["rule"] if explanation else None
    return rule or case["rules"][0]


def _class_of(kind: str, looked_at: Json | None) -> str:
    """Returns the class: a file that only the written description refuses is a choice."""
    accepts = looked_at is not None and looked_at["library_accepts"]
    return CHOICE if kind == "malformed" and accepts else kinds.BUG


def _example_of(cases: list[Json], written: Json) -> Json:
    """Returns the specification of the fewest bytes, and what a user sees."""
    case = min(cases, key=lambda case: (case["size_bytes"], case["id"]))
    step = kinds.failed_step(case)
    looked_at = written.get(case["id"])
    says = step["answer"]["text"] or step["reason"] or ""
    if looked_at and step["answer"]["kind"] != "rejected":
        says = looked_at["header"]
    return {
        "case": case["id"],
        "path": case["path"],
        "why": case["why"],
        "says": kinds.said(says),
    }
