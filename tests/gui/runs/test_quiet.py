"""What a look at a live run, once a second, leaves undone: a layout where all keeps its room."""

from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QStyledItemDelegate, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from support.values.histories import agent_started, controller_journal, started
from support.values.made_runs import make_run
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.follower import read_run
from torchdeck.runs.run_list import RunEntry, RunsSeen
from torchdeck.runs.training_progress import TrainingProgress
from torchdeck.runs.view import RunView
from torchdeck_app.runs.logs.log_bar import LogBar
from torchdeck_app.runs.logs.messages import Choice, LogPage, Search
from torchdeck_app.runs.page.header import RunHeader
from torchdeck_app.runs.run_table import RunTable
from torchdeck_app.runs.run_watch import RunSeen
from torchdeck_app.theme.theme import Theme


class Layouts(QObject):
    """Counts how often a widget is asked to lay out what is in it."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__()
        self.watched = widget  # kept as long as it is counted
        self.count = 0
        widget.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        self.count += event.type() == QEvent.Type.LayoutRequest
        return False


def settle(qapp: QApplication) -> None:
    """A layout asks for that of what is around it, and so on."""
    for _ in range(5):
        qapp.processEvents()


def counted(widget: QWidget, qtbot: QtBot, qapp: QApplication) -> Layouts:
    """Of a window around it, which has been laid out."""
    window = QWidget()
    qtbot.addWidget(window)
    QVBoxLayout(window).addWidget(widget)
    window.resize(900, 400)
    window.show()
    settle(qapp)
    return Layouts(window)


@pytest.fixture
def view(tmp_path: Path) -> RunView:
    return read_run(make_run(tmp_path, controller_journal(), [agent_started(), started()]))


def test_the_header_says_another_step_where_it_said_the_last(
    theme: Theme, qtbot: QtBot, qapp: QApplication, view: RunView
) -> None:
    header = RunHeader(theme)
    layouts = counted(header, qtbot, qapp)

    def show(step: int) -> None:
        header.show_run(RunSeen(view, TrainingProgress("training", step, 9000, loss=1 / step)), ())
        settle(qapp)

    for step in (999, 1000):  # what the first one moved settles
        show(step)
    layouts.count = 0
    for step in range(1001, 1006):
        show(step)
    assert layouts.count == 0


def test_the_bar_above_the_lines_stays_where_nothing_new_is_offered(
    theme: Theme, qtbot: QtBot, qapp: QApplication
) -> None:
    bar = LogBar(theme)
    layouts = counted(bar, qtbot, qapp)

    def show(lines: int, ranks: tuple[int, ...]) -> None:
        bar.show_page(LogPage(Choice(), Search(), 0, (), lines, ranks, (1,)))
        settle(qapp)

    for lines in (9, 10):  # what the first one moved settles
        show(lines, (0,))
    layouts.count = 0
    for lines in range(11, 16):
        show(lines, (0,))
    assert layouts.count == 0
    show(20, (0, 1000))
    assert layouts.count > 0
    assert bar.rank.findData(1000) > 0


def test_a_row_that_changes_is_not_measured_by_what_it_says(
    theme: Theme,
    qtbot: QtBot,
    qapp: QApplication,
    view: RunView,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = RunTable(theme)
    layouts = counted(table, qtbot, qapp)
    layout = RunLayout(tmp_path / "runs" / view.id)

    def show(step: int) -> None:
        entry = RunEntry(view.id, layout, view, TrainingProgress("training", step, 9000, loss=1 / step))
        table.set_seen(RunsSeen((entry,)))
        settle(qapp)

    for step in (999, 1000):  # what the first one moved settles
        show(step)
    measured: list[object] = []
    monkeypatch.setattr(QStyledItemDelegate, "sizeHint", lambda *all_of: measured.append(all_of))
    layouts.count = 0
    for step in range(1001, 1006):
        show(step)
    assert (layouts.count, measured) == (0, [])
