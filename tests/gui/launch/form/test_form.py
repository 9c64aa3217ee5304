"""The form as a whole: its groups, its search, its ways, and that it follows the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QLineEdit

from support.gui.form_user import User, messages
from support.values.run_files import MINIMAL, write
from torchdeck.config.problems import Problem
from torchdeck.config.starting_files import preset_text
from torchdeck_app.launch.form.field_row import FieldRow
from torchdeck_app.launch.form.form_groups import BASIC
from torchdeck_app.launch.form.value_controls import ChoiceControl, LineControl
from torchdeck_app.widgets.tab_order import in_visual_order


def test_groups_open_by_mouse_and_keys(user: User) -> None:
    """Closed they say what is essential in them, and their fields are made when they are opened first."""
    group = user.form.groups["limits"]
    assert not group.isVisible()
    user.bot.mouseClick(user.form.more, Qt.MouseButton.LeftButton)
    assert group.isVisible()
    assert not group.rows
    user.bot.mouseClick(group.header, Qt.MouseButton.LeftButton)
    assert group.rows[("limits", "memory")].isVisible()
    for key, is_open in (
        (Qt.Key.Key_Left, False),
        (Qt.Key.Key_Right, True),
        (Qt.Key.Key_Return, False),
        (Qt.Key.Key_Space, True),
    ):
        user.bot.keyClick(group.header, key)
        assert group.is_open == is_open
        assert group.rows[("limits", "memory")].isVisible() == is_open
    assert user.form.groups["training"].header.accessibleName() == (
        "Training, accumulation 1 · adamw · constant"
    )


def test_another_document_begins_anew(user: User) -> None:
    """Neither search nor a chosen kind of the last one stays; no undo leads back to it."""
    user.form.kind_row.chosen.emit("module")
    user.form.search.setText("disk")
    user.open(preset_text("bdh"))
    assert user.form.search.text() == ""
    assert user.form.kind_row.box.currentText() == "Recipe"
    assert not user.form.groups[BASIC].rows[("run", "module")].isVisible()
    assert not user.document.undo_stack.canUndo()


def test_steps_and_epochs_exclude_each_other(user: User) -> None:
    """Setting one takes the other out, in one step."""
    user.type(user.line("training.epochs"), "2")
    assert user.table["training"] == {"epochs": 2}
    user.document.undo_stack.undo()
    assert user.document.text == MINIMAL


def test_a_script_in_place_of_a_recipe(user: User) -> None:
    """Chosen first, written once it is named; then what is a recipe's alone is gone from the form."""
    box = user.form.kind_row.box
    box.setFocus()
    user.bot.keyClicks(box, "s")
    assert user.document.text == MINIMAL
    user.type(user.line("run.script"), "train.py")
    assert user.table["run"] == {"script": "train.py"}
    user.form.more.setChecked(True)
    assert user.form.groups["training"].isVisible()  # it is written, and that is wrong
    user.document.set_values({"training.steps": None})
    user.document.set_text(user.document.text.replace("[training]\n", ""))
    user.settle()
    assert not user.form.groups["training"].isVisible()
    assert box.currentText() == "Script"


def test_a_text_that_is_no_toml_makes_the_form_wait(user: User) -> None:
    """It shows the last good values, takes no edits, and leads to the line."""
    user.document.set_text(MINIMAL + "[oops")
    user.settle()
    line = user.line("training.steps")
    assert (line.text(), line.isReadOnly()) == ("10", True)
    assert "not valid TOML" in user.form.banner.text.text()
    with user.bot.waitSignal(user.form.line_asked) as asked:
        user.bot.mouseClick(user.form.banner.button, Qt.MouseButton.LeftButton)
    assert asked.args == [6]
    user.document.undo_stack.undo()
    user.settle()
    assert (line.isReadOnly(), user.form.banner.isVisible()) == (False, False)


def test_a_new_text_that_is_no_toml_has_no_form(user: User) -> None:
    """Nothing of the document before is shown as if it were this one's; a button leads to the line."""
    user.line("training.steps").setFocus()
    assert user.form.help.name.text() == "training.steps"
    user.document.load("this is no = = toml\n", None)
    user.settle()
    assert not user.form.area.isVisible()
    assert not user.form.banner.isVisible()
    assert "not valid TOML" in user.form.unread.text
    assert user.form.unread.button.hasFocus()
    user.form.set_read_only(read_only=True)
    user.form.set_read_only(read_only=False)
    assert not user.form.area.isVisible()
    with user.bot.waitSignal(user.form.line_asked) as asked:
        user.bot.mouseClick(user.form.unread.button, Qt.MouseButton.LeftButton)
    assert asked.args == [1]
    user.document.set_text(MINIMAL)
    user.settle()
    assert user.form.area.isVisible()
    assert not user.form.unread.isVisible()
    assert not user.form.help.name.text().strip(), "what is explained was of the document before"
    assert user.line("training.steps").text() == "10"
    user.document.set_text(MINIMAL + "[oops")
    user.settle()
    user.form.show_planned([Problem("training.lr", "", None, "it is high", "3e-4")])
    assert user.line("training.steps").isReadOnly(), "it waits whatever the plan says"
    assert user.form.banner.isVisible()


def test_an_edit_of_the_text_shows_in_the_form(user: User) -> None:
    """What is being typed in a field stays."""
    lr = user.line("training.lr")
    user.type(lr, "0.12", enter=False)
    user.document.set_text(MINIMAL.replace("10", "20"))
    user.settle()
    steps = user.form.groups[BASIC].rows[("training", "steps")].findChildren(QLineEdit)[0]
    assert (steps.text(), lr.text()) == ("20", "0.12")
    user.bot.keyClick(lr, Qt.Key.Key_Return)
    assert user.table["training"] == {"steps": 20, "lr": 0.12}


def test_another_recipe_brings_its_own_fields(user: User) -> None:
    """Those of the one before are gone."""
    user.form.reveal("model.heads")
    rows = user.form.groups[BASIC].rows
    assert ("model", "neurons") not in rows
    user.type(user.line("run.recipe"), "bdh")
    assert ("model", "neurons") in user.form.groups[BASIC].rows
    assert user.line("run.recipe").hasFocus(), "the field stays, with its focus, while others come and go"
    user.type(user.line("run.recipe"), "mine.py")
    fields = user.form.groups[BASIC].rows
    assert [path for path in fields if path[0] == "model"] == [("model",)]


def test_the_search_finds_by_name_and_description(user: User) -> None:
    """In groups that were never open too; clearing it brings all back."""
    user.form.focus_search()
    assert user.form.search.hasFocus()
    user.bot.keyClicks(user.form.search, "free disk")
    seen = [
        row.state.key.name
        for group in user.form.groups.values()
        for row in group.rows.values()
        if row.isVisible()
    ]
    assert seen == ["limits.min_free_disk", "alerts.free_disk"]
    user.bot.keyClick(user.form.search, Qt.Key.Key_Return)
    focused = QApplication.focusWidget()
    assert focused is not None
    assert focused.accessibleName() == "limits.min_free_disk"
    user.form.search.clear()
    assert user.row("training.steps").isVisible()
    user.form.focus_search()
    user.bot.keyClicks(user.form.search, "zebra")
    assert user.form._nothing.isVisible()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("batch size", "training.microbatch"),
        ("mixed precision", "training.precision"),
        ("gradient accumulation", "training.accumulation"),
        ("world size", "distributed.nproc"),
        ("num workers", "data.workers"),
        ("output dir", "checkpoint.directory"),
        ("early stopping", "training.patience"),
        ("gradient checkpointing", "training.activation_checkpointing"),
    ],
)
def test_the_search_knows_what_other_trainers_call_it(user: User, words: str, name: str) -> None:
    user.form.search.setText(words)
    rows = [row for group in user.form.groups.values() for row in group.rows.values() if row.isVisible()]
    assert name in [row.state.key.name for row in rows]
    assert len(rows) < 8


def test_reveal_leads_to_elements_too(user: User) -> None:
    """A problem's key may be inside a value, or of a table without a field."""
    user.open(preset_text("cluster"))
    user.form.reveal("cluster.nodes[0].gpu")
    focused = QApplication.focusWidget()
    assert focused is not None
    assert focused.accessibleName() == "cluster.nodes.gpu"
    user.form.reveal("training")
    assert user.form.groups["training"].is_open
    assert user.form.groups["training"].isVisible(), "More is open"
    user.form.reveal("no.such.key")
    user.form.reveal("")


def test_help_and_what_the_plan_says(user: User) -> None:
    """The strip explains the field of the cursor; why no plan can be made stands below its field."""
    user.line("training.lr").setFocus()
    assert user.form.help.name.text() == "training.lr"
    assert "Peak learning rate" in user.form.help.text.text()
    user.form.show_planned([Problem("training.lr", "", None, "it is high", "3e-4")])
    assert messages(user.row("training.lr")) == ["✕ It is high. Expected: 3e-4"]
    user.form.show_planned([])
    assert messages(user.row("training.lr")) == []


def test_a_document_that_may_not_be_changed(user: User) -> None:
    """Neither by typing nor by choosing; once it may be, all works as before."""
    user.form.set_read_only(read_only=True)
    assert user.line("training.lr").isReadOnly()
    assert user.line("launch.restart_delay").isReadOnly(), "of a group that was not open yet"
    assert not user.form.kind_row.box.isEnabled()
    user.form.set_read_only(read_only=False)
    user.type(user.line("training.lr"), "0.5")
    assert user.table["training"]["lr"] == 0.5


def test_help_has_its_lines_and_no_more(user: User) -> None:
    """A long one ends in an ellipsis, whole words stand in the tooltip; the strip keeps its height."""
    height = user.form.help.height()
    user.line("distributed.nproc").setFocus()
    assert user.form.help.text.text().endswith("…")
    assert "when its device is gone" in user.form.help.text.toolTip().replace("\n", " ")
    assert user.form.help.height() == height


def test_f1_and_a_click_on_a_name_open_all_help(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """With default, example and the place in the reference (Shift+F1); F1 or Escape closes it again."""
    line = user.line("training.lr")
    user.bot.keyClick(line, Qt.Key.Key_F1)
    assert user.form.help.is_open
    shown = user.form.help.full.text()
    assert "Peak learning rate" in shown
    assert "lr = 0.001" in shown
    assert user.form.help.full.link.page == "reference/run-toml#training"
    pages: list[str] = []
    monkeypatch.setattr("torchdeck_app.launch.form.form.open_page", pages.append)
    user.bot.keyClick(line, Qt.Key.Key_F1, Qt.KeyboardModifier.ShiftModifier)
    assert pages == ["reference/run-toml#training"]
    user.bot.keyClick(line, Qt.Key.Key_Escape)
    assert user.form.help.text.isVisible()
    row = user.row("training.microbatch")
    user.bot.mouseClick(row, Qt.MouseButton.LeftButton, pos=row.name.geometry().center())
    assert user.form.help.is_open
    assert user.form.help.name.text() == "training.microbatch"


def test_inherited_values_stand_behind_the_field(user: User, tmp_path: Path) -> None:
    """They hold, and are not written here."""
    write(tmp_path, MINIMAL, "base.toml")
    user.open("extends = 'base.toml'\n")
    line = user.line("training.steps")
    assert (line.text(), line.placeholderText()) == ("", "10")
    assert messages(user.row("training.steps")) == ["from the file that this one extends"]


def test_undo_reaches_the_document_from_a_field(user: User) -> None:
    """Once nothing is being typed; while it is, undo is the field's own."""
    line = user.line("training.lr")
    user.type(line, "0.5")
    undo = user.document.undo_stack.createUndoAction(user.form)
    undo.setShortcut("Ctrl+Z")
    user.form.addAction(undo)
    user.bot.keyClicks(line, "1")
    user.bot.keyClick(line, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert (line.text(), user.document.undo_stack.index()) == ("0.5", 1)
    user.bot.keyClick(line, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert user.document.text == MINIMAL


def test_undo_reaches_the_document_from_the_empty_search(user: User) -> None:
    """The place opens with the keyboard there; with words in it undo is its own."""
    user.type(user.line("training.lr"), "0.5")
    undo = user.document.undo_stack.createUndoAction(user.form)
    undo.setShortcut("Ctrl+Z")
    user.form.addAction(undo)
    user.form.focus_search()
    user.bot.keyClicks(user.form.search, "lr")
    user.bot.keyClick(user.form.search, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert (user.form.search.text(), user.document.undo_stack.index()) == ("", 1)
    user.bot.keyClick(user.form.search, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert user.document.text == MINIMAL


def test_tab_goes_as_the_eye_does(user: User) -> None:
    """Through groups that were opened late, and out at the end."""
    user.form.reveal("model.layers")
    names = [widget.accessibleName() for widget in in_visual_order(user.form)]
    order = [names.index(name) for name in ("run.recipe", "model.layers", "training.steps")]
    assert order == sorted(order)
    assert names.index("run.recipe") + 1 == names.index("choose a file for run.recipe")


def test_every_control_has_a_name_and_a_tooltip(user: User) -> None:
    """For who cannot see it, and for who does not know it."""
    user.form.restore_state({"open": ["more", *user.form.groups]})
    for widget in in_visual_order(user.form):
        assert widget.accessibleName()
        around: Any = widget
        while not around.toolTip() and not isinstance(around, FieldRow) and around is not user.form:
            around = around.parentWidget()
        assert around.toolTip()


def test_open_groups_are_kept(user: User) -> None:
    """For the next start; what another version wrote is passed over."""
    user.form.restore_state({"open": ["limits", 3, "gone"]})
    assert [name for name, group in user.form.groups.items() if group.is_open] == [BASIC, "limits"]
    assert not user.form.more.isChecked()
    user.form.restore_state({"open": ["limits", "more"]})
    assert user.form.groups["limits"].rows[("limits", "memory")].isVisible()
    assert "limits" in user.form.save_state()["open"]
    user.form.restore_state({"open": 5})


def test_fields_stand_in_one_column(user: User) -> None:
    """Choices too, whose words would have more room, however narrow the form is."""
    user.open(preset_text("quickstart"))
    user.form.resize(460, 640)
    user.form.more.setChecked(True)
    for group in user.form.groups.values():
        group.set_open(is_open=True)
    user.settle()
    kinds = (ChoiceControl, LineControl)
    # inside of others, such as cards of machines, there are columns of their own
    rows = [row for row in user.form.findChildren(FieldRow) if isinstance(row.control, kinds)]
    lefts = {
        row.state.key.name: row.control.mapTo(user.form, QPoint(0, 0)).x()
        for row in rows
        if row.isVisible() and not row.state.key.repeated
    }
    assert "training.precision" in lefts
    assert "training.microbatch" in lefts
    assert len(set(lefts.values())) == 1, lefts
