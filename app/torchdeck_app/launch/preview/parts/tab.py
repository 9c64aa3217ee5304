"""Tab of the preview: a scrolled column of panels, or the reason why it is empty."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QStackedLayout, QVBoxLayout, QWidget

from torchdeck.plan.preview import Preview
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.panel import GRID, EmptyState


class PreviewTab(QWidget):
    """Tab that shows the newest preview only while visible, so that an edit updates no hidden tab."""

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
        """Show `preview`; `why` is the reason if there is none."""
        self._preview, self._why, self._due = preview, why, True
        if self.isVisible():
            self._catch_up()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 - Qt's name
        super().showEvent(event)
        self._catch_up()

    def missing(self, preview: Preview) -> str:
        """Return why `preview` has nothing for this tab, and the fix; empty if it has."""
        raise NotImplementedError

    def fill(self, preview: Preview) -> None:
        """Show the content."""
        raise NotImplementedError

    def clear(self) -> None:
        """Clear the tab and drop pending queries."""

    def add_content(self, content: QWidget) -> None:
        """Add the widget that is shown if there is content."""
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
    """Column of panels that scrolls if they do not fit."""

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
        """Append `widget` at the bottom."""
        self._layout.insertWidget(self._layout.count() - 1, widget)
