"""Stop and Stop now: what a second press of the same key does, and what is asked before steps are lost."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened, page_of
from support.values.histories import agent_started, event, finished, started
from support.values.made_runs import line
from support.values.metrics import write_rows
from support.values.run_entries import live_view, over_view, progress, run_id
from support.values.run_homes import add_live_run, add_run
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import RUN_ID_VARIABLE, ProcessIdentity
from torchdeck.launching.requests import read_requests
from torchdeck.runs.unsaved import unsaved_steps, what_is_lost
from torchdeck_app.runs.abilities import RunCommand
from torchdeck_app.runs.page.run_page import RunPage
from torchdeck_app.runs.runs_page import RunsPage


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    """A run that trains, and has logged 32 steps."""
    made = add_live_run(tmp_path, 1)
    write_rows(made.root, ((step, {"loss": 3.0}) for step in range(1, 33)))
    return made


def training(qtbot: QtBot, opened: Opened, tmp_path: Path) -> tuple[RunsPage, RunPage]:
    place = opened(tmp_path)
    place.activateWindow()
    qtbot.waitUntil(place.isActiveWindow)
    page = page_of(qtbot, place, 1)
    qtbot.waitUntil(lambda: page.seen_last is not None and page.seen_last.progress is not None)
    return place, page


def kinds(layout: RunLayout) -> list[str]:
    return [each.kind for each in read_requests(layout.control)]


def question(place: RunsPage) -> QMessageBox:
    (box,) = place.findChildren(QMessageBox)
    return box


def press(box: QMessageBox, text: str) -> None:
    (button,) = [each for each in box.buttons() if each.text() == text]
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


@pytest.mark.parametrize("by_key", [True, False])
def test_a_second_press_on_stop_presses_nothing(
    qtbot: QtBot, opened: Opened, tmp_path: Path, layout: RunLayout, *, by_key: bool
) -> None:
    place, page = training(qtbot, opened, tmp_path)
    stop = page.header.buttons[RunCommand.STOP]
    stop.setFocus()
    if by_key:
        QTest.keyClick(stop, Qt.Key.Key_Space)
    else:
        QTest.mouseClick(stop, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: kinds(layout) == ["stop"] and not stop.isEnabled())
    focused = place.window().focusWidget()
    assert focused is page.header
    QTest.keyClick(focused, Qt.Key.Key_Space)
    QTest.keyClick(focused, Qt.Key.Key_Return)
    assert not place.findChildren(QMessageBox)
    QTest.keyClick(focused, Qt.Key.Key_Tab)  # on from there is one's own step
    assert isinstance(place.window().focusWidget(), QPushButton)
    assert kinds(layout) == ["stop"]


def test_stop_now_asks_while_a_stop_is_about_to_save_what_it_loses(
    qtbot: QtBot, opened: Opened, tmp_path: Path, layout: RunLayout
) -> None:
    place, page = training(qtbot, opened, tmp_path)
    QTest.mouseClick(page.header.buttons[RunCommand.STOP], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: kinds(layout) == [RunCommand.STOP])
    QTest.mouseClick(page.header.buttons[RunCommand.STOP_NOW], Qt.MouseButton.LeftButton)
    box = question(place)
    assert "every step since its start is lost" in box.informativeText()
    QTest.keyClick(box, Qt.Key.Key_Return)  # the default keeps what there is
    qtbot.waitUntil(lambda: not place.findChildren(QMessageBox))
    assert kinds(layout) == [RunCommand.STOP]
    place.actions_of_runs[RunCommand.STOP_NOW].trigger()
    press(question(place), "Stop now")
    qtbot.waitUntil(lambda: kinds(layout) == ["stop", "stop_now"])


def test_stop_now_without_a_stop_before_is_done_at_once(
    qtbot: QtBot, opened: Opened, tmp_path: Path, layout: RunLayout
) -> None:
    place, page = training(qtbot, opened, tmp_path)
    button = page.header.buttons[RunCommand.STOP_NOW]
    assert "every step since its start is lost" in button.toolTip().lower()
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: kinds(layout) == ["stop_now"])
    assert not place.findChildren(QMessageBox)


def test_of_several_runs_it_is_asked_once(
    qtbot: QtBot, opened: Opened, tmp_path: Path, layout: RunLayout
) -> None:
    """Those that lose nothing end at once."""
    layouts = [layout, *(add_live_run(tmp_path, number) for number in (2, 3, 4))]
    for each in layouts[:3]:
        write_rows(each.root, ((step, {"loss": 3.0}) for step in range(1, 33)))
    place = opened(tmp_path)
    for number in (1, 2, 3):
        page_of(qtbot, place, number)
    place.table.list.selectAll()
    qtbot.waitUntil(lambda: all(each.progress for each in place.table.selected() if each.id != run_id(4)))
    place.table.list.selectAll()
    for each in layouts[:3]:
        place.commands.stop(each)
    qtbot.waitUntil(lambda: [kinds(each) for each in layouts] == [[RunCommand.STOP]] * 3 + [[]])
    place.actions_of_runs[RunCommand.STOP_NOW].trigger()
    qtbot.waitUntil(lambda: kinds(layouts[3]) == ["stop_now"])
    box = question(place)
    assert box.text() == "Stop 3 runs now, before they have saved?"
    assert box.informativeText().count("every step since its start is lost") == 3
    press(box, "Let them save")
    qtbot.waitUntil(lambda: not place.findChildren(QMessageBox))
    place.actions_of_runs[RunCommand.STOP_NOW].trigger()
    press(question(place), "Stop now")
    qtbot.waitUntil(lambda: all(kinds(each) == ["stop", "stop_now"] for each in layouts[:3]))


def test_the_question_goes_with_the_run(
    qtbot: QtBot, opened: Opened, tmp_path: Path, layout: RunLayout
) -> None:
    place, page = training(qtbot, opened, tmp_path)
    QTest.mouseClick(page.header.buttons[RunCommand.STOP], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: kinds(layout) == [RunCommand.STOP])
    QTest.mouseClick(page.header.buttons[RunCommand.STOP_NOW], Qt.MouseButton.LeftButton)
    assert question(place).isVisible()
    with layout.node("localhost").journal.open("a") as file:
        file.write(line(event("finished", 105.0, state="CANCELLED", why="stopped", resumable=True)))
    qtbot.waitUntil(lambda: not place.findChildren(QMessageBox))
    assert kinds(layout) == ["stop"]


def test_what_is_lost_in_words() -> None:
    live = live_view(run_id(1))
    assert what_is_lost(live, progress(132, checkpoint_step=100)) == (
        "32 steps since the checkpoint of step 100 are lost"
    )
    assert what_is_lost(live, progress(101, checkpoint_step=100)) == (
        "1 step since the checkpoint of step 100 is lost"
    )
    assert unsaved_steps(live, progress(100, checkpoint_step=100)) == 0
    assert unsaved_steps(live, None) == 0
    assert unsaved_steps(over_view(run_id(1)), progress(132)) == 0


def test_ranks_that_go_on_after_the_end_of_their_run_are_stopped(
    qtbot: QtBot, opened: Opened, tmp_path: Path
) -> None:
    """It says that they do, and the request stays under way until their node has it."""
    ended = [agent_started(), started(world_size=2), finished("FAILED")]
    layout = add_run(tmp_path, 1, ended)
    layout.node("node2").root.mkdir()
    alone = event("lead_lost", 104.5, unattended="continue", seconds=60.0)
    init = ProcessIdentity.of(1)
    assert init is not None
    followed = event("controller_started", identity=init.to_json(), epoch=1)
    with layout.journal.open("a") as file:
        file.write(line(followed))
    layout.node("node2").journal.write_text(line(alone))
    place = opened(tmp_path)
    page = page_of(qtbot, place, 1)
    stop = page.header.buttons[RunCommand.STOP]
    qtbot.waitUntil(stop.isEnabled)
    assert page.header.state_word == "failed"
    assert "ranks on node node2 continued without the leader" in page.header.warnings
    QTest.mouseClick(stop, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: kinds(layout) == ["stop"] and not stop.isEnabled())
    (request,) = read_requests(layout.control)
    taken = event("request", 105.0, id=request.id, kind="stop")
    with layout.node("node2").journal.open("a") as file:
        file.write(line(taken) + line(event("node_finished", 105.5, why="stopped", attempt=1)))
    qtbot.waitUntil(lambda: not page.header.warnings and not place.commands.under_way(run_id(1)))
    assert not stop.isEnabled()


@pytest.mark.parametrize("lives", [True, False])
def test_a_run_that_cannot_be_read_is_asked_to_stop_by_its_processes(
    qtbot: QtBot, opened: Opened, tmp_path: Path, *, lives: bool
) -> None:
    number = 100_000 + os.getpid() % 900_000  # other tests have a run 1, and nothing that lives
    unread = add_run(tmp_path, number)
    unread.journal.write_text(line(event("created"), version=99))
    environment = {**os.environ, RUN_ID_VARIABLE: run_id(number)} if lives else None
    with subprocess.Popen(["sleep", "60"], env=environment) as process:
        try:
            place = opened(tmp_path)
            place.open_run(run_id(number))
            action = place.actions_of_runs[RunCommand.STOP]
            qtbot.waitUntil(action.isEnabled)
            action.trigger()
            said = (
                "was asked to stop on this machine"
                if lives
                else f"no process of run {run_id(number)} is alive on"
            )
            qtbot.waitUntil(lambda: said in place.table.problem.text())
            assert kinds(unread) == ["stop"]
            assert action.isEnabled()
        finally:
            process.kill()


def test_a_lost_run_is_stopped_on_the_nodes_that_may_still_run_it(
    qtbot: QtBot, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = [agent_started(), started(world_size=2)]
    lost = add_run(tmp_path, 1, node)
    with lost.journal.open("a") as file:
        file.write(line(event("lost", 300.0, state="LOST", why="gone", life=0, nodes=["node2"])))
    controllers: list[RunLayout] = []

    def start_controller(layout: RunLayout, **_options: object) -> SimpleNamespace:
        controllers.append(layout)
        return SimpleNamespace(pid=1, exit_code=lambda: None)

    monkeypatch.setattr("torchdeck.launching.taking_over.start_controller", start_controller)
    monkeypatch.setattr("torchdeck.use_cases.kept_controller.KeptController.look", lambda *_: None)
    page = page_of(qtbot, opened(tmp_path), 1)
    assert page.header.state_word == "lost"
    QTest.mouseClick(page.header.buttons[RunCommand.STOP], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: page.problem.text() == "anything still running on node2 is ended when it answers")
    assert controllers == [lost]
    assert kinds(lost) == [], "a controller ends what is left without a request"
