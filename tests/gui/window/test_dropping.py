"""Files dropped anywhere on the window."""

from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from pytestqt.qtbot import QtBot

from support.gui.window_places import FakePage
from torchdeck_app.window.later_parts import LaterParts, droppable
from torchdeck_app.window.main_window import MainWindow


def dragged(*urls: str) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl(url) for url in urls])
    return data


@pytest.mark.parametrize(
    ("urls", "path"),
    [
        (["file:///a/run.toml"], "/a/run.toml"),
        (["file:///a/notes.txt", "file:///a/train.PY"], "/a/train.PY"),
        (["file:///a/notes.txt"], None),
        (["https://example.org/run.toml"], None),
        ([], None),
    ],
)
def test_run_files_and_scripts_of_this_machine_can_be_dropped(urls: list[str], path: str | None) -> None:
    assert droppable(dragged(*urls)) == (None if path is None else Path(path))


def test_a_file_dropped_on_a_text_field_is_opened_and_not_typed(
    parts: LaterParts, window: MainWindow, qtbot: QtBot
) -> None:
    window.show_page("Nodes")
    data = dragged("file:///a/run.toml")
    handle = window.windowHandle()
    action, button, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(QPoint(400, 100), action, data, button, none)
    QCoreApplication.sendEvent(handle, enter)
    assert enter.isAccepted()
    QCoreApplication.sendEvent(handle, QDropEvent(QPoint(400, 100).toPointF(), action, data, button, none))
    launch = window.stack.places["Launch"]
    assert isinstance(launch, FakePage)
    assert window.stack.current == "Launch"
    assert Path("/a/run.toml") in launch.done
    assert launch.field.text() == ""
