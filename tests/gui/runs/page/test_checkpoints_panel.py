"""The checkpoints of a run, and what is done with them."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QMessageBox
from pytestqt.qtbot import QtBot

from support.cli.command_here import CommandHere
from support.values.checkpoint_files import flip, save
from support.values.histories import agent_started, event, started
from support.values.machines import config, plan
from support.values.made_runs import line
from support.values.run_homes import add_failed_run, add_live_run, add_run, run_id
from torchdeck.contract.layout import Home, RunLayout
from torchdeck.distributed.checkpoints.checkpoint_directory import CheckpointDirectory
from torchdeck.runs.follower import read_run
from torchdeck.use_cases.table.notes import change_notes
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.runs.page.checkpoints_panel import CheckpointsView
from torchdeck_app.theme.theme import Theme


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    return add_failed_run(tmp_path, 1)


@pytest.fixture
def view(qtbot: QtBot, theme: Theme, operations: Operations, layout: RunLayout) -> Iterator[CheckpointsView]:
    for step, loss in ((10, 2.0), (20, 3.0)):
        save(layout.checkpoints, step, metrics={"validation_loss": loss})
    made = CheckpointsView(theme, operations, layout)
    qtbot.addWidget(made)
    made.show_view(read_run(layout))
    made.show()
    made.entered()
    yield made
    made.closing()


def cell(view: CheckpointsView, row: int, column: int) -> str:
    return str(view.list.model().index(row, column).data())


def states(view: CheckpointsView) -> list[str]:
    return [cell(view, row, 4) for row in range(view.list.model().rowCount())]


def press(view: CheckpointsView, what: str) -> None:
    assert view.buttons[what].isEnabled()
    QTest.mouseClick(view.buttons[what], Qt.MouseButton.LeftButton)


def test_the_newest_complete_one_is_selected_and_the_best_named(qtbot: QtBot, view: CheckpointsView) -> None:
    qtbot.waitUntil(lambda: states(view) == ["● complete", "● complete"])
    assert [cell(view, row, 0) for row in (0, 1)] == ["20", "10"]
    assert cell(view, 1, 6) == "best"
    assert cell(view, 0, 5) == "any ranks, exactly on 1"
    assert view.selected is not None
    assert view.selected.info.step == 20


def test_verify_tells_the_sound_from_the_damaged(
    qtbot: QtBot, view: CheckpointsView, layout: RunLayout
) -> None:
    qtbot.waitUntil(lambda: len(states(view)) == 2)
    press(view, "verify")
    qtbot.waitUntil(lambda: states(view)[0].startswith("✓ verified"))
    flip(layout.checkpoints / "step_00000010" / "__0_0.distcp", 5)
    view.list.setCurrentIndex(view.list.model().index(1, 0))
    press(view, "verify")
    # the list may have read it already before it is told here
    qtbot.waitUntil(lambda: states(view)[1] == "✕ damaged" and "is damaged: " in view.said.text())
    assert "__0_0.distcp" in view.said.text()
    assert not view.buttons["resume"].isEnabled()


def test_what_was_verified_is_known_at_the_next_start_until_it_changes(
    qtbot: QtBot, view: CheckpointsView, theme: Theme, operations: Operations, layout: RunLayout
) -> None:
    qtbot.waitUntil(lambda: len(states(view)) == 2)
    press(view, "verify")
    qtbot.waitUntil(lambda: states(view)[0].startswith("✓ verified"))
    again = CheckpointsView(theme, operations, layout)
    qtbot.addWidget(again)
    again.entered()
    qtbot.waitUntil(lambda: len(states(again)) == 2)
    assert states(again)[0].startswith("✓ verified")
    assert states(again)[1] == "● complete"
    flip(layout.checkpoints / "step_00000020" / "__0_0.distcp", 5)
    qtbot.waitUntil(lambda: states(view) == states(again) == ["● complete", "● complete"])
    again.closing()


def test_a_verdict_of_the_terminal_shows_in_the_list(
    qtbot: QtBot, view: CheckpointsView, layout: RunLayout
) -> None:
    qtbot.waitUntil(lambda: len(states(view)) == 2)
    flip(layout.checkpoints / "step_00000010" / "__0_0.distcp", 5)
    terminal = CommandHere(layout.home.root)
    assert terminal.run("ckpt", "verify", layout.root.name, "--all").returncode == 1
    qtbot.waitUntil(lambda: states(view)[0].startswith("✓ verified") and states(view)[1] == "✕ damaged")
    assert not list(layout.root.rglob("verified*")), "the run itself is not written to"


def test_the_newest_resumes_the_run_and_an_older_one_begins_another(
    qtbot: QtBot, view: CheckpointsView, layout: RunLayout
) -> None:
    qtbot.waitUntil(lambda: len(states(view)) == 2)
    assert view.buttons["resume"].text() == "Resume from here"
    assert view.note.text().startswith("This run continues from step 20")
    with qtbot.waitSignal(view.resume_asked):
        press(view, "resume")
    view.list.setCurrentIndex(view.list.model().index(1, 0))
    assert view.buttons["resume"].text() == "New run from here"
    assert view.note.text().startswith("Starts a new run at step 10;")
    with qtbot.waitSignal(view.clone_asked) as caught:
        press(view, "resume")
    assert caught.args == [layout.checkpoints / "step_00000010"]


def test_delete_asks_once_in_words_of_what_is_lost(
    qtbot: QtBot, view: CheckpointsView, layout: RunLayout
) -> None:
    qtbot.waitUntil(lambda: len(states(view)) == 2)
    box = question(qtbot, view)
    assert "step_00000020" in box.text()
    assert "1 complete one stays" in box.informativeText()
    QTest.keyClick(box, Qt.Key.Key_Return)  # a press too many loses nothing
    qtbot.waitUntil(lambda: not view.findChildren(QMessageBox))
    box = question(qtbot, view)
    (delete,) = [button for button in box.buttons() if button.text() == "Delete"]
    QTest.mouseClick(delete, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not (layout.checkpoints / "step_00000020").exists())
    qtbot.waitUntil(lambda: len(states(view)) == 1)


def question(qtbot: QtBot, view: CheckpointsView) -> QMessageBox:
    """The question after a press on Delete, which comes once the other runs were looked at."""
    press(view, "delete")
    qtbot.waitUntil(lambda: len(view.findChildren(QMessageBox)) == 1)
    (box,) = view.findChildren(QMessageBox)
    return box


def test_a_checkpoint_of_a_pinned_run_or_of_a_shared_folder_is_kept_or_asked_for(
    qtbot: QtBot, view: CheckpointsView, layout: RunLayout
) -> None:
    qtbot.waitUntil(lambda: len(states(view)) == 2)
    home, ids = layout.home.root, (layout.root.name,)
    change_notes(home, ids, lambda note: replace(note, pinned=True))
    press(view, "delete")
    qtbot.waitUntil(lambda: "is not deleted: the run is pinned" in view.said.text())
    change_notes(home, ids, lambda note: replace(note, pinned=False))
    sharing = shutil.copytree(layout.root, Home(home).run(run_id(9)).root, ignore=lambda *_: ["checkpoints"])
    plan = json.loads((sharing / "plan.json").read_text())
    plan["checkpoint"]["directory"] = str(layout.checkpoints)
    (sharing / "plan.json").write_text(json.dumps(plan))
    assert "1 other run with the same folder would lose it" in question(qtbot, view).informativeText()


def test_an_export_without_torch_or_room_says_why(
    qtbot: QtBot, view: CheckpointsView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    qtbot.waitUntil(lambda: view.selected is not None)
    row = view.selected
    assert row is not None
    view.export(row, tmp_path / "out")
    qtbot.waitUntil(lambda: "/bin/false ended with exit code 1" in view.said.text())
    assert view.buttons["export"].isEnabled()


def test_a_save_shows_while_it_happens(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path
) -> None:
    layout = add_live_run(tmp_path, 1)
    made = CheckpointsView(theme, operations, layout)
    qtbot.addWidget(made)
    made.show_view(read_run(layout))
    made.entered()
    layout.checkpoints.mkdir()
    CheckpointDirectory(layout.checkpoints).make_temporary(layout.checkpoints / ".tmp-step_00000040-1")
    qtbot.waitUntil(lambda: states(made) == ["◐ being saved"])
    assert not made.buttons["delete"].isEnabled()
    made.closing()


def test_how_long_ago_it_was_verified_goes_on_though_nothing_changes(
    qtbot: QtBot, view: CheckpointsView
) -> None:
    view.clock.setInterval(100)
    qtbot.waitUntil(lambda: len(states(view)) == 2)
    press(view, "verify")

    def seconds() -> int:
        said = re.fullmatch(r"✓ verified (\d+) s ago", states(view)[0])
        return 0 if said is None else int(said[1])

    qtbot.waitUntil(lambda: seconds() >= 2)  # a busy machine passes over one of them


def test_a_run_without_a_checkpoint_says_whether_one_comes(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path
) -> None:
    def said(layout: RunLayout, kind: str) -> str:
        made = CheckpointsView(theme, operations, layout)
        qtbot.addWidget(made)
        made.show_view(replace(read_run(layout), kind=kind))
        return " ".join(each.text() for each in made.empty.findChildren(QLabel))

    assert "appear here when a save begins" in said(add_live_run(tmp_path, 1), kind="recipe")
    assert "ended before its first save" in said(add_failed_run(tmp_path, 2), kind="recipe")
    assert "appears here as soon as it is complete" in said(add_failed_run(tmp_path, 3), kind="script")


def test_a_checkpoint_that_the_agent_did_not_notice_is_named(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path
) -> None:
    """As when the machine lost power just after the save."""
    script = {"script": str(tmp_path / "train.py"), "working_dir": str(tmp_path)}
    layout = add_failed_run(tmp_path / "home", 1)
    layout.attempt(1).root.mkdir(parents=True, exist_ok=True)
    layout.attempt(1).plan.write_text(json.dumps(plan(config(script)).to_json()))
    view = CheckpointsView(theme, operations, layout)
    qtbot.addWidget(view)
    view.show_view(replace(read_run(layout), kind="script"))
    (tmp_path / "ckpt.pt").write_bytes(b"a format without an end mark")
    view.show()
    view.entered()

    def said() -> str:
        return " ".join(each.text() for each in view.empty.findChildren(QLabel))

    qtbot.waitUntil(lambda: f"{tmp_path / 'ckpt.pt'} was written after the run started" in said())
    assert "No checkpoints" not in said()
    view.closing()


def test_what_a_script_wrote_by_itself_is_listed_verified_and_exported(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path
) -> None:
    """With step, size, trainer and name; its pickles are not read, and its program deletes them."""
    saved = tmp_path / "out" / "checkpoint-40"
    saved.mkdir(parents=True)
    (saved / "trainer_state.json").write_text('{"global_step": 40}')
    (saved / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    seen = {"step": 40, "path": str(saved), "size": 33, "kind": "hf", "changed": saved.stat().st_mtime}
    layout = add_run(tmp_path / "home", 2, [agent_started(), started(), event("checkpoint", **seen)])
    view = CheckpointsView(theme, operations, layout)
    qtbot.addWidget(view)
    view.show_view(read_run(layout))
    view.show()
    view.entered()
    qtbot.waitUntil(lambda: states(view) == ["● complete"])
    assert [cell(view, 0, column) for column in (0, 2, 5, 6)] == [
        "40",
        "33 B",
        "Hugging Face Trainer",
        "out/checkpoint-40",
    ]
    assert not view.buttons["delete"].isEnabled()
    press(view, "verify")
    qtbot.waitUntil(lambda: "nothing damaged was found, but 1 file has no checksum" in view.said.text())
    assert "sound" not in view.said.text()
    qtbot.waitUntil(lambda: states(view)[0].startswith("● checked "))
    row = view.selected
    assert row is not None
    view.export(row, tmp_path / "exported")
    qtbot.waitUntil(lambda: (tmp_path / "exported" / "model.safetensors").is_file())
    view.closing()


def test_a_copy_of_a_nodes_checkpoint_is_verified_here_and_begins_a_run_from_there(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path
) -> None:
    """The newest lies on the node alone: it can be neither verified nor exported in the window."""
    rows = [
        event("checkpoint", step=step, path=f"/data/out/checkpoint-{step}", size=4, kind="hf", changed=step)
        for step in (40, 60)
    ]
    layout = add_run(tmp_path / "home", 2, [agent_started(), started()])
    layout.node("node1").root.mkdir(parents=True)
    layout.node("node1").journal.write_text("".join(map(line, [agent_started(), *rows])))
    copy = layout.checkpoints / "node1/data/out/checkpoint-40"
    copy.mkdir(parents=True)
    (copy / "trainer_state.json").write_text('{"global_step": 40}')
    os.utime(copy / "trainer_state.json", (40.0, 40.0))
    view = CheckpointsView(theme, operations, layout)
    qtbot.addWidget(view)
    view.show_view(read_run(layout))
    view.show()
    view.entered()
    qtbot.waitUntil(lambda: states(view) == ["● complete", "● complete"])
    assert not view.buttons["verify"].isEnabled()
    view.list.setCurrentIndex(view.list.model().index(1, 0))
    assert view.buttons["verify"].isEnabled()
    with qtbot.waitSignal(view.clone_asked) as asked:
        press(view, "resume")
    assert asked.args == [Path("/data/out/checkpoint-40")]
    view.closing()
