"""The heat map as a person sees it."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from support.values.histories import ALIVE, controller_journal, event, fold, running_run
from support.values.metrics import rank_folder, write_columns
from torchdeck.contract.journal import Event
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.view import RunView
from torchdeck_app.runs.page.ranks_panel import RankHeatMap
from torchdeck_app.theme.theme import Theme

ROWS = 400


@pytest.fixture
def view(qtbot: QtBot, theme: Theme, tmp_path: Path) -> RankHeatMap:
    made = RankHeatMap(theme, RunLayout(tmp_path))
    qtbot.addWidget(made)
    made.resize(900, 300)
    made.show()
    made.destroyed.connect(lambda: None)
    return made


def make(folder: Path, ranks: int, slow: int) -> None:
    """Ranks of which one is slow from the middle on."""
    steps = np.arange(ROWS)
    for rank in range(ranks):
        took = np.random.default_rng(rank).normal(0.2, 0.005, ROWS)
        took[steps >= ROWS // 2] *= 2.0 if rank == slow else 1.0
        columns = {"step_time": took, "memory_bytes": np.full(ROWS, 1e9)}
        columns |= {"loss": took} if rank == 0 else {}
        write_columns(rank_folder(folder, rank) / "log-1.metrics", columns, steps=steps, times=1e9 + steps)


@pytest.mark.parametrize("ranks", [4, 200])
def test_a_straggler_is_named_and_bright(qtbot: QtBot, view: RankHeatMap, tmp_path: Path, ranks: int) -> None:
    make(tmp_path, ranks, slow=2)
    view.entered()
    qtbot.waitUntil(lambda: view.matrix is not None and bool(view.matrix.found))
    assert view.verdict.text() == "Rank 2 is 2.0 × the median since step 200."
    image = view.map.grab().toImage()
    area = view.map.area
    tall = area.height() / ranks
    x = round(area.left() + area.width() * 0.75)
    slow = image.pixelColor(x, round(area.top() + 2.5 * tall))
    fast = image.pixelColor(x, round(area.top() + (ranks - 0.5) * tall))
    assert slow.lightnessF() > fast.lightnessF() + 0.15
    view.closing()


def test_pointing_tells_rank_value_and_time(qtbot: QtBot, view: RankHeatMap, tmp_path: Path) -> None:
    make(tmp_path, 4, slow=2)
    view.entered()
    qtbot.waitUntil(lambda: view.matrix is not None and bool(view.matrix.ranks))
    times: list[float | None] = []
    view.cursor_moved.connect(times.append)
    area = view.map.area
    place = QPoint(round(area.left() + area.width() * 0.75), round(area.top() + 2.5 * area.height() / 4))
    QTest.mouseMove(view.map, place)
    assert view.verdict.text().startswith("rank 2, step 300: 4")
    assert view.verdict.text().endswith(" × the median")
    assert times[-1] == pytest.approx(1e9 + 300, abs=2)
    QTest.mouseMove(view.map, QPoint(2, 2))
    assert view.verdict.text().startswith("Rank 2 is")
    view.closing()


def test_another_metric_and_the_time_can_be_chosen_and_are_remembered(
    qtbot: QtBot, view: RankHeatMap, theme: Theme, tmp_path: Path
) -> None:
    make(tmp_path, 4, slow=2)
    view.entered()
    qtbot.waitUntil(lambda: view.matrix is not None and bool(view.matrix.ranks))
    titles = [view._choice.itemText(number) for number in range(view._choice.count())]
    assert titles == ["Step time", "Memory now"]
    view._choice.setCurrentIndex(1)
    view._axis.setCurrentIndex(1)
    qtbot.waitUntil(lambda: view.matrix is not None and view.matrix.asked.kind == "relative")
    assert view.matrix is not None
    assert view.matrix.metric is not None
    assert view.matrix.metric.key == "memory"
    np.testing.assert_array_equal(np.unique(view.matrix.values[np.isfinite(view.matrix.values)]), [1e9])
    again = RankHeatMap(theme, RunLayout(tmp_path))
    qtbot.addWidget(again)
    again.restore_state(view.save_state())
    assert again.save_state() == {"metric": "memory", "axis": "relative"}
    view.closing()


def test_a_run_without_ranks_says_what_will_be_here(qtbot: QtBot, view: RankHeatMap) -> None:
    view.entered()
    qtbot.waitUntil(lambda: view.matrix is not None)
    assert view._pages.currentIndex() == 1
    view.closing()


def test_few_steps_leave_no_stripes(qtbot: QtBot, view: RankHeatMap, tmp_path: Path) -> None:
    for rank in range(2):
        steps = np.arange(0, 1000, 50)
        columns = {"step_time": np.full(len(steps), 0.2 + rank)}
        write_columns(rank_folder(tmp_path, rank) / "log-1.metrics", columns, steps=steps, times=1e9 + steps)
    view.entered()
    qtbot.waitUntil(lambda: view.matrix is not None and bool(view.matrix.ranks))
    assert view.matrix is not None
    filled = np.isfinite(view.matrix.values)
    assert filled[:, : int(np.flatnonzero(filled.any(axis=0))[-1])].all()
    view.closing()


def test_a_run_that_is_removed_meanwhile_is_said(qtbot: QtBot, view: RankHeatMap, tmp_path: Path) -> None:
    make(tmp_path, 4, slow=2)
    view.entered()
    qtbot.waitUntil(lambda: view.matrix is not None and bool(view.matrix.ranks))
    shutil.rmtree(tmp_path)
    view.resize(800, 300)  # asks again
    qtbot.waitUntil(lambda: view.matrix is not None and not view.matrix.ranks)
    view.grab()
    assert "cannot be read" in view.verdict.text()
    view.closing()


def delayed(*events: Event) -> RunView:
    return fold(
        "r", controller_journal(), {"localhost": [*running_run(), *events]}, {"localhost": {}}, ALIVE, 110.0
    )


def test_a_rank_that_makes_the_others_wait_is_framed_and_named(
    qtbot: QtBot, view: RankHeatMap, tmp_path: Path
) -> None:
    """From its first slow step on, although all step times are equal."""
    make(tmp_path, 4, slow=-1)
    detail = "Rank 3 makes the others wait 18 % of each step since step 200"
    slow = event(
        "straggler", attempt=1, ranks=[3], share=0.18, since=1.0, step=200, detail=detail, differs=[]
    )
    view.entered()
    qtbot.waitUntil(lambda: view.matrix is not None and bool(view.matrix.ranks))
    assert view.verdict.text() == "No rank lags behind the others."
    before = view.map.grab().toImage()
    view.show_view(delayed(slow))
    assert view.verdict.text() == f"{detail}."
    after, area = view.map.grab().toImage(), view.map.area
    rows = [round(area.top() + (row + 1) * area.height() / 4) - 2 for row in (2, 3)]
    early, late = (round(area.left() + area.width() * part) for part in (0.25, 0.75))
    changed = [[before.pixel(x, y) != after.pixel(x, y) for x in (early, late)] for y in rows]
    assert changed == [[False, False], [False, True]]
    view.show_view(delayed(slow, event("straggler_over", attempt=1, ranks=[3])))
    assert view.verdict.text() == "No rank lags behind the others."
    view.closing()
