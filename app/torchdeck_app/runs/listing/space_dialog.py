"""Dialog with the largest runs and checkpoints, and a rule for the checkpoints to keep, with its preview."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QHeaderView,
    QMessageBox,
    QSpinBox,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from torchdeck.quantities import counted, size
from torchdeck.runs.run_list import RunEntry
from torchdeck.runs.table.row import Row
from torchdeck.runs.table.space import Rule, RunRoom, Surplus, measured, surplus
from torchdeck.shown_text import shown
from torchdeck.use_cases.table.free_space import Freed, free_space
from torchdeck_app.bridge.operations import Cancel, Operations
from torchdeck_app.widgets.dialogs import Choice, ask, begin_with
from torchdeck_app.widgets.panel import GRID, label

_SIZE = 760, 520
_MOST = 1_000_000
_RUN = Qt.ItemDataRole.UserRole
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class SpaceDialog(QDialog):
    """Window-modal dialog; what it does continues if it is closed."""

    def __init__(
        self,
        operations: Operations,
        rows: Sequence[Row],
        delete: Callable[[Sequence[RunEntry]], object],
        failed: Callable[[str], object],
        parent: QWidget,
    ) -> None:
        """Create it, and measure the runs.

        Args:
            operations: runs blocking work.
            rows: all runs.
            delete: asks before runs are deleted, and deletes them.
            failed: called with what could not be removed, one sentence per line.
            parent: Qt parent.
        """
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Free space")
        self._operations, self._rows = operations, tuple(rows)
        self._delete, self._failed = delete, failed
        self._runs: tuple[RunRoom, ...] = ()
        self._gone: tuple[Surplus, ...] = ()
        self.list = QTreeWidget()
        self.list.setHeaderLabels(["Run or checkpoint", "Size", "With these rules"])
        self.list.header().setStretchLastSection(False)
        self.list.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.list.setUniformRowHeights(True)
        self.list.setSelectionMode(QTreeWidget.SelectionMode.ExtendedSelection)
        self.list.setAccessibleName("Largest runs and checkpoints")
        self.list.itemSelectionChanged.connect(self._preview)
        self.last = self._number("Newest", 1, 1, "Newest checkpoints of each run to keep")
        self.best = self._number("Best", 0, 1, "Checkpoints of each run with the best metric to keep")
        self.every = self._number(
            "Every", 0, 0, "Keep checkpoints of steps that are multiples of this; 0: none"
        )
        self.every.setSuffix(" steps")
        self.told = label("Measuring the runs …", role="secondary", wrap=True)
        self.told.setTextFormat(Qt.TextFormat.PlainText)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.remove = buttons.addButton("&Remove checkpoints …", QDialogButtonBox.ButtonRole.ActionRole)
        self.delete_runs = buttons.addButton("&Delete runs …", QDialogButtonBox.ButtonRole.ActionRole)
        self.remove.clicked.connect(self._ask)
        self.delete_runs.clicked.connect(self._ask_runs)
        buttons.rejected.connect(self.reject)
        self._lay_out(buttons)
        begin_with(self, *_SIZE)
        self._preview()
        self._measure()

    def _number(self, name: str, least: int, value: int, tip: str) -> QSpinBox:
        field = QSpinBox()
        field.setRange(least, _MOST)
        field.setValue(value)
        field.setAccessibleName(f"Keep: {name}")
        field.setToolTip(tip)
        field.valueChanged.connect(self._preview)
        return field

    def _lay_out(self, buttons: QDialogButtonBox) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addWidget(self.list, 1)
        rules = QHBoxLayout()
        rules.setSpacing(GRID)
        rules.addWidget(label("Checkpoints to keep of each run:"))
        for name, field in (("newest", self.last), ("best", self.best), ("every", self.every)):
            rules.addWidget(label(name, role="secondary"))
            rules.addWidget(field)
        rules.addStretch(1)
        column.addLayout(rules)
        column.addWidget(self.told)
        column.addWidget(buttons)

    def _measure(self) -> None:
        rows = self._rows
        self._operations.run(
            "measuring the runs",
            lambda progress, cancel: measured(rows, progress, cancel.check),
            done=self._show,
            failed=lambda error: self._tell(f"They cannot be measured: {error}"),
        )

    def _tell(self, text: str) -> None:
        if isValid(self):
            self.told.setText(shown(text))

    def _show(self, runs: tuple[RunRoom, ...]) -> None:
        if not isValid(self):
            return
        self._runs = runs
        self.list.clear()
        for run in runs:
            item = _item(run.row.label, run.room)
            item.setToolTip(0, shown(run.row.entry.id))
            item.setData(0, _RUN, run)
            for each in run.checkpoints:
                child = _item(each.info.path.name, each.info.size)
                child.setToolTip(0, shown(str(each.info.path)))
                child.setData(0, _RUN, each.info.path)
                item.addChild(child)
            self.list.addTopLevelItem(item)
        self._preview()
        for column in (1, 2):
            self.list.resizeColumnToContents(column)

    def _chosen(self) -> tuple[RunRoom, ...]:
        """Return the selected runs; all if none is selected."""
        items = [item.parent() or item for item in self.list.selectedItems()]
        ids = {item.data(0, _RUN).row.entry.id for item in items}
        return tuple(run for run in self._runs if not ids or run.row.entry.id in ids)

    def _preview(self) -> None:
        rule = Rule(self.last.value(), self.best.value(), self.every.value())
        self._gone = surplus(self._chosen(), rule)
        gone = {each.checkpoint.info.path for each in self._gone}
        for number in range(self.list.topLevelItemCount()):
            item = self.list.topLevelItem(number)
            run = item.data(0, _RUN) if item is not None else None
            if item is None or not isinstance(run, RunRoom):
                continue
            frees = sum(each.size for each in self._gone if each.run is run)
            item.setText(2, run.why_kept_by(rule) or (f"frees {size(frees)}" if frees else ""))
            for at in range(item.childCount()):
                child = item.child(at)
                if child is not None:
                    child.setText(2, "removed" if child.data(0, _RUN) in gone else "stays")
        self.remove.setEnabled(bool(self._gone))
        self.delete_runs.setEnabled(bool(self.list.selectedItems()))
        if self._runs:
            total = size(sum(run.room for run in self._runs))
            what = f"{counted(len(self._gone), 'checkpoint')} would be removed, which frees {self._frees}."
            self._tell(f"{counted(len(self._runs), 'run')}, {total}. {what}")
        elif not self._rows:
            self._tell("There are no runs.")

    @property
    def _frees(self) -> str:
        return size(sum(each.size for each in self._gone))

    def _ask(self) -> None:
        chosen = self._gone
        runs = counted(len({each.run.row.entry.id for each in chosen}), "run")
        ask(
            self,
            f"Remove {counted(len(chosen), 'checkpoint')} of {runs} for good?",
            f"This frees {self._frees}. It cannot be undone. The newest checkpoint of each run stays.",
            [
                Choice("Remove", QMessageBox.ButtonRole.DestructiveRole, lambda: self._remove(chosen)),
                Choice("Cancel", QMessageBox.ButtonRole.RejectRole, lambda: None),
            ],
            default=1,
        )

    def _remove(self, chosen: Sequence[Surplus]) -> None:
        def call(progress: Callable[[str], None], cancel: Cancel) -> Freed:
            return free_space(chosen, progress, cancel.check)

        def done(freed: Freed) -> None:
            if freed.problems:
                self._failed("\n".join(freed.problems))
            if isValid(self):
                self._measure()

        def failed(error: Exception) -> None:
            self._failed(str(error))

        self._operations.run("removing checkpoints", call, done=done, failed=failed)

    def _ask_runs(self) -> None:
        self._delete([run.row.entry for run in self._chosen()])
        self.close()


def _item(name: str, room: int) -> QTreeWidgetItem:
    item = QTreeWidgetItem([shown(name), size(room), ""])
    item.setToolTip(1, f"{room:,} bytes")
    item.setTextAlignment(1, _RIGHT)
    return item
