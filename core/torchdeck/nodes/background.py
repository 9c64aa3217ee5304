"""Calls in threads: on many items at once, or in the background."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

T = TypeVar("T")
Item = TypeVar("Item")
AT_ONCE = 32


def on_each(items: Iterable[Item], call: Callable[[Item], T], name: str, at_once: int = AT_ONCE) -> list[T]:
    """Call a function on every item at the same time; return the results in the order of the items.

    Args:
        items: such as the names of nodes.
        call: called in a thread per item.
        name: name of the threads.
        at_once: maximum number of threads.

    Raises:
        Exception: the first error in that order, after all calls that were begun; the others are not made.
    """
    every = list(items)
    with ThreadPoolExecutor(max(1, min(at_once, len(every))), thread_name_prefix=name) as pool:
        return list(pool.map(call, every))


def in_background(calls: Iterable[Callable[[], T]], at_once: int, name: str) -> list[Future[T]]:
    """Make all calls, so many at once. Return their results in their order. Cancelled calls are not begun.

    The process does not wait for these threads at its end: one may be blocked in a user prompt or a resolver.

    Args:
        calls: functions, each called once.
        at_once: maximum number of threads.
        name: name of the threads.
    """
    waiting: queue.SimpleQueue[tuple[Callable[[], T], Future[T]]] = queue.SimpleQueue()
    futures: list[Future[T]] = []
    for call in calls:
        futures.append(Future())
        waiting.put((call, futures[-1]))
    for _ in range(min(at_once, len(futures))):
        threading.Thread(target=partial(_work, waiting), name=name, daemon=True).start()
    return futures


def _work(waiting: queue.SimpleQueue[tuple[Callable[[], T], Future[T]]]) -> None:
    while True:
        try:
            call, future = waiting.get_nowait()
        except queue.Empty:
            return
        if not future.set_running_or_notify_cancel():
            continue
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - who asks for the result gets it
            future.set_exception(error)
