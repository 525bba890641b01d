"""Cases of v5-flagged-dims: those of v5-long-dims under feature flag 1, and what the flag makes wrong or clear."""

from collections.abc import Iterator
from dataclasses import replace

import long_dims
from builder import FLAG_FLAGGED_DIMS, File, Tensor
from case import Case
from detection import two_readings
from layouts import FLAGGED_DIMS, HEADERS_FIRST, LONG_DIMS, SEGMENTS
from recipe import Recipe, two_tensors
from wire import ENTRY_VERSION, LONG_ENTRY_VERSION

SEED = 1500
FLAGS_AT = 9


def cases() -> Iterator[Case]:
    recipe = Recipe("flagged_dims", SEED)
    for case in long_dims.cases():
        # A file that is cut before the flags is the same in both layouts.
        if len(case.content) > FLAGS_AT:
            yield under_the_flag(case)
    yield from other_layouts(recipe)
    yield from clear_readings(recipe)


def with_flag(content: bytes) -> bytes:
    """The same file with feature flag 1 set."""
    flags = content[FLAGS_AT] | FLAG_FLAGGED_DIMS
    return content[:FLAGS_AT] + bytes([flags]) + content[FLAGS_AT + 1 :]


def under_the_flag(case: Case) -> Case:
    """A case of v5-long-dims as one of v5-flagged-dims. No hash covers the file header."""
    named = {
        key: getattr(case, key).replace("long-dims", "flagged-dims")
        for key in ("id", "path")
    }
    expected = case.expected
    # The flag tells the layout, so that what stands behind the entries does not have to.
    rules = [rule for rule in case.rules if rule != "TZR-HDR-007"]
    if rules[0] == "TZR-IDX-003" and case.verdict == "malformed":
        named["why"] = case.why.replace(", so the index reads in no layout", "")
    return replace(
        case,
        **named,
        layout=FLAGGED_DIMS,
        rules=rules,
        origin={"recipe": "recipes/flagged_dims.py", "seed": long_dims.SEED},
        content=with_flag(case.content),
        expected=None if expected is None else expected | {"layout": FLAGGED_DIMS},
    )


def other_layouts(recipe: Recipe) -> Iterator[Case]:
    """Right files of other layouts, but for the flag, which promises a version in every entry."""
    labelled = two_tensors(5, SEED, FLAGGED_DIMS)
    nul = File.of(
        [Tensor(["\0"], "<u2", [3], kind=0), Tensor(["b"])],
        5,
        SEED,
        layout=HEADERS_FIRST,
    )
    untagged = two_tensors(4, SEED)
    untagged.data_version = 5
    for id_, file, rules, why in (
        (
            "headers-first",
            two_tensors(5, SEED, HEADERS_FIRST),
            "IDX-013 IDX-002",
            "The name of the first entry stands where its version should be.",
        ),
        (
            "headers-first-name-nul",
            nul,
            "IDX-002 IDX-003 IDX-004 IDX-005 IDX-013",
            "The first entry begins as one of version 1 does.",
        ),
        (
            "segments",
            two_tensors(5, SEED, SEGMENTS),
            "IDX-013 IDX-002 IDX-003",
            "The layout section stands where the index should be.",
        ),
        (
            "untagged",
            untagged,
            "IDX-013 IDX-002",
            "The entries are those of v4, without versions.",
        ),
    ):
        yield recipe.refused(
            f"flagged-dims-over-{id_}",
            labelled,
            rules,
            f"Feature flag 1 is set. {why}",
            content=with_flag(file.encode()),
        )
    for bit in (2, 7):
        wrong = two_tensors(5, SEED, FLAGGED_DIMS)
        wrong.flags = (FLAG_FLAGGED_DIMS | 1 << bit).to_bytes(32, "little")
        yield recipe.refused(
            f"flagged-dims-flag-{bit}",
            wrong,
            "HDR-004",
            f"Beside feature flag 1 is flag {bit}, which has no meaning.",
        )


def clear_readings(recipe: Recipe) -> Iterator[Case]:
    """Without the flag these are right in two layouts, and refused."""
    for version in (ENTRY_VERSION, LONG_ENTRY_VERSION):
        file = two_readings(version).tagged
        assert file.layout == LONG_DIMS
        file.layout = FLAGGED_DIMS
        file.flags = FLAG_FLAGGED_DIMS.to_bytes(32, "little")
        yield recipe.valid(
            f"flagged-dims-of-two-layouts-{version}",
            file,
            "HDR-007 HDR-008 IDX-013",
            "Index and headers also read as v5-headers-first, but the flag says what they are.",
        )
