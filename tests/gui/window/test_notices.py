"""Notices: in the window and on the desktop, without taking the focus."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QSystemTrayIcon, QToolButton
from pytestqt.qtbot import QtBot

from support.gui.window_places import FakePage
from support.values.run_entries import FAILED, entry, live_view, over_view, run_id
from torchdeck.runs.run_list import RunEntry, RunsSeen
from torchdeck.runs.run_state import RunState
from torchdeck_app.settings.user_settings import SettingsStore
from torchdeck_app.widgets.panel import GRID
from torchdeck_app.widgets.state_badge import LOOKS
from torchdeck_app.window import notices as module
from torchdeck_app.window.later_parts import LaterParts
from torchdeck_app.window.main_window import MainWindow
from torchdeck_app.window.notices import Notice
from torchdeck_app.window.run_news import Tray

GOOD = LOOKS[RunState.SUCCEEDED]


class FakeTray(QSystemTrayIcon):
    """What the desktop was told."""

    told: list[tuple[str, str]]
    is_there = True
    seen = False

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[call-overload]
        FakeTray.told = []

    @staticmethod
    def isSystemTrayAvailable() -> bool:  # noqa: N802 - Qt's name
        return FakeTray.is_there

    def show(self) -> None:
        FakeTray.seen = True

    def hide(self) -> None:
        FakeTray.seen = False

    def showMessage(self, title: str, text: str, *_: object) -> None:  # noqa: N802 - Qt's name
        self.told.append((title, text))


def ended(number: int = 1, **fields: object) -> tuple[RunsSeen, RunsSeen]:
    """The list while a run continues, and when it has failed."""
    before: RunEntry = entry(number, live_view(run_id(number)))
    view = replace(over_view(run_id(number), FAILED), **fields)  # type: ignore[arg-type]
    return RunsSeen((before,)), RunsSeen((entry(number, view),))


def test_a_run_that_fails_is_told_and_a_click_opens_it(
    parts: LaterParts, window: MainWindow, place: Callable[[str], FakePage], qtbot: QtBot
) -> None:
    before, after = ended(name="big")
    place("Launch").field.setFocus()
    parts.news.take(before)
    parts.news.take(after)
    assert [notice.text for notice in parts.notices.shown] == ["big failed: rank 1 failed"]
    button = parts.notices.findChildren(QPushButton)[0]
    assert window.focusWidget() is place("Launch").field
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert window.stack.current == "Runs"
    assert run_id(1) in place("Runs").done
    assert parts.notices.shown == ()


def test_a_run_whose_page_is_looked_at_needs_no_notice(
    parts: LaterParts, window: MainWindow, place: Callable[[str], FakePage], qtbot: QtBot
) -> None:
    window.stack.show_page("Runs")
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    place("Runs").run_in_sight = run_id(1)
    for seen in ended(1):
        parts.news.take(seen)
    assert [notice.text for notice in parts.notices.shown] == []
    for seen in ended(2):  # another one is told
        parts.news.take(seen)
    assert len(parts.notices.shown) == 1
    window.stack.show_page("Launch")  # and so is that one behind another place
    for seen in ended(3):
        place("Runs").run_in_sight = run_id(3)
        parts.news.take(seen)
    assert len(parts.notices.shown) == 2


def test_settings_can_keep_it_quiet(parts: LaterParts, store: SettingsStore) -> None:
    store.change(notify_in_window=False)
    for seen in ended():
        parts.news.take(seen)
    assert parts.notices.shown == ()


def test_text_from_files_is_shown_as_it_is(parts: LaterParts) -> None:
    parts.notices.show_notice(Notice("<b>big</b> failed", GOOD))
    labels = parts.notices.findChildren(QLabel)
    assert any(
        label.text() == "<b>big</b> failed" and label.textFormat() is Qt.TextFormat.PlainText
        for label in labels
    )


def test_two_runs_of_one_name_are_both_told_and_a_warning_once(parts: LaterParts) -> None:
    for number in (1, 2):
        for seen in ended(number, name="big"):
            parts.news.take(seen)
    assert len(parts.notices.shown) == 2
    parts.warn("the disk is full")
    parts.warn("the disk is full")
    assert len(parts.notices.shown) == 3


def test_more_than_three_make_the_oldest_go(parts: LaterParts) -> None:
    for name in "abcd":
        parts.notices.show_notice(Notice(name, GOOD, stays=True))
    assert [notice.text for notice in parts.notices.shown] == ["b", "c", "d"]


def test_what_went_well_goes_by_itself_and_what_went_wrong_stays(
    parts: LaterParts, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STAYS", 50)
    parts.notices.show_notice(Notice("failed", GOOD, stays=True))
    parts.notices.show_notice(Notice("succeeded", GOOD))
    qtbot.waitUntil(lambda: [notice.text for notice in parts.notices.shown] == ["failed"])
    qtbot.mouseClick(parts.notices.findChildren(QToolButton)[0], Qt.MouseButton.LeftButton)
    assert parts.notices.shown == ()
    assert not parts.notices.isVisible()


def test_the_newest_is_answered_by_keyboard(parts: LaterParts, window: MainWindow, qtbot: QtBot) -> None:
    answered: list[str] = []
    for name in ("a", "b"):
        call = lambda name=name: answered.append(name)  # noqa: E731 - one line is enough
        parts.notices.show_notice(Notice(name, GOOD, "Open run", call))
    parts.notices.answer_newest()
    assert answered == ["b"]


def test_notices_stay_inside_a_window_that_shrinks(parts: LaterParts, window: MainWindow) -> None:
    parts.notices.show_notice(Notice("word " * 60, GOOD, "Open run", stays=True))
    window.resize(800, 500)
    over = parts.notices.parentWidget()
    assert over is not None
    assert over.rect().contains(parts.notices.geometry())


def test_the_desktop_is_told_where_it_has_a_tray(
    window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchdeck_app.window.run_news.QSystemTrayIcon", FakeTray)
    pressed: list[str] = []
    tray = Tray(QIcon(), lambda: pressed.append("raised"), window)
    FakeTray.is_there = False
    assert not tray.tell("big", "big failed", is_bad=True, pressed=lambda: None)
    FakeTray.is_there = True
    assert tray.tell("big", "big failed", is_bad=True, pressed=lambda: pressed.append("big"))
    assert FakeTray.told == []  # a plain X tray has not placed the icon yet
    qtbot.waitUntil(lambda: FakeTray.told == [("big", "big failed")])
    tray.findChildren(FakeTray)[0].messageClicked.emit()
    assert pressed == ["raised", "big"]
    assert FakeTray.seen
    tray.close()
    assert not FakeTray.seen


def test_notices_float_and_move_nothing(
    parts: LaterParts, window: MainWindow, place: Callable[[str], FakePage], qtbot: QtBot
) -> None:
    """What is in sight keeps its place; they are over its lower left, the newest at the bottom."""
    window.resize(1280, 720)
    shown = place("Launch")
    before = shown.geometry()
    for name in ("big failed: rank 1 failed", "other failed", "a third one failed"):
        parts.notices.show_notice(Notice(name, GOOD, "Open run", stays=True))
        qtbot.waitUntil(parts.notices.isVisible)
        assert shown.geometry() == before
    over = parts.notices.geometry()
    assert over.right() < window.stack.width() // 2
    assert window.stack.height() - 2 * GRID < over.bottom() < window.stack.height()
    cards = [card for card in parts.notices.findChildren(QFrame) if card.parent() is parts.notices]
    qtbot.waitUntil(lambda: max(cards, key=lambda card: card.y()).accessibleName() == "a third one failed")


def test_the_newest_is_in_sight_in_a_small_window(
    parts: LaterParts, window: MainWindow, place: Callable[[str], FakePage], qtbot: QtBot
) -> None:
    window.resize(560, 320)
    for name in "abc":
        parts.notices.show_notice(Notice(name * 200, GOOD, "Open run", stays=True))
    (newest,) = (card for card in parts.notices.findChildren(QFrame) if card.accessibleName() == "c" * 200)
    qtbot.waitUntil(lambda: newest.visibleRegion().boundingRect() == newest.rect())
