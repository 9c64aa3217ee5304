"""The checkpoints that a script writes by itself, over the attempts of a run: searched for and journaled."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.gang import events
from torchdeck.agent.housekeeping import Every
from torchdeck.agent.ranks.rank_watch import RankState
from torchdeck.contract.journal import JournalWriter, read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import PROC, RUN_ID_VARIABLE
from torchdeck.trainers.checkpoints.checkpoint_kinds import FILE_KINDS, TrainerCheckpoint
from torchdeck.trainers.checkpoints.checkpoint_search import Content, content_of, find_checkpoints
from torchdeck.trainers.checkpoints.journaled import GONE, SAVED, JournaledCheckpoint, journaled_checkpoints
from torchdeck.trainers.checkpoints.pickled_step import step_inside
from torchdeck.trainers.checkpoints.places import checkpoint_places, is_named

SEARCH_INTERVAL = 0.5
"""Seconds between two looks, if folders are small."""
STOP_LIMIT = 2.0
"""Seconds for a search to end."""
LAST_LIMIT = 10.0
"""Seconds for a look between attempts; a file system that does not answer holds the agent no longer."""


class TrainerCheckpoints:
    """One node's view; looks in a thread of its own, since folders may be large and file systems slow."""

    def __init__(self, layout: RunLayout, node: str, journal: JournalWriter) -> None:
        self._layout, self._node, self._journal = layout, node, journal
        self._watch: TrainerCheckpointWatch | None = None
        self._searches: Every | None = None
        self._works: tuple[Path, Sequence[str]] = (Path(), ())
        """Working directory and command of the ranks."""

    @property
    def newest(self) -> str:
        """Path of the one that was saved last; empty if there is none. Takes `LAST_LIMIT` at most."""
        found = self._newest_journaled() if self._watch is None else self._watch.newest
        return "" if found is None else found.path

    def _newest_journaled(self) -> JournaledCheckpoint | None:
        """Return the newest of earlier sessions of the run: no attempt has begun in this one."""
        known = list(journaled_checkpoints(read_journal(self._layout.node(self._node).journal)).values())
        there = list[JournaledCheckpoint]()

        def look() -> None:
            there.extend(saved for saved in known if Path(saved.path).exists())

        has_looked = _within_limit("looking for earlier checkpoints", look)
        return max(there if has_looked else known, key=lambda saved: saved.changed, default=None)

    @property
    def last_size(self) -> int:
        """Bytes of the one that was saved last, 0 before there is one."""
        return 0 if self._watch is None else self._watch.last_size

    def begin(self, attempt: int, plan: LaunchPlan) -> None:
        """Look for what the ranks of an attempt write, whose plan has its slots filled; not for recipes'."""
        if plan.kind == "recipe":
            return
        self._stop()
        run, node = self._layout, plan.node(self._node)
        self._works = Path(node.working_dir), node.command
        places = checkpoint_places(*self._works, [run.checkpoints, run.code])
        known = journaled_checkpoints(read_journal(run.node(self._node).journal))
        self._watch = TrainerCheckpointWatch(places, [run.home.root], self._began(attempt), known)
        self._searches = Every(SEARCH_INTERVAL, self._watch.search, "looking for checkpoints")

    def _began(self, attempt: int) -> float:
        """By the clock of a file system, as the times of checkpoints are."""
        layout = self._layout.attempt(attempt)
        written = [path for path in (layout.node(self._node).plan, layout.plan) if path.exists()]
        return written[0].stat().st_mtime if written else time.time()

    def look(self, states: Iterable[RankState]) -> list[events.Event]:
        """Journal those that are complete now and were not before, and those that were deleted."""
        if self._watch is None:
            return []
        state = max(states, key=lambda state: state.step, default=None)
        if state is not None and state.step:
            self._watch.progress(state.time, state.step)
        saved, gone = self._watch.changes()
        for each in saved:
            fields = each._asdict()
            fields["other"] = self._other_run(each.path)
            if not fields["other"]:
                del fields["other"]
            self._journal.append(SAVED, **fields)
        for path in gone:
            self._journal.append(GONE, path=path)
        return [events.CheckpointSaved(each.step) for each in saved]

    def _other_run(self, path: str) -> str:
        """A run that works in the same folder, unless an argument says that this checkpoint is ours."""
        folder, command = self._works
        if is_named(Path(path), folder, command):
            return ""
        return run_in(folder, self._layout.root.name)

    def end(self, states: Iterable[RankState]) -> list[events.Event]:
        """The attempt is over: as `look`, with what was written last; takes 12 s at most."""
        self._stop()
        if self._watch is not None:
            _within_limit("last look for checkpoints", partial(self._watch.search, last=True))
        return self.look(states)

    def close(self) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._searches is not None:
            self._searches.stop(STOP_LIMIT)
            self._searches = None


def _within_limit(what: str, look: Callable[[], None]) -> bool:
    """Call `look` in a thread; return whether it has ended within `LAST_LIMIT`."""
    thread = threading.Thread(target=look, name=what, daemon=True)
    thread.start()
    thread.join(LAST_LIMIT)
    if thread.is_alive():
        print(f"{what}: no end after {LAST_LIMIT:g} s; continuing without", file=sys.stderr, flush=True)
    return not thread.is_alive()


def run_in(folder: Path, without: str) -> str:
    """Return the id of a run other than `without` that has a living process in `folder`; empty if none."""
    where = os.path.realpath(folder)
    for entry in PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            found = _run_of(entry) if str((entry / "cwd").readlink()) == where else ""
            if found not in ("", without):
                return found
    return ""


def _run_of(process: Path) -> str:
    prefix = f"{RUN_ID_VARIABLE}=".encode()
    words = (process / "environ").read_bytes().split(b"\0")
    return next((os.fsdecode(word[len(prefix) :]) for word in words if word.startswith(prefix)), "")


# Sees the checkpoints that a program writes by itself.

LEAST_PAUSE = 0.5
"""Seconds between two searches, or nineteen times as long as one takes, so that they take 5 % of the time."""
PRINTED_DELAY = 1.0
"""Seconds after a save within which its step may be reported."""
STEP_WAIT = 2.0
"""Seconds in which the step of a save is printed and read, if neither its name nor its content tells it."""
GONE_WAIT = 2.0
"""Seconds without a file after which it is deleted: a program may be replacing it."""
_SAMPLES = 10_000
_CLOCK_TICK = 0.05
"""Seconds by which the time of a file may be before that of the clock at the same moment."""


class Changes(NamedTuple):
    """News since the last call."""

    saved: tuple[JournaledCheckpoint, ...] = ()
    gone: tuple[str, ...] = ()


class _Unsettled(NamedTuple):
    """A checkpoint that seems complete and is not journaled yet."""

    content: Content
    since: float
    """Monotonic time at which it was complete first. It counts on if the program replaces the file: one that
    does so every second would never be journaled otherwise.
    """
    step: int | None
    """As its content tells."""


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
        self._unsettled: dict[str, _Unsettled] = {}
        self._missing: dict[str, float] = {}
        """Path → the monotonic time since which a journaled checkpoint is not there."""
        self._steps: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)
        self._due = 0.0
        self._lock = threading.Lock()
        self._searching = threading.Lock()
        self._saved: list[JournaledCheckpoint] = []
        self._gone: list[str] = []

    @property
    def newest(self) -> JournaledCheckpoint | None:
        """The one that was saved last of those that the last search found. No file system is asked."""
        with self._lock:
            there = [saved for path, saved in self._known.items() if path not in self._missing]
        return max(there, key=lambda saved: saved.changed, default=None)

    @property
    def last_size(self) -> int:
        """Bytes of the one that was saved last, 0 before there is one. No file system is asked."""
        newest = max(self._copy_known().values(), key=lambda saved: saved.changed, default=None)
        return 0 if newest is None else newest.size

    def _copy_known(self) -> dict[str, JournaledCheckpoint]:
        with self._lock:
            return dict(self._known)

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
        now = time.monotonic()
        for each in found:
            if each.changed < self._since or self._is_known(each):
                self._unsettled.pop(each.path, None)
            elif not each.incomplete:
                self._settle(each, now, settled=settled)
        self._note_missing(now, settled=settled)

    def _settle(self, found: TrainerCheckpoint, now: float, *, settled: bool) -> None:
        """Journal a complete checkpoint if it stays as it is, and its step is known or will not be."""
        path = Path(found.path)
        content, before = content_of(path), self._unsettled.get(found.path)
        is_same = before is not None and before.content == content
        step = found.step if found.step is not None else before.step if is_same and before else None
        if step is None and not is_same and found.kind in FILE_KINDS:
            step = step_inside(path)
        since = now if before is None else before.since
        if settled or (is_same and (step is not None or now - since > STEP_WAIT)):
            self._unsettled.pop(found.path, None)
            self._add(found, content, step)
        else:
            self._unsettled[found.path] = _Unsettled(content, since, step)

    def _note_missing(self, now: float, *, settled: bool) -> None:
        # the agent's loop takes the lock: no file system is asked under it
        missing = {path for path in self._copy_known() if not Path(path).exists()}
        with self._lock:
            self._missing = {path: self._missing.get(path, now) for path in missing}
            gone = [path for path, since in self._missing.items() if settled or now - since >= GONE_WAIT]
            for path in gone:
                del self._known[path], self._missing[path]
            self._gone += gone

    def _is_known(self, found: TrainerCheckpoint) -> bool:
        known = self._known.get(found.path)
        return known is not None and known.changed == found.changed

    def _add(self, found: TrainerCheckpoint, content: Content, step: int | None) -> None:
        about = step is None
        saved = JournaledCheckpoint(
            self._step_at(found.changed) if about else step,
            found.path,
            0.0,
            content.size,
            found.kind,
            found.changed,
            about,
        )
        with self._lock:
            self._known[found.path] = saved
            self._saved.append(saved)

    def _step_at(self, moment: float) -> int | None:
        """Return the step that was reported next to `moment`: some programs print it before they save, others
        after.
        """
        steps = tuple(self._steps)
        near = [(abs(at - moment), step) for at, step in steps if at <= moment + PRINTED_DELAY]
        return min(near)[1] if near else steps[0][1] if steps else None
