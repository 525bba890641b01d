"""Cases of encryption: crypt blocks, ciphers, key derivation, and files opened with the wrong key or none."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import builder
import sealing
import sodium
from builder import File, Tensor
from case import Case
from recipe import Recipe, two_tensors
from sealing import Lock, crypt_block, crypt_chunk
from wire import SHA256, Hash, Record, both_hashes

SEED = 800
KEY = bytes(range(32))
PASSPHRASE = "open sesame"
SALT = builder.noise(f"{SEED}/salt", sodium.SALT_BYTES)
NONCE = builder.noise(f"{SEED}/nonce/0", sodium.NONCE_BYTES)


def cases() -> Iterator[Case]:
    recipe = Recipe("encryption", SEED)
    yield from ciphers(recipe)
    yield from passphrases(recipe)
    yield from blocks(recipe)
    yield from parallel_fields(recipe)
    yield from key_derivation(recipe)
    yield from forgeries(recipe)
    yield from openings(recipe)


def of_size(size_bytes: int, lock: Lock, data_version: int = 3) -> File:
    return File.of([Tensor(["a"], shape=[size_bytes])], data_version, SEED, lock)


def small(lock: Lock | None = None) -> File:
    return of_size(16, lock or Lock(KEY))


def sealed_small() -> tuple[bytes, list[bytes]]:
    """Ciphertext and MACs of the tensor of small()."""
    plaintext = small().records[0].plaintext
    return sealing.seal(plaintext, KEY, NONCE, 1024)


def parallel_chunk(**overrides: int) -> bytes:
    """The cipher chunk of small(), with what a recipe wants changed in it."""
    _, macs = sealed_small()
    return crypt_chunk(
        sealing.PARALLEL,
        sealing.parallel_payload(
            overrides.pop("chunk_size", 1024), NONCE, macs, **overrides
        ),
    )


def sequential_chunk() -> bytes:
    _, mac = sodium.secretbox(small().records[0].plaintext, NONCE, KEY)
    return crypt_chunk(sealing.SEQUENTIAL, NONCE + mac)


def with_block(block: bytes) -> File:
    file = small()
    file.records[0].crypt = block
    return file


def ciphers(recipe: Recipe) -> Iterator[Case]:
    general = "CRY-001 CRY-002 CRY-003 CRY-004 CRY-006 CRY-008 CRY-009 CRY-010 CRY-016 CRY-017 CRY-018"
    yield recipe.valid(
        "encryption-parallel", small(), general, "One tensor of one chunk.", key=KEY
    )
    yield recipe.valid(
        "encryption-sequential",
        small(Lock(KEY, sequential=True)),
        "CRY-003 CRY-010 CRY-016",
        "The whole tensor is one message; no writer stores it so, but readers know it.",
        features=["sequential-cipher"],
        key=KEY,
    )
    passphrase = "open sesame"
    lock = Lock.from_passphrase(passphrase, SALT)
    yield recipe.valid(
        "encryption-sequential-passphrase",
        of_size(128, replace(lock, sequential=True)),
        "CRY-003 CRY-010 CRY-012 CRY-016",
        "Two blocks of the cipher in one message, under a passphrase.",
        features=["sequential-cipher"],
        passphrase=passphrase,
    )
    yield recipe.valid(
        "encryption-nothing-passphrase",
        File.of([Tensor(["a"], shape=[0]), Tensor(["b"], shape=[2, 0])], 3, SEED, lock),
        "CRY-007 CRY-018",
        "No tensor has data, so that nothing says how the passphrase becomes a key.",
        passphrase=passphrase,
    )
    two = File.of([Tensor(["a"]), Tensor(["b"], "<f4", [])], 3, SEED, Lock(KEY))
    yield recipe.valid(
        "encryption-two-tensors", two, "CRY-016", "Two tensors under one key.", key=KEY
    )
    mixed = File.of([Tensor(["a"]), Tensor(["b"])], 3, SEED, Lock(KEY))
    Lock(KEY, sequential=True).apply(mixed.records[1], NONCE)
    yield recipe.valid(
        "encryption-both-ciphers",
        mixed,
        "CRY-003 CRY-004",
        "One tensor is encrypted in chunks, the other as one message.",
        features=["sequential-cipher"],
        key=KEY,
    )
    yield recipe.valid(
        "encryption-v4",
        of_size(16, Lock(KEY), 4),
        "HDR-004 CRY-001",
        "From data version 4 on a feature flag says that a file is encrypted.",
        key=KEY,
    )
    for size_bytes, chunk_size in (
        (1023, 1024),
        (1024, 1024),
        (1025, 1024),
        (1088, 1088),
        (2049, 1024),
    ):
        yield recipe.valid(
            f"encryption-{size_bytes}-by-{chunk_size}",
            of_size(size_bytes, Lock(KEY, chunk_size)),
            "CRY-008 CRY-009",
            f"{size_bytes} bytes of data in chunks of {chunk_size}.",
            key=KEY,
        )
    yield recipe.valid(
        "encryption-chunk-256",
        of_size(256 * 1024 + 1, Lock(KEY)),
        "CRY-016 CRY-009",
        "The tensor has 257 chunks, so the number that is added to the nonce needs more than one byte.",
        key=KEY,
    )
    for id_, chunk_size in {"2-40": 1 << 40, "2-64-less-64": (1 << 64) - 64}.items():
        yield recipe.valid(
            f"encryption-chunk-size-{id_}",
            of_size(16, Lock(KEY, chunk_size)),
            "CRY-008 CRY-009",
            "A chunk size far beyond the data makes one short chunk; nobody needs a buffer of that size.",
            features=["large-claim"],
            key=KEY,
        )
    wrapping = of_size(1025, Lock(KEY))
    Lock(KEY).apply(wrapping.records[0], b"\xff" * sodium.NONCE_BYTES)
    yield recipe.valid(
        "encryption-nonce-wraps",
        wrapping,
        "CRY-016",
        "The nonce of the second chunk is that of the first plus 1, which is 0 after 2^192 - 1.",
        key=KEY,
    )
    carrying = of_size(1025, Lock(KEY))
    Lock(KEY).apply(carrying.records[0], b"\xff\xff" + NONCE[2:])
    yield recipe.valid(
        "encryption-nonce-carries",
        carrying,
        "CRY-016",
        "The nonce is a little-endian number, and adding 1 carries into its third byte.",
        key=KEY,
    )
    yield recipe.valid(
        "encryption-zero-elements",
        File.of([Tensor(["a"], shape=[0]), Tensor(["b"])], 3, SEED, Lock(KEY)),
        "CRY-007",
        "A tensor without elements has an empty crypt block.",
        key=KEY,
    )
    meta = File.of(
        [Tensor(["m"], "<f4", [2], meta=True), Tensor(["b"])], 4, SEED, Lock(KEY)
    )
    yield recipe.valid(
        "encryption-meta",
        meta,
        "CRY-006 CRY-007 IDX-007",
        "A meta tensor in an encrypted file has an empty crypt block.",
        key=KEY,
    )
    yield recipe.valid(
        "encryption-opaque-dtype",
        File.of([Tensor(["a"], "<V2\0torch.bfloat16")], 3, SEED, Lock(KEY)),
        "DTY-002 CRY-016",
        "Data version 3 has opaque dtypes too.",
        key=KEY,
    )
    for id_, hashes in {
        "both-hashes": both_hashes(),
        "order": both_hashes()[::-1],
    }.items():
        both = small()
        both.records[0].hashes = hashes
        yield recipe.valid(
            f"encryption-{id_}",
            both,
            "HSH-005 HSH-006",
            "An encrypted tensor may carry a CRC32 as well; both are those of the plaintext.",
            key=KEY,
        )
    yield recipe.refused(
        "encryption-meta-in-v3",
        File.of(
            [Tensor(["m"], "<f4", [2], meta=True), Tensor(["b"])], 3, SEED, Lock(KEY)
        ),
        "IDX-007 IDX-006",
        "Data version 3 has no meta tensors.",
        key=KEY,
    )


def passphrases(recipe: Recipe) -> Iterator[Case]:
    rules = "CRY-005 CRY-011 CRY-012 CRY-013 CRY-014 CRY-015 CRY-019"
    lock = Lock.from_passphrase(PASSPHRASE, SALT)
    yield recipe.valid(
        "passphrase-minimum",
        small(lock),
        rules,
        "A key derived with the smallest limits that there are.",
        features=["passphrase"],
        passphrase=PASSPHRASE,
    )
    yield recipe.valid(
        "passphrase-derived-key",
        small(lock),
        "CRY-019 CRY-016 CRY-018",
        "The key that the passphrase gives opens the file as well.",
        features=["passphrase"],
        key=lock.key,
        same_file_as="passphrase-minimum",
    )
    for id_, opslimit, memlimit in (
        ("opslimit-4", 4, 8192),
        ("memlimit-odd", 1, 9000),
        ("memlimit-1-mib", 2, 1 << 20),
    ):
        yield recipe.valid(
            f"passphrase-{id_}",
            small(Lock.from_passphrase(PASSPHRASE, SALT, opslimit, memlimit)),
            "CRY-014 CRY-015",
            f"The limits are {opslimit} passes over {memlimit} bytes.",
            features=["passphrase"],
            passphrase=PASSPHRASE,
        )
    for id_, passphrase in {
        "utf8": "Sesam öffne dich \U0001f511",
        "space": " ",
    }.items():
        yield recipe.valid(
            f"passphrase-{id_}",
            small(Lock.from_passphrase(passphrase, SALT)),
            "CRY-012 CRY-016",
            "The passphrase is taken as its UTF-8 bytes, and every byte counts.",
            features=["passphrase"],
            passphrase=passphrase,
        )
    two = File.of([Tensor(["a"]), Tensor(["b"])], 3, SEED, lock)
    other_salt = builder.noise(f"{SEED}/salt/1", sodium.SALT_BYTES)
    Lock.from_passphrase(PASSPHRASE, other_salt).apply(two.records[1], NONCE)
    yield recipe.valid(
        "passphrase-two-salts",
        two,
        "CRY-005 CRY-013 CRY-015",
        "Each tensor says how its key is derived, so two of them may have different salts.",
        features=["passphrase"],
        passphrase=PASSPHRASE,
    )
    for id_, opslimit, memlimit in (("opslimit", 2, 8192), ("memlimit", 1, 16384)):
        two = File.of([Tensor(["a"]), Tensor(["b"])], 3, SEED, lock)
        other = Lock.from_passphrase(PASSPHRASE, SALT, opslimit, memlimit)
        other.apply(two.records[1], NONCE)
        yield recipe.valid(
            f"passphrase-two-{id_}s",
            two,
            "CRY-014 CRY-015",
            f"Two tensors have one salt, and the second has another {id_}: its key is another one.",
            features=["passphrase"],
            passphrase=PASSPHRASE,
        )
    meta = File.of([Tensor(["m"], meta=True), Tensor(["b"])], 4, SEED, lock)
    yield recipe.valid(
        "passphrase-meta",
        meta,
        "CRY-007 CRY-019",
        "A meta tensor needs no key, so its empty crypt block has no key derivation either.",
        features=["passphrase"],
        passphrase=PASSPHRASE,
    )


def blocks(recipe: Recipe) -> Iterator[Case]:
    """Crypt blocks that are counted wrongly, or hold chunks that must not be there."""
    cipher = parallel_chunk()

    def refused(id_: str, file: File, rules: str, why: str) -> Case:
        return recipe.refused(f"crypt-{id_}", file, rules, why, key=KEY)

    for version in (3, 4):
        plain = two_tensors(version, SEED)
        plain.flags = b"\x01" + bytes(31) if version == 4 else plain.flags
        yield refused(
            f"missing-v{version}",
            plain,
            "CRY-001 REC-003",
            "The file says that it is encrypted, but its tensor headers have no crypt blocks.",
        )
    for id_, length in {"2-32": 1 << 32, "2-64-less-1": (1 << 64) - 1}.items():
        wrong = small()
        wrong.records[0].crypt_length = length
        yield refused(
            f"length-{id_}",
            wrong,
            "CRY-001 REC-003",
            f"The crypt block claims {length} bytes, and the header ends before.",
        )
    wrong = small()
    wrong.records[0].crypt_length = len(wrong.records[0].crypt or b"") + 1
    yield refused(
        "length-one-more",
        wrong,
        "CRY-002 REC-003",
        "The crypt block claims the first byte of data_length too: its chunks do not fill it, and data_length does not"
        " end inside the header.",
    )
    for id_, length in {"zero": 0, "one": 1, "one-less": -1}.items():
        wrong = small()
        size_bytes = len(wrong.records[0].crypt or b"")
        wrong.records[0].crypt_length = length if length >= 0 else size_bytes - 1
        yield refused(
            f"length-{id_}",
            wrong,
            "CRY-002 REC-004 CRY-006",
            f"The crypt block claims {wrong.records[0].crypt_length} of its {size_bytes} bytes.",
        )
    for count in (0, 2, 0xFFFF):
        yield refused(
            f"chunk-count-{count}",
            with_block(crypt_block([cipher], count)),
            "CRY-002 CRY-006" if count == 0 else "CRY-002",
            f"The block counts {count} chunks and holds one.",
        )
    yield refused(
        "stray-byte",
        with_block(crypt_block([cipher]) + b"\0"),
        "CRY-002",
        "A byte in the block belongs to no chunk.",
    )
    for id_, length in {"past-block": 5000, "2-64-less-1": (1 << 64) - 1}.items():
        yield refused(
            f"chunk-length-{id_}",
            with_block(
                crypt_block([crypt_chunk(sealing.PARALLEL, cipher[10:], length)])
            ),
            "CRY-002",
            f"The chunk claims {length} bytes, and the block ends before.",
        )
    for id_, length in {"zero": 0, "one": 1}.items():
        yield refused(
            f"chunk-length-{id_}",
            with_block(
                crypt_block([crypt_chunk(sealing.PARALLEL, cipher[10:], length)])
            ),
            "CRY-002 CRY-010",
            f"The chunk claims {length} bytes, which is less than its type has.",
        )
    for chunk_type in (0, 4, 0xFFFF):
        yield refused(
            f"chunk-type-{chunk_type}",
            with_block(crypt_block([cipher, crypt_chunk(chunk_type, bytes(8))])),
            "CRY-003",
            f"A second chunk is of type {chunk_type}, which does not exist.",
        )
    for id_, chunks in {
        "parallel-twice": [cipher, cipher],
        "parallel-and-sequential": [cipher, sequential_chunk()],
    }.items():
        yield refused(
            f"two-ciphers-{id_}",
            with_block(crypt_block(chunks)),
            "CRY-004",
            "Two cipher chunks leave open which one is meant.",
        )
    lock = Lock.from_passphrase(PASSPHRASE, SALT)
    assert lock.kdf is not None
    twice = small(lock)
    _, macs = sealing.seal(twice.records[0].plaintext, lock.key, NONCE, 1024)
    sealed = crypt_chunk(sealing.PARALLEL, sealing.parallel_payload(1024, NONCE, macs))
    twice.records[0].crypt = crypt_block([lock.kdf, lock.kdf, sealed])
    yield recipe.refused(
        "crypt-two-kdfs",
        twice,
        "CRY-005",
        "Two key derivation chunks, equal ones.",
        features=["passphrase"],
        passphrase=PASSPHRASE,
    )
    behind = small(lock)
    behind.records[0].crypt = crypt_block([sealed, lock.kdf])
    yield recipe.valid(
        "crypt-kdf-last",
        behind,
        "CRY-002 CRY-003",
        "The key derivation chunk follows the cipher chunk: chunks may be in any order.",
        features=["passphrase"],
        passphrase=PASSPHRASE,
    )
    yield refused(
        "empty-on-data",
        with_block(crypt_block([])),
        "CRY-006",
        "A tensor with data has no cipher chunk, so nothing authenticates its data.",
    )
    only_kdf = small(lock)
    only_kdf.records[0].crypt = crypt_block([lock.kdf])
    yield recipe.refused(
        "crypt-kdf-only-on-data",
        only_kdf,
        "CRY-006",
        "A tensor with data says how to derive a key, but has no cipher chunk.",
        features=["passphrase"],
        passphrase=PASSPHRASE,
    )
    empty_cipher = crypt_chunk(
        sealing.PARALLEL, sealing.parallel_payload(1024, NONCE, [])
    )
    for id_, meta in {"meta": True, "zero-elements": False}.items():
        tensor = Tensor(["m"], shape=[2] if meta else [0], meta=meta)
        file = File.of([tensor, Tensor(["b"])], 4, SEED, Lock(KEY))
        file.records[0].crypt = crypt_block([empty_cipher])
        yield refused(
            f"cipher-on-{id_}",
            file,
            "CRY-007",
            "A tensor without data has a cipher chunk.",
        )


def parallel_fields(recipe: Recipe) -> Iterator[Case]:
    _, macs = sealed_small()

    def refused(id_: str, payload: bytes, rules: str, why: str) -> Case:
        block = crypt_block([crypt_chunk(sealing.PARALLEL, payload)])
        return recipe.refused(f"crypt-{id_}", with_block(block), rules, why, key=KEY)

    for chunk_size in (0, 1, 64, 960, 1023, 1025, 1056):
        payload = sealing.parallel_payload(chunk_size, NONCE, macs)
        yield refused(
            f"chunk-size-{chunk_size}",
            payload,
            "CRY-008 CRY-009" if chunk_size < 16 else "CRY-008",
            f"A chunk_size of {chunk_size} is too small or no multiple of 64.",
        )
    for count in (0, 2):
        payload = sealing.parallel_payload(1024, NONCE, (macs * 2)[:count])
        yield refused(
            f"mac-count-{count}",
            payload,
            "CRY-009",
            f"Data of one chunk has {count} MACs.",
        )
    for id_, count in {"2": 2, "2-60": 1 << 60, "2-64-less-1": (1 << 64) - 1}.items():
        payload = sealing.parallel_payload(1024, NONCE, macs, mac_count=count)
        yield refused(
            f"mac-count-lies-{id_}",
            payload,
            "CRY-010 CRY-009",
            f"The chunk claims {count} MACs and holds one.",
        )
    yield refused(
        "parallel-stray-byte",
        sealing.parallel_payload(1024, NONCE, macs) + b"\0",
        "CRY-010",
        "A byte of the cipher chunk belongs to no field.",
    )
    yield refused(
        "parallel-cut",
        sealing.parallel_payload(1024, NONCE, macs)[:20],
        "CRY-010",
        "The cipher chunk ends inside its nonce.",
    )
    for id_, payload in {
        "short": sequential_chunk()[10:-1],
        "long": sequential_chunk()[10:] + b"\0",
        "none": b"",
    }.items():
        file = small(Lock(KEY, sequential=True))
        file.records[0].crypt = crypt_block([crypt_chunk(sealing.SEQUENTIAL, payload)])
        yield recipe.refused(
            f"crypt-sequential-{id_}",
            file,
            "CRY-010",
            f"A cipher chunk of type 3 has {len(payload)} bytes instead of 40.",
            features=["sequential-cipher"],
            key=KEY,
        )


def key_derivation(recipe: Recipe) -> Iterator[Case]:
    def refused(id_: str, payload: bytes, rules: str, why: str, *features: str) -> Case:
        lock = Lock.from_passphrase(PASSPHRASE, SALT)
        lock.kdf = crypt_chunk(sealing.KEY_DERIVATION, payload)
        return recipe.refused(
            f"kdf-{id_}",
            small(lock),
            rules,
            why,
            features=["passphrase", *features],
            passphrase=PASSPHRASE,
        )

    for method in (0, 2, 0xFFFF):
        yield refused(
            f"method-{method}",
            sealing.kdf_payload(SALT, method=method),
            "CRY-011",
            f"There is no key derivation method {method}.",
        )
    for id_, alg in {"0": 0, "argon2i": 1, "3": 3, "minus-2": -2}.items():
        yield refused(
            f"alg-{id_}",
            sealing.kdf_payload(SALT, alg=alg),
            "CRY-012",
            f"Algorithm {alg} is not Argon2id v1.3.",
        )
    for size_bytes in (0, 15, 17):
        yield refused(
            f"salt-{size_bytes}",
            sealing.kdf_payload((SALT + SALT)[:size_bytes]),
            "CRY-013",
            f"The salt has {size_bytes} bytes.",
        )
    for length in (15, 17, 0xFFFF):
        yield refused(
            f"salt-length-lies-{length}",
            sealing.kdf_payload(SALT, salt_length=length),
            "CRY-010 CRY-013",
            f"The salt claims {length} bytes and has 16.",
        )
    yield refused(
        "cut",
        sealing.kdf_payload(SALT)[:12],
        "CRY-010",
        "The key derivation chunk ends inside its limits.",
    )
    yield refused(
        "stray-byte",
        sealing.kdf_payload(SALT) + b"\0",
        "CRY-010",
        "A byte of the key derivation chunk belongs to no field.",
    )
    for id_, opslimit, memlimit in (
        ("memlimit-8191", 1, 8191),
        ("memlimit-zero", 1, 0),
        ("opslimit-zero", 0, 8192),
    ):
        yield refused(
            id_,
            sealing.kdf_payload(SALT, opslimit, memlimit),
            "CRY-014",
            f"{opslimit} passes over {memlimit} bytes is below the minimum.",
        )
    for id_, opslimit, memlimit in (
        ("memlimit-2-40", 1, 1 << 40),
        ("memlimit-2-63", 1, 1 << 63),
        ("memlimit-2-64-less-1", 1, (1 << 64) - 1),
        ("opslimit-2-32-less-1", (1 << 32) - 1, 8192),
        ("opslimit-2-64-less-1", (1 << 64) - 1, 8192),
    ):
        yield refused(
            id_,
            sealing.kdf_payload(SALT, opslimit, memlimit),
            "CRY-015",
            f"The file asks for {opslimit} passes over {memlimit} bytes.",
            "large-claim",
        )
    # A raw key derives nothing, but the chunk has to be right all the same.
    for id_, payload, rules, why in (
        ("method-2", sealing.kdf_payload(SALT, method=2), "CRY-011", "The method is 2"),
        ("argon2i", sealing.kdf_payload(SALT, alg=1), "CRY-012", "The algorithm is 1"),
        (
            "salt-15",
            sealing.kdf_payload(SALT[:15]),
            "CRY-013",
            "The salt has 15 bytes",
        ),
        (
            "memlimit-8191",
            sealing.kdf_payload(SALT, 1, 8191),
            "CRY-014",
            "The memlimit is 8191",
        ),
        (
            "opslimit-zero",
            sealing.kdf_payload(SALT, 0, 8192),
            "CRY-014",
            "The opslimit is 0",
        ),
    ):
        lock = Lock.from_passphrase(PASSPHRASE, SALT)
        lock.kdf = crypt_chunk(sealing.KEY_DERIVATION, payload)
        yield recipe.refused(
            f"kdf-raw-key-{id_}",
            small(lock),
            rules,
            f"{why}, and the file is opened with the right key itself.",
            features=["passphrase"],
            key=lock.key,
        )
    # What every tensor says has to be within the limits, not only what the first one says.
    for id_, opslimit, memlimit in (
        ("memlimit-2-40", 1, 1 << 40),
        ("opslimit-2-32-less-1", (1 << 32) - 1, 8192),
    ):
        lock = Lock.from_passphrase(PASSPHRASE, SALT)
        two = File.of([Tensor(["a"]), Tensor(["b"])], 3, SEED, lock)
        lock.kdf = crypt_chunk(
            sealing.KEY_DERIVATION, sealing.kdf_payload(SALT, opslimit, memlimit)
        )
        lock.apply(two.records[1], NONCE)
        yield recipe.refused(
            f"kdf-second-{id_}",
            two,
            "CRY-015",
            f"The second tensor asks for {opslimit} passes over {memlimit} bytes; the first one asks for little.",
            features=["passphrase", "large-claim"],
            passphrase=PASSPHRASE,
        )
    lock = Lock.from_passphrase(PASSPHRASE, SALT, 5, 8192)
    yield recipe.open(
        "kdf-opslimit-5",
        small(lock),
        "CRY-015",
        "The file asks for 5 passes over 8192 bytes, which is cheap, and one pass more than tzmark makes.",
        "derivation-cost",
        features=["passphrase"],
        passphrase=PASSPHRASE,
    )
    yield recipe.open(
        "kdf-9-salts",
        with_salts(9),
        "CRY-015",
        "Each of 9 tensors has a salt of its own, and tzmark derives 8 keys.",
        "derivation-cost",
        features=["passphrase"],
        passphrase=PASSPHRASE,
    )
    yield recipe.refused(
        "kdf-256-salts",
        with_salts(256),
        "CRY-015",
        "Each of 256 tensors has a salt of its own, so a reader without a limit derives 256 keys.",
        features=["passphrase"],
        passphrase=PASSPHRASE,
    )


def with_salts(count: int) -> File:
    """A file in which each tensor with data has a key of its own."""
    tensors = [Tensor([str(number)]) for number in range(count)]
    # The last tensor needs no key, so that a reader does not only count there.
    tensors.append(Tensor(["none"], shape=[0]))
    file = File.of(tensors, 3, SEED, Lock(KEY))
    for number, record in enumerate(file.records[:count]):
        salt = builder.noise(f"{SEED}/salt/{number}", sodium.SALT_BYTES)
        nonce = builder.noise(f"{SEED}/nonce/{number}", sodium.NONCE_BYTES)
        Lock.from_passphrase(PASSPHRASE, salt).apply(record, nonce)
    return file


def forgeries(recipe: Recipe) -> Iterator[Case]:
    """Ciphertext, MACs and nonces that do not belong together."""

    def refused(id_: str, file: File, why: str, *features: str) -> Case:
        return recipe.refused(
            f"forgery-{id_}", file, "CRY-016", why, features=features, key=KEY
        )

    def flipped(text: bytes, at: int) -> bytes:
        return text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]

    for id_, lock in {
        "parallel": Lock(KEY),
        "sequential": Lock(KEY, sequential=True),
    }.items():
        features = ["sequential-cipher"] if lock.sequential else []
        for place in ("first", "last"):
            file = small(lock)
            text = file.records[0].stored
            file.records[0].ciphertext = flipped(
                text, 0 if place == "first" else len(text) - 1
            )
            yield refused(
                f"{id_}-{place}-byte",
                file,
                f"A bit of the {place} byte of the ciphertext is flipped.",
                *features,
            )
        file = small(lock)
        block = file.records[0].crypt or b""
        file.records[0].crypt = flipped(block, len(block) - 1)
        yield refused(f"{id_}-mac", file, "A bit of the MAC is flipped.", *features)
        mac_at = len(block) - sodium.MAC_BYTES
        file = small(lock)
        file.records[0].crypt = flipped(block, mac_at)
        yield refused(
            f"{id_}-mac-first-byte",
            file,
            "A bit of the first byte of the MAC is flipped.",
            *features,
        )
        file = small(lock)
        for number in count():
            # Another number than those of the nonces that a file has by itself.
            nonce = builder.noise(f"{SEED}/mac/{number}", sodium.NONCE_BYTES)
            lock.apply(file.records[0], nonce)
            sealed = file.records[0].crypt or b""
            if sealed[mac_at] == 0:
                break
        file.records[0].crypt = flipped(sealed, len(sealed) - 1)
        yield refused(
            f"{id_}-mac-after-nul",
            file,
            "The MAC begins with a NUL byte, and a bit of its last byte is flipped.",
            *features,
        )
        file = small(lock)
        nonce_at = block.index(NONCE)
        file.records[0].crypt = flipped(block, nonce_at)
        yield refused(f"{id_}-nonce", file, "A bit of the nonce is flipped.", *features)
    long = of_size(2048, Lock(KEY))
    text, macs = sealing.seal(long.records[0].plaintext, KEY, NONCE, 1024)
    swapped = text[1024:] + text[:1024]
    for id_, chosen in {"chunks": macs, "chunks-and-macs": macs[::-1]}.items():
        file = of_size(2048, Lock(KEY))
        file.records[0].ciphertext = swapped
        chunk = crypt_chunk(
            sealing.PARALLEL, sealing.parallel_payload(1024, NONCE, chosen)
        )
        file.records[0].crypt = crypt_block([chunk])
        yield refused(
            f"swapped-{id_}",
            file,
            "Two chunks changed places; each has a nonce of its own.",
        )
    second = of_size(1025, Lock(KEY))
    second.records[0].ciphertext = flipped(second.records[0].stored, 1024)
    yield refused(
        "second-chunk", second, "The last chunk, of one byte, is not what was sealed."
    )

    # Nothing binds a name to a ciphertext but the hash, which is not authenticated.
    pair = File.of([Tensor(["a"]), Tensor(["b"])], 3, SEED, Lock(KEY))
    first, other = pair.records
    hashes = [Hash(SHA256, record.digests()[SHA256]) for record in pair.records]
    first.plaintext, other.plaintext = other.plaintext, first.plaintext
    first.ciphertext, other.ciphertext = other.ciphertext, first.ciphertext
    first.crypt, other.crypt = other.crypt, first.crypt
    first.hashes, other.hashes = [hashes[0]], [hashes[1]]
    yield recipe.refused(
        "forgery-swapped-tensors",
        pair,
        "HSH-006",
        "Two tensors of one shape exchanged data and crypt blocks; every MAC is right.",
        key=KEY,
    )
    of_ciphertext = small()
    stored = of_ciphertext.records[0]
    as_plain = Record(
        stored.name, stored.dtype, stored.shape, stored.stored, hashes=[Hash(SHA256)]
    )
    as_plain.header_length = stored.header_bytes()
    stored.hashes = [Hash(SHA256, as_plain.digests()[SHA256])]
    yield recipe.refused(
        "hash-of-ciphertext",
        of_ciphertext,
        "HSH-006",
        "The SHA-256 is that of the header and the ciphertext instead of the plaintext.",
        key=KEY,
    )


def openings(recipe: Recipe) -> Iterator[Case]:
    """Right files, opened in a way that has to fail."""
    lock = Lock.from_passphrase(PASSPHRASE, SALT)
    yield recipe.refused(
        "opening-wrong-key",
        small(),
        "CRY-016",
        "Another key.",
        key=KEY[::-1],
        same_file_as="encryption-parallel",
    )
    yield recipe.refused(
        "opening-wrong-key-sequential",
        small(Lock(KEY, sequential=True)),
        "CRY-016",
        "Another key.",
        features=["sequential-cipher"],
        key=KEY[::-1],
        same_file_as="encryption-sequential",
    )
    yield recipe.refused(
        "opening-wrong-passphrase",
        small(lock),
        "CRY-016",
        "Another passphrase.",
        features=["passphrase"],
        passphrase=PASSPHRASE + " ",
        same_file_as="passphrase-minimum",
    )
    for id_, file, features, source in (
        ("no-key", small(), [], "encryption-parallel"),
        ("no-key-v4", of_size(16, Lock(KEY), 4), [], "encryption-v4"),
        ("no-passphrase", small(lock), ["passphrase"], "passphrase-minimum"),
    ):
        yield recipe.refused(
            f"opening-{id_}",
            file,
            "CRY-018",
            "An encrypted file is opened without a key; its ciphertext must not be handed out as data.",
            features=features,
            same_file_as=source,
        )
    for version in (2, 4):
        yield recipe.refused(
            f"opening-key-on-plain-v{version}",
            two_tensors(version, 100),
            "CRY-017",
            "A key is given for a file that is not encrypted, so nothing in it is authenticated.",
            features=["encryption"],
            key=KEY,
            same_file_as=f"header-version-{version}-plain",
        )
    yield recipe.refused(
        "opening-passphrase-on-plain",
        two_tensors(4, 100),
        "CRY-017",
        "A passphrase is given for a file that is not encrypted.",
        features=["encryption", "passphrase"],
        passphrase=PASSPHRASE,
        same_file_as="header-version-4-plain",
    )
    yield recipe.refused(
        "opening-passphrase-without-kdf",
        small(),
        "CRY-019",
        "A passphrase is given, but the file doesn't say how to derive a key from it.",
        features=["passphrase"],
        passphrase=PASSPHRASE,
        same_file_as="encryption-parallel",
    )
    only_meta = File.of([Tensor(["m"], meta=True)], 4, SEED, Lock(KEY))
    yield recipe.valid(
        "encryption-meta-only",
        only_meta,
        "CRY-007 HDR-004",
        "An encrypted file in which nothing is encrypted, because no tensor has data.",
        key=KEY,
    )
    yield recipe.open(
        "opening-meta-only-without-key",
        only_meta,
        "CRY-018",
        "An encrypted file without any data is opened without a key.",
        "no-key-without-data",
        same_file_as="encryption-meta-only",
    )
