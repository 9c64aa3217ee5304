"""Files dropped on the window, wherever on it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Signal
from PySide6.QtGui import QDragMoveEvent, QDropEvent, QWindow

SUFFIXES = (".toml", ".py")


def droppable(data: QMimeData) -> Path | None:
    """The first run file or script of this machine among what is dragged; None where there is none."""
    paths = [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
    return next((path for path in paths if path.suffix.lower() in SUFFIXES), None)


class DroppedFiles(QObject):
    """Sees a drag before the widget under it does: a text editor would take a file for text."""

    dropped = Signal(Path)

    def __init__(self, handle: QWindow, parent: QObject) -> None:
        super().__init__(parent)
        handle.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if isinstance(event, QDropEvent):  # a drag that enters or moves is one too
            path = droppable(event.mimeData())
            if path is not None:
                event.acceptProposedAction()
                if not isinstance(event, QDragMoveEvent):
                    self.dropped.emit(path)
                return True
        return super().eventFilter(watched, event)
