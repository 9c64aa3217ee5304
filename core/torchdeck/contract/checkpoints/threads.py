"""Threads for work on a checkpoint's files, during which the GIL is free: hashing, reading, writing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

MOST_THREADS = 4
"""Beyond that the memory's bandwidth or the disk is the limit, and a node has other ranks."""
T = TypeVar("T")
R = TypeVar("R")


def in_threads(action: Callable[[T], R], items: Sequence[T], sizes: Sequence[int]) -> list[R]:
    """Return the results of `action` in the order of `items`; all calls have ended when this returns.

    Args:
        action: called once for each item, in several threads if there are cores for them.
        items: what to call it with.
        sizes: how much work each item is, in any unit: the largest begin first.

    Raises:
        Exception: what `action` raised for the first of `items` for which it failed.
    """
    threads = min(MOST_THREADS, usable_cores(), len(items))
    if threads < 2:
        return [action(item) for item in items]
    order = sorted(range(len(items)), key=lambda at: -sizes[at])
    with ThreadPoolExecutor(threads, "checkpoint-files") as pool:
        outcomes = {at: pool.submit(action, items[at]) for at in order}
    return [outcomes[at].result() for at in range(len(items))]


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
