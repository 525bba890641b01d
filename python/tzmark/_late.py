"""Tensors that a program uses while they are being verified: loads with verify="late"."""

from __future__ import annotations

import concurrent.futures
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from ._errors import UsageError


class LateTensors(dict[Any, Any]):
    """Tensors by name whose hashes a thread checks while the program uses them: a load with ``verify="late"``.

    Do not write to them before ``verified`` has returned, since the memory is what is checked. If a hash does not
    match, ``verified`` raises FormatError; and the thread gives a RuntimeWarning at once, which reaches a program that
    never asks. The interpreter does not end before the thread. As a context manager, it asks at the end of the block.
    """

    def __init__(self, tensors: Mapping[Any, Any], check: Callable[[], None]) -> None:
        super().__init__(tensors)
        self._process = os.getpid()
        self._result: concurrent.futures.Future[None] = concurrent.futures.Future()
        threading.Thread(
            target=_run, args=(check, self._result), name="tzmark-verify"
        ).start()

    def verified(self, timeout: float | None = None) -> None:
        """Returns when all tensors are verified, at once if they are already.

        Raises FormatError with the first tensor of the file that does not match, every time it is asked; and
        TimeoutError if it is not known after so many seconds.
        """
        if self._process != os.getpid() and not self._result.done():
            raise UsageError("the process that loaded the tensors verifies them")
        try:
            self._result.result(timeout)
        except concurrent.futures.TimeoutError:
            raise TimeoutError("the tensors are not verified yet") from None

    def __enter__(self) -> LateTensors:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.verified()

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def _run(check: Callable[[], None], result: concurrent.futures.Future[None]) -> None:
    try:
        check()
    except BaseException as error:
        # Filters may make an exception of the warning.
        try:
            warnings.warn(
                f"tensors that are in use are not verified: {error}", RuntimeWarning
            )
        finally:
            result.set_exception(error)
    else:
        result.set_result(None)
