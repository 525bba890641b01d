"""Builds the static site; see scripts/site."""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import jinja2

from common import results
from common.outcomes import BY_NAME, Json
from conformance import matrix_page
from website import corpus as cases
from website import scores, storage
from website.documents import Documents, to_root

FORMATS = {"tensorizer": "corpus", "safetensors": "safetensors"}
SPECIFICATIONS = {
    "tensorizer": "reference/FORMAT.md",
    "safetensors": "reference/SAFETENSORS.md",
}
FINDINGS = {
    "reports/upstream-releases/FINDINGS.md": "findings-tensorizer.html",
    "reports/safetensors-readers/FINDINGS.md": "findings-safetensors.html",
}
NAVIGATION = (
    ("tensorizer.html", "tensorizer"),
    ("safetensors.html", "safetensors"),
    ("storage.html", "storage"),
    ("rules.html", "rules"),
    ("cases.html", "cases"),
    ("guides.html", "guides"),
)
BASELINES = "reports/baselines"
FIRST_PAGE_BYTES_MAX = 300_000


@dataclass
class Sources:
    """The project, the build whose corpus and program are used, and the program that renders result pages."""

    root: Path
    build: Path
    version: str
    render: object  # render.render, which knows the filters of its templates


@dataclass
class Site:
    sources: Sources
    output: Path
    index: list[tuple[str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(self.sources.root / "reports/templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def write(self, page: str, text: str) -> None:
        file = self.output / page
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def add(self, page: str, template: str, title: str, **view: object) -> None:
        text = self.environment.get_template(template).render(
            page=page,
            title=title,
            root=to_root(page),
            navigation=NAVIGATION,
            version=self.sources.version,
            **view,
        )
        self.write(page, text)


def build(sources: Sources, output: Path) -> dict[str, int]:
    """Writes all pages into an empty directory, and returns how many there are of each kind."""
    site = Site(sources, output)
    root, share = sources.root, sources.build / "share/tzmark"
    layouts, tensorizer, matrix = scores.tensorizer(
        root / "reports/upstream-releases/matrix.json"
    )
    safetensors = scores.safetensors(root / "reports/safetensors-readers/findings.json")
    corpus = cases.load(share, FORMATS)
    cases.add_bytes(corpus, share, FORMATS, sources.build / "bin/tzmark")
    for case in corpus.cases:
        if case.format == "tensorizer":
            case.outcomes = [
                (f"{one.name} {one.version}", one.by_case[case.id])
                for one in tensorizer
                if case.id in one.by_case
            ]
    site.write("style.css", site.environment.get_template("website.css.j2").render())
    site.add(
        "index.html",
        "website_index.html.j2",
        "Conformance of model files",
        tensorizer=tensorizer,
        safetensors=safetensors,
        cases_count=f"{len(corpus.cases):,}",
    )
    site.add(
        "tensorizer.html",
        "website_tensorizer.html.j2",
        "tensorizer",
        layouts=layouts,
        tensorizer=tensorizer,
    )
    site.add(
        "safetensors.html",
        "website_safetensors.html.j2",
        "safetensors",
        safetensors=safetensors,
    )
    site.write(
        "tensorizer-cases.html",
        sources.render("matrix.html.j2", matrix_page.view(matrix)),
    )
    machines = storage.load(root, BASELINES)
    add_documents(site, set(corpus.rules), machines)
    add_storage(site, machines)
    add_rules(site, corpus)
    add_cases(site, corpus)
    add_search(site)
    require_links(output)
    size_bytes = (output / "index.html").stat().st_size
    if size_bytes > FIRST_PAGE_BYTES_MAX:
        raise results.NotAResult(f"index.html has {size_bytes} bytes")
    return {
        "pages": sum(1 for _ in output.rglob("*.html")),
        "cases": len(corpus.cases),
        "rules": len(corpus.rules),
        "implementations": len(tensorizer) + len(safetensors["readers"]),
        "machines": len(machines),
    }


def add_documents(site: Site, rules: set[str], machines: list[storage.Machine]) -> None:
    root = site.sources.root
    pages = {one.document: f"storage/{one.name}.html" for one in machines}
    pages.update(FINDINGS)
    guides = [
        *("README.md", "CHANGELOG.md", "SECURITY.md", "ARCHITECTURE.md"),
        *SPECIFICATIONS.values(),
        *("corpus/README.md", "conformance/PROTOCOL.md"),
        *sorted(f"docs/{file.name}" for file in (root / "docs").glob("*.md")),
    ]
    for document in guides:
        name = document.removeprefix("docs/").replace("/README", "").replace("/", "-")
        name = name.removeprefix("reference-").removesuffix(".md")
        pages[
            document
        ] = f"guides/{'index' if document == 'docs/README.md' else name}.html"
    documents = Documents(root, pages, rules)
    for document, page in pages.items():
        body = documents.html_of(document)
        if document in SPECIFICATIONS.values():
            body = name_rules(body, rules)
        heading = re.search(r"<h1[^>]*>(.*?)</h1>", body, re.DOTALL)
        title = html.unescape(re.sub(r"<[^>]+>", "", heading[1])) if heading else page
        site.add(page, "website.html.j2", title, body=body)
        site.index.append((title, page, document))
    for image in documents.images:
        target = site.output / "images" / Path(image).name
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(root / image, target)
    items = [(pages[one], title_of(site, pages[one]), one) for one in guides]
    site.add("guides.html", "website_list.html.j2", "Guides", groups=[("All", items)])


def add_storage(site: Site, machines: list[storage.Machine]) -> None:
    """Adds a page of all machines, and the page and figures of each result."""
    for machine in machines:
        for one in machine.measurements:
            directory = site.output / f"storage/{machine.name}/{one.name}"
            directory.mkdir(parents=True)
            for name, content in one.files.items():
                (directory / name).write_bytes(content)
    titles = {one.name: title_of(site, f"storage/{one.name}.html") for one in machines}
    site.add(
        "storage.html",
        "website_storage.html.j2",
        "Storage",
        machines=machines,
        titles=titles,
    )
    site.index.append(("Storage", "storage.html", "; ".join(titles.values())))


def title_of(site: Site, page: str) -> str:
    return next(title for title, target, _ in site.index if target == page)


def name_rules(body: str, rules: set[str]) -> str:
    """Gives the place where a specification states a rule the rule's name."""
    for rule in rules:
        stated = re.search(rf"<(strong|td)>(<a [^>]*>)?{re.escape(rule)}\b", body)
        if stated:
            at = stated.start()
            body = (
                f'{body[:at]}<{stated[1]} id="{rule}">{body[at + len(stated[1]) + 2 :]}'
            )
    return body


def add_rules(site: Site, corpus: cases.Corpus) -> None:
    by_rule = corpus.by_rule()
    specified = {
        name: (site.output / f"guides/{Path(document).stem}.html").read_text()
        for name, document in SPECIFICATIONS.items()
    }
    groups: dict[str, list[tuple[str, str, str]]] = {name: [] for name in FORMATS}
    for rule, stated in sorted(corpus.rules.items()):
        name = "safetensors" if rule.startswith("ST-") else "tensorizer"
        page = f"rules/{rule}.html"
        if f'id="{rule}"' not in specified[name]:
            raise results.NotAResult(f"{SPECIFICATIONS[name]} does not state {rule}")
        site.add(
            page,
            "website_rule.html.j2",
            rule,
            id=rule,
            rule={"more": "", "binds": "", "section": "", "level": "MUST"} | stated,
            cases=by_rule.get(rule, []),
            document=f"guides/{Path(SPECIFICATIONS[name]).stem}.html",
        )
        groups[name].append((page, rule, stated["text"]))
        site.index.append((rule, page, stated["text"]))
    site.add("rules.html", "website_list.html.j2", "Rules", groups=list(groups.items()))


def add_cases(site: Site, corpus: cases.Corpus) -> None:
    groups: dict[str, list[tuple[str, str, str]]] = {}
    codes = {name: shade.code for name, shade in BY_NAME.items()}
    for case in corpus.cases:
        site.add(case.page, "website_case.html.j2", case.id, case=case, codes=codes)
        heading = f"{case.format}, {case.item['layout']}, {case.operation}"
        text = f"{case.item['verdict']}: {case.item['why']}"
        groups.setdefault(heading, []).append((case.page, case.id, text))
        site.index.append((case.id, case.page, text))
    site.add(
        "cases.html", "website_list.html.j2", "Cases", groups=sorted(groups.items())
    )


def add_search(site: Site) -> None:
    site.add("search.html", "website_search.html.j2", "Search")
    index = json.dumps(site.index, ensure_ascii=False, separators=(",", ":"))
    site.write("search-index.js", f"const searchIndex = {index};\n")


def links_of(text: str) -> Iterator[str]:
    for found in re.finditer(
        r'<(?:a|img|link|script)\b[^>]*?(?:href|src)="([^"]*)"', text
    ):
        yield html.unescape(found[1])


def require_links(output: Path) -> None:
    """Throws NotAResult if a link within the site leads nowhere, or a page loads something from elsewhere."""
    anchors: dict[Path, set[str]] = {}

    def anchors_of(file: Path) -> set[str]:
        if file not in anchors:
            found = re.findall(r'\bid="([^"]*)"', file.read_text(encoding="utf-8"))
            anchors[file] = {html.unescape(one) for one in found}
        return anchors[file]

    dead = []
    for page in sorted(output.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        for link in links_of(text):
            parts = urlsplit(link)
            if parts.scheme in ("https", "http", "data"):
                continue
            target = (
                (page.parent / unquote(parts.path)).resolve() if parts.path else page
            )
            is_there = target.is_file() and target.is_relative_to(output.resolve())
            if not is_there:
                dead.append(f"{page.relative_to(output)}: {link}")
            elif parts.fragment and unquote(parts.fragment) not in anchors_of(target):
                dead.append(f"{page.relative_to(output)}: {link}: no such anchor")
        if re.search(r'<(?:img|script|link)\b[^>]*?(?:href|src)="https?:', text):
            dead.append(f"{page.relative_to(output)}: loads something from elsewhere")
    if dead:
        raise results.NotAResult("dead links:\n" + "\n".join(dead[:40]))
