"""The page of the bench: its numbers are those of the results, nothing gets out of its place, same bytes, refusals."""

from __future__ import annotations

import copy
import json
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import jsonschema

import report
from bench import (
    axis,
    bars,
    canvas,
    charts,
    flags,
    intervals,
    palette,
    selection,
    tables,
    units,
)
from bench.figures import HALF, NARROW, WIDE, Figures
from common.outcomes import Json
from common.results import NotAResult
from testing.page_elements import Elements
from testing import bench_samples as samples
from testing.conformance_samples import with_strings
from testing.schema_strictness import objects_of, open_members
from testing.report_test_case import ReportTestCase

REPORTS = Path(__file__).resolve().parents[1]
REPORT = (sys.executable, "-B", REPORTS / "report.py")
HOSTILE = "\"'><script src=//x onerror=y>&{{ 7*7 }}$x^{</style></script>\x07"
# Members whose values the schema lists or shapes.
LISTED = {
    "kind",
    "started_at",
    "subject",
    "op",
    "verification",
    "memory",
    "cache",
    "route",
    "rung",
    "verdict",
}
# Smaller letters cannot be read on a telephone.
LETTERS_MIN = 11


def schema() -> Json:
    found: Json = json.loads((REPORTS / "schema/bench.schema.json").read_text())
    return found


def small() -> Json:
    """A result with something in every part of the page, and little of it."""
    made = samples.document()
    random = Random(3)
    results = [
        samples.result(random, "read", "pwrite", "warm", 9e9),
        samples.result(random, "write", "direct", "none", 2e9, durable=1e9),
        *(
            samples.result(
                random,
                "read",
                "direct",
                "direct",
                8e8 + 1e7 * depth,
                block_bytes=block,
                queue_depth=depth,
                bound_by=samples.bound(8e8, "device-read"),
            )
            for block in (1 << 20, 2 << 20)
            for depth in (4, 8)
        ),
        samples.peer(random, "read", "warm", 3e9, "none"),
    ]
    results[0]["notes"] = ["a note"]
    made["results"] = results
    made["ceilings"] = made["ceilings"][-7:]
    made["ceilings"][0]["note"] = "another"
    made["checks"] = [samples.check("pass", "1", "a", measured=[results[0]["id"]])]
    return made


class BenchTest(ReportTestCase):
    def page(self, *documents: object) -> str:
        return report.output(self.written(documents), False)["index.html"].decode()

    def run_bench(
        self, *arguments: object, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run_command([*REPORT, *arguments], **environment)


def page_of(document: Json) -> str:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "result.json")
        file.write_text(json.dumps(document))
        return report.output([file], False)["index.html"].decode()


@cache
def whole_page() -> str:
    """The page of the largest sample, which several tests look at."""
    return page_of(samples.document())


@cache
def small_page() -> str:
    return page_of(small())


def numbers(page: str) -> set[float]:
    """The exact values behind the figures of the page."""
    return {float(value) for value in re.findall(r'<data value="([^"]*)">', page)}


def run(document: Json) -> selection.Run:
    return selection.Run(document, "", "here")


def panel(name: str) -> selection.Panel:
    return next(one for one in selection.PANELS if one.name == name)


class Schema(unittest.TestCase):
    def test_is_one(self) -> None:
        jsonschema.Draft202012Validator.check_schema(schema())

    def test_samples_are_what_the_bench_writes(self) -> None:
        for document in (
            samples.document(),
            samples.in_memory(),
            samples.long_run(),
            samples.empty(),
            small(),
        ):
            jsonschema.validate(document, schema())

    def test_is_strict(self) -> None:
        """Each object of a whole sample may lack none of its members and have no other."""
        whole = small()
        whole["results"] = whole["results"][1:2]
        whole["results"][0]["samples"] = whole["results"][0]["samples"][:1]
        whole["results"][0]["steady"] = samples.steady(1e9)
        machine = whole["machine"]
        objects = [
            one
            for one in objects_of(whole)
            if one is not machine["versions"] and one is not machine["mitigations"]
        ]
        self.assertEqual(open_members(schema(), whole, objects), [])

    def test_what_is_not_listed(self) -> None:
        changes: tuple[Json, ...] = (
            {"kind": "conformance"},
            {"schema_version": 2},
            {"started_at": "yesterday"},
            {"command": []},
        )
        for change in changes:
            document = {**samples.empty(), **change}
            with self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate(document, schema())


class Statistics(unittest.TestCase):
    def test_ranks_are_those_of_the_tables(self) -> None:
        """Of order statistics for the median with at least 95 %, as textbooks list them."""
        wanted = {1: 0, 5: 0, 6: 1, 8: 1, 9: 2, 11: 2, 12: 3, 15: 4, 20: 6, 30: 10}
        for count, rank in wanted.items():
            self.assertEqual(intervals.rank(count), rank, count)

    def test_interval(self) -> None:
        nine = intervals.median_interval([5, 1, 9, 2, 8, 3, 7, 4, 6])
        self.assertEqual(nine, {"median": 5, "low": 2, "high": 8, "samples": 9})
        self.assertFalse(intervals.has_interval(intervals.median_interval([1] * 5)))

    def test_overlap(self) -> None:
        low, high = {"low": 1.0, "high": 2.0}, {"low": 2.0, "high": 3.0}
        self.assertTrue(intervals.overlap(low, high))
        self.assertFalse(intervals.overlap(low, {"low": 2.1, "high": 3.0}))


class Units(unittest.TestCase):
    def test_numbers(self) -> None:
        for value, text in (
            (0, "0.00"),
            (0.00002, "2e-05"),
            (0.0123, "0.012"),
            (0.08, "0.080"),
            (0.94, "0.94"),
            (1.618, "1.62"),
            (10.94, "10.9"),
            (139677.4, "139,677"),
        ):
            self.assertEqual(units.number(value), text)

    def test_sizes_and_times(self) -> None:
        self.assertEqual(units.size(2 << 20), "2 MiB")
        self.assertEqual(units.size(1000), "1000 B")
        self.assertEqual(units.size(3 << 29), "1.5 GiB")
        self.assertEqual(units.duration(999), "999 ns")
        self.assertEqual(units.duration(1.5e6), "1.50 ms")

    def test_settings_say_what_is_unusual(self) -> None:
        result = samples.result(Random(1), "read", "pwrite", "warm", 1e9)
        self.assertEqual(units.setting(result), "v4, 2 MiB × 8, 2 t, warm")
        result["io"]["requested"] = "auto"
        self.assertEqual(units.unusual(result), [])
        result["io"]["requested"] = "uring"
        result["verified_first"] = False
        self.assertEqual(
            units.unusual(result), ["uring was requested", "not verified first"]
        )


class Selection(unittest.TestCase):
    def test_best_and_ties(self) -> None:
        random = Random(1)
        made = {
            "direct": samples.rate(1e9, spread=0.05),
            "uring": samples.rate(0.96e9, spread=0.05),
            "mmap": samples.rate(0.8e9, spread=0.05),
        }
        document = samples.empty()
        document["results"] = [
            {**samples.result(random, "read", path, "direct", 1e9), "rate": rate}
            for path, rate in made.items()
        ]
        found = selection.answers(run(document), panel("read-device"), "gpt2")
        self.assertEqual(len(found), 1)
        self.assertEqual(found[0].result["io"]["actual"], "direct")
        self.assertEqual([one["io"]["actual"] for one in found[0].ties], ["uring"])
        self.assertEqual([one["io"]["actual"] for one in found[0].slower], ["mmap"])

    def test_writes_are_ranked_to_fsync(self) -> None:
        random = Random(1)
        document = samples.empty()
        document["results"] = [
            samples.result(random, "write", "pwrite", "none", 9e9, durable=1e9),
            samples.result(random, "write", "direct", "none", 2e9, durable=1.9e9),
        ]
        (found,) = selection.answers(run(document), panel("write"), "gpt2")
        self.assertEqual(found.result["io"]["actual"], "direct")

    def test_another_memory_is_another_work(self) -> None:
        random = Random(1)
        document = samples.empty()
        document["results"] = [
            samples.result(random, "read", "mmap", "warm", 9e9, memory="sink"),
            samples.result(random, "read", "pwrite", "warm", 5e9),
        ]
        (found,) = selection.answers(run(document), panel("read-warm"), "gpt2")
        self.assertEqual(found.result["io"]["actual"], "pwrite")

    def test_memory_of_a_gpu_stands_beside_that_of_the_host(self) -> None:
        random = Random(1)
        routed = {"route": "p2p", "source": "cuFileGetStatsL3"}
        counts = {"p2p_bytes": 5, "nvfs_bytes": 0, "posix_bytes": 0}
        document = samples.empty()
        document["results"] = [
            samples.result(random, "read", "direct", "direct", 5e9),
            samples.result(
                random,
                "read",
                "gpudirect",
                "direct",
                9e9,
                memory="device",
                gpudirect={**routed, **counts},
            ),
        ]
        jsonschema.validate(document, schema())
        (found,) = selection.answers(run(document), panel("read-device"), "gpt2")
        self.assertEqual(found.result["io"]["actual"], "gpudirect")
        self.assertEqual([one["io"]["actual"] for one in found.slower], ["direct"])
        self.assertIn("GPU memory, direct, route p2p", units.setting(found.result))

    def proved(self, op: str, cache: str, **of_samples: object) -> str:
        result = samples.result(
            Random(1),
            op,
            "pwrite",
            cache,
            1e9,
            durable=1e9 if op == "write" else None,
        )
        # One sample is enough.
        result["samples"][4].update(of_samples)
        return selection.proof(result).state

    def test_proof(self) -> None:
        rows: tuple[tuple[str, str, Json, str], ...] = (
            ("read", "warm", {}, "proved"),
            ("read", "warm", {"resident_share": 0.5}, "contradicted"),
            # Others may have used the device.
            ("read", "warm", {"device_read_bytes": 10**8}, "proved"),
            ("read", "cold", {}, "proved"),
            ("read", "cold", {"resident_share": 0.5}, "contradicted"),
            ("read", "cold", {"device_read_bytes": 0}, "contradicted"),
            ("read", "direct", {"resident_share": 1.0}, "proved"),
            ("read", "direct", {"device_read_bytes": 0}, "contradicted"),
            ("write", "none", {}, "proved"),
            ("write", "none", {"device_written_bytes": 0}, "contradicted"),
        )
        for op, cache, change, state in rows:
            with self.subTest(f"{op} {cache} {change}"):
                self.assertEqual(self.proved(op, cache, **change), state)

    def test_a_device_busy_in_most_warm_samples(self) -> None:
        result = samples.result(Random(1), "read", "pwrite", "warm", 1e9)
        for sample in result["samples"][:5]:
            sample["device_read_bytes"] = result["bytes"]
        self.assertEqual(selection.proof(result).state, "contradicted")

    def test_what_nobody_saw_is_not_proved(self) -> None:
        for result in samples.in_memory()["results"]:
            self.assertEqual(selection.proof(result).state, "not seen")

    def test_a_win_that_read_no_byte_is_no_answer(self) -> None:
        random = Random(1)
        document = samples.empty()
        honest = samples.result(random, "read", "direct", "direct", 1e9)
        false = samples.result(random, "read", "uring-direct", "direct", 9e9)
        for sample in false["samples"]:
            sample["device_read_bytes"] = 0
        document["results"] = [false, honest]
        here = run(document)
        (found,) = selection.answers(here, panel("read-device"), "gpt2")
        self.assertIs(found.result, honest)
        self.assertEqual(selection.contradicted(here), [false])
        chart = charts.throughput(
            here, panel("read-device"), "gpt2", charts.path_colours([here])
        )
        self.assertEqual(chart.groups[0].rows[0].mark, charts.UNPROVED)
        self.assertIn(charts.UNPROVED_NOTE, chart.notes)


class Layout(unittest.TestCase):
    def test_names_of_lines_meet_nothing(self) -> None:
        random = Random(7)
        for _ in range(60):
            width = random.choice((NARROW, HALF, WIDE))
            names = [
                (f"{rung} 1.62", random.uniform(0, width))
                for rung in random.sample(sorted(samples.CEILINGS), 4)
            ]
            found = flags.placed(names, width)
            self.assertEqual(len(found), 4)
            for index, flag in enumerate(found):
                self.assertGreaterEqual(flag.start, 0)
                self.assertLessEqual(flag.end, width)
                for other in found[:index]:
                    if flag.level == other.level:
                        self.assertFalse(flag.meets(other))

    def test_labels_are_apart(self) -> None:
        places = axis.apart([10, 11, 12, 100], 15, 0, 200)
        self.assertEqual(places, [10, 25, 40, 100])
        self.assertEqual(axis.apart([190, 199], 15, 0, 200), [185, 200])

    def test_ticks(self) -> None:
        self.assertEqual(axis.Linear(0, 1, 1.02).ticks(5), [0, 0.25, 0.5, 0.75, 1])
        self.assertEqual(axis.Logarithmic(0, 1, 0.9, 11).ticks(), [1, 2, 5, 10])
        self.assertEqual(axis.Logarithmic(0, 1, 90, 1e5).ticks()[0], 100)

    def test_text_fits(self) -> None:
        text = "not available, the file system does not take this"
        self.assertEqual(" ".join(canvas.wrapped(text, 120)), text)
        for line in (*canvas.wrapped(text, 120), canvas.fitted(text, 120)):
            self.assertLessEqual(canvas.text_width(line), 120)


class Palette(unittest.TestCase):
    def test_each_colour_is_one_variable(self) -> None:
        for dark in (False, True):
            shades = [pair[dark] for pair in palette.COLOURS.values()]
            self.assertEqual(len(shades), len(set(shades)))

    def test_colours_of_paths_are_by_order_and_variant(self) -> None:
        rows = [
            {"name": name, "variant_of": parent}
            for name, parent in (
                ("zfs", ""),
                ("zfs-direct", "zfs"),
                ("ceph", ""),
                ("zfs-polled", "zfs"),
            )
        ]
        colours = palette.of_paths(rows, ["ceph", "tape"])
        self.assertEqual(
            colours,
            {
                "zfs": "blue-0",
                "zfs-direct": "blue-1",
                "ceph": "gold-0",
                "zfs-polled": "blue-1",
                "tape": "orange-0",
            },
        )
        # The order of results changes nothing.
        self.assertEqual(colours, palette.of_paths(rows, ["tape", "ceph"]))
        dashes = palette.dashes(rows)
        self.assertEqual(set(dashes), {"zfs-direct", "zfs-polled"})
        self.assertEqual(len(set(dashes.values())), 2)

    def test_paths_of_samples_differ_in_colour(self) -> None:
        rows = samples.paths()
        colours = palette.of_paths(rows)
        self.assertEqual(list(colours), [row["name"] for row in rows])
        self.assertEqual(len(set(colours.values())), len(rows))
        self.assertLessEqual(set(colours.values()), set(palette.COLOURS))

    def test_marks_are_seen_on_their_ground(self) -> None:
        """A contrast of 4.4 for letters; of 2.2 for marks, which all have names next to them."""
        for name, shades in palette.COLOURS.items():
            for dark in (False, True):
                paper = palette.COLOURS["paper"][dark]
                if name in ("ink", "soft"):
                    self.assertGreater(contrast(shades[dark], paper), 4.4, name)
                elif name == "neutral" or name.split("-")[0] in palette.HUES:
                    self.assertGreater(contrast(shades[dark], paper), 2.2, name)
        for shade in range(palette.MAP_SHADES):
            ink = "map-ink-6" if shade >= palette.MAP_SHADES - 2 else "map-ink"
            for dark in (False, True):
                found = contrast(
                    palette.COLOURS[ink][dark], palette.COLOURS[f"map-{shade}"][dark]
                )
                self.assertGreater(found, 4.4, f"map-{shade}, dark {dark}")


def contrast(one: str, other: str) -> float:
    """Of two colours, as WCAG defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear: list[float] = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
            for part in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


class Page(BenchTest):
    def test_is_one_whole_file(self) -> None:
        self.assert_whole(whole_page())
        self.assert_whole(self.page(small(), samples.in_memory(), samples.empty()))

    def test_letters_can_be_read(self) -> None:
        sizes = re.findall(r"font-size: ([\d.]+)px", whole_page())
        self.assertGreater(len(sizes), 100)
        self.assertGreaterEqual(min(map(float, sizes)), LETTERS_MIN)

    def test_figures_have_the_colours_of_the_page(self) -> None:
        figures = "".join(re.findall(r"<svg.*?</svg>", whole_page()))
        self.assertNotIn("#", figures)
        used = set(re.findall(r"var\((--f-[\w-]+)\)", figures))
        self.assertGreater(len(used), 10)
        for variable in used:
            # In light and in dark.
            self.assertEqual(whole_page().count(f"{variable}: #"), 2)

    def test_numbers_are_those_of_the_result(self) -> None:
        document = samples.document()
        found = numbers(whole_page())
        for result in document["results"]:
            for rate in (result["rate"], result["durable_rate"]):
                if rate:
                    self.assertLessEqual(
                        {rate["median"], rate["low"], rate["high"]}, found
                    )
            if result["cpu_seconds_per_gb"] is not None:
                self.assertIn(result["cpu_seconds_per_gb"], found)
        for check in document["checks"]:
            if check["ratio"]:
                self.assertLessEqual(
                    {check["ratio"][side] for side in ("median", "low", "high")}, found
                )
            self.assertIn(check["required"], found)
            self.assertIn(check["name"], whole_page())
        for ceiling in document["ceilings"]:
            value = units.rate(ceiling["rate"]["median"])
            self.assertIn(f">{value}</text>", whole_page())

    def test_bars_are_as_long_as_their_numbers(self) -> None:
        here = run(small())
        chart = charts.throughput(
            here, panel("read-device"), "gpt2", charts.path_colours([here])
        )
        best = chart.groups[0].rows[0].rate["median"]
        for width in (NARROW, WIDE):
            # On an axis twice as long a bar is half as long.
            whole, half = (
                bar_length(charts_drawing(chart, width, limit), "orange-0")
                for limit in (best, 2 * best)
            )
            self.assertGreater(whole, 0.4 * width)
            self.assertAlmostEqual(whole, 2 * half, places=3)

    def test_every_bar_has_its_interval(self) -> None:
        here = run(small())
        colours = charts.path_colours([here])
        chart = charts.throughput(here, panel("write"), "gpt2", colours)
        rows = [row for group in chart.groups for row in group.rows]
        self.assertEqual(
            [row.label for row in rows], ["no hashes, to fsync", "without fsync"]
        )
        drawing = charts_drawing(chart, NARROW, chart.reach())
        for row in rows:
            self.assertIn(f">{units.interval(row.rate)}</text>", drawing)
        # Two lines on a halo for the ends of each, and one between them.
        self.assertEqual(drawing.count("stroke: var(--f-ink)"), 3 * len(rows))

    def test_answers(self) -> None:
        page = small_page()
        head = page[page.index("<header>") : page.index("</header>")]
        text = " ".join(re.sub(r"<[^>]*>", " ", head).split())
        self.assertRegex(text, r"Read from the device: gpt2 direct 0\.87 GB/s")
        self.assertRegex(text, r"Write: gpt2 direct \S+ GB/s to fsync")
        self.assertRegex(text, r"Limit: 85 % of 0\.94 GB/s, mostly device-read")
        self.assertIn(
            "tzmark bench --dir &#39;/data/bench dir&#39; --json b.json", page
        )

    def test_every_verdict(self) -> None:
        page = whole_page()
        for verdict, shade in tables.VERDICTS.items():
            self.assertIn(
                f'<span class="verdict-of {shade.code}">{verdict}</span>', page
            )
        self.assertIn("at most <data", page)
        self.assertIn("tensorizer is not installed", page)

    def test_paths_that_are_not_there(self) -> None:
        page = whole_page()
        self.assertIn("not available: libcuda.so.1 is not there", page)
        figures = re.findall(r'aria-label="Write: gpt2">.*?</svg>', page)
        self.assertEqual(len(figures), 2)
        for figure in figures:
            words = " ".join(re.findall(r">([^<]*)</text>", figure))
            self.assertIn("Not measured: uring-sqpoll.", words)
            self.assertIn("gpudirect: not available, libcuda.so.1", words)

    def test_without_intervals(self) -> None:
        page = self.page(samples.in_memory())
        self.assertIn("no interval, n=3", page)
        self.assertIn("the order of the paths is not significant", page)
        self.assertNotIn(">95 % interval [", page)
        self.assertIn("not seen", page)

    def test_nothing_measured(self) -> None:
        page = self.page(samples.empty())
        self.assert_whole(page)
        self.assertNotIn("<svg", page)
        self.assertGreater(page.count("Not measured"), 8)
        self.assertIn("this run had no checks", page)
        self.assertIn("Nothing was measured.", page)

    def test_throughput_over_time(self) -> None:
        document = samples.long_run()
        page = self.page(document)
        self.assert_whole(page)
        self.assertIn("each result for 60 s", page)
        self.assertNotIn("rounds in random order", page)
        lasting, falling = (one["steady"] for one in document["results"][:2])
        found = numbers(page)
        for steady in (lasting, falling):
            self.assertLessEqual({steady["rate"], steady["window"]["rate"]}, found)
        figures = re.findall(
            r'aria-label="Throughput over time, [^"]*">.*?</svg>', page
        )
        # Two rows, each for narrow and wide places.
        self.assertEqual(len(figures), 4)
        said = [" ".join(re.findall(r">([^<]*)</text>", figure)) for figure in figures]
        self.assertIn("Steady.", said[1])
        self.assertIn("+0.0 % [-1.1, +1.2]", said[1].replace("-0.0", "+0.0"))
        self.assertIn("Not steady: fell by 30.0 % in the second half.", said[3])
        for figure, colour in zip(figures, ("orange-0",) * 2 + ("blue-0",) * 2):
            # The second without an operation leaves a gap: the first is a dot, and the others one line.
            curve = re.findall(
                rf'd="([^"]*)" style="[^"]*stroke: var\(--f-{colour}\)|'
                rf'stroke: var\(--f-{colour}\)[^"]*" d="([^"]*)"',
                figure,
            )
            self.assertEqual(len(curve), 1)
            self.assertEqual("".join(curve[0]).count("L"), 57)

    def test_rounds_have_no_throughput_over_time(self) -> None:
        self.assertNotIn("Throughput over time", whole_page())
        # Results of older versions lack the members.
        document = small()
        del document["duration_s"]
        for result in document["results"]:
            del result["steady"]
        self.assertNotIn("Throughput over time", self.page(document))

    def test_a_long_run_beside_rounds(self) -> None:
        page = self.page(samples.long_run(), samples.in_memory())
        self.assert_whole(page)
        self.assertEqual(page.count('aria-label="Throughput over time'), 4)

    def test_what_could_not_be_measured(self) -> None:
        document = samples.in_memory()
        failed = document["results"][0]
        failed["samples"] = []
        failed["rate"] = {"median": 0, "low": None, "high": None, "samples": 0}
        failed["notes"] = ["not measured: no space"]
        page = self.page(document)
        self.assertIn("1 result: could not be measured", page)
        self.assertIn("<dd>not measured: no space</dd>", page)
        figures = "".join(re.findall(r"<svg.*?</svg>", page))
        self.assertIn(">mmap</text>", figures)
        self.assertNotIn(">0.00</text>", figures)

    def test_latency_of_the_raw_path(self) -> None:
        """Where the codec does not tell its own."""
        random = Random(1)
        raw = samples.result(random, "read", "mmap", "warm", 9e9, subject="raw")
        codec = samples.result(random, "read", "mmap", "warm", 8e9)
        for results, wanted in (([raw], [raw]), ([raw, codec], [codec])):
            here = run({**samples.empty(), "results": results})
            found = charts.timed(here, panel("read-warm"), "gpt2")
            self.assertEqual(found, wanted)

    def test_latency_needs_transfers_enough(self) -> None:
        random = Random(1)
        few = samples.result(random, "read", "mmap", "warm", 9e9)
        few["latency_ns"].update(p90=None, p99=None, p99_9=None)
        none = samples.result(random, "read", "pwrite", "warm", 9e9)
        none["latency_ns"].update(p50=None, p90=None, p99=None, p99_9=None)
        document = {**samples.empty(), "results": [few, none]}
        self.assertEqual(charts.timed(run(document), panel("read-warm"), "gpt2"), [few])
        self.assert_whole(self.page(document))

    def test_peers_are_compared_in_the_same_kind_of_pages(self) -> None:
        random = Random(1)
        peer = {"name": "tensorizer", "version": "2.12.1", "detail": ""}
        results = [
            samples.result(random, "read", path, "warm", rate, memory=memory, **more)
            for memory, ours, theirs in (("thp", 6e9, 4e9), ("small-pages", 2e9, 1e9))
            for path, rate, more in (
                ("pwrite", ours, {}),
                ("auto", theirs, {"subject": "peer", "peer": peer, "id": memory}),
            )
        ]
        rows = tables.peers(run({**samples.empty(), "results": results}))
        self.assertEqual([round(row["times"], 1) for row in rows], [1.5, 2.0])
        self.assertIn("small pages", rows[1]["work"])

    def test_peers_write_until_the_data_is_durable(self) -> None:
        random = Random(1)
        peer = {"name": "tensorizer", "version": "2.12.1", "detail": ""}
        results = [
            samples.result(random, "write", "pwrite", "none", 4e9, durable=2e9),
            samples.result(
                *(random, "write", "auto", "none", 1e9),
                durable=1e9,
                subject="peer",
                peer=peer,
            ),
        ]
        (row,) = tables.peers(run({**samples.empty(), "results": results}))
        self.assertAlmostEqual(row["times"], 2, delta=0.1)

    def test_what_is_done_as_fio_is_no_raw_path(self) -> None:
        random = Random(1)
        raw = samples.result(random, "read", "direct", "direct", 1e9, subject="raw")
        as_fio = {
            **raw,
            "id": "raw read gpt2 as-fio direct",
            "detail": "as-fio",
            "memory": "sink",
        }
        here = run({**samples.empty(), "results": [as_fio, raw]})
        self.assertEqual(here.of(panel("read-device"), "gpt2", "raw"), [raw])

    def test_page_begins_with_the_warnings(self) -> None:
        document = {**samples.document(), "warnings": ["this is a <test>"]}
        self.assertIn("This is a &lt;test&gt;.", self.page(document))

    def test_ladder_has_the_fastest_of_each_rung(self) -> None:
        document = small()
        document["results"][0]["id"] = "a warm one"
        document["ceilings"] = [
            {"rung": rung, "threads": 2, "rate": samples.rate(value), "note": note}
            for rung, value, note in (
                ("path-read/mmap", 1e9, "a warm one"),
                ("path-read/mmap", 2e9, "a warm one"),
                ("path-read/mmap", 3e9, None),
                ("memcpy", 9e9, None),
            )
        ]
        here = run(document)
        self.assertEqual(
            [(rung.name, rung.rate["median"]) for rung in Figures([here]).rungs(here)],
            [("path-read/mmap warm", 2e9), ("path-read/mmap", 3e9), ("memcpy", 9e9)],
        )

    def test_tiny_tensors_are_counted(self) -> None:
        random = Random(1)
        tiny = samples.result(
            random, "read", "pwrite", "warm", 1e8, bytes=640_000, tensors=10_000
        )
        tiny["operations_per_second"] = samples.rate(1.5e6)
        large = samples.result(random, "read", "pwrite", "warm", 1e9)
        large["operations_per_second"] = samples.rate(300)
        here = run({**samples.empty(), "results": [tiny, large]})
        colours = charts.path_colours([here])
        (group,) = charts.peers(here, True, colours).groups
        self.assertEqual([row.rate for row in group.rows], [samples.rate(1.5e6)])
        self.assertEqual(charts.peers(here, False, colours).groups, [])

    def test_nothing_in_a_result_becomes_markup(self) -> None:
        def hostile(member: str, text: str) -> str:
            if not text or member in LISTED:
                return text
            return text + HOSTILE

        wild = with_strings(small(), hostile)
        page = self.page(wild)
        elements = Elements(page)
        self.assertEqual(elements.open, [])
        self.assertEqual(
            sum(tag == "script" for tag, _ in elements.found),
            sum(tag == "script" for tag, _ in Elements(small_page()).found),
        )
        self.assertNotIn("<script src", page)
        self.assertIn("&lt;script src=//x onerror=y&gt;&amp;{{ 7*7 }}", page)


def charts_drawing(chart: bars.BarChart, width: float, limit: float) -> str:
    return bars.draw(chart, width, limit).inline()


def bar_length(drawing: str, colour: str) -> float:
    """Of the first bar of this colour; before it comes the chip next to the name."""
    pattern = rf'fill: var\(--f-{colour}\)" d="M ([\d.]+) [\d.]+ L ([\d.]+) '
    start, end = re.findall(pattern, drawing)[1]
    return float(end) - float(start)


class SideBySide(BenchTest):
    def test_says_what_differs(self) -> None:
        other = samples.empty()
        other["machine"]["storage"]["file_system"] = "xfs"
        other["machine"]["load_average"] = [9, 9, 9]
        page = self.page(samples.empty(), other)
        self.assertIn("Facts that differ: File system.", page)
        self.assertEqual(page.count('<tr class="differs">'), 1)
        self.assertIn(">xfs</td>", page)

    def test_says_that_the_file_system_is_unknown(self) -> None:
        """In a chroot the kernel names no mount."""
        other = samples.empty()
        other["machine"]["storage"] |= {"file_system": None, "mount_options": None}
        page = self.page(other)
        self.assertIn("/data/bench <span>unknown file system", page)
        self.assertNotIn("None", page)

    def test_says_that_nothing_differs(self) -> None:
        page = self.page(samples.empty(), samples.empty())
        self.assertIn("The machine facts of all results are the same", page)

    def test_bars_of_all_have_one_axis(self) -> None:
        """A run that is half as fast has bars that are half as long."""
        slow = copy.deepcopy(small())
        for result in slow["results"]:
            for side in ("median", "low", "high"):
                result["rate"][side] /= 2
        page = self.page(small(), slow)
        figures = re.findall(
            r'aria-label="Read from the page cache: gpt2">.*?</svg>', page
        )
        self.assertEqual(len(figures), 4)
        lengths = [bar_length(figure, "blue-0") for figure in figures]
        self.assertAlmostEqual(lengths[0], 2 * lengths[2], places=3)
        self.assertAlmostEqual(lengths[1], 2 * lengths[3], places=3)

    def test_what_only_one_has(self) -> None:
        page = self.page(small(), samples.empty())
        self.assertIn("no such check", page)
        self.assertIn(">Not measured.</p>", page)


class Files(BenchTest):
    def test_page_names_the_kernels_of_newer_results(self) -> None:
        document = small()
        self.assertNotIn("Kernels", page_of(document))
        document["tool"]["kernels"] = {"sha256": "avx512", "encryption": "avx2"}
        jsonschema.validate(document, schema())
        self.assertIn("sha256 avx512, encryption avx2", page_of(document))

    def test_figures_lie_beside_the_page(self) -> None:
        output = self.directory / "new" / "directory"
        done = self.run_bench(*self.written((small(),)), "-o", output)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = {file.name for file in output.iterdir()}
        for kind in ("throughput-read-device-gpt2", "throughput-read-warm-gpt2"):
            self.assertIn(f"{kind}.png", names)
        for stem in (
            "throughput-write-gpt2",
            "map-read-device-direct-gpt2",
            "latency-read-warm-gpt2",
            "cpu-write-gpt2",
            "peers",
            "ladder",
        ):
            self.assertLessEqual({f"{stem}.png", f"{stem}.svg"}, names)
        page = (output / "index.html").read_text(encoding="utf-8")
        named = set(re.findall(r'href="([\w-]+\.(?:svg|png))"', page))
        self.assertEqual(named, names - {"index.html"})
        for name in named:
            content = (output / name).read_bytes()
            if name.endswith(".svg"):
                root = ElementTree.fromstring(content)
                self.assertEqual(root.tag, f"{{{canvas.SVG}}}svg")
                self.assertNotIn(b"var(", content)
                self.assertEqual(
                    re.findall(rb"https?://(?!www\.w3\.org/2000/svg)", content), []
                )
            else:
                self.assertEqual(content[:8], b"\x89PNG\r\n\x1a\n")
                width, height = struct.unpack(">II", content[16:24])
                self.assertIn(width, (2 * HALF, 2 * WIDE))
                self.assertGreater(height, 200)

    def test_same_bytes(self) -> None:
        files = self.written((samples.in_memory(),))
        outputs = [self.directory / name for name in ("one", "two")]
        for output in outputs:
            # Another order of sets and dictionaries by hash must not show.
            seed = "1" if output.name == "one" else "2"
            done = self.run_bench(*files, "-o", output, PYTHONHASHSEED=seed)
            self.assertEqual(done.returncode, 0, done.stderr)
        one, two = (
            {file.name: file.read_bytes() for file in output.iterdir()}
            for output in outputs
        )
        self.assertGreater(len(one), 5)
        self.assertEqual(one, two)

    def test_files_of_several_have_names_of_their_own(self) -> None:
        files = self.written((samples.in_memory(), samples.in_memory()))
        names = report.output(files)
        self.assertIn("ladder-a.svg", names)
        self.assertIn("ladder-b.svg", names)
        self.assertNotIn("ladder.svg", names)


class Refusals(BenchTest):
    def test_what_is_not_a_result(self) -> None:
        whole = samples.empty()
        for document in (
            "",
            "{",
            "[" * 100_000,
            [],
            {},
            {**whole, "kind": "conformance"},
            {**whole, "schema_version": 2},
            {**whole, "schema_version": "1"},
        ):
            with self.subTest(str(document)[:60]):
                with self.assertRaises(NotAResult):
                    self.page(document)

    def test_what_misses_a_member(self) -> None:
        for member in ("machine", "results", "checks", "io_paths", "command"):
            document = samples.empty()
            del document[member]
            with self.subTest(member), self.assertRaises(NotAResult):
                self.page(document)
        for member in ("rate", "samples", "io", "id", "latency_ns", "bound_by"):
            document = samples.in_memory()
            document["results"] = document["results"][:1]
            del document["results"][0][member]
            with self.subTest(member), self.assertRaises(NotAResult):
                self.page(document)

    def test_statuses(self) -> None:
        good = self.directory / "good.json"
        good.write_text(json.dumps(samples.empty()))
        bad = self.directory / "bad.json"
        bad.write_text("{}")
        output = self.directory / "out"
        for arguments, status in (
            ((), 2),
            ((good,), 2),
            ((bad, "-o", output), 3),
            ((self.directory / "absent.json", "-o", output), 3),
            ((good, "-o", bad), 3),
        ):
            done = self.run_bench(*arguments)
            self.assertEqual(done.returncode, status, done.stderr)
            if status == 3:
                self.assertRegex(done.stderr, r"\Areport\.py: .*\n\Z")
        self.assertFalse(output.exists())

    def test_a_file_of_settings_beside_changes_nothing(self) -> None:
        good = self.written((small(),))
        other = self.directory / "other"
        other.mkdir()
        (other / "matplotlibrc").write_text(
            "text.usetex: True\npath.sketch: 5, 100, 2\nfont.weight: bold\n"
        )
        pages = []
        for number, current in enumerate((self.directory, other)):
            output = self.directory / f"out-{number}"
            done = subprocess.run(
                [*REPORT, *good, "-o", output],
                cwd=current,
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr[-1000:])
            pages.append(
                {file.name: file.read_bytes() for file in sorted(output.iterdir())}
            )
        self.assertEqual(*pages)

    def test_without_libraries(self) -> None:
        good = self.written((samples.empty(),))
        for name in ("jinja2", "matplotlib"):
            shadow = self.directory / name
            shadow.mkdir()
            (shadow / f"{name}.py").write_text(f"raise ImportError('No module {name}')")
            done = self.run_bench(
                *good, "-o", self.directory / "out", PYTHONPATH=str(shadow)
            )
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn(f"python3-{name}", done.stderr)


class Script(BenchTest):
    def test_takes_files_from_where_it_is_called(self) -> None:
        script = REPORTS.parent / "scripts" / "report"
        (self.directory / "result.json").write_text(json.dumps(samples.empty()))
        for arguments, status in ((("result.json", "-o", "page"), 0), ((), 2)):
            done = subprocess.run(
                [script, *arguments],
                cwd=self.directory,
                capture_output=True,
                check=False,
            )
            self.assertEqual(done.returncode, status, done.stderr)
        self.assertTrue((self.directory / "page" / "index.html").is_file())


if __name__ == "__main__":
    unittest.main()
