"""Right side of the Runs page: the page of one run, or a comparison; and the selection after a deletion."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeGuard

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QStackedWidget, QWidget

from torchdeck.runs.folders.notes import Note
from torchdeck.runs.run_list import RunEntry
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.comparison import CompareView
from torchdeck_app.runs.page.run_page import RunPage
from torchdeck_app.runs.run_commands import Deleted, RunCommands
from torchdeck_app.runs.run_table import RunTable
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.announcements import announce
from torchdeck_app.widgets.inputs import leave
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, EmptyState, label


class ShownRuns(QStackedWidget):
    """Stack of one widget at a time; the previous one is closed."""

    command_asked = Signal(object, str)
    """A RunCommand, and the id of the run."""
    note_given = Signal(str, object)
    """Emitted with the id of a run, and a StepNote on it."""
    run_asked = Signal(str)
    """Emitted with the id of another run to show."""
    page_changed = Signal()
    """Emitted when the page shows a new state of its run."""

    def __init__(
        self,
        theme: Theme,
        operations: Operations,
        commands: RunCommands,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._operations = operations
        self._commands = commands
        self._entries: tuple[RunEntry, ...] = ()
        self._page_state: Mapping[str, Any] = {}
        self._notes: Mapping[str, Note] = {}
        self._baseline = ""
        """Id of the run that is drawn under the curves of all others."""
        self._is_entered = False
        self._unreadable = ""
        """The id of the run of which it is said that it cannot be read; empty if that is not said."""
        self.addWidget(self._nothing())

    @property
    def page(self) -> RunPage | None:
        """Return the page shown; None if there is none."""
        shown = self.currentWidget()
        return shown if isinstance(shown, RunPage) else None

    @property
    def comparison(self) -> CompareView | None:
        """Return the comparison shown; None if there is none."""
        shown = self.currentWidget()
        return shown if isinstance(shown, CompareView) else None

    @property
    def empty_text(self) -> str:
        """Return why neither is shown; empty if one is."""
        shown = self.currentWidget()
        return "\n".join(each.text() for each in shown.findChildren(QLabel)) if self._is_empty(shown) else ""

    @staticmethod
    def _is_empty(widget: QWidget | None) -> TypeGuard[EmptyState]:
        return isinstance(widget, EmptyState)

    def set_entries(self, entries: tuple[RunEntry, ...]) -> None:
        """Update the list of all runs."""
        self._entries = entries
        self._lay_under()
        if self.page is not None:
            self.page.set_runs(entries)
        elif self.comparison is not None:
            self.comparison.set_entries(entries)
        elif any(entry.id == self._unreadable and not entry.is_unreadable for entry in entries):
            self.show_runs(tuple(entry for entry in entries if entry.id == self._unreadable))

    def show_runs(self, entries: tuple[RunEntry, ...]) -> None:
        """Show these runs unless they are shown already; without any, the content stays."""
        readable = tuple(entry for entry in entries if not entry.is_unreadable)
        if len(readable) > 1:
            self._show_comparison(readable)
        elif readable:
            self._show_page(readable[0])
        elif entries:
            self._show(EmptyState(self._theme, "warning", f"{entries[0].id} cannot be read", entries[0].why))
            self._unreadable = entries[0].id

    def show_none(self) -> None:
        """Close the content: its runs are gone."""
        self._keep_page_state()
        self._show(self._nothing())

    def shows_any(self, ids: Collection[str]) -> bool:
        """Return whether one of these runs is visible."""
        page, comparison = self.page, self.comparison
        if comparison is not None:
            return any(run_id in ids for run_id in comparison.asked_for)
        return page is not None and page.run_layout.root.name in ids

    def entered(self) -> None:
        """Called when the view becomes visible."""
        self._is_entered = True
        for part in (self.page, self.comparison):
            if part is not None:
                part.entered()

    def left(self) -> None:
        """Called when the view is hidden."""
        self._is_entered = False
        for part in (self.page, self.comparison):
            if part is not None:
                part.left()

    def closing(self) -> None:
        """End the threads."""
        self._is_entered = False
        for part in (self.page, self.comparison):
            if part is not None:
                part.closing()

    def save_state(self) -> dict[str, Any]:
        """Return a page's layout and the run shown, as JSON values."""
        page = self.page
        if page is None:
            return {"run": "", "page": dict(self._page_state), "baseline": self._baseline}
        return {"run": page.run_layout.root.name, "page": page.save_state(), "baseline": self._baseline}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore a page's layout; the caller shows the run."""
        if isinstance(state.get("page"), Mapping):
            self._page_state = state["page"]
        if isinstance(state.get("baseline"), str):
            self._baseline = state["baseline"]

    def _show_page(self, entry: RunEntry) -> None:
        if self.page is not None and self.page.run_layout == entry.layout:
            return
        made = RunPage(self._theme, self._operations, entry.layout, self._commands)
        self._keep_page_state()
        made.restore_state(self._page_state)
        made.set_runs(self._entries)
        made.command_asked.connect(lambda what: self.command_asked.emit(what, entry.id))
        made.clone_from_asked.connect(lambda path: self._commands.clone(entry.layout, path))
        made.run_asked.connect(self.run_asked)
        made.plots.note_given.connect(lambda note: self.note_given.emit(entry.id, note))
        made.plots.set_notes(self._notes.get(entry.id, Note()).steps)
        made.seen.connect(lambda _seen: self.page_changed.emit())
        self._show(made)

    def _show_comparison(self, entries: tuple[RunEntry, ...]) -> None:
        before = self.comparison
        if before is not None and before.asked_for == tuple(entry.id for entry in entries):
            return
        self._keep_page_state()
        self._show(CompareView(self._theme, self._operations, entries, notes=self._notes))

    def set_notes(self, notes: Mapping[str, Note]) -> None:
        """Show the notes on moments of the run in sight, and the names given to runs."""
        self._notes = notes
        self._lay_under()
        if self.comparison is not None:
            self.comparison.set_notes(notes)
        if self.page is not None:
            self.page.plots.set_notes(notes.get(self.page.run_layout.root.name, Note()).steps)

    def toggle_baseline(self, run_id: str) -> None:
        """Draw this run under the curves of all others, or no longer."""
        self._baseline = "" if run_id == self._baseline else run_id
        self._lay_under()

    def _lay_under(self) -> None:
        """Give the plots in sight the baseline, if that run is still there."""
        found = next((entry for entry in self._entries if entry.id == self._baseline), None)
        for part in (self.page, self.comparison):
            if part is not None:
                if found is None:
                    part.plots.set_baseline(None)
                else:
                    name = self._notes.get(found.id, Note()).name or found.name
                    part.plots.set_baseline(found.layout, name)

    def _nothing(self) -> EmptyState:
        sentence = "Select one in the list, or several to compare them."
        return EmptyState(self._theme, "runs", "No run is selected", sentence)

    def _keep_page_state(self) -> None:
        if self.page is not None:
            self._page_state = self.page.save_state()

    def _show(self, widget: RunPage | CompareView | EmptyState) -> None:
        self._unreadable = ""
        before = self.currentWidget()
        self.addWidget(widget)
        self.setCurrentWidget(widget)
        self._lay_under()
        if isinstance(before, RunPage | CompareView):
            before.closing()
        if before is not None:
            self.removeWidget(before)
            before.deleteLater()
        if self._is_entered and not isinstance(widget, EmptyState):
            widget.entered()


# Selection in the Runs page after visible runs were deleted.


class DeletedRuns:
    """Selects the next run after a deletion, and a restored run again.

    Args:
        commands: delete and restore runs.
        table: provides the next run.
        shown: shows the run.
        settled: shows the selection.
        open_run: shows a run as soon as it is in the list.
    """

    def __init__(
        self,
        commands: RunCommands,
        table: RunTable,
        shown: ShownRuns,
        settled: Callable[[], None],
        open_run: Callable[[str], None],
    ) -> None:
        self._table, self._shown = table, shown
        self._settled, self._open_run = settled, open_run
        self.undo_bar = UndoBar(table.list)
        commands.deleted.connect(self._offer)
        self.undo_bar.undone.connect(commands.put_back)
        self.undo_bar.undone.connect(self._go_back)

    def _offer(self, aside: Deleted) -> None:
        self.undo_bar.offer(aside)
        if not self._shown.shows_any(aside.ids):
            return
        if self._table.select_beside(aside.ids):
            self._settled()
        else:
            self._shown.show_none()

    def _go_back(self, aside: Deleted) -> None:
        self._open_run(aside.ids[0])


SHOWN = 10_000
"""Milliseconds for which the bar is shown."""
_LONGEST = 40
"""Maximum characters shown of a run's name."""


class UndoBar(QFrame):
    """Bar that offers for a while to restore the last deletion; later the trash does."""

    undone = Signal(object)
    """Emitted with the Deleted to restore."""
    expired = Signal(object)
    """Emitted with the Deleted that is no longer offered."""

    def __init__(self, home: QWidget, parent: QWidget | None = None) -> None:
        """Create a hidden bar; when it hides, `home` receives its focus."""
        super().__init__(parent)
        self.setProperty("role", "panel")
        self._home = home
        self._aside: Deleted | None = None
        self._text = label("", wrap=True)
        self._text.setTextFormat(Qt.TextFormat.PlainText)
        self._text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.button = QPushButton("Undo")
        self.button.setAccessibleName("Undo the deletion")
        self.button.setToolTip("Restore what was deleted (Ctrl+Z)")
        self.button.setShortcut("Ctrl+Z")
        self.button.clicked.connect(self.undo)
        row = QHBoxLayout(self)
        row.setContentsMargins(GRID, 4, GRID, 4)
        row.addWidget(self._text, 1)
        row.addWidget(self.button)
        self._clock = QTimer(self)
        self._clock.setSingleShot(True)
        self._clock.timeout.connect(self.expire)
        self.hide()

    def offer(self, aside: Deleted) -> None:
        """Offer to restore `aside`."""
        self.expire()
        self._aside = aside
        self._tell(aside.names)
        self.show()
        announce(self, self._text.text())
        self._clock.start(SHOWN)

    def undo(self) -> None:
        """Restore the last deletion."""
        aside = self._end()
        if aside is not None:
            self.undone.emit(aside)

    def expire(self) -> None:
        """Offer it no longer."""
        aside = self._end()
        if aside is not None:
            self.expired.emit(aside)

    def _end(self) -> Deleted | None:
        aside, self._aside = self._aside, None
        self._clock.stop()
        leave(self.button, self._home)
        self.hide()
        return aside

    def _tell(self, names: Sequence[str]) -> None:
        what = f"{len(names):,} runs"
        if len(names) == 1:
            what = f'"{names[0] if len(names[0]) <= _LONGEST else f"{names[0][: _LONGEST - 1]}…"}"'
        text = f"{what} moved to the trash."
        self._text.setText(text)
        self._text.setToolTip(plain_tip("\n".join((text, *names[:20]))))
