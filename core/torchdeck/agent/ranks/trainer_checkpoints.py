"""The checkpoints that a script writes by itself, over the attempts of a run: searched for and journaled."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from torchdeck.agent.gang import events as on
from torchdeck.agent.housekeeping import Every
from torchdeck.agent.ranks.rank_watch import RankState
from torchdeck.agent.ranks.trainer_checkpoint_watch import TrainerCheckpointWatch
from torchdeck.contract.journal import JournalWriter, read_journal
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import PROC, RUN_ID_VARIABLE
from torchdeck.trainers.checkpoints.journaled import GONE, SAVED, journaled_checkpoints
from torchdeck.trainers.checkpoints.places import checkpoint_places, is_named

SEARCH_INTERVAL = 0.5
"""Seconds between two looks, if folders are small."""
STOP_LIMIT = 2.0
"""Seconds for a search to end."""


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
        """Path of the one that was saved last; empty if there is none."""
        found = None if self._watch is None else self._watch.newest
        return "" if found is None else found.path

    @property
    def last_size(self) -> int:
        """Bytes of the one that was saved last, 0 before there is one."""
        found = None if self._watch is None else self._watch.newest
        return 0 if found is None else found.size

    def begin(self, attempt: int, plan: LaunchPlan) -> None:
        """Look for what the ranks of an attempt write, whose plan has its slots filled; not for recipes'."""
        if plan.kind not in ("script", "module"):
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

    def look(self, states: Iterable[RankState]) -> list[on.Event]:
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
        return [on.CheckpointSaved(each.step or 0) for each in saved]

    def _other_run(self, path: str) -> str:
        """A run that works in the same folder, unless an argument says that this checkpoint is ours."""
        folder, command = self._works
        if is_named(Path(path), folder, command):
            return ""
        return run_in(folder, self._layout.root.name)

    def end(self, states: Iterable[RankState]) -> list[on.Event]:
        """The attempt is over: as `look`, with what was written last."""
        self._stop()
        if self._watch is not None:
            self._watch.search(last=True)
        return self.look(states)

    def close(self) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._searches is not None:
            self._searches.stop(STOP_LIMIT)
            self._searches = None


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
