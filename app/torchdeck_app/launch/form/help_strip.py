"""Help for the focused field: two lines on a strip, or all of it with default, example and reference."""

from __future__ import annotations

import textwrap

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPalette, QResizeEvent, QTextLayout
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from torchdeck.config.documentation import KeyHelp, help_of
from torchdeck.config.keys import Key
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.widgets.help import HelpLink
from torchdeck_app.widgets.panel import GRID, label

_LINES = 2
_TOOLTIP = 80
_CODE = ("Default", "In the file", "Command line")
"""Facts in a fixed-width face."""
_HIGHEST = 260
_LOWEST = 80
"""Heights of the whole help in pixels; it scrolls if it is higher."""


class HelpStrip(QFrame):
    """Strip with the key's name as in the file, and the beginning of its help; opened, it shows all of it."""

    opened = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._whole = ""
        self.name = label(kind=Type.MONO)
        self.toggle = QToolButton()
        self.toggle.setCheckable(True)
        self.toggle.setAutoRaise(True)
        self.toggle.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # F1 in a field is its key
        self.toggle.setProperty("role", "link")
        self.toggle.setToolTip("Show all help of this setting, with default and example (F1)")
        self.toggle.toggled.connect(self._open)
        policy = self.toggle.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.toggle.setSizePolicy(policy)
        self.text: QLabel = label(role="secondary", wrap=True)
        self.text.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.text.setFixedHeight(_LINES * self.text.fontMetrics().lineSpacing())
        for shown in (self.name, self.text):
            shown.setTextFormat(Qt.TextFormat.PlainText)
        self.full = FullHelp()
        self.full.hide()
        top = QHBoxLayout()
        top.setContentsMargins(2 * GRID, 0, GRID, 0)
        top.addWidget(self.name, 1)
        top.addWidget(self.toggle)
        self.text.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        line = QWidget()
        line.setFixedHeight(1)
        line.setAutoFillBackground(True)
        line.setBackgroundRole(QPalette.ColorRole.Mid)
        column.addWidget(line)
        column.addLayout(top)
        column.addWidget(self.text)
        column.addWidget(self.full)
        column.addSpacing(4)
        self.clear()

    @property
    def is_open(self) -> bool:
        return self.toggle.isChecked()

    def set_open(self, *, is_open: bool) -> None:
        """Show all help, or its beginning."""
        self.toggle.setChecked(is_open)

    def show_key(self, key: Key) -> None:
        """Explain `key`."""
        self.name.setText(key.name)
        self.toggle.setVisible(True)
        self.full.show_help(help_of(key))
        self._show(f"{key.description} Expected: {key.expected}.")
        self._open(self.is_open)

    def clear(self) -> None:
        """Show the placeholder."""
        self.name.setText(" ")
        self._show("Click a setting to see what it does.")
        self.toggle.setVisible(False)
        self.full.hide()
        self.text.show()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.key() == Qt.Key.Key_Escape and self.is_open:
            self.set_open(is_open=False)
        else:
            super().keyPressEvent(event)

    def _open(self, is_open: bool) -> None:  # noqa: FBT001 - what the signal brings
        self.toggle.setText("Less help" if is_open else "More help")
        self.toggle.setAccessibleName("help of this setting in full")
        has_key = not self.toggle.isHidden()
        self.full.setVisible(is_open and has_key)
        self.text.setVisible(not (is_open and has_key))
        self.opened.emit(is_open)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        self._fit()

    def _show(self, text: str) -> None:
        self._whole = text
        self.text.setToolTip("\n".join(textwrap.wrap(text, _TOOLTIP)))
        self._fit()

    def _fit(self) -> None:
        """Fit the text to its lines, the last one with an ellipsis."""
        width = self.width() - 4 * GRID
        layout = QTextLayout(self._whole, self.text.font())
        layout.beginLayout()
        starts: list[int] = []
        line = layout.createLine()
        while line.isValid():
            line.setLineWidth(width)
            starts.append(line.textStart())
            line = layout.createLine()
        layout.endLayout()
        text = self._whole
        if len(starts) > _LINES:
            at = starts[_LINES - 1]
            elided = self.text.fontMetrics().elidedText(text[at:], Qt.TextElideMode.ElideRight, width)
            text = text[:at] + elided
        self.text.setText(text)


class FullHelp(QScrollArea):
    """All help of one setting, as high as it needs up to a part of the window."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._texts = QWidget()
        self._description = _text()
        self.link = HelpLink()
        self.link.setText("Open the reference")
        self.link.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._grid = QGridLayout()
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(2 * GRID)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(1, 1)
        self._column = QVBoxLayout(self._texts)
        self._column.setContentsMargins(2 * GRID, 0, 2 * GRID, GRID)
        self._column.setSpacing(4)
        self._column.addWidget(self._description)
        self._column.addLayout(self._grid)
        self._column.addWidget(self.link, 0, Qt.AlignmentFlag.AlignLeft)
        self._column.addStretch(1)
        self.setWidget(self._texts)
        self._shown: KeyHelp | None = None
        self._rows: list[tuple[QLabel, QLabel]] = []
        """Labels of the facts, kept for the next key."""

    def show_help(self, shown: KeyHelp) -> None:
        """Show the help of another key."""
        if shown == self._shown:
            return
        self._shown = shown
        self._description.setText(shown.description)
        while len(self._rows) < len(shown.facts):
            self._add_row()
        for index, row in enumerate(self._rows):
            name, text = shown.facts[index] if index < len(shown.facts) else ("", "")
            row[0].setText(name)
            row[1].setFont(font(Type.MONO if name in _CODE else Type.BODY))
            row[1].setText(text)
            for each in row:
                each.setVisible(bool(name))
        self.link.set_page(shown.page)
        self.link.setToolTip("Open the reference of this setting (Shift+F1)")
        self.updateGeometry()

    def text(self) -> str:
        """Return all of it, line by line."""
        rows = [f"{name.text()}: {value.text()}" for name, value in self._rows if name.text()]
        return "\n".join([self._description.text(), *rows])

    def _add_row(self) -> None:
        row = _text("secondary"), _text()
        for column, each in enumerate(row):
            self._grid.addWidget(each, len(self._rows), column, Qt.AlignmentFlag.AlignTop)
        self._rows.append(row)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        width = self.width() or super().sizeHint().width()
        return QSize(width, min(self._column.totalHeightForWidth(width), _HIGHEST))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(0, min(self.sizeHint().height(), _LOWEST))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self.updateGeometry()


def _text(role: str = "") -> QLabel:
    """Return a label for a text of several lines, which can be selected if it has no role."""
    made = label(role=role, wrap=True)
    made.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
    if not role:
        made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return made
