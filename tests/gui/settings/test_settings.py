"""The settings: read with care, kept, and changed in their dialog."""

import json
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QCheckBox, QComboBox
from pytestqt.qtbot import QtBot

from torchdeck_app.bridge.operations import Operations
from torchdeck_app.settings.dialog import SettingsDialog
from torchdeck_app.settings.saved_files import BackgroundWriter
from torchdeck_app.settings.user_settings import Settings, SettingsStore, read_settings, settings_file
from torchdeck_app.theme.theme import Theme


@pytest.fixture
def writer(qapp: QApplication) -> BackgroundWriter:
    return BackgroundWriter(qapp)


@pytest.fixture
def store(qapp: QApplication, tmp_path: Path, writer: BackgroundWriter) -> SettingsStore:
    return SettingsStore(Settings(), tmp_path, writer, qapp)


def test_what_is_written_is_read() -> None:
    chosen = Settings(theme="dark", ask_on_close=True, notify_in_window=False, notify_on_desktop=False)
    assert read_settings(json.loads(chosen.to_text())) == (chosen, "")


def test_values_that_make_no_sense_are_passed_over_and_said() -> None:
    settings, said = read_settings({"theme": "pink", "ask_on_close": 1, "notify_in_window": False, "x": 2})
    assert settings == Settings(notify_in_window=False)
    assert 'theme = "pink" (must be one of system, light, dark)' in said
    assert "ask_on_close = 1 (must be true or false)" in said


def test_a_change_is_told_and_kept(
    store: SettingsStore, writer: BackgroundWriter, tmp_path: Path, qtbot: QtBot
) -> None:
    with qtbot.waitSignal(store.changed):
        store.change(theme="dark")
    assert writer.close(10)
    assert read_settings(json.loads(settings_file(tmp_path).read_text()))[0].theme == "dark"


def test_nothing_is_written_where_nothing_changes(
    store: SettingsStore, writer: BackgroundWriter, tmp_path: Path
) -> None:
    store.change(theme="system")
    assert writer.close(10)
    assert not settings_file(tmp_path).exists()


def test_the_dialog_changes_settings_at_once(
    store: SettingsStore, theme: Theme, operations: Operations, qtbot: QtBot
) -> None:
    dialog = SettingsDialog(store, theme, operations)
    qtbot.addWidget(dialog)
    dialog.show()
    assert dialog.focusWidget() is dialog.findChildren(QComboBox)[0]
    for check in dialog.findChildren(QCheckBox):
        qtbot.keyClick(check, Qt.Key.Key_Space)
    colours = dialog.findChildren(QComboBox)[0]
    qtbot.keyClick(colours, Qt.Key.Key_Down)
    assert store.settings == Settings(
        "light", ask_on_close=True, notify_in_window=False, notify_on_desktop=False
    )


def test_the_dialog_follows_a_change_from_elsewhere(
    store: SettingsStore, theme: Theme, operations: Operations, qtbot: QtBot
) -> None:
    dialog = SettingsDialog(store, theme, operations)
    qtbot.addWidget(dialog)
    store.change(theme="dark", ask_on_close=True)
    assert dialog.findChildren(QComboBox)[0].currentText() == "Dark"
    assert dialog.findChildren(QCheckBox)[0].isChecked()
