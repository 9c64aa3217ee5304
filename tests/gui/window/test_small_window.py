"""The real pages in a window of 1280 × 720, and of 800 × 600."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QApplication, QPushButton, QScrollArea, QTabWidget
from pytestqt.qtbot import QtBot

from support.gui.whole_window import close, opened
from torchdeck.runs.run_state import RunState
from torchdeck_app.launch.check.launch_bar import LaunchControl
from torchdeck_app.widgets.state_badge import LOOKS
from torchdeck_app.window.later_parts import LaterParts
from torchdeck_app.window.main_window import MainWindow
from torchdeck_app.window.notices import Notice

pytestmark = pytest.mark.processes

TEXT = "nanogpt failed: rank 1 failed with exit code 1: torch.OutOfMemoryError: CUDA out of memory"


def launch_of_a_preset(window: MainWindow, qtbot: QtBot) -> LaunchControl:
    window.show_page("Launch")

    def named() -> dict[str, QPushButton]:
        return {button.accessibleName(): button for button in window.findChildren(QPushButton)}

    qtbot.waitUntil(lambda: "Open cluster" in named(), timeout=30_000)
    named()["Open cluster"].click()
    qtbot.waitUntil(lambda: any(tabs.isVisible() for tabs in window.findChildren(QTabWidget)))
    (launch,) = window.findChildren(LaunchControl)
    return launch


def test_launch_is_in_sight_on_a_small_screen(torchdeck_home: Path, qapp: QApplication, qtbot: QtBot) -> None:
    made = opened(torchdeck_home, qapp, qtbot)
    launch = launch_of_a_preset(made.window, qtbot)
    made.window.resize(800, 600)
    qtbot.waitUntil(lambda: launch.visibleRegion().boundingRect() == launch.rect())
    page = made.window.stack.currentWidget()
    assert isinstance(page, QScrollArea)
    assert page.horizontalScrollBar().maximum() == 0
    close(made)


def test_notices_do_not_lie_over_the_button_that_launches(
    torchdeck_home: Path, qapp: QApplication, qtbot: QtBot
) -> None:
    """And no part of the page has to be scrolled to for them."""
    made = opened(torchdeck_home, qapp, qtbot)
    window = made.window
    launch = launch_of_a_preset(window, qtbot)
    window.resize(1280, 720)
    parts = made._later
    assert isinstance(parts, LaterParts)
    page = window.stack.currentWidget()
    assert isinstance(page, QScrollArea)
    for _ in range(3):
        parts.notices.show_notice(Notice(TEXT, LOOKS[RunState.FAILED], "Open run", lambda: None, stays=True))
        qtbot.waitUntil(parts.notices.isVisible)
        assert page.verticalScrollBar().maximum() == 0
        place = QRect(launch.mapTo(window.stack, QPoint(0, 0)), launch.size())
        assert not place.intersects(parts.notices.geometry())
    close(made)
