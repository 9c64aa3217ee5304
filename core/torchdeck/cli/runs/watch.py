"""Watch a run until it is over: reads its directory, writes requests into it, owns nothing of it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from torchdeck.agent.processes.detached_process import DetachedProcess
from torchdeck.cli.output import BROKEN_PIPE_EXIT, RUN_FAILED, STOPPED, is_unread, silence
from torchdeck.cli.runs.display import Display, JsonDisplay, PlainDisplay
from torchdeck.cli.signals import FrontEndSignals
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.launch_plan import WATCHED
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.audit.result import Audit
from torchdeck.runs.follower import RunFollower
from torchdeck.runs.foreign import refuse_stop
from torchdeck.runs.links import LinkState
from torchdeck.runs.node_troubles import NodeTrouble, TroubleKind
from torchdeck.runs.outcome import START_GRACE
from torchdeck.runs.rank_output import OutputFollower
from torchdeck.runs.run_state import CheckpointSeen, RunState
from torchdeck.runs.training_progress import ProgressReader, TrainingProgress
from torchdeck.runs.view import RunView
from torchdeck.use_cases.kept_controller import KeptController
from torchdeck.use_cases.stop import PendingStop, StopRequest, request_stop
from torchdeck.use_cases.ui import QuietUi

QUICK = 0.025
"""Seconds between two checks whether a journal has grown."""
SLOW = 0.25
"""Seconds between two polls while none grows."""
PROGRESS_INTERVAL = 0.5
COPY_LIMIT = 10.0
"""Seconds after the end of a run for the last lines of its nodes to be copied here."""


def display_for(run_id: str, *, as_json: bool, attached: bool = False) -> Display:
    """Return a JSON display if requested, a live one on a terminal, else plain lines; `attached` as in
    FrontEndSignals.
    """
    if as_json:
        return JsonDisplay(run_id)
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        from torchdeck.cli.runs.terminal import TerminalDisplay

        return TerminalDisplay(attached=attached)
    return PlainDisplay()


class Watch:
    """One watch of one run."""

    def __init__(
        self,
        layout: RunLayout,
        display: Display,
        signals: FrontEndSignals,
        controller: DetachedProcess | None = None,
        *,
        after_attempt: int = 0,
    ) -> None:
        """Watch; output of attempts up to `after_attempt` was shown before."""
        self._layout = layout
        self._display = display
        self._signals = signals
        self._controller = controller
        self._follower = RunFollower(layout)
        self._output = OutputFollower(layout, after_attempt=after_attempt)
        self._progress = ProgressReader(layout)
        self._progress_due = 0.0
        self._shown_progress: TrainingProgress | None = None
        self._shown_sending: tuple[LinkState, ...] = ()
        self._answered = 0
        self._pending: PendingStop | None = None
        self._kept = KeptController(layout)
        self._last: RunView | None = None
        self._said: set[str] = set()
        self._has_output = False
        self._node_notes = NodeNotes()

    def run(self) -> int:
        """Watch until the run is over or this process is to leave; return the exit code.

        Raises:
            NewerFormatError: a newer Torchdeck took the run over.
        """
        try:
            return self._run()
        except OSError as error:
            if not is_unread(error):
                raise
            silence()
            return BROKEN_PIPE_EXIT

    def _run(self) -> int:
        view = self._look()
        self._display.begin(view, str(self._layout.root))
        while True:
            self._show(view)
            if view.is_over or self._is_leaving:
                break
            if self._controller_failed(view):
                return RUN_FAILED
            self._answer()
            self._carry(view)
            self._keep_controller(view)
            self._wait()
            view = self._look()
        return self._end(view)

    def _wait(self) -> None:
        """Wait for the next poll; return at once if a journal has grown, or a signal came."""
        until = time.monotonic() + SLOW
        journals = self._journals()
        written, asked = _written(journals), self._asked()
        while time.monotonic() < until and (_written(journals), self._asked()) == (written, asked):
            time.sleep(QUICK)

    def _asked(self) -> tuple[int, int | None]:
        """Return the signals that came."""
        return self._signals.interrupts, self._signals.leaving

    def _journals(self) -> tuple[Path, ...]:
        """Return the run's journals; one of a node that joins later counts from the next poll on."""
        return (self._layout.journal, *self._layout.nodes.glob("*/journal.jsonl"))

    def _look(self) -> RunView:
        view = self._refreshed()
        # if attached to from another machine, a run has all that its nodes had before its controller here is
        # visible: until then nothing of it seems alive
        until = time.monotonic() + START_GRACE
        while self._may_begin(view) and time.monotonic() < until:
            if self._is_asked():  # answered before the run's state is known
                return replace(
                    view, state=RunState.PENDING, why="its controller begins", ended=None, resumable=False
                )
            time.sleep(QUICK)
            view = self._refreshed()
        return view

    def _may_begin(self, view: RunView) -> bool:
        """Return whether a run that seems over may only have a controller that is not visible yet."""
        return self._is_begun() and view.is_over and not view.end_written

    def _is_asked(self) -> bool:
        """Return whether a signal came that was not answered yet."""
        return self._signals.interrupts > self._answered or self._is_leaving

    @property
    def _is_leaving(self) -> bool:
        """Return whether watching ends, whatever the state of the run."""
        return self._signals.leaving is not None or self._answered > 2

    def _refreshed(self) -> RunView:
        self._is_begun()
        return self._follower.refresh()

    def _is_begun(self) -> bool:
        """Return whether the given controller lives; one that has ended is reaped."""
        return self._controller is not None and self._controller.exit_code() is None

    def _show(self, view: RunView) -> None:
        before = self._last
        if before is None or (before.state, before.why, before.attempt) != (
            view.state,
            view.why,
            view.attempt,
        ):
            self._display.state(view)
        if view.checkpoint is not None and is_news(view.checkpoint, view, before):
            self._display.checkpoint(view.checkpoint)
        self._show_warnings(view)
        self._last = view
        for line in self._output.read_new():
            self._has_output = True
            self._display.output(line)
        self._show_sending()
        self._show_progress(view)
        self._display.tick()

    def _show_warnings(self, view: RunView) -> None:
        aged = {trouble.text for trouble in view.troubles}
        new = [warning for warning in view.warnings if warning not in self._said and warning not in aged]
        self._said.update(new)
        if not view.is_over:
            new += self._node_notes.lines(view.troubles, time.time())
        for warning in new:
            self._display.note(warning)

    def _show_sending(self) -> None:
        links = self._follower.links
        sending = () if links is None else links.sent_code(time.time())
        if sending != self._shown_sending:
            # also if nothing is under way any more: the old text would be wrong then
            self._display.sending(sending)
            self._shown_sending = sending

    def _show_progress(self, view: RunView) -> None:
        if not view.is_over and time.monotonic() < self._progress_due:
            return
        self._progress_due = time.monotonic() + PROGRESS_INTERVAL
        progress = self._progress.read(view)
        if progress is not None and progress != self._shown_progress:
            self._shown_progress = progress
            self._display.progress(progress)

    def _answer(self) -> None:
        """Turn the stop key into requests: once a stop with a checkpoint, twice a stop now."""
        if self._signals.interrupts <= self._answered:
            return
        self._answered += 1
        if self._last is not None and self._last.kind == WATCHED:
            self._ask(now=False)  # it is refused, with the reason
        elif self._answered == 1:
            self._ask(now=False)
            self._display.note(
                f"stopping: the ranks finish the step, save and exit ({self._signals.stop_key} again ends "
                "them now)"
            )
        elif self._answered == 2:
            self._ask(now=True)
            self._display.note(
                f"stopping now ({self._signals.stop_key} again stops watching; the stop continues)"
            )

    def _ask(self, *, now: bool) -> None:
        try:
            if self._last is not None:
                refuse_stop(self._last)
            self._pending = request_stop(StopRequest(self._layout, "terminal", now=now, ask=False), QuietUi())
        except Refusal as error:
            self._display.note(str(error))

    def _carry(self, view: RunView) -> None:
        if self._pending is not None:
            try:
                self._pending.look(view)
            except Refusal as error:
                self._display.note(f"the request cannot be delivered yet: {error}")

    def _keep_controller(self, view: RunView) -> None:
        """Restart a controller that was killed."""
        try:
            if self._kept.look(view):
                self._display.note("the run's controller had ended: a new one was started")
        except Refusal as error:
            self._display.note(f"the run has no controller: {error}")

    def _controller_failed(self, view: RunView) -> bool:
        """Return whether the controller started here is gone without any result."""
        if self._controller is None or self._controller.exit_code() in (None, 0):
            return False
        if view.controller_alive or view.processes_alive or view.state is not RunState.PENDING:
            return False
        log: list[str] = []
        with suppress(OSError):
            log = self._layout.controller_log.read_text("utf-8", "replace").strip().splitlines()
        self._display.note(f"the controller ended before it began: {log[-1] if log else 'no output'}")
        self._display.end(view)
        return True

    def _audit(self, view: RunView) -> Audit | None:
        if not view.may_have_audit:
            return None
        from torchdeck.runs.audit.audit import audit_run

        return audit_run(self._layout, view)

    def _await_copies(self, view: RunView) -> None:
        """Show what nodes printed last: their files are copied here until the controller ends."""
        until = time.monotonic() + COPY_LIMIT
        while view.controller_alive and self._follower.links is not None and not self._is_asked():
            if time.monotonic() > until:
                return
            for line in self._output.read_new():
                self._display.output(line)
            self._display.tick()
            time.sleep(QUICK)
            view = self._refreshed()

    def _end(self, view: RunView) -> int:
        if view.is_over:
            self._await_copies(view)
            for line in self._output.read_rest():
                self._display.output(line)
        self._display.end(view, self._audit(view))
        if view.is_over:
            return view.exit_code
        again = f"the run continues: torchdeck runs attach {view.id}"
        if view.kind == WATCHED:
            again = (
                f"the watch continues: `torchdeck runs attach {view.id}` shows it, "
                f"`torchdeck watch --end {view.id}` ends it"
            )
        self._display.note(again)
        return STOPPED if self._signals.leaving is None else 128 + self._signals.leaving


def _written(journals: Sequence[Path]) -> list[int]:
    """Return the sizes in bytes of those that exist."""
    sizes = []
    for path in journals:
        with suppress(OSError):
            sizes.append(path.stat().st_size)
    return sizes


def is_news(found: CheckpointSeen, view: RunView, before: RunView | None) -> bool:
    """Return whether the run has just saved this checkpoint. The same one on another node's disk, or under
    another name, is no news, and neither is one that an earlier attempt had saved before watching began.
    """
    if before is None:
        begun = view.attempts[-1].started if view.attempts and view.attempt is not None else None
        return begun is not None and found.time is not None and found.time >= begun
    known = before.checkpoint
    if known is None or known.step != found.step:
        return True
    return found.step is None and Path(known.path).name != Path(found.path).name


# Node messages of a terminal that watches a run: each problem once, repeated later, and its end.

AGAIN = (60.0, 300.0, 900.0)
"""Ages in seconds at which a problem is repeated."""
EVERY = 3600.0
"""Seconds between later repetitions."""


@dataclass(frozen=True)
class _Reported:
    trouble: NodeTrouble
    due: float
    """Time of the next repetition, unix seconds."""


class NodeNotes:
    """Notes about nodes while a run is watched."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, TroubleKind], _Reported] = {}

    def lines(self, troubles: Iterable[NodeTrouble], now: float) -> list[str]:
        """Return the lines to print now for all current problems (`now` in unix seconds)."""
        lines, here = [], {(each.node, each.what): each for each in troubles}
        for place, trouble in here.items():
            before = self._said.get(place)
            if before is None or before.trouble.state != trouble.state or now >= before.due:
                lines.append(trouble.text)
                self._said[place] = _Reported(trouble, _due(trouble, now))
        over = [place for place in self._said if place not in here]
        return lines + [self._said.pop(place).trouble.over(now) for place in over]


def _due(trouble: NodeTrouble, now: float) -> float:
    begun = now if trouble.since is None else min(now, trouble.since)
    later = (begun + age for age in AGAIN if begun + age > now)
    return next(later, now + EVERY)
