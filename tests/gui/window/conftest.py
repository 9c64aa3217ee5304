"""The main window around places made for tests."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from support.gui.window_places import FakePage, fake_entries
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.settings.saved_files import BackgroundWriter
from torchdeck_app.settings.user_settings import Settings, SettingsStore
from torchdeck_app.theme.theme import Theme
from torchdeck_app.window.connections import Connections
from torchdeck_app.window.importing import Importer
from torchdeck_app.window.later_parts import LaterParts
from torchdeck_app.window.main_window import MainWindow
from torchdeck_app.window.own_actions import OwnActions
from torchdeck_app.window.saved_session import Session


@pytest.fixture
def store(qapp: QApplication, tmp_path: Path) -> SettingsStore:
    return SettingsStore(Settings(), tmp_path, BackgroundWriter(qapp), qapp)


@pytest.fixture
def window(theme: Theme, operations: Operations, store: SettingsStore, qtbot: QtBot) -> MainWindow:
    """Shown, with Launch in sight and all places made."""
    made = MainWindow(theme, operations, fake_entries(), Importer(theme))
    qtbot.addWidget(made)
    own = OwnActions(made, store, Connections(made.stack).open_path, theme, operations)
    made.set_own_actions(own.menus())
    made.restore(Session())
    made.show()
    with qtbot.waitSignal(made.stack.all_made):
        made.stack.begin()
    made.own = own  # type: ignore[attr-defined]  # kept as long as the window
    return made


@pytest.fixture
def place(window: MainWindow) -> Callable[[str], FakePage]:
    """One of its places by name."""

    def find(name: str) -> FakePage:
        found = window.stack.places[name]
        assert isinstance(found, FakePage)
        return found

    return find


@pytest.fixture
def connections(window: MainWindow) -> Connections:
    return window.stack.findChildren(Connections)[0]


@pytest.fixture
def parts(window: MainWindow, theme: Theme, store: SettingsStore, connections: Connections) -> LaterParts:
    """Palette, notices and the rest, as they are after the first paint."""
    return LaterParts(window, theme, store, connections, tuple, ())
