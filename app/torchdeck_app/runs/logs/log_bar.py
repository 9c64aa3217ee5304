"""Bar above the log lines: choice of ranks and search."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QSize, Qt, QTimer, Signal, SignalInstance
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QComboBox, QHBoxLayout, QLineEdit, QToolButton, QWidget

from torchdeck.runs.folders.rank_nodes import rank_words
from torchdeck.runs.logs.merged import STREAMS
from torchdeck_app.runs.logs.messages import Choice, Found, LogPage, Search
from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.inputs import NamedBox
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip

PAUSE = 150
"""Milliseconds without a keystroke before the search starts."""
_SEARCH = 144
"""Minimum width of the search field in pixels next to the other widgets; below it, two rows are used."""
_STREAMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("All output", STREAMS),
    ("Output", ("stdout",)),
    ("Errors", ("stderr",)),
)


class LogBar(QWidget):
    """Bar with choices and search."""

    chosen = Signal(object)
    """Emitted with a Choice."""
    searched = Signal(object)
    """Emitted with a Search."""
    next_asked = Signal()
    previous_asked = Signal()
    first_error_asked = Signal()
    follow_toggled = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._ranks: tuple[int, ...] = ()
        self._attempts: tuple[int, ...] = ()
        self._nodes: Mapping[int, str] = {}
        self._node_names: tuple[str, ...] = ()
        self.rank = _box("Rank", "Ranks shown")
        self.attempt = _box("Attempt", "Attempt shown")
        self.stream = _box("Stream", "Standard output, standard error, or both")
        self.stream.addItems([name for name, _ in _STREAMS])
        self.rank.addItem("All ranks", None)
        self.attempt.addItem("All attempts", None)
        self.attempt.hide()
        self.search = _SearchField()
        self.match_case = _toggle("Aa", "Match case")
        self.only_matches = _toggle("", "Show only lines with a match")
        self.previous = _button("", "Previous match (Shift+F3)")
        self.next = _button("", "Next match (F3, Enter)")
        self.count = ElidedLabel()
        self.count.setProperty("role", "secondary")
        self.count.setMaximumWidth(self.fontMetrics().horizontalAdvance("8,888 of 88,888 found  "))
        self.count.setMinimumWidth(self.fontMetrics().horizontalAdvance("888 of 888"))
        self._count = ""
        self.first_error = _button("", "Go to the first line that looks like an error (Ctrl+E)")
        self.follow = _toggle("", "Follow the last line (End)")
        self.follow.setChecked(True)
        self._lay_out()
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(PAUSE)
        self._connect()
        theme.changed.connect(self._draw_icons)
        self._draw_icons()

    def _lay_out(self) -> None:
        choices, finding = QHBoxLayout(), QHBoxLayout()
        for box in (self.rank, self.attempt, self.stream):
            choices.addWidget(box)
        finding.addWidget(self.search, 3)
        for button in (self.match_case, self.only_matches, self.previous, self.next):
            finding.addWidget(button)
        finding.addWidget(self.count, 1)
        finding.addWidget(self.first_error)
        finding.addWidget(self.follow)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._row.setContentsMargins(8, 4, 8, 4)
        for layout, stretch in ((choices, 0), (finding, 1)):
            layout.setSpacing(4)
            self._row.addLayout(layout, stretch)
        self._row.setSpacing(4)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Arrange everything in one row or the search in its own, independent of the boxes' content."""
        ways, row = QBoxLayout.Direction, self._row
        halves = [half for at in (0, 1) if (half := row.itemAt(at)) is not None]
        for half in halves:
            half.invalidate()  # a box that was just hidden is counted until then
        parts = [half.sizeHint().width() for half in halves]
        needed = sum(parts) + _SEARCH - self.search.sizeHint().width() + 20
        wanted = ways.TopToBottom if self.width() < needed else ways.LeftToRight
        if row.direction() != wanted:
            row.setDirection(wanted)

    @property
    def choice(self) -> Choice:
        """Return the choice in the boxes."""
        whose = self.rank.currentData()
        attempt, streams = self.attempt.currentData(), _STREAMS[self.stream.currentIndex()][1]
        if isinstance(whose, str):
            return Choice(None, whose, attempt, streams)
        return Choice(whose, "", attempt, streams)

    @property
    def sought(self) -> Search:
        """Return the search in the field and its buttons."""
        return Search(self.search.text(), self.match_case.isChecked(), self.only_matches.isChecked())

    @property
    def _offered(self) -> tuple[object, ...]:
        """Return everything that determines the boxes' width."""
        return self._ranks, self._attempts, self._node_names, self._nodes

    def show_page(self, page: LogPage) -> None:
        """Offer the available ranks, nodes and attempts."""
        before = self._offered
        for name in page.node_names[len(self._node_names) :]:
            self._node_names += (name,)
            self.rank.insertItem(len(self._node_names), f"Node {name}", name)
        ranks = self._ranks
        self._ranks = _offer(self.rank, ranks, page.ranks, "Rank", 1 + len(self._node_names))
        if page.nodes != self._nodes or ranks != self._ranks:
            self._nodes = page.nodes
            for at in range(1 + len(self._node_names), self.rank.count()):
                words = rank_words(self.rank.itemData(at), page.nodes)
                self.rank.setItemText(at, f"{words[:1].upper()}{words[1:]}")
        self._attempts = _offer(self.attempt, self._attempts, page.attempts, "Attempt")
        self.attempt.setVisible(len(self._attempts) > 1)
        if self._offered != before:  # a page comes every second, and this triggers a relayout
            self._arrange()
        if not page.search.pattern:
            self._count = f"{page.total:,} lines, more to read…" if page.is_counting else ""
            if page.is_counting or self.count.text().endswith("more to read…"):
                self.say("")

    def say(self, text: str) -> None:
        """Show a result; empty: the number of matches."""
        self.count.setText(text or self._count)
        self.count.setToolTip(plain_tip(text or self._count))

    def show_found(self, found: Found) -> None:
        """Show the number of matches."""
        self._count = ""
        if found.search.pattern and not found.problem:
            more = "+" if found.is_cut or not found.is_over else ""
            count = f"{found.count:,}{more}"
            self._count = f"{count} found" if found.at is None else f"{found.at + 1:,} of {count}"
            if not found.count and not found.is_over:
                self._count = "searching…"
        self.say("")
        self.search.setToolTip(plain_tip(found.problem or _SearchField.HELP))
        role = "error" if found.problem else ""
        if role != (self.search.property("role") or ""):
            self.search.setProperty("role", role)
            self.search.style().polish(self.search)
        for button in (self.previous, self.next):
            button.setEnabled(found.count > 0)

    def _connect(self) -> None:
        for box in (self.rank, self.attempt, self.stream):
            box.activated.connect(lambda _: self.chosen.emit(self.choice))
        self.search.textEdited.connect(lambda _: self._pause.start())
        self._pause.timeout.connect(self._search_now)
        for toggle in (self.match_case, self.only_matches):
            toggle.toggled.connect(lambda _: self._search_now())
        self.search.next_asked.connect(lambda: self._step(self.next_asked))
        self.search.previous_asked.connect(lambda: self._step(self.previous_asked))
        self.next.clicked.connect(self.next_asked)
        self.previous.clicked.connect(self.previous_asked)
        self.first_error.clicked.connect(self.first_error_asked)
        self.follow.toggled.connect(self.follow_toggled)

    def _draw_icons(self) -> None:
        for button, name in (
            (self.only_matches, "filter"),
            (self.previous, "up"),
            (self.next, "down"),
            (self.first_error, "warning"),
            (self.follow, "follow"),
        ):
            button.setIcon(icon(name, self._theme.palette))

    def _search_now(self) -> None:
        self._pause.stop()
        self.searched.emit(self.sought)

    def _step(self, asked: SignalInstance) -> None:
        """Apply the current text of the field, then step."""
        if self._pause.isActive():
            self._search_now()
        asked.emit()


class _SearchField(QLineEdit):
    """Search field in which Enter goes to the next match, Shift+Enter to the previous one."""

    HELP = "Lines that match a regular expression (Ctrl+F)"
    next_asked = Signal()
    previous_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setPlaceholderText("Search (regular expression)")
        self.setAccessibleName("Search")
        self.setToolTip(self.HELP)
        self.setClearButtonEnabled(True)
        self.setMinimumWidth(96)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(96, super().sizeHint().height())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            back = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
            (self.previous_asked if back else self.next_asked).emit()
        elif event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
            self.textEdited.emit("")
        else:
            super().keyPressEvent(event)


class _Box(NamedBox):
    """Combo box as wide as its longest text, or narrower if there is no room."""

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(64, super().minimumSizeHint().height())


def _box(name: str, tip: str) -> QComboBox:
    box = _Box()
    box.setAccessibleName(name)
    box.setToolTip(tip)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
    return box


def _toggle(text: str, tip: str) -> QToolButton:
    button = _button(text, tip)
    button.setCheckable(True)
    return button


def _button(text: str, tip: str) -> QToolButton:
    button = QToolButton()
    button.setText(text)
    button.setToolTip(tip)
    button.setAccessibleName(tip.partition(" (")[0])
    button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    return button


def _offer(
    box: QComboBox, known: tuple[int, ...], now: tuple[int, ...], word: str, first: int = 1
) -> tuple[int, ...]:
    """Replace the numbers in the box from row `first` on; existing items and the selection are kept."""
    if now == known:
        return known
    offered = tuple(sorted({*known, *now}))
    for at, number in enumerate(offered):
        if box.itemData(at + first) != number:
            box.insertItem(at + first, f"{word} {number}", number)
    return offered
