"""A drawing surface in pixels of the page, with its output: SVG for the page, SVG and PNG as files.

matplotlib draws; the caller does the layout, because a figure for a phone is not a scaled-down one. Coordinates run to
the right and down. Colours are names of bench.palette.
"""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from functools import cache
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Polygon, Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Affine2D

from bench import palette

# A file matplotlibrc in the current directory or at home must neither change a page nor have LaTeX run.
matplotlib.rcdefaults()
SVG = "http://www.w3.org/2000/svg"
FONT = "'DejaVu Sans', sans-serif"
# The smallest font size in pixels: a figure is scaled down slightly on a page with a scroll bar.
SMALL = 11.5
# One point of matplotlib is one pixel of the page.
DPI = 72
PNG_SCALE = 2
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tzmark",
}
# Characters that XML or a line of text cannot contain.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# Scripts missing in the font of the PNG are drawn as boxes there, but correctly in a browser.
warnings.filterwarnings("ignore", message="Glyph .* missing from current font")


def printable(text: str) -> str:
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


@cache
def text_width(text: str, size: float = 12, bold: bool = False) -> float:
    font = FontProperties(
        family="DejaVu Sans", size=size, weight="bold" if bold else "normal"
    )
    width, _, _ = _ruler().get_text_width_height_descent(printable(text), font, False)
    return float(width)


@cache
def _ruler() -> RendererAgg:
    return RendererAgg(1, 1, DPI)


def fitted(text: str, width: float, size: float = 12, bold: bool = False) -> str:
    """Returns the text, truncated to the width."""
    if text_width(text, size, bold) <= width:
        return text
    while text and text_width(f"{text}…", size, bold) > width:
        text = text[:-1]
    return f"{text.rstrip()}…"


def wrapped(text: str, width: float, size: float = 12) -> list[str]:
    """Returns the text wrapped to the width."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(fitted(word, width, size))
    return lines


class Canvas:
    """A canvas of fixed width; its height is known when everything is drawn."""

    def __init__(self, width: float) -> None:
        self.width = width
        self._figure = Figure(dpi=DPI)
        # Flipped when the height is known.
        self._page = Affine2D()
        inches = Affine2D().scale(1 / DPI) + self._figure.dpi_scale_trans
        self._pixels = self._page + inches
        self._drawn = 0

    def _add(self, artist: Artist) -> None:
        """Returns the next z-order: later items are on top, while matplotlib puts every line above every area."""
        self._drawn += 1
        artist.set_zorder(self._drawn)
        artist.set_transform(self._pixels)
        self._figure.add_artist(artist)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = "ink",
        size: float = 12,
        align: str = "left",
        bold: bool = False,
    ) -> None:
        """Draws text; y is the baseline."""
        self._add(
            Text(
                x,
                y,
                printable(text),
                color=palette.light(colour),
                fontsize=size,
                fontfamily="DejaVu Sans",
                horizontalalignment=align,
                verticalalignment="baseline",
                fontweight="bold" if bold else "normal",
                parse_math=False,
            )
        )

    def rectangle(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        colour: str | None,
        alpha: float = 1,
        edge: str | None = None,
        edge_width: float = 1,
    ) -> None:
        self._add(
            Rectangle(
                (x, y),
                width,
                height,
                facecolor=palette.light(colour) if colour else "none",
                edgecolor=palette.light(edge) if edge else "none",
                linewidth=edge_width if edge else 0,
                alpha=None if alpha == 1 else alpha,
            )
        )

    def line(
        self,
        points: Sequence[tuple[float, float]],
        colour: str = "ink",
        width: float = 1,
        dashes: tuple[float, float] | None = None,
    ) -> None:
        drawn = Line2D(
            [x for x, _ in points],
            [y for _, y in points],
            color=palette.light(colour),
            linewidth=width,
        )
        if dashes:
            drawn.set_dashes([length / width for length in dashes])
        self._add(drawn)

    def dot(self, x: float, y: float, colour: str, radius: float = 3.5) -> None:
        self._add(
            Circle(
                (x, y),
                radius,
                facecolor=palette.light(colour),
                edgecolor=palette.light("paper"),
                linewidth=1,
            )
        )

    def polygon(
        self, corners: Sequence[tuple[float, float]], colour: str, hollow: bool = False
    ) -> None:
        self._add(
            Polygon(
                list(corners),
                closed=True,
                facecolor=palette.light("paper" if hollow else colour),
                edgecolor=palette.light(colour if hollow else "paper"),
                linewidth=1.6 if hollow else 1,
            )
        )

    def whisker(
        self, low: float, high: float, y: float, reach: float, colour: str = "ink"
    ) -> None:
        """Draws a horizontal 95 % interval with its two ends."""
        self.line([(low, y), (high, y)], colour, 1.2)
        for x in (low, high):
            self.line([(x, y - reach), (x, y + reach)], colour, 1.2)

    def finished(self, height: float, title: str) -> "Drawing":
        self._figure.set_size_inches(self.width / DPI, height / DPI)
        self._figure.patch.set_facecolor(palette.light("paper"))
        self._page.scale(1, -1).translate(0, height)
        return Drawing(self._figure, self.width, height, printable(title))


class Drawing:
    """A finished figure."""

    def __init__(self, figure: Figure, width: float, height: float, title: str) -> None:
        self._figure = figure
        self.width = width
        self.height = height
        self.title = title

    def inline(self) -> str:
        """Returns SVG for embedding: with colours and fonts of the page."""
        root = self._tree(in_page=True)
        root.set("role", "img")
        root.set("aria-label", self.title)
        return ElementTree.tostring(root, encoding="unicode")

    def svg(self) -> str:
        root = self._tree(in_page=False)
        root.set("xmlns", SVG)
        title = ElementTree.Element("title")
        title.text = self.title
        root.insert(0, title)
        return ElementTree.tostring(root, encoding="unicode") + "\n"

    def png(self) -> bytes:
        with matplotlib.rc_context(SETTINGS):
            file = io.BytesIO()
            self._figure.savefig(
                file,
                format="png",
                dpi=PNG_SCALE * DPI,
                metadata={"Software": None},
                pil_kwargs={"compress_level": 4},
            )
        return file.getvalue()

    def _tree(self, in_page: bool) -> ElementTree.Element:
        """Returns the SVG of matplotlib without metadata, groups, and ids that two figures could share."""
        with matplotlib.rc_context(SETTINGS):
            file = io.BytesIO()
            self._figure.savefig(file, format="svg", metadata={"Date": None})
        size = f"{self.width:g} {self.height:g}"
        root = ElementTree.Element("svg", viewBox=f"0 0 {size}")
        if not in_page:
            root.set("width", f"{self.width:g}")
            root.set("height", f"{self.height:g}")
        paper = f"fill: {palette.light('paper')}"
        for element in ElementTree.fromstring(file.getvalue()).iter():
            tag = element.tag.removeprefix(f"{{{SVG}}}")
            if tag == "use" or tag.endswith("Path"):
                raise AssertionError("the canvas draws nothing that needs an id")
            if tag not in ("path", "text"):
                continue
            if in_page and element.get("style") == paper:
                continue  # the page has its own background
            root.append(_mark(tag, element, in_page))
        return root


def _mark(tag: str, element: ElementTree.Element, in_page: bool) -> Any:
    style = element.get("style", "")
    if in_page:
        style = re.sub(r"#[0-9a-f]{6}\b", _variable, style)
        style = re.sub(r"font: (?:(\d+) )?([\d.]+px) [^;]*", _page_font, style)
    else:
        style = re.sub(r"(font: [^;]*?px) [^;]*", rf"\1 {FONT}", style)
    mark = ElementTree.Element(tag, style=style)
    if tag == "path":
        mark.set("d", " ".join(element.get("d", "").split()))
    else:
        mark.set("x", _rounded(element.get("x", "0")))
        mark.set("y", _rounded(element.get("y", "0")))
        mark.text = element.text
    return mark


def _rounded(coordinate: str) -> str:
    return f"{float(coordinate):.2f}".rstrip("0").rstrip(".")


def _variable(found: re.Match[str]) -> str:
    return palette.variable_of(found[0]) or found[0]


def _page_font(found: re.Match[str]) -> str:
    weight = f"; font-weight: {found[1]}" if found[1] else ""
    return f"font-size: {found[2]}{weight}"
