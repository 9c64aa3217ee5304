"""The board as a person uses it: pointing, switching, dragging, keys, zoom."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from support.values.previews import machines, memory, preview, with_memory
from torchdeck.plan.preview import Preview
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.preview.placement.grid_layout import STEPS, Box, Detail, Spot
from torchdeck_app.launch.preview.placement.placement_tab import PlacementView
from torchdeck_app.launch.preview.preview_state import PreviewState
from torchdeck_app.launch.preview.rank_grid_model import board_model
from torchdeck_app.theme.theme import Theme

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def view(qtbot: QtBot, theme: Theme, operations: Operations) -> PlacementView:
    made = PlacementView(theme, operations)
    qtbot.addWidget(made)
    made.resize(760, 560)
    made.show()
    qtbot.waitExposed(made)
    return made


def show(view: PlacementView, made: Preview, nodes: int, gpus: int) -> None:
    view.show_state(
        PreviewState(preview=made, plan=made.plan, board=board_model(made, machines(nodes, gpus)))
    )


def middle(box: Box) -> QPoint:
    return QPoint(box.left + box.width // 2, box.top + box.height // 2)


def cell(view: PlacementView, node: int, slot: int) -> QPoint:
    box = view.board.layout_now.cell(node, slot)
    return QPoint(box.left + 12, box.bottom - 12)


def heading(view: PlacementView, node: int) -> QPoint:
    card = view.board.layout_now.cards[node]
    return QPoint(card.left + card.width // 2, card.top + 16)


def switch(view: PlacementView, spot: Spot) -> QPoint:
    box = view.board.layout_now.switch(spot)
    assert box is not None
    return middle(box)


def test_a_rank_is_told_of_when_it_is_pressed(qtbot: QtBot, view: PlacementView) -> None:
    show(view, with_memory(preview(2, 2), memory(0, 3, peak=40)), 2, 2)
    assert view.details.title == "4 ranks on 2 nodes, ddp over nccl"
    qtbot.mouseClick(view.board.viewport(), LEFT, pos=cell(view, 1, 0))
    assert view.details.title == "rank 2, cuda:0 of n0001"
    assert view.details.values[0] == "40.0/80.0 GiB, 50 %"
    qtbot.waitUntil(lambda: "samples" in view.details.values[2], timeout=20_000)
    assert view.details.values[3] == "2 tensors"
    qtbot.keyClick(view.board, Qt.Key.Key_Escape)
    assert view.details.title == "4 ranks on 2 nodes, ddp over nccl"


def test_an_edit_does_not_blank_what_is_said_of_a_rank(qtbot: QtBot, view: PlacementView) -> None:
    show(view, with_memory(preview(1, 2), memory(0, 1, peak=40)), 1, 2)
    view.board.select(Spot(0, 1))
    qtbot.waitUntil(lambda: "samples" in view.details.values[2], timeout=20_000)
    before = view.details.values
    show(view, with_memory(preview(1, 2), memory(0, 1, peak=60)), 1, 2)
    assert view.details.values[0] == "60.0/80.0 GiB, 75 %"
    assert view.details.values[2:] == before[2:]


def test_a_device_and_a_node_are_switched_off_by_a_click(qtbot: QtBot, view: PlacementView) -> None:
    show(view, preview(2, 2), 2, 2)
    board = view.board.viewport()
    with qtbot.waitSignal(view.change_asked) as asked:
        qtbot.mouseClick(board, LEFT, pos=switch(view, Spot(0, 1)))
    assert asked.args == [{"distributed.devices": [0]}]
    assert view.told.text() == "1 other node described with it changed too"
    with qtbot.waitSignal(view.change_asked) as asked:
        qtbot.mouseClick(board, LEFT, pos=switch(view, Spot(1)))
    assert asked.args == [{"distributed.nodes": ["n0000"]}]


def test_a_device_of_described_machines_is_switched_by_its_path(qtbot: QtBot, view: PlacementView) -> None:
    cluster = {"nodes": [{"name": "n[0000-0001]", "gpus": 2, "memory": "80GiB"}]}
    show(view, preview(2, 2, cluster=cluster), 2, 2)
    with qtbot.waitSignal(view.change_asked) as asked:
        qtbot.mouseClick(view.board.viewport(), LEFT, pos=switch(view, Spot(1, 0)))
    assert asked.args == [{("cluster", "nodes", 0, "devices"): [1]}]


def test_what_is_switched_off_stays_and_comes_back_by_the_keyboard(qtbot: QtBot, view: PlacementView) -> None:
    show(view, preview(1, 2), 3, 2)
    assert [node.is_on for node in view.board.model.nodes] == [True, False, False]
    view.board.setFocus()
    for _ in range(3):
        qtbot.keyClick(view.board, Qt.Key.Key_Right)
    assert view.details.title == "n0001"
    with qtbot.waitSignal(view.change_asked) as asked:
        qtbot.keyClick(view.board, Qt.Key.Key_Space)
    assert asked.args == [{"distributed.nodes": ["n0000", "n0001"]}]
    with qtbot.waitSignal(view.change_asked) as asked:
        qtbot.mouseClick(view.details.switch, LEFT)
    assert asked.args == [{"distributed.nodes": ["n0000", "n0001"]}]


def test_what_cannot_be_is_said(qtbot: QtBot, view: PlacementView) -> None:
    show(view, preview(1, 2), 1, 2)
    with qtbot.assertNotEmitted(view.change_asked):
        qtbot.mouseClick(view.board.viewport(), LEFT, pos=switch(view, Spot(0)))
    assert view.told.isVisible()
    assert view.told.text() == "n0000 is the only node of the run: switch another one on first"
    qtbot.mouseClick(view.board.viewport(), LEFT, pos=cell(view, 0, 0))
    assert view.legend.isVisible()


def test_a_node_is_dragged_before_another(qtbot: QtBot, view: PlacementView) -> None:
    show(view, preview(3, 1), 3, 1)
    board = view.board.viewport()
    card = view.board.layout_now.cards[0]
    qtbot.mousePress(board, LEFT, pos=heading(view, 2))
    qtbot.mouseMove(board, heading(view, 1))
    qtbot.mouseMove(board, QPoint(card.left + 4, card.top + 20))
    assert view.board.marks.drop == 0
    with qtbot.waitSignal(view.change_asked) as asked:
        qtbot.mouseRelease(board, LEFT, pos=QPoint(card.left + 4, card.top + 20))
    assert asked.args == [{"distributed.nodes": ["n0002", "n0000", "n0001"]}]
    assert view.board.marks.drop is None


def test_a_node_is_moved_by_the_keyboard(qtbot: QtBot, view: PlacementView) -> None:
    show(view, preview(3, 1), 3, 1)
    qtbot.keyClick(view.board, Qt.Key.Key_Home)
    with qtbot.waitSignal(view.change_asked) as asked:
        qtbot.keyClick(view.board, Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    assert asked.args == [{"distributed.nodes": ["n0001", "n0000", "n0002"]}]
    with qtbot.assertNotEmitted(view.change_asked):
        qtbot.keyClick(view.board, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)


def test_the_keyboard_moves_a_node_past_those_that_are_off(qtbot: QtBot, view: PlacementView) -> None:
    show(view, preview(3, 1, distributed={"nodes": ["n0000", "n0002"]}), 3, 1)
    assert [node.is_on for node in view.board.model.nodes] == [True, False, True]
    qtbot.keyClick(view.board, Qt.Key.Key_Home)
    with qtbot.waitSignal(view.change_asked) as asked:
        qtbot.keyClick(view.board, Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    assert asked.args == [{"distributed.nodes": ["n0002", "n0000"]}]


def test_a_drag_is_given_up_by_escape(qtbot: QtBot, view: PlacementView) -> None:
    show(view, preview(3, 1), 3, 1)
    board = view.board.viewport()
    qtbot.mousePress(board, LEFT, pos=heading(view, 2))
    qtbot.mouseMove(board, heading(view, 1))
    qtbot.mouseMove(board, heading(view, 0))
    dragged = view.board.marks
    assert dragged.drop is not None
    qtbot.keyClick(view.board, Qt.Key.Key_Escape)
    assert view.board.marks.drop is None
    with qtbot.assertNotEmitted(view.change_asked):
        qtbot.mouseRelease(board, LEFT, pos=heading(view, 0))


def test_what_is_selected_stays_selected_when_its_node_moves(qtbot: QtBot, view: PlacementView) -> None:
    show(view, preview(2, 2), 2, 2)
    view.board.select(Spot(0, 1))
    show(view, preview(2, 2, distributed={"nodes": ["n0001", "n0000"]}), 2, 2)
    assert view.board.marks.selected == Spot(1, 1)
    assert view.details.title == "rank 3, cuda:1 of n0000"
    show(view, preview(1, 1), 1, 1)
    assert view.details.title == "n0000"


def wheel(view: PlacementView, point: QPoint, turned: int) -> QWheelEvent:
    """With Ctrl, at a point of the board."""
    return QWheelEvent(
        point,
        view.board.viewport().mapToGlobal(point),
        QPoint(),
        QPoint(0, turned),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.ControlModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )


def test_zoom_by_wheel_and_keys(qtbot: QtBot, view: PlacementView) -> None:
    show(view, preview(16, 8), 16, 8)
    fitting = view.board.step
    qtbot.keyClick(view.board, Qt.Key.Key_Plus, Qt.KeyboardModifier.ControlModifier)
    assert view.board.step == fitting + 1
    for _ in range(20):
        QApplication.sendEvent(view.board.viewport(), wheel(view, QPoint(50, 50), -120))
    assert view.board.step == 0
    assert STEPS[view.board.step].detail is Detail.TILES
    qtbot.keyClick(view.board, Qt.Key.Key_0, Qt.KeyboardModifier.ControlModifier)
    assert view.board.step == fitting


def test_the_board_is_panned_where_it_is_larger_than_the_room(qtbot: QtBot, view: PlacementView) -> None:
    show(view, preview(16, 8), 16, 8)
    view.board.zoom(3)
    bar = view.board.verticalScrollBar()
    assert bar.maximum() > 0
    qtbot.keyClick(view.board, Qt.Key.Key_End)
    assert bar.value() > 0
    value = bar.value()
    qtbot.mousePress(view.board.viewport(), LEFT, pos=QPoint(2, 40))
    qtbot.mouseMove(view.board.viewport(), QPoint(2, 140))
    qtbot.mouseRelease(view.board.viewport(), LEFT, pos=QPoint(2, 140))
    assert bar.value() == value - 100


def test_the_overview_is_panned_by_its_tiles(qtbot: QtBot, view: PlacementView) -> None:
    """They fill it: there is nothing between them to drag."""
    show(view, preview(3000, 1), 3000, 1)
    board = view.board
    board.zoom(-len(STEPS))
    bar, tile = board.verticalScrollBar(), board.layout_now.cards[0]
    assert bar.maximum() > 20
    start = QPoint(tile.left + 4, tile.top + 4 + 2 * (tile.height + board.layout_now.step.margin))
    assert board.layout_now.spot_at(start.x(), start.y()) is not None
    qtbot.mousePress(board.viewport(), LEFT, pos=start)
    qtbot.mouseMove(board.viewport(), start - QPoint(0, 20))
    assert bar.value() == 20
    assert board.marks.drop is None


def test_a_zoom_by_wheel_keeps_what_is_under_the_pointer(qtbot: QtBot, view: PlacementView) -> None:
    show(view, preview(16, 8), 16, 8)
    view.board.zoom(3)
    view.board.verticalScrollBar().setValue(100)
    point = QPoint(120, 60)
    at = point + view.board.shift
    before = view.board.layout_now.spot_at(at.x(), at.y())
    assert before is not None
    QApplication.sendEvent(view.board.viewport(), wheel(view, point, 120))
    at = point + view.board.shift
    after = view.board.layout_now.spot_at(at.x(), at.y())
    assert after is not None
    assert after.node == before.node


def test_the_keyboard_is_told_where_it_is(qtbot: QtBot, view: PlacementView) -> None:
    show(view, with_memory(preview(1, 2), memory(0, 1, peak=90, verdict="does not fit")), 1, 2)
    qtbot.keyClick(view.board, Qt.Key.Key_Right)
    said = view.board.accessibleDescription()
    assert said == "rank 0: cuda:0 of n0000\n90.0 GiB of 80.0 GiB, 112 %: does not fit"
    assert "does not fit" in view.legend.accessibleDescription()
