#!/usr/bin/env python3
"""Tests that a case uses every row of every table of FORMAT.md, and that the tables have the fields of widths.py.

A table is found by its heading and its first column. A new table, or a new row of most, fails until this file says
which case uses it; a row that only writers or tzmark know of has the reason why no valid file can.
"""

from __future__ import annotations

import json
import re
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from case import Json
from make import CORPUS, FORMAT, large_files
from widths import FIELDS

MARKS = "<>|"
KINDS = ("parameter", "buffer", "state_dict")


@dataclass(frozen=True)
class Table:
    heading: str
    columns: list[str]
    rows: list[list[str]]

    @property
    def key(self) -> str:
        return f"{self.heading}: {self.columns[0]}"


def tables_of(text: str) -> Iterator[Table]:
    """The tables of a document in Markdown. Of two with one key the second has a number."""
    heading, table = "", None
    seen: dict[str, int] = {}
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            heading = line.lstrip("#").strip()
        if not line.startswith("|"):
            if table is not None:
                count = seen[table.key] = seen.get(table.key, 0) + 1
                if count > 1:
                    table = Table(
                        f"{table.heading} ({count})", table.columns, table.rows
                    )
                yield table
            table = None
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if table is None:
            table = Table(heading, cells, [])
        elif set("".join(cells)) - set(":-"):
            table.rows.append(cells)


class Corpus:
    """The cases, and what they decode to."""

    def __init__(self) -> None:
        manifest = json.loads((CORPUS / "manifest.json").read_text())
        self.cases: dict[str, Json] = {case["id"]: case for case in manifest["cases"]}
        self.choices: set[str] = set(manifest["open_choices"])
        large = dict(large_files())
        self.tensors: list[Json] = []
        for case in self.valid():
            path = case["expected"]
            if path.startswith("upstream/"):
                continue
            text = large[path] if path in large else (CORPUS / path).read_bytes()
            self.tensors += json.loads(text)["tensors"]
        self.dtypes: set[str] = {tensor["wire_dtype"] for tensor in self.tensors}

    def valid(self) -> Iterator[Json]:
        return (case for case in self.cases.values() if case["verdict"] == "valid")

    def layouts(self) -> set[str]:
        return {case["layout"] for case in self.valid()}


# Whether a case uses a row.
Used = Callable[[Corpus, list[str]], bool]


def by(**cases: str) -> Used:
    """Names a valid case for each row, by the text that begins the row's third column."""

    def used(corpus: Corpus, row: list[str]) -> bool:
        id_ = cases.get(row[2].replace(" ", "_") or "unused") or cases.get("others")
        return id_ is not None and corpus.cases[id_]["verdict"] == "valid"

    return used


def layout(corpus: Corpus, row: list[str]) -> bool:
    return row[0].strip("`") in corpus.layouts()


def plain_types(corpus: Corpus, row: list[str]) -> bool:
    codes = [cell.strip("`") for cell in row[::3] if cell]
    sizes = [int(cell) for cell in row[1::3] if cell]
    return bool(codes) and all(
        mark + code in corpus.dtypes
        for code, size in zip(codes, sizes, strict=True)
        for mark in ("<>|" if code == "u1" else "|" if size == 1 else "<>")
    )


def opaque_types(corpus: Corpus, row: list[str]) -> bool:
    name, _, more = row[0].strip("`").partition("`")
    marks = "|<" if row[1] == "1" else "<"
    found = [f"{mark}V{row[1]}\0{name}" for mark in marks]
    if not more:
        return corpus.dtypes.issuperset(found)
    words = [
        {dtype[len(start) :] for dtype in corpus.dtypes if dtype.startswith(start)}
        for start in found
    ]
    return all({"a", "9", "_"} <= some for some in words)


def open_choice(corpus: Corpus, row: list[str]) -> bool:
    return row[0].strip("`") in {
        case.get("choice_name") for case in corpus.cases.values()
    }


def limits(corpus: Corpus, row: list[str]) -> bool:
    # A derivation in 1 GiB would take most of the time of a run; the unit tests of the codec have it.
    cases = {
        "memlimit of a key derivation": "passphrase-memlimit-1-mib",
        "opslimit of a key derivation": "passphrase-opslimit-4",
        "distinct key derivations in one file (opslimit, memlimit and salt)": "unusual-derivations-8",
    }
    return corpus.cases[cases[row[0]]]["verdict"] == "valid"


ERRATA = {
    "0-d meta tensor with data_length = element size": "tensorizer-2.11.1-meta-scalar",
    "0-d meta tensor with data_length 0": "tensorizer-v3.0.0-dev-meta-scalar",
    "CRC32 of a tensor without data": "tensorizer-v3.0.0-dev-meta",
    "data does not begin at a multiple of 4096": "width-lengths-first",
    "bfloat16 meta tensors": "meta-opaque",
    "a tensor with zero elements": "shape-zero-elements-v4",
    "plain name that begins with 1E": "where-name-number",
    "empty name": "name-none",
    "module_index is that of the tensor before": "tensorizer-2.6.0-mixed-writers",
    "index entries or headers missing": "headers-first-count-three",
    "foreign types": "dtype-foreign-bytes",
    "tensors that overlap in memory": "forgery-parallel-mac",
    "an index that overflows": "part-count-plus-2-32",
    "the same, where the versions": "width-tensor-count-plus-2-8-v4",
}


def erratum(corpus: Corpus, row: list[str]) -> bool:
    found = [id_ for what, id_ in ERRATA.items() if row[0].startswith(what)]
    if len(found) != 1:
        return False
    verdict = corpus.cases[found[0]]["verdict"]
    says = row[2]
    if "does not verify" in says and "MAC" not in says:
        return verdict == "integrity-failure"
    if "refuse" in says or "MAC" in says:
        return verdict not in ("valid", "implementation-defined")
    return verdict in ("valid", "implementation-defined")


# Which function tells whether a row of the table is used.
USED: dict[str, Used] = {
    "2 Overview: layout": layout,
    "3 File header: offset": by(
        total_data_bytes="header-informative-fields",
        unused="header-informative-fields",
        feature_flags="encryption-v4",
        others="header-plain",
    ),
    "4 Index: offset": by(others="header-plain"),
    "4 Index: offset in entry": by(others="header-plain"),
    "5 Tensor header: offset in header": by(
        crypt_block="encryption-parallel", others="header-plain"
    ),
    "6 Terminator: offset": by(others="header-plain"),
    "8 dtypes: code": plain_types,
    "8 dtypes: torch's name": opaque_types,
    "9 Hashes: offset in list": by(others="header-plain"),
    "9.1 Bytes that no hash covers: offset": lambda corpus, row: (
        "header-informative-fields" in corpus.cases
        and {"flags-before-v4", "trailing-bytes"} <= corpus.choices
        and {"v1", "v2", "v4"} <= corpus.layouts()
    ),
    "10 Encryption: offset in block": by(others="encryption-parallel"),
    "10.1 Cipher chunks: offset": by(others="encryption-parallel"),
    "10.1 Cipher chunks (2): offset": by(others="encryption-sequential"),
    "10.2 Key derivation: offset": by(others="passphrase-minimum"),
    "11.2 Where the format leaves room: name": open_choice,
    "11.3 Limits of tzmark: what": limits,
    "13 Errata: what": erratum,
    "14.3 v5-segments: offset": by(others="width-lengths-segments"),
    "14.4 v5-flagged-dims and v5-long-dims: offset in entry": by(
        others="width-dimensions-long"
    ),
}
NOT_OF_FILES = {
    "15 Worked example: offset": "the model's tests annotate these bytes",
    "Appendix A: detached data, an extension of tzmark: offset": "not part of the format",
    "Appendix A: detached data, an extension of tzmark (2): offset": "not part of the format",
}

# The structures of widths.py that a table describes, and its names of fields there.
STRUCTURES = {
    "3 File header: offset": "file header",
    "4 Index: offset": "index",
    "4 Index: offset in entry": "index entry",
    "5 Tensor header: offset in header": "tensor header",
    "6 Terminator: offset": "terminator",
    "9 Hashes: offset in list": "tensor header, hash",
    "10 Encryption: offset in block": "tensor header, crypt chunk",
    "10.1 Cipher chunks: offset": "tensor header, crypt chunk",
    "10.2 Key derivation: offset": "tensor header, crypt chunk",
    "14.3 v5-segments: offset": "layout section",
    "14.4 v5-flagged-dims and v5-long-dims: offset in entry": "index entry",
}
OTHER_NAMES = {"shape": "dim", "type": "hash type", "size": "hash size"}
# Fields that the annotation shows with those of the structure around.
OF_HEADER = {"hash_count", "crypt_length", "chunk_count"}


def labels_of(table: Table) -> Iterator[str]:
    """The integer fields of a table, as widths.py names them."""
    structure = STRUCTURES[table.key]
    for row in table.rows:
        types, field = row[1], OTHER_NAMES.get(row[2], row[2])
        if field == "tag":
            field = row[3].partition(": ")[2].split()[0] + " tag"
        around = "tensor header" if field in OF_HEADER else structure
        for type_ in re.findall(r"\b[ui](?:8|16|32|64)\b", types):
            yield f"{around}: {field}, {type_}"
        if row[3].startswith("a CRC32 is a u32"):
            yield "tensor header: CRC32, u32"


class Tables(unittest.TestCase):
    tables = list(tables_of(FORMAT.read_text()))
    corpus = Corpus()

    def test_every_table_is_known(self) -> None:
        known = [*USED, *NOT_OF_FILES]
        self.assertEqual(sorted(table.key for table in self.tables), sorted(known))

    def test_every_row_is_used(self) -> None:
        unused = [
            f"{table.key}: {row}"
            for table in self.tables
            if table.key in USED
            for row in table.rows
            if not USED[table.key](self.corpus, row)
        ]
        self.assertEqual(unused, [])

    def test_the_integer_fields_are_those_of_the_widths(self) -> None:
        written = {
            label
            for table in self.tables
            if table.key in STRUCTURES
            for label in labels_of(table)
        }
        # The width of dimensions in headers is that in the index, says section 14.4 in words.
        written.add("tensor header: dim, u64")
        self.assertEqual(written, {field.label for field in FIELDS})

    def test_foreign_types_have_every_unit_and_mark(self) -> None:
        text = FORMAT.read_text().replace("\n", " ")
        match = re.search(r"Units: ([A-Za-z ]+)\.", text)
        assert match is not None
        units = match[1].split()
        self.assertGreater(len(units), 10)
        wanted = {
            f"{mark}{code}[{unit}]"
            for mark in "<>"
            for code in ("M8", "m8")
            for unit in units
        }
        wanted |= {f"{mark}{code}" for mark in MARKS for code in ("S5", "U3", "m8")}
        wanted |= {f"{mark}M8[s]" for mark in MARKS} | {"<M8", "<M8[25s]"}
        self.assertEqual(wanted - self.corpus.dtypes, set())

    def test_numbers_of_the_tables_are_used(self) -> None:
        tensors = self.corpus.tensors
        self.assertEqual({tensor["kind"] for tensor in tensors}, set(KINDS))
        self.assertLessEqual({0, 1, 32}, {len(tensor["shape"]) for tensor in tensors})

    def test_a_row_without_a_case_is_found(self) -> None:
        for key, row in (
            ("2 Overview: layout", ["`v6`", "6", "", ""]),
            ("8 dtypes: code", ["`i16`", "16", "int128"]),
            ("8 dtypes: torch's name", ["`torch.float4`", "1"]),
            ("13 Errata: what", ["a new one", "all", "reads it"]),
        ):
            self.assertFalse(USED[key](self.corpus, row), key)


if __name__ == "__main__":
    unittest.main()
