"""Cases of files that end too early: one cut at each boundary of a structure, and one inside each structure."""

from collections.abc import Iterator

from builder import FILE_HEADER_BYTES, File, Tensor
from case import Case
from recipe import Recipe, two_tensors
from sealing import Lock

SEED = 900
KEY = bytes(range(32))


def cases() -> Iterator[Case]:
    recipe = Recipe("truncation", SEED)
    for id_, file, key in (
        ("plain", two_tensors(seed=SEED), None),
        ("encrypted", File.of([Tensor(["a"]), Tensor(["b"])], 3, SEED, Lock(KEY)), KEY),
    ):
        content = file.encode()
        for name, at, rules in places(file):
            yield recipe.refused(
                f"cut-{id_}-{name}",
                file,
                rules,
                f"Of {len(content)} bytes the first {at} are there: the file ends {WHERE[name]}.",
                content=content[:at],
                key=key,
            )


WHERE = {
    "after-header": "after the file header",
    "in-index-length": "inside index_length",
    "before-index": "before the index",
    "in-entry-1": "inside the first index entry",
    "after-entry-1": "after the first index entry",
    "in-index": "one byte before the end of the index",
    "after-index": "after the index",
    "in-header-length-1": "inside the header_length of the first tensor",
    "in-header-1": "inside the header of the first tensor",
    "after-header-1": "between header and data of the first tensor",
    "in-data-1": "inside the data of the first tensor",
    "after-record-1": "after the first tensor",
    "in-header-length-2": "inside the header_length of the last tensor",
    "in-header-2": "one byte before the end of the header of the last tensor",
    "after-header-2": "between header and data of the last tensor",
    "in-data-2": "one byte before the end of the last data",
}


def places(file: File) -> Iterator[tuple[str, int, str]]:
    """Where to cut, and the rules that are broken there. Behind the last data only the terminator is missing."""
    index_start = FILE_HEADER_BYTES + 8
    first_entry_end = index_start + len(file.entries[0].encode(0, 0))
    (header_1, data_1), (header_2, data_2) = file.offsets()
    end_2 = data_2 + len(file.records[1].stored)
    index = "IDX-001"
    # The index is whole: it names tensors that begin behind the end, so the first thing to see is an offset.
    offsets = "IDX-008 IDX-010 REC-002 IDX-009"
    last_header = "REC-002 IDX-010 IDX-009"
    return iter(
        [
            ("after-header", FILE_HEADER_BYTES, index),
            ("in-index-length", FILE_HEADER_BYTES + 4, index),
            ("before-index", index_start, index),
            ("in-entry-1", index_start + 10, index),
            ("after-entry-1", first_entry_end, index),
            ("in-index", header_1 - 1, index),
            ("after-index", header_1, offsets),
            ("in-header-length-1", header_1 + 4, offsets),
            ("in-header-1", header_1 + 20, offsets),
            ("after-header-1", data_1, offsets),
            ("in-data-1", data_1 + 1, offsets),
            ("after-record-1", header_2, offsets),
            ("in-header-length-2", header_2 + 4, last_header),
            ("in-header-2", data_2 - 1, last_header),
            ("after-header-2", data_2, "IDX-010"),
            ("in-data-2", end_2 - 1, "IDX-010"),
        ]
    )
