"""Interactive grid: hovering, dragging and keyboard navigation."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QPointF, QSize, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QToolTip, QWidget

from torchdeck_app.launch.preview.placement.grid_cursor import moved, past_neighbour, same_spot
from torchdeck_app.launch.preview.placement.grid_layout import (
    STEPS,
    Box,
    Detail,
    Layout,
    Spot,
    fitting_step,
    lay_out,
    lay_out_in,
)
from torchdeck_app.launch.preview.placement.grid_markers import Markers
from torchdeck_app.launch.preview.placement.grid_painting import RankGridPainter
from torchdeck_app.launch.preview.rank_grid_model import RankGridModel, spot_text
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import plain_tip

# Visible area of the grid: painting, layout within the available space, and zoom.


class PannedArea(QAbstractScrollArea):
    """Scroll area whose painting is moved by `shift`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.verticalScrollBar().setSingleStep(24)
        self.horizontalScrollBar().setSingleStep(24)

    @property
    def shift(self) -> QPoint:
        """Return the position of the upper left corner, in pixels of the whole area."""
        return QPoint(self.horizontalScrollBar().value(), self.verticalScrollBar().value())

    def set_extent(self, width: int, height: int) -> None:
        """Set the size of the whole area, in pixels."""
        view = self.viewport().size()
        for bar, whole, seen in (
            (self.verticalScrollBar(), height, view.height()),
            (self.horizontalScrollBar(), width, view.width()),
        ):
            bar.setPageStep(seen)
            bar.setRange(0, max(0, whole - seen))

    def pan(self, by: QPoint) -> None:
        """Scroll by this many pixels, within the area."""
        self.horizontalScrollBar().setValue(self.horizontalScrollBar().value() + by.x())
        self.verticalScrollBar().setValue(self.verticalScrollBar().value() + by.y())

    def reveal(self, box: Box, margin: int) -> None:
        """Scroll `box` into view vertically, with `margin` pixels around it."""
        bar, seen = self.verticalScrollBar(), self.viewport().height()
        if box.top < bar.value():
            bar.setValue(box.top - margin)
        elif box.bottom > bar.value() + seen:
            bar.setValue(box.bottom - seen + margin)


_NOTHING = RankGridModel((), 0, 1)


class RankGridArea(PannedArea):
    """Area with nodes as cards with their devices and ranks; zoomed out, one tile per node."""

    zoomed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._model = _NOTHING
        self._step: int | None = None
        self._layout: Layout = lay_out((), STEPS[-1], 0)
        self._asked: tuple[tuple[int, ...], int, int, int] | None = None
        self._painter: RankGridPainter | None = None
        self._marks = Markers()
        self._cursor = Spot(0)
        self.setAccessibleName("Grid of nodes and devices")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.viewport().setMouseTracking(True)
        theme.changed.connect(self._lay_out)

    @property
    def step(self) -> int:
        """Return the zoom step, an index into `STEPS`."""
        return STEPS.index(self._layout.step)

    @property
    def model(self) -> RankGridModel:
        """Return what is shown now."""
        return self._model

    @property
    def layout_now(self) -> Layout:
        """Return the layout for the current space and zoom."""
        return self._layout

    @property
    def marks(self) -> Markers:
        """Return the current markers."""
        return self._marks

    def zoom(self, steps: int) -> None:
        """Zoom in by this many steps, or out if negative."""
        self._step = max(0, min(len(STEPS) - 1, self.step + steps))
        self._lay_out()

    def _zoom_at(self, position: QPointF, steps: int) -> None:
        """Zoom, with what is at `position` in the viewport kept there as far as the scroll bars go."""
        at, before = position + QPointF(self.shift), self._layout
        self.zoom(steps)
        if before.cards:
            there = before.place_in(self._layout, at.x(), at.y())
            self.pan((QPointF(*there) - position).toPoint() - self.shift)

    def fit(self) -> None:
        """Zoom to fit, from now on."""
        self._step = None
        self._lay_out()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(480, 320)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self.viewport())
        painter.fillRect(event.rect(), self._theme.colour("window"))
        if self._painter is not None and self._model.nodes:
            shift = self.shift
            painter.translate(-shift)
            area = event.rect().translated(shift)
            focused = self._cursor if self.hasFocus() else None
            box = Box(area.left(), area.top(), area.width(), area.height())
            self._painter.paint(painter, box, self._marks._replace(focused=focused))
        painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._lay_out()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            if event.angleDelta().y():
                self._zoom_at(event.position(), 1 if event.angleDelta().y() > 0 else -1)
            event.accept()
            return
        super().wheelEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            spot = self._spot(QPointF(event.pos()))
            if spot is not None:
                QToolTip.showText(event.globalPos(), plain_tip(spot_text(self._model, *spot)), self)
            else:
                QToolTip.hideText()
            return True
        return super().viewportEvent(event)

    def _lay_out(self) -> None:
        room = self.maximumViewportSize()
        slots = [len(node.slots) for node in self._model.nodes]
        number = fitting_step(slots, room.width(), room.height()) if self._step is None else self._step
        asked = (tuple(slots), number, room.width(), room.height())
        if asked != self._asked:
            bar = self.verticalScrollBar().sizeHint().width()
            self._layout = lay_out_in(slots, STEPS[number], room.width(), room.height(), bar)
            self._asked = asked
        laid = self._layout
        self._painter = RankGridPainter(self._theme.palette, self._model, laid)
        self.set_extent(laid.width, laid.height)
        self.viewport().update()
        self.zoomed.emit()

    def _spot(self, position: QPointF) -> Spot | None:
        at = position + QPointF(self.shift)
        return self._layout.spot_at(at.x(), at.y())

    def _is_in(self, box: Box, point: QPoint) -> bool:
        at = point + self.shift
        return box.holds(at.x(), at.y())

    def _reveal_cursor(self) -> None:
        spot, laid = self._cursor, self._layout
        box = laid.cards[spot.node] if spot.slot is None else laid.cell(spot.node, spot.slot)
        self.reveal(box, laid.step.margin)

    def _mark(self, marks: Markers) -> None:
        if marks != self._marks:
            self._marks = marks
            self.viewport().update()

    def _describe(self) -> None:
        """Announce the keyboard position to assistive tools."""
        if self._cursor.node < len(self._model.nodes):
            self.setAccessibleDescription(spot_text(self._model, *self._cursor))


_ARROWS = {
    Qt.Key.Key_Left: "left",
    Qt.Key.Key_Right: "right",
    Qt.Key.Key_Up: "up",
    Qt.Key.Key_Down: "down",
    Qt.Key.Key_Home: "first",
    Qt.Key.Key_End: "last",
}
_EDGE = 16
"""Pixels beyond the grid that still belong to it when dragging a node."""
_ZOOMS = {Qt.Key.Key_Plus: 1, Qt.Key.Key_Equal: 1, Qt.Key.Key_Minus: -1}


class PlacementGrid(RankGridArea):
    """Grid that emits requests; others carry them out."""

    selected = Signal(object)
    """Emitted with a Spot, or None."""
    toggle_asked = Signal(object)
    """Emitted with a Spot: a node or device to switch on or off."""
    move_asked = Signal(int, int)
    """Emitted with a node's position and the position before which to move it."""
    remove_asked = Signal(int)
    """Emitted with the position of a node that was dragged off the grid, or deleted by the Delete key."""
    leaving = Signal(bool)
    """Emitted with whether a dragged node is off the grid and would be removed if dropped."""
    menu_asked = Signal(object, QPoint)
    """Emitted with a Spot and the screen position for its context menu."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._pressed: tuple[QPoint, Spot | None] | None = None
        self.can_remove = False
        """Whether a node can be dragged off the board."""

    def show_model(self, model: RankGridModel) -> None:
        """Show another model; the selection is kept if it still exists."""
        before, self._model = self._model, model
        self._cursor = same_spot(before, self._cursor, model) or Spot(0)
        selected = self._marks.selected
        kept = None if selected is None else same_spot(before, selected, model)
        self._marks = Markers(selected=kept)
        self._pressed = None
        self._lay_out()
        if selected is not None:
            self.selected.emit(kept)
        self._describe()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if event.button() is not Qt.MouseButton.LeftButton:
            return
        point = event.position().toPoint()
        spot = self._spot(event.position())
        switch = None if spot is None else self._layout.switch(spot)
        if spot is not None and switch is not None and self._can_switch(spot) and self._is_in(switch, point):
            self._cursor = spot
            self.toggle_asked.emit(spot)
            return
        self._pressed = (point, None if self._layout.step.detail is Detail.TILES else spot)
        self.select(spot)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if self._pressed is None:
            self._mark(self._marks._replace(hovered=self._spot(event.position())))
            return
        start, spot = self._pressed
        point = event.position().toPoint()
        if spot is None:
            self.pan(start - point)
            self._pressed = (point, None)
        elif self._marks.drags or (start - point).manhattanLength() >= QApplication.startDragDistance():
            self._drag(spot.node, event.position())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        pressed, self._pressed = self._pressed, None
        drop, leaves = self._marks.drop, self._marks.leaves
        if event.button() is not Qt.MouseButton.LeftButton or pressed is None or not self._marks.drags:
            return
        self._drag_over()
        if leaves is not None:
            self.remove_asked.emit(leaves)
        elif drop is not None and pressed[1] is not None:
            self.move_asked.emit(pressed[1].node, drop)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        by_key = event.reason() is QContextMenuEvent.Reason.Keyboard
        spot = self._cursor if by_key else self._spot(QPointF(event.pos()))
        if spot is None or spot.node >= len(self._model.nodes):
            return
        self.select(spot)
        where = self._layout.cards[spot.node]
        below = self.viewport().mapToGlobal(QPoint(where.left + 8, where.top + 8) - self.shift)
        self.menu_asked.emit(spot, below if by_key else event.globalPos())

    def mark_drop(self, position: QPointF | None) -> str:
        """Mark where an item dropped here would be inserted; return the name of the node after it.

        Args:
            position: in the viewport; None: the drag has ended.
        """
        if position is None or not self._model.nodes:
            self._mark(self._marks._replace(drop=None))
            return ""
        at = position + QPointF(self.shift)
        gap = self._layout.gap_at(at.x(), at.y())
        self._mark(self._marks._replace(drop=gap))
        return next((node.name for node in self._model.nodes[gap:] if node.is_on), "")

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        super().leaveEvent(event)
        self._mark(self._marks._replace(hovered=None))

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusInEvent(event)
        self._describe()
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusOutEvent(event)
        self.viewport().update()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if not self._model.nodes or not self._key(Qt.Key(event.key()), event.modifiers()):
            super().keyPressEvent(event)

    def select(self, spot: Spot | None) -> None:
        """Select a node or slot, and emit the selection."""
        if spot is not None:
            self._cursor = spot
        self._mark(self._marks._replace(selected=spot))
        self.selected.emit(spot)
        self._describe()

    def _key(self, key: Qt.Key, modifiers: Qt.KeyboardModifier) -> bool:
        """Handle `key`; return whether it had an effect."""
        control = bool(modifiers & Qt.KeyboardModifier.ControlModifier)
        if modifiers & Qt.KeyboardModifier.AltModifier:
            return self._move_by_key(key)
        if control and key in _ZOOMS:
            self.zoom(_ZOOMS[key])
        elif control and key == Qt.Key.Key_0:
            self.fit()
        elif key in _ARROWS:
            self.select(moved(self._layout, self._cursor, _ARROWS[key]))
            self._reveal_cursor()
        elif key == Qt.Key.Key_Space:
            self.toggle_asked.emit(self._cursor)
        elif key == Qt.Key.Key_Delete:
            self.remove_asked.emit(self._cursor.node)
        elif key == Qt.Key.Key_Escape and self._marks.drags:
            self._pressed = None
            self._drag_over()
        elif key == Qt.Key.Key_Escape and self._marks.selected is not None:
            self.select(None)
        else:
            return False
        return True

    def _drag(self, node: int, position: QPointF) -> None:
        """Mark where a node dragged to `position` would be inserted; off the grid it leaves the run."""
        room = self.viewport().rect().adjusted(-_EDGE, -_EDGE, _EDGE, _EDGE)
        off = self.can_remove and self._model.nodes[node].is_on and not room.contains(position.toPoint())
        at = position + QPointF(self.shift)
        before = self._marks.leaves is not None
        drop = None if off else self._layout.gap_at(at.x(), at.y())
        self._mark(self._marks._replace(drop=drop, leaves=node if off else None))
        if off != before:
            self.leaving.emit(off)

    def _drag_over(self) -> None:
        was_off = self._marks.leaves is not None
        self._mark(self._marks._replace(drop=None, leaves=None))
        if was_off:
            self.leaving.emit(False)  # noqa: FBT003 - Qt's

    def _move_by_key(self, key: Qt.Key) -> bool:
        """Move the focused node past the next one that is in the run too."""
        if key not in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            return False
        at = self._cursor.node
        before = past_neighbour(self._model.nodes, at, up=key == Qt.Key.Key_Up)
        if before is not None:
            self.move_asked.emit(at, before)
        return True

    def _can_switch(self, spot: Spot) -> bool:
        return spot.slot is None or self._model.nodes[spot.node].slots[spot.slot].index is not None
