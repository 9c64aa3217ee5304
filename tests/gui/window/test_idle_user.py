"""Whether someone is at the window, and what it leaves undone while no one is."""

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QEvent, QObject, QPointF, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QMouseEvent
from PySide6.QtWidgets import QApplication, QMenu, QWidget
from pytestqt.qtbot import QtBot

from torchdeck_app.window.idle_user import GATHER, STAYS, IdleMonitor, IdleThrottle
from torchdeck_app.window.main_window import MainWindow

LONG = 3_600_000
"""Milliseconds; longer than any test."""


@pytest.fixture
def blinks(qapp: QApplication) -> Iterator[int]:
    """Milliseconds of the cursor; as they were, afterwards."""
    before = QGuiApplication.styleHints().cursorFlashTime()
    yield before
    QGuiApplication.styleHints().setCursorFlashTime(before)


class Paintings(QObject):
    """Counts how often a widget is painted."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.count = 0
        widget.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        self.count += event.type() == QEvent.Type.Paint
        return False


@pytest.fixture
def paintings(window: MainWindow, qtbot: QtBot) -> Callable[[], int]:
    """Of the status bar, once it has been painted for the first time."""
    counted = Paintings(window.status)
    window.status.update()
    qtbot.waitUntil(lambda: counted.count > 0)
    return lambda: counted.count


def moved(qapp: QApplication, window: QWidget) -> None:
    """The pointer moves over the window, as the screen says."""
    at, none = QPointF(5, 5), Qt.MouseButton.NoButton
    event = QMouseEvent(QMouseEvent.Type.MouseMove, at, at, none, none, Qt.KeyboardModifier.NoModifier)
    qapp.sendEvent(window.windowHandle(), event)


def test_who_does_nothing_for_long_is_gone_and_who_moves_is_back(
    qapp: QApplication, window: MainWindow, qtbot: QtBot
) -> None:
    now = [0.0]
    idle_monitor = IdleMonitor(qapp, clock=lambda: now[0], stays=0.02)
    idle_monitor.watch(qapp)
    now[0] = 0.01
    moved(qapp, window)
    now[0] = 0.025  # 0.015 s after that
    idle_monitor._look()
    assert idle_monitor.are_there
    now[0] = 1.0
    qtbot.waitUntil(lambda: not idle_monitor.are_there)
    with qtbot.waitSignal(idle_monitor.came):
        moved(qapp, window)
    assert idle_monitor.are_there


@pytest.mark.qt_log_ignore("This plugin does not support (raise|grabbing)", extend=True)
def test_who_is_in_a_menu_is_there(qapp: QApplication, window: MainWindow, qtbot: QtBot) -> None:
    """On this platform it does not get the keyboard, and Qt tells no one of its window."""
    now = [0.0]
    idle_monitor = IdleMonitor(qapp, clock=lambda: now[0])
    idle_monitor.watch(qapp)
    menu = QMenu(window)
    menu.addAction("One")
    menu.popup(window.pos())
    qtbot.waitUntil(menu.isVisible)
    now[0] = STAYS
    idle_monitor._look()
    assert idle_monitor.are_there  # who opened it
    now[0] = 2 * STAYS - 1
    moved(qapp, menu)
    now[0] = 2 * STAYS
    idle_monitor._look()
    assert idle_monitor.are_there
    now[0] = 3 * STAYS
    with qtbot.waitSignal(idle_monitor.left):
        idle_monitor._look()  # though it is open
    menu.close()


def test_the_cursor_blinks_while_somebody_is_there(qapp: QApplication, blinks: int) -> None:
    idle_monitor = IdleMonitor(qapp)
    IdleThrottle(idle_monitor, lambda: None, idle_monitor)
    idle_monitor.go()
    assert QGuiApplication.styleHints().cursorFlashTime() == 0
    idle_monitor.touch()
    assert QGuiApplication.styleHints().cursorFlashTime() == blinks


@pytest.mark.usefixtures("blinks")
def test_what_comes_in_a_row_is_painted_at_once_while_nobody_is_there(
    qapp: QApplication, window: MainWindow, paintings: Callable[[], int], qtbot: QtBot
) -> None:
    now = [0.0]
    idle_monitor = IdleMonitor(qapp)
    idle_throttle = IdleThrottle(idle_monitor, window.paint_now, idle_monitor, clock=lambda: now[0])
    ready_barrier = idle_throttle.findChildren(QTimer)[0]
    ready_barrier.setInterval(LONG)  # what a busy machine does in a row may take longer than GATHER
    window.may_gather = idle_throttle.gathers
    idle_monitor.go()
    now[0] = 1.0
    before = paintings()
    for _look in range(3):
        window.status.update()
        qapp.processEvents()
    assert paintings() == before
    ready_barrier.setInterval(GATHER)
    qtbot.waitUntil(lambda: paintings() == before + 1)
    ready_barrier.setInterval(LONG)
    now[0] = 1.1
    window.status.update()  # the next frame of a movement
    qapp.processEvents()
    assert paintings() == before + 2
    now[0] = 2.0
    window.status.update()
    qapp.processEvents()
    assert paintings() == before + 2
    idle_monitor.touch()
    assert paintings() == before + 3
