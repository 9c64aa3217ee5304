"""The real pages in a window of 1280 × 720."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QPushButton, QScrollArea, QTabWidget
from pytestqt.qtbot import QtBot

from support.gui.whole_window import close, opened
from torchdeck.runs.run_state import RunState
from torchdeck_app.launch.check.launch_bar import LaunchControl
from torchdeck_app.widgets.state_badge import LOOKS
from torchdeck_app.window.later_parts import LaterParts
from torchdeck_app.window.notices import Notice

pytestmark = pytest.mark.processes

TEXT = "nanogpt failed: rank 1 failed with exit code 1: torch.OutOfMemoryError: CUDA out of memory"


def test_a_notice_hides_nothing_of_the_launch_page(
    torchdeck_home: Path, qapp: QApplication, qtbot: QtBot
) -> None:
    """No part of it has to be scrolled to, as the button that launches."""
    made = opened(torchdeck_home, qapp, qtbot)
    window = made.window
    window.resize(1280, 720)
    window.show_page("Launch")

    def named() -> dict[str, QPushButton]:
        return {button.accessibleName(): button for button in window.findChildren(QPushButton)}

    qtbot.waitUntil(lambda: "Open cluster" in named(), timeout=30_000)
    named()["Open cluster"].click()
    qtbot.waitUntil(lambda: any(tabs.isVisible() for tabs in window.findChildren(QTabWidget)))
    (launch,) = window.findChildren(LaunchControl)
    parts = made._later
    assert isinstance(parts, LaterParts)
    page = window.stack.currentWidget()
    assert isinstance(page, QScrollArea)
    for _ in range(3):
        parts.notices.show_notice(Notice(TEXT, LOOKS[RunState.FAILED], "Open run", lambda: None, stays=True))
        qtbot.waitUntil(lambda: page.geometry().bottom() < parts.notices.geometry().top())
        qtbot.waitUntil(lambda: page.verticalScrollBar().maximum() == 0)
        assert not launch.visibleRegion().isEmpty()
    close(made)
