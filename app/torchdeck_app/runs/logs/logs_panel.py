"""Logs of a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeySequence, QShortcut
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.logs.line_pattern import LinePattern, PatternError
from torchdeck_app.bridge.background_loop import to_beat
from torchdeck_app.runs.logs.log_bar import LogBar
from torchdeck_app.runs.logs.log_lines import LogArea
from torchdeck_app.runs.logs.log_reader import Answer, Copied, GoTo, LogReader, Marked, Order, OrderResult
from torchdeck_app.runs.logs.messages import Choice, Found, LogPage, Search
from torchdeck_app.runs.run_panel import RunPanel
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import EmptyState, label


class LogView(RunPanel):
    """Panel with the lines of all ranks or of one: followed, searched and coloured by level."""

    source_asked = Signal(object, int)
    """Emitted with a CodePlace that a line names, to open it, and the line's rank."""

    def __init__(self, theme: Theme, layout: RunLayout, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._run = layout.root.name
        self._worker = LogWorker(layout, self)
        self._is_entered = False
        self._unread = self._unsought = ""
        self.bar = LogBar(theme)
        self.area = LogArea(theme)
        self._problem = label("", role="error", wrap=True)
        self._problem.setContentsMargins(8, 4, 8, 4)
        self._problem.hide()
        self._empty = EmptyState(theme, "file", "Nothing printed yet", "What the ranks print appears here.")
        self._stack = QStackedWidget()
        self._stack.addWidget(self.area)
        self._stack.addWidget(self._empty)
        self._stack.setCurrentWidget(self._empty)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.bar)
        column.addWidget(self._problem)
        column.addWidget(self._stack, 1)
        self._connect()
        self._add_shortcuts()

    # panel interface

    def entered(self) -> None:
        self._is_entered = True
        self._worker.start()

    def left(self) -> None:
        self._is_entered = False
        self._worker.pause()
        self.set_cursor(None)

    def closing(self) -> None:
        self._worker.stop()

    def set_cursor(self, time: float | None) -> None:
        if self._is_entered or time is None:
            self._worker.order(LogReader.mark, time)

    def set_until(self, time: float | None) -> None:
        self._worker.order(LogReader.show_until, time)

    def save_state(self) -> dict[str, Any]:
        search = self.bar.sought
        return {
            "run": self._run,
            "stream": self.bar.stream.currentIndex(),
            "search": search.pattern,
            "match_case": search.match_case,
            "only_matches": search.only_matches,
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        stream = state.get("stream")
        if isinstance(stream, int) and 0 <= stream < self.bar.stream.count():
            self.bar.stream.setCurrentIndex(stream)
        self.bar.match_case.setChecked(state.get("match_case") is True)
        if state.get("run") == self._run:  # one run's search would hide lines of another
            if isinstance(state.get("search"), str):
                self.bar.search.setText(state["search"])
            self.bar.only_matches.setChecked(state.get("only_matches") is True)
        self._choose(self.bar.choice)
        self._search(self.bar.sought)

    def show_first_error(self, rank: int | None) -> None:
        """Go to the first line that looks like an error, of one rank or of all."""
        at = self.bar.rank.findData(rank)
        if at >= 0 and at != self.bar.rank.currentIndex():
            self.bar.rank.setCurrentIndex(at)
            self._choose(self.bar.choice)
        self._find_error()
        self.area.setFocus(Qt.FocusReason.OtherFocusReason)

    # inside

    def _connect(self) -> None:
        worker, bar, area = self._worker, self.bar, self.area
        worker.page.connect(self._show_page)
        worker.found.connect(self._show_found)
        worker.go_to.connect(area.go_to)
        worker.marked.connect(area.set_marked)
        worker.copied.connect(lambda text: QGuiApplication.clipboard().setText(text))
        worker.said.connect(bar.say)
        bar.chosen.connect(self._choose)
        bar.searched.connect(self._search)
        bar.next_asked.connect(lambda: worker.order(LogReader.next, area.current))
        bar.previous_asked.connect(lambda: worker.order(LogReader.previous, area.current))
        bar.first_error_asked.connect(self._find_error)
        bar.follow_toggled.connect(area.set_follow)
        area.follow_changed.connect(bar.follow.setChecked)
        area.wanted.connect(lambda first, count: worker.order(LogReader.want, (first, count)))
        area.copy_asked.connect(lambda first, last: worker.order(LogReader.copy, (first, last)))
        area.picked.connect(self.cursor_moved)
        area.source_asked.connect(self.source_asked)

    def _add_shortcuts(self) -> None:
        for keys, call in (
            (QKeySequence(QKeySequence.StandardKey.Find), self._begin_search),
            (QKeySequence("F3"), self.bar.next_asked.emit),
            (QKeySequence("Shift+F3"), self.bar.previous_asked.emit),
            (QKeySequence("Ctrl+E"), self.bar.first_error_asked.emit),
        ):
            shortcut = QShortcut(keys, self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(call)

    def _begin_search(self) -> None:
        self.bar.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.bar.search.selectAll()

    def _find_error(self) -> None:
        self.bar.only_matches.setChecked(False)  # the error may not be a match
        self._worker.order(LogReader.first_error, None)

    def _choose(self, choice: Choice) -> None:
        self._worker.order(LogReader.choose, choice)

    def _search(self, search: Search) -> None:
        self._worker.order(LogReader.look_for, search)
        try:
            self.area.set_highlight(
                LinePattern(search.pattern, match_case=search.match_case) if search.pattern else None
            )
        except PatternError:
            self.area.set_highlight(None)

    def _show_page(self, page: LogPage) -> None:
        self._unread = page.problem
        self._say_problem()
        self.bar.show_page(page)
        self.area.show_page(page)
        self._stack.setCurrentWidget(self.area if page.total or page.is_filtered else self._empty)

    def _show_found(self, found: Found) -> None:
        self.bar.show_found(found)
        self._unsought = found.problem
        self._say_problem()

    def _say_problem(self) -> None:
        """Show why lines are missing or why the search is not possible."""
        said = self._unread or self._unsought
        self._problem.setText(said)
        self._problem.setVisible(bool(said))


INTERVAL = 1.0
"""Seconds between two polls for appended lines, as `tail -f` waits; orders are carried out at once."""
T = TypeVar("T")
_SETTINGS: frozenset[Callable[..., None]] = frozenset(
    {LogReader.choose, LogReader.look_for, LogReader.show_until, LogReader.want, LogReader.mark}
)
"""Orders of which only the newest counts."""


class LogWorker(QObject):
    """Worker that reads, searches and copies; every answer is a signal in the GUI thread."""

    page = Signal(object)
    """Emitted with a LogPage if it differs from the last."""
    found = Signal(object)
    """Emitted with a Found if it differs from the last."""
    go_to = Signal(int)
    """Row to go to: of a match, an error or a moment."""
    marked = Signal(object)
    """Row at the time cursor, or None."""
    copied = Signal(str)
    said = Signal(str)
    """Result of an order, in words."""

    def __init__(self, layout: RunLayout, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._reader = LogReader(layout)
        self._wake = threading.Condition()
        self._orders: list[Order] = []
        self._thread: threading.Thread | None = None
        self._is_paused = True
        self._is_stopped = False

    def start(self) -> None:
        """Start reading, or continue after `pause`."""
        with self._wake:
            self._is_paused = False
            self._wake.notify()
        if self._thread is None and not self._is_stopped:
            self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """Pause reading until `start`; data and orders are kept."""
        with self._wake:
            self._is_paused = True

    def stop(self) -> None:
        """Stop reading and emitting; does not wait."""
        with self._wake:
            self._is_stopped = True
            self._orders.clear()
            self._wake.notify()

    def order(self, what: Callable[[LogReader, T], None], value: T) -> None:
        """Have the thread call a method of its reader."""
        with self._wake:
            if what in _SETTINGS:
                self._orders = [order for order in self._orders if order[0] != what]
            self._orders.append((what, value))
            self._wake.notify()

    def _run(self) -> None:
        """Do the work, in the thread."""
        busy = False
        while (orders := self._next_orders(busy=busy)) is not None:
            self._tell(self._reader.look(orders))
            busy = self._reader.is_busy

    def _next_orders(self, *, busy: bool) -> list[Order] | None:
        """Return the orders to carry out; None: end."""
        with self._wake:
            if not busy and not self._orders and not self._is_stopped:
                self._wake.wait(max(to_beat(INTERVAL, time.monotonic()), self._reader.rest))
            while self._is_paused and not self._is_stopped:
                self._wake.wait()
            if self._is_stopped:
                return None
            taken, self._orders = self._orders, []
        return taken

    def _tell(self, answers: list[Answer]) -> None:
        for answer in answers:
            with self._wake:  # a stopped worker may be deleted the next moment
                if self._is_stopped:
                    return
                self._emit(answer)

    def _emit(self, answer: Answer) -> None:
        match answer:
            case LogPage():
                self.page.emit(answer)
            case Found():
                self.found.emit(answer)
            case GoTo(row):
                self.go_to.emit(row)
            case Marked(at):
                self.marked.emit(at)
            case Copied(text):
                self.copied.emit(text)
            case OrderResult(text):
                self.said.emit(text)
