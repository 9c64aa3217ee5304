"""Check and Launch from the place: what starts, what stands in the way, and what is asked before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot

from support.gui.launch_place import SCRIPT, has_document, opened, press, write_script
from torchdeck.contract.layout import RunLayout
from torchdeck_app.launch.check.check_rows import CheckRow, Remedy
from torchdeck_app.launch.launch_page import LaunchPage


def test_launch_from_the_keyboard(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path, started: list[RunLayout]
) -> None:
    """Ctrl+Enter twice starts one run; the window is told which."""
    opened(qtbot, place, write_script(tmp_path))
    with qtbot.waitSignal(place.run_started, timeout=60_000) as signal:
        press(place, Qt.Key.Key_Return)
        press(place, Qt.Key.Key_Return)
    assert [run.root.name for run in started] == signal.args
    created = json.loads(started[0].journal.read_text().splitlines()[0])
    assert created["source"] == str(tmp_path / "run.toml")


def test_what_is_said_of_a_start_goes_with_its_document(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path, started: list[RunLayout]
) -> None:
    """That it starts all the same is void once it has; what has started is void in another document."""
    run_file = write_script(tmp_path)
    place.open_path(tmp_path / "t.py")
    qtbot.waitUntil(lambda: place.notice.isVisible() and has_document(place), timeout=30_000)
    assert "launch it without saving" in place.notice.text.text()
    with qtbot.waitSignal(place.run_started, timeout=60_000):
        press(place, Qt.Key.Key_Return)
    assert not place.notice.isVisible()
    assert place.control.wait.text == f"Started {started[0].root.name}"
    opened(qtbot, place, run_file)
    assert place.control.wait.text == ""


def test_a_text_of_no_file_launches_without_saving(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path, started: list[RunLayout]
) -> None:
    """It works in a folder of its own, which is made."""
    write_script(tmp_path)
    place.open_text(SCRIPT.replace("t.py", str(tmp_path / "t.py")), None, "a clone")
    qtbot.waitUntil(lambda: has_document(place), timeout=30_000)
    with qtbot.waitSignal(place.run_started, timeout=60_000):
        place.actions_here.launch.trigger()
    plan = json.loads(started[0].plan.read_text())
    assert plan["nodes"][0]["working_dir"] == str(tmp_path / "drafts")
    assert (tmp_path / "drafts").is_dir()


def test_a_refused_launch_leads_to_the_list_of_problems(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path, started: list[RunLayout]
) -> None:
    """What is wrong is said once: the list has the keyboard, and Enter leads to the line."""
    run_file = write_script(tmp_path)
    run_file.write_text(SCRIPT.replace("nproc = 1", "nproc = 0"))
    opened(qtbot, place, run_file)
    press(place, Qt.Key.Key_Return)
    refused = "Launch blocked: 1 problem, see the list of problems"
    qtbot.waitUntil(lambda: place.control.wait.text == refused, timeout=30_000)
    assert place.control.panel.isHidden()
    assert [row.path for row in place.problems.rows] == ["distributed.nproc"]
    qtbot.waitUntil(place.problems.list.hasFocus)
    place.show_view("toml")
    QTest.keyClick(place.problems.list, Qt.Key.Key_Return)
    assert place.editor.area.current_line() == 4
    place.document.set_value(("distributed", "nproc"), 1)
    assert place.control.wait.text == ""
    assert not started


def test_a_check_says_only_what_the_list_of_problems_does_not(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path
) -> None:
    """A device that is not there stands in the list; what else was looked at, in the panel."""
    run_file = write_script(tmp_path)
    run_file.write_text(SCRIPT.replace('"cpu"', "[77]"))
    opened(qtbot, place, run_file)
    qtbot.waitUntil(lambda: bool(place.problems.rows), timeout=30_000)
    place.control.check()
    qtbot.waitUntil(lambda: place.control.panel.isVisible(), timeout=20_000)
    assert place.control.panel.title.text().endswith("; the list of problems has 1")
    assert "script" in [row.name for row in place.control.panel.rows]
    assert not {row.what for row in place.control.panel.rows} & {row.wrong for row in place.problems.rows}


def test_check_lists_everything(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    opened(qtbot, place, write_script(tmp_path))
    qtbot.waitUntil(lambda: place.service.state.plan is not None, timeout=60_000)
    QTest.mouseClick(place.control.check_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(place.control.panel.rows), timeout=60_000)
    assert "Ready to launch" in place.control.panel.title.text()
    assert "script" in [row.name for row in place.control.panel.rows]


def test_speeds_are_measured_on_request(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    """The list then has the speed of the disk; a list of problems offers no measurement."""
    opened(qtbot, place, write_script(tmp_path))
    qtbot.waitUntil(lambda: place.service.state.plan is not None, timeout=60_000)
    place.control.check()
    qtbot.waitUntil(lambda: bool(place.control.panel.rows), timeout=60_000)
    assert "disk speed" not in [row.name for row in place.control.panel.rows]
    QTest.mouseClick(place.control.panel.measure_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "disk speed" in [row.name for row in place.control.panel.rows], timeout=60_000)
    place.document.set_value(("run", "script"), "none.py")
    place.control.check()
    qtbot.waitUntil(lambda: "1 problem" in place.control.panel.title.text(), timeout=60_000)
    assert place.control.panel.measure_button.isHidden()


def test_a_check_right_after_an_edit_is_of_that_edit(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    """And what was checked of an older text is not shown for it."""
    opened(qtbot, place, write_script(tmp_path))
    qtbot.waitUntil(lambda: place.service.state.plan is not None, timeout=60_000)
    place.document.set_value(("run", "script"), "none.py")
    place.control.check()
    assert not place.control.panel.rows
    qtbot.waitUntil(lambda: bool(place.control.panel.rows), timeout=60_000)
    assert place.control.panel.rows[0].status == "failed"
    place.control.check()
    place.document.set_value(("run", "script"), "t.py")
    qtbot.waitUntil(lambda: "has changed" in place.control.wait.text, timeout=60_000)
    assert place.control.panel.isHidden()


def held_folder(place: LaunchPage) -> Path | None:
    """The folder that the preview asks to trust."""
    held = place.service.state.held
    return None if held is None else held.folder


def test_a_python_of_a_strange_folder_is_not_run_unasked(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path
) -> None:
    """Neither by the preview nor by a check."""
    python = tmp_path / "tools" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    python.chmod(0o700)
    run_file = write_script(tmp_path)
    run_file.write_text(SCRIPT.replace("[distributed]", 'interpreter = "tools/python"\n[distributed]'))
    opened(qtbot, place, run_file)
    qtbot.waitUntil(lambda: held_folder(place) == python.parent, timeout=60_000)
    assert place.service.state.preview is not None
    place.control.check()
    qtbot.waitUntil(lambda: bool(place.control.panel.rows), timeout=60_000)
    assert place.control.panel.rows[0].remedy is Remedy.TRUST
    assert not (tmp_path / "ran").exists()


def test_code_is_asked_about_before_it_runs(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path, started: list[RunLayout]
) -> None:
    write_script(tmp_path)
    code = tmp_path / "mine.py"
    code.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    run_file = tmp_path / "run.toml"
    run_file.write_text(
        SCRIPT.replace('script = "t.py"', 'recipe = "mine.py"')
        + '[limits]\nmemory = "off"\n[training]\nsteps = 1\n'
    )
    opened(qtbot, place, run_file)
    qtbot.waitUntil(lambda: "is not trusted yet" in place.pane.bar.text.text(), timeout=60_000)
    QTest.mouseClick(place.pane.bar.button, Qt.MouseButton.LeftButton)
    asked = place.control.dialog
    assert isinstance(asked, QMessageBox)
    next(button for button in asked.buttons() if "Cancel" in button.text()).click()
    assert held_folder(place) == tmp_path
    press(place, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: place.control.dialog is not asked, timeout=60_000)
    box = place.control.dialog
    assert isinstance(box, QMessageBox)
    assert str(tmp_path) in box.text()
    assert not (tmp_path / "ran").exists()
    next(button for button in box.buttons() if "Trust and launch" in button.text()).click()
    qtbot.waitUntil(lambda: bool(started), timeout=20_000)


def test_a_check_waits_for_the_trace_under_way(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    """Nothing is traced twice at a time; Cancel ends the wait."""
    opened(qtbot, place, write_script(tmp_path))
    qtbot.waitUntil(lambda: place.service.state.plan is not None, timeout=60_000)
    traced = place.service.state
    tracing = replace(traced, tracing="tracing the model: reading the data")
    place.service._state = tracing
    place.control.check()
    qtbot.waitUntil(lambda: "reading the data" in place.control.wait.text, timeout=20_000)
    assert not place.control.check_button.isEnabled()
    place.control.wait.cancel_button.click()
    assert place.control.check_button.isEnabled()
    place.control.check()
    place.service._state = traced
    place.service.updated.emit(traced)
    qtbot.waitUntil(lambda: bool(place.control.panel.rows), timeout=60_000)


def test_devices_that_are_held_can_be_waited_for(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path, started: list[RunLayout]
) -> None:
    """The button beside the check writes launch.queue, as a step that can be undone, and launches."""
    opened(qtbot, place, write_script(tmp_path))
    place.control.panel.show_rows((CheckRow("devices", "failed", "cuda:0 is held", "wait", Remedy.QUEUE),))
    with qtbot.waitSignal(place.run_started, timeout=60_000):
        place.control.panel.button(0).click()
    assert json.loads(started[0].plan.read_text())["policy"]["queue"] is True
    place.document.undo_stack.undo()
    assert place.document.text == SCRIPT


def test_a_batch_plan_that_is_missing_is_built_from_here(qtbot: QtBot, place: LaunchPage) -> None:
    """The preset for finetuning says what it needs, with the button that makes it."""
    place.new_from_preset("finetune")
    qtbot.waitUntil(lambda: place.notice.topic == "batch plan", timeout=20_000)
    assert place.service.state.preview is None
    QTest.mouseClick(place.notice.button("Build it …"), Qt.MouseButton.LeftButton)
    dialog = place.batch_plan.dialog
    assert dialog is not None
    assert dialog.budget.value() == 4096
    with qtbot.waitSignal(place.batch_plan.built, timeout=60_000):
        QTest.mouseClick(dialog.build_button, Qt.MouseButton.LeftButton)
    assert (place.document.folder / "plans" / "finetune" / "plan.json").is_file()
    qtbot.waitUntil(lambda: place.service.state.preview is not None, timeout=20_000)
    place.service.cancel_tracing()
