"""The dialog of deleted runs, as a person uses it."""

import dataclasses
import json
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened
from support.system.free_port import free_port
from support.values.machines import config, node, plan
from support.values.run_homes import add_run, run_id
from torchdeck.nodes.inventory.file import inventory_path
from torchdeck.runs.folders.node_parts import left_on_nodes
from torchdeck.use_cases.delete import move_to_trash
from torchdeck_app.runs.abilities import RunCommand
from torchdeck_app.runs.runs_page import RunsPage
from torchdeck_app.runs.trash_dialog import TrashDialog


def dialog_of(qtbot: QtBot, place: RunsPage, count: int) -> TrashDialog:
    place.actions_of_runs[RunCommand.TRASH].trigger()
    (dialog,) = place.findChildren(TrashDialog)
    qtbot.waitUntil(lambda: dialog.list.topLevelItemCount() == count)
    return dialog


def answer(qtbot: QtBot, dialog: TrashDialog, button: str) -> str:
    """Ask for emptying, and press a button of the question; what is said in it."""
    qtbot.mouseClick(dialog.empty, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(dialog.findChildren(QMessageBox)))
    (question,) = dialog.findChildren(QMessageBox)
    said = question.informativeText()
    next(each for each in question.buttons() if each.text() == button).click()
    qtbot.waitUntil(lambda: not dialog.findChildren(QMessageBox))
    return said


def test_a_deleted_run_comes_back(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    layouts = [add_run(tmp_path, number) for number in (1, 2)]
    move_to_trash(layouts[1])
    place = opened(tmp_path)
    dialog = dialog_of(qtbot, place, 1)
    assert not dialog.restore.isEnabled()
    dialog.list.selectAll()
    qtbot.mouseClick(dialog.restore, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: len(place.table.model.entries) == 2)
    qtbot.waitUntil(lambda: dialog.told.text() == "The trash is empty.")
    assert not dialog.empty.isEnabled()
    assert layouts[1].root.is_dir()


def test_emptying_asks_with_the_room_that_it_frees(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    layouts = [add_run(tmp_path, number) for number in (1, 2, 3)]
    (layouts[1].root / "weights").write_bytes(bytes(5 << 20))
    for layout in layouts[1:]:
        move_to_trash(layout)
    place = opened(tmp_path)
    dialog = dialog_of(qtbot, place, 2)
    assert dialog.told.text().startswith("2 runs, 5.")

    assert answer(qtbot, dialog, "Cancel").startswith("This frees 5.")
    assert dialog.list.topLevelItemCount() == 2
    answer(qtbot, dialog, "Remove")
    qtbot.waitUntil(lambda: dialog.told.text() == "The trash is empty.")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [layouts[0].root.name]


def test_it_may_be_closed_while_it_works(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    add_run(tmp_path, 1)
    move_to_trash(add_run(tmp_path, 2))
    place = opened(tmp_path)
    place.actions_of_runs[RunCommand.TRASH].trigger()
    (dialog,) = place.findChildren(TrashDialog)
    dialog.close()
    qtbot.waitUntil(lambda: not place.findChildren(TrashDialog))
    qtbot.waitUntil(lambda: not place.commands._operations.running)


def test_what_a_deleted_run_leaves_on_its_nodes_is_said(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    """Once it is removed for good; with the command that removes the rest later."""
    there = dataclasses.replace(node("n1", cores=1), remote=True)
    document = plan(config(distributed={"nodes": ["n1"]}), there).document()
    layouts = [add_run(tmp_path, number) for number in (1, 2)]
    layouts[1].plan.write_text(json.dumps(document))
    inventory_path(tmp_path).write_text(
        f'[nodes.n1]\naddress = "127.0.0.1"\nport = {free_port()}\nuser = "nobody"\n'
    )
    move_to_trash(layouts[1])
    place = opened(tmp_path)
    dialog = dialog_of(qtbot, place, 1)
    answer(qtbot, dialog, "Remove")
    qtbot.waitUntil(lambda: "node n1: not removed there" in place.table.problem.text(), timeout=30_000)
    assert f"torchdeck runs delete {run_id(2)} --node n1" in place.table.problem.text()
    assert left_on_nodes(tmp_path) == {"n1": (run_id(2),)}  # for the next window, or `nodes clean`
    assert not layouts[1].root.exists()
