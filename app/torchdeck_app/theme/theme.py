"""Theme in use: follows the system until the user chooses."""

from __future__ import annotations

from typing import Literal, get_args

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication

from torchdeck_app.theme.fonts import Type, font
from torchdeck_app.theme.palette import DARK, LIGHT, Palette
from torchdeck_app.theme.style import qt_palette, sheet

Mode = Literal["system", "light", "dark"]
MODES: tuple[Mode, ...] = get_args(Mode)


class Theme(QObject):
    """Colours of the application. Custom-painted widgets use `palette` and repaint on `changed`."""

    changed = Signal()

    def __init__(self, app: QApplication, mode: Mode = "system") -> None:
        super().__init__(app)
        self._app = app
        self._mode: Mode = mode
        self._palette = self._chosen()
        app.setStyle("Fusion")
        app.setFont(font(Type.BODY))
        app.styleHints().colorSchemeChanged.connect(self._follow)
        self._apply()

    @property
    def mode(self) -> Mode:
        """Return the user's choices."""
        return self._mode

    @property
    def palette(self) -> Palette:
        """Return the current colours."""
        return self._palette

    def colour(self, name: str) -> QColor:
        """Return one of the palette's colours by name, such as `accent`."""
        return QColor(getattr(self._palette, name))

    def set_mode(self, mode: Mode) -> None:
        """Use light or dark colours, or follow the system."""
        self._mode = mode
        self._follow()

    def _chosen(self) -> Palette:
        if self._mode == "system":
            dark = self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark
        else:
            dark = self._mode == "dark"
        return DARK if dark else LIGHT

    def _follow(self) -> None:
        chosen = self._chosen()
        if chosen is not self._palette:
            self._palette = chosen
            self._apply()
            self.changed.emit()

    def _apply(self) -> None:
        self._app.setPalette(qt_palette(self._palette))
        self._app.setStyleSheet(sheet(self._palette))
