"""Table control with user-defined keys: one row of name and value each."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from torchdeck.config.toml.document import KeyPath
from torchdeck_app.launch.form.base_control import Control, SmallButton, ValueLine
from torchdeck_app.launch.form.codecs import ANYTHING, TEXT, Codec, UnreadableError
from torchdeck_app.launch.form.form_edits import renaming, resetting, setting
from torchdeck_app.launch.form.form_state import FieldState
from torchdeck_app.theme.theme import Theme


class PairRow(QWidget):
    """Row with a name and its value."""

    def __init__(self, theme: Theme, table: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.name, self.value = ValueLine(), ValueLine()
        self.remove = SmallButton(theme, "close", "Remove this row")
        self.key = ""
        """The name in the file; empty for a row that is not in it yet."""
        self.name.setPlaceholderText("name")
        self.value.setPlaceholderText("value")
        self.name.setAccessibleName(f"{table}: name")
        self.value.setAccessibleName(f"{table}: value")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.name, 1)
        layout.addWidget(self.value, 1)
        layout.addWidget(self.remove)


class PairsControl(Control):
    """Control for pairs. A row is written once it has a name; a value without one waits for it."""

    def __init__(self, theme: Theme, state: FieldState, parent: QWidget | None = None) -> None:
        super().__init__(state, parent)
        self._theme = theme
        self._codec: Codec = TEXT if state.key.path == ("run", "env") else ANYTHING
        self.rows: list[PairRow] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(4)
        self.add = QPushButton("Add")
        self.add.setAccessibleName(f"add to {state.key.name}")
        self.add.setToolTip("Add a name and its value")
        self.add.clicked.connect(self._begin)
        self.beside = self.add
        self.show_state(state)

    def show_state(self, state: FieldState) -> None:
        super().show_state(state)
        pairs = dict(state.value or {})
        waiting = [row for row in self.rows if not row.key and row.name.text() not in pairs]
        for row in self.rows:
            if row not in waiting:
                row.setVisible(False)
        spare = [row for row in self.rows if row not in waiting]
        self.rows = []
        for index, (key, value) in enumerate(pairs.items()):
            row = spare.pop(0) if spare else self._new_row()
            self._column.insertWidget(index, row)
            row.setVisible(True)
            row.key = key
            row.name.show_text(key)
            row.value.show_text(self._codec.show(value))
            self.rows.append(row)
        for row in spare:
            row.deleteLater()
        self.rows += waiting

    def set_writable(self, *, writable: bool) -> None:
        self.add.setEnabled(writable)
        for row in self.rows:
            row.setEnabled(writable)

    def _new_row(self) -> PairRow:
        row = PairRow(self._theme, self.state.key.name)
        row.name.entered.connect(lambda text: self._enter_name(row, text))
        row.value.entered.connect(lambda text: self._enter_value(row, text))
        row.remove.clicked.connect(lambda: self._remove(row))
        return row

    def _begin(self) -> None:
        row = self._new_row()
        self._column.insertWidget(len(self.rows), row)
        self.rows.append(row)
        row.name.setFocus()

    def _path(self, key: str) -> KeyPath:
        return (*self.state.path, key)

    def _enter_name(self, row: PairRow, name: str) -> None:
        if not row.key:
            if name and row.value.text():
                self._enter_value(row, row.value.text())
            return
        if not name:
            self._remove(row)
        elif name != row.key:
            self.ask(renaming(self._path(row.key), name))

    def _enter_value(self, row: PairRow, text: str) -> None:
        name = row.key or row.name.text()
        if not name:
            return
        try:
            typed = self._codec.read(text)
        except UnreadableError as error:
            row.value.refuse()
            self.refused.emit(str(error))
            return
        self.ask(setting(self._path(name), typed.value, typed.literal))

    def _remove(self, row: PairRow) -> None:
        if row.key:
            self.ask(resetting(self._path(row.key)))
            return
        self.rows.remove(row)
        row.deleteLater()
