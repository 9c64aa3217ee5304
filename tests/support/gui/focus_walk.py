"""Where Tab leads in a window, and whether the eye can follow."""

from __future__ import annotations

import re
from dataclasses import dataclass

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QButtonGroup,
    QGraphicsView,
    QLineEdit,
    QTabBar,
    QWidget,
)
from shiboken6 import isValid

from support.gui.whole_window import path_of
from support.waiting import wait_until

MOST = 400
"""Presses of Tab that lead once around any window."""
KEYS = re.compile(r"\((\w+\+)*[\w,.]+\)$", re.MULTILINE)
"""How a tooltip ends that says the keys."""


@dataclass
class Walk:
    """What has the focus after each press, and the steps back that the eye does not expect."""

    met: list[QWidget]
    backwards: list[str]
    is_round: bool


def stops(root: QWidget) -> list[QWidget]:
    """What Tab should reach of a window."""
    return [widget for widget in root.findChildren(QWidget) if is_stop(widget, root)]


def is_stop(widget: QWidget, root: QWidget) -> bool:
    takes = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus) and widget.focusProxy() is None
    if not takes or widget.window() is not root or not widget.isVisible() or not widget.isEnabled():
        return False
    return not is_part(widget) and not is_other_choice(widget)


def is_part(widget: QWidget) -> bool:
    """Whether it belongs to a tab bar or field, whose keys do the same."""
    return isinstance(widget.parentWidget(), QTabBar | QLineEdit)


def is_other_choice(widget: QWidget) -> bool:
    """Whether it is one of several buttons of which one is pressed: the arrows lead from that one to it."""
    if not isinstance(widget, QAbstractButton) or widget.isChecked():
        return False
    group: QButtonGroup | None = widget.group()
    return widget.autoExclusive() or (group is not None and group.exclusive())


def mouse_only(root: QWidget) -> list[str]:
    """Buttons without focus whose tooltip does not say the keys that do the same."""
    return [
        f"{path_of(button)} {button.toolTip()!r}"
        for button in root.findChildren(QAbstractButton)
        if button.isVisible()
        and button.window() is root
        and button.focusPolicy() is Qt.FocusPolicy.NoFocus
        and not (is_part(button) or is_other_choice(button) or button.objectName().startswith("qt_"))
        and not KEYS.search(button.toolTip())
    ]


def activate(root: QWidget) -> None:
    """Give a window the keyboard; the offscreen platform does so in its own time."""

    def is_active() -> bool:
        root.activateWindow()
        QApplication.processEvents()
        return root.isActiveWindow()

    wait_until(is_active, 5, "the window to become active", every=0.02)


def walk(root: QWidget, begin: QWidget) -> Walk:
    """Press Tab from `begin` on until it comes around."""
    found = Walk([], [], is_round=False)
    start = min(corner(each, root) for each in stops(root))
    begin.setFocus(Qt.FocusReason.TabFocusReason)
    first = at = focused()
    for _ in range(MOST):
        widget = at[0]
        if widget is None:
            return found
        found.met.append(widget)
        QTest.keyClick(widget, Qt.Key.Key_Tab)
        before, at = at, focused()
        if at == first:
            found.is_round = True
            return found
        if at == before:
            return found
        if at[0] is not None and corner(at[0], root) <= start:
            continue  # from the end of the window
        if at[0] is not None and isValid(widget) and steps_back(widget, at[0], root):
            found.backwards.append(f"{path_of(widget)} → {path_of(at[0])}")
    return found


def focused() -> tuple[QWidget | None, object]:
    """What has the keyboard; of a view of graphics also which item."""
    widget: QWidget | None = QApplication.focusWidget()
    return widget, widget.scene().focusItem() if isinstance(widget, QGraphicsView) else None


def steps_back(before: QWidget, now: QWidget, root: QWidget) -> bool:
    """Whether one is above the other in the same column, or to the left in the same line."""
    one, other = place(before, root), place(now, root)
    above = other.bottom() < one.top() and other.left() <= one.right() and one.left() <= other.right()
    left = other.right() < one.left() and other.top() <= one.bottom() and one.top() <= other.bottom()
    return above or left


def corner(widget: QWidget, root: QWidget) -> tuple[int, int]:
    return place(widget, root).left(), place(widget, root).top()


def place(widget: QWidget, root: QWidget) -> QRect:
    return QRect(widget.mapTo(root, QPoint()), widget.size())
