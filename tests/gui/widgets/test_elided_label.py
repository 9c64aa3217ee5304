"""A line of text that is shortened where there is no room."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.labels import ElidedLabel


def ink(label: ElidedLabel) -> range:
    """From the first to the last column that has text."""
    picture: QImage = label.grab().toImage()
    ground = picture.pixel(0, 0)
    rows = range(picture.height())
    used = [x for x in range(picture.width()) if any(picture.pixel(x, y) != ground for y in rows)]
    return range(used[0], used[-1] + 1)


@pytest.mark.parametrize("side", [Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight])
def test_the_text_is_on_its_side_and_inside(side: Qt.AlignmentFlag, theme: Theme, qtbot: QtBot) -> None:
    label = ElidedLabel("loss")
    qtbot.addWidget(label)
    label.setAlignment(side | Qt.AlignmentFlag.AlignVCenter)
    label.resize(200, 24)
    columns = ink(label)
    assert columns.start < 8 if side is Qt.AlignmentFlag.AlignLeft else columns.stop > 192
    label.setText("a much longer text than there is room for in this label")
    assert ink(label).stop <= 200


def test_it_asks_for_no_width(theme: Theme, qtbot: QtBot) -> None:
    label = ElidedLabel("a much longer text than there is room for")
    qtbot.addWidget(label)
    assert label.minimumSizeHint().width() == 0
