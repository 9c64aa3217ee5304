"""Changes since a run: its frozen run file against the document."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path
from time import strptime
from typing import Any, Literal, NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtGui import QTextBlockFormat, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
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
from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.bounded_json import JsonError, parse_json_object
from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import moment
from torchdeck.runs.folders.origin import frozen_run_file
from torchdeck.runs.registry import RunRegistry
from torchdeck.shown_text import shown
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.document.checked_text import plain, same_value
from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.palette import ColourName
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.inputs import NamedBox
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, label


class DiffDialog(QDialog):
    """Dialog that reads the runs off the GUI thread."""

    def __init__(
        self,
        theme: Theme,
        operations: Operations,
        home: Path,
        text: str,
        name: str,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("What changed since a run")
        self.resize(760, 520)
        self._operations, self._home = operations, home
        self._text, self._name = text, name
        self._wanted = ""
        self.chooser = NamedBox()
        self.chooser.setAccessibleName("Run")
        self.chooser.setToolTip("The run to compare with")
        self.chooser.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.chooser.activated.connect(lambda _index: self._read_chosen())
        self.view = DiffView(theme)
        caption = label("Since &run")
        caption.setBuddy(self.chooser)
        row = QHBoxLayout()
        row.setSpacing(GRID)
        row.addWidget(caption)
        row.addWidget(self.chooser, 1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        layout.setSpacing(GRID)
        layout.addLayout(row)
        layout.addWidget(self.view, 1)
        layout.addWidget(buttons)

    def open_for(self, run_id: str = "") -> None:
        """Show the dialog with `run_id`, or the newest run."""
        self._wanted = run_id
        self.view.summary.setText("Looking for runs …")
        self._operations.run(
            "looking for runs",
            lambda *_: run_titles(self._home, wanted=run_id),
            done=self._found,
            failed=self._failed,
        )
        self.open()

    def _found(self, titles: tuple[RunTitle, ...]) -> None:
        for title in titles:
            self.chooser.addItem(shown(str(title)), title.run_id)
            self.chooser.setItemData(
                self.chooser.count() - 1, plain_tip(title.run_id), Qt.ItemDataRole.ToolTipRole
            )
        if not titles:
            self.chooser.setEnabled(False)
            self.view.summary.setText("No runs yet. Each launched run keeps its run file.")
            return
        self.chooser.setCurrentIndex(max(0, self.chooser.findData(self._wanted)))
        self._read_chosen()

    def _read_chosen(self) -> None:
        self._read(str(self.chooser.currentData()))

    def _read(self, run_id: str) -> None:
        self._wanted = run_id
        self._operations.run(
            "reading a run", lambda *_: run_text(self._home, run_id), done=self._show, failed=self._failed
        )

    def _show(self, found: RunText) -> None:
        if found.run_id == self._wanted:
            self.view.show_texts(found.text, self._text, ("Run", self._name or "Now"))

    def _failed(self, error: Exception) -> None:
        self.view.summary.setText(f"The run's file cannot be read: {error}")


# Run files with which the runs of a home were started.

LIMIT = 200
_LINE = 1 << 18
"""Maximum bytes read of a line: the first one has the requested data."""


class RunText(NamedTuple):
    """Run file of one run."""

    run_id: str
    text: str


class RunTitle(NamedTuple):
    """Display name of a run."""

    run_id: str
    name: str
    created: float | None
    """Seconds since the epoch; None if its id does not contain it either."""

    def __str__(self) -> str:
        return f"{self.name}, {moment(self.created)}" if self.created is not None else self.name


def run_titles(home: Path, limit: int = LIMIT, wanted: str = "") -> tuple[RunTitle, ...]:
    """Return the newest runs, newest first.

    Args:
        home: TORCHDECK_HOME.
        limit: maximum number.
        wanted: a run to include in any case: before all others if it is older, or gone.
    """
    registry = RunRegistry(home)
    ids = registry.ids()[-limit:][::-1]
    if wanted and wanted not in ids:
        ids = [wanted, *ids]
    return tuple(_title(RunLayout(registry.folder / run_id)) for run_id in ids)


def _title(layout: RunLayout) -> RunTitle:
    """Return the title from the first line that its launch wrote; from its id if that cannot be read."""
    run_id = layout.root.name
    record = _first_record(layout.journal)
    name = record.get("name")
    time = record.get("t")
    return RunTitle(
        run_id,
        name if isinstance(name, str) and name else run_id,
        float(time) if isinstance(time, int | float) else _time_in(run_id),
    )


def _first_record(path: Path) -> Mapping[str, Any]:
    try:
        with open_regular(path) as file:
            record = parse_json_object(file.readline(_LINE), limit=_LINE, file_names=True)
    except (OSError, JsonError):
        return {}
    return record if record.get("event") == "created" else {}


def _time_in(run_id: str) -> float | None:
    """Return the creation time at the beginning of its id."""
    try:
        return float(timegm(strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%SZ")))
    except ValueError:
        return None


def run_text(home: Path, run_id: str) -> RunText:
    """Return its run.toml, with all `--set` of its start applied.

    Raises:
        OSError: it does not exist, or cannot be read.
        ValueError: it is not TOML.
    """
    frozen = frozen_run_file(RunLayout(RunRegistry(home).folder / run_id))
    return RunText(run_id, frozen.text.replace("\r\n", "\n"))


# Comparison of two run files: their keys in a table, or their lines.

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
