"""The colours of the bench page: one per I/O path, the same in all figures, in light and in dark.

Figures are drawn in the light colours. In the page each of them becomes a variable of the style sheet, so no two
colours may be equal. Variants of a path have its hue. Names are printed next to the marks, so that nothing depends on
distinguishing colours; similar hues differ in lightness, which colour blindness does not affect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from common.outcomes import Json

# Name of the variable: (light, dark).
COLOURS = {
    "paper": ("#ffffff", "#1e1d1a"),
    "ink": ("#22201c", "#e8e4dc"),
    "soft": ("#6b665d", "#a39d92"),
    "line": ("#e4e0d8", "#37342f"),
    "neutral": ("#8f897f", "#8a847a"),
    "neutral-2": ("#b1aba0", "#67625a"),
    # Paths, by hue: its first shade for a path, the others for variants of the path.
    "blue-0": ("#2f62a3", "#6ba0da"),
    "blue-1": ("#80b2e6", "#41689a"),
    "gold-0": ("#b39d3f", "#dbd189"),
    "gold-1": ("#7a6a1f", "#a8994a"),
    "orange-0": ("#ad571b", "#d67f40"),
    "orange-1": ("#d98f55", "#a55f28"),
    "violet-0": ("#ac8ccd", "#cab5e8"),
    "violet-1": ("#6f4a99", "#8f74b5"),
    "teal-0": ("#25908a", "#57beb5"),
    "teal-1": ("#0b4340", "#c2f2ec"),
    "teal-2": ("#6bb5ad", "#2a7d76"),
    "crimson-0": ("#a2325c", "#f090a6"),
    "crimson-1": ("#d0708f", "#b0526f"),
    "green-0": ("#5d7f3c", "#a3c880"),
    "green-1": ("#8fae6d", "#6d8f4d"),
    "slate-0": ("#5b6478", "#98a3bb"),
    "slate-1": ("#8d97ab", "#6a758c"),
    "brown-0": ("#94644a", "#cf9f84"),
    "brown-1": ("#c08f74", "#936a53"),
    # Change points of a history.
    "slower": ("#b3261e", "#f28b82"),
    "faster": ("#2c6e49", "#7fc29b"),
    # Shades of one hue for the maps, from the least to the most.
    "map-0": ("#eef2f6", "#23282d"),
    "map-1": ("#d9e3ed", "#28333e"),
    "map-2": ("#bfd1e2", "#2e4154"),
    "map-3": ("#a0bbd5", "#36526e"),
    "map-4": ("#7fa2c4", "#426a90"),
    "map-5": ("#4e79a5", "#5585b3"),
    "map-6": ("#335c88", "#72a3d1"),
    # Text colours on the shades: dark on light ones and vice versa.
    "map-ink": ("#232019", "#e9e5dd"),
    "map-ink-6": ("#fefefe", "#14130f"),
}
MAP_SHADES = 7
# In the order in which paths get them.
HUES = "blue gold orange violet teal crimson green slate brown".split()
# Lines of variants are dashed, in points on and off: by their rank among the variants of a path.
DASHES = ((6.0, 2.0), (1.5, 1.5), (4.0, 2.0))


def light(colour: str) -> str:
    return COLOURS[colour][0]


def of_paths(rows: Iterable[Json], names: Iterable[str] = ()) -> dict[str, str]:
    """Returns the colour of each path: by the order of the registry's rows (io_paths of results), then of names that
    these lack. Variants have the hue of their path."""
    ranks = _ranks(rows, names)
    bases = [name for name, (base, _) in ranks.items() if name == base]
    colours = {}
    for name, (base, rank) in ranks.items():
        hue = HUES[bases.index(base) % len(HUES)]
        shades = sum(colour.startswith(f"{hue}-") for colour in COLOURS)
        colours[name] = f"{hue}-{min(rank, shades - 1)}"
    return colours


def dashes(rows: Iterable[Json]) -> dict[str, tuple[float, float]]:
    """Returns the dashes of each variant."""
    return {
        name: DASHES[(rank - 1) % len(DASHES)]
        for name, (_, rank) in _ranks(rows, ()).items()
        if rank
    }


def _ranks(rows: Iterable[Json], names: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Returns the path that each one is a variant of, or itself, and its rank among the variants from 1 on, or 0."""
    parents = {row["name"]: row["variant_of"] for row in rows}
    parents |= {name: "" for name in names if name not in parents}
    ranks: dict[str, tuple[str, int]] = {}
    variants: Counter[str] = Counter()
    for name, parent in parents.items():
        # A variant of a path that is not there stands alone.
        base = parent if parent in parents else name
        variants[base] += base != name
        ranks[name] = base, variants[base] if base != name else 0
    return ranks


def variables(dark: bool) -> str:
    """Returns the declarations of the style sheet."""
    return " ".join(f"--f-{name}: {shades[dark]};" for name, shades in COLOURS.items())


def variable_of(light_colour: str) -> str | None:
    """Returns the page variable of a light colour."""
    return _VARIABLES.get(light_colour.lower())


_VARIABLES = {shades[0]: f"var(--f-{name})" for name, shades in COLOURS.items()}
