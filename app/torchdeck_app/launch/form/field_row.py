"""Field of the form: marker, name, control, unit, reset, and its problems below."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QEnterEvent, QMouseEvent, QPalette
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from torchdeck.config.basic_settings import finds
from torchdeck.config.toml.document import KeyPath
from torchdeck_app.launch.form.base_control import Control, SmallButton
from torchdeck_app.launch.form.control_factory import is_wide, make_control, unit_of
from torchdeck_app.launch.form.environment_field import INTERPRETER, EnvironmentSearch, InterpreterControl
from torchdeck_app.launch.form.field_messages import FieldMessages
from torchdeck_app.launch.form.form_edits import adding, removing
from torchdeck_app.launch.form.form_groups import keys_of_many
from torchdeck_app.launch.form.form_state import FieldState, Kind, kind_of
from torchdeck_app.launch.form.gpu_field import DEVICES, FreeGpuSearch, GpuControl
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import ElidedLabel, plain_tip
from torchdeck_app.widgets.panel import GRID, label

_TOOLTIP = 80
"""Maximum characters per line of the tooltip."""
MARK = 16
NAME = 148
UNIT = 104
RESET = 28
"""Widths of the columns, including the space between them."""
CONTROL = 13 * GRID
"""Minimum width of a control."""


class FieldRow(QWidget):
    """Row that shows one FieldState; only changes are updated."""

    asked = Signal(object)
    """Emitted with a NamedEdit."""
    help_asked = Signal(object)
    """Emitted with the key whose name is clicked."""

    def __init__(
        self,
        theme: Theme,
        state: FieldState,
        folder: Callable[[], Path],
        parent: QWidget | None = None,
        *,
        node_names: Callable[[], Sequence[str]] = tuple,
        environments: EnvironmentSearch | None = None,
        free_gpus: FreeGpuSearch | None = None,
    ) -> None:
        """Args:
        theme: theme of the window.
        state: initial state.
        folder: base of relative paths.
        parent: Qt parent.
        node_names: names in the node inventory.
        environments: finds the Pythons that a run could use.
        free_gpus: finds GPUs that nothing uses.
        """
        super().__init__(parent)
        self._theme = theme
        self._node_names = node_names
        self._environments = environments
        self._free_gpus = free_gpus
        self._folder = folder
        self._state: FieldState | None = None
        self._kind: Kind | None = None
        self._refusal = ""
        self._writable = True
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(0)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnMinimumWidth(0, MARK)
        self._grid.setColumnStretch(2, 1)
        self.mark = label("")
        self.mark.setAlignment(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop)
        self.mark.setContentsMargins(0, 4, 4, 0)
        self.mark.setFixedWidth(MARK)
        self._add_name(state)
        self.reset: SmallButton | None = None
        """There once it was wanted."""
        self._grid.addWidget(self.mark, 0, 0, Qt.AlignmentFlag.AlignTop)
        self._grid.setColumnMinimumWidth(4, RESET)
        self.messages = FieldMessages()
        self.messages.asked.connect(self.asked)
        self._grid.addWidget(self.messages, 2, 1, 1, 4)
        self.control: Control
        self.show_state(state)

    def _add_name(self, state: FieldState) -> None:
        """Add the label, over the key as it is written in a file."""
        self.name = QWidget()
        self.name.setFixedWidth(NAME)
        self.name.setToolTip(plain_tip(f"{tooltip(state)}\nClick for all help."))
        self.name.setCursor(Qt.CursorShape.PointingHandCursor)
        path = state.key.path  # a heading names the inner table
        key = ElidedLabel(state.key.name if len(path) <= 2 else path[-1])
        key.setFont(font(Type.SMALL))
        key.setProperty("role", "secondary")
        column = QVBoxLayout(self.name)
        column.setContentsMargins(0, 0, 4, 0)
        column.setSpacing(0)
        column.addWidget(label(state.key.label, wrap=True))
        column.addWidget(key)
        self._grid.addWidget(self.name, 0, 1, Qt.AlignmentFlag.AlignTop)

    @property
    def state(self) -> FieldState:
        """Return the state shown."""
        return self.control.state

    def show_state(self, state: FieldState) -> None:
        """Show `state`; does nothing if it is shown already."""
        if state == self._state:
            return
        before, self._state = self._state, state
        kind = kind_of(state.key, state.value)
        if kind is not self._kind:
            self._replace_control(kind, state)
        elif before is None or state.path == before.path:
            self.control.show_state(state)
        if before is not None and before.value != state.value:
            self._refusal = ""
        marked = state.changed and kind is not Kind.TABLES
        self.mark.setText("•" if marked else "")
        self.mark.setToolTip("Changed from its default" if marked else "")
        self._show_messages()
        self._show_reset()

    def set_writable(self, *, writable: bool) -> None:
        """Set whether it accepts edits."""
        self._writable = writable
        self.control.set_writable(writable=writable)
        self._show_reset()
        if self._state is not None and self._state.remedies:
            self._show_messages()

    def matches(self, words: list[str]) -> bool:
        """Return whether the field, or one of its tables' fields, has all of `words` (lower case)."""
        key = self.state.key
        keys = [key, *(keys_of_many(key) if key.repeated else ())]
        return any(finds(one, words) for one in keys)

    def take_focus(self, path: KeyPath = ()) -> None:
        """Focus this field; among several tables, the field of the key at `path`."""
        if isinstance(self.control, TablesControl):
            inner = self.control.row_at(path)
            if inner is not None:
                inner.take_focus()
                return
        control = self.control
        target = control.focusProxy() or control.beside or control.nextInFocusChain() or control
        target.setFocus(Qt.FocusReason.TabFocusReason)

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802 - Qt's name
        super().enterEvent(event)
        self._show_reset()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802 - Qt's name
        super().leaveEvent(event)
        self._show_reset()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802 - Qt's name
        super().mouseReleaseEvent(event)
        if self.name.geometry().contains(event.position().toPoint()):
            event.accept()
            self.help_asked.emit(self.state.key)

    def set_pointed(self, *, is_pointed: bool) -> None:
        """Mark it as the field of the text's cursor."""
        self.setAutoFillBackground(is_pointed)
        self.setBackgroundRole(QPalette.ColorRole.AlternateBase)

    def focus_moved(self) -> None:
        """Handle focus gained or lost."""
        self._show_reset()

    def _make_control(self, kind: Kind, state: FieldState) -> Control:
        if kind is Kind.TABLES:
            return TablesControl(self._theme, state, self._make_inner)
        if state.key.path == INTERPRETER and self._environments is not None:
            return InterpreterControl(self._theme, state, self._folder, self._environments)
        if state.path == DEVICES and kind is Kind.WORD_OR_LINE and self._free_gpus is not None:
            return GpuControl(self._theme, state, self._free_gpus)
        return make_control(self._theme, kind, state, self._folder, self._node_names)

    def _make_inner(self, state: FieldState) -> FieldRow:
        row = FieldRow(self._theme, state, self._folder)
        row.asked.connect(self.asked)
        row.help_asked.connect(self.help_asked)
        return row

    def _replace_control(self, kind: Kind, state: FieldState) -> None:
        if self._kind is not None:
            for old in (self.control, self.control.beside):
                if old is not None:
                    self._grid.removeWidget(old)
                    old.deleteLater()
        self._kind = kind
        self.control = self._make_control(kind, state)
        self.control.asked.connect(self.asked)
        self.control.refused.connect(self._refuse)
        self.control.setToolTip(plain_tip(tooltip(state)))
        (self.control.focusProxy() or self.control).setAccessibleDescription(
            f"{state.key.label}. {state.key.description}"
        )
        self.control.set_writable(writable=self._writable)
        if kind is Kind.TABLES:
            self.name.setVisible(False)
            self._grid.addWidget(self.control, 0, 1, 1, 4)
            return
        if self.control.beside is not None:
            self._grid.addWidget(self.control.beside, 0, 2, 1, 2, Qt.AlignmentFlag.AlignLeft)
            self._grid.addWidget(self.control, 1, 1, 1, 3)
            return
        wide = is_wide(kind, state.key)
        self._grid.addWidget(self.control, 0, 2, 1, 2 if wide else 1)
        self._grid.setColumnMinimumWidth(3, UNIT)
        unit = unit_of(state.key)
        if unit:
            shown = label(unit, role="secondary")
            shown.setContentsMargins(4, 0, 0, 0)
            shown.setFixedWidth(UNIT)
            self._grid.addWidget(shown, 0, 3, Qt.AlignmentFlag.AlignVCenter)

    def _reset(self) -> None:
        self.control.ask_reset()

    def refuse(self, why: str) -> None:
        """Show below the control why its value cannot be written."""
        self._refuse(why)

    def _refuse(self, why: str) -> None:
        self._refusal = why
        self._show_messages()

    def _show_messages(self) -> None:
        self.messages.show_state(self._state, self._refusal, writable=self._writable)

    def _show_reset(self) -> None:
        state = self._state
        focused = self.focusWidget() is not None and self.focusWidget().hasFocus()
        wanted = state is not None and state.own and not state.entries and self._writable
        wanted = wanted and (self.underMouse() or focused)
        if wanted and self.reset is None:
            self.reset = SmallButton(self._theme, "reset", "Reset to the default")
            self.reset.setAccessibleName(f"reset {self.state.key.name} to its default")
            self.reset.clicked.connect(self._reset)
            self._grid.addWidget(
                self.reset, 0, 4, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
            )
        if self.reset is not None:
            self.reset.setVisible(bool(wanted))

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(MARK + NAME + CONTROL + UNIT, super().minimumSizeHint().height())


def tooltip(state: FieldState) -> str:
    """Return the description of the field, wrapped to fit a screen."""
    key = state.key
    return "\n".join(textwrap.wrap(f"{key.name}: {key.description} Expected: {key.expected}.", _TOOLTIP))


def row_around(widget: QWidget | None, form: QWidget) -> FieldRow | None:
    """Return the innermost field of `form` around `widget`."""
    if widget is None or not form.isAncestorOf(widget):
        return None
    while widget is not None and widget is not form:
        if isinstance(widget, FieldRow):
            return widget
        widget = widget.parentWidget()
    return None


# Tables that may be there many times: a card for each, with its rows.

BEGINNINGS: Mapping[tuple[str, ...], Mapping[str, Any]] = {
    ("cluster", "nodes"): {"name": "node[0-1]", "gpus": 8, "gpu": "H100"},
}
"""Initial values that make a new table valid."""


class TableCard(QFrame):
    """Card of one table."""

    def __init__(self, theme: Theme, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "panel")
        self.setAccessibleName(title)
        self.rows: list[FieldRow] = []
        self.remove = SmallButton(theme, "delete", f"Remove {title}")
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(4, 4, 4, GRID)
        self.column.setSpacing(4)
        header = QHBoxLayout()
        header.setContentsMargins(12, 0, 0, 0)
        header.addWidget(label(title, role="secondary"), 1)
        header.addWidget(self.remove)
        self.column.addLayout(header)


class TablesControl(Control):
    """Control with a card per table, and a button that adds one."""

    def __init__(
        self,
        theme: Theme,
        state: FieldState,
        make_row: Callable[[FieldState], FieldRow],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(state, parent)
        self._theme = theme
        self._make_row = make_row
        self.cards: list[TableCard] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(GRID)
        self.add = QPushButton("Add machines" if state.path == ("cluster", "nodes") else "Add")
        self.add.setAccessibleName(f"add to {state.key.name}")
        self.add.setToolTip(state.key.description)
        self.add.clicked.connect(self._add)
        self._column.addWidget(self.add, alignment=Qt.AlignmentFlag.AlignLeft)
        self.show_state(state)

    def show_state(self, state: FieldState) -> None:
        super().show_state(state)
        while len(self.cards) > len(state.entries):
            self.cards.pop().deleteLater()
        for index, fields in enumerate(state.entries):
            if index == len(self.cards):
                self._append(fields)
            for row, field in zip(self.cards[index].rows, fields, strict=True):
                row.show_state(field)

    def set_writable(self, *, writable: bool) -> None:
        self.add.setEnabled(writable)
        for card in self.cards:
            card.setEnabled(writable)

    def row_at(self, path: KeyPath) -> FieldRow | None:
        """Return the row of the key at `path`."""
        rows = (row for card in self.cards for row in card.rows)
        return next((row for row in rows if path and path[: len(row.state.path)] == row.state.path), None)

    def _append(self, fields: tuple[FieldState, ...]) -> None:
        index = len(self.cards)
        card = TableCard(self._theme, f"{self.state.key.path[-1]} {index + 1}")
        card.remove.clicked.connect(lambda: self.ask(removing((*self.state.path, index))))
        for field in fields:
            row = self._make_row(field)
            card.rows.append(row)
            card.column.addWidget(row)
        self.cards.append(card)
        self._column.insertWidget(index, card)

    def _add(self) -> None:
        self.ask(adding(self.state.path, BEGINNINGS.get(self.state.key.path, {})))
