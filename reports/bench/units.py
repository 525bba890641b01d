"""Formats rates, sizes, times and settings for the bench page: GB and GB/s have 10^9 bytes."""

from __future__ import annotations

from common.outcomes import Json

GB = 1e9
SIZES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
TIMES = (("s", 1e9), ("ms", 1e6), ("µs", 1e3))
PROTECTIONS = {
    "none": "no hashes",
    "crc32": "CRC32",
    "sha256": "SHA-256",
    "both": "both hashes",
}
MEMORIES = {
    "thp": "",
    "small-pages": "small pages",
    "sink": "to a sink",
    "device": "GPU memory",
}
CACHES = {"warm": "warm", "cold": "cold", "direct": "direct", "server": "", "none": ""}


def number(value: float) -> str:
    """Returns three significant digits without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    if value >= 0.1 or value == 0:
        return f"{value:.2f}"
    if value >= 0.01:
        return f"{value:.3f}"
    return f"{value:.2g}" if value >= 0.0001 else f"{value:.0e}"


def rate(bytes_per_second: float) -> str:
    return number(bytes_per_second / GB)


def interval(value: Json, scale: float = GB) -> str:
    """Returns the interval in brackets, and the number of samples."""
    count = f"n={value['samples']}"
    if value["low"] is None or value["high"] is None:
        return f"no interval, {count}"
    low, high = number(value["low"] / scale), number(value["high"] / scale)
    return f"[{low}, {high}] {count}"


def share(value: float) -> str:
    percent = 100 * value
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.1f} %"


def size(size_bytes: int) -> str:
    for unit, unit_bytes in SIZES:
        if size_bytes >= unit_bytes:
            count = size_bytes / unit_bytes
            return (
                f"{count:.0f} {unit}" if count == int(count) else f"{count:.1f} {unit}"
            )
    return f"{size_bytes} B"


def duration(elapsed_ns: float) -> str:
    for unit, unit_ns in TIMES:
        if elapsed_ns >= unit_ns:
            return f"{number(elapsed_ns / unit_ns)} {unit}"
    return f"{elapsed_ns:.0f} ns"


def protection(result: Json) -> str:
    text = PROTECTIONS[result["verification"]]
    return f"{text}, encrypted" if result["encrypted"] else text


def setting(result: Json) -> str:
    """Returns the setting: layout, block x depth, threads, and deviations from the default."""
    parts = [result["layout"] or ""]
    if result["block_bytes"] is not None:
        deep = "" if result["queue_depth"] is None else f" × {result['queue_depth']}"
        parts.append(f"{size(result['block_bytes'])}{deep}")
    elif result["queue_depth"] is not None:
        parts.append(f"depth {result['queue_depth']}")
    if result["threads"] is not None:
        parts.append(f"{result['threads']} t")
    parts += [MEMORIES[result["memory"]], CACHES[result["cache"]], *unusual(result)]
    return ", ".join(part for part in parts if part)


def pages(result: Json) -> str:
    """Returns the kind of pages that the memory of a result had, "" if unknown."""
    kind = result.get("pages") or {"actual": None}
    return f"{kind['actual']} pages" if kind["actual"] else ""


def unusual(result: Json) -> list[str]:
    """Returns warnings about a result."""
    said = []
    kind = result.get("pages")
    if kind and kind["actual"] not in (kind["requested"], None):
        said.append(f"{kind['actual']} pages, {kind['requested']} were requested")
    requested, actual = result["io"]["requested"], result["io"]["actual"]
    if requested not in ("auto", actual):
        said.append(f"{requested} was requested")
    if result["gpudirect"]:
        said.append(f"route {result['gpudirect']['route']}")
    if result["subject"] == "codec" and not result["verified_first"]:
        said.append("not verified first")
    return said
