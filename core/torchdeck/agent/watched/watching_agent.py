"""The loop of the agent that watches a training: the same observation as of a run, and no control."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.gang.recovered_state import RecoveredState
from torchdeck.agent.heartbeat import Heartbeat
from torchdeck.agent.inbox import STACKS, Inbox
from torchdeck.agent.own_clock import OwnClock
from torchdeck.agent.ranks.observation import Observation
from torchdeck.agent.watched.output_copy import WatchedOutput
from torchdeck.contract.atomic import write_json
from torchdeck.contract.journal import PatientJournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.script_state import read_script_state
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import PROC, ProcessIdentity
from torchdeck.contract.run_states import FinalState, GangPhase, Outcome, RankPhase, StartReason
from torchdeck.contract.waiting import wait_for
from torchdeck.trainers.files.metric_file_search import Found
from torchdeck.trainers.files.old_runs import LIGHTNING, OldRun, find_old_runs

ATTEMPT = 1
LOOK_INTERVAL = 0.25
BEAT_INTERVAL = 1.0
QUIET_AFTER = 60.0
"""Seconds without a row, a line or a checkpoint after which it is journaled that nothing comes."""
FORGOTTEN_AFTER = 24 * 3600.0
"""Seconds without any of these after which a folder is not watched any longer."""
END_LIMIT = 30.0
"""Seconds to wait for room on a full disk for the last events."""


class WatchingAgent:
    """Observes a folder or a process until the process or the watch ends."""

    def __init__(self, layout: RunLayout, plan: LaunchPlan, name: str, journal: PatientJournalWriter) -> None:
        self._layout, self._plan, self._name, self._journal = layout, plan, name, journal
        self._clock = OwnClock()
        self._seen = Observation(layout, plan, name, journal, self._clock)
        self._heartbeat = Heartbeat(layout.node(name).heartbeat)
        self._inbox = Inbox(layout.node(name).inbox, frozenset())
        found = plan.watched
        self._process = None if found is None else ProcessIdentity(found.pid, found.start_ticks, found.boot)
        self._folder = Path(self._attempt_plan().node(name).working_dir)
        self._rank = layout.attempt(ATTEMPT).rank(0)
        self._is_running = False
        self._newest = 0.0
        """Unix seconds of what came last of the training."""
        self._started = time.time()
        self._is_quiet = False

    def run(self, recovered: RecoveredState) -> None:
        """Watch until the end.

        Args:
            recovered: what an earlier agent of this watch journaled.
        """
        self._inbox = Inbox(self._layout.node(self._name).inbox, recovered.requests)
        self._is_running, self._is_quiet = recovered.running, recovered.quiet
        if self._process is None and not self._folder.is_dir():
            self._finish((FinalState.FAILED, f"there is no folder {self._folder} on {self._name}"))
            return
        since = self._begun() if recovered.open else self._begin()
        pid = 0 if self._process is None else self._process.pid
        output = WatchedOutput(self._rank, self._folder, pid, since)
        self._newest = since
        self._seen.begin(ATTEMPT, self._attempt_plan(), recovered)
        end = None
        beat_due = 0.0
        while end is None and self._layout.plan.exists():
            now = self._clock()
            self._seen.look(self._name)
            if now >= beat_due:
                beat_due = now + BEAT_INTERVAL
                self._look_closely(output)
                end = self._end()
            self._seen.parse(closely=True)
            time.sleep(LOOK_INTERVAL)
        while output.look():
            pass
        self._finish(end)

    def _begin(self) -> float:
        """Journal the beginning; the attempt's plan has its time, as that of a run has."""
        since = process_start(self._process) if self._process is not None else folder_start(self._folder)
        began = time.time() if since is None else since
        attempt = self._layout.attempt(ATTEMPT)
        for folder in (attempt.node(self._name).root, self._rank.metrics):
            folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        write_json(attempt.plan, self._attempt_plan().document(), durable=False)
        os.utime(attempt.plan, (began, began))
        self._journal.append(
            "attempt_started",
            t=began,
            attempt=ATTEMPT,
            reason=StartReason.FIRST,
            resume="",
            resume_step=None,
            world_size=1,
        )
        return began

    def _begun(self) -> float:
        plan = self._layout.attempt(ATTEMPT).plan
        return plan.stat().st_mtime if plan.exists() else self._begin()

    def _attempt_plan(self) -> LaunchPlan:
        return self._plan.filled({"run_id": self._layout.root.name, "run_dir": str(self._layout.root)})

    def _look_closely(self, output: WatchedOutput) -> None:
        """Once a second."""
        self._journal.catch_up()
        self._newest = max(self._newest, output.look())
        events = self._seen.look_closely()
        state = self._seen.states.get(0)
        if state is not None and state.phase not in (RankPhase.STARTING, RankPhase.RUNNING):
            self._newest = max(self._newest, state.time)
        if events or (state is not None and (state.step or state.phase is RankPhase.RUNNING)):
            self._say_running()
        self._say_quiet()
        self._heartbeat.beat(
            attempt=ATTEMPT,
            phase=GangPhase.RUNNING if self._is_running else GangPhase.STARTING,
            ranks=self._seen.states,
            torchrun=None,  # the process is not the run's: the run is over without it, and can be deleted
            holder=None,
            disk_free=self._seen.disk_free,
            rss=self._seen.rss,
        )

    def _say_running(self) -> None:
        if not self._is_running:
            self._is_running = True
            self._journal.append("running", attempt=ATTEMPT)

    def _say_quiet(self) -> None:
        is_quiet = time.time() - self._newest > QUIET_AFTER
        if is_quiet != self._is_quiet:
            self._is_quiet = is_quiet
            if is_quiet:
                self._journal.append("quiet", since=self._newest)
            else:
                self._journal.append("quiet_over")

    def _end(self) -> tuple[FinalState, str] | None:
        """Return how it ended; None while it continues."""
        for request in self._inbox.read_new():
            self._journal.append("request", id=request.id, kind=request.kind)
            if request.kind == STACKS:
                continue  # no rank of a watched training answers
            return FinalState.CANCELLED, "the watch was ended; the training was left alone"
        if self._process is not None and not self._process.is_alive():
            # the exit code is for the parent of the process alone
            return FinalState.SUCCEEDED, "its process ended; only its parent knows whether it failed"
        if self._process is None and time.time() - max(self._newest, self._started) > FORGOTTEN_AFTER:
            return FinalState.SUCCEEDED, "nothing was written for a day"
        return None

    def _finish(self, end: tuple[FinalState, str] | None) -> None:
        self._seen.end()
        if end is not None:
            self._journal_end(*end)
        self._seen.close()

    def _journal_end(self, state: FinalState, why: str) -> None:
        found = read_script_state(self._rank.script)
        if self._process is not None and not self._process.is_alive() and found is not None and found.total:
            if (found.step or 0) < found.total:
                state, why = (
                    FinalState.CANCELLED,
                    f"its process ended at step {found.step or 0} of {found.total}",
                )
            else:
                why = f"its process ended after all {found.total} steps"
        outcome = Outcome.SUCCEEDED if state is FinalState.SUCCEEDED else Outcome.STOPPED
        checkpoint = self._seen.newest_checkpoint
        self._journal.append("attempt_ended", attempt=ATTEMPT, outcome=outcome, first_failure=None, killed=0)
        self._journal.append(
            "finished", state=state, why=why, resumable=False, checkpoint=checkpoint, attempt=ATTEMPT
        )
        wait_for(self._journal.catch_up, END_LIMIT, BEAT_INTERVAL)


_CHECKPOINT = re.compile(r"checkpoint-(\d{1,12})")
EARLIEST = 6e8
"""Unix seconds (1989) before which a time is none of a training."""


class Span(NamedTuple):
    """Time in which a file was written; unix seconds."""

    first: float
    last: float


def process_start(process: ProcessIdentity) -> float:
    """Return when a process of this boot began, unix seconds."""
    for line in (PROC / "stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) + process.start_ticks / os.sysconf("SC_CLK_TCK")
    return time.time()


def folder_start(folder: Path) -> float | None:
    """Return when the newest training in a folder began, as far as its files tell; None if there is none."""
    runs = [run for run in find_old_runs(folder)[0] if run.stored is None]
    if not runs:
        return None
    newest = max(runs, key=_changed)
    spans = [*_spans(newest), *_states(newest.files)]
    return max(EARLIEST, began(spans))


def began(spans: Sequence[Span]) -> float:
    """Return the first moment of the newest files: of those that overlap with the newest, or with such."""
    newest = max(spans, key=lambda span: span.last)
    first = newest.first
    for span in sorted(spans, key=lambda span: span.last, reverse=True):
        if span.last >= first:
            first = min(first, span.first)
    return first


def _changed(run: OldRun) -> float:
    return max(file.changed for file in run.files)


def _spans(run: OldRun) -> Iterator[Span]:
    """Yield the spans of files that are appended to."""
    times: dict[Path, float] = {}
    for file, reading in run.first():
        if reading.time is not None and reading.time >= EARLIEST:
            times[file.path] = min(reading.time, times.get(file.path, reading.time))
    for file in run.files:
        if not file.kind.repeats:
            first = times.get(file.path, file.changed)
            if run.program == LIGHTNING:  # its table has no times; its settings are written at the start
                first = min(first, _oldest_beside(file.path, first))
            yield Span(min(first, file.changed), file.changed)


def _oldest_beside(path: Path, default: float) -> float:
    try:
        with os.scandir(path.parent) as entries:
            return min((entry.stat().st_mtime for entry in entries if entry.is_file()), default=default)
    except OSError:
        return default


def _states(files: Sequence[Found]) -> Iterator[Span]:
    """Yield spans of checkpoints with a trainer_state.json: while their steps rise it is one training."""
    states = sorted((file for file in files if file.kind.repeats), key=lambda file: file.changed)
    span, before = None, -1
    for file in states:
        match = _CHECKPOINT.fullmatch(file.path.parent.name)
        step = int(match[1]) if match else before + 1  # the one beside the checkpoints is written last
        if span is not None and step > before:
            span = span._replace(last=file.changed)
        else:
            if span is not None:
                yield span
            span = Span(file.changed, file.changed)
        before = step
    if span is not None:
        yield span
