"""The page of a comparison: marks are where the numbers are, names stay text, same bytes, refusals."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from functools import cache
from math import log
from pathlib import Path

import jsonschema

import report
from bench import canvas
from bench.figures import NARROW, WIDE
from common.outcomes import Json
from common.results import NotAResult
from comparison import plot, rows
from testing.page_elements import Elements
from testing import comparison_samples as samples
from testing.conformance_samples import with_strings
from testing.report_test_case import ReportTestCase

REPORTS = Path(__file__).resolve().parents[1]
HOSTILE = "\"'><script src=//x onerror=y>&{{ 7*7 }}$x^{</style></script>\x07"
SAMPLES = (samples.three, samples.many, samples.hard, samples.against)


def schema(kind: str) -> Json:
    name = "comparison" if kind == rows.COMPARE else kind
    found: Json = json.loads((REPORTS / f"schema/{name}.schema.json").read_text())
    return found


def page_of(document: object) -> str:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "comparison.json")
        text = document if isinstance(document, str) else json.dumps(document)
        file.write_text(text, encoding="utf-8")
        return report.output([file], False)["index.html"].decode()


@cache
def sample_page(name: str) -> str:
    return page_of(getattr(samples, name)())


def drawing(document: Json, width: float = WIDE) -> str:
    return plot.draw(rows.of(document), width).inline()


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("text")]


def marks(svg: str, colour: str) -> list[list[tuple[float, float]]]:
    """Returns the corners of all paths that are drawn in a colour, or filled with it."""
    return [
        [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", corners)]
        for style, corners in re.findall(r'<path style="([^"]*)" d="([^"]*)"', svg)
        if f"var(--f-{colour})" in style
    ]


def only(name: str, *arguments: object) -> Json:
    """Returns a comparison of one row, besides one that gives all of them the same axis."""
    wide = samples.row("wide", 0.5, 0.1, "no difference found")
    return samples.document([wide, getattr(samples, name)(*arguments)])


class Samples(unittest.TestCase):
    def test_are_what_tzmark_writes(self) -> None:
        for made in SAMPLES:
            document = made()
            jsonschema.validate(document, schema(document["kind"]))

    def test_every_verdict_of_the_schemas_is_known(self) -> None:
        for kind in (rows.COMPARE, rows.AGAINST):
            item = schema(kind)["properties"]["rows"]["items"]
            for verdict in item["properties"]["verdict"]["enum"]:
                self.assertIn(verdict, rows.SHADES)
                self.assertIn(verdict, plot.MARKS)

    def test_verdicts_differ_in_shape(self) -> None:
        """Black and white is enough to tell them apart."""
        shapes = [
            plot.MARKS[verdict].shape
            for verdict in ("REGRESSION", "faster", "same", "undecided")
        ]
        shapes += [plot.MARKS["below the threshold"].shape, plot.MACHINE.shape]
        self.assertEqual(len(set(shapes)), len(shapes))


class Plot(unittest.TestCase):
    def test_rows_are_in_the_order_of_the_table(self) -> None:
        document = samples.three()
        found = texts(drawing(document))
        names = [row["id"] for row in document["rows"]]
        self.assertEqual([text for text in found if text in names], names)
        for text in ("0.930", "0.912 to 0.949", "REGRESSION", "← slower", "faster →"):
            self.assertIn(text, found)

    def test_marks_are_where_the_ratio_is(self) -> None:
        """Distances on the axis are those of logarithms."""
        document = samples.three()
        made = document["rows"]
        for width in (NARROW, WIDE):
            svg = drawing(document, width)
            zone = max(
                (mark for mark in marks(svg, "line") if len(mark) > 3),
                key=lambda mark: mark[1][0] - mark[0][0],
            )
            unit = (zone[1][0] - zone[0][0]) / (-2 * log(1 - 0.02))
            one = (zone[1][0] + zone[0][0]) / 2
            for row, colour in zip(made, ("slower", "neutral", "faster")):
                whisker = next(
                    mark
                    for mark in marks(svg, colour)
                    if len(mark) == 2
                    and mark[0][1] == mark[1][1]
                    and mark[1][0] - mark[0][0] > 12
                )
                for (x, _), side in zip(whisker, ("low", "high")):
                    wanted = one + unit * log(row["judged"][side])
                    self.assertAlmostEqual(x, wanted, delta=0.01)

    def test_a_regression_points_to_the_left(self) -> None:
        for verdict, colour, sign in (
            ("REGRESSION", "slower", -1),
            ("faster", "faster", 1),
        ):
            svg = drawing(only("row", "one", 1 + 0.2 * sign, 0.02, verdict))
            triangle = [mark for mark in marks(svg, colour) if len(mark) == 3][-1]
            tip, *others = (x for x, _ in triangle)
            self.assertTrue(all((tip - x) * sign > 0 for x in others), triangle)

    def test_a_change_of_the_machine(self) -> None:
        """The rate is a square, and the ratio to raw, which has not changed, has the mark of no difference."""
        svg = drawing(only("of_machine", "codec", "raw", 0.8))
        self.assertIn("rate, changed by the machine", texts(svg))
        self.assertIn("machine slower", texts(svg))
        self.assertIn("relative to raw", texts(svg))
        # In the legend and in the plot.
        squares = [mark for mark in marks(svg, "blue-0") if len(mark) == 4]
        self.assertEqual(len(squares), 2)
        raw = samples.row("raw", 0.8, 0.02, "machine slower")
        svg = drawing(samples.document([raw]))
        self.assertEqual(
            len([mark for mark in marks(svg, "blue-0") if len(mark) == 4]), 2
        )

    def test_long_intervals_do_not_squeeze_the_others(self) -> None:
        document = samples.hard()
        svg = drawing(document)
        self.assertIn(
            "Arrows: the interval goes on beyond the axis.", " ".join(texts(svg))
        )
        self.assertIn("0.111 to 20.196", texts(svg))
        for mark in marks(svg, "neutral") + marks(svg, "buffered"):
            for x, _ in mark:
                self.assertLessEqual(x, WIDE)
        comparison = rows.of(document)
        self.assertLess(plot._reach(comparison, list(comparison.rows)), log(2))
        # What was found is never cut.
        document["rows"].append(samples.row("z", 0.05, 0.9, "REGRESSION"))
        comparison = rows.of(document)
        reach = plot._reach(comparison, list(comparison.rows))
        self.assertGreater(reach, -log(0.05) + 0.9)

    def test_each_row_has_its_zone(self) -> None:
        zones = {row.name: row.zone for row in rows.of(samples.hard()).rows}
        self.assertEqual(zones["codec read no-interval"], 0.3)
        self.assertEqual(zones["codec read wide"], 0.02)

    def test_what_is_missing_is_a_row(self) -> None:
        found = {row.name: row for row in rows.of(samples.hard()).rows}
        missing = found["codec write uring"]
        self.assertEqual(
            (missing.verdict, missing.estimate, missing.details),
            (
                "missing",
                None,
                ("in 2 runs", "not measured: no space left on device"),
            ),
        )
        self.assertEqual(found["codec read wide"].details, ("missing in 1 run",))
        self.assertIn("no ratio", texts(drawing(samples.hard())))
        alone = samples.document([], samples.hard()["missing"][:1])
        self.assertIn("missing", texts(drawing(alone)))

    def test_rows_of_against(self) -> None:
        found = {row.name: row for row in rows.of(samples.against()).rows}
        self.assertEqual(found["raw write gpt2 direct"].details, ("no space left",))
        (renamed,) = found["codec read gpt2 pwrite both warm"].details
        self.assertIn("both warm d4", renamed)
        said = " ".join(texts(drawing(samples.against())))
        self.assertIn("intervals that hold together with 99 %", said)
        self.assertIn("the slow-down to find, 2 %", said)
        self.assertIn("no interval", said)

    def test_names_are_shown_as_a_whole(self) -> None:
        """Also those without blanks, which Google Benchmark writes."""
        for name in ("a" * 90, "codec read " + "b" * 60 + " warm"):
            found = texts(
                drawing(samples.document([samples.row(name, 1, 0.1, "faster")]))
            )
            at = found.index("faster →")
            self.assertIn(name.replace(" ", ""), "".join(found[at:]).replace(" ", ""))
        for count in (1_000, 100_000):
            name = "x" * count + "END"
            found = texts(
                drawing(samples.document([samples.row(name, 1, 0.1, "faster")]))
            )
            self.assertTrue(any(text.endswith("END") for text in found))
            for text in found:
                self.assertLess(canvas.text_width(text, canvas.SMALL), WIDE)

    def test_texts_do_not_meet(self) -> None:
        """In the wide form each column keeps to its place."""
        for made in SAMPLES:
            root = ElementTree.fromstring(drawing(made()))
            lines: dict[str, list[tuple[float, float]]] = {}
            for element in root.iter("text"):
                style, text = element.get("style", ""), element.text or ""
                size = re.search(r"font-size: ([\d.]+)px", style)
                width = canvas.text_width(
                    text, float(size[1]) if size else 12, "font-weight" in style
                )
                x = float(element.get("x", "0"))
                if "text-anchor: end" in style:
                    x -= width
                elif "text-anchor: middle" in style:
                    x -= width / 2
                lines.setdefault(element.get("y", ""), []).append((x, x + width))
            self.assertGreater(len(lines), 5)
            for spans in lines.values():
                spans.sort()
                for (_, end), (start, _) in zip(spans, spans[1:]):
                    self.assertLess(end, start + 1)
                self.assertLess(spans[-1][1], WIDE + 1)

    def test_very_many_rows(self) -> None:
        """The picture leaves out rows without a difference; the page has all of them."""
        document = samples.many(plot.ROWS_MAX + 50)
        slow = sum(row["verdict"] == "REGRESSION" for row in document["rows"])
        found = texts(drawing(document))
        self.assertEqual(found.count("REGRESSION"), slow + 1)
        self.assertIn("50 rows are not drawn", " ".join(found))
        self.assertEqual(len(plot._chosen(rows.of(document).rows)[0]), plot.ROWS_MAX)

    def test_ratios_of_all_sizes(self) -> None:
        for ratio in (1e-9, 1e9, 1.0):
            for width in (NARROW, WIDE):
                made = samples.row("one", ratio, 0, "below the threshold")
                self.assertIn(
                    "below the threshold",
                    texts(drawing(samples.document([made]), width)),
                )


class Page(unittest.TestCase):
    def test_is_one_whole_file(self) -> None:
        for made in SAMPLES:
            page = sample_page(made.__name__)
            elements = Elements(page)
            self.assertEqual(elements.open, [])
            for tag, attributes in elements.found:
                self.assertNotIn(tag, ("link", "img", "iframe", "image", "use"))
                self.assertNotIn("src", attributes)
            self.assertNotRegex(page, r"https?:|@import|url\(|xmlns|xlink")
            figures = re.findall(r"<svg.*?</svg>", page)
            self.assertEqual(len(figures), 2)
            # The colours are those of the page, in light and in dark.
            self.assertNotRegex("".join(figures), "#[0-9a-f]{6}")

    def test_has_all_rows(self) -> None:
        for made in SAMPLES:
            elements = Elements(sample_page(made.__name__))
            cells = [text for tag, text in elements.texts if tag == "th"]
            for row in made()["rows"]:
                self.assertIn(row["id"], cells)

    def test_says_what_limits_the_comparison(self) -> None:
        page = sample_page("hard")
        self.assertIn("The machine was busy at the start of 3.json", page)
        self.assertIn("codec write mmap in 4.json", page)
        self.assertIn("missing in 1 run", page)
        document = samples.three()
        difference = {"fact": "kernel", "file": "2.json", "expected": 1, "found": None}
        document["differences"] = [difference]
        self.assertIn("Kernel differs in 2.json.", page_of(document))
        busy = samples.against()
        busy["conditions"]["was_busy"] = True
        self.assertIn("The machine was so busy", page_of(busy))

    def test_nothing_in_a_comparison_becomes_markup(self) -> None:
        def hostile(member: str, text: str) -> str:
            if not text or member in ("kind", "verdict"):
                return text
            return text + HOSTILE

        for made in SAMPLES:
            if made is samples.many:
                continue
            page = page_of(with_strings(made(), hostile))
            elements = Elements(page)
            self.assertEqual(elements.open, [])
            plain = Elements(sample_page(made.__name__))
            for tag in ("script", "style"):
                self.assertEqual(
                    sum(found == tag for found, _ in elements.found),
                    sum(found == tag for found, _ in plain.found),
                )
            self.assertNotIn("<script src", page)
            self.assertIn("&lt;script src=//x onerror=y&gt;&amp;{{ 7*7 }}", page)


class Files(ReportTestCase):
    def report(
        self, *arguments: object, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run_command(
            [sys.executable, "-B", REPORTS / "report.py", *arguments], **environment
        )

    def test_same_bytes(self) -> None:
        outputs = []
        for made in (samples.hard, samples.against):
            file = self.directory / "comparison.json"
            file.write_text(json.dumps(made()))
            for seed in ("1", "2"):
                output = self.directory / made.__name__ / seed
                done = self.report(file, "-o", output, PYTHONHASHSEED=seed)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                outputs.append({one.name: one.read_bytes() for one in output.iterdir()})
        self.assertEqual(outputs[0], outputs[1])
        self.assertEqual(outputs[2], outputs[3])
        for written in outputs:
            self.assertEqual(
                sorted(written), ["comparison.png", "comparison.svg", "index.html"]
            )
            root = ElementTree.fromstring(written["comparison.svg"])
            self.assertEqual(root.tag, f"{{{canvas.SVG}}}svg")
            self.assertNotIn(b"var(", written["comparison.svg"])
            self.assertEqual(written["comparison.png"][:8], b"\x89PNG\r\n\x1a\n")

    def test_one_line_of_error(self) -> None:
        good = samples.three()
        other = copy.deepcopy(good)
        cases: list[tuple[object, str]] = [
            ("no json", "Expecting value"),
            ("[" * 100_000, "recursion"),
            ({**good, "kind": "floor"}, "not a result of kind"),
            ({**good, "schema_version": 2}, "not a result of kind"),
            (samples.document([]), "the comparison has no rows"),
            ({**samples.against(), "rows": []}, "the comparison has no rows"),
            ({**good, "rows": 7}, "incomplete"),
            ({**good, "threshold": None}, "not a fraction"),
            ({**good, "threshold": 1.5}, "not a fraction"),
        ]
        for member in ("rows", "missing", "old", "remarks"):
            cases.append(({key: good[key] for key in good if key != member}, member))
        for value in (
            0,
            -1,
            None,
            "1",
            True,
            float("nan"),
            float("inf"),
            1e300,
            10**400,
        ):
            other = copy.deepcopy(good)
            other["rows"][0]["judged"]["ratio"] = value
            cases.append((other, "number"))
        for low, high in ((2.0, 1.0), (0, 1), (-1, 1)):
            other = copy.deepcopy(good)
            other["rows"][0]["judged"].update(low=low, high=high)
            cases.append((other, "interval" if low > 0 else "ratio"))
        other = copy.deepcopy(good)
        other["rows"][0]["verdict"] = "pass\n" + "x" * 1000
        cases.append((other, "unknown verdict"))
        other = copy.deepcopy(good)
        other["rows"][0]["id"] = 7
        cases.append((other, "not a text"))
        for document, words in cases:
            with self.subTest(str(document)[:80]):
                with self.assertRaises(NotAResult) as caught:
                    page_of(document)
                said = str(caught.exception)
                self.assertIn(words.lower(), said.lower())
                self.assertIn("comparison.json: ", said)
                self.assertNotIn("\n", said)
                self.assertLess(len(said), 400)

    def test_statuses(self) -> None:
        good, bad = self.directory / "good.json", self.directory / "bad.json"
        good.write_text(json.dumps(samples.three()))
        bad.write_text(json.dumps(samples.document([])))
        output = self.directory / "out"
        for arguments, words in (
            ((bad,), "the comparison has no rows"),
            ((good, good), "rendered by itself"),
            ((self.directory / "absent",), "No such file"),
        ):
            done = self.report(*arguments, "-o", output)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertRegex(done.stderr, rf"\Areport\.py: [^\n]*{words}[^\n]*\n\Z")
        self.assertFalse(output.exists())


if __name__ == "__main__":
    unittest.main()
