"""Cells that keep their colour in a selected row."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QBrush, QColor, QPalette
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

_TOWARDS_TEXT = 0.3
"""Share of the text colour in that of a selected cell, whose background is closer to it than the list's."""


class InkDelegate(QStyledItemDelegate):
    """Delegate that draws a selected cell in its model's colour (ForegroundRole) instead of Qt's single
    one.
    """

    def initStyleOption(  # noqa: N802 - Qt's name
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        ink = index.data(Qt.ItemDataRole.ForegroundRole)
        if isinstance(ink, QColor | QBrush):
            palette = QPalette(option.palette)
            role = QPalette.ColorRole.HighlightedText
            palette.setColor(role, _mixed(QBrush(ink).color(), palette.color(role)))
            option.palette = palette


def _mixed(ink: QColor, text: QColor) -> QColor:
    channels = zip(ink.getRgbF()[:3], text.getRgbF()[:3], strict=True)  # type: ignore[index]  # stubs say object
    return QColor.fromRgbF(*(one + (other - one) * _TOWARDS_TEXT for one, other in channels))
