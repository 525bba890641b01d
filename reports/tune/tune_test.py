"""The page of tzmark tune: the schema is strict, numbers are those of the result, answers are worded, same bytes."""

from __future__ import annotations

import json
import re
import subprocess
import unittest
from functools import cache

import jsonschema

import report
from bench import canvas, palette
from bench.bench_test import HOSTILE, LETTERS_MIN, REPORTS, BenchTest, numbers, page_of
from bench.figures import HALF, NARROW, WIDE
from common.outcomes import Json
from common.results import NotAResult
from testing.page_elements import Elements
from testing import tune_samples as samples
from testing.conformance_samples import with_strings
from testing.schema_strictness import objects_of, open_members
from tune import costs, frontier, maps, phases, selection, tables

# Members whose values the schema lists or shapes.
LISTED = {"kind", "started_at", "task", "cache", "verdict", "name", "pages"}
ALL = (
    samples.document,
    samples.small,
    samples.indifferent,
    samples.interrupted,
    samples.empty,
    samples.served,
)


@cache
def schema() -> Json:
    found: Json = json.loads((REPORTS / "schema/tune.schema.json").read_text())
    return found


@cache
def whole_page() -> str:
    return page_of(samples.document())


@cache
def small_page() -> str:
    return page_of(samples.small())


def words(markup: str) -> str:
    """Returns the text of markup, without that of figures."""
    markup = re.sub(r"<svg.*?</svg>", " ", markup, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", markup).split()).replace(" .", ".")


def head(page: str) -> str:
    return words(page[page.index("<header>") : page.index("</header>")])


def section(page: str, name: str) -> str:
    return page.split(f'<section id="{name}">')[1].split("</section>")[0]


def only_task(document: Json) -> Json:
    task: Json = document["tasks"][0]
    return task


class Schema(unittest.TestCase):
    def test_is_one(self) -> None:
        jsonschema.Draft202012Validator.check_schema(schema())

    def test_samples_are_of_it(self) -> None:
        for make in ALL:
            with self.subTest(make.__name__):
                jsonschema.validate(make(), schema())

    def test_is_strict(self) -> None:
        """Each object of a whole sample may lack none of its members and have no other."""
        whole = samples.small()
        task = only_task(whole)
        task["settings"] = task["settings"][:1]
        task["sustained"]["rates"] = [1.0]
        machine = whole["machine"]
        objects = [
            one
            for one in objects_of(whole)
            if one is not machine["versions"] and one is not machine["mitigations"]
        ]
        self.assertGreater(len(objects), 30)
        self.assertEqual(open_members(schema(), whole, objects), [])

    def test_what_may_be_null_is_strict_too(self) -> None:
        """The objects that are null elsewhere have no open end either."""
        found = []

        def visit(rule: object, place: str) -> None:
            if isinstance(rule, list):
                for index, one in enumerate(rule):
                    visit(one, f"{place}/{index}")
            if not isinstance(rule, dict):
                return
            kinds = rule.get("type", ())
            if "properties" in rule and "object" in (kinds, *kinds):
                if rule.get("additionalProperties") is not False:
                    found.append(place)
                missing = set(rule["properties"]) - set(rule.get("required", ()))
                # Results of 0.1.0 do not have it.
                if missing != ({"memory"} if place == "" else set()):
                    found.append(place)
            for name, one in rule.items():
                visit(one, f"{place}/{name}")

        visit(schema(), "")
        self.assertEqual(found, [])

    def test_machine_is_that_of_the_bench(self) -> None:
        of_bench = json.loads((REPORTS / "schema/bench.schema.json").read_text())
        for name in ("machine", "io_path"):
            self.assertEqual(schema()["$defs"][name], of_bench["$defs"][name])
        self.assertEqual(
            schema()["$defs"]["probe"]["properties"]["dirty"]["properties"],
            of_bench["$defs"]["machine"]["properties"]["vm"]["properties"],
        )

    def test_what_is_not_listed(self) -> None:
        def changed(part: str, member: str, value: object) -> Json:
            document = samples.small()
            at: Json = document
            for name in filter(None, part.split(".")):
                at = at[name][0] if isinstance(at[name], list) else at[name]
            at[member] = value
            return document

        for part, member, value in (
            ("", "kind", "bench"),
            ("", "schema_version", 2),
            ("", "started_at", "yesterday"),
            ("", "command", []),
            ("tasks", "task", "load"),
            ("tasks", "verdict", "faster"),
            ("tasks", "best", -1),
            ("tasks.settings", "pages", "huge "),
            ("tasks.settings", "queue_depth", 0),
            ("tasks.sustained", "verdict", "fast"),
            ("exports", "name", "dd"),
            ("advice", "task", "all"),
            ("model", "fits", []),
        ):
            with self.subTest(f"{part} {member}"):
                with self.assertRaises(jsonschema.ValidationError):
                    jsonschema.validate(changed(part, member, value), schema())


class Selection(unittest.TestCase):
    def test_frontier_rises(self) -> None:
        task = samples.document()["tasks"][1]
        line = selection.frontier(task)
        self.assertGreater(len(line), 3)
        for before, after in zip(line, line[1:]):
            self.assertLess(
                before["bytes_in_flight_bytes"], after["bytes_in_flight_bytes"]
            )
            self.assertLess(selection.median_of(before), selection.median_of(after))
        for _, one in selection.measured(task):
            if one["rate"]["low"] is None:
                continue
            beaten = [
                other
                for other in line
                if other["bytes_in_flight_bytes"] <= one["bytes_in_flight_bytes"]
                and selection.median_of(other) >= selection.median_of(one)
            ]
            self.assertTrue(beaten)

    def test_frontier_ignores_the_luck_of_few_samples(self) -> None:
        judged = samples.setting("direct", 4096, 4, samples=[1e9] * 8)
        lucky = samples.setting("direct", 4096, 1, samples=[9e9] * 2)
        task = {"settings": [judged, lucky]}
        self.assertEqual(selection.frontier(task), [judged])
        self.assertEqual(selection.frontier({"settings": [lucky]}), [lucky])

    def test_map_shows_the_fastest_of_a_cell_and_all_roles(self) -> None:
        rows = [
            samples.setting("direct", 4096, 1, threads, samples=[rate] * 8)
            for threads, rate in ((1, 1e9), (2, 3e9), (4, 2e9))
        ]
        rows.append(samples.setting("direct", 8192, 1, samples=[1e9] * 8))
        rows.append(samples.setting("mmap", 8192, 1, samples=[5e9] * 8))
        rows.append(samples.setting("uring", 8192, 1, failed="no"))
        rows[2]["is_tie"] = True
        task = {**only_task(samples.small()), "settings": rows}
        task.update(recommended=2, best=1, least_in_flight=3, default=None)
        (chart,), alone = maps.of_task(task)
        cell = chart.cells[4096, 1]
        self.assertIs(cell.setting, rows[1])
        self.assertTrue(cell.is_tie)
        self.assertEqual(cell.letters, "B R")
        self.assertEqual(chart.cells[8192, 1].letters, "L")
        self.assertEqual(alone, [rows[4]])

    def test_interval_in_a_cell_is_the_longest_form_that_fits(self) -> None:
        rate = {"median": 1e9, "low": 0.98e9, "high": 1.01e9, "samples": 9}
        self.assertEqual(maps.spread(rate, 200), "0.98–1.01")
        self.assertEqual(maps.spread(rate, 40), "±2%")
        self.assertEqual(maps.spread(rate, 5), "")
        few = {"median": 1e9, "low": None, "high": None, "samples": 2}
        self.assertEqual(maps.spread(few, 200), "n 2")

    def test_ticks_of_memory_do_not_meet(self) -> None:
        for width in (NARROW, WIDE):
            axis = frontier.Memory(40, width, 4096, 1 << 33)
            ends = 0.0
            found = list(axis.ticks(8))
            self.assertGreater(len(found), 3)
            for size in found:
                half = canvas.text_width(report.units.size(size), canvas.SMALL) / 2
                self.assertGreater(axis.at(size) - half, ends)
                ends = axis.at(size) + half
            self.assertLessEqual(ends, width)


class Words(unittest.TestCase):
    def test_percentages(self) -> None:
        for value, text in (
            (0.1234, "12"),
            (0.0312, "3.1"),
            (-0.0312, "−3.1"),
            (-0.0001, "0.0"),
            (0.0996, "10"),
            (-0.27, "−27"),
        ):
            self.assertEqual(tables.percent(value), text)

    def test_ratios(self) -> None:
        for value, text in ((0.9967, "0.997"), (1.5, "1.500"), (22.76, "22.8")):
            self.assertEqual(tables.ratio_text(value), text)

    def test_what_the_default_loses(self) -> None:
        base = only_task(samples.small())
        rows: tuple[tuple[Json, str], ...] = (
            ({}, "slower"),
            ({"default_loses": samples.interval(0.0)}, "tie"),
            (
                {"default_loses": samples.interval(0.0), "verdict": "undecided"},
                "likely",
            ),
            ({"default_loses": samples.interval(-0.1)}, "faster"),
            ({"default_loses": {"estimate": 0.1, "low": None, "high": None}}, "guess"),
            ({"default_loses": None}, "unknown"),
            ({"default": base["recommended"]}, "itself"),
            ({"recommended": None}, "unknown"),
            ({"default": None}, "unknown"),
        )
        for change, state in rows:
            with self.subTest(f"{change}"):
                self.assertEqual(tables.default_state({**base, **change}), state)

    def test_default_on_the_page(self) -> None:
        for loses, said in (
            (samples.interval(0.27), "huge pages ) loses 27 % [ 26 , 28 ]."),
            (
                samples.interval(0.0, 0.01),
                "The default ties: it loses 0.0 % [ −1.0 , 1.0 ].",
            ),
            (samples.interval(-0.05, 0.01), "it loses −5.0 % [ −6.0 , −4.0 ]."),
            (
                {"estimate": 0.1, "low": None, "high": None},
                "loses about 10 % (no interval): too few pairs to be sure.",
            ),
            (None, "What the default loses was not measured."),
        ):
            document = samples.small()
            only_task(document)["default_loses"] = loses
            with self.subTest(said):
                self.assertIn(said, head(page_of(document)))

    def test_verdicts(self) -> None:
        task = only_task(samples.small())
        count = len(selection.measured(task))
        for name, said in (
            ("a setting is best", f"No other of {count} settings ties"),
            ("settings tie", f"2 of {count} settings tie with the fastest"),
            ("nothing matters", f"Nothing matters: none of {count} settings is faster"),
            ("undecided", "Undecided: the time did not suffice"),
        ):
            self.assertIn(said, tables.verdict({**task, "verdict": name}))

    def test_confirmation(self) -> None:
        task = only_task(samples.small())
        task["confirmation"] = [
            {"setting": 0, "against": 1, "ratio": ratio, "pairs": 9}
            for ratio in (
                samples.interval(1.5),
                samples.interval(0.8),
                samples.interval(1.0),
                {"estimate": 2.0, "low": None, "high": None},
            )
        ]
        rows = tables.confirmations(task)
        self.assertEqual(
            [row["verdict"] for row in rows], ["faster", "slower", "tie", "undecided"]
        )
        self.assertIsNone(rows[3]["plot"])
        for row in rows[:3]:
            plot = row["plot"]
            self.assertGreaterEqual(plot["low"], 0)
            self.assertLessEqual(plot["low"] + plot["width"], 100.1)
        self.assertGreater(rows[0]["plot"]["median"], 50)
        self.assertLess(rows[1]["plot"]["median"], 50)

    def test_parts_of_a_prediction_are_its_time(self) -> None:
        model = samples.document()["model"]
        for chart in costs.of_model(model):
            for one in chart.predictions:
                self.assertAlmostEqual(sum(chart.parts(one)), one["seconds"], 6)
        self.assertEqual(costs.of_model(None), [])
        self.assertEqual(costs.of_model({**model, "predictions": []}), [])

    def test_errors_of_a_fit(self) -> None:
        fit = {**samples.document()["model"]["fits"][0], "open_s": 1.0}
        fit.update(per_tensor_s=0.5, per_byte_s=0.25)
        fit["points"] = [{"workload": "a", "tensors": 2, "bytes": 8, "seconds": 5.0}]
        ((point,),) = [row["points"] for row in tables.fits({"fits": [fit]})]
        self.assertEqual(point["fitted"], 4.0)
        self.assertAlmostEqual(point["error"], -0.2)


class Page(BenchTest):
    def test_is_one_whole_file(self) -> None:
        for make in ALL:
            with self.subTest(make.__name__):
                page = self.page(make())
                self.assert_whole(page)
                self.assertNotIn("None", words(page))

    def test_numbers_are_those_of_the_result(self) -> None:
        document = samples.document()
        found = numbers(whole_page())
        for task in document["tasks"]:
            for one in task["settings"]:
                if one["rate"]:
                    wanted = {one["rate"][side] for side in ("median", "low", "high")}
                    self.assertLessEqual(wanted - {None}, found)
                    self.assertIn(one["cpu_seconds_per_gb"], found)
            for ratio in (
                task["default_loses"],
                *(row["ratio"] for row in task["confirmation"]),
            ):
                self.assertLessEqual(set(ratio.values()), found)
            self.assertLessEqual(
                {task["ceiling"]["rate"], task["ceiling"]["share"]}, found
            )
            for row in task["ceiling"]["measured"]:
                self.assertIn(row["rate"]["median"], found)
        for one in document["model"]["predictions"]:
            self.assertLessEqual(
                {one[side] for side in ("seconds", "low", "high")}, found
            )
        for one in document["advice"]:
            if one["effect"]:
                self.assertLessEqual(set(one["effect"].values()), found)

    def test_begins_with_the_answers(self) -> None:
        document = samples.document()
        text = head(whole_page())
        self.assertIn("This is a virtual machine", text)
        for task in document["tasks"]:
            chosen = selection.chosen(task, "recommended")
            assert chosen
            rate = report.units.rate(chosen["rate"]["median"])
            said = f"{selection.title(task)} {chosen['io']} {selection.label(chosen)} {rate} GB/s"
            self.assertIn(said, text)
            least = selection.chosen(task, "least_in_flight")
            assert least
            size = report.units.size(least["bytes_in_flight_bytes"])
            self.assertIn(f"{size} in flight reach 95 % of the fastest", text)
            self.assertIn(f"Limit: {task['ceiling']['name']} ,", text)
        self.assertIn("slower from 34 s on", text)
        self.assertEqual(text.count("Sustained for 60 s: steady"), 2)
        self.assertIn("--profile FILE", text)

    def test_letters_can_be_read(self) -> None:
        sizes = re.findall(r"font-size: ([\d.]+)px", whole_page())
        self.assertGreater(len(sizes), 100)
        self.assertGreaterEqual(min(map(float, sizes)), LETTERS_MIN)

    def test_figures_have_the_colours_of_the_page(self) -> None:
        figures = "".join(re.findall(r"<svg.*?</svg>", whole_page()))
        self.assertNotIn("#", figures)
        for variable in set(re.findall(r"var\((--f-[\w-]+)\)", figures)):
            # In light and in dark.
            self.assertEqual(whole_page().count(f"{variable}: #"), 2)

    def test_figures_are_described(self) -> None:
        """Those who do not see a figure hear its content."""
        elements = Elements(whole_page())
        figures = [found for tag, found in elements.found if tag == "svg"]
        self.assertGreater(len(figures), 20)
        for found in figures:
            self.assertEqual(found["role"], "img")
            self.assertRegex(found["aria-label"], r"\d")
        labels = " ".join(found["aria-label"] for found in figures)
        for part in (
            "throughput by block size and queue depth: fastest at",
            "the most GB/s for the bytes in flight",
            "not steady; fell by 34 % after 34 s",
            "mixtral-8x7b",
        ):
            self.assertIn(part, labels)
        for tag, found in elements.found:
            if tag == "pre":
                self.assertTrue(found.get("aria-label"))

    def test_ties_are_outlined(self) -> None:
        """One outline for each cell of a map with a tie, and none elsewhere."""
        task = only_task(samples.small())
        for chart in maps.of_task(task)[0]:
            ties = sum(cell.is_tie for cell in chart.cells.values())
            drawing = maps.draw(chart, HALF, 0, 1e9).inline()
            self.assertEqual(drawing.count("stroke: var(--f-ink)"), ties)

    def test_letters_of_roles_are_in_the_maps(self) -> None:
        page = section(whole_page(), "maps")
        for letter in "RBLD":
            self.assertRegex(page, rf">(?:[RBLD] )*{letter}(?: [RBLD])*</text>")

    def test_settings_with_an_interval_have_whiskers(self) -> None:
        document = samples.small()
        task = only_task(document)
        chart = frontier.of_task(task, frontier.path_colours(document))
        assert chart
        drawing = frontier.draw(chart, WIDE).inline()
        judged = [one for one in chart.settings if one["rate"]["low"] is not None]
        self.assertLess(len(judged), len(chart.settings))
        whiskers = re.findall(
            r"stroke: var\(--f-ink\); stroke-width: 1.2|stroke-width: 1.2; stroke: var\(--f-ink\)",
            drawing,
        )
        self.assertEqual(len(whiskers), 3 * len(judged))
        for _, name in chart.named:
            self.assertIn(f">{name}</text>", drawing)

    def test_sustained_phase(self) -> None:
        document = samples.document()
        colours = frontier.path_colours(document)
        lasting, falling = (
            phases.of_task(document["tasks"][index], colours) for index in (0, 2)
        )
        assert lasting and falling
        drawn = phases.draw(falling, NARROW).inline()
        self.assertIn(">slower from 34 s</text>", drawn)
        self.assertNotIn("slower", phases.draw(lasting, NARROW).inline())
        # The line is where the rate falls.
        ends = [float(x) for x in re.findall(r'd="M ([\d.]+) [\d.]+ L \1 ', drawn)]
        (began,) = ends
        ticks = dict(
            (name, float(x))
            for x, name in re.findall(r'x="([\d.]+)"[^>]*>(0|60)</text>', drawn)
        )
        left, right = ticks["0"], ticks["60"]
        self.assertGreater(right, left)
        self.assertAlmostEqual((began - left) / (right - left), 34 / 60, delta=0.03)
        quiet = {**document["tasks"][0], "sustained": None}
        self.assertIsNone(phases.of_task(quiet, colours))

    def test_advice_and_exports_are_copied_as_they_are(self) -> None:
        document = samples.document()
        elements = Elements(whole_page())
        blocks = re.findall(r"<pre[^>]*>(.*?)</pre>", whole_page(), re.DOTALL)
        for one in document["advice"]:
            if one["command"]:
                self.assertIn(one["command"].replace(">", "&gt;"), blocks)
        for one in document["exports"]:
            self.assertIn(one["text"].replace('"', "&#34;"), blocks)
            for lost in one["lost"]:
                self.assertIn(("li", f"Lost: {lost}"), elements.texts)
        text = words(section(whole_page(), "advice"))
        self.assertIn(
            "Needs root. Load from the device: the effect was not measured", text
        )
        self.assertIn(
            "Needs no root. Load from the page cache: measured effect 1.064 [ 1.052 , 1.076 ]",
            text,
        )

    def test_advice_of_several_tasks_is_told_once(self) -> None:
        document = samples.small()
        (advice,) = document["advice"]
        other = {**advice, "task": "load-warm", "effect": None}
        document["advice"].append(other)
        page = section(self.page(document), "advice")
        self.assertEqual(page.count("<h3>"), 1)
        self.assertIn("Load from the device: measured effect 1.064", words(page))
        self.assertIn("Load from the page cache: the effect was not", words(page))

    def test_the_rate_that_limits_is_marked(self) -> None:
        names = ("raw uring", "device, 2 MiB in flight", "memory copy", "codec")
        for ceiling, marked in (
            ("device", "device, 2 MiB in flight"),
            ("memory copy", "memory copy"),
            ("path", "raw uring"),
            ("processor", "raw uring"),
            ("bytes in flight", None),
        ):
            task = only_task(samples.small())
            rate = task["ceiling"]["measured"][0]["rate"]
            rows = [{"name": name, "rate": rate} for name in names]
            task["ceiling"].update(name=ceiling, measured=rows)
            found = [row["name"] for row in tables.ceilings(task) if row["binds"]]
            self.assertEqual(found, [marked] if marked else [])

    def test_a_server_has_no_probe(self) -> None:
        page = self.page(samples.served())
        self.assertIn("Load from the server", words(page))
        storage = words(section(page, "storage"))
        self.assertIn("s3://models/llama/model.tensors", storage)
        self.assertIn("whose state is not known", storage)
        self.assertNotIn("GPUDirect", storage)

    def test_nothing_matters(self) -> None:
        page = self.page(samples.indifferent())
        text = head(page)
        self.assertIn(
            "Nothing matters: none of 121 settings is faster than the default.", text
        )
        self.assertIn("The default is the recommended setting.", text)
        self.assertIn("The limit was not measured.", text)
        self.assertIn("the option is --sustain 60s", words(section(page, "sustained")))
        self.assertIn("Nothing to change was found", section(page, "advice"))
        self.assertNotIn("--profile", text)

    def test_cut_short(self) -> None:
        document = samples.interrupted()
        page = self.page(document)
        text = head(page)
        medians = [
            selection.median_of(one)
            for _, one in selection.measured(only_task(document))
        ]
        self.assertIn("Incomplete.", text)
        self.assertIn("Interrupted: the answer is missing.", text)
        self.assertIn("No answer Fastest until the end, not confirmed:", text)
        rate = report.units.rate(max(medians))
        self.assertIn(f"{rate} GB/s no interval, n=2", text)
        self.assertIn("<svg", section(page, "maps"))
        self.assertIn("Not reached.", section(page, "advice"))
        for name in ("confirmation", "sustained", "limits", "model", "exports"):
            self.assertNotIn("<svg", section(page, name))
            self.assertIn('class="empty box"', section(page, name))

    def test_undecided_with_a_setting(self) -> None:
        """Out of time, tune keeps the default and makes no claim about memory."""
        document = samples.interrupted()
        task = only_task(document)
        task.update(best=1, recommended=0, least_in_flight=1)
        jsonschema.validate(document, schema())
        text = head(self.page(document))
        self.assertIn("GB/s no interval, n=2 Undecided: the time", text)
        self.assertIn("The default is the recommended setting.", text)
        self.assertNotIn("in flight reach", text)

    def test_before_the_first_task(self) -> None:
        page = self.page(samples.empty())
        self.assertIn("No task was begun.", head(page))
        self.assertNotIn("<svg", page)
        self.assertIn("Readahead", section(page, "storage"))

    def test_a_task_of_which_nothing_works(self) -> None:
        document = samples.interrupted()
        task = only_task(document)
        task["settings"] = task["settings"][-1:]
        task["default"] = None
        jsonschema.validate(document, schema())
        page = self.page(document)
        self.assert_whole(page)
        self.assertIn("uring-sqpoll", section(page, "maps"))
        task["settings"] = []
        self.assert_whole(self.page(document))

    def test_settings_are_the_fastest_first(self) -> None:
        rows = tables.settings(samples.document()["tasks"][0])
        rates = [
            selection.median_of(row["setting"])
            for row in rows
            if row["setting"]["rate"]
        ]
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.assertIsNotNone(rows[-1]["setting"]["failed"])

    def test_unknown_paths_have_colours(self) -> None:
        document = samples.small()
        for one in only_task(document)["settings"]:
            one["io"] = f"new-{one['io']}"
        colours = frontier.path_colours(document)
        self.assertEqual(len(set(colours.values())), len(colours))
        self.assertLessEqual(set(colours.values()), set(palette.COLOURS))
        self.assert_whole(self.page(document))

    def test_nothing_in_a_result_becomes_markup(self) -> None:
        def hostile(member: str, text: str) -> str:
            return text + HOSTILE if text and member not in LISTED else text

        page = self.page(with_strings(samples.small(), hostile))
        elements = Elements(page)
        self.assertEqual(elements.open, [])
        self.assertEqual(
            sum(tag == "script" for tag, _ in elements.found),
            sum(tag == "script" for tag, _ in Elements(small_page()).found),
        )
        self.assertNotIn("<script src", page)
        self.assertIn("&lt;script src=//x onerror=y&gt;&amp;{{ 7*7 }}", page)


class Files(BenchTest):
    def test_figures_lie_beside_the_page(self) -> None:
        output = self.directory / "out"
        done = self.run_bench(*self.written((samples.small(),)), "-o", output)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = {file.name for file in output.iterdir()}
        for stem in (
            "frontier-load-cold",
            "map-load-cold-direct",
            "predictions-load-cold",
            "sustained-load-cold",
        ):
            self.assertLessEqual({f"{stem}.png", f"{stem}.svg"}, names)
        page = (output / "index.html").read_text(encoding="utf-8")
        named = set(re.findall(r'href="([\w-]+\.(?:svg|png))"', page))
        self.assertEqual(named, names - {"index.html"})

    def test_figures_have_names_of_their_own(self) -> None:
        """Although names of paths may differ only in what a file name does not have."""
        document = samples.small()
        for one, name in zip(only_task(document)["settings"], ("a b", "a-b") * 9):
            one["io"] = name
        written = report.output(self.written((document,)))
        maps_of = [name for name in written if re.match(r"map-.*\.svg", name)]
        self.assertEqual(len(maps_of), 2)

    def test_same_bytes(self) -> None:
        files = self.written((samples.small(),))
        found = []
        for seed in ("1", "2"):
            output = self.directory / seed
            done = self.run_bench(*files, "-o", output, PYTHONHASHSEED=seed)
            self.assertEqual(done.returncode, 0, done.stderr)
            found.append({file.name: file.read_bytes() for file in output.iterdir()})
        self.assertEqual(*found)

    def test_samples_depend_on_the_seed_only(self) -> None:
        self.assertEqual(samples.document(4), samples.document(4))
        self.assertNotEqual(samples.document(4), samples.document(5))


class Refusals(BenchTest):
    def test_is_rendered_by_itself(self) -> None:
        with self.assertRaisesRegex(
            NotAResult, "a result of tune is rendered by itself"
        ):
            self.page(samples.empty(), samples.empty())

    def test_what_misses_a_member(self) -> None:
        for member in ("machine", "probe", "tasks", "advice", "exports", "is_complete"):
            document = samples.small()
            del document[member]
            with self.subTest(member), self.assertRaises(NotAResult):
                self.page(document)
        for member in ("settings", "verdict", "confirmation", "sustained", "default"):
            document = samples.small()
            del only_task(document)[member]
            with self.subTest(member), self.assertRaises(NotAResult):
                self.page(document)

    def test_an_index_beyond_the_settings(self) -> None:
        document = samples.small()
        only_task(document)["recommended"] = 9999
        with self.assertRaises(NotAResult):
            self.page(document)

    def test_numbers_that_no_run_writes(self) -> None:
        document = samples.small()
        for one in only_task(document)["settings"]:
            if one["rate"]:
                one["rate"].update(median=0.0, low=0.0, high=0.0)
        with self.assertRaises(NotAResult):
            self.page(document)
        document = samples.small()
        only_task(document)["settings"][0]["bytes_in_flight_bytes"] = float("inf")
        with self.assertRaises(NotAResult):
            self.page(document)

    def test_another_version(self) -> None:
        with self.assertRaises(NotAResult):
            self.page({**samples.empty(), "schema_version": 2})


class Script(BenchTest):
    def test_takes_a_result_of_tune(self) -> None:
        (self.directory / "tune.json").write_text(json.dumps(samples.empty()))
        done = subprocess.run(
            [REPORTS.parent / "scripts" / "report", "tune.json", "-o", "page"],
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(
            "tzmark tune", (self.directory / "page" / "index.html").read_text()
        )


if __name__ == "__main__":
    unittest.main()
