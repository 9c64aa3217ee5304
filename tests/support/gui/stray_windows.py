"""Widgets that are on the screen as windows of their own though they are parts of another: they flash up."""

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QApplication, QDialog, QMainWindow, QWidget

_NO_FRAME = (Qt.WindowType.Popup, Qt.WindowType.ToolTip, Qt.WindowType.SplashScreen)
"""Kinds of windows that no window manager manages."""


class StrayWindows(QObject):
    """Watches all widgets of the application.

    Attributes:
        found: class and name of each that was shown as a window, and is neither dialog nor main window.
    """

    def __init__(self, app: QApplication) -> None:
        super().__init__(app)
        self.found: list[str] = []
        app.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() is QEvent.Type.Show and isinstance(watched, QWidget) and watched.isWindow():
            ours = isinstance(watched, (QMainWindow, QDialog)) or watched.windowType() in _NO_FRAME
            if not ours and not watched.testAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen):
                self.found.append(f"{type(watched).__name__} {watched.objectName()}".strip())
        return False
