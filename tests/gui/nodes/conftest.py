"""Real hosts in a node inventory, and the Nodes place that shows them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from keyring.backends.fail import Keyring as NoKeyring
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from torchdeck_app.bridge.logins import Logins, make_logins
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.nodes.nodes_page import NodesPage
from torchdeck_app.nodes.window_asker import WindowAsker
from torchdeck_app.theme.theme import Theme

SLOW = 30_000
"""Milliseconds for what another machine takes part in."""


@pytest.fixture
def asker(qapp: QApplication, torchdeck_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WindowAsker]:
    """On a machine without a keyring, unless a test brings one."""
    monkeypatch.setattr("keyring.core._keyring_backend", NoKeyring())
    made = WindowAsker(torchdeck_home, qapp)
    yield made
    made.close()


@pytest.fixture
def logins(asker: WindowAsker, torchdeck_home: Path) -> Logins:
    torchdeck_home.mkdir(mode=0o700, exist_ok=True)
    return make_logins(torchdeck_home, asker, asker.ask_again)


@pytest.fixture
def board(
    theme: Theme, operations: Operations, logins: Logins, torchdeck_home: Path, qtbot: QtBot
) -> Iterator[Callable[[str], NodesPage]]:
    """`board(text)` writes a node inventory and shows the place."""
    places: list[NodesPage] = []

    def show(node_inventory: str) -> NodesPage:
        (torchdeck_home / "nodes.toml").write_text(node_inventory)
        place = NodesPage(theme, operations, torchdeck_home, logins=logins)
        places.append(place)
        qtbot.addWidget(place)
        place.resize(1200, 700)
        place.show()
        place.entered()
        return place

    yield show
    for place in places:
        place.closing()
