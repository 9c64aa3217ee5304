"""One key, one meaning: what a place's keys do, no other place's do otherwise."""

from __future__ import annotations

from collections import defaultdict

from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from torchdeck_app.launch.files.document_toolbar import LaunchActions
from torchdeck_app.runs.run_actions import RunActions
from torchdeck_app.theme.theme import Theme
from torchdeck_app.window.window_actions import plain_text


def test_a_key_means_the_same_in_every_place(theme: Theme, qtbot: QtBot) -> None:
    place, stack = QWidget(), QUndoStack()
    qtbot.addWidget(place)
    meanings: dict[str, set[str]] = defaultdict(set)
    for action in (*LaunchActions(theme, stack, place).all, *RunActions(theme, place, print).all):
        for keys in action.shortcuts():
            meanings[keys.toString()].add(plain_text(action))
    assert {keys: said for keys, said in meanings.items() if len(said) > 1} == {}
    assert "Ctrl+Shift+Return" in meanings
