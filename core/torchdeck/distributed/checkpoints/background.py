"""A thread that writes one checkpoint at a time while training goes on."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for

from torchdeck.contract.checkpoints.manifest import CheckpointError

_NICE = 10
"""Priority of the thread; 0 is usual, 19 the least. Not the least, nor SCHED_IDLE: a thread that has Python's
lock and gets no core holds training up, and whoever waits for a save cannot raise it again without rights."""


class BackgroundWriter:
    """Does one piece of work at a time beside the caller.

    A thread, not a process: it dies with its rank, so that nothing of a killed attempt writes into the
    directory of the next; it needs no copy in shared memory; and nearly all of its time goes by in copying,
    hashing and syncing, during which Python's lock is free for training.
    """

    def __init__(self) -> None:
        self._what = ""
        self._began = 0.0
        self._outcome: Future[None] | None = None

    @property
    def busy(self) -> bool:
        """Work is going on."""
        return self._outcome is not None and not self._outcome.done()

    @property
    def failed(self) -> bool:
        """The work failed, and `wait` has not said so yet."""
        return self._outcome is not None and self._outcome.done() and self._outcome.exception() is not None

    def start(self, what: str, action: Callable[[], None]) -> None:
        """Begin `action`; what was begun before must have been waited for.

        Args:
            what: names it, as in "checkpoint step_00000100".
            action: what to do.
        """
        if self._outcome is not None:
            raise RuntimeError(f"{self._what} was not waited for")
        self._what, self._began = what, time.monotonic()
        self._outcome = outcome = Future[None]()
        # a daemon: a rank that fails must not be kept alive by a disk that hangs
        threading.Thread(target=_do, args=(action, outcome), name="checkpoint-writer", daemon=True).start()

    def wait(self, limit: float) -> None:
        """Wait until nothing is going on.

        Args:
            limit: seconds.

        Raises:
            CheckpointError: the work failed, or still goes on after `limit`.
        """
        outcome = self._outcome
        if outcome is None:
            return
        wait_for([outcome], limit)
        if not outcome.done():
            raise CheckpointError(
                f"{self._what} is still being written after {time.monotonic() - self._began:.0f} s"
            )
        self._outcome = None
        outcome.result()


def _do(action: Callable[[], None], outcome: Future[None]) -> None:
    with contextlib.suppress(OSError, AttributeError):
        # on Linux a thread has a priority of its own: where cores are scarce, training comes first
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
    try:
        action()
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
        outcome.set_exception(error)
    else:
        outcome.set_result(None)
