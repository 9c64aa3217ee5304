"""Nodes of the node book dropped on the board."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QDropEvent

from torchdeck_app.launch.preview.placement.board import PlacementBoard
from torchdeck_app.launch.preview.placement.book_model import dragged_name


class BookDrop(QObject):
    """Takes nothing else: files are the window's, and nodes of the board are moved without Qt's dragging."""

    dropped = Signal(str, str)
    """Name of a node or group, and the node of the board that it comes before; empty: behind all."""

    def __init__(self, board: PlacementBoard) -> None:
        super().__init__(board)
        self._board = board
        board.viewport().setAcceptDrops(True)
        board.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() is QEvent.Type.DragLeave:
            self._board.mark_drop(None)
            return True
        if not isinstance(event, QDropEvent):  # a drag that enters or moves is one too
            return super().eventFilter(watched, event)
        name = dragged_name(event.mimeData())
        if not name:
            event.ignore()
            return True
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        before = self._board.mark_drop(event.position())
        if event.type() is QEvent.Type.Drop:
            self._board.mark_drop(None)
            self.dropped.emit(name, before)
        return True
