"""Changes that would make it fit, each with a button that makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from torchdeck.plan.memory.suggest import Suggestion
from torchdeck_app.widgets.panel import GRID, label


class SuggestionList(QWidget):
    """A sentence and a button for each."""

    def __init__(self, asked: Callable[[Mapping[str, Any]], None], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._asked = asked
        self._shown: tuple[tuple[Suggestion, ...], bool] = ((), True)
        self._rows = QVBoxLayout(self)
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._rows.setSpacing(GRID)
        self.buttons: list[QPushButton] = []

    def show_suggestions(self, suggestions: tuple[Suggestion, ...], *, can_apply: bool) -> None:
        """Show them; what is shown already stays, and keeps the focus.

        Args:
            suggestions: the cheapest first.
            can_apply: whether they are changes of the run file; a script's training is not in it.
        """
        if (suggestions, can_apply) == self._shown:
            return
        self._shown = (suggestions, can_apply)
        self.buttons.clear()
        while self._rows.count():
            item = self._rows.takeAt(0)
            widget = None if item is None else item.widget()
            if widget is not None:
                widget.deleteLater()
        for suggestion in suggestions:
            self._rows.addWidget(self._row(suggestion, can_apply=can_apply))

    def _row(self, suggestion: Suggestion, *, can_apply: bool) -> QWidget:
        made = QWidget()
        row = QHBoxLayout(made)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2 * GRID)
        text = label(suggestion.sentence, wrap=True)
        text.setTextFormat(Qt.TextFormat.PlainText)
        row.addWidget(text, 1)
        if can_apply:
            button = QPushButton("Apply")
            button.setAccessibleName(f"Apply {suggestion.sentence}")
            button.setToolTip("Write it into the run file; can be undone")
            button.clicked.connect(lambda: self._asked(dict(suggestion.change)))
            row.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
            self.buttons.append(button)
        return made
