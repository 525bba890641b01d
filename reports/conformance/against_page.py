"""What the page of tzmark against shows: two implementations, and the files about which they differ."""

from __future__ import annotations

from common.outcomes import Json

# More ids than a reader of the page looks through; the JSON has all.
CASES_MAX = 100
VERBS = {"accepted": "accepts", "rejected": "refuses"}


def view(result: Json) -> Json:
    names = _names(result["first"]["profile"], result["second"]["profile"])
    return {
        "result": result,
        "names": names,
        "labels": [_label(result[side]["profile"]) for side in ("first", "second")],
        "commands": [result[side]["argv"] for side in ("first", "second")],
        "groups": [_group(group, names) for group in result["groups"]],
        "untried": [mode for mode in result.get("shapes", []) if mode["untried"]],
        "modes": [mode["shape"] for mode in result.get("shapes", [])],
    }


def _label(profile: Json) -> str:
    return f"{profile['name']} {profile['version']}"


def _names(first: Json, second: Json) -> tuple[str, str]:
    """Returns what the two are called: by name, by release if that is all that differs, or by position."""
    pairs = (
        (first["name"], second["name"]),
        (_label(first), _label(second)),
        ("the first", "the second"),
    )
    return next(pair for pair in pairs if pair[0] != pair[1])


def _group(group: Json, names: tuple[str, str]) -> Json:
    says = zip(names, (group["first_says"], group["second_says"]), strict=True)
    return {
        **group,
        "differences": [_difference(pair, names) for pair in group["pairs"]],
        "says": [(name, text) for name, text in says if text],
        "shown": group["cases"][:CASES_MAX],
        "more": max(0, len(group["cases"]) - CASES_MAX),
    }


def _difference(pair: Json, names: tuple[str, str]) -> tuple[str, str]:
    """Returns a command with its input mode, and how the two differ in it."""
    command = pair["command"]
    if pair.get("shape", "file") != "file":
        command += f" ({pair['shape']})"
    first, second = (_behaviour(pair[side]) for side in ("first", "second"))
    if first == second:
        return command, f"both: {first}; they differ in {pair['sign']}"
    sign = f"; {pair['sign']}" if pair["sign"] else ""
    return command, f"{names[0]}: {first}; {names[1]}: {second}{sign}"


def _behaviour(behaviour: str) -> str:
    return VERBS.get(behaviour, behaviour)
