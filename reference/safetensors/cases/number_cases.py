"""The cases of numbers: as dimensions, as offsets, and in values that are ignored."""

from collections.abc import Iterator

from builders import OFFSETS_AT, ONE, SHAPE_AT, bad, entry, extra, valid
from case import Case

# JSON, but no integer from 0 to 2^64 - 1 as a dimension or offset is written.
NO_INTEGERS = {
    "float": "1.0",
    "exponent": "1e0",
    "exponent-upper": "1E0",
    "exponent-plus": "1e+0",
    "exponent-minus": "10e-1",
    "hundred": "1E2",
    "float-exponent": "1.0e0",
    "zero-float": "0.0",
    "negative": "-1",
    "minus-zero": "-0",
    "minus-2-63": str(-(2**63)),
    "minus-all": str(1 - 2**64),
    "too-large": str(2**64),
    "too-large-by-two": str(2**64 + 1),
    "20-digits": "9" * 20,
    "string": '"1"',
    "string-space": '" 1"',
    "string-empty": '""',
    "true": "true",
    "false": "false",
    "null": "null",
    "list": "[1]",
    "list-empty": "[]",
    "object": "{}",
}

# What is no number of JSON.
NO_NUMBERS = {
    "nan": "NaN",
    "infinity": "Infinity",
    "minus-infinity": "-Infinity",
    "inf": "inf",
    "hexadecimal": "0x10",
    "binary": "0b1",
    "octal": "01",
    "octal-of-two": "010",
    "minus-octal": "-01",
    "two-zeros": "00",
    "plus": "+1",
    "two-minus": "--1",
    "underscore": "1_000",
    "suffix": "1n",
    "point-first": ".5",
    "point-last": "1.",
    "exponent-none": "1e",
    "exponent-sign": "1e+",
    "exponent-float": "1e1.5",
    "minus-alone": "-",
    "full-width": "\uff11",
    "fraction": "1/1",
}

# Numbers of JSON that no float holds.
TOO_LARGE = {
    "too-large": "1e400",
    "1e309": "1e309",
    "minus-1e309": "-1e309",
    "400-digits": "1" * 400,
    "310-digits": "9" * 310,
    "deep-exponent": "1e99999999999999999999",
    "deep-exponent-of-tiny": "0.001e99999999999999999999",
}

# What a float holds or rounds, in a value that is ignored.
ACCEPTED = {
    "tiny": ("1e-400", "a number too small for a float"),
    "minus-tiny": ("-1e-400", "a negative number too small for a float"),
    "smallest": ("5e-324", "the smallest number of a float"),
    "largest": ("1.7976931348623157e308", "the largest number of a float"),
    "308-digits": ("1" * 308, "an integer of 308 digits"),
    "minus-308-digits": ("-" + "1" * 308, "a negative integer of 308 digits"),
    "400-decimals": ("0." + "1" * 400, "a number with 400 decimals"),
    "2-64": (str(2**64), "the integer 2^64"),
    "below-minus-2-63": (str(-(2**63) - 1), "the integer -2^63 - 1"),
    "exponent-upper": ("1E2", "a number with the exponent E2"),
    "float-exponent": ("1.0e0", "a number with a fraction and an exponent"),
    "exponent-zeros": ("1e+0000000000000000000001", "an exponent with leading zeros"),
    "minus-zero": ("-0", "minus zero"),
    "minus-zero-float": ("-0.0e-0", "minus zero with a fraction and an exponent"),
    "zero-deep": ("0e99999999999999999999", "zero with an exponent of 20 digits"),
    "deep-minus": ("1e-99999999999999999999", "an exponent of minus 20 digits"),
    "zeros-and-exponent": (
        "0." + "0" * 400 + "1e400",
        "400 zeros, which the exponent takes back",
    ),
    "digits-and-exponent": (
        "1" + "0" * 400 + "e-400",
        "401 digits, which the exponent takes back",
    ),
}


def cases() -> Iterator[Case]:
    for id, text in NO_INTEGERS.items():
        yield from in_both(id, text)
    for id, text in NO_NUMBERS.items():
        # These two are older cases.
        dimension = {"octal": "dimension-octal"}.get(id, f"dimension-{id}")
        ignored = {"nan": "not-a-number"}.get(id, f"number-{id}")
        yield bad(dimension, f"a dimension of {text}", shaped(text), "ST-006", None)
        why = f"{text}, which is no number of JSON, in a value that is ignored"
        yield bad(ignored, why, extra(text), "ST-006", None)
    for id, text in TOO_LARGE.items():
        shown = text if len(text) < 30 else f"an integer of {len(text)} digits"
        why = f"{shown}, which no float holds, in a value that is ignored"
        yield bad(f"number-{id}", why, extra(text), "ST-006", None)
    for id in ("too-large", "400-digits"):
        why = "a dimension that no float holds"
        header = shaped(TOO_LARGE[id])
        yield bad(f"dimension-{id}-for-floats", why, header, "ST-006", None)
    for id, (text, why) in ACCEPTED.items():
        yield valid(f"number-{id}", why, ONE, header=extra(text))
    yield from negative_offsets()


def in_both(id: str, text: str) -> Iterator[Case]:
    """As a dimension and as an offset, at the byte where the value begins."""
    why = f"a dimension of {text}"
    yield bad(f"dimension-{id}", why, shaped(text), "ST-006", SHAPE_AT + 1)
    header, at = entry(offsets=f"[0,{text}]"), OFFSETS_AT + len("[0,")
    yield bad(f"offset-{id}", f"an offset of {text}", header, "ST-006", at)


def shaped(text: str) -> str:
    return entry(shape=f"[{text}]")


def negative_offsets() -> Iterator[Case]:
    """Offsets that signed arithmetic turns into a span of the right size."""
    for id, text in {
        "begin-negative": "[-1,0]",
        "both-negative": "[-2,-1]",
        "around-zero": "[-1,1]",
        "in-header": "[-8,-7]",
    }.items():
        why = f"data_offsets of {text}, which lie before the data"
        header = entry(offsets=text)
        yield bad(f"offsets-{id}", why, header, "ST-006", OFFSETS_AT + 1)
    why = "two negative dimensions, whose product is the right size"
    yield bad("shape-negative", why, shaped("-1,-1"), "ST-006", SHAPE_AT + 1)
