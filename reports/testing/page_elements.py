"""Parses a page into its elements, for tests."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "input", "br"}


class Elements(HTMLParser):
    """The elements of a page with their attributes, those left open, and the text of each that holds text only."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        self.found.append((tag, {name: value or "" for name, value in attributes}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.open.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        if data.strip() and self.open:
            self.texts.append((self.open[-1], data.strip()))

    def of_class(self, name: str) -> list[dict[str, str]]:
        return [
            attributes
            for _, attributes in self.found
            if name in attributes.get("class", "").split()
        ]

    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(tag, tuple(attributes)) for tag, attributes in self.found]
