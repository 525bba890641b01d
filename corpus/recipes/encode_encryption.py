"""Encode cases of encryption: lengths of data, keys and passphrases, and tensors without data."""

from collections.abc import Iterator

from encode_case import EncodeCase, EncodeRecipe
from specification import Data, Specification, Tensor, View

KEY = bytes(range(32))
PASSPHRASE = "open sesame"
# The size of chunk that upstream's writers take.
CHUNK_BYTES = 2 << 20


def cases() -> Iterator[EncodeCase]:
    recipe = EncodeRecipe("encode_encryption")
    yield from lengths(recipe)
    yield from several(recipe)
    yield from passphrases(recipe)
    yield from blank_passphrases(recipe)
    yield from without_data(recipe)


def of_bytes(size_bytes: int) -> Tensor:
    return Tensor(["a"], shape=[size_bytes])


def lengths(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    for id_, size_bytes in {
        "1-byte": 1,
        "63-bytes": 63,
        "64-bytes": 64,
        "65-bytes": 65,
        "1023-bytes": 1023,
        "1024-bytes": 1024,
        "1025-bytes": 1025,
        "2-mib-less-1": CHUNK_BYTES - 1,
        "2-mib": CHUNK_BYTES,
        "2-mib-and-1": CHUNK_BYTES + 1,
        "4-mib-and-64": 2 * CHUNK_BYTES + 64,
    }.items():
        yield recipe.written(
            f"encrypted-{id_}",
            Specification([of_bytes(size_bytes)]),
            "CRY-009 CRY-008 CRY-010 CRY-016",
            f"A tensor of {size_bytes} bytes.",
            layout="v3",
            key=KEY,
        )


def several(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    same = [Tensor([name], shape=[64], literal=bytes(range(64))) for name in "abc"]
    yield recipe.written(
        "encrypted-same-content",
        Specification(same),
        "CRY-020 CRY-016 CRY-006",
        "Three tensors of the same content, each with a nonce of its own.",
        layout="v3",
        key=KEY,
    )
    long = [Tensor(["a"], shape=[CHUNK_BYTES + 1]), Tensor(["b"], shape=[64])]
    yield recipe.written(
        "encrypted-several-chunks-first",
        Specification(long),
        "CRY-020 CRY-016",
        "A tensor of several chunks and then a short one: the nonce of the latter is not that of a later chunk.",
        layout="v3",
        key=KEY,
    )
    for count in (17, 257):
        # One piece of data, so that the specification stays short.
        data = Data("data", 4 * count)
        tensors = [
            Tensor([str(number)], view=View(data, 4 * number, 4))
            for number in range(count)
        ]
        yield recipe.written(
            f"encrypted-{count}-tensors",
            Specification(tensors),
            "CRY-020 CRY-016 CRY-006",
            f"Each of {count} tensors has a nonce of its own.",
            layout="v3",
            key=KEY,
        )
    structured = [Tensor(["a", 0], "int32", [5]), Tensor(["a", 1], "bool", [3])]
    yield recipe.written(
        "encrypted-structured-names",
        Specification(structured),
        "CRY-001 NAM-010",
        "Structured names in an encrypted file.",
        layout="v3",
        key=KEY,
    )
    kinds = [
        Tensor([kind], kind=kind, module_index=number, shape=[16 + number])
        for number, kind in enumerate(("parameter", "buffer", "state_dict"))
    ]
    yield recipe.written(
        "encrypted-kinds",
        Specification(kinds),
        "CRY-001 REC-007",
        "An encrypted tensor of each kind, with a module index of its own.",
        layout="v3",
        key=KEY,
    )


def passphrases(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    two = [of_bytes(40), Tensor(["b"], "float32", [3])]
    rules = "CRY-011 CRY-012 CRY-013 CRY-014 CRY-019 CRY-022 CRY-023 CRY-024"
    yield recipe.written(
        "passphrase",
        Specification(two),
        rules,
        "Each of two tensors repeats how the key is derived from the passphrase.",
        layout="v3",
        passphrase=PASSPHRASE,
    )
    yield recipe.written(
        "passphrase-unicode",
        Specification(two[:1]),
        rules,
        "The passphrase is taken as UTF-8 as it is: not normalised, and with its blank at the end.",
        layout="v3",
        passphrase="Straße e\u0301 \U0001f511 ",
    )
    for id_, passphrase, why in (
        ("no-break-space", "\xa0", "A no-break space is not among the white space."),
        ("separator", "\x1f", "1F is not among the white space, as it is in Python."),
        ("short", "secret", "No rule asks for so and so many characters."),
    ):
        yield recipe.written(
            f"passphrase-{id_}",
            Specification(two[:1]),
            f"CRY-023 {rules}",
            why,
            layout="v3",
            passphrase=passphrase,
        )


def blank_passphrases(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    for id_, passphrase, why in (
        ("empty", "", "The passphrase is empty, as an unset variable is."),
        ("space", " ", "The passphrase is a space."),
        ("white-space", "\t\n\v\f\r ", "The passphrase is white space of every kind."),
    ):
        yield recipe.refused(
            f"passphrase-{id_}",
            Specification([of_bytes(40)]),
            "CRY-023",
            why,
            layout="v3",
            passphrase=passphrase,
        )


def without_data(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    empty = Tensor(["e"], "float32", [0])
    beside = Specification([empty, of_bytes(40)])
    rules = "CRY-007 IDX-006 HDR-006"
    yield recipe.written(
        "encrypted-zero-elements",
        beside,
        rules,
        "A tensor of no elements beside an encrypted one.",
        layout="v3",
        key=KEY,
    )
    yield recipe.written(
        "passphrase-zero-elements",
        beside,
        rules,
        "A tensor of no elements has no key derivation either.",
        layout="v3",
        passphrase=PASSPHRASE,
    )
    yield recipe.written(
        "encrypted-zero-elements-bfloat16",
        Specification([Tensor(["e"], "bfloat16", [2, 0]), of_bytes(40)]),
        rules,
        "A bfloat16 tensor of no elements beside an encrypted one.",
        layout="v3",
        key=KEY,
    )
    yield recipe.written(
        "encrypted-nothing",
        Specification([empty, Tensor(["f"], "uint8", [0, 3])]),
        rules,
        "No tensor has data, but the file is to be encrypted all the same.",
        layout="v3",
        key=KEY,
    )
    yield recipe.written(
        "passphrase-meta",
        Specification([Tensor(["m"], "bfloat16", [2], meta=True), of_bytes(40)]),
        f"{rules} HDR-004",
        "A meta tensor beside an encrypted one, under a passphrase.",
        layout="v4",
        passphrase=PASSPHRASE,
    )
