"""One run followed for several that look at it at about the same time, such as a list and a page."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.follower import RunFollower
from torchdeck.runs.journal_fingerprints import JournalFingerprints
from torchdeck.runs.links import Links
from torchdeck.runs.training_progress import ProgressReader, TrainingProgress
from torchdeck.runs.view import RunView

AS_GOOD = 0.1
"""Seconds before it was asked for in which another's look may have begun, to do for this one."""


@dataclass(frozen=True)
class RunLook:
    """A run as one look found it."""

    view: RunView
    progress: TrainingProgress | None
    links: Links | None
    """How its nodes were reached; None for a run of this machine alone."""
    before: JournalFingerprints
    """The journals just before they were read: what was written since, this look may not know."""


class SharedFollower:
    """Looks at one run for whoever asks, in any thread; who asks when a look has just begun gets that one."""

    def __init__(
        self,
        layout: RunLayout,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._follower = RunFollower(layout, clock=clock)
        self._progress = ProgressReader(layout)
        self._monotonic = monotonic
        self._one_at_a_time = threading.Lock()
        self._last: RunLook | None = None
        self._began = 0.0

    def look(self) -> RunLook:
        """The run as of now, or as of `AS_GOOD` seconds before at most.

        Raises:
            NewerFormatError: a journal is from a newer Torchdeck.
            OSError: a file cannot be read.
        """
        asked = self._monotonic()
        with self._one_at_a_time:
            last = self._last
            if last is not None and self._began >= asked - AS_GOOD:
                return last
            self._last = None
            self._began = self._monotonic()
            before = JournalFingerprints.taken(self._follower.layout)
            view = self._follower.refresh()
            self._last = RunLook(view, self._progress.read(view), self._follower.links, before)
            return self._last

    def loss_curve(self) -> tuple[float, ...]:
        """As `ProgressReader.loss_curve`, as of the last look."""
        with self._one_at_a_time:
            return self._progress.loss_curve()


class SharedFollowers:
    """One for each run that somebody follows."""

    def __init__(
        self, *, clock: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._one_at_a_time = threading.Lock()
        self._kept: WeakValueDictionary[Path, SharedFollower] = WeakValueDictionary()

    def of(self, layout: RunLayout) -> SharedFollower:
        """That of this run; it is forgotten when nobody keeps it."""
        with self._one_at_a_time:
            found = self._kept.get(layout.root)
            if found is None:
                found = SharedFollower(layout, clock=self._clock, monotonic=self._monotonic)
                self._kept[layout.root] = found
            return found
