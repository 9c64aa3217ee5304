"""Page of one run: header, failure, plots, and the panels below them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.failure import FailureReport, read_failure
from torchdeck.runs.failures.code_place import CodePlace
from torchdeck.runs.goodput.reading import read_goodput
from torchdeck.runs.run_list import RunEntry
from torchdeck.runs.run_timeline import Happening
from torchdeck.runs.view import RunView
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.abilities import RunCommand, abilities
from torchdeck_app.runs.logs.logs_panel import LogView
from torchdeck_app.runs.media.media_panel import MediaView
from torchdeck_app.runs.page.checkpoints_panel import CheckpointsView
from torchdeck_app.runs.page.code_panel import CodeView
from torchdeck_app.runs.page.configuration_panel import ConfigurationView
from torchdeck_app.runs.page.failure_card import FailureCard
from torchdeck_app.runs.page.header import RunHeader
from torchdeck_app.runs.page.ranks_panel import RankHeatMap
from torchdeck_app.runs.page.replay_bar import ReplayBar
from torchdeck_app.runs.page.timeline_panel import TimelineView
from torchdeck_app.runs.page.try_panel import TryView
from torchdeck_app.runs.plots.marks import Mark, MarkKind
from torchdeck_app.runs.plots.plot_grid import PlotGrid
from torchdeck_app.runs.run_commands import RunCommands
from torchdeck_app.runs.run_panel import RunPanel
from torchdeck_app.runs.run_watch import RunSeen, RunWatch
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.help import ErrorLine
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.widgets.splitter import Splitter

_MINUTE = 60.0
"""Seconds between two looks at how the time of an active run was spent."""
_MOST = 1 << 20
"""Maximum size in pixels accepted from a saved layout; Qt takes 32 bits."""
_NARROWEST = 56 * GRID
_HEIGHT = 20 * GRID
_NO_LIMIT = 16777215
"""Qt's own maximum height."""
_SHARE = 0.5
"""Share of the space above the tabs up to which an open failure card leaves the plots visible."""


class RunPage(QWidget):
    """Page that follows one run while it is open."""

    seen = Signal(object)
    """Emitted with a RunSeen on each change."""
    command_asked = Signal(object)
    """A RunCommand, of this run."""
    clone_from_asked = Signal(object)
    """Emitted to clone the run from the checkpoint at this Path."""
    run_asked = Signal(str)
    """Emitted with the id of another run to show."""

    def __init__(
        self,
        theme: Theme,
        operations: Operations,
        layout: RunLayout,
        commands: RunCommands,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._operations = operations
        self._commands = commands
        self.run_layout = layout
        self._latest: RunSeen | None = None
        self._reported: tuple[Any, ...] | None = None
        self._added_up: tuple[Any, ...] | None = None
        self._is_entered = False
        self._is_unread = False
        self._covers: bool | None = None
        """Whether the card takes the place of the plots; None before it was asked."""
        self._watch = RunWatch(layout, self)
        self.header = RunHeader(theme)
        self.card = FailureCard(theme)
        self.replay = ReplayBar(theme)
        self.problem = ErrorLine()
        self.plots = PlotGrid(theme, layout)
        self.logs = LogView(theme, layout)
        self.ranks = RankHeatMap(theme, layout)
        self.checkpoints = CheckpointsView(theme, operations, layout)
        self.timeline = TimelineView(theme, layout)
        self.configuration = ConfigurationView(theme, operations, layout)
        self.code = CodeView(theme, operations, layout)
        self.try_out = TryView(theme, operations, layout)
        self.media = MediaView(theme, operations, layout)
        self._tabbed: dict[str, RunPanel] = {
            "&Logs": self.logs,
            "Rank&s": self.ranks,
            "Check&points": self.checkpoints,
            "T&imeline": self.timeline,
            "Confi&g": self.configuration,
            "&Code": self.code,
            "&Try": self.try_out,
            "&Media": self.media,
        }
        self._lay_out()
        self._connect()

    def entered(self) -> None:
        """Called when the view becomes visible."""
        self._is_entered = True
        self._watch.start()
        self.timeline.follow(on=True)
        self.plots.entered()
        self._room_now.entered()

    def left(self) -> None:
        """Called when the view is hidden."""
        self._is_entered = False
        self._watch.stop()
        self.timeline.follow(on=False)
        for room in self._rooms:
            room.left()

    def closing(self) -> None:
        """End the threads before the page is removed."""
        self._is_entered = False
        self._watch.stop()  # does not wait: its disk may be slow, and nothing follows
        for room in self._rooms:
            room.closing()

    def actions_offered(self) -> Sequence[QAction]:
        """Return the actions on the plots."""
        return self.plots.actions_offered()

    def set_runs(self, entries: tuple[RunEntry, ...]) -> None:
        """Set the other runs available for comparing configuration and code."""
        self.configuration.set_runs(entries)
        self.code.set_runs(entries)

    def say_failed(self, why: str, page: str = "") -> None:
        """Show why a command for the run failed, and the page that helps; empty: nothing."""
        self.problem.say(why, page)

    def update_under_way(self) -> None:
        """Update the pending requests of the run."""
        if self._latest is not None:
            self._show_header(self._latest)

    def poke(self) -> None:
        """Poll the run at once."""
        self._watch.poke()

    @property
    def seen_last(self) -> RunSeen | None:
        """Return the shown state of the run; None before the first poll."""
        return self._latest

    def save_state(self) -> dict[str, Any]:
        """Return the state to restore, as JSON values."""
        return {
            "plots": self.plots.save_state(),
            "rooms": [room.save_state() for room in self._tabbed.values()],
            "tab": self.tabs.currentIndex(),
            "splitter": self._splitter.sizes(),
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `save_state`."""
        rooms, sizes, tab = state.get("rooms"), state.get("splitter"), state.get("tab")
        if isinstance(state.get("plots"), Mapping):
            self.plots.restore_state(state["plots"])
        for room, part in zip(self._tabbed.values(), rooms if isinstance(rooms, list) else (), strict=False):
            if isinstance(part, Mapping):
                room.restore_state(part)
        if (
            isinstance(sizes, list)
            and len(sizes) == 2
            and all(isinstance(each, int) and 0 <= each < _MOST for each in sizes)
        ):
            self._splitter.setSizes(sizes)
        if isinstance(tab, int) and 0 <= tab < self.tabs.count():
            self.tabs.setCurrentIndex(tab)

    @property
    def _rooms(self) -> tuple[RunPanel, ...]:
        return (self.plots, *self._tabbed.values())

    @property
    def _room_now(self) -> RunPanel:
        return tuple(self._tabbed.values())[max(0, self.tabs.currentIndex())]

    def _lay_out(self) -> None:
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setAccessibleName("More of this run")
        for name, room in self._tabbed.items():
            self.tabs.addTab(room, name)
        upper = QWidget()
        above = self._upper = QVBoxLayout(upper)
        above.setContentsMargins(0, 0, 0, 0)
        above.setSpacing(4)
        above.addWidget(self.card)
        above.addWidget(self.plots, 1)
        above.addWidget(self.replay)
        self._splitter = Splitter("Height of the plots", Qt.Orientation.Vertical)
        self._splitter.addWidget(upper)
        self._splitter.addWidget(self.tabs)
        for part in (upper, self.tabs):
            part.setMinimumWidth(_NARROWEST)
        self._splitter.setSizes([3 * _HEIGHT, 2 * _HEIGHT])
        self._splitter.setStretchFactor(0, 3)
        self._splitter.setStretchFactor(1, 2)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, 0)
        column.setSpacing(GRID)
        column.addWidget(self.header)
        column.addWidget(self.problem)
        column.addWidget(self._splitter, 1)

    def _connect(self) -> None:
        self._watch.changed.connect(self._show)
        self._watch.failed.connect(self._say_unread)
        self._watch.waiting.connect(self._say_waiting)
        self.header.asked.connect(self.command_asked)
        self.header.origin_asked.connect(self.run_asked)
        self.card.command_asked.connect(self.command_asked)
        self.card.log_asked.connect(self._show_first_error)
        self.card.source_asked.connect(self._open_failed_source)
        self.logs.source_asked.connect(self._open_source)
        self.card.folded.connect(lambda _folded: self._arrange())
        self.checkpoints.resume_asked.connect(lambda: self.command_asked.emit(RunCommand.RESUME))
        self.checkpoints.clone_asked.connect(self.clone_from_asked)
        self.timeline.happened.connect(lambda found: self.plots.set_marks(marks_of(found)))
        self.replay.moved.connect(self._show_until)
        self.tabs.currentChanged.connect(self._turn_to)
        for room in self._rooms:
            room.cursor_moved.connect(lambda time, room=room: self._move_cursor(room, time))

    def _show(self, seen: RunSeen) -> None:
        before, self._latest = self._latest, seen
        if self._is_unread or (before is not None and before.view.state != seen.view.state):
            self.say_failed("")  # it belonged to another poll or state
        self._is_unread = False
        self._show_header(seen)
        view = seen.view
        for room in self._rooms:
            room.show_view(view)
        self.replay.set_range(view.started, view.ended if view.is_over else None)
        self._arrange()
        self._report(view)
        self._add_up(view)
        self.seen.emit(seen)

    def _show_header(self, seen: RunSeen) -> None:
        under_way = self._commands.under_way(seen.view.id)
        self.header.show_run(seen, under_way)
        self.card.enable(abilities(seen.view, under_way), is_gone=seen.is_gone)

    def _report(self, view: RunView) -> None:
        """Collect why it failed, once per failure."""
        failed = (view.state, view.attempt, view.why, view.finishes)
        if failed == self._reported:
            return
        self._reported = failed
        self._operations.run(
            "looking for the cause of the failure",
            lambda _progress, _cancel: read_failure(self.run_layout, view),
            done=self._take_report,
            failed=lambda error: self.say_failed(f"The cause of the failure cannot be read: {error}"),
        )

    def _add_up(self, view: RunView) -> None:
        """Add up how the run's time was spent: at each change of state, and once a minute."""
        minute = 0 if view.is_over else int(time.monotonic() // _MINUTE)
        spent = (view.state, view.attempt, view.finishes, minute)
        if view.is_foreign or spent == self._added_up:
            return
        self._added_up = spent
        self._operations.run(
            "adding up how the run's time was spent",
            lambda _progress, _cancel: read_goodput(self.run_layout, view),
            done=self.header.show_goodput,
            failed=lambda _error: self.header.show_goodput(None),
        )

    def _take_report(self, report: FailureReport | None) -> None:
        if report is not None and report != self.card.report:
            self.card.set_folded(folded=False)
        self.card.show_report(report)
        self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Arrange the page: an open card that needs most of the space replaces the plots, else they share
        it.
        """
        is_open = self.card.report is not None and not self.card.is_folded
        wanted = self.card.wanted_height() if is_open else 0
        covers = wanted > _SHARE * self._splitter.sizes()[0]
        self.card.setMaximumHeight(wanted if is_open and not covers else _NO_LIMIT)
        self.plots.setVisible(not covers)
        self.replay.setVisible(not covers and self.replay.has_range)
        if covers != self._covers:  # else everything around would be laid out every second
            self._covers = covers
            self._upper.setStretchFactor(self.card, 1 if covers else 0)

    def _show_first_error(self) -> None:
        self.tabs.setCurrentWidget(self.logs)
        report = self.card.report
        self.logs.show_first_error(None if report is None else report.rank)

    def _open_failed_source(self, place: CodePlace) -> None:
        report = self.card.report
        self._open_source(place, None if report is None else report.rank)

    def _open_source(self, place: CodePlace, rank: int | None) -> None:
        self.say_failed("")
        self._commands.outside.open_source(self.run_layout, place, rank)

    def _turn_to(self, _index: int) -> None:
        if self._is_entered:
            for room in self._tabbed.values():
                if room is not self._room_now:
                    room.left()
            self._room_now.entered()

    def _move_cursor(self, source: RunPanel, time: float | None) -> None:
        for room in self._rooms:
            if room is not source:
                room.set_cursor(time)

    def _show_until(self, time: float | None) -> None:
        for room in self._rooms:
            room.set_until(time)

    def _say_unread(self, error: Exception) -> None:
        self._is_unread = True
        self.say_failed(f"This run cannot be read: {error}")

    def _say_waiting(self, seconds: float) -> None:
        self.say_failed(f"Reading this run takes {seconds:.0f} s: is it on a slow drive?" if seconds else "")


_KINDS: dict[str, MarkKind] = {"attempt_started": "attempt", "checkpoint": "checkpoint"}


def marks_of(happenings: Iterable[Happening]) -> tuple[Mark, ...]:
    """Return markers for starts of attempts, saved checkpoints and failures."""
    found = []
    for each in happenings:
        kind = _KINDS.get(each.event)
        details = dict(each.details)
        if each.event == "attempt_ended" and details.get("outcome") == "failed":
            kind = "failure"
        if kind is not None:
            step = details.get("resume_step" if kind == "attempt" else "step", "")
            found.append(Mark(each.time, int(step) if step.isdecimal() else None, kind, each.text))
    return tuple(found)
