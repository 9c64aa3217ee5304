"""Changes since a run: its frozen run file against the document."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Mapping
from pathlib import Path
from time import strptime
from typing import Any, NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QDialog, QDialogButtonBox, QHBoxLayout, QVBoxLayout, QWidget

from torchdeck.contract.bounded_file import open_regular
from torchdeck.contract.bounded_json import JsonError, parse_json_object
from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import moment
from torchdeck.runs.folders.origin import frozen_run_file
from torchdeck.runs.registry import RunRegistry
from torchdeck.shown_text import shown
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.files.diff_view import DiffView
from torchdeck_app.theme.theme import Theme
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
        self.chooser = QComboBox()
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
