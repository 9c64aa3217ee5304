"""An area larger than what is seen of it, which scroll bars and a hand move."""

from __future__ import annotations

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from torchdeck_app.launch.preview.placement.layout import Box


class PannedArea(QAbstractScrollArea):
    """What is painted is moved by `shift`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.verticalScrollBar().setSingleStep(24)
        self.horizontalScrollBar().setSingleStep(24)

    @property
    def shift(self) -> QPoint:
        """What lies in the upper left corner, in pixels of the whole area."""
        return QPoint(self.horizontalScrollBar().value(), self.verticalScrollBar().value())

    def set_extent(self, width: int, height: int) -> None:
        """How large the whole area is, in pixels."""
        view = self.viewport().size()
        for bar, whole, seen in (
            (self.verticalScrollBar(), height, view.height()),
            (self.horizontalScrollBar(), width, view.width()),
        ):
            bar.setPageStep(seen)
            bar.setRange(0, max(0, whole - seen))

    def pan(self, by: QPoint) -> None:
        """Move on by so many pixels, as far as there is anything."""
        self.horizontalScrollBar().setValue(self.horizontalScrollBar().value() + by.x())
        self.verticalScrollBar().setValue(self.verticalScrollBar().value() + by.y())

    def reveal(self, box: Box, margin: int) -> None:
        """Bring `box` into sight from above or below, with `margin` pixels around it."""
        bar, seen = self.verticalScrollBar(), self.viewport().height()
        if box.top < bar.value():
            bar.setValue(box.top - margin)
        elif box.bottom > bar.value() + seen:
            bar.setValue(box.bottom - seen + margin)
