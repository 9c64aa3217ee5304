"""A grid of plots over a run with logged metrics, and a pointer over it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from support.values.metrics import rank_folder, segment_path, write_columns
from torchdeck.contract.layout import RunLayout
from torchdeck_app.runs.plots.plot import Plot
from torchdeck_app.runs.plots.plot_grid import PlotGrid
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
