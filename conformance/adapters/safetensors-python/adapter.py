#!/usr/bin/env python3
"""An installed reader and writer of safetensors behind the adapter protocol (conformance/PROTOCOL.md), for the cases in
reference/safetensors/cases. Run it with the Python of an environment that has the library; scripts/peers makes one for
each.

usage: adapter.py [IMPLEMENTATION] COMMAND ...

IMPLEMENTATION is a reader of readers.py; the default is safetensors, the reference library. It also writes if it is in
writers.py.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import protocol
import specification
from content import (
    Tensor,
    canonical,
    dtypes_of,
    format_dtype,
    in_order_of_data,
    names_in_order,
)
from readers import HEADER_READERS, READERS, Refused
from refusals import is_refusal
from writers import WRITERS

DEFAULT = "safetensors"
ALL_READERS = {**READERS, **HEADER_READERS}


class Panicked(Exception):
    """The library panicked: in another program, this would end the process."""


class Safetensors:
    """An implementation, asked about one file at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._header_only = name in HEADER_READERS
        self._reader = ALL_READERS[name]()
        self._writer = WRITERS[name]() if name in WRITERS else None
        self._warm_up()

    def _warm_up(self) -> None:
        """Reads and writes a file of one byte, so that what the library keeps for any file counts as idle."""
        header = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
        with tempfile.TemporaryDirectory() as directory, suppress(Exception):
            file = Path(directory) / "warm-up.safetensors"
            file.write_bytes(len(header).to_bytes(8, "little") + header + b"\1")
            self._reader.read(str(file))
            if self._writer:
                tensor = specification.Asked("uint8", [1], b"\1")
                self._writer.write({"a": tensor}, f"{directory}/out.safetensors")

    def capabilities(self) -> protocol.Json:
        # Files of this format hold no hashes, so a reader of data has nothing more to verify.
        commands = ["verify" if self._header_only else "decode"]
        profile: protocol.Json = {
            "protocol": 1,
            "name": self._name,
            "version": importlib.metadata.version(self._name),
            "reads": {
                "layouts": ["safetensors"],
                "omits": [] if self._reader.metadata else ["metadata"],
            },
        }
        if self._writer:
            commands.append("encode")
            # The libraries take a dict of strings.
            lacks = ["structured-names"]
            profile["writes"] = {"layouts": ["safetensors"], "lacks": lacks}
        return {**profile, "commands": [*commands, "serve"]}

    def decode(self, file: str, secret: protocol.Secret | None) -> protocol.Json:
        if self._header_only:
            raise protocol.Unsupported("this reader returns no data")
        tensors = self._ask(file, secret) or ()
        order = names_in_order if self._reader.tells_order else in_order_of_data
        metadata = None
        if self._reader.metadata:
            with judged(self._reader.errors):
                # A library may tell of none in either way.
                metadata = self._reader.metadata(file) or {}
        return canonical(order(file, tensors), metadata)

    def verify(self, file: str, secret: protocol.Secret | None) -> None:
        if not self._header_only:
            raise protocol.Unsupported("files of this format hold no hashes")
        self._ask(file, secret)

    def encode(self, spec: str, out: str, secret: protocol.Secret | None) -> None:
        if self._writer is None:
            raise protocol.Unsupported(
                "this library does not write, or is not asked to"
            )
        if secret:
            raise protocol.Unsupported("files of this format are not encrypted")
        tensors = specification.load(spec)
        asked = {format_dtype(tensor.dtype) for tensor in tensors.values()}
        refuse_missing(asked & self._writer.lacks)
        # What the library leaves after a refusal stays, and is judged.
        with judged(self._writer.errors):
            self._writer.write(tensors, out)

    def _ask(
        self, file: str, secret: protocol.Secret | None
    ) -> Iterable[Tensor] | None:
        """Returns what the reader returns.

        The reader is asked about a file with a dtype that it lacks, too, so that a crash shows; whatever else it does
        with such a file says nothing about the rules.
        """
        if secret:
            raise protocol.Rejected("files of this format are not encrypted")
        try:
            with judged(self._reader.errors):
                answer = self._reader.read(file)
        except Panicked:
            raise
        except Exception:
            refuse_missing(dtypes_of(file) & self._reader.lacks)
            raise
        refuse_missing(dtypes_of(file) & self._reader.lacks)
        return answer


def refuse_missing(dtypes: set[str]) -> None:
    """Throws if there is a dtype among those that the library lacks."""
    if dtypes:
        raise protocol.Unsupported(f"the dtype {min(dtypes)}")


@contextmanager
def judged(own: tuple[type[Exception], ...]) -> Iterator[None]:
    """Turns a refusal of the library into the protocol's; own has the library's classes of refusals."""
    try:
        yield
    except (protocol.Rejected, protocol.Unsupported):
        raise
    except Exception as error:
        if isinstance(error, Refused) or is_refusal(error, own):
            text = f"{type(error).__name__}: {error}"
            raise protocol.Rejected(text) from error
        raise
    except BaseException as error:
        # A panic of a library in Rust, which "except Exception" does not catch.
        if type(error).__name__ != "PanicException":
            raise
        raise Panicked(protocol.one_line(error)) from None


def main(arguments: list[str]) -> int:
    name = DEFAULT
    if arguments and arguments[0] in ALL_READERS:
        name, *arguments = arguments
    parser = argparse.ArgumentParser(
        description=__doc__.split(".", 1)[0],
        epilog=f"Readers, before the command: {', '.join(ALL_READERS)}.",
    )
    return protocol.main(lambda _: Safetensors(name), arguments, parser)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
