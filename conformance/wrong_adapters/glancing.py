"""Wrong adapters that look at only a part of a field: they correct the rest in a copy before they read it."""

from __future__ import annotations

import struct
from collections.abc import Callable

from wrong_adapter import Json, Question, enter
from places import (
    COUNT_AT,
    DATA_VERSION_AT,
    FLAGS_AT,
    INDEX_LENGTH_AT,
    crypt_block_at,
    entry_numbers,
    u64,
)

# In a crypt block, counted from crypt_length.
CHUNK_LENGTH_AT, MAC_COUNT_AT = 10, 52

# Corrects a file in place, as far as it gets.
Correction = Callable[[bytearray], None]


def glances(*rules: str) -> Callable[[Correction], Correction]:
    """Registers an adapter that does not see what this function corrects."""

    def decorate(correct: Correction) -> Correction:
        def answer(question: Question) -> Json:
            right = question.right_answer()
            if "rejected" not in right or not question.is_about_reading():
                return right
            corrected = bytearray(question.file())
            try:
                correct(corrected)
            except (IndexError, struct.error):
                # The file ends before what the adapter looks at.
                return right
            return question.right_answer_about(bytes(corrected))

        enter(correct, rules, answer)
        return correct

    return decorate


def cut_to_32_bits(file: bytearray, at: int) -> None:
    struct.pack_into("<I", file, at + 4, 0)


@glances("TZR-HDR-002")
def middle_of_the_magic(file: bytearray) -> None:
    """Compares the letters of the magic and not the bars around them."""
    file[0] = file[4] = ord("|")


@glances("TZR-HDR-003")
def version_of_8_bits(file: bytearray) -> None:
    """Looks at the first byte of the data version."""
    struct.pack_into("<I", file, DATA_VERSION_AT, file[DATA_VERSION_AT])


@glances("TZR-HDR-004")
def flags_of_8_bits(file: bytearray) -> None:
    """Looks at the first byte of the feature flags."""
    file[FLAGS_AT + 1 : FLAGS_AT + 32] = bytes(31)


@glances("TZR-HDR-004")
def flag_1_in_every_version(file: bytearray) -> None:
    """Knows feature flag 1, and not that data version 4 has none."""
    if file[DATA_VERSION_AT] == 4:
        file[FLAGS_AT] &= ~2


@glances("TZR-IDX-013")
def flag_1_unseen(file: bytearray) -> None:
    """Tells the layout of data version 5 by the content, whatever the flag says."""
    if file[DATA_VERSION_AT] == 5:
        file[FLAGS_AT] &= ~2


@glances("TZR-HDR-005", "TZR-IDX-003", "TZR-IDX-002")
def count_of_32_bits(file: bytearray) -> None:
    """Reads the lower half of the tensor count."""
    cut_to_32_bits(file, COUNT_AT)


@glances("TZR-IDX-001")
def index_length_of_32_bits(file: bytearray) -> None:
    """Reads the lower half of index_length."""
    cut_to_32_bits(file, INDEX_LENGTH_AT)


@glances("TZR-IDX-008", "TZR-IDX-009", "TZR-IDX-012")
def header_offset_of_32_bits(file: bytearray) -> None:
    """Reads the lower half of header_offset."""
    for at in entry_numbers(file):
        cut_to_32_bits(file, at)


@glances("TZR-IDX-009", "TZR-IDX-010")
def data_offset_of_32_bits(file: bytearray) -> None:
    """Reads the lower half of data_offset."""
    for at in entry_numbers(file):
        cut_to_32_bits(file, at + 8)


@glances("TZR-IDX-006", "TZR-IDX-010", "TZR-REC-010")
def data_length_of_32_bits(file: bytearray) -> None:
    """Reads the lower half of the data_length in the index."""
    for at in entry_numbers(file):
        cut_to_32_bits(file, at + 16)


@glances("TZR-REC-002", "TZR-REC-003", "TZR-REC-004")
def header_length_of_32_bits(file: bytearray) -> None:
    """Reads the lower half of header_length."""
    for at in entry_numbers(file):
        cut_to_32_bits(file, u64(file, at))


@glances("TZR-REC-005", "TZR-REC-010")
def header_data_length_of_32_bits(file: bytearray) -> None:
    """Reads the lower half of the data_length in a tensor header."""
    for at in entry_numbers(file):
        cut_to_32_bits(file, u64(file, at + 8) - 8)


@glances("TZR-CRY-001")
def crypt_length_of_32_bits(file: bytearray) -> None:
    """Reads the lower half of crypt_length."""
    for at in entry_numbers(file):
        cut_to_32_bits(file, crypt_block_at(file, u64(file, at)))


@glances("TZR-CRY-002")
def crypt_chunk_length_of_32_bits(file: bytearray) -> None:
    """Reads the lower half of the length of the first crypt chunk."""
    for at in entry_numbers(file):
        cut_to_32_bits(file, crypt_block_at(file, u64(file, at)) + CHUNK_LENGTH_AT)


@glances("TZR-CRY-009")
def mac_count_of_32_bits(file: bytearray) -> None:
    """Reads the lower half of mac_count, where the first crypt chunk is a parallel cipher."""
    for at in entry_numbers(file):
        cut_to_32_bits(file, crypt_block_at(file, u64(file, at)) + MAC_COUNT_AT)
