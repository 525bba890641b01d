"""What the tests of tzmark-conform share: the programs, a corpus of one case for each verdict, and runs on it with the
fake adapter.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

Json = dict[str, Any]

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
CONFORM = BUILD / "libexec/tzmark/tzmark-conform"
MODEL = BUILD / "libexec/tzmark/tzmark-adapter-model"
CORPUS = BUILD / "share/tzmark/corpus"
FAKE_ADAPTER = SOURCE / "conformance/runner/testdata/fake_adapter.py"
# Whether this machine lets the suite mount a directory read-only for a process.
HAS_READ_ONLY = (
    subprocess.run(
        [BUILD / "libexec/tzmark/tzmark-read-only", SOURCE, "true"],
        capture_output=True,
    ).returncode
    == 0
)
SCHEMA = json.loads((SOURCE / "reports/schema/conformance.schema.json").read_text())

CONTENT: Json = {
    "data_version": 1,
    "layout": "v1",
    "encrypted": False,
    "tensors": [{"path": ["a"], "shape": [2, 3]}],
}
VERDICTS = (
    "valid",
    "malformed",
    "invalid",
    "authentication-failure",
    "integrity-failure",
    "implementation-defined",
)


def adapter(*options: str) -> str:
    return shlex.join([sys.executable, "-I", str(FAKE_ADAPTER), *options])


def conform(
    *options: str | Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CONFORM, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **(env or {})},
    )


class CorpusTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="tzmark-conform-test-")
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.corpus = self.directory / "corpus"
        self.corpus.mkdir()
        self.manifest: Json = {"schema_version": 1, "cases": []}
        for verdict in VERDICTS:
            self.add_case(verdict, verdict)
        self.save()

    def add_case(self, case_id: str, verdict: str, layout: str = "v1") -> None:
        content = f"content of {case_id}".encode()
        (self.corpus / f"{case_id}.bin").write_bytes(content)
        case: Json = {
            "id": case_id,
            "path": f"{case_id}.bin",
            "sha256": hashlib.sha256(content).hexdigest(),
            "size_bytes": len(content),
            "layout": layout,
            "features": ["meta"] if layout == "v4" else [],
            "verdict": verdict,
            "tier": "MUST",
            "rules": ["TZR-HDR-002"],
            "why": f"Why <{case_id}> & co.",
            "origin": {"recipe": "recipes/none.py", "seed": 1},
            "limits": {"memory_bytes": 64 << 20, "seconds": 10},
        }
        if verdict in ("valid", "integrity-failure", "implementation-defined"):
            (self.corpus / f"{case_id}.json").write_text(json.dumps(CONTENT))
            case["expected"] = f"{case_id}.json"
            digest = hashlib.sha256(json.dumps(CONTENT).encode()).hexdigest()
            case["expected_sha256"] = digest
        if verdict == "implementation-defined":
            case["open_choice"] = "Whether it is read."
        self.manifest["cases"].append(case)

    def adapter(self, *options: str) -> str:
        """The fake adapter, which answers about this corpus."""
        return adapter("--corpus", str(self.corpus), *options)

    def save(self) -> None:
        (self.corpus / "manifest.json").write_text(json.dumps(self.manifest))

    def run_on_corpus(
        self, *options: str | Path, behaviours: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        cases = [word for rule in behaviours for word in ("--case", rule)]
        return conform(
            "--corpus", self.corpus, "--adapter", self.adapter(*cases), *options
        )
