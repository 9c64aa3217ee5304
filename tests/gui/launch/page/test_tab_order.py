"""Tab alone leads through all of Launch, and back."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTabBar, QWidget
from pytestqt.qtbot import QtBot

from support.gui.launch_place import opened, write_script
from torchdeck_app.launch.launch_page import LaunchPage

MOST = 80
"""Presses that leader once around."""


def way(key: Qt.Key, until: QWidget) -> list[QWidget]:
    """What has the keyboard after each press of `key`, up to `until`."""
    met: list[QWidget] = []
    while (now := QApplication.focusWidget()) is not None and now is not until and len(met) < MOST:
        met.append(now)
        QTest.keyClick(now, key)
    return met


def test_tab_leads_from_the_form_over_the_preview_to_launch_and_back(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path
) -> None:
    opened(qtbot, place, write_script(tmp_path))
    qtbot.waitUntil(lambda: place.service.state.plan is not None, timeout=60_000)
    place.form.search.setFocus()
    launch, search = place.control.launch_button, place.form.search
    there = way(Qt.Key.Key_Tab, launch)
    assert QApplication.focusWidget() is launch
    assert there[0] is search
    assert any(isinstance(widget, QTabBar) and place.pane.isAncestorOf(widget) for widget in there)
    assert place.control.check_button in there
    back = way(Qt.Key.Key_Backtab, search)
    assert QApplication.focusWidget() is search
    assert place.control.check_button in back
    assert [w for w in back if place.pane.isAncestorOf(w)] == [
        w for w in there if place.pane.isAncestorOf(w)
    ][::-1]
