"""The real window, with a probe that answers where things are on the screen; it only looks.

`python probed_window.py SOCKET [ARGUMENT ...]` opens the window as `torchdeck ARGUMENT ...` does. Whoever
connects to the Unix socket sends one line of JSON a question and gets one line back. To {"name": text,
"type": class, "whole": bool}: the visible widgets whose accessible name or text is `name`, or begins with it
where it need not be whole, each with its `rect` on the screen [x, y, width, height] in pixels of the screen,
`text`, `type`, `enabled`, `focused`; an empty name or class is any. To {"pulse": true}: what Pulse.take()
gives. To {"focus": true}: what has the keyboard. To {"keyboard": true}: whether keys reach what is in front.
To {"strays": true}: widgets that were shown as windows of their own.
And {"error": traceback} where the probe fails.
"""

import json
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractItemModel, QAbstractListModel, QObject, QPoint, QRect, Qt, QTimer
from PySide6.QtGui import QAction
from PySide6.QtNetwork import QLocalServer, QLocalSocket
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QComboBox,
    QGraphicsView,
    QLabel,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QTabBar,
    QWidget,
)

if TYPE_CHECKING:
    from support.gui.probed_window_pulse import Pulse
    from support.gui.stray_windows import StrayWindows

SPOKEN = Qt.ItemDataRole.AccessibleTextRole
"""What a row says that is painted, and has no text of its own."""


class Probe(QObject):
    """Answers questions about the widgets of this process."""

    def __init__(self, path: str, pulse: "Pulse", strays: "StrayWindows") -> None:
        super().__init__()
        self._pulse, self._strays = pulse, strays
        self._server = QLocalServer(self)
        self._server.newConnection.connect(self._connected)
        if not self._server.listen(path):
            raise OSError(self._server.errorString())

    def _connected(self) -> None:
        socket = self._server.nextPendingConnection()
        socket.readyRead.connect(lambda: self._answer(socket))

    def _answer(self, socket: QLocalSocket) -> None:
        self._pulse.beat()
        while socket.canReadLine():
            question = json.loads(bytes(socket.readLine().data()))
            try:
                found: Any = self._found(question)
            except Exception:  # noqa: BLE001 - whatever it is, who asked must not wait for nothing
                found = {"error": traceback.format_exc()}
            socket.write(json.dumps(found).encode() + b"\n")
            socket.flush()
        self._pulse.skip()

    def _found(self, question: dict[str, Any]) -> Any:
        if question.get("pulse"):
            return self._pulse.take()
        if question.get("strays"):
            return self._strays.found
        if question.get("focus"):
            widget: QWidget | None = QApplication.focusWidget()
            return [] if widget is None else parts(widget)[:1]
        if question.get("keyboard"):
            return has_keyboard()
        return seen(question["name"], question["type"], whole=question["whole"])


def has_keyboard() -> bool:
    """The window manager gives it to a window some time after that is there, or another is gone."""
    active: QWidget | None = QApplication.activeWindow()
    modal: QWidget | None = QApplication.activeModalWidget()
    return active is not None and active.isVisible() and modal in (None, active)


def seen(name: str, kind: str, *, whole: bool) -> list[dict[str, Any]]:
    """What is visible and fits, in the order of Qt's tree."""
    found = []
    for top in QApplication.topLevelWidgets():
        for widget in [top, *top.findChildren(QWidget)] if top.isVisible() else []:
            if not widget.isVisible() or not may_fit(widget, name, kind, whole=whole):
                continue
            # a view of graphics covers itself
            seen = widget.viewport() if isinstance(widget, QGraphicsView) else widget
            if not seen.visibleRegion().isEmpty():
                found += [part for part in parts(widget) if fits(part, name, kind, whole=whole)]
    return found


def may_fit(widget: QWidget, name: str, kind: str, *, whole: bool) -> bool:
    """Whether it is worth the time to look at where it is: of hundreds of widgets, a few times a second."""
    if holds_parts(widget):
        return True
    said = {"name": widget.accessibleName(), "text": text_of(widget), "type": type(widget).__name__}
    return fits(said, name, kind, whole=whole)


def holds_parts(widget: QWidget) -> bool:
    """Whether a person takes something inside it for a widget."""
    return isinstance(widget, (QTabBar, QMenu, QAbstractItemView)) or board_of(widget) is not None


def board_of(widget: QWidget) -> Any:
    """The board of nodes whose viewport it is."""
    board: Any = widget.parentWidget()
    return board if type(board).__name__ == "PlacementGrid" and board.viewport() is widget else None


def fits(part: Mapping[str, Any], name: str, kind: str, *, whole: bool) -> bool:
    if kind not in ("", part["type"]):
        return False
    spoken = (part["name"], part["text"])
    return name in ("", *spoken) or (not whole and any(text.startswith(name) for text in spoken))


def parts(widget: QWidget) -> list[dict[str, Any]]:
    """The widget, and what a person takes for widgets inside it: tabs, entries of menus, rows."""
    whole = part(widget, widget.accessibleName(), text_of(widget), type(widget).__name__)
    if isinstance(widget, QTabBar):
        tabs = range(widget.count())
        return [whole, *(part(widget, "", plain(widget.tabText(i)), "Tab", widget.tabRect(i)) for i in tabs)]
    if isinstance(widget, QMenu):
        entries: list[QAction] = [entry for entry in widget.actions() if entry.isVisible()]
        return [
            whole,
            *(entry_part(widget, entry) for entry in entries if not entry.isSeparator()),
        ]
    if isinstance(widget, QAbstractItemView):
        return [whole, *rows_of(widget)]
    board = board_of(widget)
    if board is not None:  # its viewport covers all of it
        return [whole, *nodes_of(board)]
    return [whole]


def entry_part(menu: QMenu, entry: QAction) -> dict[str, Any]:
    """`focused` is the entry that Enter would choose."""
    found = part(menu, "", plain(entry.text()), "Entry", menu.actionGeometry(entry))
    return {**found, "enabled": entry.isEnabled(), "focused": menu.activeAction() is entry}


def rows_of(view: QAbstractItemView) -> list[dict[str, Any]]:
    """The first hundred rows that are seen: the text of their cells, side by side."""
    model: QAbstractItemModel | None = view.model()
    if model is None:
        return []
    found = []
    for row in range(min(100, model.rowCount())):
        # a list has one column, and keeps to itself how many
        columns = 1 if isinstance(model, QAbstractListModel) else model.columnCount()
        indexes = [model.index(row, column) for column in range(columns)]
        texts = [str(index.data() or index.data(SPOKEN) or "") for index in indexes]
        shown = [view.visualRect(index) for index in indexes if view.visualRect(index).isValid()]
        if shown:
            area = view.viewport()
            found.append(part(area, "", " | ".join(texts), "Row", shown[0]))
    return found


def nodes_of(board: Any) -> list[dict[str, Any]]:
    """The board's nodes, by their headings beside the switch; and a Mark, while something is dragged.

    A Mark's text is `before N`, the position at which it would come, or `off N`, the node that would go.
    """
    from torchdeck_app.launch.preview.placement.grid_layout import Spot

    area, layout, marks = board.viewport(), board.layout_now, board.marks
    found = []
    for at, node in enumerate(board.model.nodes):
        card, switch = layout.cards[at], layout.switch(Spot(at))
        left = card.left if switch is None else switch.right
        heading = QRect(left, card.top, card.right - left, layout.step.header or card.height)
        found.append(part(area, "", node.name, "Node", heading.translated(-board.shift)))
    if marks.drop is not None:
        found.append(part(area, "", f"before {marks.drop}", "Mark"))
    if marks.leaves is not None:
        found.append(part(area, "", f"off {marks.leaves}", "Mark"))
    return found


def part(widget: QWidget, name: str, text: str, kind: str, rect: Any = None) -> dict[str, Any]:
    rect = widget.rect() if rect is None else rect
    ratio = widget.devicePixelRatioF()
    corner: QPoint = widget.mapToGlobal(rect.topLeft())
    return {
        "name": name,
        "text": text,
        "type": kind,
        "rect": [round(value * ratio) for value in (corner.x(), corner.y(), rect.width(), rect.height())],
        "enabled": widget.isEnabled(),
        "focused": widget.hasFocus(),
    }


def text_of(widget: QWidget) -> str:
    if isinstance(widget, (QLabel, QLineEdit)):
        return widget.text()
    if isinstance(widget, QAbstractButton):
        return plain(widget.text())
    if isinstance(widget, QPlainTextEdit):
        return widget.toPlainText()
    if isinstance(widget, QComboBox):
        return widget.currentText()
    return widget.windowTitle() if widget.isWindow() else widget.accessibleDescription()


def plain(text: str) -> str:
    """A text without the sign of its mnemonic."""
    return text.replace("&&", "\0").replace("&", "").replace("\0", "&")


def main() -> int:
    sys.path[0] = str(Path(__file__).parents[2])  # a script's own folder would be the first to be searched
    from support.gui.probed_window_pulse import Pulse
    from support.gui.stray_windows import StrayWindows
    from torchdeck_app import start

    socket, *arguments = sys.argv[1:]
    kept: list[Probe] = []
    # the application is made inside main(): the first turn of its loop makes the probe
    original = QApplication.exec

    def exec_with_probe(*_: object) -> int:
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        strays = StrayWindows(app)
        QTimer.singleShot(0, lambda: kept.append(Probe(socket, Pulse(), strays)))
        return original()

    QApplication.exec = exec_with_probe  # type: ignore[method-assign]  # the one way in
    return start.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
