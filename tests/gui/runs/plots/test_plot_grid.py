"""The board as a person uses it: it follows, zooms, hides, exports, and remembers."""

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox
from pytestqt.qtbot import QtBot

from gui.runs.plots.conftest import START, drag, hover, log_more, make, place, press, shown
from support.values.metrics import opened, write_rows
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.plots.x_axis import X_NAMES
from torchdeck_app.runs.plots.chooser import MetricChooser
from torchdeck_app.runs.plots.plot_grid import PlotGrid
from torchdeck_app.runs.plots.plot_menus import LimitsDialog
from torchdeck_app.theme.theme import Theme


def test_a_run_without_metrics_says_what_will_be_here(qtbot: QtBot, board: PlotGrid, tmp_path: Path) -> None:
    board.show()
    board.entered()
    qtbot.waitUntil(lambda: board.answer is not None)
    assert board._empty.isVisible()
    write_rows(tmp_path, [(1, {"loss": 2.0}), (2, {"loss": 1.5})])
    qtbot.waitUntil(lambda: board.sheet.shown == ["loss"] and bool(board.answer and board.answer.plots))
    assert board.sheet.isVisible()
    np.testing.assert_array_equal(board.sheet.plot("loss").content.curves[0].y, [2.0, 1.5])


def test_dragging_zooms_to_single_rows_and_a_double_click_shows_all(
    qtbot: QtBot, board: PlotGrid, tmp_path: Path
) -> None:
    make(tmp_path)
    plot = shown(qtbot, board)
    everything = plot.x_range
    drag(board, plot, 2000, 2400)
    low, high = plot.x_range
    assert 1990 < low < 2010
    assert 2390 < high < 2410
    assert board.sheet.plot("step_time").x_range == (low, high)
    qtbot.waitUntil(lambda: plot.content.curves[0].exact)
    series = opened(tmp_path).series("loss", 0)
    rows = slice(int(np.ceil(low)) - 1, int(np.floor(high)) + 2)
    np.testing.assert_array_equal(plot.content.curves[0].x, series.steps[rows])
    np.testing.assert_array_equal(plot.content.curves[0].y, series.values[rows])
    QTest.mouseDClick(board.sheet.viewport(), Qt.MouseButton.LeftButton, pos=place(plot, low))
    assert plot.x_range == everything


def test_the_wheel_and_the_keyboard_zoom_and_pan(qtbot: QtBot, board: PlotGrid, tmp_path: Path) -> None:
    make(tmp_path)
    plot = shown(qtbot, board)
    view, at = board.sheet.viewport(), QPointF(place(plot, 2500))
    wheel = QWheelEvent(
        at,
        view.mapToGlobal(at),
        QPoint(),
        QPoint(0, 120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.ControlModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(view, wheel)
    low, high = plot.x_range
    assert low + high == pytest.approx(5000, abs=5)
    assert 3000 < high - low < 4500
    assert board.sheet.plot("step_time").x_range == (low, high)
    plot.vb.setFocus()
    QTest.keyClick(board.sheet, Qt.Key.Key_Right)
    tenth = (high - low) / 10
    assert plot.x_range == pytest.approx((low + tenth, high + tenth), abs=1)
    QTest.keyClick(board.sheet, Qt.Key.Key_Minus)
    assert plot.x_range[1] - plot.x_range[0] == pytest.approx((high - low) / 0.8, abs=1)
    QTest.keyClick(board.sheet, Qt.Key.Key_Home)
    assert plot.x_range == pytest.approx((0, 5000), abs=1)


def test_without_ctrl_the_wheel_scrolls_the_page(qtbot: QtBot, board: PlotGrid, tmp_path: Path) -> None:
    make(tmp_path)
    plot = shown(qtbot, board)
    board.resize(400, 300)
    qtbot.waitUntil(lambda: board._scroll.verticalScrollBar().maximum() > 0)
    bar, at = board._scroll.verticalScrollBar(), board.sheet.mapTo(board, place(plot, 2500))
    QTest.wheelEvent(board.windowHandle(), QPointF(at), QPoint(0, -120))
    assert bar.value() > 0
    assert plot.x_range == pytest.approx((0, 5000), abs=1)


def test_the_middle_button_moves_all_plots(qtbot: QtBot, board: PlotGrid, tmp_path: Path) -> None:
    make(tmp_path)
    plot = shown(qtbot, board)
    press(board, Qt.MouseButton.MiddleButton, place(plot, 3000), place(plot, 2000))
    assert plot.x_range == pytest.approx((1000, 6000), abs=30)
    assert board.sheet.plot("step_time").x_range == plot.x_range


def test_the_menu_of_pyqtgraph_has_what_else_a_plot_can_do(
    qtbot: QtBot, board: PlotGrid, tmp_path: Path
) -> None:
    """View All shows everything again; y is freed, then fitted."""
    make(tmp_path)
    plot = shown(qtbot, board)
    drag(board, plot, 2000, 2400)
    plot.vb.setYRange(0.0, 1.0, padding=0)
    assert plot.y_range == (0.0, 1.0)
    plot.vb.setMenuEnabled(True)
    plot.vb.menu.viewAll.trigger()
    assert plot.x_range == pytest.approx((0, 5000), abs=1)
    assert plot.y_range[0] < -2
    ours = plot.getContextMenus(None)
    ours.aboutToShow.emit()
    texts = [action.text() for action in ours.actions()]
    assert texts[:3] == ["Logarithmic values", "Limits of y…", "Show this plot alone"]
    ours.actions()[0].trigger()
    assert plot.area.up.log or plot.content.least_positive is None
    assert board.choices.y_axis("loss").log


def test_the_cursor_goes_through_all_plots_and_says_its_time(
    qtbot: QtBot, board: PlotGrid, tmp_path: Path
) -> None:
    make(tmp_path)
    plot = shown(qtbot, board)
    times: list[float | None] = []
    board.cursor_moved.connect(times.append)
    hover(board, plot, 3000)
    assert times[-1] == pytest.approx(START + 3000, abs=5)
    assert board.sheet.plot("step_time").cursor_x == pytest.approx(3000, abs=5)
    count = len(times)
    board.set_cursor(START + 1000)
    assert plot.cursor_x == pytest.approx(1000)
    board.set_cursor(None)
    assert plot.cursor_x is None
    assert len(times) == count


def test_curves_stay_in_sight_whatever_the_axis_shows(qtbot: QtBot, board: PlotGrid, tmp_path: Path) -> None:
    """Of a run that is over: no further row comes that would fit them again."""
    make(tmp_path, 300)
    loss = shown(qtbot, board)
    low, high = loss.content.low, loss.content.high
    assert low is not None
    assert high is not None
    axis = board.toolbar.findChild(QComboBox)
    assert isinstance(axis, QComboBox)

    def is_shown() -> bool:
        return board.answer is not None and X_NAMES[board.answer.kind] == axis.currentText()

    for name in ("Elapsed time", "Time of day", "Step"):
        axis.setCurrentText(name)
        qtbot.waitUntil(is_shown)
        board.sheet.draw_all()
        assert loss.y_range[0] <= low < high <= loss.y_range[1]


def test_paused_it_stands_still_and_then_catches_up(
    qtbot: QtBot, board: PlotGrid, follower: PlotGrid, tmp_path: Path
) -> None:
    plot = shown(qtbot, board)
    board.toolbar.pause.trigger()
    assert board.toolbar.pause.text() == "Follow again"
    log_more(qtbot, follower, tmp_path, "log-2", 50, 55)  # a look that had begun is over by then
    rows = len(plot.content.curves[0].x)
    log_more(qtbot, follower, tmp_path, "log-3", 55, 60)
    assert len(plot.content.curves[0].x) == rows < 60
    board.toolbar.pause.trigger()
    qtbot.waitUntil(lambda: len(plot.content.curves[0].x) == 60)


def test_plots_are_hidden_sorted_and_remembered(
    qtbot: QtBot, board: PlotGrid, theme: Theme, tmp_path: Path
) -> None:
    make(tmp_path)
    shown(qtbot, board)
    assert board.sheet.shown == ["loss", "throughput", "step_time"]
    board.toolbar.metrics.trigger()
    chooser = board.findChild(MetricChooser)
    assert chooser is not None
    item = chooser.list.item(1)
    item.setCheckState(Qt.CheckState.Unchecked)
    assert board.sheet.shown == ["loss", "step_time"]
    chooser.list.setCurrentRow(2)
    chooser.shift(-1)
    chooser.shift(-1)
    assert board.sheet.shown == ["step_time", "loss"]
    chooser.accept()
    again = PlotGrid(theme, RunLayout(tmp_path))
    qtbot.addWidget(again)
    again.restore_state(board.save_state())
    again.resize(1000, 700)
    again.show()
    again.entered()
    qtbot.waitUntil(lambda: again.sheet.shown == ["step_time", "loss"])
    again.closing()


def test_a_plot_is_made_logarithmic_and_smoothed(qtbot: QtBot, board: PlotGrid, tmp_path: Path) -> None:
    make(tmp_path)
    shown(qtbot, board)
    board._choose(board.choices.with_log_y("step_time", on=True))
    plot = board.sheet.plot("step_time")
    assert plot.area.up.log
    assert plot.y_range[0] > 0
    board.toolbar._smoothing.setValue(66)
    qtbot.waitUntil(lambda: plot.content.curves[0].raw is not None)
    assert board.choices.smoothing == pytest.approx(0.99)


def test_log_y_and_limits_are_chosen_in_the_bar(qtbot: QtBot, board: PlotGrid, tmp_path: Path) -> None:
    """For the plot that had the keyboard last; an empty field follows the data."""
    make(tmp_path)
    shown(qtbot, board)
    plot = board.sheet.plot("step_time")
    board.toolbar.log_y.trigger()
    assert plot.area.up.log
    board.toolbar.log_y.trigger()
    plot.vb.setFocus()
    board.toolbar.limits.trigger()
    dialog = board.findChild(LimitsDialog)
    assert dialog is not None
    assert dialog.windowTitle() == "Limits of Step time"
    dialog.high.setText("0.5")
    dialog.accept()
    assert plot.y_range == (0.0, 0.5)
    QTest.keyClick(board.sheet, Qt.Key.Key_Home)
    assert plot.y_range == (0.0, 0.5)


def test_one_plot_is_shown_alone_and_its_legend_hides_series(
    qtbot: QtBot, board: PlotGrid, tmp_path: Path
) -> None:
    """Enter in a plot, and Escape back; the legend is pyqtgraph's."""
    make(tmp_path, ranks=3)
    shown(qtbot, board)
    plot = board.sheet.plot("step_time")
    plot.vb.setFocus()
    QTest.keyClick(board.sheet, Qt.Key.Key_Return)
    assert board.sheet.shown == ["step_time"]
    assert board.toolbar.alone.isChecked()
    assert plot.size().height() > 400
    legend = plot.legend
    assert legend is not None
    names = [label.text for _, label in legend.items]
    assert names == ["rank 0", "rank 1", "rank 2"]
    before = board.sheet.grab().toImage()
    legend.items[1][0].item.setVisible(False)
    assert board.sheet.grab().toImage() != before
    plot.vb.setFocus()
    QTest.keyClick(board.sheet, Qt.Key.Key_Escape)
    assert board.sheet.shown == ["loss", "throughput", "step_time"]
    assert board.sheet.plot("step_time").legend is None
