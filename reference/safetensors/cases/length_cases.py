"""The cases of the first eight bytes: no length, one beyond the limit or the file, and files of other formats."""

import struct
from collections.abc import Iterator

from builders import ONE, bad
from case import Case, file_of, header_of, refused

HEADER_BYTES_MAX = 100_000_000

TOO_LARGE = {
    "limit-and-one": HEADER_BYTES_MAX + 1,
    "2-31": 2**31,
    "2-32": 2**32,
    "2-32-and-two": 2**32 + 2,
    "below-2-63": 2**63 - 1,
    "negative": 2**63,
    "minus-8": 2**64 - 8,
    "all-ones": 2**64 - 1,
}
PAST_END = {
    "limit": HEADER_BYTES_MAX,
    "one-more": 3,
    "with-itself": 10,
}

# The beginnings of other files that a loader may be handed.
OTHER_FORMATS = {
    "json": ("a header without its length", header_of(ONE).encode() + b"\n"),
    "lfs-pointer": (
        "a pointer of Git LFS",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:"
        + b"0" * 64
        + b"\nsize 1\n",
    ),
    "html": ("a page of HTML", b"<!DOCTYPE html>\n<html></html>\n"),
    "gguf": ("a GGUF file", b"GGUF\3\0\0\0" + bytes(16)),
    "pickle": ("a pickle", b"\x80\2}q\0X\1\0\0\0aq\1K\1s."),
    "zip": ("a ZIP archive, as PyTorch writes it", b"PK\3\4\0\0\x08\x08" + bytes(22)),
    "npy": ("a NumPy array", b"\x93NUMPY\1\0v\0{'descr': '<f4'}\n"),
    "hdf5": ("an HDF5 file", b"\x89HDF\r\n\x1a\n" + bytes(16)),
}


def raw(id: str, why: str, content: bytes, rule: str, error: str) -> Case:
    verdict = refused(rule, 0)
    return Case(id, why, {"file": content}, verdict, verdict, error)


def cases() -> Iterator[Case]:
    short = ("ST-001", "HeaderTooSmall")
    yield raw("no-bytes", "an empty file", b"", *short)
    yield raw("one-byte", "one byte is no whole length", b"\0", *short)
    yield raw(
        "seven-bytes", "seven bytes are no whole length", b"\2" + b"\0" * 6, *short
    )
    content = struct.pack("<I", 2) + b"{}"
    yield raw("length-of-32-bits", "a length of four bytes", content, *short)
    large = ("ST-002", "HeaderTooLarge")
    for name, length in TOO_LARGE.items():
        content = file_of("{}", length=length)
        yield raw(f"length-{name}", "a header beyond the limit", content, *large)
    content = struct.pack(">Q", 2) + b"{}"
    yield raw("length-big-endian", "a length in big-endian order", content, *large)
    for name, (what, content) in OTHER_FORMATS.items():
        why = f"{what}, whose first eight bytes are a length beyond the limit"
        yield raw(f"other-format-{name}", why, content, *large)
    past = ("ST-003", "InvalidHeaderLength")
    for name, length in PAST_END.items():
        content = file_of("{}", length=length)
        why = (
            "a header that is longer than the file, a claim that costs a reader nothing"
        )
        yield raw(f"length-{name}", why, content, *past)
    content = b"\x1f\x8b\x08" + bytes(5) + b"\2\3" + bytes(10)
    why = "a gzip file, whose first eight bytes are a length beyond the file"
    yield raw("other-format-gzip", why, content, *past)
    content = struct.pack("<Q", 1)
    yield raw("length-alone", "nothing follows the length", content, *past)
    content = file_of(header_of(ONE), b"\0", 8 + len(header_of(ONE)))
    yield raw(
        "length-with-itself-and-data",
        "a length that counts its own eight bytes, which end beyond the data",
        content,
        *past,
    )
    yield from shifted_lengths()


def shifted_lengths() -> Iterator[Case]:
    """The header ends before or after its object."""
    short = bad(
        "length-one-less", "a length that cuts off the brace", "{", "ST-006", None
    )
    short.files = {"file": file_of("{", b"}")}
    yield short
    header = header_of(ONE).encode()
    for id, byte, rule, error in (
        ("text", b"x", "ST-007", "InvalidHeaderDeserialization"),
        ("data", b"\xff", "ST-004", "InvalidHeader"),
    ):
        yield bad(
            f"length-with-{id}",
            f"a length that takes the byte {byte.hex()} of the data into the header",
            header + byte,
            rule,
            len(header),
            error,
            data=0,
        )
