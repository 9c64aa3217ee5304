"""The Queue page, as a person sees it: entries in their order, changes, and the server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester, QTest
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot

from support.values.golden_values import QUEUE
from torchdeck.queue.entry import Entry, Stage
from torchdeck.queue.queue_file import change_queue, read_queue
from torchdeck.queue.scheduling.ask import Ask, Place
from torchdeck.queue.scheduling.scheduler import Wait
from torchdeck.queue.state import QueueError, QueueLimits
from torchdeck.use_cases.queue.listing import ListedEntry, QueueListing
from torchdeck.use_cases.queue.status import ServerStatus
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.queue import server_bar
from torchdeck_app.queue.entry_cells import details, look_of, start_text
from torchdeck_app.queue.entry_model import COLUMNS, DETAILS, NAME, PLACE, START, STATE
from torchdeck_app.queue.limits_dialog import parse_numbers
from torchdeck_app.queue.queue_page import QueuePage
from torchdeck_app.theme.theme import Theme

SLOW = 30_000
NOW = time.mktime((2026, 11, 29, 12, 0, 0, 0, 0, -1))
RUN = "20261123T191246Z-golden-bb7c16"
EVIL = "<b>evil</b>\u202e\nname"
BASE = replace(QUEUE.find("q3"), ask=Ask(("localhost",), 0, 0), paused=False, note="", after=())
RUNNING = replace(
    BASE, id="q1", name="first", stage=Stage.RUNNING, run=RUN, places=(Place("localhost"),), begun=NOW
)


def waiting(number: int, name: str = "", priority: int = 0) -> Entry:
    return replace(BASE, id=f"q{number}", name=name or f"n{number}", position=number, priority=priority)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    return made


def put(home: Path, *entries: Entry) -> None:
    change_queue(home, lambda queue: replace(queue, entries=entries, next_number=100))


@pytest.fixture
def place(theme: Theme, operations: Operations, home: Path, qtbot: QtBot) -> Iterator[QueuePage]:
    made = QueuePage(theme, operations, home)
    qtbot.addWidget(made)
    made.resize(1200, 700)
    made.show()
    yield made
    made.closing()


def order(home: Path) -> list[str]:
    return [entry.id for entry in read_queue(home).waiting()]


def shown_ids(place: QueuePage) -> list[str]:
    return [each.entry.id for each in place.table.entries.rows]


def shows(place: QueuePage, ids: list[str]) -> bool:
    return shown_ids(place) == ids


def opened(place: QueuePage, qtbot: QtBot, *selected: str) -> None:
    """Show the page, and select entries."""
    place.entered()
    qtbot.waitUntil(lambda: bool(place.table.entries.rows), timeout=SLOW)
    place.table.setFocus()
    place.table.clearSelection()
    place.table._select(set(selected), selected[0])


def cell(place: QueuePage, row: int, column: int, role: int = Qt.ItemDataRole.DisplayRole) -> str:
    return str(place.table.entries.index(row, column).data(role))


def test_an_empty_queue_says_what_it_is_and_how_to_add(place: QueuePage, qtbot: QtBot) -> None:
    place.entered()
    qtbot.waitUntil(lambda: place._listing is not None, timeout=SLOW)
    assert place.empty.isVisible()
    assert "Run › Add to the queue" in place.empty._sentence.text()
    with qtbot.waitSignal(place.launch_asked):
        place.empty.button.click()
    place.left()
    assert not place._poller.is_running


def test_entries_are_shown_in_order_and_lead_to_their_runs(
    place: QueuePage, home: Path, qtbot: QtBot
) -> None:
    put(home, waiting(2), RUNNING, waiting(3, priority=2), replace(waiting(4), paused=True))
    tester = QAbstractItemModelTester(
        place.table.entries, QAbstractItemModelTester.FailureReportingMode.Fatal
    )
    opened(place, qtbot, "q1")
    assert shown_ids(place) == ["q1", "q3", "q2", "q4"]
    assert [cell(place, row, STATE) for row in range(4)] == ["● running", *2 * ["◷ waiting"], "‖ paused"]
    assert [cell(place, row, PLACE) for row in range(4)] == ["", "1", "2", "3"]
    assert cell(place, 0, DETAILS) == "this machine (CPU)"
    assert place._summary.text() == "1 running, 2 waiting, 1 paused"
    asked: list[str] = []
    place.run_asked.connect(asked.append)
    place.acts.open_run.trigger()
    place.table.activated.emit(place.table.entries.index(0, 0))
    place.table.activated.emit(place.table.entries.index(1, 0))
    assert asked == [RUN, RUN]
    assert not place.acts.remove.isEnabled()
    assert tester.model() is place.table.entries


def test_the_start_is_an_estimate() -> None:
    listed = ListedEntry(BASE, "busy", Wait("busy", NOW + 7200))
    assert start_text(listed, NOW) == "about 14:00"
    assert start_text(listed, NOW + 7200) == "soon"
    assert start_text(ListedEntry(BASE, ""), NOW) == ""
    assert start_text(ListedEntry(RUNNING, ""), NOW) == "12:00"
    assert details(listed) == "Busy"
    assert look_of(ListedEntry(replace(BASE, stage=Stage.ENDED, outcome="FAILED"), "")).word == "failed"
    assert look_of(ListedEntry(replace(BASE, stage=Stage.ENDED, outcome="DELETED"), "")).word == "deleted"


def test_the_order_changes_by_keys(place: QueuePage, home: Path, qtbot: QtBot) -> None:
    put(home, waiting(2, priority=5), waiting(3), waiting(4))
    opened(place, qtbot, "q3")
    for key, expected in (
        (Qt.Key.Key_Up, ["q3", "q2", "q4"]),
        (Qt.Key.Key_End, ["q2", "q4", "q3"]),
        (Qt.Key.Key_Home, ["q3", "q2", "q4"]),
        (Qt.Key.Key_Down, ["q2", "q3", "q4"]),
        (Qt.Key.Key_Down, ["q2", "q4", "q3"]),
    ):
        QTest.keyClick(place.table, key, Qt.KeyboardModifier.AltModifier)
        qtbot.waitUntil(partial(shows, place, expected), timeout=SLOW)
        assert order(home) == expected
        assert [each.entry.id for each in place.table.chosen] == ["q3"]
    assert not place.acts.down.isEnabled()


def test_the_order_changes_by_dragging(place: QueuePage, home: Path, qtbot: QtBot) -> None:
    put(home, RUNNING, waiting(2), waiting(3), waiting(4))
    opened(place, qtbot, "q4")
    model = place.table.entries

    def drop(row: int, at: int) -> bool:
        data = model.mimeData([model.index(row, NAME)])
        return model.dropMimeData(data, Qt.DropAction.MoveAction, at, 0, QModelIndex())

    assert model.flags(model.index(1, 0)) & Qt.ItemFlag.ItemIsDragEnabled
    assert not model.flags(model.index(0, 0)) & Qt.ItemFlag.ItemIsDragEnabled
    assert not drop(3, 0)
    qtbot.waitUntil(lambda: shown_ids(place) == ["q1", "q4", "q2", "q3"], timeout=SLOW)
    drop(1, 4)
    qtbot.waitUntil(lambda: shown_ids(place) == ["q1", "q2", "q3", "q4"], timeout=SLOW)
    assert order(home) == ["q2", "q3", "q4"]
    drop(0, 2)  # a running one has no place
    assert order(home) == ["q2", "q3", "q4"]


def test_entries_are_paused_resumed_and_removed_after_a_question(
    place: QueuePage, home: Path, qtbot: QtBot
) -> None:
    put(home, waiting(2), waiting(3), RUNNING)
    opened(place, qtbot, "q2", "q3")
    place.acts.pause.trigger()
    qtbot.waitUntil(lambda: all(each.paused for each in read_queue(home).waiting()), timeout=SLOW)
    qtbot.waitUntil(place.acts.resume.isEnabled, timeout=SLOW)
    place.acts.resume.trigger()
    qtbot.waitUntil(lambda: not any(each.paused for each in read_queue(home).waiting()), timeout=SLOW)
    place.acts.remove.trigger()
    question = place.question
    assert question is not None
    assert question.text() == "Remove 2 entries from the queue?"
    assert "q2 (n2): a CPU slot" in question.informativeText()
    remove = next(
        button
        for button in question.buttons()
        if question.buttonRole(button) is QMessageBox.ButtonRole.DestructiveRole
    )
    assert question.defaultButton() is not remove
    remove.click()
    qtbot.waitUntil(lambda: shown_ids(place) == ["q1"], timeout=SLOW)
    assert order(home) == []


def test_priority_and_limits_have_dialogs(place: QueuePage, home: Path, qtbot: QtBot) -> None:
    put(home, waiting(2), waiting(3))
    opened(place, qtbot, "q3")
    priority = place.ask_priority()
    assert priority is not None
    priority.number.setValue(4)
    priority.accept()
    qtbot.waitUntil(lambda: shown_ids(place) == ["q3", "q2"], timeout=SLOW)
    limits = place.ask_limits()
    assert limits is not None
    limits.user.setValue(2)
    limits.tags.setText("sweep 8")
    limits._accept()
    assert "“sweep 8” is not a name with a number" in limits.error.text()
    limits.tags.setText("sweep=8, a=1")
    limits._accept()
    wanted = QueueLimits(per_user=2, per_tag={"sweep": 8, "a": 1})
    qtbot.waitUntil(lambda: read_queue(home).limits == wanted, timeout=SLOW)
    assert parse_numbers("a=b=3,") == {"a=b": 3}


def test_a_refused_change_is_said_with_its_reason(place: QueuePage, home: Path, qtbot: QtBot) -> None:
    put(home, waiting(2), waiting(3))
    opened(place, qtbot, "q3")
    place._poller.stop(5.0)
    put(home, waiting(2))  # meanwhile removed by another process
    place.acts.up.trigger()
    qtbot.waitUntil(place.error.isVisible, timeout=SLOW)
    assert "there is no entry q3" in place.error.text()


def test_the_server_is_started_and_stopped(
    place: QueuePage, home: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_home: Path) -> None:
        raise QueueError("the server ended at once", "no room")

    stopped: list[Path] = []
    monkeypatch.setattr(server_bar, "start_server", refuse)
    monkeypatch.setattr(server_bar, "stop_server", stopped.append)
    assert (place.bar.badge.text(), place.bar.button.text()) == ("○ no server", "Start server")
    place.bar.button.click()
    qtbot.waitUntil(place.error.isVisible, timeout=SLOW)
    assert place.error.text() == "the server ended at once (no room)"
    problem = "a node does not answer"
    place.show_listing(QueueListing((), ServerStatus(is_running=True), QueueLimits(), (problem,)))
    assert (place.bar.badge.text(), place.bar.button.text()) == ("● server running", "Stop server")
    assert place.problems.text() == problem
    place.bar.button.click()
    qtbot.waitUntil(lambda: place.bar.button.text() == "Start server", timeout=SLOW)
    assert stopped == [home]


def test_names_are_shown_as_they_are(place: QueuePage, qtbot: QtBot) -> None:
    evil = replace(waiting(2, EVIL), note=EVIL, tags=(EVIL,))
    server = ServerStatus(is_running=False)
    place.show_listing(QueueListing((ListedEntry(evil, EVIL),), server, QueueLimits(), (EVIL,)))
    for column in range(len(COLUMNS)):
        assert "\u202e" not in cell(place, 0, column)
        tip = cell(place, 0, column, Qt.ItemDataRole.ToolTipRole)
        assert "<b>" not in tip
        assert "\u202e" not in tip
    assert "\n" not in cell(place, 0, NAME)
    assert cell(place, 0, START) == ""
    place.table._select({"q2"}, "q2")
    place.ask_remove()
    assert place.question is not None
    assert "\u202e" not in place.question.text() + place.question.informativeText()
    place.question.reject()
