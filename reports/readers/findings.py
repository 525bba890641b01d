"""Writes the page that compares readers of safetensors, and its content as JSON.

usage: python3 -m readers.findings RESULT.json ... --cases DIR --readings FILE --withheld FILE -o DIR [--date DATE]

Each RESULT.json is of "tzmark conform --format safetensors". Next to it are RESULT.answers.json of readers.answers and
RESULT.written.json of readers.written.
DIR of --cases has the files. --readings has both readings of each rule, --withheld the kinds of findings whose files
are not named before a date. --date is the day of the page as YYYY-MM-DD (default: today, in UTC).

Exit status: 0 success, 2 wrong usage, 3 a file cannot be read or has the wrong content.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from common import output_file, results
from common.outcomes import Json
from readers import kinds, writing
from readers.page import Page


@dataclass(frozen=True)
class Sources:
    """What all readers are compared with."""

    manifest: Json
    directory: Path
    readings: Json
    withheld: Json
    date: datetime.date

    def withholds(self, kind: str) -> bool:
        until = datetime.date.fromisoformat(self.withheld["until"])
        return kind in self.withheld["kinds"] and self.date < until


@dataclass(frozen=True)
class Cases:
    """Ids of cases of a reader."""

    accepted: set[str]
    # Not refused as expected: accepted ones too.
    failed: set[str]


def document_of(path: Path) -> Json:
    """Reads a JSON object without a schema of its own."""
    try:
        document = json.loads(results.text_of(path))
    except (OSError, ValueError) as error:
        raise results.NotAResult(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise results.NotAResult(f"{path}: not an object")
    return document


def is_of_one_file(case: Json) -> bool:
    """Whether readers of files are asked about it: none of these opens an index of shards."""
    return case.get("layout", "safetensors") == "safetensors"


def reader_of(path: Path, sources: Sources) -> tuple[Json, list[Json], Cases]:
    """Returns the row of a reader, its findings, and the invalid files that it accepts or fails."""
    result = results.read(path, (results.CONFORMANCE,))
    answers = document_of(path.with_suffix(".answers.json"))
    profile = result["adapter"]["profile"]
    found: dict[tuple[str, str], list[Json]] = defaultdict(list)
    dtypes, ids, choices = set(), Cases(set(), set()), 0
    skipped = 0
    for case in result["cases"]:
        # See writers_of.
        if case.get("operation") == "encode" or not is_of_one_file(case):
            continue
        content = (sources.directory / case["path"]).read_bytes()
        kind = kinds.kind_of(case, answers.get(case["id"]), content)
        if kind:
            found[kind, case["rules"][0]].append(case)
            ids.failed.add(case["id"])
        if case["outcome"] == "accepted-invalid":
            ids.accepted.add(case["id"])
        if case["outcome"] == "implementation-defined" and case["choice"] == "accepted":
            choices += 1
        if case["outcome"] == "skipped":
            skipped += 1
            dtypes |= {
                step["answer"]["text"].removeprefix("the dtype ")
                for step in case["steps"]
                if (step["answer"]["text"] or "").startswith("the dtype ")
            }
    counts: Counter[str] = Counter()
    findings = []
    for (kind, rule), cases in found.items():
        counts[kind] += len(cases)
        findings.append(
            {
                "reader": profile["name"],
                "version": profile["version"],
                "rule": rule,
                "kind": kind,
                "classification": classification_of(kind, cases, profile),
                "cases": len(cases),
                "example": None
                if sources.withholds(kind)
                else example_of(cases, kind in ("accepts", "foreign-bytes")),
            }
        )
    row = {
        "name": profile["name"],
        "version": profile["version"],
        "reads": "data" if "decode" in profile["commands"] else "header",
        "counts": dict(counts),
        "passed": result["summary"]["passed"],
        "accepted_invalid": len(ids.accepted),
        "choices_accepted": choices,
        "skipped": skipped,
        "unsupported_dtypes": sorted(dtypes),
        "started": result["started"],
        "elapsed_ns": result["elapsed_ns"],
    }
    findings.sort(key=lambda finding: (kinds.ORDER[finding["kind"]], finding["rule"]))
    return row, findings, ids


def writers_of(paths: list[Path]) -> list[Json]:
    """Returns the rows of those that write, the most failures first."""
    rows = []
    for path in paths:
        result = results.read(path, (results.CONFORMANCE,))
        written = document_of(path.with_suffix(".written.json"))
        row = writing.writer_of(result, written)
        if row:
            rows.append(row)
    return sorted(rows, key=lambda row: (-row["failed"], row["name"], row["version"]))


def classification_of(kind: str, cases: list[Json], profile: Json) -> str:
    """Returns the class of a finding: of the kind, or a choice if the format leaves one for all of its cases."""
    if kind == "accepts" and "decode" not in profile["commands"]:
        return "unchecked"
    if kind == "memory" and all(case["outcome"] == "hang" for case in cases):
        return "slow"
    names = {case["choice_name"] for case in cases}
    if len(names) == 1 and None not in names:
        return f"choice ({names.pop()})"
    return kinds.BY_NAME[kind].classification


def example_of(cases: list[Json], accepted: bool) -> Json:
    """Returns the smallest file of a finding, and what the reader says about it."""
    case = min(cases, key=lambda case: (case["size_bytes"], case["id"]))
    step = kinds.failed_step(case)
    answer = step["answer"]
    says = answer["text"] or (answer["rejected"] or {}).get("message") or step["reason"]
    if step["difference"]:
        difference = step["difference"]
        says = f"{difference['pointer']}: {difference['got']} and not {difference['expected']}"
    return {
        "case": case["id"],
        "path": case["path"],
        "size_bytes": case["size_bytes"],
        "why": case["why"],
        "says": "" if accepted else kinds.said(says or ""),
    }


def severity(row: Json) -> tuple[int, ...]:
    """Sorts readers, the worst first."""
    return tuple(-row["counts"].get(kind.name, 0) for kind in kinds.KINDS)


def exercised_of(sources: Sources, of_readers: list[tuple[Json, Cases]]) -> Json:
    """Returns how many rejections of the reference library some reader of this run does not share."""
    rejected = [
        case["id"]
        for case in sources.manifest["cases"]
        if case["safetensors"]["library"] is not None and is_of_one_file(case)
    ]
    by_data: set[str] = set()
    by_any: set[str] = set()
    failed: set[str] = set()
    for row, ids in of_readers:
        by_any |= ids.accepted
        failed |= ids.failed
        if row["reads"] == "data":
            by_data |= ids.accepted
    return {
        "rejections": len(rejected),
        "accepted_by_a_reader_of_data": sum(name in by_data for name in rejected),
        "accepted_by_any_reader": sum(name in by_any for name in rejected),
        "failed_by_any_reader": sum(name in failed for name in rejected),
        "accepted_by_none": [name for name in rejected if name not in by_any],
    }


def compare(paths: list[Path], sources: Sources) -> Json:
    """Returns the content of the page."""
    read = [reader_of(path, sources) for path in paths]
    if not read:
        raise results.NotAResult("no result")
    corpora = {
        results.read(path, (results.CONFORMANCE,))["corpus"]["manifest_sha256"]
        for path in paths
    }
    if len(corpora) > 1:
        raise results.NotAResult("the results are over different cases; run them again")
    read.sort(key=lambda one: (severity(one[0]), one[0]["name"], one[0]["version"]))
    cases = [case for case in sources.manifest["cases"] if is_of_one_file(case)]
    verdicts = Counter(case["verdict"] for case in cases)
    return {
        "schema": "tzmark-safetensors-readers",
        "schema_version": 1,
        "date": sources.date.isoformat(),
        "corpus": {
            "manifest_sha256": corpora.pop(),
            "cases": len(cases),
            "invalid": verdicts["malformed"] + verdicts["invalid"],
            "valid": verdicts["valid"],
            "choices": verdicts["implementation-defined"],
        },
        "withheld_until": sources.withheld["until"],
        "readers": [row for row, _, _ in read],
        "findings": [finding for _, findings, _ in read for finding in findings],
        "writers": writers_of(paths),
        "specifications": {
            "valid": sum(
                case["verdict"] == "valid" for case in sources.manifest["encode_cases"]
            ),
            "invalid": sum(
                case["verdict"] != "valid" for case in sources.manifest["encode_cases"]
            ),
        },
        "exercised": exercised_of(sources, [(row, ids) for row, _, ids in read]),
        "readings": sources.readings,
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="readers.findings", description=__doc__.splitlines()[0]
    )
    parser.add_argument("results", type=Path, nargs="+")
    for option in ("--cases", "--readings", "--withheld"):
        parser.add_argument(option, type=Path, required=True)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument(
        "--date",
        type=datetime.date.fromisoformat,
        default=datetime.datetime.now(datetime.timezone.utc).date(),
    )
    options = parser.parse_args(arguments)
    try:
        sources = Sources(
            document_of(options.cases / "manifest.json"),
            options.cases,
            document_of(options.readings),
            document_of(options.withheld),
            options.date,
        )
        content = compare(options.results, sources)
        files = {
            "findings.json": results.dump(content).encode(),
            "FINDINGS.md": Page(content).text().encode(),
        }
        output_file.write_directory(options.out, files)
    except (OSError, results.NotAResult) as error:
        print(f"findings: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
