"""View of a plot: pyqtgraph's mouse and menu, with x shared by all plots."""

from __future__ import annotations

from dataclasses import dataclass

import pyqtgraph
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QGraphicsItem, QGraphicsSceneMouseEvent, QGraphicsSceneWheelEvent

from torchdeck_app.runs.plots.geometry import MOST_EXPONENT

_ZOOM = 0.8
_MOST = 1e307
"""Greatest number on a linear axis."""


@dataclass(frozen=True)
class MenuKey:
    """Stands in for pyqtgraph's mouse event if a key asks for the context menu."""

    place: QPointF
    acceptedItem: QGraphicsItem  # noqa: N815 - pyqtgraph's name

    def screenPos(self) -> QPointF:  # noqa: N802 - pyqtgraph's name
        """Return where the menu is to be, on the screen."""
        return self.place


class PlotView(pyqtgraph.ViewBox):
    """ViewBox of a plot. A left drag selects a range; the middle button, or Shift, moves the picture.

    It fits itself by asking the plot, which knows steps and units; pyqtgraph's state says which axes are
    fitted.
    """

    fit_asked = Signal()
    """Emitted to show everything of the axes whose range is automatic."""
    focused = Signal(bool)
    pin_asked = Signal()
    """Emitted to keep the values at the crosshair in sight."""
    cursor_asked = Signal(int)
    """Emitted with hundredths of the width by which to move the crosshair."""
    enlarged = Signal(bool)
    """Emitted to show this plot alone, or all of them again."""

    def __init__(self) -> None:
        super().__init__(enableMenu=False)
        self.setMouseMode(self.RectMode)
        self.setMouseEnabled(x=True, y=False)  # y follows the data; the context menu frees it
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def menuEnabled(self) -> bool:  # noqa: N802 - pyqtgraph's name
        """Return that there is a menu; it is made when it is asked for, which takes 8 ms."""
        return True

    def raiseContextMenu(self, ev: object) -> None:  # noqa: N802 - pyqtgraph's name
        self.setMenuEnabled(True)
        super().raiseContextMenu(ev)

    def open_menu(self, place: QPointF) -> None:
        """Open the context menu at a place on the screen, as its key does."""
        self.raiseContextMenu(MenuKey(place, self))

    def limit(self, *, log_x: bool, log_y: bool) -> None:
        """Keep the ranges within the numbers that a float can hold."""
        x, y = (MOST_EXPONENT if log else _MOST for log in (log_x, log_y))
        self.setLimits(xMin=-x, xMax=x, yMin=-y, yMax=y)

    def set_automatic(self, axis: int, *, on: bool) -> None:
        """Set whether the range of x (0) or y (1) is automatic, without fitting it now."""
        self.state["autoRange"][axis] = 1.0 if on else False

    def is_automatic(self, axis: int) -> bool:
        """Return whether the range of x (0) or y (1) follows the data."""
        return self.state["autoRange"][axis] is not False

    def enableAutoRange(  # noqa: N802 - pyqtgraph's name
        self,
        axis: object = None,
        enable: object = True,  # noqa: FBT002 - pyqtgraph's arguments
        x: object = None,
        y: object = None,
    ) -> None:
        """Fit an axis from now on; the menu's and the button's action."""
        super().enableAutoRange(axis, enable, x, y)
        if x is None and y is None and enable:
            self.fit_asked.emit()

    def autoRange(self, padding: object = None, items: object = None, item: object = None) -> None:  # noqa: ARG002, N802 - pyqtgraph's name
        """Show everything: the menu's first action."""
        self.enableAutoRange()

    def updateAutoRange(self) -> None:  # noqa: N802 - pyqtgraph's name
        """Do nothing: the plot sets the ranges."""
        self._autoRangeNeedsUpdate = False

    def showAxRect(self, ax: QRectF, **kwargs: object) -> None:  # noqa: N802 - pyqtgraph's name
        """Show the selected range of x, and of y if the mouse may change it."""
        ax = ax.normalized()
        if self.state["mouseEnabled"][1]:
            super().showAxRect(ax, padding=0, **kwargs)
        elif ax.width() > 0:
            self.setXRange(ax.left(), ax.right(), padding=0)
            self.sigRangeChangedManually.emit(self.state["mouseEnabled"])

    def mouseDragEvent(self, ev: object, axis: int | None = None) -> None:  # noqa: N802 - pyqtgraph's name
        self.updateMatrix()
        mode = self.state["mouseMode"]
        is_middle = ev.button() == Qt.MouseButton.MiddleButton  # type: ignore[attr-defined]  # pyqtgraph's event
        if is_middle or ev.modifiers() & Qt.KeyboardModifier.ShiftModifier:  # type: ignore[attr-defined]
            self.state["mouseMode"] = self.PanMode
        try:
            super().mouseDragEvent(ev, axis)
        finally:
            self.state["mouseMode"] = mode

    def mouseClickEvent(self, ev: object) -> None:  # noqa: N802 - pyqtgraph's name
        is_left = ev.button() == Qt.MouseButton.LeftButton  # type: ignore[attr-defined]  # pyqtgraph's event
        if is_left and ev.modifiers() & Qt.KeyboardModifier.ControlModifier:  # type: ignore[attr-defined]
            ev.accept()  # type: ignore[attr-defined]
            self.pin_asked.emit()
        else:
            super().mouseClickEvent(ev)

    def mouseDoubleClickEvent(self, event: QGraphicsSceneMouseEvent) -> None:  # noqa: N802 - Qt's name
        if event.button() == Qt.MouseButton.LeftButton:
            event.accept()
            self.enableAutoRange()
        else:
            super().mouseDoubleClickEvent(event)

    def wheelEvent(self, ev: QGraphicsSceneWheelEvent, axis: int | None = None) -> None:  # noqa: N802 - Qt's name
        self.updateMatrix()  # else it is that of the last paint
        super().wheelEvent(ev, axis)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        key, (low, high) = event.key(), self.viewRange()[0]
        if key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
                self.cursor_asked.emit(-1 if key == Qt.Key.Key_Left else 1)
                return
            tenth = (high - low) / 10
            self.translateBy(x=-tenth if key == Qt.Key.Key_Left else tenth)
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.scaleBy(x=_ZOOM)
        elif key == Qt.Key.Key_Minus:
            self.scaleBy(x=1 / _ZOOM)
        elif key == Qt.Key.Key_Home:
            self.enableAutoRange()
        elif key == Qt.Key.Key_P:
            self.pin_asked.emit()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.enlarged.emit(True)  # noqa: FBT003 - Qt's signal
        elif key == Qt.Key.Key_Escape:
            self.enlarged.emit(False)  # noqa: FBT003 - Qt's signal
        else:
            event.ignore()

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 - Qt's name
        super().focusInEvent(event)
        self.focused.emit(True)  # noqa: FBT003 - Qt's signal

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802 - Qt's name
        super().focusOutEvent(event)
        self.focused.emit(False)  # noqa: FBT003 - Qt's signal
