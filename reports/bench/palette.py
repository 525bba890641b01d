"""The colours of the bench page: one for each I/O path, the same in all figures, in light and in dark.

Figures are drawn in the light colours. In the page each of them becomes a variable of the style sheet, so no two
colours may be equal. Variants of a path have its hue. Names are printed next to the marks, so that nothing depends on
distinguishing colours; similar hues differ in lightness, which colour blindness does not affect.
"""

from __future__ import annotations

from collections.abc import Iterable

# Name of the variable: (light, dark).
COLOURS = {
    "paper": ("#ffffff", "#1e1d1a"),
    "ink": ("#22201c", "#e8e4dc"),
    "soft": ("#6b665d", "#a39d92"),
    "line": ("#e4e0d8", "#37342f"),
    "neutral": ("#8f897f", "#8a847a"),
    "neutral-2": ("#b1aba0", "#67625a"),
    "pwrite": ("#2f62a3", "#6ba0da"),
    "pwrite-dontcache": ("#80b2e6", "#41689a"),
    "buffered": ("#b39d3f", "#dbd189"),
    "direct": ("#ad571b", "#d67f40"),
    "mmap": ("#ac8ccd", "#cab5e8"),
    "uring": ("#25908a", "#57beb5"),
    "uring-direct": ("#0b4340", "#c2f2ec"),
    "uring-sqpoll": ("#6bb5ad", "#2a7d76"),
    "gpudirect": ("#a2325c", "#f090a6"),
    # Change points of a history.
    "slower": ("#b3261e", "#f28b82"),
    "faster": ("#2c6e49", "#7fc29b"),
    "other-0": ("#5d7f3c", "#a3c880"),
    "other-1": ("#5b6478", "#98a3bb"),
    "other-2": ("#94644a", "#cf9f84"),
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
PATHS = (
    "pwrite",
    "pwrite-dontcache",
    "buffered",
    "direct",
    "mmap",
    "uring",
    "uring-direct",
    "uring-sqpoll",
    "gpudirect",
)
OTHERS = ("other-0", "other-1", "other-2")
# Lines of variants are dashed, in points on and off.
DASHES = {
    "pwrite-dontcache": (4.0, 2.0),
    "uring-direct": (6.0, 2.0),
    "uring-sqpoll": (1.5, 1.5),
}


def light(colour: str) -> str:
    return COLOURS[colour][0]


def of_paths(names: Iterable[str]) -> dict[str, str]:
    """Returns the colour of each path; unknown paths get the remaining colours in the order of their names."""
    unknown = sorted(set(names) - set(PATHS))
    spare = {name: OTHERS[rank % len(OTHERS)] for rank, name in enumerate(unknown)}
    return {name: name for name in PATHS} | spare


def variables(dark: bool) -> str:
    """Returns the declarations of the style sheet."""
    return " ".join(f"--f-{name}: {shades[dark]};" for name, shades in COLOURS.items())


def variable_of(light_colour: str) -> str | None:
    """Returns the page variable of a light colour."""
    return _VARIABLES.get(light_colour.lower())


_VARIABLES = {shades[0]: f"var(--f-{name})" for name, shades in COLOURS.items()}
