"""The open choices: points where the format leaves the answer to the reader, each under the name that cases carry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """A question whose answer is accept or reject, the rules that leave it open, and the answer of tzmark.

    rejected_by is the command that a rejecting reader fails: decode, and then verify too, or verify alone.
    """

    text: str
    rules: tuple[str, ...]
    tzmark: str
    rejected_by: str = "decode"

    def entry(self) -> Json:
        """The choice as the manifest has it."""
        return asdict(self) | {"rules": [f"TZR-{rule}" for rule in self.rules]}


# In the order of the sections of FORMAT.md.
CHOICES = {
    "flags-before-v4": Choice(
        "Whether feature flags are ignored in a file of a data version before 4.",
        ("HDR-004",),
        "accept",
    ),
    "v4-as-v5": Choice(
        "Whether data version 5 without feature flag 1 is read in the layout of v4, as tensorizer 2.12 does.",
        ("HDR-007",),
        "accept",
    ),
    "v4-as-v5-one-record": Choice(
        "Whether a file of data version 5 without feature flag 1 verifies in the layout of v4 if it fits"
        " v5-headers-first as well, where its hashes are wrong.",
        ("HDR-007",),
        "reject",
        "verify",
    ),
    "detection-terminator": Choice(
        "Whether a missing terminator is enough to tell that a file is not in v5-long-dims.",
        ("HDR-008",),
        "accept",
    ),
    "many-dimensions": Choice(
        "Whether a tensor with more dimensions than common tensor libraries support (32) is read.",
        ("IDX-002",),
        "accept",
    ),
    "dimension-2-63": Choice(
        "Whether a tensor without elements may have a dimension of 2^63 or more.",
        ("IDX-005",),
        "accept",
    ),
    "zero-product": Choice(
        "Whether a dimension of 0 makes the size 0 if the product of the dimensions before it exceeds 64 bits.",
        ("IDX-005",),
        "accept",
    ),
    "data-offset-without-data": Choice(
        "Whether a tensor without data may have a data_offset other than where its data would begin, in the"
        " headers-first layouts.",
        ("IDX-010",),
        "accept",
    ),
    "record-gaps": Choice(
        "Whether bytes between two records, or between the index and the first record, are skipped.",
        ("IDX-012",),
        "reject",
    ),
    "entry-order": Choice(
        "Whether the index may list the tensors in another order than the file holds them.",
        ("IDX-016",),
        "accept",
    ),
    "trailing-bytes": Choice(
        "Whether bytes after the terminator are ignored.", ("IDX-016",), "accept"
    ),
    "header-slack": Choice(
        "Whether fewer than 10 bytes that belong to no field of a tensor header are skipped.",
        ("REC-004",),
        "reject",
    ),
    "respelled-name": Choice(
        "Whether index and header may spell the same path differently.",
        ("REC-006",),
        "reject",
    ),
    "terminator": Choice(
        "Whether the terminator may be missing, or not zero.",
        ("TRM-001", "TRM-002"),
        "reject",
    ),
    "minus-zero": Choice(
        "Whether -0 is read as the list position 0.", ("NAM-002",), "reject"
    ),
    "long-path": Choice(
        "Whether a path of more elements than the reader's own limit is read.",
        ("NAM-002",),
        "accept",
    ),
    "empty-name": Choice(
        "Whether an empty name is read; upstream writes it, and from 2.9 on refuses to read it.",
        ("NAM-009",),
        "accept",
    ),
    "dtype-spelling": Choice(
        "Whether a plain type may be spelled without its byte order, as f4, or by its name, as float32.",
        ("DTY-001",),
        "reject",
    ),
    "opaque-byte-order": Choice(
        "Whether an opaque type of more than one byte may begin with |V.",
        ("DTY-001",),
        "reject",
    ),
    "unknown-opaque-dtype": Choice(
        "Whether an unknown torch name is passed on as text; it must not be looked up as an attribute.",
        ("DTY-003",),
        "reject",
    ),
    "crc32-alone": Choice(
        "Whether a CRC32 without a SHA-256 is enough to verify.",
        ("HSH-004",),
        "accept",
        "verify",
    ),
    "derivation-cost": Choice(
        "Whether a key is derived beyond the limits of tzmark, with a memlimit below 8 GiB, an opslimit below 2^32 - 1"
        " and fewer than 256 different derivations in the file.",
        ("CRY-015",),
        "reject",
    ),
    "no-key-without-data": Choice(
        "Whether an encrypted file in which no tensor has data opens without a key.",
        ("CRY-018",),
        "reject",
    ),
    "metadata-start": Choice(
        "Whether the index is read from metadata_start if that is not 118.",
        ("SEG-003",),
        "accept",
    ),
    "metadata-start-ignored": Choice(
        "Whether the index is read from byte 118 if no index lies at metadata_start.",
        ("SEG-003",),
        "reject",
    ),
}


def open_choices() -> Json:
    """All choices as the manifest has them."""
    return {name: choice.entry() for name, choice in sorted(CHOICES.items())}


def with_text(entry: Json) -> Json:
    """An entry of the manifest, with the text of its choice if it has one."""
    if "choice_name" not in entry:
        return entry
    at = {"open_choice": CHOICES[entry["choice_name"]].text}
    return {key: at.get(key, value) for key, value in entry.items()}


def is_open(case: Json) -> bool:
    return case["verdict"] == "implementation-defined"


def uneven_choices(manifest: Json, rules: Json) -> Iterator[str]:
    """Where the cases, the choices of the manifest and the marks below the rules of FORMAT.md disagree."""
    choices = manifest["open_choices"]
    shown = set()
    for case in manifest["cases"]:
        if (case["tier"] == "SHOULD") is not is_open(case):
            yield f"{case['id']}: tier SHOULD is for open cases, and for no others"
        if not is_open(case):
            continue
        name = case.get("choice_name")
        if name not in choices:
            yield f"{case['id']}: open, but {name} is not a choice of the manifest"
            continue
        shown.add(name)
        if case["open_choice"] != choices[name]["text"]:
            yield f"{case['id']}: its open_choice is not the text of {name}"
        rule = case["rules"][0]
        if rule not in choices[name]["rules"]:
            yield f"{case['id']}: open by {name}, but {name} is not a choice of {rule}, which binds readers"
    for name, choice in choices.items():
        if name not in shown:
            yield f"{name}: no case shows this choice"
        for rule in choice["rules"]:
            if rule in rules and name not in rules[rule]["open_choices"]:
                yield f"{name}: FORMAT.md does not name it below {rule}"
    for id_, rule in rules.items():
        for name in rule["open_choices"]:
            if name not in choices or id_ not in choices[name]["rules"]:
                yield f"{id_}: FORMAT.md names {name} below it, which is not one of its choices"


def choice_table(manifest: Json) -> str:
    """The table of FORMAT.md 11.2."""
    counts: dict[str, int] = {}
    for case in filter(is_open, manifest["cases"]):
        counts[case["choice_name"]] = counts.get(case["choice_name"], 0) + 1
    rows = [
        "| name | choice | left open by | tzmark | cases |",
        "|---|---|---|---|---:|",
    ]
    order = list(CHOICES)
    for name in sorted(manifest["open_choices"], key=order.index):
        choice = manifest["open_choices"][name]
        text = choice["text"].replace("|", "\\|")
        answer = choice["tzmark"]
        if choice["rejected_by"] == "verify" and answer == "reject":
            answer = "reject (verify)"
        rows.append(
            f"| `{name}` | {text} | {', '.join(choice['rules'])} | {answer} | {counts.get(name, 0)} |"
        )
    return "\n".join(rows) + "\n"


TABLE_BEGIN = "<!-- open choices: made by corpus/recipes/make.py -->\n"
TABLE_END = "<!-- end of open choices -->\n"


def with_table(document: str, table: str) -> str:
    """The document with this table between its marks."""
    before, begin, rest = document.partition(TABLE_BEGIN)
    _, end, after = rest.partition(TABLE_END)
    if not end:
        raise SystemExit(
            "FORMAT.md: the marks around the table of section 11.2 are gone"
        )
    return f"{before}{begin}\n{table}\n{end}{after}"
