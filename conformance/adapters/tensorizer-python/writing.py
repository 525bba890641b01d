"""Writes a file with the installed release of tensorizer, as a user of it would: modules and state dicts with the
methods that its documentation recommends for them, and other tensors one by one.
"""

from pathlib import Path
from typing import Any

import release
from protocol import Rejected, Secret, Unsupported
from refusals import Judged
from specification import Item, Specification, load
from structure import as_module, as_state_dict
from tensorizer import TensorDeserializer, TensorSerializer
from tensorizer.serialization import TensorType

KINDS = {
    "parameter": TensorType.PARAM,
    "buffer": TensorType.BUFFER,
    "state_dict": TensorType.STATE_DICT,
}


def encryption(secret: Secret) -> Any:
    from tensorizer import EncryptionParams

    if secret.key is not None:
        return EncryptionParams(secret.key)
    # The least that TZR-CRY-024 lets a writer choose; the defaults of a release take far longer.
    least = {"opslimit": 2, "memlimit": 19 << 20}
    return EncryptionParams.from_string(secret.passphrase, **least)


def write(serializer: TensorSerializer, specification: Specification) -> None:
    """Picks the method: it has to be able to say exactly what the specification says."""
    items = specification.items
    if specification.omit_non_persistent:
        module = as_module(items)
        if module is None:
            raise Unsupported(
                "no module has its tensors in this order, or under these names"
            )
        with Judged():
            serializer.write_module(module, include_non_persistent_buffers=False)
    elif all(item.kind == "state_dict" and item.module_index == 0 for item in items):
        write_state_dict(serializer, items)
    elif (module := as_module(items)) is not None:
        with Judged():
            serializer.write_module(module)
    else:
        write_tensors(serializer, items)


def write_state_dict(serializer: TensorSerializer, items: list[Item]) -> None:
    names = [item.plain_name for item in items]
    if None not in names and len(set(names)) != len(names):
        # A dict cannot even ask for two tensors of one name.
        write_tensors(serializer, items)
        return
    state_dict = as_state_dict(items)
    if state_dict is None:
        raise Unsupported(
            "nested dicts and lists are written group by group, not in this order"
        )
    with Judged():
        serializer.write_state_dict(state_dict)


def write_tensors(serializer: TensorSerializer, items: list[Item]) -> None:
    for item in items:
        if item.plain_name is None:
            raise Rejected("a single tensor's name is one string")
        with Judged():
            serializer.write_tensor(
                item.module_index, item.plain_name, KINDS[item.kind], item.tensor
            )


def unreadable_once_closed(serializer: TensorSerializer, out: str) -> str:
    """Returns what is wrong with a file, or nothing: one that is closed after an error seems complete."""
    try:
        serializer.close()
        TensorDeserializer(out, device="cpu", lazy_load=True).close()
    except Exception as error:  # of every class there is
        text = " ".join(str(error).split())
        return f"; closed, the file cannot be opened: {type(error).__name__}: {text}"
    return ""


def encode(spec: str, out: str, secret: Secret | None) -> None:
    specification = load(spec)
    options = {"encryption": encryption(secret)} if secret else {}
    try:
        with Judged():
            serializer = TensorSerializer(out, **options)
        try:
            write(serializer, specification)
        except Rejected as error:
            raise Rejected(
                f"{error}{unreadable_once_closed(serializer, out)}"
            ) from error
        with Judged():
            serializer.close()
    except BaseException:
        Path(out).unlink(missing_ok=True)
        raise
