"""A label whose text changes every second."""

import pytest
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QHBoxLayout, QLabel, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from torchdeck_app.widgets.labels import SteadyLabel, SteadyLine

LONG = "step 1,240 / 2,000  ·  2 min 14 s left  ·  12.3k tokens/s  ·  4 min 12 s so far"


class Layouts(QObject):
    """Counts how often the window is laid out again."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.count = 0
        window.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        self.count += event.type() == QEvent.Type.LayoutRequest
        return False


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    made = QWidget()
    qtbot.addWidget(made)
    QVBoxLayout(made)
    made.resize(600, 200)
    made.show()
    return made


def put(window: QWidget, label: QLabel, qapp: QApplication, *, at_top: bool = False) -> Layouts:
    """Into a row in the window, which is laid out; `at_top` it is no higher than it needs to be."""
    row = QHBoxLayout()
    row.addWidget(label, 1)
    layout = window.layout()
    assert isinstance(layout, QVBoxLayout)
    layout.addLayout(row)
    if at_top:
        layout.addStretch(1)
    qapp.processEvents()
    return Layouts(window)


def test_a_text_of_the_same_height_moves_nothing(window: QWidget, qapp: QApplication) -> None:
    label = SteadyLabel("step 1")
    layouts = put(window, label, qapp)
    for step in range(2, 6):
        label.setText(f"step {step:,} / 2,000")
        qapp.processEvents()
    assert layouts.count <= 1  # the label is told its first height
    assert label.text() == label.accessibleName() == "step 5 / 2,000"


def test_a_text_that_needs_more_lines_gets_them(window: QWidget, qapp: QApplication) -> None:
    label = SteadyLabel("step 1")
    put(window, label, qapp, at_top=True)
    window.resize(160, 200)
    qapp.processEvents()
    line = label.fontMetrics().height()
    assert line <= label.height() < 2 * line
    label.setText(LONG)
    qapp.processEvents()
    assert label.height() >= label.heightForWidth(label.width()) > 2 * line


def test_a_line_stays_one_whatever_it_says(window: QWidget, qapp: QApplication) -> None:
    line = SteadyLine("loss")
    layouts = put(window, line, qapp)
    window.resize(160, 200)
    qapp.processEvents()
    layouts.count = 0
    line.setText(LONG)
    qapp.processEvents()
    assert layouts.count <= 1
    assert line.heightForWidth(10) == line.fontMetrics().height()
    picture = line.grab().toImage()
    ground = picture.pixel(0, 0)
    assert any(picture.pixel(x, y) != ground for x in range(80) for y in range(picture.height()))


def test_a_window_that_grows_narrow_cuts_nothing_off(window: QWidget, qapp: QApplication) -> None:
    label = SteadyLabel(LONG)
    put(window, label, qapp)
    window.resize(200, 300)
    for _ in range(3):
        qapp.processEvents()
    assert label.sizeHint().height() == label.heightForWidth(label.width()) > label.fontMetrics().height()
    assert label.height() >= label.heightForWidth(label.width())
