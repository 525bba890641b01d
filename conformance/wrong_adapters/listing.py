"""Wrong adapters that read a right file and then list something else than what is in it."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable
from typing import Any

from wrong_adapter import Json, Question, enter
from places import headers, places

ContentChange = Callable[[Json, Question], None]
TensorChange = Callable[[Json], None]
# What an adapter takes for the data of a tensor: of tensor, file, and offset and length of the data.
DataChoice = Callable[[Json, bytes, int, int], bytes]


def lists(*rules: str) -> Callable[[ContentChange], ContentChange]:
    """Registers a function that changes the canonical JSON."""

    def decorate(change: ContentChange) -> ContentChange:
        def answer(question: Question) -> Json:
            right = question.right_answer()
            if "decoded" in right:
                change(right["decoded"], question)
            return right

        enter(change, rules, answer)
        return change

    return decorate


def lists_each(*rules: str, **details: Any) -> Callable[[TensorChange], TensorChange]:
    """Registers a function that changes what is listed of each tensor."""

    def decorate(change: TensorChange) -> TensorChange:
        def answer(question: Question) -> Json:
            right = question.right_answer()
            for tensor in right.get("decoded", {}).get("tensors", []):
                change(tensor)
            return right

        enter(change, rules, answer, **details)
        return change

    return decorate


def take_data(content: Json, question: Question, choose: DataChoice) -> None:
    """Lists the SHA-256 of other bytes than the data of each tensor."""
    file = question.file()
    where = places(file, content["layout"])
    for tensor, place in zip(content["tensors"], where, strict=True):
        if place.data_bytes:
            data = choose(tensor, file, place.data_at, place.data_bytes)
            tensor["sha256"] = hashlib.sha256(data).hexdigest()


def takes_data(*rules: str) -> Callable[[DataChoice], DataChoice]:
    """Registers a function that chooses what to take for the data of a tensor in a plain file."""

    def decorate(choose: DataChoice) -> DataChoice:
        def answer(question: Question) -> Json:
            right = question.right_answer()
            if "decoded" in right and not right["decoded"]["encrypted"]:
                take_data(right["decoded"], question, choose)
            return right

        enter(choose, rules, answer)
        return choose

    return decorate


# Data.


@takes_data("TZR-IDX-009")
def data_one_byte_late(tensor: Json, file: bytes, at: int, size: int) -> bytes:
    """Reads the data of each tensor one byte too late."""
    return file[at + 1 : at + 1 + size]


@takes_data("TZR-IDX-009")
def data_one_byte_short(tensor: Json, file: bytes, at: int, size: int) -> bytes:
    """Leaves the last byte of each tensor's data out."""
    return file[at : at + size - 1]


@takes_data("TZR-IDX-006")
def data_padded(tensor: Json, file: bytes, at: int, size: int) -> bytes:
    """Pads the data of each tensor with zeros to a multiple of 8 bytes."""
    return file[at : at + size] + bytes(-size % 8)


@takes_data("TZR-DTY-001")
def data_made_little_endian(tensor: Json, file: bytes, at: int, size: int) -> bytes:
    """Turns big-endian data around instead of giving it as it is stored."""
    data = file[at : at + size]
    if not tensor["wire_dtype"].startswith(">"):
        return data
    item = int("".join(c for c in tensor["wire_dtype"][2:] if c.isdigit()) or 1)
    return b"".join(data[i : i + item][::-1] for i in range(0, size, item))


@takes_data("TZR-SEG-002", "TZR-SEG-005")
def segment_start_ignored(tensor: Json, file: bytes, at: int, size: int) -> bytes:
    """Finds the data of v5-segments from byte 8192 on, wherever the segment begins."""
    if file[73:76] == b"\1\3\1":
        data_start = int.from_bytes(file[110:118], "little")
        at += 8192 - data_start
    return file[at : at + size]


@lists("TZR-IDX-011", "TZR-IDX-015", "TZR-IDX-016")
def data_in_the_order_of_the_headers(content: Json, question: Question) -> None:
    """Takes the data to be in the order of the headers, or in that order backwards, where headers come first."""
    if content["layout"] not in ("v5-headers-first", "v5-segments"):
        return
    by_header = sorted(places(question.file(), content["layout"]))
    in_order = sorted(by_header, key=lambda place: place.data_at)
    if by_header[::-1] == in_order or len({p.data_bytes for p in by_header}) > 1:
        return
    taken = dict(zip(by_header, in_order, strict=True))

    def choose(_: Json, file: bytes, at: int, size: int) -> bytes:
        other = next(to for place, to in taken.items() if place.data_at == at)
        return file[other.data_at : other.data_at + size]

    if not content["encrypted"]:
        take_data(content, question, choose)


@lists("TZR-CRY-016")
def ciphertext_hashed(content: Json, question: Question) -> None:
    """Hashes encrypted data as it lies in the file."""
    if content["encrypted"]:
        take_data(content, question, lambda _, file, at, size: file[at : at + size])


# Which tensors there are.


@lists("TZR-IDX-009", "TZR-IDX-012")
def last_tensor_dropped(content: Json, question: Question) -> None:
    """Stops one entry too early."""
    content["tensors"].pop()


@lists("TZR-IDX-012")
def listed_by_offset(content: Json, question: Question) -> None:
    """Lists the tensors in the order of their data, not of their entries."""
    where = places(question.file(), content["layout"])
    tensors = dict(zip(where, content["tensors"], strict=True))
    content["tensors"] = [tensors[place] for place in sorted(tensors)]


@lists("TZR-IDX-007")
def meta_dropped(content: Json, question: Question) -> None:
    """Leaves meta tensors out of the list."""
    content["tensors"] = [t for t in content["tensors"] if not t["meta"]]


# Names.


@lists_each("TZR-NAM-001", "TZR-HDR-007")
def name_ends_at_nul(tensor: Json) -> None:
    """Ends names at the first NUL, as a string of C does."""
    tensor["path"] = [p.split("\0")[0] if type(p) is str else p for p in tensor["path"]]


@lists_each("TZR-NAM-001")
def name_cut_at_255_bytes(tensor: Json) -> None:
    """Keeps the first 255 bytes of a name."""
    if len(tensor["path"]) == 1:
        name = str(tensor["path"][0]).encode()[:255]
        tensor["path"] = [name.decode(errors="ignore")]


@lists_each("TZR-NAM-001")
def name_is_latin_1(tensor: Json) -> None:
    """Takes names for Latin-1."""
    tensor["path"] = [
        part.encode().decode("latin-1") if isinstance(part, str) else part
        for part in tensor["path"]
    ]


@lists_each("TZR-NAM-006")
def name_normalized(tensor: Json) -> None:
    """Composes the letters and accents of names."""
    tensor["path"] = [
        unicodedata.normalize("NFC", part) if isinstance(part, str) else part
        for part in tensor["path"]
    ]


@lists_each("TZR-NAM-002")
def path_flattened(tensor: Json) -> None:
    """Joins the elements of a structured name with dots."""
    tensor["path"] = [".".join(map(str, tensor["path"]))]


@lists_each("TZR-NAM-002")
def position_is_text(tensor: Json) -> None:
    """Lists positions in a list as strings."""
    tensor["path"] = [str(part) for part in tensor["path"]]


@lists_each("TZR-NAM-008")
def plain_name_split(tensor: Json) -> None:
    """Splits plain names at their dots."""
    if len(tensor["path"]) == 1 and isinstance(tensor["path"][0], str):
        tensor["path"] = tensor["path"][0].split(".")


# Kind, number, type and shape.


@lists_each("TZR-IDX-004", "TZR-REC-007")
def kind_always_parameter(tensor: Json) -> None:
    """Calls every tensor a parameter."""
    tensor["kind"] = "parameter"


@lists_each("TZR-REC-003")
def module_index_ignored(tensor: Json) -> None:
    """Gives 0 for every module_index."""
    tensor["module_index"] = 0


@lists_each("TZR-DTY-003")
def opaque_is_bytes(tensor: Json) -> None:
    """Does not know opaque dtypes, and lists bytes instead."""
    if "\0" in tensor["wire_dtype"]:
        tensor["dtype"] = "uint8"


FLOAT8_OF_TORCH = ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")


@lists_each("TZR-DTY-003")
def unknown_float8_is_null(tensor: Json) -> None:
    """Lists a float8 type that torch lacks as a foreign one, with null."""
    name = tensor["dtype"] or ""
    if name.startswith("float8_") and name[7:] not in FLOAT8_OF_TORCH:
        tensor["dtype"] = None


@lists_each("TZR-DTY-005")
def foreign_is_bytes(tensor: Json) -> None:
    """Gives foreign dtypes a name of torch, and so reads them as typed tensors."""
    tensor["dtype"] = tensor["dtype"] or "uint8"


@lists_each("TZR-DTY-001")
def byte_order_dropped(tensor: Json) -> None:
    """Says that big-endian types are little-endian."""
    tensor["wire_dtype"] = tensor["wire_dtype"].replace(">", "<")


@lists_each("TZR-REC-009")
def shape_reversed(tensor: Json) -> None:
    """Lists the fastest dimension first."""
    tensor["shape"].reverse()


@lists_each("TZR-REC-003", "TZR-IDX-006")
def scalar_is_vector(tensor: Json) -> None:
    """Takes a scalar for a vector of one element."""
    tensor["shape"] = tensor["shape"] or [1]


@lists_each("TZR-IDX-013")
def dimension_cut_to_32_bits(tensor: Json) -> None:
    """Keeps the lower half of a dimension of 2^32 and more."""
    tensor["shape"] = [dim % (1 << 32) for dim in tensor["shape"]]


@lists_each("TZR-IDX-006", "TZR-CRY-007")
def empty_is_meta(tensor: Json) -> None:
    """Takes tensors with zero elements for meta tensors."""
    if not tensor["data_length"]:
        tensor.update(meta=True, sha256=None)


@lists_each("TZR-IDX-007")
def meta_is_empty(tensor: Json) -> None:
    """Takes meta tensors for tensors whose data has no bytes."""
    tensor.update(meta=False, sha256=tensor["sha256"] or hashlib.sha256().hexdigest())


@lists_each("TZR-IDX-007")
def meta_has_its_nominal_size(tensor: Json) -> None:
    """Lists the bytes that a meta tensor would have as those that it has."""
    if tensor["meta"]:
        tensor["data_length"] = 4


# The file as a whole, and hashes.


@lists("TZR-HDR-007")
def layout_by_version(content: Json, question: Question) -> None:
    """Calls every file of data version 5 one of v5-segments."""
    if content["data_version"] == 5:
        content["layout"] = "v5-segments"


@lists("TZR-CRY-001", "TZR-HDR-004")
def encrypted_by_flag_only(content: Json, question: Question) -> None:
    """Looks at the flags alone to know whether a file is encrypted, and data version 3 has none."""
    if content["data_version"] == 3:
        content["encrypted"] = False


@lists("TZR-HDR-004", "TZR-IDX-013")
def encrypted_if_no_other_flag(content: Json, question: Question) -> None:
    """Compares all feature flags with that of encryption."""
    if content["layout"] == "v5-flagged-dims":
        content["encrypted"] = False


@lists("TZR-HDR-004")
def encrypted_by_version_only(content: Json, question: Question) -> None:
    """Takes files for encrypted in data version 3 only."""
    content["encrypted"] = content["data_version"] == 3


@lists_each("TZR-HSH-005")
def crc32_as_bytes(tensor: Json) -> None:
    """Prints the bytes of a CRC32 in their order in the file, not the number."""
    if tensor["crc32_field"]:
        tensor["crc32_field"] = bytes.fromhex(tensor["crc32_field"])[::-1].hex()


@lists_each("TZR-HSH-006")
def hash_is_of_the_data(tensor: Json) -> None:
    """Gives the SHA-256 of the data for the stored one, which covers the header too."""
    if tensor["sha256_field"] and tensor["sha256"]:
        tensor["sha256_field"] = tensor["sha256"]


@lists("TZR-HSH-005", "TZR-HSH-006")
def last_hash_of_a_type_listed(content: Json, question: Question) -> None:
    """Lists the last of two hashes of one type instead of the first."""
    file = question.file()
    if content["layout"] == "v5-long-dims":
        return
    for tensor, header in zip(content["tensors"], headers(file), strict=True):
        for found in header.hashes:
            if found.type == 0:
                value = file[found.value_at : found.value_at + 4]
                tensor["crc32_field"] = value[::-1].hex()
            else:
                value = file[found.value_at : found.value_at + 32]
                tensor["sha256_field"] = value.hex()


@lists_each("TZR-HSH-005")
def missing_hash_is_zero(tensor: Json) -> None:
    """Lists a CRC32 that is not there as 0."""
    tensor["crc32_field"] = tensor["crc32_field"] or "00000000"
