"""The main window: places, the way to them, menus and shortcuts."""

from collections.abc import Callable
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QMenu, QScrollBar, QToolButton, QTreeWidget
from pytestqt.qtbot import QtBot

from support.gui.window_places import FakePage
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.settings.dialog import SettingsDialog
from torchdeck_app.settings.user_settings import SettingsStore
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets import dialogs as dialog_size
from torchdeck_app.window.connections import Connections
from torchdeck_app.window.error_report import ErrorDialog
from torchdeck_app.window.main_window import MainWindow
from torchdeck_app.window.own_actions import ShortcutSheet
from torchdeck_app.window.saved_session import Session

Places = Callable[[str], FakePage]


def menu(window: MainWindow, name: str) -> QMenu:
    found = next(action for action in window.menuBar().actions() if action.text().replace("&", "") == name)
    shown = found.menu()
    assert isinstance(shown, QMenu)
    return shown


def texts(actions: list[QAction]) -> list[str]:
    return [action.text().replace("&", "") for action in actions if not action.isSeparator()]


def test_a_click_in_the_rail_leads_to_a_place(window: MainWindow, place: Places, qtbot: QtBot) -> None:
    runs = next(button for button in window.findChildren(QToolButton) if button.text() == "Runs")
    qtbot.mouseClick(runs, Qt.MouseButton.LeftButton)
    assert window.stack.current == "Runs"
    assert runs.isChecked()
    assert place("Launch").done == ["entered", "left"]
    assert place("Runs").done == ["entered"]


def test_ctrl_and_a_digit_lead_to_a_place_and_put_the_keyboard_into_it(
    window: MainWindow, place: Places, qtbot: QtBot
) -> None:
    qtbot.waitExposed(window)
    window.activateWindow()
    qtbot.keyClick(window, Qt.Key.Key_3, Qt.KeyboardModifier.ControlModifier)
    assert window.stack.current == "Nodes"
    qtbot.waitUntil(lambda: place("Nodes").field.hasFocus())


def test_the_rail_says_the_shortcut(window: MainWindow) -> None:
    tips = [button.toolTip() for button in window.findChildren(QToolButton) if button.isCheckable()]
    assert tips == ["Launch (Ctrl+1)", "Runs (Ctrl+2)", "Nodes (Ctrl+3)", "Queue (Ctrl+4)"]


def test_the_menus_have_what_the_place_in_sight_offers(window: MainWindow, place: Places) -> None:
    assert "Check" in texts(menu(window, "Launch").actions())
    assert place("Launch").undo in menu(window, "Edit").actions()
    window.show_page("Runs")
    assert place("Runs").check in menu(window, "Runs").actions()
    assert place("Launch").undo not in menu(window, "Edit").actions()


def test_what_a_place_offers_later_is_taken_up(window: MainWindow, place: Places) -> None:
    more = QAction("More", window)
    place("Launch").offered.append(more)
    menu(window, "Launch").aboutToShow.emit()
    assert more in menu(window, "Launch").actions()


def test_what_a_page_offered_may_go_with_it(window: MainWindow, place: Places) -> None:
    offered = place("Launch").offered
    own = QAction("Of a page", window)
    own.setData("Edit")
    offered.append(own)
    edit = menu(window, "Edit")
    edit.aboutToShow.emit()
    shiboken6.delete(own)
    offered.remove(own)
    edit.aboutToShow.emit()
    assert texts(edit.actions()) == ["Undo"]


def test_visiting_places_piles_up_nothing(window: MainWindow, qapp: QApplication) -> None:
    def round_trip() -> int:
        window.show_page("Runs")
        window.show_page("Launch")
        qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        return len(window.findChildren(QAction))

    assert round_trip() == round_trip()


def test_a_place_that_is_larger_than_the_screen_can_be_scrolled(
    window: MainWindow, place: Places, qtbot: QtBot
) -> None:
    def bars() -> int:
        return sum(bar.isVisible() for bar in window.stack.findChildren(QScrollBar))

    window.setWindowState(Qt.WindowState.WindowNoState)
    window.resize(640, 360)
    assert bars() == 0
    place("Launch").setMinimumSize(900, 500)
    qtbot.waitUntil(lambda: bars() == 2)
    assert window.width() == 640


def test_a_shortcut_of_the_place_in_sight_alone_works(
    window: MainWindow, place: Places, qtbot: QtBot
) -> None:
    qtbot.waitExposed(window)
    window.activateWindow()
    both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    qtbot.keyClick(window, Qt.Key.Key_C, both)
    assert "check" in place("Launch").done
    assert "check" not in place("Runs").done


def test_the_window_gives_way_to_a_place_with_the_same_shortcut(window: MainWindow, place: Places) -> None:
    opens = next(action for action in menu(window, "File").actions() if action.text() == "&Open…")
    theirs = QAction("Open run file", window)
    theirs.setShortcut(QKeySequence("Ctrl+O"))
    place("Launch").offered.append(theirs)
    menu(window, "File").aboutToShow.emit()
    assert not opens.isVisible()
    window.show_page("Runs")
    assert opens.isVisible()


def test_every_action_of_the_window_says_what_it_does_and_its_shortcut(window: MainWindow) -> None:
    for action in window.actions_by_page()[""]:
        keys = action.shortcut().toString()
        assert action.toolTip() != action.text(), action.text()
        assert keys in action.toolTip()


def test_the_menu_shows_which_colours_are_chosen(window: MainWindow, store: SettingsStore) -> None:
    colours = [action for action in menu(window, "View").actions() if action.isCheckable()]
    assert [action.isChecked() for action in colours] == [True, False, False]
    colours[2].trigger()
    assert store.settings.theme == "dark"
    store.change(theme="light")
    assert [action.isChecked() for action in colours] == [False, True, False]


def test_the_sheet_of_shortcuts_has_all_of_them_and_can_be_searched(window: MainWindow, qtbot: QtBot) -> None:
    sheet = ShortcutSheet(window.actions_by_page(), window)
    qtbot.addWidget(sheet)
    tree = sheet.findChildren(QTreeWidget)[0]
    rows = {line.text(0): line for group, lines in sheet._groups for line in lines}
    assert rows["Command palette"].text(1) == "Ctrl+K"
    assert rows["Keyboard shortcuts"].text(1) == "F1 or Ctrl+/"
    assert [group.text(0) for group, _ in sheet._groups][:2] == ["The window", "Launch"]
    qtbot.keyClicks(sheet.findChildren(QLineEdit)[0], "ctrl+k")
    assert not rows["Command palette"].isHidden()
    assert rows["Keyboard shortcuts"].isHidden()
    assert tree.topLevelItemCount() > 2


def test_an_empty_menu_cannot_be_opened(window: MainWindow) -> None:
    assert not menu(window, "Run").menuAction().isEnabled()
    assert menu(window, "File").menuAction().isEnabled()


def test_places_are_connected(window: MainWindow, place: Places) -> None:
    place("Launch").run_started.emit("run-1")
    assert window.stack.current == "Runs"
    assert "run-1" in place("Runs").done
    place("Runs").clone_asked.emit("lr = 1", "run-1")
    assert window.stack.current == "Launch"
    assert ("lr = 1", None, "run-1") in place("Launch").done
    window.show_page("Runs")
    place("Runs").launch_asked.emit()
    assert window.stack.current == "Launch"
    place("Nodes").stop_asked.emit("run-1")
    assert "stop run-1" in place("Runs").done
    place("Nodes").run_asked.emit("run-2")
    assert window.stack.current == "Runs"
    assert "run-2" in place("Runs").done


def test_a_file_is_opened_in_launch(connections: Connections, window: MainWindow, place: Places) -> None:
    window.show_page("Nodes")
    connections.open_path(Path("/tmp/run.toml"))
    assert window.stack.current == "Launch"
    assert Path("/tmp/run.toml") in place("Launch").done


def test_the_title_is_that_of_the_place_in_sight(window: MainWindow, place: Places) -> None:
    place("Launch").setWindowTitle("quickstart.toml")
    assert window.windowTitle() == "quickstart.toml – Torchdeck"
    window.show_page("Runs")
    assert window.windowTitle() == "Torchdeck"


def test_the_session_comes_back(window: MainWindow, place: Places) -> None:
    window.showNormal()
    window.resize(700, 560)
    place("Runs").field.setText("smooth")
    window.show_page("Runs")
    kept = window.session(("action:/Check",))
    assert (kept.place, kept.places["Runs"], kept.recent) == ("Runs", {"text": "smooth"}, ("action:/Check",))
    window.resize(720, 700)
    window.restore(kept)
    assert (window.width(), window.height()) == (700, 560)


def test_a_first_window_and_a_senseless_geometry_fit_the_screen(window: MainWindow) -> None:
    for geometry in ("", "AAAA", "%"):
        window.restore(Session(geometry=geometry))
        room = window.screen().availableSize()
        assert window.width() <= room.width()
        assert window.height() <= room.height()


def test_states_of_places_that_were_never_made_are_kept(window: MainWindow) -> None:
    window.restore(Session(places={"Other": {"text": "unsaved"}}))
    assert window.session(()).places["Other"] == {"text": "unsaved"}


def test_closing_tells_the_places(window: MainWindow, place: Places) -> None:
    window.close()
    assert all(place(name).done[-1] == "closing" for name in ("Launch", "Runs", "Nodes", "Queue"))


def test_icons_follow_the_theme(window: MainWindow, theme: Theme) -> None:
    runs = next(button for button in window.findChildren(QToolButton) if button.text() == "Runs")
    before = runs.icon().cacheKey()
    theme.set_mode("dark")
    assert runs.icon().cacheKey() != before


def test_dialogs_fit_a_small_screen_and_cut_nothing(
    window: MainWindow,
    store: SettingsStore,
    theme: Theme,
    operations: Operations,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = QSize(640, 360)
    monkeypatch.setattr(dialog_size, "room_of", lambda _dialog: room)
    for dialog in (
        SettingsDialog(store, theme, operations, window),
        ShortcutSheet(window.actions_by_page(), window),
        ErrorDialog("ValueError", window),
    ):
        qtbot.addWidget(dialog)
        dialog.show()
        assert dialog.width() <= room.width()
        assert dialog.height() <= room.height()
        for label in dialog.findChildren(QLabel):
            assert label.height() >= label.heightForWidth(label.width()), label.text()


def test_menus_stay_when_python_loses_its_half_of_the_bar(window: MainWindow, place: Places) -> None:
    """As an open window was seen to do: what Qt had made was taken for deleted, and it said so for ever."""
    shiboken6.invalidate(window.menuBar())
    window.show_page("Runs")
    assert place("Runs").check in menu(window, "Runs").actions()
    assert place("Launch").undo not in menu(window, "Edit").actions()
    menu(window, "File").aboutToShow.emit()
