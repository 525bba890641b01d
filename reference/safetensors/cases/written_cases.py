"""The cases of files that released libraries wrote: they are committed as they are, and checked by their SHA-256.

written/write.py wrote each, run with the Python of an environment that has the release:

    python3 written/write.py safetensors written/safetensors-0.8.0.safetensors
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from case import Case, Tensor, refused

WRITTEN = Path(__file__).resolve().parent / "written"


@dataclass(frozen=True)
class Release:
    """A release that wrote a file. writer: what write.py calls it. wheel, file: their SHA-256."""

    name: str
    writer: str
    wheel: str
    file: str
    why: str
    tensors: tuple[Tensor, ...]
    metadata: str | None


# How the four official releases arrange the tensors: by dtype, from the largest element to the smallest.
BY_DTYPE = (
    Tensor("größe", "I64", (), 0, 8),
    Tensor("weight", "F32", (2, 3), 8, 32),
    Tensor("mask", "BOOL", (5,), 32, 37),
)
OFFICIAL = "tensors by dtype, and the header padded to a multiple of 8"
OFFICIAL_FILE = "4b06a54561f8f90f74a645f7c90f8b0b82b96b5806b649aab22b288c9d9773e8"
OFFICIAL_WHEELS = {
    "0.3.3": "3e8fdf7407dba44587ed5e79d5de3533d242648e1f2041760b21474bd5ea5c8c",
    "0.4.5": "a6c19feda32b931cae0acd42748a670bdf56bee6476a046af20181ad3fee4090",
    "0.6.2": "8045db2c872db8f4cbe3faa0495932d89c38c899c603f21e9b6486951a5ecb8f",
    "0.8.0": "fd6f3f93c9a0a7cc2788ee63fb763353d4bd2e89b0751bc78fcf7dda00bea774",
}
MLX_WHEEL = "6267be0db81a9d850b3ecd9bf0cf7dd0f439408db9fbc59237e37fda3f7676b0"

RELEASES = [
    *(
        Release(
            *(f"safetensors-{version}", "safetensors", wheel, OFFICIAL_FILE, OFFICIAL),
            *(BY_DTYPE, "np"),
        )
        for version, wheel in OFFICIAL_WHEELS.items()
    ),
    Release(
        "mlx-0.32.4",
        "mlx",
        MLX_WHEEL,
        "3db143555fa532fd7a9ca4d9e2a93f280c09da73237cb6f36da17a551c0dee1b",
        "keys and fields sorted, data in another order, and no padding, so that data is unaligned",
        (
            Tensor("mask", "BOOL", (5,), 0, 5),
            Tensor("größe", "I64", (), 5, 13),
            Tensor("weight", "F32", (2, 3), 13, 37),
        ),
        "mlx",
    ),
    Release(
        "mlx-0.32.4-bare",
        "mlx-bare",
        MLX_WHEEL,
        "d8e36c9aab0689305ed157ee1cae43071985314abf0db4768b56960cca583828",
        "null for no metadata, and tensors without elements that are listed after their neighbours",
        (
            Tensor("none", "F32", (0, 3), 0, 0),
            Tensor("mask", "BOOL", (5,), 0, 5),
            Tensor("größe", "I64", (), 5, 13),
            Tensor("zeros", "BOOL", (0,), 13, 13),
            Tensor("weight", "F32", (2, 3), 13, 37),
        ),
        None,
    ),
    Release(
        "tinygrad-0.14.0",
        "tinygrad",
        "d2a5bea33c637fdf105963632329876b3d3253d38295ac1ffd2ff81646d93be3",
        "89f6338c02ccced35f785bf0850311b241aec0b835a734931c7cd7587c38ee00",
        "tensors in the order of insertion, names escaped, and a padded header",
        (
            Tensor("weight", "F32", (2, 3), 0, 24),
            Tensor("größe", "I64", (), 24, 32),
            Tensor("mask", "BOOL", (5,), 32, 37),
        ),
        "tinygrad",
    ),
    Release(
        "pure-safetensors-0.3.2",
        "pure",
        "5c1af9d49da1addf3716e91634da33c3ee9d3c37a5a498e9af33fcf9a956e661",
        "0a04d378e0554d8ddaa724a5af317ab46b263e7789df0d0b9445d4fb9fd461f5",
        "room for a longer header and alignment to 64, both of which leave holes in the data",
        (),
        None,
    ),
]


def cases() -> Iterator[Case]:
    for release in RELEASES:
        content = (WRITTEN / f"{release.name}.safetensors").read_bytes()
        assert hashlib.sha256(content).hexdigest() == release.file, release.name
        case = Case(
            f"written-{release.name}",
            f"a file of {release.name.removesuffix('-bare')}: {release.why}",
            {"file": content},
            tensors=list(release.tensors),
            metadata={"format": release.metadata} if release.metadata else {},
            exercises="ST-014",
            origin={
                "emitter": release.name.removesuffix("-bare"),
                "commit": f"wheel {release.wheel}",
                "case": release.writer,
            },
            stem=f"written/{release.name}",
        )
        null = content.find(b'"__metadata__":null')
        if null >= 0:
            case.spec = refused("ST-009", null + len('"__metadata__":'))
        if not release.tensors:
            case.spec = case.library = refused("ST-014", content.index(b'"weight"'))
            case.library_error = "InvalidOffset"
        yield case
