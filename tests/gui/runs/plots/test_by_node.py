"""Plots of one node of a run on several."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from support.values.metrics import rank_folder, write_columns
from torchdeck.contract.layout import RunLayout
from torchdeck_app.runs.plots.plot_grid import PlotGrid
from torchdeck_app.theme.theme import Theme

STEPS = np.arange(20)
TIMES = 1e9 + STEPS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two ranks on each of two nodes, a GPU on one of them; rank 0 logs the loss."""
    nodes = [{"name": name, "nproc": 2} for name in ("a", "b")]
    RunLayout(tmp_path).plan.write_text(json.dumps({"nodes": nodes}))
    for rank in range(4):
        columns = {"step_time": np.full(20, rank + 1.0)} | ({"loss": STEPS * 0.5} if rank == 0 else {})
        write_columns(rank_folder(tmp_path, rank) / "log-1.metrics", columns, steps=STEPS, times=TIMES)
    for at, name in enumerate("ab"):
        columns = {"cpu_percent": np.full(20, 10.0 * (at + 1))} | ({"gpu0_util": STEPS * 1.0} if at else {})
        path = RunLayout(tmp_path).node(name).system / "system-1.metrics"
        write_columns(path, columns, steps=STEPS, times=TIMES)
    return tmp_path


@pytest.fixture
def board(qtbot: QtBot, theme: Theme, folder: Path) -> Iterator[PlotGrid]:
    made = PlotGrid(theme, RunLayout(folder))
    qtbot.addWidget(made)
    made.resize(1000, 700)
    made.show()
    made.entered()
    qtbot.waitUntil(lambda: made.answer is not None and "step_time" in made.answer.plots)
    yield made
    made.closing()


def test_a_node_is_chosen_above_the_plots(qtbot: QtBot, board: PlotGrid) -> None:
    box = board.toolbar.nodes
    assert box.isVisible()
    assert [box.itemText(at) for at in range(box.count())] == ["All nodes", "a", "b"]

    def drawn() -> list[str]:
        plot = None if board.answer is None else board.answer.plots.get("step_time")
        return [] if plot is None else [curve.label for curve in plot.curves]

    assert len(drawn()) == 4
    box.setCurrentIndex(2)
    box.activated.emit(2)
    qtbot.waitUntil(lambda: drawn() == ["rank 2 on b", "rank 3 on b"])
    box.setCurrentIndex(0)
    box.activated.emit(0)
    qtbot.waitUntil(lambda: len(drawn()) == 4)


def test_a_run_on_one_node_has_none_to_choose(qtbot: QtBot, theme: Theme, folder: Path) -> None:
    RunLayout(folder).plan.write_text(json.dumps({"nodes": [{"name": "a", "nproc": 4}]}))
    board = PlotGrid(theme, RunLayout(folder))
    qtbot.addWidget(board)
    board.show()
    board.entered()
    qtbot.waitUntil(lambda: board.answer is not None and bool(board.answer.metrics))
    assert not board.toolbar.nodes.isVisible()
    board.closing()
