"""A tab of the preview: a scrolled column of panels, or why there is nothing to see."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QStackedLayout, QVBoxLayout, QWidget

from torchdeck.plan.preview import Preview
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.empty_state import EmptyState
from torchdeck_app.widgets.panel import GRID


class PreviewTab(QWidget):
    """Shows the newest preview, but only while it is seen: an edit costs what is in sight."""

    title = ""
    icon = "launch"

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._preview: Preview | None = None
        self._why = ""
        self._due = False
        self._empty = EmptyState(theme, self.icon, self.title, "")
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self._empty)

    def show_preview(self, preview: Preview | None, why: str = "") -> None:
        """Show `preview`; `why` says why there is none."""
        self._preview, self._why, self._due = preview, why, True
        if self.isVisible():
            self._catch_up()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        super().showEvent(event)
        self._catch_up()

    def missing(self, preview: Preview) -> str:
        """Why `preview` has nothing for this tab, and what would help; empty where it has."""
        raise NotImplementedError

    def fill(self, preview: Preview) -> None:
        """Show what there is."""
        raise NotImplementedError

    def clear(self) -> None:
        """Nothing is shown any more: forget what was asked."""

    def add_content(self, content: QWidget) -> None:
        """What is seen where there is something."""
        self._stack.addWidget(content)

    def _catch_up(self) -> None:
        if not self._due:
            return
        self._due = False
        preview = self._preview
        lack = (self._why or "There is no preview yet.") if preview is None else self.missing(preview)
        if preview is None or lack:
            self._empty.set_sentence(lack)
            self.clear()
            self._stack.setCurrentIndex(0)
            return
        self.fill(preview)
        self._stack.setCurrentIndex(1)


class Column(QScrollArea):
    """Panels below each other, scrolled where they do not fit."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        inside = QWidget()
        self._layout = QVBoxLayout(inside)
        self._layout.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        self._layout.setSpacing(2 * GRID)
        self._layout.addStretch(1)
        self.setWidget(inside)

    def add(self, widget: QWidget) -> None:
        """Put `widget` below what is there."""
        self._layout.insertWidget(self._layout.count() - 1, widget)
