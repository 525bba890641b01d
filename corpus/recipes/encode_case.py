"""What an encode case is, and how a recipe module states its cases: in one call each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from case import LARGE_FEATURE, LARGE_LIMITS, LIMITS, Json, expected_digest
from recipe import rule_ids
from specification import OPAQUE_ITEM_BYTES, Specification

DIMS_OF_NUMPY = 32
LARGE_BYTES = 1 << 30
# A writer chooses how hard its key derivation is, up to what readers have to bear.
PASSPHRASE_LIMITS: Json = {"memory_bytes": (1 << 30) + (64 << 20), "seconds": 20}


@dataclass(frozen=True)
class EncodeCase:
    """A specification, with or without a secret, and whether a writer has to write it or to refuse it."""

    id: str
    specification: Specification
    layout: str
    verdict: str
    rules: list[str]
    why: str
    origin: Json
    features: list[str] = field(default_factory=list)
    tier: str = "MUST"
    key_hex: str | None = None
    passphrase: str | None = None

    @property
    def encrypted(self) -> bool:
        return self.key_hex is not None or self.passphrase is not None

    @property
    def path(self) -> str:
        return f"encode/{self.id.removeprefix('encode-')}.json"

    @property
    def expected_path(self) -> str | None:
        """Where the expected decode is; a specification that has to be refused has none."""
        if self.verdict != "valid":
            return None
        return self.path.removesuffix(".json") + ".expected.json"

    def outputs(self) -> dict[str, bytes]:
        """The files of the case."""
        files = {self.path: self.specification.text().encode()}
        if self.expected_path is not None:
            expected = self.specification.expected(self.layout, self.encrypted)
            files[self.expected_path] = expected.encode()
        return files

    @property
    def _limits(self) -> Json:
        if self.passphrase is not None:
            return PASSPHRASE_LIMITS
        return LARGE_LIMITS if LARGE_FEATURE in self.features else LIMITS

    def entry(self) -> Json:
        """The manifest entry. Fields that say nothing are left out."""
        content = self.outputs()[self.path]
        fields: Json = {
            "id": self.id,
            "spec": self.path,
            "sha256": hashlib.sha256(content).hexdigest(),
            "size_bytes": len(content),
            "layout": self.layout,
            "features": self.features,
            "verdict": self.verdict,
            "tier": self.tier,
            "rules": self.rules,
            "why": self.why,
            "origin": self.origin,
            "key_hex": self.key_hex,
            "passphrase": self.passphrase,
            "expected": self.expected_path,
            "expected_sha256": expected_digest(self),
            "limits": self._limits,
        }
        return {key: value for key, value in fields.items() if value is not None}


def features_of(specification: Specification) -> set[str]:
    """What a writer needs beyond plain tensors."""
    features = set()
    for tensor in specification.tensors:
        if tensor.dtype in OPAQUE_ITEM_BYTES:
            features.add("opaque-dtype")
        if tensor.meta:
            features.add("meta")
            if tensor.nominal_bytes > LARGE_BYTES:
                features.add("large-claim")
        if len(tensor.shape) > DIMS_OF_NUMPY:
            features.add("many-dims")
        if tensor.path and (len(tensor.path) > 1 or isinstance(tensor.path[0], int)):
            features.add("structured-names")
    if specification.shares_memory():
        features.add("shared-memory")
    if specification.layout != "auto":
        features.add("forced-layout")
    if specification.omits_buffers:
        features.add("non-persistent-buffers")
    return features


class EncodeRecipe:
    """The encode cases of one module. Rules are written without their TZR- in front, with spaces between."""

    def __init__(self, module: str) -> None:
        self._origin: Json = {"recipe": f"recipes/{module}.py"}

    def written(
        self,
        id_: str,
        specification: Specification,
        rules: str,
        why: str,
        *,
        layout: str = "v1",
        features: Iterable[str] = (),
        tier: str = "MUST",
        key: bytes | None = None,
        passphrase: str | None = None,
    ) -> EncodeCase:
        """Content that has to end up in a file of this layout."""
        needed = {*features_of(specification), *features}
        if key is not None or passphrase is not None:
            needed.add("encryption")
        if passphrase is not None:
            needed.add("passphrase")
        return EncodeCase(
            id=f"encode-{id_}",
            specification=specification,
            layout=layout,
            verdict="valid",
            rules=rule_ids(rules),
            why=why,
            origin=self._origin,
            features=sorted(needed),
            tier=tier,
            key_hex=None if key is None else key.hex(),
            passphrase=passphrase,
        )

    def refused(
        self,
        id_: str,
        specification: Specification,
        rules: str,
        why: str,
        *,
        layout: str = "v1",
        features: Iterable[str] = (),
        tier: str = "MUST",
        key: bytes | None = None,
        passphrase: str | None = None,
    ) -> EncodeCase:
        """Content that no writer may write by the first of the rules; the others are right reasons as well.

        The layout is the one that was asked for, or that the content would need without the defect.
        """
        case = self.written(
            *(f"refused-{id_}", specification, rules, why),
            layout=layout,
            features=features,
            tier=tier,
            key=key,
            passphrase=passphrase,
        )
        return replace(case, verdict="invalid")
