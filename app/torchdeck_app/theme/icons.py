"""Icons of one family: line drawings of 24 × 24 with 1.5 wide lines, in the colour of the adjacent text."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

import torchdeck_resources
from torchdeck_app.theme.palette import Palette

# not importlib.resources: its imports take half as long as all our own code before the first paint
ICONS = Path(torchdeck_resources.__file__).parent / "icons"
_SIZES = (16, 24)
_RATIOS = (1, 2)
_LIT = (QIcon.Mode.Normal, QIcon.Mode.Active, QIcon.Mode.Selected)


def icon(name: str, palette: Palette) -> QIcon:
    """Return the icon `name` of torchdeck_resources/icons, dim if its action is disabled.

    Raises:
        FileNotFoundError: there is no icon of that name.
    """
    return QIcon(_icon(name, palette.text, palette.disabled))


@cache
def _icon(name: str, colour: str, dim: str) -> QIcon:
    """Return the shared cached icon in its colours; callers must copy it."""
    lit, unlit = _renderer(name, colour), _renderer(name, dim)
    made = QIcon()
    for size in _SIZES:
        for ratio in _RATIOS:
            pixmap = _rendered(lit, size, ratio)
            for mode in _LIT:
                made.addPixmap(pixmap, mode)
            made.addPixmap(_rendered(unlit, size, ratio), QIcon.Mode.Disabled)
    return made


def drawn(name: str, colour: str, size: int, ratio: float = 1.0) -> QPixmap:
    """Return the icon in one colour, `size` logical pixels wide and high."""
    return _rendered(_renderer(name, colour), size, ratio)


def _renderer(name: str, colour: str) -> QSvgRenderer:
    return QSvgRenderer(QByteArray(_drawing(name).replace("currentColor", colour).encode()))


def _rendered(renderer: QSvgRenderer, size: int, ratio: float) -> QPixmap:
    pixmap = QPixmap(QSize(round(size * ratio), round(size * ratio)))
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    renderer.render(painter, QRectF(pixmap.rect()))
    painter.end()
    pixmap.setDevicePixelRatio(ratio)
    return pixmap


@cache
def _drawing(name: str) -> str:
    return (ICONS / f"{name}.svg").read_text(encoding="utf-8")
