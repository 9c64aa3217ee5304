"""Driving the Launch place by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from torchdeck_app.launch.launch_page import LaunchPage

SCRIPT = '[run]\nscript = "t.py"\n[distributed]\nnproc = 1\ndevices = "cpu"\n'
Make = Callable[[], LaunchPage]


def opened(qtbot: QtBot, place: LaunchPage, path: Path) -> None:
    place.open_path(path)
    qtbot.waitUntil(lambda: place.document.path == path and has_document(place), timeout=30_000)


def has_document(place: LaunchPage) -> bool:
    return place.has_document


def write_script(folder: Path) -> Path:
    (folder / "t.py").write_text("print(1)\n")
    (folder / "run.toml").write_text(SCRIPT)
    return folder / "run.toml"


def press(place: LaunchPage, key: Qt.Key, *, shift: bool = False) -> None:
    modifiers = Qt.KeyboardModifier.ControlModifier
    QTest.keyClick(place, key, modifiers | Qt.KeyboardModifier.ShiftModifier if shift else modifiers)
