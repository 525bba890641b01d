"""The cases of large numbers of things: an algorithm that is quadratic, or a small buffer, shows with these."""

from collections.abc import Iterator

from builders import ONE, bad, extra, valid
from case import Case, Tensor, header_of


def tensors_of(count: int) -> list[Tensor]:
    return [Tensor(f"{i:x}", "U8", (), i, i + 1) for i in range(count)]


def cases() -> Iterator[Case]:
    why = "a thousand tensors"
    yield valid("tensors-1000", why, *tensors_of(1000), rules="ST-014")
    tensors = tensors_of(3000)
    last = tensors[-1]
    tensors[-1] = Tensor(last.name, "U8", (), last.begin + 1, last.end + 1)
    header = header_of(*tensors)
    why = "three thousand tensors, of which the last follows a hole"
    data = len(tensors) + 1
    at = f'"{last.name}":'
    yield bad(
        "tensors-3000-with-hole", why, header, "ST-014", at, "InvalidOffset", data
    )
    for id, why, value in (
        ("list", "an ignored list of 20,000 numbers", f"[{','.join('0' * 20_000)}]"),
        (
            "object",
            "an ignored object of 2,000 keys",
            "{" + ",".join(f'"{i}":{i}' for i in range(2000)) + "}",
        ),
        ("string", "an ignored string of 16 KiB", f'"{"x" * (16 << 10)}"'),
    ):
        yield valid(f"ignored-{id}-large", why, ONE, header=extra(value))
    header = "{" + ",".join(['"a":0'] * 5000) + "}"
    why = "one key five thousand times, and no tensor"
    yield bad("key-5000-times", why, header, "ST-006", len('{"a":'))
