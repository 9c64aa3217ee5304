"""Any content of window.json and settings.json: the window begins with what can be used of it."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from hypothesis import strategies as st
from PySide6.QtCore import QByteArray
from PySide6.QtWidgets import QApplication, QMainWindow

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from torchdeck_app.launch.files.document_sources import RecentFiles
from torchdeck_app.settings.saved_files import read_kept
from torchdeck_app.settings.user_settings import VERSION as SETTINGS_VERSION
from torchdeck_app.settings.user_settings import Settings, read_settings
from torchdeck_app.window.saved_session import VERSION, Session, read_session

SESSION = {
    "version": VERSION,
    "geometry": "AdnQywADAAAAAAAAAAAAAAAAA0gAAAKAAAAAAAAAAAAAAANIAAACgAAAAAAAAAAAA0gAAAAAAAAAAAAAA0gAAAKA",
    "place": "Launch",
    "places": {
        "Launch": {"document": {"path": None, "text": "[run]", "begun": ""}, "recent": ["/a"], "cursor": 3},
        "Runs": {"open": "20261121T034455Z-gpt-0a1b2c", "widths": [1, 2]},
    },
    "recent": ["launch"],
}


@functools.cache
def window() -> QMainWindow:
    """Made in the process that reads."""
    QApplication(["reader", "-platform", "offscreen"])
    return QMainWindow()


def read_session_file(case: bytes, place: Path) -> None:
    (place / "window.json").write_bytes(case)
    kept = read_kept(place / "window.json", VERSION)
    assert kept.value or kept.said
    session = read_session(kept.value)
    assert isinstance(session, Session)
    assert session.to_text()
    window().restoreGeometry(QByteArray.fromBase64(session.geometry.encode()))
    recent = RecentFiles()
    recent.restore_state(kept.value.get("recent"))
    assert all(isinstance(path, Path) for path in recent.paths)


def test_any_session() -> None:
    read_all(read_session_file, hostile.documents(SESSION) | st.binary())


def read_settings_file(case: bytes, place: Path) -> None:
    (place / "settings.json").write_bytes(case)
    settings, _said = read_settings(read_kept(place / "settings.json", SETTINGS_VERSION).value)
    assert isinstance(settings, Settings)
    assert settings.to_text()


def test_any_settings() -> None:
    read_all(read_settings_file, hostile.documents(json.loads(Settings().to_text())) | st.binary())
