"""Text editor of the run file: a view of the document that keeps cursor and scroll position on external
edits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QAbstractItemView, QFrame, QTreeWidget, QTreeWidgetItem, QVBoxLayout, QWidget

from torchdeck.config.problems import Problem
from torchdeck_app.launch.document.checked_text import CheckedDocument
from torchdeck_app.launch.document.run_document import RunDocument, change_between
from torchdeck_app.launch.text.characters import characters, hidden_characters, units
from torchdeck_app.launch.text.code_area import CodeArea
from torchdeck_app.launch.text.find_bar import FindBar
from torchdeck_app.launch.text.suggestions import Suggestion, suggestions
from torchdeck_app.launch.text.toml_context import spot_at
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme


class TomlEditor(QWidget):
    """Text area and find bar."""

    line_entered = Signal(int)
    """Emitted with the line, from 1, to which the cursor has moved."""

    def __init__(self, theme: Theme, document: RunDocument, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._document = document
        self._updating = False
        self._found: list[tuple[int, int]] = []
        self._wanted = ("", False)
        self._planned: tuple[Problem, ...] = ()
        self.area = CodeArea(theme)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.bar = FindBar(theme)
        self.bar.hide()
        self.popup = CompletionPopup(self.area)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.bar)
        layout.addWidget(self.area, 1)
        self.setFocusProxy(self.area)
        self._connect()
        self._pull()

    def reveal(self, line: int) -> None:
        """Put the cursor on `line`, from 1."""
        self.area.reveal(line)

    def open_find(self) -> None:
        """Open the find bar with the selected text."""
        selected = self.area.textCursor().selectedText()
        self.bar.open_for("" if "\u2029" in selected else selected)

    def go_to_line(self) -> None:
        """Ask for a line and go to it."""
        self.bar.open_for(":")
        self.bar.field.deselect()

    def complete(self) -> None:
        """Open the completion at the cursor."""
        row, column = self.area.place()
        spot = spot_at(self.area.lines(), row, column)
        place = self.area.cursorRect()
        at = self.area.viewport().mapTo(self.area, place.topLeft())
        self.popup.offer(suggestions(spot, self.area.recipe), at, place.height() + 4)

    def show_planned(self, problems: Sequence[Problem]) -> None:
        """Mark why no plan can be made, at the affected lines."""
        if tuple(problems) != self._planned:
            self._planned = tuple(problems)
            self._show_marks()

    def set_read_only(self, *, read_only: bool) -> None:
        """Set whether the text is read-only."""
        self.area.setReadOnly(read_only)

    def save_state(self) -> dict[str, Any]:
        """Return cursor and scroll position."""
        return {
            "cursor": self.area.textCursor().position(),
            "scroll": self.area.verticalScrollBar().value(),
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore cursor and scroll position, as far as the text has them."""
        position, scroll = state.get("cursor"), state.get("scroll")
        if isinstance(position, int):
            cursor = self.area.textCursor()
            cursor.setPosition(max(0, min(position, self.area.document().characterCount() - 1)))
            self.area.setTextCursor(cursor)
        if isinstance(scroll, int):
            bar = self.area.verticalScrollBar()
            bar.setValue(max(0, min(scroll, bar.maximum())))

    def _connect(self) -> None:
        self.area.textChanged.connect(self._push)
        self.area.cursorPositionChanged.connect(self._moved)
        self.area.completion_wanted.connect(self.complete)
        self.popup.chosen.connect(self._insert)
        self.bar.wanted.connect(self._search)
        self.bar.stepped.connect(self._step)
        self.bar.line_wanted.connect(self._go)
        self.bar.closed.connect(self.area.setFocus)
        self._document.text_changed.connect(self._pull)
        self._document.checked.connect(self._show_checked)

    def _push(self) -> None:
        """Push input to the document; changes of colours only are ignored."""
        if self._updating:
            return
        self._document.set_text(self.area.text())
        self._search(*self._wanted, moving=False)
        if self.popup.isVisible():
            self.complete()

    def _pull(self) -> None:
        """Apply other changes of the document where they occurred; cursor and scroll position stay."""
        shown = self.area.text()
        if shown == self._document.text:
            return
        change = change_between(shown, self._document.text)
        start = units(shown[: change.at])
        cursor = QTextCursor(self.area.document())
        cursor.setPosition(start)
        cursor.setPosition(start + units(change.removed), QTextCursor.MoveMode.KeepAnchor)
        scroll = self.area.verticalScrollBar().value()
        self._updating = True
        cursor.insertText(change.inserted)
        self._updating = False
        self.area.verticalScrollBar().setValue(scroll)
        self._search(*self._wanted, moving=False)

    def _moved(self) -> None:
        self.line_entered.emit(self.area.current_line())
        if self.popup.isVisible():
            self.complete()

    def _show_checked(self, checked: CheckedDocument) -> None:
        self._show_marks()
        run = checked.written.get("run")
        recipe = run.get("recipe") if isinstance(run, Mapping) else None
        self.area.recipe = recipe if isinstance(recipe, str) else None

    def _show_marks(self) -> None:
        checked = self._document.newest
        if checked is not None and checked.text == self._document.text:
            self.area.set_marks(marks_of(checked, self._planned))

    def _insert(self, suggestion: Suggestion) -> None:
        row, column = self.area.place()
        line = self.area.lines()[row]
        spot = spot_at(self.area.lines(), row, column)
        end = column
        if spot.kind == "table":  # an existing bracket closes it
            end += len(line[column:]) - len(line[column:].lstrip("]"))
        cursor = self.area.textCursor()
        start = cursor.block().position()
        cursor.setPosition(start + units(line[: spot.start]))
        cursor.setPosition(start + units(line[:end]), QTextCursor.MoveMode.KeepAnchor)
        cursor.insertText(suggestion.insert)

    def _search(self, text: str, case: bool, *, moving: bool = True) -> None:  # noqa: FBT001 - a slot
        self._wanted = (text, case)
        self._found = matches(self.area.text(), text, case=case)
        self.area.set_found(self._found)
        if not moving or not self._found:
            self.bar.show_count(None, len(self._found))
        else:
            self._show_match(next_match(self._found, self._selection()[0]))

    def _step(self, backwards: bool) -> None:  # noqa: FBT001 - a slot
        start, end = self._selection()
        at = start + 1 if backwards and start != end else end
        self._show_match(next_match(self._found, at, backwards=backwards))

    def _show_match(self, index: int | None) -> None:
        self.bar.show_count(index, len(self._found))
        if index is None:
            return
        text = self.area.text()
        start, end = self._found[index]
        cursor = self.area.textCursor()
        cursor.setPosition(units(text[:start]))
        cursor.setPosition(units(text[:end]), QTextCursor.MoveMode.KeepAnchor)
        self.area.setTextCursor(cursor)
        self.area.centerCursor()

    def _selection(self) -> tuple[int, int]:
        """Return begin and end of the selection, in characters."""
        text, cursor = self.area.text(), self.area.textCursor()
        return characters(text, cursor.selectionStart()), characters(text, cursor.selectionEnd())

    def _go(self, line: int) -> None:
        self.area.reveal(line)
        self.area.setFocus()


def marks_of(checked: CheckedDocument, planned: Sequence[Problem] = ()) -> Mapping[int, str]:
    """Return line, from 1 → problem; problems in a file that this one extends are at `extends`.

    `planned` has the reasons why no plan can be made of a document without other problems.
    """
    found: dict[int, list[str]] = {}
    for problem in checked.problems or planned:
        sentence = f"{problem.path}: {problem.wrong}" if problem.path else problem.wrong
        text = f"{sentence}\nExpected: {problem.right}"
        if checked.is_own(problem):
            line = problem.line or 1
        else:
            line = checked.lines.get(("extends",), 1)
            text = f"{problem.file}: {text}"
        found.setdefault(line, []).append(text)
    for line, names in hidden_characters(checked.text).items():
        advice = "This line has hidden characters. Delete what you did not type."
        found.setdefault(line, []).append(f"Hidden: {', '.join(names)}\n{advice}")
    return {line: "\n".join(texts) for line, texts in found.items()}


# Text search.


def matches(text: str, wanted: str, *, case: bool = False, limit: int = 2000) -> list[tuple[int, int]]:
    """Return the matches of `wanted` in `text` as (start, end), the first `limit` of them.

    Args:
        text: the text to search.
        wanted: the search text; an empty one has no matches.
        case: whether to match case.
        limit: maximum number of matches.
    """
    if not wanted:
        return []
    pattern = re.compile(re.escape(wanted), 0 if case else re.IGNORECASE)
    found = []
    for match in pattern.finditer(text):
        found.append(match.span())
        if len(found) == limit:
            break
    return found


def next_match(found: list[tuple[int, int]], position: int, *, backwards: bool = False) -> int | None:
    """Return the match at or after `position`, or before it, wrapping around; None without any."""
    if not found:
        return None
    if backwards:
        before = [index for index, (_, end) in enumerate(found) if end < position]
        return before[-1] if before else len(found) - 1
    return next((index for index, (start, _) in enumerate(found) if start >= position), 0)


_ROWS = 10
_TAKING = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab)
_MOVING = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)


class CompletionPopup(QTreeWidget):
    """Popup over the text area, which keeps the focus: typing continues."""

    chosen = Signal(object)
    """Emitted with a Suggestion."""

    def __init__(self, area: QWidget) -> None:
        super().__init__(area)
        self._area = area
        self._offered: list[Suggestion] = []
        self.setAccessibleName("Completions")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setColumnCount(2)
        self.setHeaderHidden(True)
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFont(font(Type.SMALL))
        self.itemClicked.connect(lambda _item: self.take())
        area.installEventFilter(self)
        self.hide()

    def offer(self, offered: list[Suggestion], at: QPoint, below: int) -> None:
        """Show these `below` pixels under `at`, a point of the area; above it if there is no room."""
        self._offered = offered
        self.clear()
        for item in offered:
            row = QTreeWidgetItem([item.label, item.help])
            row.setFont(0, font(Type.MONO))
            row.setToolTip(1, item.help)
            self.addTopLevelItem(row)
        first = self.topLevelItem(0)
        if first is None:
            self.hide()
            return
        self.setCurrentItem(first)
        self._place(at, below)
        self.show()
        self.raise_()

    def take(self) -> None:
        """Choose the current suggestion."""
        index = self.currentIndex().row()
        self.hide()
        if 0 <= index < len(self._offered):
            self.chosen.emit(self._offered[index])

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if not self.isVisible() or watched is not self._area:
            return False
        if event.type() == QEvent.Type.FocusOut:
            self.hide()
        elif event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            return self._pressed(event)
        return False

    def _pressed(self, event: QKeyEvent) -> bool:
        if event.key() in _TAKING:
            self.take()
        elif event.key() == Qt.Key.Key_Escape:
            self.hide()
        elif event.key() in _MOVING:
            self.keyPressEvent(event)
        else:
            return False
        return True

    def _place(self, at: QPoint, below: int) -> None:
        self.resizeColumnToContents(0)
        width = min(self._area.width() - 16, 520)
        height = min(_ROWS, len(self._offered)) * self.sizeHintForRow(0) + 2 * self.frameWidth() + 4
        x = max(8, min(at.x(), self._area.width() - width - 8))
        fits = at.y() + below + height <= self._area.height()
        y = at.y() + below if fits else max(0, at.y() - height)
        self.setGeometry(x, y, width, height)
