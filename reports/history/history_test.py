"""The history: planted steps are found and attributed, noise raises no alarm, files that cannot be used are named.

Needs apache-otava, which scripts/setup installs. Without it the test fails; with TZMARK_NO_PEERS=1 it is skipped.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
import unittest
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from math import exp
from pathlib import Path
from random import Random

import jsonschema

import find_changes
from common.outcomes import Json
from testing.page_elements import Elements
from testing import history_samples as samples
from testing import bench_samples
from testing.schema_strictness import open_members
from testing.report_test_case import ReportTestCase

REPORTS = Path(__file__).resolve().parents[1]
GUIDE = REPORTS.parent / "docs/history.md"
HISTORY = (sys.executable, "-B", REPORTS / "find_changes.py")
HOSTILE = "\"'><script src=//x>&{{ 7*7 }}</style></script>\x07\u2028"
SKIPPED = 77
SERIES = 200
# The default of --alpha.
ALPHA = 0.0001
# Smaller letters cannot be read on a telephone.
LETTERS_MIN = 11


def schema(name: str) -> Json:
    found: Json = json.loads((REPORTS / f"schema/{name}.schema.json").read_text())
    return found


def planted(seed: int = 1, **arguments: object) -> list[Json]:
    return samples.history(samples.base(), Random(seed), **arguments)  # type: ignore[arg-type]


def steady(count: int = 30, seed: int = 5) -> list[Json]:
    return planted(seed, results=count, planted=False)


def changed(
    documents: list[Json], start: int, subjects: str, factor: float
) -> list[Json]:
    """Returns the results with a step of these subjects."""
    made = copy.deepcopy(documents)
    for document in made[start:]:
        for result in document["results"]:
            if result["subject"] in subjects.split():
                samples.scale(result, factor)
        for ceiling in document["ceilings"]:
            if "ceiling" in subjects.split():
                ceiling["rate"]["median"] *= factor
    return made


def without_raw(documents: list[Json]) -> list[Json]:
    made = copy.deepcopy(documents)
    for document in made:
        results = document["results"]
        document["results"] = [one for one in results if one["subject"] != "raw"]
    return made


class HistoryTest(ReportTestCase):
    def run_history(
        self, *arguments: object, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run_command([*HISTORY, *arguments], **environment)

    def saved(self, documents: list[Json]) -> Path:
        directory = self.directory / f"history-{len(list(self.directory.iterdir()))}"
        samples.write(directory, documents)
        return directory

    def analysis(
        self, documents: list[Json] | Path, *arguments: object, status: int = 0
    ) -> Json:
        """Returns the JSON document of a run with this exit status."""
        where = documents if isinstance(documents, Path) else self.saved(documents)
        output = self.directory / "analysis"
        words = [str(where), "--json", str(output), *map(str, arguments)]
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            # In this process, as importing SciPy takes longer than the analysis.
            returned = find_changes.run(find_changes.arguments(words))
        self.assertEqual(returned, status)
        found: Json = json.loads(output.read_text())
        jsonschema.validate(found, schema("history"))
        return found


def changes(analysis: Json, subject: str) -> list[Json]:
    return [
        change
        for series in analysis["series"]
        if series["subject"] == subject
        for change in series["changes"]
    ]


class Planted(HistoryTest):
    def test_three_steps(self) -> None:
        """60 results: the codec's step is found, the machine's is attributed to it, the outlier is ignored."""
        for seed in range(1, 4):
            documents = planted(seed)
            for document in documents:
                jsonschema.validate(document, schema("bench"))
            analysis = self.analysis(documents)
            self.assertEqual(len(analysis["results"]), samples.RESULTS)
            of_code = changes(analysis, "codec")
            # Reads and writes, one change each: nothing at the machine's step or at the outlier.
            self.assertEqual(len(of_code), 2, of_code)
            for change in of_code:
                self.assertEqual(
                    (change["whose"], change["direction"]), ("code", "slower")
                )
                self.assertLessEqual(abs(change["after"] - samples.CODE_STEP), 1)
                self.assertEqual(change["before"], change["after"] - 1)
                self.assertAlmostEqual(
                    change["size"], samples.CODE_SIZE - 1, delta=0.01
                )
                self.assertLess(change["low"], change["size"])
                self.assertLess(change["size"], change["high"])
                self.assertLess(change["high"], 0)
            of_machine = changes(analysis, "raw")
            self.assertEqual(len(of_machine), 2, of_machine)
            for change in of_machine + changes(analysis, "ceiling"):
                self.assertEqual(change["whose"], "machine")
                self.assertLessEqual(abs(change["after"] - samples.MACHINE_STEP), 1)
                self.assertAlmostEqual(
                    change["size"], samples.MACHINE_SIZE - 1, delta=0.02
                )
            for series in analysis["series"]:
                if series["subject"] == "codec":
                    self.assertTrue(series["points"][samples.OUTLIER]["outlier"])

    def test_exit_status_is_of_recent_regressions(self) -> None:
        # The step is before the last 10 results, and within the last 45.
        self.assertEqual(self.analysis(planted())["regressions"], 0)
        found = self.analysis(planted(), "--last", 45, status=1)
        self.assertEqual(found["regressions"], 2)
        flagged = [change for change in changes(found, "codec") if change["regression"]]
        self.assertEqual(len(flagged), 2)
        self.assertFalse(any(change["regression"] for change in changes(found, "raw")))

    def test_a_fresh_regression_is_found(self) -> None:
        documents = changed(steady(40), 35, "codec", 0.93)
        analysis = self.analysis(documents, status=1)
        for change in changes(analysis, "codec"):
            self.assertLessEqual(abs(change["after"] - 35), 1)
            self.assertAlmostEqual(change["size"], -0.07, delta=0.02)

    def test_the_last_results_are_those_of_the_series(self) -> None:
        """Newer results of another scale on the same machine do not make a regression older."""
        documents = changed(steady(40), 35, "codec", 0.5)
        others = steady(50)[40:]
        for document in others:
            for result in document["results"]:
                result["bytes"] *= 16
        analysis = self.analysis(documents + others, status=1)
        self.assertEqual(len(analysis["environments"]), 1)
        self.assertEqual(analysis["regressions"], 2)

    def test_the_last_results_are_those_of_the_environment(self) -> None:
        """Newer results of another CPU do not make a regression older."""
        documents = changed(steady(40), 35, "codec", 0.5)
        for count in (10, 30):
            others = steady(40 + count, 6)[40:]
            for document in others:
                document["machine"]["cpu"]["model"] = "another CPU"
            analysis = self.analysis(documents + others, status=1)
            self.assertEqual(len(analysis["environments"]), 2)
            self.assertEqual(analysis["regressions"], 2)
        # Newer results of its own do.
        longer = changed(steady(50), 35, "codec", 0.5)
        self.analysis(longer)
        self.analysis(longer, "--last", 16, status=1)

    def test_a_regression_that_was_mended_does_not_fail(self) -> None:
        documents = changed(changed(steady(50), 30, "codec", 0.9), 41, "codec", 1 / 0.9)
        analysis = self.analysis(documents, "--last", 50)
        directions = [change["direction"] for change in changes(analysis, "codec")]
        self.assertEqual(directions, ["slower", "faster"] * 2)

    def test_a_regression_that_was_mended_in_part_fails(self) -> None:
        documents = changed(steady(50), 36, "codec", 0.6)
        documents = changed(documents, 43, "codec", 0.75 / 0.6)
        analysis = self.analysis(documents, "--last", 15, status=1)
        self.assertEqual(analysis["regressions"], 2)
        for change in changes(analysis, "codec"):
            self.assertEqual(change["regression"], change["direction"] == "slower")
        for series in analysis["series"]:
            noted = re.search(
                r"recovered in part: .* (-\d+)\.\d %", " ".join(series["notes"])
            )
            self.assertEqual(noted is not None, series["subject"] == "codec")
            if noted:
                self.assertAlmostEqual(int(noted[1]), -25, delta=2)
        # The level before the newest 10 results is the lowest.
        self.analysis(documents, "--last", 10)
        # 15 % slower in net is within a threshold of 20 %.
        mild = changed(documents, 43, "codec", 0.85 / 0.75)
        self.analysis(mild, "--last", 15, status=1)
        self.analysis(mild, "--last", 15, "--threshold", "0.2")

    def test_the_net_leaves_out_the_machine(self) -> None:
        """Only the raw path becomes 30 % slower later, which raises the ratio above where it was."""
        documents = changed(steady(60), 36, "codec", 0.6)
        documents = changed(documents, 43, "codec", 0.75 / 0.6)
        documents = changed(documents, 51, "raw", 0.7)
        analysis = self.analysis(documents, "--last", 25, status=1)
        whose = [change["whose"] for change in changes(analysis, "codec")]
        self.assertEqual(whose, ["code", "code", "machine"] * 2)
        self.assertEqual(analysis["regressions"], 2)

    def test_an_improvement_does_not_fail(self) -> None:
        analysis = self.analysis(changed(steady(), 24, "codec", 1.1))
        self.assertEqual(
            {change["direction"] for change in changes(analysis, "codec")}, {"faster"}
        )

    def test_a_small_change_is_below_the_threshold(self) -> None:
        documents = changed(steady(60), 30, "codec", 0.97)
        self.assertEqual(len(changes(self.analysis(documents), "codec")), 2)
        found = self.analysis(documents, "--threshold", "0.05")
        self.assertEqual(changes(found, "codec"), [])


class Attribution(HistoryTest):
    def test_the_raw_path_alone(self) -> None:
        """If only the raw path becomes faster, the ratio falls, but the codec is as fast as before."""
        analysis = self.analysis(changed(steady(40), 34, "raw", 1.1))
        found = changes(analysis, "codec")
        self.assertEqual(len(found), 2)
        for change in found:
            self.assertEqual(change["whose"], "machine")
            self.assertRegex(change["why"], "only the raw path")

    def test_without_a_raw_path_others_decide(self) -> None:
        documents = without_raw(steady(40))
        with_machine = changed(documents, 34, "codec ceiling", 0.88)
        for change in changes(self.analysis(with_machine), "codec"):
            self.assertEqual(change["whose"], "machine")
            self.assertRegex(change["why"], "ceiling memcpy")
        alone = self.analysis(changed(documents, 34, "codec", 0.88), status=1)
        self.assertEqual({each["whose"] for each in changes(alone, "codec")}, {"code"})
        # Nothing else was measured.
        for document in documents:
            document["ceilings"] = []
        blind = self.analysis(changed(documents, 34, "codec", 0.88))
        self.assertEqual(
            {each["whose"] for each in changes(blind, "codec")}, {"unknown"}
        )

    def test_fio_shows_a_change_of_the_io_layer(self) -> None:
        """Codec and raw path become slower alike; fio, which is another program, keeps its rate or does not."""
        documents = steady(40)
        for document in documents:
            raws = [one for one in document["results"] if one["subject"] == "raw"]
            for result in copy.deepcopy(raws):
                result["id"] = result["id"].replace("raw", "fio", 1)
                result["subject"] = "fio"
                document["results"].append(result)
        for subjects, whose, status in (
            ("codec raw", "code", 1),
            ("codec raw fio", "machine", 0),
        ):
            analysis = self.analysis(
                changed(documents, 34, subjects, 0.8), status=status
            )
            found = changes(analysis, "raw")
            self.assertEqual([one["whose"] for one in found], [whose] * 2, found)
            self.assertEqual(changes(analysis, "codec"), [])
        # With fio alone, it is the machine's.
        analysis = self.analysis(changed(documents, 34, "fio", 0.8))
        self.assertEqual(
            [one["whose"] for one in changes(analysis, "fio")], ["machine"] * 2
        )
        # A gain that fio does not have is the code's as well.
        analysis = self.analysis(changed(documents, 34, "codec raw", 1.3))
        self.assertEqual(
            [one["whose"] for one in changes(analysis, "raw")], ["code"] * 2
        )
        # fio with too much noise shows nothing.
        noisy = copy.deepcopy(changed(documents, 34, "codec raw", 0.8))
        for at, document in enumerate(noisy):
            for result in document["results"]:
                if result["subject"] == "fio":
                    samples.scale(result, (0.5, 2)[at % 2])
        analysis = self.analysis(noisy)
        self.assertEqual(
            {one["whose"] for one in changes(analysis, "raw")}, {"unknown"}
        )

    def test_neighbours_are_results_of_the_same_environment(self) -> None:
        """The codec's step is two results after the machine's, with results of another CPU between them."""
        documents = changed(without_raw(steady(40)), 34, "ceiling", 0.8)
        documents = changed(documents, 36, "codec", 0.8)
        others = without_raw(steady(40, 6))
        for document in others:
            document["machine"]["cpu"]["model"] = "another CPU"
            document["started_at"] = document["started_at"][:11] + "23:00:00Z"
        for history_of in (documents, documents + others):
            analysis = self.analysis(history_of)
            (environment,) = {
                series["environment"]
                for series in analysis["series"]
                if series["changes"]
            }
            found = changes(analysis, "codec")
            self.assertEqual(len(found), 2, environment)
            self.assertEqual({change["whose"] for change in found}, {"machine"})

    def test_most_results_decide_whether_the_ratio_is_used(self) -> None:
        documents = steady(20)
        for count, reference, points in ((1, True, 19), (19, False, 20)):
            made = without_raw(documents[:count]) + documents[count:]
            for series in self.analysis(made)["series"]:
                if series["subject"] == "codec":
                    self.assertEqual(series["reference"] is not None, reference)
                    self.assertEqual(len(series["points"]), points)
                    noted = "without a raw path left out: 1" in " ".join(
                        series["notes"]
                    )
                    self.assertEqual(noted, reference)

    def test_hash_kernels_are_code(self) -> None:
        documents = steady(40)
        for document in documents[34:]:
            for ceiling in document["ceilings"]:
                if ceiling["rung"] == "crc32":
                    ceiling["rate"]["median"] *= 0.85
        found = changes(self.analysis(documents, status=1), "ceiling")
        self.assertEqual({change["whose"] for change in found}, {"code"})

    def test_parameters_select_the_raw_path(self) -> None:
        documents = steady(20)
        for document in documents:
            for result in document["results"]:
                if result["subject"] == "raw" and result["op"] == "read":
                    result["queue_depth"] = 16
        self.assertEqual(
            self.references(documents),
            {
                "codec read gpt2 pwrite": None,
                "codec write gpt2 pwrite": "raw write gpt2 pwrite",
            },
        )

    def test_only_the_raw_path_of_the_same_group_counts(self) -> None:
        """As in results of checks, each of which has a group."""
        documents = steady(20)
        for document in documents:
            once = document["results"]
            document["results"] = []
            for group in ("paths", "steps"):
                for result in copy.deepcopy(once):
                    result["id"] += f" for {group}"
                    result["group"] = group
                    document["results"].append(result)
            document["results"] = [
                result
                for result in document["results"]
                if result["id"] != "raw write gpt2 pwrite for steps"
            ]
        references = self.references(documents)
        self.assertEqual(
            references,
            {
                "codec read gpt2 pwrite for paths": "raw read gpt2 pwrite for paths",
                "codec write gpt2 pwrite for paths": "raw write gpt2 pwrite for paths",
                "codec read gpt2 pwrite for steps": "raw read gpt2 pwrite for steps",
                "codec write gpt2 pwrite for steps": None,
            },
        )

    def test_raw_as_fio_is_no_reference(self) -> None:
        documents = steady(20)
        for document in documents:
            added = copy.deepcopy(document["results"])
            for result in added:
                result["id"] = result["id"].replace("gpt2", "gpt2 as-fio")
                result["detail"] = "as-fio"
                samples.scale(result, 3)
            raw = [one for one in added if one["subject"] == "raw"]
            document["results"] += raw
        self.assertEqual(
            self.references(documents),
            {
                "codec read gpt2 pwrite": "raw read gpt2 pwrite",
                "codec write gpt2 pwrite": "raw write gpt2 pwrite",
            },
        )
        for document in documents:
            document["results"] = [
                one
                for one in document["results"]
                if one["subject"] == "codec" or one["detail"] == "as-fio"
            ]
        self.assertEqual(set(self.references(documents).values()), {None})

    def references(self, documents: list[Json]) -> dict[str, str | None]:
        return {
            series["id"]: series["reference"]
            for series in self.analysis(documents)["series"]
            if series["subject"] == "codec"
        }


class FalseAlarms(HistoryTest):
    """The figures of the guide, which has one row per kind of noise."""

    def counted(self, made: Callable[[Random], list[float]]) -> list[int]:
        """Returns the number of series with an alarm, analysed alone and as one of 30."""
        from history import changes as history_changes

        random = Random(19)
        alarms = [0, 0]
        for _ in range(SERIES):
            clipped, _ = history_changes.clip(made(random))
            for column, p_max in enumerate((ALPHA, ALPHA / 30)):
                found = history_changes.change_points(clipped, p_max, 0.02)
                alarms[column] += bool(found)
        return alarms

    def test_as_in_the_guide(self) -> None:
        def noise(
            random: Random, sigma: float, outliers: float, heavy: bool = False
        ) -> list[float]:
            values = []
            for _ in range(60):
                shock = random.gauss(0, sigma)
                if heavy:
                    # Student's t with three degrees of freedom.
                    shock /= random.gammavariate(1.5, 1 / 1.5) ** 0.5
                if random.random() < outliers:
                    shock -= random.uniform(0.1, 0.2)
                values.append(exp(shock))
            return values

        kinds: dict[str, Callable[[Random], list[float]]] = {
            "1 %, normal": lambda random: noise(random, 0.01, 0),
            "2 %, normal": lambda random: noise(random, 0.02, 0),
            "1.5 %, heavy tails": lambda random: noise(random, 0.015, 0, True),
            "1.5 %, 5 % outliers of 10 to 20 %": lambda random: noise(
                random, 0.015, 0.05
            ),
        }
        rows = dict(
            re.findall(r"^\| (.+?) \| (\d+ \| \d+) \|$", GUIDE.read_text(), re.M)
        )
        for kind, made in kinds.items():
            alone, among = self.counted(made)
            self.assertEqual(rows.get(kind), f"{alone} | {among}", kind)
            # Whatever the guide says: at most what is bearable.
            self.assertLessEqual(alone, SERIES // 10, kind)
            self.assertLessEqual(among, SERIES // 50, kind)

    def test_pages_without_steps(self) -> None:
        """Whole histories: 8 series each."""
        alarms = sum(
            bool(series["changes"])
            for seed in range(10)
            for series in self.analysis(steady(40, seed))["series"]
        )
        self.assertEqual(alarms, 0)

    def test_steps_are_found_nevertheless(self) -> None:
        """5 % at 1 % noise, six results after it, as one of 30 series."""
        from history import changes as history_changes

        random, found = Random(7), 0
        for _ in range(100):
            values = [exp(random.gauss(0, 0.01)) for _ in range(60)]
            values[54:] = [0.95 * value for value in values[54:]]
            clipped, _ = history_changes.clip(values)
            points = history_changes.change_points(clipped, ALPHA / 30, 0.02)
            found += bool(points) and abs(points[-1] - 54) <= 1
        self.assertGreaterEqual(found, 95)

    def test_intervals_cover(self) -> None:
        from history import changes as history_changes

        random, covered = Random(8), 0
        for _ in range(400):
            sides = [
                [factor * exp(random.gauss(0, 0.015)) for _ in range(count)]
                for factor, count in ((1.0, 30), (0.95, 6))
            ]
            effect = history_changes.effect(*sides)
            covered += effect.low <= -0.05 <= effect.high
        self.assertTrue(370 <= covered <= 390, covered)

    def test_a_few_results_and_no_noise(self) -> None:
        from history import changes as history_changes

        self.assertEqual(history_changes.clip([]), ([], []))
        self.assertEqual(history_changes.clip([2.0]), ([2.0], []))
        self.assertEqual(history_changes.clip([1.0] * 9), ([1.0] * 9, []))
        self.assertEqual(history_changes.clip([1.0] * 8 + [5.0]), ([1.0] * 9, [8]))
        self.assertEqual(history_changes.change_points([1.0] * 20, 0.001, 0.02), [])
        step = [1.0] * 10 + [0.9] * 10
        self.assertEqual(history_changes.change_points(step, 0.001, 0.02), [10])


class Separation(HistoryTest):
    def test_another_kernel_is_another_series(self) -> None:
        documents = changed(steady(40), 20, "codec raw ceiling", 0.8)
        for document in documents[20:]:
            document["machine"]["kernel"] = "7.0.1"
        directory = self.saved(documents)
        analysis = self.analysis(directory)
        self.assertEqual(
            [each["results"] for each in analysis["environments"]], [20, 20]
        )
        self.assertEqual(analysis["environments"][1]["differs_in"], ["kernel"])
        self.assertEqual(len(analysis["series"]), 16)
        self.assertEqual(sum(len(each["changes"]) for each in analysis["series"]), 0)
        output = self.run_history(directory).stdout
        self.assertIn(
            "environment B, 20 results: separate series, as these facts differ: kernel;",
            output,
        )

    def test_what_separates(self) -> None:
        for path, value in (
            ("machine cpu model", "Another CPU"),
            ("machine memory_bytes", 32 << 30),
            ("machine storage device_model", "Another disk"),
            ("machine gpu", {"name": "H100", "driver": "570"}),
            ("tool measuring_core", 7),
        ):
            documents = steady(16)
            *parents, name = path.split()
            for document in documents[8:]:
                place = document
                for parent in parents:
                    place = place[parent]
                place[name] = value
            self.assertEqual(len(self.analysis(documents)["environments"]), 2, path)

    def test_what_does_not_separate(self) -> None:
        documents = steady(16)
        for number, document in enumerate(documents):
            document["machine"]["load_average"] = [number, 0, 0]
            document["machine"]["storage"]["free_bytes"] += number << 20
            document["machine"]["memory_bytes"] += number << 12
        self.assertEqual(len(self.analysis(documents)["environments"]), 1)

    def test_another_scale_is_another_series(self) -> None:
        documents = changed(steady(24), 12, "codec", 0.8)
        for document in documents[12:]:
            for result in document["results"]:
                if result["subject"] == "codec":
                    result["bytes"] //= 2
        analysis = self.analysis(documents)
        found = [each for each in analysis["series"] if each["subject"] == "codec"]
        self.assertEqual([len(each["points"]) for each in found], [12] * 4)
        self.assertEqual(changes(analysis, "codec"), [])
        for series in found:
            self.assertRegex(" ".join(series["notes"]), "several series of this id")

    def test_missing_results_are_told(self) -> None:
        documents = steady(20)
        for document in documents[15:]:
            document["results"] = [
                result for result in document["results"] if result["op"] == "read"
            ]
        directory = self.saved(documents)
        output = self.run_history(directory).stdout
        self.assertIn(
            "note: codec write gpt2 pwrite: durable rate over raw path: not in the newest",
            output,
        )

    def test_few_results_are_told(self) -> None:
        directory = self.saved(steady(7))
        done = self.run_history(directory)
        self.assertEqual(done.returncode, 0)
        self.assertIn("not analysed: 7 of at least 8 results", done.stdout)
        self.assertIn("\nno change points\n", done.stdout)


class Table(HistoryTest):
    def test_rows_of_the_machine_are_counted(self) -> None:
        lines = self.run_history(self.saved(planted())).stdout.splitlines()
        self.assertEqual(sum("the machine's" in line for line in lines), 4)
        self.assertRegex(lines[-1], "^3 more of the machine's after ")
        self.assertEqual(sum("the code's" in line for line in lines), 2)


class Files(HistoryTest):
    def test_the_start_time_orders(self) -> None:
        """Neither names nor modification times do."""
        directory = self.saved(planted())
        for number, path in enumerate(sorted(directory.iterdir())):
            os.utime(path, (number, number))
        times = [each["started_at"] for each in self.analysis(directory)["results"]]
        self.assertEqual(times, sorted(times))
        self.assertEqual(len(set(times)), samples.RESULTS)

    def test_each_unusable_file_has_one_line(self) -> None:
        documents = planted()
        directory = self.saved(documents)
        newer = {**documents[0], "schema_version": 99}
        incomplete = {**documents[1], "elapsed_ns": 1, "machine": {}}
        negative = copy.deepcopy({**documents[2], "elapsed_ns": 2})
        negative["results"][0]["rate"]["median"] = float("nan")
        twice = copy.deepcopy({**documents[3], "elapsed_ns": 3})
        twice["results"].append(twice["results"][0])
        errors = {
            "newer.json": json.dumps(newer),
            "incomplete.json": json.dumps(incomplete),
            "nan.json": json.dumps(negative),
            "twice.json": json.dumps(twice),
            "cut.json": json.dumps(documents[4])[:5000],
            "deep.json": "[" * 100_000,
            "empty.json": "",
        }
        fine = {
            "copy.json": json.dumps(documents[5]),
            "other.json": json.dumps({"kind": "checkpoint-bench"}),
            "list.json": "[]",
        }
        for name, text in fine.items():
            (directory / name).write_text(text)
        (directory / "directory.json").mkdir()
        os.mkfifo(directory / "fifo.json")
        (directory / "notes.txt").write_text("not read")
        done = self.run_history(directory)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), len(fine) + 2)
        for name, text in errors.items():
            (directory / name).write_text(text)
        (directory / "latin.json").write_bytes(b'"\xff"')
        done = self.run_history(directory)
        self.assertEqual(done.returncode, 3, done.stderr)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), len(fine) + 2 + len(errors) + 1)
        for name in (*errors, *fine, "latin.json", "directory.json", "fifo.json"):
            found = [line for line in lines if line.startswith(f"tzmark: {name}: ")]
            self.assertEqual(len(found), 1, name)
        self.assertIn("schema version 99; this tzmark reads version", done.stderr)
        self.assertRegex(done.stderr, r"copy\.json: the same run as \w+\.json")
        # All others are analysed, and a regression has precedence.
        self.assertIn("the code's", done.stdout)
        self.assertEqual(self.run_history(directory, "--last", 45).returncode, 1)

    def test_any_value_may_be_unexpected(self) -> None:
        """A damaged file has one line and the others are analysed, whatever it has in place of which value."""
        directory = self.saved(steady(12))
        whole = json.loads((directory / "00000000.json").read_text())
        huge, nan = 10**400, float("nan")
        odd = (huge, -huge, nan, -1, 0, None, True, "x", "\ud800", [], [[]], {}, 1e308)
        places = (
            "started_at",
            "elapsed_ns",
            "tool commit",
            "tool measuring_core",
            "machine memory_bytes",
            "machine kernel",
            "machine cpu model",
            "machine gpu",
            "machine transparent_huge_pages enabled",
            "machine storage device_model",
            "results 0",
            "results 0 id",
            "results 0 subject",
            "results 0 rate",
            "results 0 rate median",
            "results 1 durable_rate",
            "results 1 durable_rate median",
            "results 2 rate median",
            "results 0 bytes",
            "results 0 peer",
            "results 0 io actual",
            "results 2 queue_depth",
            "results 0 samples",
            "ceilings 0 rung",
            "ceilings 0 rate median",
            "ceilings 0 threads",
        )
        written = 0
        damaged = {}
        for place in places:
            for value in odd:
                made = copy.deepcopy(whole)
                made["elapsed_ns"] = written
                *parents, name = (
                    int(word) if word.isdecimal() else word for word in place.split()
                )
                at = made
                for parent in parents:
                    at = at[parent]
                at[name] = value
                file = f"odd{written:03}.json"
                (directory / file).write_text(json.dumps(made))
                if name in ("memory_bytes", "kernel", "id", "subject", "median"):
                    damaged[file] = f"{place}: {value!r}"
                written += 1
        done = self.run_history(
            directory,
            "--json",
            self.directory / "analysis",
            "--html",
            self.directory / "page",
        )
        self.assertEqual(done.returncode, 3, done.stderr[-2000:])
        lines = done.stderr.splitlines()
        named = [line.split(": ")[1] for line in lines]
        self.assertEqual(len(named), len(set(named)))
        # Any text is a kernel and an id.
        missing = [damaged[file] for file in sorted(set(damaged) - set(named))]
        self.assertEqual(
            missing,
            [
                f"{place}: {text!r}"
                for place in ("machine kernel", "results 0 id")
                for text in ("x", "\ud800")
            ],
        )
        self.assertEqual({line[:8] for line in lines}, {"tzmark: "})
        made = json.loads((self.directory / "analysis").read_text())
        self.assertEqual(len(made["results"]), 12 + written - len(lines))

    def test_an_error_of_the_program_is_no_regression(self) -> None:
        directory = self.saved(steady(8))
        hidden = self.directory / "hidden"
        hidden.mkdir()
        (hidden / "otava").mkdir()
        (hidden / "otava/__init__.py").write_text("")
        (hidden / "otava/analysis.py").write_text("raise ArithmeticError('a\\nb')")
        done = self.run_history(directory, PYTHONPATH=str(hidden))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertRegex(done.stderr, "^tzmark: .*ArithmeticError")

    def test_outputs_never_replace_results(self) -> None:
        directory = self.saved(steady(8))
        one = directory / "00000000.json"
        kept = {path: path.read_bytes() for path in directory.iterdir()}
        link, hard = self.directory / "link", self.directory / "hard"
        link.symlink_to(one)
        os.link(one, hard)
        new = self.directory / "new"
        (self.directory / "dangling").symlink_to(new)
        for arguments in (
            ("--json", one),
            ("--html", one),
            ("--json", link),
            ("--html", hard),
            ("--json", new, "--html", one),
            ("--json", new, "--html", new),
            ("--json", new, "--html", directory / "../new"),
            ("--json", new, "--html", self.directory / "dangling"),
        ):
            done = self.run_history(directory, *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, "^tzmark: error TZE-USE-001: --[^\n]*\n$")
            self.assertFalse(new.exists())
        self.assertEqual(
            {path: path.read_bytes() for path in directory.iterdir()}, kept
        )

    def test_outputs_are_replaced_at_once(self) -> None:
        directory = self.saved(steady(8))
        target, link = self.directory / "target", self.directory / "link"
        self.run_history(directory, "--json", target)
        umask = os.umask(0)
        os.umask(umask)
        self.assertEqual(target.stat().st_mode & 0o7777, 0o666 & ~umask)
        target.write_text("old")
        target.chmod(0o640)
        other = self.directory / "other"
        os.link(target, other)
        for _ in range(2):
            done = self.run_history(directory, "--json", target)
            self.assertEqual(done.returncode, 0, done.stderr)
        # The old file was not written to.
        self.assertEqual(other.read_text(), "old")
        self.assertEqual(target.stat().st_mode & 0o7777, 0o640)
        json.loads(target.read_text())
        # Nor is what a link leads to, which others may have put there.
        link.symlink_to(other)
        done = self.run_history(directory, "--json", link)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(other.read_text(), "old")
        self.assertFalse(link.is_symlink())
        self.assertEqual([p.name for p in self.directory.glob(".*")], [])
        # What is not a file is written to.
        done = self.run_history(directory, "--json", "/dev/null", "--html", "/dev/null")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(Path("/dev/null").is_char_device())
        done = self.run_history(directory, "--json", "/dev/stdout")
        self.assertIn('"schema_version": 1', done.stdout)

    def test_its_own_output_may_lie_beside_the_results(self) -> None:
        directory = self.saved(planted())
        self.assertEqual(
            self.run_history(directory, "--json", directory / "h.json").returncode, 0
        )
        self.assertEqual(self.run_history(directory).returncode, 0)
        again = self.run_history(directory, "--json", directory / "h.json")
        self.assertEqual(again.returncode, 0)

    def test_environment_errors(self) -> None:
        directory = self.saved(steady(8))
        empty = self.directory / "empty"
        empty.mkdir()
        line_break = self.directory / "empty\ndirectory"
        line_break.mkdir()
        for arguments in (
            (self.directory / "missing",),
            (empty,),
            (directory / "00000000.json",),
            (directory, "--json", self.directory / "no/such/file"),
            (directory, "--html", self.directory),
            (self.directory / "a\nb",),
            (line_break,),
        ):
            done = self.run_history(*arguments)
            self.assertEqual(done.returncode, 3, arguments)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertRegex(done.stderr, "^tzmark: ")
        with open("/dev/full", "w") as full:
            status = subprocess.run(
                [*HISTORY, directory], stdout=full, stderr=subprocess.DEVNULL
            ).returncode
        self.assertEqual(status, 3)

    def test_usage_errors(self) -> None:
        for arguments in (
            (),
            ("--last", "0", "d"),
            ("--last", "x", "d"),
            ("--alpha", "1", "d"),
            ("--threshold", "nan", "d"),
            ("--thresh", "0.1", "d"),
            ("a", "b"),
        ):
            done = self.run_history(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertRegex(done.stderr, "^tzmark: error TZE-USE-001: ")

    def test_a_missing_package_is_named(self) -> None:
        """Each is hidden by a module of its name that cannot be imported."""
        directory = self.saved(steady(8))
        page = self.directory / "page.html"
        for name in ("numpy", "scipy", "otava", "jinja2", "matplotlib"):
            hidden = self.directory / name
            hidden.mkdir()
            text = (
                f"raise ModuleNotFoundError('No module named {name}', name='{name}')\n"
            )
            (hidden / f"{name}.py").write_text(text)
            path = f"{hidden}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
            done = self.run_history(directory, "--html", page, PYTHONPATH=path)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertRegex(
                done.stderr, f"^tzmark: No module named .?{name}.?; install"
            )
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            done = self.run_history("--help", PYTHONPATH=path)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_hostile_names_stay_on_their_line(self) -> None:
        directory = self.saved(steady(8))
        (directory / "a\nb\x1b[2J.json").write_text("{")
        os.rename(
            directory / "00000000.json", os.fsencode(directory) + b"/\xff\nx.json"
        )
        done = self.run_history(directory, "--html", self.directory / "page.html")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertNotIn("\x1b", done.stderr + done.stdout)


class Command(HistoryTest):
    """tzmark history itself, which runs the program."""

    def run_program(
        self,
        *arguments: object,
        program: str = "bin/tzmark",
        python: str = sys.executable,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [f"{os.environ['TZMARK_BUILD_DIR']}/{program}", *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**os.environ, "TZMARK_PYTHON": python},
        )

    def test_arguments_and_status_are_those_of_the_program(self) -> None:
        directory = self.saved(planted())
        expected = self.run_history(directory, "--last", 45)
        for program in ("bin/tzmark", "libexec/tzmark/tzmark-bench"):
            done = self.run_program("history", directory, "--last", 45, program=program)
            self.assertEqual((done.returncode, done.stdout), (1, expected.stdout))
            done = self.run_program("history", "--help", program=program)
            self.assertEqual(done.returncode, 0)
            self.assertIn("usage: tzmark history", done.stdout)
            self.assertRegex(
                self.run_program("--help", program=program).stdout, r"\n  history "
            )
        self.assertEqual(self.run_program("history", "--nothing").returncode, 2)

    def test_no_python(self) -> None:
        done = self.run_program(
            "history", self.directory, python="/nonexistent/python3"
        )
        self.assertEqual(done.returncode, 4)
        self.assertRegex(
            done.stderr, "^tzmark: .*/nonexistent/python3: .*TZMARK_PYTHON"
        )
        self.assertEqual(len(done.stderr.splitlines()), 1)


class Page(HistoryTest):
    def page(self, documents: list[Json], *arguments: object) -> str:
        output = self.directory / "page.html"
        directory = self.saved(documents)
        self.run_history(directory, "--html", output, *arguments)
        return output.read_text(encoding="utf-8")

    def test_is_one_whole_file(self) -> None:
        documents = planted()
        for document in documents[50:]:
            document["machine"]["kernel"] = "7.0.1"
        for page in (self.page(documents, "--last", 45), self.page(steady(3))):
            elements = Elements(page)
            self.assertEqual(elements.open, [])
            for tag, attributes in elements.found:
                self.assertNotIn(tag, ("link", "img", "iframe", "image", "use"))
                self.assertNotIn("src", attributes)
            self.assertNotRegex(page, r"https?:|@import|url\(|xmlns|xlink")
            ids = [found["id"] for _, found in elements.found if "id" in found]
            self.assertEqual(len(ids), len(set(ids)))
            figures = "".join(re.findall(r"<svg.*?</svg>", page))
            # The colours are variables with a value for light and one for dark.
            self.assertNotIn("#", figures)
            for variable in set(re.findall(r"var\((--f-[\w-]+)\)", figures)):
                self.assertEqual(page.count(f"{variable}: #"), 2, variable)
            sizes = re.findall(r"font-size: ([\d.]+)px", page)
            self.assertGreaterEqual(min(map(float, sizes)), LETTERS_MIN)

    def test_shows_the_changes(self) -> None:
        page = self.page(planted())
        elements = Elements(page)
        # Each change is in the table, in the figure of its series, and those of raw paths in that of the codec, in
        # the narrow and in the wide form.
        self.assertEqual(len(re.findall(r">-\d\.\d % code</text>", page)), 4)
        self.assertEqual(len(elements.of_class("series")), 8)
        self.assertIn("No regression", page)
        self.assertIn(
            "2 regressions", self.page(planted(), "--last", 45).replace("</b>", "")
        )
        labels = [found.get("aria-label") for _, found in elements.found]
        self.assertIn("codec read gpt2 pwrite", labels)

    def test_is_the_same_for_the_same_results(self) -> None:
        pages = [re.sub(r"history-\d", "", self.page(planted())) for _ in range(2)]
        self.assertEqual(*pages)

    def test_hostile_text_stays_text(self) -> None:
        documents = planted()
        for document in documents:
            document["machine"]["kernel"] += HOSTILE
            document["tool"]["commit"] += HOSTILE
            for result in document["results"]:
                result["id"] += " " + HOSTILE
        tame, hostile = self.page(planted()), self.page(documents)
        self.assertEqual(Elements(hostile).shape(), Elements(tame).shape())


class Samples(HistoryTest):
    def test_schema(self) -> None:
        jsonschema.Draft202012Validator.check_schema(schema("history"))

    def test_schema_is_strict(self) -> None:
        """Each object may lack none of its members and have no other."""
        whole = self.analysis(planted(), "--last", 45, status=1)
        (self.directory / "history-0/cut.json").write_text("")
        whole["skipped"] = self.analysis(self.directory / "history-0", status=3)[
            "skipped"
        ]
        whole["series"] = [one for one in whole["series"] if one["changes"]][:1]
        for member in ("results", "skipped"):
            whole[member] = whole[member][:1]
        whole["series"][0]["points"] = whole["series"][0]["points"][:1]
        found = [whole, whole["options"], whole["results"][0], whole["environments"][0]]
        found += [whole["skipped"][0], whole["series"][0]]
        found += [whole["series"][0]["points"][0], whole["series"][0]["changes"][0]]
        self.assertEqual(open_members(schema("history"), whole, found), [])

    def test_a_result_with_everything(self) -> None:
        """Results as bench writes them, with peers, fio, and results that could not be measured."""
        documents = samples.history(
            bench_samples.document(), Random(3), 12, planted=False
        )
        for document in documents:
            document["results"][0]["samples"] = []
        analysis = self.analysis(documents)
        subjects = {series["subject"] for series in analysis["series"]}
        self.assertEqual(subjects, {"codec", "raw", "fio", "peer", "ceiling"})
        missing = documents[0]["results"][0]["id"]
        self.assertNotIn(missing, [series["id"] for series in analysis["series"]])


def is_installed() -> bool:
    sys.path.append(str(find_changes.PACKAGES))
    try:
        import otava  # noqa: F401
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    if not is_installed():
        print("apache-otava is not installed; scripts/setup does that")
        sys.exit(SKIPPED if os.environ.get("TZMARK_NO_PEERS") == "1" else 1)
    unittest.main()
