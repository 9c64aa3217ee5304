"""Menus and dialogs of the plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QInputDialog, QLineEdit, QMenu, QWidget

from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.notes import StepNote
from torchdeck.runs.plots.catalogue import Metric
from torchdeck.runs.plots.exchange import Answer
from torchdeck.runs.plots.x_axis import x_text
from torchdeck.shown_text import shown
from torchdeck_app.runs.plots.choices import Choices, YAxis
from torchdeck_app.runs.plots.chooser import MetricChooser
from torchdeck_app.runs.plots.exporting import Exporting
from torchdeck_app.runs.plots.formula_dialog import FormulaDialog
from torchdeck_app.runs.plots.geometry import LEFT
from torchdeck_app.runs.plots.marks import Mark
from torchdeck_app.runs.plots.plot import Plot
from torchdeck_app.widgets.panel import GRID, label

_NEAR = 6.0
"""Pixels within which the crosshair is at a note."""


class PlotMenus:
    """Menus that report choices to `choose`."""

    def __init__(
        self, window: QWidget, say: Callable[[str, str], None], choose: Callable[[Choices], None]
    ) -> None:
        """Create the menus of one grid.

        Args:
            window: parent of menus and dialogs.
            say: shows a sentence; its second argument is a role, such as `error`.
            choose: called with the user's choices.
        """
        self._window = window
        self._choose = choose
        self.exporting = Exporting(window, say)

    def close(self) -> None:
        """Cancel pending writes."""
        self.exporting.close()

    def choose_metrics(self, metrics: Sequence[Metric], choices: Choices) -> None:
        """Open the list of plots."""
        dialog = MetricChooser(metrics, choices, self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.chosen.connect(self._choose)
        dialog.open()

    def choose_formulas(self, metrics: Sequence[Metric], choices: Choices) -> None:
        """Open the formulas."""
        dialog = FormulaDialog(metrics, choices, self._window)
        dialog.chosen.connect(self._choose)
        dialog.open()

    def choose_limits(self, plot: Plot, choices: Choices) -> None:
        """Open the limits of one plot."""
        key = plot.plotted.key
        dialog = LimitsDialog(plot.plotted, choices.y_axis(key), self._window)
        dialog.given.connect(lambda low, high: self._choose(choices.with_limits(key, low, high)))
        dialog.open()

    def ask_note(
        self,
        plot: Plot,
        answer: Answer,
        places: Sequence[tuple[float, Mark]],
        given: Callable[[StepNote], object],
    ) -> None:
        """Ask for a note at the crosshair of a plot; a note near it is changed.

        Args:
            plot: the plot.
            answer: what it shows.
            places: pixels and marks in the strip.
            given: called with the note; its text is empty if it is to be removed.
        """
        x = plot.cursor_x
        time = None if x is None else answer.moments.time_at(x)
        if x is None or time is None:
            return
        at = LEFT + plot.area.across.pixel(x)
        notes = [mark for place, mark in places if mark.kind == "note" and abs(place - at) <= _NEAR]
        note = StepNote(time, round(x) if answer.kind == "step" else None, "")
        for mark in notes[:1]:
            note = StepNote(mark.time, mark.step, mark.text)
        dialog = QInputDialog(self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle("Note")
        dialog.setLabelText(f"Note at {x_text(answer.kind, x)} (empty removes it)")
        dialog.setTextValue(note.text)
        dialog.textValueSelected.connect(lambda text: given(replace(note, text=text.strip())))
        dialog.open()

    def fill(
        self,
        plot: Plot,
        menu: QMenu,
        choices: Choices,
        layouts: Sequence[RunLayout],
        more: Sequence[tuple[str, Callable[[], object]]],
    ) -> None:
        """Fill our part of the context menu of one plot; `more` are further entries and what they do."""
        menu.clear()
        key = plot.plotted.key
        log = menu.addAction("Logarithmic values")
        log.setCheckable(True)
        log.setChecked(choices.y_axis(key).log)
        log.toggled.connect(lambda on: self._choose(choices.with_log_y(key, on=on)))
        menu.addAction("Limits of y…").triggered.connect(lambda: self.choose_limits(plot, choices))
        menu.addAction("Show this plot alone").triggered.connect(lambda: plot.vb.enlarged.emit(True))  # noqa: FBT003 - Qt's signal
        hide = menu.addAction("Hide this plot")
        hide.triggered.connect(lambda: self._choose(choices.with_shown(key, on=False)))
        for text, act in more:
            menu.addAction(text).triggered.connect(lambda _=False, act=act: act())
        menu.addSeparator()
        self.exporting.add_actions(menu, plot, layouts)

    def fill_export(self, menu: QMenu, plot: Plot | None, layouts: Sequence[RunLayout]) -> None:
        """Add the export actions of a plot to a menu."""
        menu.clear()
        if plot is None:
            menu.addAction("Nothing to export yet").setEnabled(False)
        else:
            self.exporting.add_actions(menu, plot, layouts)


class LimitsDialog(QDialog):
    """Dialog for the ends of a y axis; an empty field follows the data."""

    given = Signal(object, object)
    """Emitted with the lower and the upper end, each a float or None."""

    def __init__(self, metric: Metric, axis: YAxis, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(shown(f"Limits of {metric.title}"))
        self.low, self.high = self._field("Lowest value", axis.low), self._field("Highest value", axis.high)
        self._said = label("", role="error")
        buttons = QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel
        self._buttons = QDialogButtonBox(buttons)
        self._buttons.accepted.connect(self.accept)
        self._buttons.rejected.connect(self.reject)
        form = QFormLayout(self)
        form.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        form.setSpacing(GRID)
        unit = {"": "", "loss": "", "count": ""}.get(metric.unit, f" ({metric.unit})")
        form.addRow(f"&Lowest value{unit}", self.low)
        form.addRow(f"&Highest value{unit}", self.high)
        form.addRow(self._said)
        form.addRow(self._buttons)
        self.accepted.connect(lambda: self.given.emit(parsed(self.low.text()), parsed(self.high.text())))

    def _field(self, name: str, value: float | None) -> QLineEdit:
        field = QLineEdit("" if value is None else f"{value:g}")
        field.setAccessibleName(name)
        field.setPlaceholderText("automatic")
        field.setToolTip("A number; empty follows the data")
        field.textChanged.connect(self._check)
        return field

    def _check(self) -> None:
        problem = ""
        try:
            low, high = parsed(self.low.text()), parsed(self.high.text())
            if low is not None and high is not None and low >= high:
                problem = "The lowest value must be below the highest."
        except ValueError as error:
            problem = str(error)
        self._said.setText(problem)
        self._buttons.button(QDialogButtonBox.StandardButton.Ok).setEnabled(not problem)


def parsed(text: str) -> float | None:
    """Parse a typed number such as `0.5`, `1e-3` or `12k`; None if it is empty.

    Raises:
        ValueError: it is not a finite number.
    """
    text = text.strip().replace(",", "")
    if not text:
        return None
    factor = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1], 1.0)
    try:
        value = float(text if factor == 1.0 else text[:-1]) * factor
    except ValueError:
        value = float("nan")
    if value - value != 0:
        raise ValueError(f"“{shown(text)}” is not a number.")
    return value
