"""What a case is: the record that becomes one entry of manifest.json, and the vocabulary that its fields use."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from choices import CHOICES

Json = dict[str, Any]

SCHEMA_VERSION = 1
# Rules that 65 bytes are enough to see broken, and what a reader may have taken from a pipe by then: these bytes, and
# one buffer of 128 KiB, the largest that the standard library of a common language reads ahead.
FILE_HEADER_RULES = {"TZR-HDR-002", "TZR-HDR-003", "TZR-HDR-004", "TZR-HDR-005"}
PIPE_BYTES = 65 + (128 << 10)
LIMITS: Json = {"memory_bytes": 64 << 20, "seconds": 5}
# Where the files are that are not committed, and the feature of their cases. These allow as much memory as 65,537
# tensors take in the model, which keeps every field.
LARGE = "large"
LARGE_FEATURE = "large-file"
LARGE_LIMITS: Json = {"memory_bytes": 1 << 30, "seconds": 30}

# The bytes cannot be taken apart in the way the format says.
MALFORMED_RULES = {
    *("TZR-HDR-001", "TZR-HDR-002", "TZR-HDR-003", "TZR-HDR-007", "TZR-HDR-008"),
    *("TZR-IDX-001", "TZR-IDX-002", "TZR-IDX-003", "TZR-IDX-008", "TZR-IDX-009"),
    *("TZR-IDX-010", "TZR-IDX-011", "TZR-IDX-012", "TZR-IDX-013", "TZR-IDX-014"),
    *("TZR-IDX-015", "TZR-SEG-001", "TZR-SEG-002", "TZR-SEG-003", "TZR-SEG-004"),
    *("TZR-REC-001", "TZR-REC-002", "TZR-REC-003", "TZR-REC-004", "TZR-REC-005"),
    *("TZR-TRM-001", "TZR-TRM-002", "TZR-HSH-001"),
    *("TZR-CRY-001", "TZR-CRY-002", "TZR-CRY-010"),
}
INTEGRITY_RULES = {"TZR-HSH-004", "TZR-HSH-005", "TZR-HSH-006"}
AUTHENTICATION_RULES = {"TZR-CRY-016", "TZR-CRY-017", "TZR-CRY-018", "TZR-CRY-019"}


def verdict_of(rule: str) -> str:
    """The verdict of a file that breaks this rule first."""
    if rule in MALFORMED_RULES:
        return "malformed"
    if rule in INTEGRITY_RULES:
        return "integrity-failure"
    if rule in AUTHENTICATION_RULES:
        return "authentication-failure"
    return "invalid"


@dataclass(frozen=True)
class Case:
    """One file, how to open it, and what a reader has to make of it."""

    id: str
    path: str
    layout: str
    verdict: str
    rules: list[str]
    why: str
    origin: Json
    content: bytes
    features: list[str] = field(default_factory=list)
    tier: str = "MUST"
    expected: Json | None = None
    key_hex: str | None = None
    passphrase: str | None = None
    choice_name: str | None = None
    erratum: str | None = None
    verifies_strict: bool | None = None
    sequence: str | None = None

    @property
    def expected_path(self) -> str | None:
        return (
            None
            if self.expected is None
            else self.path.removesuffix(".tensors") + ".json"
        )

    def outputs(self) -> dict[str, bytes]:
        """The files of the case."""
        return self._outputs

    @cached_property
    def _outputs(self) -> dict[str, bytes]:
        files = {self.path: self.content}
        if self.expected_path is not None:
            # People do not read the large ones, and white space is a fifth of them.
            text = to_text(self.expected, LARGE_FEATURE in self.features)
            files[self.expected_path] = text.encode()
        return files

    def entry(self) -> Json:
        """The manifest entry. Fields that say nothing are left out, so that absence always means the same."""
        fields: Json = {
            "id": self.id,
            "path": self.path,
            "sha256": hashlib.sha256(self.content).hexdigest(),
            "size_bytes": len(self.content),
            "layout": self.layout,
            "features": sorted(set(self.features)),
            "verdict": self.verdict,
            "tier": self.tier,
            "rules": self.rules,
            "why": self.why,
            "open_choice": CHOICES[self.choice_name].text if self.choice_name else None,
            "choice_name": self.choice_name,
            "erratum": self.erratum,
            "sequence": self.sequence,
            "verifies_strict": self.verifies_strict,
            "origin": self.origin,
            "key_hex": self.key_hex,
            "passphrase": self.passphrase,
            "expected": self.expected_path,
            "expected_sha256": expected_digest(self),
            "limits": LARGE_LIMITS if LARGE_FEATURE in self.features else LIMITS,
        }
        return {key: value for key, value in fields.items() if value is not None}


def expected_digest(case: Any) -> str | None:
    """The SHA-256 of the expected decode of a case, if it has one."""
    path = case.expected_path
    return None if path is None else hashlib.sha256(case.outputs()[path]).hexdigest()


def with_pipe_limit(entry: Json) -> Json:
    """An entry of the manifest, with a limit for pipes if its file has to be refused for its file header."""
    accepted = entry["verdict"] in ("valid", "implementation-defined")
    if accepted or entry["rules"][0] not in FILE_HEADER_RULES:
        return entry
    return entry | {"limits": entry["limits"] | {"pipe_bytes": PIPE_BYTES}}


def to_text(value: Any, is_compact: bool = False) -> str:
    """JSON as every file of the corpus has it: ASCII, one newline at the end, and indented if people may read it."""
    if is_compact:
        return json.dumps(value, separators=(",", ":")) + "\n"
    return json.dumps(value, indent=1) + "\n"


def to_lines(document: Json) -> str:
    """JSON with one line per case, so that a change to one case is a difference of one line."""
    members = [
        f"{json.dumps(name)}: {broken(value)}" for name, value in document.items()
    ]
    return "{" + ",\n".join(members) + "}\n"


def broken(value: Any) -> str:
    """JSON with one line per element, each on one line."""
    if isinstance(value, dict) and value:
        lines = [
            f"{json.dumps(name)}: {json.dumps(item)}" for name, item in value.items()
        ]
        return "{\n" + ",\n".join(lines) + "\n}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(map(json.dumps, value)) + "\n]"
    return json.dumps(value)
