"""Waiting on a condition, with a limit and a name for what is waited for."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
SHORTEST, LONGEST, GROWTH = 0.02, 0.1, 1.05
"""Seconds between two looks at the first and at the last, and by what they grow."""


def wait_until(condition: Callable[[], T], seconds: float, what: str, *, every: float | None = None) -> T:
    """The first true value of `condition`; fails with `what` when there is none within `seconds`.

    It is looked at `every` so many seconds; by itself, the longer it takes the less often: what looks is busy
    too, and what is waited for may need the processor.
    """
    limit = time.monotonic() + seconds
    pause = SHORTEST if every is None else every
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > limit:
            raise AssertionError(f"waited {seconds} s without success for {what}")
        time.sleep(pause)
        if every is None:
            pause = min(pause * GROWTH, LONGEST)


def wait_for_value(condition: Callable[[], T | None], seconds: float, what: str) -> T:
    """The first value of `condition` that is not None; otherwise as `wait_until`."""
    found = wait_until(lambda: (value,) if (value := condition()) is not None else None, seconds, what)
    assert found is not None
    return found[0]
