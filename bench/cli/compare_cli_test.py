#!/usr/bin/env python3
"""Runs tzmark compare on results of tzmark bench with samples of known noise, and on what a gate must not pass."""

from __future__ import annotations

import copy
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
TZMARK = Path(os.environ["TZMARK_BUILD_DIR"]) / "bin" / "tzmark"
SCHEMA = json.loads((SOURCE / "reports/schema/comparison.schema.json").read_text())
FLOOR_SCHEMA = json.loads((SOURCE / "reports/schema/floor.schema.json").read_text())

Document = dict[str, Any]
Factor = Callable[[Document], float]


def same(_: Document) -> float:
    return 1


def slower_codec(result: Document) -> float:
    return 1.1 if result["subject"] == "codec" else 1


def slower_reads(result: Document) -> float:
    return 1.1 if result["op"] == "read" else 1


class CompareTest(unittest.TestCase):
    genuine: Document

    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as directory:
            result = Path(directory) / "result.json"
            subprocess.run(
                [TZMARK, "bench", "--dir", directory, "--json", str(result)]
                + [
                    "--workload",
                    "mixed",
                    "--scale",
                    "1MiB",
                    "--rounds",
                    "7",
                    "--memory",
                    "thp",
                ]
                + ["--io", "pwrite", "--verify", "none,crc32"],
                check=True,
                capture_output=True,
            )
            cls.genuine = json.loads(result.read_text())
        cls.genuine["machine"]["load_average"] = [0, 0, 0]

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        self.random = random.Random(1)

    def document(
        self, factor: Factor = same, between: float = 0.01, within: float = 0.02
    ) -> Document:
        """Returns the result of one more process, whose times have known noise and are longer by a factor."""
        document = copy.deepcopy(self.genuine)
        for result in document["results"]:
            own = self.random.gauss(1, between) * factor(result)
            for sample in result["samples"]:
                time = 1e9 * own * self.random.gauss(1, within)
                sample["elapsed_ns"] = int(time)
                sample["sync_ns"] = int(time / 2) if result["op"] == "write" else None
        return document

    def save(self, name: str, document: Document) -> str:
        (self.directory / name).write_text(json.dumps(document))
        return name

    def runs(self, name: str, count: int, **options: Any) -> list[str]:
        return [self.save(f"{name}{i}", self.document(**options)) for i in range(count)]

    def compare(self, *arguments: str, status: int = 0) -> str:
        done = subprocess.run(
            [TZMARK, "compare", *arguments],
            cwd=self.directory,
            capture_output=True,
            text=True,
        )
        self.assertEqual(
            done.returncode, status, f"{arguments} {done.stdout} {done.stderr}"
        )
        return done.stdout + done.stderr

    def compare_runs(
        self, old: list[str], new: list[str], *options: str, status: int = 0
    ) -> str:
        return self.compare(
            "--runs", ",".join(old), ",".join(new), *options, status=status
        )

    def rows(
        self, old: list[str], new: list[str], *options: str, status: int = 0
    ) -> dict[str, Document]:
        """Returns the rows by id. Each document is that of the schema."""
        self.compare_runs(old, new, "--json", "out.json", *options, status=status)
        document = json.loads((self.directory / "out.json").read_text())
        jsonschema.validate(document, SCHEMA)
        return {row["id"]: row for row in document["rows"]}

    def test_finds_what_became_slower(self) -> None:
        old = self.runs("old", 10)
        rows = self.rows(old, self.runs("same", 10))
        self.assertEqual(
            {row["verdict"] for row in rows.values()}, {"no difference found"}
        )
        rows = self.rows(old, self.runs("slow", 10, factor=slower_codec), status=1)
        for name, row in rows.items():
            self.assertEqual(
                row["verdict"],
                ("REGRESSION" if row["subject"] == "codec" else "no difference found"),
                name,
            )
            if row["subject"] != "codec":
                continue
            self.assertLess(row["judged"]["p"], 0.01)
            self.assertLess(row["judged"]["low"], 1 / 1.1)
            self.assertLess(1 / 1.1, row["judged"]["high"])
            self.assertLess(row["judged"]["detectable"], 0.08)
            self.assertEqual(row["reference"].split()[0], "raw")
        text = self.compare_runs(self.runs("slow", 10, factor=slower_codec), old)
        self.assertEqual(text.count("faster"), 6)
        self.compare_runs(
            old, self.runs("slow", 10, factor=slower_codec), "--threshold", "0.3"
        )

    def verdicts_of_reads(
        self, old: list[str], new: list[str], *options: str, status: int = 0
    ) -> dict[str, str]:
        """Returns the verdicts of reads by subject, which has one; nothing else may have changed."""
        found: dict[str, str] = {}
        for name, row in self.rows(old, new, *options, status=status).items():
            if " read " not in name:
                self.assertEqual(row["verdict"], "no difference found", name)
                continue
            self.assertEqual(
                found.setdefault(row["subject"], row["verdict"]), row["verdict"]
            )
            if row["verdict"] != "no difference found":
                self.assertLess(row["rate"]["ratio"], 0.95)
                is_ratio = (
                    row["subject"] == "codec" and row["verdict"] == "machine slower"
                )
                self.assertEqual(row["reference"] is not None, is_ratio)
        return found

    def test_a_step_of_codec_and_raw_path_passes_only_if_asked(self) -> None:
        """The raw path runs tzmark's own I/O layer, so that it does not show what the machine did."""
        old, new = self.runs("old", 16), self.runs("new", 16, factor=slower_reads)

        def both(verdict: str) -> dict[str, str]:
            return {"codec": verdict, "raw": verdict}

        found = self.verdicts_of_reads(old, new, status=1)
        self.assertEqual(found, both("undecided"))
        said = self.compare_runs(old, new, "--markdown", "out.md", status=1)
        self.assertIn("3 of 9 rows are slower with the raw path", said)
        self.assertIn("--by-ratio", said)
        self.assertNotIn("no regression", (self.directory / "out.md").read_text())
        found = self.verdicts_of_reads(old, new, "--paired", status=1)
        self.assertEqual(found, both("REGRESSION"), "runs in turn cancel the machine")
        found = self.verdicts_of_reads(old, new, "--by-rate", status=1)
        self.assertEqual(found, both("REGRESSION"))
        for options in (("--by-ratio",), ("--by-ratio", "--paired")):
            found = self.verdicts_of_reads(old, new, *options)
            self.assertEqual(found, both("machine slower"))
        self.compare_runs(old, new, "--by-ratio", "--by-rate", status=2)
        # A gain needs no owner.
        for row in self.rows(new, old).values():
            self.assertIn(row["verdict"], ("faster", "no difference found"))
        # One process on a side.
        old, new = [old[0]], self.runs("much", 1, factor=lambda r: slower_reads(r) ** 8)
        self.assertEqual(self.verdicts_of_reads(old, new, status=1), both("undecided"))

    def with_fio(self, names: list[str], factor: float) -> list[str]:
        """Adds results of fio, whose times have the noise of the raw path and are longer by a factor."""
        for name in names:
            document = json.loads((self.directory / name).read_text())
            added = [
                copy.deepcopy(r) for r in document["results"] if r["subject"] == "raw"
            ]
            for result in added:
                result["id"] = result["id"].replace("raw", "fio", 1)
                result["subject"] = "fio"
                for sample in result["samples"]:
                    sample["elapsed_ns"] *= factor * self.random.gauss(1, 0.01)
            document["results"] += added
            self.save(name, document)
        return names

    def test_fio_shows_what_the_machine_did(self) -> None:
        for options in ((), ("--paired",)):
            old = self.with_fio(self.runs("old", 16), 1)
            new = self.with_fio(self.runs("new", 16, factor=slower_reads), 1)
            found = self.verdicts_of_reads(old, new, *options)
            self.assertEqual(set(found.values()), {"machine slower"}, options)
            # fio is as fast as before, so the I/O layer became slower.
            new = self.with_fio(self.runs("new", 16, factor=slower_reads), 1 / 1.1)
            for result in self.rows(old, new, *options, status=1).values():
                slow = result["subject"] != "fio" and " read " in result["id"]
                self.assertEqual(result["verdict"] == "REGRESSION", slow, result["id"])
            # What fio alone does is the machine's.
            found = self.verdicts_of_reads(old, self.slower_fio_reads(), *options)
            self.assertEqual(found.pop("fio"), "machine slower")
            self.assertEqual(set(found.values()), {"no difference found"})

    def slower_fio_reads(self) -> list[str]:
        names = self.with_fio(self.runs("new", 16), 1)
        for name in names:
            document = json.loads((self.directory / name).read_text())
            for result in document["results"]:
                if result["subject"] == "fio" and result["op"] == "read":
                    for sample in result["samples"]:
                        sample["elapsed_ns"] *= 1.2
            self.save(name, document)
        return names

    def test_noise_of_the_raw_path_hides_no_regression(self) -> None:
        def noisy_raw(codec: float, raw: float = 1) -> Factor:
            def factor(result: Document) -> float:
                if result["subject"] == "codec":
                    return codec
                return raw * math.exp(self.random.gauss(0, 0.3))

            return factor

        old = self.runs("old", 8, factor=noisy_raw(1))
        rows = self.rows(old, self.runs("new", 8, factor=noisy_raw(1.25)), status=1)
        for name, row in rows.items():
            if row["subject"] == "codec":
                self.assertEqual(row["verdict"], "REGRESSION", name)
                self.assertLess(row["rate"]["p"], 0.01)

    def test_the_raw_path_explains_what_it_shares(self) -> None:
        """The ratio shows nothing, and the codec's rate is lower by a factor of e^3."""
        for raw, verdict in (
            (-2.0, "REGRESSION"),
            (0.0, "REGRESSION"),
            (1.0, "REGRESSION"),
            (2.0, "undecided"),
        ):
            old, new = self.document(), self.document()
            for document, codec, path in ((old, 0.0, 0.0), (new, 3.0, raw)):
                for result in document["results"]:
                    for i, sample in enumerate(result["samples"]):
                        # The first sample widens the interval of the ratio, not those of the rates.
                        log = codec if result["subject"] == "codec" else path
                        if i == 0 and document is old:
                            log += 2.5 if result["subject"] == "codec" else -3
                        sample["elapsed_ns"] = int(1e8 * math.exp(log))
                        if sample["sync_ns"] is not None:
                            sample["sync_ns"] = 0
            for name, row in self.rows_of_two(old, new, status=1).items():
                if row["subject"] == "codec":
                    self.assertEqual(row["verdict"], verdict, (name, raw))
                    self.assertIsNone(row["reference"])

    def test_one_process_with_noise_of_the_raw_path(self) -> None:
        old, new = self.document(), self.document()
        for document, slower in ((old, 1), (new, 10)):
            for result in document["results"]:
                for i, sample in enumerate(result["samples"]):
                    if result["subject"] == "raw":
                        sample["elapsed_ns"] *= (1, 30)[i % 2]
                    else:
                        sample["elapsed_ns"] *= slower
        rows = self.rows_of_two(old, new, status=1)
        verdicts = {
            row["verdict"] for row in rows.values() if row["subject"] == "codec"
        }
        self.assertEqual(verdicts, {"REGRESSION"})

    def rows_of_two(
        self, old: Document, new: Document, *options: str, status: int = 0
    ) -> dict[str, Document]:
        return self.rows(
            [self.save("old", old)], [self.save("new", new)], *options, status=status
        )

    def test_too_few_samples_do_not_pass(self) -> None:
        old, new = self.document(), self.document(slower_codec)
        for document in (old, new):
            for result in document["results"]:
                result["samples"] = result["samples"][:5]
        self.save("old", old)
        self.save("new", new)
        text = self.compare("old", "new", status=2)
        self.assertIn("6 of 9 rows cannot show a regression: one process", text)
        self.assertIn("needs 6 samples", text)
        self.compare("old", "new", "--force")
        # One row that cannot fail is enough, and a regression elsewhere is told first.
        new = self.document()
        self.assertEqual(new["results"][0]["subject"], "codec")
        new["results"][0]["samples"] = new["results"][0]["samples"][:5]
        self.save("old", self.document())
        self.save("new", new)
        self.assertIn("1 of 9 rows", self.compare("old", "new", status=2))
        for sample in new["results"][-1]["samples"]:
            sample["elapsed_ns"] *= 20
        for result in new["results"][1:]:
            if result["subject"] == "codec":
                for sample in result["samples"]:
                    sample["elapsed_ns"] *= 20
        self.save("new", new)
        self.compare("old", "new", status=1)

    def test_a_raw_path_is_of_the_same_group(self) -> None:
        document = self.document()
        twins = copy.deepcopy(document["results"])
        for twin in twins:
            twin["id"] += " for steps"
            twin["group"] = "steps"
        imitations = copy.deepcopy(document["results"])
        for result in imitations:
            result["detail"] = "as-fio"
            result["id"] = result["id"].replace(
                "raw write mixed", "raw write mixed as-fio"
            )
            result["id"] = result["id"].replace(
                "raw read mixed", "raw read mixed as-fio"
            )
        document["results"] += twins
        document["results"] += [r for r in imitations if " as-fio " in r["id"]]
        for name, row in self.rows_of_two(document, document).items():
            if row["subject"] != "codec":
                continue
            self.assertNotIn(" as-fio ", row["reference"])
            self.assertEqual(" for steps" in name, " for steps" in row["reference"])

    def test_samples_of_checks_and_long_runs_share_no_rounds(self) -> None:
        old = self.document(within=0.2)
        ratios = []
        for members in ({}, {"checks": [{}]}, {"duration_s": 60}):
            document = copy.deepcopy(old) | members
            for result in document["results"]:
                if result["subject"] == "raw":
                    result["samples"] = result["samples"][::-1]
                    for i, sample in enumerate(result["samples"]):
                        sample["round"] = i
            rows = self.rows_of_two(copy.deepcopy(old) | members, document)
            ratios.append(
                [r["judged"]["ratio"] for r in rows.values() if r["reference"]]
            )
        self.assertTrue(any(abs(ratio - 1) > 1e-6 for ratio in ratios[0]))
        for ratio in ratios[1] + ratios[2]:
            self.assertAlmostEqual(ratio, 1)

    def test_rates_are_finite_and_positive(self) -> None:
        old = self.save("old", self.document())
        for member, value in (("bytes", 0), ("bytes", -1), ("bytes", 1e308)):
            document = self.document()
            document["results"][0][member] = value
            text = self.compare(old, self.save("new", document), status=3)
            self.assertIn("no finite positive rate", text)
        for member, value, complaint in (
            ("elapsed_ns", 0, "no finite positive rate"),
            ("elapsed_ns", -5, "no finite positive rate"),
            ("elapsed_ns", 1e-300, "no finite positive rate"),
            ("sync_ns", -1, "negative sync_ns"),
        ):
            document = self.document()
            document["results"][0]["samples"][0][member] = value
            text = self.compare(old, self.save("new", document), status=3)
            self.assertIn(complaint, text)
            self.assertIn("new: a sample of 'codec", text)

    def test_floors_are_possible(self) -> None:
        runs = self.runs("calibrate", 8)
        self.compare(
            *(word for run in runs for word in ("--old", run)),
            "--calibrate",
            "genuine.json",
        )
        genuine = json.loads((self.directory / "genuine.json").read_text())
        for processes in (1, -2, 2.5, 1e30, 2**63, "3", None):
            self.save("floor", {**genuine, "processes": processes})
            text = self.compare(*runs[:2], "--floor", "floor", status=3)
            self.assertIn("floor: processes is no integer", text)
        for kind in ("rate_spread", "ratio_spread"):
            for spread in (-0.1, 10, 1e300):
                floor = copy.deepcopy(genuine)
                floor["rows"][0][kind] = spread
                self.save("floor", floor)
                text = self.compare(*runs[:2], "--floor", "floor", status=3)
                self.assertIn("the spread of 'codec", text)
        self.compare(*runs[:2], "--floor", "genuine.json")

    def test_a_floor_of_few_processes_passes_nothing(self) -> None:
        runs = self.runs("calibrate", 12)
        olds = [word for run in runs for word in ("--old", run)]
        self.compare(*olds, "--calibrate", "floor.json")
        floor = json.loads((self.directory / "floor.json").read_text())
        floor["processes"] = 2
        for row in floor["rows"]:
            row["rate_spread"] = 0.03
        self.save("floor.json", floor)
        old = self.save("old", self.document())
        new = self.save("new", self.document(lambda _: 10))
        arguments = (old, new, "--floor", "floor.json", "--by-rate")
        text = self.compare(*arguments, status=2)
        self.assertIn("the floor is of 2 processes", text)
        self.compare(*arguments, "--force")

    def test_deep_documents_are_refused(self) -> None:
        old = self.save("old", self.document())
        for deep in (
            "[" * 200_000 + "]" * 200_000,
            '{"a":' * 9_000 + "1" + "}" * 9_000,
        ):
            text = json.dumps({**self.document(), "machine": {"x": "DEEP"}})
            (self.directory / "deep").write_text(text.replace('"DEEP"', deep))
            said = self.compare(old, "deep", status=3)
            self.assertIn("deep: nests values more than 64 levels deep", said)
            self.save("floor", {"kind": "floor", "facts": {"x": "DEEP"}})
            text = (self.directory / "floor").read_text().replace('"DEEP"', deep)
            (self.directory / "floor").write_text(text)
            said = self.compare(old, old, "--floor", "floor", status=3)
            self.assertIn("floor: nests values", said)

    def test_what_a_nul_byte_would_hide_is_refused(self) -> None:
        old = self.save("old", self.document())
        text = json.dumps(self.document())
        (self.directory / "nul").write_text(f"{text}\0 and more")
        said = self.compare(old, "nul", status=3)
        self.assertIn("nul: has a NUL byte", said)

    def test_outputs_replace_no_input(self) -> None:
        runs = self.runs("run", 3)
        olds = [word for run in runs for word in ("--old", run)]
        self.compare(*olds, "--calibrate", "floor")
        (self.directory / "link").symlink_to(runs[1])
        (self.directory / "hard").hardlink_to(self.directory / runs[1])
        before = {p.name: p.read_bytes() for p in self.directory.iterdir()}
        floor = ("--floor", "floor")
        for words in (
            *(
                (*runs[:2], option, output)
                for option in ("--json", "--markdown")
                for output in (runs[0], f"./{runs[1]}", "link", "hard")
            ),
            (*runs[:2], *floor, "--json", "floor"),
            (*runs[:2], *floor, "--markdown", "floor"),
            (*runs[:2], "--json", "out", "--markdown", "./out"),
            (*olds, "--calibrate", runs[2]),
            (*olds, "--calibrate", "new", "--json", "out"),
            (*olds, "--calibrate", "new", "--markdown", "out"),
        ):
            text = self.compare(*words, status=2)
            self.assertRegex(text, "would replace|--calibrate")
        self.assertEqual(
            before, {p.name: p.read_bytes() for p in self.directory.iterdir()}
        )

    def test_many_results_take_linear_time(self) -> None:
        document = self.document()
        pair = [
            result
            for result in document["results"]
            if result["op"] == "read" and result["verification"] == "none"
        ]
        self.assertEqual({result["subject"] for result in pair}, {"codec", "raw"})
        seconds = []
        for count in (400, 1600):
            document["results"] = [
                {**one, "id": f"{one['id']} #{i}", "block_bytes": 4096 * (i + 1)}
                for i in range(count)
                for one in pair
            ]
            self.save("many", document)
            before = os.times().children_user
            self.compare("many", "many")
            seconds.append(os.times().children_user - before)
        # Quadratic time would be 16 times as much.
        self.assertLess(seconds[1], 9 * seconds[0])

    def test_says_what_too_few_runs_cannot_show(self) -> None:
        old, new = self.runs("old", 4), self.runs("new", 4, factor=slower_codec)
        text = self.compare_runs(old, new, status=2)
        self.assertIn("no result of 4 processes on a side can be significant", text)
        self.assertIn("too few runs", text)
        self.assertIn(
            "6 of 9 rows cannot show a regression: run at least 7 processes", text
        )
        self.compare_runs(old, new, "--force")
        old, new = self.runs("old", 7), self.runs("new", 7, factor=slower_codec)
        self.compare_runs(old, new, status=1)
        old, new = self.runs("old", 8, between=0.05), self.runs("new", 8, between=0.05)
        text = self.compare_runs(old, new)
        self.assertRegex(
            text, r"a slow-down of 5 % can go unnoticed in .*run \d+ processes"
        )

    def test_one_process_on_a_side_has_no_p_value(self) -> None:
        old = self.save("old", self.document())
        for time, status, verdict in (
            (1.0, 0, "no difference found"),
            (1.15, 0, "no difference found"),
            (1.6, 1, "REGRESSION"),
            (0.6, 0, "faster"),
        ):
            new = self.save(
                "new",
                self.document(lambda r: time if r["subject"] == "codec" else 1),
            )
            text = self.compare(old, new, "--json", "out.json", status=status)
            self.assertIn("one process on a side", text)
            document = json.loads((self.directory / "out.json").read_text())
            jsonschema.validate(document, SCHEMA)
            for row in document["rows"]:
                self.assertIsNone(row["judged"]["p"])
                self.assertEqual(row["judged"]["floor"], 0.3)
                if row["subject"] == "codec":
                    self.assertEqual(row["verdict"], verdict, row["id"])
        # Today's spelling.
        self.compare(old, old, "--threshold", "0.1", "--alpha", "0.05")

    def test_a_calibrated_floor(self) -> None:
        runs = self.runs("calibrate", 12)
        olds = [word for run in runs for word in ("--old", run)]
        self.compare(*olds, "--calibrate", "floor.json")
        floor = json.loads((self.directory / "floor.json").read_text())
        jsonschema.validate(floor, FLOOR_SCHEMA)
        self.assertEqual(floor["processes"], 12)
        for row in floor["rows"]:
            self.assertTrue(0.004 < row["rate_spread"] < 0.025, row)
            self.assertEqual(
                row["ratio_spread"] is None, row["id"].startswith("raw"), row
            )
        old = self.save("old", self.document())
        new = self.save("new", self.document(lambda r: 1.2 * slower_codec(r)))
        self.compare(old, new)
        text = self.compare(old, new, "--floor", "floor.json", "--by-rate", status=1)
        self.assertIn("REGRESSION", text)
        # A floor is of one machine.
        floor["facts"]["machine.kernel"] = "another"
        self.save("floor.json", floor)
        text = self.compare(old, new, "--floor", "floor.json", status=2)
        self.assertIn("machine.kernel", text)
        self.save("floor.json", {"kind": "floor"})
        self.compare(old, new, "--floor", "floor.json", status=3)
        self.compare("--old", old, "--calibrate", "floor.json", status=2)

    def test_a_missing_result_fails(self) -> None:
        old, new = self.document(), self.document()
        for result in new["results"]:
            if result["subject"] == "codec" and result["op"] == "read":
                result["samples"] = []
                result["notes"].append("not measured: no space")
        self.save("old", old)
        self.save("new", new)
        for sides in (("old", "new"), ("new", "old")):
            text = self.compare(*sides, status=1)
            self.assertEqual(text.count("missing in new: codec read"), 2, text)
            self.assertIn("no space", text)
            self.compare(*sides, "--allow-missing")
        # Also if one of several processes lacks it.
        runs = self.runs("run", 8)
        self.compare_runs(runs, [*self.runs("other", 8), "new"], status=1)
        self.compare_runs(runs, [*self.runs("other", 8), "new"], "--allow-missing")
        new["results"] = []
        self.save("new", new)
        self.compare("old", "new", status=1)
        self.compare("old", "new", "--allow-missing", status=2)

    def test_a_changed_default_is_not_passed_over(self) -> None:
        old, new = self.document(), self.document()
        for result in new["results"]:
            result["queue_depth"] = 32
            result["id"] += " d32"
        self.save("old", old)
        self.save("new", new)
        text = self.compare("old", "new", status=1)
        self.assertEqual(text.count("missing in"), 2 * 9, text)

    def test_runs_that_differ_are_refused(self) -> None:
        def data(document: Document) -> None:
            for result in document["results"]:
                result["bytes"] *= 16
            document["workloads"][0]["data_bytes"] *= 16

        def pages(document: Document) -> None:
            document["machine"]["transparent_huge_pages"]["enabled"] = "never"

        def kernel(document: Document) -> None:
            document["machine"]["kernel"] = "7.0"

        def option(document: Document) -> None:
            document["command"] += ["--threads", "4"]

        def unknown(document: Document) -> None:
            document["machine"]["fact of another version"] = "known"

        def core(document: Document) -> None:
            document["tool"]["measuring_core"] = 999

        def tensors(document: Document) -> None:
            document["results"][0]["tensors"] += 1

        old = self.save("old", self.document())
        for change, fact in (
            (data, "workload mixed data_bytes"),
            (pages, "machine.transparent_huge_pages.enabled"),
            (kernel, "machine.kernel"),
            (option, "command --threads"),
            (unknown, "machine.fact of another version: unknown"),
            (core, "measuring core"),
            (tensors, ": tensors"),
        ):
            changed = self.document()
            change(changed)
            new = self.save("new", changed)
            for sides in ((old, new), ("--old", old, "--old", new, "--new", old)):
                text = self.compare(*sides, status=2)
                self.assertIn(fact, text)
                self.assertIn("not comparable", text)
            text = self.compare(old, new, "--force")
            self.assertIn(fact, text)
        # What does not change the measurement.
        changed = self.document()
        changed["command"] += ["--rounds", "99", "--json=other.json", "--seed", "3"]
        changed["machine"]["storage"]["free_bytes"] = 1
        changed["machine"]["storage"]["directory"] = "elsewhere"
        self.compare(old, self.save("new", changed))

    def test_a_busy_machine_is_told(self) -> None:
        busy = self.document()
        busy["machine"]["load_average"] = [40, 20, 10]
        old, new = self.save("old", self.document()), self.save("new", busy)
        text = self.compare(old, new, status=2)
        self.assertIn("busy at the start of new: load 40.0", text)
        self.assertIn("an idle machine or --floor", text)
        self.assertNotIn("busy at", self.compare(old, old))
        # What one process shows on a busy machine says nothing about the build.
        slow = self.document(lambda r: 1.6 if r["subject"] == "codec" else 1)
        self.compare(old, self.save("slow", slow), status=1)
        slow["machine"]["load_average"] = [40, 20, 10]
        self.compare(old, self.save("slow", slow), status=2)
        self.compare(old, self.save("slow", slow), "--force")

    def test_ids_are_unique(self) -> None:
        merged = self.document()
        merged["results"][1]["id"] = merged["results"][0]["id"]
        old, new = self.save("old", self.document()), self.save("new", merged)
        self.assertIn("two results have the id", self.compare(old, new, status=3))
        merged = self.document()
        merged["results"][0]["samples"][1]["round"] = 0
        new = self.save("new", merged)
        self.assertIn("two samples of round 0", self.compare(old, new, status=3))

    def test_a_run_counts_once(self) -> None:
        one, two = self.save("one", self.document()), self.save("two", self.document())
        text = self.compare_runs([one, one], [two], status=2)
        self.assertIn("they are one run", text)

    def test_paired_runs_cancel_drift(self) -> None:
        old, new = [], []
        for i in range(16):
            drift = 1 + 0.05 * i
            old.append(self.save(f"o{i}", self.document(lambda r: drift, 0.005)))
            new.append(
                self.save(
                    f"n{i}",
                    self.document(lambda r: drift * (1 + slower_codec(r)) / 2, 0.005),
                )
            )
        self.compare_runs(old, new, "--by-rate")
        rows = self.rows(old, new, "--by-rate", "--paired", status=1)
        slower = {n.split()[0] for n, r in rows.items() if r["verdict"] == "REGRESSION"}
        self.assertEqual(slower, {"codec"})
        text = self.compare_runs(old[:15], new, "--paired", status=2)
        self.assertIn("equal numbers of runs", text)

    def test_writes_markdown(self) -> None:
        old, new = self.runs("old", 10), self.runs("new", 10, factor=slower_codec)
        self.compare_runs(old, new, "--markdown", "out.md", status=1)
        text = (self.directory / "out.md").read_text()
        self.assertIn("### tzmark compare: regression\n", text)
        before, details = text.split("<details>")
        self.assertEqual(before.count("REGRESSION |"), 6)
        self.assertEqual(details.count("no difference found |"), 3)

    def test_names_cannot_break_markdown(self) -> None:
        old, new = self.runs("old", 10), self.runs("new", 10, factor=slower_codec)
        for name in (*old, *new):
            path = self.directory / name
            document = json.loads(path.read_text())
            document["results"][0]["id"] += "`\n\n# all is well\n|a\x1b[2J"
            path.write_text(json.dumps(document))
        self.compare_runs(old, new, "--markdown", "out.md", status=1)
        text = (self.directory / "out.md").read_text()
        self.assertIn("'  # all is well /a [2J`", text)
        rows = [line for line in text.splitlines() if "all is well" in line]
        self.assertEqual([row.count("|") for row in rows], [9])
        self.assertNotIn("\x1b", text)

    def test_waits_for_no_writer(self) -> None:
        fifo = self.directory / "fifo"
        os.mkfifo(fifo)
        command: list[str | Path] = [TZMARK, "compare", fifo, fifo]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(str(fifo), done.stderr)
        # What a process writes is read, as in "compare <(zcat old.json.gz) new.json".
        (name,) = self.runs("one", 1)
        path = self.directory / name
        read, write = os.pipe()
        with subprocess.Popen(["sh", "-c", f"sleep 0.2; cat {path}"], stdout=write):
            os.close(write)
            done = subprocess.run(
                [TZMARK, "compare", f"/dev/fd/{read}", path],
                pass_fds=[read],
                capture_output=True,
                text=True,
            )
        os.close(read)
        self.assertEqual(done.returncode, 0, done.stderr)

    def google(self, factor: float) -> Document:
        times = [1000 * factor * self.random.gauss(1, 0.01) for _ in range(5)]
        return {
            "context": {"host_name": "here", "num_cpus": 2, "load_avg": [0.1]},
            "benchmarks": [
                {
                    "name": "crc32/64",
                    "run_name": "crc32/64",
                    "run_type": "iteration",
                    "repetition_index": i,
                    "threads": 1,
                    "real_time": time,
                    "time_unit": "ns",
                }
                for i, time in enumerate(times)
            ]
            + [
                {
                    "name": "crc32/64_mean",
                    "run_name": "crc32/64",
                    "run_type": "aggregate",
                    "real_time": 5000.0,
                    "time_unit": "ns",
                }
            ],
        }

    def test_reads_google_benchmark(self) -> None:
        old = [self.save(f"o{i}", self.google(1)) for i in range(6)]
        new = [self.save(f"n{i}", self.google(1.2)) for i in range(6)]
        rows = self.rows(old, new, status=1)
        self.assertAlmostEqual(rows["crc32/64"]["judged"]["ratio"], 1 / 1.2, delta=0.02)
        self.assertAlmostEqual(rows["crc32/64"]["old"]["rate"] / 1e6, 1, delta=0.02)
        self.compare_runs(old, old)
        text = self.compare(old[0], self.save("own", self.document()), status=2)
        self.assertIn("document", text)
        twice = self.google(1)
        twice["benchmarks"] *= 2
        self.compare(old[0], self.save("twice", twice), status=3)
        failed = self.google(1)
        for entry in failed["benchmarks"]:
            entry.update(error_occurred=True, error_message="no device")
        text = self.compare(old[0], self.save("failed", failed), status=1)
        self.assertIn("no device", text)
        # A benchmark of which one repetition failed was not measured, however many did not.
        failed = self.google(1)
        failed["benchmarks"][2].update(error_occurred=True)
        text = self.compare(old[0], self.save("failed", failed), status=1)
        self.assertIn("it failed", text)
        text = self.compare(old[0], new[0], status=2)
        self.assertIn("1 of 1 rows cannot show a regression", text)

    def test_reads_the_google_format_of_tzmark(self) -> None:
        outputs = []
        for i in range(2):
            done = subprocess.run(
                [TZMARK, "bench", "--dir", ".", "--format", "google"]
                + ["--workload", "mixed", "--scale", "1MiB", "--rounds", "2"]
                + ["--io", "pwrite", "--op", "read"],
                cwd=self.directory,
                capture_output=True,
                text=True,
                check=True,
            )
            (self.directory / f"g{i}").write_text(done.stdout)
            outputs.append(f"g{i}")
        text = self.compare(*outputs, "--threshold", "0.9", "--force")
        self.assertIn("codec read mixed", text)

    def test_wrong_usage(self) -> None:
        one = self.save("one", self.document())
        for words in (
            (),
            (one,),
            (one, one, one),
            ("--old", one),
            ("--old", one, "--new", one, one),
            (one, one, "--threshold", "2"),
            (one, one, "--alpha", "0"),
            (one, one, "--alpha", "nan"),
            (one, one, "--threshold", "nan"),
            (one, one, "--threshold=-nan"),
            (one, one, "--calibrate", "x"),
            (one, one, "--floor", ""),
            (one, one, "--json", ""),
            (one, one, "--markdown", ""),
            ("", one),
            ("--old", "", "--new", one),
        ):
            self.compare(*words, status=2)
        self.save("empty", {})
        text = self.compare(one, "empty", status=3)
        self.assertIn("is not a result of tzmark bench", text)
        self.compare(one, "nowhere", status=3)
        for lists in ((f"{one},", one), (one, f",{one}")):
            text = self.compare("--runs", *lists, status=2)
            self.assertRegex(text, "a file name in '.*,.*' is empty")
        (self.directory / "directory").mkdir()
        for words in ((one, "directory"), (one, one, "--floor", "directory")):
            text = self.compare(*words, status=3)
            self.assertRegex(
                text, "TZE-ENV-002.*directory: is neither a regular file nor a pipe"
            )


if __name__ == "__main__":
    sys.exit(unittest.main())
