"""Follower of one run shared by several readers that poll at about the same time, such as a list and a
page.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.follower import JournalFingerprints, RunFollower
from torchdeck.runs.links import Links
from torchdeck.runs.training_progress import ProgressReader, TrainingProgress
from torchdeck.runs.view import RunView

AS_GOOD = 0.1
"""Maximum age in seconds of another reader's poll whose result is reused."""


@dataclass(frozen=True)
class RunLook:
    """Result of one poll of a run."""

    view: RunView
    progress: TrainingProgress | None
    links: Links | None
    """Links to its nodes; None for a run on this machine alone."""
    before: JournalFingerprints
    """Journals just before they were read: later writes may be missing from this poll."""


class SharedFollower:
    """Polls one run for callers in any thread; a caller shares a poll that has just begun."""

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
        """Return the state of the run, at most `AS_GOOD` seconds old.

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
        """Return the same as `ProgressReader.loss_curve`, as of the last poll."""
        with self._one_at_a_time:
            return self._progress.loss_curve()


class SharedFollowers:
    """One shared follower per followed run."""

    def __init__(
        self, *, clock: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._one_at_a_time = threading.Lock()
        self._kept: WeakValueDictionary[Path, SharedFollower] = WeakValueDictionary()

    def of(self, layout: RunLayout) -> SharedFollower:
        """Return the follower of this run; it is dropped once it is no longer referenced."""
        with self._one_at_a_time:
            found = self._kept.get(layout.root)
            if found is None:
                found = SharedFollower(layout, clock=self._clock, monotonic=self._monotonic)
                self._kept[layout.root] = found
            return found
