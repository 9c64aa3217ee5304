"""Runs page: the list, and the selected run or comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from torchdeck.runs.run_list import RunEntry, RunsSeen
from torchdeck.shown_text import shown_line
from torchdeck.use_cases.opening.editor_choice import Editor
from torchdeck_app.bridge.logins import Logins, make_logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.bridge.run_list import RunListPoller
from torchdeck_app.runs.abilities import Abilities, RunCommand, abilities
from torchdeck_app.runs.elsewhere.attach_elsewhere import RunsElsewhere
from torchdeck_app.runs.elsewhere.files_dialog import open_files
from torchdeck_app.runs.elsewhere.watch_training import WatchedTrainings
from torchdeck_app.runs.listing.no_runs import no_runs
from torchdeck_app.runs.listing.report_file import RunReports
from torchdeck_app.runs.listing.space_dialog import SpaceDialog
from torchdeck_app.runs.listing.view_menu import SavedViews
from torchdeck_app.runs.page.run_page import RunPage
from torchdeck_app.runs.run_actions import RunActions
from torchdeck_app.runs.run_commands import RunCommands
from torchdeck_app.runs.run_notes import RunNotes
from torchdeck_app.runs.run_questions import (
    DeleteQuestion,
    Pressed,
    RunQuestions,
    StopNow,
)
from torchdeck_app.runs.run_table import RunTable
from torchdeck_app.runs.run_watch import RunSeen
from torchdeck_app.runs.shown_runs import DeletedRuns, ShownRuns
from torchdeck_app.runs.trash_dialog import TrashDialog
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.page import Page
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.widgets.splitter import Splitter

_MOST = 1 << 20
"""Maximum size in pixels accepted from a saved layout; Qt takes 32 bits."""
_SETTLE = 120
"""Milliseconds a selection must last before its page is created: arrow keys run through a list."""
_LIST_WIDTH = 46 * GRID


class RunsPage(Page):
    """Page of all runs, active and finished."""

    clone_asked = Signal(str, str)
    """Emitted with the text of a run's file and a name for the copy, to open in Launch."""
    launch_asked = Signal()
    runs_changed = Signal(object)
    """Emitted with all runs as a tuple of RunEntry, newest first."""

    def __init__(
        self,
        theme: Theme,
        operations: Operations,
        home: Path,
        run_list: RunListPoller,
        parent: QWidget | None = None,
        *,
        logins: Logins | None = None,
    ) -> None:
        """Create the page for a home; without `logins` the user is never prompted for the nodes' logins."""
        super().__init__(parent)
        self._theme, self._operations = theme, operations
        self._run_list = run_list
        self._entries: tuple[RunEntry, ...] = ()
        self._wanted = ""
        self._logins = logins = logins or make_logins(home)
        self.commands = RunCommands(operations, logins, self)
        run_list.logins = logins.quiet.credentials.to_json
        self.elsewhere = RunsElsewhere(operations, logins, self.commands, self)
        self.watching = WatchedTrainings(operations, logins, self.commands, self)
        self.notes = RunNotes(operations, home, self)
        self.actions_of_runs = RunActions(theme, self, self._do)
        self.views = SavedViews(operations, home, self)
        self.reports = RunReports(operations, self)
        self.table = RunTable(theme)
        self.shown = ShownRuns(theme, operations, self.commands)
        self.deletion = DeleteQuestion(self, operations, self.commands.delete)
        self.questions = RunQuestions(self, self.commands)
        self.stop_now = StopNow(self, self.shown, lambda run: self.commands.stop(run, now=True))
        self.deleted = DeletedRuns(self.commands, self.table, self.shown, self._settled, self.open_run)
        self.undo_bar = self.deleted.undo_bar
        self._settle = QTimer(self)
        self._settle.setSingleShot(True)
        self._settle.setInterval(_SETTLE)
        self._lay_out()
        self._connect()
        self.notes.read()
        self.views.read()
        self.commands.go_on_deleting()
        self._take(self._run_list.seen)

    def actions_offered(self) -> Sequence[QAction]:
        page = self.page
        return (*self.actions_of_runs.all, *(page.actions_offered() if page is not None else ()))

    def entered(self) -> None:
        self.table.set_ticking(on=True)
        self._run_list.poke()
        self.shown.entered()

    def left(self) -> None:
        self.table.set_ticking(on=False)
        self.shown.left()

    def closing(self) -> None:
        self._settle.stop()
        self.table.set_ticking(on=False)
        self.shown.closing()
        self.commands.close()

    def save_state(self) -> dict[str, Any]:
        shown = self.shown.save_state()
        return {
            "table": self.table.save_state(),
            "splitter": self._splitter.sizes(),
            "shown": shown,
            "run": shown["run"] or self._wanted,
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        sizes = state.get("splitter")
        if (
            isinstance(sizes, list)
            and len(sizes) == 2
            and all(isinstance(each, int) and 0 <= each < _MOST for each in sizes)
        ):
            self._splitter.setSizes(sizes)
        if isinstance(state.get("table"), Mapping):
            self.table.restore_state(state["table"])
        if isinstance(state.get("shown"), Mapping):
            self.shown.restore_state(state["shown"])
        if isinstance(state.get("run"), str) and state["run"]:
            self.open_run(state["run"])

    def stop_run(self, run_id: str) -> None:
        """Stop a run after its step, whatever page is shown."""
        for entry in self._entries:
            if entry.id == run_id:
                self.commands.stop(entry.layout)

    def use_editor(self, editor: Callable[[], Editor]) -> None:
        """Open lines of code in this editor."""
        self.commands.outside.editor = editor

    def open_run(self, run_id: str) -> None:
        """Show the run's page as soon as the run is in the list."""
        self._wanted = run_id
        self._run_list.poke()
        self._find_wanted()

    @property
    def run_in_sight(self) -> str:
        """Return the id of the run whose page is shown; empty if there is none."""
        return "" if self.page is None else self.page.run_layout.root.name

    @property
    def page(self) -> RunPage | None:
        """Return the page shown; None if there is none."""
        return self.shown.page

    def _lay_out(self) -> None:
        self._empty = no_runs(self._theme, self.launch_asked.emit)
        left = QWidget()
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, GRID)
        column.setSpacing(GRID)
        column.addWidget(self.table, 1)
        below = QHBoxLayout()
        below.setContentsMargins(GRID, 0, GRID, 0)  # under the list, and as wide
        below.addWidget(self.undo_bar)
        column.addLayout(below)
        left.setMinimumWidth(26 * GRID)
        self._splitter = Splitter("Width of the list of runs")
        self._splitter.addWidget(left)
        self._splitter.addWidget(self.shown)
        self._splitter.setStretchFactor(0, 0)
        self._splitter.setStretchFactor(1, 1)
        self._splitter.setSizes([_LIST_WIDTH, 100 * GRID])
        self._whole = QStackedWidget()
        self._whole.addWidget(self._empty)
        self._whole.addWidget(self._splitter)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self._whole)

    def _connect(self) -> None:
        for each in (self.elsewhere, self.watching, self.notes, self.views, self.reports):
            each.failed.connect(self.table.say_problem)
        self._run_list.changed.connect(self._take)
        self._run_list.changed.connect(self.notes.follow)
        self._run_list.failed.connect(self._say_unlisted)
        self._run_list.waiting.connect(self._say_waiting)
        self.table.selection_changed.connect(self._selected)
        self.table.menu_asked.connect(self._open_menu)
        self.table.opened.connect(self._settled)
        self._settle.timeout.connect(self._settled)
        self.undo_bar.expired.connect(lambda _: self._take(self._run_list.seen))
        self.notes.changed.connect(self.table.set_notes)
        self.notes.changed.connect(lambda _: self._enable())
        self.table.metrics_wanted.connect(self._run_list.want)
        self.table.serve_views(self.views)
        self.notes.changed.connect(self.shown.set_notes)
        self.shown.note_given.connect(self.notes.write_step)
        self.notes.failed.connect(self.table.say_problem)
        self.shown.command_asked.connect(self._command)
        self.shown.run_asked.connect(self._open_other)
        self.shown.page_changed.connect(self._enable)
        self.elsewhere.found.connect(self.open_run)
        self.watching.found.connect(self.open_run)
        self.commands.clone_ready.connect(self.clone_asked)
        self.commands.arguments_wanted.connect(self.questions.ask_arguments)
        self.commands.secrets_wanted.connect(self.questions.ask_secrets)
        self.commands.held.connect(self.questions.ask_results)
        self.commands.failed.connect(self._say_failed)
        self.commands.reported.connect(self._say_failed)
        self.commands.under_way_changed.connect(self._under_way)
        self.commands.runs_touched.connect(self._touched)

    def _take(self, seen: RunsSeen) -> None:
        self._entries = seen.entries
        self.table.set_seen(seen)
        # while runs can be restored, the undo bar stays visible, and so does a page: if its run was removed
        # elsewhere, it shows just that
        some = bool(seen.entries) or not self.undo_bar.isHidden() or self.page is not None
        self._whole.setCurrentWidget(self._splitter if some else self._empty)
        self.shown.set_entries(seen.entries)
        self._find_wanted()
        self._enable()
        self.runs_changed.emit(seen.entries)

    def _say_unlisted(self, error: Exception) -> None:
        self._whole.setCurrentWidget(self._splitter)
        self.table.set_notice(f"The runs cannot be listed: {error}. Showing the last known state.")

    def _say_waiting(self, seconds: float) -> None:
        if seconds:
            self._whole.setCurrentWidget(self._splitter)  # it is not known yet that there are none
        self.table.set_waiting(seconds)

    def _find_wanted(self) -> None:
        if self._wanted and self.table.select(self._wanted):
            self._wanted = ""
            self._settled()

    def _selected(self) -> None:
        self._enable()
        self._settle.start()

    def _settled(self) -> None:
        self._settle.stop()
        chosen = self.table.selected()
        self.shown.show_runs(chosen)
        name = "".join(entry.name for entry in chosen)
        self.setWindowTitle(f"{len(chosen):,} runs" if len(chosen) > 1 else shown_line(name))

    def _do(self, command: RunCommand) -> None:
        """Run an action on the selection."""
        entries = self.table.selected()
        ids = tuple(entry.id for entry in entries)
        own: dict[RunCommand, Callable[[], object]] = {
            RunCommand.FILTER: self._enter_filter,
            RunCommand.DELETE: partial(self._delete, entries),
            RunCommand.ATTACH_ELSEWHERE: self.elsewhere.ask,
            RunCommand.WATCH: self.watching.ask,
            RunCommand.TRASH: self._open_trash,
            RunCommand.FREE_SPACE: self._open_space,
            RunCommand.REPORT: lambda: self.reports.ask(self.table.selected_rows()),
            RunCommand.PIN: partial(self.notes.toggle_pinned, ids),
            RunCommand.ARCHIVE: partial(self.notes.toggle_archived, ids),
            RunCommand.COPY_ID: lambda: self.commands.copy("\n".join(ids)),
        }
        for entry in entries[:1]:
            program = entry.name if entry.view is None else entry.view.target
            own |= {
                RunCommand.TAGS: partial(self.notes.ask, entries, self),
                RunCommand.BASELINE: partial(self.shown.toggle_baseline, entry.id),
                RunCommand.RESUME_WITH: partial(self.questions.ask_arguments, entry.layout, program),
                RunCommand.PROFILE_RANKS: partial(self.questions.ask_ranks, entry.layout),
                RunCommand.FILES: partial(open_files, self._operations, self._logins, entry, self),
                RunCommand.TERMINAL: partial(self.commands.outside.ask_terminal, entry.layout, self),
                RunCommand.FOLDER: partial(self.commands.open_folder, entry.layout),
            }
        if command in own:
            own[command]()
        else:
            self._command(command, *(entry.id for entry in entries if not self._able(entry).why_not(command)))

    def _enter_filter(self) -> None:
        self.table.filter_bar.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.table.filter_bar.field.selectAll()

    def _open_trash(self) -> None:
        """Show the deleted runs."""
        TrashDialog(self._operations, self._logins, self._run_list.poke, self.table.say_problem, self).open()

    def _open_space(self) -> None:
        """Show what takes room; runs are deleted as in the list, which says why some are not."""
        rows, say = self.table.model.rows, self.table.say_problem
        SpaceDialog(self._operations, rows, self._delete, say, self).open()

    def _delete(self, entries: Sequence[RunEntry]) -> None:
        """Delete the runs that can be deleted, and report why the others cannot."""
        why = {entry.id: self._able(entry).delete for entry in entries}
        labels = {row.entry.id: row.label for row in self.table.model.rows}
        kept = [f"{labels[entry.id]} is not deleted: {why[entry.id]}" for entry in entries if why[entry.id]]
        self.table.say_problem("\n".join(kept))
        self.deletion.ask([(labels[entry.id], entry.layout) for entry in entries if not why[entry.id]])

    def _command(self, what: RunCommand, *run_ids: str) -> None:
        """A command about runs, asked by what saw that the runs can.

        The list may have looked before that, so it is not asked; what cannot be is refused with a sentence.
        """
        self.table.say_problem("")
        if self.page is not None:
            self.page.say_failed("")
        for run_id in {*run_ids} - {entry.id for entry in self._entries}:
            self._say_failed(run_id, "the run is no longer in the list")
        under_way = self.commands.under_way  # the run's page shows pending requests
        asked = [each for each in self._entries if each.id in run_ids and what not in under_way(each.id)]
        if what is RunCommand.STOP_NOW:
            known = ((each, self._seen(each) or each) for each in asked)
            self.stop_now.press([Pressed(each.layout, seen, under_way(each.id)) for each, seen in known])
        else:
            for each in asked:
                self.commands.carry_out(what, each.layout)

    def _open_other(self, run_id: str) -> None:
        """Show a run that the page refers to."""
        if any(entry.id == run_id for entry in self._entries):
            self.open_run(run_id)
        elif self.page is not None:
            self.page.say_failed(f"{run_id} is no longer in the list: it was deleted or moved")

    def _say_failed(self, run_id: str, why: str, help_page: str = "") -> None:
        page = self.page
        if page is not None and page.run_layout.root.name == run_id:
            page.say_failed(why, help_page)
        else:
            self.table.say_problem(f"{run_id}: {why}" if run_id else why, help_page)

    def _under_way(self) -> None:
        self._enable()
        if self.page is not None:
            self.page.update_under_way()

    def _touched(self) -> None:
        self._run_list.poke()
        if self.page is not None:
            self.page.poke()

    def _enable(self) -> None:
        entries = self.table.selected()
        self.actions_of_runs.enable(entries, [self._able(entry) for entry in entries])
        ids = tuple(entry.id for entry in entries)
        pinned, archived = self.notes.are_pinned(ids), self.notes.are_archived(ids)
        self.actions_of_runs.set_marks(pinned=pinned, archived=archived)

    def _able(self, entry: RunEntry) -> Abilities:
        """Return the abilities; a pinned run is not deleted."""
        found = self._able_now(entry)
        if not found.delete and self.notes.get(entry.id).pinned:
            return replace(found, delete="the run is pinned: unpin it first")
        return found

    def _able_now(self, entry: RunEntry) -> Abilities:
        """Return the abilities by the run's page if there is one: it polls more often than the list."""
        seen, under_way = self._seen(entry), self.commands.under_way(entry.id)
        if seen is not None:
            return abilities(
                seen.view,
                under_way,
                is_left_alone=seen.is_left_alone,
                living_alone=seen.living_alone,
            )
        return abilities(entry.view, under_way, living_alone=entry.living_alone)

    def _seen(self, entry: RunEntry) -> RunSeen | None:
        page = self.page
        return page.seen_last if page is not None and page.run_layout == entry.layout else None

    def _open_menu(self, at: QPoint) -> None:
        if self.table.selected():
            self.actions_of_runs.menu(self).popup(at)
