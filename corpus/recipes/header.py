"""Cases of the file header: magic, data version, flags, the unused fields, and the tensor count."""

from collections.abc import Iterator

from builder import File, Tensor
from case import Case
from layouts import OF_VERSION_5
from recipe import Recipe, two_tensors
from sealing import Lock

SEED = 100
KEY = bytes(range(32))
FUTURE = 6


def cases() -> Iterator[Case]:
    recipe = Recipe("header", SEED)

    def file(data_version: int = 1) -> File:
        return two_tensors(data_version, SEED)

    yield recipe.valid(
        "header-plain",
        file(),
        "HDR-001 HDR-002 HDR-003 HDR-005 IDX-001 IDX-002 IDX-004 IDX-006 IDX-008 IDX-009 IDX-010 IDX-011 IDX-012"
        " REC-001 REC-002 REC-003 REC-004 REC-005 REC-006 REC-007 REC-008 REC-009 REC-010 TRM-001 TRM-002"
        " NAM-001 NAM-006 DTY-001 HSH-001 HSH-002 HSH-003 HSH-004 HSH-005 HSH-006",
        "Two plain tensors, as any writer stores them.",
    )
    yield recipe.valid(
        "header-one-tensor",
        File.of([Tensor(["only"])], seed=SEED),
        "HDR-005",
        "One tensor is the smallest count.",
    )
    for version in (2, 4):
        yield recipe.valid(
            f"header-version-{version}-plain",
            file(version),
            "HDR-003" if version == 2 else "HDR-003 HDR-004",
            f"Data version {version} is higher than the content needs, which a reader doesn't mind.",
        )
    informative = file()
    informative.data_sum = (1 << 64) - 1
    informative.unused = b"\xff" * 8
    yield recipe.valid(
        "header-informative-fields",
        informative,
        "HDR-001",
        "The sum of the data and the eight bytes behind it inform nobody, so any value is fine.",
    )

    for size in (0, 1, 4, 5, 8, 9, 41, 57, 64):
        yield recipe.refused(
            f"header-cut-to-{size}",
            file(),
            "HDR-001 HDR-002" if size < 5 else "HDR-001",
            f"The file ends after {size} of the 65 bytes of its header.",
            content=file().encode()[:size],
        )
    for name, magic in {
        "letter": b"|TZS|",
        "case": b"|tzr|",
        "zeros": bytes(5),
    }.items():
        wrong = file()
        wrong.magic = magic
        yield recipe.refused(
            f"header-magic-{name}", wrong, "HDR-002", f"The magic is {magic.hex(' ')}."
        )
    for version in (0, FUTURE, 255, 256, 0xFFFFFFFF):
        wrong = file()
        wrong.data_version = version
        yield recipe.refused(
            f"header-version-{version}",
            wrong,
            "HDR-003",
            f"There is no data version {version}.",
        )
    yield from files_from_the_future(recipe)
    for bit in (1, 7, 8, 64, 128, 255):
        wrong = file(4)
        wrong.flags = (1 << bit).to_bytes(32, "little")
        yield recipe.refused(
            f"header-flag-{bit}",
            wrong,
            "HDR-004",
            f"Feature flag {bit} has no meaning.",
        )
    for name, flags in {"encrypted": 1, "all": (1 << 256) - 1}.items():
        for version in (1, 2):
            early = file(version)
            early.flags = flags.to_bytes(32, "little")
            yield recipe.open(
                f"header-flags-{name}-v{version}",
                early,
                "HDR-004",
                f"Data version {version} has no feature flags, but bits are set where later versions have them.",
                "flags-before-v4",
            )
    empty = File.of([], seed=SEED)
    yield recipe.refused(
        "header-count-zero", empty, "HDR-005", "A file of no tensors, right in itself."
    )
    hidden = file()
    hidden.count = 0
    yield recipe.refused(
        "header-count-zero-of-two",
        hidden,
        "HDR-005 IDX-003",
        "The count is 0 although the index holds two entries.",
    )


def files_from_the_future(recipe: Recipe) -> Iterator[Case]:
    """Data version 6 over what a reader knows how to read, but must not try to."""
    known = {layout: two_tensors(5, SEED, layout) for layout in OF_VERSION_5}
    for layout, future in {"v4": two_tensors(4, SEED), **known}.items():
        future.data_version = FUTURE
        yield recipe.refused(
            f"header-version-6-of-{layout}",
            future,
            "HDR-003",
            f"Data version 6 does not exist, although all that follows is as in {layout}.",
        )
    encrypted = File.of([Tensor(["a"])], 4, SEED, Lock(KEY))
    encrypted.data_version = FUTURE
    yield recipe.refused(
        "header-version-6-encrypted",
        encrypted,
        "HDR-003",
        "Data version 6 does not exist, although the key opens all that follows as in v4.",
        key=KEY,
    )
