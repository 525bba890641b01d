"""The documents of the project as pages: Markdown to HTML, with rules linked to their pages, and no dead link."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path, PurePosixPath

import markdown

RULE = re.compile(r"(?<![\w-])(TZR-[A-Z]{3}-\d{3}|ST-\d{3})(?![\w-])")
TAG = re.compile(r"(<[^>]+>)")
# Text of these stays as it is.
NO_LINKS = ("a", "pre", "code", "h1", "h2", "h3", "h4")
IMAGES = (".png", ".svg")


def slug(text: str, separator: str = "-") -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


class Documents:
    """The pages of documents. root: of the project; pages: the page of each document, below the site."""

    def __init__(self, root: Path, pages: dict[str, str], rules: set[str]) -> None:
        self.root, self.pages, self.rules = root, pages, rules
        self.images: set[str] = set()

    def html_of(self, document: str) -> str:
        text = (self.root / document).read_text(encoding="utf-8")
        made = markdown.markdown(
            text,
            extensions=["tables", "fenced_code", "toc", "sane_lists", "md_in_html"],
            extension_configs={"toc": {"slugify": slug}},
        )
        made = re.sub(
            r'(<a [^>]*?)href="([^"]*)"([^>]*>)(.*?)</a>',
            lambda found: self._link(document, *found.groups()),
            made,
            flags=re.DOTALL,
        )
        made = re.sub(
            r'(<img [^>]*?)src="([^"]*)"',
            lambda found: f'{found[1]}src="{self._image(document, found[2])}"',
            made,
        )
        made = made.replace("<table>", '<div class="scroll" tabindex="0"><table>')
        made = made.replace("</table>", "</table></div>")
        return self._with_rules(made, to_root(self.pages[document]))

    def _path(self, document: str, target: str) -> str:
        """The path of a target below the root of the project."""
        joined = PurePosixPath(document).parent / target
        return os.path.normpath(joined)

    def _link(
        self, document: str, before: str, target: str, after: str, text: str
    ) -> str:
        target = html.unescape(target)
        if target.startswith(("https://", "http://", "#")):
            return f'{before}href="{html.escape(target)}"{after}{text}</a>'
        path, _, anchor = target.partition("#")
        page = self.pages.get(self._path(document, path))
        if page is None:
            # A file of the project that is no document.
            return text
        to = to_root(self.pages[document]) + page + (f"#{anchor}" if anchor else "")
        return f'{before}href="{html.escape(to)}"{after}{text}</a>'

    def _image(self, document: str, target: str) -> str:
        path = self._path(document, html.unescape(target))
        if not path.endswith(IMAGES) or not (self.root / path).is_file():
            raise FileNotFoundError(f"{document}: there is no image {target}")
        self.images.add(path)
        return to_root(self.pages[document]) + "images/" + PurePosixPath(path).name

    def _with_rules(self, text: str, root: str) -> str:
        """Links each rule that is named, except in headings, links and code."""
        depth = 0
        parts = TAG.split(text)
        for i, part in enumerate(parts):
            if part.startswith("<"):
                name = re.match(r"</?([a-z0-9]+)", part)
                if name and name[1] in NO_LINKS:
                    depth += -1 if part.startswith("</") else 1
            elif depth == 0:
                parts[i] = RULE.sub(lambda found: self._rule(found[1], root), part)
        return "".join(parts)

    def _rule(self, rule: str, root: str) -> str:
        if rule not in self.rules:
            return rule
        return f'<a href="{root}rules/{rule}.html">{rule}</a>'


def to_root(page: str) -> str:
    """The way from a page to the root of the site."""
    return "../" * page.count("/")
