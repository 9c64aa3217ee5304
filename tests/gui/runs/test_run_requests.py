"""What is asked of a run by who saw it change before the list of runs did."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from support.values.histories import ended, event, finished
from support.values.made_runs import line
from support.values.run_homes import add_live_run, run_id
from torchdeck.contract.journal import Event
from torchdeck.contract.layout import RunLayout
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.bridge.run_list import RunListPoller
from torchdeck_app.runs.abilities import RunCommand
from torchdeck_app.runs.page.run_page import RunPage
from torchdeck_app.runs.runs_page import RunsPage
from torchdeck_app.theme.theme import Theme

NEVER = 600.0
"""Seconds between two looks at the list: longer than a test."""


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return add_live_run(tmp_path, 1)  # its plan is no real one: it cannot be resumed


@pytest.fixture
def place(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path, layout: RunLayout
) -> Iterator[RunsPage]:
    """A place with a list that has seen the run train, and looks no more by itself."""
    poller = RunListPoller(tmp_path, interval=NEVER)
    made = RunsPage(theme, operations, tmp_path, poller)
    qtbot.addWidget(made)
    made.resize(1200, 700)
    made.show()
    made.entered()
    poller.start()
    made.open_run(run_id(1))
    yield made
    made.closing()
    assert poller.stop(10)


def page_shows(qtbot: QtBot, place: RunsPage, state: str) -> RunPage:
    qtbot.waitUntil(lambda: place.page is not None and place.page.header.state_word == state)
    page = place.page
    assert page is not None
    return page


def write(layout: RunLayout, *events: Event) -> None:
    with layout.node("localhost").journal.open("a") as file:
        file.write("".join(map(line, events)))


def stopped_run(qtbot: QtBot, place: RunsPage, layout: RunLayout) -> RunPage:
    """Its page knows that it is over; the list does not."""
    page = page_shows(qtbot, place, "running")
    over = finished("CANCELLED", why="stopped", resumable=True, checkpoint="/x/step_00000010")
    write(layout, event("stopping", kind="graceful", why="user"), ended(outcome="stopped"), over)
    page_shows(qtbot, place, "stopped")
    (entry,) = place.table.selected()
    assert entry.is_live
    return page


def test_a_press_on_a_button_that_can_be_pressed_is_never_lost(
    qtbot: QtBot, place: RunsPage, layout: RunLayout
) -> None:
    """It is said at once that the run is being resumed; and, here, then why it cannot be."""
    page = stopped_run(qtbot, place, layout)
    assert page.header.buttons[RunCommand.RESUME].isEnabled()
    QTest.mouseClick(page.header.buttons[RunCommand.RESUME], Qt.MouseButton.LeftButton)
    assert page.header.doing_now == "resume: waiting for the run to respond..."
    qtbot.waitUntil(lambda: "cannot be resumed" in page.problem.text())


def test_actions_are_offered_as_the_page_shows_the_run(
    qtbot: QtBot, place: RunsPage, layout: RunLayout
) -> None:
    """By the keyboard as by the mouse: the page and its shortcuts never disagree."""
    actions = place.actions_of_runs
    page_shows(qtbot, place, "running")
    assert not actions[RunCommand.RESUME].isEnabled()
    page = stopped_run(qtbot, place, layout)
    assert not actions[RunCommand.STOP].isEnabled()
    assert actions[RunCommand.RESUME].isEnabled()
    actions[RunCommand.RESUME].trigger()
    assert page.header.doing_now == "resume: waiting for the run to respond..."
    qtbot.waitUntil(lambda: "cannot be resumed" in page.problem.text())
