"""Whether a person sees what has the focus, by the pixels of pictures with and without it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QWidget

LEAST = 24
"""Pixels that change, as many as around a box of 6 × 6."""
CONTRAST = 3.0
"""Between a pixel with and without the focus: WCAG 2.2, non-text contrast."""
_MARGIN = 4


def changed_pixels(widget: QWidget) -> int:
    """How many pixels in and around `widget` differ by `CONTRAST` once it has the focus; -1: out of sight."""
    root = widget.window()
    widget.setFocus(Qt.FocusReason.TabFocusReason)
    QApplication.processEvents()
    rect = QRect(widget.mapTo(root, QPoint()), widget.size()).adjusted(-_MARGIN, -_MARGIN, _MARGIN, _MARGIN)
    rect = rect.intersected(root.rect())
    if rect.isEmpty() or widget.visibleRegion().isEmpty() or not widget.hasFocus():
        return -1
    focused = luminance(root.grab(rect).toImage())
    widget.clearFocus()
    QApplication.processEvents()
    plain = luminance(root.grab(rect).toImage())
    if focused.shape != plain.shape:
        return -1
    high, low = np.maximum(focused, plain), np.minimum(focused, plain)
    return int(((high + 0.05) / (low + 0.05) >= CONTRAST).sum())


def luminance(picture: QImage) -> npt.NDArray[np.float64]:
    """Relative luminance of each pixel, shape (height, width) (WCAG 2.2)."""
    image = picture.convertToFormat(QImage.Format.Format_RGB32)
    width, height = image.width(), image.height()
    rows = np.frombuffer(image.constBits(), np.uint8).reshape(height, image.bytesPerLine() // 4, 4)
    channels = rows[:, :width, 2::-1] / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    found: npt.NDArray[np.float64] = linear @ np.array([0.2126, 0.7152, 0.0722])
    return found
