"""The Runs place, as a person uses it; runs are directories, and no process is started."""

import dataclasses
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPushButton
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened, click, delete_asked, page_of, shown_run
from support.values.histories import agent_started, ended, event, failure, finished, started
from support.values.made_runs import line
from support.values.metrics import write_rows
from support.values.run_homes import RUN_FILE, add_failed_run, add_live_run, add_run, run_id
from torchdeck.launching.requests import read_requests
from torchdeck.runs.folders.notes import Note, read_notes
from torchdeck.runs.table.views import TableView, read_views
from torchdeck.use_cases.table.notes import change_notes
from torchdeck_app.runs.abilities import RunCommand
from torchdeck_app.runs.comparison import names_of


def test_an_empty_home_leads_to_launch(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    place = opened(tmp_path)
    (button,) = [each for each in place.findChildren(QPushButton) if each.text() == "Go to Launch"]
    with qtbot.waitSignal(place.launch_asked):
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def test_a_run_that_comes_is_listed_and_told(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    place = opened(tmp_path)
    told: list[tuple[str, ...]] = []
    place.runs_changed.connect(lambda entries: told.append(tuple(entry.id for entry in entries)))
    place.open_run(run_id(1))  # it is on its way
    add_run(tmp_path, 1)
    qtbot.waitUntil(lambda: (run_id(1),) in told)
    page = page_of(qtbot, place, 1)
    assert page.header.state_word == "succeeded"
    assert [entry.id for entry in place.table.selected()] == [run_id(1)]


@pytest.mark.parametrize("bad", ["journal", "node", "metrics", "plan"])
def test_a_hostile_run_takes_nothing_from_the_others(
    qtbot: QtBot, opened: Opened, tmp_path: Path, bad: str
) -> None:
    """It is listed, too; the pages of both are there."""
    hostile, deep = add_run(tmp_path, 1), "[" * 100_000 + "]" * 100_000
    line_ = '{"v": 1, "t": 1e308, "m": 1, "event": "finished", "state": "FAILED", "n": ' + "9" * 400 + "}\n"
    if bad == "journal":
        hostile.journal.write_text(deep + "\n" + line_)
    elif bad == "node":
        hostile.node("bad").root.mkdir(parents=True)
        hostile.node("bad").journal.write_text(deep + "\n" + line_)
        hostile.node("bad").heartbeat.write_text('{"t": 1e999, "attempt": 1, "ranks": ' + deep + "}")
    elif bad == "metrics":
        write_rows(hostile.root, [(1, {"loss": 1.0})])
        (segment,) = hostile.root.glob("attempts/*/ranks/*/metrics/*.metrics")
        segment.write_bytes(segment.read_bytes()[:-24] + b"\xff" * 24)
    else:
        hostile.plan.write_text(deep)
    add_run(tmp_path, 2)
    place = opened(tmp_path)
    told: list[tuple[str, ...]] = []
    place.runs_changed.connect(lambda entries: told.append(tuple(entry.id for entry in entries)))
    qtbot.waitUntil(lambda: bool(told) and set(told[-1]) == {run_id(1), run_id(2)})
    assert page_of(qtbot, place, 2).header.state_word == "succeeded"
    assert page_of(qtbot, place, 1).header.state_word


def test_a_run_that_could_not_be_read_is_shown_once_it_can(
    qtbot: QtBot, opened: Opened, tmp_path: Path
) -> None:
    layout = add_run(tmp_path, 1)
    gone = layout.root.rename(tmp_path / "aside")
    layout.root.mkdir()
    place = opened(tmp_path)
    place.open_run(run_id(1))
    qtbot.waitUntil(lambda: "cannot be read" in place.shown.empty_text)
    layout.root.rmdir()
    gone.rename(layout.root)
    qtbot.waitUntil(lambda: shown_run(place) == run_id(1), timeout=20_000)


def test_stop_writes_a_request_and_says_so_until_it_is_taken(
    qtbot: QtBot, opened: Opened, tmp_path: Path
) -> None:
    layout = add_live_run(tmp_path, 1)
    place = opened(tmp_path)
    page = page_of(qtbot, place, 1)
    assert not page.header.buttons[RunCommand.RESUME].isEnabled()
    click(page.header.buttons[RunCommand.STOP])
    qtbot.waitUntil(lambda: len(read_requests(layout.control)) == 1)
    (request,) = read_requests(layout.control)
    assert (request.kind, request.origin) == ("stop", "window")
    qtbot.waitUntil(lambda: "waiting for the run" in page.header.doing_now)
    assert not page.header.buttons[RunCommand.STOP].isEnabled()
    with layout.node("localhost").journal.open("a") as file:
        file.write(line(event("request", id=request.id, kind="stop")))
        file.write(line(event("stopping", kind="graceful", why="user")))
    qtbot.waitUntil(lambda: page.header.state_word == "stopping")
    qtbot.waitUntil(lambda: "save and exit" in page.header.doing_now)
    assert page.header.buttons[RunCommand.STOP_NOW].isEnabled()
    click(page.header.buttons[RunCommand.STOP_NOW])
    qtbot.waitUntil(lambda: [each.kind for each in read_requests(layout.control)] == ["stop", "stop_now"])


def test_the_header_shows_how_much_of_the_time_trained(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    layout = add_run(tmp_path, 1)
    write_rows(layout.root, [(step, {"loss": 1.0}) for step in (1, 2, 3)])
    page = page_of(qtbot, opened(tmp_path), 1)
    qtbot.waitUntil(lambda: "goodput" in page.header.facts_shown)


def test_a_request_that_cannot_be_written_is_said_on_the_page(
    qtbot: QtBot, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_live_run(tmp_path, 1)
    place = opened(tmp_path)
    page = page_of(qtbot, place, 1)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("torchdeck.use_cases.stop.write_request", full)
    click(page.header.buttons[RunCommand.STOP])
    qtbot.waitUntil(lambda: "No space left" in page.problem.text())
    assert page.header.buttons[RunCommand.STOP].isEnabled()


def test_a_failed_run_says_which_rank_what_the_others_saw_and_what_to_do(
    qtbot: QtBot, opened: Opened, tmp_path: Path
) -> None:
    add_failed_run(tmp_path, 1)
    page = page_of(qtbot, opened(tmp_path), 1)
    qtbot.waitUntil(page.card.isVisible)
    report = page.card.report
    assert report is not None
    assert report.headline == "rank 1 failed with exit code 1"
    assert report.others == ("rank 0 was ended by SIGTERM: NCCL communicator was aborted",)
    assert "CUDA out of memory" in page.card.traceback.toPlainText()
    assert page.card.advice_title == "What to do: Out of memory on a GPU"
    assert not page.plots.isVisible()
    click(page.card.buttons["copy"])
    assert "line 7" in QGuiApplication.clipboard().text()
    page.card.set_folded(folded=True)
    assert page.plots.isVisible()
    click(page.card.buttons["log"])
    assert page.tabs.currentWidget() is page.logs


OWN = """\
Traceback (most recent call last):
  File "/home/ada/own/train.py", line 31, in main
    step(batch)
  File "/home/ada/own/train.py", line 22, in step
    loss = model(batch["tokens"])
KeyError: 'tokens'"""


@pytest.mark.parametrize("height", [560, 700, 1000])
def test_what_to_do_of_an_exception_of_one_s_own_is_read_without_scrolling(
    qtbot: QtBot, opened: Opened, tmp_path: Path, height: int
) -> None:
    first = failure(message=OWN.splitlines()[-1], traceback=OWN)
    gone = event("rank_exited", attempt=1, rank=1, code=1, signal=None)
    over = [gone, ended(outcome="failed", first=first), finished("FAILED", why="rank 1 failed")]
    add_run(tmp_path, 1, [agent_started(), started(world_size=2), *over])
    place = opened(tmp_path)
    place.resize(1200, height)
    card = page_of(qtbot, place, 1).card
    qtbot.waitUntil(lambda: card.isVisible() and card.report is not None)
    assert card.advice_title == "What to do: An exception in train.py"
    (advice,) = [each for each in card.findChildren(QLabel) if "fix it there. Then clone" in each.text()]
    qtbot.waitUntil(lambda: advice.visibleRegion().boundingRect() == advice.rect())


def test_resume_of_what_cannot_be_resumed_says_why(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    add_failed_run(tmp_path, 1)  # its plan is no real one
    page = page_of(qtbot, opened(tmp_path), 1)
    click(page.header.buttons[RunCommand.RESUME])
    qtbot.waitUntil(lambda: "cannot be resumed" in page.problem.text())


def test_clone_hands_out_the_file_with_what_was_said_on_top(
    qtbot: QtBot, opened: Opened, tmp_path: Path
) -> None:
    add_run(tmp_path, 1, source="/home/ada/run.toml", overrides=["training.lr=0.5"])
    place = opened(tmp_path)
    page = page_of(qtbot, place, 1)
    (name,) = (entry.name for entry in place.table.selected())
    assert place.windowTitle() == name
    with qtbot.waitSignal(place.clone_asked) as caught:
        click(page.header.buttons[RunCommand.CLONE])
    assert caught.args == [RUN_FILE.replace("3e-4", "0.5"), page.run_layout.root.name]


def test_what_cannot_be_read_is_shown_with_the_reason(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    layout = add_run(tmp_path, 1)
    layout.journal.write_text(line(event("created"), version=99))
    place = opened(tmp_path)
    place.open_run(run_id(1))
    qtbot.waitUntil(lambda: "newer Torchdeck" in place.shown.empty_text)
    assert place.page is None


def test_several_selected_runs_are_compared(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    for number in (1, 2):
        layout = add_run(tmp_path, number, strategy=("ddp", "fsdp")[number - 1])
        layout.config.write_text(RUN_FILE.replace("3e-4", f"{number}.5"))
        write_rows(layout.root, [(step, {"loss": 3.0 - number}) for step in range(5)])
    place = opened(tmp_path)
    page_of(qtbot, place, 1)
    place.table.list.selectAll()
    qtbot.waitUntil(lambda: place.shown.comparison is not None)
    comparison = place.shown.comparison
    assert comparison is not None
    qtbot.waitUntil(lambda: comparison.configuration.texts() == [("training.lr", "2.5", "1.5")])
    assert comparison.plots.names.isVisibleTo(comparison)
    names = names_of(comparison.entries, {})
    assert ["lr 2.5" in names[0], "lr 1.5" in names[1]] == [True, True]
    assert all(name in comparison.plots.names.accessibleName() for name in names)
    first = comparison.entries[0].id
    named = {first: Note(name="mine")}
    assert names_of(comparison.entries, named)[0].startswith("mine")
    assert names_of(comparison.entries, named)[1] == names[1]
    place.shown.set_notes(named)
    assert "mine" in comparison.plots.names.accessibleName()
    values = {row[0]: row[1:] for row in comparison.values.texts()}
    assert values["Loss"] == ("1.0000", "2.0000")
    assert values["Strategy"] == ("fsdp", "ddp")


def test_a_comparison_says_how_many_of_the_selected_runs_it_shows(
    qtbot: QtBot, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchdeck_app.runs.comparison.MOST", 8)
    for number in range(1, 10):
        add_run(tmp_path, number)
    place = opened(tmp_path)
    qtbot.waitUntil(lambda: len(place.table.model.entries) == 9)
    place.table.list.selectAll()
    qtbot.waitUntil(lambda: place.shown.comparison is not None)
    comparison = place.shown.comparison
    assert comparison is not None
    assert comparison._said.text() == "Showing the first 8 of 9 selected runs."
    assert comparison._title.text() == "8 runs compared"


def test_tags_and_notes_are_kept_beside_the_runs(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    add_run(tmp_path, 1)
    place = opened(tmp_path)
    page_of(qtbot, place, 1)
    place.notes.write((run_id(1),), Note(), Note(("best",), "warm-up helped"))
    qtbot.waitUntil(lambda: read_notes(tmp_path) == {run_id(1): Note(("best",), "warm-up helped")})
    QTest.keyClicks(place.table.filter_bar.field, "warm-up")
    qtbot.waitUntil(lambda: place.table.model.rowCount() == 1)


def test_the_next_window_shows_the_same_run_alike(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    """What `kill -9` leaves is the directories and the state that was saved last."""
    for number in (1, 2):
        add_run(tmp_path, number)
    first = opened(tmp_path)
    page = page_of(qtbot, first, 1)
    page.tabs.setCurrentIndex(3)
    first.table.filter_bar.field.setText("gpt")
    state = first.save_state()
    second = opened(tmp_path)
    second.restore_state({"table": 3, "splitter": "x", "shown": [], "run": None})
    second.restore_state(state)
    qtbot.waitUntil(lambda: second.page is not None)
    again = second.page
    assert again is not None
    assert again.run_layout.root.name == run_id(1)
    assert again.tabs.currentIndex() == 3
    assert second.save_state() == state


def test_every_control_has_a_name_and_a_tooltip(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    add_failed_run(tmp_path, 1)
    page = page_of(qtbot, opened(tmp_path), 1)
    mine = (page.header, page.card, page.replay, page.checkpoints, page.timeline, page.configuration)
    buttons = [button for part in mine for button in part.findChildren(QPushButton)]
    assert len(buttons) > 10
    assert [button.text() for button in buttons if not button.accessibleName() or not button.toolTip()] == []


def test_a_run_that_goes_on_from_another_leads_to_it(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    old = add_failed_run(tmp_path, 1)
    folder = str(old.checkpoints / "step_00000010")
    begun = [agent_started(), started(world_size=2, resume=folder, resume_step=10), ended(), finished()]
    add_run(tmp_path, 2, begun)
    place = opened(tmp_path)
    page = page_of(qtbot, place, 2)
    qtbot.waitUntil(page.header.origin.isVisible)
    assert page.header.origin.text() == "Continues from step 10 of gpt"
    QTest.mouseClick(page.header.origin, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: place.page is not None and place.page.run_layout == old)
    assert not page_of(qtbot, place, 1).header.origin.isVisible()


def test_a_run_that_went_on_from_one_that_is_gone_says_so(
    qtbot: QtBot, opened: Opened, tmp_path: Path
) -> None:
    folder = str(tmp_path / "runs" / "gone" / "checkpoints" / "step_00000010")
    add_run(tmp_path, 2, [agent_started(), started(world_size=2, resume=folder), ended(), finished()])
    place = opened(tmp_path)
    page = page_of(qtbot, place, 2)
    qtbot.waitUntil(page.header.origin.isVisible)
    QTest.mouseClick(page.header.origin, Qt.MouseButton.LeftButton)
    assert page.problem.text().startswith("gone is no longer in the list")


def test_a_view_is_saved_and_shown_again(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    add_run(tmp_path, 1)
    place = opened(tmp_path)
    qtbot.waitUntil(lambda: len(place.table.model.entries) == 1)
    place.table.filter_bar.field.setText("state = failed")
    place.table.set_columns(("training.lr",))
    place.table.view_menu.save_asked.emit("failures")
    qtbot.waitUntil(lambda: "failures" in [each.text() for each in place.table.view_menu.filled.actions()])
    wanted = place.table.view
    place.table.set_view(TableView())
    place.table.view_menu.view_asked.emit("failures")
    assert place.table.view == wanted
    assert read_views(tmp_path) == {"failures": wanted}
    place.table.view_menu.delete_asked.emit("failures")
    qtbot.waitUntil(lambda: not read_views(tmp_path))


def test_runs_are_pinned_renamed_and_named_alike_in_questions(
    qtbot: QtBot, opened: Opened, tmp_path: Path
) -> None:
    """A pinned run is not deleted; the question and the undo bar name a run as the list does."""
    layouts = [add_run(tmp_path, number) for number in (1, 2)]
    for layout, lr in zip(layouts, ("0.1", "0.2"), strict=True):
        layout.config.write_text(f"[training]\nlr = {lr}\n")
    place = opened(tmp_path)
    qtbot.waitUntil(lambda: place.table.select(run_id(1)))
    pin, delete = (place.actions_of_runs[each] for each in (RunCommand.PIN, RunCommand.DELETE))
    pin.trigger()
    qtbot.waitUntil(lambda: pin.text() == "Unpin")
    assert place.table.model.shown_rows()[0].entry.id == run_id(1)
    assert not delete.isEnabled()
    assert "pinned" in delete.toolTip()
    pin.trigger()
    qtbot.waitUntil(delete.isEnabled)
    assert delete_asked(qtbot, place, "Cancel").startswith('Delete "gpt · lr 0.1"?')
    change_notes(
        tmp_path, (run_id(1),), lambda note: dataclasses.replace(note, name="mine")
    )  # in another window
    qtbot.waitUntil(lambda: place.table.selected_rows()[0].label == "mine · lr 0.1")
    delete_asked(qtbot, place)
    qtbot.waitUntil(place.undo_bar.isVisible)
    (told,) = place.undo_bar.findChildren(QLabel)
    assert told.text() == '"mine · lr 0.1" moved to the trash.'
