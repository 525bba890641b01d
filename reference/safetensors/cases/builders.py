"""Builders of cases: files that both profiles accept, that the library alone accepts, and that both refuse."""

from case import Case, Tensor, data_of, file_of, header_of, refused

JSON_ERROR = "InvalidHeaderDeserialization"

ONE = Tensor("a", "U8", (1,), 0, 1)
ONE_ENTRY = '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'

# Where the values of entry() and extra() begin in the header.
DTYPE_AT = len('{"a":{"dtype":')
SHAPE_AT = len('{"a":{"dtype":"U8","shape":')
OFFSETS_AT = len('{"a":{"dtype":"U8","shape":[1],"data_offsets":')
EXTRA_AT = len('{"a":{"dtype":"U8","extra":')


def entry(dtype: str = '"U8"', shape: str = "[1]", offsets: str = "[0,1]") -> str:
    """A header of one tensor, whose fields are any JSON text."""
    return f'{{"a":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}}}'


def extra(value: str) -> str:
    """A header of one tensor with an unknown field."""
    return f'{{"a":{{"dtype":"U8","extra":{value},"shape":[1],"data_offsets":[0,1]}}}}'


def data_for(id: str, tensors: tuple[Tensor, ...]) -> bytes:
    """The data of a file of these tensors."""
    data = bytearray(data_of(id, max([tensor.end for tensor in tensors], default=0)))
    for tensor in tensors:
        if tensor.dtype == "BOOL":
            # Other bytes than 0 and 1 are trouble that no case is about.
            place = slice(tensor.begin, tensor.end)
            data[place] = bytes(byte & 1 for byte in data[place])
    return bytes(data)


def valid(
    id: str,
    why: str,
    *tensors: Tensor,
    rules: str = "ST-006",
    header: str | None = None,
    metadata: dict[str, str] | None = None,
) -> Case:
    """Accepted by both. rules: those that it exercises. header: another spelling than the usual one."""
    text = header_of(*tensors, metadata=metadata) if header is None else header
    return Case(
        id,
        why,
        {"file": file_of(text, data_for(id, tensors))},
        tensors=list(tensors),
        metadata=metadata or {},
        exercises=rules,
    )


def lenient(
    id: str,
    why: str,
    header: str | bytes,
    rule: str,
    at: int,
    *tensors: Tensor,
    metadata: dict[str, str] | None = None,
) -> Case:
    """Refused by the written description, accepted by the library. at: of the fault in the header."""
    return Case(
        id,
        why,
        {"file": file_of(header, data_for(id, tensors))},
        spec=refused(rule, 8 + at),
        tensors=list(tensors),
        metadata=metadata or {},
    )


def bad(
    id: str,
    why: str,
    header: str | bytes,
    rule: str,
    at: str | int | None,
    error: str = JSON_ERROR,
    data: int | bytes = 1,
) -> Case:
    """Refused by both. at: a text in the header, at which the fault lies, or its position there. data: or its size."""
    raw = header.encode() if isinstance(header, str) else header
    if isinstance(at, str):
        assert raw.count(at.encode()) == 1, (id, at)
        at = raw.index(at.encode())
    verdict = refused(rule, None if at is None else 8 + at)
    content = file_of(raw, data if isinstance(data, bytes) else data_of(id, data))
    return Case(id, why, {"file": content}, verdict, verdict, error)


def elsewhere(case: Case, at: int | None = None, rule: str = "ST-006") -> Case:
    """A case that is refused by both, but by the library for another rule or at another byte."""
    case.library = refused(rule, None if at is None else 8 + at)
    return case
