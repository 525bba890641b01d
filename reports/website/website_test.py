"""Tests of the static site: scores, refusal of what is not whole, links, and the pages in a browser."""

from __future__ import annotations

import copy
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import markdown  # noqa: F401
except ImportError:
    print("skipped: python3-markdown is not installed")
    sys.exit(77)

from common import results
from website import build, scores, storage
from website.documents import Documents, slug

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
MATRIX = ROOT / "reports/upstream-releases/matrix.json"
READERS = ROOT / "reports/safetensors-readers/findings.json"
# One of each kind, but for the cases of all implementations: axe-core takes minutes for its 78,000 elements.
READ_PAGES = (
    *("index.html", "rules.html", "search.html", "tensorizer.html", "storage.html"),
    *("findings-tensorizer.html", "guides/tuning.html"),
    *("rules/TZR-IDX-004.html", "cases/index-kind-3.html"),
)
ASK_AXE = """
axe.run().then((found) => {
  const result = document.createElement("pre");
  result.id = "axe";
  result.textContent = JSON.stringify({
    broken: found.violations.map((rule) => [rule.id, rule.nodes[0].html, rule.nodes[0].failureSummary]),
    kept: found.passes.length,
    ground: getComputedStyle(document.body).backgroundColor,
  });
  document.body.append(result);
});
"""


class Scores(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def scored(self, cases: list[dict[str, object]]) -> scores.Implementation:
        outcomes = ["pass", "skipped", "crash"]
        file = self.directory / "matrix.json"
        file.write_text(
            json.dumps(
                {
                    "schema": "tzmark-conformance-matrix",
                    "schema_version": 1,
                    "corpus": {"cases": len(cases)},
                    "implementations": [{"profile": {"name": "a", "version": "1"}}],
                    "results": [{"outcome": outcome} for outcome in outcomes],
                    "cases": [
                        {
                            "id": str(number),
                            "layout": "v1",
                            "verdict": "invalid",
                            **case,
                        }
                        for number, case in enumerate(cases)
                    ],
                }
            )
        )
        return scores.tensorizer(file)[1][0]

    def test_a_rule_is_kept_if_no_case_breaks_it(self) -> None:
        found = self.scored(
            [
                {"rules": ["A"], "results": [0]},
                {"rules": ["A", "B"], "results": [0]},
                {"rules": ["B"], "results": [2]},
                {"rules": ["C"], "results": [1]},
            ]
        )
        self.assertEqual(found.everything.text(), "1/2")
        self.assertEqual(found.layouts["v1"].broken, {"B"})
        self.assertEqual(found.everything.skipped, 1)

    def test_a_valid_file_breaks_what_its_failure_names(self) -> None:
        explained = [{"explanation": {"rule": "B"}, "implementations": [0]}]
        found = self.scored(
            [
                {
                    **{"verdict": "valid", "rules": ["A", "B"], "results": [2]},
                    "explanations": explained,
                },
                {"rules": ["A"], "results": [0]},
            ]
        )
        self.assertEqual(found.everything.kept - found.everything.broken, {"A"})
        self.assertEqual(found.everything.broken, {"B"})

    def test_half_a_run_is_refused(self) -> None:
        whole = json.loads(MATRIX.read_text())
        broken = []
        for change in (
            lambda matrix: matrix["cases"].pop(),
            lambda matrix: matrix["cases"][5]["results"].pop(),
            lambda matrix: matrix["cases"][5]["results"].__setitem__(3, None),
        ):
            matrix = copy.deepcopy(whole)
            change(matrix)
            broken.append(json.dumps(matrix))
        broken += [MATRIX.read_text()[:-1000], "[]", '{"schema": "other"}']
        file = self.directory / "matrix.json"
        for text in broken:
            file.write_text(text)
            with self.assertRaises(results.NotAResult):
                scores.tensorizer(file)
        readers = json.loads(READERS.read_text())
        readers["readers"][0]["passed"] -= 200
        for text in (json.dumps(readers), "{}", "[]", ""):
            file.write_text(text)
            with self.assertRaises(results.NotAResult):
                scores.safetensors(file)


class Storage(unittest.TestCase):
    def test_a_result_that_is_not_whole_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            shutil.copytree(ROOT / build.BASELINES, root / "machines")
            (machine, *_) = storage.load(root, "machines")
            self.assertGreater(len(machine.measurements[0].rows), 5)
            self.assertEqual([name for name, _ in machine.facts], list(storage.FACTS))
            place = root / f"machines/{machine.name}"
            file = sorted(place.glob("*.json"))[0]
            whole = file.read_text()
            for change in (
                lambda result: result["warnings"].append("interrupted: half of it"),
                lambda result: result["results"].clear(),
                lambda result: result["results"][0]["samples"].__delitem__(
                    slice(2, 99)
                ),
                lambda result: result["results"][0].__setitem__("rate", None),
                lambda result: result.__setitem__("kind", "tune"),
                lambda result: result.__delitem__("machine"),
                lambda result: result.__setitem__("started_at", 5),
                lambda result: result["warnings"].append(5),
            ):
                result = json.loads(whole)
                change(result)
                file.write_text(json.dumps(result))
                with self.assertRaises(results.NotAResult):
                    storage.load(root, "machines")
            file.write_text(whole[:-1000])
            with self.assertRaises(results.NotAResult):
                storage.load(root, "machines")
            file.write_text(whole)
            (place / "README.md").unlink()
            with self.assertRaises(results.NotAResult):
                storage.load(root, "machines")


class DocumentTest(unittest.TestCase):
    def test_anchors_are_those_of_github(self) -> None:
        self.assertEqual(
            slug("11.2 Where the format leaves room"),
            "112-where-the-format-leaves-room",
        )

    def test_links(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            (root / "docs").mkdir()
            (root / "docs/a.md").write_text(
                "# A\n\n[b](../B.md#x) [code](../scripts/x) [web](https://h/) `TZR-HDR-001` TZR-HDR-001 TZR-HDR-999\n"
            )
            pages = {"docs/a.md": "guides/a.html", "B.md": "b.html"}
            made = Documents(root, pages, {"TZR-HDR-001"}).html_of("docs/a.md")
        self.assertIn('<a href="../b.html#x">b</a> code ', made)
        self.assertIn('<a href="https://h/">web</a> <code>TZR-HDR-001</code> ', made)
        self.assertIn('<a href="../rules/TZR-HDR-001.html">TZR-HDR-001</a>', made)
        self.assertIn(" TZR-HDR-999", made)

    def test_a_dead_link_is_found(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            output = Path(name)
            (output / "b.html").write_text('<p id="x">')
            for link, is_dead in (
                ("b.html", False),
                ("b.html#x", False),
                ("b.html#y", True),
                ("c.html", True),
                ("../", True),
                ("https://h/", False),
            ):
                (output / "a.html").write_text(f'<a href="{link}">')
                if is_dead:
                    with self.assertRaises(results.NotAResult):
                        build.require_links(output)
                else:
                    build.require_links(output)
            (output / "a.html").write_text('<script src="https://h/x.js"></script>')
            with self.assertRaises(results.NotAResult):
                build.require_links(output)


class Pages(unittest.TestCase):
    """The whole site, made once, and looked at by a browser if there is one."""

    @classmethod
    def setUpClass(cls) -> None:
        directory = tempfile.TemporaryDirectory(prefix="tzmark-site-test-")
        cls.addClassCleanup(directory.cleanup)
        cls.site = Path(directory.name) / "a site"
        cls.command = [
            sys.executable,
            str(ROOT / "scripts/site"),
            *("--build", str(BUILD), "-o", str(cls.site)),
        ]
        done = subprocess.run(cls.command, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    def test_every_case_and_rule_has_a_page(self) -> None:
        corpus = json.loads((BUILD / "share/tzmark/corpus/manifest.json").read_text())
        for case in corpus["cases"][::50]:
            page = (self.site / f"cases/{case['id']}.html").read_text()
            self.assertIn(case["sha256"], page)
            for rule in case["rules"]:
                self.assertIn(f'href="../rules/{rule}.html"', page)
                named = (self.site / f"rules/{rule}.html").read_text()
                self.assertIn(f"cases/{case['id']}.html", named)
        page = (self.site / "cases/index-kind-3.html").read_text()
        self.assertIn("index entry 0: kind = 3", page)

    def test_pages_can_be_read_by_programs(self) -> None:
        for name in (
            *("index", "tensorizer", "safetensors", "storage", "search"),
            "guides/FORMAT",
        ):
            page = (self.site / f"{name}.html").read_text()
            self.assertIn('<html lang="en">', page)
            self.assertEqual(len(re.findall(r"<h1[ >]", page)), 1, name)
            self.assertIn('href="#content"', page)
            for image in re.findall(r"<img [^>]*>", page):
                self.assertIn('alt="', image)
            levels = [int(level) for level in re.findall(r"<h(\d)[ >]", page)]
            for above, below in zip(levels, levels[1:]):
                self.assertLessEqual(below, above + 1, f"{name}: a heading is left out")

    def test_it_replaces_only_what_it_made(self) -> None:
        kept = self.site.parent / "kept"
        kept.mkdir()
        (kept / "file").write_text("mine")
        command = [*self.command[:-1], str(kept)]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(os.listdir(kept), ["file"])

    def in_browser(
        self, page: str, width: int, query: str = "", dark: bool = False
    ) -> str:
        browser = shutil.which("chromium")
        if browser is None:
            self.skipTest("no chromium here: scripts/setup --browser")
        done = subprocess.run(
            [
                *(browser, "--headless", "--no-sandbox", "--disable-gpu"),
                *("--enable-logging=stderr", "--virtual-time-budget=20000"),
                *(f"--window-size={width},900", "--dump-dom"),
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                f"{(self.site / page).as_uri()}{query}",
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertNotIn("CONSOLE", done.stderr)
        return done.stdout

    def test_the_search_finds(self) -> None:
        found = self.in_browser("search.html", 400, "?q=TZR-IDX-004")
        self.assertIn('<a href="rules/TZR-IDX-004.html">TZR-IDX-004</a>', found)
        self.assertRegex(found, r"\d+ found")
        for page in ("index.html", "tensorizer-cases.html"):
            self.assertIn("<h1", self.in_browser(page, 1280))

    def test_people_can_read_it(self) -> None:
        axe = BUILD / "axe/axe_core_python/axe.min.js"
        if not axe.exists():
            self.skipTest("no axe-core here: scripts/setup --browser")
        script = axe.read_text(encoding="utf-8").replace("</script", "<\\/script")
        grounds = set()
        for page in READ_PAGES:
            probe = f"{page.removesuffix('.html')}-probe.html"
            text = (self.site / page).read_text(encoding="utf-8")
            (self.site / probe).write_text(
                text.replace("</body>", f"<script>{script}{ASK_AXE}</script></body>"),
                encoding="utf-8",
            )
            for width, dark in ((1280, False), (400, False), (1280, True)):
                with self.subTest(page=page, width=width, dark=dark):
                    shown = self.in_browser(probe, width, dark=dark)
                    found = re.search(r'<pre id="axe">(.*?)</pre>', shown, re.DOTALL)
                    assert found is not None, shown[-2000:]
                    result = json.loads(html.unescape(found[1]))
                    self.assertEqual(result["broken"], [])
                    self.assertGreater(result["kept"], 20)
                    grounds.add((dark, result["ground"]))
            (self.site / probe).unlink()
        self.assertEqual(len(grounds), 2, grounds)


if __name__ == "__main__":
    unittest.main(verbosity=2)
