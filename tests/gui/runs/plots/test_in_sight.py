"""What of the plots is in sight where there is little room: axes, names, sentences."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from support.values.metrics import rank_folder, write_columns
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.plots import entries as legend
from torchdeck_app.runs.plots.geometry import LEFT, numbers
from torchdeck_app.runs.plots.marks import STRIP, Mark, MarkStrip
from torchdeck_app.runs.plots.plot_grid import PlotGrid
from torchdeck_app.runs.plots.plot_sheet import PlotSheet
from torchdeck_app.runs.plots.toolbar import PlotToolbar
from torchdeck_app.runs.plots.view_box import PlotView
from torchdeck_app.theme.theme import Theme

START = 1e9


def make(folder: Path, ranks: int = 1) -> RunLayout:
    """A run with a loss and a time of steps, and no tokens."""
    steps = np.arange(100)
    for rank in range(ranks):
        columns = {"step_time": np.full(100, 0.1), "loss": np.linspace(3, 2, 100)}
        if rank == 0:
            columns["validation_loss"] = np.linspace(3, 2.5, 100)
        write_columns(rank_folder(folder, rank) / "log-1.metrics", columns, steps=steps, times=START + steps)
    return RunLayout(folder)


@pytest.fixture
def board(qtbot: QtBot, theme: Theme, tmp_path: Path) -> Iterator[PlotGrid]:
    made = PlotGrid(theme, make(tmp_path / "one"))
    qtbot.addWidget(made)
    made.resize(800, 245)
    made.show()
    made.entered()
    qtbot.waitUntil(lambda: made.answer is not None and "loss" in made.answer.plots)
    made.sheet.draw_all()
    yield made
    made.closing()


def test_the_loss_shrinks_until_its_axis_and_the_saves_are_in_sight(qtbot: QtBot, board: PlotGrid) -> None:
    sheet, room = board.sheet, board._scroll.viewport()
    strip, loss = sheet.strip.geometry(), sheet.plot("loss")
    assert sheet.strip.isVisible()
    assert sheet.mapTo(room, strip.bottomLeft().toPoint()).y() <= room.height()
    assert loss.size().height() >= 136
    board.resize(800, 700)
    qtbot.waitUntil(lambda: loss.size().height() == 232)


def test_plots_are_painted_where_the_view_lies_in_its_window(qtbot: QtBot, board: PlotGrid) -> None:
    """Axes and curves, too, of which the exposed part alone is painted."""
    room = board._scroll.viewport()
    place = QRect(room.mapTo(board, QPoint()), room.size())
    assert place.topLeft() != QPoint()
    board.sheet.set_cursor(None)
    own = board.sheet.grab(QRect(QPoint(), room.size())).toImage()

    def is_painted() -> bool:
        board.sheet.viewport().repaint()
        x, y, width, height = place.x(), place.y(), place.width(), place.height()
        return bool(board.screen().grabWindow(board.winId(), x, y, width, height).toImage() == own)

    qtbot.waitUntil(is_painted)


def test_the_axis_box_says_what_is_shown_though_another_was_asked_for(qtbot: QtBot, board: PlotGrid) -> None:
    box = board.toolbar._axis
    box.setCurrentIndex(box.findText("Tokens"))
    qtbot.waitUntil(lambda: "logs no tokens" in board.toolbar.note.text())
    assert board.answer is not None
    shown = board.answer.kind
    assert shown != "tokens"
    assert box.currentText() != "Tokens"
    said = box.currentText()
    box.setCurrentIndex(box.findText("Tokens"))  # once more: it still cannot be had
    qtbot.waitUntil(lambda: box.currentText() == said)


def test_a_sentence_too_long_for_the_row_has_a_line_of_its_own(qtbot: QtBot, theme: Theme) -> None:
    bar = PlotToolbar(theme)
    qtbot.addWidget(bar)
    bar.resize(800, 40)
    bar.show()
    one_row = bar.sizeHint().height()
    for text, rows in (
        ("225 rows written to /home/ada/runs/quickstart/metrics/loss-of-all-ranks.csv " * 2, 2),
        ("", 1),
    ):
        bar.say(text)
        assert (bar.sizeHint().height() > one_row) == (rows == 2)


def test_compared_runs_are_told_by_colour_and_their_series_by_name(
    qtbot: QtBot, board: PlotGrid, tmp_path: Path
) -> None:
    layouts = [RunLayout(tmp_path / "one"), make(tmp_path / "two", ranks=2)]
    board.set_runs(layouts, ["one", "two"])
    qtbot.waitUntil(lambda: board.answer is not None and "loss" in board.answer.plots)
    assert board.answer is not None
    entries = legend.latest(board.answer.plots["loss"], "loss")
    assert [(each.colour, each.short) for each in entries] == [
        (0, "train"),
        (0, "validation"),
        (1, "rank 0 train"),
        (1, "rank 1 train"),
        (1, "rank 0 validation"),
    ]
    assert entries[0].text == "2.0000"


def test_the_label_of_the_strip_is_not_cut_off(qtbot: QtBot, theme: Theme) -> None:
    """Left of it there is a column of pixels without ink."""
    strip = MarkStrip(theme)
    strip.resize(400, STRIP)
    picture = QImage(400, STRIP, QImage.Format.Format_RGB32)
    picture.fill(theme.colour("surface"))
    painter = QPainter(picture)
    strip.paint(painter, None)
    painter.end()
    columns = [{picture.pixel(x, y) for y in range(picture.height())} for x in range(LEFT)]
    assert len(columns[0]) == 1
    assert any(len(column) > 1 for column in columns)


def test_one_attempt_is_not_called_attempts(qtbot: QtBot, theme: Theme) -> None:
    sheet = PlotSheet(theme, lambda _plot, _menu: None)
    qtbot.addWidget(sheet)
    sheet.set_marks((Mark(START, 0, "attempt", ""),))
    assert sheet.accessibleDescription() == "1 attempt, 0 checkpoints"


def test_a_logarithmic_axis_ends_before_numbers_do(qapp: QApplication) -> None:
    assert numbers((-400.0, 400.0), log=True) == (1e-300, 1e300)
    assert numbers((-400.0, 400.0), log=False) == (-400.0, 400.0)
    view = PlotView()
    view.limit(log_x=True, log_y=False)
    view.setXRange(0, 3, padding=0)
    view.scaleBy(x=1000)
    assert view.viewRange()[0] == [-300, 300]
    view.setYRange(-1e6, 1e6, padding=0)
    assert view.viewRange()[1] == [-1e6, 1e6]
