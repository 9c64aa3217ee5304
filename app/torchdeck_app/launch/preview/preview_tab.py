"""Tab of the preview: a scrolled column of panels, with figures, sentences and the newest answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QSizePolicy, QStackedLayout, QVBoxLayout, QWidget
from shiboken6 import isValid

from torchdeck.plan.preview import Preview
from torchdeck.use_cases.previewer import UNTRACED
from torchdeck_app.bridge.operations import Operation, Operations
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import ElidedLabel
from torchdeck_app.widgets.panel import GRID, EmptyState, label


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


class Figure(QWidget):
    """Number over its caption."""

    def __init__(self, caption: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.number: QLabel = label("–", Type.HEADING)
        self.caption: QLabel = label(caption, Type.SMALL, "secondary")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for text in (self.number, self.caption):
            text.setTextFormat(Qt.TextFormat.PlainText)
            layout.addWidget(text)

    def show_number(self, text: str, caption: str, exact: str = "") -> None:
        """Show the number; `exact` is the tooltip."""
        self.number.setText(text)
        self.caption.setText(caption)
        self.setToolTip(exact)
        self.setAccessibleName(f"{caption}: {text}")


# Clauses of the engine as sentences of the window.


def sentence(text: str) -> str:
    """Return `text` with a capital letter and a period; empty stays empty."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def once_traced(preview: Preview, what: str) -> str:
    """Return why a recipe's preview lacks `what`: its model is being traced, or something prevented that."""
    if UNTRACED in preview.known.remarks:
        return "Available when the memory estimate is done (running)."
    said = " ".join(sentence(note) for note in preview.notes)
    return f"{what} is available once memory has been estimated. {said}".strip()


T = TypeVar("T")
_NOTICED = 200
"""Milliseconds after which a wait is reported."""


class Latest(QObject, Generic[T]):
    """Runner of one query at a time off the GUI thread; older queries are dropped for the newest."""

    answered = Signal(object)
    failed = Signal(Exception)
    waiting = Signal()
    """Emitted if the answer does not come at once."""
    settled = Signal()
    """Emitted when nothing is pending any more."""

    def __init__(self, operations: Operations, name: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._operations = operations
        self._name = name
        self._running: Operation[T] | None = None
        self._next: Callable[[], T] | None = None
        self._wanted = False
        self._late = QTimer(self, singleShot=True, interval=_NOTICED)
        self._late.timeout.connect(self.waiting)

    def ask(self, call: Callable[[], T]) -> None:
        """Answer `call()`, which must touch no widget, as soon as the current query is over."""
        self._wanted = True
        if not self._late.isActive():
            self._late.start()
        if self._running is not None:
            self._next = call
            return
        self._start(call)

    def forget(self) -> None:
        """Drop all queries."""
        self._wanted, self._next = False, None
        self._settle()

    def _start(self, call: Callable[[], T]) -> None:
        self._next = None
        operation = self._operations.run(self._name, lambda _progress, _cancel: call())
        self._running = operation
        operation.succeeded.connect(lambda value: self._over(lambda: self.answered.emit(value)))
        operation.failed.connect(lambda error: self._over(lambda: self.failed.emit(error)))
        operation.cancelled.connect(lambda: self._over(lambda: None))

    def _over(self, deliver: Callable[[], None]) -> None:
        if not isValid(self):  # its tab was closed meanwhile
            return
        self._running = None
        if self._next is not None:
            self._start(self._next)
        elif self._wanted:
            self._wanted = False
            self._settle()
            deliver()

    def _settle(self) -> None:
        self._late.stop()
        self.settled.emit()


# Labels for texts from files.


def line_label(kind: Type = Type.BODY, role: str = "") -> ElidedLabel:
    """Create a one-line label that takes the available width and is elided if needed."""
    made = ElidedLabel()
    made.setFont(font(kind))
    if role:
        made.setProperty("role", role)
    made.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    made.setFixedHeight(made.fontMetrics().height())
    return made


def wrapped_label(kind: Type = Type.BODY, role: str = "") -> QLabel:
    """Create a label whose lines wrap."""
    made = label(kind=kind, role=role, wrap=True)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return made
