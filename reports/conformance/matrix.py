"""Merges results of several implementations into one compact document; schema/matrix.schema.json describes it.

Each case is listed once. The result of an implementation is an index into one list of distinct results. Expected
results are only counted; others keep their steps, and the case their explanations.
"""

from __future__ import annotations

import json

from common.outcomes import UNANSWERED, Json, shade_of, worst
from common.results import MATRIX, VERSIONS, NotAResult

STDERR_MAX_CHARS = 400
# Number of annotated fields kept before and after the marked ones.
FIELDS_AROUND = 2
ABOUT = ("path", "size_bytes", "features", "why", "open_choice", "erratum")
FIELD = ("offset", "hex", "field", "value")
STEP = ("command", "outcome", "answer", "cites_other_rule", "difference", "written")


class Table:
    """A list without duplicates, in insertion order."""

    def __init__(self) -> None:
        self.rows: list[object] = []
        self._indices: dict[str, int] = {}

    def add(self, row: object) -> int:
        index = self._indices.setdefault(json.dumps(row), len(self.rows))
        if index == len(self.rows):
            self.rows.append(row)
        return index


def needs_detail(case: Json) -> bool:
    """Returns whether a result has details beyond its outcome."""
    shade = shade_of(case["outcome"], case["cites_other_rule"])
    return shade.kind == "failed" or shade.name == "other-rule"


def merge(results: list[Json]) -> Json:
    """Returns one document of results over the same corpus, in the given order.

    The reason of a case is that of its worst step, so only the steps keep it.
    """
    corpora = {result["corpus"]["manifest_sha256"] for result in results}
    if len(corpora) != 1:
        raise NotAResult("the results are of different corpora: run the suite again")
    runs = [{case["id"]: case for case in result["cases"]} for result in results]
    ids = dict.fromkeys(id for run in runs for id in run)
    table, stderr = Table(), Table()
    cases = [_case([run.get(id) for run in runs], table, stderr) for id in ids]
    rules = {
        rule: facts for result in results for rule, facts in result["rules"].items()
    }
    return {
        "schema": MATRIX,
        "schema_version": VERSIONS[MATRIX],
        "corpus": results[0]["corpus"],
        "implementations": [_implementation(result) for result in results],
        "rules": dict(sorted(rules.items())),
        "results": table.rows,
        "stderr": stderr.rows,
        "cases": cases,
    }


def _implementation(result: Json) -> Json:
    adapter = result["adapter"]
    return {
        "argv": adapter["argv"],
        "profile": adapter["profile"],
        **{
            member: result[member]
            for member in ("tzmark_version", "started", "elapsed_ns", "serve")
        },
        "summary": result["summary"],
        **_policies(result["options"]),
    }


def _policies(options: Json) -> Json:
    """Returns the answers that a run required to open choices, if it required any."""
    if not options.get("policies"):
        return {}
    return {member: options[member] for member in ("policies", "strict")}


def _case(runs: list[Json | None], table: Table, stderr: Table) -> Json:
    case = next(run for run in runs if run)
    merged: Json = {
        member: case[member]
        for member in ("id", "operation", "layout", "verdict", "tier", "rules")
    }
    merged["results"] = [run and table.add(_result(run, stderr)) for run in runs]
    detailed = {
        index: run for index, run in enumerate(runs) if run and needs_detail(run)
    }
    choices = {run["choice"] for run in runs if run and run["choice"]}
    if detailed or len(choices) > 1:
        merged["about"] = {member: case[member] for member in ABOUT}
        if case.get("choice_name"):
            merged["about"]["choice_name"] = case["choice_name"]
    if detailed:
        merged["explanations"] = _explanations(detailed)
        merged["repro"] = _repro(detailed)
    return merged


def _result(case: Json, stderr: Table) -> Json:
    result = {
        member: case[member]
        for member in ("outcome", "cites_other_rule", "known", "choice")
    }
    if case.get("policy"):
        result["policy"] = case["policy"]
    if needs_detail(case):
        result["steps"] = [_step(step, stderr) for step in case["steps"]]
    else:
        result["reason"] = case["reason"]
    return result


def _step(step: Json, stderr: Table) -> Json:
    kept = {member: step[member] for member in STEP}
    text = step["stderr_tail"].rstrip() if step["outcome"] in UNANSWERED else ""
    if step["shape"] != "file":
        kept["shape"] = step["shape"]
    kept["stderr"] = stderr.add(_last_lines(text)) if text else None
    return kept


def _last_lines(text: str) -> str:
    """Returns the end of a text, from the start of a line if possible."""
    if len(text) <= STDERR_MAX_CHARS:
        return text
    end = text[-STDERR_MAX_CHARS:]
    return end.partition("\n")[2] or end


def _explanations(runs: dict[int, Json]) -> list[Json]:
    """Returns each distinct explanation of failed steps with its implementations."""
    table = Table()
    about: list[list[int]] = []
    for implementation, run in runs.items():
        for step in run["steps"]:
            if not step["explanation"]:
                continue
            index = table.add(_nearby(step["explanation"]))
            if index == len(about):
                about.append([])
            if implementation not in about[index]:
                about[index].append(implementation)
    return [
        {"implementations": implementations, "explanation": explanation}
        for implementations, explanation in zip(about, table.rows, strict=True)
    ]


def _nearby(explanation: Json) -> Json:
    """Returns the explanation with only the bytes next to the defect, as lists."""
    rows = explanation["bytes"]
    marked = [index for index, row in enumerate(rows) if row["marked"]]
    first = max(marked[0] - FIELDS_AROUND, 0) if marked else 0
    last = marked[-1] + FIELDS_AROUND if marked else 2 * FIELDS_AROUND
    return {
        **explanation,
        "bytes": [[row[member] for member in FIELD] for row in rows[first : last + 1]],
        "marked": [index - first for index in marked],
    }


def annotated(explanation: Json) -> Json:
    """Converts an explanation of a merged document to the form of a result."""
    marked = explanation["marked"]
    return {
        **explanation,
        "bytes": [
            {**dict(zip(FIELD, row, strict=True)), "marked": index in marked}
            for index, row in enumerate(explanation["bytes"])
        ],
    }


def _repro(runs: dict[int, Json]) -> Json:
    """Returns the command that repeats the worst result; the others differ only in the adapter."""
    decisive = worst(
        shade_of(run["outcome"], run["cites_other_rule"]).code for run in runs.values()
    )
    return next(
        {"implementation": index, "command": run["repro"]}
        for index, run in runs.items()
        if shade_of(run["outcome"], run["cites_other_rule"]).code == decisive
    )
