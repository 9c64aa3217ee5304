"""The Launch place; nothing is started for real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from pytestqt.qtbot import QtBot

from support.gui.launch_place import Make
from torchdeck.contract.layout import RunLayout
from torchdeck.launching import launcher
from torchdeck.runs.folders.run_directory import shown
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.launch_page import LaunchPage
from torchdeck_app.theme.theme import Theme


@pytest.fixture
def started(no_early_controller: None, monkeypatch: pytest.MonkeyPatch) -> list[RunLayout]:
    """Runs whose controllers would have been started."""
    runs: list[RunLayout] = []
    monkeypatch.setattr(launcher, "start_controller", lambda layout, **_: runs.append(shown(layout)))
    return runs


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def make(
    qtbot: QtBot, theme: Theme, operations: Operations, home: Path, tmp_path: Path, started: list[RunLayout]
) -> Iterator[Make]:
    places: list[LaunchPage] = []

    def made() -> LaunchPage:
        place = LaunchPage(theme, operations, home, drafts=tmp_path / "drafts")
        place.resize(1280, 720)
        place.show()
        qtbot.waitExposed(place)
        place.activateWindow()
        place.entered()
        places.append(place)
        return place

    yield made
    for place in places:
        place.closing()
        place.document.close(5.0)
        place.close()
        place.deleteLater()
    # now, and not when the next test has begun: its theme would be laid on all of these
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def place(make: Make) -> LaunchPage:
    return make()
