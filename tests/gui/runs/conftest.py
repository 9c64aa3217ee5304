"""What the tests of the Runs place share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from support.values.run_homes import run_id
from torchdeck_app.bridge.logins import Logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.bridge.run_list import RunListPoller
from torchdeck_app.runs.abilities import RunCommand
from torchdeck_app.runs.page.run_page import RunPage
from torchdeck_app.runs.runs_page import RunsPage
from torchdeck_app.theme.theme import Theme


class Opened:
    """Places of the test; each is closed at its end."""

    def __init__(self, qtbot: QtBot, theme: Theme, operations: Operations) -> None:
        self._qtbot, self._theme, self._operations = qtbot, theme, operations
        self._all: list[tuple[RunsPage, RunListPoller]] = []

    def __call__(self, home: Path, logins: Logins | None = None) -> RunsPage:
        poller = RunListPoller(home, interval=0.05)
        place = RunsPage(self._theme, self._operations, home, poller, logins=logins)
        self._all.append((place, poller))
        self._qtbot.addWidget(place)
        place.resize(1200, 700)
        place.show()
        place.entered()
        poller.start()
        return place

    def close(self) -> None:
        for place, poller in self._all:
            place.closing()
            assert poller.stop(10)


@pytest.fixture
def opened(qtbot: QtBot, theme: Theme, operations: Operations) -> Iterator[Opened]:
    made = Opened(qtbot, theme, operations)
    yield made
    made.close()


def page_of(qtbot: QtBot, place: RunsPage, number: int) -> RunPage:
    """Open a run, and wait until its state is shown."""
    place.open_run(run_id(number))
    qtbot.waitUntil(lambda: place.page is not None and place.page.run_layout.root.name == run_id(number))
    page = place.page
    assert page is not None
    qtbot.waitUntil(lambda: page.header.state_word != "")
    return page


def click(button: QPushButton) -> None:
    assert button.isEnabled()
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def shown_run(place: RunsPage) -> str:
    return "" if place.page is None else place.page.run_layout.root.name


def delete_asked(qtbot: QtBot, place: RunsPage, button: str = "Delete") -> str:
    """Delete what is selected, and answer the question; what is said in it."""
    place.actions_of_runs[RunCommand.DELETE].trigger()
    qtbot.waitUntil(lambda: bool(place.findChildren(QMessageBox)))
    (question,) = place.findChildren(QMessageBox)
    said = f"{question.text()} {question.informativeText()}"
    next(each for each in question.buttons() if each.text() == button).click()
    qtbot.waitUntil(lambda: not place.findChildren(QMessageBox))
    return said
