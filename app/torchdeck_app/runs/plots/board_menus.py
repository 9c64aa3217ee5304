"""The menus and dialogs of the board."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QMenu, QWidget

from torchdeck.contract.layout import RunLayout
from torchdeck_app.runs.plots.canvas import PlotCanvas
from torchdeck_app.runs.plots.catalogue import Metric
from torchdeck_app.runs.plots.choices import Choices
from torchdeck_app.runs.plots.chooser import MetricChooser
from torchdeck_app.runs.plots.exporting import Exporting
from torchdeck_app.theme.theme import Theme


class BoardMenus:
    """What is chosen in them is told to `choose`."""

    def __init__(
        self,
        theme: Theme,
        window: QWidget,
        say: Callable[[str, str], None],
        choose: Callable[[Choices], None],
    ) -> None:
        """Menus of one board.

        Args:
            theme: colours of exported pictures.
            window: parent of menus and dialogs.
            say: shows a sentence; its second argument is a role, such as `error`.
            choose: called with what the user chose.
        """
        self._window = window
        self._choose = choose
        self.exporting = Exporting(theme, window, say)

    def close(self) -> None:
        """Give up what is being written."""
        self.exporting.close()

    def choose_metrics(self, metrics: Sequence[Metric], choices: Choices) -> None:
        """Open the list of plots."""
        dialog = MetricChooser(metrics, choices, self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.chosen.connect(self._choose)
        dialog.open()

    def open(self, canvas: PlotCanvas, at: QPoint, choices: Choices, layouts: Sequence[RunLayout]) -> None:
        """Open the menu of one plot at a place on the screen."""
        menu = QMenu(self._window)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        key = canvas.plotted.key
        log = menu.addAction("Logarithmic values")
        log.setCheckable(True)
        log.setChecked(canvas.log_y)
        log.toggled.connect(lambda on: self._choose(choices.with_log_y(key, on=on)))
        hide = menu.addAction("Hide this plot")
        hide.triggered.connect(lambda: self._choose(choices.with_shown(key, on=False)))
        menu.addSeparator()
        self.exporting.add_actions(menu, canvas, layouts)
        menu.popup(at)

    def fill_export(self, menu: QMenu, canvas: PlotCanvas | None, layouts: Sequence[RunLayout]) -> None:
        """Write into a menu what can be exported of a plot."""
        menu.clear()
        if canvas is None:
            menu.addAction("Nothing to export yet").setEnabled(False)
        else:
            self.exporting.add_actions(menu, canvas, layouts)
