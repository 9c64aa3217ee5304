"""Deletion of runs on the Runs page, as a person does it; runs are directories, and no process is started."""

import dataclasses
import json
from pathlib import Path

import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened, click, delete_asked, page_of, shown_run
from support.values.machines import config, node, plan
from support.values.run_homes import add_failed_run, add_live_run, add_run, run_id
from torchdeck.runs.folders.deletion import set_aside
from torchdeck.runs.folders.trash import in_trash
from torchdeck_app.runs.abilities import RunCommand


def test_nothing_is_deleted_without_asking(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    layouts = [add_run(tmp_path, number) for number in (1, 2)]
    (layouts[0].root / "weights").write_bytes(bytes(3 << 20))
    place = opened(tmp_path)
    page_of(qtbot, place, 1)
    said = delete_asked(qtbot, place, "Cancel")
    assert said.startswith('Delete "')
    assert "It takes 3.0 MiB here." in said
    place.table.list.selectAll()
    assert delete_asked(qtbot, place, "Cancel").startswith("Delete 2 runs? They take 3.")
    assert all(layout.root.exists() for layout in layouts)


def test_a_deleted_run_can_be_put_back_and_is_in_the_trash_otherwise(
    qtbot: QtBot, opened: Opened, tmp_path: Path
) -> None:
    layouts = [add_run(tmp_path, number) for number in (1, 2)]
    place = opened(tmp_path)
    page_of(qtbot, place, 2)
    delete_asked(qtbot, place)
    qtbot.waitUntil(lambda: not layouts[1].root.exists() and place.undo_bar.isVisible())
    rest, bar = place.table.list.geometry(), place.undo_bar
    for side in (rest.topLeft(), rest.topRight()):  # the bar is right below the list, and as wide
        assert bar.mapFrom(place, place.table.mapTo(place, side)).x() in (0, bar.width() - 1)
    assert shown_run(place) == run_id(1)  # what was deleted is no more in sight
    assert [entry.id for entry in place.table.selected()] == [run_id(1)]
    qtbot.waitUntil(lambda: [entry.id for entry in place.table.model.entries] == [run_id(1)])
    place.undo_bar.button.setFocus()
    click(place.undo_bar.button)
    assert place.window().focusWidget() is place.table.list
    qtbot.waitUntil(lambda: len(place.table.model.entries) == 2)
    assert not place.undo_bar.isVisible()
    qtbot.waitUntil(lambda: shown_run(place) == run_id(2))
    page_of(qtbot, place, 2)
    delete_asked(qtbot, place)
    qtbot.waitUntil(place.undo_bar.isVisible)
    place.undo_bar.expire()
    (trashed,) = in_trash(tmp_path)
    assert trashed.run_id == run_id(2)


def test_what_is_not_deleted_with_others_is_said(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    over, goes_on = add_run(tmp_path, 1), add_live_run(tmp_path, 2)
    place = opened(tmp_path)
    page_of(qtbot, place, 2)
    delete = place.actions_of_runs[RunCommand.DELETE]
    assert not delete.isEnabled()
    assert "Not now: the run is" in delete.toolTip()
    place.table.list.selectAll()
    qtbot.waitUntil(delete.isEnabled)
    assert "Not now" not in delete.toolTip()
    delete_asked(qtbot, place)
    qtbot.waitUntil(lambda: not over.root.exists())
    assert "is not deleted: the run is" in place.table.problem.text()
    assert goes_on.root.exists()


def test_what_a_forgotten_run_leaves_on_its_nodes_is_said_where_it_cannot_be_noted(
    qtbot: QtBot, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No one would carry that deletion on."""
    layout = add_run(tmp_path, 1)
    there = dataclasses.replace(node("n1", cores=1), remote=True)
    layout.plan.write_text(json.dumps(plan(config(distributed={"nodes": ["n1"]}), there).document()))
    place = opened(tmp_path)
    aside = set_aside(layout)
    (tmp_path / "deleted").touch()  # a file in place of the folder of notes
    monkeypatch.setattr("torchdeck.runs.folders.deletion.FORGOTTEN", -1.0)
    with qtbot.waitSignal(place.commands.failed, timeout=30_000) as caught:
        place.commands.go_on_deleting()
    assert caught.args is not None
    assert f"torchdeck runs delete {run_id(1)} --node n1" in caught.args[1]
    assert not aside.exists()


def test_the_last_run_deleted_leaves_what_teaches(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    add_failed_run(tmp_path, 1)
    place = opened(tmp_path)
    page_of(qtbot, place, 1)
    delete_asked(qtbot, place)
    qtbot.waitUntil(place.undo_bar.isVisible)
    assert place.page is None
    assert "No run is selected" in place.shown.empty_text
    place.undo_bar.expire()
    (button,) = [each for each in place.findChildren(QPushButton) if each.text() == "Go to Launch"]
    qtbot.waitUntil(button.isVisible)


def test_a_live_run_is_not_deleted(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    add_live_run(tmp_path, 1)
    place = opened(tmp_path)
    page_of(qtbot, place, 1)
    assert not place.actions_of_runs[RunCommand.DELETE].isEnabled()
    assert place.actions_of_runs[RunCommand.STOP].isEnabled()


def test_a_directory_removed_while_shown_is_said(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    layout = add_failed_run(tmp_path, 1)
    add_run(tmp_path, 2)
    place = opened(tmp_path)
    page = page_of(qtbot, place, 1)
    qtbot.waitUntil(page.card.isVisible)
    layout.root.rename(tmp_path / "elsewhere")
    page.poke()
    qtbot.waitUntil(lambda: "removed" in page.header.doing_now)
    assert not page.header.buttons[RunCommand.CLONE].isEnabled()
    able = {what: button.isEnabled() for what, button in page.card.buttons.items()}
    assert able == {"resume": False, "clone": False, "log": False, "source": False, "copy": True}
    qtbot.waitUntil(lambda: len(place.table.model.entries) == 1)
