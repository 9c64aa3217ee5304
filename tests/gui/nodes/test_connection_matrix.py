"""The connection matrix, between real hosts."""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.qtbot import QtBot

from gui.nodes.conftest import SLOW
from support.hosts.hosts import TestHosts
from torchdeck.nodes.probe.connections import Connected
from torchdeck.use_cases.nodes.connections import Measured
from torchdeck_app.nodes.connection_matrix import MatrixModel, cell_words
from torchdeck_app.nodes.nodes_page import CONNECTIONS, NodesPage
from torchdeck_app.theme.theme import Theme


def way(source: str, target: str, *, error: str = "") -> Connected:
    return Connected(source, target, 40_000, not error, 0.0002, 2.0**30, error)


def test_a_cell_says_how_quick_and_how_wide_a_way_is_or_why_there_is_none(theme: Theme) -> None:
    found = Measured(
        ("a", "b", "c"),
        {("a", "b"): way("a", "b"), ("b", "a"): way("b", "a", error="timed out")},
        {"c": "node c: no one answers"},
        {"a": "10.0.0.1", "b": "10.0.0.2"},
    )
    assert cell_words(found, "a", "a") == "–"
    assert cell_words(found, "a", "b") == "0.2 ms\n1.0 GiB/s"
    assert cell_words(found, "b", "a") == cell_words(found, "a", "c") == "✕ no"
    assert found.reason("b", "a") == "b cannot connect to a (10.0.0.1, port 40000): timed out"
    assert found.reason("a", "c") == "node c: no one answers"
    model = MatrixModel(theme)
    tester = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    model.show(found)
    red = Qt.ItemDataRole.ForegroundRole
    assert model.index(1, 0).data(red) == theme.colour("bad")
    assert model.index(0, 1).data(red) is None
    assert "timed out" in model.index(1, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert tester.model() is model


def test_ways_between_hosts_are_measured_and_a_closed_one_is_said_to_be(
    hosts: Callable[..., TestHosts], board: Callable[[str], NodesPage], qtbot: QtBot
) -> None:
    made = hosts(3)
    made.block_port(2, "1024-65535", sender=made.address(1))
    place = board(made.nodes_toml() + '[nodes.node4]\naddress = "127.0.0.1"\nport = 1\n')
    view = place.matrix
    qtbot.waitUntil(lambda: view.chosen == ["node1", "node2", "node3", "node4"], timeout=SLOW)
    place.tabs.setCurrentIndex(CONNECTIONS)
    qtbot.mouseClick(view.button, Qt.MouseButton.LeftButton)
    assert view.button.text() == "Cancel"
    qtbot.waitUntil(lambda: view.model.rowCount() == 4, timeout=2 * SLOW)
    found = view.model.found
    assert found.ways["node3", "node1"].ok
    assert "/s" in cell_words(found, "node3", "node1")
    assert "cannot connect" in found.reason("node1", "node2")
    assert "node node4" in found.reason("node1", "node4")
    assert "8 of 12 connections failed" in view.said.text()
    assert found.reason("node1", "node2") in view.wrong.text()
    view.table.setCurrentIndex(view.model.index(0, 1))
    assert view.cell.text() == found.reason("node1", "node2")
