"""The run file as text: a view of the document that keeps cursor and scroll whatever else changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from torchdeck.config.problems import Problem
from torchdeck_app.launch.document.checked import CheckedDocument
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.document.text_change import change_between
from torchdeck_app.launch.text.code_area import CodeArea
from torchdeck_app.launch.text.completion import CompletionPopup
from torchdeck_app.launch.text.find_bar import FindBar
from torchdeck_app.launch.text.marks import marks_of
from torchdeck_app.launch.text.positions import characters, units
from torchdeck_app.launch.text.search import matches, next_match
from torchdeck_app.launch.text.spot import spot_at
from torchdeck_app.launch.text.suggestions import Suggestion, suggestions
from torchdeck_app.theme.theme import Theme


class TomlEditor(QWidget):
    """Text area and find bar."""

    line_entered = Signal(int)
    """The line, from 1, that the cursor has moved to."""

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
        """Open the find bar, for what is selected."""
        selected = self.area.textCursor().selectedText()
        self.bar.open_for("" if "\u2029" in selected else selected)

    def go_to_line(self) -> None:
        """Ask for a line."""
        self.bar.open_for(":")
        self.bar.field.deselect()

    def complete(self) -> None:
        """Offer what may stand at the cursor."""
        row, column = self.area.place()
        spot = spot_at(self.area.lines(), row, column)
        place = self.area.cursorRect()
        at = self.area.viewport().mapTo(self.area, place.topLeft())
        self.popup.offer(suggestions(spot, self.area.recipe), at, place.height() + 4)

    def show_planned(self, problems: Sequence[Problem]) -> None:
        """Mark why no plan can be made, at the lines it is about."""
        if tuple(problems) != self._planned:
            self._planned = tuple(problems)
            self._show_marks()

    def set_read_only(self, *, read_only: bool) -> None:
        """Whether the text may be changed."""
        self.area.setReadOnly(read_only)

    def save_state(self) -> dict[str, Any]:
        """Cursor and scroll."""
        return {
            "cursor": self.area.textCursor().position(),
            "scroll": self.area.verticalScrollBar().value(),
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Take up cursor and scroll, as far as the text has them."""
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
        """What was typed goes into the document; colours count as changes of the area too, and are none."""
        if self._updating:
            return
        self._document.set_text(self.area.text())
        self._search(*self._wanted, moving=False)
        if self.popup.isVisible():
            self.complete()

    def _pull(self) -> None:
        """Show what else has changed the document, where it changed; cursor and scroll stay."""
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
        if spot.kind == "table":  # a bracket that is there already closes it
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
        """Where the selection begins and ends, in characters."""
        text, cursor = self.area.text(), self.area.textCursor()
        return characters(text, cursor.selectionStart()), characters(text, cursor.selectionEnd())

    def _go(self, line: int) -> None:
        self.area.reveal(line)
        self.area.setFocus()
