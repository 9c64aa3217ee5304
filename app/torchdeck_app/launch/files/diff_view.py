"""Comparison of two run files: their keys in a table, or their lines."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import unified_diff
from typing import Any, Literal, NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtGui import QTextBlockFormat, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import (
    QHeaderView,
    QPlainTextEdit,
    QTabWidget,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from torchdeck.config.keys import Key, all_keys
from torchdeck.config.problems import shown as shown_value
from torchdeck.config.toml.document import parse
from torchdeck.config.toml.merge import Absent, Difference, as_shown, differences
from torchdeck.shown_text import shown
from torchdeck_app.launch.document.checked_text import plain, same_value
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.palette import ColourName
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import label

_COLOURS: Mapping[str, ColourName] = {"added": "good", "removed": "bad", "place": "secondary", "same": "text"}


class DiffView(QWidget):
    """View of differences by key if both are TOML, and always by line."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._texts = ("", "")
        self._names = ("", "")
        self.summary = label(role="secondary", wrap=True)
        self.summary.setTextFormat(Qt.TextFormat.PlainText)
        self.keys = QTreeWidget()
        self.keys.setAccessibleName("Keys that differ")
        self.keys.setRootIsDecorated(False)
        self.keys.setAlternatingRowColors(True)
        self.keys.setColumnCount(3)
        self.lines = QPlainTextEdit()
        self.lines.setAccessibleName("Lines that differ")
        self.lines.setReadOnly(True)
        self.lines.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.lines.setFont(font(Type.MONO))
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.addTab(self.keys, "By &key")
        self.tabs.addTab(self.lines, "By &line")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.summary)
        layout.addWidget(self.tabs, 1)
        layout.addStretch(0)  # while there is nothing to compare
        self.tabs.hide()
        theme.changed.connect(self._draw)

    def show_texts(self, before: str, after: str, names: tuple[str, str]) -> None:
        """Show the changes from `before` to `after`; `names` are their labels."""
        self._texts, self._names = (before, after), names
        self._draw()
        self.tabs.setVisible(before != after)

    def _draw(self) -> None:
        self._draw_lines()
        self.keys.clear()
        self.keys.setHeaderLabels(["Key", *self._names])
        try:
            rows = by_key(*self._texts)
        except ValueError as error:
            self.summary.setText(f"By line only: one of the two is not valid TOML: {error}")
            self.tabs.setTabEnabled(0, False)  # noqa: FBT003 - Qt's own
            return
        self.tabs.setTabEnabled(0, True)  # noqa: FBT003 - Qt's own
        same = (
            "Nothing differs"
            if self._texts[0] == self._texts[1]
            else "All keys are the same; comments or order differ"
        )
        self.summary.setText(
            same if not rows else f"{len(rows)} key{'s' * (len(rows) > 1)} differ{'s' * (len(rows) == 1)}"
        )
        for row in rows:
            item = QTreeWidgetItem([shown(cell) for cell in row])
            for column in range(3):
                item.setFont(column, font(Type.MONO))
                item.setToolTip(column, plain_tip(row[column]))
            item.setForeground(1, self._theme.colour("bad"))
            item.setForeground(2, self._theme.colour("good"))
            self.keys.addTopLevelItem(item)
        for column in range(3):
            self.keys.header().setSectionResizeMode(column, QHeaderView.ResizeMode.Stretch)

    def _draw_lines(self) -> None:
        self.lines.clear()
        cursor = QTextCursor(self.lines.document())
        for index, line in enumerate(by_line(*self._texts)):
            if index:
                cursor.insertBlock(QTextBlockFormat())
            look = QTextCharFormat()
            look.setForeground(self._theme.colour(_COLOURS[line.kind]))
            cursor.insertText(line.text, look)


# Differences between two run files, by key and by line.


class DiffLine(NamedTuple):
    """Line of a unified diff."""

    kind: Literal["same", "added", "removed", "place"]
    text: str


class DiffRow(NamedTuple):
    """Key that differs."""

    key: str
    before: str
    after: str


def by_line(before: str, after: str) -> list[DiffLine]:
    """Return a unified diff; empty if the texts are equal."""
    kinds: dict[str, Literal["added", "removed", "place"]] = {"+": "added", "-": "removed", "@": "place"}
    lines = unified_diff(before.splitlines(), after.splitlines(), lineterm="")
    return [DiffLine(kinds.get(line[:1], "same"), line) for line in list(lines)[2:]]


def by_key(before: str, after: str) -> list[DiffRow]:
    """Return every key whose effective value differs; a missing key has its default.

    Raises:
        ValueError: one of the texts is not TOML.
    """
    old, new = parse(before), parse(after)
    keys = dict(all_keys(_recipe(old))) | dict(all_keys(_recipe(new)))
    return [
        DiffRow(
            item.name,
            _value(item.before, keys.get(item.path)),
            _value(item.after, keys.get(item.path)),
        )
        for item in differences(old, new)
        if not _is_same(item, keys.get(item.path))
    ]


def _recipe(table: dict[str, Any]) -> str | None:
    run = table.get("run")
    name = run.get("recipe") if isinstance(run, dict) else None
    return name if isinstance(name, str) else None


def _is_same(item: Difference, key: Key | None) -> bool:
    """Return whether both are equal in effect: one is the default, or the same value in another notation,
    such as a size.
    """
    if key is None:
        return False
    one, other = (
        key.default if isinstance(value, Absent) else plain(key, value) for value in (item.before, item.after)
    )
    return one is not None and other is not None and same_value(one, other)


def _value(value: object, key: Key | None) -> str:
    if not isinstance(value, Absent):
        return as_shown(value)
    if key is None or key.default is None:
        return "–"
    default = list(key.default) if isinstance(key.default, tuple) else key.default
    return f"– (default {shown_value(default)})"
