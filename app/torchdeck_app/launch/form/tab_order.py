"""Focus order of Tab: visual order, line by line."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QWidget

_SAME_LINE = 10
"""Maximum vertical distance in pixels between the centers of widgets on one line."""


def step_focus(areas: Iterable[QWidget], *, forward: bool) -> bool:
    """Move the focus to the next or previous widget of `areas`; return whether there was one."""
    order = [widget for area in areas if area.isVisible() for widget in in_visual_order(area)]
    now = QApplication.focusWidget()
    at = next((i for i, widget in enumerate(order) if widget is now or widget.focusProxy() is now), None)
    following = -1 if at is None else at + (1 if forward else -1)
    if 0 <= following < len(order):
        order[following].setFocus(_reason(forward=forward))
        return True
    return False


def leave_focus(inside: QWidget, *, forward: bool) -> bool:
    """Move the focus out of `inside`, to Qt's next widget; return whether there was one."""
    now = QApplication.focusWidget()
    outside = None if now is None else _beyond(now, inside, forward=forward)
    if outside is not None:
        outside.setFocus(_reason(forward=forward))
    return outside is not None


def _reason(*, forward: bool) -> Qt.FocusReason:
    return Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason


def in_visual_order(inside: QWidget) -> list[QWidget]:
    """Return the widgets that accept Tab focus, by lines from the top, each from the left."""
    found = [widget for widget in inside.findChildren(QWidget) if _takes_tab(widget)]
    lines: list[list[QWidget]] = []
    start = 0
    for widget in sorted(found, key=lambda widget: _middle(widget, inside)):
        middle = _middle(widget, inside)
        if not lines or middle - start > _SAME_LINE:
            lines.append([])
            start = middle
        lines[-1].append(widget)
    return [w for line in lines for w in sorted(line, key=lambda w: w.mapTo(inside, QPoint()).x())]


def _middle(widget: QWidget, inside: QWidget) -> int:
    return widget.mapTo(inside, QPoint(0, widget.height() // 2)).y()


def _takes_tab(widget: QWidget) -> bool:
    by_tab = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
    return by_tab and widget.isVisible() and widget.isEnabled() and widget.focusProxy() is None


def _beyond(widget: QWidget, inside: QWidget, *, forward: bool) -> QWidget | None:
    """Return the next widget outside of `inside` in Qt's own order."""
    at: QWidget | None = widget
    while at is not None:
        at = at.nextInFocusChain() if forward else at.previousInFocusChain()
        if at is widget:
            return None
        if at is not None and _takes_tab(at) and not inside.isAncestorOf(at) and at is not inside:
            return at
    return None
