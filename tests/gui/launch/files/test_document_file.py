"""The document and its file: open, save, and what others do to the file meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.document.run_document import RunDocument
from torchdeck_app.launch.files import document_file, run_file
from torchdeck_app.launch.files.document_file import DocumentFile
from torchdeck_app.launch.files.document_sources import Beginning
from torchdeck_app.launch.files.file_control import FileControl
from torchdeck_app.launch.files.file_dialogs import FolderDialog, MergeDialog
from torchdeck_app.launch.files.notice import Notice
from torchdeck_app.launch.files.run_file import Stamp, stamp_of, write_text
from torchdeck_app.theme.theme import Theme

TEXT = '# mine\nname = "a"\n\n[run]\nrecipe = "byte-gpt"\n\n[training]\nsteps = 10\nlr = 0.1\n'


class Desk:
    """A document with its file, and what a person sees of it."""

    def __init__(self, theme: Theme, operations: Operations, window: QWidget, folder: Path) -> None:
        self.path = folder / "run.toml"
        self.path.write_text(TEXT)
        self.operations = operations
        self.document = RunDocument(folder / "drafts")
        self.file = DocumentFile(self.document, operations, interval=0.05)
        self.notice = Notice(theme, window)
        drafts = folder / "drafts"
        self.control = FileControl(self.file, self.document, operations, self.notice, window, drafts)

    def press(self, text: str) -> None:
        self.notice.button(text).click()

    @property
    def said(self) -> str:
        return "" if self.notice.isHidden() else self.notice.text.text()


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    made = QWidget()
    qtbot.addWidget(made)
    made.show()
    return made


@pytest.fixture
def desk(
    qtbot: QtBot, theme: Theme, operations: Operations, window: QWidget, tmp_path: Path
) -> Iterator[Desk]:
    made = Desk(theme, operations, window, tmp_path)
    made.file.start()
    made.control.open_path(made.path)
    qtbot.waitUntil(lambda: made.document.text == TEXT, timeout=5000)
    yield made
    made.file.stop(5.0)
    made.document.close(5.0)


def saved(desk: Desk) -> bool:
    return desk.file.is_saved


def worth_asking(desk: Desk) -> bool:
    return desk.file.is_worth_asking


def test_saving_keeps_what_others_need(qtbot: QtBot, desk: Desk) -> None:
    assert saved(desk)
    desk.document.set_value(("training", "steps"), 20)
    assert not saved(desk)
    with qtbot.waitSignal(desk.file.saved, timeout=5000):
        desk.control.save()
    assert desk.path.read_text() == TEXT.replace("10", "20")
    assert saved(desk)
    assert desk.document.undo_stack.isClean()
    desk.document.undo_stack.undo()
    assert not saved(desk)


def test_a_change_on_disk_is_offered(qtbot: QtBot, desk: Desk) -> None:
    """Nothing is taken over unasked; Reload can be undone."""
    desk.path.write_text(TEXT.replace("lr = 0.1", "lr = 0.25"))
    qtbot.waitUntil(lambda: "was changed on disk" in desk.said, timeout=5000)
    assert desk.document.text == TEXT
    desk.press("Reload")
    assert "lr = 0.25" in desk.document.text
    assert desk.file.is_saved
    assert desk.said == ""
    desk.document.undo_stack.undo()
    assert desk.document.text == TEXT


def test_changes_of_different_keys_are_merged(qtbot: QtBot, desk: Desk) -> None:
    desk.document.set_value(("training", "steps"), 20)
    desk.path.write_text(TEXT.replace("lr = 0.1", "lr = 0.25"))
    qtbot.waitUntil(lambda: "while it was edited" in desk.said, timeout=5000)
    desk.press("Merge …")
    assert "lr = 0.25" in desk.document.text
    assert "steps = 20" in desk.document.text
    assert "training.lr" in desk.said
    with qtbot.waitSignal(desk.file.saved, timeout=5000):
        desk.control.save()
    assert desk.path.read_text() == desk.document.text


def test_conflicts_are_chosen_side_by_side(qtbot: QtBot, desk: Desk) -> None:
    desk.document.set_values({"training.steps": 20, "training.lr": 0.3})
    desk.path.write_text(TEXT.replace("lr = 0.1", "lr = 0.25").replace("steps = 10", "steps = 30"))
    qtbot.waitUntil(lambda: "while it was edited" in desk.said, timeout=5000)
    desk.press("Merge …")
    dialog = desk.control.dialog
    assert isinstance(dialog, MergeDialog)
    assert dialog.isVisible()
    dialog.choose(1, "theirs")
    dialog.merge_button.click()
    assert desk.document.table["training"] == {"steps": 20, "lr": 0.25}
    assert "as you chose" in desk.said


def test_what_is_not_toml_is_taken_whole(qtbot: QtBot, desk: Desk) -> None:
    desk.document.set_value(("training", "steps"), 20)
    desk.path.write_text("no toml at all")
    qtbot.waitUntil(lambda: "while it was edited" in desk.said, timeout=5000)
    desk.press("Merge …")
    assert "Choose one of them" in desk.said
    desk.press("Keep mine")
    assert "steps = 20" in desk.document.text
    with qtbot.waitSignal(desk.file.saved, timeout=5000):
        desk.control.save()
    assert "steps = 20" in desk.path.read_text()


def test_saving_over_somebodys_change_is_not_done(qtbot: QtBot, desk: Desk) -> None:
    desk.file.stop(5.0)  # the watch has not seen it yet
    desk.document.set_value(("training", "steps"), 20)
    theirs = TEXT.replace("lr = 0.1", "lr = 0.25")
    desk.path.write_text(theirs)
    desk.control.save()
    qtbot.waitUntil(lambda: "is not saved" in desk.said, timeout=5000)
    assert desk.path.read_text() == theirs
    desk.press("Take theirs")
    assert desk.document.text == theirs


def test_a_change_right_after_saving_is_told(
    qtbot: QtBot, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By who formats what is saved, say, before the window knows that it was."""
    theirs, stamps, passed_over = (
        TEXT.replace("lr = 0.1", "lr = 0.25"),
        list[Stamp | None](),
        threading.Event(),
    )

    def write_and_format(path: Path, text: str, newline: str) -> Stamp:
        stamp = write_text(path, text, newline)
        path.write_text(theirs)
        stamps.append(stamp_of(path))
        assert passed_over.wait(10)
        return stamp

    monkeypatch.setattr(run_file, "write_text", write_and_format)
    desk.file._watch.changed.connect(lambda seen: passed_over.set() if seen.stamp in stamps else None)
    desk.document.set_value(("training", "steps"), 20)
    desk.control.save()
    qtbot.waitUntil(passed_over.is_set, timeout=10_000)
    qtbot.waitUntil(lambda: "was changed on disk" in desk.said, timeout=10_000)
    assert desk.path.read_text() == theirs


def test_a_file_that_is_gone_can_be_written_again(qtbot: QtBot, desk: Desk) -> None:
    desk.path.unlink()
    qtbot.waitUntil(lambda: "moved or deleted" in desk.said, timeout=5000)
    desk.press("Save it again")
    qtbot.waitUntil(desk.path.exists, timeout=5000)
    qtbot.waitUntil(lambda: desk.said == "", timeout=5000)
    assert desk.path.read_text() == TEXT


def test_being_touched_is_no_change(qtbot: QtBot, desk: Desk) -> None:
    before = desk.file.base
    desk.path.write_text(TEXT)
    qtbot.waitUntil(lambda: desk.file.base is not before, timeout=5000)
    assert desk.said == ""


def test_errors_are_said_in_place(qtbot: QtBot, desk: Desk, tmp_path: Path) -> None:
    desk.control.open_path(tmp_path / "none.toml")
    qtbot.waitUntil(lambda: "does not exist" in desk.said, timeout=5000)
    assert desk.document.text == TEXT
    desk.file.save_as(tmp_path / "run.toml" / "below.toml")
    qtbot.waitUntil(lambda: "cannot be written" in desk.said, timeout=5000)


def test_unsaved_work_is_asked_about(qtbot: QtBot, desk: Desk, tmp_path: Path) -> None:
    """Cancel keeps it, Save writes it before the other file is opened."""
    other = tmp_path / "other.toml"
    other.write_text("[run]\nmodule = 'm'\n")
    desk.document.set_value(("training", "steps"), 20)
    desk.control.open_path(other)
    box = desk.control.dialog
    assert isinstance(box, QMessageBox)
    assert "run.toml" in box.text()
    next(button for button in box.buttons() if "Cancel" in button.text()).click()
    assert desk.document.path == desk.path
    desk.control.open_path(other)
    box = desk.control.dialog
    assert isinstance(box, QMessageBox)
    next(button for button in box.buttons() if "Save" in button.text()).click()
    qtbot.waitUntil(lambda: desk.document.path == other, timeout=5000)
    assert "steps = 20" in desk.path.read_text()


def test_what_is_typed_while_a_save_is_written_is_asked_about(
    qtbot: QtBot, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, left = threading.Event(), threading.Event()

    def slowly(path: Path, text: str, newline: str) -> Stamp:
        assert written.wait(10)
        return write_text(path, text, newline)

    monkeypatch.setattr(run_file, "write_text", slowly)
    desk.document.set_value(("training", "steps"), 20)
    desk.control.leave(left.set)
    press_in_dialog(desk, "Save")
    desk.document.set_value(("training", "steps"), 30)
    with qtbot.waitSignal(desk.file.saved, timeout=5000):
        written.set()
    assert not left.is_set()
    press_in_dialog(desk, "Save")
    qtbot.waitUntil(left.is_set, timeout=5000)
    assert "steps = 30" in desk.path.read_text()


def press_in_dialog(desk: Desk, text: str) -> None:
    box = desk.control.dialog
    assert isinstance(box, QMessageBox)
    next(button for button in box.buttons() if text in button.text()).click()


def test_a_damaged_file_is_shown_and_not_saved_over(qtbot: QtBot, desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(b"# f\xfc\n")
    desk.control.open_path(path)
    qtbot.waitUntil(lambda: "not UTF-8" in desk.said, timeout=5000)
    desk.control.save()
    qtbot.waitUntil(lambda: "is not saved" in desk.said, timeout=5000)
    assert path.read_bytes() == b"# f\xfc\n"


def test_a_file_that_was_mended_is_editable_again(qtbot: QtBot, desk: Desk, tmp_path: Path) -> None:
    """What must not be saved is the text with the damage, and no other."""
    path = tmp_path / "latin.toml"
    path.write_bytes(b"# f\xfc\n")
    desk.control.open_path(path)
    qtbot.waitUntil(lambda: bool(desk.file.damage), timeout=5000)
    path.write_text("# fü\n")
    qtbot.waitUntil(lambda: "was changed on disk" in desk.said, timeout=5000)
    desk.press("Keep mine")
    assert desk.file.damage, "what is shown is the damaged text still"
    path.write_text("# für\n")
    qtbot.waitUntil(lambda: "was changed on disk" in desk.said, timeout=5000)
    desk.press("Take theirs")
    assert desk.file.damage == ""
    assert desk.document.text == "# für\n"


def test_line_ends_stay_though_the_file_is_gone(qtbot: QtBot, desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "windows.toml"
    path.write_bytes(b"# a\r\n# b\r\n")
    desk.control.open_path(path)
    qtbot.waitUntil(lambda: desk.document.path == path, timeout=5000)
    path.unlink()
    qtbot.waitUntil(lambda: "moved or deleted" in desk.said, timeout=5000)
    desk.press("Keep mine")
    with qtbot.waitSignal(desk.file.saved, timeout=5000):
        desk.control.save()
    assert path.read_bytes() == b"# a\r\n# b\r\n"


def test_of_two_files_the_one_asked_for_last_is_opened(
    qtbot: QtBot, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the first is read more slowly."""
    slow, fast = tmp_path / "slow.toml", tmp_path / "fast.toml"
    read = threading.Event()

    def begin_with(path: Path) -> Beginning:
        if path == slow:
            assert read.wait(10)
        return Beginning(f"# {path.name}\n", path)

    monkeypatch.setattr(document_file, "begin_with", begin_with)
    desk.file.open(slow)
    desk.file.open(fast)
    qtbot.waitUntil(lambda: desk.document.path == fast, timeout=5000)
    with qtbot.waitSignal(desk.operations.ended, timeout=5000):
        read.set()
    assert desk.document.path == fast


def test_a_late_save_does_not_name_another_document(
    qtbot: QtBot, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drive was slow, and another file was opened meanwhile."""
    other = tmp_path / "other.toml"
    other.write_text("# other\n")
    written = threading.Event()

    def slowly(path: Path, text: str, newline: str) -> Stamp:
        assert written.wait(10)
        return write_text(path, text, newline)

    monkeypatch.setattr(run_file, "write_text", slowly)
    desk.document.set_value(("training", "steps"), 20)
    desk.file.save()
    desk.file.open(other)
    qtbot.waitUntil(lambda: desk.document.path == other, timeout=5000)
    with qtbot.waitSignal(desk.operations.ended, timeout=5000):
        written.set()
    assert desk.document.path == other
    assert saved(desk)


def test_a_preset_of_several_files_asks_for_a_folder(qtbot: QtBot, desk: Desk, tmp_path: Path) -> None:
    desk.control.new_from_preset("own-recipe")
    qtbot.waitUntil(lambda: isinstance(desk.control.dialog, FolderDialog), timeout=5000)
    dialog = desk.control.dialog
    assert isinstance(dialog, FolderDialog)
    dialog.field.setText(str(tmp_path / "own"))
    dialog.write_button.click()
    qtbot.waitUntil(lambda: desk.document.path == tmp_path / "own" / "run.toml", timeout=5000)
    assert (tmp_path / "own" / "my_recipe.py").is_file()
    assert desk.file.is_saved


def test_a_preset_is_an_unsaved_copy(qtbot: QtBot, desk: Desk, tmp_path: Path) -> None:
    desk.control.new_from_preset("finetune")
    qtbot.waitUntil(lambda: desk.document.path is None, timeout=5000)
    assert desk.file.name == "finetune"
    assert not saved(desk)
    assert not worth_asking(desk)
    assert not (tmp_path / "drafts").exists(), "made when it is launched"
    assert "batch plan" in desk.said
    desk.document.set_value(("training", "lr"), 0.5)
    assert worth_asking(desk)
