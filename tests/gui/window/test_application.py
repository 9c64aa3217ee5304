"""The whole window with its real places: what holds for all of them, and what outlives a killed window."""

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QShortcut
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from support.gui import whole_window
from support.gui.whole_window import close, path_of
from support.gui.window_places import FakePage, fake_entries
from support.values.run_homes import add_run, run_id
from support.waiting import wait_until
from torchdeck_app.settings.user_settings import VERSION, settings_file
from torchdeck_app.window.application import MakeEntries, WindowApplication, page_entries
from torchdeck_app.window.saved_session import VERSION as SESSION_VERSION
from torchdeck_app.window.saved_session import SavedState, Session, session_file

SLOW = 30_000
"""Milliseconds for what the real places read."""


def opened(
    home: Path, qapp: QApplication, qtbot: QtBot, entries: MakeEntries = lambda *_: fake_entries()
) -> WindowApplication:
    """With places made for tests, unless `entries` are others."""
    return whole_window.opened(home, qapp, qtbot, entries)


@pytest.fixture
def application(tmp_path: Path, qapp: QApplication, qtbot: QtBot) -> Iterator[WindowApplication]:
    """With its real places."""
    made = opened(tmp_path / "home", qapp, qtbot, page_entries)
    yield made
    close(made)


def test_all_places_are_made_and_can_be_visited(application: WindowApplication, qtbot: QtBot) -> None:
    stack = application.window.stack
    assert list(stack.places) != []
    for name in stack.names:
        application.window.show_page(name)
        assert stack.places[name].isVisible(), f"{name} could not be made"


def test_the_real_places_are_connected(application: WindowApplication, tmp_path: Path, qtbot: QtBot) -> None:
    """A clone of a run is opened in Launch, and a run that was started is shown in Runs."""
    stack = application.window.stack
    launch, runs = stack.places["Launch"], stack.places["Runs"]
    runs.clone_asked.emit('[run]\nrecipe = "digits"\n', "a run")  # type: ignore[attr-defined]
    assert stack.current == "Launch"
    qtbot.waitUntil(lambda: "digits" in json.dumps(launch.save_state()), timeout=SLOW)
    launch.run_started.emit("20261121T034455Z-gpt-0a1b2c")  # type: ignore[attr-defined]
    assert stack.current == "Runs"
    stack.show_page("Nodes")
    stack.places["Nodes"].run_asked.emit("20261121T034455Z-gpt-0a1b2c")  # type: ignore[attr-defined]
    assert stack.current == "Runs"


def test_what_no_key_wrote_is_kept_at_once_too(tmp_path: Path, qapp: QApplication, qtbot: QtBot) -> None:
    made = opened(tmp_path, qapp, qtbot)
    launch = made.window.stack.places["Launch"]
    assert isinstance(launch, FakePage)
    launch.field.setText("by an input method")
    kept = session_file(tmp_path)
    qtbot.waitUntil(lambda: kept.exists() and "by an input method" in kept.read_text())
    close(made)


@pytest.mark.parametrize("name", ["Launch", "Runs", "Nodes", "Queue"])
def test_no_two_shortcuts_that_work_at_once_are_the_same(
    name: str, tmp_path: Path, qapp: QApplication, qtbot: QtBot
) -> None:
    """With a preset being edited and a run's page open; Qt carries out neither of two."""
    add_run(tmp_path / "home", 1)
    made = opened(tmp_path / "home", qapp, qtbot, page_entries)
    made.connections.open_run(run_id(1))
    runs, launch = made.window.stack.places["Runs"], made.window.stack.places["Launch"]
    qtbot.waitUntil(lambda: runs.page is not None, timeout=SLOW)  # type: ignore[attr-defined]
    launch.new_from_preset("quickstart")  # type: ignore[attr-defined]
    qtbot.waitUntil(lambda: launch.current.document.text != "", timeout=SLOW)  # type: ignore[attr-defined]
    made.window.show_page(name)
    place, own = made.window.stack.places[name], made.window.actions_by_page()[""]
    found = [action for action in own if action.isVisible()] + list(place.actions_offered())
    found += [action for action in place.findChildren(QAction) if action not in found]
    both: list[Shortcut] = [*found, *place.findChildren(QShortcut)]
    pairs = itertools.combinations(both, 2)
    assert [clash for one, other in pairs if (clash := clash_of(one, other))] == []
    close(made)


Shortcut = QAction | QShortcut


def clash_of(one: Shortcut, other: Shortcut) -> str:
    """Keys that both have where a widget with the focus can reach both; else empty."""
    here, there = reach_of(one), reach_of(other)
    meet = here is None or there is None or here is there
    if not meet and here is not None and there is not None:
        meet = here.isAncestorOf(there) or there.isAncestorOf(here)
    shared = keys_of(one) & keys_of(other) if meet else set()
    return f"{', '.join(shared)}: {said_of(one)} and {said_of(other)}" if shared else ""


def keys_of(shortcut: Shortcut) -> set[str]:
    keys = shortcut.shortcuts() if isinstance(shortcut, QAction) else [shortcut.key()]
    return {each.toString() for each in keys} - {""}


def reach_of(shortcut: Shortcut) -> QWidget | None:
    """The widget within which it works; None is the whole window."""
    context = shortcut.shortcutContext() if isinstance(shortcut, QAction) else shortcut.context()
    parent = shortcut.parent()
    inside = (Qt.ShortcutContext.WidgetShortcut, Qt.ShortcutContext.WidgetWithChildrenShortcut)
    return parent if context in inside and isinstance(parent, QWidget) else None


def said_of(shortcut: Shortcut) -> str:
    parent = shortcut.parent()
    if isinstance(shortcut, QAction):
        return shortcut.text()
    return path_of(parent) if isinstance(parent, QWidget) else ""


def test_a_window_that_is_opened_again_is_where_it_was(
    tmp_path: Path, qapp: QApplication, qtbot: QtBot
) -> None:
    first = opened(tmp_path / "home", qapp, qtbot)
    first.window.show_page("Nodes")
    first.store.change(theme="dark")
    close(first)
    second = opened(tmp_path / "home", qapp, qtbot)
    assert second.window.stack.current == "Nodes"
    assert second.theme.palette.scheme == "dark"
    close(second)


class SlowKept(SavedState):
    """Is never read."""

    def wait(self, seconds: float = 0.0) -> bool:  # noqa: ARG002 - however long it is waited for
        return False


def test_a_session_on_a_disk_that_does_not_answer_is_never_overwritten(
    tmp_path: Path, qapp: QApplication, qtbot: QtBot
) -> None:
    home = tmp_path / "home"
    first = opened(home, qapp, qtbot)
    first.window.show_page("Nodes")
    first.store.change(theme="dark")
    close(first)
    kept_before = session_file(home).read_text()
    kept = SlowKept(
        settings_file(home), session_file(home), settings_version=VERSION, session_version=SESSION_VERSION
    )
    made = WindowApplication(qapp, home, kept, lambda *_: fake_entries())
    hook = sys.excepthook
    made.open(None)
    sys.excepthook = hook
    qtbot.waitUntil(lambda: "Launch" in made.window.stack.places)
    assert made._later is not None
    assert "does not answer" in made._later.notices.shown[0].text
    close(made)
    assert session_file(home).read_text() == kept_before


@pytest.mark.parametrize("name", ["window.json", "settings.json"])
def test_a_damaged_file_is_said_in_the_window(
    name: str, tmp_path: Path, qapp: QApplication, qtbot: QtBot
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / name).write_text("{")
    made = opened(home, qapp, qtbot)
    assert made._later is not None
    assert f"{name} is damaged" in made._later.notices.shown[0].text
    close(made)


def test_closing_asks_only_where_that_is_set_and_runs_go_on(
    tmp_path: Path, qapp: QApplication, qtbot: QtBot
) -> None:
    home = tmp_path / "home"
    made = opened(home, qapp, qtbot)
    window = made.window
    made._live = lambda: ["gpt"]  # type: ignore[method-assign]
    made.store.change(ask_on_close=True)
    window.close()
    box = window.findChildren(QMessageBox)[0]
    assert window.isVisible()
    press(box, "Stay", qtbot)
    assert window.isVisible()
    window.close()
    box = next(shown for shown in window.findChildren(QMessageBox) if shown.isVisible())
    press(box, "Close window", qtbot)
    qtbot.waitUntil(lambda: not window.isVisible())
    close(made)


def press(box: QMessageBox, text: str, qtbot: QtBot) -> None:
    button = next(one for one in box.findChildren(QPushButton) if one.text().replace("&", "") == text)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


WINDOW = """\
import sys
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
original = QApplication.exec
def watched(*_):
    from torchdeck_app.window.main_window import MainWindow
    window = next(top for top in QApplication.topLevelWidgets() if isinstance(top, MainWindow))
    def made():
        window.show_page("Nodes")
        print("made", flush=True)
    window.stack.all_made.connect(made)
    return original()
QApplication.exec = watched
from torchdeck_app.start import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_window_that_is_ended_has_kept_its_session(how: signal.Signals, tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = {"TORCHDECK_HOME": str(home), "QT_QPA_PLATFORM": "offscreen"}
    process = subprocess.Popen(
        [sys.executable, "-c", WINDOW],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "made\n"
        if how is signal.SIGKILL:
            wait_until(lambda: kept_place(home) == "Nodes", 20, "the session to be written")
        process.send_signal(how)
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait(10)
    assert kept_place(home) == "Nodes"
    assert process.returncode == (-9 if how is signal.SIGKILL else 143)
    assert "Traceback" not in said


def kept_place(home: Path) -> str:
    try:
        table = json.loads(session_file(home).read_text())
    except FileNotFoundError:
        return Session().place
    place: str = table["place"]
    return place
