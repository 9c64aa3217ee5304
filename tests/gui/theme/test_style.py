"""The style sheet: what it takes away from Qt's own drawing it gives back, in both palettes."""

import re
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage, QPalette, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QComboBox,
    QLineEdit,
    QPushButton,
    QSpinBox,
    QTreeView,
    QWidget,
)
from pytestqt.qtbot import QtBot

from torchdeck_app.theme.palette import DARK, LIGHT, Palette, contrast
from torchdeck_app.theme.theme import Mode, Theme, sheet
from torchdeck_app.widgets.row_tree import InkDelegate

BOTH = pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
MODES = pytest.mark.parametrize("mode", ["light", "dark"])


@BOTH
def test_every_picture_of_the_sheet_is_there_in_colours_of_the_palette(palette: Palette) -> None:
    pictures = {Path(name) for name in re.findall(r'url\("([^"]+)"\)', sheet(palette))}
    assert {picture.stem for picture in pictures} >= {"up", "down", "check", "dash", "dot"}
    ours = {value for value in vars(palette).values() if isinstance(value, str)}
    for picture in pictures:
        used = set(re.findall(r"#[0-9a-f]{6}", picture.read_text()))
        assert used, picture
        assert used <= ours, picture


@MODES
@pytest.mark.parametrize("kind", [QSpinBox, QComboBox])
def test_arrows_can_be_seen(kind: type[QWidget], mode: Mode, qapp: QApplication, qtbot: QtBot) -> None:
    theme = Theme(qapp, mode)
    field = kind()
    qtbot.addWidget(field)
    field.resize(120, 30)
    picture = field.grab().toImage()
    arrows = colours_in(picture, left=98, right=116)
    assert any(near(colour, QColor(theme.palette.secondary)) for colour in arrows)


@MODES
def test_a_number_without_arrows_can_be_read(mode: Mode, qapp: QApplication, qtbot: QtBot) -> None:
    theme = Theme(qapp, mode)
    field = QSpinBox()
    field.setButtonSymbols(QSpinBox.ButtonSymbols.NoButtons)
    field.setRange(0, 99_999)
    field.setValue(44_444)
    qtbot.addWidget(field)
    field.show()
    field.resize(field.sizeHint())
    line = field.findChildren(QLineEdit)[0]
    assert line.contentsRect().width() >= line.fontMetrics().horizontalAdvance("44444")
    ink = QColor(theme.palette.text)
    assert any(near(colour, ink) for colour in colours_in(field.grab().toImage()))


@MODES
def test_a_hint_in_an_empty_field_can_be_read(mode: Mode, qapp: QApplication, qtbot: QtBot) -> None:
    theme = Theme(qapp, mode)
    field = QLineEdit()
    field.setPlaceholderText("Search")
    qtbot.addWidget(field)
    field.ensurePolished()
    hint = field.palette().color(QPalette.ColorRole.PlaceholderText)
    assert hint == QColor(theme.palette.secondary)


@MODES
def test_a_selected_cell_keeps_its_colour(mode: Mode, qapp: QApplication, qtbot: QtBot) -> None:
    theme = Theme(qapp, mode)
    view = QTreeView()
    view.setItemDelegate(InkDelegate(view))
    view.setRootIsDecorated(False)
    model = QStandardItemModel(view)
    view.setModel(model)
    for name in ("bad", "good", "text"):
        item = QStandardItem("██████")
        if name != "text":
            item.setForeground(theme.colour(name))
        model.appendRow(item)
    qtbot.addWidget(view)
    view.resize(200, 120)
    view.setSelectionMode(QTreeView.SelectionMode.MultiSelection)
    view.selectAll()
    picture = view.viewport().grab().toImage()
    rows = [view.visualRect(model.index(row, 0)).center().y() for row in range(3)]
    found = {picture.pixelColor(20, y).name() for y in rows}
    assert len(found) == 3
    ground = theme.palette.selection
    for colour in found:
        assert colour != ground
        assert contrast(colour, ground) >= 4.5


@MODES
def test_a_tick_and_its_box_can_be_seen(mode: Mode, qapp: QApplication, qtbot: QtBot) -> None:
    theme = Theme(qapp, mode)
    box = QCheckBox()
    qtbot.addWidget(box)
    box.resize(30, 24)
    empty = colours_in(box.grab().toImage())
    box.setCheckState(Qt.CheckState.Checked)
    ticked = colours_in(box.grab().toImage())
    assert any(near(colour, QColor(theme.palette.quiet)) for colour in empty)
    assert any(near(colour, QColor(theme.palette.accent)) for colour in ticked)
    assert any(near(colour, QColor(theme.palette.on_accent)) for colour in ticked)


@MODES
@pytest.mark.parametrize("role", ["", "primary", "destructive"])
def test_a_button_that_cannot_be_pressed_looks_so(
    role: str, mode: Mode, qapp: QApplication, qtbot: QtBot
) -> None:
    Theme(qapp, mode)
    button = QPushButton("Launch")
    button.setProperty("role", role)
    qtbot.addWidget(button)
    button.resize(100, 30)
    enabled = button.grab().toImage()
    button.setEnabled(False)
    assert button.grab().toImage() != enabled


def colours_in(picture: QImage, left: int = 0, right: int | None = None) -> list[QColor]:
    right = picture.width() if right is None else right
    return [picture.pixelColor(x, y) for x in range(left, right) for y in range(2, picture.height() - 2)]


def near(one: QColor, other: QColor) -> bool:
    """Lines are drawn with soft edges."""
    pairs = zip(one.getRgb(), other.getRgb(), strict=True)  # type: ignore[call-overload]  # the stubs say object
    return all(abs(a - b) < 24 for a, b in pairs)
