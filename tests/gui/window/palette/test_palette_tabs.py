"""Tabs of places are found in the command palette."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QStackedWidget, QTabWidget, QWidget
from pytestqt.qtbot import QtBot

from support.gui.window_places import FakePage
from torchdeck_app.window.command_palette_dialog import CommandPalette
from torchdeck_app.window.later_parts import LaterParts
from torchdeck_app.window.main_window import MainWindow
from torchdeck_app.window.palette_items import tab_items


@pytest.fixture
def tabs(place: Callable[[str], FakePage]) -> QTabWidget:
    """Of Runs: Logs, and Details that has tabs of its own."""
    made, inner = QTabWidget(), QTabWidget()
    inner.addTab(QWidget(), "&Values")
    inner.addTab(QWidget(), "R&&D")
    made.addTab(QWidget(), "&Logs")
    made.addTab(inner, "&Details")
    layout = place("Runs").layout()
    assert layout is not None
    layout.addWidget(made)
    return made


def offered(place: FakePage) -> list[tuple[str, str]]:
    return [(item.text, item.detail) for item in tab_items({"Runs": place}, lambda _name: None)]


def test_every_tab_of_a_place_is_offered(place: Callable[[str], FakePage], tabs: QTabWidget) -> None:
    assert offered(place("Runs")) == [
        ("Logs", "Runs › tab"),
        ("Details", "Runs › tab"),
        ("Values", "Runs › Details › tab"),
        ("R&D", "Runs › Details › tab"),
    ]
    tabs.setTabVisible(0, False)
    tabs.setTabEnabled(1, False)
    assert offered(place("Runs")) == []


def test_tabs_of_a_page_that_is_not_in_front_are_left_out(
    place: Callable[[str], FakePage], tabs: QTabWidget
) -> None:
    pages = QStackedWidget()
    layout = place("Runs").layout()
    assert layout is not None
    layout.addWidget(pages)
    pages.addWidget(QWidget())
    pages.addWidget(tabs)
    assert offered(place("Runs")) == []
    pages.setCurrentWidget(tabs)
    assert len(offered(place("Runs"))) == 4


def test_a_tab_within_a_tab_is_opened_in_its_place(
    parts: LaterParts, window: MainWindow, tabs: QTabWidget, qtbot: QtBot
) -> None:
    qtbot.waitExposed(window)
    window.activateWindow()
    palette: CommandPalette = parts.palette
    palette.open()
    field = palette.findChildren(QLineEdit)[0]
    qtbot.waitUntil(field.hasFocus)
    qtbot.keyClicks(field, "r&d")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert window.stack.current == "Runs"
    inner = tabs.widget(1)
    assert isinstance(inner, QTabWidget)
    assert (tabs.currentIndex(), inner.currentIndex()) == (1, 1)
    qtbot.waitUntil(inner.tabBar().hasFocus)
    assert palette.recent[0] == "tab:Runs/Details/R&D"


def test_a_tab_that_is_gone_meanwhile_is_nothing(place: Callable[[str], FakePage], tabs: QTabWidget) -> None:
    items = tab_items({"Runs": place("Runs")}, lambda _name: None)
    while tabs.count():
        tabs.removeTab(0)
    items[-1].call()
    assert tabs.currentIndex() == -1
