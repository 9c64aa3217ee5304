"""Checkpoints as rows; only changed cells are written, so selection and scroll position stay."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from PySide6.QtGui import QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QWidget

from torchdeck.quantities import ago, brief, moment, size
from torchdeck.runs.folders.checkpoints import RunCheckpoint
from torchdeck.runs.folders.verdicts import Verdict, without_checksum
from torchdeck.shown_text import shown
from torchdeck_app.theme.palette import ColourName
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.widgets.row_tree import RowTree

# Texts of the checkpoint list.

HEADINGS = ("Step", "Saved", "Size", "Took", "State", "Resumes on", "Kept as")


Verdicts = Mapping[Path, Verdict]
"""Verdicts of checkpoints that were hashed and have not changed since."""


def cells(row: RunCheckpoint, now: float, verdicts: Verdicts, *, is_live: bool) -> tuple[str, ...]:
    """Return one text per column; `now` in unix seconds."""
    info, manifest = row.info, row.info.manifest
    step = "?" if info.step < 0 else f"{info.step:,}"
    if row.script is not None:
        saved = row.script.saved
        about = "about " if saved.about and saved.step is not None else ""
        when, name = ago(now - saved.changed), "/".join(Path(saved.path).parts[-2:])
        now_state = state(row, now, verdicts, is_live=is_live)
        return f"{about}{step}", when, size(saved.size), "", now_state, saved.kind.trainer, name
    return (
        step,
        "" if manifest is None else ago(now - manifest.created),
        size(info.size),
        "" if manifest is None or not manifest.seconds else brief(manifest.seconds),
        state(row, now, verdicts, is_live=is_live),
        "" if manifest is None or not info.complete else goes_on_with(manifest.world_size),
        ", ".join([*(("best",) if row.standing.best else ()), *row.standing.kept]),
    )


def state(row: RunCheckpoint, now: float, verdicts: Verdicts, *, is_live: bool) -> str:
    """Return the integrity of a checkpoint as far as known."""
    if row.is_leftover or row.info.path.name.startswith(".tmp-"):
        return "◐ being saved" if is_live else "○ incomplete leftover"
    verdict = verdicts.get(row.info.path)
    if verdict is not None and verdict.problems:
        return "✕ damaged"
    if not row.info.complete:
        return "✕ not complete"
    if verdict is None:
        return "● complete"
    return f"{'● checked' if verdict.unchecked else '✓ verified'} {ago(now - verdict.time)}"


def goes_on_with(world_size: int) -> str:
    """Return which world sizes can resume it: any, and one of them bit for bit."""
    return f"any ranks, exactly on {world_size:,}"


def going_on(row: RunCheckpoint, *, resumes: bool) -> str:
    """Return the effect of continuing from it: the run itself is resumed, or a new run starts."""
    if row.info.step < 0:
        continues = f"This run continues from {row.info.path.name}"
        return continues if resumes else f"Begins a new run with {row.info.path.name}; this one stays"
    if resumes:
        return f"This run continues from step {row.info.step:,}"
    return f"Starts a new run at step {row.info.step:,}; this one stays"


def tooltip(row: RunCheckpoint, verdicts: Verdicts) -> str:
    """Return all facts about a checkpoint, one per line."""
    info, manifest = row.info, row.info.manifest
    lines = [str(info.path)]
    if manifest is not None:
        lines.append(
            f"saved {moment(manifest.created)} by {manifest.strategy} on {manifest.world_size} ranks"
        )
        lines.append(f"{manifest.size:,} bytes in {len(manifest.files):,} files, attempt {manifest.attempt}")
        lines += [f"{name} {value:.6g}" for name, value in sorted(manifest.current_metrics.items())]
    lines += [info.why] if info.why else []
    verdict = verdicts.get(info.path)
    if verdict is not None:
        sound = "" if verdict.problems else f": {soundness(row, verdict)}"
        lines += [f"hashed {moment(verdict.time)}{sound}", *verdict.problems]
    return "\n".join(lines)


def soundness(row: RunCheckpoint, verdict: Verdict) -> str:
    """Return what a verification without problems means, as a clause."""
    if verdict.unchecked:
        return f"nothing damaged was found, but {without_checksum(verdict.unchecked)}"
    if row.script is not None:
        return "it can be read whole"
    return "every file has the hash that its manifest names"


_COLOURS: Mapping[str, ColourName] = {"✓": "good", "✕": "bad", "◐": "busy", "○": "quiet"}
_STATE = HEADINGS.index("State")
_WIDEST_STATE = "✓ verified 88 min ago"


class CheckpointList(RowTree):
    """Newest first."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._rows: tuple[RunCheckpoint, ...] = ()
        self.setAccessibleName("Checkpoints")
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self._model = QStandardItemModel(0, len(HEADINGS), self)
        self._model.setHorizontalHeaderLabels(list(HEADINGS))
        self.setModel(self._model)

    @property
    def selected(self) -> RunCheckpoint | None:
        """Return the selected checkpoint."""
        rows = self.selectionModel().selectedRows()
        return self._rows[rows[0].row()] if rows and rows[0].row() < len(self._rows) else None

    def set_rows(self, rows: tuple[RunCheckpoint, ...]) -> None:
        """Show these checkpoints; the selection is kept, else the newest complete one is selected."""
        chosen = self.selected
        self._rows = rows
        kept = chosen.info.path if chosen is not None else None
        newest = next((at for at, row in enumerate(rows) if row.info.complete), 0)
        at = next((at for at, row in enumerate(rows) if row.info.path == kept), newest)
        self._model.setRowCount(len(rows))
        if rows:
            self.setCurrentIndex(self._model.index(at, 0))

    def write(self, verdicts: Verdicts, *, is_live: bool) -> None:
        """Update all cells of all rows."""
        now = time.time()
        fresh = self._model.item(0, 0) is None
        for at, row in enumerate(self._rows):
            for column, text in enumerate(cells(row, now, verdicts, is_live=is_live)):
                item = self._item(at, column)
                item.setText(shown(text))
                item.setToolTip(plain_tip(tooltip(row, verdicts)))
                if column == _STATE:
                    item.setForeground(self._theme.colour(_COLOURS.get(text[:1], "text")))
        if fresh and self._rows:
            for column in range(len(HEADINGS) - 1):  # the last column takes the rest
                self.resizeColumnToContents(column)
                self.setColumnWidth(column, self.columnWidth(column) + GRID)
            widest = self.fontMetrics().horizontalAdvance(_WIDEST_STATE) + 2 * GRID
            self.setColumnWidth(_STATE, max(self.columnWidth(_STATE), widest))

    def _item(self, row: int, column: int) -> QStandardItem:
        """Return the cell; create it if it does not exist yet."""
        found: QStandardItem | None = self._model.item(row, column)
        if found is None:
            found = QStandardItem()
            self._model.setItem(row, column, found)
        return found
