#!/usr/bin/env python3
"""Takes files that upstream wrote, and hostile files made from such, into the corpus.

Reads a directory of golden files (one subdirectory an emitter, and malformed/), packs each subdirectory into one
archive next to this script, and writes cases.json, from which ../recipes/make.py takes the manifest entries. What the
golden files cannot say, which rule a hostile file breaks and what a reader is free to do, is written by hand in
judgements.json; a file without a judgement, or a judgement without a file, stops the import.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import lzma
import math
import re
import struct
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "recipes"))

from case import Case, Json, to_lines, to_text, verdict_of  # noqa: E402
from choices import CHOICES  # noqa: E402

# The layouts of data version 5, by the names that the golden files give them. The others are named by their version.
DIALECTS = {
    "v5-absolute": "v5-headers-first",
    "v5-relative": "v5-segments",
    "v5-long": "v5-long-dims",
    "v5-flagged": "v5-flagged-dims",
}
DATA_VERSIONS = range(1, 6)
TENSOR_KEYS = (
    "path",
    "kind",
    "module_index",
    "dtype",
    "wire_dtype",
    "shape",
    "meta",
    "data_length",
    "sha256",
)
# What a reader may well have in memory, however small the file is.
LARGE_CLAIM_ELEMENTS = 1 << 24
FOREIGN_DTYPE = re.compile(r"[<>|]?[SUMm]\d")


def data_version_of(content: bytes) -> int | None:
    """The data version of a file, or None where the file ends before it."""
    return struct.unpack_from("<I", content, 5)[0] if len(content) >= 9 else None


def is_encrypted(content: bytes) -> bool:
    version = data_version_of(content)
    return version == 3 or (version in (4, 5) and bool(content[9] & 1))


def layout_of(facts: Json, base: Json, base_content: bytes, content: bytes) -> str:
    """The layout of a file. One that is in none counts as what it was made from."""
    version = data_version_of(content)
    if version in DATA_VERSIONS and version != 5:
        return f"v{version}"
    dialect = facts.get("dialect", base["dialect"])
    return DIALECTS.get(dialect, f"v{data_version_of(base_content)}")


def canonical(content: bytes, layout: str, tensors: list[Json]) -> Json:
    """The expected decode, in the order of the index."""
    return {
        "data_version": data_version_of(content),
        "layout": layout,
        "encrypted": is_encrypted(content),
        "tensors": [
            {key: tensor[key] for key in (*TENSOR_KEYS, "crc32_field", "sha256_field")}
            for tensor in tensors
        ],
    }


def features_of(facts: Json, content: bytes) -> set[str]:
    """What a reader needs beyond plain tensors, as far as the decode shows it."""
    features = {"encryption"} if is_encrypted(content) else set()
    if "passphrase" in facts:
        features.add("passphrase")
    for tensor in facts.get("tensors", []):
        wire_dtype = tensor["wire_dtype"]
        if "\0" in wire_dtype:
            features.add("opaque-dtype")
        if FOREIGN_DTYPE.match(wire_dtype):
            features.add("foreign-dtype")
        if wire_dtype.startswith(">"):
            features.add("big-endian")
        if tensor["meta"]:
            features.add("meta")
        if math.prod(max(size, 1) for size in tensor["shape"]) > LARGE_CLAIM_ELEMENTS:
            features.add("large-claim")
        if len(tensor["path"]) > 1 or isinstance(tensor["path"][0], int):
            features.add("structured-names")
    return features


LAYOUT_RULES = {
    "v5-headers-first": ["TZR-HDR-007", "TZR-IDX-014", "TZR-IDX-015"],
    "v5-segments": ["TZR-IDX-014", "TZR-SEG-001", "TZR-SEG-003", "TZR-SEG-004"],
    "v5-long-dims": ["TZR-HDR-007", "TZR-IDX-013", "TZR-TRM-002"],
    "v5-flagged-dims": ["TZR-IDX-013", "TZR-TRM-002"],
}


def rules_of(features: set[str], layout: str) -> list[str]:
    """The rules that a file of these features exercises beyond what every file does."""
    rules = ["TZR-HDR-002", "TZR-HSH-006"]
    rules += LAYOUT_RULES.get(layout, ["TZR-IDX-009", "TZR-IDX-012", "TZR-TRM-002"])
    if layout == "v4" or layout in LAYOUT_RULES:
        rules.append("TZR-HDR-004")
    if "opaque-dtype" in features:
        rules += ["TZR-DTY-002", "TZR-DTY-003", "TZR-DTY-004"]
    if features & {"foreign-dtype", "big-endian"}:
        rules.append("TZR-DTY-001")
    if "meta" in features:
        rules += ["TZR-IDX-006", "TZR-IDX-007"]
    if "structured-names" in features:
        rules += ["TZR-NAM-002", "TZR-NAM-007", "TZR-NAM-008"]
    if "encryption" in features:
        rules += ["TZR-CRY-001", "TZR-CRY-009", "TZR-CRY-016"]
    else:
        rules.append("TZR-HSH-005")
    if "passphrase" in features:
        rules += ["TZR-CRY-012", "TZR-CRY-014"]
    if {"encryption", "meta"} <= features:
        rules.append("TZR-CRY-007")
    return sorted(rules)


def rules_of_hashes(tensors: list[Json]) -> list[str]:
    """The rules that a file breaks whose hashes are wrong."""
    states = {tensor["hash_state"] for tensor in tensors}
    return ["TZR-HSH-005"] + (["TZR-HSH-006"] if "mismatch" in states else [])


def sentence(text: str) -> str:
    """One line of text as a sentence."""
    text = text.replace("\n", "\\n")
    return text[:1].upper() + text[1:].removesuffix(".") + "."


def pack(archive: Path, files: dict[str, bytes]) -> None:
    """Writes a tar archive whose bytes depend on nothing but the files."""
    tar_bytes = io.BytesIO()
    with tarfile.open(fileobj=tar_bytes, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            member.mode = 0o644
            tar.addfile(member, io.BytesIO(files[name]))
    archive.write_bytes(
        lzma.compress(tar_bytes.getvalue(), preset=9 | lzma.PRESET_EXTREME)
    )


def emitter_cases(directory: Path, judgements: Json) -> list[Case]:
    """The files that one upstream version wrote."""
    cases = []
    for facts_path in sorted(directory.glob("*.json")):
        facts = json.loads(facts_path.read_text())
        if isinstance(facts, list):
            continue  # It says what the emitter cannot write.
        content = facts_path.with_suffix(".tensors").read_bytes()
        layout = layout_of(facts, facts, content, content)
        emitter, commit = facts["emitter"].rstrip(")").split(" (")
        key = f"{directory.name}/{facts_path.stem}"
        features = features_of(facts, content)
        strict = facts["verifies_strict"]
        choice = judgements["choices"].get(key)
        if choice is not None:
            verdict, rules = "implementation-defined", CHOICES[choice].entry()["rules"]
        elif strict:
            verdict, rules = "valid", rules_of(features, layout)
        else:
            verdict, rules = "integrity-failure", rules_of_hashes(facts["tensors"])
        if strict is (key in judgements["errata"]):
            raise SystemExit(
                f"{key}: verifies_strict is {strict}, which judgements.json contradicts"
            )
        cases.append(
            Case(
                id=f"{directory.name}-{facts_path.stem}",
                path=f"upstream/{key}.tensors",
                layout=layout,
                verdict=verdict,
                rules=rules,
                why=sentence(facts["description"]),
                origin={"emitter": emitter, "commit": commit, "case": facts_path.stem},
                content=content,
                features=sorted(features),
                tier="SHOULD" if choice else "MUST",
                expected=canonical(content, layout, facts["tensors"]),
                key_hex=facts.get("key_hex"),
                passphrase=facts.get("passphrase"),
                choice_name=choice,
                erratum=judgements["errata"].get(key),
                verifies_strict=strict,
            )
        )
    return cases


def hostile_case(golden: Path, name: str, judgement: Json) -> Case:
    """One file of malformed/, judged."""
    facts_path = golden / "malformed" / f"{name}.json"
    facts = json.loads(facts_path.read_text())
    content = facts_path.with_suffix(".tensors").read_bytes()
    base_name = facts["base"]
    base = json.loads((golden / "malformed" / f"{base_name}.json").read_text())
    base_content = (golden / "malformed" / f"{base_name}.tensors").read_bytes()

    verdict = {
        "accept": "valid",
        "reject": verdict_of(judgement["rules"][0]),
        "reject-when-verifying": "integrity-failure",
        "implementation-defined": "implementation-defined",
    }[judgement.get("verdict", facts["verdict"])]
    if (verdict == "implementation-defined") is not ("choice_name" in judgement):
        raise SystemExit(
            f"{name}: an open choice is named for implementation-defined files and for no others"
        )

    # A file that is in no layout may be one that a reader mistakes for another.
    layout = judgement.get("layout") or layout_of(facts, base, base_content, content)
    expected = None
    has_content = verdict in ("valid", "integrity-failure", "implementation-defined")
    if "tensors" in facts and has_content:
        expected = canonical(content, layout, facts["tensors"])
    elif "expected_as" in judgement:
        twin = json.loads(
            (golden / "malformed" / f"{judgement['expected_as']}.json").read_text()
        )
        expected = canonical(content, layout, twin["tensors"])
    mutation = judgement.get("mutation", facts["mutation"]).replace("\n", "\\n")
    why = sentence(
        facts["why"] if mutation == "none" else f"{mutation}: {facts['why']}"
    )
    features = features_of(facts, content) | set(judgement.get("features", []))
    if "tensors" not in facts:
        features |= features_of(base, base_content)
    return Case(
        id=f"malformed-{name}",
        path=f"upstream/malformed/{name}.tensors",
        layout=layout,
        verdict=verdict,
        rules=judgement["rules"],
        why=judgement.get("why", why),
        origin={"base": f"malformed-{base_name}", "mutation": mutation},
        content=content,
        features=sorted(features),
        tier="SHOULD" if verdict == "implementation-defined" else "MUST",
        expected=expected,
        key_hex=facts.get("key_hex"),
        passphrase=facts.get("passphrase"),
        choice_name=judgement.get("choice_name"),
    )


def hostile_cases(golden: Path, judgements: Json) -> list[Case]:
    """The files of malformed/."""
    found = {path.stem for path in (golden / "malformed").glob("*.json")}
    judged = judgements["malformed"]
    if found != judged.keys():
        raise SystemExit(
            f"files and judgements differ: {sorted(found ^ judged.keys())}"
        )
    return [hostile_case(golden, name, judged[name]) for name in sorted(found)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "golden", type=Path, metavar="GOLDEN_DIR", help="directory of golden files"
    )
    golden: Path = parser.parse_args().golden

    judgements = json.loads((HERE / "judgements.json").read_text())
    groups = {
        directory.name: emitter_cases(directory, judgements)
        for directory in sorted(golden.glob("tensorizer-*"))
    }
    groups["malformed"] = hostile_cases(golden, judgements)

    archives = []
    for group, cases in groups.items():
        files = {case.path.removeprefix("upstream/"): case.content for case in cases}
        for case in cases:
            if case.expected is not None and case.expected_path is not None:
                files[case.expected_path.removeprefix("upstream/")] = to_text(
                    case.expected
                ).encode()
        archive = HERE / f"{group}.tar.xz"
        pack(archive, files)
        archives.append(
            {
                "path": f"upstream/{archive.name}",
                "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
            }
        )
        print(f"{archive.name}: {len(cases)} cases, {archive.stat().st_size} bytes")
    # recipes/make.py takes the digests of the expected decodes from the archives.
    entries = [
        {key: value for key, value in case.entry().items() if key != "expected_sha256"}
        for cases in groups.values()
        for case in cases
    ]
    (HERE / "cases.json").write_text(to_lines({"archives": archives, "cases": entries}))


if __name__ == "__main__":
    main()
