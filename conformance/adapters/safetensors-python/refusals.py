"""Which exceptions of a reader of safetensors are a refusal of the file, and which are accidents.

As for tensorizer, a refusal is an exception that a caller expects from a library that reads files: ValueError, with
those of broken UTF-8 and JSON; OSError and EOFError, but not where memory ran out; RuntimeError, NotImplementedError
and Exception themselves, which are only raised on purpose; and the classes that the library defines for it. Everything
else is an accident, however tidy it ends: KeyError, TypeError, IndexError, AttributeError, OverflowError,
AssertionError, struct.error and MemoryError among them.
"""

from __future__ import annotations

import errno
import re

_FAMILIES = (ValueError, OSError, EOFError)
# How libraries say that memory ran out, with an exception of another meaning.
_OUT_OF_MEMORY = re.compile(
    r"can't allocate memory|not enough memory|bad_alloc|DefaultCPUAllocator", re.I
)


def is_refusal(error: Exception, own: tuple[type[Exception], ...]) -> bool:
    """Returns whether the exception refuses the file; own has the classes of the library."""
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return False
    if _OUT_OF_MEMORY.search(str(error)):
        return False
    if type(error) in (RuntimeError, NotImplementedError, Exception):
        return True
    return isinstance(error, (*_FAMILIES, *own))
