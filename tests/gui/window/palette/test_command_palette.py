"""The command palette, by keyboard alone."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QListView
from pytestqt.qtbot import QtBot

from support.gui.window_places import FakePage
from support.values.run_entries import entry, live_view, run_id
from torchdeck_app.window.command_palette_dialog import CommandPalette
from torchdeck_app.window.later_parts import LaterParts
from torchdeck_app.window.main_window import MainWindow
from torchdeck_app.window.palette_items import run_items


@pytest.fixture
def opened(parts: LaterParts, window: MainWindow, qtbot: QtBot) -> CommandPalette:
    qtbot.waitExposed(window)
    window.activateWindow()
    parts.palette.open()
    qtbot.waitUntil(lambda: field(parts.palette).hasFocus())
    return parts.palette


def field(palette: CommandPalette) -> QLineEdit:
    return palette.findChildren(QLineEdit)[0]


def lines(palette: CommandPalette) -> list[str]:
    model = palette.findChildren(QListView)[0].model()
    assert model is not None
    return [model.index(row, 0).data(Qt.ItemDataRole.AccessibleTextRole) for row in range(model.rowCount())]


def test_it_shows_actions_of_all_places_with_place_and_shortcut(opened: CommandPalette) -> None:
    assert lines(opened)[0] == "Check, Launch, Ctrl+Shift+C"
    assert "Check, Runs, Ctrl+Shift+C" in lines(opened)
    assert "Settings, Window, Ctrl+," in lines(opened)
    assert not any(line.startswith("Command palette") for line in lines(opened))


def test_typing_and_enter_do_it_in_its_place(
    opened: CommandPalette, window: MainWindow, place: Callable[[str], FakePage], qtbot: QtBot
) -> None:
    qtbot.keyClicks(field(opened), "runs chk")
    assert lines(opened) == ["Check, Runs, Ctrl+Shift+C"]
    qtbot.keyClick(field(opened), Qt.Key.Key_Return)
    assert window.stack.current == "Runs"
    assert "check" in place("Runs").done
    assert not opened.isVisible()


def test_arrows_move_and_wrap(opened: CommandPalette, qtbot: QtBot) -> None:
    view = opened.findChildren(QListView)[0]
    qtbot.keyClick(field(opened), Qt.Key.Key_Down)
    assert view.currentIndex().row() == 1
    qtbot.keyClick(field(opened), Qt.Key.Key_Up)
    qtbot.keyClick(field(opened), Qt.Key.Key_Up)
    assert view.currentIndex().row() == len(lines(opened)) - 1


def test_escape_gives_the_focus_back(
    parts: LaterParts, window: MainWindow, place: Callable[[str], FakePage], qtbot: QtBot
) -> None:
    qtbot.waitExposed(window)
    window.activateWindow()
    place("Launch").field.setFocus()
    qtbot.waitUntil(place("Launch").field.hasFocus)
    parts.palette.open()
    qtbot.keyClick(field(parts.palette), Qt.Key.Key_Escape)
    assert not parts.palette.isVisible()
    assert place("Launch").field.hasFocus()


def test_what_was_done_last_is_first_next_time(opened: CommandPalette, qtbot: QtBot) -> None:
    qtbot.keyClicks(field(opened), "undo")
    qtbot.keyClick(field(opened), Qt.Key.Key_Return)
    opened.open()
    assert lines(opened)[0].startswith("Undo")
    assert opened.recent == ("action:Launch/Undo",)


def test_actions_that_cannot_be_done_are_left_out(
    parts: LaterParts, place: Callable[[str], FakePage]
) -> None:
    place("Launch").check.setEnabled(False)
    parts.palette.open()
    assert "Check, Launch, Ctrl+Shift+C" not in lines(parts.palette)


def test_a_notice_can_be_answered_while_there_is_one(parts: LaterParts) -> None:
    parts.palette.open()
    assert not any(line.startswith("Act on the latest notification") for line in lines(parts.palette))
    parts.warn("Something stays.")
    parts.palette.open()
    assert any(line.startswith("Act on the latest notification") for line in lines(parts.palette))


def test_runs_are_found_by_name_and_state_is_said(parts: LaterParts, qtbot: QtBot) -> None:
    chosen: list[str] = []
    runs = [entry(2, live_view(run_id(2))), entry(1)]
    parts._offer_runs = lambda: run_items(runs, chosen.append)
    parts.palette.open()
    qtbot.keyClicks(field(parts.palette), "run of")
    found = [line for line in lines(parts.palette) if "run of" in line]
    assert len(found) == 2
    assert "running" in found[0]
    qtbot.keyClick(field(parts.palette), Qt.Key.Key_Return)
    assert chosen == [run_id(2)]


def test_a_word_that_nothing_has_says_so_and_enter_does_nothing(opened: CommandPalette, qtbot: QtBot) -> None:
    qtbot.keyClicks(field(opened), "qqqq")
    assert lines(opened) == []
    qtbot.keyClick(field(opened), Qt.Key.Key_Return)
    assert opened.isVisible()


def test_a_thousand_runs_are_searched_in_no_time(parts: LaterParts, qtbot: QtBot) -> None:
    runs = [entry(number) for number in range(1, 1001)]
    parts._offer_runs = lambda: run_items(runs, print)
    parts.palette.open()
    qtbot.keyClicks(field(parts.palette), "gpt")
    assert 0 < len(lines(parts.palette)) <= 200
