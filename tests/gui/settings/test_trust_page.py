"""What is trusted, in the settings: shown, added to and taken back."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from torchdeck.trust.trust_list import NodeScript, TrustList
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.settings.dialog import TrustPage
from torchdeck_app.theme.theme import Theme

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def home(torchdeck_home: Path) -> Path:
    torchdeck_home.mkdir(mode=0o700)
    return torchdeck_home


@pytest.fixture
def page(theme: Theme, operations: Operations, home: Path, qtbot: QtBot) -> TrustPage:
    made = TrustPage(theme, operations, home)
    qtbot.addWidget(made)
    made.resize(560, 360)
    return made


def rows(page: TrustPage) -> list[tuple[str, str]]:
    items = (page.list.topLevelItem(at) for at in range(page.list.topLevelItemCount()))
    return [(item.text(0), item.text(1)) for item in items if item is not None]


def test_what_is_trusted_is_shown_with_what_does_not_count_any_more(
    page: TrustPage, home: Path, tmp_path: Path, qtbot: QtBot
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir(mode=0o755)
        TrustList(home).add(tmp_path / name)
    (tmp_path / "b").chmod(0o700)
    (tmp_path / "c").chmod(0o777)
    page.show()
    qtbot.waitUntil(lambda: len(rows(page)) == 3, timeout=20_000)
    assert rows(page) == [
        (str(tmp_path / "a"), "✓ Trusted"),
        (str(tmp_path / "b"), "? Asks again"),
        (str(tmp_path / "c"), "✕ Others can write it"),
    ]
    for row, why in ((1, "its mode has changed (755, now 700)"), (2, "everyone can write")):
        page.list.clearSelection()
        page.list.topLevelItem(row).setSelected(True)  # type: ignore[union-attr]  # waited for above
        assert why in page.said.text()
    assert page.list.isVisible()


def test_an_activation_script_of_a_node_is_shown_and_taken_back(
    page: TrustPage, home: Path, qtbot: QtBot
) -> None:
    script = NodeScript("gpu1", "/opt/on.sh")
    TrustList(home).add_node_script(script, "0" * 64)
    page.show()
    qtbot.waitUntil(lambda: rows(page) == [("gpu1:/opt/on.sh", "✓ Trusted")], timeout=20_000)
    page.list.topLevelItem(0).setSelected(True)  # type: ignore[union-attr]  # waited for above
    qtbot.mouseClick(page.remove_button, LEFT)
    qtbot.waitUntil(lambda: rows(page) == [], timeout=20_000)
    assert TrustList(home).node_scripts() == {script: ""}


def test_it_is_taken_back(page: TrustPage, home: Path, tmp_path: Path, qtbot: QtBot) -> None:
    (tmp_path / "a").mkdir()
    TrustList(home).add(tmp_path / "a")
    page.show()
    qtbot.waitUntil(lambda: len(rows(page)) == 1, timeout=20_000)
    assert not page.remove_button.isEnabled()
    page.list.topLevelItem(0).setSelected(True)  # type: ignore[union-attr]  # waited for above
    qtbot.mouseClick(page.remove_button, LEFT)
    qtbot.waitUntil(page.empty.isVisible, timeout=20_000)
    assert TrustList(home).entries() == []
    assert not page.remove_button.isEnabled()


def test_a_folder_is_chosen(page: TrustPage, home: Path, tmp_path: Path, qtbot: QtBot) -> None:
    (tmp_path / "a").mkdir()
    page.show()
    qtbot.waitUntil(page.empty.isVisible, timeout=20_000)
    qtbot.mouseClick(page.add_folder, LEFT)
    (dialog,) = page.findChildren(QFileDialog)
    assert dialog.fileMode() is QFileDialog.FileMode.Directory
    dialog.fileSelected.emit(str(tmp_path / "a"))
    dialog.close()
    qtbot.waitUntil(lambda: rows(page) == [(str(tmp_path / "a"), "✓ Trusted")], timeout=20_000)
    assert TrustList(home).standing(tmp_path / "a").trusted


def test_what_cannot_be_trusted_is_said_with_the_reason(
    page: TrustPage, home: Path, tmp_path: Path, qtbot: QtBot
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o777)
    page.show()
    page.add(str(tmp_path / "a"))
    qtbot.waitUntil(lambda: "everyone can write" in page.said.text(), timeout=20_000)
    assert "chmod o-w" in page.said.text()
    (home / "trusted.json").write_text('{"v": 99}')
    page.add(str(tmp_path))
    qtbot.waitUntil(lambda: "newer Torchdeck" in page.said.text(), timeout=20_000)
