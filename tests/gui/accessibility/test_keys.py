"""Keys of what only a mouse could move or open."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAccessible, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from gui.runs.page.test_ranks_panel import make
from support.gui.accessible import spoken_name
from torchdeck.contract.layout import RunLayout
from torchdeck_app.runs.page.ranks_panel import RankHeatMap
from torchdeck_app.runs.run_table import RunTable
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.inputs import NamedBox
from torchdeck_app.widgets.splitter import Splitter
from torchdeck_app.widgets.tab_order import in_visual_order
from torchdeck_app.window.context_menu_key import KEYS, add_context_menu_key


@pytest.mark.parametrize(
    ("orientation", "back", "on"),
    [
        (Qt.Orientation.Horizontal, Qt.Key.Key_Left, Qt.Key.Key_Right),
        (Qt.Orientation.Vertical, Qt.Key.Key_Up, Qt.Key.Key_Down),
    ],
)
@pytest.mark.parametrize("width", [1, 5])
def test_a_divider_follows_the_arrow_keys(
    qtbot: QtBot, orientation: Qt.Orientation, back: Qt.Key, on: Qt.Key, width: int
) -> None:
    """Qt makes a divider of one pixel wider than it looks."""
    splitter = Splitter("Size of the list", orientation)
    splitter.setHandleWidth(width)
    qtbot.addWidget(splitter)
    for _ in range(2):
        splitter.addWidget(QLabel())
    splitter.resize(400, 400)
    splitter.show()
    splitter.setSizes([200, 200])
    divider = splitter.handle(1)
    first = splitter.sizes()[0]
    QTest.keyClick(divider, on)
    assert splitter.sizes()[0] == pytest.approx(first + 16, abs=3)
    QTest.keyClick(divider, back)
    QTest.keyClick(divider, back)
    assert splitter.sizes()[0] == pytest.approx(first - 16, abs=8)
    QTest.keyClick(divider, Qt.Key.Key_End)
    assert splitter.sizes()[0] > 350
    QTest.keyClick(divider, Qt.Key.Key_Home)
    assert 0 <= splitter.sizes()[0] < 50


def test_a_combo_box_is_called_by_its_name_wherever_it_is_put(qtbot: QtBot) -> None:
    """Qt gives a screen reader on Linux its value in place of its name."""
    box = NamedBox()
    box.addItems(["one", "two"])
    box.setAccessibleName("R&D")
    places = [QWidget(), QWidget()]
    for around in places:
        qtbot.addWidget(around)
        QHBoxLayout(around).addWidget(box)
        around.show()
        assert spoken_name(QAccessible.queryAccessibleInterface(box)) == "R&D"
        assert not any(label.isVisible() for label in around.findChildren(QLabel))


def test_tab_reads_panes_and_lists_to_their_ends(qtbot: QtBot) -> None:
    """Wherever a list is scrolled to, and whatever was created first."""
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    below, lines = QPushButton("below"), [QLineEdit(str(number)) for number in range(20)]
    search, right = QLineEdit("search"), QPushButton("right")
    splitter, left, inside, area = Splitter("Width"), QWidget(), QWidget(), QScrollArea()
    rows = QVBoxLayout(inside)
    for line in lines:
        rows.addWidget(line)
    area.setWidget(inside)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    in_left = QVBoxLayout(left)
    in_left.addWidget(search)
    in_left.addWidget(area)
    splitter.addWidget(left)
    splitter.addWidget(right)
    column.addWidget(splitter)
    column.addWidget(below)
    window.resize(400, 300)
    window.show()
    for place in (0, 200):
        area.verticalScrollBar().setValue(place)
        assert in_visual_order(window) == [search, *lines, splitter.handle(1), right, below]


def test_the_arrow_keys_move_over_ranks_and_say_what_is_there(
    qtbot: QtBot, theme: Theme, tmp_path: Path
) -> None:
    make(tmp_path, 4, slow=2)
    view = RankHeatMap(theme, RunLayout(tmp_path))
    qtbot.addWidget(view)
    view.resize(900, 300)
    view.show()
    view.entered()
    qtbot.waitUntil(lambda: view.matrix is not None and bool(view.matrix.ranks))
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Left):
        QTest.keyClick(view.map, key)
    assert view.map.accessibleDescription().startswith("rank 2, step 39")
    assert view.verdict.text() == view.map.accessibleDescription()
    QTest.keyClick(view.map, Qt.Key.Key_PageUp)
    QTest.keyClick(view.map, Qt.Key.Key_Home)
    assert view.map.accessibleDescription().startswith("rank 0, step 1: ")
    view.closing()


def test_the_list_of_runs_sorts_by_its_menu(qtbot: QtBot, theme: Theme) -> None:
    table = RunTable(theme)
    qtbot.addWidget(table)
    table.resize(600, 300)
    table.show()
    sorting = next(a for a in table.view_menu.filled.actions() if a.text() == "S&ort by").menu()
    names = [action.text() for action in sorting.actions()]  # type: ignore[attr-defined]  # it is a QMenu
    assert "Name" in names
    table.view_menu.sort_asked.emit("name")
    assert table.model.order == ("name", False)
    table.view_menu.sort_asked.emit("name")
    assert table.model.order == ("name", True)


def test_shift_f10_opens_the_menu_of_what_has_the_focus(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    field = QLineEdit()
    field.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    QVBoxLayout(window).addWidget(field)
    asked: list[QPoint] = []
    field.customContextMenuRequested.connect(asked.append)
    key = add_context_menu_key(window)
    assert key.key() == QKeySequence(KEYS)
    with qtbot.waitActive(window):
        window.show()
    field.setFocus()
    qtbot.waitUntil(field.hasFocus)
    QTest.keyClick(field, Qt.Key.Key_F10, Qt.KeyboardModifier.ShiftModifier)
    assert len(asked) == 1
    assert field.rect().contains(asked[0])
