"""Tensors that a program uses while they are being verified: loads with verify="late"."""

from __future__ import annotations

import concurrent.futures
import copy
import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ._errors import UsageError


class LateTensors(dict[Any, Any]):
    """Tensors by name whose hashes a thread checks while the program uses them: a load with ``verify="late"``.

    Do not write to them before ``verified`` has returned: what is checked is the memory that the file was read into,
    of which frameworks copy only what they cannot use in place. If a hash does not match, ``verified`` raises
    FormatError; and the logger "tzmark" gets an error, for a program that never asks. The interpreter does not end
    before the thread. As a context manager, it asks at the end of a block that raises nothing.
    """

    def __init__(self, tensors: Mapping[Any, Any], check: Callable[[], None]) -> None:
        super().__init__(tensors)
        self._process = os.getpid()
        self._result: concurrent.futures.Future[None] = concurrent.futures.Future()
        thread = threading.Thread(
            target=_run, args=(check, self._result), name="tzmark-verify"
        )
        try:
            thread.start()
        except RuntimeError:  # there are no more threads
            _run(check, self._result)

    def verified(self, timeout: float | None = None) -> None:
        """Returns when all tensors are verified, at once if they are already.

        Raises FormatError with the first tensor of the file that does not match, every time it is asked; and
        TimeoutError if it is not known after so many seconds.
        """
        if self._process != os.getpid() and not self._result.done():
            raise UsageError("the process that loaded the tensors verifies them")
        try:
            error = self._result.exception(timeout)
        except concurrent.futures.TimeoutError:
            raise TimeoutError("the tensors are not verified yet") from None
        if error is not None:
            raise copy.copy(error)

    def __enter__(self) -> LateTensors:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.verified()

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def _run(check: Callable[[], None], result: concurrent.futures.Future[None]) -> None:
    try:
        check()
    except BaseException as error:
        # Its traceback would keep the tensors in memory.
        result.set_exception(error.with_traceback(None))
        logging.getLogger("tzmark").error(
            "tensors that are in use are not verified: %s", error
        )
    else:
        result.set_result(None)
