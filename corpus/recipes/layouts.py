"""The layouts of the format, one row each. Recipes use the columns, so a new layout is a row and its own cases."""

from dataclasses import dataclass

HEADERS_FIRST, SEGMENTS, LONG_DIMS = "v5-headers-first", "v5-segments", "v5-long-dims"
FLAGGED_DIMS = "v5-flagged-dims"


@dataclass(frozen=True)
class Layout:
    """What distinguishes a layout from the others."""

    name: str
    data_version: int
    # Its name in the ids of cases. Of layouts for which an implementation usually shares its code, one has a name, and
    # the cases are made of that one.
    family: str | None = None
    # The bit of the first byte of the feature flags that marks it.
    flag: int = 0
    # All tensor headers lie before all data, and hashes cover less of them.
    headers_first: bool = False
    # Has a layout section, and offsets relative to its segments.
    segments: bool = False
    # Each index entry has a version, which tells how wide its dimensions are.
    entry_versions: bool = False

    @property
    def is_told_by_content(self) -> bool:
        """Whether only index and headers tell it from other layouts of its data version."""
        return self.data_version == 5 and not self.segments and not self.flag


# The number of a case in a series can depend on the order.
LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("v1", 1),
        Layout("v2", 2),
        Layout("v3", 3),
        Layout("v4", 4, "v4"),
        Layout(HEADERS_FIRST, 5, "first", headers_first=True),
        Layout(SEGMENTS, 5, "segments", headers_first=True, segments=True),
        Layout(LONG_DIMS, 5, "long", entry_versions=True),
        Layout(FLAGGED_DIMS, 5, "flagged", flag=2, entry_versions=True),
    )
}


def described(name: str) -> Layout:
    """The row of a layout; recipes arrange a file in none of them as v4."""
    return LAYOUTS.get(name, LAYOUTS["v4"])


FAMILIES = {
    layout.family: layout for layout in LAYOUTS.values() if layout.family is not None
}
OF_VERSION_5 = tuple(
    layout.name for layout in LAYOUTS.values() if layout.data_version == 5
)
ALL_HEADERS_FIRST = tuple(
    layout.name for layout in LAYOUTS.values() if layout.headers_first
)
