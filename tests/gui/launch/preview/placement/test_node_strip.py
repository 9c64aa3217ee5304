"""Nodes of the book come into the run, and nodes of the run go, by pointer and by keyboard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QMimeData, QObject, QPoint, Qt, QUrl, Signal
from PySide6.QtGui import QContextMenuEvent, QDragEnterEvent, QDragLeaveEvent, QDragMoveEvent, QDropEvent
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from support.values.previews import machines, preview
from torchdeck.nodes.inventory.schema import NodeEntry, NodeGroup, NodeInventory
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.preview.placement.grid_layout import Spot
from torchdeck_app.launch.preview.placement.node_strip import MIME, NodeStrip
from torchdeck_app.launch.preview.placement.placement_tab import PlacementView
from torchdeck_app.launch.preview.placement.run_nodes import RunNodes
from torchdeck_app.launch.preview.preview_state import PreviewState
from torchdeck_app.launch.preview.rank_grid_model import board_model
from torchdeck_app.theme.theme import Theme

opens_a_menu = pytest.mark.qt_log_ignore("This plugin does not support (raise|grabbing)", extend=True)
"""The offscreen platform says so of every menu."""
LEFT = Qt.MouseButton.LeftButton
NONE = Qt.KeyboardModifier.NoModifier
COPY = Qt.DropAction.CopyAction
TEXT = """\
[run]
recipe = "byte-gpt"  # a comment

[distributed]
# who leads comes first
nodes = ["n0000", "n0001"]  # two of them
"""


class Book(QObject):
    """The book as it was read last."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.node_inventory = NodeInventory()

    def say(self, *names: str, **groups: list[str]) -> None:
        self.node_inventory = NodeInventory(
            nodes={name: NodeEntry(address=f"{name}.lab") for name in names},
            groups={name: NodeGroup(nodes=nodes) for name, nodes in groups.items()},
        )
        self.changed.emit()


@pytest.fixture
def document(qtbot: QtBot, tmp_path: Path) -> Iterator[RunDocument]:
    made = RunDocument(tmp_path)
    with qtbot.waitSignal(made.checked, timeout=30_000):
        made.load(TEXT, None)
    yield made
    made.close(10.0)


@pytest.fixture
def node_inventory() -> Book:
    made = Book()
    made.say("n0000", "n0001", "gpu1", "gpu2", lab=["gpu1", "gpu2"])
    return made


@pytest.fixture
def view(
    qtbot: QtBot, theme: Theme, operations: Operations, document: RunDocument, node_inventory: Book
) -> PlacementView:
    run_nodes = RunNodes(document, node_inventory)
    node_inventory.changed.emit()
    made = PlacementView(theme, operations, run_nodes=run_nodes)
    run_nodes.setParent(made)
    made.change_asked.connect(document.set_values)
    qtbot.addWidget(made)
    made.resize(760, 560)
    made.show()
    qtbot.waitExposed(made)
    shown = preview(2, 2)
    made.show_state(PreviewState(preview=shown, plan=shown.plan, board=board_model(shown, machines(2, 2))))
    return made


def nodes(document: RunDocument) -> object:
    return document.table.get("distributed", {}).get("nodes")


def choose(strip: NodeStrip, name: str) -> None:
    at = [item.name for item in strip.items].index(name)
    strip.setCurrentIndex(strip.model().index(at, 0))


def middle(strip: NodeStrip, name: str) -> QPoint:
    choose(strip, name)
    return strip.visualRect(strip.currentIndex()).center()


def settle(qtbot: QtBot, document: RunDocument) -> None:
    def is_checked() -> bool:
        return document.newest is not None and document.newest.version == document.version

    qtbot.waitUntil(is_checked, timeout=30_000)


def heading(view: PlacementView, node: int) -> QPoint:
    card = view.board.layout_now.cards[node]
    return QPoint(card.left + card.width // 2, card.top + 16)


def drag(name: str) -> QMimeData:
    data = QMimeData()
    data.setData(MIME, name.encode())
    return data


def drop(view: PlacementView, data: QMimeData, at: QPoint) -> bool:
    """Whether it was taken."""
    board = view.board.viewport()
    enter = QDragEnterEvent(at, COPY, data, LEFT, NONE)
    QCoreApplication.sendEvent(board, enter)
    QCoreApplication.sendEvent(board, QDragMoveEvent(at, COPY, data, LEFT, NONE))
    QCoreApplication.sendEvent(board, QDropEvent(at.toPointF(), COPY, data, LEFT, NONE))
    return enter.isAccepted()


def test_what_is_in_the_run_is_shown_as_such(
    qtbot: QtBot, view: PlacementView, node_inventory: Book, document: RunDocument
) -> None:
    strip = view.strip
    assert {item.name: item.is_used for item in strip.items} == {
        "lab": False,
        "n0000": True,
        "n0001": True,
        "gpu1": False,
        "gpu2": False,
    }
    draggable = [
        item.name
        for at, item in enumerate(strip.items)
        if strip.model().index(at, 0).flags() & Qt.ItemFlag.ItemIsDragEnabled
    ]
    assert draggable == ["lab", "gpu1", "gpu2"]
    said = strip.model().index(0, 0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert said == "lab, group of 2, not in the run"
    document.set_values({"distributed.nodes": ["gpu1"]})
    settle(qtbot, document)
    assert [item.used for item in strip.items] == [1, 0, 0, 1, 0]


def test_without_nodes_in_the_book_there_is_no_strip(
    qtbot: QtBot, view: PlacementView, node_inventory: Book
) -> None:
    assert view.strip.isVisible()
    high = view.board.height()
    node_inventory.say()
    assert not view.strip.isVisible()
    qtbot.waitUntil(lambda: view.board.height() > high, timeout=10_000)


def test_a_node_dropped_on_the_board_is_in_the_run(view: PlacementView, document: RunDocument) -> None:
    card = view.board.layout_now.cards[1]
    assert drop(view, drag("gpu1"), QPoint(card.left + 4, card.top + 20))
    assert nodes(document) == ["n0000", "gpu1", "n0001"]
    assert "# who leads comes first" in document.text
    assert "# two of them" in document.text
    document.undo_stack.undo()
    assert document.text == TEXT
    assert drop(view, drag("lab"), QPoint(card.right - 4, card.top + 20))
    assert nodes(document) == ["n0000", "n0001", "lab"]


def test_where_it_would_come_is_marked_until_it_is_dropped_or_gone(view: PlacementView) -> None:
    board = view.board.viewport()
    data = drag("gpu1")  # the event does not keep it
    enter = QDragEnterEvent(heading(view, 0), COPY, data, LEFT, NONE)
    QCoreApplication.sendEvent(board, enter)
    assert view.board.marks.drags
    QCoreApplication.sendEvent(board, QDragLeaveEvent())
    assert view.board.marks.drop is None
    drop(view, data, heading(view, 0))
    assert view.board.marks.drop is None


def test_the_board_takes_nothing_but_nodes(view: PlacementView, document: RunDocument) -> None:
    text, files = QMimeData(), QMimeData()
    text.setText("gpu1")
    files.setUrls([QUrl("file:///a/run.toml")])
    for data in (text, files):
        assert not drop(view, data, heading(view, 0))
        assert view.board.marks.drop is None
    assert document.text == TEXT


def test_keys_and_a_double_click_do_what_dragging_does(
    qtbot: QtBot, view: PlacementView, document: RunDocument
) -> None:
    strip = view.strip
    choose(strip, "gpu1")
    qtbot.keyClick(strip, Qt.Key.Key_Return)
    assert nodes(document) == ["n0000", "n0001", "gpu1"]
    # at once, while the preview still shows the run without gpu1
    qtbot.mouseClick(strip.viewport(), LEFT, pos=middle(strip, "gpu2"))
    qtbot.mouseDClick(strip.viewport(), LEFT, pos=middle(strip, "gpu2"))
    assert nodes(document) == ["n0000", "n0001", "gpu1", "gpu2"]
    choose(strip, "n0000")
    qtbot.keyClick(strip, Qt.Key.Key_Delete)
    assert nodes(document) == ["n0001", "gpu1", "gpu2"]
    choose(strip, "lab")
    qtbot.keyClick(strip, Qt.Key.Key_Return)
    assert view.told.text() == "lab is in the run already"
    qtbot.keyClick(strip, Qt.Key.Key_Delete)
    assert nodes(document) == ["n0001"]


@opens_a_menu
def test_the_menu_of_a_chip_offers_what_can_be_done(
    qtbot: QtBot, view: PlacementView, document: RunDocument
) -> None:
    assert offered(view.strip, middle(view.strip, "gpu1"), lambda: view.strip.menu) == ["&Add to the run"]
    assert view.strip.menu is not None
    view.strip.menu.actions()[0].trigger()
    view.strip.menu.hide()
    settle(qtbot, document)
    assert nodes(document) == ["n0000", "n0001", "gpu1"]
    assert offered(view.strip, middle(view.strip, "gpu1"), lambda: view.strip.menu) == [
        "&Remove from the run"
    ]
    assert view.strip.menu is not None
    view.strip.menu.hide()


def offered(widget: NodeStrip | QWidget, at: QPoint, menu: Callable[[], object]) -> list[str]:
    reason = QContextMenuEvent.Reason.Mouse
    target = widget.viewport() if isinstance(widget, NodeStrip) else widget
    QCoreApplication.sendEvent(target, QContextMenuEvent(reason, at, target.mapToGlobal(at)))
    made = menu()
    assert made is not None
    return [action.text() for action in made.actions() if action.isEnabled()]  # type: ignore[attr-defined]


def test_a_node_dragged_off_the_board_is_out_of_the_run(
    qtbot: QtBot, view: PlacementView, document: RunDocument
) -> None:
    board = view.board.viewport()
    off = QPoint(board.width() + 60, 40)
    qtbot.mousePress(board, LEFT, pos=heading(view, 0))
    qtbot.mouseMove(board, heading(view, 1))
    assert view.board.marks.drop is not None
    qtbot.mouseMove(board, off)
    assert view.board.marks[-2:] == (None, 0), "it has no place on the board, but goes"
    assert "remove the node from the run" in view.told.text()
    qtbot.mouseRelease(board, LEFT, pos=off)
    assert not view.board.marks.drags
    assert nodes(document) == ["n0001"]
    document.undo_stack.undo()
    assert document.text == TEXT


def test_a_node_on_its_way_off_comes_back_by_escape(
    qtbot: QtBot, view: PlacementView, document: RunDocument
) -> None:
    board = view.board.viewport()
    qtbot.mousePress(board, LEFT, pos=heading(view, 0))
    qtbot.mouseMove(board, heading(view, 1))
    qtbot.mouseMove(board, QPoint(board.width() + 60, 40))
    qtbot.keyClick(view.board, Qt.Key.Key_Escape)
    assert not view.board.marks.drags
    assert view.told.text() == ""
    qtbot.mouseRelease(board, LEFT, pos=QPoint(board.width() + 60, 40))
    assert document.text == TEXT


@opens_a_menu
def test_delete_and_the_menu_take_a_node_of_the_board_out(
    qtbot: QtBot, view: PlacementView, document: RunDocument
) -> None:
    view.board.setFocus()
    qtbot.keyClick(view.board, Qt.Key.Key_Home)
    qtbot.keyClick(view.board, Qt.Key.Key_Delete)
    assert nodes(document) == ["n0001"]
    texts = offered(view.board.viewport(), heading(view, 1), lambda: view.menu)
    assert texts == ["&Take n0001 out of the run", "Switch off"]
    assert view.menu is not None
    view.menu.actions()[0].trigger()
    view.menu.hide()
    assert nodes(document) is None
    assert view.told.text() == "The run names no nodes now and uses this machine"


@opens_a_menu
def test_the_menu_is_about_the_node_it_was_opened_on(view: PlacementView) -> None:
    """A newer preview may come while it is open."""
    asked: list[object] = []
    view.change_asked.connect(asked.append)
    offered(view.board.viewport(), heading(view, 1), lambda: view.menu)
    assert view.menu is not None
    shown = preview(1, 2)
    view.show_state(PreviewState(preview=shown, plan=shown.plan, board=board_model(shown, machines(1, 2))))
    view.menu.actions()[1].trigger()
    view.menu.hide()
    assert asked == []


def test_a_node_takes_the_place_of_this_machine(
    qtbot: QtBot, view: PlacementView, document: RunDocument
) -> None:
    document.set_values({"distributed.nodes": None})
    choose(view.strip, "gpu1")
    qtbot.keyClick(view.strip, Qt.Key.Key_Return)
    assert nodes(document) == ["gpu1"]
    assert "replaces this machine" in view.told.text()


def test_what_the_launch_chooses_is_not_replaced(
    qtbot: QtBot, view: PlacementView, document: RunDocument
) -> None:
    document.set_values({"distributed.nodes": "1:2"})
    choose(view.strip, "gpu1")
    qtbot.keyClick(view.strip, Qt.Key.Key_Return)
    assert nodes(document) == "1:2"
    assert 'distributed.nodes = "1:2" lets the launch choose' in view.told.text()


def test_machines_that_are_described_stay_where_a_node_joins_them(
    qtbot: QtBot, view: PlacementView, document: RunDocument
) -> None:
    document.set_text('[run]\nrecipe = "byte-gpt"\n[[cluster.nodes]]\nname = "m[0-1]"\ngpus = 1\n')
    choose(view.strip, "gpu1")
    qtbot.keyClick(view.strip, Qt.Key.Key_Return)
    assert nodes(document) == ["m[0-1]", "gpu1"]


def test_the_strip_keeps_the_board_its_room(qtbot: QtBot, view: PlacementView, node_inventory: Book) -> None:
    one_row = view.strip.height()
    node_inventory.say(*(f"node{number:02d}" for number in range(60)))
    qtbot.waitUntil(lambda: view.strip.height() > one_row, timeout=10_000)
    assert view.strip.height() <= 2 * one_row
    choose(view.strip, "node59")
    view.strip.scrollTo(view.strip.currentIndex())
    assert view.strip.viewport().rect().contains(view.strip.visualRect(view.strip.currentIndex()))
    view.board.select(Spot(0))
