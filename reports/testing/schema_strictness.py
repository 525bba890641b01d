"""Finds what a schema leaves open. For tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import jsonschema
from common.outcomes import Json


def objects_of(value: object) -> Iterator[Json]:
    """Yields all objects of a document; of an array those of its first element."""
    if isinstance(value, list):
        for element in value[:1]:
            yield from objects_of(element)
    elif isinstance(value, dict):
        yield value
        for element in value.values():
            yield from objects_of(element)


def open_members(schema: Json, whole: Json, objects: Iterable[Json]) -> list[str]:
    """Returns the members that these objects of a valid document may lack, and "another" where one may be added."""
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(whole)
    found = []
    for one in objects:
        one["another"] = 1
        if validator.is_valid(whole):
            found.append(f"another in {sorted(one)}")
        del one["another"]
        for member in list(one):
            kept = one.pop(member)
            if validator.is_valid(whole):
                found.append(member)
            one[member] = kept
    validator.validate(whole)
    return found
