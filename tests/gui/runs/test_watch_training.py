"""A training that Torchdeck did not start, in the window: watched from a dialog, and left alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened, click
from support.agents.controlled_run import nothing_left
from support.training.by_hand import PLAIN, by_hand
from torchdeck.runs.follower import read_run
from torchdeck_app.runs.abilities import RunCommand
from torchdeck_app.runs.elsewhere.watch_training import WatchDialog
from torchdeck_app.runs.runs_page import RunsPage

pytestmark = pytest.mark.processes
SLOW = 90_000
"""Milliseconds for what other processes take part in."""


@pytest.fixture
def place(opened: Opened, torchdeck_home: Path) -> Iterator[RunsPage]:
    with nothing_left(torchdeck_home):
        yield opened(torchdeck_home)


def asked(qtbot: QtBot, place: RunsPage) -> WatchDialog:
    place.actions_of_runs[RunCommand.WATCH].trigger()
    qtbot.waitUntil(lambda: place.watching.dialog is not None)
    assert place.watching.dialog is not None
    return place.watching.dialog


def press(button: object) -> None:
    assert isinstance(button, QPushButton)
    click(button)


def test_a_process_is_watched_and_left_alone(qtbot: QtBot, place: RunsPage, tmp_path: Path) -> None:
    """Its page has progress and checkpoints; it cannot be stopped, but the watch can be ended."""
    with by_hand(tmp_path / "work", PLAIN, "--max_steps", "20000") as pid:
        dialog = asked(qtbot, place)
        assert not dialog.start_button.isEnabled()
        dialog.process.setText(str(pid))
        press(dialog.start_button)
        qtbot.waitUntil(lambda: place.watching.dialog is None, timeout=SLOW)
        qtbot.waitUntil(lambda: place.page is not None, timeout=SLOW)
        page = place.page
        assert page is not None
        header = page.header
        qtbot.waitUntil(lambda: header.state_word == "running", timeout=SLOW)
        qtbot.waitUntil(lambda: "/ 20,000" in header._facts.text(), timeout=SLOW)
        assert header.buttons[RunCommand.END_WATCH].isVisible()
        for what in (RunCommand.STOP, RunCommand.STOP_NOW, RunCommand.RESUME, RunCommand.CLONE):
            assert not header.buttons[what].isVisible()
            assert not place.actions_of_runs[what].isEnabled()
        assert "Torchdeck did not start train" in place.actions_of_runs[RunCommand.STOP].toolTip()
        qtbot.waitUntil(lambda: read_run(page.run_layout).checkpoint is not None, timeout=SLOW)
        click(header.buttons[RunCommand.END_WATCH])
        qtbot.waitUntil(lambda: header.state_word == "cancelled", timeout=SLOW)
        qtbot.waitUntil(lambda: header.doing_now == "the watch was ended; the training was left alone")
        assert not header.buttons[RunCommand.END_WATCH].isVisible()
        os.kill(pid, 0)  # it lives
        assert not place.actions_of_runs[RunCommand.END_WATCH].isEnabled()
        qtbot.waitUntil(lambda: place.actions_of_runs[RunCommand.DELETE].isEnabled(), timeout=SLOW)


def test_a_folder_that_is_not_there_is_said_in_the_dialog(
    qtbot: QtBot, place: RunsPage, tmp_path: Path
) -> None:
    dialog = asked(qtbot, place)
    dialog.folder.setText(str(tmp_path / "absent"))
    press(dialog.start_button)
    qtbot.waitUntil(lambda: "There is no folder" in dialog.message)
    assert dialog.start_button.isEnabled()
    dialog.reject()
