"""The cases of tensors' names, which are any string: readers take them as paths, as attributes or in another form."""

from collections.abc import Iterator

from builders import bad, valid
from case import Case, Tensor

NAMES = {
    "empty": ("an empty name", ""),
    "space": ("a name of one space", " "),
    "surrounding-spaces": ("a name between spaces", " a "),
    "long": ("a name of 64 KiB", "n" * (64 << 10)),
    "slash": ("a name with slashes", "a/b//c/"),
    "absolute": ("a name like an absolute path", "/etc/passwd"),
    "parent": ("a name like a path out of the directory", "../../a"),
    "dot": ("the name .", "."),
    "dots": ("the name ..", ".."),
    "backslash": ("a name like a path of Windows", "C:\\a\\..\\b"),
    "nul": ("a name with NUL", "a\0b"),
    "only-nul": ("a name of one NUL", "\0"),
    "lines": ("a name with line ends", "a\r\nb\n"),
    "escape-sequence": ("a name with a terminal's escape sequence", "\x1b[2Ja"),
    "quotes": ("a name with quotes", "\"'`"),
    "format": ("a name with placeholders", "%s%n{}{0}${a}"),
    "markup": ("a name with HTML", "<script>a</script>&amp;"),
    "emoji": ("a name of an emoji of several characters", "👩\u200d💻🏽"),
    "right-to-left": ("a name with marks of direction", "\u202ea\u202c"),
    "invisible": ("a name of invisible characters", "\u200b\ufeff"),
    "last-characters": ("a name of the last characters", "\uffff\U0010ffff"),
    "capital-metadata": ("a name that is metadata's in capitals", "__METADATA__"),
    "metadata-space": ("a name that is metadata's and a space", "__metadata__ "),
    "metadata-nul": ("a name that is metadata's and NUL", "__metadata__\0"),
    "metadata-short": ("a name without one underscore", "__metadata_"),
    "metadata-plain": ("a name without underscores", "metadata"),
    "metadata-wide": ("a name with full-width underscores", "＿＿metadata＿＿"),
    "proto": ("a name that JavaScript's objects have", "__proto__"),
    "constructor": ("another name that JavaScript's objects have", "constructor"),
    "python": ("a name that Python's objects have", "__class__"),
    "number": ("a name of a number", "0"),
    "null": ("a name of a word of JSON", "null"),
    "dtype": ("a name of a field", "dtype"),
    "offsets": ("a name of another field", "data_offsets"),
}

# Names that some readers cannot tell apart.
PAIRS = {
    "case": ("names that differ in case", "a", "A"),
    "normal-forms": ("a name in two normal forms of Unicode", "\u00e4", "a\u0308"),
    "compatibility": ("names with the same meaning to Unicode", "\ufb01", "fi"),
    "nul-cut": ("names that are the same up to NUL", "a\0b", "a\0c"),
    "nul-and-none": ("a name, and the same with NUL", "a", "a\0"),
    "spaces": ("a name, and the same with a space", "a", "a "),
    "separators": ("names with different separators", "a.b", "a/b"),
    "number-forms": ("two spellings of a number", "1", "01"),
    "byte-order-mark": ("a name, and the same with a mark", "a", "\ufeffa"),
    # UTF-16 sorts them the other way round.
    "sorting": ("names whose order depends on the encoding", "\uffff", "\U00010000"),
    "parts": ("a name that is the beginning of another", "a.b", "a"),
}


def cases() -> Iterator[Case]:
    for id, (why, name) in NAMES.items():
        tensor = Tensor(name, "U8", (1,), 0, 1)
        yield valid(f"name-{id}", why, tensor, rules="ST-004 ST-006")
    yield valid(
        "names",
        "names beyond ASCII, with dots, with what JSON escapes",
        Tensor('layers.0."w"\\\n', "U8", (1,), 0, 1),
        Tensor("größe 😀\x7f", "U8", (1,), 1, 2),
        Tensor("\x1e[0]", "U8", (1,), 2, 3),
        rules="ST-004 ST-006",
    )
    for id, (why, first, second) in PAIRS.items():
        tensors = Tensor(first, "U8", (1,), 0, 1), Tensor(second, "U8", (1,), 1, 2)
        yield valid(f"names-{id}", why, *tensors, rules="ST-006 ST-008")
    for id, name in (("space", "__metadata__ "), ("capitals", "__METADATA__")):
        header = f'{{"{name}":{{"a":"b"}}}}'
        why = f"metadata under the name {name!r}, which is a tensor's"
        yield bad(f"metadata-named-{id}", why, header, "ST-006", "}}", data=0)
