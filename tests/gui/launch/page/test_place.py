"""The Launch place as a person uses it; nothing is started for real."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QFileDialog, QLineEdit, QMessageBox
from pytestqt.qtbot import QtBot

from support.gui.launch_place import SCRIPT, Make, has_document, opened, press, write_script
from support.values.made_runs import IDS, make_run
from torchdeck.config.starting_files import preset_names, preset_text
from torchdeck.contract.journal import Event
from torchdeck.quantities import moment
from torchdeck_app.launch.files.diff_dialog import DiffDialog
from torchdeck_app.launch.launch_page import LaunchPage


def test_the_first_start_offers_every_preset(qtbot: QtBot, place: LaunchPage) -> None:
    qtbot.waitUntil(lambda: len(place.start_page.cards) == len(preset_names()), timeout=30_000)
    assert not has_document(place)
    assert not place.actions_here.launch.isEnabled()
    QTest.mouseClick(place.start_page.cards[0].button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: has_document(place), timeout=30_000)
    assert place.document.text == preset_text("quickstart")
    assert place.document.path is None
    assert place.toolbar.name.text() == place.windowTitle() == "quickstart"
    assert "not saved" in place.toolbar.marker.text()
    qtbot.waitUntil(lambda: place.problems.header.text() == "✓ No problems", timeout=30_000)
    qtbot.waitUntil(lambda: place.service.state.plan is not None, timeout=60_000)
    place.service.cancel_tracing()


def test_form_and_text_are_views_of_one_document(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    """Ctrl+T changes between them, Ctrl+Z takes back what was done in either."""
    opened(qtbot, place, write_script(tmp_path))
    place.document.set_value(("distributed", "nproc"), 2)
    assert "nproc = 2" in place.editor.area.text()
    press(place, Qt.Key.Key_T)
    assert place.view == "toml"
    cursor = place.editor.area.document().find("nproc = 2")
    cursor.setPosition(cursor.selectionEnd())
    place.editor.area.setTextCursor(cursor)
    QTest.keyClicks(place.editor.area, "4")
    assert place.document.table["distributed"]["nproc"] == 24
    QTest.keyClick(place.editor.area, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert place.document.table["distributed"]["nproc"] == 2
    press(place, Qt.Key.Key_Z)
    assert place.document.text == SCRIPT
    press(place, Qt.Key.Key_Y)
    assert place.document.table["distributed"]["nproc"] == 2


def test_searching_is_for_the_view_in_sight(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    """Ctrl+F from within a field as from the text: one shortcut, and no other of the same keys."""
    opened(qtbot, place, write_script(tmp_path))
    qtbot.waitUntil(lambda: "run" in place.form.groups, timeout=30_000)
    place.form.reveal("run.script")
    field = QApplication.focusWidget()
    assert field is not None
    QTest.keyClick(field, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert place.form.search.hasFocus()
    place.show_view("toml")
    place.editor.area.setFocus()
    QTest.keyClick(place.editor.area, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert place.editor.bar.field.hasFocus()


def test_what_is_being_typed_is_saved_too(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    """Ctrl+S needs no Enter before it."""
    opened(qtbot, place, write_script(tmp_path))
    qtbot.waitUntil(lambda: "distributed" in place.form.groups, timeout=30_000)
    place.form.reveal("distributed.nproc")
    field = QApplication.focusWidget()
    assert isinstance(field, QLineEdit)
    field.selectAll()
    QTest.keyClicks(field, "4")
    press(place, Qt.Key.Key_S)
    qtbot.waitUntil(lambda: "nproc = 4" in (tmp_path / "run.toml").read_text(), timeout=30_000)


def test_text_that_is_no_toml_leads_from_the_form_to_its_line(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path
) -> None:
    run_file = write_script(tmp_path)
    run_file.write_text(SCRIPT + "what is this\n")
    opened(qtbot, place, run_file)
    qtbot.waitUntil(lambda: not place.form.unread.isHidden(), timeout=30_000)
    QTest.mouseClick(place.form.unread.button, Qt.MouseButton.LeftButton)
    assert place.view == "toml"
    assert place.editor.area.current_line() == 6


def test_a_damaged_file_is_changed_from_nowhere(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    run_file = write_script(tmp_path)
    run_file.write_bytes(SCRIPT.encode() + b"# f\xfc\n")
    opened(qtbot, place, run_file)
    qtbot.waitUntil(lambda: "distributed" in place.form.groups, timeout=30_000)
    text = place.document.text
    assert place.editor.area.isReadOnly()
    place.show_view("form")
    place.form.reveal("distributed.nproc")
    field = QApplication.focusWidget()
    assert isinstance(field, QLineEdit)
    assert field.isReadOnly()
    place.pane.change_asked.emit({"distributed.nproc": 2})
    assert "cannot be changed" in place.notice.text.text()
    assert place.document.text == text


def test_a_problem_leads_to_its_line(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    opened(qtbot, place, write_script(tmp_path))
    place.show_view("toml")
    place.document.set_text(SCRIPT.replace("nproc", "nprok"))
    qtbot.waitUntil(lambda: "distributed.nprok" in place.problems.header.text(), timeout=30_000)
    item = place.problems.list.item(0)
    QTest.mouseClick(
        place.problems.list.viewport(),
        Qt.MouseButton.LeftButton,
        pos=place.problems.list.visualItemRect(item).center(),
    )
    assert place.editor.area.current_line() == 4


def test_form_and_text_lead_each_other_side_by_side(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    """Where the page has room for both; below that one of them is visible, and the switch is back."""
    opened(qtbot, place, write_script(tmp_path))
    qtbot.waitUntil(lambda: "basic" in place.form.groups, timeout=30_000)
    assert not place.editor.isVisible()
    place.resize(1500, 720)
    assert place.form.isVisible()
    assert place.editor.isVisible()
    assert not place.toolbar.switches["toml"].isVisible()
    place.form.reveal("distributed.devices")
    qtbot.waitUntil(lambda: place.editor.area.current_line() == 5)
    place.editor.setFocus()
    place.editor.reveal(2)
    row = place.form.groups["basic"].row_at(("run", "script"))
    assert row is not None
    qtbot.waitUntil(row.autoFillBackground)
    assert (place.view, place.editor.area.hasFocus()) == ("toml", True)
    place.resize(1280, 720)
    assert not place.form.isVisible()
    assert place.toolbar.switches["toml"].isVisible()


def test_a_plan_that_does_not_fit_is_a_problem_too(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    run_file = write_script(tmp_path)
    run_file.write_text(SCRIPT.replace('"cpu"', "[0, 1]"))
    opened(qtbot, place, run_file)
    qtbot.waitUntil(lambda: "distributed.devices" in place.problems.header.text(), timeout=60_000)
    assert place.problems.rows[0].line == 5
    assert "no GPU" in place.editor.area.mark(5)
    row = place.form.groups["basic"].row_at(("distributed", "devices"))
    assert row is not None
    assert row.state.problems


def test_a_script_gets_a_run_file(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    place.open_path(tmp_path / "train.py")
    qtbot.waitUntil(lambda: has_document(place), timeout=30_000)
    assert place.document.path == tmp_path / "train.toml"
    assert "not saved" in place.toolbar.marker.text()
    press(place, Qt.Key.Key_S)
    qtbot.waitUntil((tmp_path / "train.toml").exists, timeout=30_000)
    qtbot.waitUntil(lambda: place.toolbar.marker.text() == "", timeout=30_000)


def test_saving_what_has_no_name_asks_for_one(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    place.open_text(SCRIPT, None, "clone of a/b")
    qtbot.waitUntil(lambda: has_document(place), timeout=30_000)
    press(place, Qt.Key.Key_S)
    dialog = place.files.dialog
    assert isinstance(dialog, QFileDialog)
    assert dialog.selectedFiles()[0].endswith("clone of a-b.toml")
    dialog.fileSelected.emit(str(tmp_path / "named.toml"))
    qtbot.waitUntil(lambda: place.document.path == tmp_path / "named.toml", timeout=30_000)
    assert (tmp_path / "named.toml").read_text() == SCRIPT
    dialog.reject()


def test_what_changed_since_a_run(qtbot: QtBot, place: LaunchPage, home: Path, tmp_path: Path) -> None:
    for run_id, nproc in zip(IDS, ("1", "4", "8"), strict=True):
        created = Event("created", 1e9, 1.0, {"name": f"try {nproc}"})
        make_run(home, [created], run_id=run_id).config.write_text(
            SCRIPT.replace("nproc = 1", f"nproc = {nproc}")
        )
    opened(qtbot, place, write_script(tmp_path))
    place.show_diff_to_run(IDS[1])
    dialog = place.findChild(DiffDialog)
    assert dialog is not None
    qtbot.waitUntil(lambda: dialog.view.keys.topLevelItemCount() == 1, timeout=30_000)
    item = dialog.view.keys.topLevelItem(0)
    assert item is not None
    assert [item.text(column) for column in range(3)] == ["distributed.nproc", "4", "1"]
    assert "-nproc = 4" in dialog.view.lines.toPlainText()
    assert dialog.chooser.currentText() == f"try 4, {moment(1e9)}"
    dialog.chooser.setCurrentIndex(dialog.chooser.findData(IDS[0]))
    dialog.chooser.activated.emit(dialog.chooser.currentIndex())
    qtbot.waitUntil(lambda: "Nothing differs" in dialog.view.summary.text(), timeout=30_000)
    dialog.reject()


def test_a_click_in_the_preview_is_one_step(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    opened(qtbot, place, write_script(tmp_path))
    place.pane.change_asked.emit({"distributed.nproc": 2, "launch.max_restarts": 1})
    assert place.document.table["launch"] == {"max_restarts": 1}
    place.document.undo_stack.undo()
    assert place.document.text == SCRIPT
    place.document.set_text("no toml")
    place.pane.change_asked.emit({"distributed.nproc": 2})
    assert "cannot be changed from here" in place.notice.text.text()


def test_a_node_of_the_book_is_put_into_the_run(qtbot: QtBot, home: Path, make: Make, tmp_path: Path) -> None:
    """The book is read when the place is entered; the comments of the file stay."""
    (home / "nodes.toml").write_text('[nodes.far]\naddress = "192.0.2.1"\n')
    place = make()
    run_file = write_script(tmp_path)
    run_file.write_text(SCRIPT + "# the end\n")
    opened(qtbot, place, run_file)
    strip = place.pane.placement.strip
    qtbot.waitUntil(lambda: [item.name for item in strip.items] == ["far"], timeout=30_000)
    qtbot.waitUntil(strip.isVisible, timeout=60_000)
    strip.setFocus()
    strip.setCurrentIndex(strip.model().index(0, 0))
    QTest.keyClick(strip, Qt.Key.Key_Return)
    assert place.document.table["distributed"]["nodes"] == ["far"]
    assert "# the end" in place.document.text
    place.document.undo_stack.undo()
    assert place.document.text == run_file.read_text()


def test_scripts_are_exported_from_the_menu(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    opened(qtbot, place, write_script(tmp_path))
    qtbot.waitUntil(place.pane.tabs.isVisible, timeout=60_000)
    place.actions_here.export_job.trigger()
    assert place.pane.tabs.currentWidget() is place.pane.commands
    (dialog,) = place.pane.commands.findChildren(QFileDialog)
    dialog.fileSelected.emit(str(tmp_path / "job.sbatch"))
    dialog.reject()
    qtbot.waitUntil((tmp_path / "job.sbatch").exists, timeout=30_000)
    assert "#SBATCH" in (tmp_path / "job.sbatch").read_text()


def test_there_is_nothing_to_export_without_a_preview(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path
) -> None:
    run_file = write_script(tmp_path)
    run_file.write_text(SCRIPT.replace("nproc = 1", "nproc = 0"))
    opened(qtbot, place, run_file)
    qtbot.waitUntil(lambda: "distributed.nproc" in place.problems.header.text(), timeout=30_000)
    assert not place.actions_here.export_scripts.isEnabled()
    assert not place.actions_here.export_job.isEnabled()


def test_everything_has_a_name_and_a_tooltip(qtbot: QtBot, place: LaunchPage, tmp_path: Path) -> None:
    """Of what this place has made itself."""
    opened(qtbot, place, write_script(tmp_path))
    qtbot.waitUntil(lambda: bool(place.start_page.cards), timeout=30_000)
    for room in (place.start_page, place.toolbar, place.control, place.notice, place.editor):
        for button in room.findChildren(QAbstractButton):
            if button.focusPolicy() is not Qt.FocusPolicy.NoFocus and type(button).__module__.startswith(
                "PySide6"
            ):
                assert button.accessibleName() or button.text(), button
                assert button.toolTip() or isinstance(button.parent(), QMessageBox), button.text()
    for action in place.actions_offered():
        assert action.text()
        assert action.toolTip()
        shortcut = action.shortcut().toString().replace("Return", "Enter")
        assert shortcut in action.toolTip()
    shortcuts = [key.toString() for action in place.actions_offered() for key in action.shortcuts()]
    assert len(shortcuts) == len(set(shortcuts))


@pytest.mark.parametrize("size", [(1280 - 80, 720 - 60), (1600, 1000)])
def test_it_fits_a_small_screen(
    qtbot: QtBot, place: LaunchPage, tmp_path: Path, size: tuple[int, int]
) -> None:
    """Checks and problems at once make nothing grow out of the window."""
    run_file = write_script(tmp_path)
    run_file.write_text(SCRIPT.replace('"cpu"', "[77]"))
    opened(qtbot, place, run_file)
    place.resize(*size)
    qtbot.waitUntil(lambda: bool(place.problems.rows), timeout=30_000)
    place.control.check()
    qtbot.waitUntil(
        lambda: place.control.panel.isVisible() and bool(place.control.panel.rows), timeout=30_000
    )
    qtbot.waitUntil(lambda: place.size().toTuple() == size, timeout=10_000)
    assert place.minimumSizeHint().height() <= size[1]
    for widget in (place.control.launch_button, place.control.check_button, place.toolbar.switches["toml"]):
        corner = widget.mapTo(place, widget.rect().bottomRight())
        assert place.rect().contains(corner), widget
