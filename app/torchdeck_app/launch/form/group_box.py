"""Group of the form: a heading that opens and closes it, and its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QLabel, QVBoxLayout, QWidget

from torchdeck.config.toml.document import KeyPath
from torchdeck_app.launch.form.field_messages import sentence
from torchdeck_app.launch.form.field_row import MARK, FieldRow
from torchdeck_app.launch.form.form_state import FieldState, GroupState
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, label

MakeRow = Callable[[FieldState], FieldRow]
_HEIGHT = 36


class GroupHeader(QAbstractButton):
    """Header with arrow, title, and at the right the summary of the group or its number of problems."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._summary, self._problems = "", 0
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFont(font(Type.HEADING))
        self.setMinimumHeight(_HEIGHT)
        theme.changed.connect(self.update)

    def show_group(self, state: GroupState) -> None:
        """Show its title, summary and number of problems."""
        self.setText(state.title)
        self._summary, self._problems = state.summary, state.problem_count
        wrong = f"{self._problems} problem{'s' if self._problems != 1 else ''}" if self._problems else ""
        self.setAccessibleName(", ".join(part for part in (state.title, wrong, state.summary) if part))
        self.setToolTip(plain_tip(f"{state.description}\n{state.summary}".strip()))
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        """Right opens and left closes, as in a tree; Enter acts as the space bar."""
        if event.key() in (Qt.Key.Key_Right, Qt.Key.Key_Left):
            self.setChecked(event.key() == Qt.Key.Key_Right)
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.toggle()
        else:
            super().keyPressEvent(event)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(240, _HEIGHT)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        painter, theme, box = QPainter(self), self._theme, self.rect()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.underMouse() or self.hasFocus():
            painter.setPen(theme.colour("accent") if self.hasFocus() else theme.colour("raised"))
            painter.setBrush(theme.colour("raised"))
            painter.drawRoundedRect(QRectF(box).adjusted(1.5, 1.5, -1.5, -1.5), 4, 4)
        painter.setPen(theme.colour("secondary"))
        painter.setFont(font(Type.BODY))
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(QRect(GRID, 0, 16, box.height()), middle, "▾" if self.isChecked() else "▸")
        painter.setFont(self.font())
        painter.setPen(theme.colour("text"))
        left = GRID + MARK
        painter.drawText(QRect(left, 0, box.width(), box.height()), middle, self.text())
        left += self.fontMetrics().horizontalAdvance(self.text()) + 2 * GRID
        self._paint_right(painter, QRect(left, 0, box.width() - left - GRID, box.height()))
        painter.end()

    def _paint_right(self, painter: QPainter, room: QRect) -> None:
        right = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        painter.setFont(font(Type.BODY))
        if self._problems:
            painter.setPen(self._theme.colour("bad"))
            text = f"✕ {self._problems}"
            painter.drawText(room, right, text)
            room.setRight(room.right() - painter.fontMetrics().horizontalAdvance(text) - GRID)
        if not self.isChecked():
            painter.setPen(self._theme.colour("secondary"))
            elided = painter.fontMetrics().elidedText(
                self._summary, Qt.TextElideMode.ElideRight, room.width()
            )
            painter.drawText(room, right, elided)


class GroupBox(QWidget):
    """Group whose fields are created when it is first opened."""

    opened = Signal(bool)

    def __init__(
        self,
        theme: Theme,
        state: GroupState,
        make_row: MakeRow,
        head: QWidget | None = None,
        parent: QWidget | None = None,
    ) -> None:
        """Args:
        theme: provides colours.
        state: initial state.
        make_row: creates the row of a field.
        head: widget above the fields.
        parent: Qt parent.
        """
        super().__init__(parent)
        self._make_row = make_row
        self._state = state
        self._head = head
        self._words: list[str] = []
        self.rows: dict[KeyPath, FieldRow] = {}
        self._headings: dict[str, QLabel] = {}
        self.header = GroupHeader(theme)
        self.header.toggled.connect(self._toggle)
        self._problems = label(role="error", wrap=True)
        self._problems.setTextFormat(Qt.TextFormat.PlainText)
        self._problems.setContentsMargins(GRID + MARK, 0, GRID, 4)
        self._body = QWidget()
        self._fields = QVBoxLayout(self._body)
        self._fields.setContentsMargins(GRID, 0, GRID, GRID)
        self._fields.setSpacing(4)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for widget in (self.header, self._problems, self._body):
            column.addWidget(widget)
        self._body.setVisible(False)
        self.show_group(state)

    @property
    def is_needed(self) -> bool:
        """Return whether it has content in this run."""
        return self._state.visible

    @property
    def is_open(self) -> bool:
        return self.header.isChecked()

    def has(self, path: KeyPath) -> bool:
        """Return whether it has the field of the key, or of the value around it."""
        return any(path[: len(field.path)] == field.path for field in self._state.fields)

    def take_focus(self) -> None:
        """Focus its heading, or its first field."""
        if self.header.isVisible():
            self.header.setFocus(Qt.FocusReason.OtherFocusReason)
        elif self.rows:
            next(iter(self.rows.values())).take_focus()

    def set_open(self, *, is_open: bool) -> None:
        """Show or hide the fields."""
        self.header.setChecked(is_open)

    def show_group(self, state: GroupState) -> None:
        """Show `state`; unchanged fields are not updated."""
        same_fields = [field.key for field in state.fields] == [field.key for field in self._state.fields]
        self._state = state
        self.header.show_group(state)
        self._problems.setText("\n".join(f"{sentence(p, '✕')} ({p.path})" for p in state.problems))
        self._problems.setVisible(bool(state.problems))
        if self.is_open if not self.rows else not same_fields:
            self._build()
        for field in state.fields if self.rows else ():
            self.rows[field.path].show_state(field)
        self._show_rows()

    def filter(self, words: list[str]) -> bool:
        """Show only fields that match all of `words`; return whether there are any."""
        self._words = words
        if words and not self.rows:
            self._build()
        if self._head is not None:
            self._head.setVisible(not words)
        self._show_rows()
        found = any(not row.isHidden() for row in self.rows.values())
        self._body.setVisible(found if words else self.is_open)
        return found

    def set_writable(self, *, writable: bool) -> None:
        for row in self.rows.values():
            row.set_writable(writable=writable)

    def row_at(self, path: KeyPath) -> FieldRow | None:
        """Return the field of the key, or of the value around it; create it if needed."""
        if not self.rows:
            self._build()
        return next((self.rows[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.rows), None)

    def _toggle(self, is_open: bool) -> None:  # noqa: FBT001 - what the signal brings
        if is_open and not self.rows:
            self._build()
            self._show_rows()
        self._body.setVisible(is_open)
        self.opened.emit(is_open)

    def _build(self) -> None:
        """Create rows and headings in the state's order; rows that stay keep their focus."""
        before = self.rows
        self.rows = {}
        for field in self._state.fields:
            old = before.get(field.path)
            kept = old is not None and old.state.key == field.key
            self.rows[field.path] = before.pop(field.path) if kept else self._make_row(field)
        for gone in (*before.values(), *self._headings.values()):
            gone.hide()
            gone.deleteLater()
        self._headings = {}
        for path, row in self.rows.items():
            self._add_before(path)
            self._fields.addWidget(row)  # at the end, from wherever it was

    def _add_before(self, path: KeyPath) -> None:
        """Add what stands above the row of `path`: its heading, if it is the first there, and the head."""
        heading = self._state.headings.get(path, "")
        if heading and heading not in self._headings:
            shown = label(heading, role="secondary")
            shown.setContentsMargins(MARK, GRID, 0, 0)
            self._headings[heading] = shown
            self._fields.addWidget(shown)
        first = next((path for path in self.rows if path[:1] == ("run",)), None)
        if self._head is not None and path == first:
            self._fields.addWidget(self._head)

    def _show_rows(self) -> None:
        by_heading: Mapping[str, list[bool]] = {heading: [] for heading in self._headings}
        for field in self._state.fields if self.rows else ():
            row = self.rows[field.path]
            seen = field.visible and row.matches(self._words)
            row.setVisible(seen)
            by_heading.get(self._state.headings.get(field.path, ""), []).append(seen)
        for heading, seen_rows in by_heading.items():
            self._headings[heading].setVisible(any(seen_rows))
