"""What the window waits for: said, counted, and cancelled."""

import threading
from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton
from pytestqt.qtbot import QtBot

from torchdeck_app.bridge.operations import Operations
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import ElidedLabel
from torchdeck_app.window import status_bar as operations_line
from torchdeck_app.window.status_bar import OperationsLine


@pytest.fixture
def line(theme: Theme, operations: Operations, qtbot: QtBot) -> OperationsLine:
    made = OperationsLine(operations)
    qtbot.addWidget(made)
    made.show()
    return made


def said(line: OperationsLine) -> str:
    return line.findChildren(ElidedLabel)[0].text()


def test_what_is_waited_for_is_said_with_its_progress(
    line: OperationsLine, operations: Operations, qtbot: QtBot
) -> None:
    gate = threading.Event()

    def trace(progress: Callable[[str], None], _cancel: object) -> None:
        progress("layer 3 of 12")
        gate.wait(20)

    operations.run("tracing the model", trace)
    operations.run("reading", lambda _progress, _cancel: gate.wait(20))
    assert said(line) == ""
    qtbot.waitUntil(lambda: said(line) == "tracing the model: layer 3 of 12  and 1 more")
    gate.set()
    qtbot.waitUntil(lambda: said(line) == "")


def test_it_can_be_cancelled_after_a_while(
    line: OperationsLine, operations: Operations, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations_line, "CANCEL_AFTER", 0.3)
    button = line.findChildren(QToolButton)[0]
    stopped = threading.Event()

    def wait(_progress: object, cancel: object) -> None:
        while not cancel.wanted:  # type: ignore[attr-defined]
            stopped.wait(0.01)

    operation = operations.run("probing the node", wait)
    assert not button.isVisible()
    qtbot.waitUntil(button.isVisible)
    assert button.accessibleName() == "Cancel probing the node"
    with qtbot.waitSignal(operation.cancelled):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert not button.isVisible()
