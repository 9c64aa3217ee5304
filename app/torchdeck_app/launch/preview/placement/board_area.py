"""What is seen of the board: painted, laid out in the room there is, and zoomed."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QPointF, QSize, Qt, Signal
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractScrollArea, QToolTip, QWidget

from torchdeck_app.launch.preview.placement.layout import (
    STEPS,
    Box,
    Layout,
    Spot,
    fitting_step,
    lay_out,
    lay_out_in,
)
from torchdeck_app.launch.preview.placement.marks import Marks
from torchdeck_app.launch.preview.placement.model import BoardModel
from torchdeck_app.launch.preview.placement.paint import BoardPainter
from torchdeck_app.launch.preview.placement.panned_area import PannedArea
from torchdeck_app.launch.preview.placement.words import spot_text
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.tooltip import plain_tip

_NOTHING = BoardModel((), 0, 1)


class BoardArea(PannedArea):
    """Nodes as cards with their devices and the ranks on them; far away a tile a node."""

    zoomed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._model = _NOTHING
        self._step: int | None = None
        self._layout: Layout = lay_out((), STEPS[-1], 0)
        self._asked: tuple[tuple[int, ...], int, int, int] | None = None
        self._painter: BoardPainter | None = None
        self._marks = Marks()
        self._cursor = Spot(0)
        self.setAccessibleName("Board of nodes and devices")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.viewport().setMouseTracking(True)
        theme.changed.connect(self._lay_out)

    @property
    def step(self) -> int:
        """The step of zoom, as `STEPS` has them."""
        return STEPS.index(self._layout.step)

    @property
    def model(self) -> BoardModel:
        """What is shown."""
        return self._model

    @property
    def layout_now(self) -> Layout:
        """Where everything lies, as long as neither room nor zoom changes."""
        return self._layout

    @property
    def marks(self) -> Marks:
        """What is marked."""
        return self._marks

    def zoom(self, steps: int) -> None:
        """Nearer by so many steps, or farther where negative."""
        self._step = max(0, min(len(STEPS) - 1, self.step + steps))
        self._lay_out()

    def fit(self) -> None:
        """As near as all of it can be seen, from now on."""
        self._step = None
        self._lay_out()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        return QSize(480, 320)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self.viewport())
        painter.fillRect(event.rect(), self._theme.colour("window"))
        if self._painter is None or not self._model.nodes:
            return
        shift = self.shift
        painter.translate(-shift)
        area = event.rect().translated(shift)
        focused = self._cursor if self.hasFocus() else None
        box = Box(area.left(), area.top(), area.width(), area.height())
        self._painter.paint(painter, box, self._marks._replace(focused=focused))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._lay_out()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            if event.angleDelta().y():
                self.zoom(1 if event.angleDelta().y() > 0 else -1)
            event.accept()
            return
        super().wheelEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            spot = self._spot(QPointF(event.pos()))
            if spot is not None:
                QToolTip.showText(event.globalPos(), plain_tip(spot_text(self._model, spot)), self)
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
        self._painter = BoardPainter(self._theme.palette, self._model, laid)
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

    def _mark(self, marks: Marks) -> None:
        if marks != self._marks:
            self._marks = marks
            self.viewport().update()

    def _describe(self) -> None:
        """Tell those who cannot see the board where the keyboard is."""
        if self._cursor.node < len(self._model.nodes):
            self.setAccessibleDescription(spot_text(self._model, self._cursor))
