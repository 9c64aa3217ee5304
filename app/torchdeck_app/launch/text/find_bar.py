"""Find bar of the editor, which can also go to a line."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLineEdit, QToolButton, QWidget

from torchdeck_app.theme.icons import icon
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import label


class FindBar(QWidget):
    """Bar above the text; an input of `:120` goes to line 120."""

    wanted = Signal(str, bool)
    """Emitted with the search text, and whether to match case; empty: none."""
    stepped = Signal(bool)
    """Emitted to go to the next match; True: to the previous one."""
    line_wanted = Signal(int)
    closed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.field = QLineEdit()
        self.field.setPlaceholderText("Find, or :line")
        self.field.setAccessibleName("Find in the run file")
        self.field.setToolTip("Enter: next, Shift+Enter: previous, Esc: close; :12 goes to line 12")
        self.case = QCheckBox("Aa")
        self.case.setAccessibleName("Match case")
        self.case.setToolTip("Match case")
        self._count = label(role="secondary")
        self._count.setMinimumWidth(self._count.fontMetrics().horizontalAdvance("0000 of 0000"))
        self._close = QToolButton()
        self._close.setAccessibleName("Close")
        self._close.setToolTip("Close (Esc)")
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 4, 8, 4)
        row.setSpacing(8)
        row.addWidget(self.field, 1)
        row.addWidget(self._count)
        row.addWidget(self.case)
        row.addWidget(self._close)
        self.field.textChanged.connect(self._tell)
        self.case.toggled.connect(self._tell)
        self._close.clicked.connect(self.close_bar)
        theme.changed.connect(self._draw)
        self._draw()

    def open_for(self, text: str) -> None:
        """Show the bar with `text` selected."""
        self.show()
        if text:
            self.field.setText(text)
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()
        self._tell()

    def close_bar(self) -> None:
        """Hide the bar, and remove highlights."""
        self.hide()
        self.wanted.emit("", False)  # noqa: FBT003 - Qt knows no names here
        self.closed.emit()

    def show_count(self, current: int | None, count: int) -> None:
        """Show the index of the current match and the count."""
        if not self.field.text() or self._line() is not None:
            self._count.setText("")
        else:
            self._count.setText(
                f"{0 if current is None else current + 1} of {count}" if count else "not found"
            )

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.key() == Qt.Key.Key_Escape:
            self.close_bar()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._entered(backwards=bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
        else:
            super().keyPressEvent(event)

    def _entered(self, *, backwards: bool) -> None:
        line = self._line()
        if line is None:
            self.stepped.emit(backwards)
        else:
            self.line_wanted.emit(line)
            self.close_bar()

    def _line(self) -> int | None:
        text = self.field.text().strip()
        return int(text[1:]) if text.startswith(":") and text[1:].isdecimal() else None

    def _tell(self) -> None:
        self.wanted.emit("" if self._line() is not None else self.field.text(), self.case.isChecked())

    def _draw(self) -> None:
        self._close.setIcon(icon("close", self._theme.palette))
