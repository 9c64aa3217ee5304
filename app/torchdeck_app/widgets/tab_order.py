"""Focus order of Tab: the order in which controls are read, whenever they were created."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QApplication, QScrollArea, QSplitter, QTabBar, QWidget


def step_focus(areas: Iterable[QWidget], *, forward: bool, around: bool = False) -> bool:
    """Move the focus to the next or previous widget of `areas`; return whether there was one.

    Args:
        areas: in the order in which Tab visits them; hidden ones are skipped.
        forward: False for Shift+Tab.
        around: after the last widget the first follows.
    """
    order = [widget for area in areas if area.isVisible() for widget in in_visual_order(area)]
    now = QApplication.focusWidget()
    at = next((i for i, widget in enumerate(order) if widget is now or widget.focusProxy() is now), None)
    if at is None:
        return False
    following = at + (1 if forward else -1)
    if around:
        following %= len(order)
    if not 0 <= following < len(order):
        return False
    reason = Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason
    order[following].setFocus(reason)
    return True


def in_visual_order(inside: QWidget) -> list[QWidget]:
    """Return the widgets that accept Tab focus as they are read.

    A pane of a splitter and the content of a scroll area are read to their ends before what follows.
    """
    found = [widget for widget in inside.findChildren(QWidget) if _takes_tab(widget)]
    return _read(found, inside)


def _takes_tab(widget: QWidget) -> bool:
    by_tab = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
    if not (by_tab and widget.isVisible() and widget.isEnabled() and widget.focusProxy() is None):
        return False
    return not isinstance(widget.parentWidget(), QTabBar)  # buttons of tabs have keys of their own


def _read(widgets: Sequence[QWidget], inside: QWidget) -> list[QWidget]:
    blocks: dict[QWidget, list[QWidget]] = {}
    for widget in widgets:
        blocks.setdefault(_block(widget, inside), []).append(widget)
    found: list[QWidget] = []
    for block in _cut([(block, QRect(block.mapTo(inside, QPoint()), block.size())) for block in blocks]):
        found += [block] if block in blocks[block] else []
        rest = [widget for widget in blocks[block] if widget is not block]
        found += _read(rest, block) if rest else []
    return found


def _block(widget: QWidget, inside: QWidget) -> QWidget:
    """Return the outermost pane or scroll area around a widget, or the widget itself."""
    found, at = widget, widget.parentWidget()
    child = widget
    while at is not None and at is not inside:
        if isinstance(at, QScrollArea):
            found = at
        if isinstance(at, QSplitter):
            found = child
        child, at = at, at.parentWidget()
    return child if isinstance(at, QSplitter) else found


Placed = Sequence[tuple[QWidget, QRect]]


def _cut(placed: Placed) -> list[QWidget]:
    """Return widgets in reading order: cut into rows where a gap goes across, else into columns."""
    if len(placed) < 2:
        return [widget for widget, _ in placed]
    for start, end in ((QRect.top, QRect.bottom), (QRect.left, QRect.right)):
        parts = _parts(placed, start, end)
        if len(parts) > 1:
            return [widget for part in parts for widget in _cut(part)]
    return [widget for widget, _ in sorted(placed, key=lambda one: (one[1].top(), one[1].left()))]


def _parts(placed: Placed, start: Callable[[QRect], int], end: Callable[[QRect], int]) -> list[Placed]:
    """Return what overlaps in one direction together, from its start."""
    parts: list[list[tuple[QWidget, QRect]]] = []
    reached = 0
    for one in sorted(placed, key=lambda one: start(one[1])):
        if not parts or start(one[1]) > reached:
            parts.append([])
            reached = end(one[1])
        parts[-1].append(one)
        reached = max(reached, end(one[1]))
    return list(parts)
