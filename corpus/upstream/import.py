#!/usr/bin/env python3
"""Takes files that upstream wrote, and hostile files made from such, into the corpus.

Reads a folder of golden files (one sub-folder an emitter, and malformed/), keeps those of data versions 1 to 4, packs
each sub-folder into one archive beside this script, and writes cases.json, from which ../recipes/make.py takes the
manifest entries. What the golden files cannot say, which rule a hostile file breaks and what a reader is free to do,
is written by hand in judgements.json; a file without a judgement, or a judgement without a file, stops the import.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import lzma
import re
import struct
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "recipes"))

from case import Case, Json, to_text, verdict_of  # noqa: E402

CLASSIC_VERSIONS = range(1, 5)
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
FOREIGN_DTYPE = re.compile(r"[<>|]?[SUMm]\d")


def data_version_of(content: bytes) -> int | None:
    """The data version of a file, or None where the file ends before it."""
    return struct.unpack_from("<I", content, 5)[0] if len(content) >= 9 else None


def is_encrypted(content: bytes) -> bool:
    version = data_version_of(content)
    return version == 3 or (version == 4 and bool(content[9] & 1))


def canonical(content: bytes, tensors: list[Json]) -> Json:
    """The expected decode, in the order of the index."""
    version = data_version_of(content)
    return {
        "data_version": version,
        "layout": f"v{version}",
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
        if len(tensor["path"]) > 1 or isinstance(tensor["path"][0], int):
            features.add("structured-names")
    return features


def rules_of(features: set[str], data_version: int) -> list[str]:
    """The rules that a file of these features exercises beyond what every file does."""
    rules = ["TZR-HDR-002", "TZR-IDX-009", "TZR-IDX-012", "TZR-HSH-006", "TZR-TRM-002"]
    if data_version == 4:
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


def emitter_cases(folder: Path, judgements: Json) -> list[Case]:
    """The files that one upstream version wrote."""
    cases = []
    for facts_path in sorted(folder.glob("*.json")):
        facts = json.loads(facts_path.read_text())
        if isinstance(facts, list) or facts["data_version"] not in CLASSIC_VERSIONS:
            continue  # A list says what the emitter cannot write.
        content = facts_path.with_suffix(".tensors").read_bytes()
        emitter, commit = facts["emitter"].rstrip(")").split(" (")
        key = f"{folder.name}/{facts_path.stem}"
        features = features_of(facts, content)
        strict = facts["verifies_strict"]
        if strict is (key in judgements["errata"]):
            raise SystemExit(
                f"{key}: verifies_strict is {strict}, which judgements.json contradicts"
            )
        cases.append(
            Case(
                id=f"{folder.name}-{facts_path.stem}",
                path=f"upstream/{key}.tensors",
                layout=f"v{facts['data_version']}",
                verdict="valid" if strict else "integrity-failure",
                rules=rules_of(features, facts["data_version"])
                if strict
                else ["TZR-HSH-005", "TZR-HSH-006"],
                why=sentence(facts["description"]),
                origin={"emitter": emitter, "commit": commit, "case": facts_path.stem},
                content=content,
                features=sorted(features),
                tier=judgements["tiers"].get(key, "MUST"),
                expected=canonical(content, facts["tensors"]),
                key_hex=facts.get("key_hex"),
                passphrase=facts.get("passphrase"),
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
    }[facts["verdict"]]
    if (verdict == "implementation-defined") is not ("open_choice" in judgement):
        raise SystemExit(
            f"{name}: an open choice is stated for implementation-defined files and for no others"
        )

    expected = None
    if "tensors" in facts:
        expected = canonical(content, facts["tensors"])
    elif "expected_as" in judgement:
        twin = json.loads(
            (golden / "malformed" / f"{judgement['expected_as']}.json").read_text()
        )
        expected = canonical(content, twin["tensors"])
    version = data_version_of(content)
    if version not in CLASSIC_VERSIONS:
        version = data_version_of(base_content)
    mutation = judgement.get("mutation", facts["mutation"]).replace("\n", "\\n")
    why = sentence(
        facts["why"] if mutation == "none" else f"{mutation}: {facts['why']}"
    )
    return Case(
        id=f"malformed-{name}",
        path=f"upstream/malformed/{name}.tensors",
        layout=f"v{version}",
        verdict=verdict,
        rules=judgement["rules"],
        why=judgement.get("why", why),
        origin={"base": f"malformed-{base_name}", "mutation": mutation},
        content=content,
        features=sorted(
            features_of(facts, content)
            | features_of(base, base_content)
            | set(judgement.get("features", []))
        ),
        tier="SHOULD" if verdict == "implementation-defined" else "MUST",
        expected=expected,
        key_hex=facts.get("key_hex"),
        passphrase=facts.get("passphrase"),
        open_choice=judgement.get("open_choice"),
    )


def hostile_cases(golden: Path, judgements: Json) -> list[Case]:
    """The files of malformed/ that are not about data version 5."""
    found = {path.stem for path in (golden / "malformed").glob("*.json")}
    classic = {
        name for name in found if not name.removeprefix("base-").startswith("v5")
    }
    wanted = classic - set(judgements["postponed"])
    if wanted != set(judgements["malformed"]):
        raise SystemExit(
            f"files and judgements differ: {sorted(wanted ^ set(judgements['malformed']))}"
        )
    return [
        hostile_case(golden, name, judgements["malformed"][name])
        for name in sorted(wanted)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "golden", type=Path, metavar="GOLDEN_DIR", help="folder of golden files"
    )
    golden: Path = parser.parse_args().golden

    judgements = json.loads((HERE / "judgements.json").read_text())
    groups = {
        folder.name: emitter_cases(folder, judgements)
        for folder in sorted(golden.glob("tensorizer-*"))
    }
    groups["malformed"] = hostile_cases(golden, judgements)

    archives = []
    for group, cases in groups.items():
        if not cases:
            continue
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
    entries = [case.entry() for cases in groups.values() for case in cases]
    (HERE / "cases.json").write_text(to_text({"archives": archives, "cases": entries}))


if __name__ == "__main__":
    main()
