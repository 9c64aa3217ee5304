"""Making places: after what they need has been imported, and when one cannot be made."""

import sys
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from support.gui.window_places import FakePage
from torchdeck_app.theme.theme import Theme
from torchdeck_app.widgets.page import Page
from torchdeck_app.window.importing import Importer
from torchdeck_app.window.page_stack import PageEntry, PageStack


@pytest.fixture
def importer(theme: Theme) -> Importer:
    return Importer(theme)


def stack_of(theme: Theme, importer: Importer, qtbot: QtBot, *entries: PageEntry) -> PageStack:
    made = PageStack(theme, entries, importer)
    qtbot.addWidget(made)
    made.show_page(entries[0].name)
    made.show()
    return made


def test_nothing_is_imported_before_the_stack_begins(
    theme: Theme, importer: Importer, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needed_by_a_place.py").write_text(
        "from threading import current_thread\nwho = current_thread().name\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entry = PageEntry("Runs", "runs", ("needed_by_a_place",), lambda: FakePage("Runs"))
    stack = stack_of(theme, importer, qtbot, entry)
    assert "needed_by_a_place" not in sys.modules
    with qtbot.waitSignal(stack.all_made):
        stack.begin()
    assert sys.modules.pop("needed_by_a_place").who == "MainThread"
    assert stack.places["Runs"].isVisible()


def test_one_that_is_slow_to_open_says_so(theme: Theme, importer: Importer, qtbot: QtBot) -> None:
    stack = stack_of(theme, importer, qtbot, PageEntry("Runs", "runs", (), lambda: FakePage("Runs")))
    qtbot.waitUntil(lambda: any(label.text() == "Opening …" for label in stack.findChildren(QLabel)))
    with qtbot.waitSignal(stack.all_made):
        stack.begin()
    assert stack.places["Runs"].isVisible()


def test_one_that_cannot_be_made_leaves_the_others(
    theme: Theme, importer: Importer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[BaseException] = []
    monkeypatch.setattr(sys, "excepthook", lambda _kind, error, _where: told.append(error))

    def broken() -> Page:
        raise ValueError("no such thing")

    stack = stack_of(
        theme,
        importer,
        qtbot,
        PageEntry("Launch", "launch", (), broken),
        PageEntry("Runs", "runs", ("no_such_module_anywhere",), lambda: FakePage("Runs")),
        PageEntry("Nodes", "nodes", (), lambda: FakePage("Nodes")),
    )
    with qtbot.waitSignal(stack.all_made):
        stack.begin()
    said = [label.text() for label in stack.findChildren(QLabel)]
    assert "Launch cannot be opened" in said
    assert any("no such thing" in text for text in said)
    assert [type(error) for error in told] == [ValueError, ModuleNotFoundError]
    stack.show_page("Nodes")
    assert stack.places["Nodes"].isVisible()


def test_what_is_wanted_of_a_place_is_done_once_it_is_made(
    theme: Theme, importer: Importer, qtbot: QtBot
) -> None:
    stack = stack_of(theme, importer, qtbot, PageEntry("Runs", "runs", (), lambda: FakePage("Runs")))
    done: list[str] = []
    stack.when_made("Runs", lambda _place: done.append("first"))
    assert done == []
    with qtbot.waitSignal(stack.all_made):
        stack.begin()
    stack.when_made("Runs", lambda _place: done.append("second"))
    assert done == ["first", "second"]
