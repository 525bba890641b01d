"""The conformance suite for implementations in Python: an adapter is a module, and each case a test of pytest.

An adapter is a module, or an object ``package.module:name``, with these members:

- ``PROFILE``: a dict with name, version, and ``reads`` or ``writes``, as in conformance/PROTOCOL.md; or a function
  ``capabilities()`` that returns it. ``protocol`` and ``commands`` are filled in.
- ``decode(file, key)``: returns the canonical JSON of a file, as a dict.
- ``verify(file, key)``: checks the file and its hashes, and returns nothing.
- ``encode(spec, out, key)``: writes the file that a specification, a dict, describes.
- ``REJECTIONS``: optional, the exceptions by which the implementation refuses a file: ``(ValueError,)``.

All but one of the functions may be missing. key is ``{}``, or has ``key_hex`` or ``passphrase``. ``Rejected`` refuses
a file, ``Unsupported`` skips the case, and any other exception is a crash.

``pytest --tzmark-adapter package.module`` runs the suite with one test per case. The verdicts are those of
``tzmark conform --adapter 'python3 -m tzmark.conformance.serve package.module'``, which it runs. One more test fails
if no case ran, or more were skipped than ``--max-skipped`` allows. ``--tzmark-options '--format safetensors'`` has the
cases of that format.
"""

from __future__ import annotations


class Rejected(Exception):
    """Raised by an adapter for a file that is wrong; rule is an id of the suite, offset counts bytes in the file."""

    def __init__(
        self, message: str, rule: str | None = None, offset: int | None = None
    ) -> None:
        super().__init__(message)
        self.rule, self.offset = rule, offset


class Unsupported(Exception):
    """Raised by an adapter for a file that may be right, but that the implementation cannot read or write."""


__all__ = ["Rejected", "Unsupported"]
