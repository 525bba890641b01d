"""Which exceptions of tensorizer are a refusal of the file, and which are accidents.

A refusal is what somebody who calls the library has to be ready for, because the library raises it on purpose or
because it is how Python says "this content is not right" or "this file ends too early":

- ValueError, with UnicodeDecodeError, json.JSONDecodeError and what an enumeration says of a number that it lacks;
- RuntimeError and NotImplementedError, but no other subclass: those are about the program, as recursion and a broken
  barrier are;
- OSError and EOFError, but not where memory ran out;
- HashMismatchError and CryptographyError, the library's own, and what these are derived from in the library.

Everything else is an accident, however tidy it ends: AssertionError (it is gone under "python -O"), KeyError,
IndexError, TypeError, AttributeError, UnboundLocalError, OverflowError, ZeroDivisionError, struct.error, MemoryError
and what else there is.
"""

import errno
import re

import torch
from protocol import Rejected, Unsupported
from tensorizer import serialization

_OWN = tuple(
    ancestor
    for name in ("HashMismatchError", "CryptographyError")
    for ancestor in getattr(getattr(serialization, name, None), "__mro__", ())
    if ancestor.__module__.startswith("tensorizer.")
)
_FAMILIES = (ValueError, OSError, EOFError, *_OWN)

# How torch says that memory ran out. That is no judgement of the file.
_TORCH_OUT_OF_MEMORY = re.compile("can't allocate memory|not enough memory")

# What torch has in some releases. Whether this one has it is asked of it.
_DTYPES_OF_LATER_TORCH = re.compile(
    r"\b(float8_e\w+|float4_e2m1fn_x2|bits\d\w*|uint16|uint32|uint64)\b"
)
_NO_SUCH_DTYPE = ("Invalid torch_dtype: ", "can't convert np.ndarray of type ")


def missing_dtype(text: str) -> str | None:
    """The dtype in a text that other releases of torch have and this one lacks."""
    found = _DTYPES_OF_LATER_TORCH.search(text)
    return found[1] if found and not hasattr(torch, found[1]) else None


def is_refusal(error: Exception) -> bool:
    if type(error) in (RuntimeError, NotImplementedError):
        return not _TORCH_OUT_OF_MEMORY.search(str(error))
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return False
    return isinstance(error, _FAMILIES)


class Judged:
    """Around calls of the library: turns its refusals into Rejected, and lets its accidents through."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: object, error: BaseException | None, _trace: object
    ) -> None:
        if not isinstance(error, Exception) or isinstance(
            error, (Rejected, Unsupported)
        ):
            return
        text = str(error)
        dtype = missing_dtype(text)
        if dtype and text.startswith(_NO_SUCH_DTYPE):
            raise Unsupported(f"torch {torch.__version__} has no {dtype}") from error
        if is_refusal(error):
            raise Rejected(f"{type(error).__name__}: {text}") from error
