"""The board as a person uses it: it follows, zooms, hides, exports, and remembers."""

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QInputDialog
from pytestqt.qtbot import QtBot

from support.values.metrics import opened, rank_folder, segment_path, write_columns, write_rows
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.notes import StepNote
from torchdeck.runs.plots.x_axis import X_NAMES
from torchdeck_app.runs.plots.chooser import MetricChooser
from torchdeck_app.runs.plots.geometry import LEFT
from torchdeck_app.runs.plots.marks import Mark
from torchdeck_app.runs.plots.plot import Plot
from torchdeck_app.runs.plots.plot_grid import PlotGrid
from torchdeck_app.runs.plots.plot_menus import LimitsDialog
from torchdeck_app.theme.theme import Theme

START = 1e9


def make(folder: Path, rows: int = 5000, ranks: int = 1) -> None:
    """A run with a loss, a rate and a time of steps."""
    steps = np.arange(rows)
    for rank in range(ranks):
        random = np.random.default_rng(rank)
        columns = {"step_time": random.gamma(2, 0.1, rows)}
        if rank == 0:
            columns |= {"loss": random.normal(size=rows), "tokens_per_s": random.gamma(2, 1000, rows)}
        write_columns(rank_folder(folder, rank) / "log-1.metrics", columns, steps=steps, times=START + steps)


@pytest.fixture
def board(qtbot: QtBot, theme: Theme, tmp_path: Path) -> Iterator[PlotGrid]:
    made = PlotGrid(theme, RunLayout(tmp_path))
    qtbot.addWidget(made)
    made.resize(1000, 700)
    yield made
    made.closing()


def shown(qtbot: QtBot, board: PlotGrid) -> Plot:
    """Open the board and wait for its plots; the loss."""
    board.show()
    board.entered()
    qtbot.waitUntil(lambda: board.answer is not None and len(board.answer.plots) > 2)
    board.sheet.draw_all()
    return board.sheet.plot("loss")


@pytest.fixture
def follower(qtbot: QtBot, theme: Theme, tmp_path: Path) -> Iterator[PlotGrid]:
    """A second board of the run, which looks at the same moments: what it saw, the first could have seen."""
    made = PlotGrid(theme, RunLayout(tmp_path))
    qtbot.addWidget(made)
    made.resize(1000, 700)
    make(tmp_path, rows=50)
    shown(qtbot, made)
    yield made
    made.closing()


def log_more(qtbot: QtBot, follower: PlotGrid, folder: Path, log: str, first: int, last: int) -> None:
    """The run logs these steps, and whoever follows it has seen them."""
    steps = np.arange(first, last)
    losses = np.full(len(steps), 7.0)
    write_columns(segment_path(folder, log), {"loss": losses}, steps=steps, times=START + steps)
    plot = follower.sheet.plot("loss")
    qtbot.waitUntil(lambda: len(plot.content.curves[0].x) == last)


def place(plot: Plot, x: float) -> QPoint:
    """The point of the view at x, in the middle of the plot."""
    area = plot.area
    at: QPointF = plot.vb.mapToScene(QPointF(area.across.pixel(x), area.rect.center().y()))
    return at.toPoint()


def hover(board: PlotGrid, plot: Plot, x: float) -> None:
    """Move the pointer to x; from elsewhere, as it may be there since the test before."""
    QTest.mouseMove(board.sheet.viewport(), place(plot, x) - QPoint(20, 0))
    QTest.mouseMove(board.sheet.viewport(), place(plot, x))


def drag(board: PlotGrid, plot: Plot, first: float, last: float) -> None:
    """Drag over the plot from one x to another."""
    press(board, Qt.MouseButton.LeftButton, place(plot, first), place(plot, last))


def press(board: PlotGrid, button: Qt.MouseButton, first: QPoint, last: QPoint) -> None:
    view = board.sheet.viewport()
    QTest.mousePress(view, button, pos=first)
    QTest.mouseMove(view, last)
    QTest.mouseRelease(view, button, pos=last)


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


def test_values_are_pinned_in_all_plots_whatever_x_shows(
    qtbot: QtBot, board: PlotGrid, tmp_path: Path
) -> None:
    """Ctrl and a click pin them, or remove the pin that is there."""
    make(tmp_path)
    plot = shown(qtbot, board)
    view = board.sheet.viewport()
    at = place(plot, 3000)
    hover(board, plot, 3000)
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ControlModifier, at)
    (pin,) = board.sheet.plot("step_time").pinned()
    assert pin.x == pytest.approx(3000, abs=5)
    assert pin.texts[0] == f"step {pin.x:,.0f}"
    assert pin.texts[1].endswith(" ms")
    axis = board.toolbar.findChild(QComboBox)
    assert isinstance(axis, QComboBox)
    axis.setCurrentText("Elapsed time")
    qtbot.waitUntil(lambda: board.answer is not None and board.answer.kind == "relative")
    board.sheet.draw_all()
    (pin,) = plot.pinned()
    assert pin.texts[0] in ("49 min 58 s", "49 min 59 s", "50 min 0 s", "50 min 1 s")
    at = place(plot, pin.x)
    hover(board, plot, pin.x)
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ControlModifier, at)
    assert plot.pinned() == ()


def test_a_note_at_the_crosshair_is_a_mark_of_the_strip(
    qtbot: QtBot, board: PlotGrid, tmp_path: Path
) -> None:
    """Asked for in the menu of a plot; next to one, that one is changed."""
    make(tmp_path)
    plot = shown(qtbot, board)
    given: list[StepNote] = []
    board.note_given.connect(given.append)
    for text in ("lr lowered", ""):
        hover(board, plot, 3000)
        menu = plot.getContextMenus(None)
        menu.aboutToShow.emit()
        next(each for each in menu.actions() if each.text() == "Note at the crosshair…").trigger()
        dialog = board.findChildren(QInputDialog)[-1]
        assert dialog.textValue() == "".join(each.text for each in given)
        dialog.setTextValue(text)
        dialog.accept()
        board.set_notes(tuple(each for each in given[-1:] if each.text))
    assert given[0].step == pytest.approx(3000, abs=5)
    assert (given[0].time, given[0].step) == (given[1].time, given[1].step)
    assert board.sheet.strip.places() == []


def test_csv_has_every_row_exactly(qtbot: QtBot, board: PlotGrid, tmp_path: Path) -> None:
    make(tmp_path, ranks=2)
    shown(qtbot, board)
    target = tmp_path / "out.csv"
    plot = board.sheet.plot("step_time")
    board.menus.exporting.write(plot, "csv", RunLayout(tmp_path), target)
    qtbot.waitUntil(lambda: target.exists())
    with target.open() as file:
        rows = list(csv.DictReader(file))
    metrics = opened(tmp_path)
    for rank in (0, 1):
        series = metrics.series("step_time", rank)
        mine = [row for row in rows if row["rank"] == str(rank)]
        np.testing.assert_array_equal([float(row["value"]) for row in mine], series.values)
        np.testing.assert_array_equal([int(row["step"]) for row in mine], series.steps)
        np.testing.assert_array_equal([float(row["time"]) for row in mine], series.times)
    qtbot.waitUntil(lambda: board.toolbar.note.text() == "10,000 rows written to out.csv")


def test_pictures_are_written_and_a_folder_that_is_none_is_said(
    qtbot: QtBot, board: PlotGrid, tmp_path: Path
) -> None:
    make(tmp_path, ranks=12)
    plot = shown(qtbot, board)
    layout = RunLayout(tmp_path)
    for number, each in enumerate((plot, board.sheet.plot("step_time"))):
        board.menus.exporting.write(each, "png", layout, tmp_path / f"{number}.png")
        image = QImage(str(tmp_path / f"{number}.png"))
        size = each.size()
        assert (image.width(), image.height()) == (2 * size.width(), 2 * size.height())
        board.menus.exporting.write(each, "svg", layout, tmp_path / f"{number}.svg")
        assert "</svg>" in (tmp_path / f"{number}.svg").read_text()
    for suffix in ("png", "svg"):
        board.menus.exporting.write(plot, suffix, layout, tmp_path / "none" / f"x.{suffix}")
        assert board.toolbar.note.text().startswith(f"x.{suffix} could not be written: ")
        assert board.toolbar.note.property("role") == "error"


def test_marks_stand_under_the_loss_where_they_happened(
    qtbot: QtBot, board: PlotGrid, tmp_path: Path
) -> None:
    make(tmp_path)
    plot = shown(qtbot, board)
    board.set_marks(
        (
            Mark(START, 0, "attempt", "attempt 1"),
            Mark(START + 2500, None, "checkpoint", "checkpoint 2,500"),
            Mark(START + 9e9, 10**9, "checkpoint", "out of sight"),
        )
    )
    places = board.sheet.strip.places()
    assert [mark.text for _, mark in places] == ["attempt 1", "checkpoint 2,500"]
    assert places[1][0] == pytest.approx(LEFT + plot.area.across.pixel(2500), abs=1)


def test_what_is_not_a_number_is_said_in_the_plot(qtbot: QtBot, board: PlotGrid, tmp_path: Path) -> None:
    make(tmp_path)
    write_columns(
        segment_path(tmp_path, "log-2"),
        {"loss": np.array([np.nan, np.inf]), "lr": np.array([np.nan, 1e-3])},  # which is another plot's
        steps=np.array([5000, 5001]),
        times=START + np.array([5000, 5001]),
    )
    plot = shown(qtbot, board)
    assert plot.content.odd_count == 2
    assert np.isfinite(plot.y_range).all()
    assert not board.grab().isNull()


def test_out_of_sight_it_reads_nothing(
    qtbot: QtBot, board: PlotGrid, follower: PlotGrid, tmp_path: Path
) -> None:
    plot = shown(qtbot, board)
    board.left()
    log_more(qtbot, follower, tmp_path, "log-2", 50, 55)  # a look that had begun is over by then
    answer = board.answer
    log_more(qtbot, follower, tmp_path, "log-3", 55, 60)
    assert board.answer is answer
    board.entered()
    qtbot.waitUntil(lambda: len(plot.content.curves[0].x) == 60)


def test_a_newer_format_is_said_in_place(qtbot: QtBot, board: PlotGrid, tmp_path: Path) -> None:
    make(tmp_path)
    shown(qtbot, board)
    (rank_folder(tmp_path, 0) / "log-9.metrics").write_text("nonsense\n")
    qtbot.waitUntil(lambda: "not a metrics segment" in board.toolbar.note.text())
    assert board.toolbar.note.property("role") == "error"
    assert len(board.sheet.shown) == 3


def test_a_run_that_is_removed_meanwhile_is_said(qtbot: QtBot, board: PlotGrid, tmp_path: Path) -> None:
    make(tmp_path, ranks=2)
    shown(qtbot, board)
    shutil.rmtree(tmp_path)
    board.resize(900, 700)  # asks again
    qtbot.waitUntil(lambda: board.toolbar.note.text() == "The run's directory was removed")
    board.sheet.draw_all()
    board.grab()
    assert board.toolbar.note.property("role") == "error"
