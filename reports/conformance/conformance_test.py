"""The pages and the merged document: nothing gets out of its place, folding, same bytes, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import unittest
import warnings
from pathlib import Path

import jsonschema

import render
from common.outcomes import Json
from common.results import NotAResult
from conformance import matrix_page, single_page
from conformance.rule_grid import section_order
from testing import conformance_samples as sample
from testing.page_elements import Elements
from testing.report_test_case import ReportTestCase

REPORTS = Path(__file__).resolve().parents[1]
RENDER = (sys.executable, "-B", REPORTS / "render.py")
HOSTILE = "\"'><script src=//x onerror=y>&{{ 7*7 }}</style></script>"
# Members whose values the schema lists; all others can hold anything.
LISTED = {
    *("schema", "outcome", "verdict", "command", "operation", "kind", "end"),
    "shape",
}


def run_with_policy() -> Json:
    """A result whose only case was accepted against a policy."""
    magic = sample.case("magic", ["TZR-HDR-002"], "malformed")
    result = sample.result([sample.against_policy(magic)])
    result["options"] |= sample.REQUIRED
    return result


class RenderTest(ReportTestCase):
    def run_render(
        self, command: str, *documents: object, **environment: str
    ) -> tuple[subprocess.CompletedProcess[str], Path]:
        output = self.directory / "output"
        output.unlink(missing_ok=True)
        run = self.run_command(
            [*RENDER, command, *self.written(documents), "-o", output],
            **environment,
        )
        return run, output

    def rendered(self, command: str, *documents: object) -> str:
        return render.output(command, self.written(documents), None)

    def page(self, *documents: object) -> str:
        return self.rendered("conformance", *documents)

    def matrix(self, *documents: object) -> Json:
        merged: Json = json.loads(self.rendered("matrix", *documents))
        return merged


CHOICE = "Open choice <code>refusal</code>: A reader may refuse this."
REQUIREMENT = "The run requires <code>refusal=reject</code>."


class Samples(unittest.TestCase):
    def test_are_what_the_runner_writes(self) -> None:
        schema = json.loads((REPORTS / "schema/conformance.schema.json").read_text())
        jsonschema.validate(sample.result(sample.every_kind()), schema)
        jsonschema.validate(run_with_policy(), schema)


class AnyPage(RenderTest):
    """What holds for the page of one result holds for that of several."""

    def pages(self, result: Json) -> dict[str, str]:
        other = sample.result([sample.skipped(case) for case in result["cases"]])
        other["rules"] = result["rules"]
        other["corpus"] = result["corpus"]
        return {"one": self.page(result), "several": self.page(result, other)}

    def test_is_one_whole_file(self) -> None:
        for kind, page in self.pages(sample.result(sample.every_kind())).items():
            with self.subTest(kind):
                elements = Elements(page)
                self.assertEqual(elements.open, [])
                for tag, attributes in elements.found:
                    self.assertNotIn(tag, ("link", "img", "iframe"))
                    self.assertNotIn("src", attributes)
                self.assertNotRegex(page, r"https?://|@import|url\(")
                ids = [
                    attributes["id"]
                    for _, attributes in elements.found
                    if "id" in attributes
                ]
                self.assertEqual(len(ids), len(set(ids)))
                targets = [
                    attributes["href"][1:]
                    for tag, attributes in elements.found
                    if tag == "a"
                ]
                self.assertTrue(targets)
                self.assertLessEqual(set(targets), set(ids))

    def test_nothing_in_a_result_becomes_markup(self) -> None:
        def hostile(member: str, text: str) -> str:
            return text + HOSTILE if text and member not in LISTED else text

        tame = sample.result(sample.every_kind())
        wild = sample.with_strings(tame, hostile)
        assert isinstance(wild, dict)
        wild["known_problems"] = [HOSTILE]
        tame["known_problems"] = ["gone"]
        wild["adapter"]["stale_exclusions"] = [HOSTILE]
        tame["adapter"]["stale_exclusions"] = ["gone"]
        pages = self.pages(tame)
        for kind, page in self.pages(wild).items():
            with self.subTest(kind):
                elements = Elements(page)
                self.assertEqual(elements.open, [])
                # The same elements with the same attributes, so that not one comes from the text.
                for got, wanted in zip(
                    elements.shape(), Elements(pages[kind]).shape(), strict=True
                ):
                    self.assertEqual(got, wanted)
                self.assertFalse("<script src" in page)
                self.assertIn("&lt;script src=//x onerror=y&gt;&amp;{{ 7*7 }}", page)

    def test_shows_what_explains_a_failure(self) -> None:
        for kind, page in self.pages(sample.result(sample.every_kind())).items():
            with self.subTest(kind):
                self.assertIn("The text of TZR-HDR-002.", page)
                self.assertIn("the magic is another", page)
                self.assertIn("index entry 4: offset of the header", page)
                self.assertIn("/tensors/0/shape/0", page)
                self.assertIn("adapter decode magic.tensors", page)
                self.assertIn("Traceback\nlast", page)
                self.assertIn("Known: as is well known", page)
                self.assertIn("In the file that it wrote", page)
                marked = Elements(page).of_class("marked")
                # Four failures have annotated bytes; one byte of each is the defect.
                self.assertEqual(len(marked), 4)

    def test_says_in_which_shape_a_case_failed(self) -> None:
        failed = sample.misread_in_pieces(sample.case("pieces", ["TZR-IDX-001"]))
        for kind, page in self.pages(sample.result([failed])).items():
            with self.subTest(kind):
                self.assertIn("decode (short-reads)", page)

    def test_shows_known_failures_and_other_rules_apart(self) -> None:
        for kind, page in self.pages(sample.result(sample.every_kind())).items():
            with self.subTest(kind):
                failures = (
                    page.index("<h3>Failures")
                    if kind == "one"
                    else page.index(">Failures <")
                )
                known = page.index(">Known failures <")
                self.assertLess(failures, known)
                self.assertLess(page.index('id="magic"'), known)
                self.assertLess(known, page.index('id="magic-known"'))
                self.assertLess(
                    page.index('id="magic-known"'), page.index('id="count"')
                )
                cells = Elements(page).of_class("cell")
                self.assertTrue(
                    [cell for cell in cells if "x" in cell["class"].split()]
                )

    def test_rules_without_a_text_are_shown(self) -> None:
        result = sample.result(sample.every_kind())
        result["rules"] = {}
        for kind, page in self.pages(result).items():
            with self.subTest(kind):
                self.assertIn("The corpus has no text for this rule.", page)

    def test_long_names_stand_upright(self) -> None:
        result = sample.result(sample.every_kind())
        for name, classes in (("tensorizer", ""), ("safetensors", " upright long")):
            result["adapter"]["profile"]["name"] = name
            page = self.pages(result)["several"]
            self.assertIn(f'class="line heads{classes}"', page)

    def test_rules_of_another_format_are_left_out(self) -> None:
        result = sample.result(sample.every_kind())
        result["cases"][0]["rules"].append("ST-001")
        for kind, page in self.pages(result).items():
            with self.subTest(kind):
                self.assertNotIn("ST-001", page)
                self.assertNotIn("The corpus has no text for this rule.", page)

    def test_does_not_depend_on_the_process(self) -> None:
        result = sample.result(sample.every_kind())
        for command in ("conformance", "matrix"):
            outputs = set()
            for seed in ("1", "2", "3"):
                run, output = self.run_render(
                    command, result, result, PYTHONHASHSEED=seed
                )
                self.assertEqual((run.returncode, run.stderr), (0, ""))
                outputs.add(output.read_bytes())
            self.assertEqual(len(outputs), 1)


class OneResult(RenderTest):
    def test_counts_by_input_mode_if_there_are_several(self) -> None:
        result = sample.result(sample.every_kind())
        self.assertNotIn("<dt>Input modes</dt>", self.page(result))
        result["shapes"].append(
            {"shape": "pipe", "passed": 3, "failed": 1, "skipped": 2}
        )
        page = self.page(result)
        self.assertIn("pipe: 3 passed, 1 failed, 2 skipped; seed 20", page)

    def test_worst_come_first(self) -> None:
        page = self.page(sample.result(list(reversed(sample.every_kind()))))
        outcomes = [
            attributes["data-outcome"]
            for attributes in Elements(page).of_class("case")
            if attributes["id"] != "magic-known"
        ]
        self.assertEqual(
            outcomes,
            ["wrong-data", "wrong-data", "crash", "accepted-invalid", "pass", "pass"]
            + ["implementation-defined", "skipped"],
        )

    def test_has_a_filter_for_each_shade_that_came(self) -> None:
        page = self.page(sample.result(sample.every_kind()[2:7]))
        filters = set(re.findall(r'<label for="(failed|show)-([a-z-]+)"', page))
        self.assertEqual(
            filters,
            {("failed", name) for name in ("all", "wrong-data", "accepted-invalid")}
            | {
                ("show", name)
                for name in ("all", "other-rule", "implementation-defined")
            },
        )
        one_shade = self.page(sample.result(sample.every_kind()[2:3]))
        self.assertNotIn("<label", one_shade)

    def test_failures_come_first_with_a_link_from_the_headline(self) -> None:
        page = self.page(sample.result(list(reversed(sample.every_kind()))))
        elements = Elements(page)
        sections = [
            attributes["id"].removeprefix("section-")
            for tag, attributes in elements.found
            if tag == "section"
        ]
        self.assertEqual(sections, ["failures", "features", "rules", "others", "run"])
        self.assertIn(
            '<a href="#section-failures"><b>5 of 8</b> cases fail</a>; 1 of them', page
        )
        failures = page[
            page.index('id="section-failures"') : page.index('id="section-features"')
        ]
        ids = {each["id"] for each in Elements(failures).of_class("case")}
        self.assertEqual(
            ids, {"shape", "name", "magic", "magic-known", "encode-lowest"}
        )
        plain = self.page(sample.result(sample.every_kind()[-1:]))
        self.assertNotIn("section-failures", plain)

    def test_every_failed_command_is_told_in_order(self) -> None:
        """The worst failure, here the hang, does not show that the reader misses a check."""
        item = sample.accepted(sample.case("flag", ["TZR-HDR-002"], "malformed"))
        hang = sample.no_answer("took 140000 bytes and still did not refuse")
        item["outcome"], item["reason"] = "hang", "stream: took 140000 bytes"
        item["steps"].append(sample.step("stream", "hang", hang, reason=hang["text"]))
        page = self.page(sample.result([item]))
        self.assertIn(
            '<span class="why-failed"><span>decode, verify:</span> accepted, but is malformed</span>\n'
            '<span class="why-failed"><span>stream:</span> took 140000 bytes and still did not refuse</span>',
            page,
        )

    def test_an_open_choice_has_its_name_and_what_the_run_required(self) -> None:
        magic = sample.case("magic", ["TZR-HDR-002"], "malformed")
        page = self.page(sample.result([sample.chosen(magic, "accepted")]))
        self.assertIn(f"<p>{CHOICE} This implementation: accepted.</p>", page)
        for text in (REQUIREMENT, "Policies", "settled by policy"):
            self.assertNotIn(text, page)
        result = run_with_policy()
        page = self.page(result)
        self.assertIn(f"<p>{CHOICE} {REQUIREMENT}</p>", page)
        self.assertIn("<dt>Policies</dt><dd><code>refusal=reject</code></dd>", page)
        self.assertIn(
            '<a href="#section-run">1 open choice</a> settled by policy.', page
        )
        result["options"] |= {
            "strict": True,
            "policies": {"b": "accept", "a": "reject"},
        }
        page = self.page(result)
        self.assertIn(
            "<code>a=reject</code>, <code>b=accept</code> (<code>--strict</code>", page
        )
        self.assertIn("2 open choices</a> settled by policy (strict).", page)
        # An older result has neither.
        for member in ("choice_name", "policy"):
            del result["cases"][0][member]
        for member in ("strict", "policies"):
            del result["options"][member]
        page = self.page(result)
        self.assertIn("<p>Open choice: A reader may refuse this.</p>", page)
        self.assertNotIn("Policies", page)

    def test_the_limit_is_beside_the_memory_used(self) -> None:
        result = sample.result([sample.case("plain", ["TZR-HDR-001"])])
        self.assertIn("8.0 MiB (limit 72.0 MiB)", self.page(result))
        for each in result["cases"][0]["steps"]:
            del each["process"]["rss_max_bytes"]
        self.assertIn("8.0 MiB</dd>", self.page(result), "a result without limits")

    def test_a_pass_has_no_colour(self) -> None:
        page = self.page(sample.result(sample.every_kind()))
        style = page[page.index("<style>") : page.index("</style>")]
        for shade in ("p", "i"):
            # The last definition counts.
            values = re.findall(rf"--{shade}: ([^;]+);", style)
            self.assertEqual(values[-1], "var(--soft)")

    def test_counts_refusals_for_another_rule_once(self) -> None:
        """A case that fails, or that leaves a choice, does not count as one that is refused for another rule."""
        plain = sample.case("plain", ["TZR-HDR-001"], "malformed")
        cases = [
            sample.for_another_rule({**plain, "id": f"other-{n}"}) for n in range(2)
        ]
        failed = sample.accepted({**plain, "id": "failed"})
        failed["steps"].append(
            sample.step(
                "stream", "pass", sample.rejected("TZR-X-1"), cites_other_rule=True
            )
        )
        page = self.page(sample.result([*cases, failed]))
        self.assertIn("2 cases pass so.", page)
        self.assertIn('<li class="x"><b>2</b> other-rule</li>', page)

    def test_rules_that_a_valid_case_merely_exercises_are_not_red(self) -> None:
        rules = ["TZR-HDR-001", "TZR-HDR-002", "TZR-IDX-001"]
        for named, red in (
            (None, []),
            ("TZR-IDX-001", ["TZR-IDX-001"]),
            ("TZR-CRY-001", []),
        ):
            item = sample.wrong_data(sample.case("upstream", rules))
            if named:
                explained = {**sample.explanation(), "rule": named}
                item["steps"][0]["explanation"] = explained
            sections = single_page.view(sample.result([item]))["sections"]
            codes = {
                rule: row.cells[0].code
                for section in sections
                for row in section.rows
                for rule, _ in row.rules
            }
            with self.subTest(named):
                self.assertEqual(
                    codes, {rule: "w" if rule in red else "e" for rule in rules}
                )
        # A file that has to be refused is about all of its rules, and a single rule is what a valid file is about.
        for item in (
            sample.accepted(sample.case("bad", rules, "malformed")),
            sample.wrong_data(sample.case("one", rules[:1])),
        ):
            page = self.page(sample.result([item]))
            self.assertNotIn("cell e", page)

    def test_a_rule_shows_its_own_failure_where_rules_share_a_line(self) -> None:
        rules = ["TZR-HDR-001", "TZR-HDR-002"]
        items = [
            sample.wrong_data(sample.case("first", rules)),
            sample.wrong_data(sample.case("second", rules)),
        ]
        for item, rule in zip(items, rules, strict=True):
            explained = {**sample.explanation(), "rule": rule}
            item["steps"][0]["explanation"] = explained
        ((row,),) = (
            section.rows
            for section in single_page.view(sample.result(items))["sections"]
        )
        self.assertEqual([item.marks[0].code for item in row.items], ["w", "w"])
        self.assertEqual((row.cells[0].passed, row.cells[0].ran), (0, 2))

    def test_verdict(self) -> None:
        magic = sample.accepted(sample.case("magic", ["TZR-HDR-002"], "malformed"))
        plain = sample.case("plain", ["TZR-HDR-002"])
        for cases, verdict in (
            ([plain], "<b>All 1</b> cases that ran pass."),
            ([plain, magic], "<b>1 of 2</b> cases fail</a>."),
            ([sample.known(magic)], "cases fail</a>, all of them known."),
            ([sample.skipped(plain)], "<b>No case ran.</b>"),
        ):
            with self.subTest(verdict):
                self.assertIn(verdict, self.page(sample.result(cases)))

    def test_rules_that_look_alike_share_a_row(self) -> None:
        cases = [
            sample.case(f"case-{number}", [f"TZR-IDX-00{number}"])
            for number in range(1, 6)
        ]
        row = Elements(self.page(sample.result(cases))).of_class("row")
        self.assertEqual(len(row), 1)
        cases[2] = sample.wrong_data(cases[2])
        page = self.page(sample.result(cases))
        self.assertEqual(len(Elements(page).of_class("row")), 2)
        self.assertIn("<small>TZR-IDX-001 002 004 005</small>", page)


class SeveralResults(RenderTest):
    def setUp(self) -> None:
        super().setUp()
        self.magic = sample.case("magic", ["TZR-HDR-002"], "malformed")
        self.plain = sample.case("plain", ["TZR-HDR-001"])

    def test_implementations_that_do_not_differ_share_a_column(self) -> None:
        good = [self.magic, self.plain]
        bad = [sample.accepted(self.magic), self.plain]
        page = self.page(
            sample.result(bad, "tensorizer", "2.0.2"),
            sample.result(good, "tzmark reference", "0.1.0"),
            sample.result(bad, "tensorizer", "2.2.0"),
        )
        elements = Elements(page)
        self.assertEqual(len(elements.of_class("implementation")), 2)
        self.assertIn("tensorizer <b>2.0.2, 2.2.0</b>", page)
        self.assertIn("<b>tzmark reference 0.1.0</b> passes every case.", page)
        # Their results are equal too, so that they are told of together.
        self.assertIn("<h4>tensorizer 2.0.2, 2.2.0</h4>", page)

    def test_same_name_twice_is_told_apart(self) -> None:
        page = self.page(sample.result([self.plain]), sample.result([self.plain]))
        self.assertIn("<b>0.3.0, 0.3.0 (2)</b>", page)

    def test_cells_count_by_rule_and_layout(self) -> None:
        other = {**self.magic, "id": "magic-v2", "layout": "v2"}
        third = {**self.magic, "id": "magic-v4", "layout": "v4"}
        cases = [sample.accepted(self.magic), sample.accepted(other), third]
        page = self.page(sample.result(cases), sample.result([self.magic, other]))
        # v1 and v2 look alike; v4 was run by the first only.
        self.assertIn('<span class="layouts">v1, v2</span>', page)
        self.assertIn('<span class="cell a"><b>0</b><small>/2</small></span>', page)
        self.assertIn('<span class="cell p"><b>2</b></span>', page)
        self.assertIn("other layouts of TZR-HDR-002", page)

    def test_the_lines_of_a_rule_stay_together(self) -> None:
        rules = ["TZR-HDR-001", "TZR-HDR-002"]
        cases = [
            sample.wrong_data(sample.case("first", rules)),
            sample.accepted(
                sample.case("last", rules[1:], "malformed", layout="v2"), "no"
            ),
            sample.case("fine", rules[:1], layout="v2"),
        ]
        other = sample.result([sample.skipped(case) for case in cases])
        matrix = self.matrix(sample.result(cases), other)
        (section,) = matrix_page.view(matrix)["sections"]
        told = [row.rules for row in section.rows if not row.quiet]
        self.assertEqual(
            told,
            [
                (("TZR-HDR-002", ("v1",)),),
                (("TZR-HDR-002", ("v2",)),),
                (("TZR-HDR-001", ("v1",)),),
            ],
        )

    def test_cases_that_pass_have_one_line(self) -> None:
        page = self.page(
            sample.result([self.magic, self.plain]),
            sample.result([sample.crashed(self.magic), self.plain]),
        )
        ids = [attributes["id"] for attributes in Elements(page).of_class("case")]
        self.assertEqual(ids, ["magic"])
        self.assertIn("Cases that pass in every run: 1<", page)
        self.assertNotIn("Why plain is there.", page)

    def test_choices_are_shown_where_they_differ(self) -> None:
        results = [
            sample.result([sample.chosen(self.magic, choice)], version=version)
            for choice, version in (("accepted", "1"), ("rejected", "2"))
        ]
        self.assertIn("<dt>rejected</dt><dd>tensors-js 2</dd>", self.page(*results))
        self.assertNotIn("<dt>rejected</dt>", self.page(results[0], results[0]))

    def test_an_open_choice_has_its_name_and_a_run_its_policies(self) -> None:
        results = [sample.result([sample.chosen(self.magic, "rejected")], version="1")]
        results.append(run_with_policy())
        page = self.page(*results)
        self.assertIn(CHOICE, page)
        self.assertEqual(page.count(REQUIREMENT), 1)
        self.assertIn("; policies <code>refusal=reject</code></span>", page)
        page = self.page(results[0], results[0])
        self.assertNotIn("policies", page)


class Matrix(RenderTest):
    def test_is_as_its_schema_says(self) -> None:
        names = ("conformance", "matrix")
        schemas = {
            f"{name}.schema.json": json.loads(
                (REPORTS / f"schema/{name}.schema.json").read_text()
            )
            for name in names
        }
        schema = schemas["matrix.schema.json"]
        with warnings.catch_warnings():
            # Debian 12 and Ubuntu 24.04 have this class only, newer releases warn of it.
            warnings.simplefilter("ignore", DeprecationWarning)
            resolver = jsonschema.RefResolver("matrix.schema.json", schema, schemas)
            validator = jsonschema.Draft202012Validator(schema, resolver=resolver)
            matrix = self.matrix(sample.result(sample.every_kind()))
            validator.validate(matrix)
            validator.validate(self.matrix(run_with_policy()))
            del matrix["cases"][0]["repro"]
            self.assertFalse(validator.is_valid(matrix))

    def test_equal_results_stand_once(self) -> None:
        magic = sample.case("magic", ["TZR-HDR-002"], "malformed")
        other = {**magic, "id": "other"}
        bad = [sample.accepted(magic), sample.accepted(other)]
        matrix = self.matrix(sample.result(bad), sample.result(bad))
        self.assertEqual(len(matrix["results"]), 1)
        self.assertEqual([case["results"] for case in matrix["cases"]], [[0, 0]] * 2)
        (entry,) = matrix["cases"][0]["explanations"]
        self.assertEqual(entry["implementations"], [0, 1])
        self.assertEqual(len(entry["explanation"]["bytes"]), 5)

    def test_a_case_that_was_not_run_has_no_result(self) -> None:
        cases = sample.every_kind()
        matrix = self.matrix(sample.result(cases[1:]), sample.result(cases))
        self.assertIsNone(matrix["cases"][-1]["results"][0])
        self.assertEqual(matrix["cases"][-1]["id"], cases[0]["id"])

    def test_gives_the_page_of_its_results(self) -> None:
        results = [
            sample.result(sample.every_kind()),
            sample.result(sample.every_kind()[2:], "other"),
        ]
        self.assertEqual(self.page(self.matrix(*results)), self.page(*results))

    def test_paths_are_told_from_a_directory(self) -> None:
        result = sample.result(sample.every_kind())
        result["adapter"]["argv"] = [f"{self.directory.resolve()}/bin/node"]
        for command in ("conformance", "matrix"):
            self.assertIn("bin/node", self.rendered(command, result))
            file, output = self.directory / "0.json", self.directory / "output"
            subprocess.run(
                [*RENDER, command, file, "-o", output, "--relative-to", self.directory],
                check=True,
            )
            text = output.read_text()
            self.assertIn("bin/node", text)
            self.assertNotIn(str(self.directory), text)

    def test_nine_implementations_stay_small(self) -> None:
        """As many cases as the corpus has, of which half fail somewhere, and a tenth in their own words."""
        results = []
        for version in range(9):
            cases = []
            for number in range(1500):
                rules = [f"TZR-IDX-{number % 80:03}", f"TZR-HDR-{number % 7:03}"]
                layout = ("v1", "v2", "v3", "v4", "v5-segments")[number % 5]
                name = f"malformed-something-in-particular-{number}"
                item = sample.case(name, rules, "malformed", layout=layout)
                if number % 5 in (0, 2) and number % 18 < 9 + version:
                    item = sample.accepted(item)
                elif number % 10 == 1 and number % 30 != version:
                    trace = f"Traceback\n  line {number % 40}\n" * 4
                    item = sample.crashed(item, f"KeyError: '{number % 9}'", trace)
                cases.append(item)
            results.append(sample.result(cases, "tensorizer", f"2.{version}.0"))
        merged = self.rendered("matrix", *results)
        self.assertLess(len(merged), 1_000_000)
        self.assertLess(len(self.page(merged)), 2_000_000)


# Shows the page in a frame of a phone's width, scrolls, and writes what it finds into the document.
IN_A_PHONE = """<!doctype html><meta charset="utf-8"><p id="found"></p><iframe width="400" height="800"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {
  const inside = frame.contentDocument, found = {};
  for (const [name, heading] of [["sheet", "thead th:last-child"], ["grid", ".heads > :last-child"]]) {
    const box = inside.querySelector("." + name), view = frame.contentWindow;
    box.style.maxHeight = "200px";
    box.scrollIntoView();
    box.scrollTo(10000, 10000);
    const outer = box.getBoundingClientRect(), inner = box.querySelector(heading).getBoundingClientRect();
    found[name] = {sideways: box.scrollLeft, down: box.scrollTop, width: outer.width,
      visible: inner.top >= outer.top && inner.bottom <= outer.bottom && inner.right <= outer.right + 1};
  }
  found.page = inside.documentElement.scrollWidth;
  document.getElementById("found").textContent = JSON.stringify(found);
});
frame.srcdoc = PAGE;
</script>"""


@unittest.skipUnless(
    shutil.which("chromium"), "no chromium here: scripts/setup --browser"
)
class OnAPhone(RenderTest):
    def test_tables_scroll_and_their_headings_stay_visible(self) -> None:
        # Each rule fails in another layout, so that it has a line of its own.
        cases = []
        for layout in range(8):
            for rule in range(8):
                item = sample.case(
                    f"{layout}-{rule}",
                    [f"TZR-IDX-00{rule}"],
                    layout=f"v5-layout-{layout}",
                )
                cases.append(sample.wrong_data(item) if layout == rule else item)
        for case in cases:
            case["features"] = [f"feature-{case['id'][-1]}"]
        page = json.dumps(self.page(sample.result(cases))).replace("</", "<\\/")
        file = self.directory / "phone.html"
        file.write_text(IN_A_PHONE.replace("PAGE", page))
        run = subprocess.run(
            [
                *("chromium", "--headless=new", "--no-sandbox", "--disable-gpu"),
                *(f"--user-data-dir={self.directory}/profile", "--dump-dom"),
                *("--virtual-time-budget=5000", file.as_uri()),
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        told = re.search(r'<p id="found">(.+?)</p>', run.stdout)
        assert told, run.stderr[-2000:]
        found = json.loads(told[1])
        self.assertLessEqual(found.pop("page"), 400, "the page itself stays in place")
        for name, seen in found.items():
            with self.subTest(name):
                self.assertGreater(seen["sideways"], 0)
                self.assertGreater(seen["down"], 0)
                self.assertLessEqual(seen["width"], 400)
                self.assertTrue(seen["visible"])


class Refusals(RenderTest):
    def refused(self, command: str, *documents: object) -> str:
        with self.assertRaises(NotAResult) as refusal:
            self.rendered(command, *documents)
        return str(refusal.exception)

    def test_status(self) -> None:
        run, output = self.run_render("conformance", {})
        self.assertEqual(run.returncode, 3)
        self.assertFalse(output.exists())
        self.assertRegex(run.stderr, r"\Arender\.py: .*0\.json: not a result .*\n\Z")

    def test_what_is_not_a_result(self) -> None:
        result = sample.result(sample.every_kind())
        for document in (
            "",
            "{",
            "[" * 100_000,
            [],
            {},
            {"schema": "tzmark-bench", "schema_version": 3},
            {**result, "schema_version": 2},
            {**result, "schema_version": 4},
            {**result, "schema_version": "3"},
        ):
            for command in ("conformance", "matrix"):
                with self.subTest(str(document)[:60], command=command):
                    self.refused(command, document)

    def test_what_misses_a_member(self) -> None:
        for member in ("adapter", "summary", "cases", "rules"):
            result = sample.result(sample.every_kind())
            del result[member]
            with self.subTest(member):
                self.refused("conformance", result)
                self.refused("conformance", result, result)
                self.refused("matrix", result)

    def test_results_of_different_corpora(self) -> None:
        results = [sample.result(sample.every_kind()) for _ in range(2)]
        results[1]["corpus"]["manifest_sha256"] = "34" * 32
        self.assertIn("different corpora", self.refused("conformance", *results))
        self.assertIn("different corpora", self.refused("matrix", *results))

    def test_a_matrix_among_results(self) -> None:
        result = sample.result(sample.every_kind())
        matrix = self.matrix(result)
        self.refused("conformance", matrix, result)
        self.refused("matrix", matrix)

    def test_files_that_cannot_be_read_or_written(self) -> None:
        file = self.directory / "result.json"
        for source, output in (
            (self.directory / "absent.json", self.directory / "page.html"),
            (file, self.directory / "absent" / "page.html"),
        ):
            file.write_text(json.dumps(sample.result(sample.every_kind())))
            run = subprocess.run(
                [*RENDER, "conformance", source, "-o", output],
                capture_output=True,
                check=False,
            )
            self.assertEqual(run.returncode, 3)

    def test_wrong_usage(self) -> None:
        self.assertEqual(self.run_render("conformance")[0].returncode, 2)
        self.assertEqual(self.run_render("page", {})[0].returncode, 2)

    def test_without_jinja(self) -> None:
        (self.directory / "jinja2.py").write_text(
            "raise ImportError('No module jinja2')"
        )
        result = sample.result(sample.every_kind())
        run, _ = self.run_render("conformance", result, PYTHONPATH=str(self.directory))
        self.assertEqual(run.returncode, 4)
        self.assertIn("python3-jinja2", run.stderr)
        run, _ = self.run_render("matrix", result, PYTHONPATH=str(self.directory))
        self.assertEqual(run.returncode, 0, "a merged document needs no template")


class Order(unittest.TestCase):
    def test_sections_stand_as_in_the_document(self) -> None:
        titles = ["3 File header", "10 Encryption", "10.1 Chunks", "10.2 Keys"]
        titles += ["14.3 v5-segments", "Appendix A", "safetensors: 3 Header"]
        self.assertEqual(sorted(reversed(titles), key=section_order), titles)


if __name__ == "__main__":
    unittest.main(verbosity=2)
