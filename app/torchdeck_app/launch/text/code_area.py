"""Text area: fixed-width text, a gutter, the current line, problem signs, help tooltips."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Protocol

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QFont,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)
from PySide6.QtWidgets import QPlainTextEdit, QTextEdit, QToolTip, QWidget

from torchdeck.shown_text import shown
from torchdeck_app.launch.text.characters import PARAGRAPH, characters, hidden_characters, units
from torchdeck_app.launch.text.suggestions import explained
from torchdeck_app.launch.text.toml_context import Kind, State, key_at, tokens, written_span
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.palette import ColourName
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip

_NOT_OURS = (QKeySequence.StandardKey.Undo, QKeySequence.StandardKey.Redo)


class CodeArea(QPlainTextEdit):
    """Text area without an undo history of its own, which is the document's."""

    completion_wanted = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._marks: Mapping[int, str] = {}
        self._hidden: Mapping[int, tuple[str, ...]] = {}
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
        self.textChanged.connect(self._find_hidden)
        self.blockCountChanged.connect(self._fit_gutter)
        self.updateRequest.connect(self._scroll_gutter)
        self.cursorPositionChanged.connect(self._show_extras)
        theme.changed.connect(self._show_extras)
        self._fit_gutter()
        self._show_extras()

    def text(self) -> str:
        """Return the exact text: `toPlainText` would replace no-break spaces by spaces."""
        return self.document().toRawText().replace(PARAGRAPH, "\n")

    def lines(self) -> list[str]:
        return self.text().split("\n")

    def place(self) -> tuple[int, int]:
        """Return row and column of the cursor in characters, from 0."""
        cursor = self.textCursor()
        return cursor.blockNumber(), characters(cursor.block().text(), cursor.positionInBlock())

    def set_marks(self, marks: Mapping[int, str]) -> None:
        """Set the problems by line, from 1."""
        if marks != self._marks:
            self._marks = marks
            self._show_extras()
            self._gutter.update()

    def set_found(self, found: list[tuple[int, int]]) -> None:
        """Highlight these ranges, in characters, as found."""
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
        """Return the number, from 1, and the rectangle of each visible line."""
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
        """Return the problem on a line, from 1; empty if there is none."""
        return self._marks.get(line, "")

    def line_count(self) -> int:
        return self.blockCount()

    def help_at(self, row: int, column: int) -> str:
        """Return the tooltip at a position as rich text: its problem, and its key."""
        key = explained(key_at(self.lines(), row, column), self.recipe)
        wrong = self.mark(row + 1)
        if not wrong:
            return key
        told = escape(shown(wrong)).replace("\n", "<br>")
        return f"<qt>{told}</qt>" if not key else key.replace("<qt>", f"<qt>{told}<br><br>", 1)

    def event(self, event: QEvent) -> bool:
        override = event.type() == QEvent.Type.ShortcutOverride
        # undo belongs to the document in the window, not to this widget
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
        self._paint_hidden()
        self._gutter.update()

    def _paint_hidden(self) -> None:
        """Paint the codes of hidden characters after their line, or at the edge if the line is longer."""
        painter = QPainter(self.viewport())
        painter.setPen(self._theme.colour("bad"))
        for line, place in self.visible_lines():
            if names := self._hidden.get(line):
                note = f" hidden: {' '.join(name.partition(' ')[0] for name in names)} "
                place.setWidth(painter.fontMetrics().horizontalAdvance(note))
                text = self.document().findBlockByNumber(line - 1).layout().lineAt(0)
                end = place.left() + round(text.naturalTextWidth()) + SIGN_WIDTH
                place.moveLeft(max(0, min(end, self.viewport().width() - place.width())))
                painter.fillRect(place, self._theme.colour("raised"))
                painter.drawText(place, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, note)
        painter.end()

    def _find_hidden(self) -> None:
        """Find hidden characters; colours count as text changes too, so repaint only if the result
        differs.
        """
        found = hidden_characters(self.text())
        if found != self._hidden:
            self._hidden = found
            self.viewport().update()

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


_COLOURS: Mapping[Kind, ColourName] = {
    Kind.COMMENT: "secondary",
    Kind.TABLE: "accent",
    Kind.KEY: "text",
    Kind.STRING: "good",
    Kind.NUMBER: "warn",
    Kind.CONSTANT: "bad",
}
_MOST = 100_000
"""Maximum characters of a highlighted text; a longer one would block the window, a microsecond per character.
"""


class TomlHighlighter(QSyntaxHighlighter):
    """Highlighter that follows the theme."""

    def __init__(self, document: QTextDocument, theme: Theme) -> None:
        super().__init__(document)
        self._theme = theme
        self._formats = self._made()
        theme.changed.connect(self._repaint)

    def highlightBlock(self, text: str) -> None:  # noqa: N802 - Qt's name
        """Highlight one line; Qt continues with the next ones while their start state changes."""
        if self.document().characterCount() > _MOST:
            return
        # offsets are Qt's: characters beyond the first plane are widened to two for the tokenizer
        line = text if text.isascii() else "".join(c if ord(c) < 0x10000 else "xx" for c in text)
        found, after = tokens(line, State(max(0, self.previousBlockState())))
        for token in found:
            self.setFormat(token.start, token.end - token.start, self._formats[token.kind])
        self.setCurrentBlockState(after)

    def _made(self) -> dict[Kind, QTextCharFormat]:
        formats = {}
        for kind, colour in _COLOURS.items():
            made = QTextCharFormat()
            made.setForeground(self._theme.colour(colour))
            if kind is Kind.TABLE:
                made.setFontWeight(QFont.Weight.DemiBold)
            formats[kind] = made
        return formats

    def _repaint(self) -> None:
        self._formats = self._made()
        self.rehighlight()


# Line numbers next to the text, and signs of lines with problems.

SIGN_WIDTH = 16


class Lines(Protocol):
    """Interface of the text area as used by the gutter."""

    def visible_lines(self) -> list[tuple[int, QRect]]:
        """Return the number, from 1, and the rectangle of each visible line, in the area's coordinates."""
        ...

    def current_line(self) -> int: ...
    def mark(self, line: int) -> str: ...
    def line_count(self) -> int: ...


class Gutter(QWidget):
    """Gutter of the area that created it."""

    def __init__(self, area: QWidget, lines: Lines, theme: Theme) -> None:
        super().__init__(area)
        self._lines = lines
        self._theme = theme

    def width_wanted(self) -> int:
        """Return the width for the sign and the digits, three at least, so that it seldom changes."""
        figures = max(3, len(str(self._lines.line_count())))
        return SIGN_WIDTH + figures * self.fontMetrics().horizontalAdvance("9") + 12

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(self.width_wanted(), 0)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        painter = QPainter(self)
        painter.fillRect(event.rect(), self._theme.colour("window"))
        current = self._lines.current_line()
        for number, place in self._lines.visible_lines():
            row = QRect(0, place.top(), self.width() - 8, place.height())
            if self._lines.mark(number):
                painter.setPen(self._theme.colour("bad"))
                painter.drawText(
                    QRect(0, row.top(), SIGN_WIDTH, row.height()), Qt.AlignmentFlag.AlignCenter, "✕"
                )
            painter.setPen(self._theme.colour("text" if number == current else "secondary"))
            painter.drawText(row, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop, str(number))
        painter.end()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(
                event.globalPos(), plain_tip(self._lines.mark(self._line_at(event.pos()))), self
            )
            return True
        return super().event(event)

    def _line_at(self, position: QPoint) -> int:
        lines = self._lines.visible_lines()
        return next(
            (number for number, place in lines if place.top() <= position.y() < place.bottom() + 1), 0
        )
