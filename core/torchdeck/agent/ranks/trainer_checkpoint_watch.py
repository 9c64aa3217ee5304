"""Sees the checkpoints that a program writes by itself."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.trainers.checkpoints.journaled import JournaledCheckpoint
from torchdeck.trainers.checkpoints.kinds import TrainerCheckpoint
from torchdeck.trainers.checkpoints.search import Content, content_of, find_checkpoints

LEAST_PAUSE = 0.5
"""Seconds between two searches, or nineteen times as long as one takes, so that they take 5 % of the time."""
PRINTED_DELAY = 1.0
"""Seconds by which a step that was printed before a save may be read after it."""
STEP_WAIT = 2.0
"""Seconds in which the step of a save is printed and read, if its name does not tell it."""
_SAMPLES = 10_000
_CLOCK_TICK = 0.05
"""Seconds by which the time of a file may be before that of the clock at the same moment."""


class Changes(NamedTuple):
    """News since the last call."""

    saved: tuple[JournaledCheckpoint, ...] = ()
    gone: tuple[str, ...] = ()


class TrainerCheckpointWatch:
    """Looks for checkpoints that appear while an attempt runs. `search` may run in a thread of its own."""

    def __init__(
        self,
        places: Sequence[Path],
        without: Sequence[Path],
        since: float,
        known: dict[str, JournaledCheckpoint],
    ) -> None:
        """Watch.

        Args:
            places: folders to look into.
            without: folders below them that are not entered.
            since: unix time; what was written before is not this run's.
            known: path → checkpoint that is journaled already.
        """
        self._places, self._without = tuple(places), tuple(without)
        self._since = since - _CLOCK_TICK
        self._known = dict(known)
        self._unsettled: dict[str, tuple[Content, float]] = {}
        """Path → its content, and the monotonic time since which that is the same."""
        self._steps: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)
        self._due = 0.0
        self._lock = threading.Lock()
        self._searching = threading.Lock()
        self._saved: list[JournaledCheckpoint] = []
        self._gone: list[str] = []

    @property
    def newest(self) -> JournaledCheckpoint | None:
        """The one that was saved last and is still there."""
        with self._lock:
            there = [saved for saved in self._known.values() if Path(saved.path).exists()]
        return max(there, key=lambda saved: saved.changed, default=None)

    def progress(self, now: float, step: int) -> None:
        """The ranks had completed `step` at the unix time `now`."""
        if not self._steps or self._steps[-1][1] != step:
            self._steps.append((now, step))

    def search(self, *, last: bool = False) -> None:
        """Look for checkpoints, if that is due; after the `last` call no rank writes any more."""
        begun = time.monotonic()
        if begun < self._due and not last:
            return
        with self._searching:
            self._note(find_checkpoints(self._places, self._without), settled=last)
        took = time.monotonic() - begun
        self._due = time.monotonic() + max(LEAST_PAUSE, 19 * took)

    def changes(self) -> Changes:
        """Return what searches have found since the last call."""
        with self._lock:
            found = Changes(tuple(self._saved), tuple(self._gone))
            self._saved.clear()
            self._gone.clear()
        return found

    def _note(self, found: Sequence[TrainerCheckpoint], *, settled: bool) -> None:
        for each in found:
            if each.incomplete or each.changed < self._since or self._is_known(each):
                self._unsettled.pop(each.path, None)
                continue
            content = content_of(Path(each.path))
            before, first = self._unsettled.get(each.path, (None, time.monotonic()))
            is_whole = before == content and (each.step is not None or time.monotonic() - first > STEP_WAIT)
            if settled or is_whole:
                self._unsettled.pop(each.path, None)
                self._add(each, content)
            else:
                self._unsettled[each.path] = (content, first if before == content else time.monotonic())
        with self._lock:
            gone = [path for path in self._known if not Path(path).exists()]
            for path in gone:
                del self._known[path]
            self._gone += gone

    def _is_known(self, found: TrainerCheckpoint) -> bool:
        known = self._known.get(found.path)
        return known is not None and known.changed == found.changed

    def _add(self, found: TrainerCheckpoint, content: Content) -> None:
        step = found.step if found.step is not None else self._step_at(found.changed)
        saved = JournaledCheckpoint(
            step, found.path, 0.0, content.size, found.kind, found.changed, found.step is None
        )
        with self._lock:
            self._known[found.path] = saved
            self._saved.append(saved)

    def _step_at(self, moment: float) -> int | None:
        until = moment + PRINTED_DELAY
        steps = tuple(self._steps)
        first = steps[0][1] if steps else None
        return next((step for reported, step in reversed(steps) if reported <= until), first)
