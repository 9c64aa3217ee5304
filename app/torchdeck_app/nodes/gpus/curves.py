"""Painting of one part of a history as a filled curve."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF


def paint_curve(
    painter: QPainter,
    field: QRectF,
    points: Sequence[tuple[float, float]],
    span: tuple[float, float],
    top: float,
    colour: QColor,
) -> None:
    """Paint (time, value) points in `field`: its width is the time `span`, its height 0 to `top`."""
    begin, end = span
    curve = [
        QPointF(
            field.left() + field.width() * (time - begin) / (end - begin),
            field.bottom() - field.height() * min(1.0, max(0.0, value / top)),
        )
        for time, value in points
    ]
    if len(curve) == 1:  # seen, too
        curve.append(curve[0] + QPointF(1, 0))
    fill = QColor(colour)
    fill.setAlphaF(0.18)
    closed = QPolygonF(
        [*curve, QPointF(curve[-1].x(), field.bottom()), QPointF(curve[0].x(), field.bottom())]
    )
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(fill)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)  # much faster, and its edge is the line
    painter.drawPolygon(closed)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(colour, 1))
    painter.drawPolyline(QPolygonF(curve))
