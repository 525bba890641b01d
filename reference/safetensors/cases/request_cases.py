"""The cases of requests: a tensor that an accepted file does not have, and memory of another size than the tensor's."""

from collections.abc import Iterator
from typing import Any

from builders import valid
from case import Case, Tensor


def asked(id: str, why: str, rule: str, error: str, request: dict[str, Any]) -> Case:
    tensors = Tensor("a", "F32", (2,), 0, 8), Tensor("b", "U8", (3,), 8, 11)
    case = valid(id, why, *tensors)
    case.request = request | {"rule": rule, "library_error": error}
    return case


def cases() -> Iterator[Case]:
    missing = ("TZE-USE-002", "TensorNotFound")
    yield asked("request-missing", "a name that is not there", *missing, {"name": "c"})
    yield asked("request-prefix", "a part of a name", *missing, {"name": ""})
    yield asked("request-metadata", "not a tensor", *missing, {"name": "__metadata__"})
    view = ("TZE-USE-001", "InvalidTensorView")
    yield asked("request-too-small", "7 bytes for 8", *view, {"name": "a", "bytes": 7})
    yield asked("request-too-large", "4 bytes for 3", *view, {"name": "b", "bytes": 4})
