"""What of Launch is there again after a restart, and what is chosen again."""

from __future__ import annotations

import json
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QStackedWidget, QWidget
from pytestqt.qtbot import QtBot

from support.gui.launch_place import SCRIPT, Make, has_document, opened, press, write_script
from torchdeck_app.launch.launch_page import LaunchPage


def test_unsaved_edits_are_there_again(qtbot: QtBot, make: Make, tmp_path: Path) -> None:
    """With cursor, view and recent files; and what changed on disk meanwhile is told."""
    first = make()
    opened(qtbot, first, write_script(tmp_path))
    first.show_view("toml")
    first.document.set_value(("distributed", "nproc"), 7)
    first.editor.reveal(3)
    state = json.loads(json.dumps(first.save_state()))
    first.closing()
    (tmp_path / "run.toml").write_text(SCRIPT + "# theirs\n")
    second = make()
    second.restore_state(state)
    assert second.view == "toml"
    assert "nproc = 7" in second.document.text
    assert second.editor.area.current_line() == 3
    assert second.file.recent.paths == (tmp_path / "run.toml",)
    qtbot.waitUntil(lambda: "changed on disk" in second.notice.text.text(), timeout=30_000)


def test_line_ends_are_there_again(qtbot: QtBot, make: Make, tmp_path: Path) -> None:
    first = make()
    run_file = write_script(tmp_path)
    run_file.write_bytes(SCRIPT.replace("\n", "\r\n").encode())
    opened(qtbot, first, run_file)
    first.document.set_value(("distributed", "nproc"), 7)
    state = json.loads(json.dumps(first.save_state()))
    first.closing()
    run_file.unlink()
    second = make()
    second.restore_state(state)
    press(second, Qt.Key.Key_S)
    qtbot.waitUntil(run_file.exists, timeout=30_000)
    assert run_file.read_bytes() == SCRIPT.replace("nproc = 1", "nproc = 7").replace("\n", "\r\n").encode()


def test_a_saved_document_is_opened_again(qtbot: QtBot, make: Make, tmp_path: Path) -> None:
    first = make()
    opened(qtbot, first, write_script(tmp_path))
    state = json.loads(json.dumps(first.save_state()))
    first.closing()
    (tmp_path / "run.toml").write_text(SCRIPT + "# newer\n")
    second = make()
    second.restore_state(state)
    qtbot.waitUntil(lambda: second.document.text.endswith("# newer\n"), timeout=30_000)


def test_a_preset_with_edits_is_there_again(qtbot: QtBot, make: Make) -> None:
    first = make()
    first.new_from_preset("script")
    qtbot.waitUntil(lambda: has_document(first), timeout=30_000)
    first.document.set_value(("distributed", "nproc"), 5)
    state = json.loads(json.dumps(first.save_state()))
    first.closing()
    second = make()
    second.restore_state(state)
    assert "nproc = 5" in second.document.text
    assert second.toolbar.name.text() == "script"
    assert second.file.is_worth_asking


def test_a_state_of_another_version_is_passed_over(place: LaunchPage) -> None:
    damaged = {"document": 3, "split": "%%", "recent": {}, "view": "x", "editor": []}
    for state in ({}, damaged, {"document": {"path": 4}}):
        place.restore_state(state)
        assert not has_document(place)


def test_choosing_anew_loses_nothing(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    """Ctrl+N shows the presets; the way back leads to the same text, and it is kept meanwhile."""
    opened(qtbot, place, write_script(tmp_path))
    place.document.set_value(("distributed", "nproc"), 2)
    press(place, Qt.Key.Key_N)
    assert not has_document(place)
    assert place.save_state()["document"]["text"] == place.document.text
    assert place.start_page.back_button.text() == "&Back to run.toml"
    QTest.mouseClick(place.start_page.back_button, Qt.MouseButton.LeftButton)
    assert has_document(place)
    assert place.document.table["distributed"]["nproc"] == 2


def test_keys_do_not_reach_a_document_that_opens_out_of_sight(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path
) -> None:
    """While another place is in sight and has nothing yet that takes the keyboard."""
    window, other = QStackedWidget(), QWidget()
    qtbot.addWidget(window)
    window.addWidget(other)
    window.addWidget(place)
    window.show()
    qtbot.waitExposed(window)
    window.activateWindow()
    place.show_view("toml")
    opened(qtbot, place, write_script(tmp_path))
    assert not place.isVisible()
    handle = window.windowHandle()
    assert handle is not None
    QTest.keyClick(handle, Qt.Key.Key_Space)
    assert place.document.text == SCRIPT
    window.setCurrentWidget(place)
    assert place.editor.area.hasFocus()
    window.removeWidget(place)
    place.setParent(None)
