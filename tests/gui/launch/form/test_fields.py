"""Single fields of the form: typing, choosing, clicking, and what the text says then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QCheckBox, QComboBox, QLineEdit

from support.gui.form_user import User, messages
from support.values.run_files import MINIMAL
from torchdeck.config.keys import all_keys
from torchdeck_app.launch.form.control_factory import LinesControl, PathControl, written_path
from torchdeck_app.launch.form.field_row import TablesControl
from torchdeck_app.launch.form.pair_table import PairsControl


def test_a_number_stays_as_it_is_typed(user: User) -> None:
    """In the text and in the field, as one step that undo takes back."""
    line = user.line("training.lr")
    assert (line.text(), line.placeholderText()) == ("", "0.001")
    user.type(line, "3e-4")
    assert user.document.text == MINIMAL + "lr = 3e-4\n"
    assert line.text() == "3e-4"
    assert user.row("training.lr").mark.text() == "•"
    assert user.document.undo_stack.undoText() == "training.lr = 3e-4"
    user.document.undo_stack.undo()
    user.settle()
    assert (line.text(), user.document.text) == ("", MINIMAL)
    assert user.row("training.lr").mark.text() == ""


def test_an_empty_field_shows_its_default_in_words(user: User) -> None:
    """As the description of the key names it."""
    assert user.line("run.working_dir").placeholderText() == "the folder of the run file"
    assert user.line("run.interpreter").placeholderText() == "Torchdeck's own Python"


def test_leaving_a_field_takes_its_value_over(user: User) -> None:
    """Tab goes to the next field that the eye meets."""
    user.type(user.line("training.microbatch"), "16", enter=False)
    user.bot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
    user.settle()
    assert user.table["training"]["microbatch"] == 16
    focused = QApplication.focusWidget()
    assert focused is not None
    assert focused.accessibleName() == "training.lr"


def test_escape_gives_up_what_was_typed(user: User) -> None:
    """Nothing is written."""
    line = user.line("training.steps")
    user.type(line, "77", enter=False)
    user.bot.keyClick(line, Qt.Key.Key_Escape)
    assert line.text() == "10"
    user.bot.keyClick(line, Qt.Key.Key_Return)
    assert user.document.text == MINIMAL


def test_what_is_being_typed_can_be_taken_over(user: User) -> None:
    """As it must be before a launch by shortcut."""
    user.type(user.line("training.steps"), "77", enter=False)
    user.form.take_over()
    assert user.table["training"]["steps"] == 77


def test_an_emptied_field_is_the_default(user: User) -> None:
    """The key leaves the text."""
    user.type(user.line("training.lr"), "0.5")
    user.type(user.line("training.lr"), "")
    assert user.document.text == MINIMAL


def test_the_reset_button_shows_in_the_field(user: User) -> None:
    """While the cursor is there, and takes the value out."""
    user.type(user.line("training.lr"), "0.5")
    row = user.row("training.lr")
    assert row.reset is not None
    assert row.reset.isVisible()
    user.line("training.microbatch").setFocus()
    assert not row.reset.isVisible()
    user.line("training.lr").setFocus()
    user.bot.mouseClick(row.reset, Qt.MouseButton.LeftButton)
    user.settle()
    assert user.document.text == MINIMAL


@pytest.mark.parametrize(
    ("name", "typed", "sentence"),
    [
        ("training.lr", "abc", '✕ "abc" is text. Expected: a number, greater than 0'),
        (
            "training.microbatch",
            "0",
            "✕ 0 is out of range. Expected: a whole number of samples, at least 1",
        ),
        (
            "training.microbatch",
            "1.5",
            "✕ 1.5 is a number. Expected: a whole number of samples, at least 1",
        ),
    ],
)
def test_a_wrong_value_is_written_and_said(user: User, name: str, typed: str, sentence: str) -> None:
    """Never changed to another one behind one's back; the field says in words what is wrong."""
    user.type(user.line(name), typed)
    assert messages(user.row(name)) == [sentence]
    assert user.line(name).text() == typed
    user.document.undo_stack.undo()
    user.settle()
    assert messages(user.row(name)) == []


def test_a_refusal_goes_with_the_value(user: User) -> None:
    """When the text changes the field, what could not be written is gone, and so is the reason."""
    user.open("[run]\nscript = 'train.py'\n")
    user.type(user.line("run.args"), "'a")
    user.document.set_value(("run", "args"), ["b"])
    user.settle()
    assert (user.line("run.args").text(), messages(user.row("run.args"))) == ("b", [])


def test_what_cannot_be_written_is_refused(user: User) -> None:
    """It stays in the field, with the reason, until it is mended or given up."""
    user.open("[run]\nscript = 'train.py'\n")
    line = user.line("run.args")
    user.type(line, "--name 'a")
    assert "args" not in user.document.text
    assert messages(user.row("run.args")) == ["✕ a quotation mark is not closed: add one at the end"]
    user.type(line, "--name 'a b'")
    assert user.table["run"]["args"] == ["--name", "a b"]
    assert messages(user.row("run.args")) == []


def test_choices_and_switches(user: User) -> None:
    """Each is one step; fields that the choice brings appear, and go again."""
    assert user.row("training.schedule").isVisible()
    momentum = user.form.groups["training"].rows[("training", "momentum")]
    assert not momentum.isVisible()
    box: QComboBox = user.within("training.optimizer", QComboBox)
    box.setFocus()
    user.bot.keyClicks(box, "s")
    user.settle()
    assert user.table["training"]["optimizer"] == "sgd"
    assert momentum.isVisible()
    check: QCheckBox = user.within("training.compile", QCheckBox)
    user.bot.mouseClick(check, Qt.MouseButton.LeftButton, pos=QPoint(8, check.height() // 2))
    user.settle()
    assert user.table["training"]["compile"] is True
    user.document.undo_stack.setIndex(0)
    user.settle()
    assert (box.currentText(), check.isChecked(), momentum.isVisible()) == ("adamw", False, False)


def wheel(widget: Any) -> None:
    middle = QPointF(widget.rect().center())
    event = QWheelEvent(
        middle, widget.mapToGlobal(middle), QPoint(0, -120), QPoint(0, -120), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(widget, event)


def test_the_wheel_scrolls_and_changes_nothing(user: User) -> None:
    """But for the field in which the cursor stands."""
    box: QComboBox = user.within("training.optimizer", QComboBox)
    user.line("training.lr").setFocus()
    wheel(box)
    assert user.document.text == MINIMAL
    box.setFocus()
    wheel(box)
    assert user.document.text == MINIMAL + 'optimizer = "adam"\n'


def test_a_word_or_a_number(user: User) -> None:
    """checkpoint.every takes both."""
    line = user.line("checkpoint.every")
    user.type(line, "100")
    assert user.table["checkpoint"]["every"] == 100
    user.type(line, "auto")
    assert user.table["checkpoint"]["every"] == "auto"


def test_a_word_is_taken_over_by_leaving_too(user: User) -> None:
    """Lines with words to choose from are left as others are; choosing a word is one step."""
    line = user.line("checkpoint.every")
    user.type(line, "100", enter=False)
    user.bot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
    assert user.table["checkpoint"]["every"] == 100
    box: QComboBox = user.within("checkpoint.every", QComboBox)
    box.setFocus()
    user.bot.keyClick(box, Qt.Key.Key_Down)
    user.settle()
    assert user.table["checkpoint"]["every"] == "auto"
    assert user.document.undo_stack.count() == 2


def test_variables_are_rows_of_name_and_value(user: User) -> None:
    """Added, renamed, changed and removed, each as one step."""
    pairs: PairsControl = user.within("run.env", PairsControl)
    assert QApplication.focusWidget() is pairs.add
    user.bot.mouseClick(pairs.add, Qt.MouseButton.LeftButton)
    user.type(pairs.rows[0].name, "OMP_NUM_THREADS")
    user.type(pairs.rows[0].value, "4")
    assert user.table["run"]["env"] == {"OMP_NUM_THREADS": "4"}
    assert len(pairs.rows) == 1
    user.type(pairs.rows[0].name, "MKL_NUM_THREADS")
    assert user.table["run"]["env"] == {"MKL_NUM_THREADS": "4"}
    user.type(pairs.rows[0].value, "8")
    assert user.table["run"]["env"] == {"MKL_NUM_THREADS": "8"}
    user.bot.mouseClick(pairs.rows[0].remove, Qt.MouseButton.LeftButton)
    user.settle()
    assert user.table["run"].get("env", {}) == {}
    assert user.document.undo_stack.count() == 4
    assert pairs.rows == []


def test_patterns_are_lines(user: User) -> None:
    """An empty one is taken out."""
    lines: LinesControl = user.within("telemetry.patterns", LinesControl)
    for number, pattern in enumerate(("a=(?P<a>.)", "b=(?P<b>.)")):
        user.bot.mouseClick(lines.add, Qt.MouseButton.LeftButton)
        user.type(lines.lines[number], pattern)
    assert user.table["telemetry"]["patterns"] == ["a=(?P<a>.)", "b=(?P<b>.)"]
    user.type(lines.lines[0], "")
    assert user.table["telemetry"]["patterns"] == ["b=(?P<b>.)"]
    assert [line.text() for line in lines.lines] == ["b=(?P<b>.)"]


def test_machines_are_cards(user: User) -> None:
    """Each with its fields; what is added is right as it is, and what is removed is gone."""
    tables: TablesControl = user.within("cluster.nodes", TablesControl)
    user.bot.mouseClick(tables.add, Qt.MouseButton.LeftButton)
    user.settle()
    user.bot.mouseClick(tables.add, Qt.MouseButton.LeftButton)
    user.settle()
    assert [node["gpu"] for node in user.table["cluster"]["nodes"]] == ["H100", "H100"]
    assert len(tables.cards) == 2
    row = tables.row_at(("cluster", "nodes", 1, "name"))
    assert row is not None
    user.type(row.findChildren(QLineEdit)[0], "b[0-3]")
    assert user.table["cluster"]["nodes"][1]["name"] == "b[0-3]"
    user.bot.mouseClick(tables.cards[0].remove, Qt.MouseButton.LeftButton)
    user.settle()
    assert [node["name"] for node in user.table["cluster"]["nodes"]] == ["b[0-3]"]
    assert len(tables.cards) == 1
    assert tables.row_at(("cluster", "nodes", 0, "name")).findChildren(QLineEdit)[0].text() == "b[0-3]"  # type: ignore[union-attr]


def test_a_chosen_path_is_relative_below_the_folder(user: User, tmp_path: Path) -> None:
    """And absolute elsewhere."""
    user.open("[run]\nscript = 'a.py'\n", tmp_path / "run.toml")
    control: PathControl = user.within("run.script", PathControl)
    control.take(str(tmp_path / "code" / "train.py"))
    user.settle()
    assert user.table["run"]["script"] == "code/train.py"
    assert written_path("/elsewhere/x.py", tmp_path) == "/elsewhere/x.py"


def test_a_refused_value_offers_the_nearest_that_works(user: User) -> None:
    """With one click, as one undo step; a form that may not be changed offers nothing."""
    user.type(user.line("training.microbatch"), "0")
    row = user.row("training.microbatch")
    (button,) = row.messages.buttons
    assert (button.text(), button.toolTip()) == ("Use 1", "<qt>Set microbatch = 1</qt>")
    user.form.set_read_only(read_only=True)
    assert not row.messages.buttons
    user.form.set_read_only(read_only=False)
    row.messages.buttons[0].click()
    user.settle()
    assert user.table["training"]["microbatch"] == 1
    assert messages(row) == []
    assert user.document.undo_stack.undoText() == "Set microbatch = 1"


def test_labels_are_names_in_sentence_case() -> None:
    keys = all_keys()
    assert keys["training", "microbatch"].label == "Batch size per GPU"
    assert keys["training", "weight_decay"].label == "Weight decay"
    assert all(key.label[0].isupper() for key in keys.values())
