"""What plots show besides curves, and what leaves them: pins, notes, marks, exports, unreadable files."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox, QInputDialog
from pytestqt.qtbot import QtBot

from gui.runs.plots.conftest import START, hover, log_more, make, place, shown
from support.values.metrics import opened, rank_folder, segment_path, write_columns
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.notes import StepNote
from torchdeck_app.runs.plots.geometry import LEFT
from torchdeck_app.runs.plots.marks import Mark
from torchdeck_app.runs.plots.plot_grid import PlotGrid


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
