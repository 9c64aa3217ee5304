"""Who sits before the form of a run file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.form.environment_field import EnvironmentSearch
from torchdeck_app.launch.form.field_row import FieldRow
from torchdeck_app.launch.form.form import ConfigForm
from torchdeck_app.launch.form.gpu_field import FreeGpuSearch
from torchdeck_app.theme.theme import Theme


class User:
    """Who sits before the form."""

    def __init__(
        self,
        qtbot: QtBot,
        theme: Theme,
        folder: Path,
        node_names: Sequence[str] = (),
        search: Callable[[RunDocument], EnvironmentSearch] | None = None,
        free_gpus: FreeGpuSearch | None = None,
    ) -> None:
        self.bot = qtbot
        self.document = RunDocument(folder)
        self.search = None if search is None else search(self.document)
        self.form = ConfigForm(
            theme,
            self.document,
            node_names=lambda: node_names,
            environments=self.search,
            free_gpus=free_gpus,
        )
        self.form.resize(480, 640)

    def open(self, text: str, path: Path | None = None) -> None:
        """Open a document, and wait for the form to show it."""
        self.document.load(text, path)
        self.form.show()
        self.settle()
        self.bot.waitActive(self.form).__enter__()

    def settle(self) -> None:
        """Wait until the text of now is checked and shown."""

        def is_checked() -> bool:
            newest = self.document.newest
            return newest is not None and newest.version == self.document.version

        self.bot.waitUntil(is_checked, timeout=10_000)

    def row(self, name: str) -> FieldRow:
        """The field of a key, brought into view."""
        self.form.reveal(name)
        path = tuple(name.split("."))
        rows = (group.row_at(path) for group in self.form.groups.values() if group.has(path))
        row = next(rows, None)
        assert row is not None
        return row

    def line(self, name: str) -> QLineEdit:
        found: QLineEdit = self.within(name, QLineEdit)
        return found

    def within(self, name: str, kind: type[Any]) -> Any:
        found = self.row(name).findChildren(kind)
        assert found
        return found[0]

    def type(self, line: QLineEdit, text: str, *, enter: bool = True) -> None:
        """Replace what stands in a line, as with the keyboard."""
        line.setFocus()
        line.selectAll()
        self.bot.keyClick(line, Qt.Key.Key_Delete)
        self.bot.keyClicks(line, text)
        if enter:
            self.bot.keyClick(line, Qt.Key.Key_Return)
            self.settle()

    @property
    def table(self) -> dict[str, Any]:
        return tomllib.loads(self.document.text)


def messages(row: FieldRow) -> list[str]:
    return row.messages.texts()
