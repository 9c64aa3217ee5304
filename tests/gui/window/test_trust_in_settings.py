"""The settings of a whole window: what is trusted, on a tab that mouse and keyboard reach."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QTreeWidget
from pytestqt.qtbot import QtBot

from support.gui.whole_window import close, opened
from torchdeck.trust.trust_list import TrustList
from torchdeck_app.settings.dialog import SettingsDialog
from torchdeck_app.window.application import WindowApplication

SLOW = 30_000
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def application(tmp_path: Path, qapp: QApplication, qtbot: QtBot) -> Iterator[WindowApplication]:
    """With its real places."""
    made = opened(tmp_path / "home", qapp, qtbot)
    yield made
    close(made)


def test_trusted_code_is_on_a_tab_of_the_settings(
    application: WindowApplication, tmp_path: Path, qtbot: QtBot
) -> None:
    """The folder that is selected there and removed is asked for again."""
    folder, trusted = tmp_path / "code", TrustList(tmp_path / "home")
    folder.mkdir(mode=0o755)
    trusted.add(folder)
    (settings,) = (
        action for action in application.window.findChildren(QAction) if action.text().startswith("&Settings")
    )
    settings.trigger()
    (dialog,) = application.window.findChildren(SettingsDialog)
    qtbot.waitExposed(dialog)
    bar = dialog.tabs.tabBar()
    (at,) = (index for index in range(bar.count()) if bar.tabText(index) == "Trusted code")
    qtbot.mouseClick(bar, LEFT, pos=bar.tabRect(at).center())
    page = dialog.trust_page
    assert page.isVisible()
    (listed,) = dialog.findChildren(QTreeWidget)
    qtbot.waitUntil(lambda: listed.topLevelItemCount() == 1, timeout=SLOW)
    item = listed.topLevelItem(0)
    assert item is not None
    assert (item.text(0), item.text(1)) == (str(folder), "✓ Trusted")
    qtbot.mouseClick(listed.viewport(), LEFT, pos=listed.visualItemRect(item).center())
    qtbot.mouseClick(page.remove_button, LEFT)
    qtbot.waitUntil(page.empty.isVisible, timeout=SLOW)
    assert not trusted.standing(folder).trusted
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert not dialog.isVisible()
