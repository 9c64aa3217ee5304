"""The session: its file, and how it is kept up to date."""

import json
from pathlib import Path

from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from torchdeck_app.settings.saved_files import BackgroundWriter
from torchdeck_app.window.saved_session import (
    INTERVAL,
    Session,
    SessionWriter,
    read_session,
    session_file,
)

WHOLE = Session("AbC=", "Runs", {"Runs": {"run": "x"}, "Launch": {"text": "lr = 1 # ä"}}, ("run:x",))


def test_what_is_written_is_read() -> None:
    assert read_session(json.loads(WHOLE.to_text())) == WHOLE


def test_values_of_a_wrong_type_are_as_at_a_first_start() -> None:
    table = {"geometry": 3, "place": None, "places": {"Runs": [], "Nodes": {"a": 1}}, "recent": ["a", 4]}
    assert read_session(table) == Session(places={"Nodes": {"a": 1}}, recent=("a",))
    assert read_session({"places": [], "recent": {}}) == Session()


def test_a_change_is_on_disk_within_a_second(qapp: QApplication, tmp_path: Path, qtbot: QtBot) -> None:
    now = [Session(place="Launch")]
    writer = BackgroundWriter(qapp)
    path = session_file(tmp_path)
    keeper = SessionWriter(path, writer, lambda: now[0], qapp)
    keeper.start()
    now[0] = WHOLE
    assert INTERVAL <= 500  # the rest of the second is for writing it
    qtbot.waitUntil(path.exists)
    assert read_session(json.loads(path.read_text())) == WHOLE
    keeper.stop()
    assert writer.close(10)


def test_nothing_is_written_while_nothing_changes(qapp: QApplication, tmp_path: Path) -> None:
    writer = BackgroundWriter(qapp)
    keeper = SessionWriter(session_file(tmp_path), writer, lambda: WHOLE, qapp)
    keeper.start()
    keeper.look()
    keeper.stop()
    assert writer.close(10)
    assert not session_file(tmp_path).exists()


def test_the_last_change_is_written_at_the_end(qapp: QApplication, tmp_path: Path) -> None:
    now = [Session()]
    writer = BackgroundWriter(qapp)
    keeper = SessionWriter(session_file(tmp_path), writer, lambda: now[0], qapp)
    keeper.start()
    now[0] = WHOLE
    keeper.stop()
    assert writer.close(10)
    assert read_session(json.loads(session_file(tmp_path).read_text())) == WHOLE
