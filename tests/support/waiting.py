"""Waiting on a condition, with a limit and a name for what is waited for."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], seconds: float, what: str, *, every: float = 0.02) -> T:
    """The first true value of `condition`; fails with `what` when there is none within `seconds`."""
    limit = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > limit:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        time.sleep(every)
