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


def wait_for_value(condition: Callable[[], T | None], seconds: float, what: str) -> T:
    """The first value of `condition` that is not None; otherwise as `wait_until`."""
    found = wait_until(lambda: (value,) if (value := condition()) is not None else None, seconds, what)
    assert found is not None
    return found[0]
