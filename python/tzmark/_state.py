"""State dicts of any structure as named tensors and text, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._errors import FormatError, UsageError
from ._tensors import convert, is_tensor, is_torch

# The member of a checkpoint's metadata that holds the structure, as JSON. Each node is an object with one of the
# members d (a mapping: pairs of key and node), l (a list), u (a tuple), v (a value), m and o (a tensor of the model and
# of the optimizer, by name; f is the framework that it was a tensor of).
STRUCTURE = "tzmark.structure"

# How deep mappings, lists and tuples may be nested. Python's parser of JSON takes up to three of its own levels for
# each, of the 1000 that it shares with all functions that are being called.
DEPTH_MAX = 100
_JSON_LEVELS = 3
_SHOWN_MAX = 8

Place = tuple[Any, ...]


@dataclass
class Flat:
    """The tensors of both files by name, and the structure."""

    model: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)


def flatten(state: Any) -> Flat:
    """Returns the tensors of a state dict.

    Raises TypeError for a value that cannot be saved, and UsageError for one that is nested too deep.
    """
    flat = Flat()
    tree = _node(state, (), flat)
    flat.metadata[STRUCTURE] = json.dumps(tree, separators=(",", ":"))
    return flat


def _node(value: Any, place: Place, flat: Flat) -> dict[str, Any]:
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"v": value}
    if len(place) >= DEPTH_MAX and isinstance(value, (Mapping, list, tuple)):
        where = "".join(f"[{part!r}]" for part in place[:_SHOWN_MAX])
        raise UsageError(
            f"state_dict{where}... is nested deeper than {DEPTH_MAX} levels, or contains itself: a checkpoint holds at "
            "most that many levels of mappings, lists and tuples"
        )
    if isinstance(value, Mapping):
        return {
            "d": [
                [_key(key, place), _node(item, (*place, key), flat)]
                for key, item in value.items()
            ]
        }
    if type(value) in (list, tuple):
        items = [_node(item, (*place, i), flat) for i, item in enumerate(value)]
        return {"l" if type(value) is list else "u": items}
    if not is_tensor(value):
        where = "".join(f"[{part!r}]" for part in place)
        raise TypeError(
            f"state_dict{where} is a {type(value).__name__}: a checkpoint holds tensors, numbers, strings, None, and "
            "mappings, lists and tuples of them"
        )
    of_optimizer = len(place) > 1 and place[0] == "optimizer"
    tensors = flat.optimizer if of_optimizer else flat.model
    # The files have the names that other programs expect: those of the parameters.
    inner = (
        place[1:] if of_optimizer or (len(place) > 1 and place[0] == "model") else place
    )
    name = unique = ".".join(map(str, inner)) or "tensor"
    number = 1
    while unique in tensors:
        number += 1
        unique = f"{name}#{number}"
    tensors[unique] = value
    return {
        "o" if of_optimizer else "m": unique,
        "f": "pt" if is_torch(value) else "np",
    }


def _key(key: Any, place: Place) -> str | int | float | bool | None:
    if key is None or isinstance(key, (str, int, float, bool)):
        return key
    where = "".join(f"[{part!r}]" for part in place)
    raise TypeError(
        f"state_dict{where} has a key of type {type(key).__name__}: a key is a string or a number"
    )


_TOO_DEEP = f"it is nested deeper than {DEPTH_MAX} levels"


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        # Otherwise, it is the program that has called so many functions.
        if _nesting(text) > _JSON_LEVELS * DEPTH_MAX + _JSON_LEVELS:
            raise ValueError(_TOO_DEEP) from None
        raise


def _nesting(text: str) -> int:
    """Returns how deep the arrays and objects of a JSON text are nested."""
    depth = deepest = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[][{}]', text):
        if token[0] in ("[", "{"):
            depth += 1
            deepest = max(deepest, depth)
        elif token[0] in ("]", "}"):
            depth -= 1
    return deepest


def unflatten(
    flat: Flat,
    metadata: dict[str, str],
    framework: str | None,
    as_is: bool,
    directory: str,
) -> Any:
    """Returns the state dict, and takes its structure out of the metadata. as_is: only tensors by name."""
    text = metadata.pop(STRUCTURE, None)
    if as_is or text is None:
        # Of another program, or wanted so.
        default = framework or "np"
        model = {name: convert(buffer, default) for name, buffer in flat.model.items()}
        optimizer = {
            name: convert(buffer, default) for name, buffer in flat.optimizer.items()
        }
        return {"model": model, "optimizer": optimizer}
    used: set[tuple[str, str]] = set()

    def build(node: dict[str, Any], depth: int) -> Any:
        if "v" in node:
            return node["v"]
        if depth >= DEPTH_MAX and not {"d", "l", "u"}.isdisjoint(node):
            raise ValueError(_TOO_DEEP)
        if "d" in node:
            return {key: build(item, depth + 1) for key, item in node["d"]}
        if "l" in node:
            return [build(item, depth + 1) for item in node["l"]]
        if "u" in node:
            return tuple(build(item, depth + 1) for item in node["u"])
        sort = "m" if "m" in node else "o"
        name = node[sort]
        used.add((sort, name))
        return convert(
            (flat.model if sort == "m" else flat.optimizer)[name],
            framework or node["f"],
        )

    try:
        result = build(_parse(text), 0)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"{STRUCTURE} does not fit the tensors: {error!r}",
            "CKP-003",
            None,
            directory,
            853,
        ) from error
    if len(used) != len(flat.model) + len(flat.optimizer):
        raise UsageError(
            "the checkpoint has more tensors than its structure: it was consolidated or resharded; load it with "
            "flat=True",
            file=directory,
        )
    return result
