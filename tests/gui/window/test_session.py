"""The session: its file, and how it is kept up to date."""

import json
from pathlib import Path

from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from support.gui.window_places import FakePage
from torchdeck_app.settings.saved_files import BackgroundWriter
from torchdeck_app.window.idle_user import IdleMonitor
from torchdeck_app.window.main_window import MainWindow
from torchdeck_app.window.saved_session import (
    INTERVAL,
    RARELY,
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
    keeper = SessionWriter(path, writer, lambda: now[0], IdleMonitor(qapp), qapp)
    keeper.start()
    now[0] = WHOLE
    assert keeper.interval <= 500  # the rest of the second is for writing it
    qtbot.waitUntil(path.exists)
    assert read_session(json.loads(path.read_text())) == WHOLE
    keeper.stop()
    assert writer.close(10)


def test_nothing_is_written_while_nothing_changes(qapp: QApplication, tmp_path: Path) -> None:
    writer = BackgroundWriter(qapp)
    keeper = SessionWriter(session_file(tmp_path), writer, lambda: WHOLE, IdleMonitor(qapp), qapp)
    keeper.start()
    keeper.look()
    keeper.stop()
    assert writer.close(10)
    assert not session_file(tmp_path).exists()


def test_the_last_change_is_written_at_the_end(qapp: QApplication, tmp_path: Path) -> None:
    now = [Session()]
    writer = BackgroundWriter(qapp)
    keeper = SessionWriter(session_file(tmp_path), writer, lambda: now[0], IdleMonitor(qapp), qapp)
    keeper.start()
    now[0] = WHOLE
    keeper.stop()
    assert writer.close(10)
    assert read_session(json.loads(session_file(tmp_path).read_text())) == WHOLE


def test_it_looks_rarely_while_nobody_is_there_and_at_once_again(
    qapp: QApplication, tmp_path: Path, qtbot: QtBot
) -> None:
    asked: list[int] = []

    def ask() -> Session:
        asked.append(len(asked))
        return WHOLE

    idle_monitor = IdleMonitor(qapp)
    keeper = SessionWriter(session_file(tmp_path), BackgroundWriter(qapp), ask, idle_monitor, qapp)
    keeper.start()
    assert keeper.interval == INTERVAL
    idle_monitor.go()
    assert keeper.interval == RARELY
    before = len(asked)
    idle_monitor.touch()
    assert keeper.interval == INTERVAL
    qtbot.waitUntil(lambda: len(asked) > before)
    keeper.stop()


def test_what_changes_by_itself_is_on_disk_within_a_second(
    qapp: QApplication, tmp_path: Path, qtbot: QtBot
) -> None:
    """As what an assistive tool writes, of which no window gets a key."""
    now = [Session()]
    writer, idle_monitor = BackgroundWriter(qapp), IdleMonitor(qapp)
    keeper = SessionWriter(session_file(tmp_path), writer, lambda: now[0], idle_monitor, qapp)
    keeper.start()
    idle_monitor.go()
    now[0] = WHOLE
    keeper.look_soon()
    assert keeper.interval == INTERVAL
    qtbot.waitUntil(session_file(tmp_path).exists)
    keeper.stop()
    assert writer.close(10)


def test_after_a_change_to_what_it_was_it_looks_rarely_again(qapp: QApplication, tmp_path: Path) -> None:
    idle_monitor = IdleMonitor(qapp)
    keeper = SessionWriter(session_file(tmp_path), BackgroundWriter(qapp), lambda: WHOLE, idle_monitor, qapp)
    keeper.start()
    idle_monitor.go()
    keeper.look_soon()
    keeper.look()
    assert keeper.interval == RARELY
    keeper.stop()


def test_a_place_tells_the_window_what_changes_by_itself(window: MainWindow, qtbot: QtBot) -> None:
    place = window.stack.places["Launch"]
    assert isinstance(place, FakePage)
    with qtbot.waitSignal(window.state_changed):
        place.field.setText("from elsewhere")


def test_what_changed_with_nobody_there_is_somebody_who_is(qapp: QApplication, tmp_path: Path) -> None:
    """As text from an input method, of which the window sees no key."""
    now = [Session()]
    writer, idle_monitor = BackgroundWriter(qapp), IdleMonitor(qapp)
    keeper = SessionWriter(session_file(tmp_path), writer, lambda: now[0], idle_monitor, qapp)
    keeper.start()
    idle_monitor.go()
    now[0] = WHOLE
    keeper.look()
    assert idle_monitor.are_there
    keeper.stop()
    assert writer.close(10)
