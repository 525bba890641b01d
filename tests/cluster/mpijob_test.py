#!/usr/bin/env python3
"""Checks scripts/cluster/mpijob.yaml: its parts fit together, its command is one that tzmark takes, and it conforms to
the definition of the resource, where TZMARK_MPIJOB_CRD names that file of the MPI operator.

Exits with status 77, which CTest counts as skipped, without PyYAML.
"""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

import jsonschema

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
PROGRAM = BUILD / "libexec/tzmark/tzmark-bench-cluster"
JOB = SOURCE / "scripts/cluster/mpijob.yaml"
DEFINITION = os.environ.get("TZMARK_MPIJOB_CRD", "")

SKIPPED = 77

try:
    import yaml
except ImportError:
    yaml = None


def undefined(document: Any, schema: dict[str, Any], at: str = "") -> list[str]:
    """The members that the API server would drop, because the schema does not have them."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return []
    found = []
    if isinstance(document, dict):
        known, others = schema.get("properties"), schema.get("additionalProperties")
        for name, value in document.items():
            if known and name in known:
                found += undefined(value, known[name], f"{at}.{name}")
            elif isinstance(others, dict):
                found += undefined(value, others, f"{at}.{name}")
            elif known:
                found.append(f"{at}.{name}")
    elif isinstance(document, list):
        for value in document:
            found += undefined(value, schema.get("items", {}), at)
    return found


class Job(unittest.TestCase):
    def setUp(self) -> None:
        self.job: Any = yaml.safe_load(JOB.read_text(encoding="utf-8"))
        replicas = self.job["spec"]["mpiReplicaSpecs"]
        self.launcher, self.worker = replicas["Launcher"], replicas["Worker"]
        ((self.launched,), (self.working,)) = (
            each["template"]["spec"]["containers"]
            for each in (self.launcher, self.worker)
        )

    def test_as_many_ranks_as_workers(self) -> None:
        arguments = self.launched["args"]
        ranks = int(arguments[arguments.index("-n") + 1])
        self.assertEqual(
            ranks, self.worker["replicas"] * self.job["spec"]["slotsPerWorker"]
        )

    def test_launcher_and_workers_have_the_same_program_and_volume(self) -> None:
        self.assertEqual(self.launched["image"], self.working["image"])
        self.assertEqual(self.launched["volumeMounts"], self.working["volumeMounts"])
        for each in (self.launcher, self.worker):
            specification = each["template"]["spec"]
            (volume,) = specification["volumes"]
            (container,) = specification["containers"]
            (mount,) = container["volumeMounts"]
            self.assertEqual(mount["name"], volume["name"])
        for option in ("--dir", "--json"):
            value = self.launched["args"][self.launched["args"].index(option) + 1]
            self.assertTrue(value.startswith(mount["mountPath"] + "/"), value)

    def test_its_options_are_those_of_the_command(self) -> None:
        if not PROGRAM.exists():
            self.skipTest("tzmark is built without MPI")
        arguments = self.launched["args"]
        of_tzmark = arguments[arguments.index("tzmark") + 1 :]
        self.assertEqual(of_tzmark[:2], ["bench", "cluster"])
        shown = subprocess.run(
            [BUILD / "bin/tzmark", *of_tzmark[:2], "--help"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for option in of_tzmark[2::2]:
            self.assertRegex(shown, rf"(?m)^\s+{option}\b")

    @unittest.skipIf(not DEFINITION, "TZMARK_MPIJOB_CRD names no definition")
    def test_it_conforms_to_the_definition_of_the_resource(self) -> None:
        definition = yaml.safe_load(Path(DEFINITION).read_text(encoding="utf-8"))
        group, version = self.job["apiVersion"].split("/")
        self.assertEqual(definition["spec"]["group"], group)
        self.assertEqual(definition["spec"]["names"]["kind"], self.job["kind"])
        schema = next(
            each["schema"]["openAPIV3Schema"]
            for each in definition["spec"]["versions"]
            if each["name"] == version
        )
        jsonschema.validate(self.job, schema)
        self.assertEqual(undefined(self.job, schema), [])
        # The check finds what is wrong.
        self.job["spec"]["runPolicies"] = {}
        self.assertEqual(undefined(self.job, schema), [".spec.runPolicies"])
        self.job["spec"]["slotsPerWorker"] = "one"
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate(self.job, schema)


if __name__ == "__main__":
    if yaml is None:
        print("skipped: there is no PyYAML")
        sys.exit(SKIPPED)
    unittest.main()
