"""Cases of content that is valid and rare, so that implementers do not think of it.

tables_test.py finds the rows of FORMAT.md's tables that no valid case uses.
"""

from collections.abc import Iterator

import builder
import sealing
import sodium
from builder import File, Tensor
from case import Case
from encode_case import EncodeCase, EncodeRecipe
from recipe import Recipe
from sealing import Lock, crypt_chunk
from specification import Specification
from specification import Tensor as SpecifiedTensor
from wire import SHA256, Hash

SEED = 2400
KEY = bytes(range(32))
SALT = builder.noise(f"{SEED}/salt", sodium.SALT_BYTES)
UNITS = "Y M W D h m s ms us ns ps fs as".split()
NAMES = {
    "\ufffd": "the character that decoders put in place of broken bytes",
    "\ufeffa": "a byte order mark",
    "\uffff": "a code point that is no character",
    "\u2028": "a line separator",
    "e\u0301": "a letter and an accent",
    "\u00e9": "the same as one character",
    "\x7f": "a control character",
    " a ": "blanks around a letter",
    "a\\ud800": "what looks like an escape",
    "__proto__": "a name that means something to an interpreter",
}


def cases() -> Iterator[Case | EncodeCase]:
    recipe = Recipe("unusual", SEED)
    yield from dtypes(recipe)
    yield from names(recipe)
    yield from secrets(recipe)
    metas = [Tensor([name], shape=[1 << 31] * 2, meta=True) for name in "abcde"]
    yield recipe.valid(
        "unusual-nominal-sizes",
        File.of(metas, 4, SEED),
        "IDX-005 IDX-007",
        "The nominal sizes of five meta tensors are 2^62 each: a sum that no 64 bits hold.",
        features=["large-claim"],
    )
    file = File.of([Tensor(["a"])], 1, SEED)
    file.records[0].hashes = [Hash(SHA256)] * 8
    yield recipe.valid(
        "unusual-sha256-8-times",
        file,
        "HSH-001 HSH-006",
        "A SHA-256 is stored eight times, in a hash list of more than 255 bytes.",
    )
    yield from written(EncodeRecipe("unusual"))


def dtypes(recipe: Recipe) -> Iterator[Case]:
    for id_, code, mark, why in (
        ("datetime", "M8", "<", "Dates"),
        ("datetime-big-endian", "M8", ">", "Big-endian dates"),
        ("timedelta", "m8", "<", "Lengths of time"),
        ("timedelta-big-endian", "m8", ">", "Big-endian lengths of time"),
    ):
        types = [
            *(f"{mark}{code}", *(f"{mark}{code}[{unit}]" for unit in UNITS)),
            f"{mark}{code}[25s]",
        ]
        yield recipe.valid(
            f"unusual-{id_}",
            File.of([Tensor([dtype], dtype, [1]) for dtype in types], 1, SEED),
            "DTY-001 DTY-005",
            f"{why} without a unit, of every unit, and of a multiple.",
        )
    marked = [f"{mark}{code}" for code in ("S5", "U3", "M8[s]", "m8") for mark in "<>|"]
    yield recipe.valid(
        "unusual-foreign-marks",
        File.of([Tensor([dtype], dtype, [2]) for dtype in marked], 1, SEED),
        "DTY-001 DTY-005",
        "Every foreign type has any of the three marks.",
    )
    words = ("a", "9", "_", "E4M3B11_fnuz", "x" * 100)
    for mark in "|<":
        types = [f"{mark}V1\0torch.float8_{word}" for word in words]
        yield recipe.valid(
            f"unusual-float8-{'none' if mark == '|' else 'little'}",
            File.of([Tensor([dtype[-100:]], dtype, [2]) for dtype in types], 2, SEED),
            "DTY-002 DTY-003 DTY-004",
            f"After torch.float8_ there is any word of letters, digits and underscores, here with the mark {mark}.",
        )


def names(recipe: Recipe) -> Iterator[Case]:
    yield recipe.valid(
        "unusual-names",
        File.of([Tensor([name]) for name in NAMES], 1, SEED),
        "NAM-001 NAM-006",
        f"Names of unusual characters: {', '.join(NAMES.values())}.",
    )
    yield recipe.valid(
        "unusual-names-of-digits",
        File.of([Tensor(["b"]), Tensor(["10"]), Tensor(["9"])], 1, SEED),
        "NAM-001 IDX-016",
        "Names of digits, which objects of JavaScript put first, in the order of their numbers.",
    )
    yield recipe.valid(
        "unusual-structured-names",
        File.of([Tensor([name, 0]) for name in NAMES], 1, SEED),
        "NAM-001 NAM-002 NAM-006",
        "The same as parts of structured names, where writers escape them.",
    )
    positions = [
        0,
        *(
            number
            for bit in (7, 8, 15, 16, 31, 32, 53, 63)
            for number in ((1 << bit) - 1, 1 << bit)
        ),
    ]
    positions += [(1 << 53) + 1, (1 << 64) - 1]
    yield recipe.valid(
        "unusual-positions",
        File.of(
            [Tensor(["a", position], shape=[1]) for position in positions], 1, SEED
        ),
        "NAM-002 NAM-006",
        "List positions on both sides of limits of types; 2^53 and 2^53 + 1 are one number for a double.",
    )


def secrets(recipe: Recipe) -> Iterator[Case]:
    for id_, passphrase in {
        "line-end": "open sesame\n",
        "carriage-return": "open sesame\r\n",
        "blank-around": "\topen sesame ",
        "quotes": '"open sesame"',
        "one-byte": "x",
        "long": "open sesame " * 50,
        "longer-than-1024": "open sesame " * 92,
        "nul": "open\0sesame",
        "latin-1": "open s\u00e9same",
        "decomposed": "open se\u0301same",
    }.items():
        lock = Lock.from_passphrase(passphrase, SALT)
        yield recipe.valid(
            f"unusual-passphrase-{id_}",
            File.of([Tensor(["a"])], 3, SEED, lock),
            "CRY-012 CRY-016",
            "Every byte of the passphrase counts.",
            features=["passphrase"],
            passphrase=passphrase,
        )
    parameters = [
        (1, 8192),
        (5, 8192),
        ((1 << 32) - 1, 8192),
        ((1 << 64) - 1, 8192),
        (1, (1 << 30) + 1),
        (1, 1 << 33),
        (1, (1 << 64) - 1),
        ((1 << 64) - 1, (1 << 64) - 1),
    ]
    file = File.of(
        [Tensor([f"p{number}"]) for number in range(len(parameters))],
        *(3, SEED, Lock(KEY)),
    )
    for number, (opslimit, memlimit) in enumerate(parameters):
        payload = sealing.kdf_payload(SALT, opslimit, memlimit)
        chunk = crypt_chunk(sealing.KEY_DERIVATION, payload)
        nonce = builder.noise(f"{SEED}/nonce/{number}", sodium.NONCE_BYTES)
        Lock(KEY, kdf=chunk).apply(file.records[number], nonce)
    yield recipe.valid(
        "unusual-raw-key-any-derivation",
        file,
        "CRY-019 CRY-015 CRY-014",
        "A raw key needs no derivation, so that nothing limits what a passphrase would take.",
        features=["large-claim", "passphrase"],
        key=KEY,
    )
    several = File.of(
        [Tensor([f"p{number}"]) for number in range(8)], 3, SEED, Lock(KEY)
    )
    for number, record in enumerate(several.records):
        salt = builder.noise(f"{SEED}/salt/{number}", sodium.SALT_BYTES)
        nonce = builder.noise(f"{SEED}/nonce/{number}", sodium.NONCE_BYTES)
        Lock.from_passphrase("open sesame", salt).apply(record, nonce)
    yield recipe.valid(
        "unusual-derivations-8",
        several,
        "CRY-015 CRY-013",
        "Eight tensors have different salts: as many derivations as every reader makes for one file.",
        features=["passphrase"],
        passphrase="open sesame",
    )
    many = File.of([Tensor([f"p{number}"]) for number in range(20)], 3, SEED, Lock(KEY))
    for number, record in enumerate(many.records):
        salt = builder.noise(f"{SEED}/salt/{number}", sodium.SALT_BYTES)
        chunk = crypt_chunk(sealing.KEY_DERIVATION, sealing.kdf_payload(salt))
        nonce = builder.noise(f"{SEED}/nonce/{number}", sodium.NONCE_BYTES)
        Lock(KEY, kdf=chunk).apply(record, nonce)
    yield recipe.valid(
        "unusual-raw-key-many-derivations",
        many,
        "CRY-019 CRY-015",
        "A raw key needs no derivation, so that the file may have 20 different ones.",
        features=["passphrase"],
        key=KEY,
    )


def written(recipe: EncodeRecipe) -> Iterator[EncodeCase]:
    yield recipe.written(
        "unusual-names",
        Specification([SpecifiedTensor([name]) for name in NAMES]),
        "NAM-001 NAM-010",
        f"Names of unusual characters: {', '.join(NAMES.values())}.",
    )
    yield recipe.written(
        "unusual-structured-names",
        Specification([SpecifiedTensor([name, 0]) for name in NAMES]),
        "NAM-001 NAM-010",
        "The same as parts of structured names, where they are escaped.",
    )
    yield recipe.written(
        "unusual-positions",
        Specification(
            [
                SpecifiedTensor(["a", 1 << 53]),
                SpecifiedTensor(["a", (1 << 53) + 1]),
                SpecifiedTensor(["a", (1 << 64) - 1]),
            ]
        ),
        "NAM-002 NAM-010",
        "List positions that no double holds.",
    )
    yield recipe.written(
        "unusual-passphrase-line-end",
        Specification([SpecifiedTensor(["a"])]),
        "CRY-012 CRY-019",
        "The passphrase ends with a line end, which counts.",
        layout="v3",
        passphrase="open sesame\n",
    )
