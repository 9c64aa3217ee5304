"""What others wrote into a run's files shows as it is, and is never taken for HTML."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QAbstractItemModel, QAbstractListModel, QModelIndex, Qt
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QAbstractItemView, QComboBox, QLabel, QWidget
from pytestqt.qtbot import QtBot

import torchdeck
from gui.runs.conftest import Opened
from support.values.histories import agent_started, ended, event, failure, finished, started
from support.values.metrics import write_rows
from support.values.run_homes import add_run, run_id
from torchdeck.runs.folders.git_state import GitState
from torchdeck.runs.folders.notes import Note
from torchdeck.telemetry.run_log import log_of_this_process
from torchdeck.use_cases.table.notes import change_notes
from torchdeck_app.runs.runs_page import RunsPage
from torchdeck_app.widgets.labels import ElidedLabel

EVIL = "<b>evil</b><img src=file:///none.png>"


def tips(widget: QWidget) -> Iterator[str]:
    """Tooltips of a widget and of everything in it."""
    for each in [widget, *widget.findChildren(QWidget)]:
        yield each.toolTip()
        if isinstance(each, QComboBox | QAbstractItemView) and each.model() is not None:
            yield from tips_of_cells(each.model(), QModelIndex())


def tips_of_cells(model: QAbstractItemModel, parent: QModelIndex) -> Iterator[str]:
    is_list = isinstance(model, QAbstractListModel)
    columns = 1 if is_list else model.columnCount(parent)
    for row in range(model.rowCount(parent)):
        for column in range(columns):
            index = model.index(row, column, parent)
            yield str(index.data(Qt.ItemDataRole.ToolTipRole) or "")
            if column == 0 and not is_list and model.hasChildren(index):
                yield from tips_of_cells(model, index)


def as_seen(tip: str) -> str:
    """What a person reads of a tooltip with tags in it."""
    document = QTextDocument()
    document.setHtml(tip)
    return document.toPlainText()


def labels(widget: QWidget) -> list[QLabel]:
    return [each for each in widget.findChildren(QLabel) if not isinstance(each, ElidedLabel)]


def make_run(home: Path) -> None:
    first = failure(message=f"ValueError: {EVIL}", traceback=f"Traceback\n  {EVIL}\nValueError: {EVIL}")
    node = [
        agent_started(),
        started(world_size=2),
        event("rank_exited", attempt=1, rank=1, code=1, signal=None),
        ended(outcome="failed", first=first),
        finished("FAILED", why=f"rank 1 failed: {EVIL}"),
    ]
    layout = add_run(home, 1, node, name=f"name {EVIL}", strategy=f"ddp {EVIL}", target=f"{EVIL}.py")
    layout.config.write_text(f'[run]\nname = "{EVIL}"\nrecipe = "byte-gpt"\n')
    state = GitState("c" * 40, EVIL, f"+{EVIL}\n", (EVIL,))
    layout.git.write_text(json.dumps(state.to_json()))
    write_rows(layout.root, [(step, {EVIL: 1.0 * step, "loss": 2.0}) for step in range(50)])
    folder = layout.attempt(1).rank(0).root
    (folder / "stdout.log").write_text(f"{EVIL}\n")
    (folder / "stderr.log").write_text(f"RuntimeError: {EVIL}\n")
    log = log_of_this_process(
        {
            "TORCHDECK_RUN_DIR": str(layout.root),
            "TORCHDECK_RUN_ID": layout.root.name,
            "TORCHDECK_ATTEMPT": "1",
            "RANK": "0",
        }
    )
    log({f"text {EVIL}": torchdeck.Text(EVIL, caption=f"caption {EVIL}")}, step=1)
    add_run(home, 2, name=f"other {EVIL}")
    change_notes(home, (run_id(1),), lambda _: Note((EVIL.replace(" ", ""),), f"note {EVIL}"))


@pytest.fixture
def place(opened: Opened, tmp_path: Path) -> RunsPage:
    make_run(tmp_path)
    return opened(tmp_path)


def test_nothing_that_a_run_says_is_taken_for_html(qtbot: QtBot, place: RunsPage) -> None:
    place.open_run(run_id(1))
    qtbot.waitUntil(lambda: place.page is not None and place.page.header.state_word == "failed")
    page = place.page
    assert page is not None
    qtbot.waitUntil(lambda: page.card.report is not None)
    page.card.set_folded(folded=True)
    qtbot.waitUntil(lambda: page.plots.answer is not None)
    is_read = {
        page.logs: lambda: page.logs.area._total > 0,
        page.ranks: lambda: page.ranks.matrix is not None,
        page.checkpoints: lambda: page.checkpoints.isVisible(),  # none there to be read
        page.timeline: lambda: bool(page.timeline.shown),
        page.configuration: lambda: page.configuration.isVisible(),  # waited for below
        page.code: lambda: "evil" in page.code.message and "evil" in page.code.text.toPlainText(),
        page.try_out: lambda: page.try_out.isVisible(),
        page.media: lambda: page.media.content.text.toPlainText() == EVIL,
    }
    for tab in range(page.tabs.count()):
        page.tabs.setCurrentIndex(tab)
        qtbot.waitUntil(is_read[page._room_now])
    page.configuration.choice.setCurrentIndex(1)
    page.configuration.choice.activated.emit(1)
    timeline, grid = page.timeline, page.configuration
    qtbot.waitUntil(lambda: any("rank 1 failed" in each.text for each in timeline.shown))
    qtbot.waitUntil(lambda: any("evil" in tip for tip in tips(grid)))
    found = [as_seen(tip) for tip in tips(place) if "evil" in tip]
    wrong = [tip for tip in found if "<b>evil</b><img" not in tip]
    assert wrong == []
    assert len(found) > 10, found
    said = [each for each in labels(place) if "evil" in each.text()]
    assert said
    assert {each.textFormat() for each in said} == {Qt.TextFormat.PlainText}
