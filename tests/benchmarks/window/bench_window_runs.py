"""How fast the list of 5,000 runs scrolls, filters, sorts, groups and follows a run."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import Qt
from PySide6.QtGui import QStandardItem, QStandardItemModel
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTreeView

from benchmarks.rows import Row
from support.values.run_entries import entry, live_view, progress, run_id
from torchdeck.runs.run_list import RunEntry, RunsSeen
from torchdeck_app.runs.run_table import RunTable
from torchdeck_app.theme.theme import Theme

RUNS = 5000
COLUMNS = ("loss", "step", "started", "duration", "training.lr", "training.seed", "grad_norm")
FRAMES = 200
REPEATS = 9
FRAME = 1000 / 60
"""Milliseconds of a frame at 60 per second."""
AT_ONCE = 200.0
"""Milliseconds within which a key press or click seems to act at once."""


def run() -> list[Row]:
    """Milliseconds of the GUI thread, in a window of 1,280 × 720 with nine columns."""
    app = QApplication.instance() or QApplication([])
    assert isinstance(app, QApplication)
    table = RunTable(Theme(app, "light"))
    table.resize(1280, 720)
    table.show()
    QTest.qWaitForWindowExposed(table)
    entries = _entries()
    try:
        begun = time.thread_time()
        table.set_seen(RunsSeen(entries))
        app.processEvents()
        shown = 1000 * (time.thread_time() - begun)
        table.set_columns(
            ("loss", "step", "started", "duration", "training.lr", "training.seed", "grad_norm")
        )
        frames = _scrolled(app, table.list)
        peer = statistics.median(_scrolled(app, _plain_tree(table)))
        return [
            replace(
                _row(f"{RUNS:,} runs: one frame of scrolling, median", statistics.median(frames), FRAME),
                peer=peer,
                peer_name="QStandardItemModel",
                ratio=statistics.median(frames) / peer,
            ),
            Row(f"{RUNS:,} runs: 99 of 100 frames", sorted(frames)[int(0.99 * len(frames))], "ms"),
            Row(f"{RUNS:,} runs: first shown", shown, "ms"),
            _row("a key press in the filter", _filtered(app, table), AT_ONCE),
            _row("sorted by a setting", _sorted(app, table), AT_ONCE),
            _row("grouped by seed", _grouped(app, table), AT_ONCE),
            _row("a poll in which one run has changed", _followed(app, table, entries), AT_ONCE),
        ]
    finally:
        table.close()


def _row(name: str, value: float, goal: float) -> Row:
    return Row(name, value, "ms", wanted=goal, lower_is_better=True, goal_is_absolute=True)


def _entries() -> tuple[RunEntry, ...]:
    return tuple(
        entry(
            number,
            progress=progress(number, 6000, loss=2.0 + number % 97 / 100),
            loss_curve=tuple(3.0 / (1 + at) for at in range(48)),
            settings={"training.lr": f"{(number % 11 + 1) / 1000:g}", "training.seed": str(number % 5)},
            metrics={"grad_norm": 1.0 + number % 13, "loss": 2.0},
        )
        for number in range(RUNS, 0, -1)
    )


def _plain_tree(table: RunTable) -> QTreeView:
    """Return Qt's own tree with Qt's own model and delegate, of the same texts and size."""
    shown = [table.model.keys.index(key) for key in table.list.shown_keys()]
    model = QStandardItemModel(RUNS, len(shown), table)
    for at in range(RUNS):
        for column, source in enumerate(shown):
            model.setItem(at, column, QStandardItem(str(table.model.index(at, source).data())))
    tree = QTreeView(table.window())
    tree.setRootIsDecorated(False)
    tree.setUniformRowHeights(True)
    tree.setModel(model)
    tree.setGeometry(table.list.geometry())
    tree.show()
    return tree


def _scrolled(app: QApplication, tree: QTreeView) -> list[float]:
    """Return the time of each frame while the list moves by three rows per frame, as a wheel does."""
    bar = tree.verticalScrollBar()
    found = []
    for number in range(FRAMES):
        begun = time.thread_time()
        bar.setValue(3 * (number + 1) * bar.singleStep() % max(1, bar.maximum()))
        app.processEvents()
        found.append(1000 * (time.thread_time() - begun))
    bar.setValue(0)
    return found


def _median(app: QApplication, act: Callable[[int], object]) -> float:
    found = []
    for number in range(REPEATS):
        begun = time.thread_time()
        act(number)
        app.processEvents()
        found.append(1000 * (time.thread_time() - begun))
    return statistics.median(found)


def _filtered(app: QApplication, table: RunTable) -> float:
    texts = ("lr > 0.00", "lr > 0.005", "g", "gp", "gpt", "loss < 2.5", "grad_norm > 4", "gpt 3", "")
    return _median(app, lambda number: table.filter_bar.field.setText(texts[number % len(texts)]))


def _sorted(app: QApplication, table: RunTable) -> float:
    column = table.model.keys.index("training.lr")
    orders = (Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder)
    found = _median(app, lambda number: table.list.sortByColumn(column, orders[number % 2]))
    table.list.sortByColumn(table.model.keys.index("started"), Qt.SortOrder.DescendingOrder)
    return found


def _grouped(app: QApplication, table: RunTable) -> float:
    found = _median(app, lambda number: table.set_group("seed" if number % 2 == 0 else ""))
    table.set_group("")
    return found


def _followed(app: QApplication, table: RunTable, entries: tuple[RunEntry, ...]) -> float:
    live = entry(RUNS, live_view(run_id(RUNS)))
    polls = [replace(live, progress=progress(number, 100, loss=1.0)) for number in range(REPEATS)]
    return _median(app, lambda number: table.set_seen(RunsSeen((polls[number], *entries[1:]))))
