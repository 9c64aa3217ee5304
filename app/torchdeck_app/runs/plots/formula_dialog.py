"""Dialog for plots of formulas over metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCompleter,
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from torchdeck.metrics.formula import FUNCTIONS, LONGEST, PREFIX, Formula, FormulaError
from torchdeck.runs.plots.catalogue import Metric
from torchdeck.shown_text import shown
from torchdeck_app.runs.plots.choices import MOST_FORMULAS, Choices
from torchdeck_app.widgets.labels import plain_tip
from torchdeck_app.widgets.panel import GRID, label

_MEANS = (
    "Numbers, names of metrics, + - * / ** %, and "
    + ", ".join(FUNCTIONS)
    + '. A name with other characters is written in quotes: "train/loss".'
)


class FormulaDialog(QDialog):
    """Dialog that adds and removes formulas; changes apply at once."""

    chosen = Signal(object)
    """Emitted with the changed Choices."""

    def __init__(self, metrics: Sequence[Metric], choices: Choices, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Formulas")
        self.setMinimumSize(420, 320)
        self._choices = choices
        names = [name for metric in metrics for name in metric.names if not name.startswith(PREFIX)]
        self.text = QLineEdit()
        self.text.setAccessibleName("Formula")
        self.text.setPlaceholderText("exp(loss)")
        self.text.setMaxLength(LONGEST)
        self.text.setToolTip("A plot of its own shows it, also for other runs that have these metrics")
        self.text.textChanged.connect(self._check)
        completer = QCompleter(
            [shown(name) for name in dict.fromkeys(names) if name.isidentifier()], self.text
        )
        self.text.setCompleter(completer)
        self.add = QPushButton("&Plot")
        self.add.setToolTip("Add a plot of the formula")
        self.add.clicked.connect(self._add)
        self.problem = label("", role="error", wrap=True)
        self.list = QListWidget()
        self.list.setAccessibleName("Plots of formulas")
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.list.itemSelectionChanged.connect(self._enable)
        self.remove = QPushButton("&Remove")
        self.remove.setToolTip("Remove the plot of the selected formula")
        self.remove.clicked.connect(self._remove)
        self._lay_out()
        self._show()
        self._check()

    def _lay_out(self) -> None:
        row = QHBoxLayout()
        row.addWidget(self.text, 1)
        row.addWidget(self.add)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        for button in (self.add, self.remove, buttons.button(QDialogButtonBox.StandardButton.Close)):
            button.setAutoDefault(button is self.add)
        below = QHBoxLayout()
        below.addWidget(self.remove)
        below.addWidget(buttons, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addLayout(row)
        column.addWidget(self.problem)
        column.addWidget(label(_MEANS, role="secondary", wrap=True))
        column.addWidget(self.list, 1)
        column.addLayout(below)

    def _show(self) -> None:
        self.list.clear()
        for text in self._choices.formulas:
            self.list.addItem(shown(text))
            self.list.item(self.list.count() - 1).setToolTip(plain_tip(text))
        self._enable()

    def _check(self) -> None:
        text = self.text.text().strip()
        problem = f"At most {MOST_FORMULAS} formulas are kept." if self._is_full else ""
        try:
            if text and not problem:
                Formula(text)
        except FormulaError as error:
            problem = f"{error.what[:1].upper()}{error.what[1:]}: {error.fix}."
        self.problem.setText(shown(problem))
        self.add.setEnabled(bool(text) and not problem)

    @property
    def _is_full(self) -> bool:
        return len(self._choices.formulas) >= MOST_FORMULAS

    def _enable(self) -> None:
        self.remove.setEnabled(self.list.currentRow() >= 0)

    def _add(self) -> None:
        text = Formula(self.text.text()).text
        self._choose((*(each for each in self._choices.formulas if each != text), text))
        self.text.clear()

    def _remove(self) -> None:
        gone = self.list.currentRow()
        self._choose(tuple(each for at, each in enumerate(self._choices.formulas) if at != gone))
        self._check()

    def _choose(self, formulas: tuple[str, ...]) -> None:
        self._choices = replace(self._choices, formulas=formulas)
        self._show()
        self.chosen.emit(self._choices)
