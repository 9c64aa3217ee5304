"""What holds for every control of the window, wherever it is: it has a name, and says its keys."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QLabel,
    QLineEdit,
    QMenuBar,
    QTabBar,
    QToolButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from support.gui.sights import sights
from support.gui.whole_window import close, opened, path_of, spoken_name
from support.values.run_homes import add_failed_run, add_run, run_id
from torchdeck_app.window.application import WindowApplication

SLOW = 30_000


@pytest.fixture
def window(
    tmp_path: Path, qapp: QApplication, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """With a preset being edited, and the page of a run that has failed open."""
    monkeypatch.setenv("HOME", str(tmp_path))
    add_run(tmp_path / "home", 1)
    add_failed_run(tmp_path / "home", 2)
    made = opened(tmp_path / "home", qapp, qtbot)
    made.connections.open_run(run_id(2))
    tabs, runs = made.window.stack.places["Launch"], made.window.stack.places["Runs"]
    tabs.new_from_preset("quickstart")  # type: ignore[attr-defined]
    launch = tabs.current  # type: ignore[attr-defined]
    qtbot.waitUntil(lambda: launch.has_document, timeout=SLOW)
    qtbot.waitUntil(lambda: launch.service.state.preview is not None, timeout=SLOW)
    launch.service.cancel_tracing()
    qtbot.waitUntil(lambda: runs.page is not None, timeout=SLOW)  # type: ignore[attr-defined]
    yield made
    close(made)


def test_every_control_that_the_keyboard_reaches_has_a_name(window: WindowApplication) -> None:
    nameless, kinds = set(), set()
    for sight, root in sights(window):
        for widget in root.findChildren(QWidget):
            if widget.focusPolicy() != Qt.FocusPolicy.NoFocus and widget.isVisible():
                kinds.add(type(widget).__name__)
                if not spoken_name(widget):
                    nameless.add(f"{sight}: {path_of(widget)}")
    assert sorted(nameless) == []
    assert len(kinds) > 15, f"it has looked at too little: {kinds}"


def test_what_shows_only_a_picture_says_what_it_does_and_by_which_keys(window: WindowApplication) -> None:
    mute = set()
    for sight, root in sights(window):
        for button in root.findChildren(QAbstractButton):
            if not button.isVisible() or button.objectName().startswith("qt_") or is_inside(button):
                continue
            if not button.text() and not button.toolTip():
                mute.add(f"{sight}: {path_of(button)}")
            action = button.defaultAction() if isinstance(button, QToolButton) else None
            if action is not None and not says_keys(button.toolTip(), action):
                mute.add(f"{sight}: {button.toolTip()!r} lacks {action.shortcut().toString()}")
    assert sorted(mute) == []


def test_every_action_says_its_keys(window: WindowApplication) -> None:
    """In its tooltip; the menus show them by themselves."""
    silent = [
        f"{place or 'window'}: {action.text()}"
        for place, actions in window.window.actions_by_page().items()
        for action in actions
        if not action.isSeparator() and not says_keys(action.toolTip(), action)
    ]
    assert silent == []


def test_no_letter_with_alt_means_two_things(window: WindowApplication) -> None:
    """Qt then only goes from one to the other, and does neither."""
    twice = set()
    for sight, root in sights(window):
        taken: dict[str, str] = {}
        for text in texts_with_letters(root):
            letter = QKeySequence.mnemonic(text).toString()
            if letter and taken.setdefault(letter, text) != text:
                twice.add(f"{sight}: {letter} is {taken[letter]} and {text}")
    assert not twice, "\n".join(sorted(twice))


def texts_with_letters(root: QWidget) -> Iterator[str]:
    """Of all that is seen in one window."""
    for widget in root.findChildren(QWidget):
        if not widget.isVisible() or widget.window() is not root or not widget.isEnabled():
            continue
        if isinstance(widget, QTabBar):
            yield from (widget.tabText(index) for index in range(widget.count()))
        elif isinstance(widget, QMenuBar):
            yield from (action.text() for action in widget.actions() if action.isVisible())
        elif isinstance(widget, QAbstractButton) or (isinstance(widget, QLabel) and has_buddy(widget)):
            yield widget.text()


def has_buddy(widget: QWidget) -> bool:
    buddy: QWidget | None = widget.buddy() if isinstance(widget, QLabel) else None
    return buddy is not None


def is_inside(button: QAbstractButton) -> bool:
    """Whether Qt has made it inside of a field or of tabs."""
    return isinstance(button.parentWidget(), QTabBar | QLineEdit)


def says_keys(tooltip: str, action: QAction) -> bool:
    keys = action.shortcut().toString().replace("Return", "Enter")
    return keys in tooltip.replace("Return", "Enter")
