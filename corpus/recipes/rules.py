"""The rules of the format, read from its documents: what rules.json is made of."""

from __future__ import annotations

import re
from pathlib import Path

from case import Json

REFERENCE = Path(__file__).resolve().parents[2] / "reference"
# Each document with what stands in front of its sections' titles.
DOCUMENTS = (("FORMAT.md", ""), ("SAFETENSORS.md", "safetensors: "))

HEADING = re.compile(r"#{2,3} (.+)")
RULE = re.compile(
    r"- \*\*((?:TZ[RX]-[A-Z]{3}|ST)-\d{3})\*\* \((MUST|SHOULD), (reader|writer|both)\): (.+\.)"
)
LIKE_RULE = re.compile(r"- \*\*[A-Z]+-")
VERSION = re.compile(r"^Version (\d+\.\d+\.\d+)$", re.MULTILINE)
# Ends the explanation of a rule that leaves readers a choice, each with its name in choices.py.
OPEN = re.compile(r"Open to readers: ((?:`[a-z0-9-]+`(?:, )?)+)\.$")
LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")


def rules_of(text: str, prefix: str) -> Json:
    """The rules of a document by their ids. Indented lines below a rule explain it."""
    rules: Json = {}
    section, rule = "", None
    for line in text.splitlines():
        if rule is not None and line.startswith("  "):
            words = LINK.sub(r"\1", line.strip())
            rule["more"] = f"{rule['more']} {words}".lstrip()
            continue
        rule = None
        if heading := HEADING.fullmatch(line):
            section = prefix + heading[1]
        elif found := RULE.fullmatch(line):
            id_, level, binds, statement = found.groups()
            rule = {
                "level": level,
                "binds": binds,
                "text": statement,
                "more": "",
                "open_choices": [],
                "section": section,
            }
            if rules.setdefault(id_, rule) is not rule:
                raise SystemExit(f"{id_} is stated twice")
        elif LIKE_RULE.match(line):
            # A slip in the form of a rule must not lose it.
            raise SystemExit(f"not in the form of a rule: {line}")
    for id_, rule in rules.items():
        rule["open_choices"] = open_choices_of(id_, rule["more"])
    return rules


def open_choices_of(id_: str, explanation: str) -> list[str]:
    """The names of the choices that a rule leaves to readers, which end its explanation."""
    found = OPEN.search(explanation)
    if found is None and "Open to readers" in explanation:
        raise SystemExit(f"{id_}: its open choices are not a list of names at the end")
    return re.findall(r"`([a-z0-9-]+)`", found[1]) if found else []


def rules_document() -> Json:
    """All rules, in the order of the documents. The version is that of the format's own document."""
    texts = [(REFERENCE / name).read_text() for name, _ in DOCUMENTS]
    rules: Json = {}
    for text, (name, prefix) in zip(texts, DOCUMENTS, strict=True):
        found = rules_of(text, prefix)
        if not found or found.keys() & rules.keys():
            raise SystemExit(f"{name}: no rules, or rules of another document")
        rules |= found
    version = VERSION.search(texts[0])
    if version is None:
        raise SystemExit("the format has no version")
    return {"schema_version": 1, "format_version": version[1], "rules": rules}
