"""Progress of work that may take long: what is counted, and how far it is."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch.nn.modules.module import register_module_module_registration_hook

Progress = Callable[[str], None]
"""Called with a short description of the current work."""
INTERVAL = 1.0
"""Seconds between two reports."""


class Counted:
    """Reports how far a count is, at most once per second."""

    def __init__(self, progress: Progress, what: str, total: int | None = None) -> None:
        """Begin: `what` is counted up to `total`; None if that is not known."""
        self._progress, self._what, self._total = progress, what, total
        self._due = time.monotonic() + INTERVAL

    def reached(self, number: int, what: str = "") -> None:
        """Report that `number` are done; `what` replaces the description."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + INTERVAL
            end = "" if self._total is None else f" of {self._total:,}"
            self._progress(f"{what or self._what} {number:,}{end}")


def ended(progress: Progress, end: str) -> Progress:
    """Return `progress` with `end` after each text."""
    return lambda text: progress(text + end)


@contextmanager
def modules_counted(progress: Progress) -> Iterator[None]:
    """Report how many modules a model being built has so far."""
    counted, number = Counted(progress, "building the model: module"), itertools.count(1)
    hook = register_module_module_registration_hook(lambda *_: counted.reached(next(number)))
    try:
        yield
    finally:
        hook.remove()
