"""Several documents of Launch as tabs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from support.gui.launch_place import SCRIPT, write_script
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.launch.document_tabs import MOST, DocumentTabs
from torchdeck_app.launch.files import document_file
from torchdeck_app.launch.files.document_sources import Beginning
from torchdeck_app.theme.theme import Theme

Make = Callable[[], DocumentTabs]


@pytest.fixture
def make_tabs(
    qtbot: QtBot, theme: Theme, operations: Operations, home: Path, tmp_path: Path
) -> Iterator[Make]:
    made: list[DocumentTabs] = []

    def make() -> DocumentTabs:
        tabs = DocumentTabs(theme, operations, home, drafts=tmp_path / "drafts")
        tabs.resize(1280, 720)
        tabs.show()
        qtbot.waitExposed(tabs)
        tabs.activateWindow()
        tabs.entered()
        made.append(tabs)
        return tabs

    yield make
    for tabs in made:
        tabs.closing()
        for page in tabs.pages:
            page.document.close(5.0)
        tabs.close()
        tabs.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def two_files(folder: Path) -> tuple[Path, Path]:
    first = write_script(folder)
    second = folder / "other.toml"
    second.write_text(SCRIPT.replace("nproc = 1", "nproc = 2"))
    return first, second


def open_in(qtbot: QtBot, tabs: DocumentTabs, path: Path) -> None:
    tabs.open_path(path)
    qtbot.waitUntil(lambda: tabs.current.document.path == path and tabs.current.has_document, timeout=30_000)


def names(tabs: DocumentTabs) -> list[str]:
    return [tabs.bar.tabText(index) for index in range(tabs.bar.count())]


def button(box: object, text: str) -> QPushButton:
    assert isinstance(box, QMessageBox)
    return next(each for each in box.findChildren(QPushButton) if text in each.text().replace("&", ""))


def test_files_open_side_by_side_and_keep_their_edits(qtbot: QtBot, make_tabs: Make, tmp_path: Path) -> None:
    """A second file opens in a tab of its own; opened again, it is shown. Each has its own undo history."""
    tabs = make_tabs()
    first, second = two_files(tmp_path)
    assert not tabs.bar.isVisible()
    open_in(qtbot, tabs, first)
    assert not tabs.bar.isVisible()
    tabs.current.document.set_value(("distributed", "nproc"), 7)
    open_in(qtbot, tabs, second)
    assert tabs.bar.isVisible()
    assert names(tabs) == ["• run.toml", "other.toml"]
    assert tabs.windowTitle() == "other.toml"
    assert not tabs.current.document.undo_stack.canUndo()
    open_in(qtbot, tabs, first)
    assert names(tabs) == ["• run.toml", "other.toml"]
    assert tabs.current.document.table["distributed"]["nproc"] == 7
    open_in(qtbot, tabs, first)
    assert names(tabs) == ["• run.toml", "other.toml"], "it is the current one"
    QTest.keyClick(tabs, Qt.Key.Key_Tab, Qt.KeyboardModifier.ControlModifier)
    assert tabs.windowTitle() == "other.toml"
    QTest.keyClick(tabs, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    assert names(tabs)[2:] == ["New run"]
    assert tabs.current.start_page.isVisible()
    QTest.keyClick(tabs, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    assert tabs.bar.count() == 3, "one start page is enough"
    modifiers = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    for key, order in (
        (Qt.Key.Key_PageUp, ["New run", "other.toml"]),
        (Qt.Key.Key_PageDown, ["other.toml", "New run"]),
    ):
        QTest.keyClick(tabs, key, modifiers)
        assert names(tabs)[1:] == order


def test_a_tab_with_changes_asks_before_it_closes(qtbot: QtBot, make_tabs: Make, tmp_path: Path) -> None:
    """By its button or a middle click; the last one leaves a start page."""
    tabs = make_tabs()
    first, second = two_files(tmp_path)
    open_in(qtbot, tabs, first)
    open_in(qtbot, tabs, second)
    tabs.current.document.set_value(("distributed", "nproc"), 7)
    QTest.mouseClick(tabs.bar, Qt.MouseButton.MiddleButton, pos=tabs.bar.tabRect(1).center())
    button(tabs.current.files.dialog, "Cancel").click()
    assert tabs.bar.count() == 2
    tabs.close_tab(1)
    button(tabs.current.files.dialog, "Discard").click()
    assert names(tabs) == ["run.toml"]
    assert second.read_text() == SCRIPT.replace("nproc = 1", "nproc = 2")
    QTest.keyClick(tabs, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    assert names(tabs) == ["New run"]
    assert tabs.current.start_page.isVisible()


def test_a_value_being_typed_is_asked_about_before_a_tab_closes(
    qtbot: QtBot, make_tabs: Make, tmp_path: Path
) -> None:
    tabs = make_tabs()
    open_in(qtbot, tabs, write_script(tmp_path))
    page = tabs.current
    qtbot.waitUntil(lambda: "distributed" in page.form.groups, timeout=30_000)
    page.form.reveal("distributed.nproc")
    field = QApplication.focusWidget()
    assert isinstance(field, QLineEdit)
    field.selectAll()
    QTest.keyClicks(field, "4")
    QTest.keyClick(tabs, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    button(page.files.dialog, "Cancel").click()
    assert tabs.current is page
    assert page.document.table["distributed"]["nproc"] == 4


def test_tabs_are_there_again_after_a_restart(qtbot: QtBot, make_tabs: Make, tmp_path: Path) -> None:
    """With unsaved edits; a page is made when its tab is shown. The recent files are those of all tabs."""
    tabs = make_tabs()
    first, second = two_files(tmp_path)
    open_in(qtbot, tabs, first)
    tabs.current.document.set_value(("distributed", "nproc"), 7)
    open_in(qtbot, tabs, second)
    state = json.loads(json.dumps(tabs.save_state()))
    again = make_tabs()
    again.restore_state(state)
    qtbot.waitUntil(lambda: again.current.document.path == second, timeout=30_000)
    assert names(again) == ["• run.toml", "other.toml"]
    assert len(again.pages) == 1
    again.step(-1)
    assert again.current.document.table["distributed"]["nproc"] == 7
    assert again.current.file.recent.paths == (second, first)


def test_no_unsaved_text_is_lost_by_a_restart_however_many_tabs_there_are(make_tabs: Make) -> None:
    tabs = make_tabs()
    saved = [{"document": {"path": f"/nowhere/{number}.toml", "name": "run.toml"}} for number in range(MOST)]
    unsaved = [{"document": {"text": f"# {number}", "begun": "", "name": "mine"}} for number in range(3)]
    tabs.restore_state({"documents": [*saved, *saved[:3], *unsaved], "shown": MOST + 4})
    assert tabs.bar.count() == MOST + 3
    assert tabs.current.document.text == "# 1"
    texts = [each["document"].get("text") for each in tabs.save_state()["documents"]]
    assert texts == [None] * MOST + ["# 0", "# 1", "# 2"]


def test_a_file_that_cannot_be_read_keeps_its_tab(qtbot: QtBot, make_tabs: Make, tmp_path: Path) -> None:
    """Over any number of restarts; another file is opened next to it, and it is read once it is back."""
    path, other = tmp_path / "gone.toml", write_script(tmp_path)
    kept = {"path": str(path), "name": path.name}
    tabs = make_tabs()
    tabs.restore_state({"documents": [{"document": kept}], "shown": 0})
    assert tabs.save_state()["documents"][0]["document"] == kept, "it is being read"
    qtbot.waitUntil(lambda: not tabs.current.notice.isHidden(), timeout=30_000)
    state = tabs.save_state()
    assert (state["documents"][0]["document"], state["shown"], names(tabs)) == (kept, 0, ["gone.toml"])
    open_in(qtbot, tabs, other)
    assert names(tabs) == ["gone.toml", "run.toml"]
    path.write_text(SCRIPT)
    tabs.step(-1)
    open_in(qtbot, tabs, path)
    assert names(tabs) == ["gone.toml", "run.toml"]


def test_a_tab_can_be_closed_while_its_file_is_read(
    qtbot: QtBot, make_tabs: Make, operations: Operations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_closed = threading.Event()

    def begin_with(path: Path) -> Beginning:
        assert is_closed.wait(10)
        return Beginning(SCRIPT, path)

    monkeypatch.setattr(document_file, "begin_with", begin_with)
    tabs = make_tabs()
    tabs.open_path(tmp_path / "run.toml")
    tabs.close_tab(0)
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    is_closed.set()
    qtbot.waitUntil(lambda: not operations.running, timeout=30_000)
    assert names(tabs) == ["New run"]


def test_a_tab_that_was_not_shown_closes_without_a_page(make_tabs: Make) -> None:
    tabs = make_tabs()
    files = [{"document": {"path": f"/nowhere/{name}", "name": name}} for name in "abc"]
    tabs.restore_state({"documents": files, "shown": 1})
    tabs.close_tab(0)
    tabs.close_tab(1)
    assert names(tabs) == ["b"]
    assert len(tabs.pages) == 1


def test_a_state_without_tabs_and_a_wrong_one(qtbot: QtBot, make_tabs: Make, tmp_path: Path) -> None:
    first, _ = two_files(tmp_path)
    tabs = make_tabs()
    for wrong in (
        {},
        {"documents": 3},
        {"documents": [{}, 4, {"document": 5}], "shown": "x"},
        {"document": 1},
    ):
        tabs.restore_state(wrong)
        assert names(tabs) == ["New run"]
    tabs.restore_state({"document": {"path": str(first), "name": "run.toml"}})
    qtbot.waitUntil(lambda: tabs.current.document.path == first, timeout=30_000)
