"""Queue page: entries in their order, and the server that starts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QMessageBox, QPushButton, QStackedWidget, QVBoxLayout, QWidget

from torchdeck.contract.refusal import Refusal
from torchdeck.queue.entry import Stage
from torchdeck.use_cases.queue import editing
from torchdeck.use_cases.queue.listing import ListedEntry, QueueListing, list_queue
from torchdeck_app.bridge.background_loop import Poller
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.queue.entry_table import EntryTable
from torchdeck_app.queue.limits_dialog import LimitsDialog
from torchdeck_app.queue.priority_dialog import PriorityDialog
from torchdeck_app.queue.queue_actions import QueueActions
from torchdeck_app.queue.server_bar import ServerBar
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.dialogs import Choice, ask
from torchdeck_app.widgets.help import ErrorLine
from torchdeck_app.widgets.inputs import set_enabled
from torchdeck_app.widgets.labels import ElidedLabel
from torchdeck_app.widgets.page import Page
from torchdeck_app.widgets.panel import GRID, EmptyState

INTERVAL = 1.0
"""Seconds between two looks at the queue."""
MOST_NAMED = 5
"""Entries that a question lists."""
_WHAT = (
    "The queue starts runs when their devices are free, in order and by priority. Open a run on the "
    "Launch page and choose Run › Add to the queue, or use `torchdeck queue add RUN.toml`."
)


class QueuePage(Page):
    """Page with the queue, polled while it is shown."""

    run_asked = Signal(str)
    """Emitted with the id of a run to open."""
    launch_asked = Signal()
    """Emitted to show the Launch page, where runs are added."""

    def __init__(
        self, theme: Theme, operations: Operations, home: Path, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._theme, self._operations, self._home = theme, operations, home
        self._listing: QueueListing | None = None
        self.question: QMessageBox | None = None
        """The question that was asked last."""
        self.table = EntryTable(theme)
        self.bar = ServerBar(theme, operations, home)
        self.error = ErrorLine()
        """Why a change was refused."""
        self.problems = ErrorLine()
        """Damage of the queue, and what its server cannot do."""
        self.acts = QueueActions(self)
        self.empty = EmptyState(
            theme,
            "queue",
            "The queue is empty",
            _WHAT,
            button="Open Launch",
            pressed=self.launch_asked.emit,
        )
        self._lay_out()
        self._connect()
        self._poller: Poller[QueueListing] = Poller("queue", lambda: list_queue(home), INTERVAL, self)
        self._poller.changed.connect(self.show_listing)
        self._poller.failed.connect(self._fail)
        self._choose()

    def actions_offered(self) -> Sequence[QAction]:
        return self.acts.all

    def entered(self) -> None:
        self._poller.start()

    def left(self) -> None:
        self._poller.stop()

    def closing(self) -> None:
        self._poller.stop(1.0)

    def show_listing(self, listing: QueueListing) -> None:
        """Show the queue as it is now."""
        self._listing = listing
        self.table.show_entries(listing.entries)
        self.bar.show_state(is_running=listing.server.is_running)
        self.problems.say("\n".join(listing.problems), "queue" if listing.problems else "", "warning")
        self._stack.setCurrentWidget(self._full if listing.entries else self.empty)
        self._summary.setText(_summary(listing.entries))
        self._choose()

    def move_up(self) -> None:
        """Move the selected entry before the one above it."""
        entry_id, waiting = self._chosen_id(), self.table.entries.waiting
        if entry_id in waiting[1:]:
            self._move(entry_id, waiting[waiting.index(entry_id) - 1])

    def move_down(self) -> None:
        """Move the selected entry behind the one below it."""
        entry_id, waiting = self._chosen_id(), self.table.entries.waiting
        if entry_id in waiting[:-1]:
            at = waiting.index(entry_id) + 2
            self._move(entry_id, waiting[at] if at < len(waiting) else "")

    def move_first(self) -> None:
        """Move the selected entry before all others."""
        waiting = self.table.entries.waiting
        if self._chosen_id() in waiting[1:]:
            self._move(self._chosen_id(), waiting[0])

    def move_last(self) -> None:
        """Move the selected entry behind all others."""
        if self._chosen_id() in self.table.entries.waiting[:-1]:
            self._move(self._chosen_id(), "")

    def pause(self) -> None:
        """Hold the selected entries back."""
        ids = self._ids(lambda each: each.entry.stage is Stage.WAITING and not each.entry.paused)
        self._change("pausing entries", lambda: editing.pause(self._home, ids))

    def resume(self) -> None:
        """Let the selected entries start again."""
        ids = self._ids(lambda each: each.entry.stage is Stage.WAITING and each.entry.paused)
        self._change("resuming entries", lambda: editing.resume(self._home, ids))

    def ask_remove(self) -> None:
        """Ask whether to remove the selected entries that do not run."""
        chosen = [each for each in self.table.chosen if not each.entry.has_devices]
        if not chosen:
            return
        ids = [each.entry.id for each in chosen]
        roles = QMessageBox.ButtonRole
        named = [f"{each.entry.id} ({each.entry.name}): {each.needs}, {each.state}" for each in chosen]
        more = [] if len(named) <= MOST_NAMED else [f"and {len(named) - MOST_NAMED} more"]
        title = f"Remove {chosen[0].entry.name}" if len(chosen) == 1 else f"Remove {len(chosen)} entries"
        self.question = ask(
            self,
            f"{title} from the queue?",
            "\n".join((*named[:MOST_NAMED], *more, "", "Runs and files stay as they are.")),
            (
                Choice("&Remove", roles.DestructiveRole, lambda: self._remove(ids)),
                Choice("&Cancel", roles.RejectRole, lambda: None),
            ),
            default=1,
        )

    def ask_priority(self) -> PriorityDialog | None:
        """Open the dialog for the priority of the selected entry."""
        entry_id = self._chosen_id()
        if entry_id not in self.table.entries.waiting:
            return None
        entry = self.table.chosen[0].entry
        dialog = PriorityDialog(
            f"{entry.name} ({entry.id})",
            entry.priority,
            lambda number: self._change(
                "setting a priority", lambda: editing.set_priority(self._home, entry_id, number)
            ),
            self,
        )
        dialog.open()
        return dialog

    def ask_limits(self) -> LimitsDialog | None:
        """Open the dialog for the limits of the queue."""
        if self._listing is None:
            return None
        dialog = LimitsDialog(
            self._listing.limits,
            lambda change: self._change(
                "setting limits of the queue", lambda: editing.set_limits(self._home, change)
            ),
            self,
        )
        dialog.open()
        return dialog

    def open_run(self) -> None:
        """Open the run of the selected entry."""
        chosen = self.table.chosen
        if len(chosen) == 1 and chosen[0].entry.run:
            self.run_asked.emit(chosen[0].entry.run)

    def _lay_out(self) -> None:
        self._summary = ElidedLabel()
        head = QHBoxLayout()
        head.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        head.setSpacing(GRID)
        head.addWidget(self._summary, 1)
        self.buttons: dict[QAction, QPushButton] = {}
        for action in self.acts.shown:
            head.addWidget(self._button(action))
        self.bar.add(self._button(self.acts.limits))
        self._full = QWidget()
        full = QVBoxLayout(self._full)
        full.setContentsMargins(0, 0, 0, 0)
        full.setSpacing(0)
        full.addLayout(head)
        full.addWidget(self.table, 1)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self._full)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.bar)
        for line in (self.problems, self.error):
            line.setContentsMargins(2 * GRID, GRID, 2 * GRID, 0)
            column.addWidget(line)
        column.addWidget(self._stack, 1)

    def _button(self, action: QAction) -> QPushButton:
        button = QPushButton(action.text().replace("&", ""))
        button.setToolTip(action.toolTip())
        button.clicked.connect(action.trigger)
        self.buttons[action] = button
        return button

    def _connect(self) -> None:
        acts = self.acts
        acts.connect_to(
            {
                acts.up: self.move_up,
                acts.down: self.move_down,
                acts.first: self.move_first,
                acts.last: self.move_last,
                acts.pause: self.pause,
                acts.resume: self.resume,
                acts.priority: self.ask_priority,
                acts.remove: self.ask_remove,
                acts.open_run: self.open_run,
                acts.limits: self.ask_limits,
            }
        )
        self.addActions(acts.all)
        self.table.addActions(acts.of_entry)
        self.table.chosen_changed.connect(self._choose)
        self.table.run_asked.connect(self.run_asked)
        self.table.entries.moved.connect(self._move)
        self.bar.changed.connect(self._server_changed)
        self.bar.failed.connect(self.error.say)

    def _server_changed(self) -> None:
        self.error.say("")
        self._poller.poke()

    def _choose(self) -> None:
        self.acts.show_choice(self.table.chosen, self.table.entries.waiting)
        self.acts.limits.setEnabled(self._listing is not None)
        for action, button in self.buttons.items():
            set_enabled(button, self.table, on=action.isEnabled())

    def _chosen_id(self) -> str:
        """Return the id of the entry that is selected alone; else an empty text."""
        chosen = self.table.chosen
        return chosen[0].entry.id if len(chosen) == 1 else ""

    def _ids(self, wanted: Callable[[ListedEntry], bool]) -> list[str]:
        return [each.entry.id for each in self.table.chosen if wanted(each)]

    def _move(self, entry_id: str, before: str) -> None:
        if before:
            self._change("moving an entry", lambda: editing.move(self._home, entry_id, before))
        else:
            self._change("moving an entry", lambda: editing.move_last(self._home, entry_id))

    def _remove(self, ids: Sequence[str]) -> None:
        self._change("removing entries", lambda: editing.remove(self._home, ids))

    def _change(self, name: str, change: Callable[[], Any]) -> None:
        """Change the queue in the background, and show it as it is then."""

        def work(_progress: object, _cancel: object) -> QueueListing:
            change()
            return list_queue(self._home)

        def done(listing: QueueListing) -> None:
            self.error.say("")
            self.show_listing(listing)

        self._operations.run(name, work, done=done, failed=self._fail)

    def _fail(self, error: Exception) -> None:
        self.error.say(str(error), error.page if isinstance(error, Refusal) else "")


def _summary(entries: Sequence[ListedEntry]) -> str:
    running = sum(each.entry.has_devices for each in entries)
    paused = sum(each.state == "paused" for each in entries)
    waiting = sum(each.entry.stage is Stage.WAITING for each in entries) - paused
    ended = sum(each.entry.is_over for each in entries)
    parts = ((running, "running"), (waiting, "waiting"), (paused, "paused"), (ended, "ended"))
    texts = [f"{number} {word}" for number, word in parts if number]
    return ", ".join(texts)
