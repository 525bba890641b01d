"""FINDINGS.md of the readers of safetensors."""

from __future__ import annotations

from collections.abc import Iterator

from common.outcomes import Json
from readers import kinds, writing
from upstream.findings import quoted, wrapped

CASES = "../../reference/safetensors/cases"
# Kinds that say nothing about a rule.
NO_RULE = ("unexpected", "refuses-short")


class Page:
    """The page of findings.json."""

    def __init__(self, content: Json) -> None:
        self._content = content
        self._corpus = content["corpus"]
        self._readers = content["readers"]

    def text(self) -> str:
        blocks = [
            *self._head(),
            *self._table(),
            *self._by_rule(),
            *self._exercised(),
            *self._findings(),
            *self._writers(),
            *self._readings(),
            *self._unsupported(),
        ]
        return "\n\n".join(blocks) + "\n"

    def _head(self) -> Iterator[str]:
        corpus = self._corpus
        yield "# How readers of safetensors differ"
        yield wrapped(
            f"{count(len({row['name'] for row in self._readers}), 'reader')} from PyPI in"
            f" {count(len(self._readers), 'release')}, {self._content['date']}, on the {corpus['cases']} cases of"
            " [SAFETENSORS.md](../../reference/SAFETENSORS.md): "
            f"{corpus['invalid']} invalid files, {corpus['valid']} valid ones, and {corpus['choices']} where the"
            " description and the reference library differ. All numbers come from runs of the conformance suite, which"
            " `scripts/safetensors-matrix` repeats. The cases have the digest"
            f" `{corpus['manifest_sha256'][:12]}`."
        )
        yield wrapped(
            "Those that also write are asked for files: see [Writers](#writers). The rules are those of tzmark. The"
            " description of the format leaves much to its reference library, so each rule has [two"
            " readings](#both-readings-of-each-rule): what the description says, and what the library does. A reader of"
            " headers (`header`) returns no data, and most do not promise to validate: they are asked for a verdict"
            " alone. Which exceptions count as a refusal is defined in"
            " `conformance/adapters/safetensors-python/refusals.py`."
        )
        yield wrapped(
            "Classes: *bug*, the reader does what neither reading allows; *unchecked*, a reader of headers accepts a"
            " file that it does not promise to check; *choice*, the readings differ and leave the answer to the reader"
            " (policy `beyond-description`); *denial of service*, numbers of a small file determine time or memory;"
            " *slow*, the time of the case was over, which depends on the machine. A dtype that a reader lacks is none"
            " of these: such cases are not judged, and [listed](#unsupported-dtypes)"
            " at the end."
        )
        until = self._content["withheld_until"]
        if self._content["date"] < until:
            yield wrapped(
                "Findings that disclose memory (bytes outside the data of the tensors are returned as data), and those"
                f" that end the process, are listed without the file that shows them until {until}, so that their"
                " authors can fix them before."
            )

    def _table(self) -> Iterator[str]:
        yield "## Readers"
        yield wrapped(
            "The number of cases by what a user sees, worst first. *Foreign bytes* are a part of the accepted invalid"
            f" files; of the {self._corpus['choices']} choices, the last column counts those that the reader accepts."
        )
        columns = [kind.column for kind in kinds.KINDS]
        rows = [
            f"| reader | version | reads | {' | '.join(columns)} | unsupported dtype | choices accepted |",
            "|---|---|---|" + "---:|" * (len(columns) + 2),
        ]
        for row in self._readers:
            counts = [str(row["counts"].get(kind.name) or "") for kind in kinds.KINDS]
            rows.append(
                f"| {row['name']} | {row['version']} | {row['reads']} | {' | '.join(counts)}"
                f" | {row['skipped'] or ''} | {row['choices_accepted']} |"
            )
        yield "\n".join(rows)

    def _by_rule(self) -> Iterator[str]:
        yield "## Readers by rule"
        yield wrapped(
            "The number of cases of each rule that a reader fails, without refusals by an unexpected exception and"
            " failures on short reads."
        )
        rules = list(self._content["readings"])
        heads = [rule.removeprefix("ST-0") for rule in rules]
        rows = [
            f"| reader, ST-0… | {' | '.join(heads)} |",
            "|---|" + "---:|" * len(rules),
        ]
        for row in self._readers:
            counts = dict.fromkeys(rules, 0)
            for finding in self._of(row):
                if finding["kind"] not in NO_RULE:
                    counts[finding["rule"]] += finding["cases"]
            if any(counts.values()):
                cells = [str(count or "") for count in counts.values()]
                rows.append(f"| {label(row)} | {' | '.join(cells)} |")
        yield "\n".join(rows)

    def _of(self, row: Json) -> list[Json]:
        wanted = row["name"], row["version"]
        return [
            finding
            for finding in self._content["findings"]
            if (finding["reader"], finding["version"]) == wanted
        ]

    def _exercised(self) -> Iterator[str]:
        exercised = self._content["exercised"]
        total = exercised["rejections"]
        data = exercised["accepted_by_a_reader_of_data"]
        either = exercised["accepted_by_any_reader"]
        failed = exercised["failed_by_any_reader"]
        yield "## Which rejections matter"
        yield wrapped(
            f"The reference library refuses {total} of the files. At least one reader of data accepts {data} of these"
            f" ({percent(data, total)}), and at least one reader of any kind {either} ({percent(either, total)})."
            f" No reader here accepts the other {total - either}. If the other failures count, such as unexpected"
            f" exceptions, some reader fails {failed} ({percent(failed, total)})."
        )

    def _findings(self) -> Iterator[str]:
        yield "## Findings"
        for row in self._readers:
            findings = self._of(row)
            if not findings:
                continue
            yield f"### {label(row)}"
            for kind in kinds.KINDS:
                of_kind = [one for one in findings if one["kind"] == kind.name]
                if of_kind:
                    total = sum(finding["cases"] for finding in of_kind)
                    yield f"{kind.meaning[0].upper()}{kind.meaning[1:]}: {count(total, 'file')}."
                    yield "\n".join(self._rows(of_kind))

    def _rows(self, findings: list[Json]) -> Iterator[str]:
        yield "| rule | files | class | smallest file | what it is | answer |"
        yield "|---|---:|---|---|---|---|"
        for finding in findings:
            example = finding["example"]
            shown = "withheld | | "
            if example:
                link = f"[{example['path']}]({CASES}/{example['path']})"
                says = quoted(example["says"]) if example["says"] else "accepts"
                shown = f"{link}, {example['size_bytes']} bytes | {cell(example['why'])} | {cell(says)}"
            yield (
                f"| {finding['rule']} | {finding['cases']} | {finding['classification']} | {shown} |"
            )

    def _writers(self) -> Iterator[str]:
        asked = self._content["specifications"]
        yield "## Writers"
        yield wrapped(
            f"Each writer is given {asked['valid']} specifications to write and {asked['invalid']} that no file can"
            " hold (ST-018), through the functions that its users call. *Choice*: the written description refuses the"
            " file, and the reference library reads it. *Not asked*: the library lacks the dtype, or its arguments"
            " cannot express the specification, such as a name twice in a dict."
        )
        rows = [
            "| writer | version | written | refused rightly | choice | failed | not asked |",
            "|---|---|---:|---:|---:|---:|---:|",
        ]
        for row in self._content["writers"]:
            keys = ("written", "refused", "choices", "failed", "not_asked")
            cells = " | ".join(str(row[key] or "") for key in keys)
            rows.append(f"| {row['name']} | {row['version']} | {cells} |")
        yield "\n".join(rows)
        for row in self._content["writers"]:
            if row["findings"]:
                yield f"### {label(row)} as a writer"
                yield "\n".join(self._rows_of_writer(row["findings"]))

    def _rows_of_writer(self, findings: list[Json]) -> Iterator[str]:
        yield "| rule | what a user sees | specifications | class | smallest specification | what it is | result |"
        yield "|---|---|---:|---|---|---|---|"
        for finding in findings:
            example = finding["example"]
            cells = [
                finding["rule"],
                writing.MEANINGS[finding["kind"]],
                str(finding["cases"]),
                finding["classification"],
                f"[{example['path']}]({CASES}/{example['path']})",
                cell(example["why"]),
                cell(quoted(example["says"])),
            ]
            yield f"| {' | '.join(cells)} |"

    def _readings(self) -> Iterator[str]:
        yield "## Both readings of each rule"
        rows = ["| rule | the description | the reference library |", "|---|---|---|"]
        for rule, reading in self._content["readings"].items():
            rows.append(
                f"| {rule} | {cell(reading['description'])} | {cell(reading['library'])} |"
            )
        yield "\n".join(rows)

    def _unsupported(self) -> Iterator[str]:
        yield "## Unsupported dtypes"
        rows = [
            "| reader | dtypes that it lacks | files not judged |",
            "|---|---|---:|",
        ]
        for row in self._readers:
            if row["unsupported_dtypes"]:
                names = ", ".join(row["unsupported_dtypes"])
                rows.append(f"| {label(row)} | {names} | {row['skipped']} |")
        yield "\n".join(rows)


def label(row: Json) -> str:
    return f"{row['name']} {row['version']}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "none"


def cell(text: str) -> str:
    """Returns a text that cannot end the cell of a table."""
    return text.replace("|", "\\|")
