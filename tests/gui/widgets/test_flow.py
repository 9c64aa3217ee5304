"""Widgets that flow: side by side, and below each other where there is no room."""

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from torchdeck_app.widgets.flow import Flow


def sized(width: int, height: int) -> QWidget:
    made = QWidget()
    made.setFixedSize(width, height)
    return made


def test_lines_break_where_there_is_no_room(qtbot: QtBot) -> None:
    flow = Flow(across=10)
    widgets = [sized(100, 20), sized(100, 30), sized(100, 20)]
    for widget in widgets:
        flow.add(widget)
    qtbot.addWidget(flow)
    flow.resize(220, 100)
    flow.show()
    assert [(widget.x(), widget.y()) for widget in widgets] == [(0, 0), (110, 0), (0, 38)]
    assert (flow.heightForWidth(220), flow.heightForWidth(320)) == (58, 30)
    widgets[1].hide()
    flow.resize(221, 100)
    assert widgets[2].pos().toTuple() == (110, 0)
