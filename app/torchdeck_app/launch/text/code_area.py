"""The text area: fixed-width text, a gutter, the current line, signs of problems, help under the pointer."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from PySide6.QtCore import QEvent, QRect, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QPaintEvent,
    QResizeEvent,
    QTextCharFormat,
    QTextCursor,
    QTextFormat,
)
from PySide6.QtWidgets import QPlainTextEdit, QTextEdit, QToolTip, QWidget

from torchdeck.shown_text import shown
from torchdeck_app.launch.text.gutter import Gutter
from torchdeck_app.launch.text.highlighter import TomlHighlighter
from torchdeck_app.launch.text.positions import PARAGRAPH, characters, units
from torchdeck_app.launch.text.spot import key_at
from torchdeck_app.launch.text.suggestions import explained
from torchdeck_app.launch.text.toml_syntax import written_span
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme

_NOT_OURS = (QKeySequence.StandardKey.Undo, QKeySequence.StandardKey.Redo)


class CodeArea(QPlainTextEdit):
    """Shows and edits a text; it keeps no history of its own, which is the document's."""

    completion_wanted = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._marks: Mapping[int, str] = {}
        self._found: list[tuple[int, int]] = []
        self.recipe: str | None = None
        """The run's recipe, whose options are explained."""
        self.setUndoRedoEnabled(False)
        self.setFont(font(Type.MONO))
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setTabStopDistance(4 * self.fontMetrics().horizontalAdvance(" "))
        self.setTabChangesFocus(True)
        self.setAccessibleName("Run file as TOML")
        self._highlighter = TomlHighlighter(self.document(), theme)
        self._gutter = Gutter(self, self, theme)
        self._gutter.setFont(self.font())
        self.blockCountChanged.connect(self._fit_gutter)
        self.updateRequest.connect(self._scroll_gutter)
        self.cursorPositionChanged.connect(self._show_extras)
        theme.changed.connect(self._show_extras)
        self._fit_gutter()
        self._show_extras()

    def text(self) -> str:
        """The text as it is: `toPlainText` would make spaces of no-break spaces."""
        return self.document().toRawText().replace(PARAGRAPH, "\n")

    def lines(self) -> list[str]:
        return self.text().split("\n")

    def place(self) -> tuple[int, int]:
        """Row and column of the cursor in characters, from 0."""
        cursor = self.textCursor()
        return cursor.blockNumber(), characters(cursor.block().text(), cursor.positionInBlock())

    def set_marks(self, marks: Mapping[int, str]) -> None:
        """Say which lines, from 1, have what problem."""
        if marks != self._marks:
            self._marks = marks
            self._show_extras()
            self._gutter.update()

    def set_found(self, found: list[tuple[int, int]]) -> None:
        """Show these stretches, by characters, as found."""
        text = self.text()
        self._found = [(units(text[:start]), units(text[:end])) for start, end in found]
        self._show_extras()

    def reveal(self, line: int) -> None:
        """Put the cursor on `line`, from 1, in the middle of the view."""
        block = self.document().findBlockByNumber(max(0, min(line, self.blockCount()) - 1))
        cursor = QTextCursor(block)
        cursor.setPosition(block.position() + len(block.text()) - len(block.text().lstrip()))
        self.setTextCursor(cursor)
        self.centerCursor()

    def visible_lines(self) -> list[tuple[int, QRect]]:
        """Number, from 1, and place of each line in sight."""
        found = []
        block = self.firstVisibleBlock()
        bottom = self.viewport().height()
        while block.isValid():
            place = self.blockBoundingGeometry(block).translated(self.contentOffset()).toRect()
            if place.top() > bottom:
                break
            found.append((block.blockNumber() + 1, place))
            block = block.next()
        return found

    def current_line(self) -> int:
        return self.textCursor().blockNumber() + 1

    def mark(self, line: int) -> str:
        """What is wrong on a line, from 1; empty where nothing is."""
        return self._marks.get(line, "")

    def line_count(self) -> int:
        return self.blockCount()

    def help_at(self, row: int, column: int) -> str:
        """What the pointer tells at a place, as rich text: its problem, and its key."""
        key = explained(key_at(self.lines(), row, column), self.recipe)
        wrong = self.mark(row + 1)
        if not wrong:
            return key
        told = escape(shown(wrong)).replace("\n", "<br>")
        return f"<qt>{told}</qt>" if not key else key.replace("<qt>", f"<qt>{told}<br><br>", 1)

    def event(self, event: QEvent) -> bool:
        override = event.type() == QEvent.Type.ShortcutOverride
        # the document's history is the window's, not this widget's
        if override and isinstance(event, QKeyEvent) and any(event.matches(key) for key in _NOT_OURS):
            event.ignore()
            return False
        return super().event(event)

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            cursor = self.cursorForPosition(event.pos())
            column = characters(cursor.block().text(), cursor.positionInBlock())
            QToolTip.showText(event.globalPos(), self.help_at(cursor.blockNumber(), column), self)
            return True
        return super().viewportEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        control = event.modifiers() == Qt.KeyboardModifier.ControlModifier
        if control and event.key() == Qt.Key.Key_Space:
            self.completion_wanted.emit()
            return
        if any(event.matches(key) for key in _NOT_OURS):
            event.ignore()
            return
        super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 - Qt's name
        super().focusInEvent(event)
        self._show_extras()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        inside = self.contentsRect()
        width = self._gutter.width_wanted()
        self._gutter.setGeometry(QRect(inside.left(), inside.top(), width, inside.height()))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        super().paintEvent(event)
        self._gutter.update()

    def _fit_gutter(self) -> None:
        self.setViewportMargins(self._gutter.width_wanted(), 0, 0, 0)

    def _scroll_gutter(self, _rect: QRect, by: int) -> None:
        if by:
            self._gutter.scroll(0, by)

    def _show_extras(self) -> None:
        extras = [self._current_line(), *self._matches(), *self._squiggles()]
        self.setExtraSelections(extras)

    def _current_line(self) -> QTextEdit.ExtraSelection:
        extra = self._extra(self.textCursor(), QTextCharFormat())
        extra.cursor.clearSelection()
        extra.format.setBackground(self._theme.colour("raised"))
        extra.format.setProperty(QTextFormat.Property.FullWidthSelection, True)  # noqa: FBT003 - Qt's own
        return extra

    def _matches(self) -> list[QTextEdit.ExtraSelection]:
        look = QTextCharFormat()
        look.setBackground(self._theme.colour("selection"))
        found = []
        for start, end in self._found:
            cursor = QTextCursor(self.document())
            cursor.setPosition(min(start, self.document().characterCount() - 1))
            last = min(end, self.document().characterCount() - 1)
            cursor.setPosition(last, QTextCursor.MoveMode.KeepAnchor)
            found.append(self._extra(cursor, look))
        return found

    def _squiggles(self) -> list[QTextEdit.ExtraSelection]:
        look = QTextCharFormat()
        look.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)
        look.setUnderlineColor(self._theme.colour("bad"))
        found = []
        for line in self._marks:
            block = self.document().findBlockByNumber(line - 1)
            if not block.isValid():
                continue
            start, end = written_span(block.text())
            cursor = QTextCursor(block)
            cursor.setPosition(block.position() + units(block.text()[:start]))
            cursor.setPosition(block.position() + units(block.text()[:end]), QTextCursor.MoveMode.KeepAnchor)
            found.append(self._extra(cursor, look))
        return found

    @staticmethod
    def _extra(cursor: QTextCursor, look: QTextCharFormat) -> QTextEdit.ExtraSelection:
        extra = QTextEdit.ExtraSelection()
        extra.cursor = QTextCursor(cursor)
        extra.format = QTextCharFormat(look)
        return extra
