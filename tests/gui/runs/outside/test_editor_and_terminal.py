"""Lines of code, opened in the user's editor from the failure card and the logs."""

import json
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QObject, Qt, QUrl, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from gui.runs.conftest import Opened, click, page_of
from support.values.histories import agent_started, ended, failure, finished, started
from support.values.run_homes import add_run, run_id
from torchdeck.contract.layout import RunLayout
from torchdeck.use_cases.opening.editor_choice import Editor, EditorKind
from torchdeck.use_cases.opening.programs import Programs
from torchdeck_app.bridge.operations import Operations
from torchdeck_app.nodes.nodes_page import NodesPage
from torchdeck_app.runs.abilities import RunCommand
from torchdeck_app.runs.page.run_page import RunPage
from torchdeck_app.theme.theme import Theme


class Handler(QObject):
    """Stands in for the desktop's program for URLs of VS Code."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    @Slot(QUrl)
    def take(self, url: QUrl) -> None:
        self.urls.append(url.toString(QUrl.ComponentFormattingOption.FullyEncoded))


@pytest.fixture
def handler(qtbot: QtBot) -> Any:
    made = Handler()
    QDesktopServices.setUrlHandler("vscode", made, "take")  # type: ignore[arg-type]
    yield made
    QDesktopServices.unsetUrlHandler("vscode")


@pytest.fixture
def train(tmp_path: Path) -> Path:
    file = tmp_path / "code" / "train.py"
    file.parent.mkdir()
    file.write_text("x\n")
    return file


def failed_run(home: Path, train: Path) -> RunLayout:
    traceback = f'  File "{train}", line 7, in main\n  File "{train}", line 3, in step\nKeyError: 1'
    first = failure(message="KeyError: 1", traceback=traceback)
    node = [
        agent_started(),
        started(world_size=2),
        ended(outcome="failed", first=first),
        finished("FAILED", why="rank 1 failed"),
    ]
    layout = add_run(home, 1, node, code_folder=str(train.parent))
    stderr = layout.attempt(1).rank(0).stderr
    stderr.parent.mkdir(parents=True)
    stderr.write_text(f"hello\n{train}:5: UserWarning: x\nbye\n")
    return layout


def shown(qtbot: QtBot, opened: Opened, tmp_path: Path, train: Path) -> RunPage:
    failed_run(tmp_path / "home", train)
    place = opened(tmp_path / "home")
    place.use_editor(lambda: Editor(EditorKind.VSCODE))
    page = page_of(qtbot, place, 1)
    qtbot.waitUntil(page.card.isVisible)
    return page


def test_card_and_traceback_open_the_editor(
    qtbot: QtBot, opened: Opened, tmp_path: Path, train: Path, handler: Handler
) -> None:
    page = shown(qtbot, opened, tmp_path, train)
    click(page.card.buttons["source"])
    qtbot.waitUntil(lambda: handler.urls == [f"vscode://file{train}:3:1"])
    text = page.card.traceback
    text.verticalScrollBar().setValue(0)
    at = text.cursorRect(text.cursorForPosition(text.rect().topLeft())).center()
    QTest.mouseDClick(text.viewport(), Qt.MouseButton.LeftButton, pos=at)
    qtbot.waitUntil(lambda: handler.urls[1:] == [f"vscode://file{train}:7:1"])


def test_a_line_of_the_log_opens_the_editor(
    qtbot: QtBot, opened: Opened, tmp_path: Path, train: Path, handler: Handler
) -> None:
    page = shown(qtbot, opened, tmp_path, train)
    assert run_id(1) == page.run_layout.root.name
    page.tabs.setCurrentWidget(page.logs)
    area = page.logs.area
    qtbot.waitUntil(lambda: area.accessibleDescription() == "3 lines")
    area.go_to(1)
    assert area.menu().actions()[0].text() == "&Open train.py:5 in the editor"
    QTest.keyClick(area, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: handler.urls == [f"vscode://file{train}:5:1"])
    area.go_to(0)
    assert not area.menu().actions()[0].isEnabled()
    train.unlink()
    area.go_to(1)
    QTest.keyClick(area, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "is not a file on this machine" in page.problem.text())


def noted_terminal(folder: Path) -> tuple[Programs, Path]:
    """Programs of which the terminal notes its last words, and the file of the notes."""
    notes, program = folder / "notes", folder / "terminal"
    program.write_text(f'#!/bin/sh\nfor word; do :; done\necho "$word" >>{notes}\n')
    program.chmod(0o755)
    return Programs({"TERMINAL": str(program)}, lambda name: f"/usr/bin/{name}"), notes


@pytest.mark.processes
def test_a_terminal_is_opened_on_the_node_of_the_run(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    home = tmp_path / "home"
    layout = add_run(home, 1)
    place = opened(home)
    page_of(qtbot, place, 1)
    place.commands.outside.programs, notes = noted_terminal(tmp_path)
    node = {"name": "localhost", "command": ["/venv/bin/python"]}
    layout.plan.write_text(json.dumps({"nodes": [node]}))
    place.actions_of_runs[RunCommand.TERMINAL].trigger()
    qtbot.waitUntil(lambda: notes.exists() and notes.read_text() == "/venv/bin\n", timeout=20_000)
    menu = place.commands.outside.node_menu(layout, ("localhost", "gpu&1"), place)
    assert [action.text() for action in menu.actions()] == ["localhost", "gpu&&1"]
    menu.actions()[0].trigger()
    qtbot.waitUntil(lambda: notes.read_text() == "/venv/bin\n" * 2, timeout=20_000)
    menu.close()


def test_without_a_terminal_the_page_says_so(qtbot: QtBot, opened: Opened, tmp_path: Path) -> None:
    add_run(tmp_path, 1)
    place = opened(tmp_path)
    page = page_of(qtbot, place, 1)
    place.commands.outside.programs = Programs({}, lambda _name: None)
    place.actions_of_runs[RunCommand.TERMINAL].trigger()
    qtbot.waitUntil(lambda: "no terminal program was found" in page.problem.text())


@pytest.mark.processes
def test_a_terminal_is_opened_on_a_node(
    qtbot: QtBot, theme: Theme, operations: Operations, tmp_path: Path
) -> None:
    (tmp_path / "nodes.toml").write_text('version = 1\n[nodes.gpu1]\naddress = "gpu1.invalid"\n')
    page = NodesPage(theme, operations, tmp_path)
    qtbot.addWidget(page)
    page.terminals.programs, notes = noted_terminal(tmp_path)
    page.terminals.open("gpu1")
    qtbot.waitUntil(lambda: notes.exists() and "base64 -d" in notes.read_text(), timeout=20_000)
    page.terminals.open("gone")
    qtbot.waitUntil(lambda: "No terminal was opened" in page.bar.text.text())
    page.closing()
