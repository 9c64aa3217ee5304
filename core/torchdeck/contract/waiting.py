"""Waiting with a time limit. Standard library, Python 3.10."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(look: Callable[[], T], limit: float, tick: float) -> T:
    """Call `look` every `tick` seconds until it gives something other than None or False.

    Returns:
        what it gave last; None or False after `limit` seconds. It is called once at least.
    """
    until = time.monotonic() + limit
    while (found := look()) is None or found is False:
        if time.monotonic() >= until:
            break
        time.sleep(tick)
    return found
